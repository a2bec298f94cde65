"""Bodies that attract each other, a step of leapfrog at a time."""

import sys

import numpy as np

SIZES = {"small": (40, 20), "large": (700, 12)}


def accelerations(place, mass, softening=0.05):
    x, y, z = place[:, 0:1], place[:, 1:2], place[:, 2:3]
    dx, dy, dz = x.T - x, y.T - y, z.T - z
    inverse = (dx**2 + dy**2 + dz**2 + softening**2) ** -1.5
    return np.hstack([(dx * inverse) @ mass, (dy * inverse) @ mass, (dz * inverse) @ mass])


def energy(place, speed, mass):
    kinetic = 0.5 * np.sum(mass * speed**2)
    distance = np.sqrt(((place[:, None, :] - place[None, :, :]) ** 2).sum(axis=2))
    pairs = np.triu(np.ones((len(place), len(place)), dtype=bool), 1)
    potential = -np.sum((mass @ mass.T)[pairs] / np.sqrt(distance[pairs] ** 2 + 0.05**2))
    return kinetic + potential


def main(size):
    count, steps = size
    rng = np.random.default_rng(3)
    mass = 20.0 * np.ones((count, 1)) / count
    place, speed = rng.standard_normal((count, 3)), rng.standard_normal((count, 3))
    speed -= np.mean(mass * speed, axis=0) / np.mean(mass)
    pull, dt = accelerations(place, mass), 0.005
    before = energy(place, speed, mass)
    for _ in range(steps):
        speed += pull * dt / 2.0
        place += speed * dt
        pull = accelerations(place, mass)
        speed += pull * dt / 2.0
    return {"place": place, "speed": speed, "before": before, "after": energy(place, speed, mass)}


if __name__ == "__main__":
    found = main(SIZES[sys.argv[1]])
    print(f"energy {found['before']:.6f} before, {found['after']:.6f} after")
