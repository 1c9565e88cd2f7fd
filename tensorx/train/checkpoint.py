"""Checkpoints: one file that is there whole or not at all, whenever the process is killed.

The file is a line of magic, a length, a JSON header that describes the nesting, and the bytes of the tensors. Nothing in
it is ever executed.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import zlib

from tensorx import _core, dtypes
from tensorx._core import Tensor

__all__ = ["load_checkpoint", "save_checkpoint"]

_MAGIC = b"tensorx checkpoint 1\n"
_HEAD = struct.Struct("<QII")  # length of the header, checksums of header and tensors
_MOST = 256 << 20


def save_checkpoint(path, state):
    """Writes a nesting of dictionaries, lists, tuples, tensors, strings, numbers and None.

    First to a new file beside it, which is synced and then takes the name of the old one: whoever reads finds the old or
    the new checkpoint, also after a crash or SIGKILL. TypeError for other values.

    >>> import os, tempfile
    >>> import tensorx as tx
    >>> from tensorx.train import load_checkpoint, save_checkpoint
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "last.ckpt")
    ...     save_checkpoint(path, {"step": 3, "w": tx.ones(2)})
    ...     load_checkpoint(path)["w"].tolist()
    [1.0, 1.0]
    """
    path = os.fspath(path)
    tensors: list = []
    header = json.dumps({"state": _packed(state, tensors, "state"), "tensors": [_described(t) for t in tensors]}).encode()
    folder = os.path.dirname(path) or "."
    os.makedirs(folder, exist_ok=True)
    _clean(folder, os.path.basename(path))
    new = os.path.join(folder, f".{os.path.basename(path)}.{os.getpid()}.new")
    try:
        with open(new, "wb") as f:
            f.write(_MAGIC + _HEAD.pack(len(header), zlib.crc32(header), 0))
            f.write(header)
            check = 0
            for t in tensors:
                data = _core.raw_bytes(t) if t.size else b""
                check = zlib.crc32(data, check)
                f.write(data)
            f.seek(len(_MAGIC))
            f.write(_HEAD.pack(len(header), zlib.crc32(header), check))
            f.flush()
            os.fsync(f.fileno())
        os.replace(new, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise
    _sync_folder(folder)


def _sync_folder(folder):
    """The new name is on the disk, too; some file systems know no sync of folders."""
    with contextlib.suppress(OSError):
        fd = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _clean(folder, name):
    """Removes what killed processes left behind."""
    for entry in os.listdir(folder):
        if entry.startswith(f".{name}.") and entry.endswith(".new"):
            pid = entry[len(name) + 2 : -4]
            if pid.isdigit() and not _alive(int(pid)):
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(folder, entry))


def _alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _described(t):
    return {"dtype": t.dtype.name, "shape": list(t.shape), "device": str(t.device)}


def _packed(value, tensors, where):
    """JSON for a value; what JSON has not gets a dictionary with one key that starts with '$'."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Tensor):
        host = value.detach() if value.device.type == "cpu" else value.detach().to("cpu")
        tensors.append(host.contiguous())
        return {"$tensor": len(tensors) - 1, "$device": str(value.device)}
    if isinstance(value, dict):
        if all(isinstance(k, str) and not k.startswith("$") for k in value):
            return {k: _packed(v, tensors, f"{where}[{k!r}]") for k, v in value.items()}
        return {"$items": [[_packed(k, tensors, where), _packed(v, tensors, f"{where}[{k!r}]")] for k, v in value.items()]}
    if isinstance(value, (list, tuple)):
        items = [_packed(v, tensors, f"{where}[{k}]") for k, v in enumerate(value)]
        return items if isinstance(value, list) else {"$tuple": items}
    raise TypeError(f"save_checkpoint: {where} is a {type(value).__name__}; dictionaries, lists, tuples, tensors, strings, numbers and None can be saved")


def load_checkpoint(path, device=None):
    """What save_checkpoint wrote; tensors go to the device they were on, or to device.

    ValueError where the file is no checkpoint, was cut short or was changed; FileNotFoundError where there is none.
    """
    path = os.fspath(path)
    with open(path, "rb") as f:
        size = os.fstat(f.fileno()).st_size
        start = f.read(len(_MAGIC) + _HEAD.size)
        if not start.startswith(_MAGIC) or len(start) != len(_MAGIC) + _HEAD.size:
            raise ValueError(f"load_checkpoint: {path} is not a checkpoint")
        length, header_check, data_check = _HEAD.unpack(start[len(_MAGIC) :])
        if length > _MOST or len(start) + length > size:
            raise ValueError(f"load_checkpoint: {path} was cut short: a header of {length} bytes in a file of {size}")
        header = f.read(length)
        if zlib.crc32(header) != header_check:
            raise ValueError(f"load_checkpoint: {path} was damaged: the checksum of its header is wrong")
        given = json.loads(header)
        sizes = [_bytes_of(d, path) for d in given["tensors"]]
        if len(start) + length + sum(sizes) != size:
            raise ValueError(f"load_checkpoint: {path} was cut short: {sum(sizes)} bytes of tensors, {size - len(start) - length} are there")
        tensors, check = [], 0
        for described, n in zip(given["tensors"], sizes):
            t = _core.empty(tuple(described["shape"]), getattr(dtypes, described["dtype"]), 0)
            if n:
                view = _core.raw_bytes(t)
                f.readinto(view)
                check = zlib.crc32(view, check)
                view.release()
            _core.reset_version(t)
            tensors.append(t)
        if check != data_check:
            raise ValueError(f"load_checkpoint: {path} was damaged: the checksum of its tensors is wrong")
    return _unpacked(given["state"], tensors, device)


def _bytes_of(described, path):
    dtype = getattr(dtypes, str(described["dtype"]), None)
    if not isinstance(dtype, dtypes.DType) or not all(isinstance(n, int) and n >= 0 for n in described["shape"]):
        raise ValueError(f"load_checkpoint: {path} names a tensor of {described['dtype']} and shape {described['shape']}")
    n = dtype.itemsize
    for s in described["shape"]:
        n *= s
    return n


def _unpacked(value, tensors, device):
    if isinstance(value, list):
        return [_unpacked(v, tensors, device) for v in value]
    if not isinstance(value, dict):
        return value
    if "$tensor" in value:
        t = tensors[value["$tensor"]]
        target = value["$device"] if device is None else device
        return t if str(t.device) == str(target) else t.to(target)
    if "$tuple" in value:
        return tuple(_unpacked(v, tensors, device) for v in value["$tuple"])
    if "$items" in value:
        return {_unpacked(k, tensors, device): _unpacked(v, tensors, device) for k, v in value["$items"]}
    return {k: _unpacked(v, tensors, device) for k, v in value.items()}
