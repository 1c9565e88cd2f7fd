"""Makes einops know tensors. einops finds the library of an array by the array's type, among the backends that are defined when
it looks; ours is defined as soon as einops is imported, before or after tensorx, and never imports einops itself.

SciPy, scikit-learn and array-api-extra need nothing: they take any array whose ``__array_namespace__`` is the standard.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import sys


def define_einops_backend(backends):
    """Defines the class by which einops calls tensorx, in the module ``einops._backends``."""
    base = backends.AbstractBackend
    if any(c.framework_name == "tensorx" for c in base.__subclasses__()):
        return

    class TensorxBackend(base):
        framework_name = "tensorx"

        def __init__(self):
            import tensorx

            self.tx = tensorx

        def is_appropriate_type(self, tensor):
            return isinstance(tensor, self.tx.Tensor)

        def from_numpy(self, x):
            return self.tx.asarray(x)

        def to_numpy(self, x):
            return x.detach().numpy(copy=True)

        def arange(self, start, stop):
            return self.tx.arange(start, stop)

        def shape(self, x):
            return x.shape

        def reshape(self, x, shape):
            return self.tx.reshape(x, tuple(shape))

        def transpose(self, x, axes):
            return self.tx.permute_dims(x, tuple(axes))

        def reduce(self, x, operation, axes):
            return getattr(self.tx, operation)(x, axis=tuple(axes))

        def stack_on_zeroth_dimension(self, tensors):
            return self.tx.stack(tensors)

        def add_axis(self, x, new_position):
            return self.tx.expand_dims(x, new_position)

        def tile(self, x, repeats):
            return self.tx.tile(x, tuple(repeats))

        def concat(self, tensors, axis):
            return self.tx.concat(tensors, axis=axis)

        def is_float_type(self, x):
            return x.dtype.kind in "fc"

        def einsum(self, pattern, *x):
            return self.tx.einsum(pattern, *x)

    backends.TensorxBackend = TensorxBackend  # a class knows its subclasses by weak references only

class _EinopsFinder(importlib.abc.MetaPathFinder):
    """Waits for ``einops._backends`` to be imported, then defines the backend and is gone."""

    def find_spec(self, name, path=None, target=None):
        if name != "einops._backends":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                define_einops_backend(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def install():
    """Called once by tensorx: now if einops is there already, else when it comes."""
    backends = sys.modules.get("einops._backends")
    if backends is not None:
        define_einops_backend(backends)
    elif not any(isinstance(f, _EinopsFinder) for f in sys.meta_path):
        sys.meta_path.insert(0, _EinopsFinder())
