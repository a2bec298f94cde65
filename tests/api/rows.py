"""The rows, by family: one line of code each (see support.py for the operands)."""

CREATION = """
np.zeros(3)
np.zeros((2, 3), dtype=int)
np.zeros((2, 3), order="F")
np.zeros(())
np.zeros(np.array(3))
np.zeros(np.int64(3), "i1")
np.zeros([2, 2], np.complex64)
np.zeros((2, 0))
np.zeros(2, "U3")
np.zeros(2, object)
np.zeros(2, "M8[s]")
np.zeros(3, dtype=[("a", int), ("b", float)])
np.ones(3)
np.ones((2, 3), bool, "F")
np.ones(2, np.uint8)
np.ones((2, 2), dtype=object)
np.full(3, 7)
np.full((2, 3), np.nan)
np.full((2, 3), [1, 2, 3])
np.full((2, 3), row)
np.full(3, s)
np.full(2, 300, np.uint8)
np.full(2, -1, np.uint8)
np.full(2, 2.7, int)
np.full(2, 1j)
np.full(2, True)
np.full(2, "ab")
np.full((2, 3), 1.5, np.float32, "F")
np.full((2, 3), 1.5, order="F")
np.empty((2, 3)).shape
np.empty((2, 3), order="F").flags.f_contiguous
np.empty(2, np.int8).dtype
np.zeros_like(A)
np.zeros_like(F)
np.zeros_like(R)
np.zeros_like(P)
np.zeros_like(A, dtype=int)
np.zeros_like(F, order="C")
np.zeros_like(A, order="F")
np.zeros_like(A, shape=(4,))
np.zeros_like(F, shape=(3, 5))
np.zeros_like(3)
np.zeros_like([1, 2])
np.zeros_like(s)
np.zeros_like(v.sum())
np.ones_like(i)
np.ones_like(F)
np.ones_like(a)
np.ones_like(b)
np.ones_like(c)
np.empty_like(A).shape
np.full_like(i, 2)
np.full_like(i, 2.9)
np.full_like(A, row)
np.full_like(u8, 300)
np.full_like(F, 1.0)
np.full_like(A, 5, dtype=np.int8)
np.full_like(a, 2, shape=(2,))
np.arange(5)
np.arange(2, 9)
np.arange(2, 9, 3)
np.arange(9, 2, -2)
np.arange(5.0)
np.arange(0, 1, 0.1)
np.arange(0.5, 3)
np.arange(3, dtype=np.float32)
np.arange(1, 6, 2, dtype=np.int8)
np.arange(1, 6, 2, np.int16)
np.arange(0)
np.arange(5, 2)
np.arange(start=1, stop=4)
np.arange(1, step=2, stop=7)
np.arange(np.float32(3))
np.arange(np.int8(3))
np.arange(3j, dtype=complex) if False else 0
np.arange(2, dtype=bool)
np.arange(s)
np.arange(i[0])
np.arange(True)
np.arange(0, 5, 0)
np.arange()
np.arange(1, 10, 2.5, dtype=int)
np.arange(10)[::-1]
np.arange("2020-01", "2020-04", dtype="M8[M]")
np.arange(-3, 3, 1, np.uint8) if False else 0
np.linspace(0, 1, 5)
np.linspace(0, 1, 5, endpoint=False)
np.linspace(2, 3, 4, retstep=True)
np.linspace(0, 10, 5, dtype=int)
np.linspace(row, 2 * row, 3)
np.linspace(row, 2 * row, 3, axis=1)
np.linspace(0, 1, 1)
np.linspace(0, 1, 0)
np.linspace(0, 1, -1)
np.linspace(0, 1j, 3)
np.linspace(0, 1, num=3)
np.linspace(5, 5, 3)
np.linspace(s, 9, 4)
np.linspace(0, 1, 2.5)
np.linspace(1, -1, 7, dtype=np.float32)
np.geomspace(1, 1000, 4)
np.geomspace(1, 8, 4, dtype=int)
np.eye(3)
np.eye(3, 4, 1)
np.eye(3, 4, k=-1, dtype=int)
np.eye(3, order="F")
np.eye(0)
np.eye(2, k=5)
np.identity(3)
np.identity(2, dtype=bool)
np.tri(3)
np.tri(3, 4, 1)
np.tri(3, k=-1, dtype=int)
np.tri(2, 2, 9)
np.vander(row)
np.vander(row, 2, increasing=True)
np.fromfunction(lambda y, x: y * 10 + x, (2, 3))
np.fromfunction(lambda x: x + 1, (3,), dtype=int)
np.fromiter(range(4), float)
np.fromstring("1 2 3", sep=" ")
np.frombuffer(b"abc", np.uint8)
np.meshgrid(row, v[:2])
np.meshgrid(row, v[:2], indexing="ij")
np.meshgrid(row, v[:2], sparse=True)
np.meshgrid(row, [1, 2], copy=False)
np.meshgrid(row)
np.mgrid[0:3, 0:2]
np.mgrid[0:1:5j]
np.mgrid[0:3]
np.ogrid[0:3, 0:2]
np.ogrid[0:1:3j, 0:2]
np.r_[1, 2, v]
np.r_[1:4, 0, 4]
np.r_["0,2", row, row]
np.c_[row, row]
np.s_[1:3, ...]
np.index_exp[1:3]
np.indices((2, 3))
np.indices((2, 3), sparse=True)
np.indices((2,), dtype=float)
np.diag(row)
np.diag(S)
np.diag(A, 1)
np.diag(row, -1)
np.diagflat(A)
np.diagflat(row, 1)
np.array([1, 2, 3])
np.array([[1, 2], [3, 4.0]])
np.array(3)
np.array([])
np.array([1, 2], dtype=np.float32)
np.array(A)
np.array(F)
np.array(F, order="C")
np.array(A, order="F")
np.array(v, dtype=int)
np.array(v, ndmin=3)
np.array([v, w])
np.array([s, s])
np.array([v.sum(), w.sum()])
np.array([v[0], 2])
np.array(((1, 2), (3, 4)), "i2")
np.array([[1, 2], [3]])
np.array(["a", "bc"])
np.array([1, None])
np.array(range(3))
np.array(v, copy=False) is v
np.array([1, 2], copy=False)
np.array(P)
np.array(R)
np.array(True)
np.array([True, 2])
np.array(v, np.float32, copy=None)
x = np.array(v); x[0] = 100; (x, v)
np.asarray(v) is v
np.asarray([1, 2])
np.asarray(v, dtype=np.float32)
np.asarray(F, order="C")
np.asarray(A, order="F")
np.asarray(a)
np.asarray(3.5)
np.asarray(v, copy=True)
np.asanyarray(v) is v
np.asanyarray([1.5])
np.ascontiguousarray(F)
np.ascontiguousarray(s)
np.ascontiguousarray(N)
np.asfortranarray(A)
np.asfortranarray(3)
np.asarray_chkfinite(v)
np.asarray_chkfinite(odd)
np.copy(F)
np.copy(A, order="F")
np.copy(R)
np.copy(P)
np.copy([1, 2])
np.copy(3)
np.require(A, requirements="F")
np.tril(S)
np.tril(A, 1)
np.tril(T)
np.tril(row)
np.tril(i)
np.triu(S, -1)
np.triu(A, k=1)
np.triu(I)
np.triu(M)
np.tril_indices(3)
np.triu_indices(3, 1)
np.tril_indices_from(S)
np.triu_indices_from(S, k=1)
np.diag_indices(3)
np.diag_indices_from(S)
np.mask_indices(3, np.triu)
np.ndindex(2, 2) is None
np.zeros((2, -1))
np.zeros("x")
np.zeros(2.5)
np.zeros(3, dtype="nope")
np.ones((2, 2), order="Q")
np.eye(2.5)
np.full((2,), [1, 2, 3])
np.from_dlpack(nd.arange(3.0))
np.bmat([[S, S], [S, S]]) is None
np.block([[S, S], [S, S]])
np.block([v, 1])
np.block(3)
np.empty_like(A, dtype=np.int16).dtype
"""

