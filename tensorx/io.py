"""Files of tensors: safetensors, NumPy's npy and npz, and nested state with :func:`save` and :func:`load`.

No format executes code when it is read. A file is checked before anything is allocated for it, and written
beside its place, synchronised, and renamed: whatever happens, the old file or the new one is there, whole.
"""

from __future__ import annotations

import json
import math
import os
import struct
import tempfile
import zipfile

from tensorx import _core, dtypes
from tensorx._core import Tensor
from tensorx.device import default_device
from tensorx.device import device as _device
from tensorx.errors import DTypeError, TensorxError

__all__ = ["FileError", "load", "load_npy", "load_npz", "load_safetensors", "read_metadata", "save", "save_npy", "save_npz", "save_safetensors"]

_HEADER_LIMIT = 100_000_000


class FileError(TensorxError, ValueError):
    """A file is damaged, truncated, or not of the expected format."""


# ---- writing -----------------------------------------------------------------------------------


def _path(op, path):
    """The name of a file, or an error that says that files are needed."""
    if isinstance(path, (str, bytes, os.PathLike)):
        return os.fspath(path)
    order = ": the values come first, the path second" if op == "save" and isinstance(path, (dict, list, Tensor)) else ""
    raise TypeError(f"{op}: a path is needed (str or os.PathLike), got {type(path).__name__}{order}")


class _Replacing:
    """A file that takes the place of path when everything has been written."""

    def __init__(self, path):
        self.path = os.fspath(path)

    def __enter__(self):
        folder = os.path.dirname(os.path.abspath(self.path))
        number, self.name = tempfile.mkstemp(prefix=os.path.basename(self.path) + ".", suffix=".part", dir=folder)
        os.close(number)
        self.file = open(self.name, "r+b")
        return self.file

    def __exit__(self, kind, error, trace):
        try:
            if kind is None:
                self.file.flush()
                os.fsync(self.file.fileno())
                self.file.close()
                mask = os.umask(0)
                os.umask(mask)
                os.chmod(self.name, 0o666 & ~mask)
                os.replace(self.name, self.path)
                _sync_folder(os.path.dirname(os.path.abspath(self.path)))
                return
        except BaseException:
            self._clean()
            raise
        self._clean()

    def _clean(self):
        self.file.close()
        if os.path.exists(self.name):
            os.unlink(self.name)


def _sync_folder(folder):
    if not hasattr(os, "O_DIRECTORY"):
        return
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _host(op, name, t):
    """A dense tensor on the CPU without history."""
    if not isinstance(t, Tensor):
        raise DTypeError(f"{op}: {name!r} must be a tensor, got {type(t).__name__}")
    t = t.detach()
    return (t if t.device.type == "cpu" else t.to("cpu")).contiguous()


def _bytes(t):
    return memoryview(_core.raw_bytes(t)) if t.size else memoryview(b"")


# ---- safetensors ----------------------------------------------------------------------------------

_CODES = {
    "bool": "BOOL", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64", "uint8": "U8", "uint16": "U16", "uint32": "U32",
    "uint64": "U64", "float16": "F16", "bfloat16": "BF16", "float32": "F32", "float64": "F64", "complex64": "C64",
}  # fmt: skip
_DTYPES = {code: getattr(dtypes, name) for name, code in _CODES.items()}


def _package():
    try:
        import safetensors
    except ImportError:
        raise ImportError(
            "the safetensors package is not installed; install it with the extra: pip install 'tensorx-runtime[io]'"
        ) from None
    return safetensors


def save_safetensors(tensors, path, metadata=None):
    """Writes a dictionary of tensors to a safetensors file; metadata is a dictionary of strings.

    >>> import os, tempfile
    >>> import tensorx as tx
    >>> path = os.path.join(tempfile.mkdtemp(), "x.safetensors")
    >>> tx.io.save_safetensors({"w": tx.ones(2)}, path)
    >>> tx.io.load_safetensors(path)["w"].tolist()
    [1.0, 1.0]
    """
    package = _package()
    dense = {}
    for name, t in tensors.items():
        if not isinstance(name, str):
            raise TypeError(f"save_safetensors: names are strings, got {name!r}")
        host = _host("save_safetensors", name, t)
        if host.dtype.name not in _CODES:
            raise DTypeError(f"save_safetensors: {name!r} is {host.dtype.name}, which the format does not have")
        dense[name] = host
    with _Replacing(path) as f:
        _serialize(package, dense, f.name, metadata)


