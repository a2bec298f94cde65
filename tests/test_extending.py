"""What docs/extending.md does not show of adding functions and engines: options, names that are taken, code on disk."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tilewise import engine
from tilewise.api.ufuncs import wrapped
from tilewise.backend.llvm.compile import key
from tilewise.backend.llvm.emit.text import Val
from tilewise.backend.llvm.math.table import FOREIGN, MATH, body
from tilewise.engine.virtual import Virtual
from tilewise.ir.scalar import ADDED, EXPENSIVE, TABLE, add
from tilewise.layout import Mesh


def meaning(x: Any, y: Any) -> Any:
    """x y + 1"""
    return x * y + 1.0


@pytest.fixture
def product_and_one() -> Any:
    """A function of two elements. Its name is its own, so that no other test meets it."""
    add("product_and_one", meaning, like=np.hypot, native=("float64",), expensive=True)

    @body
    def product_and_one(x: Val, y: Val) -> Val:
        return x * y + 1.0

    return wrapped("product_and_one")


VALUES = np.linspace(-4.0, 4.0, 5_000)


@pytest.mark.parametrize("eager_bytes", [0, 1 << 30])
@pytest.mark.parametrize(
    "call",
    [
        lambda f, x: f(x, x),
        lambda f, x: f(x, 3),
        lambda f, x: f(2, x.astype("f4")),
        lambda f, x: f(x.astype(int), x.astype("i1")),
        lambda f, x: f(x[:, None][:50], x[:7]),
        lambda f, x: f(x, x, dtype="f4", casting="same_kind"),
        lambda f, x: f(x, x, out=x * 0.0, where=x > 1),
        lambda f, x: f(2.0, 3.0) + x,
    ],
)
def test_an_added_function_takes_what_ufuncs_take(
    product_and_one: Any, call: Callable[[Any, Any], Any], eager_bytes: int
) -> None:
    row = ADDED["product_and_one"]
    with tw.config(eager_bytes=eager_bytes):
        found = np.asarray(call(product_and_one, tw.asarray(VALUES)))
    expected = call(row.call, VALUES)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_a_name_stands_for_one_function(product_and_one: Any) -> None:
    assert add("product_and_one", meaning, like=np.hypot) is TABLE["product_and_one"]
    assert "product_and_one" in EXPENSIVE
    with pytest.raises(ValueError, match="another function product_and_one"):
        add("product_and_one", lambda x, y: x - y, like=np.hypot)
    with pytest.raises(ValueError, match="there is a function exp already"):
        add("exp", meaning, like=np.hypot)

    def exp(x: Val) -> Val:
        return x

    with pytest.raises(ValueError, match="there is code for exp already"):
        body(exp)
    assert MATH["exp"] is not exp and "exp" not in FOREIGN


def test_code_from_elsewhere_has_no_name_on_disk(product_and_one: Any, tmp_path: Path) -> None:
    assert key.name_of(("kernel", "exp"), "")
    with pytest.raises(FileNotFoundError):
        key.name_of(("kernel", "product_and_one"), "")
    with tw.config(eager_bytes=0, cache_dir=tmp_path):
        x = tw.asarray(VALUES)
        np.testing.assert_array_equal(product_and_one(x, x) - 17.0, meaning(VALUES, VALUES) - 17.0)
    assert not [f for f in tmp_path.rglob("*") if f.is_file()]


def test_engines_are_registered_and_taken_out_again() -> None:
    opened: list[Any] = []

    def opener(mesh: Mesh, options: engine.Options) -> Virtual:
        opened.append(options)
        return Virtual(mesh, options.memory)

    engine.register("mine", opener)
    try:
        assert engine.names() == ("local", "virtual", "ray", "mine")
        with tw.session(engine="mine", workers=3, memory="1GiB", address="here") as session:
            assert session.workers == 3 and "mine" in repr(session)
        assert opened == [engine.Options(1 << 30, "here", None)]
    finally:
        engine.unregister("mine")
    with pytest.raises(tw.TilewiseError, match="Choose one of local, virtual, ray"):
        tw.session(engine="mine")
