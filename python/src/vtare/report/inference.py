"""Figures of what was inferred: effects with their verdicts, tails, interactions, levels, percentiles, outliers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from vtare import plots
from vtare.number_text import percent_text, ratio_text
from vtare.plots.matrix import Edge
from vtare.quantity_text import quantity_of
from vtare.report import text
from vtare.report.figures import slug
from vtare.report.layout import ERROR, figure_name, key_name
from vtare.report.pages import page_of
from vtare.report.parts import Panel, Question
from vtare.report.tables import change_text, place_text, where_of
from vtare.sentences import captions, titles
from vtare.stats import Verdict
from vtare.summary.cells import OutlierRow
from vtare.summary.contrasts import ComparisonRow
from vtare.summary.factors import InteractionRow, LevelRow
from vtare.summary.rows import rows_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vtare.report.layout import Layout
    from vtare.summary import Summary
    from vtare.summary.factors import ComparedLevel

MOST_ROWS: Final = 40
"""A figure with more rows is no longer read at a glance: the rest is in the table."""
_MOST_PANELS: Final = 12
_MOST_SCENARIOS: Final = 16
_EDGES: Final[dict[Verdict, Edge]] = {Verdict.HIGHER: "sure", Verdict.LOWER: "sure", Verdict.EQUIVALENT: "alike"}
_QUANTILES: Final = (("median", "median"), ("p99", "p99"), ("p999", "p99.9"))


def _of(frame: pl.DataFrame, layout: Layout) -> pl.DataFrame:
    return frame.filter(pl.col("experiment") == layout.experiment.name)


def _cut(left: int) -> str:
    return f" {captions.more_rows(left)}" if left > 0 else ""


def effect_figure(summary: Summary, layouts: Mapping[str, Layout]) -> Question | None:
    """The heat map of cells: each cell against its baseline, factor by factor, with effect and verdict."""
    panels: list[Panel] = []
    left = 0
    for layout in layouts.values():
        rows = [(row, row.ratio) for row in summary.comparisons if row.experiment == layout.experiment.name]
        known = [(row, ratio) for row, ratio in rows if ratio is not None]
        for factor in dict.fromkeys(row.factor for row, _ in known):
            panel, more = _effect_panel(layout, factor, [(row, ratio) for row, ratio in known if row.factor == factor])
            panels.append(panel)
            left += more
    if not panels:
        return None
    caption = f"{captions.EFFECT_SQUARES}{_cut(left)}"
    return Question("effects", titles.EFFECTS, caption, tuple(panels))


def _effect_panel(layout: Layout, factor: str, rows: Sequence[tuple[ComparisonRow, float]]) -> tuple[Panel, int]:
    ordered = sorted(rows, key=lambda one: layout.sort_key(one[0].labels))
    places = list(dict.fromkeys(where_of(layout, row.labels, without=factor) or "everywhere" for row, _ in ordered))
    levels = sorted({row.level for row, _ in rows}, key=lambda level: layout.rank(factor, level))
    strongest = max((abs(math.log(ratio)) for _, ratio in rows if ratio > 0), default=1.0)
    reach = max(strongest, math.log(1.5))
    squares: dict[tuple[str, str], plots.Square] = {}
    for row, ratio in ordered:
        if ratio <= 0:
            continue
        edge = _EDGES.get(row.verdict, "open")
        place = where_of(layout, row.labels, without=factor) or "everywhere"
        # The root keeps a change of 20 % visible beside one of a factor of a thousand.
        tint = math.copysign(math.sqrt(abs(math.log(ratio)) / reach), math.log(ratio))
        squares[place, row.level] = plots.Square(tint if edge != "alike" else 0.0, ratio_text(ratio), edge)
    baseline = rows[0][0].baseline
    shown = places[:MOST_ROWS]
    more_is, less_is = (
        (str(Verdict.HIGHER), str(Verdict.LOWER)) if quantity_of(layout.quantity).is_rate else ("longer", "shorter")
    )
    words = page_of(layout.experiment.instrument).more_and_less
    more_is, less_is = words.get(rows[0][0].quantity, (more_is, less_is))
    drawing = plots.matrix(
        shown,
        [layout.level(factor, level) for level in levels],
        [[squares.get((place, level)) for level in levels] for place in shown],
        name=slug("effects", layout.experiment.name, factor),
        label=f"{key_name(factor)}, against {layout.level(factor, baseline)}",
        ends=plots.Ends(less_is, more_is, "higher or lower", Verdict.EQUIVALENT, Verdict.INCONCLUSIVE),
    )
    heading = text.keep(f"{layout.experiment.title}: {key_name(factor)}")
    return Panel(heading, drawing), len(places) - len(shown)


def tail_figures(summary: Summary, layout: Layout) -> Question | None:
    """Tails against their baselines, by the rule of all comparisons."""
    tails = [(row, row.ratio) for row in summary.tails if row.experiment == layout.experiment.name]
    known = [(row, ratio) for row, ratio in tails if ratio is not None and ratio > 0]
    panels = []
    left = 0
    for factor in dict.fromkeys(row.factor for row, _ in known):
        rows: dict[tuple[str, str], list[plots.RatioMark]] = {}
        ordered = sorted(
            ((row, ratio) for row, ratio in known if row.factor == factor),
            key=lambda one: (layout.rank(one[0].factor, one[0].level), layout.sort_key(one[0].labels)),
        )
        for row, ratio in ordered:
            group = change_text(layout, row.factor, row.level, row.baseline)
            sure = row.p_adjusted is not None and row.p_adjusted <= summary.plan.analysis.alpha
            mark = plots.RatioMark(row.figure, ratio, sure)
            rows.setdefault((group, where_of(layout, row.labels, without=factor) or "everywhere"), []).append(mark)
        shown = list(rows.items())[:MOST_ROWS]
        left += len(rows) - len(shown)
        drawing = plots.ratio_dots(
            [plots.RatioRow(where, tuple(marks), group) for (group, where), marks in shown],
            name=slug("tail-ratios", layout.experiment.name, factor),
            label="tail here over tail at the baseline",
            margin_ratio=summary.plan.analysis.margin_ratio,
        )
        panels.append(Panel(f"{layout.experiment.title}: {key_name(factor)}", drawing))
    if not panels:
        return None
    caption = f"{captions.tail_ratios(summary.plan.analysis.alpha)}{_cut(left)}"
    return Question(slug("tail-ratios", layout.experiment.name), titles.TAIL_RATIOS, caption, tuple(panels))


def percentile_figures(summary: Summary, layout: Layout) -> Question | None:
    """Median, p99 and p99.9 over the levels of the panel's key (the load, where it varies), a panel for each series."""
    key = layout.panel
    if key is None or quantity_of(layout.quantity).symbol != "ns":
        return None
    cells = _of(summary.cells, layout).filter(pl.col("p99").is_not_null())
    rest = tuple(other for other in layout.keys if other != key)
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in sorted(cells.iter_rows(named=True), key=layout.sort_key):
        groups.setdefault(tuple(row[other] for other in rest), []).append(row)
    groups = {labels: rows for labels, rows in groups.items() if len(rows) > 1}
    if not groups:
        return None
    levels = layout.order[key]
    made: list[tuple[str, str, list[plots.Profile]]] = []
    for labels, rows in list(groups.items())[:_MOST_PANELS]:
        lines = []
        for column, name in _QUANTILES:
            points = tuple(plots.Point(levels.index(row[key]), row[column]) for row in rows if row[column] is not None)
            if points:
                lines.append(plots.Profile(name, f"quantile:{name}", points))
        heading = ", ".join(
            layout.series_text(rows[0]) if other == layout.series else layout.key_text(other, label)
            for other, label in zip(rest, labels, strict=True)
            if other == layout.series or len(layout.order[other]) > 1
        )
        made.append((slug("percentiles", layout.experiment.name, *labels), heading, lines))
    scale = plots.scale_for([value for _, _, lines in made for value in plots.profile_values(lines)])
    panels = tuple(
        Panel(heading, plots.profiles(lines, [layout.level(key, level) for level in levels], name=name,
                                      label=key_name(key), quantity=layout.quantity, scale=scale))
        for name, heading, lines in made
    )  # fmt: skip
    left = len(groups) - len(panels)
    caption = " ".join([captions.PERCENTILES, *([captions.more_series(left)] if left else [])])
    title = titles.percentiles(key_name(key))
    return Question(slug("percentiles", layout.experiment.name), title, caption, panels, folded=True)


