"""Files: round trips, damaged files, no code, whole or not at all."""

import io
import json
import os
import pickle
import struct
import zipfile

import numpy as np
import pytest

import tensorx as tx

FileError = tx.io.FileError
pytestmark = pytest.mark.once
DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32", "float64"]


def several():
    out = {name: tx.asarray([[0, 1, 2], [3, 1, 0]]).astype(getattr(tx, name)) for name in DTYPES}
    out["empty"], out["scalar"], out["view"] = tx.zeros((0, 3)), tx.asarray(2.5), tx.arange(6).reshape((2, 3)).T
    return out


def same(a, b):
    assert list(a) == list(b)
    for k in a:
        assert a[k].dtype is b[k].dtype and a[k].shape == b[k].shape and a[k].tolist() == b[k].tolist(), k


# ---- safetensors -------------------------------------------------------------------------------------


@pytest.fixture
def package():
    return pytest.importorskip("safetensors")


def test_safetensors_round_trip(package, tmp_path, device):
    path = tmp_path / "x.safetensors"
    given = {k: v.to(device) for k, v in several().items() if not (device.startswith("metal") and v.dtype is tx.float64)}
    tx.io.save_safetensors(given, path, metadata={"made": "here"})
    found = tx.io.load_safetensors(path, device=device)
    same(dict(sorted(given.items())), dict(sorted(found.items())))
    assert all(str(t.device).startswith(device) for t in found.values())
    assert tx.io.read_metadata(path) == {"made": "here"}
    assert os.listdir(tmp_path) == ["x.safetensors"]


def test_safetensors_of_numpy(package, tmp_path):
    from safetensors.numpy import load_file, save_file

    path = str(tmp_path / "x.safetensors")
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.ones(4, "f")}
    save_file(arrays, path)
    found = tx.io.load_safetensors(path)
    assert all((found[k].numpy() == v).all() and found[k].numpy().dtype == v.dtype for k, v in arrays.items())
    tx.io.save_safetensors(found, path)
    assert all((load_file(path)[k] == v).all() for k, v in arrays.items())


