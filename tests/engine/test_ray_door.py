"""The door to Ray: loaded when asked for, private, gone afterwards; errors name a cure."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy
import pytest

import tilewise as tw


def python(code: str, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **env},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def test_importing_tilewise_does_not_load_ray() -> None:
    assert python("import sys, tilewise; print('ray' in sys.modules)") == "False\n"


def test_without_ray_the_cure_is_named() -> None:
    code = """
import sys
sys.modules["ray"] = None
import tilewise as tw
try:
    tw.session(engine="ray")
except tw.TilewiseError as error:
    print(error)
"""
    assert "pip install tilewise[ray]" in python(code)


def test_a_ray_of_our_own_is_private_and_leaves_nothing(tmp_path: Any) -> None:
    pytest.importorskip("ray")
    code = """
import os, stat, tilewise as tw
with tw.session(engine="ray", workers=1) as s:
    import ray
    print(float((tw.arange(1e3) * 2).sum()), ray.is_initialized())
    folder = s.cluster.connection.folder
    print(ray.get_runtime_context().gcs_address.split(":")[0], oct(os.stat(folder).st_mode & 0o777))
    print(ray.get(ray.remote(num_cpus=0)(lambda: os.nice(0)).remote()) - os.nice(0))
print(ray.is_initialized(), os.path.exists(folder), os.listdir(os.environ["HOME"]))
"""
    clean = "import os\nfor v in ('RAY_AUTH_TOKEN', 'RAY_AUTH_MODE'):\n    os.environ.pop(v, None)"
    said = python(clean + code, HOME=str(tmp_path))
    assert said.splitlines() == ["999000.0 True", "127.0.0.1 0o700", "0", "False False []"]  # 0: no less urgent than we


def test_no_cluster_at_an_address() -> None:
    pytest.importorskip("ray")
    code = """
import ray, tilewise as tw
def init(*args, **options):
    raise ConnectionError("nobody answers")
ray.init = init
try:
    tw.session(engine="ray", address="auto")
except tw.TilewiseError as error:
    print(error)
"""
    assert "no Ray cluster at 'auto': nobody answers" in python(code)


def test_workers_with_other_versions_are_refused() -> None:
    engine = pytest.importorskip("tilewise.engine.ray")
    engine.check_versions(engine.versions())
    with pytest.raises(tw.TilewiseError, match=r"numpy 1\.0 \(here .*same versions on all nodes"):
        engine.check_versions({**engine.versions(), "numpy": "1.0"})
    with pytest.raises(tw.TilewiseError, match="tilewise None"):
        engine.check_versions({"numpy": numpy.__version__})


def test_a_fork_leaves_the_workers_to_its_parent() -> None:
    pytest.importorskip("ray")
    code = """
import os, tilewise as tw
with tw.session(engine="ray", workers=1), tw.config(eager_bytes=0):
    x = tw.arange(100.0)
    print(float((x + 1).sum()), flush=True)
    child = os.fork()
    if child == 0:
        try:
            print(float((x + 2).sum()))
        except tw.errors.SessionClosedError as error:
            print(error, flush=True)
    else:
        os.waitpid(child, 0)
        print(float((x + 3).sum()))
if child == 0:
    os._exit(0)
"""
    mine, said, after = python(code).splitlines()
    assert (mine, after) == ("5050.0", "5250.0")
    assert "this one is a fork of" in said
