"""Whether the samples that a run left can be read and summarised, wherever they were made.

A guest or another machine may send any bytes. What does not pass here fails its run, so that a store holds only files
whose sizes are those of its plan, whose columns decode, and whose footer has the kinds of values that figures use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from vtare import documents, parquet_check
from vtare.contract import check_samples_file, columns
from vtare.errors import BadInput
from vtare.quantities import symbol_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vtare.campaign.allowance import Allowance
    from vtare.design import Run

_KEY: Final = "vtare"
_NONE: Final = type(None)
#: What the parts of a footer are.
_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "schema": (str,),
    "run": (dict,),
    "machine": (dict,),
    "program": (dict, _NONE),
    "clock": (dict, _NONE),
    "result": (dict, _NONE),
    "notes": (list, _NONE),
    "elapsed_ns": (int,),
    "started_unix_ns": (int, _NONE),
    "interrupted": (bool, _NONE),
}
#: Endings of keys that hold a number, besides units: parts of a million, and a quantity at one time or over one.
_NUMBER_ENDINGS: Final = ("_ppm", "_ns_before", "_ns_after", "_1min")


def check_left(path: Path, run: Run, most: Allowance) -> None:
    """Check the samples of a run.

    Raises:
        BadInput: they are damaged, of another run, larger than this run can make them, or not of the contract's kinds.
    """
    try:
        shape = parquet_check.check(path, most_rows=most.rows)
        footer = documents.parse(shape.metadata.get(_KEY, b""))
    except (parquet_check.BadParquet, documents.BadDocument, OSError) as error:
        raise BadInput(f"{path}: damaged, or not written by vtare ({error})") from error
    _check_footer(footer, path)
    check_samples_file(path, run_id=run.run_id, instrument=run.instrument)
    _decode(path, run.instrument)


def check_load(document: Mapping[str, Any]) -> None:
    """Check the report of a load, which the lab adds up and shows.

    Raises:
        BadInput: a part is of another kind than the contract's.
    """
    for name in ("elapsed_s", "threads", "operations", "operations_per_s", "cpu_fraction"):
        _require_number(name, document.get(name))
    parts = {name: document.get(name) for name in ("io", "nbd", "net")}
    if isinstance(parts["nbd"], dict):
        parts |= {f"nbd.{end}": parts["nbd"].get(end) for end in ("client", "server")}
    for name, part in parts.items():
        if part is not None and not isinstance(part, dict):
            raise BadInput(f"{name} is of type {type(part).__name__}, not an object or null")
        for key, value in (part or {}).items():
            if _is_quantity(key):
                _require_number(key, value)


def _is_quantity(key: str) -> bool:
    """Whether a key names a unit: it holds a number, a list of numbers or an object of figures."""
    return symbol_of(key) is not None or key.endswith(_NUMBER_ENDINGS)


def _require_number(name: str, found: object) -> None:
    if found is not None and (isinstance(found, bool) or not isinstance(found, int | float) or found < 0):
        raise BadInput(f"{name} is {found!r:.80}, not a number, 0 or more, or null")


def _check_footer(footer: Mapping[str, Any], path: Path) -> None:
    for name, kinds in _KINDS.items():
        if name in footer and not isinstance(footer[name], kinds):
            raise BadInput(
                f"{path}: the footer's {name} is of type {type(footer[name]).__name__}; measure this run again"
            )
    cells = _objects(path, "cells", (footer.get("result") or {}).get("cells"), ())
    notes = _objects(path, "notes", footer.get("notes"), ("id", "text"))
    parts = [footer.get(name) or {} for name in ("machine", "clock")]
    for part in (*parts, *cells, *notes, footer):
        for key, value in part.items():
            if isinstance(value, str | bool) and _is_quantity(key):
                raise BadInput(f"{path}: the footer's {key} is {value!r:.80}, not a number; measure this run again")
    if footer.get("elapsed_ns", 0) < 0:
        raise BadInput(f"{path}: the footer's elapsed_ns is {footer['elapsed_ns']}, below 0; measure it again")


def _objects(path: Path, name: str, found: object, needs: tuple[str, ...]) -> list[dict[str, Any]]:
    listed = [] if found is None else found
    if not isinstance(listed, list) or not all(isinstance(one, dict) and one.keys() >= {*needs} for one in listed):
        raise BadInput(f"{path}: the footer's {name} are no list of objects; measure this run again")
    return listed


def _decode(path: Path, instrument: str) -> None:
    """Decode every column, one after the other: a page may be damaged though its header is right."""
    for name, column in columns()[instrument].items():
        try:
            values = pl.read_parquet(path, columns=[name]).get_column(name)
        except (OSError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            raise BadInput(f"{path}: column '{name}' is damaged ({error})") from error
        if values.null_count() and not column.get("nullable", False):
            raise BadInput(f"{path}: column '{name}' lacks {values.null_count()} values; measure this run again")
