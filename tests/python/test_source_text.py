"""Which text a function is compiled from, and the nodes of its tree."""

import ast
import inspect
import linecache
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewise.python.functions import source
from tilewise.python.functions.nodes import names_in, walk
from tilewise.python.functions.same_source import is_source
from tilewise.python.refuse import Refused


def decorated(f: Any) -> Any:
    return f


@decorated
def last_lines(a, n=(1, 2), *, k: int = 3):
    """With text,
    on two lines.
    """
    for i in range(len(a)):
        a[i] = np.sqrt(a[i])
    return (
        a
    )  # fmt: skip


def without_code_at_its_end(a):
    if len(a) > 1:
        return a
    else:
        pass
    # a remark


def several_inside(a, n):
    def inner(x):
        return x + n

    made = [inner(x) for x in a if x]
    return sum(made), (lambda x: x * n)(
        2
    )  # fmt: skip


one_of_two, other = (lambda x: x + 1), (lambda x: x + 2)
long_one = decorated(
    lambda x, y: (
        x
        * y
    )
)  # fmt: skip


class Some:
    def method(self, a):
        self.__hidden = a
        return __class__, self.__hidden


FUNCTIONS = [
    last_lines, without_code_at_its_end, several_inside, one_of_two, other, long_one, Some.method,
]  # fmt: skip


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_the_tree_is_that_of_the_function(f: Callable[..., Any]) -> None:
    tree = source.parsed(f.__code__)
    assert is_source(tree, f.__code__)
    whole = ast.parse(Path(__file__).read_text())
    kinds = (ast.FunctionDef, ast.Lambda)
    same = [n for n in walk(whole) if isinstance(n, kinds) and n.lineno == tree.lineno and _at(n) == _at(tree)]
    bodies = [ast.dump(ast.Module([n.body] if isinstance(n, ast.Lambda) else n.body, [])) for n in same]  # type: ignore[list-item]
    mine = ast.dump(ast.Module([tree.body] if isinstance(tree, ast.Lambda) else tree.body, []))  # type: ignore[list-item]
    assert any(b.startswith(mine[:60]) for b in bodies)


def _at(node: Any) -> str:
    return ast.dump(node.args)


def test_texts_of_other_functions_are_told_apart() -> None:
    def tree(text: str) -> Any:
        return ast.parse(text).body[0]

    def f(x, y=1):
        for i in range(3):
            x += np.sqrt(i) * y
        return x

    good = "def f(x, y=2):\n for i in range(3):\n  x += np.sqrt(i) * y\n return x"
    assert is_source(tree(good), f.__code__)
    for old, new in (
        ("3", "4"), ("sqrt", "exp"), ("* y", "/ y"), ("return x", "return y"), ("def f", "def g"), ("x, y=2", "y, x"),
        ("x, y=2", "x, *, y"), ("range(3)", "range(3.0)"), ("+=", "-="), ("np", "math"),
    ):  # fmt: skip
        assert not is_source(tree(good.replace(old, new)), f.__code__), new


def test_a_file_that_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "changing.py"
    path.write_text("def f(x):\n    return x + 1\n")
    space: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), space)
    path.write_text("def f(x):\n    return x + 2 + 3\n")
    with pytest.raises(Refused):
        source.parsed(space["f"].__code__)
    linecache.checkcache()


def test_nodes_are_those_of_ast() -> None:
    tree = ast.parse(inspect.getsource(inspect))
    expected = [n for n in ast.walk(tree) if not isinstance(n, ast.expr_context)]
    assert walk(tree) == expected
    read = {n.id for n in expected if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    more = {n.target.id for n in expected if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)}
    assert set(names_in(tree, read=True)) == read | more and more
    assert set(names_in(tree, read=False)) == {
        n.id for n in expected if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)
    }
