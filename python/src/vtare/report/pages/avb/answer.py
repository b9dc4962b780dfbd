"""What the answer shows of available bandwidth: how near the truth, how sure, how expensive, how quick."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from vtare.number_text import byte_text, percent_points, rate_range_text, rate_text, time_text
from vtare.plan.factors import PATH_FACTORS
from vtare.report.pages.avb.rows import estimates_of, rows_at_baseline, rows_described
from vtare.report.sentences import answered_rows
from vtare.sentences import answers as wording
from vtare.sentences.template import FigureText, Sentence
from vtare.summary.bandwidth import reasons
from vtare.summary.rows import known_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vtare.report.layout import Layout
    from vtare.summary import Summary


def sentences(summary: Summary, layout: Layout) -> tuple[list[Sentence], list[Sentence]]:
    """The answer's sentences and the further ones, each from cells as they stand in the table."""
    rows = [row for row in answered_rows(summary, layout) if row["error_percent"] is not None]
    if not rows:
        return [], []
    estimates = estimates_of(summary, layout).filter(pl.col("avb_bit_per_s").is_not_null())
    answer = [_one_path(layout, rows), _all_paths(layout, estimates), _cost(layout, rows)]
    details = [_timers(layout, estimates), _coverage(layout, estimates), _silent(summary, layout)]
    return [one for one in answer if one], [one for one in details if one]


def _methods(layout: Layout) -> tuple[str, ...]:
    return layout.order[layout.series]


def _one_path(layout: Layout, rows: Sequence[dict[str, Any]]) -> Sentence:
    """Method beside method at the baseline of all else; a capacity that changes is no one path."""
    if "capacity_steps" in layout.keys:
        return ()
    rows = rows_at_baseline(layout, rows)
    for key in (key for key in layout.keys if key in PATH_FACTORS):
        rows = rows_described(layout, key, rows)
    if not rows:
        return ()
    varying = [key for key in layout.keys if key != layout.series and len(layout.order[key]) > 1]
    where = ", ".join(layout.key_text(key, rows[0][key]) for key in varying)
    truth = FigureText(rate_text(rows[0]["truth_bit_per_s"]))
    findings = []
    for row in rows:
        low, high = row["median_low"], row["median_high"]
        interval = "" if low is None or high is None else rate_range_text(low, high)
        known = known_of(row, "median")
        rate = "nothing" if known is None else f"{known.prefix}{rate_text(known.number)}"
        findings.append(wording.finds(row[layout.series], FigureText(rate, interval)))
    return wording.estimates_at(where, truth, findings) if where else wording.estimates(truth, findings)


def _all_paths(layout: Layout, estimates: pl.DataFrame) -> Sentence:
    """The median absolute error of each method over all its estimates, the least first, and its bounds apart."""
    by_error = []
    for method in _methods(layout):
        own = estimates.filter(pl.col("method") == method)
        errors = own["error_percent"].drop_nulls().abs()
        bounds = int(own["at_least"].sum())
        if len(errors):
            by_error.append((float(errors.median()), method, len(errors), bounds))  # type: ignore[arg-type]
    if not by_error:
        return ()
    # By what is shown, so that methods that show the same figure keep the plan's order.
    by_error.sort(key=lambda it: float(f"{it[0]:.3g}"))
    return wording.half_are_off([
        wording.error_with(FigureText(percent_points(error, signed=False)), method, count, bounds)
        for error, method, count, bounds in by_error
    ])  # fmt: skip


def _cost(layout: Layout, rows: Sequence[Mapping[str, Any]]) -> Sentence:
    """Time and bytes of an estimate: the span of each method's cells."""
    clauses: list[Sentence] = []
    for method in _methods(layout):
        own = [row for row in rows if row[layout.series] == method]
        if own:
            # What another program sends is not known.
            spent = (("estimate_ns", time_text), ("estimate_byte", byte_text))
            known = [(sorted(row[key] for row in own if row[key] is not None), text_of) for key, text_of in spent]
            costs = [FigureText(text_of(values[len(values) // 2])) for values, text_of in known if values]
            clauses.append(wording.cost_with(costs, method))
    return wording.estimate_takes(clauses) if clauses else ()


def _timers(layout: Layout, estimates: pl.DataFrame) -> Sentence:
    """Whose timers: the median absolute error under each, method by method."""
    levels = layout.order.get("timers", ())
    if len(levels) < 2:
        return ()
    methods: list[Sentence] = []
    for method in _methods(layout):
        parts = []
        for level in levels:
            own = estimates.filter((pl.col("method") == method) & (pl.col("timers") == level))
            errors = own["error_percent"].drop_nulls().abs()
            if len(errors):
                middle = float(errors.median())  # type: ignore[arg-type]
                parts.append(wording.with_timers(FigureText(percent_points(middle, signed=False)), level))
        if len(parts) == len(levels):
            methods.append(wording.off_by(method, parts))
    return wording.off_by_timers(methods) if methods else ()


def _coverage(layout: Layout, estimates: pl.DataFrame) -> Sentence:
    clauses: list[Sentence] = []
    for method in _methods(layout):
        own = estimates.filter((pl.col("method") == method) & pl.col("width_percent").is_not_null())
        known = own.filter(pl.col("covered").is_not_null())
        if not own.height:
            continue
        open_ones = own.height - known.height
        if not known.height:
            clauses.append(wording.nothing_excluded(method, open_ones))
            continue
        median_width = float(known["width_percent"].median())  # type: ignore[arg-type]
        width = FigureText(percent_points(median_width, signed=False))
        held = FigureText(f"{known['covered'].sum()} of {known.height}")
        clauses.append(wording.truth_held(method, held, width, open_ones))
    return wording.several(clauses)


def _silent(summary: Summary, layout: Layout) -> Sentence:
    frame = estimates_of(summary, layout)
    silent = frame.filter(pl.col("avb_bit_per_s").is_null())
    if not silent.height:
        return ()
    worst = silent["method"].value_counts(sort=True).row(0)
    why = reasons(silent, "stopped")
    count = FigureText(f"{silent.height} of {frame.height}")
    return wording.unanswered(count, why, worst[0], worst[1])
