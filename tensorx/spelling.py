"""Names and arguments of PyTorch and NumPy that are spelled otherwise here: the error that they are says how.

Nothing is accepted under two names. What is missing stays missing (``hasattr`` is False), and calls that are right take their
usual way: elementwise functions, views, joining and indexing are not touched at all.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import types

from tensorx import _core

_DTYPES = {
    "float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32", "short": "int16", "char": "int8", "byte": "uint8",
}  # fmt: skip
_NO_CUDA = "devices are 'cpu' and 'metal': tx.devices(), tx.metal.is_available()"
_DATA = "tx.train.DataLoader, tx.train.TensorDataset and tx.train.random_split; a data set needs no base class, only len() and items by number"

# What a module does not have, and what does the same.
NAMES = {
    "tensorx": {
        **{name: f"tx.{to}" for name, to in _DTYPES.items()},
        **{f"{kind}Tensor": f"tx.asarray(values, dtype=tx.{to})" for kind, to in
           (("Float", "float32"), ("Double", "float64"), ("Half", "float16"), ("Long", "int64"), ("Int", "int32"), ("Bool", "bool"))},
        "amax": "tx.max", "amin": "tx.min", "arcsin": "tx.asin", "arccos": "tx.acos", "arctan": "tx.atan", "arctan2": "tx.atan2",
        "arcsinh": "tx.asinh", "arccosh": "tx.acosh", "arctanh": "tx.atanh", "around": "tx.round", "array": "tx.asarray (copies by default)",
        "amp": "model.to(tx.float16) converts a model", "autocast": "model.to(tx.float16) converts a model",
        "average": "tx.mean", "backends": _NO_CUDA, "bernoulli": "tx.random.bernoulli", "bool_": "tx.bool", "cat": "tx.concat(tensors, axis=...)",
        "clamp": "tx.clip(x, min, max)", "compile": "elementwise expressions are fused without it", "cuda": _NO_CUDA,
        "cumprod": "tx.cumulative_prod(x, axis=...)", "cumsum": "tx.cumulative_sum(x, axis=...)", "degrees": "tx.rad2deg",
        "det": "tx.linalg.det", "fabs": "tx.abs", "float_": "tx.float64", "identity": "tx.eye", "inverse": "tx.linalg.inv",
        "is_tensor": "isinstance(x, tx.Tensor)", "jit": "elementwise expressions are fused without it",
        "mm": "tx.matmul, or a @ b", "mod": "tx.remainder", "mps": "tx.metal", "multinomial": "tx.random.multinomial",
        "ndarray": "tx.Tensor", "normal": "tx.random.normal", "numel": "x.size",
        "permute": "tx.permute_dims(x, axes)", "power": "tx.pow", "radians": "tx.deg2rad", "rand_like": "tx.random.rand(*x.shape)",
        "randn_like": "tx.random.randn(*x.shape)", "savez": "tx.io.save_npz(path, tensors)",
        "set_default_dtype": "dtype=... where a tensor is made; nn.Module.to(dtype) converts a model",
        "set_printoptions": "np.set_printoptions holds for tensors, too", "svd": "tx.linalg.svd", "t": "x.T (2 axes), x.mT",
        "trace": "tx.linalg.trace", "transpose": "tx.swapaxes(x, axis1, axis2), tx.permute_dims(x, axes), x.T (2 axes), x.mT",
        "unique": "tx.unique_values, tx.unique_counts, tx.unique_inverse or tx.unique_all", "unsqueeze": "tx.expand_dims(x, axis=...)",
        "utils": f"{_DATA}; tx.autograd.checkpoint",
    },
    "tensorx.random": {
        "default_rng": "tx.random.Generator(seed)", "random": "tx.random.uniform(shape=...)", "RandomState": "tx.random.Generator(seed)",
        "random_sample": "tx.random.uniform(shape=...)",
    },
    "tensorx.train": {"Dataset": _DATA, "IterableDataset": _DATA},
    "tensorx.autograd": {"Variable": "a tensor; x.requires_grad_()"},
}  # fmt: skip

# What a tensor does not have.
METHODS = {
    **{name: f"x.astype(tx.{to})" for name, to in _DTYPES.items()},
    "apply_": "x.copy_(expression)", "bfloat16": "x.astype(tx.bfloat16)", "bool": "x.astype(tx.bool)", "clamp": "x.clip(min, max)",
    "clamp_": "x.clip_(min, max)", "cuda": _NO_CUDA, "cumprod": "tx.cumulative_prod(x, axis=...)", "cumsum": "tx.cumulative_sum(x, axis=...)",
    "data": "x.detach() shares the memory without history; x.copy_(value) under tx.no_grad() writes it", "data_ptr": "x.storage.address",
    "dim": "x.ndim", "element_size": "x.itemsize", "expand_as": "x.expand(other.shape)", "fill": "x.fill_(value)",
    "get_device": "x.device", "is_cuda": "x.device.type", "mm": "x @ other",
    "ndimension": "x.ndim", "nelement": "x.size", "new_empty": "tx.empty(shape, dtype=x.dtype, device=x.device)",
    "new_full": "tx.full(shape, value, dtype=x.dtype, device=x.device)", "new_ones": "tx.ones(shape, dtype=x.dtype, device=x.device)",
    "new_tensor": "tx.asarray(values, dtype=x.dtype, device=x.device)", "new_zeros": "tx.zeros(shape, dtype=x.dtype, device=x.device)",
    "numel": "x.size (a number: no call)", "repeat": "tx.tile(x, repeats); tx.repeat repeats elements", "t": "x.T (2 axes), x.mT",
    "tobytes": "x.numpy().tobytes()", "type": "x.dtype; x.astype(dtype) converts", "type_as": "x.astype(other.dtype)", "unbind": "tx.unstack(x, axis=0)",
    "view": "x.reshape(...): a view where nothing has to move", "view_as": "x.reshape(other.shape)",
}  # fmt: skip

# Arguments, with what they are called here: the first of the names that the function has.
ARGUMENTS = {
    "dim": ("axis", "axes"), "dims": ("axes", "axis"), "keepdim": ("keepdims",), "ddof": ("correction",), "size": ("shape",),
    "start_dim": ("start_axis",), "end_dim": ("end_axis",), "collate_fn": ("collate",), "map_location": ("device",), "axes": ("axis",),
    "axis": ("axes",), "learning_rate": ("lr",), "epsilon": ("eps",),
}  # fmt: skip
# Arguments that have no counterpart, with what to do instead.
INSTEAD = {
    "unbiased": "correction=1 divides by n - 1, the default correction=0 by n",
    "requires_grad": "call .requires_grad_() on the result",
    "out": "out.copy_(expression) computes into out",
    "num_workers": "leave it out: batches are prepared ahead in a thread (prefetch=2)",
    "pin_memory": "leave it out: the CPU and Metal share memory",
    "persistent_workers": "leave it out: batches are prepared ahead in a thread (prefetch=2)",
    "prefetch_factor": "prefetch=n prepares n batches ahead",
    "generator": "seed=... fixes the order",
    "weights_only": "leave it out: loading never executes code",
}

_REFUSED = re.compile(r"(?:[\w<>]+\.)*(\w+)\(\) (?:got an unexpected keyword argument '(\w+)'|takes (?:from )?\d.* positional argument).*", re.S)


def explain(function, error):
    """Adds the cure to a TypeError of Python's own about the arguments of a function."""
    text = re.sub(r"\. Did you mean '\w+'\?$", "", str(error))  # Python's own guess, from 3.13
    found = _REFUSED.fullmatch(text)
    if found is None or found[1] != function.__name__:
        return
    code = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    named = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    known = [n for n in (*positional[code.co_posonlyargcount :], *named) if n != "self"]
    hint, given = "", found[2]
    if given is not None:
        to = next((n for n in ARGUMENTS.get(given, ()) if n in known), None)
        near = _near(given, known)
        if to is not None:
            hint = f"it is called {to!r} here"
        elif given in INSTEAD:
            hint = INSTEAD[given]
        elif near:
            hint = f"there is {near[0]!r}"
        elif known:
            hint = f"it takes {', '.join(known)}"
    elif positional[:1] == ("shape",):
        hint = f"the shape is one argument: {function.__name__}((2, 3))"
    elif named:
        hint = f"the rest is given by name: {', '.join(f'{n}=...' for n in named)}"
    if hint:
        error.args = (f"{text}: {hint}",)


