"""Files as arrays: every kind read and written, on one worker and on several; bytes announced, counted and equal."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import fsspec
import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray as xr
import zarr
from PIL import Image

import tilewise as tw
from tilewise.layout import box_size
from tilewise.store import base, files
from tilewise.store.base import Source
from tilewise.store.formats.flat import FlatSource

DATA = np.random.default_rng(0).normal(size=(60, 31))
SUFFIXES = [".npy", ".zarr", ".zarr.zip", ".h5"]
CHUNKED: dict[str, Any] = {".zarr": {"chunks": (7, 31)}, ".zarr.zip": {"chunks": (7, 31)}, ".h5": {"chunks": (7, 31)}}


@pytest.fixture(autouse=True)
def everything_recorded(same_settings_after_each_test: None) -> None:
    tw.config(eager_bytes=0, fallback="silent", objective="bytes")


@pytest.fixture(params=[None, (2, 2)], ids=str)
def session(request: pytest.FixtureRequest) -> Iterator[Any]:
    options = {} if request.param is None else {"engine": "virtual", "mesh": request.param}
    with tw.session(**options) as made:
        yield made


def opened(path: Path) -> Any:
    return tw.open(path, "x" if path.suffix == ".h5" else None)


@pytest.fixture
def read_boxes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Elements of every read of a source."""
    sizes: list[int] = []
    whole = base.read_box

    def counted(source: Source, box: Any, out: Any) -> None:
        if type(source).__name__ != "Part":
            sizes.append(box_size(box))
        whole(source, box, out)

    for module in ("tilewise.store.base", "tilewise.store.source_slice", "tilewise.engine.worker"):
        monkeypatch.setattr(f"{module}.read_box", counted)
    return sizes


@pytest.mark.parametrize("how", ["plain", "chunked"])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_stored_and_read_again(session: Any, tmp_path: Path, suffix: str, how: str, read_boxes: list[int]) -> None:
    path, options = tmp_path / f"a{suffix}", CHUNKED.get(suffix, {}) if how == "chunked" else {}
    x = tw.asarray(DATA) * 2 + 1
    if how == "plain":
        plan = tw.explain(x, store=path)
        assert plan.written_bytes == DATA.nbytes and f"{DATA.nbytes:,} are written to a store" in str(plan)
        x = tw.evaluate(x)
        before = 0 if session.cluster is None else session.cluster.counters.network_bytes
    with tw.profile() as profile:
        x.store(path, **options)
    assert profile.written_bytes == DATA.nbytes and os.listdir(tmp_path) == [path.name]
    if session.cluster is not None:
        counters = session.cluster.counters
        assert counters.written_bytes == DATA.nbytes
        if how == "plain":
            assert counters.network_bytes - before == next(e.bytes for e in plan.exchanges if e.kind == "write")
            assert suffix in (".zarr", ".zarr.zip") or counters.network_bytes == before
    want = DATA * 2 + 1
    y = opened(path)
    for got, exact in ((y[5:9].sum(0), want[5:9].sum(0)), (y[::20, 3], want[::20, 3])):
        read_boxes.clear()
        plan = tw.explain(got)
        np.testing.assert_allclose(np.asarray(got), exact)
        if exact.ndim == 1 and len(exact) == 31:
            assert plan.read_bytes == sum(read_boxes) * 8 == 4 * 31 * 8
    np.testing.assert_array_equal(np.asarray(y), want)


