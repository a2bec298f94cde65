"""What a program loads: `import tilewise` nothing that the first operations do not need. No clock decides here."""

import subprocess
import sys
from pathlib import Path

import pytest

LIBRARIES = "llvmlite ray scipy rich multiprocessing asyncio pandas numba jax torch matplotlib zarr".split()
STANDARD = "socket ssl html difflib tempfile argparse unittest doctest concurrent.futures xml email http".split()
OURS = (
    "solver observe.explain observe.picture engine.cluster engine.host engine.virtual engine.network compiler.mesh "
    "plan.exchanges plan.deep_halo plan.blocks array.evaluation.workers array.program api.explaining backend.llvm "
    "python kernel.program.ir api.functions.purity parfor.loop"
).split()
PLANS = "compiler rewrite plan stage backend.base array.evaluation.here".split()  # loaded when work is large
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
    assert loaded("import tilewise", *names, *(f"tilewise.{name}" for name in (*OURS, *PLANS))) == []


def test_small_work_loads_no_compiler() -> None:
    program = "import tilewise as np; x = np.arange(10.0); (x * 2 + 1).sum(); np.sort(x); x @ x; print(end=str(x)[:0])"
    assert loaded(program, *LIBRARIES, *(f"tilewise.{name}" for name in (*OURS, *PLANS))) == []


def test_names_of_passes_are_known_before_there_are_plans() -> None:
    program = "import tilewise as np; np.config(without='roll').__enter__(); np.config(without='fuze')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert "there is no compiler pass 'fuze'" in done.stderr and "roll" in done.stderr.splitlines()[-1]


def test_large_work_loads_no_mesh() -> None:
    names = [f"tilewise.{name}" for name in OURS if name != "backend.llvm"]
    assert loaded(f"import tilewise as np; {LARGE}", *names) == []


HOMES = {
    "explain": "tilewise.api.explaining",
    "calibrate": "tilewise.api.calibrate",
    "vectorize": "tilewise.api.functions.vectorize",
    "parfor": "tilewise.parfor.loop",
}


@pytest.mark.parametrize("name", HOMES)
def test_names_that_come_later(name: str) -> None:
    program = f"import tilewise as tw; assert {name!r} in dir(tw) and {name!r} in tw.__all__; tw.{name}.__call__"
    assert loaded(program, HOMES[name]) == [HOMES[name]]


def test_a_star_gives_names_that_come_later() -> None:
    homes = list(HOMES.values())
    assert loaded("import tilewise", *homes) == []
    assert loaded(f"from tilewise import *; {', '.join(HOMES)}", *homes) == homes


def test_a_package_does_not_hide_the_function_of_its_name() -> None:
    loaded("import tilewise.parfor.parallel, tilewise.array.handle, tilewise as t; t.parfor(range(3)); t.array([1])")


def test_help_is_of_some_screens() -> None:
    program = "import tilewise, pydoc; text = pydoc.render_doc(tilewise); assert text.count(chr(10)) < 150, len(text)"
    loaded(program + "; assert 'explain' in text and 'sum' in tilewise.__all__")


def test_the_test_sees() -> None:
    assert loaded("import html.parser", "html", "rich") == ["html"]


ELSEWHERE = """
import os, sys
import numpy  # has its own ways on each system
for name in ("fcntl", "pwd", "grp", "termios", "resource", "syslog", "readline", "tty", "pty"):
    sys.modules[name] = None
for name in (
    "register_at_fork fork posix_spawn geteuid getuid sysconf sched_getaffinity sched_setaffinity nice "
    "O_DIRECTORY O_NOFOLLOW"
).split():
    if hasattr(os, name):
        delattr(os, name)
sys.platform = "elsewhere"
import tilewise as np
with np.config(eager_bytes=0, cache_dir=sys.argv[1]):
    x = np.arange(1000.0)
    y = numpy.arange(1000.0)
    assert numpy.array_equal(numpy.asarray(np.sqrt(x) * 2 + x), numpy.sqrt(y) * 2 + y)
    from tilewise.backend.llvm.compile import build
    assert build.compiled_count() > 0
assert os.listdir(sys.argv[1] + "/code")
"""


