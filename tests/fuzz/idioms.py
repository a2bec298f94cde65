"""What large data go through: computations that have ways of their own. In: a random generator. Out: lines.

Random lines rarely meet these by chance. Their results are rough: compared by an error bound, and not used again.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from tests.fuzz.program import Line, Loop

# Over x, y (n, m), w (m,), v (n,), c (k, m), small numbers all of them, and keys (n,), which are 0 to 4.
EXPRESSIONS = (
    "x.var()", "x.var(axis=0)", "x.std(axis=1)", "(x - x.mean(0)) / (x.std(0) + 1)", "v.var() + x.mean()",
    "(x - x.mean(1, keepdims=True)) / (x.std(1, keepdims=True) + 1)", "((x - x.mean()) ** 2).sum()",
    "np.exp(x - x.max(1, keepdims=True)) / np.exp(x - x.max(1, keepdims=True)).sum(1, keepdims=True)", "x.T @ x",
    "x.T @ (x @ w)", "x.T @ (1 / (1 + np.exp(-(x @ w))) - v)", "(x @ w).sum() + (x * y).sum(0)", "x @ c.T",
    "np.tanh(x @ c.T + 1) @ c", "np.maximum(x @ c.T, 0).sum(1)", "np.einsum('ij,kj->ik', x, c)",
    "((x[:, None] - c) ** 2).sum(-1)", "((x[:, None] - c) ** 2).sum(-1).argmin(1)",
    "np.abs(x[:, None] - c).max(-1).min(1)",
    "np.argmin((x * x).sum(1)[:, None] - 2 * (x @ c.T) + (c * c).sum(1), axis=1)", "np.argmax(x @ c.T, axis=1)",
    "(c * c).sum(1) - 2 * (x @ c.T)", "np.bincount(keys, weights=v, minlength=5)", "np.bincount(keys, minlength=5)",
    "np.histogram(v, bins=7, range=(-5, 5))[0]", "x.sum(0)[:, None] + x.T * 2", "np.sqrt(x * x + y * y + 1).sum(0)",
    "(w[:, None] - w) * 2 + w * w", "(v[:, None] - w) * 2 + w", "(1 / (np.abs(v[:, None] - w) + 1)).sum(0)",
    "(1 / (np.abs(w[:, None] - v) + 1)).sum(1)", "x / (w + 9)", "(x + 9) / (y + 9) * v[:, None]",
    "np.exp(np.sin(x) * y)", "x[1:-1] * 2 - x[:-2] - x[2:]", "np.diff(np.diff(x, axis=0), axis=1)",
    "np.diff(np.cumsum(v) * 2)", "np.cumsum(v * 2 + 1)", "np.cumsum(x, axis=0) * 2", "np.cumsum(x, axis=1).sum(0)",
    "np.cumsum(x)", "x.T.ravel() * 2", "x[x > 0].sum()", "x[x > 0] * 2", "v[keys > 1]",
    "np.where(x > 0, x, y).sum(1)", "(x * (keys == 2)[:, None]).sum(0)", "(x + x.sum(0)) * x.sum(1)[:, None]",
    "x.argmax(0)", "(x + y).argmin()", "(x + y).max(1) - (x * y).min(1)",
    "np.sum([(x * (keys == j)[:, None]).sum(0) for j in range(5)], axis=0)", "w @ (x.T @ (v * v))",
    "np.dot(v, v) + w.sum()", "np.linalg.cholesky(x.T @ x + 99 * np.eye(x.shape[1]))",
    "np.stack([x * j for j in range(5)]).sum(0)", "v[keys] * 2", "np.pad(x, 2) * 2", "np.concatenate([x, y]).sum(0)",
    "(x.T * 2).copy()", "np.sort(v)", "x[:, ::2] + x[:, ::-2].max()",
)  # fmt: skip

# Sweeps over u (n, m) or t (n,), in place or not, several times.
SWEEPS = (
    ("u[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])",),
    ("u[1:-1] = 0.5 * u[1:-1] + 0.25 * (u[2:] + u[:-2])", "u[0] = u[1]", "u[-1] = u[-2]"),
    ("t[1:-1] = t[1:-1] + 0.1 * (t[2:] - 2 * t[1:-1] + t[:-2])",),
    ("u[1:] -= 0.5 * (u[1:] - u[:-1])", "u[:, :-1] += 0.25 * u[:, 1:]"),
    ("u = (u + np.roll(u, 1, axis=0) + np.roll(u, -1, axis=1)) / 3",),
    ("t = (t[1:] + t[:-1]) / 2", "t = np.concatenate([t, t[:1]])"),
    ("u = (u[:-2] + u[1:-1] + u[2:]) / 3", "u = np.pad(u, ((1, 1), (0, 0)))"),
    ("t += 0.5", "t *= 0.75", "t = np.abs(t - 1)"),
    ("u[u > 2] *= 0.5", "u += 1"),
    ("u += 0.1 * np.outer(u[:, 0], u[0])",),
)


SHAPES = ((33, 40), (64, 16), (130, 3), (20, 100), (700, 8), (65, 5), (3, 300), (257, 7), (12, 12), (9001, 4))
NAMES = re.compile(r"\b(x|y|w|v|c|u|t|keys)\b")


def idiom(rng: random.Random, fresh: Callable[[], str]) -> list[Line | Loop]:
    """Data and some expressions, perhaps as functions that are called often, or a sweep that is repeated."""
    (n, m), k = rng.choice(SHAPES), rng.choice((2, 4, 5, 8, 16))
    shapes = {"x": (n, m), "y": (n, m), "w": (m,), "v": (n,), "c": (k, m), "u": (n, m), "t": (n,), "keys": (n,)}
    sweeps = rng.random() < 0.3
    texts = rng.choice(SWEEPS) if sweeps else rng.sample(EXPRESSIONS, rng.randint(1, 3))
    dtype = rng.choice(("float64", "float64", "float32", "float64" if sweeps else "int64"))
    names: dict[str, str] = {}
    lines: list[Line | Loop] = []
    for letter in dict.fromkeys(NAMES.findall(" ".join(texts))):
        names[letter] = fresh()
        kind = "uint8" if letter == "keys" else dtype
        # Of rounded numbers that are almost equal, the order of sums says which is less.
        more = (
            ".astype('int64')"
            if letter == "keys"
            else ""
            if any("arg" in t for t in texts)
            else rng.choice(("", "", " * 1.5"))
        )
        lines.append(Line(f"data({rng.randrange(1000)}, {shapes[letter]}, '{kind}', False){more}", names[letter]))
    if sweeps:
        body = tuple(_line(NAMES.sub(lambda found: names[found[0]], text)) for text in texts)
        return [*lines, Loop(rng.randint(2, 7), body)]
    for text in texts:
        used = [x for x in names if re.search(rf"\b{x}\b", text)]
        if rng.random() < 0.3:
            call = f"repeated(lambda {', '.join(used)}: {text}, {', '.join(names[x] for x in used)})"
        else:
            call = NAMES.sub(lambda found: names[found[0]], text)
        lines.append(Line(call, fresh()))
    return lines


def _line(text: str) -> Line:
    """A statement that names what it assigns to."""
    target, equals, value = text.partition(" = ")
    return Line(value, target) if equals and target.isidentifier() else Line(text)
