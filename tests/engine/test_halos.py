"""Windows of what other passes make, in tiles: the same bits as pass by pass, whatever the tile and the threads."""

import numpy as np
import pytest

import tilewise as tw
from tilewise.array.program import program_of
from tilewise.backend.llvm.tiles.recompute import formed
from tilewise.stage.steps import Pass, Tiled, View, passes

pytestmark = pytest.mark.usefixtures("no_plans")


def blur(np, x):
    h, w = x.shape
    rows = x[: h - 2] + 2 * x[1 : h - 1] + x[2:]
    return rows[:, : w - 2] + 2 * rows[:, 1 : w - 1] + rows[:, 2:]


def box(a):
    rows = a[:-2] + a[1:-1] + a[2:]
    return rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]


def harris(np, x):
    dx, dy = x[1:-1, 2:] - x[1:-1, :-2], x[2:, 1:-1] - x[:-2, 1:-1]
    a, b, c = box(dx * dx), box(dy * dy), box(dx * dy)
    return a * b - c * c


def thrice(np, x):
    a = x * 2
    b = a[1:] - a[:-1]
    c = b[2:] * 3 + b[:-2]
    return c[1:] + c[:-1]


def on_the_way(np, x):
    a = x * 2
    b = a[1:] - a[:-1]
    return a, b[3:] + b[:-3], b


def turned(np, x):
    a = np.maximum(x[:-1], x[1:]).T
    return np.maximum(a[:-1], a[1:]).T


def halves(np, x):
    a = x * 2
    return a[: len(x) // 2] + a[len(x) - len(x) // 2 :]


def backwards(np, x):
    a = x * 2
    return a[::-1] + a, a[::2] * 3


def gradients(np, x):
    dx, dy = x[:, 2:] - x[:, :-2], x[2:] - x[:-2]
    return dx[1:-1] * dx[1:-1] + dy[:, 1:-1] * dy[:, 1:-1]


def summed(np, x):
    a = x * 2
    b = a[1:] - a[:-1]
    return b.sum(0), (b * b).sum(), b[1:] + b[:-1]


def one_maker(np, x):
    a = (x[1:, 1:] - x[:-1, :-1]) * 0.5
    b, c = a * a, a * 3
    d, e = b[:-2] + b[1:-1] + b[2:], c[:-2] + c[1:-1] + c[2:]
    return d[:, :-1] * e[:, 1:] + d[:, 1:] - e[:, :-1]


def costly(np, x):
    a = np.exp(-x) + np.sin(x)
    return a[:, :-2] + a[:, 1:-1] + a[:, 2:]


def shifted_outputs(np, x):
    a = x * 2
    return a[2:] + 1, a[:-2] * a[2:], a[4:] - a[:-4]


PROGRAMS = [blur, harris, thrice, on_the_way, turned, halves, backwards, gradients, summed, shifted_outputs, one_maker]
SHAPES = [(40, 31), (7, 9), (5, 5), (300, 6), (6, 300), (65, 64)]


def run(program, x):
    made = program(tw, tw.asarray(x))
    return tw.compute(*made) if isinstance(made, tuple) and len(made) > 1 else (all_of(made)[0].compute(),)


def all_of(found):
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "c16", "u1"])
def test_every_tile_gives_numpys_values(program, dtype, some):
    rng = np.random.default_rng(1)
    for shape in SHAPES:
        for order in some("CF"):
            x = np.asarray(rng.integers(0, 9, size=shape).astype(dtype), order=order)
            want = all_of(program(np, x))
            for tile in (1, 2, 7, 64, None) if dtype == "f8" else (2, None):  # how rows are shared is the same for all
                with tw.config(eager_bytes=0, tile=tile):
                    found = run(program, x)
                for a, b in zip(want, found, strict=True):
                    assert a.dtype == b.dtype and a.shape == b.shape
                    np.testing.assert_array_equal(b, a, err_msg=f"{shape} {order} tile {tile}")


