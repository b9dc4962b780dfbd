"""This machine among the published platforms: figures and a table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from vtare import plots
from vtare.papers.published import LAMPE_CV_QUANTUM
from vtare.papers.standing import lampe_lines, place_counter_cv
from vtare.report import text
from vtare.report.figures import slug
from vtare.report.layout import described_level
from vtare.report.pages import page_of
from vtare.report.parts import Column, Panel, Question, Table, in_words
from vtare.report.text import Shown
from vtare.sentences import captions

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vtare.papers.standing import Standing
    from vtare.report.layout import Layout
    from vtare.summary import Summary

_LABELS: Final = {
    "TSC": "cost of one read of the CPU counter",
    "System Call": "cost of one clock_gettime",
    "uSleep": "miss of a kernel sleep",
    "HPTSleep": "miss of a sleep that ends in a spin",
}


#: A platform of the lab -> what Kirova et al. call it.
PUBLISHED_PLATFORMS: Final = {"host": "HostOS", "qemu": "QEMU", "xen": "Xen", "virtualbox": "VBox", "esxi": "ESXi"}


def standings(summary: Summary, layout: Layout) -> list[Standing]:
    """The standing of every cell of one experiment that has a published counterpart."""
    placement = page_of(layout.experiment.instrument).placement
    if placement is None or placement.place is None:
        return []
    cells = summary.cells.filter(
        (pl.col("experiment") == layout.experiment.name) & pl.col(layout.main.value).is_not_null()
    )
    rows = _one_group(layout, sorted(cells.iter_rows(named=True), key=layout.sort_key))
    placed = []
    main = layout.main
    for row in rows:
        if _without_device(summary, row):
            continue
        figures = (row[name] for name in (main.value, main.low, main.high))
        standing = placement.place(str(row[layout.series]), row.get("load") or "idle", *figures)
        if standing is not None:
            placed.append(standing)
    return placed


def _without_device(summary: Summary, row: Mapping[str, Any]) -> bool:
    """Whether the load of a cell is named after input and output, but reached no device: the papers' did."""
    place = row.get("platform") or "host"
    return any(made.kind == row.get("load") and place in made.no_device_on for made in summary.loads)


