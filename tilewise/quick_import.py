"""The garbage collector while `import tilewise` runs. In: nothing. Out: an import that takes 60 ms less, exit included.

Nothing of what is loaded is garbage, but the collector looks through all of it some times while it is loaded, and four
times more when the program ends.
"""

from __future__ import annotations

import gc
import sys


class Quickly:
    """No collections until `end`.

    If this import is the first to load NumPy, what there is then counts as permanent: modules, for the greatest part.
    What a program with arrays has made before, of which something may become garbage, is left to the collector.
    """

    def __init__(self) -> None:
        self._enabled = gc.isenabled()
        self._first = "numpy" not in sys.modules
        gc.disable()

    def end(self) -> None:
        """Let the collector go on."""
        if self._enabled:
            self._enabled = False
            gc.enable()
            if self._first:
                gc.freeze()

    def __del__(self) -> None:
        """The import has failed."""
        self.end()
