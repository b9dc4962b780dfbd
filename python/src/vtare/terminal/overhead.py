"""The figures of `vtare overhead`: the document, and a table for people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.table import Table
from rich.text import Text

from vtare.number_text import NOT_AVAILABLE, time_text
from vtare.overhead.figures import figures_of
from vtare.quantities import plain_name
from vtare.records.answer import Answered, answered
from vtare.sentences import campaign as wording

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rich.console import Console

    from vtare.overhead.join import Joined
    from vtare.records import papers


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


def _answer(cells: Sequence[papers.OverheadCell]) -> Answered:
    """What the sender's virtualization adds to a round trip to each far end."""
    known = [
        wording.sender_adds(cell["peer"], _time(added["median"]), cell["overhead_share_percent"])
        for cell in cells
        if (added := cell["overhead_ns"]) is not None and added["median"] is not None
    ]
    unknown = [wording.sender_unknown(cell["peer"]) for cell in cells if cell["overhead_ns"] is None]
    return answered(known or [wording.NO_OVERHEAD], "known" if known else "unknown", limits=unknown)


def document(
    joined: Sequence[Joined], *, samples: Path, sender: Path | None, responder: Path | None
) -> papers.Overhead:
    """The JSON document of `vtare overhead --json`."""
    cells = [figures_of(one) for one in joined]
    return {
        "schema": "vtare.overhead/1",
        "answer": _answer(cells),
        "samples": str(samples),
        "sender_capture": None if sender is None else str(sender),
        "responder_capture": None if responder is None else str(responder),
        "cells": cells,
    }


def show_document(console: Console, document: Mapping[str, Any]) -> None:
    """Print every far end of a `vtare.overhead/1` document."""
    console.print(Text(document["answer"]["text"]))
    for cell in document["cells"]:
        console.print(wording.joined(cell["peer"], cell["paired"], cell["received"]))
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
            console.print(wording.one_way_bound(_time(cell["clock_bound_ns"])))
        if cell["overhead_share_percent"] is not None:
            median = _time(cell["overhead_ns"]["median"])
            shares = (cell["overhead_share_percent"], cell["overhead_relative_percent"])
            console.print(wording.overhead(median, *shares))
        _accounts(console, cell)


def _accounts(console: Console, cell: Mapping[str, Any]) -> None:
    """What could not be joined: lost packets by place, stamps that are missing, pieces below 0."""
    lost = {place: count for place, count in cell["lost_at"].items() if count}
    console.print(
        wording.lost(sum(lost.values()), cell["sent"], [f"{count} {_PLACES[place]}" for place, count in lost.items()])
    )
    missed = {name: count for name, count in cell["not_captured"].items() if count}
    if missed:
        console.print(wording.not_captured([f"{count} {plain_name(name)}" for name, count in missed.items()]))
    negative = {name: count for name, count in cell["negative"].items() if count}
    if negative:
        console.print(wording.negative([f"{count} of {plain_name(name)}" for name, count in negative.items()]))
    dropped = {side: count for side, count in cell["dropped"].items() if count}
    if dropped:
        console.print(wording.dropped([f"{count} at the {side}" for side, count in dropped.items()]))
    for what, name in (("late", "late"), ("captured more than once", "copies"), ("captured, never sent", "unknown")):
        if cell[name]:
            console.print(f"{what}: {cell[name]}")
