"""A campaign of forwarding guests among what Batalla et al. print: the index of the loads, and a few figures.

Throughput and latency by frame size and by J are plotted in the paper, not printed: nothing of them is overlaid. What
is printed was measured with KVM and Xen over a link of 1 Gbit/s: it shows orders of magnitude, and is no test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from vtare import plots
from vtare.number_text import significant, time_text
from vtare.papers.published import read_rows
from vtare.report import text
from vtare.report.figures import slug
from vtare.report.inference import scenario_name
from vtare.report.pages.model import Beside
from vtare.report.parts import Column, Panel, Question, Table
from vtare.report.text import Shown
from vtare.sentences import caveats as wording
from vtare.sentences import titles
from vtare.sentences.words import plural
from vtare.summary.rows import known_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vtare.report.layout import Layout
    from vtare.stats import Known
    from vtare.summary import Summary

_SAME: Final = 1e-6
"""Two closed forms are of the same loads where they differ by less."""
_FRAME: Final = "frame_byte"
_EXPERIMENT: Final = Column("experiment", "experiment", numeric=False)
#: Printed latencies: quantity and subject of the prose, the frames they are stated for, and how they bound.
_LATENCIES: Final = (
    ("latency_min", "XEN 64 B", (64,), "Xen: more than {}"),
    ("latency_max", "XEN 1518 B", (1518,), "Xen: at most {}"),
    ("latency_max", "KVM <512 B", (64, 128), "KVM: at most {}"),
    ("latency_min", "KVM large packets", (1518,), "KVM, large frames: above {}"),
    ("latency_at_950", "KVM 1518 B", (1518,), "KVM at 950 Mbit/s: about {}"),
)


def throughput_tables(summary: Summary, layouts: Mapping[str, Layout]) -> list[Table]:
    """The tables for which the paper prints something: loads, throughput, what an even load adds, latency."""
    chosen = list(layouts.values())
    made = (_loads(summary, chosen), _rates(summary, chosen), _gains(summary, chosen), _latencies(summary, chosen))
    return [table for table in made if table is not None]


def jain_questions(summary: Summary, layouts: Mapping[str, Layout]) -> list[Question]:
    """Jain's index over the share of guests that are loaded strongly: in the paper, as planned, as sent."""
    printed = tuple(
        plots.CurvePoint(k / n, index) for (n, k), index in sorted(_published_index().items(), key=lambda item: item[0])
    )
    guests = next(n for n, _ in _published_index())
    questions = []
    for layout in layouts.values():
        cells = _cells(summary, layout, "jain")
        by_guests: dict[int, list[dict[str, Any]]] = {}
        for row in cells:
            by_guests.setdefault(int(row["guests"]), []).append(row)
        lines = [plots.Curve(f"Batalla et al., {guests} guests, closed form", "published", printed)]
        for n, rows in sorted(by_guests.items()):
            planned = {
                int(row["loaded"]): float(row["jain_planned"]) for row in rows if row["jain_planned"] is not None
            }
            if any(abs(index - _published_index().get((n, k), -1.0)) > _SAME for k, index in planned.items()):
                points = tuple(plots.CurvePoint(k / n, index) for k, index in sorted(planned.items()))
                lines.append(plots.Curve(f"here, {plural(n, 'guest')}, closed form", "closed form here", points))
            sent = tuple(plots.CurvePoint(int(row["loaded"]) / n, float(row["jain"])) for row in rows)
            lines.append(plots.Curve(f"here, {plural(n, 'guest')}, frames sent", "cpu", sent))
        if cells:
            drawing = plots.curves(
                lines, name=slug("standing-jain", layout.experiment.name),
                x_label="share of the guests that are loaded strongly", y_label="Jain's index (1: all alike)",
            )  # fmt: skip
            title = titles.evenness(layout.experiment.name)
            questions.append(Question(drawing.name, title, "", (Panel(layout.experiment.title, drawing),)))
    return questions


