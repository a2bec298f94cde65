"""IR text to a callable. In: a `Function`. Out: a C function of two byte blocks that runs without the GIL.

Code is cached in memory by what it was made from; `compiled_count()` counts the modules that were really compiled.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Hashable
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from tilewise.target.llvm.frame import Machine
from tilewise.target.llvm.text import Function

Native = Callable[[bytes, bytes], None]

_SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p)
_lock = threading.Lock()
_cache: dict[Hashable, Native] = {}
_engines: list[Any] = []  # code lives as long as its engine
_compiled = 0


@cache
def _host() -> tuple[str, str, str]:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.get_process_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@cache
def host_machine() -> Machine:
    """The widest vectors of this CPU."""
    features = llvm.get_host_cpu_features()
    if all(features.get(f, False) for f in ("avx512f", "avx512bw", "avx512dq", "avx512vl")):
        return Machine(64, masked=True)
    return Machine(32 if features.get("avx2", False) else 16, masked=False)


def compiled_count() -> int:
    """How many modules this process has compiled."""
    return _compiled


def native(key: Hashable, make: Callable[[str], Function]) -> Native:
    """The code for a key, compiled the first time it is asked for."""
    found = _cache.get(key)
    if found is None:
        with _lock:
            found = _cache.get(key)
            if found is None:
                found = _cache[key] = _compile(make("kernel"))
    return found


def _compile(function: Function) -> Native:
    global _compiled
    triple, cpu, features = _host()
    target = llvm.Target.from_triple(triple)
    # A target machine handed to MCJIT belongs to it and must not be used again.
    machine = target.create_target_machine(cpu=cpu, features=features, opt=2, jit=True)
    text = "\n".join(
        [
            f'target triple = "{triple}"',
            f'target datalayout = "{machine.target_data}"',
            *sorted(function.declares),
            function.text(),
            'attributes #0 = { nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" }',
            "!0 = !{i32 1}",
        ]
    )
    module = llvm.parse_assembly(text)
    module.verify()
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    _engines.append(engine)
    _compiled += 1
    return _SIGNATURE(engine.get_function_address("kernel"))
