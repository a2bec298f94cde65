"""Every NumPy ufunc with its options and methods, against NumPy."""

from __future__ import annotations

import numpy
import pytest

from tests.api.support import MODES, check_all

UFUNCS = sorted(
    {f.__name__: f for n in dir(numpy) if isinstance(f := getattr(numpy, n), numpy.ufunc) and f.signature is None}.items()
)
UNARY = [n for n, f in UFUNCS if f.nin == 1]
BINARY = [n for n, f in UFUNCS if f.nin == 2]
EXACT = set(
    "add subtract multiply divide floor_divide remainder fmod negative positive absolute fabs sign square sqrt reciprocal rint floor ceil trunc "
    "equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor logical_not bitwise_and bitwise_or bitwise_xor "
    "bitwise_count invert left_shift right_shift maximum minimum fmax fmin isnan isinf isfinite signbit copysign nextafter spacing modf frexp "
    "ldexp divmod gcd lcm heaviside conjugate".split()
)
DTYPES = "b i8 u8 i16 u16 i32 u32 i u64 f16 f32 v c64 c".split()
SHAPES = "s e one odd A F G N P T R".split()
PAIRS = (
    "v w|i k|A row|A col|F G|F s|N 2|2 P|T A[0, 0]|e one|v a[0, 0]|p v|a A|A a|s s|s 2|f32 1.5|f32 v|i8 1|u8 i8|f16 f32|i 2.5|b b|c 2|odd w|"
    "R T.transpose(0, 1, 2)[:, :, :1]|[1.0, 2.0, 3.0] A|A [1, 2, 3]|i32 u32|u64 i|c64 v|b i8|k b|F T[:, :, :1][0]|odd odd[::-1]"
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
def test_binary(name: str, mode: str) -> None:
    check_all(each(PAIRS, name), mode, ulps(name))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", BINARY)
def test_binary_dtypes(name: str, mode: str) -> None:
    check_all([f"np.{name}({x}, {y})" for x in DTYPES for y in ("k", x, "2", "b", "f32")], mode, ulps(name))


OPTIONS = (
    "o = np.zeros(6); r = np.{f}({x}, out=o); (r is o, o)",
    "o = np.zeros(6); r = np.{f}({x}, o); (r is o, o)",
    "o = np.zeros(6); r = np.{f}({x}, out=(o,)); (r is o, o)",
    "o = np.zeros(6, bool); r = np.{f}({x}, out=o); (r is o, o)",
    "o = np.zeros(6, np.float32); r = np.{f}({x}, out=o, casting='unsafe'); (r is o, o)",
    "o = np.zeros(6, int); np.{f}({x}, out=o)",
    "o = np.zeros((2, 6)); np.{f}({x}, out=o)",
    "o = np.zeros(5); np.{f}({x}, out=o)",
    "o = np.zeros(12)[::-2]; np.{f}({x}, out=o); o",
    "o = nd.zeros(6); r = np.{f}({x}, out=o); (r is o, o.tolist())",
    "np.{f}({x}, out=None)",
    "o = np.full(6, 9.0); np.{f}({x}, out=o, where=b); o",
    "o = np.full((2, 6), 9.0); np.{f}({x}, out=o, where=np.array([[True], [False]])); o",
    "o = np.full(6, 9.0); np.{f}({x}, out=o, where=False); o",
    "o = np.full(6, 9.0); np.{f}({x}, out=o, where=True); o",
    "np.{f}({x}, where=b)[np.array([0, 2, 3])]",
    "np.{f}({x}, dtype=np.float32)",
    "np.{f}({x}, dtype='f8')",
    "np.{f}({x}, dtype=complex)",
    "np.{f}({x}, dtype=int)",
    "np.{f}({x}, dtype=np.float32, casting='no')",
    "np.{f}({x}, casting='unsafe')",
    "np.{f}({x}, subok=False)",
    "np.{f}({x}, order='F')",
    "np.{f}({x}, wrong=1)",
    "np.{f}({x}, out=3)",
    "np.{f}()",
    "np.{f}({x}, 1, 2, 3, 4)",
)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["add", "less", "power", "logical_and", "bitwise_and", "hypot", "sqrt", "exp", "isnan", "negative", "invert"])
def test_options(name: str, mode: str) -> None:
    x = "v, w" if getattr(numpy, name).nin == 2 else "w"
    if name in ("bitwise_and", "invert"):
        x = x.replace("v", "i").replace("w", "k")
    check_all([option.format(f=name, x=x) for option in OPTIONS], mode, ulps(name))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ["modf", "frexp"])
