"""Lengths of tiles that are tried while programs run: the best is kept, trials cost little, results stay the same."""

import json
import os
import threading
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import tilewise as tw
from tests.effort import SOME_OR_ALL
from tests.engine.test_tiled import PROGRAMS, run
from tilewise import compiler, rounding
from tilewise.array.program import program_of
from tilewise.backend.llvm.compile import disk, key
from tilewise.backend.llvm.tiles import group, lengths, tuning, tuning_records
from tilewise.backend.llvm.tiles.tuning import Trials
from tilewise.backend.llvm.tiles.tuning_records import FACTORS, USUAL, Record, record_of
from tilewise.stage.steps import Tiled
from tilewise.tuning import tuned

FIGURES = tuned()
X = np.random.default_rng(4).normal(size=(3000, 100))
LOOSE = ("softmax", "layer norm", "distances", "nearest", "transposed")  # nothing is summed over tiles


def as_a_new_process():
    """Know only what is on disk."""
    tuning_records.forget()
    compiler.forget_plans()


@pytest.fixture(autouse=True)
def fresh_folder(tmp_path):
    """A folder without records."""
    as_a_new_process()
    with tw.config(cache_dir=tmp_path / "cache", eager_bytes=0):
        yield
    as_a_new_process()


class Clock:
    """A clock that stands still, except for runs: these take what is said, by the number of their tiles."""

    def __init__(self, seconds):
        self.now, self.seconds, self.tiles = 0.0, seconds, []

    def __call__(self):
        return self.now

    def ran(self, tiles):
        self.tiles.append(tiles)
        self.now += self.seconds(tiles, len(self.tiles))


@pytest.fixture
def clocked(monkeypatch):
    def install(seconds):
        clock, real = Clock(seconds), group._run

        def timed(plan, *rest):
            done = real(plan, *rest)
            clock.ran(plan.walk.tiles)
            return done

        monkeypatch.setattr(tuning, "clock", clock)
        monkeypatch.setattr(group, "_run", timed)
        return clock

    return install


# --- the choice --------------------------------------------------------------------------------------------------


def trials(tmp_path, offered=FACTORS, build_s=0.0):
    return Trials(Record((tmp_path, "some class"), None), list(offered), build_s)


def play(each, seconds, runs=400):
    """The lengths that runs take, where a run takes `seconds` of a length and its number; until one is kept."""
    taken = []
    for n in range(runs):
        turn = each.begin()
        each.end(turn, seconds(turn.factor, n))
        taken.append(turn.factor)
        if each.record.factor is not None:
            break
    return taken


@pytest.mark.parametrize("best", [USUAL, *FACTORS])
def test_the_quickest_is_kept(tmp_path, best):
    each = trials(tmp_path)
    play(each, lambda f, n: 0.010 if f != best else 0.008)
    assert each.record.factor == best and each.begin().factor == best
    assert tuning._running == 1  # the turn that was just begun
    each.end(tuning.Turn(best, 0, timed=False), None)


def test_noise_that_only_slows_runs_down_changes_nothing(tmp_path):
    noise = np.random.default_rng(5).uniform(0, 0.4, 1000)
    each = trials(tmp_path)
    play(each, lambda f, n: 0.010 * (1 + noise[n]) * (0.7 if f == 2 else 1))
    assert each.record.factor == 2
    each = trials(tmp_path)
    play(each, lambda f, n: 0.010 * (1 + noise[n]) * (0.98 if f == 2 else 1))
    assert each.record.factor == USUAL  # two percent are not worth a change


@pytest.mark.parametrize("slow", [1.02, 1.1, 1.4, 2.0])
def test_trials_cost_no_more_than_their_share(tmp_path, slow):
    each, total, best = trials(tmp_path), 0.0, 0.010
    for n in range(300):
        turn = each.begin()
        seconds = best * (slow if turn.factor != USUAL else 1.0)
        each.end(turn, seconds)
        total += seconds
        if each.record.factor is None:
            assert each.spent <= FIGURES.trial_share * total * (1 + 1e-9), n
            assert each.spent == pytest.approx(total - best * (n + 1))
    assert each.record.factor == USUAL


def test_a_length_far_slower_is_tried_once_and_stops_that_side(tmp_path):
    each = trials(tmp_path)
    taken = play(each, lambda f, n: 0.010 if f in (USUAL, 0.5, 0.25) else 0.050)
    assert taken.count(2.0) == 1 and taken.count(4.0) == 0 and taken.count(0.25) == FIGURES.trial_tries
    assert each.record.factor == USUAL


