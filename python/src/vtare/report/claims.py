"""The answer in at most four short sentences, made from measured figures and their intervals and from nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from vtare.plots.format import percent_text, significant, time_text
from vtare.report import bandwidth, counter, round_trips, text, throughput
from vtare.report.details import details_of
from vtare.report.facts import quantum_of
from vtare.report.limits import last_sentence, limits_of
from vtare.report.sentences import (
    SAME,
    Scene,
    Sentence,
    Told,
    cell_rows,
    comparison,
    completed_words,
    is_capped,
    load_phrase,
    scene_of,
    told,
    told_late,
    told_levels,
    told_ratio,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vtare.report.layout import Layout
    from vtare.summary import Summary

_TOLD_BY: Final = {
    "avb": bandwidth.sentences, "throughput": throughput.sentences, "rtt": round_trips.sentences,
}  # fmt: skip
_INSTRUMENTS: Final = ("avb", "throughput", "rtt", "sleep", "timer", "counter", "noise")
"""What a reader asks first comes first."""
_MOST_FIGURES: Final = 3
"""Sentences with figures in the answer; the fourth says what cannot be concluded, the rest goes below the figure."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The first screen.

    `sentences` are the answer, `key` says what figures and brackets mean, `details` follow below the main figure,
    `limits` say what cannot be concluded, `headline` names the experiment that is drawn.
    """

    sentences: tuple[Sentence, ...]
    key: str
    details: tuple[Sentence, ...]
    limits: tuple[str, ...]
    headline: str | None


def answer(summary: Summary, layouts: Mapping[str, Layout]) -> Answer:
    """Answer the plan's question from the cells and comparisons of a summary."""
    headline = headline_experiment(summary, layouts)
    order = sorted(layouts.values(), key=lambda layout: (layout.experiment.name != headline, _rank(layout)))
    figures: list[Sentence] = []
    more: list[Sentence] = []
    for layout in order:
        scene = scene_of(summary, layout)
        if scene is None:
            more.append((f"{layout.experiment.title}: no run finished, so there is no figure.",))
        elif layout.experiment.instrument in _TOLD_BY:
            told_first, told_later = _TOLD_BY[layout.experiment.instrument](summary, layout)
            is_first = layout.experiment.name == headline
            # Where others follow, the reader must know which one this is.
            is_alone = sum(_rank(other) == _rank(layout) for other in order) == 1
            titled = [(f"{layout.experiment.title}: ", *_beginning(one, str.lower)) for one in told_first]
            if is_first and is_alone:
                figures += [_beginning(sentence, str.upper) for sentence in told_first]
            else:
                (figures if is_first else more).extend(titled)
            more += told_later
        elif layout.experiment.instrument == "counter":
            figures += counter.sentences(summary, layout)
        elif layout.experiment.instrument == "noise":
            figures += _share_sentences(summary, layout)
        else:
            made = _sleep_sentences if layout.experiment.instrument == "sleep" else _timer_sentences
            figures += made(summary, scene)
            more += details_of(summary, scene)
    limits = limits_of(summary)
    shown = figures[:_MOST_FIGURES]
    return Answer(
        (*shown, (last_sentence(summary, limits),)),
        _key(summary, shown),
        (*figures[_MOST_FIGURES:], *more),
        tuple(limit.full for limit in limits),
        headline,
    )


def _beginning(sentence: Sentence, change: Callable[[str], str]) -> Sentence:
    """The sentence with its first letter changed: one that follows a title and a colon begins small."""
    first, *rest = sentence
    return (change(first[0]) + first[1:], *rest) if isinstance(first, str) and first else sentence


def _rank(layout: Layout) -> int:
    kind = layout.experiment.instrument
    return _INSTRUMENTS.index(kind) if kind in _INSTRUMENTS else len(_INSTRUMENTS)


