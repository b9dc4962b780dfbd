"""The report as Markdown, LaTeX or JSON: the answer and the tables, for pull requests, papers and programs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from vtare.report import text
from vtare.report.build import versions
from vtare.report.method import caveats_of, method_of
from vtare.report.parts import Code, Facts, Heading, Notes, Section, Table, Text
from vtare.report.tables import json_value
from vtare.sentences import captions, titles
from vtare.sentences.template import plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.records import campaigns as records
    from vtare.report.content import Content
    from vtare.report.parts import Block, Column
    from vtare.report.text import Shown

FORMATS: Final = {"md": "report.md", "latex": "report.tex", "json": "report.json"}
"""Form -> name of its file in the store."""

_MOST_FIGURES: Final = 7
"""Figures of a cell that a printed page has room for; all of them are in the HTML report and its CSV files."""
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


def markdown(content: Content) -> str:
    """The report as Markdown with pipe tables, all columns, as GitHub and pandoc read them."""
    summary = content.summary
    lines = [f"# {md(summary.plan.question)}", "", f"vtare report, {md(summary.plan.name)}", ""]
    for sentence in content.answer.sentences:
        lines += [md_line(plain(sentence)), ""]
    if content.answer.key:
        lines += [f"*{md(content.answer.key)}*", ""]
    if content.main is not None:
        lines += [f"### {md(content.main.caption)}", "", *md_table(content.main), ""]
    lines += [md_line(content.answer.certainty), ""]
    if content.answer.limits:
        lines += [f"## {titles.LIMITS}", "", *(f"- {md_line(limit)}" for limit in content.answer.limits)]
    for section in content.sections:
        lines += ["", f"## {md(section.title)}", ""]
        if section.id == "verdicts" and content.main_all is not None:
            lines += [f"### {md(content.main_all.caption)}", "", *md_table(content.main_all), ""]
        for block in section.blocks:
            lines += [*_md_block(block), ""]
    lines += ["", f"Seed {summary.seed}. {md('; '.join(versions(summary)))}"]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def _md_block(block: Block) -> list[str]:
    """A block of a section as lines of Markdown; figures are drawn on the page only."""
    match block:
        case Text():
            return [md_line(block.words)]
        case Heading():
            return [f"### {md(block.words)}"]
        case Notes():
            return [f"- {md_line(plain(line))}" for line in block.lines]
        case Facts():
            return [f"- {md(fact.name)}: {md(fact.value)} ({md(fact.meaning)})" for fact in block.rows]
        case Code():
            # Text of others, which a reader of Markdown might take for markup: it is in the store.
            return [captions.PLAN_IN_STORE]
        case Table():
            return [f"### {md(block.caption)}", *([md(block.about)] if block.about else []), "", *md_table(block)]
        case _:
            return []


def md(words: str) -> str:
    """Words that no Markdown reader takes for markup or HTML."""
    escaped = words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    escaped = re.sub(r"([\\`*_\[\]|#])", r"\\\1", escaped)
    return re.sub(r"\s*[\r\n]+\s*", " ", escaped)


def md_line(words: str) -> str:
    """The same of a line outside tables, with commands as code."""
    *whole, last = words.split("`")
    pieces = [f"`{' '.join(part.split())}`" if at % 2 else md(part) for at, part in enumerate(whole)]
    return "".join([*pieces, md(last if len(whole) % 2 == 0 else f"`{last}")])


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
    first = Section("main", summary.plan.question, tuple(one for one in (content.main,) if one is not None))
    for section in (first, *content.sections):
        every = [content.main_all] if section.id == "verdicts" and content.main_all is not None else []
        for table in (*every, *section.tables()):
            if table.rows:
                lines += ["", f"% {_tex_comment(section.title)}", *_tex_table(_narrow(table))]
    lines += ["", f"% Seed {summary.seed}. {_tex_comment('; '.join(versions(summary)))}"]
    return "\n".join(lines) + "\n"


def as_json(content: Content) -> str:
    """The report as one JSON document (`vtare.report/1`): the answer, and all tables with all columns.

    A cell is `{"value": ..., "text": ...}`: the value in the unit that its column's name ends with, as in the CSV
    files, null where it is missing; the text as the page shows it, which then has the reason.
    """
    summary = content.summary
    first = Section("main", summary.plan.question, tuple(one for one in (content.main,) if one is not None))
    document: records.Report = {
        "schema": "vtare.report/1",
        "plan": summary.plan.name,
        "question": summary.plan.question,
        "seed": summary.seed,
        "answer": [plain(sentence) for sentence in content.answer.sentences],
        "certainty": content.answer.certainty,
        "limits": list(content.answer.limits),
        "sections": [
            _json_section(section, content) for section in (first, *content.sections) if section.id != "method"
        ],
        "method": list(method_of(summary, content.layouts)),
        "caveats": list(caveats_of(summary, content.layouts)),
        "versions": list(versions(summary)),
    }
    return json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def _json_section(section: Section, content: Content) -> records.ReportSection:
    every = [content.main_all] if section.id == "verdicts" and content.main_all is not None else []
    return {
        "id": section.id,
        "title": section.title,
        "about": " ".join(block.words for block in section.blocks if isinstance(block, Text)),
        "notes": [plain(line) for block in section.blocks if isinstance(block, Notes) for line in block.lines],
        "tables": [_json_table(table) for table in (*every, *section.tables())],
        "facts": [
            {"of": block.id, "name": fact.name, "value": fact.value, "about": fact.meaning}
            for block in section.blocks
            if isinstance(block, Facts)
            for fact in block.rows
        ],
    }


def _json_table(table: Table) -> records.ReportTable:
    columns: list[records.ReportColumn] = [
        {"name": column.key, "label": column.label, "numeric": column.numeric, "about": column.about}
        for column in table.columns
    ]
    rows: list[dict[str, records.ReportCell]] = [
        {
            column.key: {"value": json_value(column, cell), "text": cell.text}
            for column, cell in zip(table.columns, row, strict=True)
        }
        for row in table.rows
    ]
    return {"id": table.id, "caption": table.caption, "columns": columns, "rows": rows}


def _narrow(table: Table) -> Table:
    """The table with the columns that fit on a page: not the wide ones, nor levels that are the same in all rows.

    Cells keep their first figures and the number of runs.
    """
    of_cells = table.id.startswith("cells-")

    def has_room(at: int, column: Column) -> bool:
        if column.key == "experiment" or (of_cells and not column.numeric):
            return len({row[at].text for row in table.rows}) > 1
        return not column.wide

    keep = [at for at, column in enumerate(table.columns) if has_room(at, column)]
    if of_cells:
        figures = [at for at in keep if table.columns[at].numeric and table.columns[at].key != "n_runs"]
        keep = [at for at in keep if at not in figures[_MOST_FIGURES:]]
    columns = tuple(table.columns[at] for at in keep)
    return replace(table, columns=columns, rows=tuple(tuple(row[at] for at in keep) for row in table.rows))


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