def test_other_libraries_read_what_is_written(tmp_path: Path) -> None:
    x = tw.asarray(DATA)
    for name in ("c.npy", "f.npy"):
        tw.save(tmp_path / name, x.T if name == "f.npy" else x)
        np.save(tmp_path / "numpy.npy", DATA.T if name == "f.npy" else DATA)
        assert (tmp_path / name).read_bytes() == (tmp_path / "numpy.npy").read_bytes()
    tw.save(tmp_path / "bare", x)  # as NumPy: with a suffix
    np.testing.assert_array_equal(np.load(tmp_path / "bare.npy"), DATA)
    tw.save(tmp_path / "bare", x + 1)  # and in the place of what was there
    np.testing.assert_array_equal(np.load(tmp_path / "bare.npy"), DATA + 1)
    with open(tmp_path / "file.npy", "wb") as file:
        tw.save(file, x)
    np.testing.assert_array_equal(np.load(tmp_path / "file.npy"), DATA)
    x.store(tmp_path / "x.zarr", chunks=(10, 10), shards=(20, 40))
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "x.zarr", mode="r")[:], DATA)
    x.store(tmp_path / "x.h5", name="deep/in")
    (x > 0).store(tmp_path / "x.h5", name="mask")
    with h5py.File(tmp_path / "x.h5") as found:
        np.testing.assert_array_equal(found["deep/in"][:], DATA)
        np.testing.assert_array_equal(found["mask"][:], DATA > 0)
    assert sorted(tw.open(tmp_path / "x.h5")) == ["deep/in", "mask"]
    tw.save(tmp_path / "g.zarr", {"a": x, "b/c": x[0]})
    assert sorted(tw.open(tmp_path / "g.zarr")) == ["a", "b/c"]
    np.testing.assert_array_equal(np.asarray(tw.open(tmp_path / "g.zarr", "b/c")), DATA[0])
    for compress in (False, True):
        tw.save(tmp_path / "x.npz", {"a": x, "f": x.T}, compress=compress)
        with np.load(tmp_path / "x.npz") as both:
            np.testing.assert_array_equal(both["a"], DATA)
            assert both["f"].flags.f_contiguous
        np.testing.assert_array_equal(np.asarray(tw.open(tmp_path / "x.npz", "f")), DATA.T)
    x.store(tmp_path / "x.raw")
    np.testing.assert_array_equal(np.fromfile(tmp_path / "x.raw").reshape(DATA.shape), DATA)
    np.testing.assert_array_equal(np.asarray(tw.from_raw(tmp_path / "x.raw", "f8")), DATA.ravel())


@pytest.mark.parametrize("shape", [(), (0, 3), (1,), (5, 1)], ids=str)
@pytest.mark.parametrize("dtype", ["f8", "?", ">i2", "c8", "S3", "M8[s]"])
def test_all_shapes_and_dtypes(tmp_path: Path, shape: tuple[int, ...], dtype: str) -> None:
    want = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    if np.dtype(dtype).kind == "f" and want.size:
        want[...] = np.array([np.nan, -0.0, np.inf, 1.0, -np.inf])[: want.size].reshape(shape)
    for suffix in SUFFIXES:
        if (np.dtype(dtype).kind == "M" and suffix == ".h5") or (dtype == "S3" and ".zarr" in suffix):
            continue  # HDF5 has no dates; zarr warns that strings may change
        path = tmp_path / f"a{suffix}"
        tw.asarray(want).store(path)
        got = np.asarray(opened(path))
        if ".zarr" in suffix:  # it gives numbers in the order of this machine
            got = got.astype(want.dtype)
        assert got.dtype == want.dtype and got.shape == want.shape and got.tobytes() == want.tobytes()


