"""Correlation and covariance of the columns, by loops over rows of the result and by np.corrcoef."""

import numpy as np

KIND = "array"
SMALL = 8
MEDIUM = 290


def initialize(n):
    data = np.fromfunction(lambda i, j: (i * j) / (n + 5) + i, (n + 5, n), dtype=np.float64)
    return (data + np.random.default_rng(73).standard_normal(data.shape),)


def program(data):
    rows, columns = data.shape
    mean = np.mean(data, axis=0)
    deviation = np.std(data, axis=0)
    deviation[deviation <= 0.1] = 1.0
    data -= mean
    covariance = np.zeros((columns, columns), dtype=data.dtype)
    for i in range(columns):
        covariance[i:columns, i] = covariance[i, i:columns] = data[:, i] @ data[:, i:columns] / (rows - 1.0)
    data /= np.sqrt(rows) * deviation
    correlation = np.eye(columns, dtype=data.dtype)
    for i in range(columns - 1):
        correlation[i + 1 :, i] = correlation[i, i + 1 :] = data[:, i] @ data[:, i + 1 :]
    return covariance, correlation, np.corrcoef(data, rowvar=False), np.cov(data.T, ddof=0)
