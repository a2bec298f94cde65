"""Parts of lists are new lists with Python's bounds; tuples are unpacked in calls."""

import numpy as np
import pytest

from tests.python import part_functions as f

A = np.arange(5.0)
ENDS = (None, 0, 2, -2, 9, -9)
ROWS = [
    *[(f.parts, A, a, b, c) for a in ENDS for b in ENDS[::2] for c in (None, 1, -1, 2, -3)],
    (f.parts, A, 1, 3, 0),
    (f.parts, A[:0], 1, None, -1),
    (f.parts, A, np.int8(1), np.int64(-1), np.uint8(2)),
    (f.backwards, np.array([-1, 0, 1, 1, 3]), 4),
    *[(g, a) for g in (f.a_copy_stays, f.of_tuples) for a in (A, A.astype("i4"), A[:1])],
    *[(f.over_all, x) for x in (A.reshape(5, 1), A.reshape(1, 5).T, np.zeros((0, 3)))],
    *[(f.unpacked, A, t) for t in ((1, 2), (1.5, np.float32(2)))],
]


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r[0].__name__)
def test_functions(agree, row):
    agree(*row)