def _serialize(package, dense, path, metadata):
    """Through the package, whose interface changed with version 0.8: addresses instead of bytes."""
    if hasattr(package, "TensorSpec"):
        table = {name: package.TensorSpec(dtype=t.dtype.name, shape=list(t.shape), data_ptr=_core.address(t) if t.size else 0, data_len=t.nbytes)
                 for name, t in dense.items()}  # fmt: skip
    else:
        table = {name: {"dtype": t.dtype.name, "shape": list(t.shape), "data": bytes(_bytes(t))} for name, t in dense.items()}
    package.serialize_file(table, path, metadata=metadata)


def _header(f, path):
    """(entries, metadata, start of the data, size of the data), everything checked."""
    size = os.fstat(f.fileno()).st_size
    first = f.read(8)
    if len(first) < 8:
        raise FileError(f"{path}: {size} bytes are too few for a safetensors file")
    (length,) = struct.unpack("<Q", first)
    if length > _HEADER_LIMIT or length > size - 8:
        raise FileError(f"{path}: the header claims {length:,} bytes, the file has {size - 8:,} after its first 8: truncated, or no safetensors file")
    try:
        table = json.loads(f.read(length), object_pairs_hook=_unique)
    except FileError as error:
        raise FileError(f"{path}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path}: the header is not valid JSON ({error})") from None
    if not isinstance(table, dict):
        raise FileError(f"{path}: the header is no table of tensors")
    metadata = table.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise FileError(f"{path}: the metadata must be strings by name")
    room = size - 8 - length
    entries = []
    for name, entry in table.items():
        entries.append((name, *_entry(path, name, entry, room)))
    end = 0
    for name, _, _, a, b in sorted(entries, key=lambda e: (e[3], e[4])):
        if a < end:
            raise FileError(f"{path}: tensor {name!r} overlaps another one (it starts at byte {a}, the other ends at {end})")
        if a > end:
            raise FileError(f"{path}: {a - end} bytes before tensor {name!r} belong to no tensor")
        end = b
    if end != room:
        raise FileError(f"{path}: the tensors end at byte {end} of the data, the file has {room}: truncated, or damaged")
    return entries, metadata, 8 + length


def _unique(pairs):
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [k for k, _ in pairs]
        raise FileError(f"the header has a name twice: {next(n for n in names if names.count(n) > 1)!r}")
    return found


def _entry(path, name, entry, room):
    where = f"{path}: tensor {name!r}"
    if not isinstance(entry, dict) or not {"dtype", "shape", "data_offsets"} <= set(entry):
        raise FileError(f"{where}: dtype, shape and data_offsets are needed")
    dtype = _DTYPES.get(entry["dtype"]) if isinstance(entry["dtype"], str) else None
    if dtype is None:
        raise FileError(f"{where}: dtype {entry['dtype']!r} is unknown; known are {', '.join(_DTYPES)}")
    shape, offsets = entry["shape"], entry["data_offsets"]
    for what, numbers in (("shape", shape), ("data_offsets", offsets)):
        if not isinstance(numbers, list) or not all(type(n) is int and n >= 0 for n in numbers):
            raise FileError(f"{where}: {what} {numbers!r} must be non-negative integers")
    if len(shape) > 64:
        raise FileError(f"{where}: {len(shape)} axes are more than 64")
    if len(offsets) != 2 or offsets[0] > offsets[1] or offsets[1] > room:
        raise FileError(f"{where}: data_offsets {offsets} are not within the {room} bytes of data")
    nbytes = math.prod(shape) * dtype.itemsize
    if nbytes != offsets[1] - offsets[0]:
        raise FileError(f"{where}: shape {shape} of {dtype.name} needs {nbytes} bytes, data_offsets {offsets} give {offsets[1] - offsets[0]}")
    return dtype, tuple(shape), offsets[0], offsets[1]