def test_two_results(name: str, mode: str) -> None:
    rows = (
        "np.{f}(v)", "np.{f}(F)", "np.{f}(s)", "np.{f}(f32)", "o = np.zeros(6); r = np.{f}(v, o); (r[0] is o, r)",
        "o = np.zeros(6); r = np.{f}(v, out=(o, None)); (r[0] is o, r)",
        "o = np.zeros(6); r = np.{f}(v, out=(None, o)); (r[1] is o, r)",
        "o = np.full(6, 9.0); q = np.full(6, 5, int if '{f}' == 'frexp' else float); np.{f}(v, out=(o, q), where=b); (o, q)",
        "np.divmod(v, w)", "np.divmod(i, 3)", "divmod(v, w)", "divmod(7, k + 1)", "divmod(i, 0)",
    )  # fmt: skip
    check_all([text.format(f=name) for text in rows], mode)


REDUCE = (
    "np.{f}.reduce(v)", "np.{f}.reduce(A)", "np.{f}.reduce(A, 1)", "np.{f}.reduce(A, axis=None)", "np.{f}.reduce(T, axis=(0, 2))",
    "np.{f}.reduce(A, axis=(-1, 0))", "np.{f}.reduce(A, axis=())", "np.{f}.reduce(A, 1, keepdims=True)", "np.{f}.reduce(e)",
    "np.{f}.reduce(e, axis=1)", "np.{f}.reduce(e1)", "np.{f}.reduce(s)", "np.{f}.reduce(A, axis=2)", "np.{f}.reduce(A, axis=(0, 0))",
    "np.{f}.reduce(A, dtype=np.float32)", "np.{f}.reduce(i, dtype=float)", "np.{f}.reduce(i)", "np.{f}.reduce(I, axis=None)",
    "np.{f}.reduce(i8)", "np.{f}.reduce(u8)", "np.{f}.reduce(b)", "np.{f}.reduce(M, 0)", "np.{f}.reduce(f32)", "np.{f}.reduce(f16)", "np.{f}.reduce(c)",
    "np.{f}.reduce(A, initial=2.0)", "np.{f}.reduce(A, axis=None, initial=2)", "np.{f}.reduce(A, where=M)",
    "np.{f}.reduce(A, where=M, initial=1.0)", "np.{f}.reduce(I, axis=1, where=M, initial=5)", "np.{f}.reduce(A, initial=None)",
    "np.{f}.reduce(F, axis=0)", "np.{f}.reduce(R, axis=1)", "np.{f}.reduce(N)", "np.{f}.reduce(odd)", "np.{f}.reduce(a)", "np.{f}.reduce([1, 2, 3])",
    "o = np.zeros(3); r = np.{f}.reduce(A, out=o); (r is o, o)", "o = np.zeros(3); r = np.{f}.reduce(A, 0, None, o); (r is o, o)",
    "o = np.zeros(()); r = np.{f}.reduce(v, out=o); (r is o, o)", "o = np.zeros(2); np.{f}.reduce(A, out=o)", "o = np.zeros(3, int); np.{f}.reduce(A, out=o)",
    "o = nd.zeros(3); r = np.{f}.reduce(A, out=o); (r is o, o.tolist())", "o = np.zeros(3); r = np.{f}.reduce(A, out=(o,)); (r is o, o)",
    "np.{f}.reduce(one)", "np.{f}.reduce(i8, initial=300)",
)  # fmt: skip
ACCUMULATE = (
    "np.{f}.accumulate(v)", "np.{f}.accumulate(A)", "np.{f}.accumulate(A, 1)", "np.{f}.accumulate(A, axis=-1)", "np.{f}.accumulate(i)",
    "np.{f}.accumulate(i8)", "np.{f}.accumulate(b)", "np.{f}.accumulate(F, 1)", "np.{f}.accumulate(R, 1)", "np.{f}.accumulate(e)",
    "np.{f}.accumulate(s)", "np.{f}.accumulate(A, 2)", "np.{f}.accumulate(N)", "np.{f}.accumulate(odd)", "np.{f}.accumulate(f32, dtype=float)",
    "o = np.zeros((2, 3)); r = np.{f}.accumulate(A, out=o); (r is o, o)", "np.{f}.accumulate(a)", "np.{f}.accumulate(c)",
    "np.{f}.accumulate(u8)", "np.{f}.accumulate(f16)", "np.{f}.accumulate(A, axis=None)", "np.{f}.accumulate(A, axis=(0, 1))",
)  # fmt: skip
OUTER = (
    "np.{f}.outer(v, w)", "np.{f}.outer(A, v)", "np.{f}.outer(v, 2)", "np.{f}.outer(2, v)", "np.{f}.outer(s, s)", "np.{f}.outer(p, v)",
    "np.{f}.outer(v, p)", "np.{f}.outer(i8, k)", "np.{f}.outer(F, v)", "np.{f}.outer(e1, v)", "np.{f}.outer(v, [1, 2])", "np.{f}.outer(f32, 1.5)",
    "o = np.zeros((6, 6)); r = np.{f}.outer(v, w, out=o); (r is o, o)", "np.{f}.outer(v, w, dtype=np.float32)", "np.{f}.outer(v)", "np.{f}.outer(s, v)",
)  # fmt: skip
REDUCEAT = (
    "np.{f}.reduceat(v, [0, 2, 4])", "np.{f}.reduceat(v, k[:2])", "np.{f}.reduceat(v, [0, 4, 1])", "np.{f}.reduceat(A, [0, 1], axis=1)", "np.{f}.reduceat(A, [0])",
    "np.{f}.reduceat(i, [0, 3])", "np.{f}.reduceat(i8, [0, 3])", "np.{f}.reduceat(v, [6])", "np.{f}.reduceat(v, [])", "np.{f}.reduceat(v, [0, 2], dtype=np.float32)",
    "o = np.zeros(2); r = np.{f}.reduceat(v, [0, 2], out=o); (r is o, o)", "np.{f}.reduceat(F, [0, 2], 1)", "np.{f}.reduceat(b, [0, 2])", "np.{f}.reduceat(A, [0], 2)",
    "np.{f}.reduceat(v, [0.5])", "np.{f}.reduceat(s, [0])", "np.{f}.reduceat(N, [1, 0, 3])",
)  # fmt: skip
AT = (
    "np.{f}.at(v, k, 2.0); v", "np.{f}.at(v, [0, 0, 3], w[:3]); v", "np.{f}.at(v, b, 1.5); v", "np.{f}.at(A, (at[1:], k[:2]), 2.0); A", "np.{f}.at(i, k, 2); i",
    "np.{f}.at(i, k, 1.5); i", "np.{f}.at(v[::-1], k, w); v", "np.{f}.at(A, slice(1), row); A", "np.{f}.at(v, 9, 1.0); v", "np.{f}.at(v, [0, 9], 1.0); v",
    "np.{f}.at(i8, k, 1); i8", "np.{f}.at(v, k, [1.0, 2.0]); v", "np.{f}.at(a, 0, row); a.tolist()", "np.{f}.at(f32, at, 2.0); f32", "np.{f}.at(A[:, 1], [0, 1, 0], 3.0); A",
    "np.{f}.at(v, k); v", "np.{f}.at(T, (slice(None), k[:2]), 1.0); T", "np.{f}.at(F, [0, 0], 1.0); F", "np.{f}.at(v, [0.5], 1.0)", "np.{f}.at(v, [], 1.0); v",
    "x = np.broadcast_to(v, (2, 6)); np.{f}.at(x, 0, 1.0)", "y = v + 1; z = y * 2; np.{f}.at(y, k, 2.0); (y, z)",
)  # fmt: skip


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", BINARY)
def test_methods(name: str, mode: str) -> None:
    tolerance = 64 if name in ("add", "multiply", "hypot", "logaddexp", "logaddexp2", "arctan2", "power", "float_power") else ulps(name)
    check_all([text.format(f=name) for text in (*REDUCE, *ACCUMULATE, *OUTER, *REDUCEAT, *AT)], mode, tolerance)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", UNARY)