REDUCTIONS = """
np.{f}(v)
np.{f}(A)
np.{f}(A, axis=0)
np.{f}(A, 1)
np.{f}(A, axis=-1)
np.{f}(T, axis=(0, 2))
np.{f}(T, axis=(0, 1, 2))
np.{f}(A, axis=())
np.{f}(A, axis=1, keepdims=True)
np.{f}(A, keepdims=True)
np.{f}(T, (0, -1), keepdims=True)
np.{f}(A, axis=2)
np.{f}(A, axis=-3)
np.{f}(A, axis=(0, 0))
np.{f}(A, axis=1.0)
np.{f}(e)
np.{f}(e, axis=0)
np.{f}(e, axis=1)
np.{f}(e1)
np.{f}(s)
np.{f}(one)
np.{f}(i)
np.{f}(I, axis=0)
np.{f}(i8)
np.{f}(u8)
np.{f}(i16)
np.{f}(u16)
np.{f}(i32)
np.{f}(u32)
np.{f}(u64)
np.{f}(b)
np.{f}(M, axis=1)
np.{f}(f32)
np.{f}(f16)
np.{f}(c)
np.{f}(c64)
np.{f}(odd)
np.{f}(F, axis=0)
np.{f}(G, axis=1)
np.{f}(R, axis=1)
np.{f}(R, axis=(0, 2))
np.{f}(N)
np.{f}(P, 0)
np.{f}(a)
np.{f}([1, 2, 3])
np.{f}([[1.5, 2], [3, 4]], axis=0)
np.{f}(2.5)
np.{f}([v, w], axis=0)
A.{f}()
A.{f}(0)
A.{f}(axis=1, keepdims=True)
A.{f}(axis=3)
v.{f}().shape
nd.{f}(A)
nd.{f}(A, axis=0)
o = np.zeros(3); r = np.{f}(A, axis=0, out=o); (r is o, o)
o = np.zeros(3); r = A.{f}(axis=0, out=o); (r is o, o)
o = np.zeros(3, np.float32); np.{f}(A, axis=0, out=o)
o = np.zeros(3, int); np.{f}(A, axis=0, out=o)
o = np.zeros(2); np.{f}(A, axis=0, out=o)
o = np.zeros(()); r = np.{f}(v, out=o); (r is o, o)
o = nd.zeros(3); r = np.{f}(A, axis=0, out=o); (r is o, o.tolist())
o = np.zeros((1, 3)); np.{f}(A, axis=0, out=o, keepdims=True)
np.{f}(A, wrong=1)
np.{f}()
np.{f}((v > 0) & (v < 5))
np.{f}(v[v > 0])
np.{f}(A[A > 0])
np.{f}(A[M[:, 0]], axis=0)
"""

REDUCTION_EXTRAS = """
np.sum(A, dtype=np.float32)
np.sum(A, dtype=int)
np.sum(i8, dtype=np.int8)
np.sum(b, dtype=bool)
np.sum(A, initial=10)
np.sum(I, axis=0, initial=1.5)
np.sum(A, where=M)
np.sum(A, axis=0, where=M, initial=3.0)
np.sum(A, axis=1, where=[True, False, True])
np.sum(A, axis=1, where=col > 1)
np.sum(A, where=False)
np.sum(row, where=M)
np.sum(A, axis=0, dtype=complex)
np.prod(A, where=M)
np.prod(i8, initial=2)
np.prod(A, axis=1, dtype=np.float32)
np.prod(b)
np.min(A, where=M, initial=0)
np.min(A, where=M)
np.max(A, axis=0, initial=2.0)
np.max(A, axis=1, where=M, initial=-nd.inf)
np.max(i, initial=2.5)
np.max(i8, initial=300)
np.max(e, initial=1.0)
np.max(e, axis=0, initial=1.0)
np.min(e, axis=1)
np.max(e, axis=1)
np.any(A, where=M)
np.all(A, axis=0, where=M)
np.any(A > 5, axis=1)
np.all([])
np.any([])
np.any(i8, axis=0, keepdims=True)
np.mean(A, where=M)
np.mean(A, axis=0, where=M)
np.mean(I, axis=1, where=M)
np.mean(I)
np.mean(i8)
np.mean(f16)
np.mean(f16, axis=0, dtype=np.float64)
np.mean(f32, dtype=np.float64)
np.mean(A, dtype=np.float32)
np.mean(i, dtype=int)
np.mean(A, axis=(0, 1))
np.mean(c)
np.mean(A, axis=1, out=np.zeros(2))
np.var(A, ddof=1)
np.var(A, axis=0, ddof=1)
np.var(A, correction=1)
np.var(A, axis=1, ddof=5)
np.var(A, where=M)
np.var(A, axis=0, where=M, keepdims=True)
np.var(A, axis=1, mean=np.mean(A, axis=1, keepdims=True))
np.var(I, axis=0)
np.var(f32)
np.var(f16)
np.var(c)
np.var(A, dtype=np.float32)
np.var(A, axis=0, out=np.zeros(3))
np.var(A, ddof=0.5)
np.std(A, ddof=1, axis=1)
np.std(c, axis=0)
np.std(i8)
np.std(A, where=M)
np.std(A, axis=(0, 1), keepdims=True)
np.std(A, axis=1, mean=np.mean(A, axis=1, keepdims=True))
np.std(f16)
A.std(ddof=1)
A.var(0, ddof=1)
np.argmin(A)
np.argmax(A, axis=0)
np.argmax(A, axis=1, keepdims=True)
np.argmax(A, keepdims=True)
np.argmin(odd)
np.argmax(odd)
np.argmax(b)
np.argmin(e)
np.argmax(e, axis=0)
np.argmax(e, axis=1)
np.argmax(A, axis=2)
np.argmax(F, axis=1)
np.argmax(s)
np.argmin(i8, axis=0)
np.argmax(c)
np.argmax([1, 5, 2])
np.argmax(A, axis=0, out=np.zeros(3, int))
np.argmax(A, axis=0, out=np.zeros(3))
np.argmax(A, axis=0, out=np.zeros(2, int))
A.argmax()
A.argmin(1)
A.argmax(axis=0, keepdims=True)
np.count_nonzero(A)
np.count_nonzero(A, axis=0)
np.count_nonzero(A, axis=(0, 1))
np.count_nonzero(A, axis=1, keepdims=True)
np.count_nonzero(M)
np.count_nonzero([0, 1, 2])
np.count_nonzero(odd)
np.count_nonzero(c, axis=0)
np.count_nonzero(e)
np.cumsum(v)
np.cumsum(A)
np.cumsum(A, axis=0)
np.cumsum(A, 1)
np.cumsum(i8)
np.cumsum(u8)
np.cumsum(b)
np.cumsum(i8, dtype=np.int8)
np.cumsum(A, axis=2)
np.cumsum(F, axis=1)
np.cumsum(R, axis=0)
np.cumsum(R)
np.cumsum(N)
np.cumsum(s)
np.cumsum(e)
np.cumsum([1, 2, 3])
np.cumsum(A, axis=0, out=np.zeros((2, 3)))
o = np.zeros((2, 3)); r = np.cumsum(A, axis=1, out=o); (r is o, o)
np.cumsum(A, axis=0, out=np.zeros((3, 3)))
np.cumsum(A, axis=0, dtype=np.float32)
np.cumprod(v)
np.cumprod(I, axis=1)
np.cumprod(i8)
np.cumprod(f32)
np.cumprod(c)
A.cumsum()
A.cumsum(1)
A.cumprod(axis=0)
np.cumulative_sum(v)
np.cumulative_sum(v, include_initial=True)
np.cumulative_sum(A, axis=1)
np.cumulative_sum(A)
np.cumulative_prod(v)
np.cumulative_prod(A, axis=0, include_initial=True)
np.nansum(odd[:1])
np.nansum(odd[3:])
np.nansum(A, axis=0)
np.nansum(i)
np.nanprod(odd[3:])
np.nanmin(odd)
np.nanmax(odd)
np.nanmax(A, axis=0)
np.nanmin(A, axis=1, keepdims=True)
np.nanmin(i8)
np.nanmean(odd[3:])
np.nanmean(A, axis=0)
np.nanmean(np.where(M, nd.nan, A), axis=0)
np.nanmean(np.where(M, nd.nan, A), axis=1)
np.nansum(np.where(M, nd.nan, A), axis=1)
np.nanstd(np.where(M, nd.nan, A))
np.nanvar(np.where(M, nd.nan, A), axis=1)
np.nanmedian(np.where(M, nd.nan, A))
np.nanpercentile(np.where(M, nd.nan, A), 50)
np.nanargmax(np.where(M, nd.nan, A))
np.nanargmin(A, axis=0)
np.nanargmax(odd[:1])
np.nancumsum(odd)
np.nancumprod(odd)
np.median(A)
np.median(A, axis=0)
np.median(A, axis=(0, 1), keepdims=True)
np.median(i)
np.median(odd)
np.percentile(A, 30)
np.percentile(A, [10, 90], axis=0)
np.percentile(v, 50, method="lower")
np.quantile(A, 0.3)
np.quantile(A, [0.1, 0.9], axis=1)
np.quantile(v, 2)
np.average(A)
np.average(A, axis=0)
np.average(A, axis=1, weights=row)
np.average(A, weights=M + 1.0)
np.average(A, axis=0, weights=[1, 2], returned=True)
np.average(A, weights=[1, 2])
np.average(v, weights=w * 0)
np.average(i)
np.average(A, axis=0, keepdims=True)
np.average(i, weights=k)
np.ptp(A)
np.ptp(A, axis=0)
np.ptp(i8)
np.ptp(A, axis=1, keepdims=True)
np.ptp(e)
np.trace(S)
np.trace(A, 1)
np.trace(T, axis1=1, axis2=2)
np.trace(I)
np.trace(i)
S.trace()
np.cov(A)
np.cov(A, rowvar=False)
np.cov(v, w)
np.corrcoef(A)
np.corrcoef(v, w)
np.diff(v)
np.diff(A, axis=0)
np.diff(A, n=2)
np.diff(b)
np.diff(i8)
np.diff(A, prepend=0)
np.diff(A, append=9.0, axis=0)
np.diff(v, n=0)
np.diff(v, n=-1)
np.diff(s)
np.diff(u8)
np.diff(v, 9)
np.diff(A, axis=5)
np.ediff1d(v)
np.ediff1d(v, to_begin=0, to_end=[8, 9])
np.gradient(v)
np.gradient(A)
np.gradient(v, 2.0)
np.gradient(v, w.cumsum())
np.gradient(S, axis=0, edge_order=2)
np.trapezoid(v)
np.trapezoid(v, w)
np.trapezoid(v, dx=0.5)
np.trapezoid(A, axis=0)
np.trapezoid(A, x=row)
np.interp(v, np.arange(5.0), np.arange(5.0) ** 2)
np.interp(1.5, [1, 2], [3, 4])
np.convolve(v, [1, 2])
np.convolve(v, w, "same")
np.correlate(v, [1, 0.5], "full")
np.cross(row, [1, 2, 3])
np.cross(A, A[::-1])
np.cross(A, row)
np.kron(A, S)
np.kron(v, [1, 2])
np.histogram(v)
np.histogram(v, bins=4)
np.histogram(v, bins=[-5, 0, 5])
np.histogram(v, 3, (0, 5), density=True)
np.histogram(v, 3, weights=u)
np.histogram(i, "auto")
np.histogram2d(v, w, 3)
np.histogramdd(A.T, 2)
np.histogram_bin_edges(v, 4)
np.bincount(k)
np.bincount(k, w)
np.bincount(k, minlength=9)
np.bincount(k, weights=i)
np.bincount(i)
np.bincount(v)
np.bincount(np.zeros(0, int))
np.bincount(b)
np.bincount(k, [1, 2])
np.bincount(I)
np.bincount(u8)
np.bincount(u64)
np.bincount([1, 1, 3])
np.bincount(k, minlength=-1)
np.bincount(i8[:4] + 1)
np.digitize(v, [-2, 0, 3])
np.digitize(v, [-2, 0, 3], right=True)
np.digitize(1.0, row)
np.searchsorted(row, 15)
np.searchsorted(row, [5, 20, 40])
np.searchsorted(row, v, side="right")
np.searchsorted(np.sort(v), w)
np.searchsorted([1, 2], i)
np.searchsorted(v, 1, sorter=np.argsort(v))
row.searchsorted(25)
"""

