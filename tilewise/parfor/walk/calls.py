"""Calls and attributes. In: syntax trees of calls. Out: values; what is read, written and drawn is recorded.

Functions with source are followed with their arguments; library.py has what others do; all others order the iterations.
"""

from __future__ import annotations

import ast
import collections
import functools
import inspect
import textwrap
import types
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tilewise.kernel.dependence.expr import Expr, computed, constant, greatest, least
from tilewise.parfor.walk import library
from tilewise.parfor.walk.exprs import Exprs, Scope
from tilewise.parfor.walk.knowns import Alike, fixed_key
from tilewise.parfor.walk.subscripts import length_of
from tilewise.parfor.walk.values import (
    ANYTHING,
    FLOAT,
    INTEGER,
    NUMBER,
    TRUTH,
    Axis,
    Function,
    Obj,
    Val,
    View,
    join,
    kind_of,
    may_be_anything,
    objects,
    of_expr,
)

CONTAINERS = (list, dict, set, tuple, frozenset, collections.OrderedDict, collections.defaultdict, collections.Counter)
DEEPEST = 8  # calls inside of calls that are followed


class Calls(Exprs):
    """Follows calls and attributes."""

    depth = 0

    def block(self, body: Sequence[ast.stmt]) -> None:
        """Follow statements."""
        raise NotImplementedError

    def accumulate(self, target: Val, op: str | None, operands: Sequence[Val]) -> None:
        """Record that all of a region is combined with operands."""
        raise NotImplementedError

    # -- attributes -----------------------------------------------------------------------------------------------

    def _attribute(self, node: ast.Attribute) -> Val:
        return self.attribute(self.ev(node.value), node.attr)

    def attribute(self, base: Val, name: str) -> Val:
        """`base.name` where it is read."""
        if base.is_known and isinstance(base.known, types.ModuleType | type):
            if not hasattr(base.known, name):
                return ANYTHING
            return self.value_of(getattr(base.known, name), name)
        if base.view is not None:
            return self._array_attribute(base, name)
        if base.is_known and not isinstance(base.known, list | dict | set | tuple | str | Alike) and not base.scalar:
            return self._instance_attribute(base, name)
        if base.is_known and isinstance(base.known, Alike) and base.ident is not None:
            found = [getattr(v, "__dict__", {}).get(name) for v in base.known.values]
            if all(name in getattr(v, "__dict__", {}) for v in base.known.values):
                self.touch_cells(base, fixed_key(name), write=False)
                total: Val | None = None
                for value in found:
                    total = join(total, self.value_of(value, name))
                return total or ANYTHING
        if base.is_known and base.scalar and isinstance(base.known, np.number | complex | float | int):
            return (
                replace(NUMBER, kind=base.kind) if name in ("real", "imag") else Val(method=(base, name), scalar=True)
            )
        if name in ("shape", "size", "ndim", "dtype", "itemsize", "nbytes") and (base.objs or base.anything):
            return Val(scalar=True, kind=None if name in ("shape", "dtype") else "i")
        if name in ("T", "real", "imag", "flat"):
            return self.within(base)
        held: frozenset[Obj] = frozenset().union(*(o.content for o in base.objs if o.key == 0))
        classes = {o.cls for o in base.objs}
        if len(classes) == 1 and None not in classes:
            static = inspect.getattr_static(classes.pop(), name, None)
            if isinstance(static, property) and isinstance(static.fget, types.FunctionType):
                return self.follow(static.fget, [base], {}) or ANYTHING
            if static is None:
                return Val(objs=held, anything=any(o.anything for o in base.objs))
        return Val(method=(base, name), objs=held, anything=base.anything or any(o.anything for o in base.objs))

    def _array_attribute(self, base: Val, name: str) -> Val:
        view = base.view
        assert view is not None
        if name == "T" and not view.within:
            return Val(view=replace(view, axes=view.axes[::-1]), kind=base.kind)
        if name in ("shape", "size", "ndim", "itemsize", "nbytes", "dtype"):
            if base.is_known and isinstance(base.known, np.ndarray):
                return self.value_of(getattr(base.known, name), name)
            if name == "ndim" and not view.within:
                return of_expr(constant(len(view.axes)))
            if name == "shape" and not view.within:
                return Val(items=tuple(_length(a.length) for a in view.axes), scalar=True)
            return Val(scalar=True, kind="i" if name != "dtype" else None)
        if name in ("real", "imag", "flat", "T", "base", "data"):
            return self.within(base)
        return Val(method=(base, name))

    def _instance_attribute(self, base: Val, name: str) -> Val:
        known = base.known
        if library.is_generator(known) or isinstance(known, types.GeneratorType):
            return Val(method=(base, name))
        own = getattr(known, "__dict__", {})
        (obj,) = base.objs or (None,)
        if obj is not None and isinstance(own, dict) and name in own:
            self.touch_cells(base, fixed_key(name), write=False)
            if self.memory.constant(obj):
                return self.value_of(own[name], f"{obj.name}.{name}")
            return join(
                replace(self.value_of(own[name], f"{obj.name}.{name}"), known=Val().known, expr=None),
                Val(objs=frozenset(obj.content), anything=obj.anything, scalar=not obj.content and not obj.anything),
            )
        static = inspect.getattr_static(type(known), name, None)
        if isinstance(static, property) and isinstance(static.fget, types.FunctionType):
            return self.follow(static.fget, [base], {}) or ANYTHING
        if isinstance(static, types.FunctionType | staticmethod | classmethod):
            return Val(method=(base, name))
        if static is not None and not hasattr(static, "__get__"):
            return self.value_of(static, name)
        if isinstance(static, types.MemberDescriptorType) and obj is not None:
            self.touch_cells(base, fixed_key(name), write=False)
            return self.value_of(getattr(known, name), name) if self.memory.constant(obj) else ANYTHING
        if obj is not None and static is None and not callable(getattr(type(known), "__getattr__", None)):
            self.touch_cells(base, fixed_key(name), write=False)
            return Val(objs=frozenset(obj.content), anything=obj.anything)
        return Val(method=(base, name), anything=not isinstance(static, types.MethodDescriptorType))

    # -- calls ----------------------------------------------------------------------------------------------------

    def _call(self, node: ast.Call) -> Val:
        return self.call(node)

    def call(self, node: ast.Call) -> Val:
        """Follow a call."""
        function = self.ev(node.func)
        args = [self.ev(a) for a in node.args]
        named = {k.arg or "**": self.ev(k.value) for k in node.keywords}
        spread = any(isinstance(a, ast.Starred) for a in node.args) or "**" in named
        for name, value in named.items():
            if name.startswith("overwrite_") and not (
                value.expr is not None and value.expr.constant and not value.expr.const
            ):
                for arg in args:
                    self.touch_value(arg, write=True)
        return self.apply(function, args, named, ast.unparse(node.func), spread)

    def apply(self, function: Val, args: list[Val], named: dict[str, Val], text: str, spread: bool = False) -> Val:
        """The result of a call."""
        if function.function is not None and not spread:
            return self.enter(function.function, args, named)
        if function.method is not None:
            return self._method(*function.method, args, named, text)
        if not function.is_known:
            return self._opaque(args, named, text)
        known = function.known
        if known is functools.reduce:
            return self._with_function(args, named, text)
        if isinstance(known, np.vectorize):
            return self._with_function([self.value_of(known.pyfunc, text), *args], named, text)
        if any(v.method is not None and v.method[1] != "slice" for v in (*args, *named.values())):
            return self._opaque(args, named, text)  # a method that may be called
        if library.makes_generator(known):
            seeded = bool(args or named)
            for value in (*args, *named.values()):
                self.use(value)
            if not seeded:
                self.hazard(text, "random", "a generator without a seed differs in every run")
            given = [v for v in (*args, *named.values()) if not v.scalar]
            return self.made(given, array=False, name="a generator")
        if library.is_random(known):
            owner = getattr(known, "__self__", None)
            name = text.rsplit(".", 1)[0] if library.is_generator(owner) else text
            self.hazard(name, "random", "all iterations draw from one generator")
            return self.made([])
        if isinstance(known, types.MethodType):
            return self._method(
                self.value_of(known.__self__, text.rsplit(".", 1)[0]), known.__name__, args, named, text
            )
        owner = getattr(known, "__self__", None)
        if isinstance(known, types.BuiltinMethodType) and isinstance(owner, np.ndarray | list | dict | set):
            return self._method(self.value_of(owner, text.rsplit(".", 1)[0]), known.__name__, args, named, text)
        if library.is_numpy(known):
            return self._numpy(known, args, named, text)
        if library.is_pure(known):
            return self._pure(known, args, named)
        found = None if spread else self.follow(known, args, named)
        return found if found is not None else self._opaque(args, named, text)

    def _opaque(self, args: Sequence[Val], named: dict[str, Val], text: str) -> Val:
        for value in (*args, *named.values()):
            self.use(value)
        self.hazard(text, "call", "what the function does is not known")
        return ANYTHING

    # -- functions with source ------------------------------------------------------------------------------------

    def follow(self, function: Any, args: Sequence[Val], named: dict[str, Val]) -> Val | None:
        """Follow a function by its source; None if there is none."""
        if isinstance(function, type):
            return self._construct(function, args, named)
        node = source_of(function)
        if node is None:
            return None
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        names = {}
        for name, cell in cells.items():
            try:
                names[name] = self.value_of(cell.cell_contents, name)
            except ValueError:
                return None
        space = function.__globals__
        top = self.program() if space is self.space() else Scope({}, None, space)
        scope = Scope(names, top)
        return self.enter(Function(node, scope, function.__name__, function.__code__.co_filename), args, named)

    def space(self) -> Any:
        """The names of the program that is walked, where functions were defined."""
        return None

    def program(self) -> Scope:
        """The outermost scope."""
        scope = self.scope
        while scope.outer is not None:
            scope = scope.outer
        return scope

    def _construct(self, cls: type, args: Sequence[Val], named: dict[str, Val]) -> Val | None:
        """An instance of a class with source: only plain ones."""
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
        if start is inspect.getattr_static(object, "__init__"):
            return new
        if not isinstance(start, types.FunctionType):
            return None
        return new if self.follow(start, [new, *args], named) is not None else None

    def enter(self, function: Function, args: Sequence[Val], named: dict[str, Val]) -> Val:
        """Follow the body of a function with its arguments."""
        node = function.node
        given = node.args
        if self.depth >= DEEPEST:
            return self._opaque(args, named, function.name)
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
        kept, self.scope = self.scope, function.scope
        first = len(positional) - len(given.defaults)
        defaults = [*zip(positional[first:], given.defaults, strict=True)]
        defaults += [(p, d) for p, d in zip(given.kwonlyargs, given.kw_defaults, strict=True) if d is not None]
        for parameter, default in defaults:
            if parameter.arg not in names:
                value = self.ev(default)
                names[parameter.arg] = value if value.scalar else ANYTHING  # made once, shared by all calls
        scope = Scope(names, function.scope)
        scope.called = True
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

    # -- methods --------------------------------------------------------------------------------------------------

    def _method(self, base: Val, name: str, args: list[Val], named: dict[str, Val], text: str) -> Val:
        if base.is_known and library.is_generator(base.known):
            self.hazard(text.rsplit(".", 1)[0], "random", "all iterations draw from one generator")
            return self.made([])
        if base.view is not None or (base.objs and all(o.array for o in base.objs)):
            return self._array_method(base, name, args, named)
        if base.scalar:
            for value in args:
                self.use(value)
            if base.kind == "U":
                with_text = getattr(str, name, None)
                if with_text is not None and name in ("format", "zfill", "upper", "lower", "strip", "replace"):
                    return self.text_of(with_text, [base, *args])
            return Val(scalar=True, kind=base.kind if name in ("item", "conjugate") else None)
        if base.is_known and isinstance(base.known, np.ufunc):
            return self._numpy(getattr(base.known, name), args, named, text)
        known = base.known if base.is_known and not isinstance(base.known, Alike) else None
        made_here = {o.cls for o in base.objs if o.cls is not None}
        if made_here or (known is not None and type(known) not in CONTAINERS):
            cls = made_here.pop() if made_here else type(known)
            method = inspect.getattr_static(cls, name, None) if not made_here else None
            if isinstance(method, types.FunctionType):
                found = self.follow(method, [base, *args], named)
                if found is not None:
                    return found
            return self._opaque([base, *args], named, text)
        if not base.objs and base.items is None:
            return self._opaque([base, *args], named, text) if base.anything else Val()
        return self._container_method(base, name, args, named, text)

    def _container_method(self, base: Val, name: str, args: list[Val], named: dict[str, Val], text: str) -> Val:
        for value in (*args, *named.values()):
            self.use(value)
        if named and any(v.function is not None or callable(v.known) for v in named.values()):
            self._with_function([base, *args], named, text)
        writes = name in library.LIST_WRITES | library.DICT_WRITES | library.SET_WRITES
        private = base.objs and all(o.key == 0 for o in base.objs) and not base.anything
        if not writes and name not in library.CONTAINER_READS and not private:
            return self._opaque([base, *args], named, text)
        kind: dict[Any, frozenset[str]] = {
            dict: library.DICT_WRITES,
            list: library.LIST_WRITES,
            set: library.SET_WRITES,
        }
        if base.is_known and type(base.known) in kind:
            writes = name in kind[type(base.known)]
        elif not base.is_known:
            writes = writes or name not in library.CONTAINER_READS
        if name == "get" and args and not named:
            key = self.key_of([args[0]], base)
            self.touch_cells(base, key, write=False)
            return join(self._found(base, [], key), args[1] if len(args) > 1 else Val(known=None, scalar=True))
        for obj in base.objs:
            if writes:
                for value in args:
                    obj.content |= objects(value)
                    obj.anything |= may_be_anything(value)
                self.touch_object(obj, write=True)
            self.touch_object(obj, write=False)
        if base.anything and writes:
            self.touch_value(ANYTHING, write=True)
        held = self.contents(base)
        if name in ("copy", "keys", "values", "items", "union", "intersection", "difference", "symmetric_difference"):
            return self.made([held, *args], array=False)
        if name in ("index", "count"):
            return INTEGER
        return join(held, args[1] if name == "setdefault" and len(args) > 1 else held)

    def _array_method(self, base: Val, name: str, args: list[Val], named: dict[str, Val]) -> Val:
        for value in args:
            self.use(value)
        for key, value in named.items():
            if key != "out":
                self.use(value)
        if name in library.ARRAY_WRITES:
            self.use(base)
            self.touch_value(base, write=True)
            return Val(known=None, scalar=True)
        if "out" in named:
            self.touch_value(named["out"], write=True)
        if name == "transpose" and not args and base.view is not None and not base.view.within:
            return Val(view=replace(base.view, axes=base.view.axes[::-1]), kind=base.kind)
        if name == "copy" and base.view is not None and not base.view.within:
            self.use(base)
            return self.new_array([a.length for a in base.view.axes], base.kind)
        if name in library.ARRAY_VIEWS:
            copies = name in ("flatten",) or (name == "astype" and "copy" not in named)
            if copies:
                self.use(base)
                return self.made([base], kind=base.kind if name == "flatten" else None)
            return self.within(base)
        self.use(base)
        if "out" in named:
            return named["out"]
        if name in ("item", "tolist"):
            return replace(NUMBER, kind=base.kind) if name == "item" else self.made([], array=False)
        if name in ("argmax", "argmin", "argsort", "searchsorted"):
            return self.made([], kind="i")
        if name in ("mean", "std", "var"):
            return self.made([], kind="f" if base.kind in ("b", "i", "u", "f") else None)
        return self.made(
            [], kind=base.kind if name in ("sum", "min", "max", "prod", "cumsum", "take", "clip") else None
        )

    def new_array(self, shape: Sequence[Expr | None], kind: str | None) -> Val:
        """An array made here, whose shape is known."""
        if any(n is None for n in shape):
            return self.made([], kind=kind)
        sizes = [n for n in shape if n is not None]
        obj = self.memory.fresh("a new array", self.born, True, sizes)
        axes = tuple(Axis(d, 1, n) for d, n in enumerate(sizes))
        return Val(view=View(obj, constant(obj.code), (constant(0),) * len(sizes), axes), kind=kind)

    # -- functions of libraries -----------------------------------------------------------------------------------

    def _numpy(self, function: Any, args: list[Val], named: dict[str, Val], text: str) -> Val:
        name = getattr(function, "__name__", "")
        owner = getattr(function, "__self__", None)
        out = named.get("out")
        if name in library.WRITING_NUMPY:
            return self._opaque(args, named, text)
        if name in library.CALLING_NUMPY and isinstance(function, types.FunctionType):
            return self._with_function(args, named, text)
        if isinstance(owner, np.ufunc) and name == "at" and args:
            op = library.REDUCING_UFUNCS.get(owner.__name__)
            for value in args[1:]:
                self.use(value)
            region = self.load_target(args[0], args[1]) if len(args) > 1 else args[0]
            self.accumulate(region, op, args[2:])
            return Val(known=None, scalar=True)
        if isinstance(function, np.ufunc) and len(args) > function.nin:
            out = args[function.nin]
            args = args[: function.nin]
        if out is not None and not (out.is_known and out.known is None):
            return self._into(function, out, args, named)
        for value in (*args, *named.values()):
            if not (name in library.VIEWS and value is (args[0] if args else None)):
                self.use(value)
        if name in library.WRITES_FIRST and args:
            self.touch_value(args[0], write=True)
            return Val(known=None, scalar=True)
        if name in library.SHAPED and (args or "shape" in named):
            return self._shaped(
                args[0] if args else named["shape"],
                named.get("dtype", args[1] if len(args) > 1 and name != "full" else None),
            )
        if name in library.SHAPED_LIKE and args and args[0].view is not None and not args[0].view.within:
            return self.new_array([a.length for a in args[0].view.axes], args[0].kind if "dtype" not in named else None)
        if name in library.VIEWS and args:
            total = args[0]
            for value in args[1:] if name in ("einsum", "broadcast_arrays", "meshgrid", "atleast_1d") else ():
                total = join(total, value)
            if name in ("asarray", "asanyarray") and len(args) == 1 and not named and total.view is not None:
                return total
            if name == "transpose" and len(args) == 1 and total.view is not None and not total.view.within:
                return Val(view=replace(total.view, axes=total.view.axes[::-1]), kind=total.kind)
            if name == "array" and "copy" not in named:
                self.use(total)
                return self.made([], kind=total.kind)
            return self.within(total)
        if name in library.INTEGER_RESULTS:
            return self.made([], kind="i")
        if all(v.scalar for v in args) and isinstance(function, np.ufunc | type):
            if (
                isinstance(function, type)
                and issubclass(function, np.integer)
                and len(args) == 1
                and args[0].expr is not None
            ):
                return args[0]
            return replace(NUMBER, kind=_result_kind(name, function, args))
        return self.made([], kind=_result_kind(name, function, args))

    def _into(self, function: Any, out: Val, args: list[Val], named: dict[str, Val]) -> Val:
        """`out=`: a write; an accumulation if it is one of the operands."""
        for key, value in named.items():
            if key != "out":
                self.use(value)
        targets = out.items if out.items is not None else (out,)
        op = library.REDUCING_UFUNCS.get(getattr(function, "__name__", "")) if isinstance(function, np.ufunc) else None
        name = getattr(function, "__name__", "")
        alike = [n for n, a in enumerate(args) if _same_region(a, out)]
        if op is not None and len(alike) == 1 and (alike[0] == 0 or name != "subtract") and "where" not in named:
            rest = [a for n, a in enumerate(args) if n != alike[0]]
            for value in rest:
                self.use(value)
            self.accumulate(out, op, rest)
            return out
        for value in args:
            self.use(value)
        for target in targets:
            self.touch_value(target, write=True)
        return out

    def load_target(self, base: Val, at: Val) -> Val:
        """The region `base[at]` where it is written."""
        if base.view is None:
            return base
        parts = list(at.items) if at.items is not None else [at]
        return self.region(base, parts)

    def region(self, base: Val, parts: list[Any]) -> Val:
        """The region of an array that a subscript is."""
        raise NotImplementedError

    def _with_function(self, args: list[Val], named: dict[str, Val], text: str) -> Val:
        """A function that calls another one, with parts of the other arguments."""
        rest = [a for a in args if not callable(a.known) and a.function is None]
        for value in (*rest, *named.values()):
            self.use(value)
        total = Val(objs=frozenset().union(*(objects(v) for v in rest)), anything=any(map(may_be_anything, rest)))
        for value in (
            a for a in (*args, *named.values()) if a.function is not None or (a.is_known and callable(a.known))
        ):
            if value.is_known and (library.is_pure(value.known) or library.is_numpy(value.known)):
                continue
            node = value.function.node if value.function is not None else source_of(value.known)
            if node is None:
                return self._opaque(args, named, text)
            self.apply(value, [total] * len([*node.args.posonlyargs, *node.args.args]), {}, text)
        return self.made([total], array=False)

    def _shaped(self, shape: Val, dtype: Val | None) -> Val:
        if dtype is None:
            kind: str | None = "f"
        else:
            try:
                kind = np.dtype(dtype.known).kind if dtype.is_known else None
            except TypeError:
                kind = None
        sizes = shape.items if shape.items is not None else (shape,)
        return self.new_array([s.expr if s.expr is not None and s.expr.integer else None for s in sizes], kind)

    def _pure(self, function: Any, args: list[Val], named: dict[str, Val]) -> Val:
        name = getattr(function, "__name__", "")
        if name == "len" and len(args) == 1:
            found = length_of(args[0])
            if not (
                args[0].view is not None or args[0].scalar or (args[0].is_known and isinstance(args[0].known, list))
            ):
                self.use(args[0])
                found = None if args[0].items is None else found
            if found is not None and not (
                args[0].is_known and any(o.key in self.memory.not_constant for o in args[0].objs)
            ):
                return of_expr(found)
        if any(
            a.function is not None or (a.is_known and isinstance(a.known, types.FunctionType))
            for a in (*args, *named.values())
        ):
            return self._with_function(args, named, name)
        for value in (*args, *named.values()):
            self.use(value)
        exprs = [a.expr for a in args]
        whole = bool(args) and all(e is not None and e.integer for e in exprs) and not named
        ready = [e for e in exprs if e is not None]
        if whole and name in ("min", "max") and len(ready) > 1:
            total = ready[0]
            for e in ready[1:]:
                total = (least if name == "min" else greatest)(total, e)
            return of_expr(total)
        if whole and name == "int" and len(ready) == 1:
            return of_expr(ready[0])
        if name == "int" and len(args) == 1 and ready and not named:
            return of_expr(computed(lambda x: np.trunc(np.asarray(x, dtype=float)).astype(np.int64), ready))
        if whole and name == "abs" and len(ready) == 1:
            low, high = ready[0].lo, ready[0].hi
            if low >= 0:
                return of_expr(ready[0])
            return of_expr(computed(np.abs, ready, (0, max(abs(low), abs(high)))))
        if whole and name == "divmod" and len(ready) == 2:
            return Val(
                items=tuple(self.operate(op, args[0], args[1]) for op in (ast.FloorDiv(), ast.Mod())), scalar=True
            )
        if name == "slice" and function is slice:
            full = args if len(args) > 1 else [Val(known=None, scalar=True), *args]
            return Val(method=(Val(items=tuple((*full, Val(known=None, scalar=True))[:3])), "slice"), scalar=True)
        if name in ("str", "repr", "chr") and len(args) == 1:
            return self.text_of(function, args)
        if name == "tuple" and len(args) == 1 and args[0].items is not None:
            return args[0]
        if name in library.INTEGER_RESULTS:
            return INTEGER
        if name in ("bool", "isinstance", "any", "all", "callable", "hasattr", "isnan", "isfinite", "isinf"):
            return TRUTH
        if name in library.HOLDING_BUILTINS or (isinstance(function, type) and function.__module__ == "collections"):
            if name in ("max", "min") and all(a.scalar for a in args) and len(args) > 1:
                return replace(NUMBER, kind=kind_of(args))
            held = [self.contents(a) for a in args] if name not in ("getattr",) else [ANYTHING]
            if name in ("max", "min"):
                total_held = held[0]
                for h in (*held[1:], *args):
                    total_held = join(total_held, h)
                return total_held
            return self.made([*held, *args, *named.values()], array=False)
        if name in ("sum", "abs", "pow", "round") and args:
            kind = args[0].kind if name in ("sum", "abs") else None
            return replace(NUMBER, kind=kind) if all(a.scalar for a in args) else self.made([], kind=kind)
        return FLOAT if name in library.FLOAT_RESULTS else NUMBER


