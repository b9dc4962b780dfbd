"""Sentences of an experiment that sets two ways side by side: which is best under each load, and what was completed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vtare.report.sentences import Scene, completed_words, is_capped, late_figure, load_phrase, main_figure
from vtare.sentences.template import Sentence
from vtare.sentences.words import listing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vtare.summary import Summary

_FAR = 2.0


def details_of(summary: Summary, scene: Scene) -> list[Sentence]:
    """The further sentences of an experiment that sets two ways side by side."""
    found: list[Sentence] = []
    sleep = scene.layout.experiment.record.until is not None
    for load in scene.loads if sleep else scene.loads[:1]:
        found += _best(summary, scene, load)
        found += _capped(summary, scene, load)
    return found


def _best(summary: Summary, scene: Scene, load: str | None) -> list[Sentence]:
    """The least of all under one load where it clearly beats the two ways; how the best without load fares there."""
    layout = scene.layout
    # The coarse clock is cheap because it advances every few milliseconds only: it is no rival.
    rows = [row for row in scene.at(load) if row[layout.series] != "clock_monotonic_coarse"]
    if any(map(is_capped, rows)):
        return _least_late(summary, scene, load, rows)
    best = min(rows, key=lambda row: layout.value(row) or 0.0, default=None)
    if best is None or len(rows) < 2:
        return []
    found: list[Sentence] = []
    phrase, sleep = load_phrase(summary, load), layout.experiment.record.until is not None
    verb = "ends" if sleep else "costs"
    ties = _ties(scene, best, rows)
    if best[layout.series] not in (scene.system, scene.ours) and scene.ours not in ties:
        extra = f"; its interval meets that of {listing(ties)}" if ties else ""
        start = f"{phrase}, the least {'miss' if sleep else 'cost'} is that of {best[layout.series]}: it {verb} "
        found.append((start, main_figure(layout, best), f"{extra}."))
    unloaded = [row for row in scene.at(scene.loads[0]) if row[layout.series] != "clock_monotonic_coarse"]
    if any(map(is_capped, unloaded)):
        return found
    favourite = str(min(unloaded, key=lambda row: layout.value(row) or 0.0)[layout.series]) if unloaded else None
    fallen = next((row for row in rows if row[layout.series] == favourite and row is not best), None)
    least, now = layout.value(best), None if fallen is None else layout.value(fallen)
    if fallen is not None and least is not None and now is not None and now > _FAR * max(least, 0.0):
        found.append((f"{phrase}, {favourite}, the best without load, {verb} ", main_figure(layout, fallen), "."))
    return found


def _least_late(summary: Summary, scene: Scene, load: str | None, rows: list[dict[str, Any]]) -> list[Sentence]:
    """The least share of the time spent late, where a time limit ended runs: medians of them rank survivors."""
    known = [row for row in rows if row["late_fraction"] is not None]
    if len(known) < 2:
        return []
    series = scene.layout.series
    best = min(known, key=lambda row: float(row["late_fraction"]))
    ends = best["late_fraction_high"]
    ties = [str(row[series]) for row in known if row is not best and ends is not None
            and row["late_fraction_low"] is not None and row["late_fraction_low"] <= ends]  # fmt: skip
    extra = f"; its interval meets that of {listing(ties)}" if ties else ""
    start = f"{load_phrase(summary, load)}, the least time late is that of {best[series]}: "
    return [(start, late_figure(best), f"{extra}.")]


def _capped(summary: Summary, scene: Scene, load: str | None) -> list[Sentence]:
    """What was completed of the cells whose runs a time limit ended early, and are not part of the answer."""
    series = scene.layout.series
    capped = [row for row in scene.at(load) if is_capped(row) and row[series] not in (scene.system, scene.ours)]
    if not capped:
        return []
    listed = ", ".join(completed_words(str(row[series]), row) for row in capped)
    return [(f"{load_phrase(summary, load)}, a time limit ended runs early: {listed}.",)]


def _ties(scene: Scene, best: Mapping[str, Any], rows: list[dict[str, Any]]) -> list[str]:
    """The others whose interval reaches that of the best."""
    layout = scene.layout
    top = layout.ends(best)
    if top is None:
        return []
    others = [(row, layout.ends(row)) for row in rows if row is not best]
    return [str(row[layout.series]) for row, ends in others if ends is not None and ends[0] <= top[1]]
