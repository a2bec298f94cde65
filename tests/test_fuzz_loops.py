"""The fuzzer of loop functions itself: its programs, what it looks at, and that it finds what is broken on purpose."""

from __future__ import annotations

import ast
import ctypes
import functools
import inspect
import re
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from tests.fuzz.loops import generate as generation
from tests.fuzz.loops.case import AliasSpec, ArraySpec, Case, ScalarSpec
from tests.fuzz.loops.check import check, expected
from tests.fuzz.loops.isolate import Send, isolated
from tests.fuzz.loops.outcome import Outcome, Runaway, difference, ended, run
from tests.fuzz.loops.overflow import accepted
from tests.fuzz.loops.shrink import shrink

CASES = range(400)
generate = functools.cache(generation.generate)
PLAIN = {"plain": nullcontext}

# A text that a share of programs has at least.
CONSTRUCTS = {
    r"(u\d+), (t\d+) = \2, \1": 0.03,
    r"% \(?(3|-7)": 0.005,
    r"for \w+ in range": 0.5,
    r"range\([^()]*-1\)": 0.05,
    r"for \w+ in [pvt]\d": 0.1,
    "enumerate": 0.02,
    "zip": 0.02,
    "while": 0.1,
    "break": 0.03,
    "continue": 0.03,
    r"return.*\n(?=.)": 0.05,
    r"raise|assert": 0.05,
    r"\[[^\]]*:[^\]]*\] [-+*]?=": 0.3,
    r"\[[^\]]*::-1": 0.05,
    r" if .* else ": 0.15,
    r"<=? [^<>]* <=? ": 0.03,
    r"//|%": 0.3,
    "<<|>>": 0.05,
    r"\*\*": 0.05,
    r"min\(|max\(": 0.2,
    r"abs\(": 0.1,
    r"len\(|\.shape": 0.1,
    r"np\.zeros|np\.ones|\.copy": 0.1,
    r"def h|def down": 0.1,
    r"    def g": 0.03,
    r"np\.sum|\.sum\(|@|np\.dot": 0.05,
    r"v\d+ = ": 0.05,
    r"\w+, \w+ = ": 0.03,
    " and | or ": 0.1,
    "not ": 0.02,
    r"\w+ = \{\}|set\(\)": 0.03,
    r"for \w+, \w+ in l\d": 0.02,
}


def test_a_seed_is_a_case() -> None:
    assert all(generation.generate(n) == generate(n) for n in range(20))
    assert len({generate(n).source for n in range(50)}) == 50


def test_constructs_are_frequent() -> None:
    cases = [generate(n) for n in CASES]
    for text, share in CONSTRUCTS.items():
        found = sum(bool(re.search(text, case.source)) for case in cases)
        assert found >= share * len(cases), text
    specs = [s for case in cases for s in case.specs]
    arrays = [s for s in specs if isinstance(s, ArraySpec)]
    assert {s.dtype for s in arrays} >= {"int64", "int32", "uint8", "float64", "float32", "complex128", "bool"}
    assert {len(s.shape) for s in arrays} == {1, 2, 3}
    assert {s.order for s in arrays} == {"C", "F"}
    assert any(0 in s.shape for s in arrays)
    assert {k for s in arrays for k in s.steps} == {1, 2, -1, -2}
    assert sum(isinstance(s, AliasSpec) for s in specs) > len(cases) * 0.1
    assert any(isinstance(s, ScalarSpec) and s.text != s.later for s in specs)


def test_exceptions_are_some_of_the_outcomes() -> None:
    ends = Counter(expected(generate(n), 0).error.split(":")[0] for n in CASES)  # type: ignore[union-attr]
    raised = len(CASES) - ends[""]
    assert 0.05 < raised / len(CASES) < 0.3
    assert set(ends) >= {"IndexError", "ZeroDivisionError", "OverflowError", "ValueError", "UnboundLocalError"}


def test_plain_python_is_plain_python() -> None:
    assert all(check(generate(n), PLAIN, jit=lambda f: f) is None for n in range(120))


