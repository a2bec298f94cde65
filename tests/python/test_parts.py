"""Long programs are compiled in parts: with parts of a few statements, all is as before."""

from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.python import library_functions as g
from tests.python import loop_functions as f
from tests.python import recursive_functions as r
from tests.python.conftest import ended, same
from tilewise.backend.llvm.program import emit, outline

V = np.array([3.0, -1.0, 2.5, 9.0, -0.0, 7.5, 1.0])
ROWS: list[tuple[Any, ...]] = [
    (f.ranges, 9),
    (f.starts_as_int, V),
    (f.leaves_early, np.array([5, -2, 7])),
    (f.unbound, V[:2]),
    (f.overlapping, np.arange(6.0)),
    (f.reductions, np.arange(12.0).reshape(3, 4)),
    (f.complex_numbers, 9),
    (f.tuples, np.array([5, -2, 7])),
    (g.by_masks, V, 2),
    (r.merge_sorted, V),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].__name__)
def test_programs_in_small_parts(row, monkeypatch, tmp_path):
    monkeypatch.setattr(outline, "LONG", 1)
    frame_of = outline.frame_of

    def cut(p: Any) -> Any:  # one part with all that is in the body, or nearly all
        outline.PART = outline.size(p.body) - 1
        return frame_of(p)

    monkeypatch.setattr(outline, "PART", 1)
    monkeypatch.setattr(outline, "frame_of", cut)
    made: list[Any] = []
    emitted = emit.Emitter.run
    monkeypatch.setattr(emit.Emitter, "run", lambda self: made.append(emitted(self)) or made[-1])
    function, *given = row
    mine, theirs = [tuple(np.copy(v) if isinstance(v, np.ndarray) else v for v in given) for _ in range(2)]
    with tw.config(cache_dir=tmp_path, native=True):
        got = ended(tw.jit(function, strict=True), mine)
    assert same(got, ended(function, theirs)) and same(mine, theirs)
    if made:  # code of equal programs may be in memory
        assert any(".part" in name for fn in made for name in fn.helpers)


def filled_in_two_parts(a, b, c):
    for _ in range(2):
        for i in range(len(a)):
            for j in range(len(a)):
                a[i, j] = c[i, j] + 1.0
        for i in range(len(b)):
            for j in range(len(b)):
                b[i, j] = c[i, j] * 2.0


def test_loops_on_threads_have_names_of_their_own_in_each_part(monkeypatch, tmp_path):
    """Both parts count alike: their functions had one name, and the first loop ran the second."""
    monkeypatch.setattr(outline, "LONG", 1)
    monkeypatch.setattr(outline, "PART", 3)
    c = np.arange(16.0).reshape(4, 4)
    a, b = np.zeros((2, 4, 4))
    with tw.config(cache_dir=tmp_path, native=True):
        tw.jit(filled_in_two_parts, strict=True)(a, b, c)
    assert (a == c + 1.0).all()
    assert (b == c * 2.0).all()
