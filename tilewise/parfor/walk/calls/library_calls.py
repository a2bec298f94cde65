"""Calls of NumPy's functions and Python's. In: functions, values. Out: values; writes are recorded."""

from __future__ import annotations

import ast
import inspect
import types
from collections.abc import Sequence
from typing import Any

import numpy as np

from tilewise.kernel.dependence.expr import (
    Expr,
    computed,
    constant,
    greatest,
    least,
    truth,
)
from tilewise.parfor.walk.calls import library
from tilewise.parfor.walk.calls.functions import Functions, source_of
from tilewise.parfor.walk.kept import replace
from tilewise.parfor.walk.own_code import classes_of, may_run
from tilewise.parfor.walk.places.groups import counted, positions_of
from tilewise.parfor.walk.places.subscripts import (
    length_of,
)
from tilewise.parfor.walk.values import (
    ANYTHING,
    FLOAT,
    INTEGER,
    NUMBER,
    TRUTH,
    Axis,
    Function,
    Val,
    View,
    fitted,
    join,
    kind_of,
    narrow_of,
    narrowed,
    objects,
    of_expr,
)

# Functions whose `at` accumulates.
ACCUMULATING: dict[np.ufunc, str] = {
    np.add: "+",
    np.subtract: "+",
    np.multiply: "*",
    np.maximum: "max",
    np.minimum: "min",
}


