"""Arrays in notebooks. In: an Array. Out: HTML: shape, dtype, where it lies, a few elements. Computes nothing."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tilewise.array.handle import Array, meta
from tilewise.engine.remote import Remote
from tilewise.ir.node import Length
from tilewise.layout import describe

PREVIEW = 30  # elements up to which all are shown; of more, those at the edges
EDGE = 2  # how many at each edge
STYLE = "text-align:left; padding:0.1em 0.8em 0.1em 0"


def _size(count: int) -> str:
    """Bytes, as a person reads them.

    >>> _size(999), _size(8_000_000)
    ('999 bytes', '8.0 MB')
    """
    number = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if number < 1000 or unit == "GB":
            break
        number /= 1000
    return f"{number:.0f} bytes" if unit == "bytes" else f"{number:.1f} {unit}"


def _lies(x: Array) -> str:
    node = x._cell.node
    if node is None:
        return "in this process"
    if isinstance(node.value, Remote):
        return f"on workers, {describe(node.value.layout)}"
    return "not read yet" if node.value is not None else "pending: recorded, not computed yet"


def _shape(x: Array) -> tuple[list[str], int | None]:
    """Lengths as text, and the number of elements if it is known: what masks keep is not counted for this."""
    node = x._cell.node
    dims: tuple[Any, ...] = meta(x).shape if x._nd is not None or node is None else node.shape
    known = [(d.value if isinstance(d, Length) else d) for d in dims]
    return ["?" if d is None else f"{d:,}" for d in known], None if None in known else prod(
        d for d in known if d is not None
    )


def html(x: Array) -> str:
    """What a notebook shows of an array.

    >>> import tilewise as tw
    >>> "pending" in tw.ones((1000, 1000))._repr_html_(), "3, 4" in tw.asarray([1, 2, 3, 4])._repr_html_()
    (True, True)
    """
    lengths, count = _shape(x)
    dtype = x.dtype
    rows = {"shape": " × ".join(lengths) or "a number", "dtype": str(dtype)}
    if count is not None:
        rows["size"] = f"{_size(count * dtype.itemsize)}, {count:,} element{'' if count == 1 else 's'}"
    rows["where"] = _lies(x)
    cells = "".join(
        f'<tr><th style="{STYLE}">{k}</th><td style="{STYLE}">{_text(v)}</td></tr>' for k, v in rows.items()
    )
    shown = ""
    if x._cell.node is None:
        text = np.array2string(meta(x), threshold=PREVIEW, edgeitems=EDGE, separator=", ")
        shown = f"<pre>{_text(text)}</pre>"
    return f"<div><b>tilewise.Array</b><table>{cells}</table>{shown}</div>"


def _text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


Array._repr_html_ = html