def _length(expr: Expr | None) -> Val:
    return of_expr(expr) if expr is not None else INTEGER


def _result_kind(name: str, function: Any, args: Sequence[Val]) -> str | None:
    if isinstance(function, type) and issubclass(function, np.generic):
        return np.dtype(function).kind
    if name in library.FLOAT_RESULTS and all(a.kind in ("b", "i", "u", "f") for a in args):
        return "f"
    if name in ("sum", "dot", "maximum", "minimum", "add", "multiply", "subtract", "abs", "absolute", "max", "min"):
        return kind_of(args)
    if name in ("bincount", "arange", "flatnonzero", "nonzero", "where") and name != "where":
        return "i" if name != "arange" and len(args) == 1 else kind_of(args)
    return None


def _same_region(a: Val, b: Val) -> bool:
    """Whether two values are known to be the same region."""
    if a.view is None or b.view is None:
        return a.is_known and a.known is b.known
    x, y = a.view, b.view
    if x.obj is not y.obj or x.within or y.within or len(x.axes) != len(y.axes):
        return False
    same_axes = all(
        p.dim == q.dim and p.slope == q.slope and _key(p.length) == _key(q.length)
        for p, q in zip(x.axes, y.axes, strict=True)
    )
    return same_axes and [d.key() for d in x.dims] == [d.key() for d in y.dims] and x.ident.key() == y.ident.key()


def _key(expr: Expr | None) -> Any:
    return None if expr is None else expr.key()


def source_of(function: Any) -> ast.FunctionDef | ast.Lambda | None:
    """The syntax tree of a function; None for those that have no source, or one that is not followed."""
    if not isinstance(function, types.FunctionType) or hasattr(function, "__wrapped__"):
        return None
    flags = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    if function.__code__.co_flags & flags:
        return None
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, IndentationError):
        return None
    if function.__name__ == "<lambda>":
        found = [n for n in ast.walk(tree) if isinstance(n, ast.Lambda)]
        return found[0] if len(found) == 1 else None
    first = tree.body[0]
    if isinstance(first, ast.FunctionDef) and not first.decorator_list:
        ast.increment_lineno(first, function.__code__.co_firstlineno - first.lineno)
        return first
    return None