@pytest.mark.parametrize("program", [p for p in PROGRAMS if p is not summed])  # sums over tiles hang on their length
def test_tiles_and_threads_change_no_bit(program):
    x = np.random.default_rng(2).normal(size=(700, 331))
    with tw.config(eager_bytes=0, fusion=False):
        want = run(program, x)
    for threads in (1, 2, 5):
        for tile in (None, 3, 50):
            with tw.config(eager_bytes=0, threads=threads, tile=tile):
                for a, b in zip(want, run(program, x), strict=True):
                    assert a.tobytes() == b.tobytes()


def steps(program, x):
    with tw.config(eager_bytes=0):
        made = program(tw, tw.asarray(x))
        plan, *_ = program_of(list(all_of(made))).plan(None)
    return [s for s in plan.steps if not isinstance(s, View)]


@pytest.mark.parametrize(
    ("program", "kernels"), [(blur, 2), (harris, 6), (thrice, 4), (on_the_way, 3), (turned, 2), (gradients, 3)]
)
def test_chains_of_windows_share_tiles(program, kernels):
    (step,) = steps(program, np.ones((900, 800)))
    assert isinstance(step, Tiled) and len(passes(step)) == kernels


@pytest.mark.parametrize(("program", "kernels"), [(blur, 2), (costly, 2), (harris, 6), (one_maker, 2), (thrice, 3)])
def test_light_passes_are_computed_again_where_they_are_read(program, kernels):
    x = np.ones((900, 800))
    with tw.config(eager_bytes=0):
        plan, nodes, *_ = program_of(list(all_of(program(tw, tw.asarray(x))))).plan(None)
    (step,) = [s for s in plan.steps if isinstance(s, Tiled)]
    form = formed(step, nodes)
    assert len(passes(form.group)) == kernels and len(form.nodes) == len(nodes) + len(form.shown)


def test_steps_and_distant_windows_do_not():
    assert len(steps(halves, np.ones(90_000))) == 2
    assert all(isinstance(s, Pass) for s in steps(halves, np.ones(90_000)))
    assert all(isinstance(s, Pass) for s in steps(backwards, np.ones(90_000)))
    (step,) = steps(halves, np.ones((900, 800)))  # tiles of columns have all rows
    assert isinstance(step, Tiled)


class Chain:
    """A random program of shifted reads, the same for NumPy and for us."""

    def __init__(self, seed):
        self.seed = seed

    def shape(self):
        rng = np.random.default_rng(self.seed)
        ndim = int(rng.integers(1, 4))
        return tuple(int(n) for n in rng.integers(8, (400, 60, 24)[ndim - 1], size=ndim))

    def __call__(self, np_, x):
        rng = np.random.default_rng(self.seed + 1)
        values = [x]
        for _ in range(int(rng.integers(2, 7))):
            parts = [values[int(rng.integers(max(0, len(values) - 3), len(values)))] for _ in range(rng.integers(1, 4))]
            room = [min(p.shape[d] for p in parts) - 4 for d in range(x.ndim)]
            if min(room) < 1:
                break
            total = None
            for p in parts * int(rng.integers(1, 3)):
                starts = [
                    int(rng.integers(0, p.shape[d] - room[d] + 1)) if rng.random() < 0.8 else 0 for d in range(x.ndim)
                ]
                seen = p[tuple(slice(s, s + r) for s, r in zip(starts, room, strict=True))]
                total = seen * 3 if total is None else np_.maximum(total, seen) if rng.random() < 0.3 else total - seen
            values.append(total)
        some = [v for v in values[1:-1] if rng.random() < 0.3]
        return (*some, values[-1] + 0)


@pytest.mark.parametrize("seed", range(60))
def test_random_chains(seed):
    program = Chain(seed)
    dtype = ("f8", "f4", "i8", "u1")[seed % 4]
    x = np.random.default_rng(seed).integers(0, 100, size=program.shape()).astype(dtype)
    if seed % 3 == 0:
        x = np.asfortranarray(x)
    want = program(np, x)
    for tile, threads in [(1, 1), (3, 2), (7, 5), (16, 2), (64, 1), (None, 2)]:
        with tw.config(eager_bytes=0, tile=tile, threads=threads, flush=False):
            found = run(program, x)
        for a, b in zip(want, found, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(b, a, err_msg=f"tile {tile}, threads {threads}")
