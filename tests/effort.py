"""How much of a sweep runs: some of it with the rest of the suite, all of it with `make soak`."""

import pytest

SOME_OR_ALL = [pytest.param(False, id="some"), pytest.param(True, id="all", marks=pytest.mark.soak)]
