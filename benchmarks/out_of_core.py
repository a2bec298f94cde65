"""Data larger than memory: files standardised, reduced, multiplied, sorted within memory=. Out: a table and JSON.

    python -m benchmarks.out_of_core [--gib 4] [--memory 512MiB] [--kinds npy,zarr,hdf5] [--only name,…]
                                     [--beside dask,cubed,ray] [--repeat 1] [--folder …] [--output …] [--must-show]

`--must-show` runs the large cases, one after the other: 20 GB of each kind standardised and reduced within 2 GiB, a
product, a sort and k-means of 8 GB within 1 GiB, here and on two Ray workers (70 GB of disk, files go after each case).

Every run is a process of its own, so that its anonymous memory can be told apart (files in the system's cache are not
counted; of Ray, the memory of each worker's process). `read` is a plain read of the same files by four threads, by
which goals are set: 70 % of its speed for each pass over the file, and a peak of 1.2 times the memory allowed. Dask
computes the same in chunks of an eighth of the memory, with as many threads; Cubed (Zarr only) is allowed the memory.
`limit` is a yardstick of the same run, not a bound (a better BLAS or a quieter moment beats it): the longer one of the
plain read (of results that are stored: of a plain copy, brought to the disk) and of the arithmetic alone, by NumPy on
blocks that lie in memory, with all cores. Where it is arithmetic, the goal is 85 % of that. `direct` is the same with
a read (a copy) past the system's cache, aligned and by as many threads: what the disk itself can do.
Before each run the files are dropped from the system's cache. `disk` is what the system says was read and written.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

RESULTS = Path(__file__).resolve().parent / "results" / "out_of_core.json"
COLUMNS, WIDE = 128, 1024
CLUSTERS, STEPS = 8, 3  # of k-means
MIB = 1 << 20
YARDSTICKS = "read", "read direct", "copy", "copy direct"
FACTOR = np.arange(WIDE * WIDE).reshape(WIDE, WIDE) % 7 - 3.0


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


def k_means(np: Any, x: Any) -> Any:
    """Some steps of k-means: a pass over the file each."""
    c = np.asarray(np.linspace(0, 2, CLUSTERS)[:, None] + np.arange(COLUMNS))
    for _ in range(STEPS):
        near = ((c * c).sum(1) - 2 * (x @ c.T)).argmin(1)
        mine = (near[:, None] == np.arange(CLUSTERS)).astype("f8")
        c = (mine.T @ x) / (mine.sum(0)[:, None] + 1e-9)
        c = c.compute() if hasattr(c, "compute") and hasattr(c, "dask") else c  # Dask would do all steps anew
    return c


def product(np: Any, x: Any) -> Any:
    """A product as large as the file."""
    return x @ np.asarray(FACTOR)


def sort(np: Any, x: Any) -> Any:
    """All elements in order, of which some are looked at."""
    return np.sort(x.ravel())


def scaled(np: Any, x: Any) -> Any:
    """A result as large as the file."""
    return x * 2.0 + 1.0


class Program(NamedTuple):
    """What is computed, how often it reads the file, and whether its result is as large; products, for one block."""

    run: Callable[[Any, Any], Any]
    passes: int
    large: bool = False
    columns: int = COLUMNS
    arithmetic: Callable[[Any], Any] | None = None


PROGRAMS: dict[str, Program] = {
    "sum": Program(total, 1),
    "standardise": Program(standardise, 2),
    "gram": Program(gram, 1, arithmetic=lambda x: x.T @ x),
    "gradient": Program(gradient, 1),
    "k-means": Program(k_means, STEPS),
    "product": Program(product, 1, True, WIDE, lambda x: x @ FACTOR),
    "sort": Program(sort, 1, True),
    "scaled": Program(scaled, 1, True),
}
MUST_SHOW = [  # programs, kind, GB, memory
    (("sum", "standardise"), "npy", 20, "2GiB"),
    (("sum", "standardise"), "zarr", 20, "2GiB"),
    (("sum", "standardise"), "hdf5", 20, "2GiB"),
    (("product",), "npy", 8, "1GiB"),
    (("k-means", "sort"), "npy", 8, "1GiB"),
]


class Peak:
    """The most anonymous memory while it is open, above what was there before: of this process, or of some others."""

    def __init__(self, others: Callable[[], list[int]] = list) -> None:
        self._others = others

    def __enter__(self) -> Peak:
        self.before = {pid: anonymous(pid) for pid in self._watched()}
        self.most = dict(self.before)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watched(self) -> list[int]:
        return self._others() or [os.getpid()]

    def _watch(self) -> None:
        while not self._done.wait(0.02):
            for pid in self.before:
                self.most[pid] = max(self.most[pid], anonymous(pid))

    def __exit__(self, *error: Any) -> None:
        self._done.set()
        self._thread.join()

    @property
    def bytes(self) -> int:
        """Above what was there before, of the process with the most."""
        return max(self.most[pid] - self.before[pid] for pid in self.before)


def anonymous(pid: int) -> int:
    """Anonymous memory of a process."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:")), 0)


