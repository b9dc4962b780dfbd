"""A store over time: figures with their changes, in a report's section and as a page of its own."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

import numpy as np

from vtare.plots.over_time import over_time as drawn
from vtare.plots.quantity import quantity_of
from vtare.report.embed import SHAPES, embed, figure_data
from vtare.report.figures import Panel, Question, slug
from vtare.report.tables import Column, Table
from vtare.report.text import Shown
from vtare.watch.over_time import of_runs
from vtare.watch.sentences import facts_text, levels

if TYPE_CHECKING:
    from pathlib import Path

    from vtare.summary import Summary
    from vtare.watch.history import Series
    from vtare.watch.over_time import OverTime

_CAPTION: Final = (
    "Points: one for each {unit}. Lines: the median between two changes. Dashed: where the level changed (E-divisive "
    "means on ranks; of 1,000 points at most one alarms falsely)."
)


def change_question(summary: Summary) -> Question | None:
    """The figures of runs that changed while the campaign ran; None where none did."""
    rows = summary.runs.iter_rows(named=True)
    found = of_runs(rows, summary.sample_set.files, lambda experiment: summary.keys[experiment])
    changed = [one for one in found.series if found.of(one.key)]
    if not changed:
        return None
    return Question(
        "changes",
        "Which figures changed while it was measured?",
        _CAPTION.format(unit="run"),
        tuple(_panel(found, one) for one in changed),
        folded=len(changed) > 2,
    )


def _panel(found: OverTime, one: Series) -> Panel:
    places = [one.rounds.index(change.at) for change in found.of(one.key)]
    ends = [0, *places, len(one.values)]
    medians = [float(np.median(one.values[a:b])) for a, b in itertools.pairwise(ends)]
    name = slug("over-time", one.key.text)
    return Panel(
        one.key.text, drawn(one.at_s, one.values, places, levels=medians, name=name, quantity=one.key.quantity)
    )


def page(store: Path, found: OverTime) -> str:
    """What `vtare watch` keeps, as one HTML document: changes, then every figure over time, the changed ones first."""
    from vtare.report.build import environment, stylesheet, template_text

    ordered = sorted(found.series, key=lambda one: not found.of(one.key))
    panels = tuple(_panel(found, one) for one in ordered)
    question = Question("series", "How did each figure change?", _CAPTION.format(unit=found.unit), panels)
    charts = embed([question])
    context = {
        "store": store.name,
        "points": max(len(one.values) for one in found.series),
        "unit": found.unit,
        "figures": len(found.series),
        "changes": _table(found) if found.changes else None,
        "question_shown": question,
        "css": stylesheet(),
        "js": template_text("report.js"),
        "charts": charts,
        "shapes": SHAPES,
        "data": figure_data(panel.drawing for panel in panels),
    }
    return environment().get_template("over_time.html.j2").render(context)


def _table(found: OverTime) -> Table:
    columns = (
        Column("figure", "figure", numeric=False),
        Column("at", found.unit, about="the first point of the new level"),
        Column("found", "found at", about=f"the {found.unit} that showed it"),
        Column("before", "before"),
        Column("after", "after"),
        Column("change", "change", numeric=False),
        Column("facts", "facts of the machine", numeric=False),
    )
    rows = []
    for change in found.changes:
        text = quantity_of(change.key.quantity).text
        rows.append(
            (
                Shown(change.key.text, change.key.text, change.key.text),
                Shown(str(change.at), str(change.at), change.at),
                Shown(str(change.found), str(change.found), change.found),
                Shown(text(change.before), repr(change.before), change.before),
                Shown(text(change.after), repr(change.after), change.after),
                Shown(levels(change), levels(change), levels(change), "differs" if change.worse else ""),
                Shown(facts_text(change), facts_text(change), facts_text(change)),
            )
        )
    return Table("changes", "Changes over time", columns, tuple(rows))