PRODUCTS = """
np.matmul(A, S)
np.matmul(A, row)
np.matmul(row, S)
np.matmul(row, row)
np.matmul(T, np.ones((4, 2)))
np.matmul(T, T.swapaxes(1, 2))
np.matmul(A, A)
np.matmul(A, s)
np.matmul(I, I.T)
np.matmul(i8, u8)
np.matmul(M, M.T)
np.matmul(c, c)
np.matmul(F, G.T)
np.matmul(e, row)
np.matmul(e, e.T)
np.matmul(e.T, e)
np.matmul(A, S, dtype=np.float32)
np.matmul(A.astype(np.float32), S)
np.matmul(f16, f16)
o = np.zeros((2, 3)); r = np.matmul(A, S, out=o); (r is o, o)
o = np.zeros((2, 2)); np.matmul(A, S, out=o)
o = np.zeros((2, 3), int); np.matmul(A, S, out=o)
np.matmul(S, S, out=S); S
np.matmul([[1, 2]], [[3], [4]])
np.matmul(a, S)
np.matmul(T, S)
A @ S
A @ S @ row
S @ A
A @ 2
2 @ A
A @ [1, 2, 3]
[1, 2] @ A
a @ S
S @ a.T
S @= S; S
A @= S; A
S @= row
np.dot(A, S)
np.dot(A, row)
np.dot(v, w)
np.dot(v, 2)
np.dot(3, 4)
np.dot(2, A)
np.dot(T, S[:, :1].T) if False else 0
np.dot(T, np.ones((2, 4, 3)))
np.dot(A, A)
np.dot(i, k)
np.dot(b, b)
np.dot(c, v)
np.dot(e, row)
np.dot(v, [1, 2, 3, 4, 5, 6])
o = np.zeros((2, 3)); r = np.dot(A, S, out=o); (r is o, o)
o = np.zeros((2, 3), np.float32); np.dot(A, S, out=o)
np.dot(s, s)
np.dot(s, v)
A.dot(S)
A.dot(row)
v.dot(w)
np.inner(v, w)
np.inner(A, row)
np.inner(A, A)
np.inner(A, 2)
np.inner(T, v[:4])
np.inner(A, v)
np.outer(v, w)
np.outer(A, row)
np.outer(i, 2)
np.outer([1, 2], [3, 4])
np.outer(v, w, out=np.zeros((6, 6)))
np.outer(s, v)
np.vdot(v, w)
np.vdot(c, c)
np.vdot(A, A)
np.vdot(c, v)
np.vdot(A, v)
np.vdot(v, row)
np.vecdot(A, row)
np.vecdot(c, c)
np.vecdot(A, A, axis=0)
np.vecdot(A, v)
np.matvec(A, row)
np.matvec(A, v)
np.vecmat(row, S)
np.tensordot(A, S, 1)
np.tensordot(A, A)
np.tensordot(A, A, axes=([0], [0]))
np.tensordot(T, T, axes=([0, 1], [0, 1]))
np.tensordot(T, A, axes=([1, 0], [1, 0]))
np.tensordot(A, row, axes=(1, 0))
np.tensordot(v, w, axes=0)
np.tensordot(A, S, axes=2)
np.tensordot(A, S, axes=(0, 0))
np.tensordot(A, A, axes=([0, 1], [0]))
np.tensordot(A, A, axes=(5, 0))
np.tensordot(I, I, 2)
np.einsum("ij,jk->ik", A, S)
np.einsum("ij,jk", A, S)
np.einsum("ij->", A)
np.einsum("ij->j", A)
np.einsum("ij->ji", A)
np.einsum("ii->i", S)
np.einsum("ii", S)
np.einsum("i,i->i", v, w)
np.einsum("i,i->", v, w)
np.einsum("i,j->ij", v, row)
np.einsum("i,j->ji", v, row)
np.einsum("ij,j->i", A, row)
np.einsum("ijk,jl->ikl", T, A.T)
np.einsum("...j,j->...", A, row)
np.einsum("...ij->...ji", T)
np.einsum("ij,jk,kl->il", A, S, S)
np.einsum("ij,jk,kl->il", A, S, S, optimize=True)
np.einsum(A, [0, 1], S, [1, 2], [0, 2])
np.einsum("ij, jk -> ik", A, S)
np.einsum("ij,ij->ij", A, a)
np.einsum("ij,jk->ik", A, A)
np.einsum("ij,jk->il", A, S)
np.einsum("ijk->ij", A)
np.einsum("ij->ii", A)
np.einsum("ij,jk->ik", I, I.T)
np.einsum("ij,jk->ik", I, S[:, :2][:2]) if False else 0
np.einsum("i,i", i8, i8)
np.einsum("i->", b)
np.einsum("ij,ij->i", A, A, dtype=np.float32)
np.einsum("ij,jk->ik", A, S, out=np.zeros((2, 3)))
np.einsum("ij,jk->ik", A, S, order="F")
np.einsum("i,ij->j", [1, 2], A)
np.einsum("i,i,i->i", v, w, u)
np.einsum("", 3.0)
np.einsum("i->i", v)
np.einsum("ij,kj->ik", A, S)
np.einsum("ki,kj->ij", A, A)
np.einsum("aij,ajk->aik", T, T.swapaxes(1, 2))
np.einsum("iij->j", np.ones((2, 2, 3)))
x = np.einsum("ii->i", S); x[:] = 0; S
np.einsum_path("ij,jk->ik", A, S)
np.linalg.matmul(A, S)
np.linalg.multi_dot([A, S, row])
np.linalg.outer(v, w)
np.linalg.vecdot(A, row)
np.linalg.tensordot(A, S, axes=1)
np.linalg.cross(row, row[::-1])
np.linalg.trace(S)
np.linalg.diagonal(S)
np.linalg.matrix_transpose(A)
np.linalg.norm(v)
np.linalg.norm(A)
np.linalg.norm(A, axis=0)
np.linalg.norm(A, 1)
np.linalg.norm(A, "fro")
np.linalg.norm(A, 2)
np.linalg.norm(v, nd.inf)
np.linalg.norm(v, 3)
np.linalg.norm(c)
np.linalg.norm(A, axis=(0, 1), keepdims=True)
np.linalg.norm(i)
np.linalg.norm(A, "bad")
np.linalg.norm(v, 0)
np.linalg.vector_norm(A)
np.linalg.vector_norm(A, axis=1, ord=1)
np.linalg.matrix_norm(A)
np.linalg.det(S)
np.linalg.slogdet(S)
np.linalg.inv(S)
np.linalg.inv(A)
np.linalg.pinv(A)
np.linalg.solve(S, row)
np.linalg.solve(S, S)
np.linalg.eigvalsh(S)
np.linalg.svdvals(A)
np.linalg.svd(A, compute_uv=False)
np.linalg.cholesky(S)
np.linalg.cholesky(-S)
np.linalg.matrix_rank(A)
np.linalg.matrix_power(S, 3)
np.linalg.matrix_power(S, -1)
np.linalg.cond(S)
np.linalg.lstsq(A.T, row)[0]
np.linalg.qr(A, mode="r")
np.linalg.eigh(S).eigenvalues
type(np.linalg.svd(A)).__name__
np.linalg.inv(np.zeros((2, 2)))
np.linalg.tensorinv(np.eye(4).reshape(2, 2, 2, 2))
np.fft.fft(v)
np.fft.ifft(c)
np.fft.rfft(v)
np.fft.irfft(c)
np.fft.fft2(A)
np.fft.fftn(T, axes=(0, 2))
np.fft.fft(v, 8)
np.fft.fft(A, axis=0, norm="ortho")
np.fft.fftfreq(5)
np.fft.rfftfreq(5, 0.1)
np.fft.fftshift(v)
np.fft.ifftshift(A, axes=1)
np.fft.hfft(c)
np.fft.fft(v, out=np.zeros(6, complex))
"""

