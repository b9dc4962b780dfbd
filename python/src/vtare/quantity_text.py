"""How figures are written: one `Quantity` for each unit, found by the name of the figure.

The unit travels with the figure's name to the very end; here it becomes text: a value, an interval, a tick of an axis,
the name of a column.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from vtare.instruments import metric
from vtare.number_text import (
    byte_text,
    packet_rate_range_text,
    packet_rate_text,
    packet_rate_unit,
    percent_points,
    percent_range_text,
    percent_text,
    rate_range_text,
    rate_text,
    rate_unit,
    significant,
    tick_text,
    time_range_text,
    time_text,
)
from vtare.quantities import plain_name

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Quantity:
    """One unit: how a value is written, a change of it with its sign, two ends of an interval, and a tick of an axis.

    `symbol` is the unit that values are counted in, `suffix` what a column's name ends with that holds them.
    """

    symbol: str
    suffix: str
    text: Callable[[float], str]
    change: Callable[[float], str]
    range_text: Callable[[float, float], str]
    tick: Callable[[float], str]

    def column(self, stem: str) -> str:
        """The name of a column with values of this quantity.

        >>> quantity_of("rtt_ns").column("here"), quantity_of("cv").column("here")
        ('here_ns', 'here_fraction')
        """
        return f"{stem}{self.suffix}"

    @property
    def is_rate(self) -> bool:
        """Whether it counts something per second."""
        return self.symbol.endswith("/s")


def _scaled_tick(unit: Callable[[float], tuple[float, str]], value: float) -> str:
    factor, symbol = unit(value)
    return "0" if value == 0 else f"{value / factor:.6g} {symbol}"


def _joined(text: Callable[[float], str], low: float, high: float) -> str:
    return f"{text(low)} to {text(high)}"


def _percent_tick(percent: float) -> str:
    return f"{percent:.6g} %"


def _fraction_tick(fraction: float) -> str:
    return _percent_tick(100 * fraction)


def _byte_tick(byte: float) -> str:
    """Sizes of frames and packets are written in bytes: 1518 B, 9000 B."""
    return f"{byte:g} B" if byte < 10_000 else byte_text(byte)


_NUMBER: Final = Quantity("", "", significant, significant, partial(_joined, significant), "{:.6g}".format)
_unsigned_percent: Final = partial(percent_points, signed=False)
_BY_SYMBOL: Final = {
    one.symbol: one
    for one in (
        Quantity("ns", "_ns", time_text, time_text, time_range_text, tick_text),
        Quantity("1", "_fraction", percent_text, percent_text, percent_range_text, _fraction_tick),
        Quantity("%", "_percent", _unsigned_percent, percent_points, partial(_joined, percent_points), _percent_tick),
        Quantity("bit/s", "_bit_per_s", rate_text, rate_text, rate_range_text, partial(_scaled_tick, rate_unit)),
        Quantity("packet/s", "_packet_per_s", packet_rate_text, packet_rate_text, packet_rate_range_text,
                 partial(_scaled_tick, packet_rate_unit)),
        Quantity("B", "_byte", byte_text, byte_text, partial(_joined, byte_text), _byte_tick),
    )
}  # fmt: skip


def quantity_in(symbol: str) -> Quantity:
    """The quantity that is counted in a unit; a plain number where it is none of these."""
    return _BY_SYMBOL.get(symbol, _NUMBER)


def quantity_of(name: str) -> Quantity:
    """The quantity of a figure, by its record or its name; a plain number where neither states a unit.

    >>> quantity_of("cv").text(0.0123), quantity_of("throughput_packet_per_s").text(194_300.0)
    ('1.23 %', '194 kpacket/s')
    """
    return quantity_in(metric(name).symbol or "")


def level_text(symbol: str | None, number: float) -> str | None:
    """A level that counts in a unit, with all its digits; None where figures have no such unit.

    >>> level_text("B", 1518.0), level_text("bit/s", 1e9), level_text(None, 4.0)
    ('1518 B', '1 Gbit/s', None)
    """
    unit = _BY_SYMBOL.get(symbol or "")
    return None if unit is None else unit.tick(number)


def axis_label(name: str) -> str:
    """What a figure is called on an axis; its unit stands on every tick.

    >>> axis_label("rtt_ns"), axis_label("tagged_ns")
    ('round-trip time', 'tagged')
    """
    declared = metric(name)
    return declared.axis or declared.words or declared.short or plain_name(name)


__all__ = ["Quantity", "axis_label", "level_text", "quantity_of"]
