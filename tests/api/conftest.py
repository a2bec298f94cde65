"""What tests of user functions share."""

from __future__ import annotations

from typing import Any

import pytest

import tilewise as tw

MODES = {"default": {"eager_bytes": 1 << 21}, "recorded": {"eager_bytes": 0}, "numpy": {"engine": "numpy"}}


@pytest.fixture(params=MODES)
def mode(request: Any) -> Any:
    """All at once where it is small, all recorded, or by NumPy."""
    with tw.config(fallback="silent", **MODES[request.param]):
        yield request.param