def interaction_figures(summary: Summary, layout: Layout) -> Question | None:
    """Interactions of two factors: a line for each level of one over the levels of the other."""
    tested = rows_of(InteractionRow, _of(summary.interactions, layout))
    pairs = [row for row in tested if len(row.factors) == 2]
    cells = list(_of(summary.cells, layout).iter_rows(named=True))
    panels = []
    for row in pairs[:_MOST_PANELS]:
        panel = _interaction_panel(layout, row, cells)
        if panel is not None:
            panels.append(panel)
    if not panels:
        return None
    headings = [panel.heading for panel in panels]
    rates = quantity_of(layout.main.quantity).is_rate and all(row.figure != ERROR for row in pairs)
    caption = (captions.interactions_of_rates if rates else captions.interactions)(headings)
    title = titles.INTERACTIONS
    return Question(slug("interactions", layout.experiment.name), title, caption, tuple(panels))


def _interaction_panel(layout: Layout, row: InteractionRow, cells: Sequence[Mapping[str, Any]]) -> Panel | None:
    factors = [factor for factor in row.factors if factor in layout.order]
    if len(factors) != 2:
        return None
    # Along the axis the factor that is drawn in panels elsewhere (the load); a line for each level of the other.
    along, lines_of = sorted(factors, key=lambda factor: (factor == layout.series, factor != layout.panel))
    place = {one.key: one.label for one in row.where}
    places = [cell for cell in cells if all(cell.get(key) == label for key, label in place.items())]
    error = row.figure == ERROR
    lines = []
    for level in layout.order[lines_of]:
        points = []
        for at, other in enumerate(layout.order[along]):
            here = [cell for cell in places if cell[lines_of] == level and cell[along] == other]
            values = [value for cell in here if (value := (cell[ERROR] if error else layout.value(cell)) or 0.0) > 0]
            if values:
                points.append(plots.Point(at, math.exp(sum(math.log(value) for value in values) / len(values))))
        if points:
            is_series = lines_of == layout.series
            label = layout.series_text({lines_of: level}) if is_series else layout.key_text(lines_of, level)
            lines.append(plots.Profile(label, str(level), tuple(points)))
    if not lines:
        return None
    name = slug("interaction", layout.experiment.name, *factors, *(f"{key} {label}" for key, label in place.items()))
    drawing = plots.profiles(
        lines, [layout.level(along, level) for level in layout.order[along]], name=name, label=key_name(along),
        quantity=ERROR if error else layout.main.quantity,
    )  # fmt: skip
    shown = (layout.key_text(key, label) for key, label in place.items() if len(layout.order.get(key, ())) > 1)
    where = "".join(f", {one}" for one in shown)
    verdict = row.refused or f"adjusted p {row.p_text}"
    effect = " x ".join(key_name(factor) for factor in row.factors)
    return Panel(f"{effect}{where} ({verdict})", drawing)