def load_safetensors(path, device=None):
    """The tensors of a safetensors file, as a dictionary in the order of its header, on a device.

    FileError where the file is truncated or its header does not fit its data: overlapping, missing or out-of-range bytes,
    unknown dtypes, sizes that do not agree with shapes. Nothing is allocated for tensors before all is checked.
    """
    package = _package()
    place = default_device() if device is None else _device(device)
    with open(path, "rb") as f:
        entries, _, start = _header(f, os.fspath(path))
        try:
            with package.safe_open(path, framework="numpy"):
                pass
        except package.SafetensorError as error:
            raise FileError(f"{os.fspath(path)}: {error}") from None
        found = {}
        for name, dtype, shape, a, b in entries:
            found[name] = _read(f, path, name, dtype, shape, start + a, b - a, place)
    return found


def _read(f, path, name, dtype, shape, at, nbytes, place):
    t = _core.empty(shape, dtype)
    if nbytes:
        f.seek(at)
        view = memoryview(_core.raw_bytes(t))
        got = f.readinto(view)
        del view
        if got != nbytes:
            raise FileError(f"{path}: tensor {name!r} ends after {got} of {nbytes} bytes: the file was truncated while it was read")
    _core.reset_version(t)
    return t if place.type == "cpu" else t.to(place)


def read_metadata(path):
    """The metadata of a safetensors file: a dictionary of strings."""
    with open(path, "rb") as f:
        return _header(f, os.fspath(path))[1]


# ---- npy and npz --------------------------------------------------------------------------------------


def _array(op, name, t):
    import numpy as np

    t = _host(op, name, t)
    if t.dtype is dtypes.bfloat16:
        raise DTypeError(f"{op}: {name!r} is bfloat16, which NumPy does not have; convert it with astype(tx.float32)")
    return np.asarray(memoryview(t))


def save_npy(path, x):
    """Writes one tensor in NumPy's npy format."""
    import numpy as np

    array = _array("save_npy", "x", x)
    with _Replacing(path) as f:
        np.lib.format.write_array(f, array, allow_pickle=False)


def save_npz(path, tensors, compressed=False):
    """Writes a dictionary of tensors in NumPy's npz format."""
    import numpy as np

    arrays = {name: _array("save_npz", name, t) for name, t in tensors.items()}
    with _Replacing(path) as f:
        (np.savez_compressed if compressed else np.savez)(f, **arrays)


