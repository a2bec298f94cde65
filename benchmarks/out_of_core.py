"""Data larger than memory: a file standardised, reduced, multiplied, sorted within memory=. Out: a table and JSON.

    python -m benchmarks.out_of_core [--gib 4] [--memory 512MiB] [--only name,…] [--folder …] [--output …]

Every run is a process of its own, so that its anonymous memory can be told apart (files in the system's cache are not
counted). `read` is a plain read of the same file by four threads, by which goals are set: 70 % of its speed for each
pass over the file, and a peak of 1.2 times the memory allowed. Dask computes the same from a memory map in chunks
of an eighth of the memory, with as many threads. Before each run the file is dropped from the system's cache, if the
system lets us.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).resolve().parent / "results" / "out_of_core.json"
COLUMNS = 128
MIB = 1 << 20


def standardise(np: Any, x: Any) -> Any:
    """Two passes over the file, and a row of results."""
    return ((x - x.mean(0)) / x.std(0)).max(0)


def total(np: Any, x: Any) -> Any:
    """One pass."""
    return x.sum(0)


def gram(np: Any, x: Any) -> Any:
    """One pass, a product of each block."""
    return x.T @ x


def gradient(np: Any, x: Any) -> Any:
    """The gradient of a logistic regression."""
    w = np.linspace(-0.01, 0.01, COLUMNS)
    return x.T @ (1 / (1 + np.exp(-(x @ w))))


def sort(np: Any, x: Any) -> Any:
    """All elements in order, of which some are looked at."""
    return np.sort(x.ravel())


def scaled(np: Any, x: Any) -> Any:
    """A result as large as the file."""
    return x * 2.0 + 1.0


PROGRAMS: dict[str, tuple[Callable[[Any, Any], Any], int]] = {  # with passes over the file
    "sum": (total, 1),
    "standardise": (standardise, 2),
    "gram": (gram, 1),
    "gradient": (gradient, 1),
    "sort": (sort, 1),
    "scaled": (scaled, 1),
}


class Peak:
    """The most anonymous memory of this process while it is open, above what it had before."""

    def __enter__(self) -> Peak:
        self.before = self.most = anonymous()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._done.wait(0.01):
            self.most = max(self.most, anonymous())

    def __exit__(self, *error: Any) -> None:
        self._done.set()
        self._thread.join()

    @property
    def bytes(self) -> int:
        """Above what was there before."""
        return self.most - self.before


def anonymous() -> int:
    """Anonymous memory of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def cold(path: str) -> None:
    """Drop a file from the system's cache."""
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(handle)


def make(path: Path, gib: float) -> None:
    """A file of random numbers."""
    rows = int(gib * (1 << 30)) // (8 * COLUMNS)
    out = np.lib.format.open_memmap(path, mode="w+", dtype="f8", shape=(rows, COLUMNS))
    rng, step = np.random.default_rng(0), 32 * MIB // (8 * COLUMNS)
    part = rng.random((step, COLUMNS)) + np.arange(COLUMNS)
    for at in range(0, rows, step):
        out[at : at + step] = np.roll(part[: rows - at], at % 1021, axis=0) + at / rows
    out.flush()


def plain_read(path: str) -> None:
    """Read a file by four threads, 8 MiB at a time."""
    size, step = os.path.getsize(path), 8 * MIB
    buffers = [bytearray(step) for _ in range(4)]

    def one(k: int) -> None:
        handle = os.open(path, os.O_RDONLY)
        for at in range(k * step, size, 4 * step):
            os.preadv(handle, [buffers[k]], at)
        os.close(handle)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(one, range(4)))


