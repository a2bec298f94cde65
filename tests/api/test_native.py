"""What is recorded: these calls leave a pending result and never hand work to NumPy (fallback="error" would refuse)."""

from __future__ import annotations

import warnings

import numpy
import pytest

import tilewise
from tests.api.support import OPERANDS

UFUNCS = {f.__name__: f for f in vars(numpy).values() if isinstance(f, numpy.ufunc) and f.signature is None}
DATES = {"isnat"}
REDUCING = "add multiply minimum maximum fmin fmax logical_and logical_or logical_xor hypot logaddexp".split()

CALLS = """
np.add(v, w, out=u)
np.add(v, w, where=b, out=u)
np.add(f32, 1, dtype=np.float64)
np.add(v, i, casting="unsafe", dtype=int)
np.modf(v, out=(u, w))[0]
np.add.outer(v, w)
np.add.reduceat(v, [0, 2])
np.add.reduceat(v, k[1:2])
np.maximum.reduceat(i, [0, 3])
np.add.at(v, k, w) or v
np.add.at(v, [0, 0, 1], 2.0) or v
np.subtract.at(A, (k[1:3], k[:2]), 1.0) or A
np.negative.at(v, k) or v
np.sum(A, axis=(0, 1), keepdims=True)
np.sum(A, where=M)
np.sum(A, axis=0, where=M, initial=2.0)
np.prod(A, axis=1)
np.min(A, axis=0)
np.max(A, axis=0, initial=1.0)
np.max(A, axis=0, where=M, initial=-5.0)
np.mean(A, axis=0)
np.mean(A, axis=0, where=M)
np.var(A, axis=1, ddof=1)
np.var(A, where=M)
np.var(c)
np.std(A)
np.std(A, axis=0, where=M)
np.any(A, axis=0)
np.all(A, axis=1, where=M)
np.argmin(A, axis=0)
np.argmax(A)
np.count_nonzero(A, axis=0)
np.cumsum(A, axis=1)
np.cumprod(v)
np.cumulative_sum(v)
np.matmul(A, S)
np.dot(A, S)
np.inner(A, A)
np.outer(v, w)
np.vdot(v, w)
np.vecdot(A, row)
np.matvec(A, row)
np.einsum("ij,jk->ik", A, S)
np.einsum("...j,j->...", A, row)
np.einsum("ij,jk,kl->il", A, S, S, optimize=True)
np.einsum(A, [0, 1], S, [1, 2])
np.tensordot(A, S, 1)
np.trace(S)
np.concatenate([A, A])
np.concatenate([v, [1.0, 2.0]])
np.stack([v, w], 1)
np.vstack([v, w])
np.hstack([v, w])
np.dstack([v, w])
np.column_stack([v, w])
np.append(v, w)
np.pad(A, 1)
np.pad(A, ((1, 0), (0, 2)), constant_values=3)
np.pad(A, 1, constant_values=(8, 9))
np.pad(A, 1, "edge")
np.pad(v, 2, "reflect")
np.pad(v, 2, "symmetric")
np.pad(v, 2, "wrap")
np.roll(v, 2)
np.roll(A, (1, 1), (0, 1))
np.tile(A, 2)
np.repeat(A, 2, axis=0)
np.repeat(A, [1, 2], axis=0)
np.where(M, A, 0)
np.clip(v, 0, 1)
np.clip(v, 0, 1, out=u)
np.take(A, [0, 1], axis=1)
np.take(v, k)
np.take_along_axis(A, np.argsort(A, axis=1), axis=1)
np.select([v > 0, v < 0], [v, w])
np.copyto(v, w) or v
np.copyto(v, 3.0, where=b) or v
np.sort(A, axis=0)
np.argsort(v)
np.diff(A, axis=0)
np.diff(v, 2)
np.gradient(v)
np.average(A, axis=0, weights=[1.0, 2.0])
np.median(A, axis=0)
np.ptp(A, axis=0)
np.trapezoid(v, w)
np.cov(A)
np.corrcoef(A)
np.cross(A, row)
np.kron(A, S)
np.tril(S)
np.triu(S, 1)
np.diag(row)
np.isclose(v, w)
np.nan_to_num(odd)
np.nansum(odd)
np.nanmean(A, axis=0)
np.nanmin(A, axis=0)
np.nanmax(A)
np.nanstd(A)
np.nanvar(A, axis=0)
np.linspace(0.0, 1.0, 9)
np.arange(9.0)
np.eye(4)
np.identity(3)
np.tri(3)
np.zeros((3, 3))
np.full((3, 3), 2.0)
np.ones_like(A)
np.meshgrid(row, row)[0] + 0
np.round(v, 1)
np.round(v)
np.angle(c)
np.sinc(v)
np.real(c) + 0
np.linalg.norm(A)
np.linalg.norm(A, axis=0)
np.linalg.vector_norm(A)
np.linalg.matrix_power(S, 3)
np.linalg.multi_dot([A, S, S])
np.fft.fftshift(v)
np.polyval([1.0, 2.0], v)
np.random.Generator(np.random.Counter(1)).random(9)
np.random.Generator(np.random.Counter(1)).normal(1.0, 2.0, 9)
np.random.Generator(np.random.Counter(1)).integers(0, 5, 9)
np.special.erf(v)
np.special.gammaln(w)
A[[1, 0]]
A[:, [0, 2]]
A[M]
v[k]
A.astype(int)
A.flatten()
F.ravel()
A.copy()
np.copy(A)
v.repeat(2)
v.round()
abs(v)
v ** 2
"""


