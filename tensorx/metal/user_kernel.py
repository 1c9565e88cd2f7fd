"""Metal kernels of one's own, from MSL text, for tensors on a Metal device."""

from __future__ import annotations

import math
import re
import struct
import threading

from tensorx import _core
from tensorx._core import Tensor
from tensorx.errors import DeviceMismatchError, DTypeError, MetalError

from . import codegen, launch
from .bridge import READ, WRITE, Binding

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class MetalKernel:
    """A function in MSL; see :func:`tensorx.metal.kernel`."""

    def __init__(self, source, args, writes, name, header, elementwise):
        self.source = source
        self.args = tuple(a.strip() for a in args.split(",")) if isinstance(args, str) else tuple(args)
        writes = self.args[:1] if writes is None else ((writes,) if isinstance(writes, str) else tuple(writes))
        self.writes = frozenset(writes)
        self.name = name
        self.header = header
        self.elementwise = elementwise
        self._texts: dict = {}
        self._lock = threading.Lock()
        for a in self.args:
            if not _NAME.match(a):
                raise ValueError(f"metal.kernel {name!r}: argument {a!r} is no name")
        if len(self.args) > 28:
            raise ValueError(f"metal.kernel {name!r}: at most 28 arguments, got {len(self.args)}")
        if not self.writes <= set(self.args) or not self.writes:
            raise ValueError(f"metal.kernel {name!r}: writes {sorted(self.writes)} must be among the arguments {self.args}")

    def __repr__(self):
        return f"<metal kernel {self.name!r}: {', '.join(self.args)}>"

    def __call__(self, *args, grid=None, group=None):
        """Runs the kernel on tensors and Python numbers; returns what it writes (a tuple, where it writes several)."""
        written = [a for a, n in zip(args, self.args) if n in self.writes]
        tensors = [a for a in args if isinstance(a, Tensor)]
        hold = _core.hold(self.name, tuple(a.detach() for a in written if isinstance(a, Tensor)), ())
        try:
            self._launch(self.name, list(args), written[0] if written else None, grid, group)
        finally:
            hold.leave()
            for a in written:
                if isinstance(a, Tensor):
                    _core.wrote(a, self.name)
        del tensors
        return written[0] if len(written) == 1 else tuple(written)

    # ---- text

    def _text(self, kinds, ndim):
        """MSL for operands of these kinds: (dtype or "int"/"float" for numbers, layout)."""
        key = (kinds, ndim)
        with self._lock:
            text = self._texts.get(key)
            if text is None:
                text = self._texts[key] = self._make(kinds, ndim)
            return text

    def _make(self, kinds, ndim):
        params, lines, loads, stores = [], [], [], []
        used = set()
        slots = sum(1 for dtype, layout in kinds if layout != "number")
        args = codegen.Arguments("count")
        dims = [args.word(f"size{d}") for d in range(ndim)] if self.elementwise else []
        strided = []
        slot = 0
        for name, (dtype, layout) in zip(self.args, kinds):
            if layout == "number":
                continue
            kind = codegen.STORAGE[dtype]
            used.add(dtype)
            const = "" if name in self.writes else "const "
            params.append(f"device {const}{kind} *{name}_buffer [[buffer({slot})]]")
            if self.elementwise:
                lines.append(f"device {const}{kind} *{name}_at = {name}_buffer + off[{slot}];")
                at = {"linear": "i", "one": "0", "strided": f"o_{name}"}[layout]
                if layout == "strided":
                    strided.append((f"o_{name}", [args.word(f"stride_{name}_{d}") for d in range(ndim)]))
                loads.append(f"{const}{codegen.REGISTER[dtype]} {name} = {codegen.load_text(f'{name}_at', at, dtype)};")
                if const == "":
                    stores.append(f"{name}_at[{at}] = {codegen.store_text(name, dtype)};")
            else:
                lines.append(f"device {const}{kind} *{name} = {name}_buffer + off[{slot}];")
                lines.append(f"const uint {name}_size = uint({args.word(f'size_{name}')});")
            slot += 1
        for name, (dtype, layout) in zip(self.args, kinds):
            if layout == "number":
                word = args.word(f"number_{name}")
                lines.append(f"const float {name} = as_type<float>(uint({word}));" if dtype == "float" else f"const long {name} = long({word});")
        params.append(f"constant long *off [[buffer({slots})]]")
        params.append(f"constant ulong *arg [[buffer({slots + 1})]]")
        if self.elementwise:
            params += ["uint thread_number [[thread_position_in_grid]]", "uint thread_total [[threads_per_grid]]"]
            body = codegen.unravel_lines(dims, strided, "i", True) if strided else []
            inner = "\n".join([*body, *loads, self.source.rstrip().rstrip(";") + ";", *stores])
            core = f"for (ulong i = thread_number; i < ulong({args.word('count')}); i += thread_total) {{\n{inner}\n}}"
        else:
            params += [
                "uint3 tid [[thread_position_in_grid]]", "uint3 tg [[threadgroup_position_in_grid]]",
                "uint lane [[thread_index_in_threadgroup]]", "uint3 group [[threads_per_threadgroup]]",
            ]  # fmt: skip
            lines.append("const uint3 threads = uint3(" + ", ".join(f"uint({args.word(f'grid{d}')})" for d in range(3)) + ");")
            if "_barrier" not in self.source:  # whole threadgroups are launched; at a barrier all threads must arrive
                lines.append("if (tid.x >= threads.x || tid.y >= threads.y || tid.z >= threads.z) return;")
            core = self.source
        function = "custom_" + re.sub(r"[^A-Za-z0-9_]", "_", self.name)
        text = f"{self.header}\nkernel void {function}({', '.join(params)})\n{{\n" + "\n".join(lines) + f"\n{core}\n}}\n"
        return codegen.prelude(text, used) + "\n" + text, function

    # ---- launch

    def _launch(self, op, args, target, grid=None, group=None):
        """args[i] for self.args[i]; tensors on one Metal device. Strided tensors are read in place by an elementwise kernel,
        others are made dense for it, and what it writes is written back."""
        if len(args) != len(self.args):
            raise TypeError(f"{op}: the Metal kernel takes {len(self.args)} arguments ({', '.join(self.args)}), got {len(args)}")
        tensors = [a for a in args if isinstance(a, Tensor)]
        if not tensors or not isinstance(target, Tensor):
            raise TypeError(f"{op}: the Metal kernel writes {', '.join(sorted(self.writes))}, a tensor; got none")
        device = target.device
        backs = []
        for k, (a, name) in enumerate(zip(args, self.args)):
            if not isinstance(a, Tensor):
                if name in self.writes or not isinstance(a, (int, float)):
                    raise TypeError(f"{op}: argument {name!r} of the Metal kernel is a {type(a).__name__}")
                continue
            if a.device is not device or device.type != "metal":
                raise DeviceMismatchError(f"{op}: argument {name!r} is on {a.device}; the Metal kernel runs on {device if device.type == 'metal' else 'metal'}")
            if a.dtype.name not in codegen.STORAGE:
                raise DTypeError(f"{op}: argument {name!r} is {a.dtype.name}, which Metal does not have")
            if self.elementwise:
                if a.shape != target.shape:
                    if name in self.writes:
                        raise ValueError(f"{op}: an elementwise kernel writes tensors of one shape, got {a.shape} and {target.shape}")
                    args[k] = _core.broadcast_view(a, target.shape)
            elif not _core.is_c_contiguous(a):
                dense = _core.copy_for(a, "made contiguous for a Metal kernel")
                if not _core.is_c_contiguous(dense):
                    dense = _core.empty(a.shape, a.dtype, device.number)
                    _core.write_value(dense, a, op)
                if name in self.writes:
                    backs.append((a, dense))
                args[k] = dense
        count = target.size
        if count == 0 or (grid is not None and 0 in tuple(grid)):
            return
        arrays, kinds, shared = [], [], False
        for a in args:
            if isinstance(a, Tensor):
                handle, offset, outside = _core.device_buffer(a)
                shared |= outside
                arrays.append(launch.Array(handle, a.dtype.name, a.shape, a.strides, offset))
        words = [count]
        if self.elementwise:
            dims, steps = launch.collapse(target.shape, [a.strides for a in arrays])
            classes = [launch.layout_class(dims, s) for s in steps]
            layouts = iter("linear" if c == launch.LINEAR else "one" if c == launch.ONE else "strided" for c in classes)
            ndim = len(dims) if any(c == launch.STRIDED for c in classes) else 0
            words += dims[:ndim]
            for c, s in zip(classes, steps):
                if c == launch.STRIDED:
                    words += s
            grid, ndims = (launch.thread_count(count),), ndim
        else:
            layouts = iter(["linear"] * len(arrays))
            words += [a.size for a in arrays]
            grid, ndims = (count,) if grid is None else tuple(int(n) for n in grid), 0
        for a in args:
            if isinstance(a, Tensor):
                kinds.append((a.dtype.name, next(layouts)))
            elif isinstance(a, float):
                kinds.append(("float", "number"))
                words.append(int.from_bytes(struct.pack("<f", a), "little"))
            else:
                kinds.append(("int", "number"))
                words.append(int(a))
        if not self.elementwise:
            words += [*grid, 1, 1][:3]
        text, function = self._text(tuple(kinds), ndims)
        inst = device.backend.inst
        try:
            kernel = inst.kernel(text, function)
        except MetalError as error:
            raise MetalError(f"{op}: the Metal kernel does not compile: {error}") from None
        bindings = []
        it = iter(arrays)
        for a, name in zip(args, self.args):
            if isinstance(a, Tensor):
                array = next(it)
                access = READ | WRITE if name in self.writes else READ
                bindings.append(Binding(array.buffer, codegen.ITEM_BYTES[array.dtype], access, array.offset))
        stamp = inst.encode(
            kernel, bindings, grid, launch.words(*words), group=tuple(group) if group else (0, 0, 0), ops=math.prod(grid), label=op
        )
        if shared:  # the host may look at any time
            inst.wait(stamp)
        for a, dense in backs:
            _core.write_value(a, dense, op)
