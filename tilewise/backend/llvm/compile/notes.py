"""Small facts on disk, beside compiled code. In: a key of plain values, a fact. Out: the fact again, or None.

Facts are JSON, named like code (key.py): another CPU, or other sources of the code they are about, do not find them.
"""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewise.backend.llvm.compile import disk, key
from tilewise.backend.llvm.compile.build import lock
from tilewise.later import later

if TYPE_CHECKING:
    import json
else:
    json = later("json")  # 4 ms, for what few programs have


def recall(folder: Path, what: Hashable) -> Any:
    """The fact kept under a key; None if there is none, or it cannot be read."""
    try:
        name = key.name_of(what, "")
    except OSError:  # no sources to tell versions apart by
        return None
    with lock:
        text = disk.get(folder / "code", name)
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return None


def keep(folder: Path, what: Hashable, fact: Any) -> None:
    """Keep a fact for other processes."""
    try:
        name = key.name_of(what, "")
    except OSError:
        return
    with lock:
        disk.put(folder / "code", name, json.dumps(fact).encode())
