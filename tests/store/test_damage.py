"""Bad input, damaged files and full disks: errors that name the file and a cure, and nothing is overwritten."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import tilewise as tw
from tests.fuzz.damage import KINDS, wrong
from tilewise.store.formats import kinds

DATA = np.random.default_rng(1).normal(size=(60, 31))


@pytest.fixture(autouse=True)
def everything_recorded(same_settings_after_each_test: None) -> None:
    tw.config(eager_bytes=0, fallback="silent")


def state(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_bad_paths_and_options_change_nothing(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", DATA)
    (tmp_path / "text.npy").write_text("no array")
    (tmp_path / "notes.txt").write_text("no array")
    (tmp_path / "half.zarr").mkdir()
    (tmp_path / "folder").mkdir()
    np.save(tmp_path / "objects.npy", np.array([{}, None]), allow_pickle=True)
    (tmp_path / "odd.bin").write_bytes(b"12345")
    tw.asarray(DATA).store(tmp_path / "a.h5")
    tw.asarray(DATA).store(tmp_path / "a.zarr")
    x, before = tw.asarray(DATA), state(tmp_path)
    rows: list[tuple[Callable[[], Any], type[Exception], str]] = [
        (lambda: tw.open(tmp_path / "none.npy"), FileNotFoundError, r"none\.npy.*Check the path"),
        (lambda: tw.open(tmp_path / "text.npy"), tw.StoreError, r"text\.npy is no npy file, or damaged"),
        (lambda: tw.from_npy(tmp_path / "text.npy"), tw.StoreError, r"text\.npy is no array in NumPy's format"),
        (lambda: tw.open(tmp_path / "notes.txt"), tw.StoreError, r"notes\.txt is not an array.*tw\.from_raw"),
        (lambda: tw.open(tmp_path / "half.zarr"), tw.StoreError, r"half\.zarr is not an array"),
        (lambda: tw.from_zarr(tmp_path / "half.zarr"), tw.StoreError, r"half\.zarr holds no Zarr array"),
        (lambda: tw.from_hdf5(tmp_path / "a.npy"), tw.StoreError, r"a\.npy is damaged, or no HDF5 file"),
        (lambda: tw.from_parquet(tmp_path / "a.npy"), tw.StoreError, r"a\.npy is damaged or of another kind"),
        (lambda: tw.from_images(tmp_path / "a.npy"), tw.StoreError, r"a\.npy is damaged, or no image"),
        (lambda: tw.from_images(tmp_path / "*.gif"), tw.StoreError, r"no images at .*gif"),
        (
            lambda: tw.open(tmp_path / "objects.npy"),
            tw.StoreError,
            r"objects\.npy holds .*never unpickled.*allow_pickle",
        ),
        (lambda: tw.open(tmp_path / "a.h5", "y"), tw.StoreError, r"no dataset 'y'.*'x'"),
        (lambda: tw.open(tmp_path / "a.npy", "y"), tw.StoreError, "has no name"),
        (lambda: tw.from_raw(tmp_path / "odd.bin", "f8"), tw.StoreError, "whole number of float64"),
        (lambda: tw.from_raw(tmp_path / "odd.bin", "f8", 2), tw.StoreError, r"too short for \(2,\).*5 of 16 bytes"),
        (lambda: x.store(tmp_path / "folder", kind="hdf5", overwrite=True), FileExistsError, "folder is a folder"),
        (lambda: x.store(tmp_path / "a.h5"), FileExistsError, r"a\.h5\['x'\] exists already.*overwrite=True"),
        (lambda: x.store(tmp_path / "a.zarr"), FileExistsError, r"a\.zarr exists already.*overwrite=True"),
        (lambda: x.store(tmp_path / "a.npy"), FileExistsError, r"a\.npy exists already.*overwrite=True"),
        (lambda: tw.save(tmp_path / "a.zarr", x), FileExistsError, r"a\.zarr exists already"),
        (
            lambda: x.store(tmp_path / "folder", kind="npy", overwrite=True),
            FileExistsError,
            "folder is a folder.*Name a file in it",
        ),
        (lambda: tw.checkpoint(x, tmp_path / "a.npy"), FileExistsError, r"a\.npy exists already"),
        (lambda: tw.checkpoint(x, tmp_path), tw.StoreError, "holds something that is no checkpoint"),
        (lambda: x.store(tmp_path / "no/such/a.npy"), FileNotFoundError, "Make the folder first"),
        (lambda: x.store(tmp_path / "no/such/a.zarr"), FileNotFoundError, "Make the folder first"),
        (lambda: x.store(tmp_path / "no/such/a.h5"), FileNotFoundError, "Make the folder first"),
        (lambda: x.store(tmp_path / "what"), tw.StoreError, r"does not say which kind.*\.npy"),
        (lambda: x.store(tmp_path / "b.zarr", chunks=(0, 5)), tw.StoreError, "chunks have a length of at least 1"),
        (lambda: x.store(tmp_path / "b.zarr", chunks=(5,)), tw.StoreError, "for each of 2 axes"),
        (lambda: x.store(tmp_path / "b.zarr", chunks=(5, 5), shards=(7, 5)), tw.StoreError, "whole numbers of chunks"),
        (lambda: x.store(tmp_path / "b.h5", chunks=(5,)), tw.StoreError, "for each of 2 axes"),
        (lambda: x.store(tmp_path / "b.parquet"), tw.StoreError, "one axis.*dict of columns"),
        (lambda: tw.save(tmp_path / "b.npy", {"a": x}), tw.StoreError, r"several arrays.*\.npz"),
        (lambda: tw.save(tmp_path / "b.npy", np.array([{}])), tw.StoreError, r"never pickled.*astype"),
        (lambda: tw.ones(3).store(tmp_path / "a.npy", region=np.s_[::2]), tw.StoreError, "without steps"),
        (lambda: next(iter(tw.resumable(range(3), {}))), ValueError, "needs a folder.*path="),
        (lambda: list(tw.resumable(range(3), {}, tmp_path / "c", every="soon")), ValueError, 'every="30s"'),
        (
            lambda: list(tw.resumable(range(3), {"f": len}, tmp_path / "c", every=1)),
            tw.StoreError,
            "'f'.*cannot be kept",
        ),
        (lambda: tw.session(every=3), ValueError, "checkpoint=path"),
    ]
    for act, kind, text in rows:
        with pytest.raises(kind, match=text):
            act()
    after = state(tmp_path)
    assert {k: v for k, v in after.items() if not k.startswith("c/")} == before


NOBODY = 65534  # a user without rights


def test_what_may_not_be_read_or_written() -> None:
    """As root, too: by taking another user's rights for a while."""
    x, root = tw.asarray(DATA), not os.getuid()
    folder = Path(tempfile.mkdtemp())
    try:
        x.store(folder / "a.npy")
        tw.checkpoint(x, folder / "kept")
        before = state(folder)
        os.chmod(folder / "a.npy", 0o000)
        os.chmod(folder, 0o555)
        if root:
            os.seteuid(NOBODY)
        for act in (
            lambda: x.store(folder / "b.npy"),
            lambda: x.store(folder / "b.zarr"),
            lambda: x.store(folder / "b.h5"),
            lambda: x.store(folder / "a.npy", overwrite=True),
            lambda: tw.checkpoint(x, folder / "other"),
            lambda: list(tw.resumable(range(3), {"x": 1}, folder / "other", every=1)),
        ):
            with pytest.raises(PermissionError, match=rf"{folder}.*may write to"):
                act()
        with pytest.raises(PermissionError, match=r"a\.npy.*Ask for permission"):
            tw.open(folder / "a.npy")
    finally:
        if root:
            os.seteuid(0)
        os.chmod(folder, 0o755)
        os.chmod(folder / "a.npy", 0o644)
    assert state(folder) == before
    shutil.rmtree(folder)


