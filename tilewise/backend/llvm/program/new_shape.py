"""Arrays in another shape. In: a HostCall that gives one, its words in memory. Out: IR that makes those of the result.

An array that lies in C order has other lengths and strides, and that is all: Python is called for others, and for
lengths that do not fit, about which it has something to say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tilewise.backend.llvm.emit.control import either, word_at
from tilewise.backend.llvm.emit.text import Val
from tilewise.backend.llvm.program import layout
from tilewise.backend.llvm.program.allocation import count
from tilewise.kernel.program.ir import SHORT, HostCall

if TYPE_CHECKING:
    from tilewise.backend.llvm.program.emit import Emitter


def shown(em: Emitter, s: HostCall, room: str, by_python: Callable[[], None]) -> None:
    """The words of the result, in place of those of the inputs."""
    fn, name = em.fn, s.inputs[0]
    assert isinstance(name, str)
    a = em.p.arrays[name]
    itemsize = np.dtype(a.dtype).itemsize

    def word(k: int) -> Val:
        return em.word(word_at(fn, room, k))

    data, base = word(0), word(1)
    size = em.number(1)
    fits = base.cmp("ne", 0)  # memory that is not counted is not shared
    for k in reversed(range(a.rank)):
        n, stride = word(3 + k), word(3 + a.rank + k)
        fits = fits & (n.cmp("eq", 1) | stride.cmp("eq", size * itemsize))
        # Numbers below SHORT cannot overflow when two are multiplied; where one is not, the rest does not matter.
        fits = fits & n.cmp("ult", SHORT) & size.cmp("ult", SHORT)
        size = size * n
    fits = fits & size.cmp("ugt", 0) & size.cmp("ult", SHORT)
    first = layout.array_words(a.rank) - 1  # numbers are one word each, behind the array
    lengths = [word(first + n) if given else em.number(n) for given, n in s.lengths]
    open_ = [k for k, (given, n) in enumerate(s.lengths) if not given and n == -1]
    total = em.number(1)
    for k, n in enumerate(lengths):
        if k not in open_:
            fits = fits & n.cmp("ugt", 0) & n.cmp("ule", size) & total.cmp("ule", size)
            total = total * n
    if open_:
        divisor = total.cmp("eq", 0).select(em.number(1), total)
        lengths[open_[0]] = Val(fn, fn.let(f"udiv {size.text}, {divisor.name}"), "i64", 1)
        total = total * lengths[open_[0]]
    fits = fits & total.cmp("eq", size)

    def here() -> None:
        count(em, base, 1)
        words, stride = [data, base, em.number(0), *lengths], em.number(itemsize)
        strides: list[Val] = []
        for n in reversed(lengths):
            strides.insert(0, stride)
            stride = stride * n
        for k, w in enumerate([*words, *strides]):
            em.put(word_at(fn, room, k), w)

    either(fn, fits.name, here, by_python)