def headline_experiment(summary: Summary, layouts: Mapping[str, Layout]) -> str | None:
    """Of the instrument asked for first, the experiment with the largest effect of a load, else of anything."""
    ran = {name: layout for name, layout in layouts.items() if cell_rows(summary, layout)} or dict(layouts)
    if not ran:
        return None
    first = min(_rank(layout) for layout in ran.values())
    names = [name for name, layout in ran.items() if _rank(layout) == first]
    best: tuple[bool, float, str] | None = None
    for row in summary.comparisons.iter_rows(named=True):
        if row["experiment"] not in names or row["verdict"] != "differs" or not row["ratio"]:
            continue
        found = (row["factor"] == "load", abs(math.log(row["ratio"])), row["experiment"])
        if best is None or found[:2] > best[:2]:
            best = found
    return best[2] if best is not None else names[0]


def _key(summary: Summary, sentences: list[Sentence]) -> str:
    """What the figures are and what stands in brackets."""
    told_ones = [piece for sentence in sentences for piece in sentence if isinstance(piece, Told)]
    runs = sorted({n for n in summary.cells.get_column("n_runs").to_list() if n}) if summary.cells.height else []
    if not told_ones or not runs:
        return ""
    if not any(piece.interval for piece in told_ones):
        return "Each figure is that of one run, without an interval." if runs == [1] else (
            f"Medians of {runs[-1]} runs at most, without intervals."
        )  # fmt: skip
    span = f"{runs[0]} to {runs[-1]} runs" if runs[0] != runs[-1] else text.plural(runs[0], "run")
    key = f"Medians over {span}; in brackets their {text.levels_text(summary.cells)} intervals over runs."
    if any(piece.interval == SAME for piece in told_ones):
        quantum = quantum_of(summary.machines)
        step = f" of {time_text(quantum)}" if quantum is not None else ""
        key += f" What is the same in all runs is known to the clock's step{step}."
    return key


def _side_by_side(scene: Scene, load: str | None, *, again: bool = False) -> list[str | Told]:
    """The two ways under one load: `78.2 us late with usleep and 60.0 ns late with vtare's adaptive sleep`."""
    pieces: list[str | Told] = []
    late = _by_time(scene, load)
    for series in (scene.system, scene.ours):
        row = scene.row(series, load)
        if series is None or row is None:
            continue
        name = scene.name(series)
        short = "vtare's" if again and name.startswith("vtare's") else name
        shown: list[str | Told] = [told_late(row), "" if pieces else " of its time"] if late else [
            told(scene.layout, row)
        ]  # fmt: skip
        pieces += [*([" and "] if pieces else []), *shown, f" with {short}"]
    return pieces


def _by_time(scene: Scene, load: str | None) -> bool:
    """Whether the two ways are told by the time they spent late: a time limit ended runs of one of them early."""
    rows = [row for series in (scene.system, scene.ours) if (row := scene.row(series, load)) is not None]
    return any(map(is_capped, rows)) and all(row["late_fraction"] is not None for row in rows)


def _completed(scene: Scene, load: str | None) -> list[str | Told]:
    """What the runs of the two ways completed that a time limit ended early."""
    capped = [(series, row) for series in (scene.system, scene.ours) if is_capped(row := scene.row(series, load))]
    return [f"; {completed_words(scene.name(str(series)), row)}" for series, row in capped if row is not None]