def test_a_library_that_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tw.asarray(DATA).store(tmp_path / "a.h5")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(tw.StoreError, match=r"h5py cannot be loaded.*pip install tilewise\[hdf5\]"):
        tw.open(tmp_path / "a.h5")
    assert all(extra is not None for _, library, extra in kinds.MODULES.values() if library is not None)


def refuses_after(monkeypatch: pytest.MonkeyPatch, calls: int, code: int) -> None:
    """The disk takes so many writes of ours, and no more."""
    left = [calls]
    write = os.pwrite

    def pwrite(*args: Any) -> int:
        left[0] -= 1
        if left[0] < 0:
            raise OSError(code, os.strerror(code))
        return write(*args)

    monkeypatch.setattr(os, "pwrite", pwrite)


@pytest.mark.parametrize("session", [{}, {"engine": "virtual", "workers": 3}], ids=["local", "virtual"])
@pytest.mark.parametrize("calls", [0, 1, 2])
def test_a_full_disk_leaves_what_was_there(
    tmp_path: Path, calls: int, session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilewise.store.formats.flat.row_chunks.__defaults__", (None, 4096))
    with tw.session(**session):
        old, new = tw.asarray(DATA), tw.asarray(DATA) * 2
        old.store(tmp_path / "a.npy")
        old.store(tmp_path / "a.h5")
        tw.checkpoint(old, tmp_path / "kept")
        before = state(tmp_path)
        with monkeypatch.context() as full:
            refuses_after(full, calls, errno.ENOSPC)
            for act in (
                lambda: new.store(tmp_path / "a.npy", overwrite=True),
                lambda: new.store(tmp_path / "b.npy"),
                lambda: new.store(tmp_path / "a.h5", name="other"),
                lambda: tw.checkpoint(new, tmp_path / "kept"),
            ):
                with pytest.raises(tw.StoreError, match=r"No space left on device. Free some space") as raised:
                    act()
                assert raised.value.errno == errno.ENOSPC
                refuses_after(full, calls, errno.ENOSPC)
        assert state(tmp_path) == before
        new.store(tmp_path / "a.npy", overwrite=True)
        np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), DATA * 2)


