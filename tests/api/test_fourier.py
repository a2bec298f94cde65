"""np.fft on meshes and here: NumPy's values, dtypes and complaints; a transform along an uncut axis moves nothing."""

import warnings
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tests.conftest import Some

MESHES: tuple[Any, ...] = (None, 2, 4, 7, (2, 2))
RNG = np.random.default_rng(5)
REAL = RNG.standard_normal((6, 9, 8))
DATA = {
    "real": REAL,
    "single": REAL.astype(np.float32),
    "half": REAL.astype(np.float16),
    "whole": (REAL * 10).astype(np.int32),
    "complex": REAL + 1j * REAL[::-1],
    "single complex": (REAL + 1j * REAL[::-1]).astype(np.complex64),
    "bool": REAL > 0,
    "turned": np.asfortranarray(REAL),
}
ONE = "fft ifft rfft irfft hfft ihfft".split()
CALLS: list[tuple[str, dict[str, Any]]] = [
    *((kind, {}) for kind in ONE),
    *((kind, {"axis": 0, "norm": "ortho"}) for kind in ONE),
    *((kind, {"n": 5, "axis": 1, "norm": "forward"}) for kind in ONE),
    *((kind, {"n": 12, "axis": -3, "norm": "backward"}) for kind in ONE),
    *((f"{kind}{several}", {}) for kind in ONE[:4] for several in "2n"),
    *((f"{kind}n", {"axes": (2, 0), "norm": "ortho"}) for kind in ONE[:4]),
    *((f"{kind}n", {"s": (5, -1, 7), "axes": (0, 1, 2)}) for kind in ONE[:4]),
    *((f"{kind}2", {"s": (5, 4), "axes": (1, 1)}) for kind in ONE[:4]),
    ("fftshift", {}),
    ("ifftshift", {}),
    ("fftshift", {"axes": (0, 2)}),
    ("ifftshift", {"axes": 1}),
]


def session(mesh: Any) -> Any:
    return tw.session(engine="local") if mesh is None else tw.session(engine="virtual", mesh=mesh)


def outcome(module: Any, a: Any, name: str, options: dict[str, Any]) -> Any:
    try:
        made = getattr(module.fft, name)(a, **options)
        return made.dtype, made.shape, np.asarray(made)
    except Exception as error:
        return type(error), str(error), None


def agrees(a: np.ndarray[Any, Any], name: str, options: dict[str, Any]) -> None:
    want, got = outcome(np, a, name, options), outcome(tw, tw.array(a) * a.dtype.type(1), name, options)
    assert got[:2] == want[:2], (name, options, got[:2], want[:2])
    if want[2] is not None:
        assert got[2].strides == want[2].strides or want[2].size < 2, (name, options)
        eps = np.finfo(want[2].dtype).eps if want[2].dtype.kind in "fc" else 0
        np.testing.assert_allclose(got[2], want[2], rtol=20 * eps, atol=200 * eps, err_msg=f"{name} {options}")


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("data", DATA)
def test_transforms(mesh: Any, data: str, some: Some) -> None:
    with tw.config(eager_bytes=0, fallback="error"), session(mesh):
        for name, options in some(CALLS):
            if not (data == "complex" and name.startswith(("rfft", "ihfft"))):
                agrees(DATA[data], name, options)


@pytest.mark.parametrize("mesh", MESHES)
def test_what_is_wrong_is_said_as_numpy_does(mesh: Any) -> None:
    with tw.config(eager_bytes=0, fallback="silent"), session(mesh):
        for name, options in [
            ("fft", {"axis": 3}), ("fft", {"n": 0}), ("rfft", {"n": -1}), ("ifft", {"norm": "none"}),
            ("fft", {"n": 2.5}), ("fftn", {"axes": (0, 4)}), ("fft2", {"s": (1, 2, 3)}), ("fftn", {"axes": ()}),
            ("rfftn", {"axes": ()}), ("irfft", {"norm": ["ortho"]}),
        ]:  # fmt: skip
            agrees(REAL, name, options)
        for name in "rfft ihfft rfftn rfft2".split():
            agrees(REAL + 1j, name, {})
        for shape in ((0, 3), (3, 0), (0,), ()):
            for name in ("fft", "rfft", "irfft", "fftn", "fft2"):
                agrees(np.zeros(shape), name, {})


def test_out_is_written() -> None:
    with tw.config(eager_bytes=0), session(2):
        x = tw.array(REAL)
        out = tw.zeros(REAL.shape, complex)
        assert tw.fft.fft(x, out=out) is out
        np.testing.assert_allclose(out.compute(), np.fft.fft(REAL), atol=1e-13)


def test_a_transform_is_recorded() -> None:
    x = tw.array(REAL)
    with tw.config(eager_bytes=0), warnings.catch_warnings():
        warnings.simplefilter("error")
        y = tw.fft.ifft2(tw.fft.fft2(x) * 2.0).real
        text = str(tw.explain(y))
        assert "fft[1]" in text and "ifft[2]" in text
        np.testing.assert_allclose(y.compute(), 2 * REAL, atol=1e-14)


def moved(here: Any, y: tw.Array) -> int:
    """The bytes that computing y moves between workers: as many as were announced."""
    counters = here.cluster.counters
    before = counters.network_bytes, counters.predicted_bytes
    tw.evaluate(y)
    crossed, said = counters.network_bytes - before[0], counters.predicted_bytes - before[1]
    assert crossed == said
    return int(crossed)


@pytest.mark.parametrize("mesh", [2, 4, 7])
def test_a_transform_moves_its_axis_together_and_nothing_else(mesh: int) -> None:
    a = RNG.random((280, 280))
    with tw.config(eager_bytes=0), session(mesh) as here:
        x = tw.evaluate(tw.array(a).relayout(rows=mesh))
        y = tw.fft.fft(x, axis=1)
        assert moved(here, y) == 0  # the axis is not cut
        np.testing.assert_allclose(y.compute(), np.fft.fft(a, axis=1), atol=1e-10)
        y = tw.fft.fft(x, axis=0)
        assert "all-to-all" in str(tw.explain(y))
        assert moved(here, y) == a.nbytes * (mesh - 1) // mesh
        np.testing.assert_allclose(y.compute(), np.fft.fft(a, axis=0), atol=1e-10)
