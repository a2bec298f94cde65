"""What overwriting replaces: one array, where a path leads. Files beside it, other arrays and links stay."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import tilewise as tw
from tilewise.store.files import InTheWay, NotThere

DATA = np.arange(12.0).reshape(3, 4)


def state(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def thesis(path: Path) -> None:
    path.mkdir()
    (path / "thesis.txt").write_text("years of work")


def group(path: Path) -> None:
    tw.save(path, {"a": DATA, "b": DATA}, kind="zarr")


def old_group(path: Path) -> None:
    zarr.open_group(path, mode="w", zarr_format=2).create_array("a", shape=3, dtype="f8")


def guest(path: Path) -> None:
    tw.asarray(DATA).store(path, kind="zarr")
    (path / "notes.txt").write_text("of the array")


def deep_guest(path: Path) -> None:
    tw.asarray(DATA).store(path, kind="zarr")
    (path / "c" / "notes.txt").write_text("of the array")


def text_file(path: Path) -> None:
    path.write_text("no folder")


def half(path: Path) -> None:
    path.mkdir()
    (path / "zarr.json").write_text("{")


@pytest.mark.parametrize("make", [thesis, group, old_group, guest, deep_guest, text_file, half])
def test_zarr_replaces_arrays_only(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "folder"
    make(path)
    before = state(tmp_path)
    with pytest.raises(InTheWay, match=r"folder is not a Zarr array.*Store elsewhere.*remove it yourself"):
        tw.ones(3).store(path, kind="zarr", overwrite=True)
    assert state(tmp_path) == before
    if make is thesis:  # at a URL an aborted write would have removed it, too
        for overwrite in (False, True):
            with pytest.raises(InTheWay, match=r"not a Zarr array.*thesis\.txt"):
                tw.ones(3).store(f"local://{path}", kind="zarr", overwrite=overwrite)
        assert state(tmp_path) == before


def test_what_comes_while_a_zarr_array_is_written_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewise.store.formats.zarr_sink import ZarrSink

    put, path = ZarrSink.put, tmp_path / "a.zarr"

    def meanwhile(self: Any, box: Any, block: Any) -> None:
        put(self, box, block)
        if not path.exists():
            thesis(path)

    monkeypatch.setattr(ZarrSink, "put", meanwhile)
    for overwrite in (False, True):
        with pytest.raises(InTheWay):
            tw.ones(3).store(path, overwrite=overwrite)
        assert state(tmp_path) == {"a.zarr/thesis.txt": b"years of work"}


def test_zarr_arrays_of_all_kinds_are_replaced(tmp_path: Path) -> None:
    group(tmp_path / "g.zarr")
    tw.ones(3).store(tmp_path / "g.zarr", name="a", overwrite=True)
    np.testing.assert_array_equal(np.asarray(tw.open(tmp_path / "g.zarr", "a")), np.ones(3))
    np.testing.assert_array_equal(np.asarray(tw.open(tmp_path / "g.zarr", "b")), DATA)
    (tmp_path / "empty.zarr").mkdir()
    for k, how in enumerate(({"zarr_format": 2}, {"zarr_format": 3}, {"zarr_format": 3, "shards": (2, 4)})):
        for n, shape in enumerate([(3, 4), ()]):
            chunks = (1, 2) if shape else ()
            options = {key: v for key, v in how.items() if shape or key != "shards"}
            made = zarr.create_array(tmp_path / f"{k}{n}.zarr", shape=shape, chunks=chunks, dtype="f8", **options)
            made[...] = 1.0
    for path in sorted(tmp_path.glob("*.zarr")):
        if path.name != "g.zarr":
            tw.asarray(DATA).store(path, overwrite=True)
            np.testing.assert_array_equal(np.asarray(tw.open(path)), DATA)
    tw.asarray(DATA).store(tmp_path / "z.zarr.zip", name="a")
    tw.ones(3).store(tmp_path / "z.zarr.zip", name="a", overwrite=True)
    before = state(tmp_path)
    with pytest.raises(InTheWay, match=r"a/zarr\.json"):
        tw.ones(3).store(tmp_path / "z.zarr.zip", name="b", overwrite=True)
    assert state(tmp_path) == before


def test_checkpoints_take_no_folder_of_others(tmp_path: Path) -> None:
    for name, text in (("manifest.json", json.dumps({"name": "an app"})), ("city.blocks", "mine")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_text(text)
        with pytest.raises(tw.StoreError, match="holds something that is no checkpoint"):
            tw.checkpoint(tw.ones(3), folder)
        assert state(folder) == {name: text.encode()}


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".zarr", ".zarr.zip", ".h5", ".csv"])
def test_links_are_followed(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "there").mkdir()
    real, link = tmp_path / "there" / f"a{suffix}", tmp_path / f"link{suffix}"
    os.symlink(real, link)
    data = DATA[0] if suffix == ".csv" else DATA

    def opened(path: Path) -> Any:
        found = tw.open(path)
        return found["x"] if isinstance(found, dict) else found

    with pytest.raises(FileExistsError):
        if suffix == ".h5":
            raise FileExistsError  # a file that a dataset is added to
        tw.asarray(data).store(link)
    tw.asarray(data).store(link, overwrite=True)  # leads nowhere yet
    x = opened(real)
    doubled = x * 2
    (tw.asarray(data) + 1).store(link, overwrite=True)
    assert link.is_symlink() and os.listdir(tmp_path / "there") == [f"a{suffix}"]
    np.testing.assert_array_equal(np.asarray(opened(real)), data + 1)
    np.testing.assert_array_equal(np.asarray(doubled), data * 2)
    assert sorted(os.listdir(tmp_path)) == [f"link{suffix}", "there"]


def test_every_byte_of_an_npz_counts(tmp_path: Path) -> None:
    """A bit flipped anywhere in an archive is noticed by whoever reads all of it, or changes nothing."""
    path = tmp_path / "a.npz"
    np.savez(path, x=DATA)
    good = path.read_bytes()
    first = good.index(DATA.tobytes())
    noticed = 0
    for at in range(0, len(good), 7):
        bad = bytearray(good)
        bad[at] ^= 1
        path.write_bytes(bad)
        try:
            np.testing.assert_array_equal(np.asarray(tw.open(path, "x")[1:2]), DATA[1:2])
        except tw.StoreError as error:
            assert "a.npz" in str(error)
            noticed += first <= at < first + DATA.nbytes
    assert noticed == len([at for at in range(0, len(good), 7) if first <= at < first + DATA.nbytes])


def test_errors_are_those_of_python_too() -> None:
    for kind, general in ((InTheWay, FileExistsError), (NotThere, FileNotFoundError)):
        assert issubclass(kind, general) and issubclass(kind, tw.TilewiseError)
