"""Who holds what: names for the objects that keep tensors alive.

The public face is :mod:`tensorx.memory` (``holders``, ``snapshot``, ``leaks``). Names are found from where Python
looks things up: live frames and generators first, then the modules of the program, then all others.
"""

from __future__ import annotations

import collections
import dis
import gc
import os
import sys
import sysconfig
import threading
import types

from tensorx import _core
from tensorx._core import Meta, Node, Tensor

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_STDLIB = sysconfig.get_paths()["stdlib"] + os.sep
_OPAQUE = (types.ModuleType, type, types.CodeType, types.BuiltinFunctionType, types.FrameType, str, bytes, int, float, complex, type(None))


def is_a(o, kinds):
    """isinstance by the type itself: asking a foreign object for its ``__class__`` can run code of its own."""
    return issubclass(type(o), kinds)


class Holder:
    """One thing that holds a storage: ``kind``, ``name`` and ``where`` (file:line), readable as text."""

    __slots__ = ("kind", "name", "where")

    def __init__(self, kind, name, where=None):
        self.kind = kind
        self.name = name
        self.where = where

    def __str__(self):
        return f"{self.kind} {self.name}".strip() + (f" ({self.where})" if self.where else "")

    def __repr__(self):
        return f"<{self}>"

    def __eq__(self, other):
        return is_a(other, Holder) and str(self) == str(other)

    def __hash__(self):
        return hash(str(self))


def assigned_line(code, name, lasti):
    """The line where a variable got its value: that of the last store before an instruction."""
    line, best = code.co_firstlineno, None
    for ins in dis.get_instructions(code):
        if ins.offset > lasti >= 0:
            break
        started = getattr(ins, "starts_line", None)
        if getattr(ins, "line_number", None) is not None:
            line = ins.line_number
        elif started is not None and started is not True and started is not False:
            line = started
        if ins.opname.startswith("STORE_") and (ins.argval == name or (is_a(ins.argval, tuple) and name in ins.argval)):
            best = line
    return best


def frames():
    """Every live frame outside tensorx: those of this thread first, innermost first."""
    starts = [sys._getframe().f_back]
    current = sys._current_frames()
    current.pop(threading.get_ident(), None)  # holds this very frame, and would so keep it alive
    starts += current.values()
    current.clear()
    while starts:
        f = starts.pop(0)
        while f is not None:
            if not f.f_code.co_filename.startswith(_OWN):
                yield f
            f = f.f_back


def _forget(f, scope):
    """Up to Python 3.12 a frame keeps the dictionary of locals that it was asked for, and with it old values: emptied, it keeps
    none (the variables themselves are elsewhere)."""
    if sys.version_info < (3, 13) and f.f_code.co_flags & 1 and type(scope) is dict and scope is not f.f_globals:
        scope.clear()


def _place(code, name, lasti, line):
    return f"{code.co_filename}:{assigned_line(code, name, lasti) or line}"


def local_names(wanted, found):
    """Adds to found the locals of live frames (and globals of their modules) whose value satisfies wanted(value)."""
    seen = set()
    for f in frames():
        code = f.f_code
        scope = f.f_locals
        top = scope is f.f_globals or code.co_name == "<module>"
        for name, value in list(scope.items()):
            if wanted(value):
                kind = "global" if top else "local"
                what = repr(name) if top else f"{name!r} of {code.co_name}"
                found.append((value, Holder(kind, what, _place(code, name, f.f_lasti, f.f_lineno))))
        value = None
        _forget(f, scope)
        if id(f.f_globals) not in seen:
            seen.add(id(f.f_globals))
            if not top:
                for name, value in list(f.f_globals.items()):
                    if wanted(value):
                        found.append((value, Holder("global", f"{name!r} of {f.f_globals.get('__name__')}")))
    return found


