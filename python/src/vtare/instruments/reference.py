"""The reference of figures in docs/reference/metrics.md, made of their records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vtare.instruments import COMMON, RECORDS
from vtare.quantities import plain_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vtare.instruments.model import Metric


def tables() -> str:
    """A table of each instrument's figures, in the order of reports, then those of every run."""
    parts = [(f"`vtare {record.name}`", record.metrics) for record in RECORDS]
    return "\n\n".join(f"### {title}\n\n{_table(metrics)}" for title, metrics in [*parts, ("Every run", COMMON)])


def _table(metrics: Iterable[Metric]) -> str:
    head = "| figure | unit | better | over runs | is |\n|---|---|---|---|---|\n"
    return head + "\n".join(
        f"| `{one.name}` | {_unit(one)} | {one.better or ''} | {one.over_runs} | {meaning(one)} |" for one in metrics
    )


def _unit(figure: Metric) -> str:
    return "that of the readings" if figure.of_readings else figure.symbol or ""


def meaning(figure: Metric) -> str:
    """What a figure is, in words: those of its heading, of sentences, of an axis, else its name."""
    words = {"of": "", "what": "the readings", "threshold": "the threshold"}
    return (figure.about or figure.words or figure.axis or figure.short or plain_name(figure.name)).format(**words)
