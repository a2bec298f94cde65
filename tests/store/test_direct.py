"""Files read and written past the system's cache: the same bytes, also where that cannot be."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.store.test_damage import state
from tilewise.store import direct, files
from tilewise.store.formats.flat import FlatSink, FlatSource

fcntl = pytest.importorskip("fcntl")
BLOCK, BETWEEN = direct.BLOCK, 4 * direct.BLOCK


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder whose files go past the cache however small they are."""
    if not direct.able():
        pytest.skip("the system does not say what its cache has")
    with open(tmp_path / "some", "wb") as some, direct._switched(some.fileno()) as switched:
        if not switched:
            pytest.skip("the file system has no direct reads")
    monkeypatch.setattr(direct, "LARGE_BYTES", 1)
    monkeypatch.setattr(direct, "LEAST_BYTES", 1)
    monkeypatch.setattr(direct, "BETWEEN_BYTES", BETWEEN)
    monkeypatch.setattr(direct, "_passed", {})
    return tmp_path


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Bytes that were read and written past the cache."""
    seen, counting = {"read": 0, "written": 0}, Lock()
    read, write = direct._read, direct._write

    def noted_read(handle: int, into: Any, at: int) -> int:
        done = read(handle, into, at)
        with counting:
            seen["read"] += done
        return done

    def noted_write(handle: int, data: Any, at: int) -> int:
        to = write(handle, data, at)
        with counting:
            seen["written"] += to - at
        return to

    monkeypatch.setattr(direct, "_read", noted_read)
    monkeypatch.setattr(direct, "_write", noted_write)
    return seen


def cold(path: Path) -> None:
    """Drop a file, or all of a folder, from the cache."""
    for name in [p for p in path.rglob("*") if p.is_file()] if path.is_dir() else [path]:
        handle = os.open(name, os.O_RDONLY)
        os.fsync(handle)
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(handle)


def memory(nbytes: int, shift: int) -> Any:
    """Bytes that begin so far after a page does."""
    whole = np.zeros(nbytes + 2 * BLOCK, np.uint8)
    first = -whole.ctypes.data % BLOCK + shift
    return whole[first : first + nbytes]


PLACES = [0, 128, BLOCK - 1, BLOCK, BLOCK + 512, 3 * BLOCK + 7]
LENGTHS = [1, 511, BLOCK, BLOCK + 1, 3 * BLOCK - 5, 11 * BLOCK + 77]
SHIFTS = [0, 128, 512, 513]


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("at", PLACES)
def test_reads(at: int, shift: int, small: Path, moved: dict[str, int]) -> None:
    data = np.random.default_rng(0).integers(0, 256, 16 * BLOCK + 100, np.uint8)
    data.tofile(small / "x")
    for length in LENGTHS:
        cold(small / "x")
        before = moved["read"]
        handle = os.open(small / "x", os.O_RDONLY)
        flags = fcntl.fcntl(handle, fcntl.F_GETFL)
        into = memory(length, shift)
        with direct.reading(direct.Passing(True)):
            assert direct.read_at(handle, memoryview(into), at)
        assert fcntl.fcntl(handle, fcntl.F_GETFL) == flags
        os.close(handle)
        np.testing.assert_array_equal(into, data[at : at + length])
        assert moved["read"] - before == length


def test_reads_beyond_the_end(small: Path) -> None:
    data = np.arange(3 * BLOCK + 100, dtype=np.uint8)
    data.tofile(small / "x")
    handle = os.open(small / "x", os.O_RDONLY)
    with direct.reading(direct.Passing(True)):
        for at in (0, 128, 3 * BLOCK, 3 * BLOCK + 99):
            for shift in (0, 128):
                cold(small / "x")
                into = memory(there := data.size - at, shift)
                assert direct.read_at(handle, memoryview(into), at)
                np.testing.assert_array_equal(into, data[at:])
                cold(small / "x")
                assert not direct.read_at(handle, memoryview(memory(there + 1, shift)), at)
    os.close(handle)


def test_what_is_cached_or_needed_again_is_read_from_the_cache(small: Path, moved: dict[str, int]) -> None:
    (small / "x").write_bytes(bytes(8 * BLOCK))
    handle = os.open(small / "x", os.O_RDONLY)
    into = memoryview(bytearray(8 * BLOCK))
    with direct.reading(direct.Passing(True)):
        assert direct.read_at(handle, into, 0)  # not on the disk yet
    cold(small / "x")
    assert direct.read_at(handle, into, 0)
    os.close(handle)
    assert moved["read"] == 0


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP])
def test_where_a_file_system_refuses(number: int, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.random.default_rng(1).integers(0, 256, 9 * BLOCK, np.uint8)
    data.tofile(small / "x")
    cold(small / "x")
    refused = []

    def refuses(call: Any) -> Any:
        def maybe(handle: int, *given: Any) -> int:
            if fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_DIRECT:
                refused.append(call)
                raise OSError(number, "no")
            return int(call(handle, *given))

        return maybe

    monkeypatch.setattr(os, "preadv", refuses(os.preadv))
    monkeypatch.setattr(os, "pwrite", refuses(os.pwrite))
    handle = os.open(small / "x", os.O_RDWR)
    into = memory(data.size - 5, 0)
    with direct.reading(direct.Passing(True)):
        assert direct.read_at(handle, memoryview(into), 5)
    np.testing.assert_array_equal(into, data[5:])
    direct.write_at(handle, files.bytes_of(data[::-1]), 3 * BLOCK + 5)
    os.close(handle)
    np.testing.assert_array_equal(np.fromfile(small / "x", np.uint8)[3 * BLOCK + 5 :], data[::-1])
    assert len(refused) == 2


def test_file_systems_without_a_device(small: Path, moved: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.random.default_rng(1).integers(0, 256, 9 * BLOCK, np.uint8)
    data.tofile(small / "x")
    cold(small / "x")
    monkeypatch.setattr(os, "major", lambda device: 0)
    handle, into = os.open(small / "x", os.O_RDONLY), memory(data.size, 0)
    with direct.reading(direct.Passing(True)):
        assert direct.read_at(handle, memoryview(into), 0)
    os.close(handle)
    np.testing.assert_array_equal(into, data)
    assert moved["read"] == 0


def test_other_errors_are_errors(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (small / "x").write_bytes(bytes(8 * BLOCK))
    cold(small / "x")

    def fails(*given: Any) -> int:
        raise OSError(errno.EIO, "no")

    monkeypatch.setattr(os, "preadv", fails)
    with direct.reading(direct.Passing(True)), pytest.raises(tw.StoreError, match="x cannot be read"):
        FlatSource(small / "x", (4096,), "f8").read(((0, 4096),))


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("at", PLACES)
def test_writes(at: int, shift: int, small: Path, moved: dict[str, int]) -> None:
    for length in LENGTHS:
        was = np.random.default_rng(2).integers(0, 256, 20 * BLOCK, np.uint8)
        was.tofile(small / "x")
        data = memory(length, shift)
        data[...] = np.random.default_rng(3).integers(0, 256, length, np.uint8)
        before = moved["written"]
        handle = os.open(small / "x", os.O_WRONLY)
        direct.write_at(handle, memoryview(data), at)
        os.close(handle)
        was[at : at + length] = data
        np.testing.assert_array_equal(np.fromfile(small / "x", np.uint8), was)
        whole = max((at + length) // BLOCK - -(-at // BLOCK), 0) * BLOCK
        assert moved["written"] - before == whole


def test_a_write_that_comes_short(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda handle, data, at: pwrite(handle, memoryview(data)[: 2 * BLOCK + 512], at))
    data = np.random.default_rng(4).integers(0, 256, 9 * BLOCK + 9, np.uint8)
    handle = os.open(small / "x", os.O_RDWR | os.O_CREAT)
    direct.write_at(handle, files.bytes_of(data), 100)
    os.close(handle)
    np.testing.assert_array_equal(np.fromfile(small / "x", np.uint8)[100:], data)


def test_parts_of_a_file_by_threads(small: Path, moved: dict[str, int]) -> None:
    """Blocks where parts meet are written by both."""
    x = np.random.default_rng(5).random((400, 301))
    for _ in range(5):
        with FlatSink(small / "x", x.shape, "f8", head=bytes(128), overwrite=True) as sink:
            with ThreadPoolExecutor(4) as threads:
                list(threads.map(lambda k: sink.write(((k, k + 16), (0, 301)), x[k : k + 16]), range(0, 400, 16)))
            sink.commit()
        np.testing.assert_array_equal(np.fromfile(small / "x", "f8", offset=128).reshape(x.shape), x)
    assert moved["written"] > 5 * 0.7 * x.nbytes


@pytest.mark.parametrize("turned", [False, True], ids=["C", "Fortran"])
def test_sinks_in_either_order(turned: bool, small: Path, moved: dict[str, int]) -> None:
    x = np.asarray(np.random.default_rng(6).random((90, 70)), order="F" if turned else "C")
    tw.save(small / "x.npy", tw.asarray(x))
    cold(small / "x.npy")
    np.testing.assert_array_equal(np.load(small / "x.npy"), x)
    assert moved["written"] > 0


def test_which_arrays_pass_by(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct, "_passed", {})
    monkeypatch.setattr(direct, "able", lambda: True)
    monkeypatch.setattr(files, "snapshot_bytes", lambda: 10 * direct.LARGE_BYTES)
    large, now = direct.LARGE_BYTES, [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def read(how: Any, seconds: float, nbytes: int = direct.TRIED_BYTES // 2) -> None:
        """Two at once: time counts once."""
        how.begin()
        how.begin()
        now[0] += seconds
        how.end(nbytes)
        how.end(nbytes)
        now[0] += 100.0  # nothing is read

    assert direct.passing("small", large - 1, large - 1) is None
    assert direct.passing("twice", large, 2 * large) is None
    quick, slow = direct.passing("quick", large, large), direct.passing("slow", 2 * large, large)
    for _ in range(3):
        read(quick, 0.9 * direct.TRIED_BYTES / direct.QUICK)
        assert quick is not None and quick.on
    read(slow, 0.1, direct.TRIED_BYTES // 4)
    assert slow is not None and slow.on  # too little to tell
    read(slow, direct.TRIED_BYTES / direct.QUICK)
    assert not slow.on
    assert direct.passing("quick", large, large) is None  # another plan has read it
    for _ in range(2):
        beyond = direct.passing("beyond", 11 * large, 22 * large)  # the cache cannot hold it
        read(beyond, 100.0)
        assert beyond is not None and beyond.on
    monkeypatch.setattr(direct, "REMEMBERED", 2)
    direct._passed.clear()
    for name in "efg":
        direct.passing(name, large, large)
    assert list(direct._passed) == ["f", "g"]


def test_a_slow_disk_is_read_through_the_cache(
    small: Path, moved: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct, "TRIED_BYTES", 200_000)
    monkeypatch.setattr(direct, "QUICK", 1e30)
    x = np.random.default_rng(9).integers(0, 100, (6000, 32)).astype("f8")
    np.save(small / "x.npy", x)
    cold(small / "x.npy")
    for k in range(2):
        with tw.session(memory="600KiB"):
            np.testing.assert_array_equal(tw.open(small / "x.npy").sum(0), x.sum(0))
        if not k:
            assert 200_000 <= moved["read"] < x.nbytes
            before = moved["read"]
    assert moved["read"] == before


PROGRAMS: dict[str, Any] = {
    "sum": lambda np, x: x.sum(0),
    "gram": lambda np, x: x.T @ x,
    "two passes": lambda np, x: ((x - x.mean(0)) / x.std(0)).max(0),
    "slice": lambda np, x: x[1:-1].max(1),
}


@pytest.mark.parametrize("kind", ["npy", "raw", "plain", "checked", "zstd", "h5"])
def test_out_of_core(kind: str, small: Path, moved: dict[str, int]) -> None:
    x = np.random.default_rng(7).integers(0, 100, (6000, 32)).astype("f8")
    path = small / {"npy": "x.npy", "raw": "x.raw", "h5": "x.h5"}.get(kind, "x.zarr")
    if path.suffix == ".zarr":
        zarr = pytest.importorskip("zarr")
        codecs = {"plain": [], "checked": [zarr.codecs.Crc32cCodec()], "zstd": [zarr.codecs.ZstdCodec(level=1)]}[kind]
        zarr.create_array(path, shape=x.shape, chunks=(700, 32), dtype="f8", compressors=codecs)[...] = x
    elif kind == "raw":
        x.tofile(path)
    else:
        pytest.importorskip("h5py")
        tw.save(path, tw.asarray(x))

    def opened() -> Any:
        return tw.from_raw(path, "f8", x.shape) if kind == "raw" else tw.open(path, "x" if kind == "h5" else None)

    for name, program in PROGRAMS.items():
        direct._passed.clear()
        cold(path)
        before = moved["read"]
        with tw.session(memory="600KiB") as session:
            got = np.asarray(program(tw, opened()))
            assert session.disk.read_bytes == session.disk.predicted_read_bytes > 0
        np.testing.assert_allclose(got, program(np, x), rtol=1e-12)
        if kind != "h5":
            assert (moved["read"] > before) == (name != "two passes")
    cold(path)
    with tw.session(memory="600KiB"):
        (opened() * 2.0 + 1.0).store(small / "y.npy")
    np.testing.assert_array_equal(np.load(small / "y.npy"), x * 2.0 + 1.0)


@pytest.fixture
def disk(small: Path) -> Iterator[Path]:
    """A file system with room for some 2 MB that has direct writes."""
    (image := small / "image").write_bytes(bytes(4 << 20))
    place = small / "disk"
    place.mkdir()
    for command in (
        ["mkfs.ext4", "-q", "-O", "^has_journal", str(image)],
        ["mount", "-o", "loop", str(image), str(place)],
    ):
        try:
            if subprocess.run(command, capture_output=True, check=False).returncode:
                pytest.skip("only root may mount a small file system, where there are loop devices")
        except FileNotFoundError:
            pytest.skip(f"there is no {command[0]}")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_full_disk(disk: Path) -> None:
    tw.save(disk / "x.npy", tw.asarray(np.ones((40, 25))))
    before = state(disk)
    with pytest.raises(tw.StoreError, match=r"x\.npy.*Free some space") as raised:
        tw.save(disk / "x.npy", tw.asarray(np.ones((4000, 250))))
    assert raised.value.errno == errno.ENOSPC
    assert state(disk) == before


KILLED = """
import numpy as np, tilewise as tw
from tests.store.killed import _die_at
from tilewise.store import direct
direct.LARGE_BYTES = direct.LEAST_BYTES = 1
with tw.session(memory="600KiB"):
    made = tw.open({path!r}) + 1.0
    _die_at({moment})
    made.store({path!r}, overwrite=True)
