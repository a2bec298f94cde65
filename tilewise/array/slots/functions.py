"""Functions of ndarrays as machine code. In: names. Out: functions, once takeover.py has put them here.

Each takes an ndarray and gives a new one, with NumPy's bits; or NotImplemented, where NumPy must do it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FUNCTIONS: dict[str, Callable[[Any], Any]] = {}
