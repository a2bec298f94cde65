"""Methods of lists, `bisect`, `heapq`, in the Python that is compiled. In: lists of numbers or tuples. Out: the same.

What they do to a list is what Python's own do, item by item: heaps lie as Python's lie.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import bisect
import heapq
from collections.abc import Callable
from typing import Any


def _message(f: Callable[..., Any], *args: Any) -> str:
    """What this Python says where a function fails."""
    try:
        f(*args)
    except (IndexError, ValueError) as error:
        return str(error)
    raise AssertionError


NOTHING_TO_POP = _message([].pop, 0)
NO_SUCH_ITEM = _message([1].pop, 5)
NOT_THERE = _message([1].remove, 5)
EMPTY_HEAP = _message(heapq.heappop, [])
NO_STEP = _message([1].__getitem__, slice(None, None, 0))
NEGATIVE_LO = "lo must be non-negative"


def part(items, lower, upper, step):
    n = len(items)
    if step is None:
        step = 1
    if step == 0:
        raise ValueError(NO_STEP)
    first, last = (0, n) if step > 0 else (-1, n - 1)
    start = first if step > 0 else last
    stop = last if step > 0 else first
    if lower is not None:
        start = max(lower + n, first) if lower < 0 else min(lower, last)
    if upper is not None:
        stop = max(upper + n, first) if upper < 0 else min(upper, last)
    return [items[k] for k in range(start, stop, step)]


def pop(items, at):
    n = len(items)
    if n == 0:
        raise IndexError(NOTHING_TO_POP)
    if at < 0:
        at += n
    if at < 0 or at >= n:
        raise IndexError(NO_SUCH_ITEM)
    found = items[at]
    for k in range(at, n - 1):
        items[k] = items[k + 1]
    items.pop()
    return found


def insert(items, at, value):
    n = len(items)
    if at < 0:
        at = max(at + n, 0)
    at = min(at, n)
    items.append(value)
    for k in range(n, at, -1):
        items[k] = items[k - 1]
    items[at] = value


def extend(items, more):
    for k in range(len(more)):
        items.append(more[k])


def index(items, value):
    for k in range(len(items)):
        if items[k] == value:
            return k
    raise ValueError(f"{value!r} is not in list")


def count(items, value):
    found = 0
    for k in range(len(items)):
        if items[k] == value:
            found += 1
    return found


def contains(items, value):
    for k in range(len(items)):  # noqa: SIM110
        if items[k] == value:
            return True
    return False


def equal(items, others):
    n = len(items)
    if n != len(others):
        return False
    for k in range(n):  # noqa: SIM110
        if items[k] != others[k]:
            return False
    return True


def remove(items, value):
    n = len(items)
    for k in range(n):
        if items[k] == value:
            for j in range(k, n - 1):
                items[j] = items[j + 1]
            items.pop()
            return
    raise ValueError(NOT_THERE)


def reverse(items):
    n = len(items)
    for k in range(n // 2):
        kept = items[k]
        items[k] = items[n - 1 - k]
        items[n - 1 - k] = kept


METHODS: dict[str, Any] = {f.__name__: f for f in (pop, insert, extend, index, count, remove, reverse)}


def bisect_left(a, x, lo=0, hi=-1):
    if lo < 0:
        raise ValueError(NEGATIVE_LO)
    if hi == -1:
        hi = len(a)
    while lo < hi:
        mid = (lo + hi) // 2
        if a[mid] < x:
            lo = mid + 1
        else:
            hi = mid
    return lo


def bisect_right(a, x, lo=0, hi=-1):
    if lo < 0:
        raise ValueError(NEGATIVE_LO)
    if hi == -1:
        hi = len(a)
    while lo < hi:
        mid = (lo + hi) // 2
        if x < a[mid]:
            hi = mid
        else:
            lo = mid + 1
    return lo


def insort_left(a, x):
    insert(a, bisect_left(a, x), x)


def insort_right(a, x):
    insert(a, bisect_right(a, x), x)


def _up(heap, start, at):
    """An item goes towards the root, as far as it is less."""
    item = heap[at]
    while at > start:
        parent = (at - 1) // 2
        if not item < heap[parent]:
            break
        heap[at] = heap[parent]
        at = parent
    heap[at] = item


def _down(heap, start):
    """An item goes to a leaf, behind the lesser children, and from there up."""
    n = len(heap)
    item = heap[start]
    at = start
    child = 2 * at + 1
    while child < n:
        if child + 1 < n and not heap[child] < heap[child + 1]:
            child += 1
        heap[at] = heap[child]
        at = child
        child = 2 * at + 1
    heap[at] = item
    _up(heap, start, at)


def heappush(heap, item):
    heap.append(item)
    _up(heap, 0, len(heap) - 1)


def heappop(heap):
    if len(heap) == 0:
        raise IndexError(EMPTY_HEAP)
    last = heap.pop()
    if len(heap) == 0:
        return last
    found = heap[0]
    heap[0] = last
    _down(heap, 0)
    return found


def heapreplace(heap, item):
    if len(heap) == 0:
        raise IndexError(EMPTY_HEAP)
    found = heap[0]
    heap[0] = item
    _down(heap, 0)
    return found


def heappushpop(heap, item):
    if len(heap) == 0 or not heap[0] < item:
        return item
    found = heap[0]
    heap[0] = item
    _down(heap, 0)
    return found


def heapify(heap):
    for at in range(len(heap) // 2 - 1, -1, -1):
        _down(heap, at)


_FUNCTIONS: tuple[tuple[Any, Any], ...] = (
    (bisect.bisect_left, bisect_left), (bisect.bisect_right, bisect_right), (bisect.insort_left, insort_left),
    (bisect.insort_right, insort_right), (heapq.heappush, heappush), (heapq.heappop, heappop),
    (heapq.heapreplace, heapreplace), (heapq.heappushpop, heappushpop), (heapq.heapify, heapify),
)  # fmt: skip
LIBRARY: dict[int, Any] = {id(theirs): ours for theirs, ours in _FUNCTIONS}
