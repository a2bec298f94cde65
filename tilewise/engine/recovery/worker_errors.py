"""What went wrong on a worker, for the driver. In: an exception. Out: one of the same class, fields and notes there.

A class that cannot be found again is told in words. The worker's traceback is the cause of the error that is raised.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from typing import Any

from tilewise.records import dataclass

Dumps = Callable[[Any], bytes]


@dataclass(frozen=True)
class Failure:
    """Stands where a report should be. Without an error: another worker failed, or (with `lost`) is gone."""

    error: Exception | None = None
    lost: str = ""


@dataclass(frozen=True)
class PackedFailure:
    """A failure on its way to another process."""

    error: bytes
    traceback: str

    def unpacked(self) -> Failure:
        """The failure, with the worker's traceback as the cause."""
        error = pickle.loads(self.error)
        error.__cause__ = WorkerTraceback(self.traceback)
        return Failure(error)


class WorkerTraceback(Exception):
    """Where an error was raised, in a worker's own process."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


def pack(failure: Failure, where: str, dumps: Dumps) -> Failure | PackedFailure:
    """A failure as it can be sent; `dumps` knows how to send classes of the user's program."""
    error = failure.error
    if error is None:
        return failure
    text = "".join(traceback.format_exception(error)).rstrip()
    return PackedFailure(dumps(portable(error, dumps)), f"{where}:\n{text}")


def portable(error: Exception, dumps: Dumps = pickle.dumps) -> Exception | _Rebuilt:
    """The error, or something that becomes it again, or one that says the same where neither can be sent."""
    whole = (error.args, getattr(error, "__dict__", {}))
    for each in (error, _Rebuilt(type(error), *whole)):
        try:
            back = pickle.loads(dumps(each))
            if type(back) is type(error) and repr((back.args, back.__dict__)) == repr(whole):
                return each
        except Exception:
            continue
    other = RuntimeError(f"{type(error).__name__}: {error}")
    for note in getattr(error, "__notes__", ()):
        other.add_note(note)
    return other


def again(error: Exception) -> Exception:
    """The same error without a traceback, whose frames would keep alive what they refer to."""
    other = _rebuild(type(error), error.args, error.__dict__)
    other.__cause__ = error.__cause__
    return other


class _Rebuilt:
    """An exception that pickles as its class and fields: its own __init__ wants other arguments than it keeps."""

    def __init__(self, kind: type[Exception], args: tuple[Any, ...], state: dict[str, Any]) -> None:
        self.parts = kind, args, dict(state)

    def __reduce__(self) -> Any:
        return _rebuild, self.parts


def _rebuild(kind: type[Exception], args: tuple[Any, ...], state: dict[str, Any]) -> Exception:
    try:
        error = kind.__new__(kind, *args)
    except TypeError:  # classes of two built-in kinds (an error of ours that is a MemoryError) are made by a call only
        error = kind(*args)
    error.args = args
    error.__dict__.update(state)
    return error
