"""Tilewise: NumPy on all the hardware you have.

>>> import tilewise as np
>>> x = np.linspace(0.0, 1.0, 5)
>>> (x * x).sum()
np.float64(1.875)

Every name of NumPy is here and does what it does there, on Arrays that are computed when they are needed. Beyond NumPy:

- `compute`, `evaluate`: results now; `explain`: the plan and its cost before anything runs; `profile`: what ran.
- `open`, `save`, `x.store`, `from_zarr` and its like: arrays in files; `checkpoint`, `resumable`: go on after a crash.
- `session`: workers, on this machine or many; `config`: settings, for a block or for good; `calibrate`.
- `jit`, `vectorize`, `map_tiles`, `fold`, `reduce`, `scan`, `filter`, `join_update`, `allpairs`, `outer_map`: your own
  functions; `parallel`, `parfor`: loops whose iterations run side by side.
- `Array` (also `ndarray`): what all of them give, with NumPy's methods, and `compute`, `layout`, `relayout`, `store`.
- `testing`: other layouts, and comparisons with NumPy, for tests; `special`: SciPy's special functions.
- `TilewiseError` and its kinds, `FallbackWarning`, `PerformanceWarning`: what may go wrong, and what is slow.

`help(np.config)` and the like say more about each; `help(np.sum)` is NumPy's own documentation.
"""

# ruff: noqa: E402
from __future__ import annotations

from tilewise.quick_import import Quickly

_quickly = Quickly()  # until the end of this file

from typing import TYPE_CHECKING, Any

from tilewise import testing
from tilewise.api.namespace import fill_namespace
from tilewise.api.tools import compute, evaluate, session
from tilewise.array.handle import Array
from tilewise.array.slots.takeover import start_counting as _start_counting
from tilewise.config import config
from tilewise.errors import (
    FallbackError,
    FallbackWarning,
    FunctionError,
    LayoutError,
    MemoryBudgetError,
    ParforError,
    PerformanceWarning,
    SourceChangedError,
    StoreError,
    TilewiseError,
)

if TYPE_CHECKING:
    from tilewise.api.calibrate import calibrate
    from tilewise.api.explaining import explain, profile
    from tilewise.api.functions.elements import filter, fold, outer_map, scan
    from tilewise.api.functions.jit import jit
    from tilewise.api.functions.pairs import allpairs
    from tilewise.api.functions.reducing import reduce
    from tilewise.api.functions.tiles import join_update, map_tiles
    from tilewise.parfor.loop import parfor
    from tilewise.parfor.parallel import parallel

    # NumPy's names are added below, where a type checker cannot see them.
    def __getattr__(name: str) -> Any: ...


__version__ = "0.1.0.dev0"
__array_api_version__ = "2025.12"

ndarray = Array

__all__ = [
    "Array",
    "FallbackError",
    "FallbackWarning",
    "FunctionError",
    "LayoutError",
    "MemoryBudgetError",
    "ParforError",
    "PerformanceWarning",
    "SourceChangedError",
    "StoreError",
    "TilewiseError",
    "allpairs",
    "calibrate",
    "compute",
    "config",
    "evaluate",
    "explain",
    "filter",
    "fold",
    "jit",
    "join_update",
    "map_tiles",
    "ndarray",
    "outer_map",
    "parallel",
    "parfor",
    "profile",
    "reduce",
    "scan",
    "session",
    "testing",
]

_LATER = dict.fromkeys(("explain", "profile"), "tilewise.api.explaining")
_LATER |= dict.fromkeys(("filter", "fold", "outer_map", "scan"), "tilewise.api.functions.elements")
_LATER |= dict.fromkeys(("join_update", "map_tiles"), "tilewise.api.functions.tiles")
_LATER |= {"allpairs": "tilewise.api.functions.pairs", "reduce": "tilewise.api.functions.reducing"}
_LATER |= {name: f"tilewise.api.functions.{name}" for name in ("jit", "vectorize")}
_LATER |= dict.fromkeys(
    "open from_npy from_npz from_raw from_zarr from_hdf5 from_parquet from_arrow from_csv from_images".split(),
    "tilewise.api.data.stores",
)
_LATER |= dict.fromkeys(("checkpoint", "resumable"), "tilewise.api.data.checkpoints")
_LATER |= dict.fromkeys(
    "from_dask to_dask from_xarray to_xarray from_ray to_ray".split(),
    "tilewise.api.data.interchange",
)
_LATER |= {"calibrate": "tilewise.api.calibrate", "parallel": "tilewise.parfor.parallel"}
_LATER |= {"parfor": "tilewise.parfor.loop", "__array_namespace_info__": "numpy"}
fill_namespace(globals(), _LATER)
_start_counting()
_quickly.end()
del _quickly, _start_counting, fill_namespace
