"""Functions that have source, followed with their arguments. In: functions, values. Out: what they return."""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
import textwrap
import types
from collections.abc import Sequence
from typing import Any

from tilewise.parfor.walk.attributes import Attributes
from tilewise.parfor.walk.own_code import generated
from tilewise.parfor.walk.scope import Scope
from tilewise.parfor.walk.values import (
    ANYTHING,
    NUMBER,
    Function,
    Val,
    may_be_anything,
    objects,
)
from tilewise.python.functions.same_source import is_source

DEEPEST = 8  # calls inside of calls that are followed
MOST_CALLS = 1000  # of functions that are followed, in one walk


class Functions(Attributes):
    """Follows functions by their source."""

    root: Scope  # the names of the loop itself
    depth = 0
    calls = 0
    following: list[Any]  # functions that are being followed
    general: set[Any]  # those among them that are followed with any numbers as arguments

    def block(self, body: Sequence[ast.stmt]) -> bool:
        """Follow statements; whether the end is never reached."""
        raise NotImplementedError

    def space(self) -> Any:
        """The names of the program that is walked, where functions were defined."""
        return None

    def follow(self, function: Any, args: Sequence[Val], named: dict[str, Val]) -> Val | None:
        """Follow a function by its source; None if there is none."""
        if isinstance(function, type):
            return self._construct(function, args, named)
        node = source_of(function) if isinstance(function, types.FunctionType) else None
        if node is None:
            return None
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        names = {}
        for name, cell in cells.items():
            try:
                value = cell.cell_contents
            except ValueError:
                return None
            names[name] = self.value_of(value, name)
            if name in self.root.names and (self.root.space or {}).get(name) is value:
                self.hazard(name, "scalar", f"{function.__name__} reads it, and the loop assigns to it")
        space = function.__globals__
        top = self.program() if space is self.space() else Scope({}, None, space)
        scope = Scope(names, top)
        count = len(function.__defaults__ or ())
        last = function.__code__.co_varnames[: function.__code__.co_argcount][-count:] if count else ()
        given = {**dict(zip(last, function.__defaults__ or (), strict=True)), **(function.__kwdefaults__ or {})}
        defaults = tuple((n, _shared(self.value_of(value, n))) for n, value in given.items())
        made = Function(node, scope, function.__name__, function.__code__.co_filename, defaults)
        return self.enter(made, args, named)

    def defined(self, node: ast.FunctionDef | ast.Lambda, name: str) -> Function:
        """A function that the program defines here: its defaults have the values that they have now."""
        given = node.args
        positional = [*given.posonlyargs, *given.args]
        pairs = [*zip(positional[len(positional) - len(given.defaults) :], given.defaults, strict=True)]
        pairs += [(p, d) for p, d in zip(given.kwonlyargs, given.kw_defaults, strict=True) if d is not None]
        defaults = tuple((p.arg, _shared(self.use(self.ev(d)))) for p, d in pairs)
        obj = self.memory.fresh(name, self.born)
        obj.function = Function(node, self.scope, name, self.file, defaults, obj)
        return obj.function

    def program(self) -> Scope:
        """The outermost scope."""
        scope = self.scope
        while scope.outer is not None:
            scope = scope.outer
        return scope

    def _construct(self, cls: type, args: Sequence[Val], named: dict[str, Val]) -> Val | None:
        """An instance of a class with source: only plain ones."""
        if inspect.getattr_static(cls, "__del__", None) is not None:  # it runs at some time
            return None
        start = inspect.getattr_static(cls, "__init__", None)
        if type(cls) is not type or inspect.getattr_static(cls, "__new__", None) is not inspect.getattr_static(
            object, "__new__"
        ):
            return None
        if any(c.__module__ == "builtins" and c is not object for c in cls.__mro__) or hasattr(cls, "__slots__"):
            return None
        new = self.made([*args, *named.values()], array=False, name=cls.__name__)
        for obj in new.objs:
            obj.cls = cls
        if isinstance(start, types.FunctionType) and generated(cls, start):
            return self._filled(new, cls, args, named)
        if start is inspect.getattr_static(object, "__init__"):
            return new
        if not isinstance(start, types.FunctionType):
            return None
        return new if self.follow(start, [new, *args], named) is not None else None

    def _filled(self, new: Val, cls: Any, args: Sequence[Val], named: dict[str, Val]) -> Val | None:
        """An instance of a data class: its fields are what it is given, or their defaults."""
        (obj,) = new.objs
        positions = [f.name for f in dataclasses.fields(cls) if f.init and not f.kw_only]
        given = {**dict(zip(positions, args, strict=False)), **named}
        if len(args) > len(positions) or any(isinstance(t, str) and "InitVar" in t for t in _annotations(cls)):
            return None
        for field in dataclasses.fields(cls):
            if field.name not in given and field.default_factory is not dataclasses.MISSING:
                given[field.name] = self.apply(self.value_of(field.default_factory, field.name), [], {}, field.name)
            elif field.name not in given and field.default is not dataclasses.MISSING:
                given[field.name] = self.value_of(field.default, field.name)
        for value in given.values():
            obj.content |= objects(value)
            obj.anything |= may_be_anything(value)
        obj.fields = given
        after = inspect.getattr_static(cls, "__post_init__", None)
        return new if after is None or self.follow(after, [new], {}) is not None else None

    def apply(self, function: Val, args: list[Val], named: dict[str, Val], text: str, spread: bool = False) -> Val:
        """The result of a call."""
        raise NotImplementedError

    def enter(self, function: Function, args: Sequence[Val], named: dict[str, Val]) -> Val:
        """Follow the body of a function with its arguments."""
        node = function.node
        key = (function.file, function.name, node.lineno)
        numbers = all(v.scalar and v.function is None and not callable(v.known) for v in (*args, *named.values()))
        if key in self.general and numbers:
            return NUMBER  # the walk with any numbers, which is under way, covers this call
        self.calls += 1
        if self.depth >= DEEPEST or self.calls > MOST_CALLS or key in self.general:
            return self._opaque(args, named, function.name)
        general = numbers and key in self.following
        if general:  # it calls itself
            args, named = [Val(scalar=True)] * len(args), dict.fromkeys(named, Val(scalar=True))
            self.general.add(key)
        self.following.append(key)
        result = self._entered(function, args, named)
        self.following.pop()
        if general:
            self.general.discard(key)
        return result if result.scalar or not general else self._opaque(args, named, function.name)

    def _entered(self, function: Function, args: Sequence[Val], named: dict[str, Val]) -> Val:
        node = function.node
        given = node.args
        names: dict[str, Val] = {}
        positional = [*given.posonlyargs, *given.args]
        for parameter, value in zip(positional, args, strict=False):
            names[parameter.arg] = value
        for name, value in named.items():
            names[name] = value
        if given.vararg:
            names[given.vararg.arg] = Val(items=tuple(args[len(positional) :]))
        elif len(args) > len(positional):
            return self._opaque(args, named, function.name)
        if given.kwarg:
            names[given.kwarg.arg] = self.made(list(named.values()), array=False)
        for name, value in function.defaults:
            names.setdefault(name, value)
        kept = self.scope
        scope = Scope(names, function.scope)
        scope.called, scope.loops_outside = True, len(self.loops)
        self.scope = scope
        self.depth += 1
        guards, unsure, line, at, file = len(self.guards), self.unsure, self.line, self.at, self.file
        if isinstance(node, ast.Lambda):
            result = self.ev(node.body)
        else:
            self.block(node.body)
            result = scope.returned if scope.returned is not None else Val(known=None, scalar=True)
        del self.guards[guards:]
        self.unsure, self.line, self.at, self.file = unsure, line, at, file
        self.depth -= 1
        self.scope = kept
        return result

    def _opaque(self, args: Sequence[Val], named: dict[str, Val], text: str) -> Val:
        for value in (*args, *named.values()):
            self.use(value)
            for obj in objects(value):
                obj.maybe_written = True
        self.hazard(text, "call", "what the function does is not known")
        return ANYTHING