SHAPES = """
A.T
A.mT
T.mT
v.mT
A.transpose()
T.transpose(2, 0, 1)
T.transpose((2, 0, 1))
T.transpose([0, 1])
T.transpose(0, 0, 1)
np.transpose(A)
np.transpose(T, (1, 0, 2))
np.permute_dims(T, (1, 0, 2))
np.matrix_transpose(T)
np.swapaxes(T, 0, 2)
T.swapaxes(0, -1)
T.swapaxes(0, 3)
np.moveaxis(T, 0, -1)
np.moveaxis(T, [0, 1], [1, 0])
np.rollaxis(T, 2)
A.reshape(3, 2)
A.reshape((6,))
A.reshape(-1)
A.reshape(-1, 2)
A.reshape(4, -1)
A.reshape(-1, -1)
A.reshape(7)
A.reshape(3, 2, order="F")
A.reshape([3, 2])
A.reshape(())
s.reshape(1, 1)
one.reshape(())
F.reshape(4, 3)
F.reshape(4, 3, order="A")
F.reshape(-1, order="F")
R.reshape(4, 6)
N.reshape(2, 5)
e.reshape(3, 0)
e.reshape(-1)
e.reshape(0, -1)
A.reshape(2.0, 3)
np.reshape(A, 6)
np.reshape(A, (3, -1))
np.reshape(A, shape=(3, 2))
np.reshape([1, 2, 3, 4], (2, 2))
np.reshape(F, 12, copy=False)
np.reshape(A, 6, copy=False)
np.reshape(A, 6, copy=True)
x = A.reshape(6); x[0] = 50; A
x = A.T.reshape(6); x[0] = 50; A
x = A.T; x[0, 1] = 50; A
x = A[::-1].reshape(-1); x[0] = 50; A
A.ravel()
A.ravel("F")
F.ravel()
F.ravel("K")
F.ravel(order="A")
R.ravel("K")
np.ravel(A)
np.ravel([[1, 2], [3, 4]])
np.ravel(F, "F")
x = A.ravel(); x[0] = 9; A
x = A.flatten(); x[0] = 9; A
A.flatten("F")
F.flatten()
R.flatten("K")
s.ravel()
s.flatten()
np.squeeze(np.ones((1, 3, 1)))
np.squeeze(np.ones((1, 3, 1)), 0)
np.squeeze(A, 0)
one.squeeze()
np.expand_dims(A, 0)
np.expand_dims(A, (0, 2))
np.expand_dims(A, 5)
A[None].shape
A[..., None]
A[:, None, ::-1]
np.atleast_1d(3)
np.atleast_1d(s, v)
np.atleast_2d(v)
np.atleast_2d(v, 3)
np.atleast_3d(A)
np.atleast_1d(v) is v
np.broadcast_to(row, (2, 3))
np.broadcast_to(row, (3, 2))
np.broadcast_to(3, (2,))
np.broadcast_to(s, (2, 2))
np.broadcast_to(row, (2, 3)).flags.writeable
np.broadcast_arrays(A, row)
np.broadcast_arrays(row, col)
np.broadcast_arrays(A, v)
np.broadcast_shapes((2, 1), (3,))
np.broadcast(A, row).shape
np.flip(A)
np.flip(A, 0)
np.flip(A, (0, 1))
np.flip(A, 2)
np.fliplr(A)
np.flipud(A)
np.fliplr(v)
np.rot90(A)
np.rot90(A, 2)
np.rot90(A, -1)
np.rot90(T, axes=(1, 2))
np.diagonal(S)
np.diagonal(A, 1)
np.diagonal(T, 0, 1, 2)
S.diagonal()
S.diagonal(offset=-1)
np.diagonal(v)
S.diagonal()[:] if True else 0
np.split(v, 3)
np.split(v, [2, 3])
np.split(v, 4)
np.array_split(v, 4)
np.array_split(A, 2, axis=1)
np.hsplit(A, 3)
np.vsplit(A, 2)
np.dsplit(T, 2)
np.unstack(A)
np.unstack(A, axis=1)
x = np.split(v, 2)[0]; x[0] = 99; v
np.concatenate([A, A])
np.concatenate([A, A], axis=1)
np.concatenate((v, w))
np.concatenate([A, S])
np.concatenate([A, v])
np.concatenate([A, A], axis=None)
np.concatenate([A, A], axis=2)
np.concatenate([v, i])
np.concatenate([i8, u8])
np.concatenate([b, f32])
np.concatenate([v, p])
np.concatenate([p, v])
np.concatenate([v, [1, 2]])
np.concatenate([s, s])
np.concatenate([])
np.concatenate([e, A.reshape(2, 3)])
np.concatenate([F, F])
np.concatenate([F, F], 1)
np.concatenate([G, F])
np.concatenate([v, w], dtype=np.float32)
np.concatenate([v, w], dtype=int)
np.concatenate([v, w], dtype=int, casting="unsafe")
np.concatenate(A)
np.concatenate(T, axis=1)
o = np.zeros(12); r = np.concatenate([v, w], out=o); (r is o, o)
o = np.zeros(11); np.concatenate([v, w], out=o)
np.concatenate([v, w], axis=0.0)
np.concatenate(v)
np.concat([v, w])
np.stack([v, w])
np.stack([v, w], axis=1)
np.stack([v, w], -1)
np.stack([v, row])
np.stack([v, w], 2)
np.stack([s, s])
np.stack([v, 2 * v, i])
np.stack([])
np.stack([v[0], v[1]])
np.stack([v.sum(), w.sum()])
np.stack([v, p])
np.stack([F, F])
np.stack(v)
np.stack([v, w], dtype=np.float32)
np.stack([v, w], out=np.zeros((2, 6)))
np.vstack([v, w])
np.vstack([A, row])
np.vstack([s, s])
np.hstack([v, w])
np.hstack([A, A])
np.hstack([s, 2])
np.dstack([v, w])
np.dstack([A, A])
np.column_stack([v, w])
np.column_stack([A, [1, 2]])
np.row_stack([v]) if hasattr(nd, "row_stack") else 0
np.hstack([A, v])
np.vstack([v, row])
np.append(v, 3)
np.append(A, A)
np.append(A, A, axis=0)
np.append(v, [1, 2])
np.insert(v, 1, 9)
np.insert(A, 0, row, axis=0)
np.insert(v, [1, 3], [8, 9])
np.delete(v, 2)
np.delete(A, 0, 1)
np.delete(v, [0, 1])
np.delete(v, slice(1, 3))
np.resize(v, (2, 2))
np.resize(v, 8)
np.trim_zeros(np.array([0, 0, 1, 2, 0]))
np.roll(v, 2)
np.roll(v, -1)
np.roll(A, 1)
np.roll(A, 1, axis=0)
np.roll(A, (1, 1), axis=(0, 1))
np.roll(A, 2, axis=(0, 1))
np.roll(A, (1, 2), axis=1)
np.roll(v, 100)
np.roll(v, 0)
np.roll(e, 1)
np.roll(F, 1)
np.roll(F, 1, 0)
np.roll(A, 1, axis=2)
np.roll([1, 2, 3], 1)
np.roll(s, 1)
np.roll(i8, k[0])
np.roll(A, (1, 2, 3), axis=(0, 1))
np.tile(v, 2)
np.tile(A, (2, 1))
np.tile(row, (2, 2))
np.tile(A, (2, 1, 1))
np.tile(s, 3)
np.tile(F, (1, 2))
np.tile(A, 0)
np.tile([1, 2], 2)
np.tile(A, ())
np.repeat(v, 2)
np.repeat(A, 2)
np.repeat(A, 2, axis=0)
np.repeat(A, [1, 2], axis=0)
np.repeat(A, [1, 2, 3], axis=1)
np.repeat(v, k)
np.repeat(v, [1, 2])
np.repeat(v, -1)
np.repeat(3, 4)
A.repeat(2)
A.repeat(2, 1)
np.repeat(A, 2, axis=3)
np.repeat(e, 2, axis=0)
np.repeat(F, 2, axis=0)
np.repeat(A, 0, axis=0)
np.repeat(v, 2.5)
np.repeat(v, [2])
np.pad(v, 2)
np.pad(v, (1, 2))
np.pad(A, 1)
np.pad(A, ((1, 0), (0, 2)))
np.pad(A, (1, 2), constant_values=9)
np.pad(A, 1, constant_values=(8, 9))
np.pad(A, 1, constant_values=((1, 2), (3, 4)))
np.pad(i8, 1, constant_values=3.7)
np.pad(A, {0: 1})
np.pad(A, 1, "edge")
np.pad(A, 2, "edge")
np.pad(A, 1, mode="reflect")
np.pad(v, 4, mode="reflect")
np.pad(v, 14, mode="reflect")
np.pad(v, 2, mode="reflect", reflect_type="odd")
np.pad(A, 1, mode="symmetric")
np.pad(v, 3, mode="symmetric")
np.pad(v, 15, mode="symmetric")
np.pad(A, 1, mode="wrap")
np.pad(v, 8, mode="wrap")
np.pad(A, 1, mode="linear_ramp")
np.pad(A, 1, mode="linear_ramp", end_values=5)
np.pad(A, 1, mode="maximum")
np.pad(A, 1, mode="minimum", stat_length=1)
np.pad(A, 1, mode="mean")
np.pad(A, 1, mode="median")
np.pad(A, 1, mode="empty").shape
np.pad(A, 0)
np.pad(A, -1)
np.pad(A, 1.5)
np.pad(A, 1, "nope")
np.pad(A, (1, 2, 3))
np.pad(v, 1, "edge", constant_values=3)
np.pad([1, 2], 1)
np.pad(F, 1)
np.pad(e, 1)
np.pad(e1, 1, "edge")
np.pad(A, ((0, 0), (1, 1)), "edge")
np.pad(s, 0)
np.pad(one, 2, "reflect")
np.pad(M, 1)
"""

