"""Verdicts of loops that start again alike. In: a loop and the values of its names. Out: what was found the last time.

What the analysis looks at is the loop, numbers, and how arrays lie in memory. Where names stand for nothing else
(numbers, texts, NumPy's arrays, a few modules, functions that have no other names), and all of that is the same again,
so is the answer; arrays that were written are replaced by those at hand. Small arrays whose values were used are kept
as copies, and compared. Lists and objects are not looked into here: such loops are analysed each time.
"""

from __future__ import annotations

import ast
import builtins
import dis
import itertools
import sys
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import lru_cache
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from tilewise.parfor.plan.tree import Tree
from tilewise.parfor.rewrite import LoopSource
from tilewise.parfor.verdict import Verdict
from tilewise.parfor.walk.mapped import map_of
from tilewise.parfor.walk.own_code import function_behind

MOST_KEPT = 16  # per loop
MOST_BYTES = 4 << 20  # of arrays whose values were used
MODULES = frozenset(("numpy", "scipy", "math", "tilewise"))
_NUMBERS = (bool, int, float, complex, str, type(None))
_LIBRARY = (np.ufunc, type(np.bincount))  # NumPy's functions
_IMMUTABLE_TYPE = 1 << 8  # of Python's flags of types: nobody can assign to their attributes
_kept: WeakKeyDictionary[LoopSource, dict[Hashable, Remembered]] = WeakKeyDictionary()
_read: WeakKeyDictionary[LoopSource, _Names] = WeakKeyDictionary()


class Remembered:
    """What a walk found, without the arrays it was found for."""

    def __init__(self, walk: Any, verdict: Verdict, roots: list[Any]) -> None:
        self.verdict = verdict
        self.found = walk.found
        self.touches = [
            SimpleNamespace(access=SimpleNamespace(write=t.access.write, loops=t.access.loops), objs=t.objs, op=t.op)
            for t in walk.touches
        ]  # without subscripts and conditions, which may hold arrays
        places = {id(root): n for n, root in enumerate(roots)}
        self.owners = [(obj, places.get(obj.key, -1)) for obj in walk.memory.known.values()]
        self.values = [(n, roots[n].copy(order="K")) for obj, n in self.owners if obj.evaluated]
        self.no_arrays: str | None = None  # why the body is no array expression, if that was tried
        self.tree: Tree | None = None  # what it costs

    def holds(self, roots: list[Any]) -> bool:
        """Whether arrays whose values were used have the same ones."""
        return all(np.array_equal(roots[n], kept) for n, kept in self.values)

    def walk(self, roots: list[Any]) -> Any:
        """What the runner asks of a walk, for other arrays."""
        for obj, place in self.owners:
            obj.key = id(roots[place])
        known = {obj.key: obj for obj, _ in self.owners}
        memory = SimpleNamespace(known=known, alive=list(roots))
        return SimpleNamespace(found=self.found, touches=self.touches, memory=memory)


