"""Gravity between all pairs by broadcasting, leapfrog in time, energies at each step."""

import numpy as np

KIND = "array"
SMALL = 10
MEDIUM = 240


def initialize(n):
    rng = np.random.default_rng(34)
    mass = 20.0 * np.ones((n, 1)) / n
    position = rng.standard_normal((n, 3))
    velocity = rng.standard_normal((n, 3))
    velocity -= np.mean(mass * velocity, 0) / np.mean(mass)
    return mass, position, velocity


def separations(position):
    x, y, z = position[:, 0:1], position[:, 1:2], position[:, 2:3]
    return x.T - x, y.T - y, z.T - z


def acceleration(position, mass, softening):
    dx, dy, dz = separations(position)
    inverse = dx**2 + dy**2 + dz**2 + softening**2
    inverse[inverse > 0] = inverse[inverse > 0] ** -1.5
    return np.hstack(((dx * inverse) @ mass, (dy * inverse) @ mass, (dz * inverse) @ mass))


def energy(position, velocity, mass):
    kinetic = 0.5 * np.sum(mass * velocity**2)
    dx, dy, dz = separations(position)
    r = np.sqrt(dx**2 + dy**2 + dz**2)
    r[r > 0] = 1.0 / r[r > 0]
    return kinetic, -np.sum(np.triu(mass * mass.T * r, 1))


def program(mass, position, velocity):
    steps, dt = 6, 0.01
    kinetic, potential = np.ndarray(steps), np.ndarray(steps)
    force = acceleration(position, mass, 0.1)
    for i in range(steps):
        velocity += force * dt / 2.0
        position += velocity * dt
        force = acceleration(position, mass, 0.1)
        velocity += force * dt / 2.0
        kinetic[i], potential[i] = energy(position, velocity, mass)
    return kinetic, potential
