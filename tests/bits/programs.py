"""Programs whose bits history could change. In: a module with NumPy's names. Out: what a user would look at.

Most work on arrays between the sizes that are done at once and those that are recorded, in loops: there the policy of
when work runs (docs/scheduling.md) has most to decide.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

import tilewise as tw

MIDDLE = 40_000  # float64: 320 kB, done at once unless a loop is promoted
LARGE = 400_000  # float64: 3.2 MB, recorded

Program = Callable[[Any], Any]


def numbers(n: int, seed: int = 0) -> Any:
    return numpy.random.default_rng(seed).random(n)


def decay(np: Any) -> Any:
    x = np.asarray(numbers(MIDDLE))
    for _ in range(60):
        x = x + np.exp(-x) * 0.1
    return x


def fixed_point(np: Any) -> Any:
    x = np.asarray(numbers(MIDDLE))
    for _ in range(60):
        x = np.exp(x - 1.0)
    return x


def many_operators(np: Any) -> Any:
    """More than any number of operators that a policy may wait for, all in one loop."""
    x = np.asarray(numbers(MIDDLE))
    y = np.zeros(MIDDLE)
    for k in range(120):
        x = x * 0.999 + 0.001 * k
        y = y + np.sin(x) * 0.5
    return x, y


def totals(np: Any) -> Any:
    """A sum in every turn of a loop over arrays of middling size."""
    x, seen = np.asarray(numbers(MIDDLE)), []
    for _ in range(40):
        x = x * 0.75 + 0.1
        seen.append((x * x).sum())
    return [float(s) for s in seen]


def total_after(np: Any) -> Any:
    """Long elementwise loops, then sums of what they leave pending."""
    x = np.asarray(numbers(MIDDLE))
    found = []
    for n in (40, 200, 17):
        for _ in range(n):
            x = x * 0.999 + 0.0005
        found += [float((x * x).sum()), float((x * 0.3).mean())]
    return found, x


def total_after_large(np: Any) -> Any:
    x = np.asarray(numbers(LARGE))
    found = []
    for n in (3, 40, 200, 17):
        for _ in range(n):
            x = x * 0.999
        found += [float((x * x).sum()), float((x * 0.3).mean())]
    return found, x


def short_inside_long(np: Any) -> Any:
    """A short loop inside another: its flushes come in ever other turns."""
    x = np.asarray(numbers(LARGE))
    y = np.zeros(LARGE)
    for k in range(12):
        for _ in range(3 + k % 3):
            x = np.sqrt(x * x + 0.25) * 0.9
        y = y + np.log(x + 1.0) * x
    return x, y, float((x * y).sum())


def short_inside_middle(np: Any) -> Any:
    x = np.asarray(numbers(MIDDLE))
    y = np.zeros(MIDDLE)
    for k in range(60):
        for _ in range(3 + k % 3):
            x = np.sqrt(x * x + 0.25) * 0.9
        y = y + np.log(x + 1.0) * x
    return x, y, float((x * y).sum())


def stencil(np: Any) -> Any:
    u = np.asarray(numbers(MIDDLE)).reshape(200, -1).copy()
    for _ in range(50):
        u[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
        u = u + 0.01 * np.tanh(u)
    return u


def escape(np: Any) -> Any:
    c = np.asarray(numbers(MIDDLE) * 3 - 2) + 1j * np.asarray(numbers(MIDDLE, 1))
    z, count = np.zeros(MIDDLE, complex), np.zeros(MIDDLE, int)
    for _ in range(50):
        inside = np.abs(z) < 2
        z = np.where(inside, z * z + c, z)
        count = count + inside
    return z, count


def powers(np: Any) -> Any:
    x = np.asarray(numbers(MIDDLE)) + 0.5
    y = np.asarray(numbers(MIDDLE, 1)) + 0.5
    for _ in range(40):
        x = x**1.1 * 0.9 + y % 0.3
        y = (y**3 + np.hypot(x, y)) * 0.25
    return x, y


def descent(np: Any) -> Any:
    """Products and sums in a loop that looks at a number every few turns."""
    a, w = np.asarray(numbers(MIDDLE)).reshape(-1, 20), np.zeros(20)
    goal = np.asarray(numbers(MIDDLE // 20, 1))
    losses = []
    for k in range(60):
        error = 1.0 / (1.0 + np.exp(-(a @ w))) - goal
        w = w - 0.001 * (a.T @ error)
        if k % 7 == 0:
            losses.append(float((error * error).sum()))
    return w, losses


def power_method(np: Any) -> Any:
    a = np.asarray(numbers(600 * 600)).reshape(600, 600)
    v = np.ones(600)
    for _ in range(20):
        v = a @ v
        v = v / np.sqrt((v * v).sum())
    return v, a @ a.T


def scaled(np: Any, x: Any, y: Any) -> Any:
    return np.exp(-x) * y + x * y


def called_often(np: Any) -> Any:
    """A traced function: results asked for alone, then read by recorded work."""
    return _called(np, LARGE)


def called_often_middle(np: Any) -> Any:
    return _called(np, MIDDLE)


def _called(np: Any, n: int) -> Any:
    f = _jitted(np, scaled)
    x, y = np.asarray(numbers(n)), np.asarray(numbers(n, 1))
    found = []
    for k in range(9):
        z = f(np, x, y)
        if k % 4 == 3:
            found.append(float((z * x).sum()))
        else:
            found.append(float(z.sum()) if k % 4 == 2 else z)
        x = x * 0.9 if k % 2 else z
    return found


def asked_then_read(np: Any) -> Any:
    """A traced function whose results were asked for as they are, before a sum reads one."""
    f = _jitted(np, scaled)
    x, y = np.asarray(numbers(LARGE)).reshape(-1, 200), np.asarray(numbers(LARGE, 1)).reshape(-1, 200)
    before = f(np, x, y).sum(0)
    for _ in range(3):
        numpy.asarray(f(np, x, y))
    return before, f(np, x, y).sum(0), f(np, x, y).var(0)


def never_asked(np: Any) -> Any:
    """Leaves recorded work behind that nobody asks for."""
    x, left = np.asarray(numbers(LARGE)), []
    for k in range(1, 9):
        left = [x * 0.5 + k]
        for _ in range(k):
            x = np.sqrt(x + 0.1) * 0.9
    return len(left), x.sum(), (x * 0.7).mean()


def moments(np: Any, x: Any, y: Any) -> Any:
    return x.mean(), (x * y).sum(), np.log(x + y).max(), x * y


def several_results(np: Any) -> Any:
    f = _jitted(np, moments)
    x, y = np.asarray(numbers(LARGE)), np.asarray(numbers(LARGE, 1))
    found = []
    for k in range(6):
        a, b, c, d = f(np, x, y)
        found += [float(b), float(a)] if k % 2 else [float(c), float(d.sum())]
        x = d
    return found


def standardised(np: Any) -> Any:
    found = []
    for n in (300, 30_000, 3_000):
        x = np.asarray(numbers(n * 20)).reshape(n, 20)
        z = (x - x.mean(axis=0)) / x.std(axis=0)
        found += [z, z.T @ z, z.sum(axis=1)]
    return found


def numbers_alone(np: Any) -> Any:
    """Functions of numbers between functions of arrays."""
    x, s = np.asarray(numbers(LARGE)), 0.0
    for _ in range(10):
        s = np.exp(-(x * x).mean()) + np.sqrt(x.var()) + s * 0.5
        x = x * 0.9 + np.sin(s) * 0.01
    return x, float(s)


_made: dict[Any, Any] = {}


def _jitted(np: Any, f: Any) -> Any:
    """The function traced: once for a process, as a decorated one is."""
    return _made.setdefault(f, tw.jit(f)) if np is tw else f


PROGRAMS: dict[str, Program] = {
    f.__name__: f
    for f in (
        decay, fixed_point, many_operators, totals, total_after, total_after_large, short_inside_long,
        short_inside_middle, stencil, escape, powers, descent, power_method, called_often, called_often_middle,
        asked_then_read, never_asked, several_results, standardised, numbers_alone,
    )
}  # fmt: skip
