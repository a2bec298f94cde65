"""Settings: for good, for a block, nested, per thread, from the environment, and what is refused."""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilewise.config import LEAST, Settings, config, current, from_environment, parse_bytes
from tilewise.errors import ConfigError


def in_another_thread(read: Callable[[], Any]) -> Any:
    seen: list[Any] = []
    thread = threading.Thread(target=lambda: seen.append(read()))
    thread.start()
    thread.join()
    return seen[0]


def test_defaults() -> None:
    assert Settings() == Settings(eager_bytes=2 * 1024 * 1024, exact=False, engine=None, fallback="warn", blocks=1)


def test_a_plain_call_lasts_and_is_seen_by_all_threads() -> None:
    config(blocks=3)
    assert current().blocks == config().blocks == 3
    assert in_another_thread(lambda: current().blocks) == 3


def test_a_block_restores_and_nests() -> None:
    before = config()
    with config(blocks=2) as inside:
        assert inside == current()
        with config(blocks=3, exact=True):
            assert (current().blocks, current().exact) == (3, True)
        assert (current().blocks, current().exact) == (2, False)
    assert current() == before


def test_a_block_restores_after_an_exception() -> None:
    before = config()
    with pytest.raises(KeyError), config(blocks=2):
        raise KeyError
    assert current() == before


def test_a_block_is_of_its_own_thread() -> None:
    with config(blocks=2):
        assert in_another_thread(lambda: current().blocks) == 1


def test_a_change_made_for_good_may_still_become_a_block() -> None:
    change = config(blocks=2)
    assert current().blocks == 2
    with change:
        assert current().blocks == 2
    assert current().blocks == 1
    with change:  # Again, and inside itself.
        with change:
            assert current().blocks == 2
        assert current().blocks == 2
    assert current().blocks == 1


def test_a_plain_call_inside_a_block_acts_at_once_and_lasts() -> None:
    with config(blocks=2):
        with config(exact=True):
            config(blocks=5, fusion=False)
            assert (current().blocks, current().fusion, current().exact) == (5, False, True)
        assert (current().blocks, current().fusion, current().exact) == (5, False, False)
    assert (current().blocks, current().fusion) == (5, False)


def test_entering_does_not_undo_what_was_set_since() -> None:
    change = config(blocks=2, exact=True)
    config(blocks=7)
    with change:
        assert current().blocks == 2
    assert (current().blocks, current().exact) == (7, False)


@pytest.mark.parametrize(
    ("written", "kept"),
    [(0, 0), ("0", 0), ("512", 512), ("4MiB", 4 << 20), ("4 mib", 4 << 20), ("1.5GiB", 3 << 29), ("2MB", 2_000_000)],
)
def test_sizes(written: int | str, kept: int) -> None:
    assert parse_bytes(written) == kept
    with config(eager_bytes=written):
        assert current().eager_bytes == kept


def test_paths_are_kept_as_paths(tmp_path: Path) -> None:
    with config(cache_dir=str(tmp_path)):
        assert current().cache_dir == tmp_path


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"eager_bytes": -1}, r"^eager_bytes is a size in bytes, as 4194304 or '4MiB', got -1\.$"),
        ({"eager_bytes": "4 parsecs"}, "got '4 parsecs'"),
        ({"eager_bytes": 1.5}, "got 1.5"),
        ({"eager_bytes": True}, "got True"),
        ({"exact": 1}, r"^exact is True or False, got 1\.$"),
        ({"engine": "ray"}, r"Engines other than NumPy are chosen by tw\.session"),
        ({"fallback": "loud"}, r"^fallback is 'warn' or 'error' or 'silent', got 'loud'\.$"),
        ({"cache_dir": ""}, "the path of a folder"),
        ({"cache_dir": 3}, "the path of a folder"),
        ({"blocks": 0}, r"^blocks is a whole number of at least 1, got 0\.$"),
        ({"threads": 0}, r"^threads is None or a whole number of at least 1, got 0\.$"),
        ({"layout_seed": "7"}, "got '7'"),
        ({"eager_byte": 0}, r"no setting 'eager_byte'\. Did you mean eager_bytes\? Settings are eager_bytes, exact, "),
        ({"zzz": 0}, r"no setting 'zzz'\. Settings are "),
    ],
)
def test_refused(change: dict[str, Any], says: str) -> None:
    before = config()
    with pytest.raises(ConfigError, match=says):
        config(**change)
    with pytest.raises(ConfigError):  # Nothing is changed where one of several is wrong.
        config(**({"progress": True} | change))
    assert config() == before


def test_the_least_is_never_more_than_what_applies() -> None:
    with config(eager_bytes=100):
        assert LEAST.eager_bytes <= 100
        with config(eager_bytes=1 << 30):
            assert LEAST.eager_bytes <= 100
        with config(eager_bytes=10):
            pass
        in_another_thread(lambda: config(eager_bytes=50))
        assert LEAST.eager_bytes <= 50 == in_another_thread(current).eager_bytes
    assert LEAST.eager_bytes == current().eager_bytes == 50
    config(eager_bytes=300)
    assert LEAST.eager_bytes == 300


def test_environment() -> None:
    environ = {"TILEWISE_EAGER_BYTES": "1MiB", "TILEWISE_FUSION": "off", "TILEWISE_THREADS": "2", "HOME": "/"}
    assert from_environment(environ) == Settings(eager_bytes=1 << 20, fusion=False, threads=2)
    assert from_environment({"TILEWISE_THREADS": "none", "TILEWISE_ENGINE": "numpy"}) == Settings(engine="numpy")
    assert from_environment({"TILEWISE_UNRELATED": "1"}) == Settings()


@pytest.mark.parametrize(
    ("variable", "text", "says"),
    [
        ("TILEWISE_BLOCKS", "many", r"^TILEWISE_BLOCKS is a whole number of at least 1, got 'many'\.$"),
        ("TILEWISE_EXACT", "perhaps", r"^TILEWISE_EXACT is True or False, got 'perhaps'\.$"),
        ("TILEWISE_EAGERBYTES", "0", r"no setting for the variable TILEWISE_EAGERBYTES\. Use TILEWISE_EAGER_BYTES\.$"),
    ],
)
def test_environment_refused(variable: str, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        from_environment({variable: text})


def test_environment_is_read_at_import() -> None:
    program = "from tilewise.config import config; print(config().blocks)"
    environ = {"TILEWISE_BLOCKS": "4", "PYTHONPATH": str(Path(__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout == "4\n"


def test_a_block_without_changes() -> None:
    changes: dict[str, int] = {}
    with config(**changes) as settings:  # type: ignore[call-overload]  # any names
        assert settings == config()
