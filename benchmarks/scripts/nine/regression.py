"""Ridge regression with cross-validation, then a logistic regression by gradient descent."""

import sys

import numpy as np

SIZES = {"small": (500, 8), "large": (200_000, 30)}


def fit(x, y, penalty):
    return np.linalg.solve(x.T @ x + penalty * np.eye(x.shape[1]), x.T @ y)


def main(size):
    count, features = size
    rng = np.random.default_rng(7)
    x = rng.standard_normal((count, features))
    truth = rng.standard_normal(features)
    y = x @ truth + 0.5 * rng.standard_normal(count)
    x = np.hstack([np.ones((count, 1)), (x - x.mean(axis=0)) / x.std(axis=0)])
    folds = np.array_split(rng.permutation(count), 5)
    penalties = np.array([0.1, 1.0, 10.0, 100.0])
    errors = np.zeros((len(folds), len(penalties)))
    for k, held in enumerate(folds):
        rest = np.concatenate([fold for j, fold in enumerate(folds) if j != k])
        train_x, train_y, test_x, test_y = x[rest], y[rest], x[held], y[held]
        for j, penalty in enumerate(penalties):
            weights = fit(train_x, train_y, penalty)
            errors[k, j] = np.mean((test_x @ weights - test_y) ** 2)
    best = penalties[errors.mean(axis=0).argmin()]
    weights = fit(x, y, best)
    above = (y > 0.0).astype(float)
    logistic = np.zeros(features + 1)
    for _ in range(20):
        chance = 1.0 / (1.0 + np.exp(-(x @ logistic)))
        logistic -= 0.5 * (x.T @ (chance - above)) / count
    right = ((x @ logistic > 0.0) == (above > 0.5)).mean()
    return {"weights": weights, "errors": errors, "best": best, "logistic": logistic, "right": right}


if __name__ == "__main__":
    found = main(SIZES[sys.argv[1]])
    print(f"best penalty {found['best']:.3f}, least error {found['errors'].mean(axis=0).min():.6f}")
    print(f"logistic regression is right in {found['right']:.6f}")
