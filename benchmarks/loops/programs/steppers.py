"""Steps in time and to a limit: ODEs, n-body, Kalman's filter, quadrature, roots."""

import numpy as np

from benchmarks.loops.parallel_range import prange
from benchmarks.loops.registry import loops, rng


@loops(lambda n: (n, 0.001), 2_000, 200_000)
def lorenz(steps, dt):
    path = np.empty((steps + 1, 3))
    x, y, z = 1.0, 1.0, 1.0
    path[0] = x, y, z
    for i in range(steps):
        dx = 10.0 * (y - x)
        dy = x * (28.0 - z) - y
        dz = x * y - 8.0 / 3.0 * z
        x += dt * dx
        y += dt * dy
        z += dt * dz
        path[i + 1, 0] = x
        path[i + 1, 1] = y
        path[i + 1, 2] = z
    return path


def runge_kutta_loops(y, mu, dt, steps):
    a, b = y[0], y[1]
    for _ in range(steps):
        k1a, k1b = b, mu * (1.0 - a * a) * b - a
        p, q = a + 0.5 * dt * k1a, b + 0.5 * dt * k1b
        k2a, k2b = q, mu * (1.0 - p * p) * q - p
        p, q = a + 0.5 * dt * k2a, b + 0.5 * dt * k2b
        k3a, k3b = q, mu * (1.0 - p * p) * q - p
        p, q = a + dt * k3a, b + dt * k3b
        k4a, k4b = q, mu * (1.0 - p * p) * q - p
        a += dt / 6.0 * (k1a + 2.0 * k2a + 2.0 * k3a + k4a)
        b += dt / 6.0 * (k1b + 2.0 * k2b + 2.0 * k3b + k4b)
    return np.array([a, b])


@loops(lambda n: (np.array([2.0, 0.0]), 1.5, 0.001, n), 500, 50_000, own=runge_kutta_loops)
def runge_kutta(y, mu, dt, steps):
    def slope(y):
        return np.array([y[1], mu * (1.0 - y[0] * y[0]) * y[1] - y[0]])

    for _ in range(steps):
        k1 = slope(y)
        k2 = slope(y + 0.5 * dt * k1)
        k3 = slope(y + 0.5 * dt * k2)
        k4 = slope(y + dt * k3)
        y = y + dt / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
    return y


@loops(lambda n: (n, 0.01), 2_000, 200_000)
def leapfrog_orbit(steps, dt):
    x, y, vx, vy = 1.0, 0.0, 0.0, 1.1
    furthest = 0.0
    for _ in range(steps):
        r2 = x * x + y * y
        r3 = r2 * np.sqrt(r2)
        vx -= 0.5 * dt * x / r3
        vy -= 0.5 * dt * y / r3
        x += dt * vx
        y += dt * vy
        r2 = x * x + y * y
        r3 = r2 * np.sqrt(r2)
        vx -= 0.5 * dt * x / r3
        vy -= 0.5 * dt * y / r3
        furthest = max(furthest, r2)
    return x, y, vx, vy, furthest


def _bodies(n):
    r = rng()
    return r.random((n, 3)), 0.1 * r.random((n, 3)), r.random(n) + 0.5, 5, 0.01


def n_body_parallel(place, speed, mass, steps, dt):
    n = len(mass)
    for _ in range(steps):
        for i in prange(n):
            ax = ay = az = 0.0
            for j in range(n):
                dx = place[j, 0] - place[i, 0]
                dy = place[j, 1] - place[i, 1]
                dz = place[j, 2] - place[i, 2]
                d2 = dx * dx + dy * dy + dz * dz + 0.01
                f = mass[j] / (d2 * np.sqrt(d2))
                ax += f * dx
                ay += f * dy
                az += f * dz
            speed[i, 0] += dt * ax
            speed[i, 1] += dt * ay
            speed[i, 2] += dt * az
        for i in prange(n):
            for k in range(3):
                place[i, k] += dt * speed[i, k]


