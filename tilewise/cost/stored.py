"""The rates of this machine, measured once and kept in a file. In: a folder. Out: rates, or None.

The file is plain JSON; one that cannot be read, or is of another machine or version, counts as none.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, fields, replace
from functools import lru_cache
from pathlib import Path

from tilewise.config import Settings
from tilewise.cost.model import FIXED, Rates
from tilewise.errors import ConfigError, message
from tilewise.machine import cpu_name, machine

VERSION = 4
RATES = tuple(f.name for f in fields(Rates) if f.type == "float")


_last: tuple[Rates | None, str, Rates | None] = (None, "", None)  # what was asked for last, and what it was


def machine_for(settings: Settings) -> Rates:
    """The machine that plans are made for: FIXED, or what was measured here."""
    rates = load(settings.cache_dir) if settings.machine == "measured" else FIXED
    if rates is None:
        raise ConfigError(
            message("this machine has not been measured", cure="Run tilewise calibrate, or tw.calibrate()")
        )
    global _last
    given, objective, found = _last
    if found is None or rates is not given or objective != settings.objective:
        found = _for_objective(rates, settings.objective)
        _last = rates, settings.objective, found
    return found


@lru_cache(maxsize=16)
def _for_objective(rates: Rates, objective: str) -> Rates:
    """The one object: every evaluation on a mesh asks for it."""
    return replace(rates, objective=objective)


def path_in(folder: Path) -> Path:
    """Where the rates are kept."""
    return folder / "machine.json"


def save(rates: Rates, folder: Path) -> Path:
    """Keep rates; a reader sees the old file or the new one, never a part."""
    path = path_in(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"version": VERSION, "cpu": cpu_name(), "cores": machine().cores, **asdict(rates)}, indent=1)
    part = path.with_suffix(f".{os.getpid()}")
    part.write_text(text + "\n")
    part.replace(path)
    load.cache_clear()
    return path


@lru_cache(maxsize=8)
def load(folder: Path) -> Rates | None:
    """The rates kept in a folder, if they are of this machine."""
    try:
        found = json.loads(path_in(folder).read_text())
        if (found["version"], found["cpu"], found["cores"]) != (VERSION, cpu_name(), machine().cores):
            return None
        rates = {name: float(found[name]) for name in RATES}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return replace(FIXED, **rates) if all(rate > 0 for rate in rates.values()) else None  # type: ignore[arg-type]
