"""Principal components of points around centres, and k-means of what they show."""

import sys

import numpy as np

SIZES = {"small": (400, 8), "large": (150_000, 24)}


def main(size):
    count, features = size
    rng = np.random.default_rng(4)
    true = rng.normal(0.0, 4.0, (5, features))
    labels = rng.integers(0, 5, count)
    points = true[labels] + rng.normal(0.0, 1.0, (count, features))
    centred = (points - points.mean(axis=0)) / points.std(axis=0)
    covariance = centred.T @ centred / (count - 1)
    values, vectors = np.linalg.eigh(covariance)
    vectors = vectors[:, np.argsort(values)[::-1][:3]]
    vectors = vectors * np.sign(vectors[np.argmax(np.abs(vectors), axis=0), range(3)])
    shown = centred @ vectors
    centres = shown[:5].copy()
    for _ in range(12):
        distances = ((shown[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
        nearest = distances.argmin(axis=1)
        centres = np.array([shown[nearest == k].mean(axis=0) for k in range(5)])
    inertia = distances.min(axis=1).sum()
    share = np.sort(values)[::-1][:3].sum() / values.sum()
    return {"centres": centres, "inertia": inertia, "share": share, "counts": np.bincount(nearest, minlength=5)}


if __name__ == "__main__":
    found = main(SIZES[sys.argv[1]])
    print(f"three components show {found['share']:.6f} of the variance; inertia {found['inertia']:.6f}")
    print("points per cluster", found["counts"])
