"""Calls of Numba, JAX, matplotlib, files, dataframes, graphs, entered in CALLS (calls.py)."""

from __future__ import annotations

from tests.neighbours.calls import needs


@needs("PIL")
def pil(np, v, m, i, u, tmp):
    import PIL.Image

    return PIL.Image.fromarray(u).size


@needs("PIL")
def pil_back(np, v, m, i, u, tmp):
    import PIL.Image

    return np.asarray(PIL.Image.fromarray(u))


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
