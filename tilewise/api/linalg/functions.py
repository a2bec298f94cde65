"""Linear algebra. In: NumPy's arguments of the functions in np.linalg. Out: Arrays.

On one worker all is done at once, by NumPy: each function is one call of LAPACK, and there is nothing to plan. On a
mesh it is recorded; what can fail (a singular matrix) then fails where the value is asked for.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.linalg import _umath_linalg

from tilewise.api.dispatch import QUICK, Recorder, implements
from tilewise.array import record as rec
from tilewise.array.fallback import announce_whole
from tilewise.array.handle import Array
from tilewise.array.interop.elsewhere import in_blocks
from tilewise.ir.node import Node
from tilewise.ops.join import concat
from tilewise.ops.linalg import cholesky as blocked
from tilewise.ops.linalg import functions as ops
from tilewise.ops.linalg import qr as tall
from tilewise.ops.reshape import reshape

FLOAT = np.dtype(float)


def recorded_on_meshes(func: Any) -> Callable[[Recorder], Recorder]:
    """Register a recorder for a mesh; here, NumPy does it at once."""

    def register(recorder: Recorder) -> Recorder:
        @functools.wraps(recorder)
        def either(*args: Any, **kwargs: Any) -> Any:
            if not in_blocks(*args):
                return rec.at_once(func, args, kwargs)
            return recorder(*args, **kwargs)

        implements(func)(either)
        return recorder

    return register


@functools.cache
def sample(name: str, dtypes: tuple[np.dtype[Any], ...], options: ops.Options = ()) -> Any:
    """What NumPy gives for the number one: dtypes, and the class of several results; or its complaint."""
    with np.errstate(all="ignore"):
        return getattr(np.linalg, name)(*(np.ones((1, 1), d) for d in dtypes), **dict(options))


def _matrices(a: Any, square: bool = False) -> Node:
    """The node of matrices, checked."""
    shape = a.shape  # a factorisation needs the lengths
    if len(shape) < 2 or (square and shape[-1] != shape[-2]):
        raise np.linalg.LinAlgError("not a stack of (square) matrices")  # NumPy says it in its own words
    return rec.as_node(a)


def _of_matrix(name: str, x: Node, *args: Any, **kwargs: Any) -> Node:
    """A function of whole matrices; of a single large one it is said that all workers get it."""
    _say_if_whole(name, x)
    return ops.of_matrix(name, x, *args, **kwargs)


def _say_if_whole(name: str, x: Node) -> None:
    if x.ndim == 2 and min(x.dims) > 1:
        announce_whole(name, x.nbytes)


def _recorded(node: Node) -> Array:
    return rec.record(node, fixed=node.shape == ())


# -- functions with one result -------------------------------------------------------------------------------------


@recorded_on_meshes(np.linalg.inv)
def _inv(a: Any) -> Any:
    x = _matrices(a, square=True)
    return _recorded(_of_matrix("inv", x, x.shape[-2:], sample("inv", (x.dtype,)).dtype))


@recorded_on_meshes(np.linalg.det)
def _det(a: Any) -> Any:
    x = _matrices(a, square=True)
    return _recorded(_of_matrix("det", x, (), sample("det", (x.dtype,)).dtype))


@recorded_on_meshes(np.linalg.solve)
def _solve(a: Any, b: Any) -> Any:
    x, y = _matrices(a, square=True), rec.as_node(b)
    if np.ndim(b) == 0 or np.shape(b)[-1 if np.ndim(b) == 1 else -2] != x.shape[-1]:
        return NotImplemented  # NumPy's complaint
    _say_if_whole("solve", x)
    return _recorded(ops.solve(x, y, sample("solve", (x.dtype, y.dtype)).dtype))


def _solve_small(a: Any, *more: Any) -> Any:
    """One system of float64: NumPy's call of LAPACK takes a third of what np.linalg.solve does before and after it."""
    b = more[0] if len(more) == 1 else None
    if type(b) is np.ndarray and a.dtype is FLOAT is b.dtype and a.ndim == 2 and a.shape == b.shape * 2 and a.size:
        with np.errstate(all="ignore"):
            x = _umath_linalg.solve1(a, b)
        if x[0] == x[0]:  # of a singular matrix all are NaN
            return x
    return np.linalg.solve(a, *more)


