"""Figures of reports, recomputed from the raw readings by a script that shares no code with vtare."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from page import next_digit
from synthetic_store import Recipe, write_store

from vtare.report.build import content_of
from vtare.report.plain import render_plain
from vtare.summary import summarise

SCRIPT = Path(__file__).parent / "independent_check.py"


def checked(store: Path, text: str) -> tuple[int, str]:
    """The exit code of the script and what it prints."""
    page = store / "report.md"
    page.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(store), str(page)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A store of all instruments, and its report as Markdown."""
    store = write_store(tmp_path_factory.mktemp("checked") / "store", Recipe(blocks=3, all_instruments=True))
    return store, render_plain(content_of(summarise(store), figures=False), "md")


def test_the_script_imports_nothing_of_vtare() -> None:
    tree = ast.parse(SCRIPT.read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not {name for name in names if name.split(".")[0] == "vtare"}
    assert {"numpy", "polars"} <= names


def test_every_kind_of_figure_is_the_readings_own(reported: tuple[Path, str]) -> None:
    code, printed = checked(*reported)
    assert code == 0, printed
    counts = {kind: int(n) for kind, n in re.findall(r"^(.*): (\d+) figures$", printed, re.MULTILINE)}
    wanted = {"timers: cells", "sleeps: cells", "counters: cells", "noises: cells", "timers: exceedances",
              "sleeps: exceedances", "main comparisons", "comparisons", "outliers", "sentences"}  # fmt: skip
    assert set(counts) == wanted
    assert all(n >= (5 if kind == "sentences" else 10) for kind, n in counts.items()), counts


def test_a_campaign_cut_short_has_no_figures_of_what_was_not_measured(tmp_path: Path) -> None:
    recipe = Recipe(
        blocks=3, pending_from_block=2, fail=(("two_phase", 1),), skip_load="io", frozen=("adaptive",),
    )  # fmt: skip
    store = write_store(tmp_path / "store", recipe)
    text = render_plain(content_of(summarise(store), figures=False), "md")
    code, printed = checked(store, text)
    assert code == 0, printed
    # A row of what was skipped that had a figure would be found.
    row = re.search(r"^\| io \| [^|]* \| usleep \| (n/a \(skipped\))", text, re.MULTILINE)
    assert row is not None
    code, printed = checked(store, f"{text[: row.start(1)]}0 ns{text[row.end(1) :]}")
    assert code == 1
    assert "figures of no readings" in printed


@pytest.mark.parametrize(
    ("kind", "pattern"),
    [
        ("timers: cells", r"^\| idle \| rdtsc \| (\d)"),
        ("sleeps: cells", r"^\| idle \| 1.ms \| usleep \| (\d)"),
        ("counters: cells", r"^\| idle \| 16 \| (\d)"),
        ("noises: cells", r"^\| cpu \| 0 \| (\d)"),
        ("main comparisons", r"^\| sleeps \| miss \| load cpu: (\d)"),
        ("main comparisons", r"^\| counters \| CV \| load cpu: [^|]* \| load idle: (\d)"),
        ("comparisons", r"^\| sleeps \| usleep \| load: cpu against idle \| [^|]*\| [^|]*\| [^|]* \| (\d)"),
        ("outliers", r"^\| usleep, load idle \| [^|]*\| \d+ \| (\d)"),
        ("sentences", r"^On the idle machine, a sleep of [^.]*? (\d)\d\.\d"),
    ],
)
def test_a_figure_that_is_changed_in_the_report_is_found(reported: tuple[Path, str], kind: str, pattern: str) -> None:
    store, text = reported
    code, printed = checked(store, next_digit(pattern)(text))
    assert code == 1
    wrong = [line for line in printed.splitlines() if not line.endswith("figures")]
    assert wrong
    assert all(line.startswith(f"{kind}: ") for line in wrong), printed
