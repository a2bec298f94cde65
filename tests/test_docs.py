"""Every example in the README and in docs/ is run: what is shown is what happens. Files that pages name exist.

A block fenced as ```python with prompts (>>>) is a doctest; without prompts it is just run. The blocks of a file share
their names and run in order. Other fences (```sh, ```text) are not run.
"""

import doctest
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tilewise.config import Settings, config

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
WRITTEN = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
SCREENS = 60, 160  # lines of a design record, and characters of a line
# `plan/roll.py`, `policy.py: small, slight`, `structure.py::placed_structure`
MENTION = re.compile(r"`([\w./-]+\.py)(?:::? ?([\w, ]+))?`")
FENCE = re.compile(r"^```(\w*).*?\n(.*?)^```\s*$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    source: str
    line: int  # Of its first line, from 0.


def blocks(text: str) -> Iterator[Block]:
    for match in FENCE.finditer(text):
        if match[1] == "python":
            yield Block(match[2], text.count("\n", 0, match.start(2)))


def run_page(text: str, path: Path) -> int:
    """Run the examples of a page; the number of its blocks."""
    names: dict[str, Any] = {"__name__": "__main__"}
    count = 0
    for block in blocks(text):
        count += 1
        if ">>> " not in block.source:
            exec(compile("\n" * block.line + block.source, str(path), "exec"), names)
            continue
        test = doctest.DocTestParser().get_doctest(block.source, names, path.name, str(path), block.line)
        runner = doctest.DocTestRunner(optionflags=FLAGS)
        report: list[str] = []
        failed = runner.run(test, out=report.append, clear_globs=False).failed
        names = test.globs  # The parser copied them.
        assert not failed, "".join(report)
    return count


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("eager_bytes", [Settings().eager_bytes, 0], ids=["eager", "recorded"])
@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_examples(path: Path, eager_bytes: int) -> None:
    """What is shown holds whether small work is done at once or recorded."""
    with config(eager_bytes=eager_bytes):
        run_page(path.read_text(), path)


def test_the_readme_and_the_semantics_have_examples() -> None:
    for name in ("README.md", "docs/semantics.md"):
        assert any(">>> " in block.source for block in blocks((ROOT / name).read_text())), name


def test_a_wrong_example_fails() -> None:
    page = "Text.\n```python\na = 1\n```\n```python\n>>> a\n1\n```\n```sh\nnot python\n```\n"
    assert run_page(page, Path("page.md")) == 2
    with pytest.raises(AssertionError, match=r'File "page.md", line 6'):
        run_page(page.replace("\n1\n", "\n2\n"), Path("page.md"))


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_between_pages_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", path.read_text()):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


def wrong_mentions(text: str, files: dict[str, str]) -> Iterator[str]:
    """Files that do not exist, or lack a name given with them. In: a page, texts of files by path."""
    for path, names in MENTION.findall(FENCE.sub("", text)):
        found = [source for name, source in files.items() if f"/{name}".endswith(f"/{path}")]
        if not found:
            yield path
        for name in filter(None, map(str.strip, names.split(","))):
            if not any(re.search(rf"\b{name}\b", source) for source in found):
                yield f"{path}: {name}"


@pytest.fixture(scope="module")
def sources() -> dict[str, str]:
    folders = [ROOT / name for name in ("tilewise", "tests", "benchmarks")]
    return {name_of(p): p.read_text() for folder in folders for p in folder.rglob("*.py")}


@pytest.mark.parametrize("path", WRITTEN, ids=name_of)
def test_files_that_pages_name_exist(path: Path, sources: dict[str, str]) -> None:
    assert not list(wrong_mentions(path.read_text(), sources))


def test_a_mention_of_no_file_fails() -> None:
    files = {"tilewise/plan/roll.py": "def roll(): ..."}
    page = "`plan/roll.py`, `roll.py: roll`, `oll.py`, `plan/roll.py::turn, roll`\n```python\n# `none.py`\n```\n"
    assert list(wrong_mentions(page, files)) == ["oll.py", "plan/roll.py: turn"]


def screen_lines(text: str) -> int:
    """Lines on a screen, without empty ones."""
    return sum(-(-len(line) // SCREENS[1]) for line in text.splitlines())


# The index grows by a line with every record.
RECORDS = sorted(p for p in (ROOT / "docs" / "design").glob("*.md") if p.name != "0000-index.md")


@pytest.mark.parametrize("path", RECORDS, ids=name_of)
def test_a_design_record_has_two_screens_at_most(path: Path) -> None:
    assert screen_lines(path.read_text()) <= SCREENS[0]


def test_long_lines_count_as_several() -> None:
    assert screen_lines("a\n\n" + "b" * 160 + "\n" + "c" * 161) == 4
