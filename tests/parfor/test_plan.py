"""Plans of loops: worst-case memory, mode, workers, tasks, merging, for given sizes and budgets."""

from __future__ import annotations

import ast
import os
import textwrap
import threading
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tilewise as tw
from tilewise.parfor.options import Options, checked
from tilewise.parfor.plan.estimate import estimate
from tilewise.parfor.plan.inputs import Pattern, cut, patterns
from tilewise.parfor.plan.ledger import BUFFER_BYTES
from tilewise.parfor.plan.optimise import PROCESS_BYTES, Decision, Facts, decide, memory_of
from tilewise.parfor.plan.profile import FIXED, measure, seconds
from tilewise.parfor.plan.tree import Node, Tree
from tilewise.parfor.walk.loops import Statements

MB = 10**6


def helper(x: Any, k: int) -> Any:
    y = np.outer(x[:k], x[:k])
    return y.sum(axis=0)


NAMES = {
    "np": np,
    "X": np.random.default_rng(0).normal(size=(2000, 60)),
    "y": np.arange(2000.0),
    "R": np.zeros((60, 60)),
    "n": 60,
    "helper": helper,
    "blocks": [np.ones((300, 300)), np.ones((10, 10))],
    "parfor": range,
    "flag": False,
}


def tree(body: str, count: int = 60, **more: Any) -> Tree:
    node = ast.parse(f"for i in parfor({count}):\n" + textwrap.indent(textwrap.dedent(body), "    ")).body[0]
    assert isinstance(node, ast.For)
    return estimate(node, {**NAMES, **more}, count)


BODIES = [
    "a = X[:, i] - X[:, i].mean()\nR[i, i] = (a * a).sum()",
    "A = X[:, :20]\nG = A.T @ A + 0.1 * np.eye(20)\nw = np.linalg.solve(G, A.T @ y)\nR[i, :20] = w",
    "Z = np.exp(X - X.mean(axis=0))\nR[i] = (Z / Z.sum(axis=1, keepdims=True)).mean(axis=0)",
    "keep = X[:, i] > 0\nR[i] = X[keep].mean(axis=0)",
    "parts = []\nfor j in range(10):\n    parts.append(X[:, j] * 2.0)\nR[i, i] = sum(p.sum() for p in parts)",
    "R[i] = helper(X[:, i], 400)[:60]",
    "s = np.sort(X, axis=0)\nR[i] = s[10] + np.std(X, axis=0)",
    "if i > 5:\n    t = X * 2.0\nelse:\n    t = X[:10]\nR[i, 0] = t.sum()",
    "b = blocks[i % 2]\nR[i, 0] = (b @ b).sum()",
    "v = (X * 3.0)[5]\nw = X + 1.0\nR[i] = v + w[0]",
    "Y = np.zeros((500, 200))\nY += X[:500, :1]\nR[i, 0] = Y.max()",
    "W = np.concatenate([X, X])\nR[i] = W.sum(axis=0)",
]


