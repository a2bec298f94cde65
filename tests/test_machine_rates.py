"""Measured rates: kept in a plain file, read back, refused where they are of another machine or broken."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

import tilewise as tw
from tilewise.api import calibrate
from tilewise.api.explaining import parse_rate
from tilewise.cost import stored
from tilewise.cost.model import FIXED


def test_rates_are_kept_and_read_back(tmp_path: Path) -> None:
    rates = replace(FIXED, memory_rate=1.5e10, latency=2e-5)
    path = stored.save(rates, tmp_path)
    assert stored.load(tmp_path) == rates
    assert json.loads(path.read_text())["memory_rate"] == 1.5e10


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 1}', "not json"])
def test_a_broken_file_counts_as_none(tmp_path: Path, text: str) -> None:
    stored.path_in(tmp_path).write_text(text)
    stored.load.cache_clear()
    assert stored.load(tmp_path) is None


@pytest.mark.parametrize(("name", "value"), [("cpu", "another"), ("version", 0), ("memory_rate", -1.0)])
def test_rates_of_another_machine_count_as_none(tmp_path: Path, name: str, value: object) -> None:
    path = stored.save(FIXED, tmp_path)
    found = json.loads(path.read_text()) | {name: value}
    path.write_text(json.dumps(found))
    stored.load.cache_clear()
    assert stored.load(tmp_path) is None


def test_a_measurement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in {"STREAM": 1 << 18, "SIDE": 128, "ORDERED": 1 << 14, "REPEATS": 5, "LEAST_SECONDS": 0}.items():
        monkeypatch.setattr(calibrate, name, size)
    with tw.config(cache_dir=tmp_path):
        rates, path = tw.calibrate()
    assert path.name == "machine.json" and stored.load(tmp_path) == rates
    assert all(0 < getattr(rates, name) < float("inf") for name in stored.RATES)
    assert rates.memory_rate > 1e8 and rates.flop_rate > 1e8
    kept = {"small_bytes", "objective"}  # these are not measured
    assert all(getattr(rates, f.name) != getattr(FIXED, f.name) for f in fields(rates) if f.name not in kept)


def test_plans_use_measured_rates_where_asked(tmp_path: Path) -> None:
    stored.save(replace(FIXED, network_rate=1.25e8), tmp_path)
    with tw.config(eager_bytes=0, cache_dir=tmp_path):
        y = tw.asarray(tw.ones((1000, 1000)).compute()) * 2
        fast = tw.explain(y, workers=4)
        with tw.config(machine="measured"):
            slow = tw.explain(y, workers=4)
    assert slow.seconds > 5 * fast.seconds


def test_measured_without_a_measurement_says_how(tmp_path: Path) -> None:
    with (
        tw.config(eager_bytes=0, cache_dir=tmp_path, machine="measured"),
        pytest.raises(tw.TilewiseError, match="calibrate"),
    ):
        tw.explain(tw.ones(10) + 1, workers=2)


@pytest.mark.parametrize(
    ("text", "rate"),
    [("10Gbit", 1.25e9), ("10Gb/s", 1.25e9), ("100 Mbps", 1.25e7), ("1GB/s", 1e9), ("1GiB", 2.0**30), (5e8, 5e8)],
)
def test_network_rates(text: object, rate: float) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["fast", "-1Gbit", "0", float("inf"), float("nan"), ""])
def test_network_rates_that_are_none(text: object) -> None:
    with tw.config(eager_bytes=0), pytest.raises(tw.TilewiseError, match="network is a rate"):
        tw.explain(tw.ones(10) + 1, workers=2, network=text)
