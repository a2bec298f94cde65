"""A function of numbers on all elements, compiled. In: the function, dtypes. Out: what runs on blocks of arrays.

NumPy gives `vectorize`d functions Python's numbers; combiners of folds get NumPy's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tilewise.api.functions.native.kinds import Kind, loaded
from tilewise.api.functions.native.loop import Loop, array, compiled, cuts, in_parts
from tilewise.records import dataclass
from tilewise.store import pool

LEAST_PART = 1 << 10  # elements: some microseconds of work at least
BOX = 1 << 14  # elements of operands that are repeated, which are written out box by box
ND = np.ndarray[Any, Any]


def elements_loop(
    f: Any, kinds: Sequence[Kind], dtypes: Sequence[np.dtype[Any]], outs: Sequence[np.dtype[Any]], several: bool
) -> Loop:
    """The loop over 1-d arrays: results first, then arguments of some dtypes, which f sees as numbers of some kinds."""
    made = [f"o{k}" for k in range(len(outs))]
    given = [f"x{k}" for k in range(len(kinds))]
    call = f"f({', '.join(loaded(k, f'{x}[i]') for k, x in zip(kinds, given, strict=True))})"
    lines = [f"def elements(f, {', '.join(made + given)}):", "    for i in range(len(o0)):"]
    if several:
        names = [f"r{k}" for k in range(len(outs))]
        lines.append(f"        {', '.join(names)}{',' if len(names) == 1 else ''} = {call}")
        lines += [f"        {o}[i] = {r}" for o, r in zip(made, names, strict=True)]
    else:
        lines.append(f"        o0[i] = {call}")
    specs = [array(d, 1) for d in (*outs, *dtypes)]
    return compiled("\n".join(lines) + "\n", {"f": f}, specs, len(outs))


@dataclass(frozen=True)
class Elements:
    """A compiled function on blocks that broadcast together; arrays that it refers to come last."""

    f: Any
    loop: Loop
    kinds: tuple[Kind, ...]
    dtypes: tuple[np.dtype[Any], ...]
    outs: tuple[np.dtype[Any], ...]
    several: bool
    native = True

    def __call__(self, *blocks: Any) -> Any:
        made = self.arrays(*blocks)
        return packed(made) if self.several else made[0]

    def arrays(self, *blocks: Any) -> list[ND]:
        """The results, one by one."""
        n = len(self.kinds)
        arrays = [np.asarray(b) for b in blocks[:n]]
        rest = self.loop.given(blocks)
        shape = np.broadcast_shapes(*(a.shape for a in arrays))
        made = [pool.empty(shape, d) for d in self.outs]
        if 0 in shape:
            return made
        arrays = [a.astype(d, copy=False) for a, d in zip(arrays, self.dtypes, strict=True)]
        size = math.prod(shape)
        outs = [o.reshape(-1) for o in made]
        if all(a.shape == shape and a.flags.c_contiguous for a in arrays):
            flat = [a.reshape(-1) for a in arrays]
            parts = [(lo, hi, [x[lo:hi] for x in flat]) for lo, hi in cuts(size, LEAST_PART)]
        else:
            parts = [(lo, lo + part[0].size, part) for lo, part in _boxes(arrays, shape)]

        def args(k: int) -> list[Any]:
            lo, hi, xs = parts[k]
            return [*(o[lo:hi] for o in outs), *(np.ascontiguousarray(x).reshape(-1) for x in xs), *rest]

        in_parts(self.loop, len(parts), args)
        return made


def _boxes(arrays: Sequence[ND], shape: tuple[int, ...]) -> Iterator[tuple[int, list[ND]]]:
    """Parts of arrays that are repeated or not in C order; where each begins in the flat result."""
    whole = [np.broadcast_to(a, shape) for a in arrays]
    axis = next((k for k in range(len(shape)) if math.prod(shape[k + 1 :]) <= BOX), max(len(shape) - 1, 0))
    inner = math.prod(shape[axis + 1 :])
    step = max(1, BOX // inner)
    length = shape[axis] if shape else 1
    for at, outer in enumerate(np.ndindex(shape[:axis])):
        for lo in range(0, length, step):
            part = [w[(*outer, slice(lo, lo + step))] if shape else w for w in whole]
            yield (at * length + lo) * inner, part


# -- several results ---------------------------------------------------------------------------------------------------


def record(dtypes: Sequence[np.dtype[Any]]) -> np.dtype[Any]:
    """Several numbers side by side."""
    return np.dtype({"names": [f"f{k}" for k in range(len(dtypes))], "formats": list(dtypes)}, align=True)


def packed(arrays: Sequence[ND]) -> ND:
    """Several results as one array of bytes, with an axis more: the bytes of a record."""
    kind = record([a.dtype for a in arrays])
    out = np.empty(arrays[0].shape, kind)
    for k, a in enumerate(arrays):
        out[f"f{k}"] = a
    return out.reshape(-1).view(np.uint8).reshape(*out.shape, kind.itemsize)


@dataclass(frozen=True)
class Component:
    """One of several results, of their bytes."""

    dtypes: tuple[np.dtype[Any], ...]
    which: int
    native = True

    def __call__(self, block: Any) -> Any:
        kind = record(self.dtypes)
        whole = np.ascontiguousarray(block).reshape(-1).view(kind).reshape(block.shape[:-1])
        return np.ascontiguousarray(whole[f"f{self.which}"]).reshape(block.shape[:-1])
