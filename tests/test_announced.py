"""What explain announces is what evaluating does: bytes that cross, equal or at most, and no more memory of a worker.

A collection of programs, each on lines and grids of workers with one and several blocks, with everything recorded and
with settings as they are.
"""

import numpy as np
import pytest

import tilewise as tw

RNG = np.random.default_rng(21)
X = RNG.normal(size=(103, 35))
Y = RNG.normal(size=(103, 7))
V = RNG.normal(size=211)
W = RNG.normal(size=35)
K = RNG.integers(0, 9, size=211)
KEYS = RNG.integers(0, 6, size=103)
S = RNG.normal(size=(24, 24))
SPD = S @ S.T + 24 * np.eye(24)
I = RNG.integers(0, 103, size=50)


# Linear algebra


def gradient(np, X, y, w):
    return X.T @ (1 / (1 + np.exp(-(X @ w))) - y)


def ridge(np, X, y):
    return np.linalg.solve(X.T @ X + np.eye(X.shape[1]), X.T @ y)


def least_squares_by_qr(np, X, y):
    q, r = np.linalg.qr(X)
    return np.linalg.solve(r, q.T @ y)


def cholesky(np, A):
    return np.linalg.cholesky(A)


def power_iteration(np, A):
    v = np.ones(A.shape[0])
    for _ in range(3):
        v = A @ v
        v = v / np.sqrt((v * v).sum())
    return v


def pca(np, X):
    Z = X - X.mean(0)
    return np.linalg.eigh(Z.T @ Z / len(X))[0]


def gram(np, X):
    return X @ X.T


def outer_sum(np, x, y):
    return (x[:, None] * y[None, :]).sum(1)


# Statistics


def standardise(np, X):
    return (X - X.mean(0)) / X.std(0)


def moments(np, x):
    d = x - x.mean()
    return (d**3).mean() / (d * d).mean() ** 1.5


def covariance(np, X):
    Z = X - X.mean(0)
    return Z.T @ Z / (len(X) - 1)