class Paths:
    """How objects are reached from names: one walk over the heap, shortest paths, names of the program first."""

    def __init__(self, skip=(), until=None, budget=3_000_000):
        self.until = None if until is None else set(until)  # identities of what is looked for: found, the walk ends
        self.parent = {}
        self.kept = []  # keeps what was made for the walk (dictionaries of locals) from being reused
        self.arrays = []
        queue = collections.deque()
        self._skip = {id(o) for o in skip} | {id(self), id(self.parent), id(queue), id(self.kept), id(self.arrays)}
        for label, scope in self._roots():
            self.kept.append(scope)
            self._skip.add(id(scope))
            for name, value in list(scope.items()):
                if type(name) is str and not name.startswith("__"):
                    self._reach(value, None, (label, name), queue)
        while queue and budget > 0 and self.until != set():
            o = queue.popleft()
            budget -= 1
            try:
                self._spread(o, queue)
            except Exception:  # an object of somebody's that cannot be looked into
                continue

    def _roots(self):
        for f in frames():
            code, lasti, line = f.f_code, f.f_lasti, f.f_lineno
            if code.co_name == "<module>":
                if id(f.f_globals) not in self._skip:
                    yield (lambda name, c=code, i=lasti, n=line: ("global", name, "", _place(c, name, i, n))), f.f_globals
                continue
            yield (lambda name, c=code, i=lasti, n=line: ("local", name, f" of {c.co_name}", _place(c, name, i, n))), _locals(f)
        generators = [o for o in gc.get_objects() if is_a(o, types.GeneratorType | types.CoroutineType)]
        for g in generators:
            f = g.gi_frame if is_a(g, types.GeneratorType) else g.cr_frame
            if f is not None and not f.f_code.co_filename.startswith(_OWN):
                code, lasti, line = f.f_code, f.f_lasti, f.f_lineno
                yield (lambda name, c=code, i=lasti, n=line: ("local", name, f" of generator {c.co_name}", _place(c, name, i, n))), _locals(f)
        modules = [(n, m) for n, m in list(sys.modules.items()) if is_a(m, types.ModuleType)]
        tops = {f.f_globals.get("__name__"): f for f in frames() if f.f_code.co_name == "<module>"}
        user = [(n, m) for n, m in modules if _is_users(m)]
        for n, m in user + [p for p in modules if p not in user and not p[0].startswith("tensorx")]:
            f = tops.get(n)
            suffix = "" if n == "__main__" else f" of {n}"
            if f is not None:
                code, lasti, line = f.f_code, f.f_lasti, f.f_lineno
                yield (lambda name, c=code, i=lasti, k=line, s=suffix: ("global", name, s, _place(c, name, i, k))), vars(m)
            else:
                file = getattr(m, "__file__", None) if _is_users(m) else None
                yield (lambda name, s=suffix, f=file: ("global", name, s, _place_in_source(f, name))), vars(m)

    def _reach(self, o, parent, label, queue):
        key = id(o)
        if key in self.parent or key in self._skip or is_a(o, _OPAQUE):
            return
        self.parent[key] = (parent, label, o)
        if self.until:
            self.until.discard(key)
        if hasattr(type(o), "__array_interface__") and type(o).__module__ == "numpy":
            self.arrays.append(o)
        queue.append(o)

    def _spread(self, o, queue):
        kind = type(o)
        if kind is dict or is_a(o, dict):
            for k, v in list(o.items()):
                self._reach(v, o, f"[{_short(k)}]", queue)
                self._reach(k, o, ".keys()", queue)
        elif is_a(o, list | tuple):
            for i, v in enumerate(list(o)):
                self._reach(v, o, f"[{i}]", queue)
        elif is_a(o, set | frozenset | collections.deque):
            for v in list(o):
                self._reach(v, o, "{...}" if not is_a(o, collections.deque) else "[...]", queue)
        elif is_a(o, types.FunctionType):
            for name, cell in zip(o.__code__.co_freevars, o.__closure__ or ()):
                try:
                    self._reach(cell.cell_contents, o, f".{name} (closure)", queue)
                except ValueError:
                    continue
            for v in o.__defaults__ or ():
                self._reach(v, o, " (default argument)", queue)
        elif is_a(o, types.MethodType):
            self._reach(o.__self__, o, ".__self__", queue)
        elif is_a(o, Tensor):
            for v in gc.get_referents(o):
                self._reach(v, o, ".grad" if is_a(v, Tensor) else " -> its graph", queue)
        elif is_a(o, Meta | Node):
            for v in gc.get_referents(o):
                self._reach(v, o, "", queue)
        else:
            own = getattr(o, "__dict__", None)
            if type(own) is dict:
                self._skip.add(id(own))
                self.kept.append(own)
                for k, v in list(own.items()):
                    self._reach(v, o, f".{k}", queue)
            for k, v in _slots(o):
                self._reach(v, o, f".{k}", queue)
            for v in gc.get_referents(o):
                if not is_a(v, _OPAQUE) and v is not own:
                    self._reach(v, o, " -> ", queue)

    def of(self, o):
        """The way to an object: (kind of variable, expression, suffix, file:line or None), or None."""
        labels, key = [], id(o)
        if key not in self.parent:
            return None
        while True:
            parent, label, _ = self.parent[key]
            if parent is None:
                kind, text, suffix, where = label[0](label[1])
                break
            labels.append(label)
            key = id(parent)
        for label in reversed(labels):
            if label in ("", " -> its graph"):
                return kind, text, suffix + " -> its graph", where
            text += label
        return kind, text, suffix, where

    def containers(self, o):
        """The objects on the way to o, outermost first."""
        out, key = [], id(o)
        while key in self.parent:
            parent, _, it = self.parent[key]
            out.append(it)
            if parent is None:
                break
            key = id(parent)
        return out[::-1]


