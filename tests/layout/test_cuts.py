"""Cuts and how views inherit them, each as a property against NumPy."""

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tilewise.layout import concat_cuts, even_cuts, local_slice, merge_cuts, slice_cuts, split_cuts

LENGTHS = st.integers(0, 30)


@st.composite
def cuts_of(draw: st.DrawFn, length: int | None = None) -> tuple[int, ...]:
    n = draw(LENGTHS) if length is None else length
    inner = draw(st.lists(st.integers(0, n), max_size=8))
    return (0, *sorted(inner), n)


@st.composite
def slices(draw: st.DrawFn) -> tuple[tuple[int, ...], int, int, int]:
    """(cuts, start, step, length): any slice with a positive step, as NumPy resolves it."""
    cuts = draw(cuts_of())
    resolved = range(cuts[-1])[draw(st.slices(cuts[-1]))]
    if resolved.step < 0:
        resolved = resolved[::-1]
    return cuts, resolved.start if resolved else 0, resolved.step, len(resolved)


@given(LENGTHS, st.integers(1, 12))
def test_even_cuts_are_those_of_array_split(length: int, blocks: int) -> None:
    cuts = even_cuts(length, blocks)
    parts = np.array_split(np.arange(length), blocks)
    assert [part.tolist() for part in parts] == [list(range(a, b)) for a, b in pairwise(cuts)]


@given(slices())
def test_a_slice_stays_with_the_blocks_of_its_base(case: tuple[tuple[int, ...], int, int, int]) -> None:
    cuts, start, step, length = case
    x = np.arange(cuts[-1])
    view = x[start::step][:length]
    inherited = slice_cuts(cuts, start, step, length)
    assert len(inherited) == len(cuts) and inherited[0] == 0 and inherited[-1] == length
    for j in range(len(cuts) - 1):
        mine = view[inherited[j] : inherited[j + 1]]
        block = x[cuts[j] : cuts[j + 1]]
        assert mine.tolist() == [e for e in view.tolist() if cuts[j] <= e < cuts[j + 1]]
        first, local_step, count = local_slice(cuts, j, start, step, length)
        assert first >= 0 and count == len(mine)
        assert block[first::local_step][:count].tolist() == mine.tolist()


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.data())
def test_operands_of_a_concatenation_are_cut_where_the_result_is(lengths: list[int], data: st.DataObject) -> None:
    cuts = data.draw(cuts_of(sum(lengths)))
    x = np.arange(sum(lengths))
    operands = np.split(x, np.cumsum(lengths)[:-1])
    parts = concat_cuts(cuts, tuple(lengths))
    assert len(parts) == len(lengths)
    for j in range(len(cuts) - 1):
        mine = [operand[c[j] : c[j + 1]] for operand, c in zip(operands, parts, strict=True)]
        assert np.concatenate(mine).tolist() == x[cuts[j] : cuts[j + 1]].tolist()
    for operand, c in zip(operands, parts, strict=True):
        assert c[0] == 0 and c[-1] == len(operand)


@given(cuts_of(), st.integers(0, 5))
def test_merging_axes_scales_the_cuts(cuts: tuple[int, ...], inner: int) -> None:
    x = np.arange(cuts[-1] * inner).reshape(cuts[-1], inner)
    merged = merge_cuts(cuts, inner)
    for j in range(len(cuts) - 1):
        assert x.reshape(-1)[merged[j] : merged[j + 1]].tolist() == x[cuts[j] : cuts[j + 1]].reshape(-1).tolist()


@given(st.integers(0, 8), st.integers(1, 5), st.data())
def test_splitting_an_axis_keeps_whole_rows_or_refuses(outer: int, inner: int, data: st.DataObject) -> None:
    x = np.arange(outer * inner)
    rows = x.reshape(outer, inner)
    cuts = data.draw(st.one_of(cuts_of(outer * inner), cuts_of(outer).map(lambda c: merge_cuts(c, inner))))
    split = split_cuts(cuts, inner)
    if split is None:
        assert any(c % inner for c in cuts)
        return
    assert merge_cuts(split, inner) == cuts
    for j in range(len(cuts) - 1):
        assert rows[split[j] : split[j + 1]].reshape(-1).tolist() == x[cuts[j] : cuts[j + 1]].tolist()


def test_an_empty_inner_axis_says_nothing_about_the_outer() -> None:
    assert split_cuts((0, 0, 0), 0) is None
