"""Rows of the summary: frozen records. Their fields, in their order, are the columns of the frame that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

import polars as pl

from vtare.stats import Known, PValue, Verdict

_TYPES: Final = {str: pl.String, Verdict: pl.String, int: pl.Int64, float: pl.Float64, bool: pl.Boolean}
#: The field of a row that holds the levels of its cell, by key: in a frame a column for each key.
LABELS: Final = "labels"
#: The column of figures that are bounds: they are null in their own column, so that nothing takes one for a value.
BOUNDS: Final = "bounds"
BOUNDS_TYPE: Final = pl.List(pl.Struct({"figure": pl.String, "side": pl.String, "number": pl.Float64}))
_Row = TypeVar("_Row")


def apart(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Figures with their bounds apart: exact numbers stay, others are null and stand in the column `bounds`.

    >>> apart({"median": Known(2000.0, "at least"), "p99": Known(3.0), "n": 4})
    {'median': None, 'p99': 3.0, 'n': 4, 'bounds': [{'figure': 'median', 'side': 'at least', 'number': 2000.0}]}
    """
    known = {name: value for name, value in figures.items() if isinstance(value, Known)}
    exact = {name: value.number if value.side == "exact" else None for name, value in known.items()}
    bounds = [
        {"figure": name, "side": value.side, "number": value.number}
        for name, value in known.items()
        if value.side != "exact"
    ]
    return {**figures, **exact, BOUNDS: bounds}


def known_of(row: Mapping[str, Any], figure: str) -> Known | None:
    """What a row of runs or cells states of a figure: its value or a bound, None where nothing is known."""
    number = row.get(figure)
    if number is not None:
        return Known(float(number))
    bounds = row.get(BOUNDS) or ()
    return next((Known(one["number"], one["side"]) for one in bounds if one["figure"] == figure), None)


@cache
def columns_of(kind: Any) -> Mapping[str, Any]:
    """The columns of a kind of row and their types, without those of its labels.

    >>> from vtare.summary.factors import Differing
    >>> dict(columns_of(Differing))
    {'less': String, 'more': String, 'p_adjusted': Float64}
    """
    return {name: _type_of(hint) for name, hint in _hints(kind).items() if name != LABELS}


@cache
def _hints(kind: Any) -> Mapping[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: _known(hints[field.name]) for field in fields(kind)}


def _known(hint: Any) -> Any:
    """The type of a field where it is not None."""
    if get_origin(hint) is UnionType:
        (hint,) = (one for one in get_args(hint) if one is not NoneType)
    return hint


def _type_of(hint: Any) -> Any:
    if get_origin(hint) is tuple:
        return pl.List(_type_of(get_args(hint)[0]))
    return _TYPES.get(hint) or pl.Struct(dict(columns_of(hint)))


def values_of(row: Any) -> dict[str, Any]:
    """A row as JSON and frames take it: its labels and its fields on one level."""
    values: dict[str, Any] = {}
    for field in fields(row):
        value = getattr(row, field.name)
        if field.name == LABELS:
            values |= value
        else:
            values[field.name] = [_plain(one) for one in value] if isinstance(value, tuple) else value
    return values


def _plain(value: Any) -> Any:
    return values_of(value) if hasattr(value, "__dataclass_fields__") else value


def p_fields(p: PValue | None) -> dict[str, Any]:
    """The fields of a row that an adjusted p-value fills; None where there was no test."""
    if p is None:
        return dict.fromkeys(("p_value", "p_adjusted", "p_text"))
    return {"p_value": p.raw, "p_adjusted": p.adjusted, "p_text": str(p)}


def frame_of(kind: type, rows: Sequence[Any], keys: Sequence[str] = ()) -> pl.DataFrame:
    """The frame of such rows: a column for each field, and in place of its labels one for each of `keys`."""
    schema: dict[str, Any] = {}
    for name in _hints(kind):
        schema |= dict.fromkeys(keys, pl.String) if name == LABELS else {name: columns_of(kind)[name]}
    blank = dict.fromkeys(keys)
    return pl.DataFrame([{**blank, **values_of(row)} for row in rows], schema=schema, orient="row")


def rows_of(kind: type[_Row], frame: pl.DataFrame) -> list[_Row]:
    """The rows of a frame that `frame_of` made, or of a part of it: what is no field of theirs is a label.

    >>> from vtare.summary.factors import Differing
    >>> pair = Differing("idle", "cpu", 0.01)
    >>> rows_of(Differing, frame_of(Differing, [pair])) == [pair]
    True
    """
    hints: Mapping[str, Any] = _hints(kind)  # type: ignore[arg-type]
    rows = []
    for values in frame.iter_rows(named=True):
        made = {name: _made(hint, values[name]) for name, hint in hints.items() if name != LABELS}
        if LABELS in hints:
            made[LABELS] = {key: label for key, label in values.items() if key not in hints and label is not None}
        rows.append(kind(**made))
    return rows


def _made(hint: Any, value: Any) -> Any:
    """A value as its field has it: a tuple of a list, a record of a struct."""
    if value is None:
        return () if get_origin(hint) is tuple else None
    if get_origin(hint) is tuple:
        return tuple(_made(_known(get_args(hint)[0]), one) for one in value)
    if hint is Verdict:
        return Verdict(value)
    return hint(**{name: _made(of, value[name]) for name, of in _hints(hint).items()}) if hint not in _TYPES else value
