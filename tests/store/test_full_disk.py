"""A disk that is really full (a small file system of its own; only root has one): errors by name, nothing changes."""

from __future__ import annotations

import errno
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.store.test_damage import state

SMALL = np.random.default_rng(2).normal(size=(40, 25))  # 8 kB
LARGE = np.random.default_rng(3).normal(size=(400, 100))  # 320 kB


@pytest.fixture
def disk(tmp_path: Path, same_settings_after_each_test: None) -> Iterator[Path]:
    """A folder with room for 160 kB."""
    tw.config(eager_bytes=0, fallback="silent")
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160k", "tmpfs", place], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("only root may mount a small file system")
    yield place
    subprocess.run(["umount", place], check=True)


@pytest.mark.parametrize("session", [{}, {"engine": "virtual", "workers": 3}], ids=["local", "virtual"])
def test_a_disk_without_room(disk: Path, session: Any) -> None:
    names = ["a.npy", "a.raw", "a.zarr", "a.zarr.zip", "a.h5", "a.npz", "a.parquet"]
    with tw.session(**session):
        for name in names:
            small: Any = {"x": tw.asarray(SMALL)[:, 0].copy()} if name == "a.parquet" else tw.asarray(SMALL)
            tw.save(disk / name, {"x": small} if name == "a.npz" else small)
        tw.checkpoint(tw.asarray(SMALL), disk / "kept")
        next(loop := tw.resumable(range(3), {"x": tw.asarray(SMALL)}, disk / "loop", every=1))
        next(loop)
        before = state(disk)
        for name in [*names, "new.npy", "new.zarr", "new.h5"]:
            whole: Any = tw.asarray(LARGE) + 1
            if name == "a.parquet":
                whole = {"x": whole.ravel().copy()}
            elif name == "a.npz":
                whole = {"x": whole}
            how = {} if name in ("a.npy", "a.npz") else {"overwrite": True}
            with pytest.raises(tw.StoreError, match=rf"{re.escape(name)}.*Free some space") as raised:
                tw.save(disk / name, whole, **how)
            assert raised.value.errno == errno.ENOSPC
            assert state(disk) == before, name
        with pytest.raises(tw.StoreError, match=r"kept/array0-.*Free some space"):
            tw.checkpoint(tw.asarray(LARGE), disk / "kept")
        with pytest.raises(tw.StoreError, match=r"loop/array0-.*Free some space"):
            for _ in tw.resumable(range(3), again := {"x": tw.asarray(SMALL)}, disk / "loop", every=1):
                again["x"] = tw.asarray(LARGE)
        assert state(disk) == before
        np.testing.assert_array_equal(np.asarray(tw.open(disk / "kept")), SMALL)
