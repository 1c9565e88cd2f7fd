"""Random programs of ops, views, writes, exports and deletions, against NumPy.

Every handle has a NumPy twin that shares memory with other twins exactly where the tensors
must share storage. Values are compared bit for bit: the ops are those that IEEE 754 defines
exactly. As a command: ``python tests/fuzz.py --programs 200000 --seed 0`` (all cores:
``--jobs 2``); a failing seed is printed and can be replayed with ``--seed N --programs 1``.
"""

from __future__ import annotations

import argparse
import functools
import gc
import random
import sys
import threading

import numpy as np

import tensorx as tx

DTYPES = ["float32", "float32", "float32", "float64", "int32", "int64", "bool", "float16", "uint8", "complex64"]
SHAPES = [(), (1,), (3,), (4, 3), (2, 3, 4), (1, 3), (4, 1), (0, 3), (5,), (1030,), (33, 35), (2, 1, 4)]


@functools.cache
def second_instance():
    return str(tx.metal.open(0))


def together(x, y):
    """Whether y can be an operand beside x: values without axes follow the other's device."""
    return x.t.device is y.t.device or y.t.ndim == 0


class Handle:
    """A tensor and its twin."""

    __slots__ = ("a", "t")

    def __init__(self, t, a):
        self.t = t
        self.a = a


def twin(values, strides):
    """values in fresh memory with the given dense strides (in elements)."""
    values = np.asarray(values)
    order = sorted(range(values.ndim), key=lambda i: -strides[i] if values.shape[i] > 1 else 0)
    inner = [values.shape[i] for i in order]
    base = np.empty(inner, values.dtype)
    back = [order.index(i) for i in range(values.ndim)]
    out = base.transpose(back)
    out[...] = values
    return out


def same(t, a):
    got = np.asarray(memoryview(t.copy()))
    return got.shape == a.shape and got.dtype == a.dtype and got.tobytes() == np.ascontiguousarray(a).tobytes() or (
        got.shape == a.shape and got.dtype == a.dtype and equal_bits(got, a)
    )


def equal_bits(x, y):
    """Bit equality; NaNs of any payload are equal."""
    x, y = np.ascontiguousarray(x), np.ascontiguousarray(y)
    if x.dtype.kind == "c":
        return equal_bits(x.real, y.real) and equal_bits(x.imag, y.imag)
    if x.dtype.kind == "f":
        nan = np.isnan(x)
        if not np.array_equal(nan, np.isnan(y)):
            return False
        u = f"u{x.dtype.itemsize}"
        return np.array_equal(x.view(u)[~nan], y.view(u)[~nan])
    return np.array_equal(x, y)


