"""Lid-driven cavity: incompressible Navier-Stokes with a pressure Poisson iteration."""

import numpy as np

KIND = "array"
SMALL = 9
MEDIUM = 140


def initialize(n):
    return n, 4, 10, 1.0, 0.1, 0.001


def pressure_source(b, rho, dt, u, v, dx, dy):
    dudx = (u[1:-1, 2:] - u[1:-1, :-2]) / (2 * dx)
    dvdy = (v[2:, 1:-1] - v[:-2, 1:-1]) / (2 * dy)
    cross = (u[2:, 1:-1] - u[:-2, 1:-1]) / (2 * dy) * (v[1:-1, 2:] - v[1:-1, :-2]) / (2 * dx)
    b[1:-1, 1:-1] = rho * (1 / dt * (dudx + dvdy) - dudx**2 - 2 * cross - dvdy**2)


def solve_pressure(p, b, sweeps, dx, dy):
    old = np.empty_like(p)
    for _ in range(sweeps):
        old[:] = p
        p[1:-1, 1:-1] = (
            (old[1:-1, 2:] + old[1:-1, :-2]) * dy**2
            + (old[2:, 1:-1] + old[:-2, 1:-1]) * dx**2
            - dx**2 * dy**2 * b[1:-1, 1:-1]
        ) / (2 * (dx**2 + dy**2))
        p[:, -1] = p[:, -2]
        p[0, :] = p[1, :]
        p[:, 0] = p[:, 1]
        p[-1, :] = 0


def momentum(w, u, v, grad, dt, dx, dy, nu):
    wn = w.copy()
    mid = wn[1:-1, 1:-1]
    w[1:-1, 1:-1] = (
        mid
        - u[1:-1, 1:-1] * dt / dx * (mid - wn[1:-1, :-2])
        - v[1:-1, 1:-1] * dt / dy * (mid - wn[:-2, 1:-1])
        - grad
        + nu * dt / dx**2 * (wn[1:-1, 2:] - 2 * mid + wn[1:-1, :-2])
        + nu * dt / dy**2 * (wn[2:, 1:-1] - 2 * mid + wn[:-2, 1:-1])
    )


def program(n, steps, sweeps, rho, nu, dt):
    u, v, p, b = (np.zeros((n, n)) for _ in range(4))
    dx = dy = 2.0 / (n - 1)
    for _ in range(steps):
        pressure_source(b, rho, dt, u, v, dx, dy)
        solve_pressure(p, b, sweeps, dx, dy)
        before = u.copy(), v.copy()
        momentum(u, *before, dt / (2 * rho * dx) * (p[1:-1, 2:] - p[1:-1, :-2]), dt, dx, dy, nu)
        momentum(v, *before, dt / (2 * rho * dy) * (p[2:, 1:-1] - p[:-2, 1:-1]), dt, dx, dy, nu)
        for w in (u, v):
            w[0, :] = w[:, 0] = w[:, -1] = w[-1, :] = 0
        u[-1, :] = 1
    return u, v, p
