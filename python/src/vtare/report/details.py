"""What stands below the main figure: the claims that the answer has no room for, one figure each."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import polars as pl

from vtare.plots.format import ratio_text, significant
from vtare.report import text
from vtare.report.facts import quantum_of
from vtare.report.layout import LATE
from vtare.report.sentences import (
    FigureText,
    Scene,
    Sentence,
    comparison,
    completed_words,
    is_capped,
    late_figure,
    load_phrase,
    main_figure,
    ratio_figure,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vtare.summary import Summary

_FAR = 2.0


def details_of(summary: Summary, scene: Scene) -> list[Sentence]:
    """The further claims of an experiment that sets two ways side by side."""
    found: list[Sentence] = []
    sleep = scene.layout.experiment.record.until is not None
    for load in scene.loads if sleep else scene.loads[:1]:
        found += _less(summary, scene, load)
        found += _effects(summary, scene, load) if sleep and load != scene.loads[0] else []
        found += _best(summary, scene, load)
        found += _capped(summary, scene, load)
    return found if sleep else found + _load_matters(summary, scene)


def _effects(summary: Summary, scene: Scene, load: str | None) -> list[Sentence]:
    """What a load does to each of the two ways, where it does something."""
    found: list[Sentence] = []
    for series in (scene.system, scene.ours):
        row = comparison(summary, scene.layout, scene.row(series, load), "load")
        if series is None or row is None or row["verdict"] != "differs":
            continue
        ratio = ratio_figure(row["ratio"], row["ratio_low"], row["ratio_high"])
        by_time = row["quantity"] == LATE
        start = f"{load_phrase(summary, load)}, {scene.name(series)} {'spends' if by_time else 'ends'} "
        ending = " the share of its time late that it does without that load." if by_time else (
            " as late as without that load."
        )  # fmt: skip
        found.append((start, ratio, ending))
    return found


def _less(summary: Summary, scene: Scene, load: str | None) -> list[Sentence]:
    """How much less vtare's way takes than the system's under one load, and at what price."""
    ours, system = scene.row(scene.ours, load), scene.row(scene.system, load)
    if scene.ours is None or ours is None or system is None:
        return []
    ratio = less_than(summary, scene, ours, system)
    if ratio is None:
        return []
    verb = "misses by" if scene.layout.experiment.record.until is not None else "costs"
    if is_capped(ours) or is_capped(system):
        verb = "is late for a share of its time that is"
    share = ours.get("cpu_fraction")
    price: tuple[str | FigureText, ...] = ()
    if share is not None:
        price = (" and takes ", FigureText(f"{significant(100 * share)} %"), " of a CPU")
    start = f"{load_phrase(summary, load)}, {scene.name(scene.ours)} {verb} "
    return [(start, ratio, f" than {scene.name(scene.system)}", *price, ".")]


def less_than(
    summary: Summary, scene: Scene, ours: Mapping[str, Any], system: Mapping[str, Any], quantum_ns: float | None = None
) -> FigureText | None:
    """How many times less one cell takes than its baseline; None where their comparison does not show that.

    A median of a few clock steps is only known to a step: then the ratio is stated as a lower bound. `quantum_ns` is
    that step, the machine's where it is left out.
    """
    layout = scene.layout
    row = comparison(summary, layout, ours, layout.series)
    if row is None or row["baseline"] != system[layout.series] or row["verdict"] != "differs":
        return None
    if not 0 < row["ratio"] < 1:
        return None
    step = quantum_ns if quantum_ns is not None else quantum_of(summary.machines)
    value, ends, above = layout.value(ours), layout.ends(ours), layout.ends(system)
    if layout.is_median and row["quantity"] != LATE and step is not None and value is not None and value < 5 * step:
        if ends is None or above is None:
            return None
        least = (above[0] - step) / (ends[1] + step)
        return FigureText(f"over {ratio_text(float(f'{least:.1e}'))} less") if least >= 1.5 else None
    if row["ratio_low"] is None or row["ratio_high"] is None or row["ratio_low"] <= 0:
        return None
    return ratio_figure(1 / row["ratio"], 1 / row["ratio_high"], 1 / row["ratio_low"], " less")


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
        extra = f"; its interval meets that of {text.listing(ties)}" if ties else ""
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
    extra = f"; its interval meets that of {text.listing(ties)}" if ties else ""
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


def _load_matters(summary: Summary, scene: Scene) -> list[Sentence]:
    """What the background loads do to the whole experiment."""
    name = scene.layout.experiment.name
    frame = summary.comparisons.filter((pl.col("experiment") == name) & (pl.col("factor") == "load"))
    rows = list(frame.iter_rows(named=True))
    if not rows or all(row[scene.layout.series] in (scene.system, scene.ours) for row in rows):
        # The answer has these two already.
        return []
    title = scene.layout.experiment.title
    total, baseline = text.plural(len(rows), "comparison"), text.level(rows[0]["baseline"])
    differs = [row for row in rows if row["verdict"] == "differs" and row["ratio"] and row["ratio"] > 0]
    undecided = sum(row["verdict"] == "undecided" for row in rows)
    if differs:
        most = max(differs, key=lambda row: abs(math.log(row["ratio"])))
        ratio = ratio_figure(most["ratio"], most["ratio_low"], most["ratio_high"])
        where = f"most for {most[scene.layout.series]} under {text.level(most['level'])}: "
        return [(f"{title}: load changes it in {len(differs)} of {total} with {baseline}, {where}", ratio, ".")]
    if undecided:
        return [(f"{title}: the data do not show whether load changes it in {undecided} of {total} with {baseline}.",)]
    margin = f"{summary.plan.analysis.margin_percent:g} %"
    return [(f"{title}: no background load changes it by more than {margin} ({total} with {baseline}).",)]
