"""What may change between two starts of a loop without a name of it changing: the second start is judged anew."""

from __future__ import annotations

import builtins
import linecache
import mmap
import sys
import types
from collections.abc import Callable
from multiprocessing import shared_memory
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewise as tw

space: dict[str, Any] = {}
exec("class Made:\n    step = 0\n", space)  # says that it is of builtins
Made = space["Made"]


def moved(A: Any, at: Any) -> None:
    for i in tw.parfor(range(4), workers=2, mode="threads"):
        A[i] = A[at(i)]


def by_class(A: Any) -> None:
    for i in tw.parfor(range(4), workers=2, mode="threads"):
        A[i] = A[i + Made.step]


def by_import(A: Any) -> None:
    for i in tw.parfor(range(4), workers=2, mode="threads"):
        import tw_steps  # type: ignore[import-not-found]

        A[i] = A[i + tw_steps.STEP]


def by_import_from(A: Any) -> None:
    for i in tw.parfor(range(4), workers=2, mode="threads"):
        from numpy import tw_step  # type: ignore[attr-defined]

        A[i] = A[i + tw_step]


def by_library(A: Any) -> None:
    for i in tw.parfor(range(4), workers=2, mode="threads"):
        A[i] = A[i + np.tw_step]  # type: ignore[attr-defined]


def by_builtin(A: Any) -> None:
    for i in tw.parfor(range(4), workers=2, mode="threads"):
        A[i] = A[abs(i)]


def in_builtins() -> None:
    for i in tw.parfor(range(4), workers=2, mode="threads"):
        tw_cells[0] = i  # type: ignore[name-defined]  # noqa: F821


def two(A: Any, B: Any) -> None:
    for i in tw.parfor(range(4), workers=2, mode="threads"):
        A[i] = B[i + 1] + 1


def imports(i: int) -> int:
    import tw_steps

    step: int = tw_steps.STEP
    return i + step


def same(i: int) -> int:
    return i


def after(i: int) -> int:
    return i + 1


def named(i: int, *, a: int = 0, b: int = 1) -> int:
    return i + a + 0 * b


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A module with a number, and the same number in NumPy's."""
    module = types.ModuleType("tw_steps")
    module.STEP = 0  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tw_steps", module)
    monkeypatch.setattr(np, "tw_step", 0, raising=False)
    return module


CHANGES: dict[str, tuple[Callable[..., None], tuple[Any, ...], Callable[[Any, Any], None]]] = {
    "an attribute of a class": (by_class, (), lambda patch, m: patch.setattr(Made, "step", 1)),
    "a module imported in the body": (by_import, (), lambda patch, m: patch.setattr(m, "STEP", 1)),
    "a module imported by a function": (moved, (imports,), lambda patch, m: patch.setattr(m, "STEP", 1)),
    "a name imported in the body": (by_import_from, (), lambda patch, m: patch.setattr(np, "tw_step", 1)),
    "an attribute of a library": (by_library, (), lambda patch, m: patch.setattr(np, "tw_step", 1)),
    "a builtin": (by_builtin, (), lambda patch, m: patch.setattr(builtins, "abs", after)),
    "the code of a function": (moved, (same,), lambda patch, m: patch.setattr(same, "__code__", after.__code__)),
    "defaults in another order": (
        moved,
        (named,),
        lambda patch, m: patch.setattr(named, "__kwdefaults__", {"b": 0, "a": 1}),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_without_a_name(change: str, steps: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, more, changed = CHANGES[change]
    run = tw.parallel(loop)
    run(np.arange(9.0), *more)
    with monkeypatch.context() as patch, pytest.raises(tw.ParforError):
        changed(patch, steps)
        run(np.arange(9.0), *more)


def test_lists_among_builtins_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtins, "tw_cells", [0], raising=False)
    with pytest.raises(tw.ParforError):
        tw.parallel(in_builtins)()


def test_text_that_is_not_that_of_the_function() -> None:
    """Two programs under one name, as `exec` gives them; the text at hand is that of the first."""
    texts = ["def at(i):\n    return i\n", "def at(i):\n    return i + 1\n", "def at(i):\n    return i  # \n"]
    linecache.cache["<tw text>"] = (len(texts[0]), None, texts[0].splitlines(keepends=True), "<tw text>")
    made: list[Any] = []
    for text in texts:
        names: dict[str, Any] = {}
        exec(compile(text, "<tw text>", "exec"), names)
        made.append(names["at"])
    run = tw.parallel(moved)
    run(np.arange(9.0), made[0])
    run(np.arange(9.0), made[2])
    with pytest.raises(tw.ParforError):
        run(np.arange(9.0), made[1])
    assert tw.jit(made[1])(3) == 4


def test_a_file_that_is_mapped_twice(tmp_path: Path) -> None:
    """The same bytes at two addresses; other bytes of one file are no conflict."""
    path = tmp_path / "numbers"
    np.arange(2048.0).tofile(path)

    def mapped(**more: Any) -> Any:
        return np.memmap(path, dtype=float, mode="r+", **more)

    run = tw.parallel(two)
    for _ in range(2):
        run(np.zeros(9), np.zeros(9))
    with pytest.raises(tw.ParforError, match="mappings"):
        run(mapped(), mapped())
    with pytest.raises(tw.ParforError, match="mappings"):
        run(np.asarray(mapped())[:9], np.asarray(mapped())[2:20])
    if Path("/proc/self/maps").exists():
        run(mapped(shape=9), mapped(offset=8192))
        run(mapped(shape=9), np.frombuffer(mmap.mmap(-1, 4096)))
    copy = np.memmap(path, dtype=float, mode="c")
    expected = np.array(copy[:9])
    two(expected, np.array(mapped()))
    run(copy, mapped())  # what is written to a copy is nobody else's
    assert copy[:9].tolist() == expected.tolist()
    with pytest.raises(tw.ParforError, match="mappings"):
        run(mapped(), np.memmap(path, dtype=float, mode="c"))  # it may see what is written to the file


def test_shared_memory_under_two_handles() -> None:
    first = shared_memory.SharedMemory(create=True, size=256)
    second = shared_memory.SharedMemory(name=first.name)
    try:
        for k, other in enumerate((np.zeros(9), np.ndarray(9, buffer=second.buf))):
            A: Any = np.ndarray(9, buffer=first.buf)
            if k:
                with pytest.raises(tw.ParforError):
                    tw.parallel(two)(A, other)
            else:
                tw.parallel(two)(A, other)
            del A, other
    finally:
        second.close()
        first.close()
        first.unlink()
