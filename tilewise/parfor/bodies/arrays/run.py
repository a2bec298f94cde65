"""Running array expressions of loops. In: an expression and its loop. Out: accumulated names, or why it did not run."""

from __future__ import annotations

from typing import Any

from tilewise.parfor.bodies.arrays.axes import NotArrays
from tilewise.parfor.bodies.arrays.trace import Expression
from tilewise.parfor.job import Job


def run_arrays(found: Expression, job: Job) -> tuple[dict[str, Any] | None, str]:
    """Accumulated names, or None and the reason: then nothing was written, and the loop itself says what is wrong."""
    try:
        return found.run({name: job.names[name] for name in job.reductions}), ""
    except NotArrays as error:
        return None, f"no array expression: {error}"
    except (IndexError, ValueError, TypeError, ArithmeticError, MemoryError) as error:
        return None, f"no array expression: {type(error).__name__}: {error}"
