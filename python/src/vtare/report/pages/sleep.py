"""What a report shows of sleeps: how late they end, and what load does to that."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from vtare.number_text import percent_text
from vtare.papers.standing import place_sleep_miss
from vtare.report.details import details_of
from vtare.report.pages.model import READINGS, RUNS, Answered, Page, Placement
from vtare.report.sentences import Scene, comparison, load_phrase, ratio_figure, scene_of
from vtare.report.side_by_side import by_time, completed, platform_changes, side_by_side
from vtare.sentences import answers as wording
from vtare.sentences import captions
from vtare.sentences.template import FigureText, Sentence
from vtare.stats import Verdict
from vtare.summary.contrasts import ComparisonRow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vtare.report.layout import Layout
    from vtare.summary import Summary


def _sentences(summary: Summary, layout: Layout) -> Answered:
    scene = scene_of(summary, layout)
    return ([], []) if scene is None else (_answer(summary, scene), details_of(summary, scene))


def _answer(summary: Summary, scene: Scene) -> list[Sentence]:
    """What the sleep really takes: without load, and under the load that moves the system's sleep most."""
    label = scene.rows[0].get("target_ns")
    target = "" if label is None else f" of {scene.layout.level('target_ns', label)}"
    base = scene.loads[0]
    late, shown = by_time(scene, base), side_by_side(scene, base)
    if base is None:
        ends = (wording.any_sleep_is_late if late else wording.any_sleep_ends)(f"{target}{scene.elsewhere}", shown)
    else:
        phrase = f"{load_phrase(summary, base)}{scene.elsewhere}"
        ends = (wording.sleep_is_late if late else wording.sleep_ends)(phrase, target, shown)
    sentences = [wording.several([ends, platform_changes(summary, scene, base), *completed(scene, base)])]
    busy = _worst_load(summary, scene)
    if busy is not None:
        it_ends = wording.it_is_late if by_time(scene, busy) else wording.it_ends
        sentences.append(wording.several([
            it_ends(load_phrase(summary, busy), side_by_side(scene, busy, again=True)),
            _verdict(summary, scene, busy),
            # Beside two ways the tail could be of either.
            _tail_change(summary, scene.row(scene.system, busy)) if scene.ours is None else (),
            *completed(scene, busy),
        ]))  # fmt: skip
    return sentences


def _tail_change(summary: Summary, cell: Mapping[str, Any] | None) -> Sentence:
    """What the load makes of the tail of the system's way: `Its p99 is 12.1x (3.40 to 43.0) that of idle.`."""
    if cell is None:
        return ()
    keys = summary.keys[cell["experiment"]]
    rows = (
        row for row in summary.tails if (row.experiment, row.factor, row.tail) == (cell["experiment"], "load", "p99")
    )
    row = next((row for row in rows if all(row.labels.get(key) == cell[key] for key in keys)), None)
    if row is not None and row.without + row.without_baseline and cell["above_1ms"] is not None:
        return _exceedances(summary, cell, row)
    if row is None or row.ratio is None or row.judged_low is None:
        return ()
    sure = row.p_adjusted is not None and row.p_adjusted <= summary.plan.analysis.alpha
    ratio = ratio_figure(row.ratio, row.judged_low, row.judged_high)
    return wording.p99_ratio(ratio, row.baseline, sure=sure)


def _exceedances(summary: Summary, cell: Mapping[str, Any], row: ComparisonRow) -> Sentence:
    """How often it is more than 1 ms late, where some runs have too few readings for a p99: what all runs have."""
    keys = summary.keys[cell["experiment"]]
    wanted = {**{key: cell[key] for key in keys}, "load": row.baseline}
    rows = summary.cells.filter(pl.col("experiment") == cell["experiment"]).iter_rows(named=True)
    base = next((one for one in rows if all(one[key] == label for key, label in wanted.items())), None)
    share, runs = FigureText(percent_text(cell["above_1ms"])), row.n_runs + row.without
    if base is None or base["above_1ms"] is None:
        return wording.late_by_1ms(share, row.n_runs, runs)
    there = FigureText(percent_text(base["above_1ms"]))
    return wording.late_by_1ms_against(share, there, row.baseline, row.n_runs, runs)


def _worst_load(summary: Summary, scene: Scene) -> str | None:
    """The load that moves the system's way most; the last one where no effect could be estimated."""
    others = [load for load in scene.loads[1:] if load is not None and scene.row(scene.system, load) is not None]
    effect = {}
    for load in others:
        row = comparison(summary, scene.layout, scene.row(scene.system, load), "load")
        if row is not None and row.ratio:
            effect[load] = abs(math.log(row.ratio))
    return max(effect, key=lambda load: effect[load]) if effect else (others[-1] if others else None)


def _verdict(summary: Summary, scene: Scene, load: str) -> Sentence:
    """Whether the two ways differ from the machine without load; empty where there are too few runs."""
    compared = []
    for series in (scene.system, scene.ours):
        row = comparison(summary, scene.layout, scene.row(series, load), "load")
        if series is not None and row is not None:
            compared.append((scene.name(series).removesuffix(" adaptive sleep"), row))
    if not compared:
        return ()
    base = compared[0][1].baseline
    margin = f"{summary.plan.analysis.margin_percent:.3g} %"
    words = [_word(row.verdict) for _, row in compared]
    if len(compared) > 1 and words[0] != words[1]:
        return wording.against(base, compared[0][0], words[0], compared[1][0], words[1])
    if words[0] == wording.DIFFERS:
        return wording.differs(base) if len(compared) == 1 else wording.both_differ(base)
    if words[0] == wording.IS_EQUAL:
        return wording.equals(base, margin) if len(compared) == 1 else wording.both_equal(base, margin)
    return wording.no_difference_shown(base)


def _word(verdict: Verdict) -> str:
    if verdict.is_different:
        return wording.DIFFERS
    return wording.IS_EQUAL if verdict is Verdict.EQUIVALENT else wording.NOT_SIGNIFICANT


PAGE: Final = Page(
    sentences=_sentences,
    system={"usleep": "usleep", "clock_nanosleep": "clock_nanosleep"},
    ours={
        "adaptive": "vtare's adaptive sleep", "two_phase_capped": "two_phase_capped", "two_phase": "two_phase",
    },
    columns=(*READINGS, "cpu_fraction", "disturbed_fraction", *RUNS),
    papers=("kirova2019",),
    placement=Placement(
        captions.AMONG_SLEEPS,
        place_sleep_miss,
    ),
)  # fmt: skip