SELECTING = """
np.logspace(0, 2, 5)
np.logspace(0, 2, 5, base=2)
np.where(v > 0, v, w)
np.where(v > 0, 1, 0)
np.where(v > 0, v, 0)
np.where(v > 0, 1.5, i)
np.where(b, f32, 1.5)
np.where(b, i8, 1)
np.where(b, i8, 300)
np.where(M, A, row)
np.where(col > 1, A, 0)
np.where(v, 1, 2)
np.where(True, v, w)
np.where([True, False], 1, 2)
np.where(v > 0)
np.where(M)
np.where(F > 5, F, 0)
np.where(b, c, v)
np.where(v > 0, v, row)
np.where(v > 0, v)
np.where(p > 2, v, 0)
np.where(b, "x", "y")
np.where(s > 0, s, 0)
np.where(i, i8, u8)
np.where(e > 0, e, 1)
np.where(c, 1, 0)
np.where(A > 0, nd.float32(1), A)
np.clip(v, 0, 3)
np.clip(v, 0, None)
np.clip(v, None, 3)
np.clip(v, a_min=0, a_max=3)
np.clip(v, min=0, max=3)
np.clip(v, None, None)
np.clip(i, 0, 2.5)
np.clip(i8, -3, 3)
np.clip(i8, -300, 3)
np.clip(u8, -1, 3)
np.clip(f32, 0, 1.5)
np.clip(A, row, 100)
np.clip(A, col, None)
np.clip(v, 3, 0)
np.clip(odd, 0, 1)
np.clip(v, nd.nan, 1)
np.clip(c, 0, 1)
np.clip(v, 0, 3, out=v); v
o = np.zeros(6); r = np.clip(v, 0, 3, out=o); (r is o, o)
o = np.zeros(6, int); np.clip(v, 0, 3, o)
np.clip(v)
v.clip(0)
v.clip(0, 3)
v.clip(max=2)
v.clip(0, 1, out=w); w
np.clip(v, 0, 3, dtype=np.float32)
np.clip(F, 2, 5)
np.clip(b, 0, 1)
np.clip(5, 0, 3)
np.clip(s, 0, 3)
np.clip(i, 0, np.float32(2))
np.clip(v, 0, 3, where=b)[0]
np.take(v, [0, 2])
np.take(v, 1)
np.take(A, [0, 5])
np.take(A, [2, 0], axis=1)
np.take(A, 1, axis=0)
np.take(A, [[0, 1], [1, 0]], axis=1)
np.take(v, [9])
np.take(v, -1)
np.take(v, [0, 9], mode="wrap")
np.take(v, [-1, 9], mode="clip")
np.take(A, k, axis=1)
np.take(v, k)
np.take(v, at)
np.take(A, at, axis=2)
np.take([5, 6, 7], at)
np.take(v, [0.5])
np.take(v, [])
np.take(v, b)
np.take(v, [0, 1], out=np.zeros(2))
np.take(F, [1, 0], axis=1)
np.take(p, k)
v.take([1, 2])
A.take(1, 0)
A.take(at, axis=1)
np.put(v, [0, 1], [8, 9]); v
np.put(v, k, 5.0); v
np.put(A, [0, 5], 9); A
np.put(v, [9], 1); v
np.put(v, [9], 1, mode="clip"); v
v.put([0, 2], [1, 2]); v
np.put(F, [1], 77); F
x = v[::2]; np.put(x, [0], 5); v
np.place(v, v > 0, [1, 2]); v
np.place(v, b, 9); v
np.putmask(v, v > 0, 5); v
np.putmask(v, b, w); v
np.putmask(A, M, [1, 2]); A
np.copyto(v, w); v
np.copyto(v, 3, where=b); v
np.copyto(A, row); A
np.copyto(i, v); i
np.copyto(i, v, casting="unsafe"); i
np.copyto(v, row)
np.copyto(a, A * 2); a.tolist()
np.fill_diagonal(S, 0); S
np.fill_diagonal(A, [1, 2]); A
np.choose(k, [v, w, u])
np.choose([0, 1], [[1, 2], [3, 4]])
np.choose(k, [1, 2])
np.choose(k, [v, 2, 3], mode="clip")
k.choose([v, w, u])
np.select([v > 0, v < -2], [v, w])
np.select([v > 0, v < -2], [1, 2], default=9)
np.select([b, ~b], [v, i])
np.select([], [])
np.select([v], [v])
np.compress(b, v)
np.compress([True, False], A, axis=0)
np.compress(b[:3], A, 1)
v.compress(b)
np.extract(v > 0, v)
np.extract(M, A)
np.take_along_axis(A, np.argsort(A, axis=1), axis=1)
np.take_along_axis(A, np.array([[0], [1]]), 1)
np.take_along_axis(A, np.array([0, 1]), 1)
np.take_along_axis(A, np.array([3, 1]), None)
np.take_along_axis(A, np.array([[0.5]]), 1)
np.put_along_axis(A, np.array([[0], [1]]), 9, axis=1); A
np.nonzero(v)
np.nonzero(A)
A.nonzero()
np.argwhere(A > 0)
np.flatnonzero(A)
np.sort(v)
np.sort(A, axis=0)
np.sort(A, axis=None)
np.sort(odd)
np.sort(i8)
np.sort(c)
np.sort(A, axis=2)
np.sort(v, kind="stable")
np.sort(v, stable=True)
np.sort(F)
np.sort(F, axis=0)
np.sort(e)
np.sort(s)
np.sort([3, 1, 2])
np.sort(b)
np.sort(v[::-1])
np.sort(v, kind="bad")
v.sort(); v
A.sort(axis=0); A
x = v[::2]; x.sort(); v
v.sort(kind="stable"); v
F.sort(axis=1); F
np.argsort(v)
np.argsort(A, axis=0)
np.argsort(A, axis=None)
np.argsort(k, kind="stable")
np.argsort(v, stable=True)
np.argsort(s)
np.argsort(F)
v.argsort()
A.argsort(0)
np.argsort([3, 1, 2])
np.sort_complex(v)
np.lexsort((v, k))
np.lexsort([k, i])
np.sort(np.partition(v, 2)[:2])
np.partition(v, 2)[2]
np.argpartition(v, 2).shape
v.partition(3); v[3]
np.unique(k)
np.unique(k, return_index=True)
np.unique(k, return_inverse=True, return_counts=True)
np.unique(A)
np.unique(I, axis=0)
np.unique(odd)
np.unique([3, 1, 3])
np.unique_values(k)
np.unique_counts(k)
np.unique_inverse(k)
np.unique_all(k)
np.intersect1d(i, k)
np.union1d(i, k)
np.setdiff1d(i, k)
np.setxor1d(i, k)
np.isin(i, k)
np.isin(A, [0.0, 7.0])
np.isclose(v, w)
np.isclose(v, v + 1e-9)
np.isclose(odd, odd)
np.isclose(odd, odd, equal_nan=True)
np.isclose(v, 3)
np.isclose(i, k)
np.isclose(s, 3.5)
np.isclose(3.0, 3.0)
np.isclose(v, w, rtol=1, atol=1)
np.isclose(A, row)
np.isclose(v, row)
np.isclose(c, c)
np.isclose(b, b)
np.isclose(f32, f32 + 1e-6)
np.isclose(v, [3, -1, 2.5, 0, 7, -4.5])
np.allclose(v, v)
np.allclose(v, w)
np.allclose(odd, odd, equal_nan=True)
np.allclose(A, row)
np.array_equal(v, v)
np.array_equal(v, w)
np.array_equal(v, row)
np.array_equal(odd, odd, equal_nan=True)
np.array_equal(v, [1])
np.array_equiv(A, A[None])
np.array_equiv(v, w)
np.isfinite(odd)
np.isneginf(odd)
np.isposinf(odd)
np.isreal(c)
np.iscomplex(c)
np.iscomplexobj(c)
np.isrealobj(v)
np.isscalar(v)
np.isfortran(F)
np.nan_to_num(odd)
np.nan_to_num(odd, nan=1, posinf=2, neginf=3)
np.nan_to_num(i)
np.nan_to_num(c)
np.real(c)
np.imag(c)
np.real(v)
np.imag(v)
np.real(3)
np.real_if_close(c)
np.angle(c)
np.angle(v, deg=True)
np.unwrap(v)
np.round(v)
np.round(v * 1.234, 1)
np.round(i, -1)
np.round(i8)
np.round(c)
np.round(f32 * 1.5, 1)
np.around(v * 1.7, 2)
np.round(v, out=np.zeros(6))
v.round()
(v * 1.23).round(1)
i.round(2)
b.round()
np.round(2.5)
np.fix(v * 1.3)
np.sinc(v)
np.i0(v)
np.heaviside(v, 0.5)
np.polyval([1, 2, 3], v)
np.polyfit(v, w, 1)
np.poly(v[:2])
np.roots([1, -3, 2])
np.polyadd(v, w)
np.polymul(v, [1, 2])
np.packbits(b)
np.unpackbits(u8)
np.apply_along_axis(np.sum, 0, A)
np.apply_along_axis(lambda x: x[0], 1, A)
np.apply_over_axes(np.sum, T, [0, 2])
np.piecewise(v, [v < 0, v >= 0], [-1, 1])
np.vectorize(lambda x: x + 1)(v)
np.frompyfunc(lambda x: x + 1, 1, 1)(v)
np.lib.stride_tricks.sliding_window_view(v, 3)
np.lib.stride_tricks.as_strided(v, (2,), (8,))
np.shares_memory(v, v[1:])
np.may_share_memory(v, w)
np.shape(A)
np.shape([[1, 2]])
np.ndim(A)
np.ndim(3)
np.size(A)
np.size(A, 1)
np.result_type(i8, 3)
np.result_type(v, i8, np.float32)
np.result_type(i8, u8)
np.can_cast(np.int8, np.float32)
np.promote_types("i4", "f4")
np.min_scalar_type(10)
np.common_type(f32, v)
np.dtype("f8")
np.iinfo(np.int8).max
np.finfo(np.float32).eps
np.isdtype(v.dtype, "real floating")
np.astype(v, np.float32)
np.array2string(v)
np.array_repr(v) is None
np.array_str(v)
np.format_float_positional(1.5)
np.base_repr(10, 3)
np.binary_repr(5)
np.bitwise_count(u8)
np.bitwise_left_shift(i, 2)
np.bitwise_invert(i)
np.pow(v, 2)
np.acos(u)
np.concat([v, w])
np.iterable(v)
np.ix_([0, 1], [0, 2])
A[np.ix_([0, 1], [0, 2])]
A[np.ix_([True, False], [0, 2])]
np.ravel_multi_index(([0, 1], [1, 2]), (2, 3))
np.unravel_index([1, 5], (2, 3))
np.unravel_index(k, (2, 3))
np.savetxt is None
list(np.ndenumerate(A))
list(np.ndindex(2, 2))
[float(x) for x in np.nditer(v)]
np.blackman(4)
np.hanning(4)
np.hamming(4)
np.bartlett(4)
np.kaiser(4, 3.0)
np.busday_count("2020-01", "2020-02")
np.datetime64("2020-01-01")
np.array(["2020-01-01"], "M8[D]") + 1
np.char.upper(np.array(["a"]))
np.strings.upper(np.array(["a"]))
np.rec.array([(1, 2.0)], dtype=[("a", int), ("b", float)]).a.tolist()
np.ma.masked_array([1, 2], [True, False]).sum()
np.emath.sqrt(-1)
np.polynomial.Polynomial([1, 2])(3)
"""

