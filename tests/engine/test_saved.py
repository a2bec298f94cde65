"""Sessions with a checkpoint: what workers hold is on disk, the log is short, and all of them may be lost at once."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.engine.threads import Threads, start, steps
from tilewise import engine
from tilewise.engine.recovery.saved import read_blocks, write_blocks


@pytest.fixture(autouse=True)
def registered(same_settings_after_each_test: None) -> Iterator[None]:
    tw.config(eager_bytes=0, fallback="silent", objective="bytes")
    engine.register("threads", Threads)
    yield
    engine.unregister("threads")


def held(folder: Path) -> list[str]:
    return [name for name in os.listdir(folder) if name.startswith("held")]


def lose_all(cluster: Any) -> None:
    for host in list(cluster.hosts):
        cluster.kill(host)


@pytest.mark.parametrize("memory", [None, "1MiB"])
def test_all_workers_may_be_lost_at_once(tmp_path: Path, memory: Any) -> None:
    kept = tmp_path / "kept"
    with tw.session(engine="threads", workers=3, checkpoint=kept, every=4, memory=memory) as session:
        cluster: Any = session.cluster
        cluster.copies_blocks = False  # no copies in memory
        cluster.quiet_seconds = 10.0
        sent = tw.asarray(np.arange(3.0))  # an array of the driver's: nobody else has it after the checkpoint
        x = tw.evaluate(tw.asarray(start()).relayout(0) + sent)
        bounded = []
        for _ in range(4):
            x = steps(x, 5)
            bounded.append((len(cluster.log), len(held(kept))))
        assert cluster.counters.saves >= 4 and cluster.counters.saved_bytes > 0
        assert max(log for log, _ in bounded) <= 9 and max(count for _, count in bounded) <= 6, bounded
        lose_all(cluster)
        x = steps(x, 2)
        np.testing.assert_allclose(np.asarray(x), steps(start() + np.arange(3.0), 22))
        counters = cluster.counters
        assert counters.replays == 1 and counters.network_bytes == counters.predicted_bytes
        assert counters.written_bytes == 0  # announced by nobody: counted apart
        assert len(cluster.log) <= 9  # not one for each step
    assert held(kept) == []


def test_values_on_disks_of_workers_come_back_to_disks(tmp_path: Path) -> None:
    """What is restored had no room in memory before."""
    x = np.arange(40_000.0).reshape(400, 100)
    np.save(tmp_path / "x.npy", x)
    with tw.session(engine="threads", workers=2, checkpoint=tmp_path / "kept", every=1, memory=90_000) as session:
        cluster: Any = session.cluster
        cluster.copies_blocks = False
        cluster.quiet_seconds = 10.0
        sent = np.arange(100.0)  # so that it is not made of files alone
        z = tw.evaluate(tw.open(tmp_path / "x.npy") * tw.asarray(sent))
        (held,) = cluster.living()
        assert held.on_disk
        float(tw.open(tmp_path / "x.npy").sum())
        assert cluster.counters.saved_bytes == z.nbytes
        lose_all(cluster)
        np.testing.assert_array_equal(np.asarray((z * 2).max(0)), (x * sent * 2).max(0))
        np.testing.assert_array_equal(np.asarray(z), x * sent)
        assert cluster.counters.replays == 1


def test_a_loop_resumes_with_other_workers_in_the_same_folder(tmp_path: Path) -> None:
    """The state of the loop is in the manifest, and what else workers hold beside it; neither removes the other's."""
    kept = tmp_path / "kept"

    class Killed(Exception):
        pass

    def run(workers: int, stop: int | None) -> Any:
        with tw.session(engine="threads", workers=workers, checkpoint=kept, every=2) as session:
            data = tw.evaluate(tw.asarray(np.arange(12.0)).relayout(0) * 2)
            state = {"x": tw.zeros(12)}
            for i in tw.resumable(range(9), state):
                state["x"] = tw.evaluate(state["x"] * 0.5 + data * i)
                if i == stop:
                    lose_all(session.cluster)
                    if workers == 3:
                        raise Killed
            return np.asarray(state["x"])

    with pytest.raises(Killed):
        run(3, 4)
    got = run(2, 7)
    want = np.zeros(12)
    for i in range(9):
        want = want * 0.5 + np.arange(12.0) * 2 * i
    np.testing.assert_array_equal(got, want)
    assert held(kept) == []


def test_a_damaged_checkpoint_is_refused_when_a_session_opens(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    tw.checkpoint(tw.ones(3), kept)
    (kept / "manifest.json").write_text("{")
    with pytest.raises(tw.StoreError, match=r"manifest\.json is damaged"):
        tw.session(engine="threads", workers=2, checkpoint=kept)
    with pytest.raises(ValueError, match='every="30s"'):
        tw.session(engine="virtual", workers=2, checkpoint=tmp_path / "other", every="soon")
    assert not (tmp_path / "other").exists()


def test_a_full_disk_and_a_damaged_file_are_told_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "kept"
    with tw.session(engine="threads", workers=2, checkpoint=kept, every=2) as session:
        cluster: Any = session.cluster
        cluster.copies_blocks = False
        cluster.quiet_seconds = 10.0
        x = steps(tw.asarray(start()).relayout(0), 2)
        with monkeypatch.context() as full:

            def refuse(*args: Any) -> int:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

            full.setattr(os, "pwrite", refuse)
            before = set(held(kept))
            with pytest.raises(tw.StoreError, match=r"held\d-.*No space left on device. Free some space"):
                steps(x, 5)
            assert set(held(kept)) <= before
        x = steps(tw.asarray(start()).relayout(0), 4)
        np.testing.assert_allclose(np.asarray(x), steps(start(), 4))
        tw.evaluate(x + 1), tw.evaluate(x + 2)  # saved by now
        for name in held(kept):
            data = bytearray((kept / name).read_bytes())
            data[-3] ^= 8
            (kept / name).write_bytes(data)
        lose_all(cluster)
        with pytest.raises(tw.StoreError, match=r"held\d-.* is damaged: .*checksum"):
            np.asarray(x)


VALUES: dict[int, Any] = {
    3: {-1: np.array(2.5), 0: np.arange(6).reshape(2, 3)},
    4: {1: np.asfortranarray(np.arange(24.0).reshape(2, 3, 4)), 2: np.empty((0, 4), "f4")},
    7: {0: np.array([(1, 2.5)], [("a", "i4"), ("b", "f8", (1,))]), 1: np.array([True, False]), 2: np.array([1 + 2j])},
}


def test_blocks_are_read_as_they_were_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "held0-000000000000.blocks"
    write_blocks(str(path), VALUES)
    got = read_blocks(str(path), [3, 4, 7])
    assert {k: list(parts) for k, parts in got.items()} == {k: list(parts) for k, parts in VALUES.items()}
    for key, parts in VALUES.items():
        for block, x in parts.items():
            y = got[key][block]
            assert (y.dtype, y.shape, y.strides) == (x.dtype, x.shape, x.strides)
            np.testing.assert_array_equal(y, x)
    assert list(read_blocks(str(path), [4])) == [4]
    good = path.read_bytes()
    for at in range(0, len(good), 5):
        bad = bytearray(good)
        bad[at] ^= 2
        path.write_bytes(bad)
        with pytest.raises(tw.StoreError, match=r"held0-.* is damaged"):
            read_blocks(str(path), [3, 4, 7])
        path.write_bytes(good[:at])
        with pytest.raises(tw.StoreError, match=r"held0-.* is damaged"):
            read_blocks(str(path), [3, 4, 7])
    with pytest.raises(FileExistsError):
        write_blocks(str(path), VALUES)
