"""The command line. In: arguments. Out: text, and an exit status. Everything it does is done by the public API."""

import gc
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import tilewise
from tilewise.config import config
from tilewise.errors import TilewiseError, message
from tilewise.later import later
from tilewise.machine import cpu_name, machine

if TYPE_CHECKING:
    import argparse
    import importlib.metadata as metadata
    import platform
    import runpy
else:  # `--version` needs none of them
    argparse, metadata = later("argparse"), later("importlib.metadata")
    platform, runpy = later("platform"), later("runpy")

PACKAGES = ("tilewise", "numpy", "llvmlite", "scipy", "ray", "zarr")
HERE = Path(__file__).parent
DEMO_PLACES = (HERE / "examples" / "demo.py", HERE.parent / "examples" / "demo.py")  # In a wheel; in a checkout.


def version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def size(count: int) -> str:
    """Bytes as a person reads them.

    >>> size(48 * 1024), size(2 * 1024**2), size(100)
    ('48 KiB', '2 MiB', '100 B')
    """
    number, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024 or unit == "GiB":
            break
        number /= 1024
    return f"{number:.4g} {unit}"


def info_lines() -> Iterator[str]:
    here = machine()
    yield f"python       {platform.python_version()} on {platform.platform()}"
    for package in PACKAGES:
        yield f"{package:12} {version(package)}"
    yield ""
    yield f"cpu          {cpu_name()}"
    yield f"cores        {here.cores}"
    yield f"caches       {size(here.l1_bytes)}, {size(here.l2_bytes)}, {size(here.l3_bytes)}; line {here.line_bytes} B"
    yield f"memory       {size(here.memory_bytes)}"
    yield ""
    for name, value in asdict(config()).items():
        yield f"{name:12} {value}"


def info() -> None:
    """Print the versions, the machine and the settings."""
    print("\n".join(info_lines()))


def demo() -> None:
    """Run a NumPy program through Tilewise: its plan, result and time beside NumPy's."""
    for path in DEMO_PLACES:
        if path.exists():
            runpy.run_path(str(path))["main"]()
            return
    raise TilewiseError(message("the demonstration is not installed", where=str(HERE), cure="Install Tilewise again"))


def calibrate() -> None:
    """Measure this machine, for plans that predict its own times (tw.config(machine="measured"))."""
    rates, path = tilewise.calibrate()
    for name, value in asdict(rates).items():
        if isinstance(value, float):
            print(f"{name:14} {value:.3g}")
    print(f"kept in {path}")


COMMANDS = {"info": info, "demo": demo, "calibrate": calibrate}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; its exit status."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given == ["--version"]:
        print(f"tilewise {tilewise.__version__}")
        if arguments is None:
            gc.freeze()  # the process ends here: what was loaded need not be looked through for garbage
        return 0
    parser = argparse.ArgumentParser(prog="tilewise", description="NumPy programs on all the hardware you have.")
    parser.add_argument("--version", action="version", version=f"tilewise {tilewise.__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, command in COMMANDS.items():
        commands.add_parser(name, help=command.__doc__, description=command.__doc__)
    try:
        COMMANDS[parser.parse_args(given).command]()
    except TilewiseError as error:
        print(f"tilewise: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
