"""Calls of Python's own modules, and the protocols of arrays, entered in CALLS (calls.py)."""

from __future__ import annotations

from tests.neighbours.calls import needs


@needs()
def array_interface(np, v, m, i, u, tmp):
    return v.__array_interface__["shape"], v.__array_interface__["typestr"]


@needs()
def mview(np, v, m, i, u, tmp):
    return memoryview(v).tolist()


@needs()
def raw_bytes(np, v, m, i, u, tmp):
    return bytes(v)


@needs()
def npz(np, v, m, i, u, tmp):
    np.savez(f"{tmp}/a.npz", a=v)
    r = np.load(f"{tmp}/a.npz")
    return type(r["a"]).__name__ in ("ndarray", "Array"), r["a"], r.files


@needs()
def npy(np, v, m, i, u, tmp):
    np.save(f"{tmp}/a.npy", v)
    return np.load(f"{tmp}/a.npy")


@needs()
def subclass(np, v, m, i, u, tmp):
    class Named(np.ndarray):
        def __new__(cls, x, name):
            o = np.asarray(x).view(cls)
            o.name = name
            return o

        def __array_finalize__(self, o):
            self.name = getattr(o, "name", None)

    n = Named(v, "a")
    return (n * 2).name, n * 2, n[1:].name


@needs()
def symmetric(np, v, m, i, u, tmp):
    class S(np.ndarray):
        def __setitem__(self, ij, val):
            a, b = ij
            super().__setitem__((a, b), val)
            super().__setitem__((b, a), val)

    s = np.zeros((3, 3)).view(S)
    s[0, 2] = 4.0
    return s


@needs()
def unravel(np, v, m, i, u, tmp):
    from numbers import Integral

    a, b = np.unravel_index(5, (4, 3))
    return isinstance(a, Integral), a, b, list(range(5))[a]


@needs()
def unravel_argmax(np, v, m, i, u, tmp):
    from numbers import Integral

    a, b = np.unravel_index(np.argmax(m), m.shape)
    return a, b, isinstance(a, Integral)


@needs()
def rec(np, v, m, i, u, tmp):
    return np.rec.fromarrays([v, i], names="a,b").a


@needs()
def json_float(np, v, m, i, u, tmp):
    import json

    return json.dumps(float(v.mean()))


@needs()
def json_scalar(np, v, m, i, u, tmp):
    import json

    return json.dumps({"m": v.mean()})


@needs()
def number(np, v, m, i, u, tmp):
    from numbers import Integral, Number

    return isinstance(v.mean(), Number), isinstance(v.mean(), float), isinstance(i.sum(), Integral)


@needs()
def fmt(np, v, m, i, u, tmp):
    return (
        f"{v.mean():.3f} {i.sum():d} {v.max():>8.2f}",
        "%d %.2f" % (i.sum(), v.std()),  # noqa: UP031
        round(v.mean(), 1),
        str(v.mean()),
        repr(v[0]),
        repr(v.mean()),
    )


@needs()
def keys(np, v, m, i, u, tmp):
    return (
        {v.mean(): 1},
        {i[0]: 2},
        hash(v.mean()) == hash(float(v.mean())),
        sorted([v.mean(), v.std()]),
        max(v),
        min(v),
        sum(v),
    )


@needs()
def idx(np, v, m, i, u, tmp):
    return [10, 20, 30][i[1]], list(range(int(i.sum()))), "ab" * i[1], [0] * i[1]


@needs()
def rangei(np, v, m, i, u, tmp):
    return list(range(i.sum()))


@needs()
def mathf(np, v, m, i, u, tmp):
    import math

    return math.sqrt(v.mean()), math.floor(v.mean()), divmod(v.mean(), 2)


@needs()
def statistics(np, v, m, i, u, tmp):
    import statistics

    return statistics.mean(v), statistics.median(list(v))


@needs()
def fraction(np, v, m, i, u, tmp):
    from decimal import Decimal
    from fractions import Fraction

    return Fraction(v.mean()), Decimal(v.mean())


@needs()
def struct(np, v, m, i, u, tmp):
    import struct

    return struct.pack("d", v.mean())


@needs()
def csv(np, v, m, i, u, tmp):
    import csv
    import io

    b = io.StringIO()
    csv.writer(b).writerows(m.tolist())
    csv.writer(b).writerow(v)
    return b.getvalue()


@needs()
def pickle(np, v, m, i, u, tmp):
    import pickle

    return pickle.loads(pickle.dumps(v))


@needs()
def copy(np, v, m, i, u, tmp):
    import copy

    return copy.deepcopy(v), copy.copy(m)


@needs()
def files(np, v, m, i, u, tmp):
    import io

    b = io.BytesIO()
    b.write(v)
    return b.getvalue()


@needs()
def buf(np, v, m, i, u, tmp):
    return np.frombuffer(v.tobytes()), bytearray(v)


@needs()
def zlib(np, v, m, i, u, tmp):
    import hashlib
    import zlib

    return zlib.crc32(v), hashlib.md5(m).hexdigest()


@needs()
def ctypes(np, v, m, i, u, tmp):
    import ctypes

    return v.ctypes.data_as(ctypes.POINTER(ctypes.c_double))[1]


@needs()
def classes(np, v, m, i, u, tmp):
    return isinstance(v, np.ndarray), isinstance(v.mean(), np.floating), np.isscalar(v.mean()), type(v[0]) is np.float64


@needs()
def dlpack(np, v, m, i, u, tmp):
    return np.from_dlpack(v)


@needs()
def match(np, v, m, i, u, tmp):
    match v.mean():
        case float():
            return "float"
        case _:
            return "other"


@needs()
def ifs(np, v, m, i, u, tmp):
    return bool(v.any()), 1 if v.mean() > 2 else 0, v.mean() == 2.75, v.mean() is None, not v.sum()


@needs()
def array_func(np, v, m, i, u, tmp):
    import numpy as real

    return real.concatenate([v, [1.0, 2.0]]), real.mean(v), real.sum(m, axis=0), real.linalg.norm(v)
