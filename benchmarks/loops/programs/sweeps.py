"""Recurrences swept over grids: ADI, Deriche's filter, channel flow, upwind advection, cumulative sums."""

import numpy as np

from benchmarks.loops.parallel_range import prange
from benchmarks.loops.registry import loops, rng


def adi_parallel(steps, u):
    n = u.shape[0]
    v = np.zeros((n, n))
    p = np.zeros((n, n))
    q = np.zeros((n, n))
    r = 0.4
    for _ in range(steps):
        for i in prange(1, n - 1):
            v[0, i] = 1.0
            p[i, 0] = 0.0
            q[i, 0] = v[0, i]
            for j in range(1, n - 1):
                w = 1.0 + 2.0 * r - r * p[i, j - 1]
                p[i, j] = r / w
                around = r * u[j, i - 1] + (1.0 - 2.0 * r) * u[j, i] + r * u[j, i + 1]
                q[i, j] = (around + r * q[i, j - 1]) / w
            v[n - 1, i] = 1.0
            for j in range(n - 2, 0, -1):
                v[j, i] = p[i, j] * v[j + 1, i] + q[i, j]
        for i in prange(1, n - 1):
            u[i, 0] = 1.0
            p[i, 0] = 0.0
            q[i, 0] = u[i, 0]
            for j in range(1, n - 1):
                w = 1.0 + 2.0 * r - r * p[i, j - 1]
                p[i, j] = r / w
                around = r * v[i - 1, j] + (1.0 - 2.0 * r) * v[i, j] + r * v[i + 1, j]
                q[i, j] = (around + r * q[i, j - 1]) / w
            u[i, n - 1] = 1.0
            for j in range(n - 2, 0, -1):
                u[i, j] = p[i, j] * u[i, j + 1] + q[i, j]


@loops(lambda n: (4, rng().random((n, n))), 40, 200, written=(1,), own=adi_parallel, parallel=adi_parallel)
def adi(steps, u):
    n = u.shape[0]
    v = np.zeros((n, n))
    p = np.zeros((n, n))
    q = np.zeros((n, n))
    r = 0.4
    for _ in range(steps):
        v[0, 1:-1] = 1.0
        p[1:-1, 0] = 0.0
        q[1:-1, 0] = v[0, 1:-1]
        for j in range(1, n - 1):
            w = 1.0 + 2.0 * r - r * p[1:-1, j - 1]
            p[1:-1, j] = r / w
            around = r * u[j, :-2] + (1.0 - 2.0 * r) * u[j, 1:-1] + r * u[j, 2:]
            q[1:-1, j] = (around + r * q[1:-1, j - 1]) / w
        v[n - 1, 1:-1] = 1.0
        for j in range(n - 2, 0, -1):
            v[j, 1:-1] = p[1:-1, j] * v[j + 1, 1:-1] + q[1:-1, j]
        u[1:-1, 0] = 1.0
        p[1:-1, 0] = 0.0
        q[1:-1, 0] = u[1:-1, 0]
        for j in range(1, n - 1):
            w = 1.0 + 2.0 * r - r * p[1:-1, j - 1]
            p[1:-1, j] = r / w
            around = r * v[:-2, j] + (1.0 - 2.0 * r) * v[1:-1, j] + r * v[2:, j]
            q[1:-1, j] = (around + r * q[1:-1, j - 1]) / w
        u[1:-1, n - 1] = 1.0
        for j in range(n - 2, 0, -1):
            u[1:-1, j] = p[1:-1, j] * u[1:-1, j + 1] + q[1:-1, j]