class Program:
    def __init__(self, seed, device="cpu", steps=None):
        self.r = random.Random(seed)
        self.np = np.random.default_rng(seed)
        self.device = device
        self.metal = device != "cpu"
        # on metal, values move between the CPU and two instances of the GPU
        self.places = [device, "cpu", second_instance()] if self.metal else [device]
        self.h = []
        self.exports = []  # (numpy view of a tensor, twin)
        self.log = []
        self.steps = steps or self.r.choice([5, 10, 20, 40, 80])
        self.big = self.r.random() < 0.05

    # ---- values ------------------------------------------------------------------

    def random_array(self, shape=None, dtype=None):
        shape = self.r.choice(SHAPES) if shape is None else shape
        if self.big and shape == (1030,):
            shape = (70000,)
        dtype = dtype or self.r.choice(DTYPES)
        if self.metal and dtype == "float64":
            dtype = "float32"
        kind = np.dtype(dtype).kind
        if kind == "b":
            return np.asarray(self.np.random(shape) < 0.5)
        if kind in "iu":
            return np.asarray(self.np.integers(0, 50, shape)).astype(dtype)
        a = self.np.normal(size=shape)
        if kind == "c":
            a = a + 1j * self.np.normal(size=shape)
        elif self.r.random() < 0.1 and a.size:
            a = np.asarray(a)
            a.reshape(-1)[self.np.integers(a.size)] = self.r.choice([np.nan, np.inf, -np.inf, -0.0])
        return np.asarray(a).astype(dtype)

    def new(self, shape=None, dtype=None):
        a = self.random_array(shape, dtype)
        t = tx.asarray(a, device=self.r.choice(self.places))
        self.add(t, twin(a, t.strides))

    def add(self, t, a):
        self.h.append(Handle(t, a))
        if len(self.h) > 14:
            del self.h[self.r.randrange(len(self.h))]

    def pick(self, test=None):
        pool = [h for h in self.h if test is None or test(h)]
        return self.r.choice(pool) if pool else None

    def partner(self, h):
        """A handle that broadcasts with h and has its dtype; or a number."""
        if self.r.random() < 0.35:
            k = h.a.dtype.kind
            if k == "b":
                return self.r.random() < 0.5
            return self.r.choice([0, 1, 2, 3]) if k in "iu" or self.r.random() < 0.3 else self.r.choice([0.5, 2.0, -1.5, 0.0])
        fits = []
        for o in self.h:
            if o.a.dtype == h.a.dtype and together(h, o):
                try:
                    shape = np.broadcast_shapes(o.a.shape, h.a.shape)
                except ValueError:
                    continue
                if np.prod(shape, dtype=np.int64) <= max(200000, h.a.size):
                    fits.append(o)
        return self.r.choice(fits)

    # ---- steps -----------------------------------------------------------------------

    def step(self):
        if not self.h or self.r.random() < 0.08:
            self.new()
        name = self.r.choice(STEPS)
        self.log.append(name)
        getattr(self, "do_" + name)()

    def values(self, o, like):
        return o.a if isinstance(o, Handle) else like.dtype.type(o)

    def do_binary(self):
        h = self.pick()
        o = self.partner(h)
        k = h.a.dtype.kind
        ops = ["add", "multiply", "maximum", "minimum"] if k != "c" else ["add", "subtract"]
        if k not in "b":
            ops += ["subtract"]
        if k == "f":
            ops += ["divide"]
        if k in "iu":
            ops += ["floor_divide", "remainder"]
        if k in "biu":
            ops += ["bitwise_and", "bitwise_xor"]
        if k != "c":
            ops += ["less", "equal", "greater_equal"]
        op = self.r.choice(ops)
        a, b = h.a, self.values(o, h.a)
        ta, tb = h.t, o.t if isinstance(o, Handle) else o
        if self.r.random() < 0.3:
            a, b, ta, tb = b, a, tb, ta
        with np.errstate(all="ignore"):
            v = getattr(np, op)(a, b)
            if k in "iu" and op in ("floor_divide", "remainder"):
                v = np.where(np.broadcast_to(b, v.shape) == 0, 0, v).astype(v.dtype)
        t = getattr(tx, op)(ta, tb)
        if op in ("maximum", "minimum") and k == "f":
            t, v = t + 0.0, v + v.dtype.type(0)  # which zero wins is not defined
        self.add(t, twin(np.asarray(v), t.strides))

    def do_unary(self):
        h = self.pick(lambda h: h.a.dtype.kind != "b")
        if h is None:
            return
        op = self.r.choice(["negative", "abs", "square", "positive"] if h.a.dtype.kind in "iuf" else ["negative", "conj"])
        with np.errstate(all="ignore"):
            v = getattr(np, op)(h.a)
        t = getattr(tx, op)(h.t)
        self.add(t, twin(np.asarray(v, dtype=v.dtype), t.strides))

    def do_where(self):
        h = self.pick()
        o = self.partner(h)
        c = self.pick(lambda c: c.a.dtype == bool and self.fits(c, h))
        if c is None or not isinstance(o, Handle) or not self.fits(c, o) or not together(h, c):
            return
        v = np.where(c.a, h.a, o.a)
        t = tx.where(c.t, h.t, o.t)
        self.add(t, twin(v, t.strides))

    @staticmethod
    def fits(x, y):
        if not together(x, y):
            return False
        try:
            shape = np.broadcast_shapes(x.a.shape, y.a.shape)
        except ValueError:
            return False
        return np.prod(shape, dtype=np.int64) <= 200000

    def do_cast(self):
        h = self.pick(lambda h: h.a.dtype.kind in "biuf" and bool(np.isfinite(h.a).all()))
        if h is None:
            return
        small = all(abs(v) < 1e6 for v in h.a.reshape(-1).tolist())
        d = self.r.choice(["float32", "float16" if self.metal else "float64", "float16", "bool"] + (["int32", "int64"] if small else []))
        with np.errstate(all="ignore"):
            v = h.a.astype(d)
        t = h.t.astype(d)
        self.add(t, twin(v, t.strides))

    def do_copy(self):
        h = self.pick()
        t = self.r.choice([h.t.copy, h.t.clone, lambda: h.t.to(h.t.device), lambda: h.t.astype(h.t.dtype)])()
        self.add(t, twin(h.a, t.strides))

    def do_move(self):
        h = self.pick()
        t = h.t.to(self.r.choice(self.places))
        self.add(t, twin(h.a, t.strides))

    def do_alias(self):
        h = self.pick()
        self.add(self.r.choice([h.t.alias, h.t.detach])(), h.a)

    def do_rebind(self):
        """The plain spelling x = x * a + b: the old value dies, its memory may be reused."""
        h = self.pick(lambda h: h.a.dtype.kind in "f")
        if h is None:
            return
        for _ in range(self.r.choice([1, 2, 3, 60])):
            with np.errstate(all="ignore"):
                v = h.a * h.a.dtype.type(0.5) + h.a.dtype.type(0.25)
            h.t = h.t * 0.5 + 0.25
            h.a = twin(v, h.t.strides)

    def index(self, a):
        out = []
        for s in a.shape:
            kind = self.r.random()
            if kind < 0.2 and s > 0:
                out.append(self.r.randrange(-s, s))
            elif kind < 0.9:
                step = self.r.choice([1, 1, 2, -1, -2])
                lo, hi = self.r.randrange(-s - 1, s + 2), self.r.randrange(-s - 1, s + 2)
                out.append(slice(*self.r.choice([(None, None, step), (lo, hi, step), (lo, None, step), (None, hi, step)])))
            else:
                out.append(slice(None))
        if self.r.random() < 0.2:
            out.insert(self.r.randrange(len(out) + 1), None)
        return tuple(out)

    def do_view(self):
        h = self.pick()
        i = self.index(h.a)
        self.add(h.t[i], h.a[i + (Ellipsis,)])

    def do_transpose(self):
        h = self.pick()
        axes = list(range(h.a.ndim))
        self.r.shuffle(axes)
        self.add(tx.permute_dims(h.t, tuple(axes)), h.a.transpose(axes))

    def do_reshape(self):
        h = self.pick(lambda h: h.a.size > 0)
        if h is None:
            return
        n = h.a.size
        d = [k for k in range(1, n + 1) if n % k == 0] if n < 2000 else [k for k in (1, 2, 3, n) if n % k == 0]
        k = self.r.choice(d)
        shape = self.r.choice([(n,), (k, n // k), (1, n), (k, 1, n // k)])
        t = tx.reshape(h.t, shape)
        a = h.a.reshape(shape)
        if not np.shares_memory(a, h.a):
            a = twin(a, t.strides)
        self.add(t, a)

    def do_flip_back(self):
        h = self.pick()
        self.add(tx.flip(h.t), h.a[(slice(None, None, -1),) * h.a.ndim + (Ellipsis,)])

    def do_expand(self):
        h = self.pick(lambda h: h.a.size < 4000 and h.a.ndim < 6)
        if h is None:
            return
        shape = (2, *h.a.shape)
        self.add(tx.broadcast_to(h.t, shape), np.lib.stride_tricks.as_strided(h.a, shape, (0, *h.a.strides)))

    @staticmethod
    def writable(h):
        return h.a.size == 0 or not any(s == 0 and n > 1 for s, n in zip(h.a.strides, h.a.shape))

    def write(self, a, v):
        """a[...] = v as if v was computed first."""
        a[...] = np.array(v)

    def do_inplace(self):
        h = self.pick(lambda h: h.a.dtype.kind != "b" and self.writable(h))
        if h is None:
            return
        o = self.partner(h)
        b = self.values(o, h.a)
        if np.broadcast_shapes(np.shape(b), h.a.shape) != h.a.shape:
            before = h.a.copy()
            try:
                h.t.add_(o.t)
            except tx.ShapeError:
                assert same(h.t, before)
                return
            raise AssertionError("an in-place op changed a shape")
        op = self.r.choice(["add", "subtract", "multiply"] if h.a.dtype.kind != "c" else ["add", "subtract"])
        with np.errstate(all="ignore"):
            v = getattr(np, op)(h.a, b)
        getattr(h.t, op + "_")(o.t if isinstance(o, Handle) else o)
        self.write(h.a, v)

    def do_copy_(self):
        h = self.pick(self.writable)
        if h is None:
            return
        o = self.partner(h)
        b = self.values(o, h.a)
        try:
            v = np.array(np.broadcast_to(b, h.a.shape))
        except ValueError:
            return
        if isinstance(o, Handle) and o.a.dtype.kind == "f" and self.r.random() < 0.5:
            with np.errstate(all="ignore"):
                v = v * v.dtype.type(0.5)
            h.t.copy_(o.t * 0.5)
        else:
            h.t.copy_(o.t if isinstance(o, Handle) else o)
        self.write(h.a, v)

    def do_setitem(self):
        h = self.pick(self.writable)
        if h is None:
            return
        i, j = self.index(h.a), self.index(h.a)
        a, b = h.a[i + (Ellipsis,)], h.a[j + (Ellipsis,)]
        if self.r.random() < 0.5 or b.shape != a.shape or h.a.dtype.kind != "f":
            x = self.r.choice([0, 1])
            h.t[i] = bool(x) if h.a.dtype == bool else x
            self.write(a, h.a.dtype.type(x))
        else:
            with np.errstate(all="ignore"):
                v = b * b.dtype.type(2)
            h.t[i] = h.t[j] * 2
            self.write(a, v)

    def do_fill(self):
        h = self.pick(self.writable)
        if h is not None:
            h.t.zero_()
            self.write(h.a, h.a.dtype.type(0))

    def do_delete(self):
        if self.h:
            del self.h[self.r.randrange(len(self.h))]

    def do_export(self):
        h = self.pick()
        v = h.t.numpy()
        assert equal_bits(v, h.a), "export"
        if self.r.random() < 0.7:
            self.exports.append((v, h.a))
            if len(self.exports) > 3:
                del self.exports[0]

    def do_write_export(self):
        if not self.exports:
            return
        v, a = self.r.choice(self.exports)
        if v.size and v.flags.writeable and not any(s == 0 and n > 1 for s, n in zip(v.strides, v.shape)):
            x = v.dtype.type(self.r.choice([0, 1]))
            v[...] = x
            self.write(a, x)

    def do_drop_export(self):
        if self.exports:
            del self.exports[self.r.randrange(len(self.exports))]

    def do_from_numpy(self):
        a = self.random_array()
        self.add(tx.from_numpy(a), a)

    def do_eval(self):
        h = self.pick()
        tx.eval(h.t)

    def do_read(self):
        h = self.pick()
        assert same(h.t, h.a), f"read of {h.t.dtype} {h.t.shape} {h.t.strides}"

    def do_sum(self):
        h = self.pick(lambda h: h.a.dtype.kind in "iub" and h.a.size)
        if h is None:
            return
        axis = self.r.choice([None, *range(h.a.ndim)])
        axes = tuple(range(h.a.ndim)) if axis is None else (axis,)
        t = tx._core.reduce(0, h.t, axes, False)
        v = h.a.sum(axis=axis, dtype=np.uint64 if h.a.dtype.kind == "u" else np.int64)
        self.add(t, twin(np.asarray(v), t.strides))

    def do_max(self):
        h = self.pick(lambda h: h.a.dtype.kind in "if" and h.a.size)
        if h is None:
            return
        axis = self.r.choice([None, *range(h.a.ndim)])
        axes = tuple(range(h.a.ndim)) if axis is None else (axis,)
        x, a = h.t, h.a
        if self.r.random() < 0.5:
            x, a = x + x, a + a
        t = tx._core.reduce(2, x, axes, self.r.random() < 0.5 and False)
        # the sign of a zero maximum is not defined: compare values
        v = a.max(axis=axis)
        got = np.asarray(memoryview(t.copy()))
        assert got.shape == np.shape(v) and np.array_equal(got, v, equal_nan=True), "max"

    def do_bad(self):
        """Errors leave everything as it was."""
        h = self.pick(lambda h: h.a.ndim == 2 and h.a.shape[1] == 3)
        if h is None:
            return
        for call in (lambda: h.t + tx.ones((7,), dtype=h.t.dtype, device=h.t.device), lambda: h.t[10**7], lambda: h.t.reshape(h.a.size + 1)):
            try:
                call()
            except (tx.TensorxError, IndexError):
                pass
            else:
                raise AssertionError("no error")

    def do_thread(self):
        h = self.pick(lambda h: h.a.dtype.kind == "f")
        if h is None:
            return
        out = []
        th = threading.Thread(target=lambda: out.append((h.t * 2.0).copy()))
        th.start()
        th.join()
        with np.errstate(all="ignore"):
            v = h.a * h.a.dtype.type(2)
        self.add(out[0], twin(v, out[0].strides))

    def check(self):
        for k, h in enumerate(self.h):
            assert same(h.t, h.a), f"handle {k}: {h.t.dtype} {h.t.shape}:\n{h.t}\n{h.a}"
        for v, a in self.exports:
            assert equal_bits(v, a), "an export differs"

    def run(self):
        for _ in range(self.steps):
            self.step()
            if self.r.random() < 0.02:
                gc.collect()
        self.check()


STEPS = [name[3:] for name in dir(Program) if name.startswith("do_")]
STEPS += ["binary"] * 6 + ["rebind"] * 2 + ["delete"] * 3 + ["inplace"] * 2 + ["view", "copy_", "unary"]


def run(seed, device="cpu"):
    """Runs one program; raises with the seed and the steps on a difference."""
    p = Program(seed, device)
    try:
        p.run()
    except Exception as error:
        raise AssertionError(f"program {seed} on {device} differs after {len(p.log)} steps ({' '.join(p.log)}): {error!r}") from error


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep-going", action="store_true")
    args = parser.parse_args(argv)
    if args.jobs > 1:
        import subprocess

        share = -(-args.programs // args.jobs)
        children = [
            subprocess.Popen([sys.executable, __file__, "--programs", str(min(share, args.programs - k * share)),
                              "--seed", str(args.seed + k * share), "--device", args.device])
            for k in range(args.jobs)
        ]  # fmt: skip
        return max(c.wait() for c in children)
    bad = 0
    for k in range(args.programs):
        try:
            run(args.seed + k, args.device)
        except AssertionError as error:
            bad += 1
            print(error, flush=True)
            if not args.keep_going:
                break
    left = tx._core.storage_count()
    print(f"{k + 1} programs from seed {args.seed} on {args.device}: {bad} with a difference; {left} storages left alive")
    return 1 if bad or left else 0


if __name__ == "__main__":
    sys.exit(main())
