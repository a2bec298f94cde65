"""What a kind of file cannot hold, and what came between: errors that name the file, and nothing left or lost."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import fsspec
import h5py
import numpy as np
import pytest

import tilewise as tw
from tilewise.store.formats.hdf5 import new_dataset

NESTED = np.zeros(3, [("a", "i2", (2,)), ("b", [("c", "f4")])])
DATES = np.zeros((), "M8[s]")


@pytest.mark.parametrize(
    ("name", "data", "options"),
    [
        ("x.zarr", NESTED, {}),
        ("x.zarr.zip", NESTED, {}),
        ("x.zarr", np.zeros(3, np.longdouble), {}),
        ("x.h5", DATES, {"name": "x"}),
        ("x.h5", DATES[None], {"name": "x"}),
        ("x.h5", np.zeros((0, 2), "U3"), {"name": "x"}),
    ],
)
def test_a_type_that_a_kind_of_file_has_not(name: str, data: Any, options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(tw.StoreError, match=name):
        tw.asarray(data).store(tmp_path / name, **options)
    assert os.listdir(tmp_path) == []


def test_what_is_at_a_url_outlives_a_type_that_it_cannot_have() -> None:
    url = "memory://kept/x.zarr"
    tw.arange(3).store(url)
    with pytest.raises(tw.StoreError):
        tw.asarray(NESTED).store(url, overwrite=True)
    assert np.array_equal(tw.open(url), [0, 1, 2])
    fsspec.filesystem("memory").rm("/kept", recursive=True)


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "csv"])
def test_columns_in_the_other_order_of_bytes(suffix: str, tmp_path: Path) -> None:
    column = np.arange(4.0).astype(">f8") + 0.5
    tw.save(tmp_path / f"x.{suffix}", {"a": tw.asarray(column)})
    assert np.array_equal(tw.open(tmp_path / f"x.{suffix}", "a"), column)


@pytest.mark.parametrize("options", [{}, {"chunks": (2,)}], ids=str)
def test_a_dataset_that_came_meanwhile_is_not_lost(options: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "x.h5"
    tw.arange(3).store(path, name="before")
    chunks = options.get("chunks")
    with new_dataset(path, "late", (4,), "f8", False, chunks, False) as sink:
        sink.write(((0, 4),), np.ones(4))
        tw.arange(5).store(path, name="between")
        with pytest.raises(tw.StoreError, match="meanwhile"):
            sink.commit()
    with h5py.File(path) as file:
        assert sorted(file) == ["before", "between"]
    assert os.listdir(tmp_path) == ["x.h5"]