def deriche_parallel(alpha, image):
    h, w = image.shape
    e = np.exp(-alpha)
    k = (1.0 - e) * (1.0 - e) / (1.0 + 2.0 * alpha * e - e * e)
    a1, a2, a3, a4 = k, k * e * (alpha - 1.0), k * e * (alpha + 1.0), -k * e * e
    b1, b2 = 2.0 * e, -e * e
    up = np.empty((h, w))
    down = np.empty((h, w))
    out = np.empty((h, w))
    for i in prange(h):
        x1 = y1 = y2 = 0.0
        for j in range(w):
            up[i, j] = a1 * image[i, j] + a2 * x1 + b1 * y1 + b2 * y2
            x1 = image[i, j]
            y2 = y1
            y1 = up[i, j]
        x1 = x2 = y1 = y2 = 0.0
        for j in range(w - 1, -1, -1):
            down[i, j] = a3 * x1 + a4 * x2 + b1 * y1 + b2 * y2
            x2 = x1
            x1 = image[i, j]
            y2 = y1
            y1 = down[i, j]
        for j in range(w):
            out[i, j] = up[i, j] + down[i, j]
    for j in prange(w):
        x1 = y1 = y2 = 0.0
        for i in range(h):
            up[i, j] = a1 * out[i, j] + a2 * x1 + b1 * y1 + b2 * y2
            x1 = out[i, j]
            y2 = y1
            y1 = up[i, j]
        x1 = x2 = y1 = y2 = 0.0
        for i in range(h - 1, -1, -1):
            down[i, j] = a3 * x1 + a4 * x2 + b1 * y1 + b2 * y2
            x2 = x1
            x1 = out[i, j]
            y2 = y1
            y1 = down[i, j]
        for i in range(h):
            out[i, j] = up[i, j] + down[i, j]
    return out


@loops(lambda n: (0.25, rng().random((n, n))), 60, 300, own=deriche_parallel, parallel=deriche_parallel)
def deriche(alpha, image):
    h, w = image.shape
    e = np.exp(-alpha)
    k = (1.0 - e) * (1.0 - e) / (1.0 + 2.0 * alpha * e - e * e)
    a1, a2, a3, a4 = k, k * e * (alpha - 1.0), k * e * (alpha + 1.0), -k * e * e
    b1, b2 = 2.0 * e, -e * e
    up = np.zeros((h, w))
    down = np.zeros((h, w))
    up[:, 0] = a1 * image[:, 0]
    up[:, 1] = a1 * image[:, 1] + a2 * image[:, 0] + b1 * up[:, 0]
    for j in range(2, w):
        up[:, j] = a1 * image[:, j] + a2 * image[:, j - 1] + b1 * up[:, j - 1] + b2 * up[:, j - 2]
    down[:, -2] = a3 * image[:, -1]
    for j in range(w - 3, -1, -1):
        down[:, j] = a3 * image[:, j + 1] + a4 * image[:, j + 2] + b1 * down[:, j + 1] + b2 * down[:, j + 2]
    out = up + down
    up[0] = a1 * out[0]
    up[1] = a1 * out[1] + a2 * out[0] + b1 * up[0]
    for i in range(2, h):
        up[i] = a1 * out[i] + a2 * out[i - 1] + b1 * up[i - 1] + b2 * up[i - 2]
    down[-1] = 0.0
    down[-2] = a3 * out[-1]
    for i in range(h - 3, -1, -1):
        down[i] = a3 * out[i + 1] + a4 * out[i + 2] + b1 * down[i + 1] + b2 * down[i + 2]
    return up + down


def _pressure(p, b):
    for _ in range(20):
        old = p.copy()
        p[1:-1, 1:-1] = 0.25 * (old[1:-1, 2:] + old[1:-1, :-2] + old[2:, 1:-1] + old[:-2, 1:-1]) - 0.25 * b[1:-1, 1:-1]
        p[:, -1] = p[:, -2]
        p[0, :] = p[1, :]
        p[:, 0] = p[:, 1]
        p[-1, :] = 0.0


