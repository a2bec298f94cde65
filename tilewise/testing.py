"""Switches for honesty. In: a block of code. Out: the same code, run with other layouts, or compared node by node."""

from __future__ import annotations

import functools
import importlib
from typing import Any

from tilewise.array.record import unwrap
from tilewise.config import config

BY_TYPE = ("assert_equal", "assert_almost_equal", "assert_approx_equal")  # NumPy's ask for ndarrays


def __getattr__(name: str) -> Any:
    """`np.testing.assert_allclose` and the like are NumPy's."""
    found = getattr(importlib.import_module("numpy.testing"), name)
    return _unwrapping(found) if name in BY_TYPE else found


def _unwrapping(check: Any) -> Any:
    @functools.wraps(check)
    def checked(*args: Any, **kwargs: Any) -> Any:
        return check(*map(unwrap, args), **{name: unwrap(value) for name, value in kwargs.items()})

    return checked


def random_layouts(seed: int) -> Any:
    """Force arbitrary valid layouts on whatever is evaluated inside: no choice may change a result.

    >>> import tilewise as tw
    >>> with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=3), tw.testing.random_layouts(7):
    ...     x = tw.arange(12.0).reshape(3, 4)
    ...     print((x + x.T.sum(axis=0)[:, None]).sum())
    330.0
    """
    return config(layout_seed=seed)


def compare() -> Any:
    """Run what is evaluated inside node by node beside NumPy, and name the first node that differs.

    >>> import tilewise as tw
    >>> with tw.config(eager_bytes=0), tw.testing.compare():
    ...     print((tw.arange(4) * 3).sum())
    18
    """
    return config(compare=True)