def _one_group(layout: Layout, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Only one level of keys that the papers do not have: sleeps of 1 ms where they were measured, else the first."""
    chosen = _chosen(layout)
    return [row for row in rows if all(row[key] == level for key, level in chosen.items())]


def _chosen(layout: Layout) -> dict[str, str]:
    """The level of each key that the papers do not have, at which cells are placed."""
    keys = [key for key in layout.keys if key not in (layout.series, "load")]
    levels = {key: described_level(layout, key, layout.order[key]) for key in keys}
    return {key: level for key, level in levels.items() if level is not None}


def placement_figures(summary: Summary, layouts: Mapping[str, Layout]) -> list[Question]:
    """One question per experiment with published counterparts."""
    questions = []
    for layout in layouts.values():
        placement = page_of(layout.experiment.instrument).placement
        if placement is None:
            continue
        if placement.place is None:
            question = _cv_question(summary, layout, placement.caption)
            questions += [question] if question is not None else []
            continue
        panels = _standing_panels(standings(summary, layout), layout.experiment.name)
        if panels:
            fixed = [layout.key_text(key, level) for key, level in _chosen(layout).items() if key != "platform"]
            cells = summary.cells.filter(pl.col("experiment") == layout.experiment.name)
            caption = placement.caption.format(level=text.levels_text(cells))
            caption += f" {captions.placed_at(fixed)}" if fixed else ""
            questions.append(
                Question(slug("placement", layout.experiment.name), layout.experiment.title, caption, panels)
            )
    return questions


def _standing_panels(found: list[Standing], experiment: str) -> tuple[Panel, ...]:
    panels = []
    for function in dict.fromkeys(standing.function for standing in found):
        rows: list[plots.Dot] = []
        for load in dict.fromkeys(standing.load for standing in found if standing.function == function):
            here = [standing for standing in found if standing.function == function and standing.load == load]
            group = [
                plots.Dot(
                    figure.platform,
                    "published",
                    figure.median_ns,
                    *_half_iqr_ends(figure.median_ns, figure.half_iqr_ns),
                    group=f"load {load}",
                )
                for figure in here[0].published
            ]
            group += [
                plots.Dot(f"here: {s.what}", s.what, s.median_ns, s.low_ns, s.high_ns, group=f"load {load}", mine=True)
                for s in here
            ]
            rows += sorted(group, key=lambda dot: dot.value)
        drawing = plots.dot_intervals(rows, name=slug("placement", experiment, function), label=_LABELS[function])
        panels.append(Panel(f"{_LABELS[function]} (published: {function})", drawing))
    return tuple(panels)


def _half_iqr_ends(median: float, half_iqr: float | None) -> tuple[float | None, float | None]:
    """Ends of the bar; none where the lower one would not fit a logarithmic axis."""
    if half_iqr is None or half_iqr >= median:
        return None, None
    return median - half_iqr, median + half_iqr


def _cv_question(summary: Summary, layout: Layout, caption: str) -> Question | None:
    """The CV by argument among the published ones: a panel for each level of the panel's key, a line for each group."""
    cells = summary.cells.filter((pl.col("experiment") == layout.experiment.name) & pl.col("cv").is_not_null())
    if cells.height == 0:
        return None
    published = [
        plots.CvLine(name, "published", arguments, cvs, published=True) for name, arguments, cvs in lampe_lines()
    ]
    panels = []
    for level in [None] if layout.panel is None else layout.order[layout.panel]:
        part = cells if layout.panel is None else cells.filter(pl.col(layout.panel) == level)
        groups: dict[str, list[dict[str, Any]]] = {}
        for row in sorted(part.iter_rows(named=True), key=layout.sort_key):
            groups.setdefault(_line_name(layout, row), []).append(row)
        lines = []
        for name, rows in groups.items():
            rows.sort(key=lambda row: _argument(layout, row))
            arguments = tuple(_argument(layout, row) for row in rows)
            lines.append(plots.CvLine(name or "here", name or "adaptive", arguments, tuple(row["cv"] for row in rows)))
        if lines:
            heading = "coefficient of variation by argument"
            heading += "" if layout.panel is None else f", {layout.key_text(layout.panel, level)}"
            name = slug("placement", layout.experiment.name, level)
            drawing = plots.cv_by_argument([*published, *lines], name=name, cv_quantum=LAMPE_CV_QUANTUM)
            panels.append(Panel(heading, drawing))
    return Question(slug("placement", layout.experiment.name), layout.experiment.title, caption, tuple(panels))


def _argument(layout: Layout, row: Mapping[str, Any]) -> int:
    return int(layout.number("argument", row["argument"]) or 0)


def _line_name(layout: Layout, row: Mapping[str, Any]) -> str:
    """What a line has that the others of its panel have not: `java`, `background 4`; empty where there is one line."""
    varying = [key for key in layout.groups if len(layout.order[key]) > 1]
    return ", ".join(layout.named(key, row[key]) for key in varying)


def placement_tables(summary: Summary, layouts: Mapping[str, Layout]) -> tuple[Table, ...]:
    """Every standing in words: a table of times and one of coefficients of variation, without those that are empty."""
    tables = (_times_table(summary, layouts), _cv_table(summary, layouts))
    return tuple(_without_empty_columns(table) for table in tables if table.rows)


_WHERE: Final = (
    *in_words("experiment", "cell", "load", "measured"),
    Column("beside", "beside", numeric=False, about="the published function"),
)
_STANDING: Final = Column("standing", "standing", numeric=False)


def _times_table(summary: Summary, layouts: Mapping[str, Layout]) -> Table:
    rows: list[tuple[Shown, ...]] = []
    for layout in layouts.values():
        for s in standings(summary, layout):
            span = ", ".join(
                f"{f.platform} {text.time(f.median_ns, '').text}"
                for f in sorted(s.published, key=lambda f: f.median_ns)
            )
            rows.append((
                text.words(layout.experiment.name), _cell(layout, _chosen(layout), layout.series), text.words(s.load),
                text.words(s.what), text.words(s.function),
                text.time(s.median_ns, ""), text.interval(s.low_ns, s.high_ns, "needs 3 runs"),
                Shown(s.rank_text, s.rank_text, s.below - s.above), text.words(span),
            ))  # fmt: skip
    columns = (
        *_WHERE,
        Column("median_ns", "here", about="median over runs; of a timer the cost of a read in a tight loop"),
        Column("median_interval_ns", f"{text.levels_text(summary.cells)} interval"),
        _STANDING,
        Column("published", "published medians", numeric=False),
    )
    return Table("placement", "Standing among published platforms", columns, tuple(rows))


def _without_empty_columns(table: Table) -> Table:
    """The table without columns that state nothing in any row."""
    kept = [at for at in range(len(table.columns)) if any(row[at].raw for row in table.rows)]
    columns = tuple(table.columns[at] for at in kept)
    return replace(table, columns=columns, rows=tuple(tuple(row[at] for at in kept) for row in table.rows))


def platform_table(summary: Summary, layouts: Mapping[str, Layout]) -> Table | None:
    """Each platform beside the published figure of the same platform; None where none of them is in a paper."""
    rows: list[tuple[Shown, ...]] = []
    for layout in layouts.values():
        placement = page_of(layout.experiment.instrument).placement
        if placement is None or placement.place is None or "platform" not in layout.order:
            continue
        main = layout.main
        cells = summary.cells.filter(
            (pl.col("experiment") == layout.experiment.name) & pl.col(main.value).is_not_null()
        )
        for row in sorted(cells.iter_rows(named=True), key=layout.sort_key):
            if _without_device(summary, row):
                continue
            here = (row[main.value], row[main.low], row[main.high])
            standing = placement.place(str(row[layout.series]), row.get("load") or "idle", *here)
            name = PUBLISHED_PLATFORMS.get(row["platform"])
            theirs = next((one for one in standing.published if one.platform == name), None) if standing else None
            if standing is None or theirs is None:
                continue
            rest = [key for key in layout.keys if key not in ("platform", "load", layout.series)]
            where = ", ".join(layout.key_text(key, row[key]) for key in rest if len(layout.order[key]) > 1)
            rows.append((
                text.words(layout.experiment.name), text.words(row["platform"]), text.words(standing.load),
                text.words(f"{standing.what}, {where}" if where else standing.what),
                text.time(here[0], ""), text.interval(here[1], here[2], "needs 3 runs"),
                text.words(f"{theirs.platform}, {standing.function}"), text.time(theirs.median_ns, ""),
                text.time(theirs.half_iqr_ns, "not printed"), text.ratio(here[0] / theirs.median_ns, None, None, ""),
            ))  # fmt: skip
    columns = (
        *in_words("experiment", "platform", "load", "measured"),
        Column("median_ns", "here"),
        Column("median_interval_ns", f"{text.levels_text(summary.cells)} interval"),
        Column("beside", "beside", numeric=False),
        Column("published_ns", "published median"),
        Column("published_half_iqr_ns", "published half IQR"),
        Column("ratio", "here / published"),
    )
    return (
        Table("placement-platforms", "Each platform beside the published one", columns, tuple(rows)) if rows else None
    )


def _cell(layout: Layout, levels: Mapping[str, str], measured: str) -> Shown:
    """The levels that distinguish a row's cell, but for those that have a column of their own."""
    keys = [key for key in layout.keys if key not in (measured, "load") and len(layout.order[key]) > 1]
    return text.words(", ".join(layout.key_text(key, levels[key]) for key in keys) or None)


def _is_by_argument(layout: Layout) -> bool:
    placement = page_of(layout.experiment.instrument).placement
    return placement is not None and placement.place is None


def _cv_table(summary: Summary, layouts: Mapping[str, Layout]) -> Table:
    columns = (
        *_WHERE,
        Column("cv", "here", about="coefficient of variation, median over runs"),
        _STANDING,
        Column("published", "published", numeric=False),
    )
    rows = [row for layout in layouts.values() if _is_by_argument(layout) for row in _cv_rows(summary, layout)]
    return Table("placement-cv", "Coefficients of variation among published ones", columns, tuple(rows))


def _cv_rows(summary: Summary, layout: Layout) -> list[tuple[Shown, ...]]:
    rows: list[tuple[Shown, ...]] = []
    cells = summary.cells.filter((pl.col("experiment") == layout.experiment.name) & pl.col("cv").is_not_null())
    for row in sorted(cells.iter_rows(named=True), key=layout.sort_key):
        standing = place_counter_cv(_argument(layout, row), row["cv"])
        if standing is None:
            continue
        low, high = min(v for _, v in standing.published), max(v for _, v in standing.published)
        rank = f"below {standing.below} of {len(standing.published)} published CVs"
        rows.append((
            text.words(layout.experiment.name), _cell(layout, row, "argument"), text.words(row.get("load") or "idle"),
            text.words(f"CV at argument {standing.argument}"), text.words("TiMeAcE"),
            text.percent(row["cv"], ""),
            Shown(rank, rank, standing.below),
            text.words(f"{text.percent(low, '').text} to {text.percent(high, '').text}"),
        ))  # fmt: skip
    return rows
