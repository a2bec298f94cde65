"""Every program of the table gives NumPy's values, dtypes and shapes, at sizes that take no time."""

from dataclasses import replace

import numpy as np
import pytest

import tilewise as tw
from benchmarks.kernels.plans import numpy_share
from benchmarks.kernels.registry import load
from benchmarks.kernels.systems import differs, evaluated, tilewise_inputs
from benchmarks.scripts.__main__ import names as scripts
from benchmarks.scripts.__main__ import near
from benchmarks.scripts.again import load as load_script
from benchmarks.scripts.again import results, wrong

TINY = 1_000  # elements
PROGRAMS = load()


@pytest.mark.parametrize("eager_bytes", [0, tw.config().eager_bytes])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values(name: str, eager_bytes: int) -> None:
    program = PROGRAMS[name]
    inputs = program.inputs(TINY)
    before = [np.copy(x) for x in inputs]
    expected = program.source(np, *inputs)
    with tw.config(eager_bytes=eager_bytes, fallback="silent"):
        result = evaluated(program.source(tw, *tilewise_inputs(inputs)))
    assert differs(result, expected, program.rtol, strict=True) == ""
    assert all(np.array_equal(x, y) for x, y in zip(inputs, before, strict=True)), "the inputs have changed"


def test_differences_are_told() -> None:
    right = np.arange(4.0)
    assert differs(right, right, 1e-9, strict=True) == ""
    assert differs(right + 1e-3, right, 1e-9).startswith("result 0[0] is 0.001, not 0.0 (4 of 4")
    assert differs(right.astype(np.float32), right, 1e-9, strict=True) == "result 0 is float32(4,), not float64(4,)"
    assert differs((right, np.nan), (right, 1.0), 1e-9).startswith("result 1[] is nan")


def test_numpy_calls_are_counted() -> None:
    chain = PROGRAMS["chain"]
    share = numpy_share(chain, chain.inputs(TINY))
    assert (share.nodes, share.names) == (7, [])
    ordered = replace(chain, source=lambda np, a, b, c: np.sort(a + b))
    share = numpy_share(ordered, chain.inputs(TINY))
    assert (share.nodes, share.names, share.share) == (2, ["sort"], 0.5)


@pytest.mark.parametrize("eager_bytes", [0, tw.config().eager_bytes])
@pytest.mark.parametrize("name", scripts())
def test_scripts(name: str, eager_bytes: int) -> None:
    script = load_script(name)
    expected = results(script, script.SIZES["small"])
    with tw.config(eager_bytes=eager_bytes, fallback="silent"):
        assert wrong(script, results(load_script(name, tw), script.SIZES["small"]), expected) == ""


def test_texts_that_are_near() -> None:
    assert near("mean 1.0000001, 3 of 5", "mean 1.0, 3 of 5")
    assert not near("mean 1.1, 3 of 5", "mean 1.0, 3 of 5")
    assert not near("mean 1.0", "median 1.0")