def _annotations(cls: type) -> list[Any]:
    """What the fields of a data class are declared as, those that are only given to `__post_init__` included."""
    declared = (getattr(c, "__annotations__", {}).values() for c in cls.__mro__)
    return [t if isinstance(t, str) else type(t).__name__ for types_of in declared for t in types_of]


def _shared(value: Val) -> Val:
    """The default of a parameter: made once, and shared by all calls."""
    return value if value.scalar else ANYTHING


def source_of(function: Any) -> ast.FunctionDef | ast.Lambda | None:
    """The syntax tree of a function; None for those that have no source, or one that is not followed."""
    if not isinstance(function, types.FunctionType) or hasattr(function, "__wrapped__"):
        return None
    return _source(function.__code__, function.__code__.co_filename)


@functools.lru_cache(maxsize=256)
def _source(code: types.CodeType, file: str) -> ast.FunctionDef | ast.Lambda | None:
    """The same by code, which a function may be given another one of; equal code may be of two files."""
    flags = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    if code.co_flags & flags:
        return None
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, TypeError, SyntaxError, IndentationError):
        return None
    if code.co_name == "<lambda>":
        found = [n for n in ast.walk(tree) if isinstance(n, ast.Lambda)]
        return found[0] if len(found) == 1 and is_source(found[0], code) else None
    first = tree.body[0]
    if isinstance(first, ast.FunctionDef) and is_source(first, code):
        # decorators have made of it what it is, if it is still a function
        at = min([first.lineno, *(node.lineno for node in first.decorator_list)])
        ast.increment_lineno(first, code.co_firstlineno - at)
        return first
    return None
