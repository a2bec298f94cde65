"""Random damage of stores and checkpoints: refused by name, or without effect. In: a seed. Out: what went wrong.

    python -m tests.fuzz.damage [--cases 300] [--seed 0]

A file of every kind is written, some of its bytes are changed, cut off, put in or taken away, and it is read as a
whole. Right are a StoreError that names it and, if nothing is raised, the array that was written; of kinds without
checksums (`checked` says which have them) other numbers of the same shape.
"""

from __future__ import annotations

import argparse
import itertools
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import tilewise as tw

DATA = np.tile(np.random.default_rng(1).normal(size=(60, 31)), (4, 1))
COLUMN, PICTURE = DATA[:, 0].copy(), (DATA[:60] * 40).astype("u1")
STATE = {"x": DATA[:9].copy(), "count": 3, "name": "text"}


def _steps(path: Path, stop: int) -> Any:
    """What a program that resumes finds, and leaves after some steps."""
    state = {key: value for key, value in STATE.items()}
    for k in tw.resumable(range(stop), state, path, every=1):
        state["count"] = k
    return state["x"]


class Kind:
    """How a kind of file is written and read, and what it holds."""

    def __init__(self, write: Callable[[Path], Any], value: Any = DATA, checked: bool = True, read: Any = None) -> None:
        self.write, self.value, self.checked = write, value, checked
        self.read = read or (lambda path: tw.open(path))


def _saved(compress: bool, data: Any = DATA) -> Callable[[Path], Any]:
    return lambda path: tw.save(path, {"x": data}, compress=compress)


def _stored(**options: Any) -> Callable[[Path], Any]:
    return lambda path: tw.asarray(DATA).store(path, **options)


KINDS: dict[str, Kind] = {
    "a.npy": Kind(_stored(), checked=False),
    "a.raw": Kind(lambda p: DATA.tofile(p), checked=False, read=lambda p: tw.from_raw(p, "f8", DATA.shape)),
    "a.npz": Kind(_saved(True)),
    "plain.npz": Kind(_saved(False)),
    "a.h5": Kind(_stored(), checked=False),
    "chunked.h5": Kind(_stored(chunks=(50, 31))),
    "a.zarr": Kind(_stored(chunks=(50, 31))),
    "plain.zarr": Kind(_stored(chunks=(50, 31), compress=False), checked=False),
    "sharded.zarr": Kind(_stored(chunks=(50, 31), shards=(100, 31))),
    "a.zarr.zip": Kind(_stored(chunks=(50, 31))),
    "a.parquet": Kind(_saved(True, COLUMN), COLUMN),
    "a.arrow": Kind(_saved(False, COLUMN), COLUMN, checked=False),
    "a.png": Kind(lambda p: Image.fromarray(PICTURE).save(p), PICTURE, checked=False),
    "kept": Kind(lambda p: tw.checkpoint(tw.asarray(DATA), p)),
    "resumed": Kind(lambda p: _steps(p, 2), STATE["x"], read=lambda p: _steps(p, 3)),
}


def flip(r: random.Random, data: bytearray) -> None:
    data[r.randrange(len(data))] ^= 1 << r.randrange(8)


def noise(r: random.Random, data: bytearray) -> None:
    at = r.randrange(len(data))
    data[at : at + r.randrange(1, 40)] = r.randbytes(r.randrange(1, 40))


def zeros(r: random.Random, data: bytearray) -> None:
    at, many = r.randrange(len(data)), r.randrange(1, 600)
    data[at : at + many] = bytes(len(data[at : at + many]))


def cut(r: random.Random, data: bytearray) -> None:
    del data[r.randrange(len(data)) :]


def longer(r: random.Random, data: bytearray) -> None:
    data += data[: r.randrange(1, 1 + len(data))]


def removed(r: random.Random, data: bytearray) -> None:
    at = r.randrange(len(data))
    del data[at : at + r.randrange(1, 300)]


DAMAGES = (flip, flip, flip, noise, zeros, cut, longer, removed)


def damaged(r: random.Random, path: Path) -> str:
    """Damage one file of a store, its metadata as often as the rest; what was done."""
    files = [p for p in sorted(path.rglob("*")) if p.is_file()] if path.is_dir() else [path]
    described = [p for p in files if p.suffix == ".json"]
    chosen = r.choice(described) if described and r.random() < 0.5 else r.choice(files)
    if len(files) > 1 and r.random() < 0.1:
        chosen.unlink()
        return f"{chosen.relative_to(path.parent)} removed"
    data, act = bytearray(chosen.read_bytes()), r.choice(DAMAGES)
    if data:
        act(r, data)
    chosen.write_bytes(data)
    return f"{chosen.relative_to(path.parent)}: {act.__name__}"


def _read(kind: Kind, path: Path) -> Any:
    found = kind.read(path)
    return np.asarray(next(iter(found.values())) if isinstance(found, dict) else found)


def wrong(seed: int, name: str, folder: Path) -> str | None:
    """What is wrong with how a damaged store of a kind is read."""
    r, kind, path = random.Random(f"{name} {seed}"), KINDS[name], folder / name
    kind.write(path)
    what = damaged(r, path)
    try:
        found = _read(kind, path)
    except (tw.StoreError, FileNotFoundError) as error:
        return None if name in str(error) else f"{what}: the error does not name it: {error}"
    except BaseException as error:
        return f"{what}: {type(error).__name__}: {error}"
    if kind.checked and not np.array_equal(found, kind.value):
        return f"{what}: other numbers, and no error"
    return None


def cases(first: int, count: int) -> Iterator[str]:
    """Cases that go wrong, all kinds in turn."""
    names = itertools.cycle(KINDS)
    for seed in range(first, first + count):
        name, folder = next(names), Path(tempfile.mkdtemp())
        try:
            found = wrong(seed, name, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if found is not None:
            yield f"{seed} {name}: {found}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    bad = 0
    with tw.config(eager_bytes=0, fallback="silent"):
        for text in cases(given.seed, given.cases):
            bad += 1
            print(text, flush=True)
    print(f"{given.cases} stores damaged, {bad} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
