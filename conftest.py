"""What pytest must not collect, where tests keep compiled code, and the option that writes golden texts anew.

The package's namespace shows NumPy's docstrings, whose examples are NumPy's. Tests inject faults into the compiler, so
they share a folder of their own, which goes with them.
"""

import atexit
import os
import shutil
import tempfile

import pytest

collect_ignore = ["tilewise/__init__.py"]

if "PYTEST_XDIST_WORKER" not in os.environ:  # workers have it from the process that started them
    os.environ["TILEWISE_CACHE_DIR"] = tempfile.mkdtemp(prefix="tilewise-tests-")
    atexit.register(shutil.rmtree, os.environ["TILEWISE_CACHE_DIR"], ignore_errors=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-goldens", action="store_true", help="write the texts in tests/golden/texts anew")
