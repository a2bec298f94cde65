"""What is decided for a loop. In: its tree, what it writes, options, a machine. Out: `Decision`.

Top down, in this order: what memory allows (a hard limit: worst-case estimates, inputs counted once), mode and number
of workers by expected time, tasks, what is left for loops inside, how results come together. What the user gives is
kept. Decisions depend on sizes and settings only, never on clocks or on what ran before: the rounding of sums depends
on tasks.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tilewise.errors import ParforError, message
from tilewise.parfor.options import Options
from tilewise.parfor.partition import partition
from tilewise.parfor.plan.inputs import Pattern, cut
from tilewise.parfor.plan.tree import Tree, amount, duration, shown
from tilewise.parfor.staging import BLOCK_BYTES

# Measured by benchmarks/parfor_plan.py on two cores.
PROCESS_BYTES = 24 << 20  # that a forked process comes to own of the interpreter's memory
FORK_SECONDS = 0.02  # per process, its end included
FORK_RATE = 40e9  # bytes of memory per second whose page tables are copied
THREAD_SECONDS = 5e-4  # per thread
MERGE_RATE = 1.0e9  # bytes of results per second: compared, sent and written
COPY_RATE = 4.0e9  # bytes per second
SEND_RATE = 0.8e9  # bytes per second to workers of a cluster
CLUSTER_SECONDS = 0.15  # a loop on workers that are there
CLUSTER_START_SECONDS = 6.0  # Ray, and its workers
HANDOVER_SECONDS = 4e-5  # until a thread that waits for the interpreter's lock runs again: a processor wakes up
LOST_SHARE = 0.2  # of the time of threads, from which on waiting for the lock is worth machine code
LOCK_PENALTY = 1.3  # threads that wait for the interpreter's lock hand it over slowly
WORTH = 0.9  # of the plain loop's time, that a parallel one may take
TASK_SECONDS = {"threads": 2e-4, "processes": 5e-4, "cluster": 2e-2}  # least time of a task, beside waves
INNER_SECONDS = 0.05  # of a loop inside that is worth being run in parallel, each time: it is analysed each time
BUDGET_SHARE = 0.7  # of the machine's memory, where the user gives no limit


@dataclass(frozen=True)
class Facts:
    """The machine, and what the loop writes."""

    cores: int
    memory: int  # bytes that the loop may use here, all workers and inputs together
    limited: bool = False  # the user gave the limit
    threads_allowed: bool = True
    processes_allowed: bool = True
    cluster_workers: int = 0  # of a session; 0: there is none
    cluster_nodes: int = 1
    cluster_cores: int = 0  # of all its workers
    cluster_memory: int | None = None  # bytes per worker
    results: int = 0  # bytes of arrays that are written
    compared: int = 0  # of these, with something in them before the loop
    wide: int = 0  # bytes of numbers of their cells
    summed: int = 0  # bytes of arrays that are accumulated
    reads: tuple[Pattern, ...] = ()  # how arrays are read that a cluster's tasks may get parts of


@dataclass(frozen=True)
class Decision:
    """How a loop runs, and why."""

    mode: str  # "threads", "processes", "cluster", "here"
    workers: int
    tasks: tuple[range, ...]
    partition: str
    merge: str
    threads: int  # of BLAS, per worker
    left: int  # threads for loops inside of workers
    memory: int  # bytes at most, on this machine
    seconds: float
    alternatives: dict[str, float] = field(default_factory=dict)  # expected seconds by mode
    reasons: tuple[str, ...] = ()
    inner: int = 1  # threads that share a task, on workers of a cluster with several cores
    inputs: tuple[Pattern, ...] = ()  # of which each task is sent the part that it reads
    tree: Tree | None = None

    def lines(self) -> Iterator[str]:
        """For people."""
        workers = f"{self.workers} workers, " if self.mode != "here" else ""
        how = f"{workers}{len(self.tasks)} tasks ({self.partition})" if self.mode != "here" else "in this process"
        yield f"{self.mode}: {how}; {duration(self.seconds)}, at most {amount(self.memory)}"
        yield from (f"  {reason}" for reason in self.reasons)
        for p in self.inputs:
            sent = amount(sum(map(p.bytes, self.tasks)))
            yield f"  {p.name}: by {p.kind(self.tasks)}, {sent} in all, to the tasks that read them"
        if self.alternatives:
            times = ", ".join(f"{mode} {duration(s)}" for mode, s in self.alternatives.items())
            yield f"  expected: {times}"
        if self.tree is not None:
            shared = ", ".join(f"{name} {amount(size)}" for name, size in self.tree.shared.items())
            yield f"  shared: {shared or 'nothing'}"
            yield from (f"  {line}" for line in shown(self.tree.root))
            if self.tree.unknown:
                yield f"  not known: {', '.join(dict.fromkeys(self.tree.unknown))}"


def _named(
    count: int, workers: int, options: Options, iteration: float, mode: str, equal: bool
) -> tuple[str, int | None]:
    """The partitioner and its size."""
    if options.partition is not None:
        return options.partition, options.task_size
    if options.task_size is not None:
        return "fixed", options.task_size
    if mode == "cluster" and equal and count >= workers:
        return "static", None
    if count // 4 < workers:
        return "naive", None
    least = math.ceil(TASK_SECONDS[mode] / iteration) if iteration > 0 else 1
    least = min(least, count // (4 * workers))
    return ("factoring_cmin", least) if least > 1 else ("factoring", None)


def tasks_of(tree: Tree, workers: int, options: Options, mode: str) -> tuple[list[range], str]:
    """The tasks, and the name of how they were made."""
    count = tree.count
    if options.tasks is not None:
        return partition(count, options.tasks, "static"), "static"
    equal = all(n.kind in ("parfor", "block", "operator", "call") for n in tree.root.walk())
    name, size = _named(count, workers, options, tree.iteration_seconds, mode, equal)
    return partition(count, workers, name, size), name


def memory_of(mode: str, merge: str, workers: int, tasks: int, tree: Tree, facts: Facts) -> int:
    """Bytes on this machine, at most: inputs once, and for each worker what it makes, copies and sends."""
    shared = sum(tree.shared.values())
    once = shared + facts.summed * (tasks + 1)
    if mode == "here":
        return shared + tree.memory + facts.results + facts.summed
    if mode == "threads":
        backup = 0 if merge == "file" else facts.results
        return once + backup + workers * (tree.memory + facts.summed)
    sent = facts.results + facts.wide  # values, and the numbers of their cells
    staged = 3 * min(BLOCK_BYTES, facts.results)
    if mode == "processes":
        worker = PROCESS_BYTES + tree.memory + facts.results + facts.compared + 2 * facts.summed
        return once + workers * (worker + (staged if merge == "file" else 0)) + (0 if merge == "file" else 4 * sent)
    return once + (staged if merge in ("file", "cluster") else 3 * sent)  # workers have memories of their own


def worker_memory(tree: Tree, facts: Facts, parts: Sequence[Pattern], tasks: Sequence[range]) -> int:
    """Bytes of one worker of a cluster: inputs, or the largest parts of them, what it makes, writes and compares."""
    inputs = sum(tree.shared.values()) - sum(p.root.nbytes for p in parts)
    inputs += max(sum(p.bytes(task) for p in parts) for task in tasks)
    return inputs + tree.memory + facts.results + facts.compared + 2 * facts.summed


def seconds_of(mode: str, workers: int, tree: Tree, facts: Facts, started: bool = True) -> float:
    """Expected time."""
    body = tree.count * tree.iteration_seconds
    if mode == "here":
        return body + facts.results / COPY_RATE
    share = body / workers
    if mode == "threads":
        waiting = body * tree.locked_share * (LOCK_PENALTY if workers > 1 else 1.0)
        return max(waiting, share + handed_over(tree, workers)) + workers * THREAD_SECONDS + facts.results / COPY_RATE
    merge = (facts.results + facts.summed * workers) / MERGE_RATE
    if mode == "processes":
        return share + merge + workers * FORK_SECONDS + workers * sum(tree.shared.values()) / FORK_RATE
    send = (sum(tree.shared.values()) + facts.results) / SEND_RATE
    return share + merge + send + (CLUSTER_SECONDS if started else CLUSTER_START_SECONDS)


def handed_over(tree: Tree, workers: int) -> float:
    """Seconds that a thread waits until it has the interpreter's lock again, after calls that let go of it."""
    return tree.count * tree.root.releases * HANDOVER_SECONDS / workers if workers > 1 else 0.0


