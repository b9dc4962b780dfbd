"""What the layer costs, in words: guests, containers and the host against each other, and loads against none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from vtare.platforms import platform_class
from vtare.report import text
from vtare.report.layout import figure_name, key_name, key_text
from vtare.report.sentences import FigureText, Sentence, ratio_figure
from vtare.report.tables import Column, Table, p_text, where_of
from vtare.report.text import Shown, missing
from vtare.summary.layers import layer_of
from vtare.summary.verdicts import EQUIVALENT, WORDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vtare.report.layout import Layout
    from vtare.summary import Summary

_COSTS: Final = "What the layer costs"
_MEANING: Final = (
    "Ratios with their intervals. Higher and lower: the adjusted p is at most the plan's alpha, all comparisons of a "
    "family taken together; equivalent: the interval lies inside the margin; all else is inconclusive."
)
_LAYER_NAMES: Final = ("the host", "container", "guest")
_MOST_LISTED: Final = 4
"""Cells of one verdict that are listed one by one; of more, their number and the extremes."""


def title(summary: Summary) -> str:
    """The heading of the section."""
    costs = summary.layers.filter(pl.col("kind") == "cost").height
    return _COSTS if costs else "What load does to the tails"


def words(summary: Summary) -> str:
    """What the verdicts mean, and which platforms were emulated: their costs are the emulator's."""
    emulated = sorted({m.platform for m in summary.machines if m.machine.get("hypervisor") == "tcg"})
    if not emulated or title(summary) != _COSTS:
        return _MEANING
    are = "is" if len(emulated) == 1 else "are"
    return f"{_MEANING} {text.listing(emulated)} {are} emulated in software (TCG), not virtualized."


def sentences(summary: Summary, layouts: Mapping[str, Layout]) -> tuple[Sentence, ...]:
    """One sentence for each figure of each experiment: what was shown with its interval, and what was not."""
    found: list[Sentence] = []
    for name, layout in layouts.items():
        rows = list(summary.layers.filter(pl.col("experiment") == name).iter_rows(named=True))
        for figure in dict.fromkeys(row["figure"] for row in rows if row["kind"] == "cost"):
            found.append(_cost(summary, layout, [r for r in rows if r["kind"] == "cost" and r["figure"] == figure]))
        changes = ((row["figure"], row["factor"], row["level"]) for row in rows if row["kind"] == "tail")
        for change in dict.fromkeys(changes):
            same = [r for r in rows if r["kind"] == "tail" and (r["figure"], r["factor"], r["level"]) == change]
            found.append(_tail(summary, layout, same))
    return tuple(found)


def _cost(summary: Summary, layout: Layout, rows: Sequence[Mapping[str, Any]]) -> Sentence:
    """`Miss of a sleep: Guest against container: higher: 3.4x (..) qemu to docker. ...`."""
    platforms = summary.plan.platforms
    groups: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    for row in rows:
        pair = layer_of(row["level"], platforms), layer_of(row["against"], platforms)
        groups.setdefault(pair, []).append(row)
    # The title names the main figure.
    figure = rows[0]["figure"]
    named = "" if figure_name(figure) == figure_name(layout.quantity) else f", {figure_name(figure)}"
    pieces: list[str | FigureText] = [f"{layout.experiment.title}{named}: "]
    for at, (pair, same) in enumerate(sorted(groups.items(), key=lambda item: (-item[0][0], -item[0][1]))):
        pairs = [f"{text.level(r['level'])} to {text.level(r['against'])}" for r in same]
        names = [_LAYER_NAMES[layer] for layer in pair]
        # A machine that is only reached may have no layer between.
        kinds = (platform_class(row["level"], platforms.get(row["level"])) for row in same)
        if any(kind is not None and kind.REACHED for kind in kinds):
            names[0] = "machine"
        pieces.append(f"{'. ' if at else ''}{names[0].capitalize()} against {names[1]}: ")
        pieces += _by_verdict(summary, same, pairs)
    return (*pieces, ".")


def _tail(summary: Summary, layout: Layout, rows: Sequence[Mapping[str, Any]]) -> Sentence:
    """`Miss of a sleep, p99 with load cpu against idle: higher: 12x (..) at platform host; inconclusive: ..`."""
    first = rows[0]
    change = f"{key_text(first['factor'], first['level'])} against {text.level(first['against'])}"
    places = [where_of(layout, row, without=row["factor"]) for row in rows]
    places = [f"at {place}" if place else "" for place in places]
    start = f"{layout.experiment.title}, {figure_name(first['figure'])} with {change}: "
    return (start, *_by_verdict(summary, rows, places), ".")


