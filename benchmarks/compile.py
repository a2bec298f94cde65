"""How long code takes to make and to find again. Out: a table and JSON.

    python -m benchmarks.compile [--repeat 15]

A kernel of 30 operators, 6 of them transcendental, and smaller ones: the first time (emit, parse, verify, generate,
link), and from disk in a new process (from the call to its end, with all that a process does once; imports aside).
Times are of this thread's CPU, the best of the repeats: other programs on the machine are not counted. Below, what
other settings of LLVM would cost, and how the code they give runs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from tilewise.backend.llvm.compile import compiler, linker
from tilewise.backend.llvm.compile.build import _SIGNATURE
from tilewise.backend.llvm.compile.cpu import host_machine
from tilewise.backend.llvm.emit.frame import Spec
from tilewise.backend.llvm.loops import forms
from tilewise.kernel.loops import Instr, Kernel, Output

RESULTS = Path(__file__).parent / "results" / "compile.json"
F = "float64"
MATH = ("exp", "log", "erf", "sin", "tanh", "log1p")
GOAL_FIRST_MS, GOAL_DISK_MS = 30.0, 3.0
SETTINGS: dict[str, dict[str, Any]] = {
    "as used": {},
    "opt 1": {"opt": 1},
    "opt 3": {"opt": 3},
    "opt 0": {"opt": 0},
    "large code model": {"reloc": "default", "codemodel": "large"},
}
IN_A_NEW_PROCESS = """
import json, sys, time
import numpy as np
from benchmarks.compile import kernel
from tilewise.backend import llvm
made = kernel(int(sys.argv[1]), int(sys.argv[2]))
x = np.full(100, 0.5)
started, began = time.perf_counter(), time.thread_time()
llvm.compile(made)((100,), [x, x, x], [], [np.empty(100)])
print(json.dumps([(time.thread_time() - began) * 1e3, (time.perf_counter() - started) * 1e3]))
"""


def kernel(operators: int, heavy: int) -> Kernel:
    """A chain of operators; the heavy ones are spread over it."""
    body: list[Instr] = []
    value, every = 0, operators // heavy if heavy else operators + 1
    for k in range(1, operators + 1):
        if k % every == 0:
            body.append(Instr(MATH[k // every - 1], (value,), F))
        else:
            fn, other = (("multiply", 1), ("add", 2), ("subtract", 0), ("multiply", 1))[k % 4]
            body.append(Instr(fn, (value, other), F))
        value = 3 + len(body) - 1
    return Kernel((F, F, F), (), tuple(body), (Output(value),), (False,))


def best(work: Callable[[], Any], repeat: int) -> tuple[float, Any]:
    """The least CPU time in ms, and the last result."""
    least = float("inf")
    for _ in range(repeat):
        began = time.thread_time()
        result = work()
        least = min(least, time.thread_time() - began)
    return least * 1e3, result


def steps(made: Kernel, repeat: int) -> dict[str, float]:
    """Each step of compiling alone."""
    spec = Spec("map", 1, ("unit",) * 4, host_machine())
    out: dict[str, float] = {}
    out["emit"], function = best(lambda: forms.build(made, spec, "kernel"), repeat)
    text = compiler.text_of(function.module())
    out["parse"], module = best(lambda: llvm.parse_assembly(text), repeat)
    out["verify"], _ = best(module.verify, repeat)
    target = compiler._target_machine("", "")
    both, code = best(lambda: target.emit_object(llvm.parse_assembly(text)), repeat)
    out["generate"] = both - out["parse"]
    out["link"], _ = best(lambda: linker.linked(code, "kernel"), repeat)
    out["first"] = sum(out.values())
    return out


def from_disk(operators: int, heavy: int, repeat: int) -> tuple[float, float]:
    """Least CPU and wall time in new processes, after one that compiled."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TILEWISE_CACHE_DIR": folder}
        for _ in range(repeat + 1):
            command = [sys.executable, "-c", IN_A_NEW_PROCESS, str(operators), str(heavy)]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            found.append(json.loads(done.stdout))
    return min(cpu for cpu, _ in found[1:]), min(wall for _, wall in found[1:])


def settings(repeat: int) -> list[dict[str, Any]]:
    """Compile and run times under other settings of LLVM, in turns."""
    n = 20_000
    made, spec = kernel(30, 6), Spec("map", 1, ("unit",) * 4, host_machine())
    arrays = [np.random.default_rng(k).random(n) * 0.9 + 0.05 for k in range(3)] + [np.empty(n)]
    objs = b"".join(id(a).to_bytes(8, "little") for a in arrays)
    geom = b"".join(v.to_bytes(8, "little") for v in (0, 0, 0, 0, n, 8, 8, 8, 8))
    text = compiler.text_of(forms.build(made, spec, "kernel").module())
    triple, features = llvm.get_process_triple(), llvm.get_host_cpu_features().flatten()
    rows, codes = [], []
    for name, changes in SETTINGS.items():
        options = {**compiler._MODEL, "opt": compiler.GOOD, **changes}
        cpu = llvm.get_host_cpu_name()
        target = llvm.Target.from_triple(triple).create_target_machine(cpu=cpu, features=features, **options)
        compile_ms, code = best(lambda: target.emit_object(llvm.parse_assembly(text)), repeat)  # noqa: B023
        address, owner = compiler.linked(code, "kernel")
        codes.append((_SIGNATURE(address), owner))
        rows.append({"setting": name, "compile_ms": compile_ms, "bytes": len(code), "ns_per_element": float("inf")})
    for _ in range(10 * repeat):
        for row, (call, _) in zip(rows, codes, strict=True):
            began = time.thread_time()
            call(objs, geom)
            row["ns_per_element"] = min(row["ns_per_element"], (time.thread_time() - began) * 1e9 / n)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    print("operators, heavy     emit   parse  verify generate    link | first ms, disk ms (wall)")
    for operators, heavy in ((1, 0), (10, 0), (30, 0), (30, 1), (30, 6)):
        found = steps(kernel(operators, heavy), options.repeat)
        found["disk"], found["disk_wall"] = from_disk(operators, heavy, options.repeat)
        rows.append({"operators": operators, "heavy": heavy, "ms": found})
        shown = " ".join(f"{found[step]:7.2f}" for step in ("emit", "parse", "verify", "generate", "link"))
        last = f"{found['first']:8.1f} {found['disk']:8.2f} ({found['disk_wall']:.2f})"
        print(f"{operators:9}, {heavy:5} {shown} | {last}", flush=True)
    ms = rows[-1]["ms"]
    print(f"goals: {GOAL_FIRST_MS:.0f} the first time, {GOAL_DISK_MS:.0f} from disk:", end=" ")
    print("met" if ms["first"] <= GOAL_FIRST_MS and ms["disk"] <= GOAL_DISK_MS else "NOT met")
    print(f"\n{'setting of LLVM':<18} compile ms    bytes  ns/element")
    for row in settings(options.repeat):
        rows.append(row)
        print(
            f"{row['setting']:<18} {row['compile_ms']:10.1f} {row['bytes']:8} {row['ns_per_element']:11.2f}", flush=True
        )
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
