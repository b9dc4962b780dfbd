"""What the layer costs: the table of guests, containers and the host against each other, and of loads against none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vtare.report import text
from vtare.report.facts import emulated
from vtare.report.layout import figure_name
from vtare.report.parts import Column, Table
from vtare.report.tables import change_text, p_shown, where_of, why_no_ratio
from vtare.report.text import Shown, missing
from vtare.sentences import captions, titles
from vtare.stats import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vtare.report.layout import Layout
    from vtare.summary import Summary
    from vtare.summary.contrasts import ComparisonRow

_COSTS: Final = titles.LAYER_COSTS


def title(summary: Summary) -> str:
    """The heading of the section."""
    costs = any(row.kind == "cost" for row in summary.layers)
    return _COSTS if costs else titles.LOAD_AND_TAILS


def words(summary: Summary) -> str:
    """What the verdicts mean, and which platforms were emulated: their costs are the emulator's."""
    platforms = emulated(summary)
    if not platforms or title(summary) != _COSTS:
        return captions.LAYERS
    return f"{captions.LAYERS} {captions.emulated_layers(platforms)}"


def verdict_of(summary: Summary, row: ComparisonRow) -> Shown:
    """A verdict as tables write it, with the margin of an equivalence."""
    margin = f" within {summary.plan.analysis.margin_percent:g} %" if row.verdict is Verdict.EQUIVALENT else ""
    return Shown(f"{row.word}{margin}", row.word, list(Verdict).index(row.verdict), row.word, row.reason or "")


def table(summary: Summary, layouts: Mapping[str, Layout]) -> Table | None:
    """Every row with its interval and verdict; None where there is nothing to set side by side."""
    rows = []
    for row in summary.layers:
        layout = layouts.get(row.experiment)
        if layout is None:
            continue
        p = row.p_adjusted
        rows.append((
            text.words(layout.experiment.name),
            text.words(row.kind or ""),
            text.words(figure_name(row.figure)),
            text.words(where_of(layout, row.labels, without=row.factor) or "everywhere"),
            text.words(change_text(layout, row.factor, row.level, row.baseline)),
            text.bound_ratio(
                row.ratio_bound,
                row.ratio_side,
                text.ratio(row.ratio, row.judged_low, row.judged_high, why_no_ratio(row.reason, "not estimable")),
            ),
            verdict_of(summary, row),
            missing("refused") if p is None else p_shown(p),
            text.words(row.family),
            Shown(f"{row.n_runs} / {row.n_runs_baseline}", f"{row.n_runs}/{row.n_runs_baseline}", row.n_runs),
        ))  # fmt: skip
    if not rows:
        return None
    columns = (
        Column("experiment", "experiment", numeric=False, wide=True),
        Column(
            "kind",
            "of",
            numeric=False,
            about="cost: what platforms cost; tail: what a load does to the tails",
            wide=True,
        ),
        Column("figure", "figure of a run", numeric=False),
        Column("where", "where", numeric=False, about="the levels that both cells share"),
        Column("change", "compared", numeric=False),
        Column(
            "ratio",
            f"ratio ({ratio_level(summary)})",
            about="of the geometric means of run figures; its interval is adjusted over the family, as p is",
        ),
        Column("verdict", "verdict", numeric=False),
        Column("p_adjusted", "p (adjusted)", wide=True),
        Column("family", "family", numeric=False, about="the comparisons that p is adjusted over", wide=True),
        Column("runs", "runs", about="here against the other"),
    )
    return Table("layers", "Costs of layers, and what loads do to the tails", columns, tuple(rows))


def ratio_level(summary: Summary) -> str:
    """The level of the intervals in the table."""
    return text.level_text(1 - summary.plan.analysis.alpha)
