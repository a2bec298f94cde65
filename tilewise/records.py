"""Dataclasses that cost nothing until they are used. In: a class with annotations. Out: the same class, as a dataclass.

The standard library writes and compiles six functions for a frozen dataclass when it is declared: some 0.8 ms each, for
two hundred classes half of the time of `import tilewise`. Here each function is compiled when it has been called some
times (before, fields are gone through one by one), and `fields` are listed when first asked for; most classes of a
program are never asked for most of them, or once. The functions do what the standard ones do, so `dataclasses.fields`,
`replace`, `asdict`, `match` and pickles work as ever.
"""

from __future__ import annotations

import dataclasses
import inspect
import reprlib
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, FrozenInstanceError
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

_FIELDS, _GIVEN = "__dataclass_fields__", "__given_fields__"
_PLAIN = getattr(dataclasses, "_FIELD")  # noqa: B009  # the kind of a field that is neither ClassVar nor InitVar
_set = object.__setattr__
FEW = 64  # calls until a function is compiled, which takes as long as 100 calls save
_UNUSUAL = object()  # arguments that the compiled function shall judge


class _Fields:
    """`__dataclass_fields__` and `__match_args__` of a class, listed when they are first asked for."""

    def __init__(self, name: str, listed: Callable[[type], Any]) -> None:
        self._name, self._listed = name, listed

    def __get__(self, instance: object, owner: type) -> Any:
        declared = next(base for base in owner.__mro__ if base.__dict__.get(self._name) is self)
        found = self._listed(declared)
        setattr(declared, self._name, found)
        return found


def _fields(owner: type) -> dict[str, Field[Any]]:
    """The fields of a class and of those it derives from, as the standard library sees them."""
    found: dict[str, Field[Any]] = {}
    for base in owner.__mro__[:0:-1]:
        found |= getattr(base, _FIELDS, {})
    own = inspect.get_annotations(owner)
    given = owner.__dict__[_GIVEN]
    values = {name: given.get(name, owner.__dict__.get(name, MISSING)) for name in own}
    body = {name: value for name, value in values.items() if value is not MISSING}
    body |= {"__annotations__": own, "__module__": owner.__module__, "__doc__": "Fields."}
    declared = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=_declaration(owner).kw_only)
    twin: Any = declared(type(owner.__name__, (), body))
    found |= getattr(twin, _FIELDS)
    return found


def _shape(owner: type) -> list[Any]:
    """What the functions of a class must know of its fields, in order. `dataclasses.fields` takes ten times as long."""
    found: dict[str, Any] = {}
    for base in owner.__mro__[::-1]:
        own = base.__dict__
        if _GIVEN not in own:
            found |= {name: each for name, each in own.get(_FIELDS, {}).items() if each._field_type is _PLAIN}
            continue
        for name, kind in inspect.get_annotations(base).items():
            text = kind if isinstance(kind, str) else repr(kind)
            if any(special in text for special in ("ClassVar", "InitVar", "KW_ONLY")):
                return list(dataclasses.fields(owner))
            value = own[_GIVEN].get(name)
            if value is None:
                value = dataclasses.field(default=own.get(name, MISSING))
            if value.default.__class__.__hash__ is None:
                raise ValueError(f"mutable default {type(value.default)} for field {name} is not allowed")
            keyword = value.kw_only if value.kw_only is not MISSING else _declaration(base).kw_only
            names = ("default", "default_factory", "init", "repr", "hash", "compare")
            facts = {each: getattr(value, each) for each in names}
            found[name] = SimpleNamespace(name=name, kw_only=keyword, **facts)
    return list(found.values())


def _arguments(owner: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(owner) if field.init and not field.kw_only)


def _declaration(owner: type) -> Any:
    """How a class was declared."""
    return getattr(owner, "__dataclass_params__")  # noqa: B009


def _compiled(owner: type, name: str, parameters: Iterable[str], body: Iterable[str], names: dict[str, Any]) -> Any:
    text = f"def {name}({', '.join(parameters)}):\n " + "\n ".join(body)
    made: dict[str, Any] = {}
    exec(text, names, made)
    made[name].__qualname__ = f"{owner.__qualname__}.{name}"
    made[name].__module__ = owner.__module__
    return made[name]


