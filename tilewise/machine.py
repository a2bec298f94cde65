"""What this machine has. In: the operating system's tables. Out: Machine. Measures nothing (see cost/)."""

import functools
import math
import os
import platform
from pathlib import Path

from tilewise.records import dataclass

KIB = 1024
MIB = 1024 * KIB

# Where the system does not say: the smallest sizes among common processors, so that a tile planned for them fits.
LINE_BYTES = 64
L1_BYTES = 32 * KIB
L2_BYTES = 512 * KIB
L3_BYTES = 8 * MIB
MEMORY_BYTES = 4 * 1024 * MIB


@dataclass(frozen=True)
class Machine:
    """The cores and memories that this process may use."""

    cores: int
    line_bytes: int
    l1_bytes: int  # Data cache of one core.
    l2_bytes: int
    l3_bytes: int  # Of the whole socket: cores share it.
    memory_bytes: int


@functools.cache
def machine() -> Machine:
    """This machine, read once when first asked for.

    >>> machine().cores >= 1
    True
    """
    caches = read_caches(Path(f"/sys/devices/system/cpu/cpu{min(_cpus())}/cache"))
    return Machine(
        cores=count_cores(Path("/sys/fs/cgroup/cpu.max")),
        line_bytes=caches.get(0, LINE_BYTES),
        l1_bytes=caches.get(1, L1_BYTES),
        l2_bytes=caches.get(2, L2_BYTES),
        l3_bytes=caches.get(3, L3_BYTES),
        memory_bytes=read_memory(Path("/sys/fs/cgroup/memory.max")),
    )


def count_cores(quota: Path) -> int:
    """Cores this process may run on: its affinity, and a container's quota if that is less."""
    cores = len(_cpus())
    limit, _, period = _text(quota).partition(" ")
    if limit.isdigit() and period.isdigit():
        cores = min(cores, max(1, math.ceil(int(limit) / int(period))))
    return cores


def read_caches(folder: Path) -> dict[int, int]:
    """Bytes of the data cache of each level, and of a line under key 0, as far as the system tells."""
    sizes: dict[int, int] = {}
    for index in sorted(folder.glob("index*")):
        level, kind, size = (_text(index / name) for name in ("level", "type", "size"))
        if kind in ("Data", "Unified") and level.isdigit() and size[:-1].isdigit():
            sizes[int(level)] = int(size[:-1]) * {"K": KIB, "M": MIB}.get(size[-1], 1)
            line = _text(index / "coherency_line_size")
            if line.isdigit():
                sizes[0] = int(line)
    return sizes


def read_memory(limit: Path) -> int:
    """Bytes of memory this process may use: the machine's, and a container's limit if that is less."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Not a POSIX system.
        total = MEMORY_BYTES
    text = _text(limit)
    return min(total, int(text)) if text.isdigit() else total


def _cpus() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


@functools.cache
def cpu_name() -> str:
    """What the processor is called. Where the system's tables do not say, a process of its own is asked (10 ms)."""
    for line in _text(Path("/proc/cpuinfo")).splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
