"""Columns of tables: Parquet, Arrow files, CSV. In: paths. Out: a Source for each column. The one door to pyarrow.

A column is read by groups of rows, as the file has them: row groups, record batches, or blocks of lines of a CSV file,
which is looked through once to find them.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Mapping
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from tilewise.errors import StoreError, message
from tilewise.layout import Box
from tilewise.store import files
from tilewise.store.base import ND, Source, check_box

BLOCK_BYTES = 8 << 20  # of lines of a CSV file that are read together


class Table:
    """A file of columns: how many rows each group has, and how one column of a group is read. Pickles small."""

    def __init__(self, kind: str, path: str, stamp: files.Stamp, index: Any, options: tuple[Any, ...] = ()) -> None:
        self.kind, self.path, self.stamp, self.index, self.options = kind, path, stamp, index, options

    def column(self, group: int, name: str) -> Any:
        """A column of a group, as Arrow has it."""
        if files.stamp(self.path) != self.stamp:
            raise files.changed(self.path)
        with files.explained(self.path, "read"):
            try:
                return GROUPS[self.kind](self, group, name)
            except (pa.ArrowException, OSError, ValueError) as error:
                if isinstance(error, StoreError) or (isinstance(error, OSError) and error.errno):
                    raise
                raise damaged(self.path, error) from None


def damaged(path: str, error: Exception) -> StoreError:
    """The error for a file that Arrow cannot make sense of."""
    return StoreError(
        message(f"{path} is damaged or of another kind", got=str(error).split("\n")[0], cure="Restore it")
    )


def _parquet_group(table: Table, group: int, name: str) -> Any:
    with pa_parquet.ParquetFile(table.path, page_checksum_verification=True) as file:
        return file.read_row_group(group, columns=[name], use_threads=False).column(0)


def _ipc_group(table: Table, group: int, name: str) -> Any:
    with pa.memory_map(table.path) as file:
        batch = pa.ipc.open_file(file).get_batch(group)
        return pa.concat_arrays([batch.column(name)])  # out of the map


def _csv_group(table: Table, group: int, name: str) -> Any:
    start, end = table.index[group : group + 2]
    return _csv_rows(table.path, start, end, table.options, [name]).column(0)


GROUPS: dict[str, Callable[[Table, int, str], Any]] = {
    "parquet": _parquet_group,
    "arrow": _ipc_group,
    "csv": _csv_group,
}


class Column(Source):
    """A column of numbers; rows without a value are NaN in a column of floats, and an error in others."""

    def __init__(self, table: Table, name: str, dtype: np.dtype[Any], starts: tuple[int, ...]) -> None:
        self.table, self.name, self.starts = table, name, starts
        self.shape, self.dtype = (starts[-1],), dtype
        self.chunks = (max((b - a for a, b in pairwise(starts)), default=1) or 1,)

    def fingerprint(self) -> Hashable:
        """The file as it was when it was opened, and the column."""
        return self.table.kind, self.table.path, self.table.stamp, self.table.options, self.name, self.dtype.str

    def reads(self, path: str) -> bool:
        """Whether this is its file."""
        return files.same(path, self.table.path)

    def parts(self, box: Box) -> Iterator[Box]:
        """Cut where groups of rows end."""
        ((low, high),) = box
        while low < high:
            end = min(high, self.starts[bisect_right(self.starts, low)])
            yield ((low, end),)
            low = end

    def read(self, box: Box, out: ND | None = None) -> ND:
        """Rows of the groups that have them."""
        check_box(box, self.shape, self.dtype, out)
        if out is None:
            out = np.empty(box[0][1] - box[0][0], self.dtype)
        for ((low, high),) in self.parts(box):
            group = bisect_right(self.starts, low) - 1
            first = self.starts[group]
            rows = self.table.column(group, self.name)
            if len(rows) != self.starts[group + 1] - first:
                raise StoreError(
                    message(f"{self.table.path} has other rows than when it was opened", cure="Open it again")
                )
            out[low - box[0][0] : high - box[0][0]] = self._numbers(rows.slice(low - first, high - low))
        return out

    def _numbers(self, rows: Any) -> ND:
        if rows.null_count and self.dtype.kind not in "fcmM":
            raise StoreError(
                message(
                    f"column {self.name!r} of {self.table.path} has rows without a value",
                    got=f"{rows.null_count} of {self.dtype}",
                    cure=f'Read it as floats, where these are NaN: dtypes={{"{self.name}": "f8"}}',
                )
            )
        if rows.null_count and pa.types.is_integer(rows.type):
            rows = rows.cast(pa.float64())
        found: ND = rows.to_numpy() if isinstance(rows, pa.ChunkedArray) else rows.to_numpy(zero_copy_only=False)
        return found.astype(self.dtype, copy=False)

    def __reduce__(self) -> Any:
        return Column, (self.table, self.name, self.dtype, self.starts)

    def __repr__(self) -> str:
        return f"<column {self.name!r} of {self.table.path}, {self.shape[0]:,} rows of {self.dtype}>"


def _columns(
    table: Table, schema: Any, starts: list[int], dtypes: Mapping[str, Any] | None, wanted: str | None
) -> dict[str, Source]:
    """A Source for each column of numbers or dates; raises if the one that is wanted is of another type."""
    found: dict[str, Source] = {}
    asked = {k: np.dtype(v) for k, v in (dtypes or {}).items()}
    for name in asked.keys() - set(schema.names):
        raise StoreError(message(f"{table.path} has no column {name!r}", cure=f"It has {', '.join(schema.names)}"))
    for field in schema:
        dtype = asked.get(field.name) or _dtype(field.type)
        if dtype is not None:
            found[field.name] = Column(table, field.name, dtype, tuple(starts))
        elif field.name == wanted:
            shown = f'dtypes={{"{wanted}": "f8"}}' if table.kind == "csv" else "a column of numbers"
            raise StoreError(
                message(
                    f"column {wanted!r} of {table.path} does not hold numbers alone",
                    got=f"values that make it a column of type {field.type}",
                    cure=f"Correct these values, or use {shown}"
                    + (", with which reading names the first of them" if table.kind == "csv" else ""),
                )
            )
    return found


def _dtype(kind: Any) -> np.dtype[Any] | None:
    """NumPy's dtype for a column; None for what is no number."""
    try:
        dtype = np.dtype(kind.to_pandas_dtype())
    except (NotImplementedError, TypeError):
        return None
    return None if dtype.hasobject else dtype


