"""Nine applications and L-BFGS as abstract programs, unrolled. In: iterations. Out: Programs."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.tilings.programs import Program, Value, Writer


def kmeans(steps: int) -> Program:
    w = Writer()
    points, centres = w.new(1_000_000, 64), w.new(128, 64)
    for _ in range(steps):
        near = points @ centres.T + (centres * centres).sum(1)
        member = w.map("nonlinear", near, near.max(1).apply())  # whether a centre is the nearest: rows of the maxima
        centres = ((points.T @ member) / member.sum(0)).T
    return w.program("k-means")


def conjugate_gradient(steps: int) -> Program:
    w = Writer()
    matrix, x, residual = w.new(20_000, 20_000), w.new(20_000), w.new(20_000)
    direction = residual
    square = residual @ residual
    for _ in range(steps):
        image = matrix @ direction
        alpha = square / (direction @ image)
        x = x + alpha * direction
        residual = residual - alpha * image
        fresh = residual @ residual
        direction = residual + (fresh / square) * direction
        square = fresh
    return w.program("cg")


def als(steps: int) -> Program:
    w = Writer()
    ratings, items = w.new(480_000, 17_000), w.new(17_000, 20)
    for _ in range(steps):
        users = (ratings @ items) @ (items.T @ items).apply()
        items = (ratings.T @ users) @ (users.T @ users).apply()
    return w.program("als")


def nmf(steps: int) -> Program:
    w = Writer()
    data, left, right = w.new(500_000, 1_000), w.new(500_000, 32), w.new(32, 1_000)
    for _ in range(steps):
        right = right * ((left.T @ data) / ((left.T @ left) @ right))
        left = left * ((data @ right.T) / (left @ (right @ right.T)))
    return w.program("nmf")


def pagerank(steps: int) -> Program:
    w = Writer()
    links, rank, damp = w.new(100_000, 100_000), w.new(100_000), w.new()
    for _ in range(steps):
        rank = damp * (links @ rank) + damp
        rank = rank / rank.sum()
    return w.program("pagerank")


def ssvd(steps: int) -> Program:
    w = Writer()
    data, basis = w.new(1_000_000, 1_000), w.new(1_000, 40)
    for _ in range(steps):
        image = data @ basis
        image = image @ (image.T @ image).apply()
        basis = data.T @ image
        basis = basis @ (basis.T @ basis).apply()
    small = data @ basis
    (small.T @ small).apply()
    return w.program("ssvd")


def pca(steps: int) -> Program:
    w = Writer()
    data, basis, scale = w.new(1_000_000, 500), w.new(500, 10), w.new()
    centred = data - data.sum(0) * scale
    covariance = centred.T @ centred
    for _ in range(steps):
        basis = covariance @ basis
        basis = basis @ (basis.T @ basis).apply()
    (centred @ basis).apply()
    return w.program("pca")


def logistic_regression(steps: int) -> Program:
    w = Writer()
    data, labels, weights, rate = w.new(2_000_000, 200), w.new(2_000_000), w.new(200), w.new()
    for _ in range(steps):
        error = (data @ weights).apply() - labels
        weights = weights - rate * (data.T @ error)
    return w.program("logistic")


def mlp(steps: int) -> Program:
    w = Writer()
    data, target, rate = w.new(60_000, 784), w.new(60_000, 10), w.new()
    weights = [w.new(784, 512), w.new(512, 256), w.new(256, 10)]
    bias = [w.new(512), w.new(256), w.new(10)]
    for _ in range(steps):
        outputs = [data]
        for matrix, shift in zip(weights, bias, strict=True):
            outputs.append((outputs[-1] @ matrix + shift).apply())
        delta = outputs[-1] - target
        for layer in (2, 1, 0):
            back = delta @ weights[layer].T
            weights[layer] = weights[layer] - rate * (outputs[layer].T @ delta)
            bias[layer] = bias[layer] - rate * delta.sum(0)
            delta = back * (outputs[layer] * outputs[layer]).apply()
    return w.program("mlp")


def lbfgs(steps: int, history: int = 10) -> Program:
    """Minimises a logistic loss; the two-loop recursion over the last `history` pairs of vectors."""
    w = Writer()
    data, labels, x, rate = w.new(1_000_000, 10_000), w.new(1_000_000), w.new(10_000), w.new()
    pairs: list[tuple[Value, Value, Value]] = []
    gradient = data.T @ ((data @ x).apply() - labels)
    for _ in range(steps):
        step = gradient
        alphas = []
        for s, y, rho in reversed(pairs):
            alpha = rho * (s @ step)
            step = step - alpha * y
            alphas.append(alpha)
        if pairs:
            s, y, rho = pairs[-1]
            step = (rho / (y @ y)) * step
        for (s, y, rho), alpha in zip(pairs, reversed(alphas), strict=True):
            step = step + (alpha - rho * (y @ step)) * s
        fresh = x - rate * step
        slope = data.T @ ((data @ fresh).apply() - labels)
        s, y = fresh - x, slope - gradient
        pairs = [*pairs, (s, y, (s @ y).apply())][-history:]
        x, gradient = fresh, slope
    return w.program(f"l-bfgs-{history}")


def figure_11(side: int) -> Program:
    """The chain of Spartan's figure 11."""
    w = Writer()
    a, b = w.new(side, side), w.new(side, side)
    (a + b) + (a.T + b.T)
    return w.program("figure-11")


APPLICATIONS: tuple[Callable[[int], Program], ...] = (
    kmeans,
    conjugate_gradient,
    als,
    nmf,
    pagerank,
    ssvd,
    pca,
    logistic_regression,
    mlp,
)