def softmax(np, X):
    e = np.exp(X - X.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def column_softmax(np, X):
    e = np.exp(X - X.max(0))
    return e / e.sum(0)


def extremes(np, X):
    return X.argmin(0), X.argmax(1), X.min(), X.max()


def median(np, x):
    return np.median(x)


def quantiles(np, x):
    s = np.sort(x)
    return s[[10, 50, 200]]


# Masks


def masked_mean(np, X):
    return X[X[:, 0] > 0.5].mean(0)


def masked_means(np, X, keys):
    return [X[keys == k].mean(0) for k in range(3)]


def masked_pair(np, x):
    m = x > 0
    return (x[m] * x[m] + 1).sum()


def masked_rows(np, X):
    Y = X * 2
    return Y[Y[:, 0] > 1.0] + 1


def masked_assignment(np, x):
    y = x * 1.5
    y[y > 1] = 1.0
    return y


def masked_write(np, x):
    y = x + 1
    m = y > 1
    y[m] = y[m] * 2
    return y


def chosen(np, X):
    return np.where(X > 0, X, X * 0.1).sum(0)


def how_many(np, x):
    y = x[x > 0.3]
    return y / len(y)


# Sorts


def sorted_vector(np, x):
    return np.sort(x * 2)


def ranked(np, x):
    return np.argsort(x, kind="stable")


def sorted_by_key(np, x, k):
    return x[np.argsort(k, kind="stable")]


def sorted_rows(np, X):
    return np.sort(X, axis=1)[:, -3:]


def sorted_columns(np, X):
    return np.sort(X, axis=0)


# Groups, joins and neighbours


def group_sums(np, x, k):
    return np.bincount(k, weights=x, minlength=9)


def group_counts(np, k):
    return np.bincount(k)


def group_rows(np, X, keys):
    out = np.zeros((6, X.shape[1]))
    np.add.at(out, keys, X)
    return out


def histogram(np, x):
    return np.histogram(x * 2, bins=7)[0]


def histogram_within(np, x):
    return np.histogram(x * 2, bins=7, range=(-3, 3))[0]


def uniques(np, k):
    return np.unique(k * 2)


def unique_numbers(np, k):
    return np.unique(k, return_inverse=True, return_counts=True)[2]


def members(np, x, k):
    return np.isin(np.round(x * 3), k) + 0.0


def by_two_keys(np, x, k):
    return np.lexsort((x, k))


def positions(np, x):
    return np.flatnonzero(x > 0.3) * 2


def nan_quantiles(np, x):
    return np.nanquantile(x, [0.1, 0.9])


def column_quantiles(np, x):
    return np.quantile(x, 0.3, axis=0, method="hazen")


def added_below(np, x, k):
    made = x * 1.0
    np.add.at(made[1:], (k[:50],), 1.0)
    return made


def written_below(np, x, k):
    made = x * 1.0
    made[1:][k[:50] * 3] = 2.0
    return made


def joined(np, x, k):
    table = np.arange(9.0) * 3
    return (x * table[k]).sum()


def neighbours(np, X):
    A, B = X[:60], X[60:]
    d = (A * A).sum(1)[:, None] - 2 * A @ B.T + (B * B).sum(1)
    return d.argmin(1), d.min(1)


def nearest_three(np, X):
    d = ((X[:20, None, :] - X[None, :, :]) ** 2).sum(2)
    return np.sort(d, axis=1)[:, :3]


def kmeans(np, X):
    C = X[:4]
    for _ in range(2):
        d = ((X[:, None, :] - C[None, :, :]) ** 2).sum(2)
        near = d.argmin(1)
        C = np.stack([(X * (near == k)[:, None]).sum(0) / np.maximum((near == k).sum(), 1) for k in range(4)])
    return C


# Stencils


def jacobi(np, X):
    A = X * 1
    for _ in range(3):
        B = A * 1
        B[1:-1, 1:-1] = 0.25 * (A[:-2, 1:-1] + A[2:, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:])
        A = B
    return A


def wave(np, x):
    u = x * 1
    for _ in range(4):
        u[1:-1] = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return u


def rolled(np, x):
    return x + np.roll(x, 1) + np.roll(x, -1)


def differences(np, x):
    return np.diff(x * x)


def moving_average(np, x):
    c = np.cumsum(x)
    return (c[5:] - c[:-5]) / 5


# Shapes


def reshaped(np, x):
    return x[:210].reshape(-1, 2).sum(1)


def flattened(np, X):
    return X.ravel() + 1


def transposed(np, X):
    return X.T + X.T.mean(0)


def turned(np, x):
    return x[::-1] + x


def tiled(np, x):
    return np.tile(x[:53] + 1, 4)


def tiled_grid(np, X):
    return np.tile(X[:5] * 2, (3, 2))


def repeated(np, x):
    return np.repeat(x * 2, 3)


def stacked(np, X, Y):
    return np.concatenate([X, Y], axis=1).mean(0)


def appended(np, x):
    return np.concatenate([x, x * 2, x[:10]])


def padded(np, x):
    return np.pad(x * 2, 3)


# Views and slices


def first_columns(np, X):
    return (X * 2)[:, :5]


def last_rows(np, X):
    return np.exp(X)[-10:].sum(1)


def every_third(np, x):
    return (x * x)[::3]


def one_row(np, X):
    return (X + 1)[7]


def view_and_base(np, X):
    Y = X * 2
    return Y[:, 3], Y


def diagonal(np, A):
    return np.diagonal(A * 2)


# Fancy indexing


def taken(np, X, i):
    return X[i] * 2


def picked(np, X):
    return X[np.arange(len(X)), X.argmax(1)]


def scattered(np, x, i):
    y = x * 1
    y[i] = 0.0
    return y


def gathered_twice(np, x, i):
    y = x * 2
    return y[i] + y[i + 1]


# Sums along


def cumulative(np, x):
    return np.cumsum(x) * 2


def cumulative_rows(np, X):
    return np.cumsum(X, axis=0)


def integral_image(np, X):
    return X.cumsum(0).cumsum(1)


def running_maximum(np, x):
    return np.maximum.accumulate(x)


# In place and in loops


def in_place(np, X):
    Y = X * 2
    Y[3] = 0
    Y[:, 2] += 1
    Y *= 0.5
    return Y


def descent(np, X, y):
    w = np.zeros(X.shape[1])
    for _ in range(3):
        w = w - 0.01 * (X.T @ (X @ w - y))
    return w


def conjugate_gradients(np, A):
    b = np.ones(A.shape[0])
    x = np.zeros(A.shape[0])
    r = b - A @ x
    p = r
    rr = (r * r).sum()
    for _ in range(3):
        Ap = A @ p
        a = rr / (p * Ap).sum()
        x = x + a * p
        r = r - a * Ap
        new = (r * r).sum()
        p = r + (new / rr) * p
        rr = new
    return x


def until_small(np, x):
    y = x * 1
    for _ in range(3):
        y = y * 0.5
        if float((y * y).sum()) < 1e-3:
            break
    return y + 1


PROGRAMS = {
    gradient: (X, Y[:, 0], W),
    ridge: (X, Y[:, 0]),
    least_squares_by_qr: (X, Y[:, 0]),
    cholesky: (SPD,),
    power_iteration: (SPD,),
    pca: (X,),
    gram: (X,),
    outer_sum: (V, W),
    standardise: (X,),
    moments: (V,),
    covariance: (X,),
    softmax: (X,),
    column_softmax: (X,),
    extremes: (X,),
    median: (V,),
    quantiles: (V,),
    masked_mean: (X,),
    masked_means: (X, KEYS),
    masked_pair: (V,),
    masked_rows: (X,),
    masked_assignment: (V,),
    masked_write: (V,),
    chosen: (X,),
    how_many: (V,),
    sorted_vector: (V,),
    ranked: (V,),
    sorted_by_key: (V, K),
    sorted_rows: (X,),
    sorted_columns: (X,),
    group_sums: (V, K),
    group_counts: (K,),
    group_rows: (X, KEYS),
    histogram: (V,),
    histogram_within: (V,),
    uniques: (K,),
    unique_numbers: (K,),
    members: (V, K),
    by_two_keys: (V, K),
    positions: (V,),
    nan_quantiles: (V,),
    column_quantiles: (X,),
    added_below: (X, K),
    written_below: (V, K),
    joined: (V, K),
    neighbours: (X,),
    nearest_three: (Y,),
    kmeans: (Y,),
    jacobi: (X,),
    wave: (V,),
    rolled: (V,),
    differences: (V,),
    moving_average: (V,),
    reshaped: (V,),
    flattened: (X,),
    transposed: (X,),
    turned: (V,),
    tiled: (V,),
    tiled_grid: (X,),
    repeated: (V,),
    stacked: (X, Y),
    appended: (V,),
    padded: (V,),
    first_columns: (X,),
    last_rows: (X,),
    every_third: (V,),
    one_row: (X,),
    view_and_base: (X,),
    diagonal: (SPD,),
    taken: (X, I),
    picked: (X,),
    scattered: (V, I),
    gathered_twice: (V, I),
    cumulative: (V,),
    cumulative_rows: (X,),
    integral_image: (X,),
    running_maximum: (V,),
    in_place: (X,),
    descent: (X, Y[:, 0]),
    conjugate_gradients: (SPD,),
    until_small: (V,),
}


MESHES = (2, 4, 7, (2, 2))
BLOCKS = (1, 3)
EAGER = {"recorded": {"eager_bytes": 0}, "default": {}}
SPREAD = {"here": False, "on workers": True}


def listed(result):
    return list(result) if isinstance(result, (list, tuple)) else [result]


def placed(arrays):
    return listed(tw.evaluate(*[x.relayout(0) for x in arrays]))


def announced_and_counted(program, args, mesh, blocks, settings, spread):
    """The plan of a program's results, and the profile of computing them; what comes out is NumPy's."""
    with tw.config(blocks=blocks, fallback="silent", **settings), tw.session(engine="virtual", mesh=mesh):
        given = [tw.asarray(x) for x in args]
        results = listed(program(tw, *(placed(given) if spread else given)))
        plan = tw.explain(*results)
        with tw.profile() as ran:
            found = listed(tw.compute(*results))
    for got, want in zip(found, listed(program(np, *args)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)
    return plan, ran


def check(program, mesh, blocks, settings, spread):
    plan, ran = announced_and_counted(program, PROGRAMS[program], mesh, blocks, settings, spread)
    exact = sum(e.bytes for e in plan.exchanges if not e.bound)
    if exact == plan.network_bytes:
        assert ran.network_bytes == plan.network_bytes
    else:
        assert exact <= ran.network_bytes <= plan.network_bytes
    assert ran.worker_peak_bytes <= plan.memory_bytes


ALL = [(m, b, e, s) for m in MESHES for b in BLOCKS for e in EAGER for s in SPREAD]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_announced_bytes_are_those_counted(program):
    """Each program in four of the thirty-two ways, others for others."""
    turn = list(PROGRAMS).index(program)
    for mesh, blocks, settings, spread in ALL[turn % 8 :: 8]:
        check(program, mesh, blocks, EAGER[settings], SPREAD[spread])


@pytest.mark.soak
@pytest.mark.parametrize("way", ALL, ids=str)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_announced_bytes_are_those_counted_in_every_way(program, way):
    mesh, blocks, settings, spread = way
    check(program, mesh, blocks, EAGER[settings], SPREAD[spread])


def test_lines_that_need_values_while_recording_are_named():
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=4):
        (v,) = placed([tw.asarray(V)])
        with tw.profile() as ran:
            counts = tw.histogram(v * 2, bins=7)[0]
            kept = v[v > 0.3]
            part = kept / len(kept)
        plan = tw.explain(counts, part)
        lines = {where.rsplit(":", 1)[1]: moved for where, moved in ran.needed.items()}
        assert len(lines) == 2 and sum(lines.values()) == ran.network_bytes > 0
        assert plan.moved_before == {(__file__, int(line)): moved for line, moved in lines.items()}
        (text,) = [line for line in str(plan).splitlines() if "have crossed already" in line]
        assert text.startswith(f"{ran.network_bytes:,} bytes") and all(f"test_announced.py:{n}" in text for n in lines)
        tw.compute(counts)
        assert not tw.explain(part * 2).moved_before


def test_a_view_is_computed_once_and_alone_where_nothing_else_has_its_base():
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=4):
        (x,) = placed([tw.asarray(X)])
        part = tw.exp(x)[:, 3]
        with tw.profile() as first:
            np.testing.assert_allclose(tw.compute(part), np.exp(X)[:, 3])
        assert first.worker_peak_bytes < 1.5 * X.nbytes / 4 + part.nbytes
        with tw.profile() as second:
            np.testing.assert_allclose(tw.compute(part + 1), np.exp(X)[:, 3] + 1)
        assert "exp" not in str(second)
        part[0] = 7  # the rest of the column is what it was
        np.testing.assert_allclose(tw.compute(part)[:2], [7, np.exp(X)[1, 3]])


