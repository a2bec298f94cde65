"""Numba's `prange`, or `range` where Numba is absent or must not be loaded (`LOOPS_WITHOUT_NUMBA=1`)."""

from __future__ import annotations

import contextlib
import importlib
import os
from typing import Any

WITHOUT = "LOOPS_WITHOUT_NUMBA"

prange: Any = range
if not os.environ.get(WITHOUT):
    with contextlib.suppress(ImportError):
        prange = importlib.import_module("numba").prange
