"""The page of `vtare ab --write html=FILE`: what it holds, and what a browser finds in it."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from browser import BROWSER, Tab, tab
from simulated_trials import MACHINE, A, B, SimulatedTrials, compared, none, quiet

from vtare.ab.commands import Command
from vtare.ab.compare import Asked, compare
from vtare.ab.figures import COUNTED, Reader, read_metric
from vtare.ab.page import compared_page
from vtare.ab.trials import MachineTime, Measured
from vtare.ab.verdict import Outcome, read_limit

C = Command(("c",), "c <script>alert(1)</script>")
AXE = files("axe_core_python") / "axe.min.js"


class Noisy(SimulatedTrials):
    """Programs with noise beside them, which print 300 latencies; those of B have a longer tail."""

    reader = Reader([])

    def run(
        self, commands: Sequence[Command], cpus: Sequence[Sequence[int]] | None = None
    ) -> tuple[list[Measured], MachineTime]:
        runs, _ = super().run(commands, cpus)
        printed = []
        for command in commands:
            latency = np.exp(self.rng.normal(0, 0.1, 300))
            latency[self.rng.random(300) < 0.08] *= 3.0 if command is B else 1.0
            printed.append("\n".join(f"latency {value:.4f} ms" for value in latency))
        span = max(run.wall_ns for run in runs)
        readings = [self.reader.read(text, command.text) for text, command in zip(printed, commands, strict=True)]
        runs = [replace(run, waited_ns=1_000_000, readings=read) for run, read in zip(runs, readings, strict=True)]
        return runs, MachineTime(0, round(1.5 * span), round(0.2 * span), 0, round(span))


def page_of(figures: Sequence[str] = (), *, most_pairs: int = 60) -> str:
    trials = Noisy(1.3, quiet, none, 3)
    trials.reader = Reader([read_metric(text) for text in figures])
    first = [trials.run([command])[0][0] for command in (A, B, C)]
    printed = trials.reader.figures()
    asked = Asked(margin=0.004, most_pairs=most_pairs, design="interleaved")
    rng = np.random.default_rng(1)
    found = compare(trials, (A, B, C), [*printed, *COUNTED], asked, rng=rng, first=first)
    return compared_page(Outcome(found, 7, {**MACHINE, "hostname": "vm"}, (read_limit("slower by 5 %"),)))


def words(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", " ", page)).replace("\u00a0", " ")


def test_the_page_has_the_answer_the_pairs_the_noise_and_the_quantiles() -> None:
    page = page_of()
    text = words(page)
    assert "Are B and C slower than A in wall time?" in text
    for part in ("B is ", "--fail-if 'slower by 5 %' is crossed", "Beside the pairs other programs took", "vm,"):
        assert part in text
    # Every pair is a row of the table, with the noise beside it; what was 0 in all pairs is in the words of the figure.
    labels = re.findall(r'aria-label="(change in wall time in [^"]*)"', page)
    assert len(labels) == 2
    assert all("gaps: share of the time ready to run without a CPU: median 0.0" in label for label in labels)
    assert all("input or output: median 0, at most 0" in label for label in labels)
    assert "<script>alert" not in page


def test_the_page_of_readings_shows_which_of_them_moved() -> None:
    page = page_of(["latency=all:latency ([0-9.]+) ms"])
    (label,) = re.findall(r'aria-label="(change in latency median by quantile: [^"]*)" *>', page)[:1]
    at = {found[2]: float(found[1].replace("\N{MINUS SIGN}", "-")) for found in re.finditer(
        r"([+\N{MINUS SIGN}]?[\d.]+) % \([^)]*\) at (\d+) %", label)}  # fmt: skip
    assert at["99"] > 100
    assert abs(at["25"]) < 5
    assert "latency p99" in words(page)


def test_few_pairs_and_runs_that_are_no_pairs_have_no_figure_they_cannot_have() -> None:
    short = words(compared_page(Outcome(compared(1.2, quiet, most_pairs=9), 7, MACHINE)))
    assert "pairs show no quantile with an interval: 18 are needed" in short
    groups = compared_page(Outcome(compared(1.2, quiet, design="sequential", most_pairs=10), 7, MACHINE))
    assert "<figure" not in groups
    assert "no pairs, so what drifts between the commands counts as a difference" in words(groups)


def test_a_command_against_itself_states_the_floor_of_the_machine() -> None:
    found = compare(Noisy(1.0, quiet, none, 3), (A, A), COUNTED, Asked(margin=0.02, design="interleaved"),
                    rng=np.random.default_rng(2))  # fmt: skip
    text = words(compared_page(Outcome(found, 7, MACHINE)))
    assert re.search(r"this machine can resolve differences of 0\.\d+ % or more", text)


@pytest.fixture(scope="module")
def browser() -> Iterator[Tab]:
    if BROWSER is None:
        pytest.skip("no browser found: install chromium to check the page")
    with tab() as opened:
        yield opened


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_and_nothing_is_wider_than_the_window(browser: Tab, tmp_path: Path, dark: bool) -> None:
    file = tmp_path / "page.html"
    file.write_text(page_of(), encoding="utf-8")
    browser.open(file, width=400 if dark else 1280, dark=dark)
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert browser.evaluate("document.querySelectorAll('figure svg[role=img]').length") == 4
    browser.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    browser.evaluate(AXE.read_text(encoding="utf-8"))
    found = browser.evaluate(
        "axe.run(document, { resultTypes: ['violations'] }).then((all) => all.violations.map((one) => "
        "[one.id, one.help, one.nodes.slice(0, 3).map((node) => node.html.slice(0, 200))]))"
    )
    assert found == []
    assert browser.problems == []
    assert [url for url in browser.requests if not url.startswith("data:")] == [file.as_uri()]


def test_on_paper_the_tools_are_gone_and_the_figures_stay(browser: Tab, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page_of(), encoding="utf-8")
    browser.open(file, media="print", dark=True)
    assert browser.evaluate("getComputedStyle(document.querySelector('.tools')).display") == "none"
    assert browser.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.evaluate("document.querySelector('figure svg').getBoundingClientRect().width") > 100
