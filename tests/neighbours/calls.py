"""Calls of other libraries. In: NumPy or Tilewise as `np`, arrays of it. Out: what the library makes of them.

Each is run with NumPy and with Tilewise, and must give the same (test_neighbours.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Call = Callable[..., Any]
CALLS: dict[str, tuple[str, Call]] = {}  # by name: the library that it needs, and the call


def needs(library: str = "") -> Callable[[Call], Call]:
    """Enter a call."""

    def enter(call: Call) -> Call:
        CALLS[call.__name__] = library, call
        return call

    return enter


@needs("pandas")
def pd_records(np, v, m, i, u, tmp):
    import pandas as pd

    return pd.DataFrame([{"m": v.mean()}])


@needs("pandas")
def pd_series(np, v, m, i, u, tmp):
    import pandas as pd

    return pd.Series([v.mean(), v.std()])


@needs("pandas")
def pd_series_of(np, v, m, i, u, tmp):
    import pandas as pd

    return pd.Series(v)


@needs("pandas")
def pd_frame(np, v, m, i, u, tmp):
    import pandas as pd

    return pd.DataFrame(m, columns=list("abc"))


@needs("pandas")
def pd_masks(np, v, m, i, u, tmp):
    import pandas as pd

    frame = pd.DataFrame({"v": np.asarray(v), "k": range(len(v))})
    mask = v > v.mean()
    frame.loc[mask, "k"] = -1
    rows = [frame[mask], frame.loc[~mask], frame.iloc[mask], frame["v"][mask].to_frame(), frame.loc[mask, ["k"]]]
    rows += [frame["k"].where(mask).to_frame(), frame.assign(v=v * 2.0, k=pd.unique(frame["k"] * 0 + v))]
    return pd.concat(rows)


@needs("pandas")
def pd_dict(np, v, m, i, u, tmp):
    import pandas as pd

    return pd.DataFrame({"a": v, "b": i})


@needs("pandas")
def pd_assign(np, v, m, i, u, tmp):
    import pandas as pd

    return pd.DataFrame({"a": [1, 2]}).assign(m=v.mean())


@needs("pandas")
def pd_groupby(np, v, m, i, u, tmp):
    import pandas as pd

    return pd.DataFrame({"a": [1, 2, 3, 4]}).groupby(i).sum()


@needs("pandas")
def pd_setcol(np, v, m, i, u, tmp):
    import pandas as pd

    d = pd.DataFrame({"a": [1, 2, 3, 4]})
    d["b"] = v
    d.loc[:, "c"] = i
    d.iloc[0, 0] = v.max()
    return d


@needs("pandas")
def pd_cut(np, v, m, i, u, tmp):
    import pandas as pd

    return pd.cut(v, 3)


@needs("pandas")
def pd_isin(np, v, m, i, u, tmp):
    import pandas as pd

    return pd.Series([1.0, 2.0, 9.0]).isin(v)


@needs("pandas")
def pd_map(np, v, m, i, u, tmp):
    import pandas as pd

    return pd.Series([1.0, 2.0, 9.0, 3.0]) * v


@needs("pandas")
def pd_lmap(np, v, m, i, u, tmp):
    import pandas as pd

    return v * pd.Series([1.0, 2.0, 9.0, 3.0])


@needs("pandas")
def pd_index(np, v, m, i, u, tmp):
    import pandas as pd

    return pd.Index(i)


@needs("pandas")
def pd_dt(np, v, m, i, u, tmp):
    import pandas as pd

    return pd.to_datetime(i, unit="D")


@needs("pandas")
def pd_qcut(np, v, m, i, u, tmp):
    import pandas as pd

    return pd.qcut(v, 2)


@needs("pandas")
def pd_boolmask(np, v, m, i, u, tmp):
    import pandas as pd

    return pd.Series([1, 2, 3, 4])[v > 2]


@needs("pandas")
def pd_dfmask(np, v, m, i, u, tmp):
    import pandas as pd

    return pd.DataFrame(dict(a=[1, 2, 3, 4]))[v > 2]


@needs("pandas")
def pd_where(np, v, m, i, u, tmp):
    import pandas as pd

    return pd.Series([1.0, 2, 3, 4]).where(v > 2, v)


@needs("pandas")
def pd_concat(np, v, m, i, u, tmp):
    import pandas as pd

    return pd.concat([pd.Series(v), pd.Series(i)])


@needs("pandas")
def pd_factorize(np, v, m, i, u, tmp):
    import pandas as pd

    return pd.factorize(i)


@needs("pandas")
def pd_unique(np, v, m, i, u, tmp):
    import pandas as pd

    return pd.unique(i)


@needs("pandas")
def pd_locmask(np, v, m, i, u, tmp):
    import pandas as pd

    return pd.DataFrame(dict(a=[1, 2, 3, 4])).loc[v > 2, "a"]


@needs("pandas")
def pd_ilocmask(np, v, m, i, u, tmp):
    import pandas as pd

    return pd.Series([1, 2, 3, 4]).iloc[v > 2]


@needs("pandas")
def pd_setmask(np, v, m, i, u, tmp):
    import pandas as pd

    s = pd.Series([1, 2, 3, 4])
    s[v > 2] = 0
    return s


@needs("pandas")
def pd_frame_times(np, v, m, i, u, tmp):
    import pandas as pd

    return pd.DataFrame([[1.0, 2.0, 3.0]] * 4) * m


@needs("pandas")
def pd_by_numpy(np, v, m, i, u, tmp):
    import numpy
    import pandas as pd

    s = pd.Series([1.0, 2.0, 3.0, 4.0])
    mask, keys = numpy.asarray(v > 2), numpy.asarray(i)
    return s[mask], s.iloc[mask], s.to_frame().loc[mask, 0], s.groupby(keys).sum(), pd.unique(keys), pd.factorize(keys)


@needs("pandas")
def pd_rows(np, v, m, i, u, tmp):
    import pandas as pd

    s = pd.Series([1.0, 2.0, 3.0, 4.0])
    given = s.iloc[i], s.loc[i], s.take(i), s.reindex(i), s.mask(v > 2, v), (s > 2) & (v > 2), (v > 2) & (s > 2)
    s += v
    return given, s, pd.cut(s, np.sort(v)), pd.DataFrame({"k": i, "v": v}).groupby("k").v.mean()


@needs("PIL")
def pil(np, v, m, i, u, tmp):
    import PIL.Image

    return PIL.Image.fromarray(u).size


@needs("PIL")
def pil_back(np, v, m, i, u, tmp):
    import PIL.Image

    return np.asarray(PIL.Image.fromarray(u))


@needs()
def array_interface(np, v, m, i, u, tmp):
    return v.__array_interface__["shape"], v.__array_interface__["typestr"]


@needs()
def mview(np, v, m, i, u, tmp):
    return memoryview(v).tolist()


@needs()
def raw_bytes(np, v, m, i, u, tmp):
    return bytes(v)


@needs("h5py")
def h5_write(np, v, m, i, u, tmp):
    import h5py

    with h5py.File(f"{tmp}/a.h5", "w") as f:
        f["x"] = m
        f.create_dataset("y", data=v)
        return f["x"][:], f["y"][:]


@needs("h5py")
def h5_read_direct(np, v, m, i, u, tmp):
    import h5py

    with h5py.File(f"{tmp}/a.h5", "w") as f:
        f["x"] = m.tolist()
        out = np.zeros((4, 3))
        f["x"].read_direct(out)
        return out


@needs("h5py")
def h5_fancy(np, v, m, i, u, tmp):
    import h5py

    with h5py.File(f"{tmp}/a.h5", "w") as f:
        f["x"] = m.tolist()
        f["x"][0:4] = m * 2
        return f["x"][...]


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


@needs("numba")
def numba_f(np, v, m, i, u, tmp):
    import numba

    @numba.njit
    def f(x):
        return x.sum()

    return f(v)


@needs("jax")
def jax_mul(np, v, m, i, u, tmp):
    import jax.numpy as jnp

    return v * jnp.ones(4)


@needs("jax")
def jax_rmul(np, v, m, i, u, tmp):
    import jax.numpy as jnp

    return jnp.ones(4) * v


@needs("jax")
def jax_asarray(np, v, m, i, u, tmp):
    import jax.numpy as jnp

    return jnp.asarray(v)


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


@needs()
def npz(np, v, m, i, u, tmp):
    np.savez(f"{tmp}/a.npz", a=v)
    r = np.load(f"{tmp}/a.npz")
    return type(r["a"]).__name__ in ("ndarray", "Array"), r["a"], r.files


@needs()
def npy(np, v, m, i, u, tmp):
    np.save(f"{tmp}/a.npy", v)
    return np.load(f"{tmp}/a.npy")


@needs()
def subclass(np, v, m, i, u, tmp):
    class Named(np.ndarray):
        def __new__(cls, x, name):
            o = np.asarray(x).view(cls)
            o.name = name
            return o

        def __array_finalize__(self, o):
            self.name = getattr(o, "name", None)

    n = Named(v, "a")
    return (n * 2).name, n * 2, n[1:].name


@needs()
def symmetric(np, v, m, i, u, tmp):
    class S(np.ndarray):
        def __setitem__(self, ij, val):
            a, b = ij
            super().__setitem__((a, b), val)
            super().__setitem__((b, a), val)

    s = np.zeros((3, 3)).view(S)
    s[0, 2] = 4.0
    return s


@needs()
def unravel(np, v, m, i, u, tmp):
    from numbers import Integral

    a, b = np.unravel_index(5, (4, 3))
    return isinstance(a, Integral), a, b, list(range(5))[a]


@needs()
def unravel_argmax(np, v, m, i, u, tmp):
    from numbers import Integral

    a, b = np.unravel_index(np.argmax(m), m.shape)
    return a, b, isinstance(a, Integral)


@needs()
def rec(np, v, m, i, u, tmp):
    return np.rec.fromarrays([v, i], names="a,b").a


@needs("joblib")
def joblib_hash(np, v, m, i, u, tmp):
    import joblib

    return joblib.hash(v * 1), joblib.hash(np.array([3.0, 1.0, 2.0, 5.0]) * 1)


@needs("joblib")
def joblib_par(np, v, m, i, u, tmp):
    import joblib

    return joblib.Parallel(2, prefer="threads")(joblib.delayed(np.sum)(x) for x in m)


@needs("joblib")
def joblib_memory(np, v, m, i, u, tmp):
    import joblib

    mem = joblib.Memory(f"{tmp}/mem", verbose=0)
    f = mem.cache(lambda x: x * 2)
    return f(v)


@needs("xarray")
def xr_da(np, v, m, i, u, tmp):
    import xarray as xr

    d = xr.DataArray(m, dims=("x", "y"))
    return (d.mean("x") + 1).values, d.sel(x=1).values, d.groupby(xr.DataArray(i, dims="x", name="g")).mean().values


@needs("xarray")
def xr_interp(np, v, m, i, u, tmp):
    import xarray as xr

    d = xr.DataArray(m, dims=("x", "y"), coords=dict(x=[0.0, 1.0, 2.0, 3.0]))
    return d.interp(x=1.5).values


@needs()
def json_float(np, v, m, i, u, tmp):
    import json

    return json.dumps(float(v.mean()))


@needs()
def json_scalar(np, v, m, i, u, tmp):
    import json

    return json.dumps({"m": v.mean()})


@needs()
def number(np, v, m, i, u, tmp):
    from numbers import Integral, Number

    return isinstance(v.mean(), Number), isinstance(v.mean(), float), isinstance(i.sum(), Integral)


@needs()
def fmt(np, v, m, i, u, tmp):
    return (
        f"{v.mean():.3f} {i.sum():d} {v.max():>8.2f}",
        "%d %.2f" % (i.sum(), v.std()),  # noqa: UP031
        round(v.mean(), 1),
        str(v.mean()),
        repr(v[0]),
        repr(v.mean()),
    )


@needs()
def keys(np, v, m, i, u, tmp):
    return (
        {v.mean(): 1},
        {i[0]: 2},
        hash(v.mean()) == hash(float(v.mean())),
        sorted([v.mean(), v.std()]),
        max(v),
        min(v),
        sum(v),
    )


@needs()
def idx(np, v, m, i, u, tmp):
    return [10, 20, 30][i[1]], list(range(int(i.sum()))), "ab" * i[1], [0] * i[1]


@needs()
def rangei(np, v, m, i, u, tmp):
    return list(range(i.sum()))


@needs()
def mathf(np, v, m, i, u, tmp):
    import math

    return math.sqrt(v.mean()), math.floor(v.mean()), divmod(v.mean(), 2)


@needs()
def statistics(np, v, m, i, u, tmp):
    import statistics

    return statistics.mean(v), statistics.median(list(v))


@needs()
def fraction(np, v, m, i, u, tmp):
    from decimal import Decimal
    from fractions import Fraction

    return Fraction(v.mean()), Decimal(v.mean())


@needs()
def struct(np, v, m, i, u, tmp):
    import struct

    return struct.pack("d", v.mean())


@needs()
def csv(np, v, m, i, u, tmp):
    import csv
    import io

    b = io.StringIO()
    csv.writer(b).writerows(m.tolist())
    csv.writer(b).writerow(v)
    return b.getvalue()


@needs("matplotlib")
def plt(np, v, m, i, u, tmp):
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    f, a = plt.subplots()
    a.plot(v, v * 2)
    a.imshow(m)
    a.hist(v)
    a.scatter(v, v, c=v)
    a.errorbar(v, v, yerr=v / 10)
    f.canvas.draw()
    plt.close(f)
    return True


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


@needs()
def pickle(np, v, m, i, u, tmp):
    import pickle

    return pickle.loads(pickle.dumps(v))


@needs()
def copy(np, v, m, i, u, tmp):
    import copy

    return copy.deepcopy(v), copy.copy(m)


@needs()
def files(np, v, m, i, u, tmp):
    import io

    b = io.BytesIO()
    b.write(v)
    return b.getvalue()


@needs()
def buf(np, v, m, i, u, tmp):
    return np.frombuffer(v.tobytes()), bytearray(v)


@needs()
def zlib(np, v, m, i, u, tmp):
    import hashlib
    import zlib

    return zlib.crc32(v), hashlib.md5(m).hexdigest()


@needs()
def ctypes(np, v, m, i, u, tmp):
    import ctypes

    return v.ctypes.data_as(ctypes.POINTER(ctypes.c_double))[1]


@needs()
def classes(np, v, m, i, u, tmp):
    return isinstance(v, np.ndarray), isinstance(v.mean(), np.floating), np.isscalar(v.mean()), type(v[0]) is np.float64


@needs("dask")
def dask_token(np, v, m, i, u, tmp):
    from dask.base import tokenize

    a = v * 2
    t = tokenize(a)
    float(a.sum())
    return t == tokenize(a), t == tokenize(v * 2)


@needs("dask")
def dask_from(np, v, m, i, u, tmp):
    import dask.array as da

    return da.from_array(m, chunks=2).sum().compute()


@needs("zarr")
def zarr(np, v, m, i, u, tmp):
    import zarr

    z = zarr.array(m)
    z[0] = v[:3]
    return z[:]


@needs()
def dlpack(np, v, m, i, u, tmp):
    return np.from_dlpack(v)


@needs()
def match(np, v, m, i, u, tmp):
    match v.mean():
        case float():
            return "float"
        case _:
            return "other"


@needs()
def ifs(np, v, m, i, u, tmp):
    return bool(v.any()), 1 if v.mean() > 2 else 0, v.mean() == 2.75, v.mean() is None, not v.sum()


@needs()
def array_func(np, v, m, i, u, tmp):
    import numpy as real

    return real.concatenate([v, [1.0, 2.0]]), real.mean(v), real.sum(m, axis=0), real.linalg.norm(v)
