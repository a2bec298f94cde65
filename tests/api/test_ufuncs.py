"""Every NumPy ufunc with its options and methods, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import tilewise
from tests.api.support import MODES, check_all, rows
from tests.conftest import Some

UFUNCS = sorted(
    {
        f.__name__: f for n in dir(numpy) if isinstance(f := getattr(numpy, n), numpy.ufunc) and f.signature is None
    }.items()
)
UNARY = [n for n, f in UFUNCS if f.nin == 1]
BINARY = [n for n, f in UFUNCS if f.nin == 2]
EXACT = set(
    "add subtract multiply divide floor_divide remainder fmod negative positive absolute fabs sign square sqrt "
    "reciprocal rint floor ceil trunc equal not_equal less less_equal greater greater_equal logical_and "
    "logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor bitwise_count invert left_shift "
    "right_shift maximum minimum fmax fmin isnan isinf isfinite signbit copysign nextafter spacing modf frexp "
    "ldexp divmod gcd lcm heaviside conjugate".split()
)
DTYPES = "b i8 u8 i16 u16 i32 u32 i u64 f16 f32 v c64 c".split()
SHAPES = "s e one odd A F G N P T R".split()
PAIRS = (
    "v w|i k|A row|A col|F G|F s|N 2|2 P|T A[0, 0]|e one|v a[0, 0]|p v|a A|A a|s s|s 2|f32 1.5|f32 v|i8 1|u8 i8|"
    "f16 f32|i 2.5|b b|c 2|odd w|R T.transpose(0, 1, 2)[:, :, :1]|[1.0, 2.0, 3.0] A|A [1, 2, 3]|i32 u32|u64 i|"
    "c64 v|b i8|k b|F T[:, :, :1][0]|odd odd[::-1]"
).split("|")


def ulps(name: str) -> int:
    """Tolerance of a function's values."""
    return 0 if name in EXACT else 8


def each(pairs: tuple[str, ...] | list[str], name: str) -> list[str]:
    """Calls of a binary function."""
    out = []
    for pair in pairs:
        first, second = pair.split(" ", 1) if not pair.startswith("[") else pair.rsplit(" ", 1)
        out.append(f"np.{name}({first}, {second})")
    return out


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, mode: str) -> None:
    operands = (*DTYPES, *SHAPES, "u", "2", "2.5", "True", "[1, 2]", "a")
    check_all([f"np.{name}({x})" for x in operands], mode, ulps(name))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str, mode: str, some: Some) -> None:
    check_all(some(each(PAIRS, name)), mode, ulps(name))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", BINARY)
def test_binary_dtypes(name: str, mode: str, some: Some) -> None:
    check_all([f"np.{name}({x}, {y})" for x in DTYPES for y in some(("k", x, "2", "b", "f32"))], mode, ulps(name))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "name",
    ["add", "less", "power", "logical_and", "bitwise_and", "hypot", "sqrt", "exp", "isnan", "negative", "invert"],
)
def test_options(name: str, mode: str) -> None:
    x = "v, w" if getattr(numpy, name).nin == 2 else "w"
    if name in ("bitwise_and", "invert"):
        x = x.replace("v", "i").replace("w", "k")
    check_all([option.format(f=name, x=x) for option in rows("ufunc_options")], mode, ulps(name))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["modf", "frexp"])
