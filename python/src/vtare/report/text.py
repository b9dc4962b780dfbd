"""How figures are written in a report: unit that fits, and a reason wherever there is none."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from vtare.number_text import (
    percent_points,
    percent_text,
    rate_text,
    ratio_range_text,
    ratio_text,
    significant,
    time_range_text,
    time_text,
)
from vtare.quantity_text import quantity_of
from vtare.sentences.words import count_text
from vtare.summary.rows import known_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    import polars as pl

NO_BREAK = "\N{NO-BREAK SPACE}"
DIFFERS: Final = "differs"
"""The CSS class of a cell that stands out."""


@dataclass(frozen=True, slots=True)
class Shown:
    """One table cell: `text` for the eye, `raw` for the CSV file (empty where missing), `order` for sorting.

    `kind` is a CSS class: `missing`, `DIFFERS`, a word of a verdict, or empty.
    """

    text: str
    raw: str
    order: float | str | None
    kind: str = ""
    title: str = ""


def words(text: str | None, order: float | None = None) -> Shown:
    """A text cell, sorted by `order` where given (the plan's order of the levels)."""
    if text is None:
        return Shown("\N{EN DASH}", "", order if order is not None else "")
    return Shown(keep(text), text.replace(NO_BREAK, " "), order if order is not None else text.lower())


def missing(why: str) -> Shown:
    """A figure that is not there, with the reason."""
    return Shown(f"n/a ({why})", "", None, "missing")


def _raw(value: float) -> str:
    return repr(int(value)) if float(value).is_integer() else repr(float(value))


def time(value_ns: float | None, why: str) -> Shown:
    """A time in ns, or `n/a` with the reason."""
    if value_ns is None:
        return missing(why)
    return Shown(keep(time_text(value_ns)), _raw(value_ns), value_ns)


def spread(value_ns: float | None, quantum_ns: float | None, why: str) -> Shown:
    """A spread in ns; 0 means that the clock cannot resolve it, and is written so."""
    if value_ns is None:
        return missing(why)
    if value_ns == 0:
        quantum = f" ({keep(time_text(quantum_ns))})" if quantum_ns is not None else ""
        return Shown(f"below the quantum{quantum}", "0", 0.0, "missing")
    return time(value_ns, why)


def interval(low_ns: float | None, high_ns: float | None, why: str) -> Shown:
    """An interval of times, sorted by its lower end; the CSV file has `low..high` in ns."""
    if low_ns is None or high_ns is None:
        return missing(why)
    return Shown(keep(time_range_text(low_ns, high_ns)), f"{_raw(low_ns)}..{_raw(high_ns)}", low_ns)


def rate(bit_per_s: float | None, why: str) -> Shown:
    """A rate in bit/s, or `n/a` with the reason."""
    return missing(why) if bit_per_s is None else Shown(keep(rate_text(bit_per_s)), _raw(bit_per_s), bit_per_s)


def points(percent: float | None, why: str, *, signed: bool = True) -> Shown:
    """A figure in percent, with its sign where it may have one."""
    if percent is None:
        return missing(why)
    return Shown(keep(percent_points(percent, signed=signed)), _raw(percent), percent)


def figure(quantity: str, value: float | None, why: str) -> Shown:
    """A figure in the unit of its quantity."""
    return missing(why) if value is None else Shown(keep(quantity_of(quantity).text(value)), _raw(value), value)


def of_row(row: Mapping[str, Any], name: str, why: str, show: Callable[[float | None, str], Shown]) -> Shown:
    """A figure of a cell by one of the functions above; a bound has its side in front, and no value in the CSV file."""
    known = known_of(row, name)
    shown = show(None if known is None else known.number, why)
    if known is None or known.side == "exact":
        return shown
    return Shown(f"{known.prefix}{shown.text}", "", shown.order, title="a bound, no value")


def no_interval(row: Mapping[str, Any], name: str = "median") -> str:
    """Why a figure of a cell has no interval over runs."""
    known = known_of(row, name)
    return "a bound" if known is not None and known.side != "exact" else "needs 3 runs"


def change(quantity: str, value: float | None, why: str) -> Shown:
    """The change of a figure in the unit of its quantity: of a percentage with its sign."""
    return missing(why) if value is None else Shown(keep(quantity_of(quantity).change(value)), _raw(value), value)


def figures(quantity: str, low: float | None, high: float | None, why: str) -> Shown:
    """An interval in the unit of its quantity, sorted by its lower end; the CSV file has `low..high`."""
    if low is None or high is None:
        return missing(why)
    return Shown(keep(quantity_of(quantity).range_text(low, high)), f"{_raw(low)}..{_raw(high)}", low)


def ratio(value: float | None, low: float | None, high: float | None, why: str) -> Shown:
    """A ratio with its interval: `8.10x (7.02 to 9.31)`."""
    if value is None:
        return missing(why)
    text = ratio_text(value)
    if low is not None and high is not None:
        text = f"{text} ({ratio_range_text(low, high)})"
    raw = _raw(value) if low is None or high is None else f"{_raw(value)} [{_raw(low)}..{_raw(high)}]"
    return Shown(keep(text), raw, value)


def bound_ratio(number: float | None, side: str | None, otherwise: Shown) -> Shown:
    """What a ratio is known to be at least or at most, without a value in the CSV file; else `otherwise`."""
    if number is None or side is None:
        return otherwise
    return Shown(keep(f"{side} {ratio_text(number)}"), "", number, title="a bound, no value")


def percent(fraction: float | None, why: str) -> Shown:
    """A fraction in percent; the CSV file has the fraction."""
    return missing(why) if fraction is None else Shown(keep(percent_text(fraction)), _raw(fraction), fraction)


def number(value: float | None, why: str) -> Shown:
    """A plain number with three significant digits."""
    return missing(why) if value is None else Shown(significant(value), _raw(value), value)


def count(value: int | None, why: str) -> Shown:
    """A count in full."""
    return missing(why) if value is None else Shown(count_text(value), str(value), value)


def keep(text: str) -> str:
    """Keep a number and its unit on one line."""
    return re.sub(r"(?<=\d) (?=(?:ns|\N{MICRO SIGN}s|ms|s|%|[kMG]?bit/s|[kMG]?B)\b|%)", NO_BREAK, text)


def level_text(level: float) -> str:
    """The level of an interval in percent: 0.95 gives `95 %`, 0.9375 gives `93.75 %`."""
    return f"{100 * level:.4g} %"


def levels_text(cells: pl.DataFrame) -> str:
    """The levels that the intervals of these cells have: `93.75 %`, `95 % or 96.88 %`; `95 %` where there is none."""
    levels = cells.get_column("interval_level").drop_nulls().unique().sort().to_list()
    return keep(" or ".join(dict.fromkeys(level_text(level) for level in levels)) or level_text(0.95))
