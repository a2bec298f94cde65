"""Bringing files to the disk: whole pages while an array is made, every file and folder of a Zarr array at its end."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np
import pytest

import tilewise as tw
from tilewise.store import files
from tilewise.store.formats.flat import FlatRegion, FlatSink, FlatSource

PAGE = mmap.PAGESIZE


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Parts of files that the system was asked to write."""
    seen: list[tuple[int, int]] = []

    def call(handle: int, at: int, nbytes: int, flags: int) -> int:
        seen.append((at, nbytes))
        return -1  # it need not do so

    monkeypatch.setattr(files, "_sync_file_range", lambda: call)
    return seen


def test_pages_are_started_once(tmp_path: Path, started: list[tuple[int, int]]) -> None:
    row = 3 * PAGE // 8
    x = np.arange(4.0 * row).reshape(4, row)
    with FlatSink(tmp_path / "x", x.shape, "f8", head=bytes(128)) as sink:
        for k in range(4):
            sink.write(((k, k + 1), (0, row)), x[k : k + 1])
        sink.commit()
    assert started == [(k * 3 * PAGE + PAGE, 2 * PAGE) for k in range(4)]
    np.testing.assert_array_equal(np.fromfile(tmp_path / "x", "f8", offset=128).reshape(x.shape), x)


def test_nothing_is_started_of_what_has_gaps(tmp_path: Path, started: list[tuple[int, int]]) -> None:
    x = np.zeros((64, 4 * PAGE // 8))
    x.tofile(tmp_path / "x")
    half = x.shape[1] // 2
    with FlatRegion(FlatSource(tmp_path / "x", x.shape, "f8"), ((0, 64), (0, half))) as region:
        region.write(((0, 64), (0, half)), np.ones((64, half)))
        region.commit()
    assert not started


def test_all_of_a_zarr_array_is_flushed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("zarr")
    flushed: list[str] = []
    flush = files.flush

    def noted(path: str) -> None:
        flush(path)
        flushed.append(path)

    monkeypatch.setattr(files, "flush", noted)
    tw.asarray(np.arange(400.0).reshape(20, 20)).store(tmp_path / "x.zarr", chunks=(5, 20))
    root = tmp_path / "x.zarr"
    kept = {os.path.relpath(Path(at, name), root) for at, _, names in os.walk(root) for name in (*names, ".")}
    made = os.path.commonpath(flushed[:-1])
    assert {os.path.relpath(p, made) for p in flushed[:-1]} == kept
    assert flushed[-1] == str(tmp_path)  # its name comes last


def test_a_file_that_cannot_be_flushed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("zarr")
    flush = files.flush

    def fails(path: str) -> None:
        if path.endswith(os.path.join("c", "2", "0")):
            raise OSError(28, "No space left on device")
        flush(path)

    monkeypatch.setattr(files, "flush", fails)
    with pytest.raises(tw.errors.StoreError, match="No space left"):
        tw.asarray(np.arange(400.0).reshape(20, 20)).store(tmp_path / "x.zarr", chunks=(5, 20))
    assert not os.listdir(tmp_path)
