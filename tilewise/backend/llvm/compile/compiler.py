"""The door to llvmlite: IR to object code or assembly, and LLVM's own linker. In: a module's text. Out: bytes, text.

Loaded only when something is really compiled: code from disk needs no LLVM. IR is verified always. Imports nothing of
ours, so that the compiler's own process (server.py) can use it without loading the package.

Quick code comes in a seventh of the time of good code and takes up to twice as long to run. Both have the same bits:
no flag of the IR allows LLVM to change what floats give, and what is multiplied and added at once is written so.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import llvmlite.binding as llvm

# Position-independent, constants near the code: what linker.py knows. In LLVM's model for a JIT every constant has an
# address of 64 bits in a register; that takes a quarter more instructions to compile and runs as fast.
_MODEL = {"reloc": "pic", "codemodel": "small"}
QUICK, GOOD = 0, 2  # levels of LLVM's code generator
BEST = 3  # of functions that LLVM's passes run on: chains of selections become branches where a loop waits for them
_OPTIMISED = '"passes"="standard"'  # the attribute of functions that LLVM's passes run on (emit/text.py)
_NO_GATHERS = "+prefer-no-gather"  # microcode of several generations of CPUs makes them take 10 ns
# CPUs that decode a jump at the end of 32 bytes anew each time (Intel's erratum SKX102): short loops take up to 1.4
# times as long unless jumps are kept within. The option is for all that the process compiles; it moves code, no more.
JUMPS_TORN = ("skylake", "skylake-avx512", "cascadelake")
JUMPS_WHOLE = "-x86-branches-within-32B-boundaries"
LONG = 500_000  # characters of a module that is not looked through for vectors outside of loops
_numbers = itertools.count()


def host() -> tuple[str, frozenset[str]]:
    """The model and features of this CPU, where the system has no /proc/cpuinfo."""
    features = llvm.get_host_cpu_features()
    return llvm.get_host_cpu_name(), frozenset(name for name, has in features.items() if has)


@cache
def _target_machine(cpu: str, triple: str, level: int = GOOD) -> Any:
    """LLVM's description of a CPU ("": this one). It is used again and again, which MCJIT would not allow."""
    if triple:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        return llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, opt=level, **_MODEL)
    _native_target()
    features = "" if cpu else llvm.get_host_cpu_features().flatten()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    return target.create_target_machine(cpu=cpu or llvm.get_host_cpu_name(), features=features, opt=level, **_MODEL)


@cache
def _native_target() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    if llvm.get_host_cpu_name() in JUMPS_TORN:
        llvm.set_option("", JUMPS_WHOLE)


def ready() -> None:
    """Load what the first compilation needs."""
    _target_machine("", "", QUICK)
    _target_machine("", "", GOOD)


def skip_slowest_pass() -> None:
    """Leave loop strength reduction out of all that this process compiles later: not where others use LLVM, too."""
    llvm.set_option("", "-disable-lsr")


def text_of(module: str, cpu: str = "", triple: str = "") -> str:
    """A module for a CPU. LLVM's passes look for the CPU in the attributes of functions."""
    machine = _target_machine(cpu, triple)
    if _OPTIMISED in module and not triple:
        features = _features(cpu)
        known = f'"target-cpu"="{cpu or llvm.get_host_cpu_name()}" "target-features"="{features}"'
        module = module.replace(_OPTIMISED, f"{_OPTIMISED} {known}")
    return f'target triple = "{machine.triple}"\ntarget datalayout = "{machine.target_data}"\n{module}'


def _features(cpu: str) -> str:
    """The features of a CPU ("": this one) for code of loops: four loads are quicker than a gather of four."""
    every = [] if cpu else [llvm.get_host_cpu_features().flatten()]
    return ",".join([*every, _NO_GATHERS] if llvm.get_process_triple().startswith("x86_64") else every)


def _verified(text: str) -> Any:
    module = llvm.parse_assembly(text)
    module.verify()
    return module


def _prepared(module: str, cpu: str, triple: str) -> Any:
    """A module for a CPU, after LLVM's passes if they shall run."""
    prepared = _verified(text_of(module, cpu, triple))
    if _OPTIMISED in module:
        options = llvm.create_pipeline_tuning_options(speed_level=2)
        options.loop_vectorization = True
        options.slp_vectorization = len(module) < LONG  # it looks at every pair of stores
        options.loop_interleaving = options.loop_unrolling = True
        builder = llvm.create_pass_builder(_target_machine(cpu, triple), options)
        builder.getModulePassManager().run(prepared, builder)
    return prepared


def object_code(module: str, cpu: str = "", triple: str = "", level: int = GOOD) -> bytes:
    """The object file of a module. Not for two threads at once."""
    return bytes(_target_machine(cpu, triple, _level(module, level)).emit_object(_prepared(module, cpu, triple)))


def optimised(module: str, cpu: str = "", triple: str = "") -> str:
    """A module after LLVM's passes."""
    return str(_prepared(module, cpu, triple))


def assembly(module: str, cpu: str = "", triple: str = "") -> str:
    """The assembly of a module."""
    return str(_target_machine(cpu, triple, _level(module, GOOD)).emit_assembly(_prepared(module, cpu, triple)))


def _level(module: str, level: int) -> int:
    return BEST if _OPTIMISED in module and level == GOOD else level


@cache
def _linker() -> Any:
    _target_machine("", "")  # initialises LLVM
    return llvm.create_lljit_compiler(use_jit_link=True)


def linked(code: bytes, name: str) -> tuple[int, object]:
    """The address of a function in an object file, and what keeps it in memory."""
    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol(name)
    library = builder.link(_linker(), f"code{next(_numbers)}")
    return library[name], library