def level_figures(summary: Summary, layout: Layout) -> Question | None:
    """The tau matrix: how each figure of a run goes with each level of each factor."""
    known = [row for row in rows_of(LevelRow, _of(summary.levels, layout)) if row.tau_b is not None]
    if not known:
        return None
    panels = []
    alpha = summary.plan.analysis.alpha
    by_place: dict[tuple[ComparedLevel, ...], list[LevelRow]] = {}
    for row in known:
        by_place.setdefault(row.where, []).append(row)
    for where, part in by_place.items():
        rows = list(dict.fromkeys((row.factor, row.level) for row in part))[:MOST_ROWS]
        figures = list(dict.fromkeys(row.figure for row in part))
        squares: dict[tuple[str, str | None, str], plots.Square] = {}
        for row in part:
            sure = row.p_adjusted is not None and row.p_adjusted <= alpha
            tau = row.tau_b or 0.0
            tint = tau / row.tau_bound if row.tau_bound else 0.0
            shown = f"{tau:+z.2f}"
            squares[row.factor, row.level, row.figure] = plots.Square(tint, shown, "sure" if sure else "open")
        drawing = plots.matrix(
            [_level_name(layout, factor, level) for factor, level in rows],
            [figure_name(figure, short=True) for figure in figures],
            [[squares.get((factor, level, figure)) for figure in figures] for factor, level in rows],
            name=slug("tau-b", layout.experiment.name, *(f"{one.key} {one.label}" for one in where)),
            label="Kendall's tau-b with this figure of the runs",
            ends=plots.Ends("lower with it", "higher with it", "significant (adjusted p)", None, "not significant"),
        )
        panels.append(Panel(place_text(summary, where) if where else layout.experiment.title, drawing))
    title = titles.LEVELS
    return Question(
        slug("levels", layout.experiment.name), title, captions.TAU_B, tuple(panels[:_MOST_PANELS]), folded=True
    )


