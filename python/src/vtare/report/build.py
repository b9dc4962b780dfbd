"""From a summary to the text of one HTML file."""

from __future__ import annotations

import platform
from collections import Counter
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

import polars as pl
from markupsafe import Markup, escape

from vtare.report import layers, text
from vtare.report.content import CAVEATS, DIFFERS, METHOD, PLACEMENT, STEADINESS, Content, content_of
from vtare.report.embed import SHAPES, bundle, embed, figure_data
from vtare.report.facts import facts_of, load_facts, own_kernels
from vtare.report.figures import slug
from vtare.report.frame import environment, lab_version, stylesheet, template_text
from vtare.report.method import caveats_of, method_of
from vtare.stats import WORDS, Verdict
from vtare.summary.quality import HIDES, flawed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vtare.report.layout import Layout
    from vtare.report.parts import Sentence
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
    summary, layouts, found = content.summary, content.layouts, content.answer
    charts = embed(content.questions())
    context: dict[str, Any] = {
        "name": summary.plan.name,
        "where": _where(summary),
        "question_text": summary.plan.question,
        "sentences": [_marked(sentence) for sentence in found.sentences],
        "key": text.keep(found.key),
        "certainty": text.keep(found.certainty),
        "limits": found.limits,
        "main": content.main,
        "main_all": content.main_all,
        "marked": _marked,
        "headline": content.headline,
        "headline_title": _headline_title(summary, found.headline),
        "effects": content.effects,
        "layers": content.layers,
        "layers_title": layers.title(summary),
        "layers_words": layers.words(summary),
        "titles": {
            "differs": DIFFERS,
            "placement": PLACEMENT,
            "steadiness": STEADINESS,
            "method": METHOD,
            "caveats": CAVEATS,
        },
        "verdicts": content.verdicts,
        "verdict_counts": verdict_counts(summary),
        "tests": content.tests,
        "parts": content.parts,
        "placements": content.placements,
        "placement_tables": content.placement_tables,
        "drift": content.drift,
        "changes": content.changes,
        "controls": content.controls,
        "flagged": flagged_text(summary),
        "absent": content.absent,
        "pending": pending_text(summary),
        "method": method_of(summary, layouts),
        "caveats": caveats_of(summary, layouts),
        "machines": [
            {"name": f"{m.hostname} ({m.platform}, {text.plural(m.runs, 'run')})", "facts": facts_of(m)}
            for m in summary.machines
        ],
        "loads": load_facts(summary.loads),
        "plan_text": summary.plan_text,
        "seed": summary.seed,
        "seed_note": "" if summary.plan.seed is not None else "drawn when the campaign began: the plan names none",
        "versions": versions(summary),
        "css": stylesheet(),
        "js": template_text("report.js"),
        "charts": charts,
        "shapes": SHAPES,
        "data": figure_data(one for one in content.drawings() if one.name not in charts.by_figure),
        "bundle": bundle() if charts.by_figure else "",
        "explore": template_text("explore.js"),
        "live": template_text("live.js") if live else "",
    }
    context["contents"] = _contents(context, layouts)
    return environment().get_template("report.html.j2").render(context)


def _headline_title(summary: Summary, name: str | None) -> str:
    """The experiment that the main figure shows, and how many of its cells no sentence uses."""
    if name is None:
        return ""
    found = (one.row for one in flawed(summary, least=HIDES) if one.row["experiment"] == name)
    hidden = {tuple(row[key] for key in summary.keys[name]) for row in found}
    cells = summary.cells.filter(pl.col("experiment") == name).height
    title = summary.plan.experiment(name).title
    return f"{title}; {len(hidden)} of {text.plural(cells, 'cell')} cannot be trusted" if hidden else title


def _marked(sentence: Sentence) -> Markup:
    """The sentence with its figures set bold, their intervals set back, and commands as code."""
    pieces = []
    for piece in sentence:
        if isinstance(piece, str):
            words = piece.split("`")
            pieces += [Markup("<code>{}</code>").format(part) if at % 2 else escape(text.keep(part))
                       for at, part in enumerate(words)]  # fmt: skip
            continue
        pieces.append(Markup("<strong>{}</strong>").format(text.keep(piece.value)))
        if piece.interval:
            pieces.append(Markup(' <span class="range">({})</span>').format(text.keep(piece.interval)))
    return Markup("").join(pieces)


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
    return f"{'; '.join(names)} · {done} of {text.plural(summary.design.height, 'run')}"


def verdict_counts(summary: Summary) -> str:
    """How many comparisons have each verdict, in a sentence."""
    counts = Counter(row.word for row in summary.comparisons)
    margin = summary.plan.analysis.margin_percent
    listed = ", ".join(
        f"{counts[word]} {word}{f' (within {margin:g} %)' if word == Verdict.EQUIVALENT else ''}"
        for word in WORDS
        if counts[word]
    )
    return f"Of {text.plural(counts.total(), 'comparison')}: {listed}."


def flagged_text(summary: Summary) -> str:
    """Which blocks are flagged, in a sentence."""
    if summary.controls.height == 0:
        return "No block could be flagged: there is no control run."
    if not summary.flagged_blocks:
        return "No block is flagged: the control cell stayed within its limit in every block that was measured."
    blocks = text.listing([str(block) for block in summary.flagged_blocks])
    many = len(summary.flagged_blocks) > 1
    which, whose = ("blocks", "Their") if many else ("block", "Its")
    return f"Flagged: {which} {blocks}. {whose} runs are kept in every figure."


def pending_text(summary: Summary) -> str:
    """How many runs are still to be made, in a sentence; empty where none."""
    if not summary.pending_runs:
        return ""
    return f"{text.plural(summary.pending_runs, 'run')} of the plan not yet made: vtare resume goes on."


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


def _contents(context: Mapping[str, Any], layouts: Mapping[str, Layout]) -> list[tuple[str, str]]:
    found = [("layers", context["layers_title"])] if context["layers"] is not None else []
    found += [("verdicts", DIFFERS)] if context["verdicts"] is not None else []
    found += [(slug("experiment", name), layout.experiment.title) for name, layout in layouts.items()]
    if context["placements"] or context["placement_tables"]:
        found.append(("placement", PLACEMENT))
    return [
        *found,
        ("steadiness", STEADINESS),
        ("method", METHOD),
        ("machine", "What was it measured on?"),
        ("plan", "What was the plan?"),
    ]
