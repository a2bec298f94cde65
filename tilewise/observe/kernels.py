"""The kernels of a plan, for people. In: passes and types of values. Out: their loops as text; code on request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewise.backend import NATIVE, named
from tilewise.backend.base import Listing
from tilewise.kernel import show
from tilewise.kernel.loops import Kernel
from tilewise.records import dataclass
from tilewise.stage.cut_axis import space_of
from tilewise.stage.steps import Pass, Step, passes


@dataclass(frozen=True)
class KernelText:
    """One kernel: what it computes, over which space, as loops (`str`), LLVM's language and assembly.

    >>> import tilewise as tw
    >>> with tw.config(eager_bytes=0):
    ...     (kernel,) = tw.explain((tw.arange(4.0) * 2).sum()).kernels
    >>> print(kernel)
    multiply, add.reduce[0] over 4
    for i:
        a = read float64
        b = 2.0
        c = multiply(a, b)
        out0[] = add over i of c
    """

    operators: tuple[str, ...]
    shape: tuple[int, ...]
    kernel: Kernel

    def __str__(self) -> str:
        sizes = " x ".join(f"{n:,}" for n in self.shape) or "one element"
        return f"{', '.join(self.operators)} over {sizes}\n{show.text(self.kernel)}"

    __repr__ = __str__

    def llvm(self) -> str:
        """The kernel in LLVM's language, for operands in C order."""
        return self._listing().ir

    def assembly(self) -> str:
        """The kernel as this machine's instructions, for operands in C order."""
        return self._listing().assembly

    def _listing(self) -> Listing:
        found: Listing = named(NATIVE).listing(self.kernel, self.shape)
        return found


def kernels_of(steps: Sequence[Step], specs: Sequence[Any]) -> list[KernelText]:
    """All kernels of a plan, in the order they run."""
    return [_text(p, specs) for step in steps for p in passes(step)]


def _text(step: Pass, specs: Sequence[Any]) -> KernelText:
    members = (*step.members, *(o for o in step.outs if o not in step.members))
    return KernelText(tuple(specs[m].op.label() for m in members), space_of(step, specs), step.kernel)
