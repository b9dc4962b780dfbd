"""What a report shows of clocks: what one reading costs, and whether load changes that."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from vtare.number_text import time_text
from vtare.papers.standing import place_timer_cost
from vtare.report import text
from vtare.report.details import details_of
from vtare.report.facts import quantum_of
from vtare.report.pages.model import READINGS, RUNS, Answered, Page, Placement
from vtare.report.sentences import Scene, comparison, load_phrase, ratio_figure, scene_of
from vtare.report.side_by_side import platform_changes, side_by_side
from vtare.sentences import answers as wording
from vtare.sentences import captions, caveats
from vtare.sentences.template import Sentence
from vtare.stats import Verdict

if TYPE_CHECKING:
    from vtare.report.layout import Layout
    from vtare.summary import Summary


def _sentences(summary: Summary, layout: Layout) -> Answered:
    scene = scene_of(summary, layout)
    return ([], []) if scene is None else (_answer(summary, scene), details_of(summary, scene))


def _answer(summary: Summary, scene: Scene) -> list[Sentence]:
    """What reading the clock costs without load, and whether load changes that."""
    base = scene.loads[0]
    costs = side_by_side(scene, base, again=True)
    if base is None:
        cost = wording.clock_cost_of(scene.elsewhere, costs)
    else:
        cost = wording.clock_cost(f"{load_phrase(summary, base)}{scene.elsewhere}", costs)
    return [wording.several([cost, platform_changes(summary, scene, base), _load_changes(summary, scene)])]


def _load_changes(summary: Summary, scene: Scene) -> Sentence:
    rows = []
    for load in scene.loads[1:]:
        for series in (scene.system, scene.ours):
            row = comparison(summary, scene.layout, scene.row(series, load), "load")
            if series is not None and row is not None:
                rows.append((series, row))
    if not rows:
        return ()
    differs = [(series, row) for series, row in rows if row.verdict.is_different]
    if differs:
        series, most = max(differs, key=lambda found: abs(math.log(found[1].ratio or 1.0)))
        ratio = ratio_figure(most.ratio or 1.0, most.judged_low, most.judged_high)
        return wording.load_changes_most(scene.name(series), most.level, ratio)
    same = sum(row.verdict is Verdict.EQUIVALENT for _, row in rows)
    margin = summary.plan.analysis.margin_percent
    if same == len(rows):
        return wording.no_load_changes(margin)
    return wording.some_load_changes(margin, same, len(rows)) if same else wording.LOAD_CHANGE_UNKNOWN


def _about(summary: Summary, layout: Layout) -> str:
    """What two kinds of figures a section has."""
    if layout.is_median:
        return ""
    quantum = quantum_of(summary.machines)
    steps = f"steps of {text.keep(time_text(quantum))}" if quantum is not None else "the clock's steps"
    return captions.read_cost(steps)


PAGE: Final = Page(
    sentences=_sentences,
    columns=("read_cost_ns", "read_cost_interval_ns", *READINGS, *RUNS),
    readings="differences between readings",
    about=_about,
    caveats=(caveats.TIMER_HISTOGRAM,),
    system={
        "clock_monotonic": "the kernel's clock_gettime",
        "gettimeofday": "the kernel's gettimeofday",
        "clock_monotonic_raw": "the kernel's raw clock",
        "clock_monotonic_syscall": "a system call",
    },
    ours={"vtare": "vtare's clock", "vtare_ordered": "vtare's ordered clock"},
    papers=("kirova2019",),
    placement=Placement(
        captions.AMONG_TIMERS,
        place_timer_cost,
    ),
)
