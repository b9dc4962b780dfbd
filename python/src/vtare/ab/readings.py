"""A figure that a program printed: its name, value, unit and direction, and how numbers and units are read.

A number is read as a whole or refused: half of `12,112` is another figure, and `900 us` is less than `1.1 ms`.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence


class NoReading(Exception):
    """There is no figure in what was printed. The message is the cause, as part of a sentence."""


@dataclass(frozen=True, slots=True)
class ReadingUnit:
    """A unit: the symbol that values are counted in, how many of it this unit is, and which direction is better."""

    symbol: str = ""
    factor: float = 1.0
    more_is_better: bool | None = None


@dataclass(frozen=True, slots=True)
class Number:
    """A printed number and the step of its last digit."""

    value: float
    step: float


@dataclass(frozen=True, slots=True)
class Reading:
    """A figure of one run, in the base unit: its values (one, or all printed ones) and the step of their digits.

    No value: the program printed that it could not measure it, for the reason in `missing`.
    """

    name: str
    values: tuple[float, ...]
    unit: str = ""
    more_is_better: bool | None = None
    step: float = 0.0
    missing: str = "the program printed no value"


_TIMES: Final = {
    "ns": 1.0, "nsec": 1.0, "nanosecond": 1.0, "us": 1e3, "usec": 1e3, "microsecond": 1e3, "ms": 1e6, "msec": 1e6,
    "millisecond": 1e6, "s": 1e9, "sec": 1e9, "second": 1e9, "min": 60e9, "minute": 60e9, "h": 3600e9, "hr": 3600e9,
    "hour": 3600e9,
}  # fmt: skip
_PREFIXES: Final = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12,
                    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}  # fmt: skip
_BASES: Final = {"B": "B", "byte": "B", "Byte": "B", "bit": "bit", "b": "bit", "Hz": "Hz", "op": "op", "ops": "op",
                 "req": "req", "item": "item", "packet": "packet", "pkt": "packet", "pps": "packet/s", "flop": "flop",
                 "FLOPS": "flop/s", "iops": "op/s", "IOPS": "op/s", "tps": "transaction/s", "qps": "query/s",
                 "rps": "req/s", "bps": "bit/s", "Bps": "B/s"}  # fmt: skip
_SCALED: Final = re.compile(rf"({'|'.join(sorted(_PREFIXES, key=len, reverse=True))})({'|'.join(_BASES)})s?")
#: What a cost is counted for.
_OPERATIONS: Final = frozenset({"op", "iter", "iteration", "call", "req", "request", "invocation", "item"})


def read_unit(text: str) -> ReadingUnit:
    """Return the unit that a text names; a word that is no known unit is a unit of its own.

    >>> read_unit("us/op"), read_unit("ops/ms").factor, read_unit("MiB/s").symbol
    (Unit(symbol='ns', factor=1000.0, more_is_better=False), 1000.0, 'B/s')
    """
    text = text.strip().replace("\N{MICRO SIGN}", "u").replace("\N{GREEK SMALL LETTER MU}", "u")
    if (time := _time(text)) is not None:
        return ReadingUnit("ns", time, False)
    above, slash, below = text.partition("/")
    if slash:
        return _quotient(above, below, text)
    if text in _PREFIXES:
        return ReadingUnit("", _PREFIXES[text])
    return _scaled(text) or ReadingUnit(text)


def _time(text: str) -> float | None:
    unit = _TIMES.get(text)
    return _TIMES.get(text.lower().removesuffix("s")) if unit is None and len(text) > 2 else unit


def _quotient(above: str, below: str, text: str) -> ReadingUnit:
    """Something per time is a rate, of which more is better; a cost per operation is a cost."""
    per = _time(below)
    if per is None:
        cost = read_unit(above) if above else ReadingUnit()
        direction = False if below in _OPERATIONS else cost.more_is_better
        return (
            replace(cost, more_is_better=direction) if cost.symbol in ("ns", "B") else ReadingUnit(text, 1.0, direction)
        )
    counted = _scaled(above) or (ReadingUnit("1") if above in ("", "1") else ReadingUnit(above))
    return ReadingUnit(f"{counted.symbol or '1'}/s", counted.factor * 1e9 / per, True)


def _scaled(text: str) -> ReadingUnit | None:
    match = _SCALED.fullmatch(text)
    if match is None:
        return None
    symbol = _BASES[match[2]]
    return ReadingUnit(symbol, _PREFIXES[match[1]], True if symbol.endswith("/s") else None)


def is_known(text: str) -> bool:
    """Whether a word is a unit that is converted.

    >>> [is_known(word) for word in ("ms", "Mbit/s", "turns")]
    [True, True, False]
    """
    unit = read_unit(text)
    return unit.factor != 1.0 or unit.symbol != text or unit.symbol in ("ns", "B", "bit", "Hz", "%")


#: How languages write numbers: signs between groups of three digits, and the sign before decimals.
LOCALES: Final = {"en": (",", "."), "de": (".", ","), "fr": (" \N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}", ","),
                  "ch": ("'\N{RIGHT SINGLE QUOTATION MARK}", ".")}  # fmt: skip
_NUMBER: Final = re.compile(r"([-+]?)(\d+(?:_\d+)*)?(?:\.(\d*))?(?:[eE]([-+]?\d{1,9}))?")
_LONGEST: Final = 400
_SHOWN: Final = 60
#: What a number may consist of, in any way of writing.
NUMBER_SIGNS: Final = r"0-9.,'_\u2019\u00a0\u202f"


def read_number(text: str, locale: str | None = None) -> Number:
    """Return the number that a text is, as a whole.

    >>> read_number("1.50e3")
    Number(value=1500.0, step=10.0)
    >>> read_number("1.234,5", "de").value
    1234.5

    Raises:
        NoReading: it is none, or one that may be read in two ways.
    """
    text = text.strip()
    shown = repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
    plain = text if locale is None else _without_groups(text, *LOCALES[locale])
    match = _NUMBER.fullmatch(plain) if plain is not None and len(plain) <= _LONGEST else None
    if match is None or not (match[2] or match[3]):
        raise NoReading(_why_no_number(text, shown, locale))
    decimals, power = match[3] or "", int(match[4] or 0)
    try:
        value, step = float(plain or ""), 10.0 ** (power - len(decimals))
    except OverflowError:
        value = step = math.inf
    if not math.isfinite(value) or not math.isfinite(step):
        raise NoReading(f"{shown} is beyond the range of numbers")
    return Number(value, step)


def _without_groups(text: str, groups: str, decimal: str) -> str | None:
    """The number as a program reads it; None where its groups are not of three digits."""
    whole, _, rest = text.partition(decimal)
    if any(sign in whole for sign in groups):
        if not re.fullmatch(rf"[-+]?\d{{1,3}}(?:[{re.escape(groups)}]\d{{3}})+", whole):
            return None
        whole = re.sub(f"[{re.escape(groups)}]", "", whole)
    elif decimal != "." and "." in whole:
        return None
    return whole + (f".{rest}" if decimal in text else "")


def _why_no_number(text: str, shown: str, locale: str | None) -> str:
    if re.fullmatch(r"[-+]?(nan|inf|infinity)", text, re.IGNORECASE):
        return f"{shown} is no finite number"
    if len(text) > _LONGEST and text.isdigit():
        return f"{shown} has {len(text)} digits"
    if locale is None and re.fullmatch(rf"[-+]?[{NUMBER_SIGNS} ]*\d[{NUMBER_SIGNS} ]*", text):
        return (
            f"{shown} has a sign between its digits that may separate thousands or decimals. Write it without, or "
            f"name the language: --locale {' or '.join(LOCALES)}"
        )
    if re.fullmatch(r"\d+(:\d+)+([.,]\d+)?", text):
        return f"{shown} is a time in minutes or hours. Print it in seconds"
    return f"{shown} is not a number as a whole"


def with_unit(numbers: Sequence[tuple[Number, ReadingUnit]], name: str) -> Reading:
    """Return the reading of numbers with their units.

    Raises:
        NoReading: the units cannot be converted into each other.
    """
    if not numbers:
        return Reading(name, ())
    first = numbers[0][1]
    for _, unit in numbers:
        if unit.symbol != first.symbol:
            raise NoReading(f"one run has readings in {unit_text(first.symbol)} and in {unit_text(unit.symbol)}")
    values = tuple(number.value * unit.factor for number, unit in numbers)
    if not all(map(math.isfinite, values)):
        raise NoReading("a number with its unit is beyond the range of numbers")
    step = min(number.step * unit.factor for number, unit in numbers)
    return Reading(name, values, first.symbol, first.more_is_better, step)


def unit_text(symbol: str) -> str:
    """A unit in a sentence.

    >>> unit_text(""), unit_text("B/s")
    ('no unit', "the unit 'B/s'")
    """
    return f"the unit '{symbol}'" if symbol else "no unit"
