"""What becomes of every NumPy name. In: a typical call of each. Out: `docs/coverage.md`.

    python -m benchmarks.coverage [--only name] [--write]

Each call runs on four virtual workers that have the operands, and with everything recorded. A name is

- *native* if one operator of ours does it, *composed* if several do (views and changes of dtype not counted),
- *fallback* if the call hands an operand to NumPy on the driver, brings one there, or sends all of one to every worker
  (but for products of matrices, where that is the least that can move), which a FallbackWarning says,
- *plain* if there is nothing to distribute: classes, constants, settings, text, files, and what depends on shapes only,
- *absent* if there is no such name.

A name may do more than its typical call: other options may fall back, and then say so in the same way.
"""

from __future__ import annotations

import argparse
import itertools
import types
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tilewise as tw
from tilewise.array.handle import node_of
from tilewise.errors import FallbackWarning
from tilewise.events import Event
from tilewise.ir.node import walk

PAGE = Path(__file__).resolve().parent.parent / "docs" / "coverage.md"
WORKERS = 4
N = 8_400  # of vectors
ROWS, COLS = 420, 120  # of matrices
SIDE = 368  # of a square one: more than a MiB, of which it is said if all of it goes to everybody
LARGE = N * 8 // 4  # bytes of operands that count as large: a quarter of a vector
VIEWS = ("view", "cut", "arrange", "reshape", "copy", "cast", "broadcast")
# What moves is what must move: panels of a factorisation, one operand of a product.
NEEDED = frozenset(("linalg.cholesky", "linalg.matrix_power"))
VERSION = ".".join(np.__version__.split(".")[:2])
CLASSES = ("native", "composed", "fallback", "plain", "absent")

# Names whose result depends on no element of a large array, or that are not functions of arrays.
PLAIN = frozenset(
    """
    arange array2string array_repr array_str base_repr bartlett binary_repr blackman broadcast_shapes
    busday_count busday_offset can_cast common_type datetime_as_string datetime_data diag_indices diag_indices_from
    einsum_path empty empty_like eye format_float_positional format_float_scientific from_dlpack frombuffer fromfile
    fromfunction fromiter frompyfunc fromregex fromstring full full_like genfromtxt geomspace get_include
    get_printoptions getbufsize geterr geterrcall hamming hanning identity indices info is_busday iscomplexobj isdtype
    isfortran isnat isrealobj isscalar issubdtype iterable kaiser linspace load loadtxt logspace mask_indices
    may_share_memory min_scalar_type mintypecode ndim nested_iters ones ones_like printoptions promote_types
    result_type save savetxt savez savez_compressed set_printoptions setbufsize seterr seterrcall shape shares_memory
    show_config show_runtime size tri tril_indices tril_indices_from triu_indices triu_indices_from typename zeros
    zeros_like fft.fftfreq fft.rfftfreq
    """.split()
)

INTEGERS = "bitwise_ gcd lcm left_shift right_shift invert".split()
COMPLEX = "conj conjugate".split()