INDEXING = """
v[0]
v[-1]
v[6]
v[-7]
v[1:4]
v[::-1]
v[::2]
v[10:]
v[4:1:-1]
v[...]
v[()]
v[None]
v[:, None]
v[0, 0]
v[1.0]
v["a"]
v[True]
v[False]
v[None, 0]
v[..., 0]
v[0, ...]
v[[0, 2]]
v[[]]
v[[True, False, True, False, False, True]]
v[b]
v[v > 0]
v[~b]
v[b[:3]]
v[k]
v[k.reshape(2, 3)]
v[[9]]
v[[-7]]
v[[0.5]]
v[w]
v[nd.array([1, 2])]
v[nd.array(1)]
v[nd.int8(2)]
v[np.array(2)]
v[k[0]]
v[k.max()]
v[k[0]:k[0] + 3]
v[slice(1, None)]
v[:k.max()]
v[(1,)]
v[([1, 2],)]
v[[1, 2], None]
v[:, [0]]
s[()]
s[...]
s[0]
s[None]
s[True]
A[0]
A[0, 1]
A[0][1]
A[-1, -1]
A[2]
A[0, 3]
A[0, 1, 2]
A[:, 1]
A[1, ::-1]
A[::-1, ::2]
A[..., 0]
A[0, ...]
A[:, None, 0]
A[[0, 1, 0]]
A[[0, 1], [1, 2]]
A[[0, 1], [[1], [2]]]
A[[0, 1], :2]
A[:, [2, 0]]
A[..., [2, 0]]
A[1, [0, 2]]
A[[0], ..., [1]]
A[[0, 1], [0, 1, 2]]
A[M]
A[A > 0]
A[M[:, 0]]
A[:, M[0]]
A[M[:, 0], 1]
A[M[0]]
A[M.T]
A[True]
A[at[1:], at[1:]]
A[:, at]
A[k[:2]]
A[(0, 1)]
A[[0, 5]]
A[:, [5]]
A[at > 1]
A[[True, False]]
A[np.newaxis, 0]
A[0:0]
A[e.astype(int)[:, 0]]
T[0, :, 1]
T[:, 1, ::2]
T[[0, 1], :, [1, 2]]
T[:, [0, 2], [1, 3]]
T[[0, 1], [0, 2]]
T[..., at]
T[0, at]
T[at[1:], ..., 0]
T[T > 5]
T[:, np.array([True, False, True])]
T[np.array([True, False]), :, 1]
T[1:, at, None]
T[[[0, 1]], 1]
T[0, 0, 0, 0]
R[0]
R[:, 1, ::-1]
R[[1, 0]]
R[..., [0, 3]]
F[1]
F[[0, 2]]
F[:, [1, 2]]
P[::2, 0]
P[[1, 0]]
N[3]
N[[1, 2]]
N[N > 5]
e[0]
e[[]]
e[:, 1]
e[e > 0]
M[M]
c[k]
c.real[k]
list(v)
list(A)
[x for x in i]
3.0 in v
99 in v
len(A)
v[0] = 9; v
v[6] = 9
v[1:3] = 5; v
v[1:3] = [8, 9]; v
v[::2] = row; v
v[::-1] = w; v
v[1:3] = row
v[...] = 2; v
v[()] = 2; v
v[:] = w; v
v[k] = 7; v
v[k] = w; v
v[[0, 2]] = [8, 9]; v
v[[0, 2]] = row
v[[0, 9]] = 1
v[b] = 0; v
v[b] = row; v
v[b] = v[:2]
v[v > 0] = nd.nan; v
v[v > 0] *= 2; v
v[v > 0] += 1; v
v[k] += 1; v
v[[]] = 3; v
v[b] = w[b]; v
v[True] = 4; v
v[False] = 4; v
v[0] = "x"
v[0] = [1, 2]
v[0] = row
v[0] = None
v[0] = s; v
v[0] = w.sum(); v
v[0] = 1j
v[1:3] = i[1:3]; v
i[0] = 2.9; i
i[:] = v; i
i[b] = 2.9; i
i8[0] = 300
i8[:2] = 300
u8[0] = -1
b[0] = 5; b
b[:2] = [0, 3]; b
f32[:] = v; f32
c[0] = 2; c
c.real = 0; c
c.imag[:] = v; c
c.real[k] = 9; c
A[0] = 1; A
A[0, 1] = 9; A
A[:, 1] = [8, 9]; A
A[1] = row; A
A[:] = row; A
A[:] = col; A
A[...] = 0; A
A[:, None, 0] = 4; A
A[[0, 1], [1, 2]] = 9; A
A[[0, 1], [1, 2]] = [8, 9]; A
A[:, [0, 2]] = col; A
A[[0, 0]] = [[1, 2, 3], [4, 5, 6]]; A
A[M] = 0; A
A[M] = row; A
A[M[:, 0]] = row; A
A[:, M[0]] = 7; A
A[A > 0] = A[A > 0] * 2; A
A[A > 0] -= 1; A
A[0, 3] = 1
A[2] = 1
A[0] = v
A[0, 1, 2] = 1
A[M.T] = 1
A[0] = A[1]; A
A[0], A[1] = A[1].copy(), A[0].copy(); A
A[:, 0], A[:, 1] = A[:, 1], A[:, 0].copy(); A
A[::-1] = A; A
A[1:] = A[:1]; A
A += A.T @ A if False else 1; A
A[:, ::2] += 10; A
A[0] += row; A
A[[0, 1]] += row; A
A[M] += 1; A
A.T[0] = 5; A
A.T[:] = np.arange(6).reshape(3, 2); A
A.reshape(-1)[::2] = 0; A
A.ravel()[1] = 7; A
A.flat[2] = 8; A
A.flat[1:3] = [8, 9]; A
A.flat = 3; A
A.flat[[0, 5]] = 4; A
A.flat[2]
A.flat[1:4]
list(A.flat)
len(A.flat)
S.diagonal()[0] = 1
x = np.diagonal(S); x[0] = 1
S[np.arange(3), np.arange(3)] = 0; S
S[np.diag_indices(3)] += 5; S
S[np.triu_indices(3, 1)] = 0; S
T[0, :, 1] = 9; T
T[:, 1] = 0; T
T[..., at] = 1; T
T[:, [0, 2], [1, 3]] = 5; T
T[T > 20] = -1; T
T[0] = T[1]; T
R[0] = 1; R
R[:, 0, :] = np.arange(4); R
R[R > 10] = 0; R
F[1:, 1:] = 0; F
F[0] = np.arange(4); F
F[[0, 2]] = 7; F
P[0] = 1; P
P[:, 1] = np.arange(4); P
N[:3] = 0; N
N[N > 5] = 1; N
e[:] = 3; e
e[0] = 3
s[...] = 4; s
s[()] = 4; s
s[0] = 4
s.fill(2); s
v.fill(3); v
A[:, 1].fill(9); A
i.fill(2.5); i
x = v[2:]; x[:] = 0; v
x = v[2:]; y = x[1:]; y += 5; v
x = v[::2]; v += 1; x
x = A[0]; A *= 2; x
x = A.T; y = x[0]; y[:] = 5; (A, x)
x = v + 1; v[0] = 100; x
x = v; v += 1; x
x = v.copy(); v += 1; x
x = v[:3]; v[:] = 0; x
x = v[:3] * 2; v[:] = 0; x
v[1:] = v[:-1]; v
v[1:] += v[:-1]; v
v[:-1] -= v[1:]; v
x = v.view(); x[0] = 9; v
x = v.view(np.int64); x[0]
x = v.view(np.int64); x[0] = 0; v
i32.view(np.int8).shape
c.view(float)
c.view(float)[::2]
f32.view("u4")
A.view(np.int32).shape
v.view("f4")
np.zeros(3, "i4").view("f8")
del v[0]
v[0], v[1] = v[1], v[0]; v
A[0, 0] += 5; A
v[2] *= 3; v
v[k[0]] -= 1; v
np.add(v, 1, out=v[::-1]); v
np.add(v[:-1], v[1:], out=v[1:]); v
np.multiply(A, 2, out=A.T[:, :].T); A
"""