def throughput_notes(summary: Summary, layouts: Mapping[str, Layout]) -> list[str]:
    """What cannot be compared, and why; empty where no guests forwarded."""
    chosen = list(layouts.values())
    cells = [row for layout in chosen for row in _cells(summary, layout, "jain")]
    if not cells:
        return []
    guests = sorted({int(row["guests"]) for row in cells})
    printed = next(n for n, _ in _published_index())
    platforms = sorted({str(row.get("platform") or "host") for row in cells})
    notes = [wording.NO_PRINTED_CURVE, wording.other_guests(platforms), wording.OTHER_LOADS]
    if guests != [printed]:
        notes.append(wording.other_numbers(printed, guests))
    return notes


def _cells(summary: Summary, layout: Layout, figure: str) -> list[dict[str, Any]]:
    cells = summary.cells.filter(pl.col("experiment") == layout.experiment.name)
    return sorted((row for row in cells.iter_rows(named=True) if known_of(row, figure)), key=layout.sort_key)


def _published_index() -> dict[tuple[int, int], float]:
    """Guests and strongly loaded guests -> the closed form of the paper."""
    return {(int(row["n_vms"]), int(row["k_strongly_loaded"])): float(row["j_eq5"])
            for row in read_rows("batalla_jain_index")}  # fmt: skip


def _loads(summary: Summary, layouts: Sequence[Layout]) -> Table | None:
    """Each number of loaded guests: the index of what was sent beside its closed form and that of the paper."""
    published = _published_index()
    rows = []
    for layout in layouts:
        by_load: dict[tuple[int, int], list[dict[str, Any]]] = {}
        for row in _cells(summary, layout, "jain"):
            by_load.setdefault((int(row["guests"]), int(row["loaded"])), []).append(row)
        for (n, k), some in sorted(by_load.items()):
            planned = next((float(row["jain_planned"]) for row in some if row["jain_planned"] is not None), None)
            sent = max((float(row["jain"]) for row in some), key=lambda value: abs(value - (planned or 0.0)))
            theirs = published.get((n, k))
            same = theirs is not None and planned is not None and abs(theirs - planned) < _SAME
            why = "other loads" if theirs is not None else f"not of {n}"
            rows.append((
                text.words(layout.experiment.name), text.count(n, ""), text.count(k, ""), text.number(sent, ""),
                text.number(planned, "not known"),
                text.missing("not known") if not planned else text.points(100 * (sent / planned - 1), ""),
                text.number(theirs, "") if same else text.missing(why),
            ))  # fmt: skip
    columns = (
        _EXPERIMENT,
        Column("guests", "guests"),
        Column("loaded", "loaded"),
        Column("jain", "J of frames sent", about="of the cell that is furthest from the closed form"),
        Column("jain_planned", "closed form here"),
        Column("jain_error_percent", "off by"),
        Column("published", "Batalla, equation 5", about="where guests and shares of the load are the same"),
    )
    return Table("standing-jain", "How even the loads are", columns, tuple(rows)) if rows else None


def _rates(summary: Summary, layouts: Sequence[Layout]) -> Table | None:
    """Throughput beside the one that is printed."""
    theirs = next(float(row["value_mbps"]) * 1e6 for row in read_rows("batalla_prose")
                  if (row["quantity"], row["subject"]) == ("throughput", "KVM 1518 B"))  # fmt: skip
    rows = [
        (
            text.words(layout.experiment.name), text.words(scenario_name(layout, row)),
            text.of_row(row, "throughput_bit_per_s", "", text.rate), text.rate(theirs, ""),
            text.words(_beside(known_of(row, "throughput_bit_per_s"), theirs)),
        )
        for layout in layouts
        for row in _cells(summary, layout, "throughput_bit_per_s")
        if layout.number(_FRAME, row[_FRAME]) == 1518
    ]  # fmt: skip
    columns = (
        _EXPERIMENT,
        Column("cell", "cell", numeric=False),
        Column("throughput_bit_per_s", "throughput here"),
        Column("published_bit_per_s", "Batalla, KVM", about="that of their link: a lower bound"),
        Column("standing", "standing", numeric=False),
    )
    return Table("standing-rates", "Throughput of frames of 1518 B", columns, tuple(rows)) if rows else None


