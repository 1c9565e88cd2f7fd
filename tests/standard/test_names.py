"""Every name of the standard is there, with the signature of the standard."""

import inspect
import math

import pytest
import specification as spec

import tensorx as tx

pytestmark = pytest.mark.once
POSITIONAL = inspect.Parameter.POSITIONAL_ONLY


def wanted(text):
    space = {}
    exec(f"def f({text}): pass", {}, space)
    return inspect.signature(space["f"])


def shape_of(signature):
    """What a caller sees: kinds, defaults, and the names of what can be given by name."""
    return [(p.kind, p.default, None if p.kind is POSITIONAL else p.name) for p in signature.parameters.values()]


@pytest.mark.parametrize("name", spec.FUNCTIONS)
def test_function(name):
    assert shape_of(inspect.signature(getattr(tx, name))) == shape_of(wanted(spec.FUNCTIONS[name]))


@pytest.mark.parametrize("extension, name", [("linalg", n) for n in spec.LINALG] + [("fft", n) for n in spec.FFT])
def test_extension(extension, name):
    text = (spec.LINALG if extension == "linalg" else spec.FFT)[name]
    assert shape_of(inspect.signature(getattr(getattr(tx, extension), name))) == shape_of(wanted(text))


@pytest.mark.parametrize("name", spec.INFO)
def test_inspection(name):
    method = getattr(tx.__array_namespace_info__(), name)
    assert shape_of(inspect.signature(method)) == shape_of(wanted(spec.INFO[name]))


@pytest.mark.parametrize("name", spec.METHODS)
def test_method(name):
    got = shape_of(inspect.signature(getattr(tx.ones(1), name)))
    if name in ("__pow__", "__rpow__"):
        assert got.pop() == (POSITIONAL, None, None)  # the slot of pow(x, y, modulo) has a third operand
    if name.startswith("__dlpack"):
        got = [p for p in got if p[2] != "self"]
    assert got == shape_of(wanted(spec.METHODS[name]))


def test_too_many_and_too_few_arguments():
    x = tx.ones((2, 2))
    for call in (lambda: tx.take(x, tx.asarray([0]), 0), lambda: tx.roll(x, 1, 0), lambda: tx.sum(x, 0), lambda: tx.where(x > 0),
                 lambda: tx.squeeze(x), lambda: tx.sort(x, 0), lambda: tx.concat([x], 0), lambda: tx.abs(), lambda: tx.add(x),
                 lambda: tx.add(x, x, x), lambda: tx.abs(x=x), lambda: tx.ones()):  # fmt: skip
        with pytest.raises(TypeError):
            call()


def test_constants_and_attributes():
    assert (tx.e, tx.pi, tx.inf) == (math.e, math.pi, math.inf) and math.isnan(tx.nan) and tx.newaxis is None
    assert all(type(getattr(tx, name)) is float for name in ("e", "inf", "nan", "pi"))
    assert tx.__array_api_version__ == "2024.12"
    x = tx.zeros((2, 3, 4), dtype=tx.float32)
    assert (x.shape, x.ndim, x.size, x.dtype, x.device) == ((2, 3, 4), 3, 24, tx.float32, tx.device("cpu"))
    assert x.mT.shape == (2, 4, 3) and x[0].T.shape == (4, 3)
    for name in spec.DTYPES:
        dtype = getattr(tx, name)
        assert dtype == dtype and dtype is getattr(tx, name) and name in str(dtype)


def test_array_namespace():
    x = tx.ones(2)
    assert x.__array_namespace__() is tx
    for version in ("2021.12", "2022.12", "2023.12", "2024.12"):
        assert x.__array_namespace__(api_version=version) is tx
    with pytest.raises(ValueError, match="2019"):
        x.__array_namespace__(api_version="2019.12")
    y = x.to_device("cpu")
    assert y.tolist() == [1, 1] and not tx.shares_storage(x, y)
    with pytest.raises(ValueError, match="stream"):
        x.to_device("cpu", stream=1)


def test_namespace_info():
    info = tx.__array_namespace_info__()
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}
    assert tx.zeros((1,) * 64).ndim == 64
    with pytest.raises(ValueError):
        tx.zeros((1,) * 65)
    assert info.default_device() in info.devices() and isinstance(info.devices(), list)
    for device in [None, *info.devices()]:
        defaults = info.default_dtypes(device=device)
        assert defaults == {"real floating": tx.float32, "complex floating": tx.complex64, "integral": tx.int64, "indexing": tx.int64}
        assert tx.ones(1, device=device).dtype == defaults["real floating"] and tx.arange(2, device=device).dtype == defaults["integral"]
        for kind in (None, "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric",
                     ("bool", "real floating")):  # fmt: skip
            found = info.dtypes(device=device, kind=kind)
            for name, dtype in found.items():
                assert name in spec.DTYPES and dtype is getattr(tx, name) and (kind is None or tx.isdtype(dtype, kind))
                assert tx.zeros(1, dtype=dtype, device=device).dtype is dtype
    assert list(info.dtypes(device="cpu")) == spec.DTYPES
    with pytest.raises(ValueError):
        info.dtypes(kind="float")
    with pytest.raises(tx.DeviceNotFoundError):
        info.dtypes(device="cuda")