# How each is called: vectors x, y, u (within 0 and 1), c (complex), k (whole numbers below 50), i (indices), m (a
# mask); matrices A, B, S (square, symmetric and positive), T (tall), M (a mask of A), I (indices into rows of A).
CALLS = dict(
    line.split(": ", 1)
    for line in """
all: np.all(m)
allclose: np.allclose(x, y)
amax: np.amax(x)
amin: np.amin(x)
angle: np.angle(c)
any: np.any(m)
append: np.append(x, y)
apply_along_axis: np.apply_along_axis(lambda r: r.sum(), 1, A)
apply_over_axes: np.apply_over_axes(np.sum, A, [0, 1])
argmax: np.argmax(x)
argmin: np.argmin(x)
argpartition: np.argpartition(x, 10)
argsort: np.argsort(x, kind="stable")
argwhere: np.argwhere(m)
around: np.around(x, 2)
array: np.array(x)
asmatrix: np.asmatrix(A)
bmat: np.bmat([[A, B]])
array_equal: np.array_equal(x, y)
array_equiv: np.array_equiv(x, y)
array_split: np.array_split(x, 3)
asanyarray: np.asanyarray(x)
asarray: np.asarray(x)
asarray_chkfinite: np.asarray_chkfinite(x)
ascontiguousarray: np.ascontiguousarray(A.T)
asfortranarray: np.asfortranarray(A)
astype: np.astype(x, np.float32)
atleast_1d: np.atleast_1d(x)
atleast_2d: np.atleast_2d(x)
atleast_3d: np.atleast_3d(x)
average: np.average(x, weights=u)
bincount: np.bincount(k)
block: np.block([[A, B], [B, A]])
broadcast_arrays: np.broadcast_arrays(A, A[0])
broadcast_to: np.broadcast_to(x, (2, x.size))
choose: np.choose(k % 2, [x, y])
clip: np.clip(x, -1, 1)
column_stack: np.column_stack([x, y])
compress: np.compress(m, x)
concat: np.concat([x, y])
concatenate: np.concatenate([x, y])
convolve: np.convolve(x, [0.25, 0.5, 0.25])
copy: np.copy(x)
copyto: z = x * 1; np.copyto(z, y); z
corrcoef: np.corrcoef(T.T)
correlate: np.correlate(x, [0.25, 0.5, 0.25])
count_nonzero: np.count_nonzero(m)
cov: np.cov(T.T)
cross: np.cross(T[:, :3], T[:, 1:4])
cumprod: np.cumprod(x)
cumsum: np.cumsum(x)
cumulative_prod: np.cumulative_prod(x)
cumulative_sum: np.cumulative_sum(x)
delete: np.delete(x, slice(10, 20))
diag: np.diag(S)
diagflat: np.diagflat(x[:400])
diagonal: np.diagonal(S)
diff: np.diff(x)
digitize: np.digitize(x, [-1.0, 0.0, 1.0])
dot: np.dot(x, y)
dsplit: np.dsplit(A.reshape(ROWS, COLS // 4, 4), 2)
dstack: np.dstack([x, y])
ediff1d: np.ediff1d(x)
einsum: np.einsum("ii->i", S)
expand_dims: np.expand_dims(x, 0)
extract: np.extract(m, x)
fill_diagonal: z = S * 1; np.fill_diagonal(z, 7.0); z
fix: np.fix(x)
flatnonzero: np.flatnonzero(m)
flip: np.flip(x)
fliplr: np.fliplr(A)
flipud: np.flipud(A)
gradient: np.gradient(x)
histogram: np.histogram(x, 20)
histogram2d: np.histogram2d(x, y, 10)
histogram_bin_edges: np.histogram_bin_edges(x, 20)
histogramdd: np.histogramdd(T[:, :3], 5)
hsplit: np.hsplit(A, 2)
hstack: np.hstack([A, B])
i0: np.i0(x)
imag: np.imag(c)
inner: np.inner(x, y)
insert: np.insert(x, 5, 1.0)
interp: np.interp(x, [-1.0, 0.0, 1.0], [0.0, 1.0, 4.0])
intersect1d: np.intersect1d(k, i)
isclose: np.isclose(x, y)
iscomplex: np.iscomplex(c)
isin: np.isin(k, i)
isneginf: np.isneginf(x)
isposinf: np.isposinf(x)
isreal: np.isreal(c)
ix_: np.ix_(m[:COLS], M[:, 0])
kron: np.kron(T[:, :2], np.eye(2))
lexsort: np.lexsort((x, k))
matrix_transpose: np.matrix_transpose(A)
max: np.max(x)
mean: np.mean(x)
median: np.median(x)
meshgrid: np.meshgrid(x, y[:5])
min: np.min(x)
moveaxis: np.moveaxis(A, 0, 1)
nan_to_num: np.nan_to_num(x)
nanargmax: np.nanargmax(x)
nanargmin: np.nanargmin(x)
nancumprod: np.nancumprod(x)
nancumsum: np.nancumsum(x)
nanmax: np.nanmax(x)
nanmean: np.nanmean(x)
nanmedian: np.nanmedian(x)
nanmin: np.nanmin(x)
nanpercentile: np.nanpercentile(x, 25)
nanprod: np.nanprod(x)
nanquantile: np.nanquantile(x, 0.25)
nanstd: np.nanstd(x)
nansum: np.nansum(x)
nanvar: np.nanvar(x)
nonzero: np.nonzero(m)
outer: np.outer(x, y[:9])
packbits: np.packbits(m)
pad: np.pad(x, 2)
partition: np.partition(x, 10)
percentile: np.percentile(x, 25)
permute_dims: np.permute_dims(A, (1, 0))
piecewise: np.piecewise(x, [x < 0, x >= 0], [lambda z: -z, lambda z: z])
place: z = x * 1; np.place(z, m, [1.0, 2.0]); z
poly: np.poly(S[:12, :12] * 1)
polyadd: np.polyadd(x, y)
polyder: np.polyder(x)
polydiv: np.polydiv(x, [1.0, 2.0])
polyfit: np.polyfit(x, y, 2)
polyint: np.polyint(x)
polymul: np.polymul(x, [1.0, 2.0])
polysub: np.polysub(x, y)
polyval: np.polyval([1.0, 2.0, 3.0], x)
prod: np.prod(x)
ptp: np.ptp(x)
put: z = x * 1; np.put(z, i, y); z
put_along_axis: z = A * 1; np.put_along_axis(z, I[:1, :COLS], 1.0, 0); z
putmask: z = x * 1; np.putmask(z, m, y); z
quantile: np.quantile(x, 0.25)
ravel: np.ravel(A)
ravel_multi_index: np.ravel_multi_index((i % ROWS, k), (ROWS, COLS))
real: np.real(c)
real_if_close: np.real_if_close(c)
repeat: np.repeat(x, 2)
require: np.require(x, requirements="C")
reshape: np.reshape(A, (-1, 4))
resize: np.resize(x, (2, x.size))
roll: np.roll(x, 1)
rollaxis: np.rollaxis(A, 1)
roots: np.roots([1.0, 2.0, 3.0])
rot90: np.rot90(A)
round: np.round(x, 2)
row_stack: np.vstack([x, y])
searchsorted: np.searchsorted([-1.0, 0.0, 1.0], x)
select: np.select([x < 0, x > 1], [x, y], 0.0)
setdiff1d: np.setdiff1d(k, i)
setxor1d: np.setxor1d(k, i)
sinc: np.sinc(x)
sort: np.sort(x)
sort_complex: np.sort_complex(x)
split: np.split(x, 2)
squeeze: np.squeeze(x[None])
stack: np.stack([x, y])
std: np.std(x)
sum: np.sum(x)
swapaxes: np.swapaxes(A, 0, 1)
take: np.take(x, i)
take_along_axis: np.take_along_axis(A, np.argsort(A, axis=1), 1)
tensordot: np.tensordot(A, B, ([0, 1], [0, 1]))
tile: np.tile(x, 2)
trace: np.trace(S)
transpose: np.transpose(A)
trapezoid: np.trapezoid(x)
tril: np.tril(S)
trim_zeros: np.trim_zeros(x)
triu: np.triu(S)
union1d: np.union1d(k, i)
unique: np.unique(k)
unique_all: np.unique_all(k)
unique_counts: np.unique_counts(k)
unique_inverse: np.unique_inverse(k)
unique_values: np.unique_values(k)
unpackbits: np.unpackbits(k.astype(np.uint8))
unravel_index: np.unravel_index(i, (ROWS, COLS))
unstack: np.unstack(A[:3])
unwrap: np.unwrap(x)
vander: np.vander(x, 3)
var: np.var(x)
vdot: np.vdot(x, y)
vsplit: np.vsplit(A, 2)
vstack: np.vstack([A, B])
where: np.where(m)
matmul: np.matmul(A, B[:5].T)
matvec: np.matvec(A, B[0])
vecdot: np.vecdot(A, B)
vecmat: np.vecmat(A[:, 0], B)
linalg.matrix_power: np.linalg.matrix_power(S, 3)
linalg.solve: np.linalg.solve(S, S[0])
linalg.tensorsolve: np.linalg.tensorsolve(S, S[0])
linalg.tensorinv: np.linalg.tensorinv(S, ind=1)
linalg.inv: np.linalg.inv(S)
linalg.cholesky: np.linalg.cholesky(S)
linalg.eigvals: np.linalg.eigvals(S)
linalg.eigvalsh: np.linalg.eigvalsh(S)
linalg.pinv: np.linalg.pinv(T)
linalg.slogdet: np.linalg.slogdet(S)
linalg.det: np.linalg.det(S)
linalg.svd: np.linalg.svd(T, full_matrices=False)
linalg.svdvals: np.linalg.svdvals(T)
linalg.eig: np.linalg.eig(S)
linalg.eigh: np.linalg.eigh(S)
linalg.lstsq: np.linalg.lstsq(T, x)
linalg.norm: np.linalg.norm(x)
linalg.qr: np.linalg.qr(T)
linalg.cond: np.linalg.cond(T)
linalg.matrix_rank: np.linalg.matrix_rank(T)
linalg.multi_dot: np.linalg.multi_dot([T.T, T, T[0]])
linalg.trace: np.linalg.trace(S)
linalg.diagonal: np.linalg.diagonal(S)
linalg.cross: np.linalg.cross(T[:, :3], T[:, 1:4])
linalg.outer: np.linalg.outer(x, y[:9])
linalg.tensordot: np.linalg.tensordot(A, B, axes=([0, 1], [0, 1]))
linalg.matmul: np.linalg.matmul(A, B[:5].T)
linalg.matrix_transpose: np.linalg.matrix_transpose(A)
linalg.matrix_norm: np.linalg.matrix_norm(A)
linalg.vector_norm: np.linalg.vector_norm(x)
linalg.vecdot: np.linalg.vecdot(A, B)
fft.fft: np.fft.fft(A)
fft.ifft: np.fft.ifft(A)
fft.rfft: np.fft.rfft(A)
fft.irfft: np.fft.irfft(A)
fft.hfft: np.fft.hfft(A)
fft.ihfft: np.fft.ihfft(A)
fft.rfftn: np.fft.rfftn(A)
fft.irfftn: np.fft.irfftn(A)
fft.rfft2: np.fft.rfft2(A)
fft.irfft2: np.fft.irfft2(A)
fft.fft2: np.fft.fft2(A)
fft.ifft2: np.fft.ifft2(A)
fft.fftn: np.fft.fftn(A)
fft.ifftn: np.fft.ifftn(A)
fft.fftshift: np.fft.fftshift(x)
fft.ifftshift: np.fft.ifftshift(x)
""".strip().splitlines()
)