def _level_name(layout: Layout, factor: str, level: str | None) -> str:
    return f"{key_name(factor)} (as a number)" if level is None else layout.key_text(factor, level)


def outlier_figures(summary: Summary, layout: Layout) -> Question | None:
    """Where the outlying readings are: each scenario's share of all of them."""
    scored = [(row, row.share) for row in rows_of(OutlierRow, _of(summary.outliers, layout)) if row.outliers]
    ordered = sorted(((row, share) for row, share in scored if share is not None), key=lambda one: one[1], reverse=True)
    if not ordered:
        return None
    bars = [
        (scenario_name(layout, row.labels), str(row.labels.get(layout.series)), share)
        for row, share in ordered[:_MOST_SCENARIOS]
    ]
    rest = [share for _, share in ordered[_MOST_SCENARIOS:]]
    if rest:
        bars.append((f"{len(rest)} others", "published", sum(rest)))
    drawing = plots.share_bars(
        bars, name=slug("outlier-shares", layout.experiment.name), label="share of the experiment's outliers"
    )
    worst = ordered[0][0]
    total = sum(row.outliers or 0 for row, _ in ordered)
    caption = captions.outliers(total, scenario_name(layout, worst.labels), percent_text(worst.fraction or 0.0))
    title = titles.OUTLIERS
    return Question(slug("outliers", layout.experiment.name), title, caption,
                    (Panel(layout.experiment.title, drawing),), folded=True)  # fmt: skip


def scenario_name(layout: Layout, row: Mapping[str, str | None]) -> str:
    """A cell in a few words: the series, then every key that varies."""
    parts = [
        layout.series_text(row) if key == layout.series else layout.key_text(key, row.get(key))
        for key in (layout.series, *layout.groups, *((layout.panel,) if layout.panel is not None else ()))
        if key == layout.series or (len(layout.order[key]) > 1 and row.get(key) is not None)
    ]
    return ", ".join(parts)


def inference_figures(summary: Summary, layout: Layout) -> list[Question]:
    """Every figure of this module that one experiment has."""
    made = (
        tail_figures(summary, layout),
        interaction_figures(summary, layout),
        percentile_figures(summary, layout),
        level_figures(summary, layout),
        outlier_figures(summary, layout),
    )
    return [question for question in made if question is not None]
