"""What a user can get wrong, and the one way of saying it. In: the parts of a message. Out: exceptions, warnings.

NumPy's exceptions stay NumPy's: a wrong shape, dtype or axis raises what NumPy raises. These are for the rest.
"""


def message(what: str, got: str | None = None, where: str | None = None, cure: str | None = None) -> str:
    """Join what is wrong, what was given, where, and what to do about it, in the one format.

    >>> message("matmul joins axis 1 of a (8 parts) with axis 0 of b (6 parts)", where="kmeans.py:41",
    ...         cure="Use b.relayout(rows=8)")
    'matmul joins axis 1 of a (8 parts) with axis 0 of b (6 parts), kmeans.py:41. Use b.relayout(rows=8).'
    >>> message("blocks is a whole number of at least 1", got="0")
    'blocks is a whole number of at least 1, got 0.'
    """
    parts = [what.rstrip("."), f"got {got}" if got is not None else None, where]
    first = ", ".join(part for part in parts if part) + "."
    return f"{first} {cure.rstrip('.')}." if cure else first


class TilewiseError(Exception):
    """The base of Tilewise's own errors.

    >>> issubclass(LayoutError, TilewiseError), issubclass(FallbackWarning, TilewiseError)
    (True, False)
    """


class ConfigError(TilewiseError, ValueError):
    """A setting that does not exist, or a value that it cannot have."""


class LayoutError(TilewiseError, ValueError):
    """A layout that an array or an operator cannot have."""


class SessionClosedError(TilewiseError, RuntimeError):
    """The data asked for was held by a session that is closed."""


class MemoryBudgetError(TilewiseError, MemoryError):
    """No plan fits the memory that a worker may use; raised before anything runs."""


class StoreError(TilewiseError, OSError):
    """A file or store that cannot be read or written as an array: damaged, of another kind, in the way, full."""


class SourceChangedError(StoreError):
    """A file was written to after an array of it was opened, and before its elements were read."""


class FunctionError(TilewiseError, ValueError):
    """A user's function gave something that its operator cannot use."""


class ParforError(TilewiseError, ValueError):
    """A loop that cannot run in parallel, or a parfor that is not written as one."""


class FallbackError(TilewiseError, NotImplementedError):
    """A function that Tilewise would hand to NumPy, under `config(fallback="error")`."""


class FallbackWarning(UserWarning):
    """A function was handed to NumPy on one core, because Tilewise has no version of its own yet.

    >>> import warnings
    >>> warnings.simplefilter("ignore", FallbackWarning)  # or tw.config(fallback="silent")
    """


class PerformanceWarning(UserWarning):
    """The program runs, but the way it is written keeps it from running fast."""
