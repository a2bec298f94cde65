"""Wrong uses: NumPy's exception, at the user's line, and no array changed by it."""

from __future__ import annotations

import traceback

import numpy
import pytest

import tilewise
from tests.api.support import MODES, OPERANDS, difference, run

WRONG = """
v + row
A + v
A * np.zeros((3, 2))
np.add(v, row)
np.where(v > 0, v, row)
v += row
v[:3] += v
A[:, 0] += v
np.add(v, w, out=row)
np.add(v, w, out=np.zeros(6, int))
np.add(v, w, out=i)
np.add(v, w, out=(v, w))
np.add(v, w, v, w)
np.add(v)
np.add(v, w, casting="safe", dtype=np.int8)
np.sqrt(v, out=np.zeros(6, bool))
i += 1.5
i8 += 1000
i /= 2
i *= 1j
b += 1.5
b -= b
u8 - 1000
u8 + -1
i8 * 128
np.add(i8, 300)
i8 == 1000 or 1 / 0
f32 += c
v.sum(axis=1)
A.sum(axis=2)
A.sum(axis=-3)
A.sum(axis=(0, 0))
A.sum(axis=(0, 5))
A.sum(axis="x")
A.sum(axis=0.5)
A.mean(axis=3)
A.max(axis=2)
A.argmax(axis=2)
A.cumsum(axis=2)
np.sort(A, axis=2)
np.flip(A, axis=2)
np.expand_dims(A, 4)
np.squeeze(A, axis=0)
np.concatenate([A, A], axis=2)
np.stack([v, w], axis=3)
np.moveaxis(A, 2, 0)
np.swapaxes(A, 0, 2)
np.transpose(A, (0, 0))
np.transpose(A, (0,))
v[6]
v[-7]
v[0, 0]
A[2]
A[0, 3]
A[:, 3]
A[0, 0, 0]
A[5] = 1
A[:, 7] = 1
v[[0, 9]]
v[[0, 9]] = 1
A[[0, 5]]
A[:, [0, 5]]
A[[0, 1], [0, 1, 2]]
A[[0, 1], [0, 1, 2]] = 1
v[b[:3]]
v[M]
A[M.T]
A[M.T] = 1
A[b]
v[1.5]
v[1.0]
v[[0.5]]
v[w]
v["x"]
v[1.5] = 0
v["x"] = 0
v[::0]
v[1:"x"]
v[slice(0, 1.5)]
v[None, None, 0, 0, 0]
v[..., ...]
A[0] = v
A[:, 0] = row
A[M] = v
A[[0, 1]] = v
v[b] = [1, 2]
v[1:3] = row
v[0] = row
v[0] = [1, 2]
v[0] = "x"
v[:] = "x"
v[0] = 1j
v[0] = {}
v[:] = [1, [2, 3]]
i8[0] = 300
i8[:] = 300
i8[:2] = [1, 300]
u8[0] = -1
u8[b] = -1
u8[k] = 999
np.broadcast_to(row, (2, 3))[0] = 1
np.broadcast_to(row, (2, 3)).fill(1)
x = np.broadcast_to(row, (2, 3)); x += 1
x = np.broadcast_to(row, (2, 3)); np.add(x, 1, out=x)
x = np.broadcast_to(row, (2, 3)); np.copyto(x, 1)
x = v[:]; x.setflags(write=False); x[0] = 1
x = v[:]; x.setflags(write=False); x[b] = 1
x = v[:]; x.setflags(write=False); x[k] = 1
x = v[:]; x.setflags(write=False); x += 1
x = v[:]; x.setflags(write=False); x.sort()
x = v[:]; x.setflags(write=False); x.fill(0)
x = v[:]; x.setflags(write=False); np.put(x, [0], 1)
x = v[:]; x.setflags(write=False); x.sum(out=x[:1].reshape(()))
S.diagonal()[0] = 1
x = v.sum(); x[...] = 1
x = v.sum(); x[()] = 1
x = v.sum(); np.add(1, 2, out=x)
np.min(e)
np.max(e1)
e1.min()
np.min(e, axis=0)
np.argmax(e1)
np.argmin(e, axis=0)
np.maximum.reduce(e1)
np.min(A, where=M)
np.max(A, axis=0, where=M)
np.max(i8, initial=300)
A.reshape(4, 2)
A.reshape(-1, 4)
A.reshape(-1, -1)
A.reshape("x")
A.reshape(2.5)
A.shape = (4,)
A.T.shape = (6,)
A @ A
A @ v
v @ row
A @ 2
A @= row
S @= A
np.matmul(A, A)
np.dot(A, A)
np.dot(v, row)
np.inner(A, v)
np.tensordot(A, A, 1)
np.tensordot(A, S, axes=([0], [1]))
np.einsum("ij,jk->ik", A, A)
np.einsum("ij->k", A)
np.einsum("ijk", A)
np.einsum("ij,j", A)
np.vdot(v, row)
np.cross(v, w)
np.concatenate([A, v])
np.concatenate([A, np.zeros((2, 2))])
np.concatenate([])
np.concatenate(v)
np.concatenate([s, s])
np.concatenate([v, w], axis=1)
np.concatenate([v, w], dtype=int)
np.stack([v, row])
np.stack([])
np.vstack([v, row])
np.hstack([A, S])
np.column_stack([v, row])
np.block([[A, S]])
np.zeros(-1)
np.zeros((2, -3))
np.zeros("x")
np.zeros(2.5)
np.zeros((2, 2), "nope")
np.zeros((2, 2), order="X")
np.ones(None, 3, 4, 5)
np.full((2,), [1, 2, 3])
np.full(2, 300, np.int8)
np.arange()
np.arange(1, 2, 0)
np.arange("x")
np.linspace(0, 1, -1)
np.linspace(0, 1, 2.5)
np.eye(-1)
np.eye("x")
np.array([[1, 2], [3]])
np.array(["x"], float)
np.empty_like()
np.broadcast_to(v, (5,))
np.broadcast_to(v, (6, 2))
np.broadcast_arrays(v, row)
np.split(v, 4)
np.split(v, 0)
np.roll(A, 1, axis=3)
np.roll(A, (1, 2, 3), axis=(0, 1))
np.pad(A, -1)
np.pad(A, 1, "nope")
np.pad(A, (1, 2, 3))
np.tile(A, -1)
np.repeat(v, [1, 2])
np.repeat(v, -1)
np.take(v, [9])
np.take(A, [5], axis=1)
np.take(A, 1, axis=2)
np.choose(k, [1, 2])
np.compress([True] * 9, v)
np.put(v, [9], 1)
np.clip(v, row, 1)
np.clip()
np.select([b], [v, w])
np.bincount(i)
np.bincount(v)
np.bincount(k, row)
np.bincount(k, minlength=-1)
np.bincount(I)
np.digitize(v, [1, 3, 2])
np.histogram(v, 0)
np.histogram(v, [3, 1])
np.searchsorted(A, 1)
np.interp(v, row, w)
np.sort(v, kind="x")
np.argsort(v, kind="x")
np.partition(v, 9)
np.lexsort((v, row))
np.unique(A, axis=3)
np.percentile(v, 101)
np.average(v, weights=row)
np.average(v, weights=w * 0)
np.diff(v, -1)
np.diff(s)
np.gradient(v[:1])
np.convolve(v, [])
np.add.reduce(A, axis=2)
np.add.reduce(A, axis=(0, 0))
np.subtract.reduce(A, axis=(0, 1))
np.add.accumulate(s)
np.add.accumulate(A, axis=2)
np.add.reduceat(v, [9])
np.add.reduceat(v, [-1])
np.add.reduceat(A, [0], axis=2)
np.add.outer(v)
np.add.at(v, [9], 1)
np.add.at(v, k, row)
np.add.at(v, 0.5, 1)
np.sin.reduce(v)
np.sin.outer(v, v)
np.divmod.reduce(v)
~v
v & w
v | 1
v << 1
-b
np.bitwise_and(v, w)
np.invert(v)
np.gcd(v, w)
np.left_shift(i, 1.5)
i ** -1
v % row
c < c[:3]
c // 2
np.floor(c)
np.maximum(v, "x")
v + "x"
v - None
v * {}
v < "x"
bool(v)
bool(e1)
if_ = 1 if A else 0
A and 1
not v
float(v)
int(A)
complex(v)
v.__index__()
s.__index__()
[1, 2][v]
[1, 2][s]
range(v)
len(s)
len(v.sum())
iter(s)
list(s)
for_ = [x for x in v.sum()]
hash(v)
{v: 1}
v.item(9)
v.item()
A.item(0, 5)
v.nope
v.nope = 1
v.astype("nope")
v.astype(int, casting="safe")
c.astype(float, casting="same_kind")
v.view(np.complex128).shape if False else 1 / 0
v[:5].view(complex)
v.resize((2, -1))
v.transpose(1)
v.swapaxes(0, 1)
A.squeeze(0)
A.diagonal(axis1=0, axis2=0)
v.diagonal()
A.trace(axis1=0, axis2=3)
v.sum(wrong=1)
np.sum()
np.sum(v, wrong=1)
np.zeros(2, wrong=1)
np.where(v > 0, v)
np.full(3)
np.concatenate()
np.linalg.inv(A)
np.linalg.solve(S, v)
np.linalg.cholesky(A)
np.linalg.norm(A, "x")
np.linalg.det(v)
np.fft.fft(v, 0)
np.fft.fft(A, axis=5)
np.random.default_rng(0).integers(5, 5)
np.random.default_rng(0).normal(0, -1)
np.random.default_rng(0).choice(3, 5, replace=False)
np.copyto(i, v)
np.copyto(v, row)
np.fill_diagonal(v, 1)
np.place(v, b, [])
np.nope
np.meshgrid(A, indexing="x")
np.unravel_index(9, (2, 3))
np.apply_along_axis(np.sum, 5, A)
np.isclose(v, row)
np.cov(T)
np.trapezoid(v, row)
np.tril(s)
np.diag(T)
np.vander(A)
np.kron() 
np.cumsum(A, axis=(0, 1))
np.count_nonzero(A, axis=4)
np.any(A, axis=4)
np.std(A, axis=4)
np.var(A, axis=0, ddof="x")
np.mean(A, axis=0, out=row[:2])
np.sum(A, axis=0, out=np.zeros((2, 2)))
np.argmax(A, axis=0, out=np.zeros(3))
np.cumsum(A, axis=0, out=np.zeros((3, 2)))
np.matmul(A, S, out=np.zeros((2, 2)))
np.dot(A, S, out=np.zeros((2, 3), int))
"""
LATE = ("is out of bounds for", "negative integer powers", "Singular matrix", "not positive definite")  # the data tell


