"""From a summary to the text of one HTML file."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

import polars as pl

from vtare.report import text
from vtare.report.content import Content, content_of
from vtare.report.facts import own_kernels
from vtare.report.frame import lab_version
from vtare.report.method import needed_runs
from vtare.report.page import HtmlPage
from vtare.report.page import render as render_page
from vtare.sentences import titles
from vtare.sentences.words import plural
from vtare.summary.quality import HIDES, flawed

if TYPE_CHECKING:
    from vtare.summary import Summary


_MOST_MACHINES: Final = 4
"""Machines that stand in the first line; all of them are at the end."""


def build(summary: Summary, *, live: bool = False) -> str:
    """The whole report as HTML text: one document, nothing fetched from anywhere.

    A `live` page also asks the server it came from, and no other, whether there is a newer one.
    """
    return render(content_of(summary), live=live)


def render(content: Content, *, live: bool = False) -> str:
    """The HTML text of a report's content."""
    summary, answered = content.summary, content.answer
    return render_page(HtmlPage(
        title=f"{summary.plan.name}: vtare report",
        origin=f"vtare report · {summary.plan.name}",
        about=_where(summary),
        question=summary.plan.question,
        sentences=answered.sentences,
        key=text.keep(answered.key),
        headline=content.headline,
        headline_about=_headline_title(summary, answered.headline),
        main=content.main,
        main_title=titles.DIFFERENCES,
        main_all=content.main_all,
        certainty=text.keep(answered.certainty),
        limits=answered.limits,
        sections=content.sections,
        footer=versions(summary),
        live=live,
    ))  # fmt: skip


def _headline_title(summary: Summary, name: str | None) -> str:
    """The experiment that the main figure shows, and how many of its cells no sentence uses."""
    if name is None:
        return ""
    rows = (one.row for one in flawed(summary, least=HIDES) if one.row["experiment"] == name)
    hidden = {tuple(row[key] for key in summary.keys[name]) for row in rows}
    cells = summary.cells.filter(pl.col("experiment") == name).height
    title = summary.plan.experiment(name).title
    return f"{title}; {len(hidden)} of {plural(cells, 'cell')} cannot be trusted" if hidden else title


def _where(summary: Summary) -> str:
    if not summary.machines:
        return "no machine measured yet"
    # Containers of a machine that is named are no machines of their own.
    named = dict.fromkeys(
        (m.hostname, m.machine.get("cpu_model") or "CPU unknown") for m in own_kernels(summary.machines)
    )
    names = [f"{hostname}, {cpu}" for hostname, cpu in named]
    done = summary.design.filter(pl.col("status") == "done").height
    if len(names) > _MOST_MACHINES:
        names = [*names[:_MOST_MACHINES], f"{len(names) - _MOST_MACHINES} more"]
    return f"{'; '.join(names)} · {done} of {plural(needed_runs(summary), 'run')}"


def versions(summary: Summary) -> list[str]:
    """The programs that made the store and the report."""
    programs = sorted(
        {f"{m.program.get('name', 'program')} {m.program.get('version', 'unknown')}" for m in summary.machines}
    )
    return [
        f"instruments: {', '.join(programs) or 'none ran'}",
        f"lab: vtare {lab_version()}",
        f"Python {platform.python_version()}",
        f"polars {pl.__version__}",
        f"matplotlib {version('matplotlib')}",
        f"store: {summary.store}",
    ]