def _from_numpy(path, what, read, device):
    import numpy as np

    from tensorx.ops.creation import asarray

    try:
        array = read(np)
    except (ValueError, EOFError, OSError, SyntaxError, struct.error, zipfile.BadZipFile, UnicodeDecodeError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        raise FileError(f"{os.fspath(path)}: {what}: {error}") from None
    if array.dtype.kind not in "biufc":
        raise FileError(f"{os.fspath(path)}: {what}: dtype {array.dtype} has no counterpart here")
    return asarray(array, copy=True, device=device)


def _npy(np, f, size):
    """One array; a header that claims more than the file holds is refused before anything is allocated."""
    version = np.lib.format.read_magic(f)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(f)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are not loaded")
    need = math.prod(shape) * dtype.itemsize
    if need > size:
        raise ValueError(f"shape {shape} of {dtype} needs {need:,} bytes, the file has {size:,}")
    data = f.read(need)
    if len(data) != need:
        raise ValueError(f"shape {shape} of {dtype} needs {need:,} bytes, there are {len(data):,}")
    return np.frombuffer(data, dtype=dtype).reshape(shape, order="F" if fortran else "C")


def load_npy(path, device=None):
    """The tensor of an npy file; FileError where it is damaged or holds Python objects."""
    with open(path, "rb") as f:
        size = os.fstat(f.fileno()).st_size
        return _from_numpy(path, "no whole npy file", lambda np: _npy(np, f, size), device)


def load_npz(path, device=None):
    """The tensors of an npz file by name; FileError where it is damaged or holds Python objects."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.infolist()
            found = {}
            for info in names:
                if not info.filename.endswith(".npy"):
                    raise FileError(f"{os.fspath(path)}: {info.filename!r} is no array")

                def read(np, info=info):
                    with archive.open(info) as f:
                        return _npy(np, f, info.file_size)

                found[info.filename[:-4]] = _from_numpy(path, f"array {info.filename[:-4]!r}", read, device)
            return found
    except zipfile.BadZipFile as error:
        raise FileError(f"{os.fspath(path)}: no npz file: {error}") from None


# ---- nested state ---------------------------------------------------------------------------------------

_MAGIC = b"tensorx state 1\n"


def _encode(value, tensors, depth=0):
    """A JSON form of nested state; tensors are collected."""
    if depth > 200:
        raise ValueError("save: the state is nested more than 200 deep (or contains itself)")
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if -(2**53) < value < 2**53 else {"!": "int", "v": str(int(value))}
    if isinstance(value, float):
        return {"!": "float", "v": float(value).hex()}
    if isinstance(value, complex):
        return {"!": "complex", "v": [value.real.hex(), value.imag.hex()]}
    if isinstance(value, bytes):
        return {"!": "bytes", "v": value.hex()}
    if isinstance(value, Tensor):
        for k, t in enumerate(tensors):
            if t is value:
                return {"!": "tensor", "v": k}
        tensors.append(value)
        return {"!": "tensor", "v": len(tensors) - 1}
    if isinstance(value, dtypes.DType):
        return {"!": "dtype", "v": value.name}
    if isinstance(value, dict):
        return {"!": "dict", "v": [[_encode(k, tensors, depth + 1), _encode(v, tensors, depth + 1)] for k, v in value.items()]}
    if isinstance(value, (list, tuple, set, frozenset)):
        kind = "list" if isinstance(value, list) else "tuple" if isinstance(value, tuple) else "set"
        return {"!": kind, "v": [_encode(v, tensors, depth + 1) for v in value]}
    if hasattr(value, "__array__") and hasattr(value, "dtype"):
        if getattr(value, "shape", None) == ():
            return _encode(value.item(), tensors, depth)
        from tensorx.ops.creation import asarray

        return _encode(asarray(value), tensors, depth)
    raise TypeError(f"save: cannot store a {type(value).__module__}.{type(value).__qualname__}; tensors, numbers, strings, lists, tuples, sets and dictionaries can")


def save(state, path):
    """Writes nested dictionaries, lists, tuples and sets of tensors, numbers, strings and None, such as state_dicts, to a file.

    The file is written beside path, synchronised and renamed: a crash leaves the old file or the new one.

    >>> import os, tempfile
    >>> import tensorx as tx
    >>> path = os.path.join(tempfile.mkdtemp(), "state.tx")
    >>> tx.save({"model": tx.nn.Linear(2, 1).state_dict(), "step": 3}, path)
    >>> sorted(tx.load(path)["model"]), tx.load(path)["step"]
    (['bias', 'weight'], 3)
    """
    tensors: list = []
    tree = _encode(state, tensors)
    table, at, hosts = [], 0, []
    for k, t in enumerate(tensors):
        host = _host("save", f"tensor {k}", t)
        hosts.append(host)
        table.append({"dtype": host.dtype.name, "shape": list(host.shape), "at": at, "bytes": host.nbytes, "requires_grad": bool(t.requires_grad and t.is_leaf)})
        at += (host.nbytes + 63) // 64 * 64
    header = json.dumps({"tree": tree, "tensors": table, "bytes": at}).encode()
    start = (len(_MAGIC) + 8 + len(header) + 63) // 64 * 64
    with _Replacing(_path("save", path)) as f:
        f.write(_MAGIC + struct.pack("<Q", len(header)) + header)
        f.write(b"\0" * (start - f.tell()))
        for host in hosts:
            f.write(_bytes(host))
            f.write(b"\0" * (-host.nbytes % 64))


def _other_kind(path, head):
    """What else a file may be, and what reads it."""
    if head.startswith(b"PK\x03\x04"):
        try:
            with zipfile.ZipFile(path) as archive:
                names = archive.namelist()
        except zipfile.BadZipFile:
            return ""
        if any(n.endswith("/data.pkl") or n == "data.pkl" for n in names):
            return "; it is one of torch.save: write the weights with safetensors in PyTorch and read them with tx.io.load_safetensors"
        return "; it is an npz file: tx.io.load_npz reads it" if names and all(n.endswith(".npy") for n in names) else ""
    if head.startswith(b"\x93NUMPY"):
        return "; it is an npy file: tx.io.load_npy reads it"
    if head[:1] == b"\x80":
        return "; it looks like a pickle, which load never executes"
    if head[8:9] == b"{":
        return "; it looks like a safetensors file: tx.io.load_safetensors reads it"
    return ""


def load(path, device=None):
    """What :func:`save` wrote, with its tensors on a device (the CPU by default). Nothing in the file is executed.

    FileError where the file is damaged or was not written by save.

    >>> import os, tempfile
    >>> import tensorx as tx
    >>> path = os.path.join(tempfile.mkdtemp(), "state.tx")
    >>> tx.save({"w": tx.ones(2), "step": 3}, path)
    >>> state = tx.load(path)
    >>> state["w"].tolist(), state["step"]
    ([1.0, 1.0], 3)
    """
    place = _device("cpu" if device is None else device)
    with open(_path("load", path), "rb") as f:
        size = os.fstat(f.fileno()).st_size
        head = f.read(len(_MAGIC) + 8)
        if len(head) < len(_MAGIC) + 8 or not head.startswith(_MAGIC):
            raise FileError(f"{os.fspath(path)}: not a file that save wrote, or truncated{_other_kind(path, head)}")
        (length,) = struct.unpack("<Q", head[len(_MAGIC) :])
        if length > size - len(head):
            raise FileError(f"{os.fspath(path)}: the header claims {length:,} bytes, there are {size - len(head):,}: truncated")
        try:
            header = json.loads(f.read(length))
            tree, table, total = header["tree"], header["tensors"], header["bytes"]
            start = (len(head) + length + 63) // 64 * 64
            if start + total != size:
                raise FileError(f"{os.fspath(path)}: {start + total:,} bytes are expected, there are {size:,}: truncated")
            checked = [_checked(path, k, row, total) for k, row in enumerate(table)]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            if isinstance(error, FileError):
                raise
            raise FileError(f"{os.fspath(path)}: the header is damaged ({error})") from None
        tensors = []
        for k, (dtype, shape, at, nbytes, grad) in enumerate(checked):
            t = _read(f, path, k, dtype, shape, start + at, nbytes, place)
            if grad:
                t.requires_grad = True
            tensors.append(t)
    try:
        return _decode(tree, tensors)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError) as error:
        raise FileError(f"{os.fspath(path)}: the state is damaged ({error})") from None


def _checked(path, k, row, total):
    dtype = getattr(dtypes, row["dtype"], None) if row["dtype"] in _NAMES else None
    shape, at, nbytes = row["shape"], row["at"], row["bytes"]
    numbers = [*shape, at, nbytes]
    if dtype is None or not all(type(n) is int and n >= 0 for n in numbers) or math.prod(shape) * dtype.itemsize != nbytes or at + nbytes > total:
        raise FileError(f"{os.fspath(path)}: tensor {k} is damaged: {row}")
    return dtype, tuple(shape), at, nbytes, row.get("requires_grad") is True


_NAMES = (*_CODES, "complex128")


def _decode(node, tensors):
    if not isinstance(node, dict):
        if isinstance(node, (list, float)):
            raise ValueError("unexpected value")
        return node
    kind, v = node["!"], node["v"]
    if kind == "int":
        return int(v)
    if kind == "float":
        return float.fromhex(v)
    if kind == "complex":
        return complex(float.fromhex(v[0]), float.fromhex(v[1]))
    if kind == "bytes":
        return bytes.fromhex(v)
    if kind == "tensor":
        return tensors[v]
    if kind == "dtype":
        if v not in _NAMES:
            raise ValueError(f"dtype {v!r}")
        return getattr(dtypes, v)
    if kind == "dict":
        return {_decode(k, tensors): _decode(w, tensors) for k, w in v}
    items = [_decode(w, tensors) for w in v]
    if kind == "list":
        return items
    if kind == "tuple":
        return tuple(items)
    if kind == "set":
        return set(items)
    raise ValueError(f"unknown kind {kind!r}")
