"""`python -m tests.numpy_suite`: the tests that come with the installed NumPy, with Tilewise in NumPy's place.

    python -m tests.numpy_suite [core/test_numeric lib/test_nanfunctions ...] [--eager BYTES] [--native] [--details]

Copies of the files import our names. Prints counts for each file, each failure that `known.txt` does not explain, and
each line of `known.txt` that explains none any more; ends with 1 if there is either.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy

HERE = Path(__file__).parent
KNOWN = HERE / "known.txt"
FILES = [f"core/test_{n}" for n in "multiarray numeric ufunc umath indexing item_selection einsum".split()]
FILES += [f"core/test_{n}" for n in "function_base array_coercion shape_base scalarmath mem_overlap half".split()]
FILES += ["core/test_nep50_promotions", "core/test_protocols", "linalg/test_linalg"]
FILES += ["fft/test_helper", "fft/test_pocketfft"]
FILES += [f"lib/test_{n}" for n in "function_base shape_base twodim_base nanfunctions arraysetops".split()]
FILES += [f"lib/test_{n}" for n in "stride_tricks arraypad histograms index_tricks packbits polynomial".split()]
FILES += ["lib/test_type_check", "lib/test_ufunclike"]
EDITS = (  # public names become ours; private modules stay NumPy's
    (r"^( *)import numpy as np$", r"\1import numpy\n\1import tilewise as np"),
    (r"^( *)from numpy import ", r"\1from tilewise import "),
    (r"^( *)from numpy\.(testing|linalg|random|lib|lib\.stride_tricks) import ", r"\1from tilewise.\2 import "),
    (r"^from numpy\._core import \(\n    arange,", r"from tilewise import (\n    arange,"),
    (r"^from numpy\._core import swapaxes$", r"from tilewise import swapaxes"),
    (r"\bnp\._core\b", "numpy._core"),
    (r"_UFUNCS\.remove\(np\.", "_UFUNCS.remove(numpy."),
    (r"\bnp\.__config__", "numpy.__config__"),
)
Outcomes = dict[str, list[str]]


def copy(name: str, folder: Path) -> Path:
    """A copy of a file of NumPy's tests that imports our names."""
    part, _, file = name.partition("/")
    home = Path(numpy.__file__).parent / ("_core" if part == "core" else part) / "tests"
    text = (home / f"{file}.py").read_text()
    for old, new in EDITS:
        text = re.sub(old, new, text, flags=re.MULTILINE)
    target = folder / f"{part}_{file}.py"
    target.write_text(text)
    return target


def outcomes(name: str, eager: int, native: bool, chosen: str) -> Outcomes:
    """What became of each test of a file."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        target = folder / "outcomes.json"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.numpy_suite.plugin", "-p", "no:cacheprovider"]
        command += ["-p", "no:xdist", "-c", os.devnull, "--rootdir", temporary, "--tb=short", "-W", "ignore"]
        command += ["-o", "python_files=*.py", *(["-k", chosen] if chosen else [])]
        environment = os.environ | {
            "NUMPY_SUITE_OUTCOMES": str(target),
            "NUMPY_SUITE_EAGER": str(eager),
            "NUMPY_SUITE_NATIVE": str(int(native)),
            "PYTHONPATH": os.pathsep.join([str(Path.cwd()), os.environ.get("PYTHONPATH", "")]),
        }
        done = subprocess.run(
            [*command, str(copy(name, folder))], env=environment, cwd=temporary, stdout=subprocess.DEVNULL, check=False
        )
        lines = target.read_text().splitlines() if target.exists() else []
        if done.returncode not in (0, 1):
            lines.append(json.dumps([f"{name}.py", "failed", f"E pytest ended with {done.returncode}"]))
        return {test: [outcome, cause] for test, outcome, cause in map(json.loads, lines)}


def known() -> dict[str, str]:
    """Why tests fail that we know of: by their ids, of all parameters where none are named."""
    reasons, reason = {}, ""
    for line in KNOWN.read_text().splitlines():
        if line.startswith("#"):
            reason = line[1:].strip()
        elif line.strip():
            reasons[line.strip()] = reason
    return reasons


def explanation(test: str, reasons: dict[str, str]) -> str | None:
    """The line of known.txt that a failure belongs to."""
    return next((line for line in (test, test.partition("[")[0]) if line in reasons), None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="such as core/test_numeric; all if there are none")
    parser.add_argument("--eager", type=int, default=0, help="bytes below which work is done at once (0: none)")
    parser.add_argument("--native", action="store_true", help="compile kernels, which takes most of the time")
    parser.add_argument("-k", default="", help="only tests that this expression of pytest's names")
    parser.add_argument("--details", action="store_true", help="print the ends of the tracebacks, too")
    options = parser.parse_args()
    reasons, wrong = known(), False
    for name in options.files or FILES:
        found = outcomes(name, options.eager, options.native, options.k)
        counts = Counter(outcome for outcome, _ in found.values())
        failed = {test: cause for test, (outcome, cause) in found.items() if outcome == "failed"}
        lines = {test: explanation(test, reasons) for test in failed}
        new = [test for test, line in lines.items() if line is None]
        print(f"{name}: {counts['passed']} passed, {counts['skipped']} skipped, {len(failed)} failed, {len(new)} new")
        for test in new:
            last = [line for line in failed[test].splitlines() if line.startswith("E ")][-1:] or [""]
            print(failed[test] if options.details else "", f"  {test}\n      {last[0][:160]}".lstrip("\n"))
        here = [line for line in reasons if line.startswith(f"{name.replace('/', '_')}.py::")]
        gone = [line for line in here if line not in lines.values()] if not options.k and not options.eager else []
        for line in gone:
            print(f"  passes now, so known.txt need not name it: {line}")
        wrong |= bool(new or gone)
        sys.stdout.flush()
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