@pytest.mark.parametrize("body", BODIES)
def test_memory_is_an_upper_bound(body: str) -> None:
    """What one iteration allocates at most, against what Python counts."""
    found = tree(body)
    code = compile(textwrap.dedent(body), "body", "exec")
    most = 0
    for i in (0, 7, 59):
        names = {**NAMES, "i": i, "R": np.zeros((60, 60))}
        exec(code, dict(names))  # what is made only once
        tracemalloc.start()
        exec(code, names)
        most = max(most, tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    slack = 20_000  # Python's own objects
    assert most <= found.memory + slack, (most, found.memory)
    if "@" not in body:  # products may copy operands, depending on how these lie in memory
        assert found.memory <= 3 * most + BUFFER_BYTES, (most, found.memory)
    assert not found.unknown


def test_shared_inputs_are_counted_once() -> None:
    found = tree("V = X[5:]\nR[i, 0] = X[:, i] @ y + V[0, 0] + X.T[0, 0]", V=NAMES["X"])
    assert found.shared == {"X": 2000 * 60 * 8, "y": 16000, "R": 28800}
    assert found.memory <= BUFFER_BYTES + 1000


def test_time() -> None:
    triangle = tree("for j in range(i, n):\n    R[i, j] = X[:, i] @ X[:, j]")
    (loop,) = [n for n in triangle.root.walk() if n.kind == "for"]
    assert loop.count == pytest.approx(30.5)  # 60, 59, ... 1
    dot = seconds("dot", 4000 * 8)  # a line of the cache for each element of a column
    assert triangle.iteration_seconds == pytest.approx(loop.count * dot, rel=0.2)
    rows = tree("for j in range(i, n):\n    R[i, j] = X[i] @ X[j]")
    assert rows.iteration_seconds == pytest.approx(loop.count * seconds("dot", 120), rel=1.0)
    assert rows.locked_share > 0.9  # calls of some microseconds hold the lock
    large = tree("R[i, 0] = (M @ M).sum()", M=np.zeros((500, 500)))
    assert large.iteration_seconds == pytest.approx(
        seconds("product", 2 * 500**3) + seconds("reduce", 250_000), rel=0.1
    )
    assert large.locked_share < 0.1
    dead = tree("if flag:\n    R[i] = np.linalg.inv(X.T @ X)[0]\nelse:\n    R[i, 0] = 1")
    assert dead.iteration_seconds < 1e-5  # a branch that is never taken costs nothing


def test_the_profile_can_be_measured() -> None:
    rows = measure(sizes=(1 << 8, 1 << 10), repeats=1)
    assert rows.keys() == FIXED.keys() and all(r.call >= 0 and r.each >= 0 for r in rows.values())


# -- decisions --------------------------------------------------------------------------------------------------------


def given(count: int, memory: int = 0, time: float = 0.01, locked: float = 1.0, shared: int = 0) -> Tree:
    root = Node("parfor", "i", 1, count, memory, time, time * locked)
    return Tree(root, count, {"X": shared} if shared else {})


MACHINE = Facts(cores=8, memory=1000 * MB)


def plan(found: Tree, facts: Facts = MACHINE, **options: Any) -> Decision:
    return decide(found, checked(options), facts)


def test_mode() -> None:
    assert plan(given(100, locked=1.0)).mode == "processes"
    assert plan(given(100, locked=0.05)).mode == "threads"
    assert plan(given(10, time=1e-6)).mode == "here"
    assert plan(given(1, time=10.0)).mode == "here"
    assert plan(given(100), replace(MACHINE, cores=1)).mode == "here"
    assert plan(given(100, locked=0.0), replace(MACHINE, threads_allowed=False)).mode == "processes"
    many = replace(MACHINE, cluster_workers=32, cluster_cores=32)
    assert plan(given(1000, time=0.1), many).mode == "cluster"  # a session with more workers than there are cores
    assert plan(given(100, time=1e-3), many).mode != "cluster"  # too short for it
    assert plan(given(1000, time=0.1)).mode == "processes"  # no cluster is started to find out


def test_what_the_user_gives_is_kept() -> None:
    tiny = given(10, time=1e-6)
    for mode in ("threads", "processes", "cluster"):
        assert plan(tiny, mode=mode).mode == mode
    for options in ({"workers": 3}, {"tasks": 4}, {"partition": "static"}, {"task_size": 2}, {"merge": "file"}):
        made = plan(tiny, **options)
        assert made.mode != "here"
        assert options.get("workers", made.workers) == made.workers and options.get("merge", made.merge) == made.merge
    assert [len(t) for t in plan(tiny, tasks=4).tasks] == [3, 3, 2, 2]
    assert [len(t) for t in plan(tiny, task_size=4).tasks] == [4, 4, 2]
    assert plan(given(100), workers=20).workers == 20  # more than cores
    assert plan(given(100, memory=900 * MB), workers=8).workers == 8  # the limit is ours, not the user's
    assert plan(given(10), workers=1).mode == "here" and plan(given(10), workers=1, mode="cluster").mode == "cluster"


@pytest.mark.parametrize(
    ("mode", "memory", "shared", "workers"),
    [
        ("threads", 100, 0, 8),
        ("threads", 200, 0, 5),  # 1000 / 200
        ("threads", 200, 400, 3),  # (1000 - 400) / 200: inputs count once
        ("threads", 100, 300, 7),
        ("processes", 200, 400, 2),  # (1000 - 400) / (200 + what a process takes)
        ("processes", 90, 0, 8),
    ],
)
def test_workers_by_memory(mode: str, memory: int, shared: int, workers: int) -> None:
    made = plan(given(100, memory * MB, shared=shared * MB), mode=mode)
    assert made.mode == mode and made.workers == workers
    assert made.memory <= MACHINE.memory
    more = memory_of(
        mode, made.merge, workers + 1, len(made.tasks), given(100, memory * MB, shared=shared * MB), MACHINE
    )
    assert workers == 8 or more > MACHINE.memory
    assert any("fit into 1.0 GB" in r for r in made.reasons) == (workers < 8)


def test_nothing_fits() -> None:
    large = given(100, 600 * MB)
    assert plan(large).mode == "here"
    assert "do not fit" in plan(large).reasons[0]
    limited = replace(MACHINE, limited=True)
    assert plan(large, limited).mode == "here"
    with pytest.raises(tw.ParforError, match=r"needs 1.2 GB.*a limit of 1.0 GB.*Raise memory="):
        plan(given(100, 1200 * MB), limited)
    assert plan(large, limited, workers=4).mode == "here"  # both were given: memory is the harder limit


def test_merging() -> None:
    results = replace(MACHINE, results=100 * MB, compared=100 * MB, wide=100 * MB)
    small = replace(MACHINE, results=8 * MB, compared=0, wide=8 * MB)
    assert plan(given(100), small).merge == "memory"
    assert plan(given(100), results, mode="processes").merge == "file"
    assert plan(given(100), results, mode="processes", merge="memory").merge == "memory"
    assert plan(given(100), results, mode="processes", merge="memory").workers < 4
    assert plan(given(100), replace(results, results=300 * MB, wide=300 * MB), mode="cluster").merge == "cluster"
    assert plan(given(100), merge="cluster").mode == "cluster"


@pytest.mark.parametrize(("count", "left"), [(10, 1), (8, 2), (4, 4), (16, 1), (2, 8)])
def test_what_is_left_for_loops_inside(count: int, left: int) -> None:
    found, sixteen = given(count, time=1.0), replace(MACHINE, cores=16)
    assert plan(found, sixteen).left == 1  # there are none
    found.root.children.append(Node("parfor", "j", 2, 1000, own=1e-5))
    assert plan(found, sixteen).left == 1  # too small
    found.root.children.append(Node("parfor", "j", 2, 1000, own=1e-3))
    made = plan(found, sixteen)
    assert (made.workers, made.left, made.threads) == (count, left, 16 // count)
    assert plan(replace(found, count=1), sixteen).left == 16  # all of it, where the outer loop is a plain one


def test_tasks_of_a_cluster_are_shared_by_the_cores_of_a_worker() -> None:
    many = replace(MACHINE, cluster_workers=4, cluster_cores=16)
    made = plan(given(100, time=1.0, locked=0.1), many, mode="cluster")
    assert (made.workers, made.inner, made.threads) == (4, 4, 1)
    alone = plan(given(100, time=1.0, locked=0.9), many, mode="cluster")
    assert (alone.workers, alone.inner, alone.threads) == (4, 1, 4)


def test_tasks() -> None:
    four = replace(MACHINE, cores=4)
    made = plan(given(101, time=1.0), four)
    assert [len(t) for t in made.tasks] == [13] * 4 + [7] * 4 + [3] * 4 + [2] * 4 + [1]
    assert plan(given(15, time=1.0), four).partition == "naive"
    short = plan(given(100_000, time=1e-5), four, mode="processes")
    assert short.partition == "factoring_cmin" and min(len(t) for t in short.tasks[:-1]) == 50  # half a millisecond
    equal = plan(given(101, time=1.0), four, mode="cluster")
    assert equal.partition == "static" and len(equal.tasks) == 4
    found = tree("for j in range(i):\n    R[i, j] = X[:, i] @ X[:, j]", 101)
    assert decide(found, Options(mode="cluster"), four).partition.startswith("factoring")


def test_the_same_plan_every_time() -> None:
    """Sums round by tasks: no clock decides."""
    assert len({str(list(plan(tree(b)).lines())) for b in BODIES for _ in range(2)}) == len(BODIES)


# -- parts of inputs --------------------------------------------------------------------------------------------------


def reads(body: str, count: int = 40, **more: Any) -> list[Pattern]:
    text = f"for i in parfor({count}):\n" + textwrap.indent(textwrap.dedent(body), "    ")
    names = {"np": np, "parfor": range, "R": np.zeros(1000), "X": np.ones((400, 80)), "part": _part, **more}
    from tilewise.parfor.analyse import walked

    walk: Statements = walked(ast.parse(text).body, names, None)
    return patterns(walk, {"X": names["X"]}, {id(names["R"])})


def _part(x: Any, k: int) -> Any:
    return x[10 * k : 10 * k + 10].sum()


@pytest.mark.parametrize(
    ("body", "kind", "first", "last"),
    [
        ("R[i] = X[:, i].sum()", "columns", (range(400), range(10)), (range(400), range(30, 40))),
        ("R[i] = X[i, :].sum()", "rows", (range(10), range(80)), (range(30, 40), range(80))),
        ("R[i] = part(X, i)", "rows", (range(100), range(80)), (range(300, 400), range(80))),
        (
            "R[i] = X[10*i : 10*i+10, 2*i : 2*i+2].sum()",
            "blocks",
            (range(100), range(20)),
            (range(300, 400), range(60, 80)),
        ),
        ("R[i] = X[p[i], 0]", "blocks", (range(381, 400), range(1)), (range(321, 340), range(1))),
        (
            "k = min(10 * i + 10, 400)\nR[i] = X[10 * i : k].sum()",
            "rows",
            (range(100), range(80)),
            (range(300, 400), range(80)),
        ),
    ],
)
def test_parts_of_inputs(body: str, kind: str, first: Any, last: Any) -> None:
    tasks = [range(0, 10), range(10, 20), range(20, 30), range(30, 40)]
    (pattern,) = cut(reads(body, p=np.arange(399, -1, -2)), tasks, nodes=1)
    assert pattern.kind(tasks) == kind
    assert pattern.box(tasks[0]) == first and pattern.box(tasks[3]) == last


@pytest.mark.parametrize(
    "body",
    [
        "R[i] = X.sum()",
        "R[i] = X[:, i].sum() + X[i, :].sum()",  # rows and columns
        "R[i] = X[0, 0]",
        "R[i] = X[: i + 361].sum()",
        "R[i] = X[X[:, i].argmax()].sum()",
    ],
)
def test_inputs_that_are_sent_whole(body: str) -> None:
    tasks = [range(0, 20), range(20, 40)]
    found = reads(body)
    assert not cut(found, tasks, nodes=1) or sum(found[0].bytes(t) for t in tasks) < 1000


def test_workers_of_a_cluster_have_a_limit() -> None:
    """With parts of inputs a loop fits where it does not with all of them."""
    X = np.ones((4000, 100))  # 3.2 MB
    found = replace(given(40, 1000, shared=X.nbytes), shared={"X": X.nbytes})
    reads_all = replace(MACHINE, cluster_workers=4, cluster_cores=4, cluster_memory=1 * MB)
    by_rows = replace(reads_all, reads=tuple(reads("R[i] = X[100 * i : 100 * i + 100].sum()", X=X)))
    made = decide(found, Options(mode="cluster"), by_rows)
    assert made.workers == 4 and [p.name for p in made.inputs] == ["X"]
    assert "X: by rows, 3.2 MB in all" in "".join(made.lines())
    with pytest.raises(tw.ParforError, match=r"needs 3.2 MB.*1.0 MB per worker.*Raise memory= of the session"):
        decide(found, Options(mode="cluster"), reads_all)
    assert decide(found, Options(), reads_all).mode != "cluster"


# -- measured ---------------------------------------------------------------------------------------------------------


@tw.parallel
def covariances(X: Any, out: Any, mode: str, memory: Any) -> None:
    for i in tw.parfor(range(12), mode=mode, memory=memory, workers=6):
        Z = X * (i + 1.0)
        Z -= Z.mean(axis=0)
        out[i] = (Z * Z).sum()


def test_memory_stays_below_the_limit_on_threads() -> None:
    X, out = np.ones((1000, 1000)), np.zeros(12)  # 8 MB; an iteration takes 16 MB
    limit = 60 * MB
    tracemalloc.start()
    covariances(X, out, "threads", limit)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    (report,) = covariances.report
    assert report.workers == 3 and report.plan is not None and report.plan.memory <= limit
    assert most + X.nbytes + out.nbytes <= limit


@pytest.mark.skipif(not os.path.exists("/proc/self/smaps_rollup"), reason="the system does not say who owns memory")
def test_memory_stays_below_the_limit_on_processes() -> None:
    X, out = np.ones((1500, 1500)), np.zeros(12)  # 18 MB; an iteration takes 36 MB
    limit = 220 * MB
    me, most, stop = os.getpid(), [0], threading.Event()

    def look() -> None:
        before: list[int] = []
        while not stop.wait(0.002):
            found = children(me)  # one that is about to start another program has all of our memory for a moment
            most[0] = max(most[0], sum(private_bytes(c) for c in found if c in before))
            before = found

    watcher = threading.Thread(target=look)
    watcher.start()
    covariances(X, out, "processes", f"{limit}")
    stop.set()
    watcher.join()
    (report,) = covariances.report
    assert report.workers == (limit - X.nbytes) // (2 * X.nbytes + PROCESS_BYTES) == 3
    assert 0 < most[0] + X.nbytes <= limit


def children(parent: int) -> list[int]:
    """Processes that were forked from another one: they have its command line."""
    with open(f"/proc/{parent}/task/{parent}/children") as file:
        found = [int(c) for c in file.read().split()]
    own = command(parent)
    return [c for c in found if command(c) == own]


def command(process: int) -> str:
    try:
        with open(f"/proc/{process}/cmdline") as file:
            return file.read()
    except OSError:
        return ""


def private_bytes(process: int) -> int:
    try:
        with open(f"/proc/{process}/smaps_rollup") as file:
            return sum(int(line.split()[1]) * 1024 for line in file if line.startswith("Private_Dirty"))
    except OSError:
        return 0


# -- what people see --------------------------------------------------------------------------------------------------


def test_explain() -> None:
    @tw.parallel
    def pairs(X: Any, rows: Any) -> Any:
        n = X.shape[1]
        R = np.eye(n)
        rows += 1.0
        for i in tw.parfor(range(n)):
            for j in range(i + 1, n):
                R[i, j] = X[:, i] @ X[:, j]
        for k in tw.parfor(range(len(rows)), workers=2, mode="threads"):
            rows[k] = rows[k] * 2
        return R

    X, rows = np.ones((20_000, 30)), np.zeros(8)
    shown = tw.explain(pairs, X, rows)
    text = str(shown)
    assert (rows == 0).all() and not pairs.report  # nothing has run
    first, second = shown.loops
    assert first.mode in ("here", "processes", "threads") and second.mode == "threads"
    for part in (
        "parfor i x 30",
        "for j x 14.5",
        "operator matmul 20000, 20000",
        "shared: ",
        "X 4.8 MB",
        "expected: ",
    ):
        assert part in text, part
    assert "mode: threads was asked for" in text and "workers: 2 were asked for" in text
    assert "not reached" in str(tw.explain(never, 3))


@tw.parallel
def never(n: int) -> None:
    if n > 10:
        for i in tw.parfor(range(n)):
            print(i)
