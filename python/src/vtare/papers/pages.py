"""One page for each paper: what of it reproduces from its own tables, written by the code that computed it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vtare.papers.catalogue import PAPERS, find
from vtare.papers.claims import figures_of, reanalyse
from vtare.papers.claims.model import OUTCOMES
from vtare.papers.held import ROWS, STATES, rows_of
from vtare.process import write_whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vtare.papers.catalogue import Paper
    from vtare.papers.claims.model import Reanalysis

PLANS: Final = {
    "kirova2019": ("kirova-timers", "kirova-avb"),
    "lampe2013": ("lampe-counter", "lampe-cloud"),
    "oliveira": ("oliveira-rtt",),
    "kachan2017": ("kachan-avb",),
    "batalla2018": ("batalla",),
}
"""Paper -> plans that ask its questions again."""
_WORDS: Final = {
    "reproduces": "The figure follows from what is published.",
    "in part": "The conclusion holds, the figure does not; or some of it holds.",
    "does not reproduce": "What is published gives another figure, or contradicts itself.",
    "cannot be decided": "It would take data that are not published.",
}


def page(name: str, *, plans: frozenset[str]) -> str:
    """The Markdown page of one paper. `plans` are those that are shipped: only these are named.

    Raises:
        vtare.papers.UnknownTable: no such paper.
    """
    paper, _ = find(name)
    claims = reanalyse(paper.name)
    return "\n".join([*_head(paper, claims), *_table(claims), *_figures(paper), *_held(paper), *_again(paper, plans)])


def _head(paper: Paper, found: Reanalysis) -> Iterator[str]:
    yield f"# {paper.name}: what reproduces"
    yield ""
    yield f"{paper.citation}"
    yield ""
    yield found.about
    yield ""
    yield f"**How it was checked.** {found.method}"
    yield ""
    yield "| outcome | claims | meaning |"
    yield "|---|---:|---|"
    for outcome in OUTCOMES:
        yield f"| {outcome} | {found.counts[outcome]} | {_WORDS[outcome]} |"
    yield ""


def _table(found: Reanalysis) -> Iterator[str]:
    yield "## Claims"
    yield ""
    yield "| claim | statement | where | printed | computed | outcome: reason |"
    yield "|---|---|---|---|---|---|"
    for claim in found.claims:
        verdict = f"**{claim.outcome}**: {claim.why}"
        cells = (claim.id, claim.statement, claim.where, claim.printed, claim.found, verdict)
        yield f"| {' | '.join(_cell(cell) for cell in cells)} |"
    yield ""


def _cell(words: str) -> str:
    return re.sub(r"\s+", " ", words).replace("|", "\\|").replace("<", "&lt;")


def _figures(paper: Paper) -> Iterator[str]:
    yield "## Figures"
    yield ""
    for drawing in figures_of(paper.name):
        yield f"![{drawing.text.replace('[', '(').replace(']', ')')}]({drawing.name}.svg)"
        yield ""


def _held(paper: Paper) -> Iterator[str]:
    yield "## Its results, and where they are measured again"
    yield ""
    yield "| result | system | factor | metric | held | where | what is missing, or limits it |"
    yield "|---|---|---|---|---|---|---|"
    for row in rows_of(paper.name):
        cells = (row.shown, row.system, row.factor, row.metric, f"**{row.state}**", row.place, row.why)
        yield f"| {' | '.join(_cell(cell) for cell in cells)} |"
    yield ""


def _again(paper: Paper, plans: frozenset[str]) -> Iterator[str]:
    yield "## On your own machine"
    yield ""
    yield f"The published tables: `vtare papers {paper.name}`; these claims: `vtare papers {paper.name} --claims`."
    shipped = [name for name in PLANS[paper.name] if name in plans]
    if shipped:
        listed = ", ".join(f"`vtare run {name}`" for name in shipped)
        twins = ", ".join(f"`{name}-quick`" for name in shipped if f"{name}-quick" in plans)
        yield f"The same questions, measured here: {listed}; quick twins: {twins}."
    yield f"Your own results among the published ones: `vtare papers {paper.name} --store STORE`."
    yield ""


def pages(*, plans: frozenset[str]) -> dict[str, str]:
    """Every file that `vtare papers --write` writes: name -> text. Figures are SVG."""
    files = {"README.md": _index()}
    for paper in PAPERS:
        files[f"{paper.name}.md"] = page(paper.name, plans=plans)
        for drawing in figures_of(paper.name):
            files[f"{drawing.name}.svg"] = drawing.svg + "\n"
    return files


def _index() -> str:
    lines = [
        "# The papers, re-analysed",
        "",
        "Which statements of five papers follow from the figures that they publish, by the published tables in "
        "`python/src/vtare/papers/data` alone.",
        "",
        f"| paper | {' | '.join(OUTCOMES)} |",
        f"|---|{'---:|' * len(OUTCOMES)}",
    ]
    for paper in PAPERS:
        counts = reanalyse(paper.name).counts
        lines.append(
            f"| [{paper.name}]({paper.name}.md) | {' | '.join(str(counts[outcome]) for outcome in OUTCOMES)} |"
        )
    lines += ["", *(f"- *{outcome}*: {_WORDS[outcome]}" for outcome in OUTCOMES), ""]
    held = ", ".join(f"{sum(row.state == state for row in ROWS)} {state}" for state in STATES)
    lines += [
        f"Of {len(ROWS)} results of the papers the shipped plans and tests hold: {held}. *Whole* is as published, "
        "where a plan runs at its full counts on hardware that has what it names. Each page lists its own.",
        "",
    ]
    return "\n".join(lines)


def write_pages(directory: Path, *, plans: frozenset[str]) -> list[Path]:
    """Write every page and figure into a directory, which is made where it is missing.

    Raises:
        OSError: it cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for name, text in pages(plans=plans).items():
        path = directory / name
        write_whole(path, text.encode())
        written.append(path)
    return written