def lock_seconds(plan: Decision) -> float:
    """What threads of a plan lose to the interpreter's lock, where that is a good part of their time."""
    if plan.tree is None or plan.workers < 2:
        return 0.0
    body = plan.tree.count * plan.tree.iteration_seconds
    lost = handed_over(plan.tree, plan.workers) + plan.tree.locked_share * body
    return lost if lost > LOST_SHARE * body / plan.workers else 0.0


def saved_seconds(plan: Decision) -> float:
    """What machine code would save of NumPy's own time, with the same bits."""
    return 0.0 if plan.tree is None or plan.tree.rounds else plan.tree.count * plan.tree.root.saved


def decide(tree: Tree, options: Options, facts: Facts) -> Decision:
    """The plan of a loop."""
    count, reasons = tree.count, list[str]()
    chosen = options.workers is not None or options.mode is not None or options.merge is not None
    chosen = chosen or options.tasks is not None or options.task_size is not None or options.partition is not None
    found = {}
    for mode in _modes(options, facts):
        fitting = _fitting(mode, tree, options, facts)
        if fitting is not None:
            found[mode] = fitting
    plain = seconds_of("here", 1, tree, facts)
    times = {"here": plain} | {mode: d.seconds for mode, d in found.items()}
    needed = memory_of("here", "memory", 1, 1, tree, facts)
    if count == 1 or (options.workers == 1 and options.mode != "cluster"):
        reasons.append("one iteration" if count == 1 else "one worker was asked for")
    elif facts.cores == 1 and not chosen:
        reasons.append("one core")
    elif not found:
        if needed > facts.memory and facts.limited:
            raise ParforError(
                message(
                    f"one iteration at a time needs {amount(needed)}, inputs and results included",
                    got=f"a limit of {amount(facts.memory)}",
                    cure="Raise memory=, or work on smaller parts",
                )
            )
        reasons.append(f"more workers do not fit into {amount(facts.memory)}")
    else:
        best = min(found, key=lambda mode: found[mode].seconds)
        if chosen or found[best].seconds <= WORTH * plain:
            return _explained(found[best], times, options, facts, tree)
        reasons.append(f"as quick as any other way: {duration(plain)} in all")
    left = facts.cores if _large_inside(tree) else 1
    if left > 1:
        reasons.append(f"loops inside: {left} threads")
    made = Decision("here", 1, (range(count),), "static", "memory", facts.cores, left, needed, plain, times)
    return replace(made, reasons=tuple(reasons), tree=tree)


