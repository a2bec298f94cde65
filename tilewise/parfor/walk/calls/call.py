"""Calls and methods. In: syntax trees of calls. Out: values; what is read, written and drawn is recorded.

Functions with source are followed with their arguments; library.py has what others do; all others order the iterations.
"""

from __future__ import annotations

import ast
import collections
import copy
import functools
import inspect
import operator
import types
from typing import Any

import numpy as np

from tilewise.parfor.walk.calls import library
from tilewise.parfor.walk.calls.copies import Copies
from tilewise.parfor.walk.calls.library_calls import bound_to
from tilewise.parfor.walk.kept import replace, text_of
from tilewise.parfor.walk.knowns import Alike
from tilewise.parfor.walk.values import (
    NUMBER,
    Val,
    Wrapped,
    join,
    objects,
)

# Immutable things whose methods change nothing.
PLAIN_SCALARS = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    range,
    slice,
    tuple,
    frozenset,
    np.generic,
    np.dtype,
)
CONTAINERS = (list, dict, set, tuple, frozenset, collections.OrderedDict, collections.defaultdict, collections.Counter)


class Calls(Copies):
    """Follows calls."""

    def _call(self, node: ast.Call) -> Val:
        return self.call(node)

    def call(self, node: ast.Call) -> Val:
        """Follow a call."""
        if isinstance(node.func, ast.Attribute) and node.func.attr == "update" and len(node.args) == 1:
            table = self.ev(node.func.value)
            if not node.keywords and self.put_all(table, node.args[0]):
                return Val(known=None, scalar=True)
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
        return self.apply(function, args, named, text_of(node.func), spread)

    def apply(self, function: Val, args: list[Val], named: dict[str, Val], text: str, spread: bool = False) -> Val:
        """The result of a call."""
        if function.function is not None and not spread:
            return self.enter(function.function, args, named)
        if function.method is not None:
            if spread and not function.method[0].scalar:
                return self._opaque([self.reachable([function.method[0], *args]), *args], named, text)
            return self._method(*function.method, args, named, text)
        if function.wraps is not None:
            return self._wrapped(function.wraps, args, named, text, spread)
        if not function.is_known:
            return self._opaque(args, named, text)
        known = function.known
        if known is functools.partial and args and not spread:
            return Val(wraps=Wrapped("partial", (args[0],), tuple(args[1:]), tuple(named.items())), scalar=True)
        if (known is np.vectorize or known is np.frompyfunc) and args and not spread:
            return Val(wraps=Wrapped("elements", (args[0],), (), tuple(named.items())), scalar=True)
        if (known is copy.copy or known is copy.deepcopy) and len(args) == 1 and not named and not spread:
            return self.copied(args[0], known is copy.deepcopy, text)
        if known is functools.reduce:
            if not args or (not args[0].is_known and args[0].function is None):
                return self._opaque([self.reachable(args), *args], named, text)
            return self._with_function(args, named, text)
        if type(known) is functools.partial and not spread:
            given = [self.value_of(a, text) for a in known.args]
            more = {key: self.value_of(value, key) for key, value in known.keywords.items()}
            return self.apply(self.value_of(known.func, text), [*given, *args], {**more, **named}, text)
        if isinstance(known, np.vectorize):
            how = "vectorize" if known.signature is None else text
            return self._with_function([self.value_of(known.pyfunc, text), *args], named, how)
        if known is max or known is min or known is sorted:
            named = self._without_look_up(named)
        if any(v.method is not None and v.method[1] != "slice" for v in (*args, *named.values())):
            return self._opaque(args, named, text)  # a method that may be called
        if not spread and not named:
            found = self._as_syntax(known, args)
            if found is not None:
                return found
        if library.makes_generator(known):
            return self._opaque(args, named, text) if spread else self.new_generator(known, args, named, text)
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
        if spread and (library.is_numpy(known) or library.is_pure(known)):
            spreadable = library.is_pure(known) and getattr(known, "__name__", "") in library.SPREADABLE
            if not spreadable or "**" in named:
                return self._opaque([self.reachable([*args, *named.values()]), *args], named, text)
        if library.is_numpy(known):
            if any(library.has_stream(o) for v in (*args, *named.values()) for o in objects(v)):
                return self._opaque(args, named, text)  # it may draw from it
            return self._numpy(known, args, named, text)
        if library.is_pure(known):
            return self._pure(known, args, named)
        found = None if spread else self.follow(known, args, named)
        return found if found is not None else self._opaque(args, named, text)

    def _wrapped(self, made: Wrapped, args: list[Val], named: dict[str, Val], text: str, spread: bool) -> Val:
        """A call of a function that is made of others."""
        if spread:
            return self._opaque([self.reachable([*made.parts(), *args]), *args], named, text)
        if made.how == "partial":
            return self.apply(made.functions[0], [*made.args, *args], {**dict(made.named), **named}, text)
        if made.how == "elements":
            alone = not any(key == "signature" for key, _ in made.named)
            return self._with_function([*made.functions, *args], named, "vectorize" if alone else text)
        total: Val | None = None
        self.unsure += 1
        for one in made.functions:
            total = join(total, self.apply(one, list(args), dict(named), text))
        self.unsure -= 1
        return total or Val()

    def _as_syntax(self, function: Any, args: list[Val]) -> Val | None:
        """Functions that do what a subscript or an attribute does; None for others."""
        none = Val(known=None, scalar=True)
        if function is operator.getitem and len(args) == 2:
            return self.load(args[0], self._parts(args[1]))
        if function is operator.setitem and len(args) == 3:
            self._put(args[0], self._parts(args[1]), self.use(args[2]))
            return none
        if function is np.put and len(args) == 3 and args[1].expr is not None and args[1].expr.integer:
            array = args[0].known
            if isinstance(array, np.ndarray) and array.flags.c_contiguous and args[0].view is not None:
                self._put(self.value_of(array.reshape(-1), args[0].view.name), [args[1]], self.use(args[2]))
                return none
        if (function is getattr or function is setattr) and 2 <= len(args) <= 3 and type(args[1].known) is str:
            if function is setattr and len(args) == 3:
                self.set_attribute(args[0], args[1].known, self.use(args[2]), f"setattr({args[1].known!r})")
                return none
            found = self.attribute(args[0], args[1].known)
            return found if len(args) == 2 else join(found, args[2])
        if function is next and args and not args[0].anything and args[0].objs and self._private(args[0].objs):
            self.use(args[0])
            return (
                self.contents(replace(args[0], lazy=None)) if len(args) == 1 else join(self.contents(args[0]), args[1])
            )
        return None

    def _without_look_up(self, named: dict[str, Val]) -> dict[str, Val]:
        """Arguments without `key=table.get`, or another method that looks something up: all of the table is read."""
        base, name = named["key"].method or (Val(), "") if "key" in named else (Val(), "")
        if name not in ("get", "__getitem__", "index", "count") or not (base.view is not None or self.is_dict(base)):
            return named
        self.use(base)
        self.use_held([base])
        return {key: value for key, value in named.items() if key != "key"}

    def _parts(self, at: Val) -> list[Any]:
        """A value as a subscript."""
        self.use(at)
        return list(at.items) if at.items is not None and len(at.items) != 1 else [at]

    def set_attribute(self, base: Val, name: str, value: Val, text: str) -> None:
        """`base.name = value`."""
        raise NotImplementedError

    def _method(self, base: Val, name: str, args: list[Val], named: dict[str, Val], text: str) -> Val:
        if library.all_random(base):
            return self.draw(base, name, args, named, text)
        if base.function is not None or (base.method is not None and base.method[1] != "slice"):
            return self._opaque([base, *args], named, text)
        if base.view is not None or (base.objs and all(o.array for o in base.objs)):
            return self._array_method(base, name, args, named)
        if base.scalar:
            for value in args:
                self.use(value)
            if base.is_known and not isinstance(base.known, PLAIN_SCALARS):
                return self._opaque(args, named, text)
            if base.kind == "U":
                with_text = getattr(str, name, None)
                if with_text is not None and name in ("format", "zfill", "upper", "lower", "strip", "replace"):
                    return self.text_of(with_text, [base, *args])
            return Val(scalar=True, kind=base.kind if name in ("item", "conjugate") else None)
        known = base.known if base.is_known and not isinstance(base.known, Alike) else None
        classes = {o.cls or (type(o.value) if o.key else None) for o in base.objs}
        own = any(isinstance(inspect.getattr_static(c, name, None), types.FunctionType) for c in classes)
        if own or any(o.cls is not None for o in base.objs) or (known is not None and type(known) not in CONTAINERS):
            cls = classes.pop() if len(classes) == 1 and not base.anything else None
            method = inspect.getattr_static(cls, name, None)
            if isinstance(method, types.FunctionType):
                found = self.follow(method, [base, *args], named)
                if found is not None:
                    return found
            return self._opaque([base, *args], named, text)
        if not base.objs and base.items is None:
            return self._opaque([base, *args], named, text) if base.anything else Val()
        return self._container_method(base, name, args, named, text)

    def _array_method(self, base: Val, name: str, args: list[Val], named: dict[str, Val]) -> Val:
        for value in args:
            self.use(value)
        for key, value in named.items():
            if key != "out":
                self.use(value)
        if any(self.calls_unknown(v, 1) or v.function is not None for v in (*args, *named.values())):
            return self._opaque([base, *args], named, name)
        if name in library.ARRAY_UNKNOWN:
            return self._opaque([base, *args], named, name)
        if name == "__setitem__" and len(args) == 2 and base.view is not None:
            return self._as_syntax(operator.setitem, [base, *args]) or NUMBER
        if name in ("item", "__getitem__") and args and not named and base.view is not None and not base.view.within:
            parts = list(args) if name == "item" else self._parts(args[0])
            if name == "__getitem__" or len(parts) == len(base.view.axes):
                return self.load(base, parts)
        if args and name not in library.ARRAY_WRITES | library.ARRAY_VIEWS:
            found = bound_to(getattr(np.ndarray, name, None), [base, *args], named)
            if found is None:
                for value in args[1:]:
                    if not value.scalar:
                        self.touch_value(value, write=True)
            elif "out" in found:
                named = {**named, "out": found["out"]}
        if name in library.ARRAY_WRITES or library.writes_in_place(name):
            self.use(base)
            self.touch_value(base, write=True)
            return Val(known=None, scalar=True)
        if "out" in named and named["out"].is_known and named["out"].known is None:
            named = {key: value for key, value in named.items() if key != "out"}
        if "out" in named:
            self.touch_value(named["out"], write=True)
        if name == "transpose" and not args and base.view is not None and not base.view.within:
            return Val(view=replace(base.view, axes=base.view.axes[::-1]), kind=base.kind)
        itself = name == "__array__" or (name in ("conj", "conjugate") and base.kind in ("b", "i", "u", "f"))
        if itself and not args and not named:
            return base
        if name == "copy" and base.view is not None and not base.view.within:
            self.use(base)
            return self.new_array([a.length for a in base.view.axes], base.kind)
        if name in ("reshape", "ravel", "transpose", "swapaxes", "squeeze", "diagonal") and base.is_known and not named:
            again = self._viewed(base.known, name, args)
            if again is not None:
                return self.value_of(again, base.view.name if base.view is not None else name)
        if name in library.ARRAY_VIEWS:
            copies = name in ("flatten",) or (name == "astype" and "copy" not in named and len(args) < 5)
            if copies:
                self.use(base)
                return self.made([base], kind=base.kind if name == "flatten" else None)
            return self.within(base)
        self.use(base)
        if "out" in named:
            return named["out"]
        if name in ("item", "tolist"):
            return replace(NUMBER, kind=base.kind) if name == "item" else self.made([], array=False)
        if name in library.TO_ONE_NUMBER and not args and not named and base.kind in ("b", "i", "u", "f", "c"):
            own = base.kind if base.kind != "b" else "i"
            return replace(NUMBER, kind=library.TO_ONE_NUMBER[name] or ("f" if name == "mean" and own != "c" else own))
        if name in ("argmax", "argmin", "argsort", "searchsorted"):
            return self.made([], kind="i")
        if name in ("mean", "std", "var"):
            return self.made([], kind="f" if base.kind in ("b", "i", "u", "f") else None)
        return self.made(
            [], kind=base.kind if name in ("sum", "min", "max", "prod", "cumsum", "take", "clip") else None
        )

    @staticmethod
    def _viewed(array: Any, name: str, args: list[Val]) -> Any:
        """A view of an array that is known, by a method with arguments that are known; None for copies."""
        given = []
        for value in args:
            parts = value.items if value.items is not None else (value,)
            numbers = [p.expr.const for p in parts if p.expr is not None and p.expr.constant]
            if len(numbers) != len(parts):
                return None
            given.append(tuple(numbers) if value.items is not None else numbers[0])
        try:
            made = getattr(array, name)(*given)
        except (TypeError, ValueError):
            return None
        return made if isinstance(made, np.ndarray) and made.size and np.may_share_memory(made, array) else None