def test_two_results(name: str, mode: str) -> None:
    texts = (
        "np.{f}(v)", "np.{f}(F)", "np.{f}(s)", "np.{f}(f32)", "o = np.zeros(6); r = np.{f}(v, o); (r[0] is o, r)",
        "o = np.zeros(6); r = np.{f}(v, out=(o, None)); (r[0] is o, r)",
        "o = np.zeros(6); r = np.{f}(v, out=(None, o)); (r[1] is o, r)",
        "q = np.full(6, 5, int if '{f}' == 'frexp' else float); np.{f}(v, out=(u, q), where=b); (u, q)",
        "np.divmod(v, w)", "np.divmod(i, 3)", "divmod(v, w)", "divmod(7, k + 1)", "divmod(i, 0)",
    )  # fmt: skip
    check_all([text.format(f=name) for text in texts], mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", BINARY)
def test_methods(name: str, mode: str) -> None:
    tolerance = (
        64
        if name in ("add", "multiply", "hypot", "logaddexp", "logaddexp2", "arctan2", "power", "float_power")
        else ulps(name)
    )
    check_all([text.format(f=name) for text in rows("ufunc_methods")], mode, tolerance)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", UNARY)
def test_methods_of_unary(name: str, mode: str) -> None:
    texts = (
        "np.{f}.reduce(v)", "np.{f}.accumulate(v)", "np.{f}.outer(v, v)", "np.{f}.reduceat(v, [0])",
        "np.{f}.at(v, k); v", "np.{f}.at(i, [0, 0]); i",
        "np.{f}.at(v, k, 1.0)", "np.{f}.at(A, (at[1:], at[1:])); A",
    )  # fmt: skip
    check_all([text.format(f=name) for text in texts], mode, ulps(name))


OPERATORS = "+ - * / // % ** & | ^ << >> < <= > >= == != @".split()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sign", OPERATORS)
def test_operators(sign: str, mode: str) -> None:
    texts = []
    for pair in rows("pairs"):
        cut = pair.index("] ") + 1 if pair.startswith("[") else pair.index(" ")
        x, y = pair[:cut], pair[cut + 1 :]
        texts.append(f"{x} {sign} {y}")
        if sign not in ("<", "<=", ">", ">=", "==", "!=") and x.isidentifier() and x not in "ap":
            texts += [f"{x} {sign}= {y}; {x}", f"y = {x}[...]; y {sign}= {y}; ({x}, y)", f"{x}[1:2] {sign}= {y}"]
        elif x in ("a", "p") and sign not in ("<", "<=", ">", ">=", "==", "!="):
            texts.append(f"{x} {sign}= {y}; {x}.tolist()")
    check_all(texts, mode, 64 if sign == "@" else 8 if sign == "**" else 0)


@pytest.mark.parametrize("mode", MODES)
def test_signs(mode: str) -> None:
    texts = "-v|+v|abs(v)|~i|~b|-b|-u8|abs(i8)|~v|-s|-F|abs(c)|round(v)|round(s)|v.sum().__round__()"
    check_all(texts.split("|"), mode)


class _Overrides:
    """Takes part in ufuncs by the protocol, also as an output."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        at = [i for i, a in enumerate(inputs) if a is self]
        return at or [-1 - j for j, a in enumerate(kwargs["out"]) if a is self]


class _Refuses:
    __array_ufunc__ = None

    def __rdivmod__(self, other: Any) -> str:
        return "theirs"


class _Powers:
    """Has powers, but no products."""

    def __pow__(self, exponent: Any) -> Any:
        return exponent


@pytest.mark.parametrize("eager_bytes", [0, 1 << 20])
def test_other_classes_have_their_say(eager_bytes: int) -> None:
    with tilewise.config(eager_bytes=eager_bytes):
        for np in (numpy, tilewise):
            x, other = np.arange(3.0), _Overrides()
            assert np.add(x, other) == [1] and np.add(x, x, other) == [-1] and np.sin(x, out=(other,)) == [-1]
            assert np.modf(x, None, other) == [-2] and np.modf(x, out=(other, x)) == [-1]
            assert divmod(x, _Refuses()) == "theirs"
            assert (np.array([_Powers(), _Powers()]) ** 2).tolist() == [2, 2]
            with pytest.raises(TypeError, match="must be a tuple"):
                np.modf(x, out=x)
            with pytest.raises(ValueError, match="one entry per"):
                np.modf(x, out=(x,))