def _sleep_sentences(summary: Summary, scene: Scene) -> list[Sentence]:
    """What the sleep really takes: without load, and under the load that moves the system's sleep most."""
    target = scene.rows[0].get("target_ns")
    what = f"a sleep of {text.level(target)}" if target is not None else "a sleep"
    base = scene.loads[0]
    verb = "is late for" if _by_time(scene, base) else "ends"
    start = f"{load_phrase(summary, base)}{scene.elsewhere}, {what} {verb} "
    if base is None:
        start = f"{what[0].upper()}{what[1:]}{scene.elsewhere} {verb} "
    platforms = _platform_changes(summary, scene, base)
    found: list[Sentence] = [(start, *_side_by_side(scene, base), *platforms, *_completed(scene, base), ".")]
    busy = worst_load(summary, scene)
    if busy is not None:
        ending = _verdict_words(summary, scene, busy)
        pieces = _side_by_side(scene, busy, again=True)
        # Beside two ways nobody could tell whose tail it is.
        tail = _tail_change(summary, scene.row(scene.system, busy)) if scene.ours is None else []
        verb = "is late for" if _by_time(scene, busy) else "ends"
        start = f"{load_phrase(summary, busy)}, it {verb} "
        found.append((start, *pieces, ending, *tail, *_completed(scene, busy), "."))
    return found


def _tail_change(summary: Summary, cell: Mapping[str, Any] | None) -> list[str | Told]:
    """What the load makes of the tail of the system's way: `; its p99 is 12.1x (3.40 to 43.0) that of idle`."""
    if cell is None:
        return []
    frame = summary.tails.filter(
        (pl.col("experiment") == cell["experiment"]) & (pl.col("factor") == "load") & (pl.col("tail") == "p99")
    )
    keys = summary.keys[cell["experiment"]]
    row = next((row for row in frame.iter_rows(named=True) if all(row[key] == cell[key] for key in keys)), None)
    if row is not None and row["without"] + row["without_baseline"] and cell["above_1ms"] is not None:
        return _exceedances(summary, cell, row)
    if row is None or row["ratio"] is None or row["ratio_low"] is None:
        return []
    sure = row["p_adjusted"] is not None and row["p_adjusted"] <= summary.plan.analysis.alpha
    word = "" if sure else ", inconclusive"
    ratio = told_ratio(row["ratio"], row["ratio_low"], row["ratio_high"])
    return ["; its p99 is ", ratio, f" that of {text.level(row['baseline'])}{word}"]


def _exceedances(summary: Summary, cell: Mapping[str, Any], row: Mapping[str, Any]) -> list[str | Told]:
    """How often it is more than 1 ms late, where some runs have too few readings for a p99: what all runs have."""
    keys = summary.keys[cell["experiment"]]
    wanted = {**{key: cell[key] for key in keys}, "load": row["baseline"]}
    found = summary.cells.filter(pl.col("experiment") == cell["experiment"]).iter_rows(named=True)
    base = next((one for one in found if all(one[key] == label for key, label in wanted.items())), None)
    with_p99 = f"{row['n_runs']} of {row['n_runs'] + row['without']} runs have a p99"
    pieces: list[str | Told] = ["; it is more than 1 ms late in ", Told(percent_text(cell["above_1ms"]))]
    if base is not None and base["above_1ms"] is not None:
        pieces += [" of sleeps, ", Told(percent_text(base["above_1ms"])), f" with {text.level(row['baseline'])}"]
    else:
        pieces.append(" of sleeps")
    return [*pieces, f" ({with_p99})"]


def worst_load(summary: Summary, scene: Scene) -> str | None:
    """The load that moves the system's way most; the last one where no effect could be estimated."""
    others = [load for load in scene.loads[1:] if load is not None and scene.row(scene.system, load) is not None]
    effect = {}
    for load in others:
        row = comparison(summary, scene.layout, scene.row(scene.system, load), "load")
        if row is not None and row["ratio"] > 0:
            effect[load] = abs(math.log(row["ratio"]))
    return max(effect, key=lambda load: effect[load]) if effect else (others[-1] if others else None)


