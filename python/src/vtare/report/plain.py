"""The report as Markdown, LaTeX or JSON: the answer and the tables, for pull requests, papers and programs."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from vtare.report import layers, text
from vtare.report.build import flagged_text, pending_text, verdict_counts, versions
from vtare.report.content import CAVEATS, DIFFERS, METHOD, PLACEMENT, STEADINESS
from vtare.report.method import caveats_of, method_of
from vtare.report.sentences import plain
from vtare.report.tables import json_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.report.content import Content
    from vtare.report.parts import Column, Sentence, Table
    from vtare.report.text import Shown

FORMATS: Final = {"md": "report.md", "latex": "report.tex", "json": "report.json"}
"""Form -> name of its file in the store."""

_NARROW: Final = {
    "verdicts": ("where", "change", "ratio_of_medians", "verdict", "p_adjusted", "runs"),
    "layers": ("figure", "where", "change", "ratio", "verdict", "runs"),
    "tests": ("factor", "where", "test", "statistic", "p_adjusted"),
    "tails": ("where", "change", "tail", "ratio_of_means", "p_adjusted", "runs"),
    "interactions": ("effect", "where", "f", "freedom", "p_adjusted"),
    "levels": ("factor", "level", "figure", "tau_b", "tau_bound", "cliffs_delta", "p_adjusted"),
    "outliers": ("scenario", "n", "outliers", "fraction", "share"),
    "controls": ("block", "control", "part", "median_ns", "verdict"),
    "skipped": ("experiment", "block", "reason"),
    "failed": ("experiment", "block", "reason"),
}
"""Columns that a printed page has room for, by kind of table; all of them are in the HTML report and its CSV files."""
_CELL_FIGURES: Final = (
    "read_cost_ns", "read_cost_interval_ns", "median_ns", "median_interval_ns", "truth_bit_per_s", "median_bit_per_s",
    "error_percent", "spread_half_iqr_ns", "p99_ns", "p999_ns", "overhead_ns", "lost", "n_runs",
)  # fmt: skip
_LATEX: Final = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': r"\textquotedbl{}", "\N{NO-BREAK SPACE}": "~", "\N{MICRO SIGN}": r"\textmu{}",
    "\N{MULTIPLICATION SIGN}": r"$\times$", "\N{EN DASH}": "--", "\N{MIDDLE DOT}": r"\textperiodcentered{}",
    "\n": " ", "\r": " ", "\t": " ",
}  # fmt: skip


def render_plain(content: Content, form: str) -> str:
    """The report in one of `FORMATS`.

    Raises:
        KeyError: no such form.
    """
    return {"md": markdown, "latex": latex, "json": as_json}[form](content)


def _sections(content: Content) -> list[tuple[str, str, tuple[Sentence, ...], list[Table]]]:
    """Titles, what stands under each, further sentences, and tables."""
    summary = content.summary
    found: list[tuple[str, str, tuple[Sentence, ...], list[Table]]] = []
    if content.layers is not None:
        found.append((layers.title(summary), layers.words(summary), (), [content.layers]))
    compared = [table for table in (content.main_all, content.verdicts, content.tests) if table is not None]
    if compared:
        found.append((DIFFERS, verdict_counts(summary), (), compared))
    for part in content.parts:
        held = f"Held fixed: {part.fixed}." if part.fixed else ""
        about = " ".join(piece for piece in (held, part.about) if piece)
        found.append((part.title, about, part.notes, [part.cells, *part.tables]))
    if content.placement_tables:
        words = "The papers measured other hardware and kernels: the standing shows the order of magnitude."
        found.append((PLACEMENT, words, (), list(content.placement_tables)))
    blocks = " ".join(piece for piece in (flagged_text(summary), pending_text(summary)) if piece)
    controls = [content.controls] if content.controls is not None else []
    found.append((STEADINESS, blocks, (), [*controls, *content.absent]))
    return found


def markdown(content: Content) -> str:
    """The report as Markdown with pipe tables, all columns, as GitHub and pandoc read them."""
    summary = content.summary
    lines = [f"# {md(summary.plan.question)}", "", f"vtare report, {md(summary.plan.name)}", ""]
    for sentence in content.answer.sentences:
        lines += [md(plain(sentence)), ""]
    if content.answer.key:
        lines += [f"*{md(content.answer.key)}*", ""]
    if content.main is not None:
        lines += [f"### {md(content.main.caption)}", "", *md_table(content.main), ""]
    lines += [md(content.answer.certainty), ""]
    if content.answer.limits:
        lines += ["## What cannot be concluded?", "", *(f"- {md(limit)}" for limit in content.answer.limits)]
    for title, words, notes, tables in _sections(content):
        lines += ["", f"## {md(title)}", ""]
        if words:
            lines += [md(words), ""]
        lines += [*(f"- {md(plain(sentence))}" for sentence in notes), ""]
        for table in tables:
            lines += [f"### {md(table.caption)}", "", *md_table(table), ""]
    lines += ["", f"## {METHOD}", "", *(f"- {md(line)}" for line in method_of(summary, content.layouts))]
    lines += ["", f"## {CAVEATS}", "", *(f"- {md(line)}" for line in caveats_of(summary, content.layouts))]
    lines += ["", f"Seed {summary.seed}. {md('; '.join(versions(summary)))}"]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def md(words: str) -> str:
    """Words that no Markdown reader takes for markup or HTML."""
    escaped = words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    escaped = re.sub(r"([\\`*_\[\]|#])", r"\\\1", escaped)
    return re.sub(r"\s*[\r\n]+\s*", " ", escaped)


def md_table(table: Table) -> list[str]:
    """A table as lines of Markdown."""
    heads = [md(column.label) for column in table.columns]
    rule = ["---:" if column.numeric else "---" for column in table.columns]
    rows = [[md(shown.text) for shown in row] for row in table.rows]
    return ["| " + " | ".join(cells) + " |" for cells in (heads, rule, *rows)]


def latex(content: Content) -> str:
    """The tables as LaTeX for a paper: booktabs and longtable, the columns a page has room for, one figure a cell."""
    summary = content.summary
    lines = [
        f"% {_tex_comment(summary.plan.name)}: tables of vtare, to be read with \\input.",
        "% Needs \\usepackage{booktabs,longtable,textcomp} and T1 fonts (\\usepackage[T1]{fontenc}).",
        "",
        *(f"% {_tex_comment(plain(sentence))}" for sentence in content.answer.sentences),
    ]
    main = [] if content.main is None else [(summary.plan.question, "", (), [content.main])]
    for title, words, _, tables in [*main, *_sections(content)]:
        for table in tables:
            if table.rows:
                lines += ["", f"% {_tex_comment(title)}. {_tex_comment(words)}".rstrip(), *_tex_table(_narrow(table))]
    lines += ["", f"% Seed {summary.seed}. {_tex_comment('; '.join(versions(summary)))}"]
    return "\n".join(lines) + "\n"


def as_json(content: Content) -> str:
    """The report as one JSON document (`vtare.report/1`): the answer, and all tables with all columns.

    A cell is `{"value": ..., "text": ...}`: the value in the unit that its column's name ends with, as in the CSV
    files, null where it is missing; the text as the page shows it, which then has the reason.
    """
    summary = content.summary
    main = [] if content.main is None else [(summary.plan.question, "", (), [content.main])]
    document = {
        "schema": "vtare.report/1",
        "plan": summary.plan.name,
        "question": summary.plan.question,
        "seed": summary.seed,
        "answer": [plain(sentence) for sentence in content.answer.sentences],
        "certainty": content.answer.certainty,
        "limits": list(content.answer.limits),
        "sections": [
            {
                "title": title,
                "about": words,
                "notes": [plain(sentence) for sentence in notes],
                "tables": [_json_table(table) for table in tables],
            }
            for title, words, notes, tables in [*main, *_sections(content)]
        ],
        "method": list(method_of(summary, content.layouts)),
        "caveats": list(caveats_of(summary, content.layouts)),
        "versions": list(versions(summary)),
    }
    return json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def _json_table(table: Table) -> dict[str, Any]:
    columns = [
        {"name": column.key, "label": column.label, "numeric": column.numeric, "about": column.about}
        for column in table.columns
    ]
    rows = [
        {
            column.key: {"value": json_value(column, cell), "text": cell.text}
            for column, cell in zip(table.columns, row, strict=True)
        }
        for row in table.rows
    ]
    return {"id": table.id, "caption": table.caption, "columns": columns, "rows": rows}


def _narrow(table: Table) -> Table:
    """The table with the columns that fit on a page; key columns of cells always stay."""
    kind = table.id.partition("-")[0]
    wanted = _NARROW.get(kind)
    if kind == "cells":
        keep = [at for at, column in enumerate(table.columns) if not column.numeric or column.key in _CELL_FIGURES]
        # Levels that are the same in all rows belong into the caption, not into every row.
        keep = [at for at in keep if table.columns[at].numeric or len({row[at].text for row in table.rows}) > 1]
    elif wanted is not None:
        named = len({row[0].text for row in table.rows}) > 1
        keep = [
            at
            for at, column in enumerate(table.columns)
            if column.key in wanted or (column.key == "experiment" and named)
        ]
    else:
        return table
    columns = tuple(table.columns[at] for at in keep)
    return type(table)(table.id, table.caption, columns, tuple(tuple(row[at] for at in keep) for row in table.rows))


def _tex_comment(words: str) -> str:
    return re.sub(r"\s+", " ", words)


def tex(words: str) -> str:
    """Words with every character escaped that LaTeX would take for its own."""
    return "".join(_LATEX.get(letter, letter) for letter in words)


def _tex_table(table: Table) -> list[str]:
    form = "".join("r" if column.numeric else "l" for column in table.columns)
    heads = " & ".join(tex(column.label) for column in table.columns) + r" \\"
    label = re.sub(r"[^a-z0-9]+", "-", table.id.lower())
    return [
        rf"\begin{{longtable}}{{{form}}}",
        rf"\caption{{{tex(table.caption)}}}\label{{tab:{label}}}\\",
        r"\toprule",
        heads,
        r"\midrule",
        r"\endfirsthead",
        r"\toprule",
        heads,
        r"\midrule",
        r"\endhead",
        r"\bottomrule",
        r"\endlastfoot",
        *(_tex_row(table.columns, row) for row in table.rows),
        r"\end{longtable}",
    ]


def _tex_row(columns: Sequence[Column], row: Sequence[Shown]) -> str:
    # A reason in place of a figure would widen its column beyond the page: a dash, and the reason stays in the report.
    shown = [
        "--" if cell.kind == "missing" and column.numeric and cell.order is None else tex(text.keep(cell.text))
        for column, cell in zip(columns, row, strict=True)
    ]
    return " & ".join(shown) + r" \\"
