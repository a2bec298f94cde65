"""The machine is read from made-up tables: a whole one, a container's limits, and nothing at all."""

import os
from pathlib import Path

from tilewise.machine import count_cores, machine, read_caches, read_memory


def write(folder: Path, **texts: str) -> None:
    folder.mkdir()
    for name, text in texts.items():
        (folder / name).write_text(text + "\n")


def test_caches(tmp_path: Path) -> None:
    write(tmp_path / "index0", level="1", type="Data", size="48K", coherency_line_size="64")
    write(tmp_path / "index1", level="1", type="Instruction", size="32K", coherency_line_size="64")
    write(tmp_path / "index2", level="2", type="Unified", size="2M", coherency_line_size="64")
    write(tmp_path / "index3", level="3", type="Unified", size="")
    assert read_caches(tmp_path) == {0: 64, 1: 48 * 1024, 2: 2 * 1024 * 1024}
    assert read_caches(tmp_path / "missing") == {}


def test_a_quota_limits_the_cores(tmp_path: Path) -> None:
    quota = tmp_path / "cpu.max"
    everything = count_cores(quota)
    assert everything == len(os.sched_getaffinity(0))
    quota.write_text("50000 100000\n")
    assert count_cores(quota) == 1
    quota.write_text("max 100000\n")
    assert count_cores(quota) == everything


def test_a_limit_on_memory(tmp_path: Path) -> None:
    limit = tmp_path / "memory.max"
    everything = read_memory(limit)
    limit.write_text("1048576\n")
    assert read_memory(limit) == 1048576
    limit.write_text("max\n")
    assert read_memory(limit) == everything


def test_this_machine_is_sensible() -> None:
    here = machine()
    assert here is machine()
    assert here.l1_bytes <= here.l2_bytes <= here.memory_bytes
    assert here.line_bytes in (32, 64, 128, 256)
