"""What programs and their callers agree upon. In: nothing. Out: places of words.

A program is called with two blocks of words: its arguments (addresses of ndarray objects; numbers, complex ones in two
words) and what it gives back, where it finds whom to ask about Ctrl-C, two functions (to have helper threads, and to
let them go), how many operations of a loop are worth it, routines of BLAS, and the block of its draws. Memory that it
allocates has a head of HEAD bytes: how many hold it, and its size.
"""

from __future__ import annotations

STATUS, WHICH, WRITTEN, PAYLOAD = 0, 1, 2, 3  # words of the second block
POLL, CLAIM, RELEASE, WORTH, BLAS, DRAWS, TEAM, RESULTS = 16, 17, 18, 19, 20, 24, 25, 26
RETURNED, FAILED, MISSED, INTERRUPTED, UNPROVED = range(5)  # statuses
PAYLOADS = POLL - PAYLOAD
HEAD = 64
# Words beside the arguments: whom to call for Python's functions; of recursions, calls left and the first frame.
HOST_ADDRESS, DEPTH, FIRST_FRAME, ENVIRONMENT = 0, 1, 2, 3
STACK_BYTES = 3 << 20  # that recursions may use; threads have 8 MiB
# Of an ndarray object: fields after its head and data pointer, as every NumPy since 1.7 has them.
DIMS_OFFSET, STRIDES_OFFSET, FLAGS_OFFSET = 32, 40, 64
C_CONTIGUOUS, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400
HEAP = 4096  # a base below is the number of an argument
COPIED_BYTES = 1 << 15  # results up to here are copied: 1.5 us; owning them takes 4


def array_words(rank: int) -> int:
    """Of an array among the results: data, base, which argument it is, lengths, strides."""
    return 3 + 2 * rank