class Mutant(ast.NodeTransformer):
    """A compiler that is wrong in one thing."""

    def __init__(self, change: Callable[[Any], Any]) -> None:
        self.change = change

    def visit(self, node: ast.AST) -> Any:
        self.generic_visit(node)
        return self.change(node) or node

    def __call__(self, f: Callable[..., Any]) -> Callable[..., Any]:
        module = "".join(inspect.findsource(f)[0])
        tree = ast.fix_missing_locations(self.visit(ast.parse(module)))
        names: dict[str, Any] = {**f.__globals__, "wrong": wrong}
        exec(compile(tree, f.__code__.co_filename, "exec"), names)

        def call(*args: Any) -> Any:
            try:
                return ended(names["f"], args)
            except Runaway:  # what is wrong may run for ever
                raise RuntimeError("it does not end") from None

        return call


class wrong:
    """What mutants call."""

    @staticmethod
    def quotient(a: Any, b: Any) -> Any:
        return type(a // b)(np.trunc(a / b)) if isinstance(a, int) and b else a // b

    @staticmethod
    def index(k: Any) -> Any:
        return 0 if isinstance(k, int) and k < 0 else k

    @staticmethod
    def wrapped(x: Any) -> Any:
        return (x + 2**63) % 2**64 - 2**63 if type(x) is int else x

    @staticmethod
    def python(x: Any) -> Any:
        return x.item() if isinstance(x, np.generic) else x


def _called(name: str, *args: ast.expr) -> ast.expr:
    return ast.Call(ast.Attribute(ast.Name("wrong", ast.Load()), name, ast.Load()), list(args), [])


def _is(node: Any, operator: type) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, operator)


def _read(node: Any) -> bool:
    return isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and isinstance(node.value, ast.Name)


def _overlap(node: Any) -> Any:
    """A slice that is copied element by element, without looking at overlaps."""
    both = isinstance(node, ast.Assign) and all(isinstance(n, ast.Subscript) for n in (node.targets[0], node.value))
    if not both or not isinstance(node.targets[0].slice, ast.Slice) or not isinstance(node.value.slice, ast.Slice):
        return None
    target, value = ast.unparse(node.targets[0]), ast.unparse(node.value)
    copying = f"for _k in range(len({target})): {target}[_k] = {value}[_k]"
    return ast.parse(f"if len({target}) == len({value}):\n {copying}\nelse: {target} = {value}").body[0]


def _next_line(node: Any) -> Any:
    if isinstance(node, ast.stmt):
        for part in ast.walk(node):
            if hasattr(part, "lineno"):
                part.lineno = part.end_lineno = 1
    return None


