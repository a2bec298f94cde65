"""Calls of SciPy and scikit-learn, entered in CALLS (calls.py)."""

from __future__ import annotations

from tests.neighbours.calls import needs


@needs("scipy")
def ndi_output(np, v, m, i, u, tmp):
    import scipy.ndimage as ndi

    out = np.zeros((4, 3))
    ndi.gaussian_filter(m, 1.0, output=out)
    return out


@needs("scipy")
def ndi_plain(np, v, m, i, u, tmp):
    import scipy.ndimage as ndi

    return ndi.gaussian_filter(m, 1.0)


@needs("scipy")
def sparse_right(np, v, m, i, u, tmp):
    import scipy.sparse as sp

    S = sp.csr_matrix(m.tolist())
    return m @ S.T


@needs("scipy")
def sparse_left(np, v, m, i, u, tmp):
    import scipy.sparse as sp

    S = sp.csr_matrix(m.tolist())
    return S @ m.T


@needs("scipy")
def sparse_array_right(np, v, m, i, u, tmp):
    import scipy.sparse as sp

    S = sp.csr_array(m.tolist())
    return m @ S.T


@needs("scipy")
def sparse_mul(np, v, m, i, u, tmp):
    import scipy.sparse as sp

    S = sp.csr_matrix(m.tolist())
    return S.multiply(m)


@needs("scipy")
def sparse_operators(np, v, m, i, u, tmp):
    import scipy.sparse as sp

    dense, S = m @ m.T, sp.csr_matrix((m @ m.T).tolist())
    both = (S + dense, dense + S, S - dense, dense - S, S + v[: S.shape[1]])
    return [r.tolist() for r in both], [r.toarray().tolist() for r in (S / (dense + 1), S.T.tocoo() / (dense + 1))]


@needs("scipy")
def sparse_of(np, v, m, i, u, tmp):
    import scipy.sparse as sp

    return sp.csr_matrix(m)


@needs("scipy")
def sparse_coo(np, v, m, i, u, tmp):
    import scipy.sparse as sp

    return sp.coo_matrix((v, (i, i)), shape=(4, 4))


@needs("scipy")
def rvs(np, v, m, i, u, tmp):
    import scipy.stats

    return scipy.stats.norm.rvs(size=3, random_state=np.random.default_rng(0))


@needs("scipy")
def rvs_rs(np, v, m, i, u, tmp):
    import scipy.stats

    return scipy.stats.norm.rvs(size=3, random_state=np.random.RandomState(0))


@needs("scipy")
def bootstrap(np, v, m, i, u, tmp):
    import scipy.stats

    return scipy.stats.bootstrap(
        (v,), scipy.stats.tmean if False else np.mean, n_resamples=20, random_state=np.random.default_rng(0)
    ).confidence_interval


@needs("sklearn")
def sk_rs(np, v, m, i, u, tmp):
    from sklearn.model_selection import KFold

    return list(KFold(2, shuffle=True, random_state=np.random.RandomState(0)).split(m))


@needs("sklearn")
def sk_fit(np, v, m, i, u, tmp):
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression().fit(m, i).predict(m)


@needs("sklearn")
def sk_scale(np, v, m, i, u, tmp):
    from sklearn.preprocessing import StandardScaler

    return StandardScaler().fit_transform(m)


@needs("sklearn")
def sk_metric(np, v, m, i, u, tmp):
    from sklearn.metrics import accuracy_score, mean_squared_error

    return accuracy_score(i, i[::-1]), mean_squared_error(v, v * 2)


@needs("sklearn")
def sk_grid(np, v, m, i, u, tmp):
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import GridSearchCV

    return GridSearchCV(Ridge(), {"alpha": v}, cv=2).fit(m, v).best_params_


@needs("sklearn")
def sk_random_search(np, v, m, i, u, tmp):
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import RandomizedSearchCV

    return RandomizedSearchCV(Ridge(), {"alpha": v}, n_iter=2, cv=2, random_state=0).fit(m, v).best_params_


@needs("sklearn")
def sk_searches_of_lists(np, v, m, i, u, tmp):
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import GridSearchCV, RandomizedSearchCV

    grid = {"alpha": list(v)}
    random = RandomizedSearchCV(Ridge(), grid, n_iter=2, cv=2, random_state=0)
    return GridSearchCV(Ridge(), grid, cv=2).fit(m, v).best_params_, random.fit(m, v).best_params_


@needs("sklearn")
def sk_selection(np, v, m, i, u, tmp):
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import cross_val_score, train_test_split

    halves = train_test_split(m, i, test_size=2, random_state=0, stratify=i)
    assert all(isinstance(half, np.ndarray) for half in halves)
    return cross_val_score(Ridge(), m, v, cv=2), halves


@needs("sklearn")
def sk_pipeline(np, v, m, i, u, tmp):
    from sklearn.cluster import KMeans
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    fitted = make_pipeline(StandardScaler(), LogisticRegression()).fit(m, i, logisticregression__sample_weight=v)
    return fitted.predict_proba(m), KMeans(2, init=m[:2], n_init=1).fit(m).labels_


@needs("scipy")
def opt(np, v, m, i, u, tmp):
    import scipy.optimize as so

    return so.minimize(lambda p: ((p - v) ** 2).sum(), np.zeros(4)).x.round(3), so.curve_fit(
        lambda x, a, b: a * x + b, v, v * 2 + 1
    )[0].round(6)


@needs("scipy")
def ode(np, v, m, i, u, tmp):
    import scipy.integrate as si

    return si.solve_ivp(lambda t, y: -y, (0, 1), v).y[:, -1]


@needs("scipy")
def linalg(np, v, m, i, u, tmp):
    import scipy.linalg as sl

    return sl.lu(m)[2], sl.solve(m.T @ m + np.eye(3), m[0])


@needs("scipy")
def spatial(np, v, m, i, u, tmp):
    from scipy.spatial import cKDTree

    return cKDTree(m).query(m[:2])[1]


@needs("scipy")
def interp1(np, v, m, i, u, tmp):
    from scipy.interpolate import CubicSpline, interp1d

    return interp1d(np.arange(4), v)(1.5), CubicSpline(np.arange(4), v)(1.5)


@needs("scipy")
def signal(np, v, m, i, u, tmp):
    import scipy.signal

    return scipy.signal.lfilter([1, 0.5], [1.0], v), scipy.signal.convolve(v, v)


@needs("scipy")
def fft(np, v, m, i, u, tmp):
    import scipy.fft

    return scipy.fft.fft(v)
