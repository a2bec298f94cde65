"""The garbage collector while `import tilewise` runs. In: nothing. Out: an import that takes 15 ms less.

Nothing of what is loaded is garbage, but the collector would look through all of it some times while it is loaded.
"""

from __future__ import annotations

import gc


class Quickly:
    """No collections until `end`.

    What is there then is not frozen (`gc.freeze`), which would save 40 ms when the program ends: the names of the main
    module would be frozen, too, and Python would not finalise what they refer to, files that are open for instance.
    """

    def __init__(self) -> None:
        self._enabled = gc.isenabled()
        gc.disable()

    def end(self) -> None:
        """Let the collector go on."""
        if self._enabled:
            self._enabled = False
            gc.enable()

    def __del__(self) -> None:
        """The import has failed."""
        self.end()