def run_one(kind: str, name: str, path: str, memory: str) -> dict[str, Any]:
    """One run in this process: seconds, peak, some of the result."""
    cold(path)
    if kind == "read":
        began = time.perf_counter()
        plain_read(path)
        return {"seconds": time.perf_counter() - began}
    program = PROGRAMS[name][0]
    if kind == "tilewise":
        import tilewise as tw

        with tw.session(memory=memory) as session:
            warm = np.random.default_rng(1).random((20_000, COLUMNS))
            tw.evaluate(program(tw, tw.asarray(warm)))  # what is compiled once is no part of reading a file
            with Peak() as peak:
                began = time.perf_counter()
                got = program(tw, tw.asarray(np.load(path, mmap_mode="r")))
                tw.evaluate(got)
                seconds = time.perf_counter() - began
            disk = session.disk
            shown = np.asarray(got[:4] if got.ndim else got)
            assert disk.read_bytes == disk.predicted_read_bytes, "bytes read differ from those announced"
        more = {"read": disk.read_bytes, "spilled": disk.spilled_bytes, "blocks": disk.blocks, "held": disk.peak_bytes}
        return {"seconds": seconds, "peak": peak.bytes, "sum": float(np.abs(shown).sum()), **more}
    import dask
    import dask.array as da

    x = np.load(path, mmap_mode="r")
    rows = max(byte_count(memory) // 8 // (8 * COLUMNS), 1)
    with Peak() as peak, dask.config.set(scheduler="threads", num_workers=os.cpu_count()):
        began = time.perf_counter()
        lazy = program(da, da.from_array(x, chunks=(rows, COLUMNS)))
        if name == "scaled":
            target = np.lib.format.open_memmap(f"{path}.dask.npy", mode="w+", dtype="f8", shape=x.shape)
            da.store(lazy, target, lock=False)
            shown = np.asarray(target[:4])
            os.unlink(f"{path}.dask.npy")
        else:
            shown = np.asarray(lazy.compute())
            shown = shown[:4] if shown.ndim else shown
        seconds = time.perf_counter() - began
    return {"seconds": seconds, "peak": peak.bytes, "sum": float(np.abs(shown).sum())}


def byte_count(memory: str) -> int:
    """Bytes from "512MiB"."""
    from tilewise.config import parse_bytes

    return parse_bytes(memory)


def apart(kind: str, name: str, path: str, memory: str) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.out_of_core", "--run", kind, name, path, memory]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1:]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Make a file, run every program in turns, write JSON."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--gib", type=float, default=4.0)
    options.add_argument("--memory", default="512MiB")
    options.add_argument("--only", default="sum,standardise,gram,gradient,scaled")
    options.add_argument("--folder", default=None)
    options.add_argument("--without", default="", help="kinds to leave out: dask")
    options.add_argument("--output", type=Path, default=RESULTS)
    options.add_argument("--run", nargs=4, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.run:
        print(json.dumps(run_one(*given.run)))
        return
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        path = Path(folder) / "x.npy"
        make(path, given.gib)
        heads = ("read s", "tilewise s", "of read", "peak / memory", "dask s", "dask / us", "read GiB", "spilled")
        print(f"{given.gib} GiB within {given.memory}")
        print(f"{'program':12}", *(f"{h:>13}" for h in heads))
        for name in given.only.split(","):
            row: dict[str, Any] = {"name": name}
            for kind in ("read", "tilewise", *(("dask",) if "dask" not in given.without and name != "sort" else ())):
                row[kind] = apart(kind, name, str(path), given.memory)
            rows.append(row)
            print(_line(row, byte_count(given.memory)), flush=True)
    given.output.parent.mkdir(parents=True, exist_ok=True)
    head = {"machine": platform.processor() or platform.machine(), "cores": os.cpu_count(), "gib": given.gib}
    given.output.write_text(json.dumps({**head, "memory": given.memory, "rows": rows}, indent=1) + "\n")


def _line(row: dict[str, Any], memory: int) -> str:
    ours, read, dask = row["tilewise"], row["read"], row.get("dask", {})
    if "error" in ours:
        return f"{row['name']:12} {ours['error']}"
    share = PROGRAMS[row["name"]][1] * read["seconds"] / ours["seconds"]
    numbers = [read["seconds"], ours["seconds"], share, ours["peak"] / memory]
    numbers += [dask["seconds"], dask["seconds"] / ours["seconds"]] if "seconds" in dask else [float("nan")] * 2
    numbers += [ours[k] / (1 << 30) for k in ("read", "spilled")]
    return " ".join([f"{row['name']:12}", *(f"{x:13.2f}" for x in numbers)])


if __name__ == "__main__":
    main()