def _norm_small(x: Any, *more: Any) -> Any:
    """The root of the sum of squares, as np.linalg.norm adds them."""
    if more or x.dtype is not FLOAT or not x.flags.c_contiguous:
        return np.linalg.norm(x, *more)
    line = x if x.ndim == 1 else x.ravel()
    return np.float64(math.sqrt(line.dot(line)))


QUICK[np.linalg.norm] = _norm_small
if hasattr(_umath_linalg, "solve1"):
    QUICK[np.linalg.solve] = _solve_small


def _tall(x: Node) -> bool:
    """Whether a matrix has so many more rows than columns that LAPACK, too, factors it by QR first."""
    return x.ndim == 2 and x.shape[0] >= 2 * x.shape[1] > 0


@recorded_on_meshes(np.linalg.pinv)
def _pinv(a: Any, rcond: Any = None, hermitian: Any = False, *, rtol: Any = np._NoValue) -> Any:
    if rcond is not None or rtol is not np._NoValue:
        return NotImplemented
    options = (("hermitian", bool(hermitian)),)
    x = _matrices(a, square=bool(hermitian))
    tail = (x.shape[-1], x.shape[-2])
    if _tall(x) and not hermitian:
        made: Any = rec.record(tall.tall_pinv(x, sample("pinv", (x.dtype,)).dtype))
        return made.T.conj()
    return _recorded(_of_matrix("pinv", x, tail, sample("pinv", (x.dtype,), options).dtype, options))


@recorded_on_meshes(np.linalg.eigvalsh)
def _eigvalsh(a: Any, UPLO: Any = "L") -> Any:
    x, options = _matrices(a, square=True), (("UPLO", UPLO),)
    return _recorded(_of_matrix("eigvalsh", x, x.shape[-1:], sample("eigvalsh", (x.dtype,), options).dtype, options))


@recorded_on_meshes(np.linalg.svdvals)
def _svdvals(x: Any, /) -> Any:
    return _svd(x, compute_uv=False)


@recorded_on_meshes(np.linalg.cholesky)
def _cholesky(a: Any, /, *, upper: Any = False) -> Any:
    x, options = _matrices(a, square=True), (("upper", bool(upper)),)
    dtype = sample("cholesky", (x.dtype,)).dtype
    if upper or x.ndim > 2:
        return _recorded(_of_matrix("cholesky", x, x.shape[-2:], dtype, options))
    return rec.record(blocked.cholesky(x, dtype))


# -- functions with several ----------------------------------------------------------------------------------------


def _several(name: str, x: Node, tails: list[tuple[int, ...]], options: ops.Options = ()) -> Any:
    """All results, as views of one value: whichever is asked for first computes them all."""
    one = sample(name, (x.dtype,), options)
    sizes = [math.prod(t) for t in tails]
    lead, dtype = x.shape[:-2], np.result_type(*(part.dtype for part in one))
    made: Any = rec.record(_of_matrix(name, x, (sum(sizes),), dtype, options, packed=True))
    parts = []
    for k, (tail, size) in enumerate(zip(tails, sizes, strict=True)):
        at = sum(sizes[:k])
        part = made[..., at : at + size].reshape((*lead, *tail)) if tail else made[..., at]
        parts.append(part.real if one[k].dtype.kind != "c" else part)
    return type(one)(*parts)


@recorded_on_meshes(np.linalg.slogdet)
def _slogdet(a: Any) -> Any:
    return _several("slogdet", _matrices(a, square=True), [(), ()])


@recorded_on_meshes(np.linalg.eigh)
def _eigh(a: Any, UPLO: Any = "L") -> Any:
    x = _matrices(a, square=True)
    return _several("eigh", x, [x.shape[-1:], x.shape[-2:]], (("UPLO", UPLO),))


@recorded_on_meshes(np.linalg.svd)
def _svd(a: Any, full_matrices: Any = True, compute_uv: Any = True, hermitian: Any = False) -> Any:
    x = _matrices(a, square=bool(hermitian))
    m, n = x.shape[-2:]
    k = min(m, n)
    options: ops.Options = (("full_matrices", bool(full_matrices)), ("hermitian", bool(hermitian)))
    if _tall(x) and not hermitian and not (compute_uv and full_matrices):
        return _tall_svd(x, bool(compute_uv))
    if not compute_uv:
        options = (*options, ("compute_uv", False))
        return _recorded(_of_matrix("svd", x, (k,), sample("svd", (x.dtype,), options).dtype, options))
    return _several("svd", x, [(m, m if full_matrices else k), (k,), (n if full_matrices else k, n)], options)


