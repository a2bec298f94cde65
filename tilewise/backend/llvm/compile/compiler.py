"""The door to llvmlite: IR to object code or assembly, and LLVM's own linker. In: a `Function`. Out: bytes, text.

Loaded only when something is really compiled: code from disk needs no LLVM. IR is verified always.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from tilewise.backend.llvm.emit.text import Function

# Position-independent, constants near the code: what linker.py knows. In LLVM's model for a JIT every constant has an
# address of 64 bits in a register; that takes a quarter more instructions to compile and runs as fast.
_MODEL = {"reloc": "pic", "codemodel": "small", "opt": 2}
_ATTRIBUTES = 'attributes #0 = { nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" }'
_numbers = itertools.count()


def host() -> tuple[str, frozenset[str]]:
    """The model and features of this CPU, where the system has no /proc/cpuinfo."""
    features = llvm.get_host_cpu_features()
    return llvm.get_host_cpu_name(), frozenset(name for name, has in features.items() if has)


@cache
def _target_machine(cpu: str, triple: str) -> Any:
    """LLVM's description of a CPU ("": this one). It is used again and again, which MCJIT would not allow."""
    if triple:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        return llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, **_MODEL)
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = "" if cpu else llvm.get_host_cpu_features().flatten()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(cpu=cpu or llvm.get_host_cpu_name(), features=features, **_MODEL)


@cache
def _attributes(cpu: str, triple: str) -> str:
    """Attributes of functions that LLVM's passes see: those look for the CPU there."""
    if triple:
        return _ATTRIBUTES
    features = "" if cpu else llvm.get_host_cpu_features().flatten()
    known = f'"target-cpu"="{cpu or llvm.get_host_cpu_name()}" "target-features"="{features}"'
    return _ATTRIBUTES.replace(" }", f" {known} }}")


def text_of(function: Function, cpu: str = "", triple: str = "") -> str:
    """The whole module of a function."""
    machine = _target_machine(cpu, triple)
    return "\n".join(
        [
            f'target triple = "{machine.triple}"',
            f'target datalayout = "{machine.target_data}"',
            *sorted(function.declares),
            function.text(),
            _attributes(cpu, triple) if function.optimised else _ATTRIBUTES,
            *(["attributes #1 = { nounwind willreturn memory(none) }"] if function.optimised else []),
            "!0 = !{i32 1}",
            *function.metadata,
        ]
    )


def _verified(text: str) -> Any:
    module = llvm.parse_assembly(text)
    module.verify()
    return module


def _module(function: Function, cpu: str, triple: str) -> Any:
    """The module of a function, after LLVM's passes if they shall run."""
    module = _verified(text_of(function, cpu, triple))
    if function.optimised:
        options = llvm.create_pipeline_tuning_options(speed_level=2)
        options.loop_vectorization = options.slp_vectorization = True
        options.loop_interleaving = options.loop_unrolling = True
        builder = llvm.create_pass_builder(_target_machine(cpu, triple), options)
        builder.getModulePassManager().run(module, builder)
    return module


def object_code(function: Function, cpu: str = "", triple: str = "") -> bytes:
    """The object file of a function. Not for two threads at once."""
    module = _module(function, cpu, triple)
    return bytes(_target_machine(cpu, triple).emit_object(module))


def optimised(function: Function, cpu: str = "", triple: str = "") -> str:
    """The IR of a function after LLVM's passes."""
    return str(_module(function, cpu, triple))


def assembly(function: Function, cpu: str = "", triple: str = "") -> str:
    """The assembly of a function."""
    module = _module(function, cpu, triple)
    return str(_target_machine(cpu, triple).emit_assembly(module))


@cache
def _linker() -> Any:
    _target_machine("", "")  # initialises LLVM
    return llvm.create_lljit_compiler(use_jit_link=True)


def linked(code: bytes, name: str) -> tuple[int, object]:
    """The address of a function in an object file, and what keeps it in memory."""
    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol(name)
    library = builder.link(_linker(), f"code{next(_numbers)}")
    return library[name], library
