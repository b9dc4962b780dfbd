"""The table: a line for a method in a cell, and which targets were missed."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from figures import figure

from realpath.cells import JUMBO_MBIT, Cell, Row
from realpath.methods import SEND_COST_NS, is_own

#: Highest median error of the own method, in % of the truth, and bytes of an estimate, by capacity in Mbit/s.
TARGETS: dict[int, tuple[float, float | None]] = {100: (2, 1e6), 300: (2, 1e6), 1000: (5, None), 10000: (10, None)}


def middle(values: Sequence[float]) -> float:
    """Median, or nan."""
    return statistics.median(values) if values else float("nan")


def half_iqr(values: Sequence[float]) -> float:
    """Half of the interquartile range (type 7), or nan."""
    if len(values) < 2:
        return float("nan")
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / 2


HEAD = (
    f"{'cell':<9} {'cross':<7} {'method':<20} {'error %':>8} {'halfIQR':>8} {'kB':>8} {'s':>7} {'answers':>8} "
    f"{'covers':>7} {'truth':>7} {'lost':>6} {'others':>7}  stopped"
)


@dataclass(frozen=True)
class Limit:
    """What the machine allowed one row of the table, as measured in it."""

    half_width: float
    covered: str
    others: float

    def __str__(self) -> str:
        return (
            f"its own intervals are +-{self.half_width:.1f} % (median) and hold the truth in {self.covered}; "
            f"other work took {self.others:.2f} CPUs"
        )


@dataclass(frozen=True)
class Line:
    """A row of the table."""

    cell: Cell
    shape: str
    method: str
    error: float
    spread: float
    byte: float
    answers: int
    void: bool
    limit: Limit


def line(rows: Sequence[Row], others_most: float) -> Line:
    """Prints one line of the table: one cell, one method."""
    quiet = [row for row in rows if row.others <= others_most]
    void = len(quiet) * 2 < len(rows)
    used = rows if void else quiet
    errors = [row.error for row in used if row.error is not None]
    covers = [row.low <= row.truth <= row.high for row in used if row.low is not None and row.high is not None]
    covered = f"{sum(covers)}/{len(covers)}" if covers else "-"
    stops: dict[str, int] = {}
    for row in used:
        stops[row.stopped] = stops.get(row.stopped, 0) + 1
    why = " ".join(f"{name}:{count}" for name, count in sorted(stops.items(), key=lambda it: -it[1]))
    one = rows[0]
    at = f"{one.cell!s} {one.shape}/{one.method}"
    byte_, seconds = middle([row.byte for row in used]), middle([row.seconds for row in used])
    print(
        f"{one.cell!s:<9} {one.shape:<7} {one.method:<20} {figure(f'{at}/error', middle(errors), '%'):>8.1f} "
        f"{figure(f'{at}/half IQR', half_iqr(errors), '%'):>8.1f} "
        f"{figure(f'{at}/probes', byte_ / 1e3, 'kB'):>8.0f} {figure(f'{at}/time', seconds, 's'):>7.2f} "
        f"{len(errors):>4}/{len(used):<3} {covered:>7} {middle([row.truth for row in used]) / 1e6:>7.0f} "
        f"{middle([row.lost * 100 for row in used if row.lost is not None]):>6.2f} "
        f"{middle([row.others for row in rows]):>7.2f}  {why}{'  VOID: other work' if void else ''}",
        flush=True,
    )
    byte = middle([row.byte for row in used])
    halves = [
        (row.high - row.low) / 2 / row.truth * 100
        for row in used
        if row.low is not None and row.high is not None and row.truth > 0
    ]
    limit = Limit(middle(halves), covered, middle([row.others for row in rows]))
    return Line(one.cell, one.shape, one.method, middle(errors), half_iqr(errors), byte, len(errors), void, limit)


def missed(lines: Sequence[Line]) -> None:
    """Prints which targets were missed, and in which cells that cannot be decided."""
    print("\ntargets of the own method: median error, bytes, half-IQR below every other method's")
    for own in (it for it in lines if is_own(it.method)):
        most_error, most_byte = TARGETS[own.cell.capacity]
        words = []
        if not abs(own.error) <= most_error:
            words.append(f"error {own.error:+.1f} %, expected {most_error} %")
        if most_byte is not None and not own.byte <= most_byte:
            words.append(f"{own.byte / 1e6:.2f} MB, expected {most_byte / 1e6:g} MB")
        for other in lines:
            beside = (other.cell, other.shape) == (own.cell, own.shape) and not is_own(other.method)
            if beside and other.answers >= 3 and other.spread < own.spread:
                beaten = f"{other.method}'s {other.spread:.1f} (its error {other.error:+.0f} %)"
                words.append(f"half-IQR {own.spread:.1f} above {beaten}")
        verdict = "MISSED: " + "; ".join(words) if words else "met"
        print(f"{own.cell!s:<9} {own.shape:<7} {own.method:<15} {verdict}{'  (void: other work)' if own.void else ''}")
        if words:
            cost = SEND_COST_NS.get(own.cell)
            size = 9000 if own.cell.capacity >= JUMBO_MBIT else 1500
            sends = f"; single sends reach {size * 8 / cost:.2f} Gbit/s" if cost else ""
            print(f"{'':<18}measured limit: {own.limit}{sends}")
