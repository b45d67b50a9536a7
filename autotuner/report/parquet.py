"""Every timed candidate as a Parquet table, by pyarrow."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from typing import Any

from autotuner.errors import EnvironmentFailure
from autotuner.report.exports import Record, columns_of, flat_records


def export_parquet(records: Iterable[Record]) -> bytes:
    """The flat records, each column in the type of its values: numbers, text or truth."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        remedy = 'Install it with `pip install "autotune-iree[parquet]"`.'
        raise EnvironmentFailure("Parquet needs the pyarrow package.", remedy=remedy) from error
    flat = flat_records(records)
    columns = {name: pyarrow.array(_alike([one.get(name) for one in flat])) for name in columns_of(flat)}
    file = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), file, compression="zstd")
    return file.getvalue()


def _alike(values: Sequence[Any]) -> Sequence[Any]:
    """A column has one type: a knob that is a number here and a word there is text."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) < 2 or kinds == {int, float}:
        return [float(value) if kinds == {int, float} and value is not None else value for value in values]
    return [None if value is None else str(value) for value in values]