def blob(header, data=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


DAMAGED = {
    "empty file": (b"", "too few"),
    "seven bytes": (b"1234567", "too few"),
    "huge header": (blob({}, length=1 << 62), "header claims"),
    "header beyond the file": (blob({"a": entry()}, length=5000), "header claims"),
    "no JSON": (blob(b"{not json"), "not valid JSON"),
    "not UTF-8": (blob(b'{"\xff\xfe": 1}'), "not valid JSON"),
    "a list": (blob([1, 2]), "no table of tensors"),
    "deep nesting": (blob(b"[" * 100000), "not valid JSON"),
    "a name twice": (blob(b'{"a": {}, "a": {}}'), "twice"),
    "no offsets": (blob({"a": {"dtype": "F32", "shape": [2]}}, b"x" * 8), "data_offsets are needed"),
    "unknown dtype": (blob({"a": entry("F31")}, b"x" * 8), "dtype 'F31' is unknown"),
    "dtype no text": (blob({"a": entry(7)}, b"x" * 8), "dtype 7 is unknown"),
    "negative shape": (blob({"a": entry(shape=(-2,))}, b"x" * 8), "non-negative"),
    "shape of floats": (blob({"a": entry(shape=(2.0,))}, b"x" * 8), "non-negative"),
    "shape of booleans": (blob({"a": entry(shape=(True, 2))}, b"x" * 8), "non-negative"),
    "huge shape": (blob({"a": entry(shape=(1 << 40, 1 << 40))}, b"x" * 8), "needs"),
    "wrong size": (blob({"a": entry(shape=(3,))}, b"x" * 8), "needs 12 bytes"),
    "backwards": (blob({"a": entry(offsets=(8, 0))}, b"x" * 8), "not within"),
    "beyond the end": (blob({"a": entry(offsets=(0, 8))}, b"x" * 4), "not within the 4 bytes"),
    "overlap": (blob({"a": entry(), "b": entry(offsets=(4, 12))}, b"x" * 12), "overlaps"),
    "a hole": (blob({"a": entry(), "b": entry(offsets=(12, 20))}, b"x" * 20), "belong to no tensor"),
    "bytes left over": (blob({"a": entry()}, b"x" * 12), "the file has 12"),
    "metadata": (blob({"__metadata__": {"a": 1}}), "metadata must be strings"),
    "too many axes": (blob({"a": entry(shape=(1,) * 70 + (2,))}, b"x" * 8), "axes"),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damaged_safetensors_are_clear_errors_and_cost_no_memory(package, tmp_path, kind):
    data, message = DAMAGED[kind]
    path = tmp_path / "bad.safetensors"
    path.write_bytes(data)
    with tx.memory.measure() as m, pytest.raises(FileError, match=message) as error:
        tx.io.load_safetensors(path)
    assert m.bytes == 0 and "bad.safetensors" in str(error.value)


def test_every_truncation_is_an_error(package, tmp_path):
    path = tmp_path / "x.safetensors"
    tx.io.save_safetensors({"a": tx.ones((2, 2)), "b": tx.zeros(3)}, path)
    data = path.read_bytes()
    for n in range(0, len(data), 7):
        path.write_bytes(data[:n])
        with pytest.raises(FileError):
            tx.io.load_safetensors(path)


def test_a_failed_write_leaves_the_old_file(package, tmp_path):
    path = tmp_path / "x.safetensors"
    tx.io.save_safetensors({"a": tx.ones(2)}, path)
    with pytest.raises(tx.DTypeError, match="complex128"):
        tx.io.save_safetensors({"a": tx.ones(2), "b": tx.ones(2).astype(tx.complex128)}, path)
    with pytest.raises(TypeError, match="cannot store a builtins.object"):
        tx.save({"a": object()}, path)
    assert tx.io.load_safetensors(path)["a"].tolist() == [1.0, 1.0] and os.listdir(tmp_path) == ["x.safetensors"]


def test_the_missing_package_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ImportError, match=r"pip install 'tensorx-runtime\[io\]'"):
        tx.io.load_safetensors("x")


# ---- NumPy ----------------------------------------------------------------------------------------------


def test_npy_and_npz(tmp_path):
    given = {k: v for k, v in several().items() if k != "bfloat16"}
    tx.io.save_npz(tmp_path / "x.npz", given)
    same(given, tx.io.load_npz(tmp_path / "x.npz"))
    tx.io.save_npz(tmp_path / "y.npz", given, compressed=True)
    same(given, tx.io.load_npz(tmp_path / "y.npz"))
    tx.io.save_npy(tmp_path / "x.npy", given["view"])
    assert np.load(tmp_path / "x.npy").tolist() == given["view"].tolist() == tx.io.load_npy(tmp_path / "x.npy").tolist()
    np.save(tmp_path / "f.npy", np.asfortranarray(np.arange(6.0).reshape(2, 3)))
    assert tx.io.load_npy(tmp_path / "f.npy").tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]
    with pytest.raises(tx.DTypeError, match="bfloat16"):
        tx.io.save_npy(tmp_path / "b.npy", tx.ones(2).astype(tx.bfloat16))