def refuse(function, rest, other):
    """The error of a function of one tensor that was given positional arguments or unknown names: Python's own words, and the cure.

    For functions that are called often: ``*rest`` and ``**other`` in their signature cost less than a function around them."""
    name = function.__name__
    if other:
        error = TypeError(f"{name}() got an unexpected keyword argument {next(iter(other))!r}")
    else:
        error = TypeError(f"{name}() takes 1 positional argument but {1 + len(rest)} were given")
    explain(function, error)
    raise error


def shown(function):
    """Gives a function the signature that it has without ``*rest`` and ``**other``."""
    code = function.__code__
    names = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    one = inspect.Parameter("x", inspect.Parameter.POSITIONAL_ONLY)
    rest = (inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=function.__kwdefaults__[n]) for n in names)
    function.__signature__ = inspect.Signature([one, *rest])


def _near(given, known):
    import difflib

    return difflib.get_close_matches(given, known, 1, 0.75)


def explained(function):
    """The function, with :func:`explain` where Python refuses its arguments."""
    add = explain

    def call(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            add(function, error)
            raise

    # with the names of its own module: finders of doctests ask where a function is from
    out = types.FunctionType(call.__code__, function.__globals__, function.__name__, None, call.__closure__)
    return functools.update_wrapper(out, function)


class Missing(property):
    """A name that a tensor does not have: the error says what has it."""

    def __init__(self, name, hint):
        def refuse(self, value=None):
            raise AttributeError(f"a tensor has no {name!r}; instead: {hint}")

        super().__init__(refuse, refuse)


def _lookup(module, names):
    def __getattr__(name):
        hint = names.get(name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}" + ("" if hint is None else f"; instead: {hint}"))

    return __getattr__


_FAMILIES = ("sorting", "ranking", "missing", "counting", "creation")


def _takes(function, *names):
    code = function.__code__
    return any(n in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] for n in names)