def _init(owner: type) -> Any:
    frozen = _declaration(owner).frozen
    names: dict[str, Any] = {"_set": _set}
    positional, keywords, body = ["self"], ["*"], []
    for field in _shape(owner):
        name, value = field.name, field.name
        if field.default_factory is not MISSING:
            names[f"_new_{name}"], names["_missing"] = field.default_factory, MISSING
            value = f"_new_{name}()" + (f" if {name} is _missing else {name}" if field.init else "")
        elif not field.init:
            continue  # the class has it
        if field.init:
            parameters = keywords if field.kw_only else positional
            if field.default is not MISSING:
                names[f"_default_{name}"] = field.default
                parameters.append(f"{name}=_default_{name}")
            else:
                parameters.append(name if field.default_factory is MISSING else f"{name}=_missing")
        body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(owner, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = positional + (keywords if len(keywords) > 1 else [])
    return _compiled(owner, "__init__", parameters, body or ["pass"], names)


def _values(fields: Iterable[Any], of: str) -> str:
    return "(" + "".join(f"{of}.{field.name}, " for field in fields) + ")"


def _eq(owner: type) -> Any:
    fields = [field for field in _shape(owner) if field.compare]
    same = f"return {_values(fields, 'self')} == {_values(fields, 'other')}"
    body = ["if other.__class__ is self.__class__:", f" {same}", "return NotImplemented"]
    return _compiled(owner, "__eq__", ("self", "other"), body, {})


def _hash(owner: type) -> Any:
    fields = [field for field in _shape(owner) if (field.compare if field.hash is None else field.hash)]
    return _compiled(owner, "__hash__", ("self",), [f"return hash({_values(fields, 'self')})"], {})


def _repr(owner: type) -> Any:
    parts = ", ".join(f"{f.name}={{self.{f.name}!r}}" for f in _shape(owner) if f.repr)
    body = [f'return f"{{self.__class__.__qualname__}}({parts})"']
    return reprlib.recursive_repr()(_compiled(owner, "__repr__", ("self",), body, {}))


_MAKERS = {"__init__": _init, "__eq__": _eq, "__hash__": _hash, "__repr__": _repr}


def _init_by_fields(owner: type) -> Any:
    shape, put = _shape(owner), _set if _declaration(owner).frozen else setattr
    positional = [field.name for field in shape if field.init and not field.kw_only]
    prepare = getattr(owner, "__post_init__", None)

    def init(self: Any, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        given = dict(zip(positional, args, strict=False))
        if len(args) > len(positional) or not given.keys().isdisjoint(kwargs):
            return _UNUSUAL
        given |= kwargs
        values = []
        for field in shape:
            if field.init and field.name in given:
                values.append((field.name, given.pop(field.name)))
            elif field.default_factory is not MISSING:
                values.append((field.name, field.default_factory()))
            elif field.init and field.default is not MISSING:
                values.append((field.name, field.default))
            elif field.init:
                return _UNUSUAL
        if given:
            return _UNUSUAL
        for name, value in values:
            put(self, name, value)
        if prepare is not None:
            self.__post_init__()
        return None

    return init


def _eq_by_fields(owner: type) -> Any:
    names = [field.name for field in _shape(owner) if field.compare]

    def eq(self: object, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        if len(args) != 1 or kwargs:
            return _UNUSUAL
        if args[0].__class__ is not self.__class__:
            return NotImplemented
        return tuple([getattr(self, name) for name in names]) == tuple([getattr(args[0], name) for name in names])

    return eq


def _hash_by_fields(owner: type) -> Any:
    names = [field.name for field in _shape(owner) if (field.compare if field.hash is None else field.hash)]

    def of_fields(self: object, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        return _UNUSUAL if args or kwargs else hash(tuple([getattr(self, name) for name in names]))

    return of_fields


_BY_FIELDS = {"__init__": _init_by_fields, "__eq__": _eq_by_fields, "__hash__": _hash_by_fields}


def _later(owner: type, name: str) -> Any:
    """A function that goes through the fields, and puts a compiled one in its place when it was called often."""
    make, by_fields = _MAKERS[name], _BY_FIELDS.get(name)
    left, way = FEW, None

    def method(self: object, /, *args: object, **kwargs: object) -> Any:
        nonlocal left, way
        left -= 1
        if left > 0 and by_fields is not None:
            way = by_fields(owner) if way is None else way
            found = way(self, args, kwargs)
            if found is not _UNUSUAL:
                return found
        made = make(owner)
        setattr(owner, name, made)
        return made(self, *args, **kwargs)

    return method


def _freeze(owner: Any) -> None:
    """Refuse to change fields."""

    def __setattr__(self: object, name: str, value: object) -> None:
        if type(self) is owner or name in getattr(owner, _FIELDS):
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(owner, self).__setattr__(name, value)

    def __delattr__(self: object, name: str) -> None:
        if type(self) is owner or name in getattr(owner, _FIELDS):
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(owner, self).__delattr__(name)

    for function in (__setattr__, __delattr__):
        setattr(owner, function.__name__, function)


def _declared(owner: Any, frozen: bool, eq: bool, kw_only: bool) -> Any:
    own = owner.__dict__
    given = {name: value for name, value in own.items() if isinstance(value, Field)}
    hashed = own.get("__hash__") is not None or ("__hash__" in own and "__eq__" not in own)
    names = ["__init__", "__repr__", *(["__eq__"] if eq else [])]
    if eq and not hashed:
        if frozen:
            owner.__hash__ = _later(owner, "__hash__")
        else:
            owner.__hash__ = None
    for name in names:
        if name not in own:
            setattr(owner, name, _later(owner, name))
    for name, value in given.items():
        if value.default is MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, value.default)
    setattr(owner, _GIVEN, given)
    setattr(owner, _FIELDS, _Fields(_FIELDS, _fields))
    if "__match_args__" not in own:
        setattr(owner, "__match_args__", _Fields("__match_args__", _arguments))  # noqa: B010
    owner.__dataclass_params__ = SimpleNamespace(
        init=True, repr=True, eq=eq, order=False, unsafe_hash=False, frozen=frozen, kw_only=kw_only
    )
    if frozen:
        _freeze(owner)
    return owner


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(owner=None, /, *, frozen=False, eq=True, slots=False, kw_only=False):
        """`dataclasses.dataclass`, with functions compiled when they are first called.

        >>> @dataclass(frozen=True)
        ... class Interval:
        ...     start: int
        ...     stop: int = 10
        >>> Interval(2), Interval(2) == Interval(2, 10)
        (Interval(start=2, stop=10), True)
        """
        if slots:  # few: by the standard library
            made = dataclasses.dataclass(frozen=frozen, eq=eq, slots=slots, kw_only=kw_only)
        else:
            made = partial(_declared, frozen=frozen, eq=eq, kw_only=kw_only)
        return made if owner is None else made(owner)
