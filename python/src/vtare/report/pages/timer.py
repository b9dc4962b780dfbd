"""What a report shows of clocks: what one reading costs, and whether load changes that."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from vtare.papers import place_timer_cost
from vtare.plots.format import time_text
from vtare.report import text
from vtare.report.details import details_of
from vtare.report.facts import quantum_of
from vtare.report.pages.model import READINGS, RUNS, Answered, Page, Placement
from vtare.report.sentences import Scene, comparison, load_phrase, ratio_figure, scene_of
from vtare.report.side_by_side import platform_changes, side_by_side
from vtare.sentences.template import FigureText, Sentence
from vtare.sentences.words import plural
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
    start = f"{load_phrase(summary, base)}{scene.elsewhere}, one reading of the clock costs "
    if base is None:
        start = f"One reading of the clock{scene.elsewhere} costs "
    pieces = [start, *side_by_side(scene, base, again=True), *platform_changes(summary, scene, base)]
    return [(*pieces, *_load_changes(summary, scene), ".")]


def _load_changes(summary: Summary, scene: Scene) -> list[str | FigureText]:
    rows = []
    for load in scene.loads[1:]:
        for series in (scene.system, scene.ours):
            row = comparison(summary, scene.layout, scene.row(series, load), "load")
            if series is not None and row is not None:
                rows.append((series, row))
    if not rows:
        return []
    differs = [(series, row) for series, row in rows if row.verdict.is_different]
    if differs:
        series, most = max(differs, key=lambda found: abs(math.log(found[1].ratio or 1.0)))
        ratio = ratio_figure(most.ratio or 1.0, most.ratio_low, most.ratio_high)
        return [f"; load changes that, most for {scene.name(series)} under {most.level}: ", ratio]
    same = sum(row.verdict is Verdict.EQUIVALENT for _, row in rows)
    margin = f"{summary.plan.analysis.margin_percent:g} %"
    if same == len(rows):
        return [f"; no load changes that by more than {margin}"]
    if not same:
        return ["; the data do not show that load changes that"]
    rest = len(rows) - same
    return [
        f"; load changes that by less than {margin} in {same} of {plural(len(rows), 'comparison')}, "
        f"{rest} {'is' if rest == 1 else 'are'} inconclusive"
    ]


def _about(summary: Summary, layout: Layout) -> str:
    """What two kinds of figures a section has."""
    if layout.is_median:
        return ""
    quantum = quantum_of(summary.machines)
    steps = f"steps of {text.keep(time_text(quantum))}" if quantum is not None else "the clock's steps"
    return (
        "The read cost is the time of a tight loop of reads over their number; all that shows single readings (tails, "
        f"boxes, raw readings, quantiles) is the difference between one reading and the next, which moves in {steps} "
        "but keeps every disturbance."
    )


PAGE: Final = Page(
    sentences=_sentences,
    columns=("read_cost_ns", "read_cost_interval_ns", *READINGS, *RUNS),
    readings="differences between readings",
    about=_about,
    caveats=(
        "Timer readings up to the plan's tail threshold are kept as a lossless histogram without their position; "
        "only the readings above it can be shown in the order they were taken.",
    ),
    system={
        "clock_monotonic": "the kernel's clock_gettime",
        "gettimeofday": "the kernel's gettimeofday",
        "clock_monotonic_raw": "the kernel's raw clock",
        "clock_monotonic_syscall": "a system call",
    },
    ours={"vtare": "vtare's clock", "vtare_ordered": "vtare's ordered clock"},
    papers=("kirova2019",),
    placement=Placement(
        "Grey: median and half interquartile range as printed in Kirova 2019, Table 1. "
        "Bold: this machine, the cost of a read in a tight loop, with its {level} interval.",
        place_timer_cost,
    ),
)