def rows() -> list[str]:
    return [line for line in WRONG.splitlines() if line]


@pytest.mark.parametrize("mode", MODES)
def test_the_exception_is_numpys_at_the_call(mode: str) -> None:
    found = []
    for text in rows():
        expected, before = run(text, numpy)
        assert isinstance(expected, Exception), f"NumPy accepts {text}"
        with tilewise.config(**MODES[mode]):
            got, after = run(text, tilewise)
            if not isinstance(got, Exception) and any(t in str(expected) for t in LATE):
                try:
                    got = [x.compute() for x in (got, *after.values()) if type(x) is tilewise.Array]
                except Exception as error:
                    got = error
                    continue
            if type(got) is not type(expected):
                found.append(f"{text}\n    NumPy raises {expected!r}, we give {got!r}")
                continue
            for name, value in after.items():
                same = difference(eval(OPERANDS[name], {"np": numpy, "nd": numpy}), value) if OPERANDS[name].startswith("np") else None
                if same:
                    found.append(f"{text}\n    {name} was changed: {same}")
    assert not found, f"{len(found)} rows differ\n" + "\n".join(found)


def test_the_traceback_shows_the_users_line() -> None:
    with tilewise.config(eager_bytes=0):
        x = tilewise.ones((2, 3))
        try:
            x + tilewise.ones(4)
        except ValueError as error:
            lines = traceback.extract_tb(error.__traceback__)
            assert lines[0].filename == __file__
            assert "shapes (2,3) (4,)" in str(error)


def test_a_late_error_names_where_it_was_recorded_and_loses_nothing() -> None:
    with tilewise.config(eager_bytes=0):
        x, wrong = tilewise.arange(3), tilewise.arange(9)
        y = x[wrong]
        with pytest.raises(IndexError) as caught:
            y.compute()
        assert any(__file__ in note for note in caught.value.__notes__)
        assert x.compute().tolist() == [0, 1, 2]