ATTRIBUTES = """
A.shape
A.ndim
A.size
A.dtype
A.itemsize
A.nbytes
A.strides
A.T.strides
F.strides
R.strides
P.strides
N.strides
s.shape
e.size
A.flags.c_contiguous
A.T.flags.f_contiguous
P.flags.contiguous
A.flags["WRITEABLE"]
A.flags.owndata if False else True
A[0].base is None
A.base is None
c.real
c.imag
v.real
v.imag
A.device
A.tolist()
s.tolist()
v.sum().tolist()
A.item(1)
A.item((0, 1))
A.item()
s.item()
A.tobytes()
F.tobytes()
F.tobytes("F")
A.astype(int)
A.astype(np.float32)
v.astype(np.int8)
v.astype(bool)
v.astype(complex)
c.astype(complex)
odd.astype(np.float32)
F.astype(int)
F.astype(int, order="C")
R.astype(np.float32)
P.astype(int)
N.astype(int)
A.astype(float, copy=False) is A
A.astype(float) is A
A.astype(int, casting="safe")
A.astype("nope")
A.astype(str)
A.astype(object)
i.astype(np.uint8)
s.astype(int)
v.sum().astype(int)
A.astype(np.float32, order="F")
np.astype(A, int)
A.copy()
F.copy()
F.copy("K")
F.copy(order="F")
R.copy("K")
R.copy("A")
s.copy()
P.copy()
x = A.copy(); x[0] = 0; (A, x)
v.sum().copy()
A.conj()
c.conj()
c.conjugate()
A.byteswap()
A.view().shape
A.resize((3, 2)); A
v.resize(4); v
v.resize((2, 4)); v
A.shape = (3, 2); A
A.shape = 6; A
A.shape = (7,)
A.setflags(write=False); A[0] = 1
A.setflags(write=False); A += 1
A.flags.writeable = False; A[0] = 1
float(s)
int(s)
float(v)
float(one)
int(v[:1])
bool(s)
bool(v)
bool(e1)
bool(one)
complex(s)
complex(c)
range(3)[k[1]]
[10, 20, 30][k[0]]
[10, 20, 30][k.max()]
[10, 20][s]
hash(v)
hash(v.sum())
len(s)
len(v)
iter(s)
str(v)
str(A)
str(s)
str(v.sum())
f"{v.sum():.2f}"
f"{s:.1f}"
f"{v}"
f"{v:.2f}"
format(v.sum(), "8.3f")
"%.2f" % v.sum()
"%d" % k.max()
"%s" % v
round(v.sum(), 1)
divmod(v.sum(), 2)
abs(-v.sum())
-v.sum()
v.sum() + 1
1 + v.sum()
v.sum() + w.sum()
v.sum() * A
v.sum() == 7.0
v.sum() < 9 and v.sum() > 0
bool(v.sum() == 7)
v.sum() // 2
v.sum() ** 2
2 ** k.max()
k.max() ** 2
i.sum() / 2
i.sum() % 3
i.sum() << 2
i.max() & 1
min(v.sum(), 3.0)
max(v)
sum(v)
sum(A)
sorted(v)
any(v)
all(v)
v.max().item()
v.mean().dtype
v.sum().shape
v.sum()[()]
v.sum()[...]
v.sum()[None]
v.sum()[0]
v.sum().real
v.sum().imag
v.sum().T
v.sum().ndim
v.sum().reshape(1)
v.sum().flatten()
v.sum().is_integer()
i.sum().bit_count()
x = v.sum(); x += 1; (x, v.sum())
x = v.sum(); x[...] = 1
x = v.sum(); y = x; x *= 2; (x, y)
x = i.sum(); x /= 2; x
x = v[0]; x += 1; v
math = __import__("math"); math.sqrt(v.max())
math = __import__("math"); math.floor(v.max())
math = __import__("math"); math.isnan(odd[0])
pickle = __import__("pickle"); pickle.loads(pickle.dumps(A))
pickle = __import__("pickle"); pickle.loads(pickle.dumps(v.sum()))
copy = __import__("copy"); copy.copy(A)
copy = __import__("copy"); copy.deepcopy([A, A])
A.dump is None
v == None
v != None
v == "x"
v is None
(v == w).all()
(A == [3, -1, 2.5]).any()
v.all()
v.any()
v.max(initial=10)
v.nonzero()
v.ptp() if hasattr(v, "ptp") else 0
A.squeeze()
A.choose if False else 0
v.searchsorted(2)
v.newbyteorder() if hasattr(v, "newbyteorder") else 0
v.nope
v.nope = 3
A.__len__()
v.__contains__(3.0)
A.to_device("cpu")
A.to_device("gpu")
A.__array_namespace__() is np or True
A.trace()
A.tofile is None
v.argpartition(2).shape
v.cumsum()
A.flat[0]
A.mean(axis=0, dtype=np.float32)
A.sum(axis=0, initial=1.0)
A.sum(0, np.float32)
A.max(0, None, True)
A.min(axis=1, where=M, initial=0)
A.std(0, None, None, 1)
A.round(1)
A.clip(0, 1)
A.dot(row)
A.tolist
"""

