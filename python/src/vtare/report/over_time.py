"""A store over time: figures with their changes, in a report's section and as a page of its own."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from vtare.number_text import change_text
from vtare.plots.over_time import over_time as drawn
from vtare.quantity_text import quantity_of
from vtare.report import text
from vtare.report.figures import slug
from vtare.report.frame import lab_version
from vtare.report.layout import figure_name, key_name
from vtare.report.page import HtmlPage, render
from vtare.report.parts import Column, Panel, Question, Section, Table
from vtare.report.text import Shown
from vtare.sentences import captions, titles
from vtare.sentences import comparison as wording
from vtare.series.over_time import answer, of_runs
from vtare.series.sentences import WORDS, facts_text, since

if TYPE_CHECKING:
    from pathlib import Path

    from vtare.series.model import Change, Series, SeriesKey
    from vtare.series.over_time import OverTime
    from vtare.summary import Summary


def change_question(summary: Summary) -> Question | None:
    """The figures of runs that changed while the campaign ran; None where none did."""
    rows = summary.runs.iter_rows(named=True)
    history = of_runs(rows, summary.sample_set.files, lambda experiment: summary.keys[experiment])
    changed = [one for one in history.series if history.of(one.key)]
    if not changed:
        return None
    return Question(
        "changes",
        titles.CHANGES_WHILE_MEASURED,
        captions.over_time("run"),
        tuple(_panel(history, one) for one in changed),
        folded=len(changed) > 2,
    )


def _panel(found: OverTime, one: Series) -> Panel:
    places = [one.rounds.index(change.at) for change in found.of(one.key)]
    ends = [0, *places, len(one.values)]
    medians = [float(np.median(one.values[a:b])) for a, b in itertools.pairwise(ends)]
    name = slug("over-time", one.key.text)
    return Panel(
        _name(one.key), drawn(one.at_s, one.values, places, levels=medians, name=name, quantity=one.key.quantity)
    )


def _name(key: SeriesKey) -> str:
    """Such as `p99 miss: sleep, method usleep, target 1 ms`."""
    figure = figure_name(key.quantity, short=True)
    of = figure if key.figure == key.quantity else f"{figure_name(key.figure, short=True)} {figure}"
    return f"{of}: {', '.join((key.experiment, *(f'{key_name(name)} {level}' for name, level in key.labels)))}"


def page(store: Path, found: OverTime) -> str:
    """What `vtare watch` keeps, as one HTML document: the answer, the newest change, then every figure over time."""
    newest_first = sorted(found.changes, key=lambda change: (change.worse is not True, -change.found_s))
    first = next((one for change in newest_first for one in found.series if one.key == change.key), None)
    changed = [one for one in found.series if found.of(one.key) and one is not first]
    rest = [one for one in found.series if not found.of(one.key)]
    caption = captions.over_time(found.unit)
    shown = [
        Question(name, title, caption, tuple(_panel(found, one) for one in series), folded=folded)
        for name, title, series, folded in (
            ("newest", titles.CHANGE, [first] if first else [], False),
            ("series", titles.OTHER_CHANGES, changed, False),
            ("unchanged", titles.UNCHANGED, rest, bool(found.changes)),
        )
        if series
    ]
    headline = shown.pop(0) if first else None
    most = max(len(one.values) for one in found.series)
    return render(HtmlPage(
        title=f"{store.name} over time: vtare report",
        origin=f"vtare report · {store.name}",
        about=f"{len(found.series)} figures over at most {most} {found.unit}s",
        question=titles.WORSE,
        sentences=[(text.keep(line),) for line in (answer(found), *map(_sentence, newest_first[:1]))],
        headline=headline,
        headline_about=_name(first.key) if first else "",
        main=_table(found) if found.changes else None,
        main_title=titles.CHANGES,
        sections=[Section("figures", "Every figure over time", tuple(shown))] if shown else [],
        footer=[f"vtare {lab_version()}"],
    ))  # fmt: skip


def _sentence(change: Change) -> str:
    newest, number = wording.NEWEST_WORSE if change.worse else wording.NEWEST, quantity_of(change.key.quantity).text
    share = f" ({change_text(change.ratio)})" if change.ratio is not None else ""
    levels = (number(change.before), number(change.after), share)
    return wording.newest_change(newest, _name(change.key), *levels, since(change), facts_text(change))


def _table(found: OverTime) -> Table:
    known = any(change.facts for change in found.changes)
    columns = (
        Column("figure", "figure", numeric=False),
        Column("before", "before", about="the median of the level"),
        Column("after", "after", about="the median of the level"),
        Column("change", "change"),
        Column("verdict", "verdict", numeric=False),
        Column("since", "since", numeric=False, about="the first point of the new level, UTC"),
        Column("at", found.unit, about="that of the first point"),
        Column("found", "shown at", about=f"the {found.unit} that showed it"),
        *([Column("facts", "facts that changed there", numeric=False)] if known else []),
    )
    rows = []
    for change in reversed(found.changes):
        verdict = WORDS[change.worse]
        kind = "" if change.worse is None else verdict
        facts = ", ".join(f"{name} {before} to {after}" for name, before, after in change.facts)
        rows.append((
            text.words(_name(change.key)),
            text.figure(change.key.quantity, change.before, ""),
            text.figure(change.key.quantity, change.after, ""),
            text.missing("from 0") if change.ratio is None
            else Shown(text.keep(change_text(change.ratio)), repr(change.ratio - 1), change.ratio),
            Shown(verdict, verdict, verdict, kind),
            text.words(since(change).removesuffix(" UTC")),
            text.count(change.at, ""),
            text.count(change.found, ""),
            *([text.words(facts or "none known")] if known else []),
        ))  # fmt: skip
    return Table("changes", "Changes over time", columns, tuple(rows))
