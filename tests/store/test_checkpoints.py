"""Checkpoints: what was kept comes back, whenever the program died; a half-written one is never taken for a whole."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.store.killed import expected, lines, program

DATA = np.random.default_rng(2).normal(size=(50, 21))


@pytest.mark.parametrize("workers", [None, 3])
def test_arrays_come_back(tmp_path: Path, workers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewise.store.checkpoint.BLOCK_BYTES", 1024)
    options = {} if workers is None else {"engine": "virtual", "workers": workers}
    path = tmp_path / "kept"
    with tw.config(eager_bytes=0), tw.session(**options) as session:
        x = tw.checkpoint(tw.asarray(DATA) * 2, path)
        np.testing.assert_array_equal(np.asarray(x), DATA * 2)
        np.testing.assert_array_equal(np.asarray(tw.open(path)[40:]), DATA[40:] * 2)
        both = tw.checkpoint({"a": x + 1, "f": x.T, "n": tw.asarray(3)}, path)
        np.testing.assert_array_equal(np.asarray(both["a"]), DATA * 2 + 1)
        np.testing.assert_array_equal(np.asarray(x), DATA * 2)  # whose checkpoint is no longer the one there
        found = tw.open(path)
        assert list(found) == ["a", "f", "n"] and int(found["n"]) == 3 and found["f"].flags.f_contiguous
        np.testing.assert_array_equal(np.asarray(tw.open(path, "f")), DATA.T * 2)
        one, two = tw.checkpoint((x, x + 2), path)
        np.testing.assert_array_equal(np.asarray(one + two), DATA * 2 + (DATA * 2 + 2))
        if workers is not None:  # nothing that led to it is remembered
            assert type(one._cell.node.value).__name__ == "BlockSource"
            assert session.cluster.counters.written_bytes == 4 * DATA.nbytes  # what they held
    with tw.config(eager_bytes=0), tw.session(engine="virtual", workers=2):  # with another number of workers
        np.testing.assert_array_equal(np.asarray(tw.open(path, "1")), DATA * 2 + 2)
    del x, both, found, one, two
    tw.checkpoint(tw.ones(3), path)
    assert len(os.listdir(path)) == 2  # those before are gone


def test_a_loop_goes_on_where_it_was(tmp_path: Path) -> None:
    class Killed(Exception):
        pass

    def run(path: Path, stop: int | None) -> dict[str, Any]:
        state: dict[str, Any] = {
            "x": tw.zeros((5, 3)), "n": 0, "rng": tw.random.default_rng(5), "history": [0.5], "text": "a",
            "np": np.zeros(2), "scalar": np.float32(2), "nothing": None,
        }  # fmt: skip
        for i in tw.resumable(range(10), state, path, every=3):
            state["x"] = state["x"] + state["rng"].normal(size=3)
            state["n"] += 1
            state["np"][0] += i
            state["scalar"] += np.float32(0.5)
            state["history"] = [*state["history"], float(i)]
            if i == stop:
                raise Killed
        return state

    want = run(tmp_path / "whole", None)
    for stop in (0, 2, 3, 7):
        with pytest.raises(Killed):
            run(tmp_path / "cut", stop)
    got = run(tmp_path / "cut", None)
    assert got.keys() == want.keys() and json.loads((tmp_path / "cut/manifest.json").read_text())["body"]["values"]
    for k in want.keys() - {"rng"}:
        np.testing.assert_array_equal(np.asarray(got[k]), np.asarray(want[k]))
        assert type(got[k]) is type(want[k])
    assert float(got["rng"].normal()) == float(want["rng"].normal())
    done = run(tmp_path / "cut", None)  # there is nothing left to do
    assert done["n"] == 10
    with pytest.raises(tw.StoreError, match=r"another state.*'n'.*Remove the folder"):
        list(tw.resumable(range(10), {"y": 1}, tmp_path / "cut"))
    tw.checkpoint(tw.ones(2), tmp_path / "arrays")
    with pytest.raises(tw.StoreError, match="not of a loop"):
        list(tw.resumable(range(10), {"y": 1}, tmp_path / "arrays"))
    with tw.session(checkpoint=tmp_path / "by session", every=1):
        for i in tw.resumable(range(4), state := {"y": 0}):
            state["y"] += i
    for _ in tw.resumable(range(4), again := {"y": 0}, tmp_path / "by session"):
        raise AssertionError
    assert again == {"y": 6}


def test_a_driver_that_is_killed_loses_one_iteration_at_most(tmp_path: Path) -> None:
    """Killed at its k-th call of the system for a checkpoint, for several k, then again and again until the end."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.store.killed"])
    moments, kills = [3, 9, 10, 11, 12, 13, 14, 20, 40], 0
    for moment in moments:
        while True:
            child = context.Process(target=program, args=(str(tmp_path / "kept"), str(tmp_path / "log"), moment))
            child.start()
            child.join(60)
            if child.exitcode == 0:
                break
            assert child.exitcode == -9
            kills += 1
            if moment < max(moments):
                break  # the next one goes on, and dies elsewhere
    assert kills >= 8
    np.testing.assert_array_equal(np.asarray(tw.open(tmp_path / "kept", "x")), expected())
    seen = [i for i, _ in lines(str(tmp_path / "log"))]
    assert sorted(set(seen)) == list(range(max(seen) + 1)) and len(seen) <= max(seen) + 1 + kills
    shutil.rmtree(tmp_path / "kept")
