"""Results that share memory with their argument share it as NumPy's do: writes to one are seen in the other, or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest

import tilewise

ROWS = (Path(__file__).parent / "rows/aliases.txt").read_text().splitlines()


def outcome(np: Any, call: str) -> list[Any]:
    """What a call gives, what a write to that does to the argument, and a write to the argument to the result."""
    x = np.asarray(numpy.arange(12.0).reshape(3, 4)) + 0
    y = eval(call, {"np": np, "x": x})
    found: list[Any] = [y.shape, y.dtype]
    try:
        y[...] = 99
    except (TypeError, ValueError) as error:
        found.append(type(error))
    found.append(numpy.asarray(x).tolist())
    x[...] = 5
    return [*found, numpy.asarray(y).tolist()]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("eager_bytes", [0, 1 << 20])
@pytest.mark.parametrize("call", ROWS)
def test_writes_are_seen_where_numpy_shows_them(call: str, eager_bytes: int) -> None:
    with tilewise.config(eager_bytes=eager_bytes, fallback="silent"):
        assert outcome(tilewise, call) == outcome(numpy, call)
