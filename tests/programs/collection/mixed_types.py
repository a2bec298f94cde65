"""Types of results: small integers, overflow by wrapping, booleans, float32 beside Python numbers, complex."""

import numpy as np

KIND = "array"
SMALL = 20
MEDIUM = 100000


def initialize(n):
    rng = np.random.default_rng(91)
    return (
        rng.integers(0, 256, n, dtype=np.uint8),
        rng.integers(-1000, 1000, n).astype(np.int16),
        rng.standard_normal(n).astype(np.float32),
        rng.random(n) < 0.5,
    )


def program(u, i, f, flag):
    results = {
        "wrapped": u + u,
        "widened": u + i,
        "shifted": (u << 1) | (u >> 7),
        "half": f / 2,
        "single": f * 1.5 + flag,
        "double": f + i.astype(np.int32),
        "quotient": i // 7,
        "remainder": i % -7,
        "true": u / 3,
        "sum": u.sum(),
        "mean": u.mean(),
        "narrow": f.sum(),
        "count": flag.sum(),
        "power": i.astype(np.int64) ** 2,
        "complex": f * 1j,
        "angle": np.exp(1j * f),
        "not": ~flag,
        "xor": flag ^ (u > 128),
        "truncated": f.astype(np.int8),
        "negative": -i,
        "floor": np.floor(f),
        "sign": np.sign(i),
        "truth": bool(flag[0]) or float(f[0]) > 0,
        "chosen": np.select([f < -1, f < 1], [u, i], default=3),
        "type": np.result_type(u, i, f).name,
    }
    u[flag] //= 2
    i[~flag] *= 3
    f **= 2
    flag &= u > 10
    return results
