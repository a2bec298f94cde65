"""Tilewise: NumPy on all the hardware you have.

>>> import tilewise as np
>>> x = np.linspace(0.0, 1.0, 5)
>>> (x * x).sum()
Array(1.875)
"""

from __future__ import annotations

from tilewise import testing
from tilewise.api.namespace import fill_namespace
from tilewise.api.tools import compute, evaluate, explain, profile, session
from tilewise.array.handle import Array
from tilewise.config import config
from tilewise.errors import FallbackError, FallbackWarning, LayoutError, PerformanceWarning, TilewiseError

__version__ = "0.1.0"
__array_api_version__ = "2025.12"

ndarray = Array

fill_namespace(globals())
del fill_namespace
