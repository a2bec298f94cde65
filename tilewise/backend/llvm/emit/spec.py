"""What code is made for: a machine's vectors, and what a loop nest is specialised on."""

from __future__ import annotations

from tilewise.records import dataclass

UNIT, ZERO, STRIDED = "unit", "zero", "strided"  # classes of an operand's innermost stride


@dataclass(frozen=True)
class VectorUnit:
    """The vectors to emit: their bytes (0: scalar code), whether loads and stores can be masked, registers for them."""

    vector_bytes: int
    masked: bool
    registers: int
    follows: bool  # whether it fetches what is read in order soon enough by itself
    by_lane: bool  # whether products can take one lane of a vector for all
    cpu: str = ""  # LLVM's name of the CPU whose instructions may be used; "": this one

    @property
    def fuses(self) -> bool:
        """Whether it multiplies and adds in one instruction (a CPU with SSE alone does not)."""
        return self.by_lane or self.vector_bytes >= 32


@dataclass(frozen=True)
class Spec:
    """What code is specialised on: the loop form, the number of dims, the class of each operand's innermost stride."""

    form: str  # a name in forms.FORMS
    rank: int
    classes: tuple[str, ...]
    machine: VectorUnit
    stream: bool = False  # "map", "scan" and "nested": outputs too large for the caches are stored around them
    abreast: int = 1  # vectors at once: hides the latency of long bodies, and takes as many times longer to compile
    partials: bool = False  # reduced outputs are partial results, to be combined
    ordered: bool = True  # every accumulator meets its points in the order of their positions
    vectors: int = 1  # "columns", "contract" and "nested": vectors of a panel
    high: int = 1  # "contract" and "nested": points of the unrolled dim
    strip: int = 0  # "columns": rows at a time where sums lie in memory (strips.py); 0 where they are in registers
    varies: tuple[bool, ...] = ()  # "contract" and "nested": which operands change along the unrolled dim
    packed: tuple[int, ...] = ()  # "contract" and "nested": inputs that lie as panels
    along: tuple[int, ...] = ()  # "contract" and "nested": inputs of which several steps are read at once
    shallow: bool = False  # "contract": all steps are one block
    even: bool = False  # "nested": the lanes fill the vectors
    rest: int = 0  # "nested": vectors of the last panel; 0 where there is one panel
    guess: tuple[int, int] | None = (
        None  # "nested": vectors and rows of a tile of scores in float32 (argmin_f32.py), if any
    )
    chunked: int = 0  # "buckets": the dim whose points chunks share
    long: bool = False  # rows have many elements: what is made once per row may cost something
    kept: tuple[int, ...] = ()  # "map": inputs that all rows are divided by, whose inverses are kept
    fetched: tuple[int, ...] = ()  # "rows" and "short": inputs that are prefetched, if any (prefetch.py)
    tree: int = 0  # "rows" and "short": lanes of an accumulator, if fewer than usual
    fused: bool = False  # products that are summed are not rounded before
    neutral: bool = False  # reductions start from what changes no value (NumPy's sums start from 0.0: -0.0 is lost)