def test_a_busy_time_drops_nothing(tmp_path):
    """Runs one after the other are compared: where all of them are slow, a trial is not to blame."""
    each = trials(tmp_path)
    taken = play(each, lambda f, n: 0.010 * (1 + 2 * (n // 7 % 2)) * (0.8 if f == 2 else 1), runs=2000)
    assert all(taken.count(f) >= FIGURES.trial_tries for f in FACTORS) and each.record.factor == 2


def test_trials_end(tmp_path):
    taken = play(trials(tmp_path), lambda f, n: 0.010)
    assert len(taken) < 100 and all(taken.count(f) == FIGURES.trial_tries for f in FACTORS)
    assert all(USUAL in pair for pair in pairwise(taken))  # never two trials in a row


def test_a_plan_that_takes_long_to_make_waits_until_it_is_affordable(tmp_path):
    taken = play(trials(tmp_path, build_s=0.1), lambda f, n: 0.010)
    first = next(n for n, f in enumerate(taken) if f != USUAL)
    assert FIGURES.trial_share * (first + 12) * 0.010 >= 0.1


def test_short_runs_are_left_alone(tmp_path):
    each = trials(tmp_path)
    assert set(play(each, lambda f, n: FIGURES.trial_least_s / 2)) == {USUAL} and each.record.factor is None


def test_turns_at_the_same_time_are_not_measured(tmp_path):
    each = trials(tmp_path)
    for _ in range(100):
        one, other = each.begin(), each.begin()
        assert other.factor == USUAL
        each.end(other, 0.010)
        each.end(one, 0.010)
    assert each.seen[USUAL].count == 0 and each.record.factor is None


def test_a_run_that_fails_does_not_count(tmp_path):
    each = trials(tmp_path)
    each.end(each.begin(), None)
    assert each.total == 0 and tuning._running == 0


def test_many_threads(tmp_path):
    each = trials(tmp_path)
    workers = [threading.Thread(target=play, args=(each, lambda f, n: 0.010)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert tuning._running == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_can_go_on(tmp_path):
    each = trials(tmp_path)
    turn = each.begin()
    with tuning._lock:
        child = os.fork()
        if child == 0:
            play(each, lambda f, n: 0.010)
            os._exit(0 if each.record.factor == USUAL and tuning._running == 0 else 1)
    each.end(turn, 0.010)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# --- whole programs ----------------------------------------------------------------------------------------------


def tiles_of(name="softmax", data=X):
    """The line of the plan that says how a program is cut."""
    made = PROGRAMS[name](tw, tw.asarray(data))
    (line,) = [line for line in str(tw.explain(made)).splitlines() if "tiles of" in line]
    return line.strip()


def kept():
    """The lengths that trials have settled on."""
    return [record.factor for record in tuning_records.known() if record.factor is not None]


def settled(clock, name="softmax", runs=120):
    return [run(PROGRAMS[name], X)[0].tobytes() for _ in range(runs)]


def test_fewer_tiles_are_kept_where_they_are_quicker_and_a_new_process_knows(clocked):
    clock = clocked(lambda tiles, n: 0.010 + tiles * 1e-4)
    before = tiles_of()
    assert "tuned" not in before
    assert len(set(settled(clock))) == 1
    usual, least = clock.tiles[0], min(clock.tiles)
    assert clock.tiles[-5:] == [least] * 5 and usual > 3 * least
    assert tiles_of().endswith(", tuned") and f" {least:,} tiles" in tiles_of()
    with tw.config(tune=False):
        assert tiles_of() == before
    as_a_new_process()
    clock.tiles.clear()
    settled(clock, runs=3)
    assert clock.tiles == [least] * 3 and tiles_of().endswith(", tuned")


SHAPES = [(3000, 100), (20_001, 13), (2_001, 257), (50_000, 4), (50, 3000)]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("whole", SOME_OR_ALL)
def test_tuning_changes_no_bit(name, whole, clocked, some):
    for shape in SHAPES if whole else some(SHAPES, 3):
        if name == "gram and sums" and shape[0] < shape[1]:
            continue  # a large result
        data = np.random.default_rng(6).normal(size=shape)
        with tw.config(tune=False):
            want = [a.tobytes() for a in run(PROGRAMS[name], data)]
        clock = clocked(lambda tiles, n: 0.010)
        for _ in range(45):  # all lengths are tried by then
            assert [a.tobytes() for a in run(PROGRAMS[name], data)] == want
        if name in LOOSE and shape == SHAPES[0]:
            assert 3 <= len(set(clock.tiles)) <= 1 + len(FACTORS)  # the caches limit the longest


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_is_kept_changes_no_bit(name, monkeypatch, some):
    for shape in some(SHAPES):
        data = np.random.default_rng(7).normal(size=shape)
        with tw.config(tune=False):
            want = [a.tobytes() for a in run(PROGRAMS[name], data)]
        for factor in FACTORS:
            as_a_new_process()
            monkeypatch.setattr(group, "record_of", lambda where, f=factor: Record(where, f))
            assert [a.tobytes() for a in run(PROGRAMS[name], data)] == want


@pytest.mark.parametrize("l2_kib", [256, 512, 4096])
@pytest.mark.parametrize("name", LOOSE)
def test_machines_with_other_caches_give_the_same_bits(name, l2_kib, monkeypatch, some):
    real = lengths.machine()
    for shape in some(SHAPES):
        data, found = np.random.default_rng(8).normal(size=shape), []
        for kib in (2048, l2_kib):
            as_a_new_process()
            monkeypatch.setattr(lengths, "machine", lambda kib=kib: replace(real, l2_bytes=kib << 10))
            found.append([a.tobytes() for a in run(PROGRAMS[name], data)])
        assert found[0] == found[1]


def test_tiles_suit_the_l2_cache(monkeypatch):
    made = program_of([PROGRAMS["softmax"](tw, tw.asarray(np.ones((60_000, 5))))])
    plan, nodes, *_ = made.plan(None)
    (step,) = [s for s in plan.steps if isinstance(s, Tiled)]
    cut = lengths.tiling(step, nodes)
    assert cut is not None and cut.any_length
    real, sizes = lengths.machine(), []
    for kib in (64, 1024, 2048, 1 << 20):
        monkeypatch.setattr(lengths, "machine", lambda kib=kib: replace(real, l2_bytes=kib << 10))
        sizes.append(lengths.fitted(cut).tile * cut.each)
    assert sizes == sorted(sizes) and sizes[0] <= real.l1_bytes and sizes[-1] <= FIGURES.tile_most_bytes
    assert sizes[1:3] == pytest.approx([(1 << 20) / FIGURES.tile_l2_share, (2 << 20) / FIGURES.tile_l2_share], rel=0.05)


@pytest.mark.parametrize("rows", [4_000, 60_000, 200_000])
def test_chunks_have_a_least_of_work_unless_sums_hang_on_them(rows):
    for name, loose in (("softmax", True), ("there and back", False)):
        made = program_of([PROGRAMS[name](tw, tw.asarray(np.zeros((rows, 50))))])
        plan, nodes, *_ = made.plan(None)
        (step,) = [s for s in plan.steps if isinstance(s, Tiled)]
        cut = lengths.tiling(step, nodes)
        if rows * 50 * 8 < rounding.SUMMED_AT_BYTES and not loose:
            assert cut is None  # adding sums up takes longer
            continue
        assert cut is not None and cut.any_length == loose
        if not loose:
            assert cut.chunks == min(cut.tiles, rounding.TILE_CHUNKS)
            continue
        for found in (cut, lengths.fitted(cut), lengths.fitted(cut, 0.25)):
            per_chunk = found.each * rows // found.chunks
            assert per_chunk >= FIGURES.tile_chunk_bytes
            assert found.chunks == rounding.TILE_CHUNKS or per_chunk < 2 * max(
                FIGURES.tile_chunk_bytes, found.each * found.tile
            )


@pytest.mark.parametrize(("l1_kib", "l2_kib"), [(32, 64), (32, 256), (48, 2048), (192, 16 << 10)])
def test_lengths_lie_between_what_the_two_caches_hold(l1_kib, l2_kib, monkeypatch):
    """The bounds of Parakeet's section 5.1: a pessimist's tile is in the L1 cache, an optimist's fills the L2 cache."""
    made = program_of([PROGRAMS["softmax"](tw, tw.asarray(np.ones((2_000_000, 5))))])
    plan, nodes, *_ = made.plan(None)
    (step,) = [s for s in plan.steps if isinstance(s, Tiled)]
    cut = lengths.tiling(step, nodes)
    there = replace(lengths.machine(), l1_bytes=l1_kib << 10, l2_bytes=l2_kib << 10)
    monkeypatch.setattr(lengths, "machine", lambda: there)
    spare = 1 - rounding.TILE_ROWS * cut.each / there.l1_bytes  # lengths are multiples of some rows
    sizes = [lengths.fitted(cut, f).tile * cut.each for f in (USUAL, *FACTORS)]
    assert all(spare * there.l1_bytes <= size <= there.l2_bytes for size in sizes)
    assert len(set(lengths.offered(cut))) == len(lengths.offered(cut)) == len(set(sizes)) - 1


@pytest.mark.parametrize("workers", [1, 3])
def test_blocks_of_workers_are_tuned_and_no_bit_changes(workers, clocked):
    data = np.random.default_rng(9).normal(size=(9000, 100))
    with tw.config(tune=False), tw.session(engine="virtual", workers=workers):
        want = np.asarray(PROGRAMS["softmax"](tw, tw.asarray(data))).tobytes()
    clock = clocked(lambda tiles, n: 0.010 + tiles * 1e-4)
    with tw.session(engine="virtual", workers=workers):
        x = tw.asarray(data)
        found = set()
        while not kept() and len(clock.tiles) < 400 * workers:  # how soon depends on how many tiles the caches allow
            found.add(np.asarray(PROGRAMS["softmax"](tw, x)).tobytes())
        found.add(np.asarray(PROGRAMS["softmax"](tw, x)).tobytes())
    assert found == {want}
    assert clock.tiles[-workers:] == [min(clock.tiles)] * workers and len(set(clock.tiles)) > 3


def test_sums_over_tiles_and_products_keep_their_length(clocked, monkeypatch):
    monkeypatch.setattr(rounding, "SUMMED_AT_BYTES", rounding.TILED_AT_BYTES)
    clock = clocked(lambda tiles, n: 0.010 + tiles * 1e-4)
    for name in ("there and back", "sums along both axes"):
        settled(clock, name, runs=80)
        assert len(set(clock.tiles)) == 1
        clock.tiles.clear()


def test_a_forced_length_is_never_changed(clocked):
    clock = clocked(lambda tiles, n: 0.010 + tiles * 1e-4)
    with tw.config(tile=64):
        settled(clock, runs=80)
        assert tiles_of().endswith("47 tiles of 64")
    assert set(clock.tiles) == {47}


def test_without_tuning_nothing_is_tried_or_kept(clocked):
    clock = clocked(lambda tiles, n: 0.010 + tiles * 1e-4)
    with tw.config(tune=False):
        settled(clock, runs=80)
    assert len(set(clock.tiles)) == 1


# --- on disk -----------------------------------------------------------------------------------------------------


def test_records_are_json_for_this_cpu_and_code():
    folder = tw.config().cache_dir
    Record((folder, "some class"), None).settle(2.0)
    (file,) = (folder / "code").iterdir()
    assert file.name == key.name_of("some class", "") and file.stat().st_mode & 0o077 == 0
    assert json.loads(disk.get(folder / "code", file.name)) == {"factor": 2.0}
    assert record_of((folder, "some class")).factor == 2.0
    assert record_of((folder, "another class")).factor is None


@pytest.mark.parametrize("fact", [{"factor": 3.0}, {"factor": "2"}, {"factor": None}, {}, [2.0], 2.0, None])
def test_facts_that_are_no_records_are_none(fact):
    folder = tw.config().cache_dir
    disk.put(folder / "code", key.name_of("some class", ""), json.dumps(fact).encode())
    assert record_of((folder, "some class")).factor is None


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff" * 200])
def test_a_damaged_file_is_none_and_is_written_again(damage):
    folder = tw.config().cache_dir
    Record((folder, "some class"), None).settle(2.0)
    (file,) = (folder / "code").iterdir()
    file.write_bytes(damage)
    found = record_of((folder, "some class"))
    assert found.factor is None
    found.settle(0.5)
    tuning_records.forget()
    assert record_of((folder, "some class")).factor == 0.5


def test_text_that_is_no_json_is_none():
    folder = tw.config().cache_dir
    disk.put(folder / "code", key.name_of("some class", ""), b"{factor")
    assert record_of((folder, "some class")).factor is None


def test_a_folder_that_cannot_be_used_costs_one_warning(tmp_path):
    (tmp_path / "file").write_text("in the way")
    each = trials(tmp_path / "file")
    with pytest.warns(tw.PerformanceWarning, match="not kept"):
        play(each, lambda f, n: 0.010 if f != 2 else 0.005)
    assert each.record.factor == 2.0
