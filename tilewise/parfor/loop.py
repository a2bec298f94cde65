"""`tw.parfor(...)`: a loop and its options. In: an iterable. Out: the plain loop, which @tw.parallel runs in parallel.

Outside of a decorated function it is just iterated; with `rng=`, the generator has the stream of the iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.array.handle import Array
from tilewise.errors import ParforError, message
from tilewise.later import later
from tilewise.parfor.options import Options, checked
from tilewise.parfor.streams import Streams

if TYPE_CHECKING:
    from tilewise.parfor import analyse as analysis
    from tilewise.parfor.verdict import Verdict
else:
    analysis = later("tilewise.parfor.analyse")


class Loop:
    """What `tw.parfor` returns."""

    def __init__(self, elements: Sequence[Any], options: Options) -> None:
        self.elements = elements
        self.options = options

    def __len__(self) -> int:
        """How many iterations there are."""
        return len(self.elements)

    def __iter__(self) -> Iterator[Any]:
        """The plain loop."""
        generator = self.options.rng
        if generator is None:
            for k in range(len(self.elements)):
                yield self.elements[k]
            return
        streams = Streams(generator)
        kept = generator.bit_generator.state
        try:
            for k in range(len(self.elements)):
                generator.bit_generator.state = streams.state(k)
                yield self.elements[k]
        finally:
            generator.bit_generator.state = kept


def _elements(given: Any) -> Any:
    """What a loop goes over, so that it can be indexed."""
    if isinstance(given, range | list | tuple | str):
        return given
    if isinstance(given, Array):
        given = np.asarray(given)
    if isinstance(given, np.ndarray):
        if given.ndim == 0:
            raise ParforError(message("parfor goes over ranges and sequences", got="an array of no dimension"))
        return given
    if type(given) not in _FINITE:
        raise ParforError(
            message(
                "parfor goes over ranges and what has a length and can be indexed, also with enumerate and zip",
                got=type(given).__name__,
                cure="Use parfor(range(n)), or list(...) first",
            )
        )
    return list(given)


_FINITE: tuple[type, ...] = (
    enumerate,
    zip,
    reversed,
    dict,
    type({}.keys()),
    type({}.values()),
    type({}.items()),
    set,
    frozenset,
)


class Parfor:
    """A loop whose iterations are independent: `for i in tw.parfor(range(n)):` in a function under `@tw.parallel`.

    It goes over a range (or its numbers: `tw.parfor(10)`, `tw.parfor(2, 10)`), a sequence, or `enumerate` and `zip` of
    sequences. In a function without `@tw.parallel` it is the plain loop. Options: `check=False` (no analysis: your
    word that iterations are independent), `workers`, `mode` ("threads", "processes", "cluster" or "mesh"), `memory`
    (bytes that the loop may use), `partition` with `task_size`, or `tasks`, `merge` ("memory", "file" or "cluster"),
    and `rng`, a generator of which each iteration gets a stream of its own. What is left out is chosen (`tw.explain`).

    >>> import numpy as np
    >>> import tilewise as tw
    >>> total = 0
    >>> for i in tw.parfor(range(1, 8, 2)):
    ...     total += i
    >>> total
    16
    """

    def __call__(self, *given: Any, **options: Any) -> Loop:
        """A loop over something."""
        if not given:
            raise ParforError(message("parfor goes over something", got="nothing", cure="Use parfor(range(n))"))
        if len(given) > 1 or isinstance(given[0], int | np.integer):
            try:
                elements: Sequence[Any] = range(*given)
            except (TypeError, ValueError) as error:
                raise ParforError(message(f"parfor({', '.join(map(repr, given))}) is no range: {error}")) from error
        else:
            elements = _elements(given[0])
        return Loop(elements, checked(options))

    def analyse(self, source: str | Callable[..., Any], setup: str | Mapping[str, Any] | None = None) -> list[Verdict]:
        """Whether each parfor of a program may run in parallel; nothing is run but `setup`.

        >>> import tilewise as tw
        >>> found = tw.parfor.analyse("for i in parfor(9): A[i + 1] = A[i]", "import numpy as np; A = np.zeros(10)")
        >>> found[0].independent, found[0].pair
        (False, (0, 1))
        """
        return analysis.analyse(source, setup)


parfor = Parfor()