def _verdict_words(summary: Summary, scene: Scene, load: str) -> str:
    """Whether the two ways differ from the machine without load; empty where there are too few runs to say."""
    found = []
    for series in (scene.system, scene.ours):
        row = comparison(summary, scene.layout, scene.row(series, load), "load")
        if series is not None and row is not None:
            found.append((scene.name(series).removesuffix(" adaptive sleep"), row))
    if not found:
        return ""
    base = text.level(found[0][1]["baseline"])
    words = {row["verdict"] for _, row in found}
    if len(found) == 2 and len(words) == 1:
        margin = f"{significant(100 * (found[0][1]['margin_ratio'] - 1))} %"
        return {
            "differs": f"; both differ from {base}",
            "equivalent": f"; both equal {base} within {margin}",
        }.get(words.pop(), f"; the data do not show a difference from {base}")
    if len(found) == 1:
        ((_, row),) = found
        return {
            "differs": f"; that differs from {base}",
            "equivalent": f"; that equals {base} within {significant(100 * (row['margin_ratio'] - 1))} %",
        }.get(row["verdict"], f"; the data do not show a difference from {base}")
    said = {
        "differs": f"differs from {base}",
        "equivalent": f"equals {base}",
        "undecided": f"is not shown to differ from {base}",
    }
    return "; " + ", ".join(f"{name} {said[row['verdict']]}" for name, row in found)


def _timer_sentences(summary: Summary, scene: Scene) -> list[Sentence]:
    """What a look at the clock costs without load, and whether load changes that."""
    base = scene.loads[0]
    start = f"{load_phrase(summary, base)}{scene.elsewhere}, one look at the clock costs "
    if base is None:
        start = f"One look at the clock{scene.elsewhere} costs "
    pieces = [start, *_side_by_side(scene, base, again=True), *_platform_changes(summary, scene, base)]
    return [(*pieces, *_load_changes(summary, scene), ".")]


def _platform_changes(summary: Summary, scene: Scene, load: str | None) -> list[str | Told]:
    """What other platforms make of the system's way: `; on qemu 3.63x, docker and lxc equivalent within 5 %`."""
    pieces = told_levels(summary, scene.layout, scene.row(scene.system, load), "platform")
    return ["; elsewhere: ", *pieces] if pieces else []


def _load_changes(summary: Summary, scene: Scene) -> list[str | Told]:
    rows = []
    for load in scene.loads[1:]:
        for series in (scene.system, scene.ours):
            row = comparison(summary, scene.layout, scene.row(series, load), "load")
            if series is not None and row is not None:
                rows.append((series, row))
    if not rows:
        return []
    differs = [(series, row) for series, row in rows if row["verdict"] == "differs" and row["ratio"]]
    if differs:
        series, most = max(differs, key=lambda found: abs(math.log(found[1]["ratio"])))
        ratio = told_ratio(most["ratio"], most["ratio_low"], most["ratio_high"])
        return [f"; load changes that, most for {scene.name(series)} under {text.level(most['level'])}: ", ratio]
    same = sum(row["verdict"] == "equivalent" for _, row in rows)
    margin = f"{summary.plan.analysis.margin_percent:g} %"
    if same == len(rows):
        return [f"; no load changes that by more than {margin}"]
    if not same:
        return ["; the data do not show that load changes that"]
    rest = len(rows) - same
    return [
        f"; load changes that by less than {margin} in {same} of {text.plural(len(rows), 'comparison')}, "
        f"{rest} {'is' if rest == 1 else 'are'} inconclusive"
    ]


def _share_sentences(summary: Summary, layout: Layout) -> list[Sentence]:
    """Noise: one share per load, the largest loss of any CPU."""
    cells = cell_rows(summary, layout)
    pieces: list[str | Told] = []
    for load in layout.order.get("load", ()) or (None,):
        rows = [row for row in cells if (load is None or row["load"] == load) and row["lost_fraction"] is not None]
        if not rows:
            continue
        row = max(rows, key=lambda row: row["lost_fraction"])
        phrase = load_phrase(summary, load)
        pieces += [f"{phrase}, " if not pieces else f"; {phrase[0].lower()}{phrase[1:]}, "]
        pieces += [f"CPU {row[layout.series]} loses ", Told(f"{significant(100 * row['lost_fraction'])} %")]
        pieces.append(" of its time")
    return [(*pieces, ".")] if pieces else []
