"""Rows of the summary: frozen records. Their fields, in their order, are the columns of the frame that they make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

import polars as pl

_TYPES: Final = {str: pl.String, int: pl.Int64, float: pl.Float64, bool: pl.Boolean}
#: The field of a row that holds the levels of its cell, by key.
LABELS: Final = "labels"


@cache
def columns_of(kind: Any) -> Mapping[str, Any]:
    """The columns of a kind of row and their types, without those of its labels.

    >>> from vtare.summary.factors import LevelRow
    >>> list(columns_of(LevelRow).items())[:2]
    [('experiment', String), ('factor', String)]
    """
    hints = get_type_hints(kind)
    return {field.name: _type_of(hints[field.name]) for field in fields(kind) if field.name != LABELS}


def _type_of(hint: Any) -> Any:
    if get_origin(hint) is UnionType:
        (hint,) = (one for one in get_args(hint) if one is not NoneType)
    if get_origin(hint) is tuple:
        return pl.List(_type_of(get_args(hint)[0]))
    return _TYPES.get(hint) or pl.Struct(dict(columns_of(hint)))


def values_of(row: Any) -> dict[str, Any]:
    """A row as JSON and frames take it: its labels and its fields on one level."""
    found: dict[str, Any] = {}
    for field in fields(row):
        value = getattr(row, field.name)
        if field.name == LABELS:
            found |= value
        else:
            found[field.name] = [_plain(one) for one in value] if isinstance(value, tuple) else value
    return found


def _plain(value: Any) -> Any:
    return values_of(value) if hasattr(value, "__dataclass_fields__") else value


def frame_of(kind: type, rows: Sequence[Any]) -> pl.DataFrame:
    """The frame of such rows, which have no labels: a column for each field."""
    return pl.DataFrame([values_of(row) for row in rows], schema=dict(columns_of(kind)), orient="row")
