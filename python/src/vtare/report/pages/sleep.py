"""What a report shows of sleeps: how late they end, and what load does to that."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from vtare.papers import place_sleep_miss
from vtare.plots.format import percent_text
from vtare.report.details import details_of
from vtare.report.pages.model import READINGS, RUNS, Answered, Page, Placement
from vtare.report.sentences import Scene, comparison, load_phrase, ratio_figure, scene_of
from vtare.report.side_by_side import by_time, completed, platform_changes, side_by_side
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
    target = scene.rows[0].get("target_ns")
    what = "a sleep" if target is None else f"a sleep of {scene.layout.level('target_ns', target)}"
    base = scene.loads[0]
    verb = "is late for" if by_time(scene, base) else "ends"
    start = f"{load_phrase(summary, base)}{scene.elsewhere}, {what} {verb} "
    if base is None:
        start = f"{what[0].upper()}{what[1:]}{scene.elsewhere} {verb} "
    platforms = platform_changes(summary, scene, base)
    found: list[Sentence] = [(start, *side_by_side(scene, base), *platforms, *completed(scene, base), ".")]
    busy = _worst_load(summary, scene)
    if busy is not None:
        ending = _verdict_words(summary, scene, busy)
        pieces = side_by_side(scene, busy, again=True)
        # Beside two ways the tail could be of either.
        tail = _tail_change(summary, scene.row(scene.system, busy)) if scene.ours is None else []
        verb = "is late for" if by_time(scene, busy) else "ends"
        start = f"{load_phrase(summary, busy)}, it {verb} "
        found.append((start, *pieces, ending, *tail, *completed(scene, busy), "."))
    return found


def _tail_change(summary: Summary, cell: Mapping[str, Any] | None) -> list[str | FigureText]:
    """What the load makes of the tail of the system's way: `; its p99 is 12.1x (3.40 to 43.0) that of idle`."""
    if cell is None:
        return []
    keys = summary.keys[cell["experiment"]]
    rows = (
        row for row in summary.tails if (row.experiment, row.factor, row.tail) == (cell["experiment"], "load", "p99")
    )
    row = next((row for row in rows if all(row.labels.get(key) == cell[key] for key in keys)), None)
    if row is not None and row.without + row.without_baseline and cell["above_1ms"] is not None:
        return _exceedances(summary, cell, row)
    if row is None or row.ratio is None or row.ratio_low is None:
        return []
    sure = row.p_adjusted is not None and row.p_adjusted <= summary.plan.analysis.alpha
    word = "" if sure else ", inconclusive"
    ratio = ratio_figure(row.ratio, row.ratio_low, row.ratio_high)
    return ["; its p99 is ", ratio, f" that of {row.baseline}{word}"]


def _exceedances(summary: Summary, cell: Mapping[str, Any], row: ComparisonRow) -> list[str | FigureText]:
    """How often it is more than 1 ms late, where some runs have too few readings for a p99: what all runs have."""
    keys = summary.keys[cell["experiment"]]
    wanted = {**{key: cell[key] for key in keys}, "load": row.baseline}
    found = summary.cells.filter(pl.col("experiment") == cell["experiment"]).iter_rows(named=True)
    base = next((one for one in found if all(one[key] == label for key, label in wanted.items())), None)
    with_p99 = f"{row.n_runs} of {row.n_runs + row.without} runs have a p99"
    pieces: list[str | FigureText] = ["; it is more than 1 ms late in ", FigureText(percent_text(cell["above_1ms"]))]
    if base is not None and base["above_1ms"] is not None:
        pieces += [" of sleeps, ", FigureText(percent_text(base["above_1ms"])), f" with {row.baseline}"]
    else:
        pieces.append(" of sleeps")
    return [*pieces, f" ({with_p99})"]


def _worst_load(summary: Summary, scene: Scene) -> str | None:
    """The load that moves the system's way most; the last one where no effect could be estimated."""
    others = [load for load in scene.loads[1:] if load is not None and scene.row(scene.system, load) is not None]
    effect = {}
    for load in others:
        row = comparison(summary, scene.layout, scene.row(scene.system, load), "load")
        if row is not None and row.ratio:
            effect[load] = abs(math.log(row.ratio))
    return max(effect, key=lambda load: effect[load]) if effect else (others[-1] if others else None)


def _verdict_words(summary: Summary, scene: Scene, load: str) -> str:
    """Whether the two ways differ from the machine without load; empty where there are too few runs."""
    found = []
    for series in (scene.system, scene.ours):
        row = comparison(summary, scene.layout, scene.row(series, load), "load")
        if series is not None and row is not None:
            found.append((scene.name(series).removesuffix(" adaptive sleep"), row))
    if not found:
        return ""
    base = found[0][1].baseline
    margin = f"{summary.plan.analysis.margin_percent:.3g} %"

    def words(row: ComparisonRow) -> tuple[str, str, str]:
        """What is said of it, of both, and of one among several."""
        if row.verdict.is_different:
            return f"that differs from {base}", f"both differ from {base}", f"differs from {base}"
        if row.verdict is Verdict.EQUIVALENT:
            return f"that equals {base} within {margin}", f"both equal {base} within {margin}", f"equals {base}"
        none = f"the data do not show a difference from {base}"
        return none, none, f"has no significant difference from {base}"

    said = [words(row) for _, row in found]
    if len(said) == 1:
        return f"; {said[0][0]}"
    if said[0] == said[1]:
        return f"; {said[0][1]}"
    return "; " + ", ".join(f"{name} {one}" for (name, _), (*_, one) in zip(found, said, strict=True))


PAGE: Final = Page(
    sentences=_sentences,
    system={"usleep": "usleep", "clock_nanosleep": "clock_nanosleep"},
    ours={
        "adaptive": "vtare's adaptive sleep", "two_phase_capped": "two_phase_capped", "two_phase": "two_phase",
    },
    columns=(*READINGS, "cpu_fraction", "disturbed_fraction", *RUNS),
    papers=("kirova2019",),
    placement=Placement(
        "Grey: median and half interquartile range as printed in Kirova 2019, Table 2, whose sleep target is not "
        "printed. Bold: this machine with its {level} interval.",
        place_sleep_miss,
    ),
)  # fmt: skip
