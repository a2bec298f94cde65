"""Blocks that take turns, and steps that write into memory: nobody reads what was overwritten."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.fuzz.settings import in_turns
from tilewise.layout import Mesh

ND = np.ndarray[Any, Any]
rng = np.random.default_rng(5)


@pytest.fixture(autouse=True)
def everything_recorded(same_settings_after_each_test: None) -> None:
    tw.config(eager_bytes=0, fallback="silent", native=False)


def numbers(*shape: int) -> ND:
    return rng.integers(0, 5, shape).astype(float)


def opened(folder: Path, *arrays: ND) -> list[Any]:
    """Arrays in files."""
    for k, a in enumerate(arrays):
        np.save(folder / f"{k}.npy", a)
    return [tw.open(str(folder / f"{k}.npy")) for k in range(len(arrays))]


def put_and_double(np: Any, x: Any, w: Any) -> Any:
    """Blocks add up a product of x, whose rows were written before, and which is overwritten as a whole after."""
    x[[0, -1]] += 1
    product = w @ x
    x[:, ...] = x * 2
    return product, x


def shown_and_doubled(np: Any, x: Any, w: Any) -> Any:
    """The same of a view."""
    x[[0, -1]] += 1
    product = w.T[:3] @ x[:2]
    x[:, ...] = x * 2
    return product, x


@pytest.mark.parametrize("program", [put_and_double, shown_and_doubled])
@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("spills", [True, False])
@pytest.mark.parametrize("blocks", [2, 3, 8])
def test_what_blocks_read_is_not_what_steps_before_them_wrote(
    program: Any, workers: int, spills: bool, blocks: int
) -> None:
    x, w = np.arange(3.0)[:, None] + 1, np.arange(6.0).reshape(2, 3)
    with in_turns(Mesh(blocks), spills, workers):
        got = tw.compute(*program(tw, tw.array(x), tw.array(w)))
    for a, b in zip(got, program(np, x.copy(), w.copy()), strict=True):
        assert a.tolist() == b.tolist()


@pytest.mark.parametrize("memory", [40_000, 100_000, 200_000])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_value_that_a_later_loop_reads_is_not_overwritten_in_its_own(
    memory: int, workers: int, tmp_path: Path
) -> None:
    def program(np: Any, c: Any, u: Any, d: Any, v: Any) -> Any:
        made = c.astype("f4")
        u = u - u.sum(0)
        product = (u - u.max(0)) @ made
        made[:, ...] = np.cumsum(d * v, axis=1)
        return product, made

    n, m, k = 240, 6, 480
    given = numbers(n, m), numbers(k, n).astype("f4"), numbers(n, m).astype("f4"), numbers(n, m).astype("f4")
    on = {"engine": "virtual", "workers": workers} if workers > 1 else {}
    with tw.session(memory=memory, **on):
        files = opened(tmp_path, *given[:3])
        got = tw.compute(*program(tw, *files, tw.array(given[3])))
    for a, b in zip(got, program(np, *(x.copy() for x in given)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def rows_after_sorting(np: Any, a: Any, b: Any) -> Any:
    b = np.sort(b, axis=1)
    product = a @ b
    b[1:] = b[1:] + 1
    return product, (a + 1) @ b


def columns_after_sorting(np: Any, a: Any, b: Any) -> Any:
    a = np.sort(a, axis=0)
    product = a @ b
    a[:, 3:] = a[:, 3:] * 2
    return product, a @ b, a


@pytest.mark.parametrize("program", [rows_after_sorting, columns_after_sorting])
@pytest.mark.parametrize("mesh", [Mesh(4, 1, 2), Mesh(9, 1, 3), Mesh(16, 1, 4)], ids=str)
def test_what_blocks_have_in_common_is_overwritten_by_none(program: Any, mesh: Mesh, tmp_path: Path) -> None:
    given = numbers(24, 24), numbers(24, 24)
    with in_turns(mesh, True):
        got = tw.compute(*program(tw, *opened(tmp_path, *given)))
    for a, b in zip(got, program(np, *(x.copy() for x in given)), strict=True):
        assert a.tolist() == b.tolist()


@pytest.mark.parametrize("memory", [1300, 2600])
def test_sums_along_both_directions_of_a_grid(memory: int, tmp_path: Path) -> None:
    x = numbers(48, 48)
    with tw.session(memory=memory) as session:
        (a,) = opened(tmp_path, x)
        down, across = a.sum(0), a.sum(1)
        tw.evaluate(down, across)
        assert np.asarray(down).tolist() == x.sum(0).tolist()
        assert np.asarray(across).tolist() == x.sum(1).tolist()
        assert session.disk.spilled_bytes == session.disk.predicted_spilled_bytes


@pytest.mark.parametrize("memory", [150_000, 400_000])
def test_a_view_of_what_blocks_add_up_is_added_up_by_itself(memory: int, tmp_path: Path) -> None:
    """Contributions that are large are added in the memory of the first, which a view of it must not show."""

    def program(np: Any, c: Any, a: Any) -> Any:
        c[[0, -1]] += 1
        c[0] = ((c.T @ (a * 2 % 11)) % 5)[2]
        return c

    given = numbers(96, 96), numbers(96, 96)
    with tw.session(memory=memory):
        got = program(tw, *opened(tmp_path, *given)).compute()
    assert got.tolist() == program(np, given[0].copy(), given[1]).tolist()


LINES = {  # by the number of its layouts: the size of arrays, blocks, lines in which a step goes wrong
    4314: (2, Mesh(4, 1, 2), """
        b[:, ...] = a[0] + a; d = b[0] + a; b[1:] = ((a.T @ a) % 5)[1:]; a[[0, -1]] += 1; e = np.cumsum(c, axis=1) % 13
        b[[0, -1]] += 1; e[e > 3] = 1; e[:, 0] = ((a.T @ e) % 5)[0]; a -= (e * 3 % 11)"""),
    10720: (3, Mesh(3), """
        a *= (c.sum() % 5 + a); a[[0, -1]] += 1; a[:, ...] = c[::-1] - c; b[1] = ((b - c.max(1)) % 6)[2]
        c[[0, -1]] += 1; a[:, 2] = (c.T + 1)[1]; c[:, ...] = np.where(b > b, b, 1); d = b[::-1]"""),
    11244: (3, Mesh(4, 1, 2), """
        c[2:] = np.sort(b, axis=1)[2:]; b[0] = ((b.T @ a) % 5)[1]; a[:, 2] = (np.cumsum(a, axis=1) % 13)[0]
        a[2] = (np.cumsum(c, axis=1) % 13)[1]; d = a[::-1] - b; e = c.T"""),
}  # fmt: skip


@pytest.mark.parametrize("number", LINES)
def test_random_layouts(number: int) -> None:
    """Parts of parts of values, views that are kept of what is written to, collectives beside sums along columns."""
    size, mesh, lines = LINES[number]
    code = "; ".join(line.strip() for line in lines.strip().split("\n"))
    given = np.random.default_rng(size).integers(0, 9, (3, size, size)).astype(float)

    def run(xp: Any) -> dict[str, Any]:
        names: dict[str, Any] = {"np": xp} | {name: xp.array(x) for name, x in zip("abc", given, strict=True)}
        exec(code, names)
        return {name: names[name] for name in "abcde" if name in names}

    with in_turns(mesh, number != 10720), tw.testing.random_layouts(number):
        got = run(tw)
        found = dict(zip(got, tw.compute(*got.values()), strict=True))
    for name, want in run(np).items():
        assert found[name].tolist() == want.tolist(), name


def test_constants_of_blocks_share_no_tiles_with_those_of_all() -> None:
    """A pass over columns of a grid is one of blocks: also where blocks of one row have the same."""
    ones, row = np.ones((5, 3)), np.arange(3)
    for seed in range(40):
        with in_turns(Mesh(4, 1, 2), True), tw.testing.random_layouts(seed):
            ours, its = tw.ones((5, 3)), tw.arange(3)
            got = tw.compute(ours.sum(0, initial=2) + its, (ours + its).sum(1))
        assert [x.tolist() for x in got] == [(ones.sum(0, initial=2) + row).tolist(), (ones + row).sum(1).tolist()]
