"""Methods of dicts, and the key of the largest value, in the Python that is compiled. In: dicts. Out: the same."""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

from typing import Any

from tilewise.python.standard.written import NOTHING_GREATEST, NOTHING_LEAST


def update(found, more):
    for k in more:
        found[k] = more[k]


def equal(found, other):
    if len(found) != len(other):
        return False
    for k in found:
        if k not in other:
            return False
        if found[k] != other[k]:
            return False
    return True


def with_greatest(found):
    """max(found, key=found.get)"""
    if len(found) == 0:
        raise ValueError(NOTHING_GREATEST)
    for k in found:
        best = k
        most = found[k]
        break
    for k in found:
        if found[k] > most:
            best = k
            most = found[k]
    return best


def with_least(found):
    """min(found, key=found.get)"""
    if len(found) == 0:
        raise ValueError(NOTHING_LEAST)
    for k in found:
        best = k
        most = found[k]
        break
    for k in found:
        if found[k] < most:
            best = k
            most = found[k]
    return best


BY_VALUE: dict[str, Any] = {"max": with_greatest, "min": with_least}