"""


@pytest.mark.parametrize("moment", [1, 2, 4, 8, 11, 12, 13, 1000])
def test_a_kill_leaves_the_old_file_or_the_new_one(moment: int, small: Path) -> None:
    x = np.random.default_rng(8).random((6000, 32))
    np.save(path := small / "x.npy", x)
    code = KILLED.format(path=str(path), moment=moment)
    done = subprocess.run([sys.executable, "-c", code], check=False)
    assert done.returncode == (0 if moment == 1000 else -signal.SIGKILL)
    there = np.load(path)
    assert np.array_equal(there, x + 1.0) or (done.returncode and np.array_equal(there, x))


def test_pages_larger_than_blocks(small: Path, moved: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes past the cache never shares a page with what does not."""
    page, at = 4 * BLOCK, 100
    monkeypatch.setattr(direct, "PAGESIZE", page)
    data = np.random.default_rng(6).integers(0, 256, 6 * page, np.uint8)
    handle = os.open(small / "x", os.O_RDWR | os.O_CREAT)
    direct.write_at(handle, files.bytes_of(data), at)
    os.close(handle)
    np.testing.assert_array_equal(np.fromfile(small / "x", np.uint8)[at:], data)
    assert moved["written"] == 5 * page


def test_a_system_that_tells_users_only_of_files_of_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Newer systems refuse others: what is installed for all users is not what to ask about."""
    able = direct.able()
    monkeypatch.setattr(os, "__file__", "/nowhere/os.py")
    direct._cachestat.cache_clear()
    assert direct.able() == able
