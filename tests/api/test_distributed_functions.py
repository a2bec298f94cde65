"""Functions of arrays that workers hold: NumPy's values, dtypes and shapes on every mesh, without a fallback."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy
import pytest

import tilewise
from tilewise.errors import FallbackWarning

RNG = numpy.random.default_rng(11)
DATA: dict[str, Any] = {
    "x": RNG.normal(size=211),
    "y": RNG.normal(size=211),
    "k": RNG.integers(0, 3, 211),
    "i": RNG.integers(-211, 211, 150),
    "m": RNG.random(211) < 0.4,
    "A": RNG.normal(size=(24, 10)),
    "S": RNG.normal(size=(12, 12)),
    "T3": RNG.normal(size=(5, 5, 5)),
    "I": RNG.integers(0, 24, (3, 10)),
    "z": numpy.array([0, 0, 1.0, 2, 0, 3, 0, 0, 0, 0, 0]),
    "u8": RNG.integers(0, 255, 33).astype(numpy.uint8),
    "g": RNG.integers(0, 240, 60),
    "c": RNG.normal(size=50) + 1j * RNG.normal(size=50),
    "one": numpy.array([2.0]),
    "odd": numpy.array([numpy.nan, 1, -0.0, 0, numpy.inf, numpy.nan, -3, 1]),
    "w": numpy.array([1.0, 2.0, 3.0]),
    "f32": RNG.normal(size=64).astype(numpy.float32),
    "big": RNG.integers(0, 5000, 3001),
}

# Statements and an expression; after `!` with a fallback.
ROWS = """
np.choose(k,[x,y,x*2])
np.choose(k,[x,1,2])
np.choose(np.array([0,1,1,0]),[[1,2,3,4],[10,20,30,40]])
np.piecewise(x,[x<0,x>1],[lambda v:-v,lambda v:v*v])
np.piecewise(x,[x<0,x>1],[lambda v:-v,2,lambda v:v+10])
np.piecewise(x,[x>99],[lambda v:-v])
np.i0(x)
np.i0(k)
np.i0(x*5)
np.lexsort((x,k))
np.lexsort((k,k*2%5,x.round(1)))
np.lexsort((odd,odd*0+1))
np.lexsort((k,))
np.histogram_bin_edges(x,20)
np.histogram_bin_edges(k,7,(0,9))
np.unravel_index(g,(24,10))
np.unravel_index(g,(24,10),order="F")
np.ravel_multi_index((k,k),(3,3))
np.ravel_multi_index((k,k*2),(3,7),order="F")
np.packbits(m)
np.packbits(m,bitorder="little")
np.packbits(k)
np.unpackbits(u8)
np.unpackbits(u8,bitorder="little")
np.vander(x,4)
np.vander(k,3,increasing=True)
np.vander(w)
np.correlate(x,[1,2,3.])
np.correlate(x,[1,2,3.],"same")
np.correlate(x,[1,2.],"full")
np.diagflat(w,1)
np.diagflat(x[:20],-2)
np.diagflat(A[:3,:2])
z=x*1;np.put(z,i,y[:150]);z
z=x*1;np.put(z,i,[1.,2,3]);z
z=A*1;np.put(z,[1,5,-2],[1.,2,3]);z
z=A*1;np.put(z,g[:30],x[:30]);z
z=A*1;np.put(z[1:],[1,2],9);z
z=x*1;np.putmask(z,m,y);z
z=x*1;np.putmask(z,m,7);z
! z=x*1;np.putmask(z,m,[1.,2]);z
z=x*1;np.place(z,m,[1.,2,5]);z
z=x*1;np.place(z,m,[4]);z
z=A*1;np.place(z,A>0,[1,2]);z
z=S*1;np.fill_diagonal(z,7);z
z=A*1;np.fill_diagonal(z,[1.,2]);z
z=A.T*1;np.fill_diagonal(z,w);z
z=T3*1;np.fill_diagonal(z,3);z
! z=A*1;np.fill_diagonal(z,3,wrap=True);z
z=A*1;np.put_along_axis(z,I,5.,0);z
z=A*1;np.put_along_axis(z,I[:1],A[2:3],0);z
np.trim_zeros(z)
np.trim_zeros(z,"f")
np.sort_complex(x)
np.sort_complex(c)
np.asarray_chkfinite(x)
np.real_if_close(c)
np.require(A,requirements="F")
np.ix_(m[:10],k[:5])
np.delete(x,slice(3,9))
np.delete(x,5)
np.delete(A,[1,3],axis=0)
np.delete(x,m)
np.insert(x,4,9.)
np.insert(A,1,7.,axis=1)
np.insert(x,[1,5],[7.,8])
np.ediff1d(x)
np.ediff1d(x,to_end=[1.,2])
np.cross(A[:,:3],A[:,3:6])
np.block([[A,A],[A*2,A]])
np.array_equiv(x,x*1)
np.polyfit(x,y,2)
np.polyfit(x,y,1,w=x*x)
np.polyder(x)
np.polyint(x[:20])
np.extract(m,x)
np.histogramdd(A[:,:3],4)[0]
z=A*1;z[1:][k[:20],k[:20]]+=1;z
z=A*1;z[1:][[1,2,1],[3,4,3]]=[7,8,9];z
z=A*1;np.add.at(z,(k,k*2),x);z
z=A*1;np.add.at(z[2:,1:],(k,k*2),x);z
z=A*1;np.add.at(z[::2],(k,),1.);z
z=A*1;z.reshape(-1)[g]=x[:60];z
z=A*1;z.T[k[:9]]=1.;z
z=x*1;z[::-1][i]=y[:150];z
z=x*1;z[3:][i[i>0][:9]//2]*=2;z
z=A*1;z[:,2][k]=x[0];z
z=S*1;z[2:,1:].T[k[:5]]=3;z
np.apply_along_axis(lambda r: r.sum(), 1, A)
np.apply_along_axis(lambda r: np.sort(r)[:2], 0, A)
np.meshgrid(x,w)
np.nanmedian(odd)
np.where(m)
np.unique(k)
np.unique(x)
np.unique(odd, return_index=True, return_inverse=True, return_counts=True)
np.unique(odd, equal_nan=False, return_counts=True)
np.unique(A.round(), return_index=True, return_counts=True)
np.unique(u8, return_inverse=True)
np.unique(m, return_counts=True)
np.unique(c.round(), return_index=True, return_inverse=True)
np.unique(one, return_index=True, return_inverse=True, return_counts=True)
np.unique(big, return_index=True, return_counts=True)
np.unique(big[::-1])
np.unique_counts(k)
np.unique_inverse(g)
np.unique_all(g)
np.intersect1d(g,k)
np.intersect1d(g,k,return_indices=True)
np.setdiff1d(g,k)
np.setxor1d(g,k)
np.union1d(x,A)
np.isin(g,k)
np.isin(big,big[::3]*2,invert=True)
np.isin(odd,odd)
np.searchsorted(np.sort(x),y)
np.searchsorted(np.sort(k),g,"right")
np.searchsorted(np.sort(odd),odd)
np.interp(x,np.sort(y),x[::-1])
np.interp(big/7.0,np.sort(x),y,left=-1.0,right=2.0)
np.interp(odd,np.sort(y),x)
np.interp(x,np.repeat(np.sort(y)[:70],3),x[:210])
np.interp(x,one,one)
np.unique(A.round(),axis=0,return_index=True,return_inverse=True,return_counts=True)
np.unique(A.round(),axis=1)
np.unique(T3.round(),axis=1,return_counts=True)
np.add.reduceat(x,[0,3,9,9,100,50,0])
np.maximum.reduceat(A,[0,5,20])
np.multiply.reduceat(k,g[:7]//2)
np.add.reduceat(A,[0,7,3],axis=1)
np.nonzero(A>0)
np.argwhere(A>1)
np.flatnonzero(odd)
np.where(T3>2)
np.nonzero(one-2)
np.nanmedian(np.where(m,np.nan,x))
np.nanquantile(np.where(m,np.nan,x),[0.1,0.9])
np.nanpercentile(A,30,axis=0)
np.quantile(x,0.3,method="hazen")
np.quantile(x,[0.2,0.7],method="closest_observation")
np.quantile(f32,0.3)
np.quantile(k,0.3,method="inverted_cdf")
np.quantile(A,[0.2,0.5],axis=1,keepdims=True)
np.quantile(T3,0.4,axis=(0,2))
np.percentile(odd,40)
np.median(A,axis=0)
np.nanmedian(T3,axis=(0,1),keepdims=True)
np.resize(w,10)
z=S>0;z[...]=z.T;z
z=S*1;z.reshape(-1)[...]=S.T.reshape(-1);z
c.real[::-1]+c.imag
z=c*1;z.imag[3:]=0;z
""".strip().splitlines()

MESHES = [{"workers": n} for n in (2, 3, 4, 7)] + [{"mesh": (2, 2)}]
WAYS = [(mesh, blocks) for mesh in MESHES for blocks in (1, 3)]


def _run(row: str, np: Any, data: dict[str, Any]) -> list[Any]:
    *before, last = row.removeprefix("! ").split(";")
    names = {"np": np, **data}
    exec(";".join(before), names)
    found = eval(last, names)
    return list(found) if isinstance(found, tuple | list) else [found]


def _session(way: dict[str, Any] | None) -> AbstractContextManager[Any]:
    return nullcontext() if way is None else tilewise.session(engine="virtual", **way)


def check(row: str, way: dict[str, Any] | None, blocks: int) -> None:
    with warnings.catch_warnings(), numpy.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        want = _run(row, numpy, {name: v.copy() for name, v in DATA.items()})
    with tilewise.config(eager_bytes=0, objective="bytes", blocks=blocks), _session(way), warnings.catch_warnings():
        warnings.simplefilter("error" if row[0] != "!" and way is not None else "ignore", FallbackWarning)
        given: dict[str, Any] = {name: tilewise.asarray(v) for name, v in DATA.items()}
        if way is not None:
            given = {name: v.relayout(0) for name, v in given.items()}
            tilewise.evaluate(*given.values())
        found = _run(row, tilewise, given)
        assert len(found) == len(want)
        for a, b in zip(found, want, strict=True):
            got, right = numpy.asarray(a), numpy.asarray(b)
            assert (got.dtype, got.shape) == (right.dtype, right.shape)
            if ";" in row:  # what is written to keeps its order of memory
                assert got.strides == right.strides
            numpy.testing.assert_allclose(got, right, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("row", ROWS)
def test_values_are_numpys(row: str) -> None:
    """Each row without workers, and in one of ten ways with them, another for the next."""
    check(row, None, 1)
    check(row, *WAYS[ROWS.index(row) % len(WAYS)])


@pytest.mark.soak
@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("row", ROWS)
def test_values_are_numpys_in_every_way(row: str, way: Any) -> None:
    check(row, *way)


@pytest.mark.parametrize("workers", [2, 3, 4, 7])
def test_different_elements_that_do_not_fit_where_their_range_is(workers: int) -> None:
    """All are different, and most in one range of the sample: they are cut anew in proportion."""
    x = numpy.concatenate([numpy.arange(4000.0), RNG.permutation(numpy.linspace(0, 1, 3000))])
    with tilewise.config(eager_bytes=0, objective="bytes"), tilewise.session(engine="virtual", workers=workers):
        given = tilewise.evaluate(tilewise.asarray(x).relayout(0))
        for got, want in zip(
            tilewise.unique(given, return_index=True), numpy.unique(x, return_index=True), strict=True
        ):
            numpy.testing.assert_array_equal(numpy.asarray(got), want)


def test_a_mask_and_its_selection_share_what_costs_more_than_elementwise_work() -> None:
    with tilewise.config(eager_bytes=0, objective="bytes"), tilewise.session(engine="virtual", workers=4):
        given = tilewise.evaluate(tilewise.asarray(DATA["big"]).relayout(0))
        values = tilewise.unique(given)
        with tilewise.profile() as ran:
            tilewise.evaluate(values)
        sent = [e for e in ran.timeline if e.kind == "exchange" and e.name == "distinct"]
        assert len(sent) == 4 * 5  # once, in five exchanges


def test_a_large_matrix_that_goes_to_every_worker_is_mentioned() -> None:
    matrix = numpy.diag(numpy.arange(1.0, 401.0))
    with tilewise.config(eager_bytes=0), tilewise.session(engine="virtual", workers=2):
        with pytest.warns(FallbackWarning, match=r"inv is done in one place.*test_distributed_functions.py"):
            tilewise.linalg.inv(tilewise.asarray(matrix))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tilewise.linalg.inv(tilewise.asarray(matrix[:100, :100]))
        with tilewise.config(fallback="error"), pytest.raises(tilewise.FallbackError):
            tilewise.linalg.inv(tilewise.asarray(matrix))