def test_methods_of_unary(name: str, mode: str) -> None:
    rows = (
        "np.{f}.reduce(v)", "np.{f}.accumulate(v)", "np.{f}.outer(v, v)", "np.{f}.reduceat(v, [0])", "np.{f}.at(v, k); v", "np.{f}.at(i, [0, 0]); i",
        "np.{f}.at(v, k, 1.0)", "np.{f}.at(A, (at[1:], at[1:])); A",
    )  # fmt: skip
    check_all([text.format(f=name) for text in rows], mode, ulps(name))


OPERATORS = "+ - * / // % ** & | ^ << >> < <= > >= == != @".split()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sign", OPERATORS)
def test_operators(sign: str, mode: str) -> None:
    whole = ("i 3", "3 k", "i k", "I at", "i8 u8", "i8 2", "b b", "b True", "u8 u16", "i [1, 2, 3, 0, 1, 2]", "k nd.arange(6)", "nd.arange(6) k", "i nd.int8(2)",
             "nd.int64(2) i", "i nd.float32(2)", "u64 i", "i8 1000", "u8 -1", "i None", "i 'x'", "i w[0]", "k[0] k", "k[0] k[1]")  # fmt: skip
    real = ("v w", "v 2", "2 v", "v 2.5", "v -1", "v 0.5", "f32 2", "f32 2.0", "f32 nd.float64(2)", "f16 3", "A row", "A col", "row A", "F G", "a A", "A a", "p v", "v p", "s 2",
            "s v", "A A.T", "A row", "S S", "S row", "row S", "e e", "odd w", "v i", "c 2", "c v", "c 2j", "v 2j", "T T", "T S", "i -1", "i 2.0", "N 2", "P 2",
            "v.sum() 2", "v.sum() w.sum()", "2 v.sum()", "v.sum() w", "A S", "v [1.0, 2, 3, 4, 5, 6]", "[1.0, 2, 3, 4, 5, 6] v", "v v[:5]", "v True")  # fmt: skip
    rows = []
    for pair in (*whole, *real):
        cut = pair.index("] ") + 1 if pair.startswith("[") else pair.index(" ")
        x, y = pair[:cut], pair[cut + 1 :]
        rows.append(f"{x} {sign} {y}")
        if sign not in ("<", "<=", ">", ">=", "==", "!=") and x.isidentifier() and x not in "ap":
            rows += [f"{x} {sign}= {y}; {x}", f"y = {x}[...]; y {sign}= {y}; ({x}, y)", f"{x}[1:2] {sign}= {y}"]
        elif x in ("a", "p") and sign not in ("<", "<=", ">", ">=", "==", "!="):
            rows.append(f"{x} {sign}= {y}; {x}.tolist()")
    check_all(rows, mode, 64 if sign == "@" else 8 if sign == "**" else 0)


@pytest.mark.parametrize("mode", MODES)
def test_signs(mode: str) -> None:
    rows = "-v|+v|abs(v)|~i|~b|-b|-u8|abs(i8)|~v|-s|-F|abs(c)|round(v)|round(s)|v.sum().__round__()"
    check_all(rows.split("|"), mode)