def test_a_view_beside_its_base_is_in_the_same_plan():
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=4):
        (x,) = placed([tw.asarray(X)])
        base = tw.exp(x)
        part = base[:, 3]
        plan = tw.explain(part)
        with tw.profile() as ran:
            np.testing.assert_allclose(tw.compute(part), np.exp(X)[:, 3])
        assert ran.network_bytes == plan.network_bytes
        with tw.profile() as ran:
            tw.evaluate(base)
        assert not ran.kernels  # it is there
        part[:] = 0
        np.testing.assert_allclose(tw.compute(base)[:, 2:5:2], np.exp(X)[:, 2:5:2])
        assert not tw.compute(base)[:, 3].any()


SELECTIONS = {
    "half of the rows": lambda np, x, k: x[x[:, 0] > 0] * 2,
    "few rows": lambda np, x, k: x[x[:, 0] > 2] + 1,
    "rows of a key": lambda np, x, k: x[k == 2] * 3,
    "their largest": lambda np, x, k: x[k == 1].max(0),
    "their products": lambda np, x, k: x[k == 3].T @ x[k == 3],
    "sorted": lambda np, x, k: np.sort(x[:, 0][k == 3]),
    "elements": lambda np, x, k: x[x > 1].mean() + x[k == 1].std(0),
    "two masks": lambda np, x, k: x[k == 3][:50].sum() + x[k == 4] * 2,
}


