"""Numbers as people read them: three significant digits and the unit that fits."""

from __future__ import annotations

import math
from typing import Final

from vtare.sentences.words import count_text

MICRO: Final = "\N{MICRO SIGN}s"
NOT_AVAILABLE: Final = "n/a"

_TIME_UNITS: Final = ((1e9, "s"), (1e6, "ms"), (1e3, MICRO), (1.0, "ns"))


def significant(value: float, digits: int = 3) -> str:
    """A number with `digits` significant digits, without exponent from 1e-4 up to 1e6.

    Trailing zeros stay where they carry meaning: 12.30 gives `12.3`, 12.04 gives `12.0`, 1234.5 gives `1234`.
    """
    if value == 0:
        return "0"
    if not math.isfinite(value):
        raise ValueError(f"{value} is not finite: show a missing figure with missing(), not as a number")
    exponent = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    if exponent < -4 or exponent >= 6:
        mantissa, power = f"{value:.{digits - 1}e}".split("e")
        return f"{mantissa}e{int(power)}"
    return f"{value:.{max(digits - 1 - exponent, 0)}f}"


def _time_unit(magnitude: float) -> tuple[float, str]:
    for factor, unit in _TIME_UNITS:
        # Compared after rounding to three digits, so that 999.9 ns is shown as 1.00 us and not as 1000 ns.
        if float(f"{magnitude:.2e}") >= factor:
            return factor, unit
    return _TIME_UNITS[-1]


def time_text(value_ns: float, digits: int = 3) -> str:
    """A time in ns as text in ns, us, ms or s: 12_345 gives `12.3 us` (with the micro sign)."""
    factor, unit = _time_unit(abs(value_ns))
    return f"{significant(value_ns / factor, digits)} {unit}"


def time_range_text(low_ns: float, high_ns: float, digits: int = 3) -> str:
    """Two times in the unit of the larger one: `10.1 to 14.0 ms`; each with its own unit where they are far apart.

    A lower end under a tenth of a nanosecond is no figure of any clock and is written `below 0.1 ns`.
    """
    factor, unit = _time_unit(max(abs(low_ns), abs(high_ns)))
    if 0 < low_ns < 0.1 <= high_ns:
        return f"below 0.1 ns to {time_text(high_ns, digits)}"
    if low_ns != 0 and abs(low_ns) / factor < 0.01:
        return f"{time_text(low_ns, digits)} to {time_text(high_ns, digits)}"
    return f"{significant(low_ns / factor, digits)} to {significant(high_ns / factor, digits)} {unit}"


def tick_text(value_ns: float) -> str:
    """A time for an axis tick: no more digits than needed, `1 us`, `20 ms`, `0`."""
    if value_ns == 0:
        return "0"
    factor, unit = _time_unit(abs(value_ns))
    return f"{value_ns / factor:.6g} {unit}"


def ratio_text(value: float) -> str:
    """A ratio: `8.10` as `8.10x`, 148321 as `148 000x`, 0.000571 as `1/1750` (with the multiplication sign)."""
    if 0 < value < 0.1:
        return f"1/{_whole(1 / value)}"
    return f"{_whole(value)}\N{MULTIPLICATION SIGN}"


def change_text(ratio: float) -> str:
    """By how much a figure changed: 1.29 gives `+29 %`; tenfold and beyond as a ratio: `103x`."""
    return f"{100 * (ratio - 1):+.3g} %" if 0.1 <= ratio < 10 else ratio_text(ratio)


def ratio_range_text(low: float, high: float) -> str:
    """The ends of a ratio's interval, written like the ratio itself: `7.02 to 9.31`, `1/1870 to 1/1670`."""
    return " to ".join(f"1/{_whole(1 / end)}" if 0 < end < 0.1 else _whole(end) for end in (low, high))


def _whole(value: float) -> str:
    if 1000 <= abs(value) < 1e15:
        return count_text(int(float(f"{value:.2e}")))
    return significant(value)


def percent_text(fraction: float) -> str:
    """A fraction (0 to 1) in percent: 0.0123 gives `1.23 %`."""
    return f"{significant(100 * fraction)} %"


def percent_range_text(low: float, high: float) -> str:
    """Two fractions in percent: `1.20 to 3.45 %`."""
    return f"{significant(100 * low)} to {significant(100 * high)} %"


_RATE_UNITS: Final = ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s"), (1.0, "bit/s"))
_FRAME_UNITS: Final = ((1e9, "Gpacket/s"), (1e6, "Mpacket/s"), (1e3, "kpacket/s"), (1.0, "packet/s"))
_BYTE_UNITS: Final = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))


def _fitting(units: tuple[tuple[float, str], ...], magnitude: float) -> tuple[float, str]:
    for factor, unit in units:
        if float(f"{magnitude:.2e}") >= factor:
            return factor, unit
    return units[-1]


def rate_unit(bit_per_s: float) -> tuple[float, str]:
    """The unit that fits a rate, and how many bit/s it is."""
    return _fitting(_RATE_UNITS, abs(bit_per_s))


def rate_text(bit_per_s: float) -> str:
    """A rate in bit/s as text: 149_800_000 gives `150 Mbit/s`."""
    factor, unit = rate_unit(bit_per_s)
    return f"{significant(bit_per_s / factor)} {unit}"


def rate_range_text(low: float, high: float) -> str:
    """Two rates in the unit of the larger one: `146 to 152 Mbit/s`."""
    factor, unit = rate_unit(max(abs(low), abs(high)))
    return f"{significant(low / factor)} to {significant(high / factor)} {unit}"


def packet_rate_unit(packet_per_s: float) -> tuple[float, str]:
    """The unit that fits a rate of packets, and how many packet/s it is."""
    return _fitting(_FRAME_UNITS, abs(packet_per_s))


def packet_rate_text(packet_per_s: float) -> str:
    """A rate in packet/s as text: 194_300 gives `194 kpacket/s`."""
    factor, unit = packet_rate_unit(packet_per_s)
    return f"{significant(packet_per_s / factor)} {unit}"


def packet_rate_range_text(low: float, high: float) -> str:
    """Two rates in the unit of the larger one: `190 to 199 kpacket/s`."""
    factor, unit = packet_rate_unit(max(abs(low), abs(high)))
    return f"{significant(low / factor)} to {significant(high / factor)} {unit}"


def byte_text(byte: float) -> str:
    """A number of bytes: 312_000 gives `312 kB`; a round one has no more digits than it needs."""
    factor, unit = _fitting(_BYTE_UNITS, abs(byte))
    return f"{float(f'{byte / factor:.3g}'):g} {unit}"


def percent_points(percent: float, *, signed: bool = True) -> str:
    """A figure in percent with its sign: `+1.2 %`, `0 %`; at most three digits, none for show.

    What is nearer 0 than 0.005 % is written 0: no path is known better.
    """
    if abs(percent) < 0.005:
        return "0 %"
    rounded = float(f"{percent:.2g}") if abs(percent) < 10 else float(f"{percent:.3g}")
    sign = "\N{MINUS SIGN}" if rounded < 0 else "+" if rounded > 0 and signed else ""
    return f"{sign}{abs(rounded):g} %"
