"""Results on disk. In: rows of a benchmark. Out: a JSON file with what it ran on."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

import numpy as np


def write_report(path: Path, parts: dict[str, Any], indent: int | None = 1, **machine: Any) -> None:
    """Write a report: the machine, with what else is to be said of it, and the parts."""
    known = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "cpus": os.cpu_count(),
        "machine": platform.platform(),
        **machine,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": known, **parts}, indent=indent) + "\n")
    print(f"written: {path}")
