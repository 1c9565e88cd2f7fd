"""Modules that hold modules or parameters."""

from __future__ import annotations

from tensorx._core import Tensor
from tensorx.nn.module import Module
from tensorx.nn.parameter import Parameter

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


class _Numbered(Module):
    """Entries by position, named "0", "1", ..."""

    def __len__(self):
        return len(self._names)

    def _position(self, index):
        n = len(self)
        at = index.__index__()
        if not -n <= at < n:
            raise IndexError(f"{type(self).__name__}: index {at} is out of range for {n} entries")
        return str(at % n)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return self._like(list(self)[index])
        return self.__dict__[self._position(index)]

    def __setitem__(self, index, value):
        setattr(self, self._position(index), self._entry(value))

    def __delitem__(self, index):
        kept = list(self)
        if not isinstance(index, slice):
            self._position(index)
        del kept[index]
        self._renew(kept)

    def _renew(self, entries):
        for name in list(self._names):
            delattr(self, name)
        for k, value in enumerate(entries):
            setattr(self, str(k), value)

    def __iter__(self):
        return iter([self.__dict__[name] for name in self._names])

    def __contains__(self, value):
        return any(v is value for v in self)

    def append(self, value):
        """Adds an entry at the end; returns the container."""
        setattr(self, str(len(self)), self._entry(value))
        return self

    def extend(self, values):
        """Adds several entries; returns the container."""
        for value in list(values):
            self.append(value)
        return self

    def insert(self, index, value):
        """Adds an entry before a position."""
        entries = list(self)
        entries.insert(index, self._entry(value))
        self._renew(entries)
        return self

    def pop(self, index=-1):
        """Takes an entry out and returns it."""
        value = self[index]
        del self[index]
        return value

    def __iadd__(self, values):
        return self.extend(values)

    def __add__(self, values):
        return self._like([*self, *values])

    def _like(self, entries):
        out = type(self)()
        out.extend(entries)
        return out


def _check_module(owner, value):
    if not isinstance(value, Module):
        raise TypeError(f"{type(owner).__name__}: entries are modules, got {type(value).__name__}")
    return value


class Sequential(_Numbered):
    """Modules that are called one after the other; from arguments or from a dictionary that names them.

    >>> import tensorx as tx
    >>> net = tx.nn.Sequential(tx.nn.Linear(4, 3), tx.nn.ReLU(), tx.nn.Linear(3, 2))
    >>> net(tx.ones((5, 4))).shape
    (5, 2)
    """

    def __init__(self, *args):
        super().__init__()
        if len(args) == 1 and isinstance(args[0], dict):
            for name, module in args[0].items():
                self.add_module(name, _check_module(self, module))
        else:
            for k, module in enumerate(args):
                setattr(self, str(k), _check_module(self, module))

    def _entry(self, value):
        return _check_module(self, value)

    def _position(self, index):
        at = super()._position(index)
        return list(self._names)[int(at)]

    def _renew(self, entries):
        names = list(self._names)
        if all(name.isdigit() for name in names):
            super()._renew(entries)
            return
        by_id = {id(self.__dict__[name]): name for name in names}
        for name in names:
            delattr(self, name)
        for k, value in enumerate(entries):
            setattr(self, by_id.get(id(value), str(k)), value)

    def _like(self, entries):
        names = {id(self.__dict__[name]): name for name in self._names}
        if entries and not all(name.isdigit() for name in self._names) and all(id(e) in names for e in entries):
            return Sequential({names[id(e)]: e for e in entries})
        return Sequential(*entries)

    def forward(self, input):
        for module in self:
            input = module(input)
        return input


class ModuleList(_Numbered):
    """A list of modules; calling is left to the owner."""

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def _entry(self, value):
        return _check_module(self, value)


class ParameterList(_Numbered):
    """A list of parameters; tensors become parameters."""

    def __init__(self, values=None):
        super().__init__()
        if values is not None:
            self.extend(values)

    def _entry(self, value):
        if not isinstance(value, Tensor):
            raise TypeError(f"ParameterList: entries are tensors, got {type(value).__name__}")
        return value if isinstance(value, Parameter) else Parameter(value)

    def extra_repr(self):
        return "\n".join(f"({k}): Parameter of shape {p.shape}" for k, p in enumerate(self))


class _Named(Module):
    """Entries by name."""

    def __getitem__(self, key):
        if key not in self._names:
            raise KeyError(f"{type(self).__name__}: no entry {key!r}; it has {', '.join(self._names) or 'none'}")
        return self.__dict__[key]

    def __setitem__(self, key, value):
        value = self._entry(value)
        if key not in self._names:
            self._register(key, value, self._kind)
        else:
            setattr(self, key, value)

    def __delitem__(self, key):
        self[key]
        delattr(self, key)

    def __len__(self):
        return len(self._names)

    def __iter__(self):
        return iter(list(self._names))

    def __contains__(self, key):
        return key in self._names

    def keys(self):
        """The names."""
        return list(self._names)

    def values(self):
        """The entries."""
        return [self.__dict__[name] for name in self._names]

    def items(self):
        """(name, entry) pairs."""
        return [(name, self.__dict__[name]) for name in self._names]

    def update(self, entries):
        """Adds or replaces entries from a dictionary or pairs."""
        for key, value in entries.items() if hasattr(entries, "items") else entries:
            self[key] = value

    def pop(self, key):
        """Takes an entry out and returns it."""
        value = self[key]
        del self[key]
        return value

    def clear(self):
        """Takes all entries out."""
        for key in self.keys():
            del self[key]


class ModuleDict(_Named):
    """Modules by name; calling is left to the owner."""

    _kind = "module"

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def _entry(self, value):
        return _check_module(self, value)


class ParameterDict(_Named):
    """Parameters by name; tensors become parameters."""

    _kind = "parameter"

    def __init__(self, parameters=None):
        super().__init__()
        if parameters is not None:
            self.update(parameters)

    def _entry(self, value):
        if isinstance(value, Parameter):
            return value
        if not isinstance(value, Tensor):
            raise TypeError(f"ParameterDict: entries are tensors, got {type(value).__name__}")
        return Parameter(value)

    def extra_repr(self):
        return "\n".join(f"({name}): Parameter of shape {p.shape}" for name, p in self.items())
