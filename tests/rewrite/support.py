"""What tests of rules share: the graph that an evaluation would run, as text, and programs on and off."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import tilewise as tw
from tilewise.array.handle import node_of
from tilewise.array.program import program_of
from tilewise.ir.node import Node, walk

MESHES = (None, 2, 3, (2, 2))


@contextmanager
def recorded(**settings: Any) -> Iterator[None]:
    """Everything is recorded."""
    with tw.config(eager_bytes=0, native=False, fallback="silent", **settings):
        yield


def roots(*arrays: Any) -> tuple[Node, ...]:
    """The nodes that stand for arrays after rewriting."""
    program = program_of(arrays)
    return tuple(program.new.get(node_of(x), node_of(x)) for x in arrays)


def names(*arrays: Any) -> list[str]:
    """The operators that computing arrays takes, views aside."""
    labels = [n.op.label() for n in walk(roots(*arrays)) if n.value is None]
    return [x for x in labels if not x.startswith("view")]


def same(got: Any, want: Any) -> None:
    """Equal to NumPy's in type and in values, NaN and infinities included; rounding aside."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype and got.shape == want.shape, (got.dtype, want.dtype, got.shape, want.shape)
    if want.dtype.kind in "fc":
        np.testing.assert_allclose(got, want, rtol=1e-5 if want.dtype.itemsize < 8 else 1e-11, atol=1e-9)
        assert np.array_equal(np.signbit(got.real)[want == 0], np.signbit(want.real)[want == 0])
    else:
        np.testing.assert_array_equal(got, want)


def everywhere(program: Callable[..., Any], *given: Any, meshes: Sequence[Any] = MESHES) -> None:
    """A program gives NumPy's results with rules and without, here and on virtual meshes."""
    with np.errstate(all="ignore"):
        want = program(np, *given)
    for mesh in meshes:
        for rewrite in (True, False):
            with recorded(rewrite=rewrite):
                if mesh is None:
                    same(program(tw, *map(tw.array, given)), want)
                else:
                    with tw.session(engine="virtual", mesh=mesh):  # type: ignore[attr-defined]
                        same(program(tw, *map(tw.array, given)), want)
