"""Views: a strided window onto a base (window.py), as cuts and arrangements (unfold.py, cut.py) on a mesh.

Slices, transposes, new axes, diagonals, broadcasts, real parts and reinterpreted dtypes are all one thing: an offset,
a shape and strides into the base's memory.
"""

from tilewise.ops.views.cut import Arrange, ComplexPart, Cut, all_of, arrange
from tilewise.ops.views.unfold import apart, unfold
from tilewise.ops.views.window import (
    Axis,
    Window,
    axes_of,
    explain,
    memory,
    same_strides,
    shared_window,
    strided,
    view,
    walks,
    window,
)

__all__ = [
    "Arrange",
    "Axis",
    "ComplexPart",
    "Cut",
    "Window",
    "all_of",
    "apart",
    "arrange",
    "axes_of",
    "explain",
    "memory",
    "same_strides",
    "shared_window",
    "strided",
    "unfold",
    "view",
    "walks",
    "window",
]
