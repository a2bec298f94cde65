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
  functions.

`help(np.config)` and the like say more about each. What follows is NumPy's own documentation of its names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewise import testing
from tilewise.api.functions.elements import filter, fold, outer_map, scan
from tilewise.api.functions.jit import jit
from tilewise.api.functions.pairs import allpairs
from tilewise.api.functions.reducing import reduce
from tilewise.api.functions.tiles import join_update, map_tiles
from tilewise.api.namespace import fill_namespace
from tilewise.api.tools import compute, evaluate, session
from tilewise.array.handle import Array
from tilewise.array.slots.takeover import start_counting
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
from tilewise.parfor.loop import parfor

if TYPE_CHECKING:
    from tilewise.api.calibrate import calibrate
    from tilewise.api.explaining import explain, profile
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
fill_namespace(globals(), _LATER)
start_counting()
__all__ += [
    n
    for n in globals()
    if not n.startswith("_") and n not in (*__all__, "annotations", "fill_namespace", "start_counting")
]
del fill_namespace, start_counting