class LibraryCalls(Functions):
    """Follows calls of library functions."""

    def accumulate(self, target: Val, op: str | None, operands: Sequence[Val]) -> None:
        """Record that all of a region is combined with operands."""
        raise NotImplementedError

    def new_array(self, shape: Sequence[Expr | None], kind: str | None) -> Val:
        """An array made here, whose shape is known."""
        if any(n is None for n in shape):
            return self.made([], kind=kind)
        sizes = [n for n in shape if n is not None]
        obj = self.memory.fresh("a new array", self.born, True, sizes)
        axes = tuple(Axis(d, 1, n) for d, n in enumerate(sizes))
        return Val(view=View(obj, constant(obj.code), (constant(0),) * len(sizes), axes), kind=kind)

    def _numpy(self, function: Any, args: list[Val], named: dict[str, Val], text: str) -> Val:
        name = getattr(function, "__name__", "")
        owner = getattr(function, "__self__", None)
        if name in library.WRITING_NUMPY:
            return self._opaque(args, named, text)
        if name not in library.VIEWS:  # others iterate over what they are given
            args = [replace(a, lazy=None) for a in args]
        out = named.get("out", named.get("output"))
        if not isinstance(function, np.ufunc | type) and not (isinstance(owner, np.ufunc) and name == "at"):
            bound = bound_to(function, args, named)
            if bound is None:
                for value in (*args[1:], *named.values()):
                    if not value.scalar:
                        self.touch_value(value, write=True)
                if not args and named and name not in library.SHAPED:
                    return self._opaque(args, named, text)
            else:
                out = bound.get("out", bound.get("output"))
                if any(key.startswith("overwrite_") and not _is_false(value) for key, value in bound.items()):
                    for value in bound.values():
                        if not value.scalar:
                            self.touch_value(value, write=True)
                if name == "nan_to_num" and "copy" in bound:
                    named = {**named, "copy": bound["copy"]}
                if not args and named and name not in library.SHAPED:
                    first = next(iter(bound))
                    args = [bound[first]]
                    named = {key: value for key, value in named.items() if key != first}
                args = [a for a in args if a is not out]
        calls = any(_is_function(v) for v in (*args, *named.values()))
        if calls or (name in library.CALLING_NUMPY and not isinstance(function, type)):
            made = self._with_function(args, named, text)
            return made if name in ("vectorize", "frompyfunc") else replace(made, lazy=None)
        if isinstance(owner, np.ufunc) and name == "at" and args:
            for value in args[1:]:
                self.use(value)
            op = ACCUMULATING.get(owner) if len(args) == 3 and args[0].view is not None else None
            self.accumulate(self.load_target(args[0], args[1]) if op is not None else args[0], op, args[2:])
            return Val(known=None, scalar=True)
        if isinstance(function, np.ufunc) and len(args) > function.nin:
            for value in args[function.nin + 1 :]:
                self.touch_value(value, write=True)
            out = args[function.nin]
            if function.nout > 1:
                out = Val(items=tuple(args[function.nin :]))
            args = args[: function.nin]
        if out is not None and not (out.is_known and out.known is None):
            return self._into(out, args, named)
        for value in (*args, *named.values()):
            if not (name in library.VIEWS and value is (args[0] if args else None)):
                self.use(value)
            self.use_held([value])  # lists of lists are made into arrays
        if (name in library.WRITES_FIRST or (name == "nan_to_num" and "copy" in named)) and args:
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
        if name == "unravel_index" and len(args) == 2 and not named and args[0].expr is not None:
            found = self._unravelled(args[0], args[1])
            if found is not None:
                return found
        if name in library.INTEGER_RESULTS:
            return self.made([], kind="i")
        bounded = _bounded(function, args) if not named else None
        if bounded is not None:
            return bounded
        if all(v.scalar for v in args) and isinstance(function, np.ufunc | type):
            if (
                isinstance(function, type)
                and issubclass(function, np.integer)
                and len(args) == 1
                and args[0].expr is not None
                and args[0].expr.integer
            ):
                return fitted(replace(args[0], known=Val().known, narrow=None), narrow_of(function))
            return replace(NUMBER, kind=_result_kind(name, function, args))
        made = self.made([], kind=_result_kind(name, function, args))
        if name == "arange" and not named:
            return counted(args, made)
        if name == "flatnonzero" and len(args) == 1:
            return positions_of(args[0], made)
        if name in ("nonzero", "where") and len(args) == 1 and args[0].group is not None:
            return Val(items=(positions_of(args[0], made),))
        return made

    @staticmethod
    def calls_unknown(value: Val, count: int) -> bool:
        """Whether a value may be called, by a function it is given to, with so many arguments, and may then write."""
        if value.method is not None and value.method[1] != "slice":
            return True
        known = value.known
        if not value.is_known or not callable(known) or isinstance(known, types.FunctionType):
            return False
        if isinstance(known, type):
            made = (inspect.getattr_static(known, name, None) for name in ("__new__", "__init__"))
            return any(isinstance(m, types.FunctionType | staticmethod) for m in made) and not library.is_numpy(known)
        if library.is_numpy(known):
            name = getattr(known, "__name__", "")
            writes = name in library.WRITES_FIRST | library.WRITING_NUMPY | library.CALLING_NUMPY
            return writes or (count > known.nin if isinstance(known, np.ufunc) else count > 1)
        return not library.is_pure(known)

    def _into(self, out: Val, args: list[Val], named: dict[str, Val]) -> Val:
        """`out=`: a write."""
        for value in (*args, *(v for key, v in named.items() if key not in ("out", "output"))):
            self.use(value)
        for target in out.items if out.items is not None else (out,):
            if not (target.is_known and target.known is None):
                self.touch_value(target, write=True)
        return out

    def _with_function(self, args: list[Val], named: dict[str, Val], text: str) -> Val:
        """A function that calls another one, with parts of the other arguments."""
        given = (*args, *named.values())
        rest = [a for a in given if not callable(a.known) and a.function is None and a.wraps is None]
        for value in rest:
            self.use(value)
        total = self.reachable(self.elements_of(rest) if text in library.ELEMENTWISE else rest)
        if text in library.ELEMENTWISE:
            total = self.reachable([total, *(v for v in rest if v.view is not None or any(o.array for o in v.objs))])
        name = text.rsplit(".", 1)[-1]
        if name == "vectorize" and rest and all(v.kind is not None and v.kind in "buifc" for v in rest):
            total = NUMBER
        most = 1 + max(0, len(args) - 3) if name == "apply_along_axis" else 2
        results: list[Val] = []
        later: Function | None = None
        for value in (a for a in given if a.function is not None or a.wraps is not None or callable(a.known)):
            if value.wraps is None and self.calls_unknown(value, most):
                return self._opaque([total, *args], named, text)
            if value.is_known and (library.is_pure(value.known) or library.is_numpy(value.known)):
                continue
            counts = {self._arity(value)} if value.wraps is None or self._arity(value) is not None else {1, len(rest)}
            for count in counts:
                if count is None:
                    return self._opaque(args, named, text)
                results.append(self.apply(value, [total] * count, {}, text))
            later = value.function if text not in library.CONSUMING else later
        if name == "apply_along_axis" and all(map(_copied_into_arrays, results)):
            return self.made([])
        if name == "vectorize" and all(r.scalar for r in results):
            return self.made([])
        results.append(total)
        return replace(join(self.made(results, array=False), self.reachable(results)), lazy=later)

    @staticmethod
    def _arity(value: Val) -> int | None:
        """How many positional arguments a function is to be given; None if that is not known."""
        given = 0
        while value.wraps is not None and value.wraps.how == "partial":
            given += len(value.wraps.args) + len(value.wraps.named)
            value = value.wraps.functions[0]
        node = value.function.node if value.function is not None else None
        if node is None and isinstance(value.known, types.FunctionType):
            node = source_of(value.known)
        return None if node is None else max(0, len([*node.args.posonlyargs, *node.args.args]) - given)

    def _unravelled(self, at: Val, shape: Val) -> Val | None:
        """The digits of a position in an array of a known shape, from the last one on."""
        sizes = [s.expr for s in shape.items or () if s.expr is not None and s.expr.constant and s.expr.const > 0]
        if not sizes or len(sizes) != len(shape.items or ()) or at.expr is None or not at.expr.integer:
            return None
        out: list[Val] = []
        rest = at
        for size in reversed(sizes):
            out.insert(0, self.operate(ast.Mod(), rest, of_expr(size)))
            rest = self.operate(ast.FloorDiv(), rest, of_expr(size))
        return Val(items=tuple(out), scalar=True)

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
        if name in library.CONSUMING:
            args = [replace(a, lazy=None) for a in args]
        if name == "len" and len(args) == 1:
            found = length_of(args[0])
            if args[0].is_known and isinstance(args[0].known, list):
                return of_expr(found) if self.length_read(args[0]) and found is not None else INTEGER
            if args[0].view is None and not args[0].scalar:
                self.use(args[0])
                found = None if args[0].items is None else found
            if found is not None and not (
                args[0].is_known and any(o.key in self.memory.not_constant for o in args[0].objs)
            ):
                return of_expr(found)
        called = [named[key] for key in ("key", "func") if key in named]
        called += args[library.FUNCTION_AT[name] :][:1] if name in library.FUNCTION_AT else []
        if any(not a.is_known and a.function is None and a.wraps is None for a in called):
            return self._opaque([self.reachable(args), *args], named, name)
        if name not in library.LOOKING and any(
            self.calls_unknown(a, 2 if name in ("reduce", "accumulate") else 9 if name == "starmap" else len(args) - 1)
            for a in (*args, *named.values())
        ):
            return self._opaque([self.reachable(args), *args], named, name)
        if any(_is_function(a) for a in (*args, *named.values())):
            return self._with_function(args, named, name)
        for value in (*args, *named.values()):
            self.use(value)
        if name not in library.LEAVING:
            self.use_held([*args, *named.values()])
        if name in ("getattr", "hasattr") and len(args) > 1 and not args[0].scalar:
            if isinstance(args[1].known, str):
                self.attribute(args[0], args[1].known)
            elif any(map(may_run, classes_of(args[0].objs))):
                return self._opaque(args, named, name)
        exprs = [a.expr for a in args]
        whole = bool(args) and all(e is not None and e.integer for e in exprs) and not named
        ready = [e for e in exprs if e is not None]
        if whole and name in ("min", "max") and len(ready) > 1:
            total = ready[0]
            for e in ready[1:]:
                total = (least if name == "min" else greatest)(total, e)
            return replace(of_expr(total), narrow=narrowed(args))
        if whole and name == "bool" and len(ready) == 1:
            return of_expr(truth(ready[0]), "b")
        if name == "ord" and len(ready) == 1:
            find = np.frompyfunc(ord, 1, 1)
            return of_expr(computed(lambda x: np.asarray(find(x)).astype(np.int64), ready, (0, 0x10FFFF)))
        if whole and name == "int" and len(ready) == 1:
            return of_expr(ready[0])
        if name == "int" and len(args) == 1 and ready and not named:
            return of_expr(computed(lambda x: np.trunc(np.asarray(x, dtype=float)).astype(np.int64), ready))
        if whole and name == "abs" and len(ready) == 1:
            low, high = ready[0].lo, ready[0].hi
            if low >= 0:
                return args[0]
            made = of_expr(computed(np.abs, ready, (0, max(abs(low), abs(high)))))
            return fitted(made, narrowed(args))
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
            if name == "getattr":
                return ANYTHING
            held = [self.reachable(args)]
            if name in ("max", "min"):
                total_held = held[0]
                for h in (*held[1:], *args):
                    total_held = join(total_held, h)
                return total_held
            return self.made([*held, *args, *named.values()], array=False)
        if name in ("sum", "abs", "pow", "round") and args:
            kind = args[0].kind if name in ("sum", "abs") else None
            if all(a.scalar for a in args):
                return replace(NUMBER, kind=kind)
            held = self.elements_of([*args, *self.elements_of(args)]) if name == "sum" else []
            lists = [h for h in held if objects(h) or h.anything]  # a sum of lists holds what they hold
            return self.made(lists, array=not lists, kind=kind)
        if name in library.FLOAT_RESULTS:
            return FLOAT
        if all(v.scalar for v in (*args, *named.values())) or library.module_of(function) in ("math", "cmath"):
            return NUMBER
        return join(self.made(args, array=False), self.reachable([*args, *named.values()]))


