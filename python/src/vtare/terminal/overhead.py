"""The figures of `vtare overhead` as a table for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.table import Table

from vtare.plots.format import NOT_AVAILABLE, time_text
from vtare.quantities import plain_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console


_ROWS: Final = (
    ("round trip, inside", "rtt_ns"),
    ("at the sender's host side", "rtt_wire_ns"),
    ("at the responder's host side", "responder_side_ns"),
    ("sender's virtualization", "sender_overhead_ns"),
    ("wire", "wire_ns"),
    ("wire there", "wire_out_ns"),
    ("wire back", "wire_back_ns"),
    ("responder's virtualization", "responder_overhead_ns"),
    ("turnaround in the responder", "turnaround_ns"),
)
_PLACES: Final = {
    "sender_out": "between the sender's program and its host side",
    "wire_out": "on the wire there",
    "responder": "behind the responder's host side",
    "wire_back": "on the wire back",
    "sender_in": "between the sender's host side and its program",
    "beyond_sender": "beyond the sender's host side",
    "before_responder": "before the responder's host side",
    "behind_responder": "after the responder's host side",
    "somewhere": "somewhere",
}


def _time(value_ns: float | None) -> str:
    """A time with three digits and its unit; `n/a` where there is none."""
    return NOT_AVAILABLE if value_ns is None else time_text(value_ns)


def show_document(console: Console, document: Mapping[str, Any]) -> None:
    """Print every far end of a `vtare.overhead/1` document."""
    for cell in document["cells"]:
        console.print(f"{cell['peer']}: {cell['paired']} of {cell['received']} round trips seen at every capture point")
        table = Table(box=None, pad_edge=False, header_style="")
        table.add_column("place")
        for heading in ("median", "half IQR", "min", "p99", "max"):
            table.add_column(heading, justify="right")
        for label, key in _ROWS:
            pieces = cell["pieces"] | cell["one_way"]
            figures = pieces[key] if key in pieces else cell[key]
            if figures is not None:
                shown = (figures[name] for name in ("median", "half_iqr", "min", "p99", "max"))
                table.add_row(label, *(_time(value) for value in shown))
        console.print(table)
        console.print()
        if cell["clock_bound_ns"]:
            console.print(
                f"wire there and back: within {_time(cell['clock_bound_ns'])}, as far as the clocks are compared"
            )
        if cell["overhead_share_percent"] is not None:
            console.print(
                f"overhead: {_time(cell['overhead_ns']['median'])}, {cell['overhead_share_percent']:.3g} % of the "
                f"round trip inside, {cell['overhead_relative_percent']:.3g} % of the one at the host side"
            )
        _accounts(console, cell)


def _accounts(console: Console, cell: Mapping[str, Any]) -> None:
    """What could not be joined: lost packets by place, stamps that are missing, pieces below 0."""
    lost = {place: count for place, count in cell["lost_at"].items() if count}
    if lost:
        where = ", ".join(f"{count} {_PLACES[place]}" for place, count in lost.items())
        console.print(f"lost: {sum(lost.values())} of {cell['sent']} ({where})")
    else:
        console.print(f"lost: 0 of {cell['sent']}")
    missed = {name: count for name, count in cell["not_captured"].items() if count}
    if missed:
        console.print("not captured: " + ", ".join(f"{count} {plain_name(name)}" for name, count in missed.items()))
    negative = {name: count for name, count in cell["negative"].items() if count}
    if negative:
        shown = ", ".join(f"{count} of {plain_name(name)}" for name, count in negative.items())
        console.print(f"below 0, kept: {shown} (stamps are taken a little before or after a packet passes)")
    dropped = {side: count for side, count in cell["dropped"].items() if count}
    if dropped:
        shown = ", ".join(f"{count} at the {side}" for side, count in dropped.items())
        console.print(f"dropped by the captures: {shown}; packets may have been where they were not seen")
    for what, name in (("late", "late"), ("captured more than once", "copies"), ("captured, never sent", "unknown")):
        if cell[name]:
            console.print(f"{what}: {cell[name]}")
