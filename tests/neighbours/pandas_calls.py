"""Calls of pandas, entered in CALLS (calls.py)."""

from __future__ import annotations

from tests.neighbours.calls import needs


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


@needs("pandas")
def pd_matrix_and_frame(np, v, m, i, u, tmp):
    import pandas as pd

    a = v[:4].reshape(2, 2)
    frame = pd.DataFrame({"p": [1.0, 2.0], "q": [3.0, 4.0]})
    return pd.concat([a - frame, a < frame, pd.Series(i[:2] * pd.Timedelta(1, "s"))], axis=1)