def test_a_limit_of_the_system(tmp_path: Path) -> None:
    """Zarr's own writes, refused by the system itself."""
    x = tw.asarray(DATA)
    x.store(tmp_path / "a.zarr", compress=False)
    before, limits = state(tmp_path), resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        for name in ("a.zarr", "a.npy"):
            with pytest.raises(tw.StoreError, match="File too large"):
                (x * 2).store(tmp_path / name, overwrite=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert state(tmp_path) == before


def opened(path: Path) -> Any:
    return tw.from_raw(path, "f8", (240, 31)) if path.suffix == ".raw" else tw.open(path)


def cut_off(path: Path) -> None:
    os.truncate(path, path.stat().st_size * 2 // 3)


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 4
    path.write_bytes(data)


def other_manifest(path: Path) -> None:
    """A whole manifest, of a checkpoint that is elsewhere."""
    tw.checkpoint(tw.asarray(np.tile(DATA, (4, 1))), path.parent.parent / "another")
    path.write_bytes((path.parent.parent / "another" / path.name).read_bytes())


def other_blocks(path: Path) -> None:
    """A whole file of the same sizes, of another checkpoint."""
    tw.checkpoint(tw.asarray(np.tile(DATA, (4, 1))) + 1, path.parent.parent / "another")
    (found,) = (path.parent.parent / "another").glob("array0-*")
    path.write_bytes(found.read_bytes())


DAMAGES: list[tuple[str, str, Callable[[Path], None]]] = [
    ("a.npy", "", cut_off),
    ("a.npz", "", cut_off),
    ("a.npz", "", flip),
    ("plain.npz", "", flip),
    ("a.h5", "", cut_off),
    ("c.h5", "", flip),
    ("a.zarr", "c/3/0", cut_off),
    ("a.zarr", "c/3/0", flip),
    ("a.zarr", "c/3/0", os.unlink),
    ("a.zarr", "zarr.json", cut_off),
    ("a.zarr", "zarr.json", os.unlink),
    ("a.zarr.zip", "", cut_off),
    ("a.zarr.zip", "", flip),
    ("a.parquet", "", cut_off),
    ("a.parquet", "", flip),
    ("a.arrow", "", cut_off),
    ("sharded.zarr", "c/0/0", cut_off),
    ("sharded.zarr", "c/0/0", os.unlink),
    ("a.png", "", cut_off),
    ("a.raw", "", cut_off),
    ("kept", "manifest.json", other_manifest),
    ("kept", "array0-*", other_blocks),
    ("kept", "array0-*", cut_off),
    ("kept", "array0-*", flip),
    ("kept", "array0-*", os.unlink),
    ("kept", "manifest.json", cut_off),
    ("kept", "manifest.json", flip),
]


@pytest.mark.parametrize("name, inside, damage", DAMAGES, ids=lambda x: getattr(x, "__name__", str(x)))
def test_damaged_files_are_refused_by_name(
    tmp_path: Path, name: str, inside: str, damage: Callable[[Path], None]
) -> None:
    x = tw.asarray(np.tile(DATA, (4, 1)))
    if name == "kept":
        tw.checkpoint(x, tmp_path / name)
    elif name == "a.png":
        Image.fromarray((DATA * 40).astype("u1")).save(tmp_path / name)
    elif name in ("a.parquet", "a.arrow", "a.npz", "plain.npz"):
        data = x if name.endswith(".npz") else x[:, 0].copy()
        tw.save(tmp_path / name, {"x": data}, compress=name != "plain.npz")
    else:
        more: Any = {"shards": (100, 31)} if name == "sharded.zarr" else {}
        cut = name in ("c.h5", "a.zarr", "sharded.zarr")
        x.store(tmp_path / name, **({"chunks": (50, 31)} if cut else {}), **more)
    (path,) = (tmp_path / name).glob(inside) if inside else [tmp_path / name]
    damage(path)
    with pytest.raises(tw.StoreError, match=name.replace(".", r"\.")):
        found = opened(tmp_path / name)
        np.asarray(found["x"] if isinstance(found, dict) else found)


FOUND = [("sharded.zarr", 53), ("sharded.zarr", 143), ("chunked.h5", 1020)]  # by `python -m tests.fuzz.damage`


def test_random_damage_is_refused_by_name_or_without_effect(tmp_path: Path) -> None:
    for k, (name, seed) in enumerate([*FOUND, *((name, 7) for name in KINDS)]):
        (tmp_path / str(k)).mkdir()
        assert wrong(seed, name, tmp_path / str(k)) is None
