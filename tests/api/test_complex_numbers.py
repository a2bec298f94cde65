"""Complex numbers with NaN: NumPy orders its numbers by their real parts, its arrays not at all."""

from __future__ import annotations

import itertools
import operator

import numpy as np
import pytest

import tilewise as tw

PARTS = [complex(a, b) for a in (1.0, np.inf, np.nan) for b in (0.0, np.nan, np.inf)]


@pytest.mark.parametrize("eager_bytes", [0, 1 << 21])
@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_numbers_are_ordered_as_numpys_numbers_and_arrays_as_its_arrays(name: str, eager_bytes: int) -> None:
    op = getattr(operator, name)
    with np.errstate(all="ignore"), tw.config(eager_bytes=eager_bytes):
        for p, q in itertools.product(PARTS, PARTS):
            a, b = np.array([p]), np.array([q])
            number, other = tw.asarray(a).sum(), tw.asarray(b).sum()
            assert bool(op(number, other)) == bool(op(a.sum(), b.sum())), (p, q)
            assert bool(op(number, q)) == bool(op(a.sum(), q)), (p, q)
            assert bool(op(q, number)) == bool(op(q, a.sum())), (p, q)
            assert np.asarray(op(tw.asarray(a) * 1, other)).tolist() == op(a * 1, b.sum()).tolist(), (p, q)