@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("mesh", MESHES, ids=str)
def test_bounds_hold_where_masks_lie_on_workers(mesh, blocks):
    """What a mask keeps is not known then; what it kept the last time, at this very line, was something else."""
    x, k = RNG.normal(size=(5000, 6)), RNG.integers(0, 5, 5000)
    with tw.config(blocks=blocks), tw.session(engine="virtual", mesh=mesh):
        given = placed([tw.asarray(x), tw.asarray(k)])
        for program in [*SELECTIONS.values(), *reversed(SELECTIONS.values())]:
            made = program(tw, *given)
            plan = tw.explain(made)
            with tw.profile() as ran:
                found = tw.compute(made)
            np.testing.assert_allclose(found, program(np, x, k))
            exact = sum(e.bytes for e in plan.exchanges if not e.bound)
            assert exact <= ran.network_bytes <= plan.network_bytes
            assert ran.worker_peak_bytes <= plan.memory_bytes
            if plan.guessed:
                assert plan.expected_bytes <= plan.network_bytes and "at most" in str(plan)


VIEWS = {
    "a row": lambda x: x[7],
    "a column": lambda x: x[:, 2],
    "every second": lambda x: x[::2],
    "flipped": lambda x: x[::-1],
    "raveled": lambda x: x.ravel(),
    "all but one": lambda x: x[1:],
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_of_what_workers_hold(name: str) -> None:
    """Its base is there already: nothing is announced for it."""
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=4):
        x = tw.evaluate(tw.array(np.ones((400, 6))).relayout(0))
        y = VIEWS[name](x)
        announced = tw.explain(y).network_bytes
        with tw.profile() as ran:
            y.compute()
    assert announced == ran.network_bytes <= 3 * 400 * 6 * 8


@pytest.mark.parametrize("rows", [100, 9_000], ids=["small", "large"])
@pytest.mark.parametrize("name", VIEWS)
def test_a_base_of_views(name: str, rows: int) -> None:
    """Whatever copies a view has left on the workers, what is announced for the base is what comes."""
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=4):
        x = tw.evaluate(tw.array(np.ones((rows, 6))).relayout(0))
        VIEWS[name](x).compute()
        announced = tw.explain(x).network_bytes
        with tw.profile() as ran:
            x.compute()
    assert announced == ran.network_bytes


@pytest.mark.parametrize("ask", [tw.evaluate, tw.compute, np.asarray, str, lambda x: x.compute(), lambda x: x.tolist()])
def test_a_part_of_what_nobody_else_has_moves_alone(ask):
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=3):
        part = (tw.asarray(np.arange(303.0 * 37).reshape(303, 37)) * 2)[-1]
        announced = tw.explain(part).network_bytes
        with tw.profile() as ran:
            ask(part)
    assert ran.network_bytes == announced < 1000
