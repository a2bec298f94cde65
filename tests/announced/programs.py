"""Programs whose announced bytes are compared with those that cross. In: nothing. Out: PROGRAMS, with arguments."""

import numpy as np

from tests.announced import moves, statistics

RNG = np.random.default_rng(21)
X = RNG.normal(size=(103, 35))
Y = RNG.normal(size=(103, 7))
V = RNG.normal(size=211)
W = RNG.normal(size=35)
K = RNG.integers(0, 9, size=211)
KEYS = RNG.integers(0, 6, size=103)
S = RNG.normal(size=(24, 24))
SPD = S @ S.T + 24 * np.eye(24)
I = RNG.integers(0, 103, size=50)

PROGRAMS = {
    statistics.gradient: (X, Y[:, 0], W),
    statistics.ridge: (X, Y[:, 0]),
    statistics.least_squares_by_qr: (X, Y[:, 0]),
    statistics.cholesky: (SPD,),
    statistics.power_iteration: (SPD,),
    statistics.pca: (X,),
    statistics.gram: (X,),
    statistics.outer_sum: (V, W),
    statistics.standardise: (X,),
    statistics.moments: (V,),
    statistics.covariance: (X,),
    statistics.softmax: (X,),
    statistics.column_softmax: (X,),
    statistics.extremes: (X,),
    statistics.median: (V,),
    statistics.quantiles: (V,),
    statistics.masked_mean: (X,),
    statistics.masked_means: (X, KEYS),
    statistics.masked_pair: (V,),
    statistics.masked_rows: (X,),
    statistics.masked_assignment: (V,),
    statistics.masked_write: (V,),
    statistics.chosen: (X,),
    statistics.how_many: (V,),
    statistics.sorted_vector: (V,),
    statistics.ranked: (V,),
    statistics.sorted_by_key: (V, K),
    statistics.sorted_rows: (X,),
    statistics.sorted_columns: (X,),
    statistics.group_sums: (V, K),
    statistics.group_counts: (K,),
    statistics.group_rows: (X, KEYS),
    statistics.histogram: (V,),
    statistics.histogram_within: (V,),
    statistics.uniques: (K,),
    statistics.unique_numbers: (K,),
    statistics.members: (V, K),
    statistics.by_two_keys: (V, K),
    statistics.positions: (V,),
    statistics.nan_quantiles: (V,),
    statistics.column_quantiles: (X,),
    statistics.added_below: (X, K),
    statistics.written_below: (V, K),
    statistics.joined: (V, K),
    statistics.neighbours: (X,),
    statistics.nearest_three: (Y,),
    statistics.kmeans: (Y,),
    moves.jacobi: (X,),
    moves.wave: (V,),
    moves.rolled: (V,),
    moves.differences: (V,),
    moves.moving_average: (V,),
    moves.reshaped: (V,),
    moves.flattened: (X,),
    moves.transposed: (X,),
    moves.turned: (V,),
    moves.tiled: (V,),
    moves.tiled_grid: (X,),
    moves.repeated: (V,),
    moves.stacked: (X, Y),
    moves.appended: (V,),
    moves.padded: (V,),
    moves.first_columns: (X,),
    moves.last_rows: (X,),
    moves.every_third: (V,),
    moves.one_row: (X,),
    moves.view_and_base: (X,),
    moves.diagonal: (SPD,),
    moves.taken: (X, I),
    moves.picked: (X,),
    moves.scattered: (V, I),
    moves.gathered_twice: (V, I),
    moves.cumulative: (V,),
    moves.cumulative_rows: (X,),
    moves.integral_image: (X,),
    moves.running_maximum: (V,),
    moves.in_place: (X,),
    moves.descent: (X, Y[:, 0]),
    moves.conjugate_gradients: (SPD,),
    moves.until_small: (V,),
}
