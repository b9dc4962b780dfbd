"""Quantities with units, as plans write them (`"1 ms"`) and as the instruments take them (`target_ns = 1000000`).

A parameter's unit is the suffix of its name, so a plan never has to guess it: `target_ns` takes "1 ms" or "500 us",
`seconds` takes "0.5 s". Conversion is exact (decimal), so 0.1 us is 100 ns and not 100.00000000000001.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal, DecimalException
from typing import Final

_TIME: Final = {
    "ps": Decimal("1e-12"),
    "ns": Decimal("1e-9"),
    "us": Decimal("1e-6"),
    "\N{MICRO SIGN}s": Decimal("1e-6"),
    "\N{GREEK SMALL LETTER MU}s": Decimal("1e-6"),
    "ms": Decimal("1e-3"),
    "s": Decimal(1),
    "min": Decimal(60),
    "h": Decimal(3600),
}
#: The longest time that a plan may ask for: a year, in s.
LONGEST_S: Final = Decimal(365 * 86_400)
_BYTE: Final = {
    "B": Decimal(1),
    "kB": Decimal(10) ** 3,
    "MB": Decimal(10) ** 6,
    "GB": Decimal(10) ** 9,
    "KiB": Decimal(2) ** 10,
    "MiB": Decimal(2) ** 20,
    "GiB": Decimal(2) ** 30,
}
_BIT_RATE: Final = {
    "bit/s": Decimal(1),
    "kbit/s": Decimal(10) ** 3,
    "Mbit/s": Decimal(10) ** 6,
    "Gbit/s": Decimal(10) ** 9,
}
_PACKET_RATE: Final = {"packet/s": Decimal(1), "kpacket/s": Decimal(10) ** 3, "Mpacket/s": Decimal(10) ** 6}
_FREQUENCY: Final = {"Hz": Decimal(1), "kHz": Decimal(10) ** 3, "MHz": Decimal(10) ** 6, "GHz": Decimal(10) ** 9}

# Longest suffix first: `_bit_per_s` must not be taken for `_s`.
_SUFFIXES: Final[tuple[tuple[str, str, dict[str, Decimal]], ...]] = (
    ("_packet_per_s", "packet/s", _PACKET_RATE),
    ("_bit_per_s", "bit/s", _BIT_RATE),
    ("_byte", "B", _BYTE),
    ("_hz", "Hz", _FREQUENCY),
    ("_ps", "ps", _TIME),
    ("_ns", "ns", _TIME),
    ("_us", "us", _TIME),
    ("_ms", "ms", _TIME),
    ("_s", "s", _TIME),
)
_NUMBER: Final = r"(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
#: A number is never tried shorter than it is: the time would grow with the square of its digits.
_PATTERN: Final = re.compile(rf"^\s*([+-]?(?>{_NUMBER}))\s*(\S+(?:\s*/\s*\S+)?)?\s*$")


class QuantityError(ValueError):
    """The text is not a quantity of the wanted dimension. The message holds the value found and the units wanted."""


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit a parameter counts in (`symbol`) and every unit a plan may write instead (`scale`, in base units)."""

    symbol: str
    scale: dict[str, Decimal]

    @property
    def examples(self) -> str:
        """The units a plan may use, as a list for messages."""
        return ", ".join(unit for unit in self.scale if unit.isascii())


def unit_of(parameter: str) -> Unit | None:
    """Return the unit that a parameter's name states, or None where the parameter is dimensionless.

    `unit_of("target_ns").symbol` is `"ns"`; `seconds` counts in s; `samples` has no unit.
    """
    if parameter == "seconds":
        return Unit("s", _TIME)
    for suffix, symbol, scale in _SUFFIXES:
        if parameter.endswith(suffix):
            return Unit(symbol, scale)
    return None


def symbol_of(name: str) -> str | None:
    """Return the unit that the name of a column states: `ns` for `rtt_ns`; `1` for a fraction, `%` for percent.

    None where the name states none: a count.

    >>> symbol_of("avb_bit_per_s"), symbol_of("late_fraction"), symbol_of("error_percent"), symbol_of("gaps_per_s")
    ('bit/s', '1', '%', '1/s')
    """
    if name.endswith("_fraction"):
        return "1"
    if name.endswith("_percent"):
        return "%"
    unit = unit_of(name)
    if unit is None:
        return None
    return "1/s" if unit.symbol == "s" and name.endswith("_per_s") else unit.symbol


