"""What functions of libraries do to their arguments. In: a function. Out: what it reads, writes, and what it returns.

A family is a table. Functions that are in none are followed by their source (call.py) or, without one, taken to order
the iterations.
"""

from __future__ import annotations

import builtins
import inspect
import math
import operator
import sys
import types
from collections.abc import Iterable
from typing import Any

import numpy as np

from tilewise.parfor.walk.values import Obj, Val, may_be_anything

PURE_BUILTINS = frozenset(
    "abs all any ascii bin bool bytes chr complex dict divmod enumerate filter float format frozenset getattr "
    "hasattr hash hex id int isinstance issubclass len list map max min oct ord pow range repr reversed round set "
    "slice sorted str sum tuple type zip object callable".split()
)
HOLDING_BUILTINS = frozenset(
    "dict enumerate filter frozenset list map reversed set sorted tuple zip max min getattr".split()
)
# Those that take any number of arguments, none of which is called or written to.
SPREADABLE = frozenset("zip max min range product chain zip_longest hypot gcd lcm slice".split())
# Where those that call a function have it among their arguments.
FUNCTION_AT = {
    **dict.fromkeys("map filter filterfalse starmap takewhile dropwhile".split(), 0),
    **dict.fromkeys("accumulate groupby".split(), 1),
}
# Those that call it with elements of the others.
ELEMENTWISE = frozenset("map filter filterfalse takewhile dropwhile sorted min max sort any all".split())
# Those that do not call what they are given.
LOOKING = frozenset("isinstance issubclass type id callable hasattr hash repr str bool".split())
# Those that do nothing with what their arguments hold.
LEAVING = frozenset(
    "isinstance issubclass type id callable hasattr getattr len list tuple enumerate zip reversed range slice iter "
    "chain islice repeat deque".split()
)
# Those that iterate over what they are given, and do not keep it; methods of lists, dicts, sets and texts among them.
CONSUMING = frozenset(
    "list tuple set frozenset dict sorted sum min max any all len reduce fsum prod next deque Counter OrderedDict "
    "defaultdict isinstance bool join extend update sort union intersection difference symmetric_difference mean fmean "
    "median variance stdev".split()
)
PURE_MODULES = frozenset("math cmath operator itertools statistics fractions decimal string collections".split())
# Their result may be a view of the first argument.
VIEWS = frozenset(
    "asarray asanyarray ascontiguousarray asfortranarray array atleast_1d atleast_2d atleast_3d broadcast_to "
    "broadcast_arrays diagonal diag expand_dims flip fliplr flipud moveaxis nditer permute_dims matrix_transpose "
    "ravel real imag require reshape rollaxis rot90 split "
    "array_split hsplit vsplit dsplit squeeze swapaxes transpose trim_zeros einsum as_strided sliding_window_view "
    "frombuffer from_dlpack unstack real_if_close nan_to_num asmatrix meshgrid ix_ view astype "
    "asarray_chkfinite".split()
)
# They write to their first argument.
WRITES_FIRST = frozenset("copyto put place putmask fill_diagonal put_along_axis shuffle".split())
SHAPED = frozenset("zeros empty ones full".split())
SHAPED_LIKE = frozenset("zeros_like empty_like ones_like full_like".split())
# Methods of arrays that write to the array, and those that return a view of it.
# Methods of arrays of numbers that give one number if they are given nothing, and its kind; None: the array's own.
TO_ONE_NUMBER: dict[str, str | None] = {
    "sum": None,
    "prod": None,
    "min": None,
    "max": None,
    "mean": None,
    "std": "f",
    "var": "f",
    "argmin": "i",
    "argmax": "i",
    "any": "b",
    "all": "b",
}
ARRAY_WRITES = frozenset("sort fill partition put itemset resize setfield byteswap setflags __setitem__".split())
ARRAY_VIEWS = frozenset(
    "reshape ravel transpose swapaxes squeeze view diagonal astype flatten __getitem__ newbyteorder __array__ "
    "getfield to_device conj conjugate".split()
)
# Methods of arrays that write to files, or whose result may be used to write to it in ways that are not followed.
ARRAY_UNKNOWN = frozenset(
    "tofile dump __array_wrap__ __array_ufunc__ __array_function__ __array_finalize__ __setstate__ __dlpack__ "
    "__buffer__ __release_buffer__ __getattribute__ __setattr__ __delattr__ __init__".split()
)
LIST_WRITES = frozenset("append extend insert pop remove sort reverse clear __setitem__ __delitem__ __iadd__".split())
DICT_WRITES = frozenset("update setdefault pop popitem clear __setitem__ __delitem__ move_to_end".split())
SET_WRITES = frozenset(
    "add remove discard pop clear update intersection_update difference_update symmetric_difference_update".split()
)
CONTAINER_READS = frozenset(
    "index count copy get keys values items union intersection difference symmetric_difference issubset issuperset "
    "isdisjoint __getitem__ __len__ __contains__ most_common elements".split()
)
IN_PLACE = frozenset(
    "iadd isub imul imatmul itruediv ifloordiv imod ipow ilshift irshift iand ior ixor iconcat".split()
)
INTEGER_RESULTS = frozenset("len int ord hash id argmax argmin count_nonzero searchsorted argsort digitize".split())
FLOAT_RESULTS = frozenset("float sqrt exp log sin cos tan mean std var median norm hypot".split())


