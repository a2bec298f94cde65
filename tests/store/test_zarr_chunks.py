"""Chunks of Zarr folders read without zarr: the same elements, only what is asked for, damage refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

zarr = pytest.importorskip("zarr")

from numcodecs import zstd  # noqa: E402

from tilewise.errors import SourceChangedError, StoreError  # noqa: E402
from tilewise.store import files  # noqa: E402
from tilewise.store.formats.zarr_chunks import chunks_of, decompressed_bytes  # noqa: E402
from tilewise.store.formats.zarr_source import open_zarr  # noqa: E402

CRC, ZSTD = zarr.codecs.Crc32cCodec(), zarr.codecs.ZstdCodec(level=1)
CODECS = {"plain": [], "checked": [CRC], "zstd": [ZSTD], "zstd, checked": [ZSTD, CRC]}
SHAPE, CHUNKS = (50, 21, 3), (16, 8, 3)
BOXES = [
    ((0, 50), (0, 21), (0, 3)),
    ((16, 32), (8, 16), (0, 3)),  # one chunk
    ((17, 31), (8, 16), (0, 3)),  # whole rows of one
    ((15, 49), (7, 20), (1, 2)),
    ((49, 50), (20, 21), (2, 3)),
]


def written(path: Path, codecs: Any, dtype: str = "f8", **more: Any) -> Any:
    z = zarr.create_array(path, shape=SHAPE, chunks=CHUNKS, dtype=dtype, compressors=codecs, **more)
    z[...] = values = (np.random.default_rng(0).random(SHAPE) * 100).astype(dtype)
    return values


def chunk(path: Path) -> Path:
    return path / "c" / "1" / "1" / "0"


def whole() -> Any:
    return tuple((0, n) for n in SHAPE)


@pytest.mark.parametrize("dtype", ["f8", ">f4", "i2", "?", "c16"])
@pytest.mark.parametrize("kind", CODECS)
def test_boxes(kind: str, dtype: str, tmp_path: Path) -> None:
    path = tmp_path / "x.zarr"
    values = written(path, CODECS[kind], dtype)
    source: Any = open_zarr(path)
    assert source._chunks is not None
    for box in BOXES:
        want = values[tuple(slice(lo, hi) for lo, hi in box)]
        np.testing.assert_array_equal(source.read(box), want)
        turned = np.empty(want.shape[::-1], source.dtype).T
        assert source.read(box, out=turned) is turned
        np.testing.assert_array_equal(turned, want)


def test_what_zarr_has_to_read(tmp_path: Path) -> None:
    others: dict[str, dict[str, Any]] = {
        "blosc": {"compressors": [zarr.codecs.BloscCodec()]},
        "gzip": {"compressors": [zarr.codecs.GzipCodec()]},
        "checked, zstd": {"compressors": [CRC, ZSTD]},
        "turned": {"compressors": [ZSTD], "filters": [zarr.codecs.TransposeCodec(order=(2, 1, 0))]},
        "shards": {"compressors": [ZSTD], "shards": (32, 16, 3)},
        "format 2": {"zarr_format": 2},
    }
    for name, how in others.items():
        z = zarr.create_array(tmp_path / name, shape=SHAPE, chunks=CHUNKS, dtype="f8", **how)
        z[...] = values = np.random.default_rng(1).random(SHAPE)
        assert chunks_of(z) is None
        np.testing.assert_array_equal(open_zarr(tmp_path / name).read(whole()), values)  # type: ignore[union-attr]


def test_plain_chunks_are_read_where_they_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = written(tmp_path / "x", [])
    seen: list[int] = []
    read_at = files.read_at

    def reads(handle: int, into: memoryview, at: int) -> bool:
        seen.append(len(into))
        return read_at(handle, into, at)

    monkeypatch.setattr(files, "read_at", reads)
    got = open_zarr(tmp_path / "x").read(((17, 19), (8, 16), (0, 3)))  # type: ignore[union-attr]
    np.testing.assert_array_equal(got, values[17:19, 8:16])
    assert sum(seen) == got.nbytes


@pytest.mark.parametrize("kind", CODECS)
@pytest.mark.parametrize("damage", ["short", "long", "empty", "flipped"])
def test_damage(kind: str, damage: str, tmp_path: Path) -> None:
    path = tmp_path / "x"
    written(path, CODECS[kind])
    data = chunk(path).read_bytes()
    when = chunk(path).stat()
    new = {"short": data[:-5], "long": data + b"12345", "empty": b"", "flipped": data[:-9] + b"\xff\x00" + data[-7:]}
    chunk(path).write_bytes(new[damage])
    os.utime(chunk(path), ns=(when.st_atime_ns, when.st_mtime_ns))
    source: Any = open_zarr(path)
    if damage == "flipped" and "checked" not in kind:  # nothing says that it is another
        return
    with pytest.raises(StoreError, match="x cannot be read"):
        source.read(whole())


def test_a_frame_of_another_length(tmp_path: Path) -> None:
    for k, length in enumerate((3064, 3080)):
        path = tmp_path / str(k)
        written(path, [ZSTD])
        chunk(path).write_bytes(zstd.compress(bytes(length)))
        with pytest.raises(StoreError, match="cannot be read"):
            open_zarr(path).read(whole())  # type: ignore[union-attr]


def test_a_chunk_that_changes(tmp_path: Path) -> None:
    written(tmp_path / "x", [ZSTD])
    source: Any = open_zarr(tmp_path / "x")
    data = chunk(tmp_path / "x").read_bytes()
    chunk(tmp_path / "x").write_bytes(data)
    os.utime(chunk(tmp_path / "x"), ns=(0, source.state[1] + 1_000_000_000))
    with pytest.raises(SourceChangedError):
        source.read(whole())


def test_lengths_in_frames() -> None:
    for n in (0, 1, 255, 256, 65_791, 65_792, 1 << 20):
        assert decompressed_bytes(bytes(zstd.compress(bytes(n)))[:18]) == n
    assert decompressed_bytes(b"") is None and decompressed_bytes(b"no frame at all") is None
    assert decompressed_bytes(b"\x28\xb5\x2f\xfd\x00\x58" + bytes(12)) is None  # a stream does not say