def _place_in_source(file, name):
    """Where a finished module gave a global its value last, by its source."""
    import ast

    if file is None or not file.endswith(".py"):
        return None
    try:
        with open(file, encoding="utf-8") as f:
            tree = ast.parse(f.read())
    except (OSError, SyntaxError, ValueError):
        return None
    lines = [n.lineno for top in tree.body if not is_a(top, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
             for n in ast.walk(top) if is_a(n, ast.Name) and n.id == name and is_a(n.ctx, ast.Store)]  # fmt: skip
    return f"{file}:{max(lines)}" if lines else None


def with_article(name):
    """A name with its article."""
    return f"an {name}" if name[:1].lower() in "aeio" else f"a {name}"


def _short(k):
    if is_a(k, Tensor):
        return f"a tensor of shape {k.shape}"
    text = repr(k) if is_a(k, str | int | float | bytes | bool | tuple) else with_article(type(k).__name__)
    return text if len(text) <= 40 else text[:37] + "..."


def _is_users(m):
    if m.__name__ == "__main__":
        return True
    file = getattr(m, "__file__", None) or ""
    return bool(file) and not file.startswith((_STDLIB, _OWN)) and "site-packages" not in file and "dist-packages" not in file


def handles_of(serial):
    """The Tensor objects on a storage."""
    return [o for o in gc.get_objects() if type(o) is Tensor and _core.serial_of(o) == serial]


def holders(x):
    """Who holds the storage of x: variables of live frames, attributes, containers, closures, values saved for gradients, exports,
    values that are still to be computed from it. A list of Holder, whose texts name them.

    >>> import tensorx as tx
    >>> x = tx.ones(3)
    >>> kept = {"first": x[:1]}
    >>> for h in tx.memory.holders(x):
    ...     print(h)                                              # doctest: +ELLIPSIS
    global 'x'...
    global `kept['first']`...
    """
    from tensorx.autograd.tape import site_text

    if not is_a(x, Tensor):
        raise TypeError(f"holders: takes a tensor, got {type(x).__name__}")
    facts = _core.storage_facts(x)
    mine = handles_of(facts["serial"])
    out = _name_handles(mine, facts)
    for name, site in facts["saved"]:
        out.append(Holder("saved by", f"{name} for a gradient", site_text(site) if site else None))
    for name, site in facts["pending"]:
        out.append(Holder("to be read by", f"{name}, not computed yet", site_text(site) if site else None))
    if facts["foreign"]:
        out.append(Holder("memory of", "another library (NumPy, DLPack or a buffer)"))
    if facts["body"] is not None:
        name, _, site, thread = facts["body"]
        out.append(Holder("in use by", f"the custom op {name!r} in thread {thread!r}", site_text(site) if site else None))
    return list(dict.fromkeys(out))


def _name_handles(mine, facts):
    ids = {id(o): o for o in mine}
    out, named = [], set()
    for value, holder in local_names(lambda v: id(v) in ids, []):
        named.add(id(value))
        out.append(holder)
    refs = gc.get_referrers(*mine) if mine else []
    rest = [r for r in refs if r is not mine and r is not ids and not is_a(r, types.FrameType)]
    tops = {id(f.f_globals) for f in frames()}
    rest = [r for r in rest if id(r) not in tops and not (is_a(r, dict) and r.get("__name__") in sys.modules and vars(sys.modules[r["__name__"]]) is r)]
    exported = facts["exports"] > 0
    if rest or exported or len(named) < len(mine):
        owners = [_dict_owner(r) or r for r in rest]
        wanted = None if exported else {id(r) for r in owners} | {id(o) for o in mine}
        paths = Paths((mine, ids, refs, rest, out, named, owners), wanted)
        for r, owner in zip(rest, owners):
            for label, value in _slots_of(r, ids):
                path = paths.of(owner)
                if path is None:
                    if is_a(r, Meta | Node) or type(r).__module__.startswith("tensorx") or is_a(r, types.CellType | memoryview):
                        continue
                    if is_a(r, dict | tuple):  # of the interpreter's own: calls, locals
                        continue
                    out.append(Holder("item", f"of {with_article(type(owner).__name__)} that no name leads to"))
                    continue
                kind, text, suffix, where = path
                slot = "." + label[2:-2] if owner is not r else label
                out.append(Holder(kind, _quoted(text + slot) + suffix, where))
                named.add(id(value))
        for o in mine:
            if id(o) not in named:
                path = paths.of(o)
                if path is not None:
                    out.append(Holder(path[0], _quoted(path[1]) + path[2], path[3]))
                    named.add(id(o))
        if exported:
            out += _exports(mine, facts, paths)
    return out


def _slots_of(r, ids):
    """(label, tensor) of the places of a referrer that hold one of the handles."""
    if is_a(r, dict):
        return [(f"[{_short(k)}]", v) for k, v in list(r.items()) if id(v) in ids]
    if is_a(r, list | tuple | collections.deque):
        return [(f"[{i}]", v) for i, v in enumerate(list(r)) if id(v) in ids]
    if is_a(r, set | frozenset):
        return [("{...}", v) for v in list(r) if id(v) in ids]
    own = getattr(r, "__dict__", None)
    named = list(own.items()) if type(own) is dict else []
    return [(f".{k}", v) for k, v in (*named, *_slots(r)) if id(v) in ids]


def _slots(o):
    """(name, value) of the __slots__ that are filled; runs no code of o's."""
    for cls in type(o).__mro__:
        if "__slots__" in vars(cls):
            for name, slot in list(vars(cls).items()):
                if is_a(slot, types.MemberDescriptorType):
                    try:
                        yield name, slot.__get__(o)
                    except AttributeError:
                        continue


def _dict_owner(d):
    """The object whose __dict__ this is, or None."""
    if is_a(d, dict):
        for r in gc.get_referrers(d):
            if getattr(r, "__dict__", None) is d:
                return r
    return None


def _quoted(text):
    return f"'{text}'" if "'" not in text else f"`{text}`"


def _locals(f):
    """A copy of the locals of a frame."""
    scope = f.f_locals
    out = dict(scope)
    _forget(f, scope)
    return out


def _exports(mine, facts, paths):
    """Arrays and views of other libraries on the storage, as far as names lead to them."""
    first = min((o.storage.address for o in mine), default=None) if mine else None
    out = []
    if first is not None:
        for a in paths.arrays:
            try:
                at = a.__array_interface__["data"][0]
            except Exception:
                continue
            if first <= at < first + max(facts["nbytes"], 1) and a.nbytes:
                path = paths.of(a)
                if path is not None:
                    out.append(Holder(f"NumPy array in {path[0]}", _quoted(path[1]) + path[2], path[3]))
    if not out:
        out.append(Holder("exported to", f"NumPy, DLPack or a buffer ({facts['exports']} view{'s' if facts['exports'] > 1 else ''})"))
    return out


def names_of(serial, deep=True):
    """The names of those who hold a storage, shortest form: for reasons in reports."""
    mine = handles_of(serial)
    ids = {id(o) for o in mine}
    found = local_names(lambda v: id(v) in ids, [])
    out = [h for _, h in found]
    if deep and not out and mine:
        out = [h for h in _name_handles(mine, {"exports": 0, "nbytes": 0}) if "no name leads to" not in h.name]
    return list(dict.fromkeys(out))
