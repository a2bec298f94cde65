"""Imports point downwards only: the table in docs/architecture.md, read from the source (no module is run)."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent / "tilewise"

# A unit (a package or module directly under tilewise/) may import units of lower levels, and itself.
LEVELS = {
    "alive": 0,
    "errors": 0,
    "interrupts": 0,
    "later": 0,
    "quick_import": 0,
    "records": 0,
    "config": 1,
    "events": 1,
    "machine": 1,
    "tuning": 1,  # figures that many levels read; it imports none
    "rounding": 1,  # the same for those on which bits hang
    "ir": 1,
    "layout": 2,
    "kernel": 2,
    "ops": 3,
    "store": 3,
    "stage": 3.5,  # what a plan hands to a backend: below both, and made of operators
    "cost": 4,
    "backend": 4,
    "rewrite": 5,
    "solver": 5,
    "plan": 6,
    "compiler": 6.5,  # ties solver and plan together
    "engine": 7,
    "observe": 7,
    "array": 8,
    "python": 8,  # reads the source of functions
    "api": 9,
    "parfor": 9.2,  # bodies use compiled functions and array expressions
    "testing": 9,
    "tilewise": 9.5,  # The public package itself: only what stands on the public API may import it.
    "cli": 10,
    "__main__": 11,
    "apps": 10,
}
# Doors that open when first used: SciPy's BLAS and llvmlite are large. (Backends and engines are opened by name, in
# tilewise/backend/__init__.py and tilewise/engine/__init__.py.)
LAZY = {
    ("tilewise.backend.llvm.products.gemm", "tilewise.backend.blas"),
    ("tilewise.backend.llvm.tiles.group", "tilewise.backend.blas"),
    ("tilewise.backend.llvm.compile.build", "tilewise.backend.llvm.compile.compiler"),
    ("tilewise.backend.llvm.compile.cpu", "tilewise.backend.llvm.compile.compiler"),
    ("tilewise.solver.search.native", "tilewise.solver.search.llvm"),
}
# Implementations of the protocol in backend/base.py: only these packages themselves import them.
BACKENDS = ("tilewise.backend.llvm", "tilewise.backend.reference")
MOST_FILES = 22  # in one folder: about twenty
IMPORTERS = ("importlib.import_module", "import_module", "__import__", "later")


class Import(NamedTuple):
    importer: str
    imported: str
    line: int
    at_top: bool


def unit(module: str) -> str:
    """The unit that a module of tilewise is in: its second name, or the package itself."""
    return (module.split(".") + ["tilewise"])[1]


def module_of(path: Path, root: Path) -> str:
    parts = path.relative_to(root.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _called(node: ast.Call) -> str:
    """The name of what is called, where it may be one of IMPORTERS."""
    last = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    return ast.unparse(node.func) if any(name.endswith(last) for name in IMPORTERS) else ""


def targets(node: ast.AST, module: str, is_package: bool) -> Iterator[str]:
    """The modules a statement or call imports, as full names."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            here = module.split(".") if is_package else module.split(".")[:-1]
            base = ".".join(here[: len(here) - node.level + 1] + ([node.module] if node.module else []))
        for alias in node.names:  # `from tilewise import errors` imports a unit, `from tilewise import sum` does not.
            yield f"tilewise.{alias.name}" if base == "tilewise" and alias.name in LEVELS else base
    elif isinstance(node, ast.Call) and _called(node) in IMPORTERS:
        first = node.args[0] if node.args else None
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            yield first.value


def imports(path: Path, root: Path = ROOT) -> Iterator[Import]:
    module = module_of(path, root)

    def walk(node: ast.AST, at_top: bool) -> Iterator[Import]:
        for target in targets(node, module, path.name == "__init__.py"):
            if target.split(".")[0] == "tilewise":
                yield Import(module, target, getattr(node, "lineno", 0), at_top)
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for child in ast.iter_child_nodes(node):
            yield from walk(child, at_top and not inside)

    return walk(ast.parse(path.read_text()), True)


