"""Module: what all models and layers are made from."""

from __future__ import annotations

import types

from tensorx._core import Tensor
from tensorx.nn import hooks as _hooks
from tensorx.nn import moving, states
from tensorx.nn.parameter import Buffer, Parameter

__all__ = ["Module"]

PARAMETER, BUFFER, TRANSIENT, MODULE = "parameter", "buffer", "buffer that is not saved", "module"


class Module:
    """Base of all models and layers: parameters, buffers and other modules are found by assigning them.

    Subclasses call ``super().__init__()`` first, assign their parts and define ``forward``; calling the module calls it.

    >>> import tensorx as tx
    >>> class Scale(tx.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = tx.nn.Parameter(tx.asarray(2.0))
    ...     def forward(self, x):
    ...         return x * self.factor
    >>> scale = Scale()
    >>> scale(tx.ones(2)).tolist(), [name for name, p in scale.named_parameters()]
    ([2.0, 2.0], ['factor'])
    """

    training: bool

    def __init__(self):
        d = self.__dict__
        d["_names"] = {}  # name -> what it is, in the order of registration; the values are ordinary attributes
        d["_hooks"] = None
        d["training"] = True

    # ---- calling ------------------------------------------------------------------------

    def forward(self, *args, **kwargs):
        """What the module computes; to be defined by subclasses."""
        raise TypeError(f"{type(self).__name__}: forward() is not defined")

    def __call__(self, *args, **kwargs):
        if self._hooks is None and not _hooks.everywhere:
            return self.forward(*args, **kwargs)
        return _hooks.call(self, args, kwargs)

    # ---- registration -----------------------------------------------------------------------

    def __setattr__(self, name, value):
        names = self.__dict__.get("_names")
        if names is None:
            if isinstance(value, (Parameter, Module, Buffer)):
                raise AttributeError(f"{type(self).__name__}: call super().__init__() before {name!r} is assigned")
            object.__setattr__(self, name, value)
            return
        known = names.get(name)
        if isinstance(value, Parameter):
            kind = PARAMETER
        elif isinstance(value, Module):
            kind = MODULE
        elif isinstance(value, Buffer):
            kind, value = (BUFFER if value.persistent else TRANSIENT), value.data
        else:
            if known is None:
                object.__setattr__(self, name, value)
                return
            self._check_replacement(name, known, value)
            kind = known
        if known is not None and known != kind:
            del names[name]
        names[name] = kind
        self.__dict__[name] = value

    def _check_replacement(self, name, known, value):
        """An ordinary value is assigned to the name of a parameter, buffer or module."""
        if value is None or (known in (BUFFER, TRANSIENT) and isinstance(value, Tensor)):
            return
        what = f"a tensor of shape {value.shape}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
        if known == PARAMETER and isinstance(value, Tensor):
            raise TypeError(
                f"{type(self).__name__}: {name!r} is a parameter and would be replaced by {what} that no optimizer knows; write its values with "
                f"`with tx.no_grad(): module.{name}.copy_(value)`, or assign nn.Parameter(value)"
            )
        raise TypeError(f"{type(self).__name__}: {name!r} is a {known} and cannot be replaced by {what}; delete it first")

    def __delattr__(self, name):
        self.__dict__.get("_names", {}).pop(name, None)
        object.__delattr__(self, name)

    def __getattr__(self, name):  # only called where ordinary look-up fails
        if "_names" not in self.__dict__ and name in ("_names", "_hooks", "training"):
            raise AttributeError(f"{type(self).__name__}: super().__init__() was not called before the module was used")
        cure = "; modules are on 'cpu' or 'metal': .to(device) moves them" if name in ("cuda", "mps") else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{cure}")

    def _register(self, name, value, kind):
        owner = type(self).__name__
        names = self.__dict__.get("_names")
        if names is None:
            raise AttributeError(f"{owner}: call super().__init__() before {name!r} is registered")
        if not isinstance(name, str) or not name or "." in name:
            raise KeyError(f"{owner}: the name of a {kind} must be a string without dots, got {name!r}")
        if name in names or hasattr(self, name):
            raise KeyError(f"{owner}: {name!r} exists already, as {'a ' + names[name] if name in names else 'an attribute'}; delete it first")
        names[name] = kind
        self.__dict__[name] = value

    def register_parameter(self, name, param):
        """Adds a parameter, or None as the place of one; KeyError where the name is taken."""
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"{type(self).__name__}: parameter {name!r} must be an nn.Parameter or None, got {type(param).__name__}")
        self._register(name, param, PARAMETER)

    def register_buffer(self, name, tensor, persistent=True):
        """Adds a tensor that is state but not trained, or None; saved in the state_dict where persistent."""
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"{type(self).__name__}: buffer {name!r} must be a tensor or None, got {type(tensor).__name__}")
        self._register(name, tensor, BUFFER if persistent else TRANSIENT)

    def register_module(self, name, module):
        """Adds a module, or None as the place of one."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(self).__name__}: {name!r} must be a module or None, got {type(module).__name__}")
        self._register(name, module, MODULE)

    add_module = register_module

    # ---- looking around ----------------------------------------------------------------------

    def _own(self, *kinds):
        d = self.__dict__
        return [(name, d[name]) for name, kind in self._names.items() if kind in kinds and d.get(name) is not None]

    def _table(self, *kinds):
        d = self.__dict__
        return types.MappingProxyType({name: d.get(name) for name, kind in self._names.items() if kind in kinds})

    _parameters = property(lambda self: self._table(PARAMETER))
    _buffers = property(lambda self: self._table(BUFFER, TRANSIENT))
    _modules = property(lambda self: self._table(MODULE))

    def named_children(self):
        """(name, module) of the modules directly inside, each once."""
        seen = set()
        for name, module in self._own(MODULE):
            if id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def children(self):
        """The modules directly inside."""
        for _, module in self.named_children():
            yield module

    def named_modules(self, memo=None, prefix="", remove_duplicate=True):
        """(dotted name, module) of this module and all inside, outer ones first."""
        memo = set() if memo is None else memo
        stack = [(prefix, self)]
        while stack:
            path, module = stack.pop()
            if remove_duplicate:
                if id(module) in memo:
                    continue
                memo.add(id(module))
            yield path, module
            for name, child in reversed(module._own(MODULE)):
                stack.append((f"{path}.{name}" if path else name, child))

    def modules(self):
        """This module and all inside, each once."""
        for _, module in self.named_modules():
            yield module

    def _members(self, kinds, prefix, recurse, remove_duplicate):
        seen = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, value in module._own(*kinds):
                if remove_duplicate:
                    if id(value) in seen:
                        continue
                    seen.add(id(value))
                yield (f"{path}.{name}" if path else name), value

    def named_parameters(self, prefix="", recurse=True, remove_duplicate=True):
        """(dotted name, parameter); a parameter that is used under several names comes once, under the first."""
        return self._members((PARAMETER,), prefix, recurse, remove_duplicate)

    def parameters(self, recurse=True):
        """All parameters, each once."""
        for _, p in self.named_parameters(recurse=recurse):
            yield p

    def named_buffers(self, prefix="", recurse=True, remove_duplicate=True):
        """(dotted name, buffer)."""
        return self._members((BUFFER, TRANSIENT), prefix, recurse, remove_duplicate)

    def buffers(self, recurse=True):
        """All buffers, each once."""
        for _, b in self.named_buffers(recurse=recurse):
            yield b

    def get_submodule(self, target):
        """The module of a dotted name."""
        module = self
        for k, part in enumerate(target.split(".") if target else ()):
            found = module.__dict__.get(part) if module._names.get(part) == MODULE else None
            if found is None:
                where = ".".join(target.split(".")[:k]) or type(self).__name__
                raise AttributeError(f"get_submodule: {where} has no module {part!r}; it has {', '.join(module._modules) or 'none'}")
            module = found
        return module

    def _get(self, op, target, *kinds):
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if module._names.get(name) not in kinds:
            raise AttributeError(f"{op}: {path or type(self).__name__} has no {kinds[0]} {name!r}")
        return module.__dict__[name]

    def get_parameter(self, target):
        """The parameter of a dotted name."""
        return self._get("get_parameter", target, PARAMETER)

    def get_buffer(self, target):
        """The buffer of a dotted name."""
        return self._get("get_buffer", target, BUFFER, TRANSIENT)

    # ---- state ---------------------------------------------------------------------------------

    def state_dict(self, *, prefix="", copy=True, keep_vars=False):
        """All parameters and persistent buffers by dotted name.

        Independent copies without history; with copy=False tensors on the same storages, with keep_vars=True the
        parameters themselves.
        """
        return states.state_dict(self, prefix, copy, keep_vars)

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """Writes the values of a state_dict (tensors or NumPy arrays) into parameters and buffers.

        Everything is checked first: on a KeyError or ShapeError, which lists all that does not fit at once, nothing has
        changed. With strict=False missing and unexpected keys are only returned. assign=True takes the tensors themselves
        in place of copying values. Returns (missing_keys, unexpected_keys).
        """
        return states.load_state_dict(self, state_dict, strict, assign)

    # ---- modes -----------------------------------------------------------------------------------

    def train(self, mode=True):
        """Switches training behaviour (dropout, batch statistics) on or off, here and in all modules inside; returns the module."""
        for module in self.modules():
            module.__dict__["training"] = bool(mode)
        return self

    def eval(self):
        """The same as ``train(False)``."""
        return self.train(False)

    def requires_grad_(self, requires_grad=True):
        """Says for all parameters whether gradients are computed; returns the module."""
        for p in self.parameters():
            p.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none=True):
        """Clears the gradients of all parameters."""
        for p in self.parameters():
            if p.grad is not None:
                if set_to_none:
                    p.grad = None
                else:
                    p.grad.zero_()

    def apply(self, fn):
        """Calls ``fn(module)`` for all modules inside, inner ones first, then this one; returns the module."""
        for module in reversed(list(self.modules())):
            fn(module)
        return self

    # ---- moving -----------------------------------------------------------------------------------

    def to(self, *args, device=None, dtype=None):
        """Moves parameters and buffers, in place, to a device and/or a floating-point dtype; returns the module.

        They stay the same handles and leaves, with their gradients, ties and the states of their optimizers. Values that were
        not read yet are made on the new device only.
        """
        for a in args:
            if isinstance(a, Tensor):
                device, dtype = a.device, a.dtype
            elif moving.is_dtype(a):
                dtype = a
            elif a is not None:
                device = a
        moving.move(self, device, dtype)
        return self

    def to_empty(self, *, device):
        """Moves the module without its values: parameters and buffers are uninitialised there; returns the module."""
        moving.move(self, device, None, values=False)
        return self

    def fork(self, device=None):
        """An independent copy of the module on a device: fresh leaves with the same flags, no gradients."""
        return moving.fork(self, device)

    def cpu(self):
        """Moves the module to the CPU, in place."""
        return self.to("cpu")

    def metal(self):
        """Moves the module to Metal, in place."""
        return self.to("metal")

    def float(self):
        """Converts floating-point parameters and buffers to float32, in place."""
        return self.to(dtype="float32")

    def double(self):
        """Converts floating-point parameters and buffers to float64, in place."""
        return self.to(dtype="float64")

    def half(self):
        """Converts floating-point parameters and buffers to float16, in place."""
        return self.to(dtype="float16")

    def bfloat16(self):
        """Converts floating-point parameters and buffers to bfloat16, in place."""
        return self.to(dtype="bfloat16")

    def type(self, dtype):
        """Converts floating-point parameters and buffers, in place."""
        return self.to(dtype=dtype)

    # ---- hooks --------------------------------------------------------------------------------------

    def _hook_lists(self):
        if self._hooks is None:
            self.__dict__["_hooks"] = _hooks.Hooks()
        return self._hooks

    def register_forward_pre_hook(self, hook, *, prepend=False, with_kwargs=False):
        """Calls ``hook(module, args)`` before forward (``hook(module, args, kwargs)`` with_kwargs); what it returns, if not None,
        takes the place of args. Returns a handle with ``remove()``."""
        return _hooks.Handle(self._hook_lists().before, hook, prepend, with_kwargs)

    def register_forward_hook(self, hook, *, prepend=False, with_kwargs=False, always_call=False):
        """Calls ``hook(module, args, output)`` after forward; what it returns, if not None, takes the place of the output."""
        return _hooks.Handle(self._hook_lists().after, hook, prepend, with_kwargs, always_call)

    def register_full_backward_pre_hook(self, hook, prepend=False):
        """Calls ``hook(module, grad_output)`` when the gradients of the outputs are known; it may return others."""
        return _hooks.Handle(self._hook_lists().before_backward, hook, prepend)

    def register_full_backward_hook(self, hook, prepend=False):
        """Calls ``hook(module, grad_input, grad_output)`` when the gradients of the tensor arguments are known; it may return
        others for grad_input."""
        return _hooks.Handle(self._hook_lists().backward, hook, prepend)

    def register_state_dict_post_hook(self, hook):
        """Calls ``hook(module, state_dict, prefix)`` when the module's entries have been added."""
        return _hooks.Handle(self._hook_lists().saved, hook)

    def register_load_state_dict_pre_hook(self, hook):
        """Calls ``hook(module, state_dict, prefix)`` with a copy of the dictionary before it is checked: keys may be renamed."""
        return _hooks.Handle(self._hook_lists().loading, hook)

    def register_load_state_dict_post_hook(self, hook):
        """Calls ``hook(module, incompatible_keys)`` after loading."""
        return _hooks.Handle(self._hook_lists().loaded, hook)

    # ---- text ---------------------------------------------------------------------------------------

    def _get_name(self):
        return type(self).__name__

    def extra_repr(self):
        """What stands in the brackets of the module's text."""
        return ""

    def __repr__(self):
        extra = self.extra_repr()
        inner = [f"({name}): " + repr(m).replace("\n", "\n  ") for name, m in self._own(MODULE)]
        if not inner:
            return f"{self._get_name()}({extra})"
        lines = (extra.split("\n") if extra else []) + inner
        return f"{self._get_name()}(\n  " + "\n  ".join(lines) + "\n)"

    def summary(self):
        """A table of parameters and buffers, with shape, dtype, device, requires_grad and is_leaf, and their number.

        >>> import tensorx as tx
        >>> print(tx.nn.Linear(3, 2).summary())
        Linear
        name    shape   dtype    device  requires_grad  is_leaf
        weight  (2, 3)  float32  cpu     True           True
        bias    (2,)    float32  cpu     True           True
        2 parameters with 8 elements (32 bytes), 8 of them trained; 0 buffers
        """
        return states.Summary(self)

    def __dir__(self):
        return sorted(set(object.__dir__(self)) | set(self.__dict__))

    def __setstate__(self, state):
        self.__dict__.update(state)

    def _error(self, text):
        """The error of an input that does not fit, with the module's name."""
        from tensorx.errors import ShapeError

        return ShapeError(f"{self._get_name()}: {text}")


def parameter_name(module, p):
    """The dotted name of a parameter in a module, for messages; None where it is not there."""
    for name, q in module.named_parameters(remove_duplicate=False):
        if q is p:
            return name
    return None


def check_one_device(module):
    """DeviceMismatchError where the parameters and buffers are not on one device."""
    from tensorx.errors import DeviceMismatchError

    first = None
    for name, t in (*module.named_parameters(), *module.named_buffers()):
        if first is None:
            first = name, t.device
        elif t.device is not first[1]:
            raise DeviceMismatchError(
                f"{type(module).__name__}: {first[0]} is on {first[1]} and {name} on {t.device}; move the whole module with .to({str(first[1])!r})"
            )