def recorded(text: str) -> str | None:
    """Why a call is not recorded, or None."""
    scope = {"np": tilewise, "nd": numpy}
    with warnings.catch_warnings(), tilewise.config(eager_bytes=0, fallback="error", flush=False):
        warnings.simplefilter("ignore")
        scope |= {n: eval(code, scope) for n, code in OPERANDS.items()}
        try:
            result = eval(text, scope)
        except Exception as error:
            return repr(error)
    for x in result if isinstance(result, tuple) else (result,):
        if type(x) is not tilewise.Array or x._cell.node is None:
            return "was computed"
    return None


def differing(rows: list[str]) -> list[str]:
    return [f"{text}: {why}" for text in rows if (why := recorded(text))]


@pytest.mark.parametrize("text", [line for line in CALLS.splitlines() if line])
def test_recorded(text: str) -> None:
    assert recorded(text) is None


def test_every_ufunc_is_recorded() -> None:
    calls = []
    for name, f in UFUNCS.items():
        if name not in DATES:
            whole = not any(t.startswith("d" * f.nin) or t.startswith("d") for t in f.types)
            first, second = ("k", "k") if whole or name == "ldexp" else ("u", "w")
            calls.append(f"np.{name}({', '.join((first, second)[: f.nin])})")
    assert not differing(calls)


def test_reductions_of_ufuncs_are_recorded() -> None:
    calls = [f"np.{f}.{how}" for f in REDUCING for how in ("reduce(A)", "reduce(A, axis=1)")]
    calls += [f"np.{f}.accumulate(v)" for f in REDUCING if not f.startswith("logical")]
    assert not differing(calls)


def test_what_is_not_recorded_warns_once_per_line_or_is_refused() -> None:
    x = tilewise.ones((600, 600)) + 1.0
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for _ in range(3):
            tilewise.linalg.svd(x[:4])
    assert [w.category for w in seen] == [tilewise.FallbackWarning]
    assert seen[0].filename == __file__ and "svd" in str(seen[0].message) and "bytes" in str(seen[0].message)
    with tilewise.config(fallback="error"), pytest.raises(tilewise.FallbackError):
        tilewise.linalg.svd((x + 1.0)[:4])


def test_other_kinds_of_values_go_through_numpy_at_once() -> None:
    with tilewise.config(eager_bytes=0, fallback="error"):
        names = tilewise.array(["b", "a"])
        assert tilewise.sort(names).tolist() == ["a", "b"]
        days = tilewise.array(["2020-01-02", "2020-01-01"], dtype="M8[D]")
        assert (days + 1).max().item().day == 3
        things = tilewise.array([1, "x", None], dtype=object)
        assert (things == "x").tolist() == [False, True, False]
        records = tilewise.zeros(2, dtype=[("a", int), ("b", float)])
        records["a"] = [1, 2]
        assert records["a"].tolist() == [1, 2]