def _beside(known: Known | None, theirs: float) -> str:
    if known is not None and known.low > theirs:
        return "above the paper's link"
    return "below the paper's link" if known is not None and known.high <= theirs else "not known: a bound"


def _gains(summary: Summary, layouts: Sequence[Layout]) -> Table | None:
    """What the most even load passes over what the least even one does, all else the same."""
    theirs = next(float(row["value_as_printed"]) for row in read_rows("batalla_prose")
                  if row["quantity"] == "throughput_ratio_J1_over_J0.09")  # fmt: skip
    rows = []
    for layout in layouts:
        others = [key for key in layout.keys if key != "loaded"]
        by_place: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in _cells(summary, layout, "median"):
            if row["jain"] is not None and row["median"] is not None:
                by_place.setdefault(tuple(row[key] for key in others), []).append(row)
        for place, some in by_place.items():
            least, most = (pick(some, key=lambda row: row["jain"]) for pick in (min, max))
            if least is most or not least["median"]:
                continue
            where = ", ".join(
                layout.key_text(key, label)
                for key, label in zip(others, place, strict=True)
                if len(layout.order[key]) > 1
            )
            rows.append((
                text.words(layout.experiment.name), text.words(where or "all"), text.number(least["jain"], ""),
                text.number(most["jain"], ""), text.number(most["median"] / least["median"], ""),
                Shown(f"Xen: {significant(theirs, 1)} on average, J 0.09 to 1", str(theirs), theirs),
            ))  # fmt: skip
    columns = (
        _EXPERIMENT,
        Column("where", "where", numeric=False),
        Column("jain_least", "from J"),
        Column("jain_most", "to J"),
        Column("throughput_ratio", "times as much", about="throughput with the most even load over the least even"),
        Column("published", "Batalla", numeric=False),
    )
    return Table("standing-gains", "What an even load adds", columns, tuple(rows)) if rows else None


def _latencies(summary: Summary, layouts: Sequence[Layout]) -> Table | None:
    """Latency beside what is printed for frames of that size."""
    prose = {(row["quantity"], row["subject"]): row for row in read_rows("batalla_prose")}
    rows = []
    for layout in layouts:
        for row in _cells(summary, layout, "latency_ns"):
            frame = layout.number(_FRAME, row[_FRAME])
            printed = [
                says.format(time_text(1e3 * float(prose[quantity, subject]["value_us"])))
                for quantity, subject, frames, says in _LATENCIES
                if frame in frames
            ]
            if printed:
                rows.append((
                    text.words(layout.experiment.name), text.words(scenario_name(layout, row)),
                    text.time(row["latency_ns"], ""),
                    text.of_row(row, "throughput_bit_per_s", "not reached", text.rate),
                    text.words("; ".join(printed)),
                ))  # fmt: skip
    columns = (
        _EXPERIMENT,
        Column("cell", "cell", numeric=False),
        Column("latency_ns", "latency here", about="of all frames at the throughput, median"),
        Column("throughput_bit_per_s", "at"),
        Column("published", "Batalla", numeric=False),
    )
    return Table("standing-latencies", "Latency of frames", columns, tuple(rows)) if rows else None


def throughput_standing(summary: Summary, layouts: dict[str, Layout], papers: tuple[str, ...]) -> Beside:
    """Everything of this module."""
    return Beside(
        tuple(throughput_tables(summary, layouts)),
        tuple(jain_questions(summary, layouts)),
        tuple(throughput_notes(summary, layouts)),
    )