def channel_flow_loops(steps, dt, u, v, p):
    n, m = u.shape
    b = np.zeros((n, m))
    old = np.zeros((n, m))
    un = np.zeros((n, m))
    vn = np.zeros((n, m))
    for _ in range(steps):
        for i in prange(1, n - 1):
            for j in range(1, m - 1):
                du = 0.5 * (u[i, j + 1] - u[i, j - 1])
                dv = 0.5 * (v[i + 1, j] - v[i - 1, j])
                cross = 0.25 * (u[i + 1, j] - u[i - 1, j]) * (v[i, j + 1] - v[i, j - 1])
                b[i, j] = (du + dv) / dt - du * du - 2.0 * cross - dv * dv
        for _ in range(20):
            for i in prange(n):
                for j in range(m):
                    old[i, j] = p[i, j]
            for i in prange(1, n - 1):
                for j in range(1, m - 1):
                    around = old[i, j + 1] + old[i, j - 1] + old[i + 1, j] + old[i - 1, j]
                    p[i, j] = 0.25 * around - 0.25 * b[i, j]
            for i in range(n):
                p[i, m - 1] = p[i, m - 2]
            for j in range(m):
                p[0, j] = p[1, j]
            for i in range(n):
                p[i, 0] = p[i, 1]
            for j in range(m):
                p[n - 1, j] = 0.0
        for i in prange(n):
            for j in range(m):
                un[i, j] = u[i, j]
                vn[i, j] = v[i, j]
        for i in prange(1, n - 1):
            for j in range(1, m - 1):
                u[i, j] = (
                    un[i, j]
                    - dt * un[i, j] * (un[i, j] - un[i, j - 1])
                    - dt * vn[i, j] * (un[i, j] - un[i - 1, j])
                    - 0.5 * dt * (p[i, j + 1] - p[i, j - 1])
                    + 0.1 * dt * (un[i, j + 1] + un[i, j - 1] + un[i + 1, j] + un[i - 1, j] - 4.0 * un[i, j])
                )
                v[i, j] = (
                    vn[i, j]
                    - dt * un[i, j] * (vn[i, j] - vn[i, j - 1])
                    - dt * vn[i, j] * (vn[i, j] - vn[i - 1, j])
                    - 0.5 * dt * (p[i + 1, j] - p[i - 1, j])
                    + 0.1 * dt * (vn[i, j + 1] + vn[i, j - 1] + vn[i + 1, j] + vn[i - 1, j] - 4.0 * vn[i, j])
                )
        for i in range(n):
            u[i, 0] = v[i, 0] = v[i, m - 1] = 0.0
            u[i, m - 1] = 0.0
        for j in range(m):
            u[0, j] = v[0, j] = v[n - 1, j] = 0.0
            u[n - 1, j] = 1.0


@loops(
    lambda n: (3, 0.001, *(0.1 * rng(s).random((n, n)) for s in range(3))),
    31,
    101,
    written=(2, 3, 4),
    own=channel_flow_loops,
    parallel=channel_flow_loops,
)
def channel_flow(steps, dt, u, v, p):
    b = np.zeros(u.shape)
    for _ in range(steps):
        du = 0.5 * (u[1:-1, 2:] - u[1:-1, :-2])
        dv = 0.5 * (v[2:, 1:-1] - v[:-2, 1:-1])
        cross = 0.25 * (u[2:, 1:-1] - u[:-2, 1:-1]) * (v[1:-1, 2:] - v[1:-1, :-2])
        b[1:-1, 1:-1] = (du + dv) / dt - du * du - 2.0 * cross - dv * dv
        _pressure(p, b)
        un = u.copy()
        vn = v.copy()
        inner = un[1:-1, 1:-1]
        other = vn[1:-1, 1:-1]
        u[1:-1, 1:-1] = (
            inner
            - dt * inner * (inner - un[1:-1, :-2])
            - dt * other * (inner - un[:-2, 1:-1])
            - 0.5 * dt * (p[1:-1, 2:] - p[1:-1, :-2])
            + 0.1 * dt * (un[1:-1, 2:] + un[1:-1, :-2] + un[2:, 1:-1] + un[:-2, 1:-1] - 4.0 * inner)
        )
        v[1:-1, 1:-1] = (
            other
            - dt * inner * (other - vn[1:-1, :-2])
            - dt * other * (other - vn[:-2, 1:-1])
            - 0.5 * dt * (p[2:, 1:-1] - p[:-2, 1:-1])
            + 0.1 * dt * (vn[1:-1, 2:] + vn[1:-1, :-2] + vn[2:, 1:-1] + vn[:-2, 1:-1] - 4.0 * other)
        )
        u[:, 0] = u[:, -1] = v[:, 0] = v[:, -1] = 0.0
        u[0, :] = v[0, :] = v[-1, :] = 0.0
        u[-1, :] = 1.0


@loops(lambda n: (50, rng().random(n), rng(1).random(n) - 0.5), 400, 10_000, written=(1,))
def upwind(steps, q, speed):
    n = len(q)
    flux = np.zeros(n + 1)
    for _ in range(steps):
        for i in range(1, n):
            c = 0.5 * (speed[i - 1] + speed[i])
            flux[i] = c * q[i - 1] if c > 0 else c * q[i]
        for i in range(n):
            q[i] -= 0.3 * (flux[i + 1] - flux[i])


@loops(lambda n: (rng().random((n, n)),), 100, 500)
def summed_area(image):
    h, w = image.shape
    s = np.zeros((h + 1, w + 1))
    for i in range(h):
        row = 0.0
        for j in range(w):
            row += image[i, j]
            s[i + 1, j + 1] = s[i, j + 1] + row
    return s
