"""Faster programs with the same meaning. In: a program, names of passes to leave out. Out: a program."""

from __future__ import annotations

from collections.abc import Callable, Collection

from tilewise.kernel.program.ir import Program
from tilewise.kernel.program.optimise import NAMES
from tilewise.kernel.program.optimise.bit_counts import bit_counts
from tilewise.kernel.program.optimise.conditions import conditions
from tilewise.kernel.program.optimise.hoist import hoist
from tilewise.kernel.program.optimise.inline import inline
from tilewise.kernel.program.optimise.parallel import parallel
from tilewise.kernel.program.optimise.private import private
from tilewise.kernel.program.optimise.ranges import ranges
from tilewise.kernel.program.optimise.reorder import reorder
from tilewise.kernel.program.optimise.slices.aliases import aliases
from tilewise.kernel.program.optimise.slices.blocks import blocks
from tilewise.kernel.program.optimise.slices.fusion import fusion
from tilewise.kernel.program.optimise.slices.split_names import split_names
from tilewise.kernel.program.optimise.small_arrays import small_arrays
from tilewise.kernel.program.optimise.terms import terms
from tilewise.kernel.program.optimise.unify import unify
from tilewise.kernel.program.optimise.versions import versions
from tilewise.kernel.program.optimise.zeros import zeros

PASSES: dict[str, Callable[[Program], Program]] = {
    "unify": unify,
    "inline": inline,
    "conditions": conditions,
    "bit_counts": bit_counts,
    "hoist": hoist,
    "ranges": ranges,
    "split_names": split_names,
    "aliases": aliases,
    "loop_fusion": fusion,
    "loop_blocks": blocks,
    "zeros": zeros,
    "loop_versions": versions,
    "loop_order": reorder,
    "small_arrays": small_arrays,
    "terms": terms,
    "private": private,
    "loop_threads": parallel,
}


def optimised(program: Program, without: Collection[str] = ()) -> Program:
    """All passes but those left out, in their order."""
    for name, act in PASSES.items():
        if name not in without:
            program = act(program)
    return program


assert tuple(PASSES) == NAMES
