"""The CPU that code is made for. In: what the system says of it. Out: a `VectorUnit`, a fingerprint. Loads no LLVM.

LLVM's levels of x86 (`x86-64-v3` and so on) stand for lesser CPUs: code for one uses exactly the instructions of that
level, so that a machine with AVX-512 can test what machines without it will run.
"""

from __future__ import annotations

import importlib
import platform
from functools import cache
from pathlib import Path

from tilewise.backend.llvm.emit.spec import VectorUnit
from tilewise.kernel.family import X86

CPUINFO = Path("/proc/cpuinfo")
AVX512 = frozenset(["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"])
# The level of x86 that has vectors of so many bytes and nothing more. Scalar code has no wider level to tell apart.
LEVELS = {64: "x86-64-v4", 32: "x86-64-v3", 16: "x86-64", 0: "x86-64"}
_IDENTITY = ("vendor_id", "cpu family", "model", "stepping", "CPU implementer", "CPU part", "CPU variant")
_FEATURES = ("flags", "Features")


def described(text: str) -> tuple[str, frozenset[str]]:
    """Which model the first CPU of /proc/cpuinfo is, and its features.

    >>> described("processor : 0\\nmodel : 85\\ncpu MHz : 2100\\nflags : fpu avx2\\n\\nprocessor : 1\\nmodel : 7")
    ('model=85', frozenset({...}))
    """
    lines = [line.partition(":") for line in text.partition("\n\n")[0].splitlines()]
    fields = {name.strip(): value.strip() for name, _, value in lines}
    who = " ".join(f"{name}={fields[name]}" for name in _IDENTITY if name in fields)
    return who, frozenset(word for name in _FEATURES for word in fields.get(name, "").split())


@cache
def host() -> tuple[str, frozenset[str]]:
    """The model and features of this CPU."""
    try:
        with CPUINFO.open("rb", buffering=0) as file:
            return described(file.read(4096).decode())  # one CPU of perhaps hundreds
    except OSError:
        return importlib.import_module("tilewise.backend.llvm.compile.compiler").host()  # type: ignore[no-any-return]


def fingerprint() -> str:
    """What must be the same for code of one CPU to run on another."""
    model, features = host()
    return f"{platform.system()} {platform.machine()} {model} {' '.join(sorted(features))}"


@cache
def host_machine() -> VectorUnit:
    """The widest vectors of this CPU."""
    features = host()[1] if X86 else frozenset()
    if features >= AVX512:
        return level(64, "")
    return level(32 if "avx2" in features else 16, "")


def level(vector_bytes: int, cpu: str | None = None) -> VectorUnit:
    """Vectors of this width and, on x86, only the instructions that came with them (or those of another CPU)."""
    if cpu is None:
        cpu = LEVELS[vector_bytes] if X86 else ""
    wide = vector_bytes == 64
    registers = 32 if wide or not X86 else 16
    return VectorUnit(vector_bytes, masked=wide, registers=registers, follows=not X86, by_lane=not X86, cpu=cpu)
