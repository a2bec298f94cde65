"""Points turned about axes: Rodrigues with np.cross, rotation matrices, quaternions, angular momentum."""

import numpy as np

KIND = "array"
SMALL = 12
MEDIUM = 50000


def initialize(n):
    rng = np.random.default_rng(96)
    return rng.standard_normal((n, 3)), rng.standard_normal((n, 3)), np.array([1.0, 2.0, -0.5]), 35.0


def rodrigues(points, axis, angle):
    along = np.expand_dims(points @ axis, 1) * axis
    return points * np.cos(angle) + np.cross(axis, points) * np.sin(angle) + along * (1 - np.cos(angle))


def matrix(axis, angle):
    x, y, z = axis
    skew = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * skew + (1 - np.cos(angle)) * skew @ skew


def program(points, velocity, axis, degrees):
    axis /= np.linalg.norm(axis)
    angle = np.deg2rad(degrees)
    turned = rodrigues(points, axis, angle)
    r = matrix(axis, angle)
    same = np.allclose(turned, points @ r.T)
    quaternion = np.hstack([np.cos(angle / 2), axis * np.sin(angle / 2)])
    momentum = np.cross(points, velocity).sum(axis=0)
    inertia = np.einsum("ni,nj->ij", points, points)
    inertia = np.trace(inertia) * np.eye(3) - inertia
    points[:] = turned[:, ::-1]
    return same, r, quaternion, np.linalg.solve(inertia, momentum), np.linalg.eigvalsh(inertia)
