"""Reductions by ufuncs (reduction.py), running ones (scan.py), positions and any rows (contributed.py)."""

from tilewise.ops.reduce.contributed import Arg, Extreme, Fold, Lower, arg, contribution, extreme, fold, lowered
from tilewise.ops.reduce.reduction import Reduce, reduce, reduce_op, reduced_order, reduced_shape
from tilewise.ops.reduce.scan import Scan, scan

__all__ = [
    "Arg",
    "Extreme",
    "Fold",
    "Lower",
    "Reduce",
    "Scan",
    "arg",
    "contribution",
    "extreme",
    "fold",
    "lowered",
    "reduce",
    "reduce_op",
    "reduced_order",
    "reduced_shape",
    "scan",
]
