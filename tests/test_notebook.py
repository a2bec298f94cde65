"""What notebooks show of arrays; nothing is computed for it."""

import numpy as np
import pytest

import tilewise as tw
from tilewise.array.pending import waiting


def test_known_arrays_show_elements() -> None:
    text = tw.asarray([[1.5, 2.0], [3.0, 4.0]])._repr_html_()
    for part in ("2 × 2", "float64", "32 bytes, 4 elements", "in this process", "1.5"):
        assert part in text


def test_large_arrays_show_their_edges() -> None:
    text = tw.asarray(np.arange(1e6))._repr_html_()
    assert "1,000,000 elements" in text and "8.0 MB" in text and "..." in text and len(text) < 1500


@pytest.mark.parametrize("view", [lambda x: x, lambda x: x[::2], lambda x: x.T])
def test_pending_arrays_stay_pending(view: object) -> None:
    with tw.config(eager_bytes=0):
        x = view(tw.ones((10, 20)) * 2)  # type: ignore[operator]
        text = x._repr_html_()
        assert "pending" in text and "<pre>" not in text
        assert waiting(x._cell)


def test_lengths_that_masks_decide_are_not_counted() -> None:
    with tw.config(eager_bytes=0):
        x = tw.arange(10.0)
        kept = x[x > 3]
        assert "?" in kept._repr_html_() and waiting(kept._cell)


def test_workers() -> None:
    with tw.session(engine="virtual", workers=2):
        x = tw.evaluate(tw.ones((1000, 1000)) * 2)
        text = x._repr_html_()
        assert "on workers, rows/2" in text and "<pre>" not in text


@pytest.mark.parametrize("value", [np.array(5), np.zeros((0, 3)), np.array(["<b>"]), np.array([None])])
def test_every_kind_of_array(value: object) -> None:
    text = tw.asarray(value)._repr_html_() if np.ndim(value) else tw.array(value)._repr_html_()  # type: ignore[arg-type]
    assert text.startswith("<div>") and "<b>'" not in text
