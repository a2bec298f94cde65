"""Ordinary scripts, with only the import changed: whole processes and repeats beside NumPy's. Out: a table and JSON.

    python -m benchmarks.scripts [--rounds 5] [--seconds 2] [--sizes small,large] [name ...]

Each script of `nine/` runs as a process of its own with NumPy, with Tilewise and an empty code cache, and with Tilewise
and the code cache that this left, turn by turn; times are the best of the rounds, from the start of the process to its
end (and of CPU, without the compiler's own process), memory is the peak that the system counted for it. Then the same
script runs again and again in one process, with NumPy and Tilewise in turns. What it prints must be what it prints with
NumPy, to the last digits but one, and what it returns must be near. "!" marks what misses its goal.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
RESULTS = HERE.parent / "results" / "scripts.json"
PLAIN, CHANGED = "import numpy as np", "import tilewise as np"
SMALL_BEYOND_S = 0.25  # what a small script may take beyond NumPy's whole process
EMPTY_RATIO, WARM_RATIO, BEYOND_MB = 1.2, 1.0, 30.0  # of a large script
SMALL_SPEED, TINY_SPEED, LARGE_SPEED = 0.8, 0.6, 1.0  # again and again, of NumPy's speed
SPEEDS = {("life", "large"): 3.0}
TINY = ("options", "nbody", "pca_kmeans", "heat", "fft_filter", "regression", "life")  # < 10,000


@dataclass
class Process:
    """The best of some runs of a process."""

    seconds: float = float("inf")
    cpu_s: float = float("inf")  # of all its threads; says more than the time where others use the machine, too
    mb: float = float("inf")
    printed: str = ""


@dataclass
class Row:
    script: str
    size: str
    numpy: Process = field(default_factory=Process)
    empty: Process = field(default_factory=Process)
    warm: Process = field(default_factory=Process)
    again_numpy_s: float = float("nan")
    again_s: float = float("nan")
    wrong: str = ""

    @property
    def speed(self) -> float:
        return self.again_numpy_s / self.again_s

    def missed(self) -> dict[str, bool]:
        """Which goals are missed."""
        if self.size == "small":
            limit = self.numpy.seconds + SMALL_BEYOND_S
            empty, warm = self.empty.seconds > limit, self.warm.seconds > limit
            memory = False
            goal = TINY_SPEED if self.script in TINY else SMALL_SPEED
        else:
            empty = self.empty.seconds > EMPTY_RATIO * self.numpy.seconds
            warm = self.warm.seconds > WARM_RATIO * self.numpy.seconds
            memory = max(self.empty.mb, self.warm.mb) > self.numpy.mb + BEYOND_MB
            goal = SPEEDS.get((self.script, self.size), LARGE_SPEED)
        return {"empty": empty, "warm": warm, "memory": memory, "again": self.speed < goal}


def run(command: list[str], into: Process, environment: dict[str, str]) -> None:
    """Run a process to its end. This process stays small: the system counts its pages for its children, too."""
    began = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert child.stdout is not None
    printed = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - began
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {child.returncode}")
    into.seconds, into.mb = min(into.seconds, seconds), min(into.mb, usage.ru_maxrss / 1024)
    into.cpu_s = min(into.cpu_s, usage.ru_utime + usage.ru_stime)
    into.printed = printed


def near(one: str, other: str) -> bool:
    """Whether two texts have the same words, and numbers that differ in the last digits at most."""

    def parts(text: str) -> tuple[list[str], list[float]]:
        return re.split(r"[-\d.e]+", text), [float(x) for x in re.findall(r"-?\d+\.?\d*", text)]

    words, numbers = parts(one)
    others, expected = parts(other)
    return words == others and all(
        abs(x - y) <= 2e-5 * max(1.0, abs(y)) for x, y in zip(numbers, expected, strict=True)
    )


def measured(name: str, size: str, rounds: int, seconds: float, folder: Path) -> Row:
    """One row of the table."""
    row = Row(name, size)
    source = HERE / "nine" / f"{name}.py"
    changed = folder / f"{name}.py"
    text = source.read_text()
    assert PLAIN in text, f"{source} has no line {PLAIN}"
    changed.write_text(text.replace(PLAIN, CHANGED))
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    base = {**os.environ, "PYTHONPATH": path}
    base.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    for k in range(rounds):
        environment = {**base, "TILEWISE_CACHE_DIR": str(folder / f"cache-{name}-{size}-{k}")}
        run([sys.executable, str(source), size], row.numpy, base)
        run([sys.executable, str(changed), size], row.empty, environment)
        for _ in range(2):  # what was learnt in the background of the first is there from the second on
            run([sys.executable, str(changed), size], row.warm, environment)
    for process in (row.empty, row.warm):
        if not near(process.printed, row.numpy.printed):
            row.wrong = f"prints {process.printed!r}, not {row.numpy.printed!r}"
    command = [sys.executable, "-m", "benchmarks.scripts.again", name, size, str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, env=base, cwd=ROOT)
    if done.returncode:
        row.wrong = row.wrong or done.stderr.strip().splitlines()[-1]
    else:
        found = json.loads(done.stdout)
        row.again_numpy_s, row.again_s, row.wrong = found["numpy"], found["tilewise"], row.wrong or found["wrong"]
    return row


HEADING = (
    f"{'script':<16}{'size':<6}{'numpy s':>9}{'empty':>8}{'ratio':>7} {'warm':>8}{'ratio':>7} "
    f"{'CPU s':>8}{'empty':>7}{'warm':>7}"
    f"{'numpy MB':>10}{'empty':>7}{'warm':>7} {'numpy ms':>10}{'again':>9}{'speed':>7}"
)


def line(row: Row) -> str:
    """A row as text."""
    mark = {goal: "!" if missed else " " for goal, missed in row.missed().items()}
    plain = row.numpy.seconds
    return (
        f"{row.script:<16}{row.size:<6}{plain:>9.3f}"
        f"{row.empty.seconds:>8.3f}{row.empty.seconds / plain:>7.2f}{mark['empty']}"
        f"{row.warm.seconds:>8.3f}{row.warm.seconds / plain:>7.2f}{mark['warm']}"
        f"{row.numpy.cpu_s:>8.2f}{row.empty.cpu_s:>7.2f}{row.warm.cpu_s:>7.2f}"
        f"{row.numpy.mb:>10.0f}{row.empty.mb:>7.0f}{row.warm.mb:>7.0f}{mark['memory']}"
        f"{row.again_numpy_s * 1e3:>10.2f}{row.again_s * 1e3:>9.2f}{row.speed:>7.2f}{mark['again']}"
        + (f"\n    {row.wrong}" if row.wrong else "")
    )


def names() -> list[str]:
    """The scripts there are."""
    return sorted(path.stem for path in (HERE / "nine").glob("*.py") if path.stem != "__init__")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="scripts (all of them)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="time for the repeats in one process")
    parser.add_argument("--sizes", default="small,large")
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    rows = []
    print(HEADING)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # the compiler may still write to it
        for name in options.names or names():
            for size in options.sizes.split(","):
                rows.append(measured(name, size, options.rounds, options.seconds, Path(folder)))
                print(line(rows[-1]), flush=True)
    goals = [missed for row in rows for missed in row.missed().values()]
    wrong = [row.script for row in rows if row.wrong]
    print(f"{goals.count(False)} of {len(goals)} goals met; wrong: {', '.join(wrong) or 'none'}")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    content = [{**asdict(row), "speed": row.speed, "missed": row.missed()} for row in rows]
    options.json.write_text(json.dumps(content, indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