@dataclass(frozen=True)
class Found:
    """What one name is."""

    name: str
    kind: str  # one of CLASSES
    note: str = ""  # of a fallback: what happens to the operand
    call: str = ""
    warned: bool = False  # by a FallbackWarning with the line of the call


def names() -> Iterator[str]:
    """Every public name of NumPy, of its linear algebra and its Fourier transforms; no modules."""
    lazy: set[str] = getattr(np, "__numpy_submodules__", set())
    for n in sorted(np.__all__):  # not what others add (numexpr does)
        if not n.startswith("_") and n not in lazy and not isinstance(getattr(np, n), types.ModuleType):
            yield n
    yield from (f"linalg.{n}" for n in np.linalg.__all__)
    yield from (f"fft.{n}" for n in np.fft.__all__)


def _of(module: Any, name: str) -> Any:
    for part in name.split("."):
        module = getattr(module, part, None)
    return module


def call_of(name: str) -> str | None:
    """The text of a typical call; None of a name that is plain."""
    if name in CALLS:
        return CALLS[name]
    value = _of(np, name)
    if name in PLAIN or not isinstance(value, np.ufunc):
        assert name in PLAIN or isinstance(value, type) or not callable(value), f"no typical call of {name}"
        return None
    args = ("k", "i") if name == "ldexp" or name.startswith(tuple(INTEGERS)) else ("u", "y")
    args = ("c",) if name in COMPLEX else args
    return f"np.{name}({', '.join(args[: value.nin])})"