def test_systems_without_posix(tmp_path: Path) -> None:
    """As far as it can be seen here: code is compiled, linked and kept without what only POSIX has."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", ELSEWHERE, str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("state", ["enable", "disable"])
def test_the_garbage_collector_goes_on(state: str) -> None:
    program = f"import gc; gc.{state}(); import tilewise; print(gc.isenabled(), gc.get_freeze_count() > 0)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(state == "enable"), str(state == "enable")]  # what is frozen: see below


def test_the_garbage_collector_goes_on_after_a_failed_import() -> None:
    program = "import gc, sys; sys.modules['numpy'] = None\ntry:\n import tilewise\nexcept ImportError:\n pass\n"
    subprocess.run([sys.executable, "-c", program + "assert gc.isenabled()"], check=True)


AT_EXIT = """
import tilewise as np
plate = np.zeros((600, 600))
plate[0, :] = 100.0
for _ in range(6):
    new = plate.copy()
    new[1:-1, 1:-1] = plate[1:-1, 1:-1] + 0.2 * (plate[:-2, 1:-1] + plate[2:, 1:-1] - 2.0 * plate[1:-1, 1:-1])
    plate = new
kept = [plate, plate * 2, np.add.outer(np.arange(600.0), np.arange(600.0)), np.sin(plate)]
print(plate.mean(), kept[2].sum())
"""


def test_no_noise_at_exit() -> None:
    done = subprocess.run([sys.executable, "-c", AT_EXIT], capture_output=True, text=True, check=True)
    assert (done.stdout.count(" "), done.stderr) == (1, "")


FINAL = """
class Log:
    def __init__(self, path):
        self.me, self.file = self, open(path, "w")
        self.file.write("written at the end")
    def __del__(self):
        print("finalised", os.path.basename(self.file.name))

def log():
    return kept

kept = Log(sys.argv[1])
print(gc.get_freeze_count() > 0)
"""
IMPORTS = "from __future__ import annotations\nimport gc, os, sys\nfrom pathlib import Path\n"
BEGINNINGS = {
    "import at the top": (IMPORTS + "import tilewise as np", True),
    "a program with two names": (IMPORTS + "import multiprocessing\nimport tilewise as np", True),  # __mp_main__
    "a class before it": (IMPORTS + "class Own: pass\nimport tilewise as np", False),
    "an object before it": (IMPORTS + "given = [Path('.')]\nimport tilewise as np", False),
    "in a function": (IMPORTS + "def load():\n    import tilewise\nload()", False),
    "by a module of the program": (IMPORTS + "import first_of_all", True),
    "by a module with functions": (IMPORTS + "import functions_first", False),
}


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_objects_of_the_program_are_finalised_at_its_end(beginning: str, tmp_path: Path) -> None:
    text, frozen = BEGINNINGS[beginning]
    (tmp_path / "first_of_all.py").write_text("import tilewise\ndef later(): pass\n")
    (tmp_path / "functions_first.py").write_text("def earlier(): pass\nimport tilewise\n")
    (tmp_path / "script.py").write_text(text + FINAL)
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "log.txt")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout.split("\n"), done.stderr) == ([str(frozen), "finalised log.txt", ""], "")
    assert (tmp_path / "log.txt").read_text() == "written at the end"


def test_the_backend_opens_while_numbers_are_drawn() -> None:
    """By a thread that waits for nothing but the draw, whose end the first evaluation waits for."""
    draw = "import tilewise as np, threading; r = np.random.default_rng(1); x = r.random(SIZE)\n"
    wait = "[t.join() for t in threading.enumerate() if t is not threading.main_thread()]"
    modules = ("tilewise.backend.llvm.backend",)
    assert loaded(draw.replace("SIZE", "(1000, 400)") + wait, *modules) == list(modules)
    assert loaded(draw.replace("SIZE", "size=1000") + wait, *modules) == []
    check = "import numpy; assert abs(float((x * 2).sum()) - 2 * numpy.asarray(x).sum()) < 1e-3"
    assert loaded(draw.replace("SIZE", "1_000_000") + check, *modules) == list(modules)