def disk_bytes(pids: list[int]) -> tuple[int, int]:
    """What processes have read from and written to disks, as the system counts it."""
    read = written = 0
    for pid in pids:
        try:
            found = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
        except OSError:
            continue
        read, written = read + int(found["read_bytes"]), written + int(found["write_bytes"])
    return read, written


def workers_of(session: Any) -> list[int]:
    """The processes of Ray workers."""
    import ray

    return [ray.get(actor.__ray_call__.remote(lambda self: os.getpid())) for actor in session.cluster.actors.values()]


# -- files -------------------------------------------------------------------------------------------------------------


def files_of(path: str) -> list[str]:
    """A file, or all files of a folder."""
    found = Path(path)
    return [str(p) for p in sorted(found.rglob("*")) if p.is_file()] if found.is_dir() else [path]


def cold(path: str) -> None:
    """Drop files from the system's cache."""
    for name in files_of(path):
        handle = os.open(name, os.O_RDONLY)
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def make(path: Path, kind: str, nbytes: int, columns: int) -> None:
    """An array of random numbers."""
    rows, step = nbytes // (8 * columns), 32 * MIB // (8 * columns)
    shape = rows, columns
    if kind == "npy":
        out: Any = np.lib.format.open_memmap(path, mode="w+", dtype="f8", shape=shape)
    elif kind == "zarr":
        import zarr

        out = zarr.create_array(path, shape=shape, dtype="f8", chunks=(step // 4, columns), compressors=None)
    else:
        import h5py

        file = h5py.File(path, "w")
        out = file.create_dataset("x", shape, "f8")
    part = np.random.default_rng(0).random((step, columns)) + np.arange(columns)
    for at in range(0, rows, step):
        out[at : at + step] = np.roll(part[: rows - at], at % 1021, axis=0) + at / rows
    if kind == "hdf5":
        file.close()
    elif kind == "npy":
        out.flush()
    os.sync()


def plain_read(path: str, flags: int = 0) -> None:
    """Read files by four threads, 8 MiB at a time."""
    step = 8 * MIB
    parts = [(name, at) for name in files_of(path) for at in range(0, os.path.getsize(name), step)]

    def some(k: int) -> None:
        buffer, handles = mmap.mmap(-1, step), dict[str, int]()
        for name, at in parts[k::4]:
            if name not in handles:
                for handle in handles.values():
                    os.close(handle)
                handles = {name: os.open(name, os.O_RDONLY | flags)}
            os.preadv(handles[name], [buffer], at)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(some, range(4)))


def plain_copy(path: str, target: str, flags: int = 0) -> None:
    """Copy the files into one by four threads, 8 MiB at a time, and bring it to the disk; whole pages each."""
    step, parts, total = 8 * MIB, list[tuple[str, int, int]](), 0
    for name in files_of(path):
        parts += [(name, at, total + at) for at in range(0, os.path.getsize(name), step)]
        total += -(-os.path.getsize(name) // mmap.PAGESIZE) * mmap.PAGESIZE
    out = os.open(target, os.O_WRONLY | os.O_CREAT | flags, 0o600)
    os.ftruncate(out, total)

    def some(k: int) -> None:
        buffer = mmap.mmap(-1, step)
        for name, at, to in parts[k::4]:
            handle = os.open(name, os.O_RDONLY | flags)
            got = -(-os.preadv(handle, [buffer], at) // mmap.PAGESIZE) * mmap.PAGESIZE
            os.close(handle)
            os.pwrite(out, memoryview(buffer)[:got], to)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(some, range(4)))
    os.fsync(out)
    os.close(out)


def arithmetic(program: Program, nbytes: int) -> float:
    """Seconds of a program's products alone, for a file of so many bytes."""
    assert program.arithmetic is not None
    block = np.random.default_rng(2).random((32 * MIB // (8 * program.columns), program.columns))
    program.arithmetic(block)
    seen = []
    for _ in range(max(nbytes // block.nbytes, 4)):
        began = time.perf_counter()
        program.arithmetic(block)
        seen.append(time.perf_counter() - began)
    return float(np.median(seen)) * (nbytes / block.nbytes)


# -- runs --------------------------------------------------------------------------------------------------------------


def run_one(kind: str, name: str, path: str, memory: str) -> dict[str, Any]:
    """One run in this process: seconds, peak, some of the result."""
    cold(path)
    if kind in YARDSTICKS:
        flags = os.O_DIRECT if kind.endswith("direct") else 0
        began, used = time.perf_counter(), time.process_time()
        if kind.startswith("copy"):
            plain_copy(path, f"{path}.copy.npy", flags)
        else:
            plain_read(path, flags)
        return {"seconds": time.perf_counter() - began, "processor": time.process_time() - used}
    if kind == "arithmetic":
        return {"seconds": arithmetic(PROGRAMS[name], sum(map(os.path.getsize, files_of(path))))}
    return {"tilewise": ours, "ray": ours, "dask": dask, "cubed": cubed}[kind](kind, PROGRAMS[name], path, memory)


def ours(kind: str, program: Program, path: str, memory: str) -> dict[str, Any]:
    """This package: here, or on two Ray workers."""
    import tilewise as tw

    where = {"engine": "ray", "workers": 2} if kind == "ray" else {}
    target = f"{path}.out.npy"
    warm = f"{path}.warm.npy"  # what is compiled once is no part of reading a file
    np.save(warm, np.random.default_rng(1).random((16 * MIB // (8 * program.columns), program.columns)))
    with tw.session(memory=f"{4 if program.columns == COLUMNS else 20}MiB"):
        small = program.run(tw, tw.open(warm))
        small.store(target) if program.large else tw.evaluate(small)
    with tw.session(memory=memory, **where) as session:
        pids = workers_of(session) if kind == "ray" else []
        before = disk_bytes(pids or [os.getpid()])
        with Peak(lambda: pids) as peak:
            began, used = time.perf_counter(), time.process_time()
            got = program.run(tw, tw.open(path, "x" if path.endswith(".h5") else None))
            if program.large:
                got.store(target, overwrite=True)
            else:
                tw.evaluate(got)
            seconds, used = time.perf_counter() - began, time.process_time() - used
        after = disk_bytes(pids or [os.getpid()])
        disk = session.disk
        assert disk.read_bytes == disk.predicted_read_bytes, "bytes read differ from those announced"
        shown = np.load(target, mmap_mode="r")[:4] if program.large else np.asarray(got)[:4]
        more = {"read": disk.read_bytes, "spilled": disk.spilled_bytes, "written": disk.written_bytes}
        more |= {"blocks": disk.blocks, "held": disk.peak_bytes, "processor": used}
        more |= {"network": session.cluster.counters.network_bytes} if session.cluster is not None else {}
    result = {"seconds": seconds, "peak": peak.bytes, "sum": float(np.abs(shown).sum()), **more}
    return result | {"disk": [b - a for a, b in zip(before, after, strict=True)]}


def dask(kind: str, program: Program, path: str, memory: str) -> dict[str, Any]:
    """Dask, with threads and chunks of an eighth of the memory."""
    import dask as library
    import dask.array as da

    rows = max(byte_count(memory) // 8 // (8 * program.columns), 1)
    target = f"{path}.dask.npy"
    before = disk_bytes([os.getpid()])
    with Peak() as peak, library.config.set(scheduler="threads", num_workers=os.cpu_count()):
        began = time.perf_counter()
        lazy = program.run(da, da.from_array(_opened(path), chunks=(rows, program.columns)))
        if program.large:
            out = np.lib.format.open_memmap(target, mode="w+", dtype="f8", shape=lazy.shape)
            da.store(lazy, out, lock=False)
            shown = np.asarray(out[:4])
        else:
            shown = np.asarray(lazy.compute() if hasattr(lazy, "compute") else lazy)[:4]
        seconds = time.perf_counter() - began
    return _beside(seconds, peak, shown, before)


def _opened(path: str) -> Any:
    if path.endswith(".npy"):
        return np.load(path, mmap_mode="r")
    if path.endswith(".zarr"):
        import zarr

        return zarr.open_array(path, mode="r")
    import h5py

    return h5py.File(path, "r")["x"]


def cubed(kind: str, program: Program, path: str, memory: str) -> dict[str, Any]:
    """Cubed, with threads; it stores what lies between its steps in Zarr arrays."""
    import cubed as library
    import cubed.array_api as xp

    assert path.endswith(".zarr"), "Cubed reads Zarr"
    with tempfile.TemporaryDirectory(dir=Path(path).parent) as folder:
        spec = library.Spec(work_dir=folder, allowed_mem=byte_count(memory), executor_name="threads")
        before = disk_bytes([os.getpid()])
        with Peak() as peak:
            began = time.perf_counter()
            lazy = program.run(_Functions(xp), _Reduced(library.from_zarr(path, spec=spec), xp))
            if program.large:
                library.to_zarr(lazy.array, f"{folder}/result.zarr")
                shown = np.asarray(_opened(f"{folder}/result.zarr")[:4])
            else:
                shown = np.asarray(lazy.array.compute())[:4]
            seconds = time.perf_counter() - began
    return _beside(seconds, peak, shown, before)


class _Functions:
    """Functions of the array API by NumPy's names, for programs written for NumPy."""

    def __init__(self, xp: Any) -> None:
        self._xp = xp

    def __getattr__(self, name: str) -> Any:
        if name in ("arange", "linspace", "asarray"):
            return getattr(np, name)
        return lambda x: x._of(getattr(self._xp, name)(x.array))


class _Reduced:
    """An array of the array API with NumPy's methods."""

    def __init__(self, array: Any, xp: Any) -> None:
        self.array, self._xp = array, xp

    def _of(self, made: Any) -> _Reduced:
        return _Reduced(made, self._xp)

    def __getattr__(self, name: str) -> Any:
        return lambda axis: self._of(getattr(self._xp, name)(self.array, axis=axis))

    def __sub__(self, other: Any) -> _Reduced:
        return self._of(self.array - getattr(other, "array", other))

    def __truediv__(self, other: Any) -> _Reduced:
        return self._of(self.array / getattr(other, "array", other))

    def __mul__(self, other: Any) -> _Reduced:
        return self._of(self.array * getattr(other, "array", other))

    def __add__(self, other: Any) -> _Reduced:
        return self._of(self.array + getattr(other, "array", other))

    def __radd__(self, other: Any) -> _Reduced:
        return self._of(other + self.array)

    def __rtruediv__(self, other: Any) -> _Reduced:
        return self._of(other / self.array)

    def __neg__(self) -> _Reduced:
        return self._of(-self.array)

    def __matmul__(self, other: Any) -> _Reduced:
        if isinstance(other, np.ndarray):
            import cubed as library

            other = library.from_array(other, chunks=other.shape, spec=self.array.spec)
        return self._of(self._xp.matmul(self.array, getattr(other, "array", other)))

    @property
    def T(self) -> _Reduced:
        return self._of(self.array.T)


def _beside(seconds: float, peak: Peak, shown: Any, before: tuple[int, int]) -> dict[str, Any]:
    after = disk_bytes([os.getpid()])
    found = {"seconds": seconds, "peak": peak.bytes, "sum": float(np.abs(shown).sum())}
    return found | {"disk": [b - a for a, b in zip(before, after, strict=True)]}


def byte_count(memory: str) -> int:
    """Bytes from "512MiB"."""
    from tilewise.config import parse_bytes

    return parse_bytes(memory)


def apart(kind: str, name: str, path: str, memory: str) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.out_of_core", "--run", kind, name, path, memory]
    environment = os.environ | {"TMPDIR": str(Path(path).parent)}  # spills lie beside the files
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    for left in Path(path).parent.glob("*.npy"):
        if str(left) != path:
            left.unlink()
    if done.returncode:
        return {"error": done.stderr.strip().splitlines()[-1:]}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


# -- tables ------------------------------------------------------------------------------------------------------------


def cases(given: argparse.Namespace) -> Iterator[tuple[list[str], str, int, str]]:
    """Programs that share a file, its kind and size, the memory."""
    if given.must_show:
        yield from (([*names], kind, gb * 10**9, memory) for names, kind, gb, memory in MUST_SHOW)
        return
    names = given.only.split(",")
    for kind in given.kinds.split(","):
        for columns in dict.fromkeys(PROGRAMS[n].columns for n in names):
            same = [n for n in names if PROGRAMS[n].columns == columns]
            yield same, kind, int(given.gib * (1 << 30)), given.memory


def main() -> None:
    """Make a file, run every program in turns, write JSON."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--gib", type=float, default=4.0)
    options.add_argument("--memory", default="512MiB")
    options.add_argument("--kinds", default="npy")
    options.add_argument("--only", default="sum,standardise,gram,gradient,scaled")
    options.add_argument("--beside", default=None, help="of dask, cubed, ray: what runs beside")
    options.add_argument("--repeat", type=int, default=1, help="of which the best counts, for all alike")
    options.add_argument("--must-show", action="store_true")
    options.add_argument("--folder", default=None)
    options.add_argument("--output", type=Path, default=RESULTS)
    options.add_argument("--run", nargs=4, help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.run:
        print(json.dumps(run_one(*given.run)))
        return
    beside = given.beside if given.beside is not None else "ray" if given.must_show else "dask"
    others = [x for x in beside.split(",") if x]
    rows: list[dict[str, Any]] = []
    heads = ["read s", "limit s", "direct s", "ours s", "of read", "of limit", "of direct"]
    heads += ["processor s", "peak/memory", "read GiB", "spilled"]
    print(
        f"{'program':12} {'kind':5} {'GB':>5} {'memory':>7}",
        *(f"{h:>11}" for h in heads),
        "beside, over ours: time, disk",
    )
    for names, kind, nbytes, memory in cases(given):
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            path = Path(folder) / f"x.{'h5' if kind == 'hdf5' else kind}"
            make(path, kind, nbytes, PROGRAMS[names[0]].columns)
            for name in names:
                row: dict[str, Any] = {"name": name, "kind": kind, "bytes": nbytes, "memory": memory}
                program = PROGRAMS[name]
                limits = ["copy", "copy direct"] if program.large else ["read direct"]
                limits += ["arithmetic"] if program.arithmetic else []
                able = [o for o in others if o != "cubed" or kind == "zarr"]
                runs: dict[str, list[dict[str, Any]]] = {who: [] for who in ("read", *limits, "tilewise", *able)}
                for _ in range(given.repeat):  # in turns
                    for who, found in runs.items():
                        found.append(apart(who, name, str(path), memory))
                row |= {who: min(found, key=lambda r: r.get("seconds", 0.0)) for who, found in runs.items()}
                rows.append(row)
                print(_line(row, byte_count(memory)), flush=True)
                _write(given.output, rows)
            shutil.rmtree(folder, ignore_errors=True)
            Path(folder).mkdir()


def _write(output: Path, rows: list[dict[str, Any]]) -> None:
    output.parent.mkdir(parents=True, exist_ok=True)
    head = {"machine": platform.processor() or platform.machine(), "cores": os.cpu_count()}
    output.write_text(json.dumps({**head, "rows": rows}, indent=1) + "\n")


def _line(row: dict[str, Any], memory: int) -> str:
    mine, read = row["tilewise"], row["read"]
    start = f"{row['name']:12} {row['kind']:5} {row['bytes'] / 1e9:5.1f} {row['memory']:>7}"
    if "error" in mine:
        return f"{start} {mine['error']}"
    share = PROGRAMS[row["name"]].passes * read["seconds"] / mine["seconds"]
    limits = []
    for way in ("", " direct"):
        read_all = PROGRAMS[row["name"]].passes * row.get(f"read{way}", read)["seconds"]
        disk = row[f"copy{way}"]["seconds"] if f"copy{way}" in row else read_all
        limits.append(max(disk, row.get("arithmetic", {}).get("seconds", 0.0)))
    numbers = [read["seconds"], *limits, mine["seconds"], share, *(limit / mine["seconds"] for limit in limits)]
    numbers += [mine["processor"], mine["peak"] / memory]
    numbers += [mine[k] / (1 << 30) for k in ("read", "spilled")]
    text = " ".join([start, *(f"{x:11.2f}" for x in numbers)])
    for who in ("ray", "dask", "cubed"):
        other = row.get(who, {})
        if "seconds" in other:
            moved = sum(other["disk"]) / max(sum(mine["disk"]), 1)
            text += (
                f"  {who} {other['seconds'] / mine['seconds']:.2f} {moved:.2f} ({other['peak'] / memory:.2f} memory)"
            )
        elif other:
            text += f"  {who} {other['error']}"
    return text


if __name__ == "__main__":
    main()