class Start:
    """A loop that starts: `key` is None where it is not to be remembered."""

    def __init__(self, source: LoopSource, elements: Any, names: Mapping[str, Any]) -> None:
        self.source = source
        self.roots: list[Any] = []
        self._functions: list[FunctionType] = []
        self._modules: set[int] = set()  # those that are being looked at
        self.key: Hashable = None
        self.found: Remembered | None = None
        if isinstance(elements, range):
            read = _names_in(source)
            parts = [self._part(name, names, read.attributes) for name in read.names if name != source.generator]
            parts += self._imported(read)
            if None not in parts and self._apart():
                self.key = (elements, *parts)

    def take(self) -> tuple[Any, Verdict] | None:
        """What was found the last time; nobody else has it until it is put back."""
        if self.key is None or (found := _kept.get(self.source, {}).pop(self.key, None)) is None:
            return None
        if not found.holds(self.roots):
            return None
        self.found = found
        return found.walk(self.roots), found.verdict

    def put(self, walk: Any, verdict: Verdict) -> None:
        """Keep what was found."""
        if self.key is None:
            return
        if self.found is None:
            objects = walk.memory.known.values()
            mine = {id(root) for root in self.roots}
            loops = {index for t in walk.touches for index in t.access.loops}
            used = sum(root.nbytes for root in self.roots if any(o.evaluated and o.key == id(root) for o in objects))
            known = all(o.key in mine for o in objects) and all(i.extent.affine for i in loops) and used <= MOST_BYTES
            if not known or not verdict.independent:
                return
            self.found = Remembered(walk, verdict, self.roots)
        kept = _kept.setdefault(self.source, {})
        if len(kept) >= MOST_KEPT:
            kept.clear()
        kept[self.key] = self.found

    def tree(self, made: Callable[[], Tree]) -> Tree:
        """What the loop costs: it depends on numbers and shapes, which are in the key."""
        if self.found is None:
            return made()
        if self.found.tree is None:
            self.found.tree = made()
        return self.found.tree

    def _part(self, name: str, names: Mapping[str, Any], attributes: frozenset[str]) -> Hashable:
        """What of a name matters, where attributes of some names are read; None: too much."""
        if name not in names and not hasattr(builtins, name):
            return (name,)
        value = function_behind(names[name] if name in names else getattr(builtins, name))
        if type(value) in _NUMBERS or isinstance(value, np.number | np.bool_):
            return (name, type(value), value, repr(value))  # 0.0 == -0.0
        if isinstance(value, ModuleType):
            return self._module(name, value, attributes)
        if isinstance(value, FunctionType):
            return self._function(name, value)
        if isinstance(value, _LIBRARY) or (isinstance(value, BuiltinFunctionType) and _of_module(value)):
            return (name, value)
        if isinstance(value, type):
            return (name, value) if value.__flags__ & _IMMUTABLE_TYPE else None
        if type(value) is not np.ndarray or value.dtype.kind not in "biufc":
            return None
        root = value
        while isinstance(root.base, np.ndarray):
            root = root.base
        if type(root) is not np.ndarray or map_of(root) is not None:
            return None
        place = next((n for n, r in enumerate(self.roots) if r is root), len(self.roots))
        if place == len(self.roots):
            self.roots.append(root)
        offset = _address(value) - _address(root)
        own = (value.dtype.str, value.shape, value.strides)
        return (name, place, offset, *own, root.dtype.str, root.shape, root.strides, value.flags.writeable)

    def _module(self, name: str, module: ModuleType, attributes: frozenset[str]) -> Hashable:
        """What of a module matters: those of its names that are read as attributes of something."""
        if not _of_library(module.__name__):
            return None
        if id(module) in self._modules:
            return (name, module)
        self._modules.add(id(module))
        space = vars(module)
        parts = [self._attribute(n, space, attributes) for n in sorted(attributes & space.keys())]
        self._modules.discard(id(module))
        return None if None in parts else (name, module, *parts)

    def _imported(self, read: _Names) -> list[Hashable]:
        """The same for modules that are imported where they are used."""
        return [self._part(n, sys.modules, read.attributes) if n in sys.modules else None for n in read.imported]

    def _attribute(self, name: str, space: Mapping[str, Any], attributes: frozenset[str]) -> Hashable:
        """What of a library's own object matters: which one it is."""
        value = space[name]
        made_in = getattr(value, "__module__", None) if callable(value) else None
        owner = type(getattr(value, "__self__", value)).__module__
        if not isinstance(value, ModuleType) and _of_library(made_in or owner) and type(value) is not np.ndarray:
            return (name, _Same(value))
        return self._part(name, space, attributes)

    def _function(self, name: str, function: FunctionType) -> Hashable:
        """What of a function matters: its code, and what its names stand for."""
        known = next((n for n, f in enumerate(self._functions) if f is function), None)
        if known is not None:
            return (name, "function", known)
        self._functions.append(function)
        defaults = (*enumerate(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).items())
        if vars(function) or any(type(value) not in _NUMBERS for _, value in defaults):
            return None
        try:
            cells = {
                n: c.cell_contents
                for n, c in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
            }
        except ValueError:  # a name that has no value yet
            return None
        read = _names_of(function.__code__)
        used = [n for n in read.names if n in function.__globals__ or hasattr(builtins, n)]
        parts = [self._part(n, cells, read.attributes) for n in cells]
        parts += [self._part(n, function.__globals__, read.attributes) for n in used]
        parts += self._imported(read)
        given = tuple((place, type(value), value, repr(value)) for place, value in defaults)
        return None if None in parts else (name, function.__code__, given, *parts)

    def _apart(self) -> bool:
        """Whether no two owners have bytes in common."""
        spans = sorted(np.lib.array_utils.byte_bounds(r) for r in self.roots if r.size)
        return all(a[1] <= b[0] for a, b in itertools.pairwise(spans))


class _Same:
    """An object that is equal to itself only, and lives as long as the key that it is in."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value


class _Names(NamedTuple):
    """What code reads: names, attributes of anything, and modules that it imports."""

    names: tuple[str, ...]
    attributes: frozenset[str]
    imported: tuple[str, ...]


def _names_in(source: LoopSource) -> _Names:
    """What a loop reads; what it goes over apart."""
    if source not in _read:
        nodes = [n for part in (source.node.target, *source.node.body) for n in ast.walk(part)]
        names = {n.id for n in nodes if isinstance(n, ast.Name)}
        attributes = {n.attr for n in nodes if isinstance(n, ast.Attribute)}
        modules = {a.name for n in nodes if isinstance(n, ast.Import) for a in n.names}
        modules |= {n.module or "" for n in nodes if isinstance(n, ast.ImportFrom)}
        attributes |= {a.name for n in nodes if isinstance(n, ast.ImportFrom) for a in n.names}
        _read[source] = _with_imports(names, attributes, modules)
    return _read[source]


@lru_cache(maxsize=256)
def _names_of(code: CodeType) -> _Names:
    """What a function reads; its names and attributes are not told apart."""
    codes = list(_codes(code))
    modules = {i.argval for c in codes for i in dis.get_instructions(c) if i.opname == "IMPORT_NAME"}
    names = {n for c in codes for n in c.co_names}
    return _with_imports(names, names, modules)


def _with_imports(names: set[str], attributes: set[str], modules: set[str]) -> _Names:
    parts = {part for module in modules for part in module.split(".")[1:]}
    return _Names(tuple(sorted(names)), frozenset(attributes | parts), tuple(sorted(map(_root, modules))))


def _root(module: str) -> str:
    return module.split(".")[0]


def _of_library(module: Any) -> bool:
    return isinstance(module, str) and _root(module) in MODULES


def _codes(code: CodeType) -> Iterator[CodeType]:
    """The code of a function, and of those inside of it."""
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _codes(inner)


def _of_module(function: BuiltinFunctionType) -> bool:
    return function.__self__ is None or isinstance(function.__self__, ModuleType)


def _address(array: np.ndarray[Any, Any]) -> int:
    return int(array.__array_interface__["data"][0])