def open_parquet(path: Any, dtypes: Mapping[str, Any] | None = None, column: str | None = None) -> dict[str, Source]:
    """The columns of a Parquet file."""
    at = files.full_path(path)
    stamp = files.stamp(at)
    with files.explained(at, "read"):
        try:
            with pa_parquet.ParquetFile(at) as file:
                rows = [file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups)]
                schema = file.schema_arrow
        except pa.ArrowException as error:
            raise damaged(at, error) from None
    return _columns(Table("parquet", at, stamp, None), schema, [*accumulate(rows, initial=0)], dtypes, column)


def open_ipc(path: Any, dtypes: Mapping[str, Any] | None = None, column: str | None = None) -> dict[str, Source]:
    """The columns of an Arrow (Feather) file."""
    at = files.full_path(path)
    stamp = files.stamp(at)
    with files.explained(at, "read"):
        try:
            with pa.memory_map(at) as file:
                reader = pa.ipc.open_file(file)
                rows = [reader.get_batch(k).num_rows for k in range(reader.num_record_batches)]
                schema = reader.schema
        except pa.ArrowException as error:
            raise damaged(at, error) from None
    return _columns(Table("arrow", at, stamp, None), schema, [*accumulate(rows, initial=0)], dtypes, column)


def open_csv(
    path: Any,
    dtypes: Mapping[str, Any] | None = None,
    column: str | None = None,
    delimiter: str | None = None,
    header: bool = True,
) -> dict[str, Source]:
    """The columns of a CSV file. It is read once, to count its rows; a row ends where its line does."""
    at = files.full_path(path)
    delimiter = delimiter_of(at) if delimiter is None else delimiter
    stamp = files.stamp(at)
    with files.explained(at, "read"):
        try:
            names, types, begin = _csv_head(at, delimiter, header)
            types |= {k: pa.from_numpy_dtype(np.dtype(v)) for k, v in (dtypes or {}).items() if k in types}
            options = delimiter, tuple(names), tuple((k, str(t)) for k, t in types.items())
            ends = _lines(at, begin)
            counts = [_csv_rows(at, a, b, options, names[:1], parse_only=True).num_rows for a, b in pairwise(ends)]
        except (pa.ArrowException, StopIteration) as error:
            raise damaged(at, error) from None
    schema, starts = pa.schema(list(types.items())), [*accumulate(counts, initial=0)]
    return _columns(Table("csv", at, stamp, tuple(ends), options), schema, starts, dtypes, column)


