"""The loop grammar, on one page. In: what a planner fused. Out: a hashable `Kernel`. Run by `interpret` or a target.

A kernel visits every point of an iteration space once. At each point it reads one element of every input (inputs are
arrays that broadcast, right-aligned, to the space), evaluates `body`, and either stores a value (`reduce=None`) or
accumulates it over the reduced dims. Values are numbered: inputs, then params, then one per instruction.
"""

from __future__ import annotations

from dataclasses import dataclass

REDUCTIONS = ("add", "multiply", "minimum", "maximum", "logical_or", "logical_and")


@dataclass(frozen=True)
class Instr:
    """One scalar operation: `fn` is a NumPy ufunc's name, or "where", "cast", "erf", "const:<repr>"."""

    fn: str
    args: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Output:
    """A value stored over the whole space, or accumulated by `reduce` over the reduced dims (in its own dtype)."""

    value: int
    reduce: str | None = None


@dataclass(frozen=True)
class Kernel:
    """One fused loop nest; sizes, strides and the values of `params` are known only when it runs."""

    inputs: tuple[str, ...]
    params: tuple[str, ...]
    body: tuple[Instr, ...]
    outputs: tuple[Output, ...]
    reduced: tuple[bool, ...]

    def __post_init__(self) -> None:
        known = len(self.inputs) + len(self.params)
        for instr in self.body:
            assert all(0 <= a < known for a in instr.args), f"{instr} uses a value that is not yet known"
            known += 1
        for out in self.outputs:
            assert 0 <= out.value < known, f"{out} names no value"
            assert out.reduce is None or out.reduce in REDUCTIONS, f"{out}: unknown reduction"
            assert out.reduce is None or any(self.reduced), f"{out} reduces no dim"

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtype of every value, by value number."""
        return self.inputs + self.params + tuple(i.dtype for i in self.body)

    @property
    def out_dtypes(self) -> tuple[str, ...]:
        """The dtype of every output."""
        dtypes = self.dtypes
        return tuple(dtypes[o.value] for o in self.outputs)


def const_value(fn: str) -> complex | float | int | bool:
    """The number in a "const:<repr>" function name."""
    text = fn.removeprefix("const:")
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return complex(text)