def upward(found: Import) -> bool:
    lower, upper = unit(found.imported), unit(found.importer)
    return lower != upper and LEVELS[lower] >= LEVELS[upper]


def past_protocol(found: Import) -> bool:
    """Whether a backend is imported by something outside of it."""
    importer, imported = f"{found.importer}.", f"{found.imported}."
    return any(imported.startswith(f"{one}.") and not importer.startswith(f"{one}.") for one in BACKENDS)


FILES = sorted(ROOT.rglob("*.py"))


def test_the_architecture_page_has_the_same_table() -> None:
    page = (ROOT.parent / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| ([\d.]+) \| (`.*?`) \|", page, re.MULTILINE)
    shown = {name: float(level) for level, names in rows for name in re.findall(r"`(\w+)`", names)}
    units = {unit(module_of(path, ROOT)) for path in FILES}
    assert shown == {name: LEVELS[name] for name in units}


def test_folders_are_small_enough_to_read() -> None:
    sizes = Counter(path.parent for path in FILES)
    assert max(sizes.values()) <= MOST_FILES, f"divide {sizes.most_common(1)[0][0]} by what its files are for"


def test_every_unit_has_a_level() -> None:
    units = {unit(module_of(path, ROOT)) for path in FILES}
    assert units <= LEVELS.keys(), "give these a level in LEVELS"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_imports_point_downwards_and_stand_at_the_top(path: Path) -> None:
    for found in imports(path):
        where = f"{path}:{found.line}: {found.importer} imports {found.imported}"
        assert not upward(found), f"{where}, which is not below it. Let the higher one pass a function in."
        lazy = (found.importer, found.imported) in LAZY
        assert found.at_top or lazy, f"{where} inside a function. Move it to the top of the file."
        assert not past_protocol(found), f"{where}. Ask tilewise.backend for it."


@pytest.mark.parametrize(
    ("file", "source", "wrong"),
    [
        ("ir/node.py", "from tilewise.errors import TilewiseError", False),
        ("ir/node.py", "from .types import Shape", False),
        ("ir/node.py", "from tilewise.layout import mesh", True),
        ("ir/node.py", "from ..layout import mesh", True),
        ("ir/node.py", "from tilewise import layout", True),
        ("ir/node.py", "import tilewise", True),
        ("ir/__init__.py", "from .node import Node", False),
        ("ir/__init__.py", "from ..config import current", True),  # Of the same level.
        ("ir/node.py", "def f():\n    import tilewise.array.cell", True),
        ("ir/node.py", "import importlib\nimportlib.import_module('tilewise.engine.ray')", True),
        ("apps/kmeans.py", "import tilewise as np", False),
        ("__init__.py", "from tilewise.api import *", False),
        ("__init__.py", "from tilewise.cli import main", True),
    ],
)
def test_the_test_sees(tmp_path: Path, file: str, source: str, wrong: bool) -> None:
    path = tmp_path / "tilewise" / file
    path.parent.mkdir(parents=True)
    path.write_text(source)
    assert any(upward(found) for found in imports(path, tmp_path / "tilewise")) == wrong


@pytest.mark.parametrize(
    ("importer", "imported", "wrong"),
    [
        ("tilewise.engine.run", "tilewise.backend.llvm.tiles", True),
        ("tilewise.backend", "tilewise.backend.reference", True),
        ("tilewise.engine.run", "tilewise.backend.base", False),
        ("tilewise.backend.llvm.call.listing", "tilewise.backend.llvm.compile", False),
    ],
)
def test_the_test_sees_ways_past_the_protocol(importer: str, imported: str, wrong: bool) -> None:
    assert past_protocol(Import(importer, imported, 1, True)) == wrong


def test_the_test_sees_imports_inside_functions(tmp_path: Path) -> None:
    path = tmp_path / "tilewise" / "cli.py"
    path.parent.mkdir()
    path.write_text("import tilewise.api\ndef f():\n    import tilewise.array\n")
    assert [found.at_top for found in imports(path, tmp_path / "tilewise")] == [True, False]
