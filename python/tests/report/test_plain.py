"""The report as Markdown, LaTeX and JSON, and its figures as files: complete, escaped, whole or not at all."""

from __future__ import annotations

import json
import re
import shutil
import struct
import subprocess
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
from click.testing import CliRunner
from conftest import Reported
from synthetic_store import SMALL, write_store

from vtare.cli import app
from vtare.errors import BadInput
from vtare.plots import share_bars
from vtare.report.build import render
from vtare.report.content import Content, content_of
from vtare.report.parts import Panel, Question
from vtare.report.plain import latex, markdown, md_line, render_plain, tex
from vtare.report.write import write_figures, write_summary
from vtare.sentences.template import plain
from vtare.summary import summarise


@pytest.fixture(scope="module")
def five(five_runs: Reported) -> Content:
    return content_of(five_runs.summary, figures=False)


@pytest.fixture(scope="module")
def hostile(one_run: Reported) -> Content:
    return content_of(one_run.summary, figures=False)


def cells_of(line: str) -> list[str]:
    """The cells of a pipe table's row: an escaped bar is no end of a cell."""
    return re.split(r"(?<!\\)\|", line)[1:-1]


def test_markdown_has_every_row_of_every_table(five: Content, hostile: Content) -> None:
    for content in (five, hostile):
        text = markdown(content)
        captions = [table.caption for table in content.tables()]
        assert len(set(captions)) == len(captions)
        for table in content.tables():
            part = text.split(f"### {table.caption.replace('_', chr(92) + '_')}\n")[1].split("\n#")[0]
            rows = [line for line in part.splitlines() if line.startswith("| ")]
            assert len(rows) == len(table.rows) + 2, table.id
            assert {len(cells_of(row)) for row in rows} == {len(table.columns)}, table.id


def test_markdown_starts_with_the_answer(five: Content, five_runs: Reported) -> None:
    from vtare.sentences.template import plain

    text = markdown(five).replace("\\_", "_")
    assert text.startswith(f"# {five_runs.summary.plan.question}")
    for sentence in five.answer.sentences:
        assert plain(sentence) in text


def test_json_has_every_cell_as_value_and_text(five: Content, hostile: Content) -> None:
    for content in (five, hostile):
        found = json.loads(render_plain(content, "json"))
        assert found["schema"] == "vtare.report/1"
        assert found["answer"] == [plain(sentence) for sentence in content.answer.sentences] != []
        tables = {table["id"]: table for section in found["sections"] for table in section["tables"]}
        assert content.main is not None
        assert len(tables) > 3
        for shown in content.tables():
            rows = tables[shown.id]["rows"]
            assert [[cell["text"] for cell in row.values()] for row in rows] == [
                [cell.text for cell in row] for row in shown.rows
            ]
            for row, cells in zip(rows, shown.rows, strict=True):
                for column, cell in zip(shown.columns, cells, strict=True):
                    value = row[column.key]["value"]
                    assert (value is None) == (not cell.raw)
                    assert value is None or str(value) == cell.raw or float(cell.raw) == value


def test_hostile_names_are_no_markup(hostile: Content) -> None:
    for text in (markdown(hostile), latex(hostile)):
        assert "<script>" not in text
        assert "<img src" not in text
    assert "no io load on this machine" in markdown(hostile)
    assert "no io load on this machine" in latex(hostile)


def test_latex_tables_are_closed_and_each_row_has_as_many_cells_as_columns(five: Content, hostile: Content) -> None:
    for content in (five, hostile):
        text = latex(content)
        tables = re.findall(r"\\begin\{longtable\}\{([lr]+)\}(.*?)\\end\{longtable\}", text, re.DOTALL)
        assert len(tables) == text.count("\\begin{") == sum(bool(table.rows) for table in content.tables())
        for form, body in tables:
            rows = [line for line in body.splitlines() if line.endswith(r"\\") and "caption" not in line]
            for row in rows:
                assert len(re.findall(r"(?<!\\)&", row)) + 1 == len(form), row
        labels = re.findall(r"\\label\{([^}]+)\}", text)
        assert len(set(labels)) == len(labels)
        bare = re.sub(r"\\[\\&%$#_{}]", "", re.sub(r"(?m)^%.*$", "", text))
        assert not re.search(r"[#\N{MICRO SIGN}\N{MULTIPLICATION SIGN}<>|\"]", bare)


def test_every_character_that_latex_takes_for_its_own_is_escaped() -> None:
    assert tex(r"50 % of \x_1 & {a}~^#$") == (
        r"50 \% of \textbackslash{}x\_1 \& \{a\}\textasciitilde{}\textasciicircum{}\#\$"
    )
    assert tex("a\nb") == "a b"


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex here: the tables are checked by their form")
def test_latex_is_set_by_pdflatex(five: Content, tmp_path: Path) -> None:
    (tmp_path / "tables.tex").write_text(latex(five), encoding="utf-8")
    (tmp_path / "page.tex").write_text(
        "\\documentclass{article}\\usepackage[T1]{fontenc}\\usepackage{booktabs,longtable,textcomp}"
        "\\begin{document}\\input{tables}\\end{document}",
        encoding="utf-8",
    )
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "page.tex"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:]