def test_damaged_numpy_files(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    np.save(tmp_path / "evil.npy", np.array([Evil()], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "evil.npz", a=np.array([Evil()], dtype=object))
    for load, name in ((tx.io.load_npy, "evil.npy"), (tx.io.load_npz, "evil.npz")):
        with pytest.raises(FileError, match="Python objects"):
            load(tmp_path / name)
    assert not (tmp_path / "ran").exists()
    np.save(tmp_path / "x.npy", np.ones(100))
    data = (tmp_path / "x.npy").read_bytes()
    for cut in (b"", data[:3], data[:20], data[:-1], b"garbage" * 9, data.replace(b"(100,)", b"(10000000000000,)"), data.replace(b"<f8", b"<U8")):
        (tmp_path / "y.npy").write_bytes(cut)
        with tx.memory.measure() as m, pytest.raises(FileError, match="y.npy"):
            tx.io.load_npy(tmp_path / "y.npy")
        assert m.bytes == 0
    (tmp_path / "z.npz").write_bytes(b"no zip")
    with pytest.raises(FileError, match="no npz file"):
        tx.io.load_npz(tmp_path / "z.npz")
    with pytest.raises(FileNotFoundError):
        tx.io.load_npy(tmp_path / "absent.npy")


# ---- nested state --------------------------------------------------------------------------------------------


def test_nested_state_round_trip(tmp_path):
    shared = tx.ones(2).requires_grad_()
    state = {
        "model": several(),
        "step": 3,
        "big": 2**70,
        "lr": 1e-3,
        "odd": [float("inf"), -0.0, None, True, "text", b"bytes", 1 + 2j],
        "pair": (shared, shared),
        ("key", 1): {1, 2},
        "dtype": tx.float16,
        "number": np.float32(1.5),
    }
    path = tmp_path / "state"
    tx.save(state, path)
    found = tx.load(path)
    same(found.pop("model"), state.pop("model"))
    pair = found.pop("pair")
    assert pair[0] is pair[1] and pair[0].requires_grad and type(pair) is tuple
    state.pop("pair")
    assert found == state and str(found["odd"][1]) == "-0.0"
    with pytest.raises(ValueError, match="nested more than 200"):
        loop = []
        loop.append(loop)
        tx.save(loop, path)


def test_damaged_state(tmp_path):
    path = tmp_path / "state"
    tx.save({"a": tx.ones(5), "b": [1, 2]}, path)
    data = path.read_bytes()
    for n in range(0, len(data), 11):
        path.write_bytes(data[:n])
        with tx.memory.measure() as m, pytest.raises(FileError):
            tx.load(path)
        assert m.bytes == 0
    for old, new in ((b'"shape": [5]', b'"shape": [9]'), (b'"float32"', b'"float3x"'), (b'"tensor"', b'"tensoR"'), (b'"bytes": 20', b'"bytes": -1')):
        assert old in data
        path.write_bytes(data.replace(old, new))
        with pytest.raises(FileError, match="damaged"):
            tx.load(path)
    path.write_bytes(b"\x80\x04\x95")
    with pytest.raises(FileError, match="not a file that save wrote"):
        tx.load(path)


def test_a_path_is_needed(tmp_path):
    for wrong in (io.BytesIO(), 3):
        with pytest.raises(TypeError, match=f"save: a path is needed .*, got {type(wrong).__name__}$"):
            tx.save({"a": 1}, wrong)
        with pytest.raises(TypeError, match=f"load: a path is needed .*, got {type(wrong).__name__}$"):
            tx.load(wrong)
    with pytest.raises(TypeError, match="got dict: the values come first, the path second"):
        tx.save("file", {"a": tx.ones(1)})
    tx.save({"a": 1}, tmp_path / "state")
    assert tx.load(tmp_path / "state") == tx.load(os.fsencode(tmp_path / "state")) == {"a": 1}


def test_a_file_of_another_kind_says_what_reads_it(tmp_path):
    path = tmp_path / "file"

    def refused(match):
        with pytest.raises(FileError, match="not a file that save wrote, or truncated" + match):
            tx.load(path)

    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({}))
    refused("; it is one of torch.save: write the weights with safetensors.*tx.io.load_safetensors")
    with open(path, "wb") as f:
        np.savez(f, a=np.ones(2))
    refused("; it is an npz file: tx.io.load_npz reads it")
    with open(path, "wb") as f:
        np.save(f, np.ones(2))
    refused("; it is an npy file: tx.io.load_npy reads it")
    path.write_bytes(pickle.dumps({"a": list(range(50))}))
    refused("; it looks like a pickle, which load never executes")
    header = json.dumps({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4))
    refused("; it looks like a safetensors file: tx.io.load_safetensors reads it")
    for other in (b"PK\x03\x04 but no archive, only these bytes", b"x" * 100, b""):
        path.write_bytes(other)
        refused("$")


def test_killed_while_writing_the_old_file_is_whole(tmp_path, run_child):
    path = str(tmp_path / "state")
    tx.save({"a": tx.zeros(3)}, path)
    code = f"""
    import os
    real = os.replace
    def replace(a, b):
        os._exit(9)
    os.replace = replace
    tx.save({{"a": tx.ones(1000)}}, {path!r})
    """
    assert run_child(code, timeout=20, check=False).returncode == 9
    assert tx.load(path)["a"].tolist() == [0.0, 0.0, 0.0]