def delimiter_of(path: str) -> str:
    """What stands between columns: tabs in .tsv files.

    >>> delimiter_of("a.csv"), delimiter_of("a.TSV")
    (',', '\\t')
    """
    return "\t" if path.lower().endswith(".tsv") else ","


def _csv_head(path: str, delimiter: str, header: bool) -> tuple[list[str], dict[str, Any], int]:
    """Names and types of columns, as the first block shows them, and where the rows begin."""
    with open(path, "rb") as file:
        first = file.readline() if header else b""
        begin = file.tell() if header else 0
    read = pa_csv.ReadOptions(autogenerate_column_names=not header, block_size=BLOCK_BYTES, use_threads=False)
    with pa_csv.open_csv(path, read, pa_csv.ParseOptions(delimiter=delimiter)) as reader:
        schema = reader.schema
    if header and not first.strip():
        raise StoreError(message(f"{path} begins with an empty line", cure="Pass header=False, or remove it"))
    return schema.names, {f.name: f.type for f in schema}, begin


def _lines(path: str, begin: int) -> list[int]:
    """Where blocks of whole lines begin, and the end."""
    ends, size = [begin], os.path.getsize(path)
    with open(path, "rb") as file:
        while ends[-1] < size:
            file.seek(ends[-1] + BLOCK_BYTES)
            file.readline()
            ends.append(min(file.tell(), size))
    return ends


def _csv_rows(
    path: str, start: int, end: int, options: tuple[Any, ...], names: list[str], parse_only: bool = False
) -> Any:
    """Some columns of the lines between two places of a file."""
    delimiter, columns, types = options
    with open(path, "rb") as file:
        file.seek(start)
        lines = file.read(end - start)
    kinds = {k: pa.string() if parse_only else pa.type_for_alias(t) for k, t in types if k in names}
    return pa_csv.read_csv(
        pa.BufferReader(lines),
        pa_csv.ReadOptions(column_names=list(columns), use_threads=False, block_size=max(len(lines), 1)),
        pa_csv.ParseOptions(delimiter=delimiter),
        pa_csv.ConvertOptions(include_columns=names, column_types=kinds),
    )


def _native(column: ND) -> ND:
    """A column as Arrow takes it: in one piece, and in this machine's order of bytes."""
    return np.ascontiguousarray(column, column.dtype.newbyteorder("="))


def write_table(path: Any, columns: Mapping[str, ND], overwrite: bool, kind: str) -> str:
    """A new file of columns, whole or not at all."""
    at = files.full_path(path)
    for name, column in columns.items():
        if column.ndim != 1:
            raise StoreError(
                message(
                    f"a column of {at} has one axis",
                    got=f"{name!r} of shape {column.shape}",
                    cure="Store a dict of columns: {'a': x[:, 0], ...}, or a Zarr or .npy file",
                )
            )
    with files.explained(at, "write"):
        files.check_free(at, overwrite)
        made = files.beside(at)
        try:
            table = pa.table({k: pa.array(_native(v)) for k, v in columns.items()})
            if kind == "parquet":
                pa_parquet.write_table(table, made, write_page_checksum=True)
            elif kind == "csv":
                pa_csv.write_csv(table, made, pa_csv.WriteOptions(delimiter=delimiter_of(at)))
            else:
                with pa.OSFile(made, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                    writer.write_table(table, max_chunksize=1 << 20)
            files.replace_file(made, at)
        except (pa.ArrowException, ValueError) as error:
            files.remove(made)
            raise StoreError(message(f"{at} cannot be written", got=str(error))) from None
        except BaseException:
            files.remove(made)
            raise
    return at