def operands() -> dict[str, Any]:
    """The operands, on the workers."""
    rng = np.random.default_rng(0)
    made = {
        "x": rng.normal(size=N),
        "y": rng.normal(size=N),
        "u": rng.uniform(size=N),
        "c": rng.normal(size=N) + 1j * rng.normal(size=N),
        "k": rng.integers(0, 50, N),
        "i": rng.integers(0, N, N),
        "m": rng.random(N) < 0.5,
        "A": rng.normal(size=(ROWS, COLS)),
        "B": rng.normal(size=(ROWS, COLS)),
        "S": np.diag(np.arange(1.0, SIDE + 1)),
        "T": rng.normal(size=(N, 5)),
        "M": rng.random((ROWS, COLS)) < 0.5,
        "I": rng.integers(0, ROWS, (ROWS, COLS)),
    }
    placed = {name: tw.asarray(v).relayout(0) for name, v in made.items()}
    tw.evaluate(*placed.values())
    return placed


def _arrays(found: Any) -> Iterator[Any]:
    if isinstance(found, tuple | list):
        for x in found:
            yield from _arrays(x)
    elif isinstance(found, tw.Array):
        yield found


def look(name: str) -> Found:
    """Call a name on four workers, and see what happens."""
    if _of(tw, name) is None and _of(np, name) is not None:
        return Found(name, "absent")
    text = call_of(name)
    if text is None:
        return Found(name, "plain")
    with tw.session(engine="virtual", workers=WORKERS), tw.config(eager_bytes=0, objective="bytes"):
        data = {"np": tw, "ROWS": ROWS, "COLS": COLS, **operands()}
        with tw.profile() as seen, warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            *before, last = text.split("; ")
            source = f"<call {next(_numbers)} of {name}>"  # whose lines warn anew
            exec(compile("; ".join(before), source, "exec"), data)
            results = list(_arrays(eval(compile(last, source, "eval"), data)))
            once = not any(e.kind in ("pass", "call", "write") for e in seen.timeline)  # nothing was needed on the way
            ops = _operators(results)
            tw.evaluate(*results)
    note = "" if name in NEEDED else _gathered(seen.timeline)
    kind = "fallback" if note else "native" if ops <= 1 and once else "composed"
    warned = any(w.category is FallbackWarning and w.filename == source for w in said)
    return Found(name, kind, note, text, warned)


