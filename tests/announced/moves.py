"""Programs that move elements: stencils, shapes, views, indices, scans, writes, loops. `np` is NumPy or Tilewise."""

# Stencils


def jacobi(np, X):
    A = X * 1
    for _ in range(3):
        B = A * 1
        B[1:-1, 1:-1] = 0.25 * (A[:-2, 1:-1] + A[2:, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:])
        A = B
    return A


def wave(np, x):
    u = x * 1
    for _ in range(4):
        u[1:-1] = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return u


def rolled(np, x):
    return x + np.roll(x, 1) + np.roll(x, -1)


def differences(np, x):
    return np.diff(x * x)


def moving_average(np, x):
    c = np.cumsum(x)
    return (c[5:] - c[:-5]) / 5


# Shapes


def reshaped(np, x):
    return x[:210].reshape(-1, 2).sum(1)


def flattened(np, X):
    return X.ravel() + 1


def transposed(np, X):
    return X.T + X.T.mean(0)


def turned(np, x):
    return x[::-1] + x


def tiled(np, x):
    return np.tile(x[:53] + 1, 4)


def tiled_grid(np, X):
    return np.tile(X[:5] * 2, (3, 2))


def repeated(np, x):
    return np.repeat(x * 2, 3)


def stacked(np, X, Y):
    return np.concatenate([X, Y], axis=1).mean(0)


def appended(np, x):
    return np.concatenate([x, x * 2, x[:10]])


def padded(np, x):
    return np.pad(x * 2, 3)


# Views and slices


def first_columns(np, X):
    return (X * 2)[:, :5]


def last_rows(np, X):
    return np.exp(X)[-10:].sum(1)


def every_third(np, x):
    return (x * x)[::3]


def one_row(np, X):
    return (X + 1)[7]


def view_and_base(np, X):
    Y = X * 2
    return Y[:, 3], Y


def diagonal(np, A):
    return np.diagonal(A * 2)


# Fancy indexing


def taken(np, X, i):
    return X[i] * 2


def picked(np, X):
    return X[np.arange(len(X)), X.argmax(1)]


def scattered(np, x, i):
    y = x * 1
    y[i] = 0.0
    return y


def gathered_twice(np, x, i):
    y = x * 2
    return y[i] + y[i + 1]


# Sums along


def cumulative(np, x):
    return np.cumsum(x) * 2


def cumulative_rows(np, X):
    return np.cumsum(X, axis=0)


def integral_image(np, X):
    return X.cumsum(0).cumsum(1)


def running_maximum(np, x):
    return np.maximum.accumulate(x)


# In place and in loops


def in_place(np, X):
    Y = X * 2
    Y[3] = 0
    Y[:, 2] += 1
    Y *= 0.5
    return Y


def descent(np, X, y):
    w = np.zeros(X.shape[1])
    for _ in range(3):
        w = w - 0.01 * (X.T @ (X @ w - y))
    return w


def conjugate_gradients(np, A):
    b = np.ones(A.shape[0])
    x = np.zeros(A.shape[0])
    r = b - A @ x
    p = r
    rr = (r * r).sum()
    for _ in range(3):
        Ap = A @ p
        a = rr / (p * Ap).sum()
        x = x + a * p
        r = r - a * Ap
        new = (r * r).sum()
        p = r + (new / rr) * p
        rr = new
    return x


def until_small(np, x):
    y = x * 1
    for _ in range(3):
        y = y * 0.5
        if float((y * y).sum()) < 1e-3:
            break
    return y + 1