def _replace(module, name, done):
    """Puts the explained function into a module, and into the one that it is from, where pickle looks for it; aliases stay aliases."""
    function = vars(module)[name]
    new = done[function] = done.get(function) or explained(function)
    for place in (module, sys.modules[function.__module__]):
        if vars(place).get(name) is function:
            setattr(place, name, new)


def install():
    """Makes the modules and the tensor say how a name is spelled here."""
    import tensorx as tx

    done: dict = {}
    for name, function in list(vars(tx).items()):
        if not isinstance(function, types.FunctionType) or name.startswith("_"):
            continue
        family = function.__module__.rpartition(".")[2]
        if (family in _FAMILIES and (family == "creation" or _takes(function, "axis"))) or name in ("load", "save"):
            _replace(tx, name, done)
    for name, value in list(vars(_core.Tensor).items()):
        if isinstance(value, types.FunctionType) and value in done:
            _core.add_method(name, done[value])
    for name, function in list(vars(tx.nn.functional).items()):
        if name in tx.nn.functional.__all__ and isinstance(function, types.FunctionType) and _takes(function, "axis"):
            _replace(tx.nn.functional, name, done)
    for cls in {o for o in (*vars(tx.nn).values(), *vars(tx.optim).values(), tx.train.DataLoader) if isinstance(o, type)}:
        own = vars(cls).get("__init__")
        if isinstance(own, types.FunctionType) and cls is not tx.nn.Module:
            cls.__init__ = explained(own)
    _replace(tx.train, "random_split", done)
    for name, function in list(vars(tx.random).items()):
        if name in tx.random.__all__ and isinstance(function, types.FunctionType) and _takes(function, "shape"):
            _replace(tx.random, name, done)
            setattr(tx.random.Generator, name, _of_generator(function, vars(tx.random.Generator)[name]))
    for name, hint in METHODS.items():
        if name not in vars(_core.Tensor):
            _core.add_method(name, Missing(name, hint))
    _core.add_method("__dir__", _dir)
    for name, names in NAMES.items():
        sys.modules[name].__getattr__ = _lookup(name, names)  # type: ignore[method-assign]


def _of_generator(function, method):
    """A method of a generator, with :func:`explain` about the function behind it."""
    add = explain

    def call(*args, **kwargs):
        try:
            return method(*args, **kwargs)
        except TypeError as error:
            add(function, error)
            raise

    return functools.update_wrapper(call, method)


def _dir(self):
    return [n for n in object.__dir__(self) if type(getattr(_core.Tensor, n, None)) is not Missing]