_numbers = itertools.count()


def _operators(results: list[Any]) -> int:
    """How many operators results are made of."""
    nodes = walk([node_of(x) for x in results])
    return sum(n.value is None and bool(n.inputs) and n.op.name not in VIEWS for n in nodes)


def _gathered(timeline: list[Event]) -> str:
    """What happened to a large operand that need not have left its worker; nothing if all stayed."""
    if any(e.kind == "fallback" for e in timeline):
        return "NumPy, on the driver"
    if sum(e.bytes for e in timeline if e.kind == "gather") >= LARGE * (WORKERS - 1) // WORKERS:
        return "brought to the driver"
    whole = [e.bytes for e in timeline if e.kind == "exchange" and e.name in ("all-gather", "broadcast")]
    return "all of it to every worker" if sum(whole) >= LARGE * (WORKERS - 1) else ""


def page(found: list[Found]) -> str:
    """The table as it stands in the documentation."""
    top = [f for f in found if "." not in f.name]
    count = {c: sum(f.kind == c for f in top) for c in CLASSES}
    lines = [
        "# Which NumPy names are distributed",
        "",
        f"Written by `python -m benchmarks.coverage --write` for NumPy {VERSION}, and tested.",
        "A typical call of each name runs on four workers that have the operands; the file says what the words mean.",
        "",
        "| of NumPy's top-level names | " + " | ".join(CLASSES) + " |",
        "|---|" + "---|" * len(CLASSES),
        f"| {len(top)} | " + " | ".join(str(count[c]) for c in CLASSES) + " |",
        "",
        "## Large operands that leave their workers",
        "",
        "Each such call gives a `FallbackWarning` with the user's line if an operand is large.",
        "",
        "| name | call | what happens |",
        "|---|---|---|",
        *(f"| `{f.name}` | `{f.call}` | {f.note} |" for f in found if f.kind == "fallback"),
        "",
    ]
    for kind in ("native", "composed", "plain", "absent"):
        of_kind = [f.name for f in found if f.kind == kind]
        if of_kind:
            lines += [f"## {kind.capitalize()}", "", *_wrapped(of_kind), ""]
    return "\n".join(lines)


def _wrapped(words: list[str], width: int = 140) -> Iterator[str]:
    line = ""
    for w in words:
        if line and len(line) + len(w) + 3 > width:
            yield line
            line = ""
        line += ("" if not line else " ") + f"`{w}`"
    yield line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    found = []
    for name in names():
        if args.only in name:
            found.append(look(name))
            if found[-1].kind not in ("plain", "native") or args.only:
                print(f"{name:28}{found[-1].kind:10}{found[-1].note}", flush=True)
    print({c: sum(f.kind == c for f in found) for c in CLASSES})
    if args.write:
        PAGE.write_text(page(found))


if __name__ == "__main__":
    main()
