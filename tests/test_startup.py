"""What a program loads: `import tilewise` nothing that the first operations do not need. No clock decides here."""

import subprocess
import sys

import pytest

LIBRARIES = "llvmlite ray scipy rich multiprocessing asyncio pandas numba jax torch matplotlib zarr".split()
STANDARD = "socket ssl html difflib tempfile argparse unittest doctest concurrent.futures xml email http".split()
OURS = (
    "solver observe.explain observe.picture engine.cluster engine.host engine.virtual engine.network compiler.mesh "
    "plan.exchanges plan.deep_halo plan.blocks array.workers array.program api.explaining backend.llvm"
).split()
LARGE = "x = np.ones(1_000_000); float((x * 2 + 1).sum())"


def loaded(program: str, *names: str) -> list[str]:
    """Which of these modules, or modules below them, a program loads."""
    found = "*(m for m in wanted if any(k == m or k.startswith(m + '.') for k in sys.modules))"
    ask = f"import sys; wanted = {names!r}; print({found})"
    done = subprocess.run([sys.executable, "-c", f"{program}\n{ask}"], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_import_loads_no_more_than_it_must() -> None:
    with_numpy = loaded("import numpy", *LIBRARIES, *STANDARD)
    names = [name for name in (*LIBRARIES, *STANDARD) if name not in with_numpy]
    assert loaded("import tilewise", *names, *(f"tilewise.{name}" for name in OURS)) == []


def test_small_work_loads_no_compiler() -> None:
    program = "import tilewise as np; x = np.arange(10.0); (x * 2 + 1).sum(); np.sort(x); x @ x; print(end=str(x)[:0])"
    assert loaded(program, *LIBRARIES, *(f"tilewise.{name}" for name in OURS)) == []


def test_large_work_loads_no_mesh() -> None:
    names = [f"tilewise.{name}" for name in OURS if name != "backend.llvm"]
    assert loaded(f"import tilewise as np; {LARGE}", *names) == []


@pytest.mark.parametrize("name", ["explain", "profile", "calibrate"])
def test_names_that_come_later(name: str) -> None:
    program = f"import tilewise as tw; assert {name!r} in dir(tw) and {name!r} in tw.__all__; tw.{name}"
    home = "tilewise.api.calibrate" if name == "calibrate" else "tilewise.api.explaining"
    assert loaded(program, home) == [home]


def test_the_test_sees() -> None:
    assert loaded("import html.parser", "html", "rich") == ["html"]