def bound_to(function: Any, args: Sequence[Val], named: dict[str, Val]) -> dict[str, Val] | None:
    """Arguments by the names of their parameters, in order; None where these are not known."""
    signature = library.parameters(function)
    if signature is None:
        return None
    try:
        bound = signature.bind_partial(*args, **named).arguments
    except TypeError:
        return None
    found: dict[str, Val] = {}
    for key, value in bound.items():
        kind = signature.parameters[key].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            found |= {f"*{n}": v for n, v in enumerate(value)}
        elif kind is inspect.Parameter.VAR_KEYWORD:
            found |= value
        else:
            found[key] = value
    return found


def _bounded(function: Any, args: Sequence[Val]) -> Val | None:
    """`np.clip`, `np.minimum` and `np.maximum` of integers that depend on indices only."""
    exprs = [a.expr for a in args if a.expr is not None and a.expr.integer and a.kind == "i"]
    if len(exprs) != len(args) or not library.one_of(function, (np.clip, np.minimum, np.maximum)):
        return None
    if len(args) != (3 if function is np.clip else 2):
        return None
    if function is np.clip:
        return replace(of_expr(least(greatest(exprs[0], exprs[1]), exprs[2])), narrow=narrowed(args))
    return replace(of_expr((least if function is np.minimum else greatest)(*exprs)), narrow=narrowed(args))


def _is_false(value: Val) -> bool:
    return value.expr is not None and value.expr.constant and not value.expr.const


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


def _copied_into_arrays(value: Val) -> bool:
    """Whether a result is a number or an array, whose elements are copied where it is put into an array."""
    return value.scalar or value.view is not None or (bool(value.objs) and all(o.array for o in value.objs))


def _is_function(value: Val) -> bool:
    """Whether it is a function of the user's."""
    return (
        value.function is not None
        or value.wraps is not None
        or (value.is_known and isinstance(value.known, types.FunctionType))
    )