@loops(
    _bodies,
    40,
    200,
    written=(0, 1),
    parallel=n_body_parallel,
    c=lambda lib, x, v, m, steps, dt: lib("n_body", len(m), steps, dt, m, out=(x, v)),
)
def n_body(place, speed, mass, steps, dt):
    n = len(mass)
    for _ in range(steps):
        for i in range(n):
            ax = ay = az = 0.0
            for j in range(n):
                dx = place[j, 0] - place[i, 0]
                dy = place[j, 1] - place[i, 1]
                dz = place[j, 2] - place[i, 2]
                d2 = dx * dx + dy * dy + dz * dz + 0.01
                f = mass[j] / (d2 * np.sqrt(d2))
                ax += f * dx
                ay += f * dy
                az += f * dz
            speed[i, 0] += dt * ax
            speed[i, 1] += dt * ay
            speed[i, 2] += dt * az
        for i in range(n):
            for k in range(3):
                place[i, k] += dt * speed[i, k]


@loops(lambda n: (rng().normal(size=n).cumsum(), 0.01, 0.5), 2_000, 200_000)
def kalman_scalar(seen, process, noise):
    n = len(seen)
    out = np.empty(n)
    x, p = seen[0], 1.0
    for i in range(n):
        p += process
        gain = p / (p + noise)
        x += gain * (seen[i] - x)
        p *= 1.0 - gain
        out[i] = x
    return out


@loops(lambda n: (rng().normal(size=n).cumsum(), 0.1), 200, 5_000)
def kalman_matrices(seen, dt):
    F = np.array([[1.0, dt], [0.0, 1.0]])
    H = np.array([[1.0, 0.0]])
    Q = 0.01 * np.eye(2)
    x = np.zeros((2, 1))
    P = np.eye(2)
    out = np.empty((len(seen), 2))
    for i in range(len(seen)):
        x = F @ x
        P = F @ P @ F.T + Q
        s = (H @ P @ H.T)[0, 0] + 0.5
        K = P @ H.T / s
        x = x + K * (seen[i] - x[0, 0])
        P = P - K @ (H @ P)
        out[i, 0] = x[0, 0]
        out[i, 1] = x[1, 0]
    return out


@loops(lambda n: (0.0, 3.0, n), 5_000, 500_000)
def simpson(a, b, n):
    def f(x):
        return np.exp(-x * x) * np.sin(3.0 * x)

    h = (b - a) / n
    s = f(a) + f(b)
    for i in range(1, n):
        s += (4.0 if i % 2 else 2.0) * f(a + i * h)
    return s * h / 3.0


@loops(lambda n: (rng().random(n) * 50.0 + 1.0,), 500, 50_000)
def newton_cube_roots(values):
    out = np.empty_like(values)
    for i in range(len(values)):
        c = values[i]
        x = c
        for _ in range(100):
            new = (2.0 * x + c / (x * x)) / 3.0
            if abs(new - x) < 1e-12 * abs(new):
                break
            x = new
        out[i] = x
    return out


@loops(lambda n: (rng().random(n),), 300, 20_000)
def bisection(targets):
    out = np.empty(len(targets))
    worst = 0
    for i, t in enumerate(targets):
        low, high = 0.0, 2.0
        turns = 0
        while high - low > 1e-10:
            mid = 0.5 * (low + high)
            if mid * mid * mid + mid < t:
                low = mid
            else:
                high = mid
            turns += 1
        out[i] = 0.5 * (low + high)
        worst = max(worst, turns)
    return out, worst


@loops(lambda n: (rng().random(24), rng(1).random(n)), 500, 50_000)
def horner(coefficients, xs):
    out = np.zeros(len(xs))
    for i in range(len(xs)):
        s = 0.0
        for c in coefficients:
            s = s * xs[i] + c
        out[i] = s
    return out


@loops(lambda n: (n, 2.0, 0.5), 2_000, 200_000)
def linear_recurrence(n, a, b):
    out = np.empty(n)
    out[0], out[1] = a, b
    for i in range(2, n):
        out[i] = 0.6 * out[i - 1] - 0.3 * out[i - 2] + (0.1 if i % 3 == 0 else 0.0)
    return out
