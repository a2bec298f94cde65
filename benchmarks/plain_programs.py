"""Array-valued programs in time loops, and loops over elements. In: a module in NumPy's place, a size. Out: results.

They are what a NumPy program has in its innermost loops: nothing here knows about Tilewise. `make` gives the inputs
(ndarrays) for a number of elements, `run` does a number of time steps with the functions of a module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy

Inputs = tuple[Any, ...]


@dataclass(frozen=True)
class Program:
    """One program. `weight`: how long a step takes beside those of a plain stencil, about."""

    name: str
    make: Callable[[int], Inputs]
    run: Callable[..., Any]
    weight: float = 1.0
    kind: str = "array"


PROGRAMS: list[Program] = []


def program(make: Callable[[int], Inputs], weight: float = 1.0, kind: str = "array") -> Callable[[Any], Any]:
    """Enter a function into the table."""

    def entered(run: Any) -> Any:
        PROGRAMS.append(Program(run.__name__, make, run, weight, kind))
        return run

    return entered


def side(n: int, axes: int) -> int:
    """The length of each of some equal axes of about n elements."""
    return max(round(n ** (1 / axes)), 4)


def values(*shape: int, seed: int = 0) -> Any:
    """Numbers between 0 and 1."""
    return numpy.random.default_rng(seed).random(shape)


def square(*more: int) -> Callable[[int], Inputs]:
    """A maker of square matrices, one for each seed."""
    return lambda n: tuple(values(side(n, 2), side(n, 2), seed=s) for s in (0, *more))


def rows(count: int) -> Callable[[int], Inputs]:
    """A maker of vectors."""
    return lambda n: tuple(values(n, seed=s) for s in range(count))


# -- stencils -------------------------------------------------------------------------------------------------------


@program(rows(2))
def jacobi_1d(np: Any, steps: int, a: Any, b: Any) -> Any:
    for _ in range(steps):
        b[1:-1] = 0.33333 * (a[:-2] + a[1:-1] + a[2:])
        a[1:-1] = 0.33333 * (b[:-2] + b[1:-1] + b[2:])
    return a


@program(square(1), 2)
def jacobi_2d(np: Any, steps: int, a: Any, b: Any) -> Any:
    for _ in range(steps):
        b[1:-1, 1:-1] = 0.2 * (a[1:-1, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] + a[2:, 1:-1] + a[:-2, 1:-1])
        a[1:-1, 1:-1] = 0.2 * (b[1:-1, 1:-1] + b[1:-1, :-2] + b[1:-1, 2:] + b[2:, 1:-1] + b[:-2, 1:-1])
    return a


@program(lambda n: (values(*[side(n, 3)] * 3), values(*[side(n, 3)] * 3, seed=1)), 4)
def heat_3d(np: Any, steps: int, a: Any, b: Any) -> Any:
    for _ in range(steps):
        for u, v in ((a, b), (b, a)):
            v[1:-1, 1:-1, 1:-1] = (
                0.125 * (u[2:, 1:-1, 1:-1] - 2.0 * u[1:-1, 1:-1, 1:-1] + u[:-2, 1:-1, 1:-1])
                + 0.125 * (u[1:-1, 2:, 1:-1] - 2.0 * u[1:-1, 1:-1, 1:-1] + u[1:-1, :-2, 1:-1])
                + 0.125 * (u[1:-1, 1:-1, 2:] - 2.0 * u[1:-1, 1:-1, 1:-1] + u[1:-1, 1:-1, :-2])
                + u[1:-1, 1:-1, 1:-1]
            )
    return a


@program(square(1, 2), 2)
def fdtd_2d(np: Any, steps: int, ex: Any, ey: Any, hz: Any) -> Any:
    for t in range(steps):
        ey[0, :] = 0.1 * t
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])
    return ex, ey, hz


@program(square(), 40)
def adi(np: Any, steps: int, u: Any) -> Any:
    n = u.shape[0]
    v, p, q = np.zeros_like(u), np.zeros_like(u), np.zeros_like(u)
    a, b, c, d, e, f = -0.5, 2.0, -0.5, -0.25, 1.5, -0.25
    for _ in range(steps):
        v[0, 1:-1] = 1.0
        p[1:-1, 0] = 0.0
        q[1:-1, 0] = v[0, 1:-1]
        for j in range(1, n - 1):
            p[1:-1, j] = -c / (a * p[1:-1, j - 1] + b)
            right = -d * u[j, :-2] + (1.0 + 2.0 * d) * u[j, 1:-1] - f * u[j, 2:]
            q[1:-1, j] = (right - a * q[1:-1, j - 1]) / (a * p[1:-1, j - 1] + b)
        v[n - 1, 1:-1] = 1.0
        for j in range(n - 2, 0, -1):
            v[j, 1:-1] = p[1:-1, j] * v[j + 1, 1:-1] + q[1:-1, j]
        u[1:-1, 0] = 1.0
        for j in range(1, n - 1):
            u[1:-1, j] = 0.5 * u[1:-1, j] + 0.25 * e * v[j, 1:-1]
    return u


@program(square(1, 2), 12)
def channel_flow(np: Any, steps: int, u: Any, v: Any, p: Any) -> Any:
    dx = dy = 0.1
    dt, rho, nu, force = 1e-4, 1.0, 0.1, 1.0
    b = np.zeros_like(p)
    for _ in range(steps):
        un, vn = u.copy(), v.copy()
        ux = (u[1:-1, 2:] - u[1:-1, :-2]) / (2 * dx)
        vy = (v[2:, 1:-1] - v[:-2, 1:-1]) / (2 * dy)
        uy = (u[2:, 1:-1] - u[:-2, 1:-1]) / (2 * dy)
        vx = (v[1:-1, 2:] - v[1:-1, :-2]) / (2 * dx)
        b[1:-1, 1:-1] = rho * ((ux + vy) / dt - ux**2 - 2 * uy * vx - vy**2)
        for _ in range(2):
            pn = p.copy()
            p[1:-1, 1:-1] = ((pn[1:-1, 2:] + pn[1:-1, :-2]) * dy**2 + (pn[2:, 1:-1] + pn[:-2, 1:-1]) * dx**2) / (
                2 * (dx**2 + dy**2)
            ) - dx**2 * dy**2 / (2 * (dx**2 + dy**2)) * b[1:-1, 1:-1]
            p[-1, :] = p[-2, :]
            p[0, :] = p[1, :]
        u[1:-1, 1:-1] = (
            un[1:-1, 1:-1]
            - un[1:-1, 1:-1] * dt / dx * (un[1:-1, 1:-1] - un[1:-1, :-2])
            - vn[1:-1, 1:-1] * dt / dy * (un[1:-1, 1:-1] - un[:-2, 1:-1])
            - dt / (2 * rho * dx) * (p[1:-1, 2:] - p[1:-1, :-2])
            + nu * dt / dx**2 * (un[1:-1, 2:] - 2 * un[1:-1, 1:-1] + un[1:-1, :-2])
            + nu * dt / dy**2 * (un[2:, 1:-1] - 2 * un[1:-1, 1:-1] + un[:-2, 1:-1])
            + force * dt
        )
        v[1:-1, 1:-1] = (
            vn[1:-1, 1:-1]
            - un[1:-1, 1:-1] * dt / dx * (vn[1:-1, 1:-1] - vn[1:-1, :-2])
            - vn[1:-1, 1:-1] * dt / dy * (vn[1:-1, 1:-1] - vn[:-2, 1:-1])
            - dt / (2 * rho * dy) * (p[2:, 1:-1] - p[:-2, 1:-1])
        )
        u[0, :] = 0
        u[-1, :] = 0
        v[0, :] = 0
        v[-1, :] = 0
        change = (np.sum(u) - np.sum(un)) / np.sum(u)
        if change > 1e9:
            break
    return u, v, p


@program(square(1, 2), 6)
def cavity_flow(np: Any, steps: int, u: Any, v: Any, p: Any) -> Any:
    d, dt = 0.1, 1e-4
    pn = np.empty_like(p)
    for _ in range(steps):
        un, vn = u.copy(), v.copy()
        pn[...] = p
        p[1:-1, 1:-1] = 0.25 * (pn[1:-1, 2:] + pn[1:-1, :-2] + pn[2:, 1:-1] + pn[:-2, 1:-1])
        p[:, -1] = p[:, -2]
        p[0, :] = p[1, :]
        p[-1, :] = 0
        u[1:-1, 1:-1] = (
            un[1:-1, 1:-1]
            - un[1:-1, 1:-1] * dt / d * (un[1:-1, 1:-1] - un[1:-1, :-2])
            - vn[1:-1, 1:-1] * dt / d * (un[1:-1, 1:-1] - un[:-2, 1:-1])
            - dt / (2 * d) * (p[1:-1, 2:] - p[1:-1, :-2])
        )
        v[1:-1, 1:-1] = (
            vn[1:-1, 1:-1]
            - un[1:-1, 1:-1] * dt / d * (vn[1:-1, 1:-1] - vn[1:-1, :-2])
            - vn[1:-1, 1:-1] * dt / d * (vn[1:-1, 1:-1] - vn[:-2, 1:-1])
            - dt / (2 * d) * (p[2:, 1:-1] - p[:-2, 1:-1])
        )
        u[-1, :] = 1.0
    return u, v, p


@program(square(), 20)
def deriche(np: Any, steps: int, image: Any) -> Any:
    h = image.shape[1]
    k = 0.4
    b1, b2 = 2.0**-0.25, -0.6
    for _ in range(steps):
        y1, y2 = np.empty_like(image), np.empty_like(image)
        y1[:, 0] = k * image[:, 0]
        y1[:, 1] = k * image[:, 1] + 0.1 * image[:, 0] + b1 * y1[:, 0]
        for j in range(2, h):
            y1[:, j] = k * image[:, j] + 0.1 * image[:, j - 1] + b1 * y1[:, j - 1] + b2 * y1[:, j - 2]
        y2[:, -1] = 0.0
        y2[:, -2] = 0.3 * image[:, -1]
        for j in range(h - 3, -1, -1):
            y2[:, j] = 0.3 * image[:, j + 1] + 0.2 * image[:, j + 2] + b1 * y2[:, j + 1] + b2 * y2[:, j + 2]
        image = 0.3 * (y1 + y2)
    return image


@program(
    lambda n: (values(side(n // 10, 2) + 4, side(n // 10, 2) + 4, 10), values(side(n // 10, 2), side(n // 10, 2), 10)),
    4,
)
def hdiff(np: Any, steps: int, field: Any, coefficient: Any) -> Any:
    m, n = coefficient.shape[0], coefficient.shape[1]
    out = np.zeros_like(coefficient)
    for _ in range(steps):
        lap = 4.0 * field[1 : m + 3, 1 : n + 3] - (
            field[2 : m + 4, 1 : n + 3]
            + field[0 : m + 2, 1 : n + 3]
            + field[1 : m + 3, 2 : n + 4]
            + field[1 : m + 3, 0 : n + 2]
        )
        res = lap[1:, 1 : n + 1] - lap[:-1, 1 : n + 1]
        flx = np.where((res * (field[2 : m + 3, 2 : n + 2] - field[1 : m + 2, 2 : n + 2])) > 0, 0, res)
        res = lap[1 : m + 1, 1:] - lap[1 : m + 1, :-1]
        fly = np.where((res * (field[2 : m + 2, 2 : n + 3] - field[2 : m + 2, 1 : n + 2])) > 0, 0, res)
        out[:, :] = field[2 : m + 2, 2 : n + 2] - coefficient * (flx[1:] - flx[:-1] + fly[:, 1:] - fly[:, :-1])
        field[2 : m + 2, 2 : n + 2] = 0.5 * out
    return out


@program(lambda n: tuple(values(side(n // 20, 2), side(n // 20, 2), 20, seed=s) for s in range(3)), 8)
def vadv(np: Any, steps: int, w: Any, u: Any, tend: Any) -> Any:
    depth = u.shape[2]
    for _ in range(steps):
        cc, dd = np.empty_like(u), np.empty_like(u)
        gcv = 0.25 * (w[:, :, 1] + w[:, :, 0])
        cs = gcv * 0.5
        bcol = 3.0 - gcv
        cc[:, :, 0] = gcv / bcol
        dd[:, :, 0] = (3.0 * u[:, :, 0] + tend[:, :, 0] - cs * (u[:, :, 1] - u[:, :, 0])) / bcol
        for k in range(1, depth - 1):
            gav = -0.25 * (w[:, :, k] + w[:, :, k - 1])
            gcv = 0.25 * (w[:, :, k + 1] + w[:, :, k])
            bcol = 3.0 - gav - gcv
            term = -0.5 * gav * (u[:, :, k - 1] - u[:, :, k]) - 0.5 * gcv * (u[:, :, k + 1] - u[:, :, k])
            divided = 1.0 / (bcol - cc[:, :, k - 1] * gav)
            cc[:, :, k] = gcv * divided
            dd[:, :, k] = (3.0 * u[:, :, k] + tend[:, :, k] + term - dd[:, :, k - 1] * gav) * divided
        data = dd[:, :, depth - 2]
        for k in range(depth - 3, -1, -1):
            data = dd[:, :, k] - cc[:, :, k] * data
            tend[:, :, k] = 0.3 * (data - u[:, :, k])
    return tend


@program(square(1), 4)
def gray_scott(np: Any, steps: int, u: Any, v: Any) -> Any:
    for _ in range(steps):
        uc, vc = u[1:-1, 1:-1], v[1:-1, 1:-1]
        lu = u[:-2, 1:-1] + u[1:-1, :-2] - 4 * uc + u[1:-1, 2:] + u[2:, 1:-1]
        lv = v[:-2, 1:-1] + v[1:-1, :-2] - 4 * vc + v[1:-1, 2:] + v[2:, 1:-1]
        uvv = uc * vc * vc
        uc += 0.16 * lu - uvv + 0.06 * (1 - uc)
        vc += 0.08 * lv + uvv - 0.12 * vc
        for z in (u, v):
            z[0, :] = z[-2, :]
            z[-1, :] = z[1, :]
            z[:, 0] = z[:, -2]
            z[:, -1] = z[:, 1]
    return u, v


@program(lambda n: ((values(side(n, 2), side(n, 2)) > 0.6).astype(numpy.int64),), 2)
def life(np: Any, steps: int, z: Any) -> Any:
    for _ in range(steps):
        count = (
            z[:-2, :-2] + z[:-2, 1:-1] + z[:-2, 2:] + z[1:-1, :-2]
            + z[1:-1, 2:] + z[2:, :-2] + z[2:, 1:-1] + z[2:, 2:]
        )  # fmt: skip
        birth = (count == 3) & (z[1:-1, 1:-1] == 0)
        survive = ((count == 2) | (count == 3)) & (z[1:-1, 1:-1] == 1)
        z[...] = 0
        z[1:-1, 1:-1][birth | survive] = 1
    return z


# -- vectors, products, reductions ----------------------------------------------------------------------------------


@program(lambda n: (values(side(n, 2), 3), values(side(n, 2), 3, seed=1), values(side(n, 2), seed=2)), 6)
def nbody(np: Any, steps: int, pos: Any, vel: Any, mass: Any) -> Any:
    for _ in range(steps):
        x, y, z = pos[:, 0:1], pos[:, 1:2], pos[:, 2:3]
        dx, dy, dz = x.T - x, y.T - y, z.T - z
        inv = (dx**2 + dy**2 + dz**2 + 0.01) ** -1.5
        acc = np.stack(((dx * inv) @ mass, (dy * inv) @ mass, (dz * inv) @ mass), axis=1)
        vel += acc * 0.01
        pos += vel * 0.01
        vel -= np.mean(mass[:, None] * vel, 0) / np.mean(mass)
    return pos, vel


@program(rows(2), 3)
def rk4(np: Any, steps: int, x: Any, y: Any) -> Any:
    h = 0.01

    def slope(x: Any, y: Any) -> Any:
        return 1.1 * x - 0.4 * x * y, 0.1 * x * y - 0.4 * y

    for _ in range(steps):
        ax, ay = slope(x, y)
        bx, by = slope(x + 0.5 * h * ax, y + 0.5 * h * ay)
        cx, cy = slope(x + 0.5 * h * bx, y + 0.5 * h * by)
        dx, dy = slope(x + h * cx, y + h * cy)
        x = x + h / 6 * (ax + 2 * bx + 2 * cx + dx)
        y = y + h / 6 * (ay + 2 * by + 2 * cy + dy)
    return x, y


def _symmetric(n: int) -> Inputs:
    m = values(side(n, 2), side(n, 2))
    return m @ m.T + numpy.eye(len(m)) * len(m), values(len(m), seed=1)


@program(_symmetric)
def conjugate_gradients(np: Any, steps: int, a: Any, b: Any) -> Any:
    x = np.zeros_like(b)
    r = b.copy()
    p = r.copy()
    rs = r @ r
    for _ in range(steps):
        ap = a @ p
        alpha = rs / (p @ ap)
        x += alpha * p
        r -= alpha * ap
        new = r @ r
        if np.sqrt(new) < 1e-300:
            break
        p = r + (new / rs) * p
        rs = new
    return x


@program(_symmetric)
def power_iteration(np: Any, steps: int, a: Any, v: Any) -> Any:
    value = 0.0
    for _ in range(steps):
        w = a @ v
        v = w / np.linalg.norm(w)
        value = v @ (a @ v)
    return v, value


@program(rows(1))
def moving_average(np: Any, steps: int, x: Any) -> Any:
    k = 8
    for _ in range(steps):
        total = np.cumsum(x)
        total[k:] = total[k:] - total[:-k]
        x = np.concatenate((x[: k - 1], total[k - 1 :] / k))
    return x


@program(square(), 3)
def softmax(np: Any, steps: int, x: Any) -> Any:
    for _ in range(steps):
        e = np.exp(x - np.max(x, axis=-1, keepdims=True))
        x = x + e / np.sum(e, axis=-1, keepdims=True)
    return x


# -- loops over elements --------------------------------------------------------------------------------------------


@program(square(), kind="element")
def read_elements(np: Any, steps: int, a: Any) -> Any:
    n, m = a.shape
    total = 0.0
    for _ in range(steps):
        for i in range(n):
            for j in range(m):
                total += a[i, j]
    return total


@program(square(), kind="element")
def write_elements(np: Any, steps: int, a: Any) -> Any:
    n, m = a.shape
    for _ in range(steps):
        for i in range(n):
            for j in range(m):
                a[i, j] = i * 0.5 + j
    return a


@program(square(), kind="element")
def seidel(np: Any, steps: int, a: Any) -> Any:
    n, m = a.shape
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                a[i, j] = (a[i - 1, j] + a[i, j - 1] + a[i, j] + a[i, j + 1] + a[i + 1, j]) / 5.0
    return a


@program(lambda n: (values(n) + 2.0, values(n, seed=1), values(n, seed=2)), kind="element")
def thomas(np: Any, steps: int, b: Any, c: Any, d: Any) -> Any:
    n = len(b)
    x = np.zeros(n)
    for _ in range(steps):
        beta = b[0]
        x[0] = d[0] / beta
        for i in range(1, n):
            beta = b[i] + c[i - 1]
            x[i] = (d[i] - x[i - 1]) / beta
    return x


@program(_symmetric, kind="element")
def lu(np: Any, steps: int, a: Any, _: Any) -> Any:
    n = len(a)
    for _ in range(steps):
        for i in range(n):
            for j in range(i):
                a[i, j] -= a[i, :j] @ a[:j, j]
                a[i, j] /= a[j, j]
            for j in range(i, n):
                a[i, j] -= a[i, :i] @ a[:i, j]
    return a


@program(square(), kind="element")
def small_slices(np: Any, steps: int, a: Any) -> Any:
    n, m = a.shape
    for _ in range(steps):
        for i in range(1, n):
            for j in range(0, m - 4, 4):
                a[i, j : j + 4] = 0.5 * (a[i - 1, j : j + 4] + a[i, j : j + 4])
    return a


@program(square(), kind="element")
def rows_in_turn(np: Any, steps: int, a: Any) -> Any:
    n = len(a)
    for _ in range(steps):
        for i in range(1, n):
            a[i] += 0.5 * a[i - 1]
            a[i] /= a[i].max()
    return a
