"""Programs that run on every engine. In: NumPy or Tilewise as `np`. Out: their results, and how they are compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy


def data(*shape: int) -> Any:
    return numpy.random.default_rng(7).standard_normal(shape)


def jacobi(np: Any, steps: int = 6) -> Any:
    a, b = np.array(data(37, 23)), np.array(data(37, 23))
    for _ in range(steps):
        b[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:])
        a[1:-1, 1:-1] = 0.2 * (b[1:-1, 1:-1] + b[:-2, 1:-1] + b[2:, 1:-1] + b[1:-1, :-2] + b[1:-1, 2:])
    return a, b


def kmeans(np: Any) -> Any:
    points = np.array(data(120, 3))
    centres = points[:4] + 0.0
    eye = np.eye(4)
    for _ in range(4):
        distance = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(2)
        member = eye[np.argmin(distance, axis=1)]
        centres = member.T @ points / np.maximum(member.sum(0), 1)[:, None]
    return centres, member.sum(0).astype(int)


def conjugate_gradient(np: Any) -> Any:
    m = np.array(data(40, 40))
    a = m.T @ m + 40 * np.eye(40)
    b = np.array(data(40))
    x = np.zeros(40)
    r = b - a @ x
    p = r
    rr = r @ r
    for _ in range(12):
        ap = a @ p
        step = rr / (p @ ap)
        x = x + step * p
        r = r - step * ap
        rr, old = r @ r, rr
        p = r + rr / old * p
    return x, float(rr) < 1e-8


def standardise(np: Any) -> Any:
    x = np.array(data(150, 5))
    z = (x - x.mean(0)) / x.std(0)
    return z, z.T @ z


def chain(np: Any) -> Any:
    return np.array(data(30, 20)) @ np.array(data(20, 45)) @ np.array(data(45, 8)) @ np.array(data(8, 11))


def ordered(np: Any) -> Any:
    x = np.array(data(200))
    y = np.sort(x * 2)
    return y, y[::7].sum(), np.sort(np.array(data(9, 30)), axis=1)


def whole_numbers(np: Any) -> Any:
    x = np.arange(1000).reshape(50, 20)
    return (x * x).sum(0), x[::3, ::-1].T, (x % 7).max(1), np.cumsum(x[:, 0]), x.T @ x


def views(np: Any) -> Any:
    x = np.arange(120.0).reshape(12, 10)
    y = x[2:]
    y[::2] *= -1
    x.T[3] = 5
    return x, y, np.concatenate([x[:3], y[-4:]]), x.reshape(6, 20).sum(1)


def talking(np: Any) -> Any:
    """Operators along the axis that is cut."""
    x, total = np.array(data(400)), np.zeros(30)
    key = (np.abs(x) * 9).astype(int)
    np.add.at(total, key[:200], x[:200])
    small = x[x < 0.5]
    small[np.arange(0, 90, 3)] = 7
    x[x > 1] = x[x > 1] * 2
    return np.cumsum(x), x[np.argsort(x, kind="stable")], total, small, np.argmin(x), x


PROGRAMS: list[Callable[[Any], Any]] = [
    jacobi, kmeans, conjugate_gradient, standardise, chain, ordered, whole_numbers, views, talking,
]  # fmt: skip
STAYING = (whole_numbers, views)  # may move nothing


def flat(answer: Any) -> list[Any]:
    return [numpy.asarray(x) for x in (answer if isinstance(answer, tuple) else (answer,))]


def same(got: Any, want: Any) -> None:
    for g, w in zip(flat(got), flat(want), strict=True):
        assert g.dtype == w.dtype and g.shape == w.shape
        if w.dtype.kind == "f":
            numpy.testing.assert_allclose(g, w, rtol=1e-9, atol=1e-9)
        else:
            numpy.testing.assert_array_equal(g, w)