def _by_verdict(summary: Summary, rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> list[str | FigureText]:
    """Rows by their verdict: `higher: 3.4x (..) a, 2.1x (..) b; inconclusive: 1.1x (..) c`."""
    pieces: list[str | FigureText] = []
    for word in WORDS:
        same = [(row, name) for row, name in zip(rows, names, strict=True) if row["verdict"] == word]
        if not same:
            continue
        pieces += ["; "] if pieces else []
        pieces.append(FigureText(verdict_text(summary, word)))
        pieces += _listed(same, len(rows))
    return pieces


def _listed(rows: Sequence[tuple[Mapping[str, Any], str]], of: int) -> list[str | FigureText]:
    known = [(row, name) for row, name in rows if row["ratio"] is not None]
    if not known:
        return [f" ({rows[0][0]['reason']})"] if rows[0][0]["reason"] else []
    if len(known) <= _MOST_LISTED:
        pieces: list[str | FigureText] = [": "]
        for at, (row, name) in enumerate(known):
            pieces += [", " if at else "", _ratio(row), f"{' ' if name else ''}{name}"]
        return pieces
    ordered = sorted(known, key=lambda pair: pair[0]["ratio"])
    (least, first), (most, last) = ordered[0], ordered[-1]
    return [f" in {len(known)} of {of} cells, from ", _ratio(least), f" {first} to ", _ratio(most), f" {last}"]


def _ratio(row: Mapping[str, Any]) -> FigureText:
    return ratio_figure(row["ratio"], row["ratio_low"], row["ratio_high"])


def verdict_text(summary: Summary, word: str) -> str:
    """A verdict as the report writes it: an equivalence names its margin."""
    return f"equivalent within {summary.plan.analysis.margin_percent:g} %" if word == EQUIVALENT else word


def table(summary: Summary, layouts: Mapping[str, Layout]) -> Table | None:
    """Every row with its interval and verdict; None where there is nothing to set side by side."""
    rows = []
    for row in summary.layers.iter_rows(named=True):
        layout = layouts.get(row["experiment"])
        if layout is None:
            continue
        factor, verdict = row["factor"], str(row["verdict"])
        shown_verdict = Shown(
            verdict_text(summary, verdict), verdict, WORDS.index(verdict), verdict, row["reason"] or ""
        )
        p = row["p_adjusted"]
        rows.append((
            text.words(layout.experiment.name),
            text.words("cost" if row["kind"] == "cost" else "tail"),
            text.words(figure_name(row["figure"])),
            text.words(where_of(layout, row, without=factor) or "everywhere"),
            text.words(f"{key_name(factor)}: {row['level']} against {row['against']}"),
            text.ratio(row["ratio"], row["ratio_low"], row["ratio_high"], "not estimable"),
            shown_verdict,
            missing("refused") if p is None else Shown(p_text(p), str(p), p, "", f"family {row['family']}"),
            Shown(f"{row['n_runs']} / {row['n_runs_against']}", f"{row['n_runs']}/{row['n_runs_against']}",
                  row["n_runs"]),
        ))  # fmt: skip
    if not rows:
        return None
    columns = (
        Column("experiment", "experiment", numeric=False),
        Column("kind", "of", numeric=False, about="cost: what platforms cost; tail: what a load does to the tails"),
        Column("figure", "figure of a run", numeric=False),
        Column("where", "where", numeric=False, about="the levels that both cells share"),
        Column("change", "compared", numeric=False),
        Column("ratio", f"ratio ({ratio_level(summary)})", about="of the geometric means of run figures"),
        Column("verdict", "verdict", numeric=False),
        Column("p_adjusted", "p (adjusted)"),
        Column("runs", "runs", about="here against the other"),
    )
    return Table("layers", "Costs of layers, and what loads do to the tails", columns, tuple(rows))


def ratio_level(summary: Summary) -> str:
    """The level of the intervals in the table."""
    return text.level_text(1 - summary.plan.analysis.alpha)


__all__ = ["ratio_level", "sentences", "table", "title", "verdict_text", "words"]
