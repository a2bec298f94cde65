"""Paths as users write them: URLs of files, bytes, regions with an ellipsis; what is no file is not replaced by one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest

import tilewise as tw
from tilewise.store import files

X = np.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize("name", ["x.npy", "x.zarr", "x.zarr.zip"])
def test_file_urls(name: str, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/{name}"
    tw.asarray(X).store(url)
    assert os.listdir(tmp_path) == [name]
    assert np.array_equal(tw.open(url), X)
    assert np.array_equal(tw.open(tmp_path / name), X)


def test_paths_of_bytes(tmp_path: Path) -> None:
    tw.save(tmp_path / "x.npy", tw.asarray(X))
    assert np.array_equal(tw.open(os.fsencode(tmp_path / "x.npy")), X)


@pytest.mark.parametrize("url", ["memory://x.npy", "s3://me:secret@bucket/x.h5"])
def test_urls_of_what_is_no_zarr_array(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for refused in (lambda: tw.asarray(X).store(url), lambda: tw.open(url)):
        with pytest.raises(tw.StoreError, match=r"only Zarr arrays .* at URLs") as error:
            refused()
        assert "secret" not in str(error.value)


def test_regions_with_an_ellipsis(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    np.save(path, X)
    tw.full((3, 1), 7.0).store(path, region=np.s_[..., 1:2])
    expected = X.copy()
    expected[..., 1:2] = 7.0
    assert np.array_equal(np.load(path), expected)
    for wrong in (np.s_[..., ...], np.s_[5], "rows"):
        with pytest.raises(tw.StoreError, match="a region"):
            tw.ones(4).store(path, region=wrong)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_a_pipe_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x.npy")
    with pytest.raises(tw.StoreError, match="pipe"):
        tw.asarray(X).store(tmp_path / "x.npy", overwrite=True)
    assert stat.S_ISFIFO(os.stat(tmp_path / "x.npy").st_mode)
    assert os.listdir(tmp_path) == ["x.npy"]


def test_bytes_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "x.raw").write_bytes(bytes(24))
    with pytest.raises(ValueError, match="negative"):
        tw.from_raw(tmp_path / "x.raw", "f8", (-1,))
    for offset in (-8, 32):
        with pytest.raises(tw.StoreError, match="begin within"):
            tw.from_raw(tmp_path / "x.raw", "f8", offset=offset)
    assert tw.from_raw(tmp_path / "x.raw", "f8", offset=24).shape == (0,)


def test_what_a_library_says_of_damage_is_no_success(tmp_path: Path) -> None:
    """Arrow raises OSErrors of its own, which have no number."""
    with pytest.raises(tw.StoreError, match=r"damaged.*thrift"), files.explained("x.parquet", "read"):
        raise OSError("Couldn't deserialize thrift")