def test_tables_and_images(session: Any, tmp_path: Path) -> None:
    n = 1000
    table = {"a": np.arange(n), "b": np.arange(n) * 0.5, "c": np.arange(n) % 3 == 0}
    for suffix in (".parquet", ".arrow", ".csv", ".tsv"):
        tw.save(tmp_path / f"t{suffix}", {k: tw.asarray(v) for k, v in table.items()})
        found = tw.open(tmp_path / f"t{suffix}")
        for k, v in table.items():
            assert found[k].dtype == v.dtype
            np.testing.assert_array_equal(np.asarray(found[k][10:900:7]), v[10:900:7])
        assert float((found["a"] * found["b"]).sum()) == float((table["a"] * table["b"]).sum())
    assert (tmp_path / "t.tsv").read_bytes().split(b"\n")[1] == b"0\t0\ttrue"
    (tmp_path / "text.csv").write_text("a\n" + "1\n" * 1000 + "x\n")
    with pytest.raises(tw.StoreError, match=r"column 'a' of .*text\.csv.*type string.*dtypes=\{\"a\""):
        tw.open(tmp_path / "text.csv", "a")
    with pytest.raises(tw.StoreError, match=r"text\.csv.*'x'"):
        np.asarray(tw.from_csv(tmp_path / "text.csv", "a", dtypes={"a": "f8"}))
    (tmp_path / "holes.csv").write_text("a,b,s\n1,,x\n2,0.5,y\n")
    found = tw.from_csv(tmp_path / "holes.csv")
    assert sorted(found) == ["a", "b"]  # text is no array of numbers
    np.testing.assert_array_equal(np.asarray(found["b"]), [np.nan, 0.5])
    (tmp_path / "late.csv").write_text("a\n" + "1\n" * 50 + "\n2.5\n")
    with pytest.raises(tw.StoreError, match=r"late\.csv"):
        np.asarray(tw.from_csv(tmp_path / "late.csv", "a", dtypes={"a": "i8"}))
    assert float(tw.from_csv(tmp_path / "late.csv", "a", dtypes={"a": "f8"}).sum()) == 52.5
    stack = (np.arange(4 * 6 * 5 * 3) % 251).astype("u1").reshape(4, 6, 5, 3)
    for k, image in enumerate(stack):
        Image.fromarray(image).save(tmp_path / f"{k}.png")
    x = tw.from_images(tmp_path / "*.png")
    np.testing.assert_array_equal(np.asarray(x[1:3, :, 2]), stack[1:3, :, 2])
    np.testing.assert_array_equal(np.asarray(x.sum(axis=(1, 2))), stack.sum(axis=(1, 2)))
    Image.fromarray(stack[0, :3]).save(tmp_path / "9.png")
    with pytest.raises(tw.StoreError, match=r"alike.*9\.png"):
        np.asarray(tw.from_images(tmp_path / "*.png"))


def test_columns_are_sources(tmp_path: Path) -> None:
    """What the conformance suite asks of sources with any number of axes."""
    pq.write_table(pa.table({"a": np.arange(100.0)}), tmp_path / "t.parquet", row_group_size=17)
    source = tw.from_parquet(tmp_path / "t.parquet", "a")._cell.node.value
    assert list(source.parts(((10, 40),))) == [((10, 17),), ((17, 34),), ((34, 40),)]
    wide = np.zeros(60)
    out = wide[::2]
    assert source.read(((5, 35),), out=out) is out
    np.testing.assert_array_equal(out, np.arange(5.0, 35.0))
    again = pickle.loads(pickle.dumps(source))
    assert again.fingerprint() == source.fingerprint() and len(pickle.dumps(source)) < 1000
    np.testing.assert_array_equal(again.whole(), np.arange(100.0))


def test_arrays_of_other_libraries(session: Any) -> None:
    computed = []

    def seen(block: Any) -> Any:
        computed.append(block.shape)
        return block

    x = tw.from_dask(da.from_array(DATA, chunks=(20, 31)).map_blocks(seen, meta=np.empty((0, 0))))
    np.testing.assert_allclose(np.asarray(x[3:8].sum(0)), DATA[3:8].sum(0))
    assert computed == [(20, 31)] or computed == [(5, 31)]  # Dask may slice first
    np.testing.assert_array_equal(np.asarray(x + 1), DATA + 1)
    there = tw.to_dask(tw.asarray(DATA) * 2, chunks=(13, 31))
    np.testing.assert_allclose(there.sum(axis=0).compute(), (DATA * 2).sum(axis=0))
    labelled = xr.DataArray(DATA, dims=("t", "x"))
    for given in (labelled, labelled.chunk({"t": 7}), tw.to_xarray(tw.asarray(DATA), dims=("t", "x"))):
        np.testing.assert_array_equal(np.asarray(tw.from_xarray(given) * 2), DATA * 2)