def _tall_svd(x: Node, vectors: bool) -> Any:
    """Of a matrix with many more rows than columns, from its QR."""
    one, n = sample("svd", (x.dtype,), (("full_matrices", False),)), x.shape[1]
    if not vectors:
        r = tall.qr(x, True, one[0].dtype)
        return _recorded(_of_matrix("svd", r, (n,), one[1].dtype, (("compute_uv", False),)))
    made: Any = rec.record(tall.tall_svd(x, one[0].dtype))
    s = made[n]
    return type(one)(made[n + 1 :], s.real if one[1].dtype.kind != "c" else s, made[:n])


def _triangle(x: Node) -> Any:
    """R of a tall matrix, here: it has the matrix's singular values."""
    return np.asarray(rec.record(tall.qr(x, True, sample("qr", (x.dtype,)).R.dtype)))


@recorded_on_meshes(np.linalg.cond)
def _cond(x: Any, p: Any = None) -> Any:
    """How much larger the largest singular value of a tall matrix is than the smallest."""
    a = _matrices(x)
    if not _tall(a) or not (p is None or (isinstance(p, int) and abs(p) == 2)):
        return NotImplemented
    return rec.wrap(np.linalg.cond(_triangle(a), p))


@recorded_on_meshes(np.linalg.matrix_rank)
def _matrix_rank(A: Any, tol: Any = None, hermitian: Any = False, *, rtol: Any = None) -> Any:
    """How many singular values of a tall matrix are not about zero."""
    a = _matrices(A)
    if not _tall(a) or hermitian or (tol is not None and rtol is not None):
        return NotImplemented
    r = _triangle(a)
    if tol is None and rtol is None:
        rtol = max(a.shape) * np.finfo(r.dtype).eps
    return rec.wrap(np.linalg.matrix_rank(r, tol, rtol=rtol))


@recorded_on_meshes(np.linalg.lstsq)
def _lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    """Least squares of a tall matrix: by the R of the matrix beside the right-hand sides, which is small."""
    x, y = rec.as_node(a), rec.as_node(b)
    if not _tall(x) or y.ndim not in (1, 2) or y.shape[0] != x.shape[0]:
        return NotImplemented
    m, n = x.shape
    one = sample("lstsq", (x.dtype, y.dtype))
    dtype = one[0].dtype
    right = y if y.ndim == 2 else reshape(y, (m, 1), "C")
    k = right.shape[1]
    if k > n or m < 2 * (n + k) or not rec.numeric(dtype) or dtype.kind not in "fc":
        return NotImplemented
    r = np.asarray(rec.record(tall.qr(concat((x, right), 1, dtype), True, dtype)))
    limit = np.finfo(dtype).eps * max(m, n) if rcond is None else rcond
    solution, _, rank, s = np.linalg.lstsq(r[:n, :n], r[:n, n:], rcond=limit)
    rest = (np.abs(r[n:, n:]) ** 2).sum(0) if rank == n else np.zeros(0, s.dtype)
    if y.ndim == 1:
        solution = solution[:, 0]
    return rec.wrap(solution), rec.wrap(rest.astype(s.dtype)), rank, rec.wrap(s)


@recorded_on_meshes(np.linalg.qr)
def _qr(a: Any, mode: Any = "reduced") -> Any:
    x = _matrices(a)
    m, n = x.shape[-2:]
    if mode not in ("reduced", "complete", "r"):
        return NotImplemented
    one = sample("qr", (x.dtype,))
    if mode == "r":
        if m < n:
            return _recorded(_of_matrix("qr", x, (m, n), one.R.dtype, (("mode", "r"),)))
        return rec.record(tall.qr(x, True, one.R.dtype))
    if m < n or mode == "complete":
        return _several("qr", x, [(m, m), (m, n)], (("mode", mode),))
    made: Any = rec.record(tall.qr(x, False, one.R.dtype))
    return type(one)(made[..., n:, :], made[..., :n, :])