PROTOCOLS = """
nd.sum(A)
nd.sum(A, axis=0)
nd.add(A, 1)
nd.add(1, A)
nd.add(A, a)
nd.add(a, A)
nd.add(a, 1, out=A); A
nd.add(A, 1, out=a); a.tolist()
nd.add.reduce(A)
nd.add.reduce(A, axis=1)
nd.add.accumulate(v)
nd.add.outer(v, w)
nd.add.outer(p, v)
nd.add.at(v, k, 1.0); v
nd.add.at(p, k, 1.0); p.tolist()
nd.add.reduceat(v, [0, 3])
nd.add.reduceat(p, k[:2])
nd.add.reduce(a, out=row); row
nd.sin(v)
nd.modf(v)
nd.matmul(A, S)
nd.matmul(a, S)
nd.concatenate([A, a])
nd.concatenate([a, A])
nd.stack([v, p])
nd.where(A > 0, A, 0)
nd.where(a > 0, A, 0)
nd.dot(A, S)
nd.einsum("ij,jk->ik", A, S)
nd.linalg.norm(A)
nd.linalg.inv(S)
nd.linalg.solve(S, row)
nd.fft.fft(v)
nd.mean(A, axis=1)
nd.cumsum(v)
nd.sort(v)
nd.argmax(A)
nd.clip(v, 0, 1)
nd.reshape(A, 6)
nd.transpose(A)
nd.broadcast_to(row, (2, 3))
nd.zeros_like(A)
nd.ones_like(F)
nd.full_like(A, 3)
nd.empty_like(A).shape
nd.copy(A)
nd.round(v)
nd.unique(k)
nd.diff(v)
nd.median(A)
nd.percentile(A, 50)
nd.isclose(v, w)
nd.allclose(v, v)
nd.array_equal(v, v)
nd.take(v, k)
nd.bincount(k)
nd.histogram(v, 3)
nd.searchsorted(row, v)
nd.pad(v, 1)
nd.roll(v, 1)
nd.tile(v, 2)
nd.repeat(v, 2)
nd.outer(v, w)
nd.tensordot(A, S, 1)
nd.shape(A)
nd.ndim(A)
nd.size(A)
nd.iscomplexobj(A)
nd.copyto(v, p); v
nd.copyto(p, v); p.tolist()
nd.put(v, [0], 9); v
nd.fill_diagonal(S, 0); S
nd.meshgrid(row, row)
nd.split(v, 2)
nd.vstack([v, p])
nd.nansum(odd[3:])
nd.apply_along_axis(nd.sum, 0, A)
nd.asarray(v).tolist()
nd.array(v).tolist()
nd.array([v, w]).tolist()
nd.float64(2) * A
nd.float64(2) + v.sum()
nd.float32(2) * f32
nd.int64(2) ** k
nd.float64(2) < v
a + A
A + a
a - A
a * A
a / A
a @ S
a == A
a < A
a ** A if False else 0
a += A; a.tolist()
a *= row; a.tolist()
a[0] = row; a.tolist()
a[a > 0] = 5; a.tolist()
a[M].tolist()
a[:, at].tolist()
p[k].tolist()
p[k] = w; p.tolist()
p[b].tolist()
a[k[1]].tolist()
p[k.max()]
[1, 2, 3] * row
[1, 2, 3] + row
(1, 2, 3) - row
1 - v
True + v
2j * v
nd.result_type(A, 1)
nd.save is None
nd.array_repr(v)
nd.array_str(v)
nd.array2string(v)
nd.linspace(row, row * 2, 3)
nd.arange(3, like=v)
nd.zeros(3, like=v)
nd.asarray([1, 2], like=v)
nd.array([1, 2], like=v)
nd.full(3, 2, like=v)
nd.eye(2, like=v)
nd.ones((2, 2), like=v)
"""
