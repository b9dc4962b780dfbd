"""Sentences of an experiment that sets two ways side by side: which is best under each load, and what was completed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vtare.report.sentences import Scene, completion, is_capped, late_figure, load_phrase, main_figure
from vtare.sentences import answers as wording
from vtare.sentences.template import Sentence

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vtare.summary import Summary

_FAR = 2.0


def details_of(summary: Summary, scene: Scene) -> list[Sentence]:
    """The further sentences of an experiment that sets two ways side by side."""
    sentences: list[Sentence] = []
    sleep = scene.layout.experiment.record.until is not None
    for load in scene.loads if sleep else scene.loads[:1]:
        sentences += _best(summary, scene, load)
        sentences += _capped(summary, scene, load)
    return sentences


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
    sentences: list[Sentence] = []
    phrase, sleep = load_phrase(summary, load), layout.experiment.record.until is not None
    tied = _ties(scene, best, rows)
    if best[layout.series] not in (scene.system, scene.ours) and scene.ours not in tied:
        least = wording.least_miss if sleep else wording.least_cost
        is_least = least(phrase, str(best[layout.series]), main_figure(layout, best))
        sentences.append(wording.several([is_least, wording.ties(tied)]))
    unloaded = [row for row in scene.at(scene.loads[0]) if row[layout.series] != "clock_monotonic_coarse"]
    if any(map(is_capped, unloaded)):
        return sentences
    favourite = str(min(unloaded, key=lambda row: layout.value(row) or 0.0)[layout.series]) if unloaded else None
    fallen = next((row for row in rows if row[layout.series] == favourite and row is not best), None)
    bottom, now = layout.value(best), None if fallen is None else layout.value(fallen)
    if fallen is not None and bottom is not None and now is not None and now > _FAR * max(bottom, 0.0):
        ends = wording.best_without_load_ends if sleep else wording.best_without_load_costs
        sentences.append(ends(phrase, str(favourite), main_figure(layout, fallen)))
    return sentences


def _least_late(summary: Summary, scene: Scene, load: str | None, rows: list[dict[str, Any]]) -> list[Sentence]:
    """The least share of the time spent late, where a time limit ended runs: medians of them rank survivors."""
    known = [row for row in rows if row["late_fraction"] is not None]
    if len(known) < 2:
        return []
    series = scene.layout.series
    best = min(known, key=lambda row: float(row["late_fraction"]))
    ends = best["late_fraction_high"]
    tied = [str(row[series]) for row in known if row is not best and ends is not None
            and row["late_fraction_low"] is not None and row["late_fraction_low"] <= ends]  # fmt: skip
    least = wording.least_time_late(load_phrase(summary, load), str(best[series]), late_figure(best))
    return [wording.several([least, wording.ties(tied)])]


def _capped(summary: Summary, scene: Scene, load: str | None) -> list[Sentence]:
    """What was completed of the cells whose runs a time limit ended early, and are not part of the answer."""
    series = scene.layout.series
    capped = [row for row in scene.at(load) if is_capped(row) and row[series] not in (scene.system, scene.ours)]
    if not capped:
        return []
    completions = [wording.one_completed(str(row[series]), *completion(row)) for row in capped]
    return [wording.some_completed(load_phrase(summary, load), completions)]


def _ties(scene: Scene, best: Mapping[str, Any], rows: list[dict[str, Any]]) -> list[str]:
    """The others whose interval reaches that of the best."""
    layout = scene.layout
    top = layout.ends(best)
    if top is None:
        return []
    others = [(row, layout.ends(row)) for row in rows if row is not best]
    return [str(row[layout.series]) for row, ends in others if ends is not None and ends[0] <= top[1]]
