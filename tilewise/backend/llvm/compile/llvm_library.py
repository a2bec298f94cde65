"""LLVM's library without llvmlite's modules. In: a module's text. Out: object code, the same as compiler.py's.

For the compiler's own process (server.py), whose start a program waits for when nothing is on disk: llvmlite's modules
take 60 ms to load, its library 7. The functions are called as llvmlite calls them, which may change from version to
version: `usable` is true for those that were tried (tests/kernel/test_server.py), and server.py has compiler.py for
all others. Imports nothing of ours, and little of the standard library.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_void_p

TYPE_CHECKING = False  # `typing` takes 4 ms to load
if TYPE_CHECKING:
    from typing import Any

VERSIONS = ("0.50.",)  # how the versions of llvmlite begin whose library is called as below
QUICK, GOOD = 0, 2  # levels of LLVM's code generator; these and the next three lines are compiler.py's
JUMPS_TORN = (b"skylake", b"skylake-avx512", b"cascadelake")
JUMPS_WHOLE = b"-x86-branches-within-32B-boundaries"
_RELOCATION, _CODE_MODEL = b"pic", b"small"
WITHOUT_SLOWEST = b"-disable-lsr"
_TEXT = POINTER(c_char_p)
_SIGNATURES: dict[str, tuple[Any, ...]] = {  # what a function gives, and takes
    "InitializeNativeTarget": (None,),
    "InitializeNativeAsmPrinter": (None,),
    "GetProcessTriple": (None, _TEXT),
    "GetHostCPUName": (None, _TEXT),
    "GetHostCPUFeatures": (c_int, _TEXT),
    "GetTargetFromTriple": (c_void_p, c_char_p, _TEXT),
    "CreateTargetMachine": (c_void_p, c_void_p, *[c_char_p] * 3, c_int, *[c_char_p] * 2, c_int, c_int, c_char_p),
    "GetTargetMachineTriple": (None, c_void_p, _TEXT),
    "CreateTargetMachineData": (c_void_p, c_void_p),
    "CopyStringRepOfTargetData": (None, c_void_p, _TEXT),
    "DisposeTargetData": (None, c_void_p),
    "ContextCreate": (c_void_p,),
    "ParseAssembly": (c_void_p, c_void_p, c_char_p, _TEXT),
    "VerifyModule": (ctypes.c_bool, c_void_p, _TEXT),
    "DisposeModule": (None, c_void_p),
    "TargetMachineEmitToMemory": (c_void_p, c_void_p, c_void_p, c_int, _TEXT),
    "GetBufferStart": (c_void_p, c_void_p),
    "GetBufferSize": (c_size_t, c_void_p),
    "DisposeMemoryBuffer": (None, c_void_p),
    "DisposeString": (None, c_char_p),
    "SetCommandLine": (None, c_char_p, c_char_p),
}


def usable(packages: str) -> bool:
    """Whether the llvmlite in a folder of packages is one whose library is known here."""
    try:
        with open(os.path.join(packages, "llvmlite", "_version.py")) as file:
            version = file.read().partition("version_version = '")[2]
    except OSError:
        return False
    return version.startswith(VERSIONS)


class Library:
    """LLVM for this machine, for one thread at a time.

    Raises OSError or AttributeError where the library or a function is missing.
    """

    QUICK, GOOD = QUICK, GOOD

    def __init__(self, packages: str) -> None:
        self._packages = packages
        library = ctypes.CDLL(os.path.join(packages, "llvmlite", "binding", "libllvmlite.so"))
        self._call: dict[str, Any] = {}
        for name, (result, *arguments) in _SIGNATURES.items():
            function = self._call[name] = getattr(library, f"LLVMPY_{name}")
            function.restype, function.argtypes = result, arguments
        self._machines: dict[tuple[str, int], tuple[Any, bytes]] = {}
        self._call["InitializeNativeTarget"]()
        self._call["InitializeNativeAsmPrinter"]()
        if self._said("GetHostCPUName")[1] in JUMPS_TORN:
            self._call["SetCommandLine"](b"", JUMPS_WHOLE)
        self._context = self._call["ContextCreate"]()

    def another(self) -> Library:
        """The same for another thread: nothing of it is shared."""
        return Library(self._packages)

    def ready(self) -> None:
        """Make what the first compilations need."""
        self._machine("", QUICK)
        self._machine("", GOOD)

    def skip_slowest_pass(self) -> None:
        """Leave loop strength reduction out, for good: half of the time of good code, which runs as fast as a rule."""
        self._call["SetCommandLine"](b"", WITHOUT_SLOWEST)

    def object_code(self, module: str, cpu: str = "", level: int = GOOD) -> bytes:
        """The object file of a module on which none of LLVM's passes shall run. Raises RuntimeError."""
        machine, head = self._machine(cpu, level)
        parsed, wrong = self._said("ParseAssembly", self._context, head + module.encode())
        if wrong:
            raise RuntimeError(f"LLVM IR parsing error\n{wrong.decode()}")
        try:
            failed, wrong = self._said("VerifyModule", parsed)
            if failed:
                raise RuntimeError(wrong.decode())
            memory, wrong = self._said("TargetMachineEmitToMemory", machine, parsed, 1)
        finally:
            self._call["DisposeModule"](parsed)
        if not memory:
            raise RuntimeError(wrong.decode())
        code = ctypes.string_at(self._call["GetBufferStart"](memory), self._call["GetBufferSize"](memory))
        self._call["DisposeMemoryBuffer"](memory)
        return code

    def _said(self, name: str, *arguments: Any) -> tuple[Any, bytes]:
        """What a function gives, and the text that it writes."""
        text = c_char_p()
        found = self._call[name](*arguments, byref(text))
        value = text.value or b""
        if text:
            self._call["DisposeString"](text)
        return found, value

    def _machine(self, cpu: str, level: int) -> tuple[Any, bytes]:
        """LLVM's description of a CPU ("": this one), and the lines at the head of a module for it."""
        if (cpu, level) in self._machines:
            return self._machines[cpu, level]
        name = cpu.encode() or self._said("GetHostCPUName")[1]
        listed = b"" if cpu else self._said("GetHostCPUFeatures")[1]
        flags: list[bytes] = sorted((flag for flag in listed.split(b",") if flag), key=lambda flag: flag[1:])
        triple = self._said("GetProcessTriple")[1]
        target, wrong = self._said("GetTargetFromTriple", triple)
        if not target:
            raise RuntimeError(wrong.decode())
        options = (level, _RELOCATION, _CODE_MODEL, 0, 0, b"")
        machine = self._call["CreateTargetMachine"](target, triple, name, b",".join(flags), *options)
        if not machine:
            raise RuntimeError(f"LLVM cannot make code for {name.decode()}")
        data = self._call["CreateTargetMachineData"](machine)
        layout = self._said("CopyStringRepOfTargetData", data)[1]
        self._call["DisposeTargetData"](data)
        made = self._said("GetTargetMachineTriple", machine)[1]
        head = b'target triple = "%s"\ntarget datalayout = "%s"\n' % (made, layout)
        self._machines[cpu, level] = machine, head
        return machine, head