def test_opened_to_read_is_a_source_else_a_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "a.npy", DATA)
    tw.asarray(DATA).store(tmp_path / "a.h5")
    tw.asarray(DATA).store(tmp_path / "a.zarr")
    for mode in ("r", "r+"):
        with h5py.File(tmp_path / "a.h5", mode) as file:
            mapped = np.load(tmp_path / "a.npy", mmap_mode=mode)
            given = [mapped, mapped[5:20, ::3], mapped.T, file["x"], zarr.open_array(tmp_path / "a.zarr", mode=mode)]
            want = [DATA, DATA[5:20, ::3], DATA.T, DATA, DATA]
            arrays = [tw.asarray(g) for g in given]
            assert [x._cell.node is not None for x in arrays] == [mode == "r"] * 5
            for x, exact in zip(arrays, want, strict=True):
                np.testing.assert_array_equal(np.asarray(x), exact)
            if mode == "r+":
                given[0][0] = 7.0  # a snapshot does not see it
                assert float(arrays[0][0, 0]) == DATA[0, 0]
                monkeypatch.setattr(files, "SHARE", 1e-12)
                for g in (given[0], file["x"], given[4]):
                    with pytest.raises(tw.StoreError, match=r"tw\.open\(path\)"):
                        tw.asarray(g)


def changes(tmp_path: Path) -> dict[str, Any]:
    """By kind: an array of a file, and how the file is changed after."""
    x = tw.asarray(DATA)
    for name in ("a.npy", "a.h5", "a.zarr", "c.h5", "a.zarr.zip"):
        x.store(tmp_path / name, **({"chunks": (7, 31)} if name in ("c.h5", "a.zarr") else {}))
    tw.save(tmp_path / "a.parquet", {"x": x[:, 0]})
    tw.save(tmp_path / "a.npz", {"x": x}, compress=True)
    Image.fromarray(np.zeros((3, 3), "u1")).save(tmp_path / "a.png")

    def grown(path: Path) -> None:
        with open(path, "ab") as file:
            file.write(b"more")

    def chunk(path: Path) -> None:
        z = zarr.open_array(path, mode="r+")
        os.utime(path / "c/2/0", ns=(0, 0))  # so that what zarr writes now is later on any disk
        z[14:20] = 0.0

    return {k: chunk if k == "a.zarr" else grown for k in sorted(os.listdir(tmp_path))}


def test_a_file_that_changed_is_not_read(tmp_path: Path) -> None:
    for name, change in changes(tmp_path).items():
        found = tw.open(tmp_path / name)
        x = found["x"] if isinstance(found, dict) else found
        change(tmp_path / name)
        with pytest.raises(tw.SourceChangedError, match="changed after it was opened"):
            np.asarray(x + 1)
    with tw.session(engine="virtual", workers=2):
        np.save(tmp_path / "b.npy", DATA)
        x = tw.open(tmp_path / "b.npy")
        np.save(tmp_path / "b.npy", DATA[:30])
        with pytest.raises(tw.SourceChangedError):
            np.asarray(x + 1)


def test_what_reads_a_file_is_evaluated_before_it_is_written_anew(session: Any, tmp_path: Path) -> None:
    for suffix in SUFFIXES:
        path = tmp_path / f"a{suffix}"
        tw.asarray(DATA).store(path)
        x = opened(path)
        y, total = x * 2, x.sum(0)
        (x + 1).store(path, overwrite=True)
        np.testing.assert_array_equal(np.asarray(opened(path)), DATA + 1)
        np.testing.assert_array_equal(np.asarray(y), DATA * 2)
        np.testing.assert_allclose(np.asarray(total), DATA.sum(0))
        np.testing.assert_array_equal(np.asarray(x), DATA)
        assert len(os.listdir(tmp_path)) == 1
        files.remove(str(path)) if path.is_file() else shutil.rmtree(path)