def test_plain_forms_land_in_the_store(five_runs: Reported, tmp_path: Path) -> None:
    for form, name in (("md", "tables.md"), ("latex", "tables.tex")):
        out = write_summary(five_runs.summary, tmp_path / name, form=form)
        assert out.read_text(encoding="utf-8").endswith("\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tables.md", "tables.tex"]


# --- on the command line ---


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_store(tmp_path_factory.mktemp("small") / "store", SMALL)


def test_markdown_is_written_beside_the_report(small: Path) -> None:
    done = CliRunner().invoke(app, ["report", str(small), "--format", "md"])
    assert (done.exit_code, done.stdout.strip()) == (0, str(small / "report.md"))


def test_plot_writes_a_file_for_each_figure_of_the_page(small: Path, tmp_path: Path) -> None:
    summary = summarise(small)
    content = content_of(summary)
    wanted = [drawing.name for drawing in content.drawings()]
    assert re.findall(r'<figure id="figure-([^"]+)"', render(content)) == wanted
    written = write_figures(content, tmp_path / "figures", only=("medians", "violins"))
    assert sorted(path.stem for path in written) == sorted(
        name for name in wanted if "medians" in name or "violins" in name
    )
    assert len(written) == 4
    for path in written:
        assert ET.fromstring(path.read_text(encoding="utf-8")).tag.endswith("}svg")
    assert not list((tmp_path / "figures").glob(".*"))


def test_a_figure_is_written_as_svg_as_a_picture_and_as_the_data_that_it_draws(small: Path, tmp_path: Path) -> None:
    words = ["report", str(small), "--format", "svg", "--only", "medians", "--only", "boxes", "--out", str(tmp_path)]
    done = CliRunner().invoke(app, [*words, *(f"--format={form}" for form in ("svg", "png", "csv"))])
    assert done.exit_code == 0, done.output
    files = sorted(tmp_path.iterdir())
    assert done.stdout.split() != []
    assert {Path(line) for line in done.stdout.split()} == set(files)
    assert len(files) % 3 == 0
    summary = summarise(small)
    for path in tmp_path.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG\r\n")
        width, height = struct.unpack(">II", path.read_bytes()[16:24])
        box = re.search(r'viewBox="0 0 ([0-9.]+) ([0-9.]+)"', path.with_suffix(".svg").read_text(encoding="utf-8"))
        assert box is not None
        # Twice the size in CSS pixels, of which a point has 4/3.
        assert abs(width - 8 / 3 * float(box[1])) < 3
        assert abs(height - 8 / 3 * float(box[2])) < 3
    drawn = pl.concat([pl.read_csv(path) for path in tmp_path.glob("medians-*.csv")])
    assert set(drawn["quantity"]) == {"miss_ns"}
    assert set(drawn["unit"]) == {"ns"}
    wanted = summary.cells.filter(pl.col("median").is_not_null())["median"].to_list()
    assert sorted(drawn.filter(pl.col("mark") == "median")["value"]) == sorted(wanted)


def test_every_figure_of_every_kind_of_report_has_its_data(five_runs: Reported, all_instruments: Reported) -> None:
    for reported in (five_runs, all_instruments):
        for drawing in reported.content.drawings():
            assert drawing.data.height > 0, drawing.name
            assert drawing.data.null_count().row(0) != (drawing.data.height,) * drawing.data.width, drawing.name


def test_plot_without_a_figure_of_that_name_lists_those_there_are(small: Path, tmp_path: Path) -> None:
    arguments = ["report", str(small), "--format", "svg", "--only", "nosuch", "--out", str(tmp_path / "x")]
    done = CliRunner().invoke(app, arguments)
    assert isinstance(done.exception, BadInput)
    assert "--only: no figure has 'nosuch' in its name: use a part of one; they begin with " in str(done.exception)
    assert "medians, " in str(done.exception)
    assert len(str(done.exception)) < 400
    assert not (tmp_path / "x").exists()


def test_figures_into_a_place_that_cannot_be_written_are_refused(five: Content, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    drawing = share_bars([("a", "a", 0.5)], name="share", label="share")
    question = Question("q", "q", "q", (Panel("q", drawing),))
    with pytest.raises(BadInput, match="choose another with --out"):
        write_figures(replace(five, headline=question), tmp_path / "file" / "figures")


def test_a_printed_page_has_the_figure_of_each_cell_and_the_ratio_and_verdict_of_each_comparison(five: Content) -> None:
    pages = latex(five).split(r"\begin{longtable}")[1:]
    tables = [table for table in five.tables() if table.rows]
    assert len(pages) == len(tables)
    for table, page in zip(tables, pages, strict=True):
        heads = page.partition(r"\midrule")[0]
        wanted = [column.label for column in table.columns if column.key in ("ratio", "ratio_of_means", "verdict")]
        if table.id.startswith("cells-"):
            wanted.append(next(column.label for column in table.columns if column.numeric))
        assert all(tex(label) in heads for label in wanted), (table.id, heads)
        assert heads.count("&") <= 11, table.id


def test_commands_in_sentences_are_code_in_markdown_and_all_else_is_text() -> None:
    assert md_line("more time (`most_ns`), <b> or *c*") == r"more time (`most_ns`), &lt;b&gt; or \*c\*"
    assert md_line("a ` alone") == r"a \` alone"
    assert md_line("`vtare x\ny`") == "`vtare x y`"
