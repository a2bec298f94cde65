"""Nodes of a Ray cluster that are lost, with and without another that is free. Takes minutes: `make soak` runs it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import tilewise as tw
from tilewise.errors import PerformanceWarning, TilewiseError

pytestmark = pytest.mark.soak
STORE_BYTES = 100 << 20
WANT = numpy.arange(1000.0) - numpy.arange(1000.0).mean()


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A cluster of three nodes: one for Ray's own servers, two for a worker each."""
    utils = pytest.importorskip("ray.cluster_utils")
    engine = pytest.importorskip("tilewise.engine.ray")
    monkeypatch.setattr(engine.RayCluster, "place_seconds", 5.0)
    made = utils.Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE_BYTES},
    )
    made.workers = [made.add_node(num_cpus=1, object_store_memory=STORE_BYTES) for _ in range(2)]
    made.wait_for_nodes()
    yield made
    made.shutdown()


def lose(nodes: Any, node: Any) -> None:
    nodes.remove_node(node, allow_graceful=False)
    time.sleep(6.0)  # until its processes have noticed


def begun() -> Any:
    x = tw.evaluate(tw.asarray(numpy.arange(1000.0)).relayout(0))
    return tw.evaluate(x - x.mean())


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("on_loss", ["shrink", "fail", "wait"])
def test_a_lost_node(nodes: Any, on_loss: str) -> None:
    options: Any = {"engine": "ray", "workers": 2, "address": nodes.address, "on_loss": on_loss}
    with tw.config(eager_bytes=0, objective="bytes"), tw.session(**options) as session:
        y = begun()
        numpy.testing.assert_allclose(numpy.asarray(y), WANT)
        lose(nodes, nodes.workers[1])
        if on_loss == "wait":
            nodes.add_node(num_cpus=1, object_store_memory=STORE_BYTES)
        elif on_loss == "fail":
            with pytest.warns(PerformanceWarning, match="no place in the cluster"):
                for _ in range(2):  # the second use must not hang
                    with pytest.raises(TilewiseError, match="no place for others"):
                        numpy.asarray(y + 1)
            nodes.add_node(num_cpus=1, object_store_memory=STORE_BYTES)
        if on_loss == "shrink":
            with pytest.warns(PerformanceWarning, match="no place in the cluster"):
                numpy.testing.assert_allclose(numpy.asarray(y + 1), WANT + 1)
            assert list(session.cluster.hosts.values()) == [(0, 1)]
        for _ in range(3):
            numpy.testing.assert_allclose(numpy.asarray(y + 1), WANT + 1)
        counters = session.cluster.counters
        assert counters.network_bytes == counters.predicted_bytes and counters.replays == 1
        if on_loss == "shrink":  # workers move back once there is a place
            nodes.add_node(num_cpus=1, object_store_memory=STORE_BYTES)
            until = time.monotonic() + 60.0
            while len(session.cluster.hosts) < 2 and time.monotonic() < until:
                numpy.testing.assert_allclose(numpy.asarray(y + 1), WANT + 1)
                time.sleep(0.2)
            assert sorted(session.cluster.hosts.values()) == [(0,), (1,)]
            assert session.cluster.node_of(min(session.cluster.hosts)) != session.cluster.node_of(
                max(session.cluster.hosts)
            )
            counters = session.cluster.counters
            assert counters.network_bytes == counters.predicted_bytes and counters.replays == 2
