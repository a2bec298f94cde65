"""The loop grammar, on one page. In: what a planner fused. Out: a hashable `Kernel`. Run by `interpret` or a target.

A kernel visits every point of an iteration space once. At each point it reads one element of every input (inputs are
arrays that broadcast, right-aligned, to the space), evaluates `body`, and hands values to its outputs. Values are
numbered: inputs, then params, then one per instruction. What an output does with its value, and the shape of its array:

    store       Output(v)                         the space
    reduce      Output(v, "add")                  the kept dims; accumulated over the reduced ones, in v's dtype
    arg         Output(v, "argmin")               the kept dims, int64: the row-major position in the reduced dims
    bucket      Output(v, "add", key=k)           (buckets, *kept dims); each point goes to bucket k, or nowhere
    scan        Output(v, "add", scan=True)       the space; the running reduction along the one reduced dim
"""

from __future__ import annotations

from dataclasses import dataclass

REDUCTIONS = ("add", "multiply", "minimum", "maximum", "logical_or", "logical_and")
ARGS = {"argmin": "minimum", "argmax": "maximum"}  # of equal values the first; a NaN beats every number


@dataclass(frozen=True)
class Instr:
    """One scalar operation: `fn` is a NumPy ufunc's name, or "where", "cast", "erf", "const:<repr>"."""

    fn: str
    args: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Output:
    """What becomes of a value (see the top of this file); keys outside of the buckets are skipped."""

    value: int
    reduce: str | None = None
    key: int | None = None
    scan: bool = False

    @property
    def stored(self) -> bool:
        """Whether the output has the shape of the whole space."""
        return self.reduce is None or self.scan

    @property
    def is_arg(self) -> bool:
        """Whether the output is a position."""
        return self.reduce in ARGS


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
            self._check(out, known)

    def _check(self, out: Output, known: int) -> None:
        assert 0 <= out.value < known, f"{out} names no value"
        if out.reduce is None:
            assert out.key is None and not out.scan, f"{out} reduces by nothing"
            return
        assert out.reduce in REDUCTIONS or (out.is_arg and out.key is None and not out.scan), f"{out}: unknown"
        assert any(self.reduced), f"{out} reduces no dim"
        if out.key is not None:
            assert 0 <= out.key < known and self.dtypes[out.key] == "int64", f"{out}: a key is an int64 value"
        assert not out.scan or (sum(self.reduced) == 1 and out.key is None), f"{out} scans along one dim"

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtype of every value, by value number."""
        return self.inputs + self.params + tuple(i.dtype for i in self.body)

    @property
    def out_dtypes(self) -> tuple[str, ...]:
        """The dtype of every output."""
        dtypes = self.dtypes
        return tuple("int64" if o.is_arg else dtypes[o.value] for o in self.outputs)

    def kept(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The sizes of the dims that are not reduced."""
        return tuple(n for n, r in zip(shape, self.reduced, strict=True) if not r)


def operations(kernel: Kernel) -> int:
    """Operations on numbers at each point of the space: casts, constants and what only selects are none."""
    free = sum(i.fn in ("cast", "where", "positive") or i.fn.startswith("const:") for i in kernel.body)
    return len(kernel.body) - free + sum(o.reduce is not None for o in kernel.outputs)


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
