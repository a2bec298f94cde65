"""What a loop program is. In: functions with their rivals. Out: `PROGRAMS`, by name.

The function is what a NumPy user writes; it may write to its arguments, which `written` lists by position. Rivals:

- own: the same work in Numba's own idiom, where that is another text (slices as loops),
- parallel: the same with `prange`; without Numba it is plain Python, too, so the tests check it,
- c: `maker(lib, *inputs)` gives a function without arguments (see benchmarks/kernels/native.py).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Inputs = tuple[Any, ...]
Function = Callable[..., Any]

FAMILIES = (
    "factorisations triangular stencils sweeps dynamic graphs codes sorting numbers steppers signals images "
    "fractals parakeet_arrays parakeet_grids parakeet_points"
).split()


@dataclass(frozen=True)
class LoopProgram:
    """One row of the table."""

    name: str
    function: Function
    inputs: Callable[[int], Inputs]  # by a number that says how large
    small: int
    medium: int
    family: str
    written: tuple[int, ...] = ()
    own: Function | None = None
    parallel: Function | None = None
    c: Callable[..., Callable[[], Any]] | None = None
    rtol: float = 1e-9
    parakeet: bool = False  # of Parakeet's list

    def size(self, name: str) -> int:
        """The number behind `small` or `medium`; `tiny` is for tests."""
        return {"small": self.small, "medium": self.medium, "tiny": max(self.small // 4, 4)}[name]


PROGRAMS: dict[str, LoopProgram] = {}


def loops(inputs: Callable[[int], Inputs], small: int, medium: int, **more: Any) -> Callable[[Function], Function]:
    """Enter a function into the table under its name."""

    def enter(function: Function) -> Function:
        name, family = function.__name__, function.__module__.rpartition(".")[2]
        assert name not in PROGRAMS, name
        PROGRAMS[name] = LoopProgram(name, function, inputs, small, medium, family, **more)
        return function

    return enter


def load() -> dict[str, LoopProgram]:
    """All programs, in the order of the table."""
    for family in FAMILIES:
        importlib.import_module(f"benchmarks.loops.programs.{family}")
    return PROGRAMS


def rng(seed: int = 0) -> np.random.Generator:
    """Where random inputs come from."""
    return np.random.default_rng(seed)


def spd(n: int) -> Any:
    """A symmetric positive definite matrix."""
    a = rng().random((n, n))
    return a @ a.T + n * np.eye(n)


def dominant(n: int) -> Any:
    """A matrix whose diagonal is larger than the rest of each row."""
    return rng().random((n, n)) + n * np.eye(n)
