"""Plans on their way to workers. In: a plan, how to pack it. Out: bytes, or an error that says what cannot be sent.

A plan may hold functions of the user's program, with all that these refer to.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from tilewise.errors import FunctionError, message
from tilewise.plan.exchanges import Exchanges
from tilewise.plan.shares import Shares

Pack = Callable[[Any], Any]
DEPTH = 3  # of the objects between an operator and the function that a user gave


def packed_plan(plan: Exchanges | Shares, pack: Pack) -> Any:
    """A plan as workers get it, without what only the driver needs."""
    try:
        return pack(plan.to_send())
    except Exception as error:
        why = f"{type(error).__name__}: {error}".split("\n", 1)[0][:200]
        what, where = _culprit(plan if isinstance(plan, Exchanges) else plan.streams.plan, pack)
        raise FunctionError(
            message(
                f"{what} cannot be sent to workers ({why})",
                where=where,
                cure="Make it inside of the function, or let the function refer to data only",
            )
        ) from error


def _culprit(plan: Exchanges, pack: Pack) -> tuple[str, str | None]:
    """What cannot be sent, and the user's line that brought it in."""
    for spec in plan.specs:
        if _fits(spec.op, pack):
            continue
        where = None if spec.site is None else "{}:{}".format(*spec.site)
        for function in _functions(spec.op, DEPTH):
            found = inspect.getclosurevars(function)
            for name, value in (*found.nonlocals.items(), *found.globals.items()):
                if not _fits(value, pack):
                    return f"{name} ({type(value).__name__}), which {function.__name__} refers to,", where
            if not _fits(function, pack):
                return function.__name__, where
        return spec.op.label(), where
    return "a part of the plan", None


def _functions(thing: Any, depth: int) -> Iterator[Any]:
    if inspect.isfunction(thing):
        if not thing.__module__.startswith("tilewise."):
            yield thing
    elif depth:
        slots = [k for kind in type(thing).__mro__ for k in getattr(kind, "__slots__", ())]
        held = [*getattr(thing, "__dict__", {}).values(), *(getattr(thing, k, None) for k in slots)]
        for inner in thing if isinstance(thing, tuple | list) else held:
            yield from _functions(inner, depth - 1)


def _fits(value: Any, pack: Pack) -> bool:
    try:
        pack(value)
    except Exception:
        return False
    return True