def test_regions(session: Any, tmp_path: Path) -> None:
    for suffix, options in ((".npy", {}), (".zarr", {"chunks": (7, 8)}), (".h5", {}), (".h5", {"chunks": (7, 8)})):
        path = tmp_path / f"a{suffix}"
        tw.zeros(DATA.shape).store(path, overwrite=True, **options)
        want = np.zeros(DATA.shape)
        for region, value in (
            (np.s_[5:40, 3:20], tw.asarray(DATA[5:40, 3:20]) * 2),
            (np.s_[50], tw.arange(31)),
            (np.s_[:, -1], tw.asarray(2.5)),
        ):
            value.store(path, region=region)
            want[region] = np.asarray(value)
        np.testing.assert_array_equal(np.asarray(opened(path)), want)
        with pytest.raises(tw.StoreError, match="at most 2 slices"):
            tw.ones(1).store(path, region=(0, 0, 0))
        with pytest.raises(ValueError):
            tw.ones((2, 2)).store(path, region=(0,))


def test_urls_and_secrets(session: Any, tmp_path: Path) -> None:
    fsspec.filesystem("memory").rm("/bucket", recursive=True) if fsspec.filesystem("memory").exists("/bucket") else None
    secret = {"key": "AKIA-secret", "more": {"token": "hunter22"}}
    place = "memory://bucket/a.zarr"
    tw.asarray(DATA).store(place, chunks=(20, 31), storage_options=secret)
    x = tw.open(place, storage_options=secret)
    np.testing.assert_array_equal(np.asarray(x[10:30]), DATA[10:30])
    (x * 2).store(place, overwrite=True, storage_options=secret)
    y = tw.open(place, storage_options=secret)
    np.testing.assert_array_equal(np.asarray(y), DATA * 2)
    source = y._cell.node.value
    fsspec.filesystem("memory").rm("/bucket/a.zarr/c/0/0")
    texts = [repr(source), str(source.fingerprint()), str(tw.explain(y + 1)), repr(source.place.options)]
    for act in (lambda: np.asarray(y + 1), lambda: tw.open("memory://bucket/none.zarr", storage_options=secret)):
        with pytest.raises(tw.StoreError) as raised:
            act()
        texts += [str(raised.value), repr(raised.value)]
    assert not any("AKIA" in t or "hunter22" in t for t in texts)
    assert "c/0/0" in texts[4]
    with pytest.raises(FileExistsError, match="overwrite=True"):
        tw.ones(3).store(place)


def test_copying_a_file_holds_one_chunk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewise.store.formats.flat.CHUNK_BYTES", 4096)
    monkeypatch.setattr("tilewise.store.formats.flat.row_chunks.__defaults__", (None, 4096))
    np.save(tmp_path / "a.npy", DATA)
    x = tw.open(tmp_path / "a.npy")
    most: list[int] = []
    read = FlatSource.read

    def noted(self: FlatSource, box: Any, out: Any = None) -> Any:
        most.append(box_size(box))
        return read(self, box, out)

    monkeypatch.setattr(FlatSource, "read", noted)
    monkeypatch.setattr(Source, "whole", None)  # would hold all of it
    x.store(tmp_path / "b.npy")
    assert max(most) * 8 <= 4096 and sum(most) == DATA.size
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()


@pytest.mark.soak
def test_ray_datasets() -> None:
    ray = pytest.importorskip("ray")
    ray.init(address="local", num_cpus=2, include_dashboard=False)
    try:
        import ray.data as data

        x = tw.from_ray(data.from_numpy([DATA[:40], DATA[40:]]))
        np.testing.assert_array_equal(np.asarray(x[35:45]), DATA[35:45])
        assert tw.to_ray(tw.asarray(DATA)).count() == len(DATA)
    finally:
        ray.shutdown()
