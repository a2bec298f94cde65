"""Turns of a slow worker on Ray, within memory=: another process takes some, with the same bits and announced bytes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewise as tw

SHAPE, MEMORY = (2048, 64), 100_000
LONG = 60.0  # seconds after which nobody waits any more


def worked(folder: str) -> Callable[[Any], Any]:
    """Doubles a tile, and notes which process did so. The one named in `slow` begins when the others have nothing left
    to do, and takes its time."""

    def work(x: Any) -> Any:
        slow, least = map(int, Path(folder, "slow").read_text().split())
        mine = str(os.getpid())
        began = time.monotonic()
        if os.getpid() == slow:
            while time.monotonic() < began + LONG:
                done = sum(p.stat().st_size for p in Path(folder).glob("turns-*") if p.name != f"turns-{mine}")
                if done >= least:
                    break
                time.sleep(0.005)
            time.sleep(0.03)
        with open(Path(folder, f"turns-{mine}"), "ab") as file:
            file.write(b".")
        return x * 2.0

    return work


def test_turns_of_a_slow_worker(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    notes, path = tmp_path / "notes", tmp_path / "x.npy"
    notes.mkdir()
    x = np.random.default_rng(0).random(SHAPE)
    np.save(path, x)
    work = worked(str(notes))

    def program() -> Any:
        return tw.map_tiles(work, tw.open(path), dtype=float, shape=SHAPE).sum(0)

    with (
        tw.config(eager_bytes=0, fallback="silent"),
        tw.session(engine="ray", workers=2, memory=MEMORY, threads=1) as session,
    ):
        counters: Any = session.cluster.counters  # type: ignore[union-attr]
        (notes / "slow").write_text("0 0")
        want = np.asarray(program())
        np.testing.assert_allclose(want, 2 * x.sum(0), rtol=1e-12)
        turns = {int(p.name.split("-")[1]): p.stat().st_size for p in notes.glob("turns-*")}
        assert len(turns) == 2
        slow, other = turns
        for note in notes.glob("turns-*"):
            note.unlink()
        before = counters.stolen_blocks, counters.stolen_bytes, counters.network_bytes
        own = sum(turns.values()) // 2  # one may have taken turns of the other in the first run already
        (notes / "slow").write_text(f"{slow} {own - 1}")

        y = program()
        plan = tw.explain(y)
        read = session.disk.read_bytes
        got = np.asarray(y)
        assert got.tobytes() == want.tobytes()
        stolen = counters.stolen_blocks - before[0]
        now = {int(p.name.split("-")[1]): p.stat().st_size for p in notes.glob("turns-*")}
        assert stolen > 0 and sum(now.values()) == sum(turns.values()) and now[other] > now[slow]
        assert counters.stolen_bytes - before[1] >= stolen * 8 * SHAPE[1]  # contributions to the sum came back
        assert counters.network_bytes - before[2] == plan.network_bytes
        assert session.disk.read_bytes - read == plan.read_bytes == x.nbytes
        assert session.disk.peak_bytes <= MEMORY
