"""Figures on which the last bits of results depend. In: nothing. Out: constants, the same on all machines.

A sum of floats depends on the order of its additions: on the chunks it is made in, on whether a pass is cut into tiles
(each tile has a sum of its own), on whether a product is rounded before it is added. Whatever decides one of these is
here and not in `tilewise/tuning.py`, so that no measurement, machine or history can change a result. To change a figure
here is to change results; tests change some (tests/fuzz/thresholds.py), to send small arrays along the paths of large
ones. The trees of sums themselves are in backend/llvm/loops/sums.py.
"""

# --- which passes share tiles, and how long these are where something is summed over them (docs/design/0013-tiles.md)
TILE_BYTES = 256 << 10  # of all values of a tile together
TILE_ROWS = 32  # tiles are multiples of it where they can: sums along the tile then end where chunks of rows do
TILE_CHUNKS = 32  # of tiles, handed out to threads; each has its own sums
TILED_AT_BYTES = 1 << 20  # data that the caches hold anyway is not cut (BLAS may round a tile of a product differently)
SUMMED_AT_BYTES = 3 << 20  # the same where tiles have sums: adding these up takes 100 to 200 us
MERGED_AT_BYTES = 5 << 20  # least data for which saving a pass over memory beats merging per-tile sums
MERGED_SHARE = 32  # per-tile sums are at most this part of the data: NumPy merges them
SUM_TILES = 32 << 10, 768 << 10  # bytes of a tile where sums are made over tiles, at least and at most
SUM_INPUTS = 352 << 10  # of inputs in such a tile, at most: passes after the first find them in the L2 cache
SUM_SHARE = 32  # such a tile has so many times the bytes of the sums, which every tile adds to
WHOLE_BYTES = 1 << 20  # that every tile may need whole: they stay in the L2 cache beside the tile
NEAR_BYTES = 64 << 10  # that every tile needs whole, when the axis to cut is chosen: they stay in the caches beside it
FAR_BYTES, SHRED_BYTES = 4 << 20, 1024  # of an array that the caches do not hold; of its rows, at least, in a tile
SIMILAR = 8  # lengths along the cut may differ by one in so many: windows of what other passes make
SCRATCH_BYTES = 3 << 19  # of a thread: three quarters of an L2 cache of 2 MiB; what needs more is not tiled
PRODUCT_ROWS = 64  # of a tile in which BLAS multiplies matrices, at least: with fewer, it is far from its rate
HALO_BYTES = 1472 << 10  # of scratch of a tile that has a halo, at most: of an L2 cache of 2 MiB, or of the next one
HALO_SHARE = 8  # chunks have at least so many times the slices that the first tile of each makes again
HALO_TILES = 2  # tiles are at least so many times as long as their halo: what is kept is moved
TALL_TILES = 16  # of a product of matrices that is cut into tiles for itself, at least
STRIPS = 4  # bytes that are read in strips cost as much as one that is read again
MOST_MOVED = 8  # units that are moved so that a step can join one before them
DEEP_HALO_ROWS = 16  # rows of a block for each that it computes again, so that a halo is exchanged earlier
DEEP_HALO_BYTES = 1 / 32  # of a halo, by which the earlier one may be larger
MOST_STEPS = 24  # of one Tiled; a tile's working set grows with every value

# --- which operators share a pass: a product that is stored has been rounded (docs/design/0002-passes.md)
MAX_BODY = 160  # instructions; beyond, compiling grows faster than running shrinks
MAX_MORE = 8  # instructions more, of results that were cut together
MAX_OUTS = 8  # streams written at once; more than the hardware's write-combining buffers like
RECOMPUTED_OUTS = 8  # streams that a pass writes at once which computes others again
RECOMPUTED_BODY = 96  # instructions of such a pass; beyond, registers spill

# --- the order of additions in one pass (docs/design/0014-loop-forms.md)
SHORT_ROW = 16  # a reduced innermost dim this short is summed with the lanes along a kept dim instead
COLUMN_CHUNK_BYTES = 128 << 10  # of rows whose columns are summed: short chunks keep wide rows in the caches
COLUMN_CHUNK_BLOCKS = 32  # of such rows, at most: long chunks leave few partial sums
ROW_CHUNKS = 128  # of a row: where there would be twice as many, they get longer
FUSED_AT = 16  # products of a sum, from which on they are not rounded before they are added
SCAN_IN_CHUNKS = 1 << 16  # points of a scan that is cut into chunks, at least
BUCKET_CHUNKS = 64  # of a sum by keys, at most
BUCKET_CHUNK_POINTS = 8192  # of the space, at least
POINTS_PER_BUCKET = 8  # points of a chunk for each of its accumulators, at least
PAIR_POINTS_PER_BUCKET = 3  # of two chunks, which halve the time of two threads; of one they take a sixth
BUCKET_TABLES, BUCKET_TABLES_UP_TO = 4, 1024  # tables of the accumulators of a chunk, where they are not more
BUCKET_NUMPY_CHUNK = 1 << 16  # elements summed at a time by NumPy: they and their positions stay in the cache
TURN_AT, TURN_USES = 32, 4  # elements of a reduced dim that takes the lanes; uses of each element copied for that
PANEL_MOST_VECTORS = 128  # of a row, where a reduction inside has several panels
GRAM_MOST_COLUMNS = 256  # of X.T @ X; beyond, BLAS is at its rate
GRAM_BLOCK_BYTES = 24 << 10  # of the rows of X that go by
GRAM_BLOCK_ROWS = 16, 128  # of these, at least and at most
CHOLESKY_MIN_BLOCK = 32  # columns of a block: smaller ones are not worth their exchanges

# --- rewrites that change the order of additions (docs/design/0011-rewrites.md)
REROLL_MIN_SIBLINGS = 4  # fewer are not worth the trouble
REROLL_MAX_NODES = 200  # of one sibling
REROLL_MAX_BYTES = 1 << 25  # of an intermediate value, unless the siblings' base or the result is as large
CHAIN_MIN_FLOPS = 1 << 20  # what is saved below is less than looking at the operands costs
CHAIN_GAIN = 2  # the other order must cost less than this part
LOOK_KEYS_BYTES = 1 << 26  # of keys that are looked at: a pass over them is little beside the sums
