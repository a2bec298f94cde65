"""Programs of linear algebra and statistics: masks, sorts, groups, joins. `np` is NumPy or Tilewise."""

# Linear algebra


def gradient(np, X, y, w):
    return X.T @ (1 / (1 + np.exp(-(X @ w))) - y)


def ridge(np, X, y):
    return np.linalg.solve(X.T @ X + np.eye(X.shape[1]), X.T @ y)


def least_squares_by_qr(np, X, y):
    q, r = np.linalg.qr(X)
    return np.linalg.solve(r, q.T @ y)


def cholesky(np, A):
    return np.linalg.cholesky(A)


def power_iteration(np, A):
    v = np.ones(A.shape[0])
    for _ in range(3):
        v = A @ v
        v = v / np.sqrt((v * v).sum())
    return v


def pca(np, X):
    Z = X - X.mean(0)
    return np.linalg.eigh(Z.T @ Z / len(X))[0]


def gram(np, X):
    return X @ X.T


def outer_sum(np, x, y):
    return (x[:, None] * y[None, :]).sum(1)


# Statistics


def standardise(np, X):
    return (X - X.mean(0)) / X.std(0)


def moments(np, x):
    d = x - x.mean()
    return (d**3).mean() / (d * d).mean() ** 1.5


def covariance(np, X):
    Z = X - X.mean(0)
    return Z.T @ Z / (len(X) - 1)


def softmax(np, X):
    e = np.exp(X - X.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def column_softmax(np, X):
    e = np.exp(X - X.max(0))
    return e / e.sum(0)


def extremes(np, X):
    return X.argmin(0), X.argmax(1), X.min(), X.max()


def median(np, x):
    return np.median(x)


def quantiles(np, x):
    s = np.sort(x)
    return s[[10, 50, 200]]


# Masks


def masked_mean(np, X):
    return X[X[:, 0] > 0.5].mean(0)


def masked_means(np, X, keys):
    return [X[keys == k].mean(0) for k in range(3)]


def masked_pair(np, x):
    m = x > 0
    return (x[m] * x[m] + 1).sum()


def masked_rows(np, X):
    Y = X * 2
    return Y[Y[:, 0] > 1.0] + 1


def masked_assignment(np, x):
    y = x * 1.5
    y[y > 1] = 1.0
    return y


def masked_write(np, x):
    y = x + 1
    m = y > 1
    y[m] = y[m] * 2
    return y


def chosen(np, X):
    return np.where(X > 0, X, X * 0.1).sum(0)


def how_many(np, x):
    y = x[x > 0.3]
    return y / len(y)


# Sorts


def sorted_vector(np, x):
    return np.sort(x * 2)


def ranked(np, x):
    return np.argsort(x, kind="stable")


def sorted_by_key(np, x, k):
    return x[np.argsort(k, kind="stable")]


def sorted_rows(np, X):
    return np.sort(X, axis=1)[:, -3:]


def sorted_columns(np, X):
    return np.sort(X, axis=0)


# Groups, joins and neighbours


def group_sums(np, x, k):
    return np.bincount(k, weights=x, minlength=9)


def group_counts(np, k):
    return np.bincount(k)


def group_rows(np, X, keys):
    out = np.zeros((6, X.shape[1]))
    np.add.at(out, keys, X)
    return out


def histogram(np, x):
    return np.histogram(x * 2, bins=7)[0]


def histogram_within(np, x):
    return np.histogram(x * 2, bins=7, range=(-3, 3))[0]


def uniques(np, k):
    return np.unique(k * 2)


def unique_numbers(np, k):
    return np.unique(k, return_inverse=True, return_counts=True)[2]


def members(np, x, k):
    return np.isin(np.round(x * 3), k) + 0.0


def by_two_keys(np, x, k):
    return np.lexsort((x, k))


def positions(np, x):
    return np.flatnonzero(x > 0.3) * 2


def nan_quantiles(np, x):
    return np.nanquantile(x, [0.1, 0.9])


def column_quantiles(np, x):
    return np.quantile(x, 0.3, axis=0, method="hazen")


def added_below(np, x, k):
    made = x * 1.0
    np.add.at(made[1:], (k[:50],), 1.0)
    return made


def written_below(np, x, k):
    made = x * 1.0
    made[1:][k[:50] * 3] = 2.0
    return made


def joined(np, x, k):
    table = np.arange(9.0) * 3
    return (x * table[k]).sum()


def neighbours(np, X):
    A, B = X[:60], X[60:]
    d = (A * A).sum(1)[:, None] - 2 * A @ B.T + (B * B).sum(1)
    return d.argmin(1), d.min(1)


def nearest_three(np, X):
    d = ((X[:20, None, :] - X[None, :, :]) ** 2).sum(2)
    return np.sort(d, axis=1)[:, :3]


def kmeans(np, X):
    C = X[:4]
    for _ in range(2):
        d = ((X[:, None, :] - C[None, :, :]) ** 2).sum(2)
        near = d.argmin(1)
        C = np.stack([(X * (near == k)[:, None]).sum(0) / np.maximum((near == k).sum(), 1) for k in range(4)])
    return C
