"""Modules whose shapes are found at the first call."""

from __future__ import annotations

from tensorx import _core
from tensorx.nn import init
from tensorx.nn.parameter import UninitializedParameter


class LazyModule:
    """Mix-in, before the class that the module turns into at its first call (``_becomes``).

    ``_infer(*args)`` finds the shapes from the arguments of the first call. The parameters' handles stay the same, so an
    optimizer may be built before.
    """

    _becomes: type

    def _await(self, name, device, dtype):
        self.__dict__.pop(name, None)
        self._names.pop(name, None)
        self.register_parameter(name, UninitializedParameter(True, device, dtype))
        self.__dict__.setdefault("_uninitialized", []).append(name)

    def _await_buffer(self, name, value):
        self.register_buffer(name, value)
        self.__dict__.setdefault("_uninitialized", []).append(name)

    def _infer(self, *args):
        raise TypeError(f"{type(self).__name__}: _infer is not defined")

    def _materialize(self, name, shape):
        """The awaited parameter gets its shape; the last one makes the module an ordinary one."""
        t = self.__dict__[name]
        token = _core._grad_mode.set(False)
        try:
            _core.retarget(t, _core.lazy(tuple(shape), t.dtype, t.device.number, init._Constant(0)))
        finally:
            _core._grad_mode.reset(token)
        self._uninitialized.remove(name)
        if not self._uninitialized:
            self._ready()

    def _ready(self):
        del self.__dict__["_uninitialized"]
        self.__class__ = self._becomes
        shape = getattr(self, "weight", None)
        if shape is not None and hasattr(self, "_shapes_from_weight"):
            self._shapes_from_weight()

    def initialize_parameters(self, *args):
        """Finds the shapes from the arguments of a call and draws the starting values."""
        for name, shape in self._infer(*args).items():
            if name in self._uninitialized:
                self._materialize(name, shape)
                if "_uninitialized" not in self.__dict__:
                    break
        self.reset_parameters()

    def has_uninitialized_params(self):
        """Whether the first call is still to come."""
        return bool(self.__dict__.get("_uninitialized"))

    def reset_parameters(self):
        """Nothing before the first call."""
        if not self.has_uninitialized_params() and "_uninitialized" not in self.__dict__:
            super().reset_parameters()

    def __call__(self, *args, **kwargs):
        if self.has_uninitialized_params():
            self.initialize_parameters(*args)
            return self(*args, **kwargs)
        return super().__call__(*args, **kwargs)