def stem_of(name: str) -> str:
    """Return the name of a parameter or a column without the unit that it states.

    >>> stem_of("rtt_ns"), stem_of("throughput_packet_per_s"), stem_of("cv"), stem_of("gaps_per_s")
    ('rtt', 'throughput', 'cv', 'gaps_per_s')
    """
    suffix = next((suffix for suffix, *_ in _SUFFIXES if name.endswith(suffix)), "")
    return name if symbol_of(name) == "1/s" else name.removesuffix(suffix)


def plain_name(name: str) -> str:
    """Return the name of a parameter or a column as words, without its unit.

    >>> plain_name("sender_overhead_ns"), plain_name("guests")
    ('sender overhead', 'guests')
    """
    return stem_of(name).replace("_", " ")


def pattern_of(unit: Unit, *, signed: bool = False) -> str:
    """The regular expression of the texts that are a quantity in one of these units.

    >>> re.search(pattern_of(Unit("s", _TIME)), "1.5 ms") is not None, re.search(pattern_of(Unit("s", _TIME)), "1 kB")
    (True, None)
    """
    units = "|".join(r"\s*/\s*".join(symbol.split("/")) for symbol in unit.scale)
    return rf"^\s*{'[+-]?' if signed else '[+]?'}{_NUMBER}\s*(?:{units})\s*$"


def parse(text: str, unit: Unit) -> Decimal:
    """Return the quantity `text` counted in `unit.symbol`, exactly. `parse("1.5 ms", ns)` is 1500000.

    Raises:
        QuantityError: no number, no unit, or a unit of another dimension.
    """
    match = _PATTERN.match(text)
    example = f'"1 {unit.symbol}"'
    if match is None:
        raise QuantityError(f"'{text}' is not a number with a unit, such as {example} (units: {unit.examples})")
    number, symbol = match.group(1), match.group(2)
    if symbol is None:
        raise QuantityError(f"'{text}' has no unit; write for example \"{text.strip()} {unit.symbol}\"")
    symbol = re.sub(r"\s+", "", symbol)
    if symbol not in unit.scale:
        raise QuantityError(f"'{text}' has the unknown unit '{symbol}': use one of: {unit.examples}")
    try:
        base = Decimal(number.replace("_", "")) * unit.scale[symbol]
        value = base / unit.scale[unit.symbol]
    except DecimalException as error:
        raise QuantityError(f"'{text}' is not a number with a unit, such as {example}") from error
    return value


def refuse_above_a_year(text: str, value: Decimal, unit: Unit) -> None:
    """Refuse a time of a plan that no run can take: it is a slip, and beyond what clocks can count.

    Raises:
        QuantityError: `value`, counted in `unit`, is a time above a year.
    """
    if unit.scale is _TIME and abs(value) > LONGEST_S / unit.scale[unit.symbol]:
        raise QuantityError(f"'{text}' is more than a year: use at most \"{LONGEST_S} s\"")


def write(value: float | Decimal, unit: Unit) -> str:
    """Write a quantity counted in `unit.symbol` the way a person would: `write(1000000, ns)` is `"1 ms"`.

    The largest unit that gives a number of at least 1 is used. The text parses back to the same quantity.
    """
    exact = value if isinstance(value, Decimal) else Decimal(repr(value))
    base = exact * unit.scale[unit.symbol]
    chosen = unit.symbol
    if base != 0:
        decimal_units = [u for u in unit.scale if u.isascii() and u not in {"min", "h", "KiB", "MiB", "GiB"}]
        fitting = [u for u in decimal_units if abs(base) >= unit.scale[u]]
        chosen = (
            max(fitting, key=lambda u: unit.scale[u]) if fitting else min(decimal_units, key=unit.scale.__getitem__)
        )
    number = (base / unit.scale[chosen]).normalize()
    return f"{number:f} {chosen}"