MUTANTS: dict[str, Callable[[Any], Any]] = {
    "division truncates": lambda n: _called("quotient", n.left, n.right) if _is(n, ast.FloorDiv) else None,
    "negative subscripts do not wrap": lambda n: (
        ast.Subscript(n.value, _called("index", n.slice), n.ctx)
        if _read(n) and isinstance(n.slice, (ast.Name, ast.Constant, ast.UnaryOp, ast.BinOp))
        else None
    ),
    "integers wrap": lambda n: _called("wrapped", n) if _is(n, ast.Mult) or _is(n, ast.LShift) else None,
    "elements are Python's numbers": lambda n: _called("python", n) if _read(n) else None,
    "overlapping slices": _overlap,
    "< is <=": lambda n: (
        ast.Compare(n.left, [ast.LtE()] * len(n.ops), n.comparators)
        if isinstance(n, ast.Compare) and all(isinstance(o, ast.Lt) for o in n.ops)
        else None
    ),
    "max of NaN": lambda n: (
        ast.Call(n.func, n.args[::-1], [])
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id in ("min", "max")
        else None
    ),
    "continue ends the loop": lambda n: ast.Break() if isinstance(n, ast.Continue) else None,
    "exceptions have another line": _next_line,
    "exceptions have no message": lambda n: ast.Raise(n.exc.func) if isinstance(n, ast.Raise) else None,
    "sums are written late": lambda n: (
        ast.Assign([n.target], n.value) if isinstance(n, ast.AugAssign) and isinstance(n.op, ast.Add) else None
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_what_is_broken_is_found(name: str) -> None:
    """Each within the first cases; without a mutation the same way of running finds nothing."""
    broken = Mutant(MUTANTS[name])
    assert any(check(generate(n), PLAIN, jit=broken) for n in range(1500))
    assert all(check(generate(n), PLAIN, jit=Mutant(lambda node: None)) is None for n in range(10))


def test_what_is_left_counts() -> None:
    one = Outcome(np.float64(1.0), args=(np.arange(3),))
    assert difference(one, one) == ("", "")
    assert difference(Outcome(1.0, args=one.args), one)[0] == "result"
    assert difference(Outcome(np.float32(1.0), args=one.args), one)[0] == "result"
    assert difference(Outcome(np.float64(1.0), args=(np.arange(3.0),)), one)[0] == "arguments"
    assert difference(Outcome(np.float64(1.0), args=(np.ones(3, int),)), one)[0] == "arguments"
    assert difference(Outcome(-0.0), Outcome(0.0))[0] == "result"
    assert difference(Outcome(np.nan), Outcome(np.nan))[0] == ""
    assert difference(Outcome(error="E: a", line=1), Outcome(error="E: a", line=2))[0] == "line"
    assert difference(Outcome(error="E: a"), Outcome(error="E: b"))[0] == "exception"
    assert difference(Outcome(1, same=("argument 0",)), Outcome(1, same=("",)))[0] == "memory"


def overflowing(case: Case) -> Outcome:
    """What a compiler gives that stops at the first int that is too large: here, that of line 3."""
    args = case.arguments()
    args[0][0] = 1.0
    return Outcome(error="OverflowError: int does not fit", line=3, args=tuple(a.copy() for a in args))


def test_overflow_is_accepted_after_a_write_only() -> None:
    spec = (ArraySpec(1, (2,), "float64"),)
    after = Case("def f(p0):\n    p0[0] = 1.0\n    x = 2**62 * 4\n    p0[1] = 2.0\n    return x % 7\n", spec)
    before = Case("def f(p0):\n    \n    x = 2**62 * 4\n    p0[0] = 1.0\n    return x % 7\n", spec)
    other = Case("def f(p0):\n    p0[0] = 1.0\n    x = 2**61\n    p0[1] = 2.0\n    return x % 7\n", spec)
    late = Case("def f(p0):\n    p0[:] = 5.0\n    x = 2**62 * 4\n    return x % 7\n", spec)
    added = Case("def f(p0):\n    p0[0], x = 1.0, 2**62\n    x += x\n    return x % 7\n", spec)
    for case, right in ((after, True), (before, False), (other, False), (late, False), (added, True)):
        assert accepted(case, 0, overflowing(case)) is right, case.source
    assert not accepted(after, 0, Outcome(error="ValueError: int does not fit", line=3))


def test_failures_are_made_small() -> None:
    case = generate(4)
    more = "    w0 = 0\n    while w0 < 3:\n        w0 += 1\n        u = 17 // 2\n"
    bad = Case(re.sub(r"(def f\(.*\n)", r"\1" + more, case.source), case.specs)
    small = shrink(bad, lambda c: "17 // 2" in c.source, seconds=10)
    assert small.source.split() == "def f(): u = 17 // 2".split()
    assert "tw.jit(f)" in small.script()


def test_scripts_run(capsys: pytest.CaptureFixture[str]) -> None:
    case = Case(
        "def f(p0, p1):\n    p0[1] = p1\n    return p0[::-1]\n",
        (ArraySpec(3, (3, 2), "float64", True, "F", (2, -1)), ScalarSpec("0.5", "1.5")),
    )
    script = case.script().replace("(f, tw.jit(f))", "(f,)").replace("import tilewise as tw\n", "")
    exec(compile(script, "script", "exec"), {})
    assert repr(run(case.function(), case.arguments()).result) in capsys.readouterr().out


def test_crashes_and_hangs_are_told() -> None:
    def overrun(send: Send) -> None:
        send("before")
        x = ArraySpec(0, (3,), "float64").made(0)
        ctypes.memset(x.ctypes.data + x.nbytes, 0, 1)

    def hanging(send: Send) -> None:
        time.sleep(60)

    assert isolated(overrun, 20) == (["before"], "dies of SIGSEGV")
    assert isolated(hanging, 0.2)[1].startswith("hangs")
    assert isolated(lambda send: send((1, "x" * 100_000)), 20) == ([(1, "x" * 100_000)], "")