def module_of(function: Any) -> str:
    """The module a function says it is from."""
    found = getattr(function, "__module__", None)
    if found is None and isinstance(function, types.BuiltinFunctionType):
        owner = getattr(function, "__self__", None)
        found = owner.__name__ if isinstance(owner, types.ModuleType) else type(owner).__module__
    return found if isinstance(found, str) else ""


def is_random(function: Any) -> bool:
    """Whether it draws from, or sets, a generator that all iterations share."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, np.random.RandomState | np.random.Generator | np.random.BitGenerator):
        return True
    if type(owner).__name__ == "Random" and type(owner).__module__ == "random":
        return True
    return module_of(function) in ("random", "numpy.random", "numpy.random.mtrand", "secrets", "uuid")


# Where methods of generators that have an argument `out` have it.
OUT_AT = {"random": 2, "standard_normal": 2, "standard_exponential": 3, "standard_gamma": 3}
GENERATORS = (np.random.RandomState, np.random.Generator, np.random.BitGenerator, np.random.SeedSequence)


def one_of(value: Any, known: Iterable[Any]) -> bool:
    """Whether it is one of some objects: not one that says it is equal to one of them."""
    return any(value is one for one in known)


def makes_generator(function: Any) -> bool:
    """Whether it makes a generator of its own."""
    makers = (np.random.default_rng, np.random.Generator, np.random.RandomState, np.random.SeedSequence)
    return one_of(function, makers) or (isinstance(function, type) and issubclass(function, np.random.BitGenerator))


def is_generator(value: Any) -> bool:
    """Whether it is a generator of random numbers."""
    return isinstance(value, np.random.RandomState | np.random.Generator | np.random.BitGenerator) or (
        type(value).__module__ == "random" and type(value).__name__ in ("Random", "SystemRandom")
    )


def random_object(obj: Obj) -> bool:
    """Whether an object is a generator, or the seed of one that was made in the loop."""
    return (obj.cls is not None and issubclass(obj.cls, GENERATORS)) or is_generator(obj.value)


def has_stream(obj: Obj) -> bool:
    """Whether generators that are made of it draw from its stream."""
    return random_object(obj) and obj.cls is not np.random.SeedSequence


def all_random(value: Val) -> bool:
    """Whether a value is surely a generator."""
    return (
        bool(value.objs) and not may_be_anything(value) and value.items is None and all(map(random_object, value.objs))
    )


# The types of functions that are what they say they are; others may hold functions of users.
PLAIN = (types.FunctionType, types.BuiltinFunctionType, type, type(np.sum))


def is_numpy(function: Any) -> bool:
    """Whether it is a function of arrays: NumPy's, SciPy's, or ours with NumPy's meaning."""
    if isinstance(function, np.ufunc):
        return getattr(np, function.__name__, None) is function or _of_scipy(function)
    if not isinstance(function, PLAIN):
        return False
    if isinstance(getattr(function, "__self__", None), np.ufunc):
        return True
    module = module_of(function)
    if module.split(".")[0] == "scipy":
        return not module.startswith(("scipy.io", "scipy.optimize", "scipy.integrate"))
    if isinstance(function, type):
        return issubclass(function, np.generic | np.dtype | np.finfo | np.iinfo) or function is np.errstate
    if module in ("numpy.lib.recfunctions", "numpy._core.records"):  # some return views
        return False
    return module == "numpy" or module.startswith(
        ("numpy.linalg", "numpy.fft", "numpy.lib", "numpy._core", "tilewise.api")
    )


def _of_scipy(function: Any) -> bool:
    """Whether it is one of SciPy's special functions (`np.frompyfunc` makes functions of users that look alike)."""
    special = sys.modules.get("scipy.special")
    return special is not None and getattr(special, function.__name__, None) is function


def parameters(function: Any) -> inspect.Signature | None:
    """The parameters of a function, where Python knows them."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def writes_in_place(name: str) -> bool:
    """Whether a method is an operator in place.

    >>> writes_in_place("__itruediv__"), writes_in_place("__iter__")
    (True, False)
    """
    return name.startswith("__i") and name.endswith("__") and name.strip("_") in IN_PLACE


def is_pure(function: Any) -> bool:
    """Whether it only looks at its arguments."""
    if not isinstance(function, (*PLAIN, operator.itemgetter)):
        return False  # an object that may call others
    name = getattr(function, "__name__", "")
    if getattr(builtins, name, None) is function:
        return name in PURE_BUILTINS or (isinstance(function, type) and issubclass(function, BaseException))
    if isinstance(function, type) and issubclass(function, BaseException):
        return True
    module = module_of(function)
    if module.lstrip("_") in PURE_MODULES or getattr(math, name, None) is function:
        if isinstance(function, type) and name in ("count", "cycle", "tee"):
            return False
        return name not in IN_PLACE and name not in (
            "setitem",
            "delitem",
            "reduce",
            "methodcaller",
            "call",
            "setcontext",
        )
    return False


# They write to files or settings, or call functions that are in a list.
WRITING_NUMPY = frozenset(
    "piecewise save savez savez_compressed savetxt seterr seterrcall setbufsize set_printoptions".split()
)
CALLING_NUMPY = frozenset("vectorize frompyfunc apply_along_axis apply_over_axes fromfunction fromiter".split())
EFFECT_FREE_CONTEXTS = (np.errstate,)