def _modes(options: Options, facts: Facts) -> list[str]:
    if options.mode is not None:
        return [options.mode]
    if options.merge == "cluster":
        return ["cluster"]
    allowed = {"threads": facts.threads_allowed, "processes": facts.processes_allowed}
    return [m for m, yes in allowed.items() if yes] + (["cluster"] if facts.cluster_workers else [])


def _fitting(mode: str, tree: Tree, options: Options, facts: Facts) -> Decision | None:
    """The most workers that memory allows in a mode, and how their results come together."""
    most = facts.cluster_workers or facts.cores if mode == "cluster" else facts.cores
    most = min(options.workers or most, tree.count)
    merges = [options.merge] if options.merge is not None else _merges(mode)
    for workers in range(most, 0, -1):
        tasks, name = tasks_of(tree, workers, options, mode)
        parts = tuple(cut(facts.reads, tasks, facts.cluster_nodes)) if mode == "cluster" else ()
        if mode == "cluster" and facts.cluster_memory is not None:
            needed = worker_memory(tree, facts, parts, tasks)
            if needed > facts.cluster_memory:
                _refuse_cluster(options, needed, facts.cluster_memory)
                return None
        for merge in merges:
            memory = memory_of(mode, merge, workers, len(tasks), tree, facts)
            if memory > facts.memory and (facts.limited or options.workers is None):
                continue
            time = seconds_of(mode, workers, tree, facts, started=bool(facts.cluster_workers))
            cores = facts.cluster_cores or facts.cores if mode == "cluster" else facts.cores
            left = max(1, math.ceil((cores - workers + 1) / workers)) if _large_inside(tree) else 1
            if workers == 1 and mode != "cluster":
                return None
            threads = max(1, cores // workers)
            inner = threads if mode == "cluster" and left == 1 and _shares_well(tree, facts) else 1
            made = Decision(mode, workers, tuple(tasks), name, merge, threads, left, memory, time, tree=tree)
            return replace(made, inner=inner, threads=max(1, threads // inner), inputs=parts)
    return None


def _refuse_cluster(options: Options, needed: int, limit: int) -> None:
    """Raise if the user wants a cluster that has not the memory."""
    if options.mode == "cluster" or options.merge == "cluster":
        raise ParforError(
            message(
                f"a worker of the cluster needs {amount(needed)} for this loop",
                got=f"a session with {amount(limit)} per worker",
                cure="Raise memory= of the session, or work on smaller parts",
            )
        )


def _large_inside(tree: Tree) -> bool:
    """Whether there are loops inside that are worth what is left of the machine."""
    inner = [n for n in tree.root.walk() if n.kind == "parfor" and n is not tree.root]
    return any(n.count * n.seconds >= INNER_SECONDS for n in inner)


def _shares_well(tree: Tree, facts: Facts) -> bool:
    """Whether threads of one process would share iterations well: an artificial loop inside of the tasks."""
    return facts.threads_allowed and tree.locked_share <= 0.5 and not tree.unknown


def _merges(mode: str) -> list[str]:
    return ["memory", "cluster"] if mode == "cluster" else ["memory", "file"]


def _explained(made: Decision, times: dict[str, float], options: Options, facts: Facts, tree: Tree) -> Decision:
    """The decision with its reasons."""
    reasons = []
    most = min(facts.cluster_workers or facts.cores if made.mode == "cluster" else facts.cores, tree.count)
    if options.mode is not None:
        reasons.append(f"mode: {made.mode} was asked for")
    elif made.mode == "threads":
        reasons.append(f"threads: the interpreter's lock is held for {tree.locked_share:.0%} of the time")
    elif made.mode == "processes" and facts.threads_allowed:
        reasons.append(f"processes: the interpreter's lock is held for {tree.locked_share:.0%} of the time")
    if options.workers is not None and made.workers == min(options.workers, tree.count):
        reasons.append(f"workers: {options.workers} were asked for")
    elif made.workers < most:
        reasons.append(f"workers: {made.workers} fit into {amount(facts.memory)}, {amount(tree.memory)} each")
    else:
        reasons.append(f"workers: {made.workers}, of {facts.cores} cores and {tree.count} iterations")
    if made.merge == "file" and options.merge is None:
        reasons.append("merge: by file, as copies of results do not fit into memory")
    elif made.merge == "cluster" and options.merge is None:
        reasons.append("merge: on the cluster, as copies of results do not fit into memory")
    if made.left > 1:
        reasons.append(f"loops inside: {made.left} threads each")
    if made.inner > 1:
        reasons.append(f"tasks: shared by {made.inner} threads of each worker")
    return replace(made, alternatives=times, reasons=tuple(reasons))
