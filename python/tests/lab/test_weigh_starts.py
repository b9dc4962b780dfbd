"""Entering an instance that runs, and many starts at once: what is compared, shown, judged and left out."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console
from simulated_weighing import outcome_of, weighed

from vtare.ab.compare import Asked
from vtare.cli import app
from vtare.errors import BadInput
from vtare.records.schema import schemas
from vtare.sentences import weigh as wording
from vtare.terminal.weigh import show_weighed
from vtare.weigh.page import weighed_page
from vtare.weigh.runner import RefusedThere
from vtare.weigh.starts import BURST, EXEC, Started, starts
from vtare.weigh.verdict import document, findings_of, read_platform_limit, rows
from vtare.weigh.weighing import Weighed

NAMES = ("host", "gvisor", "podman")


class Planted:
    """Entering takes 1 ms on the host, a burst 10 ms; each platform takes as many times more as its name is long."""

    def __init__(self, *, absent: Sequence[str] = (), fails_at: int = -1) -> None:
        self.until = 0.0
        self.running: list[str] = []
        self.entered = 0
        self._absent = absent
        self._fails_at = fails_at
        self._rng = np.random.default_rng(1)

    @contextmanager
    def instance(self, name: str) -> Iterator[int]:
        if name in self._absent:
            raise RefusedThere(name, "no such kernel")
        self.running.append(name)
        yield len(self.running)
        self.running.remove(name)

    def _took(self, name: str, ns: float) -> float:
        return ns * len(name) / 4 * float(np.exp(self._rng.normal(0, 0.01)))

    def enter(self, name: str, tool: int) -> float:
        assert self.running[tool - 1] == name
        self.entered += name == "gvisor"
        if self.entered == self._fails_at:
            raise RefusedThere(name, "it was killed")
        return self._took(name, 1e6)

    def burst(self, name: str, count: int) -> float:
        # An instance that runs beside them would be one more.
        assert (self.running, count) == ([], 7)
        return self._took(name, 1e7)


@pytest.fixture
def started() -> Callable[..., Started]:
    """Compare both on three platforms."""

    def of(runner: Any, *, burst: int | None = 7, most_s: float = 60.0, begin: float | None = None) -> Started:
        now = time.monotonic() if begin is None else begin
        made = starts(
            runner, NAMES, Asked(most_s=most_s, design="interleaved"), burst=burst, begin=now,
            rng=np.random.default_rng(2), show=lambda _: None,
        )  # fmt: skip
        assert runner.running == []
        return made

    return of


def result_of(made: Started) -> Weighed:
    return replace(weighed({"host": 1.0, "podman": 1.2, "gvisor": 2.1}), started=made)


def test_both_are_compared_with_the_host_and_stand_in_every_form(started: Callable[..., Started]) -> None:
    made = started(Planted())
    result = result_of(made)
    outcome = outcome_of(result, burst=7)
    ratios = {
        (name, one.figure.name): one.ratio for name, one in findings_of(result) if one.figure.name in (EXEC, BURST)
    }
    assert ratios == pytest.approx({(name, figure): 1.5 for name in NAMES[1:] for figure in (EXEC, BURST)}, rel=0.02)
    shown = document(outcome)
    jsonschema.validate(shown, schemas()["vtare.weigh/1"])
    assert shown["burst"] == 7
    for one in shown["platforms"]:
        expected = len(one["name"]) / 4
        assert one["starts"][EXEC] == pytest.approx([1e6 * expected] * len(one["starts"][EXEC]), rel=0.1)
        assert one["starts"][BURST] == pytest.approx([1e7 * expected] * len(one["starts"][BURST]), rel=0.1)
    states = [
        read_platform_limit(text, NAMES).state(result)
        for text in ("gvisor exec slower by 20 %", "podman exec slower by 80 %", "podman burst slower by 20 %")
    ]
    assert states == ["crossed", "not crossed", "crossed"]
    wide = io.StringIO()
    show_weighed(Console(file=wide, width=160, highlight=False, markup=False), result)
    heading, host = (re.split("  +", line.strip()) for line in wide.getvalue().splitlines()[2:4])
    assert heading[-5:] == ["start", "exec", "stop", "CPU outside", "burst"]
    assert [float(host[at].removesuffix(" ms")) for at in (-4, -1)] == pytest.approx([1.0, 10.0], rel=0.02)
    page = weighed_page(outcome).replace("\u00a0", " ")
    for text in ("exec", "burst", "1.50 ms", "15.0 ms", wording.burst_of(7)):
        assert text in page


def test_without_a_burst_there_is_no_column_for_it(started: Callable[..., Started]) -> None:
    made = started(Planted(), burst=None)
    assert list(made.compared) == [EXEC]
    result = result_of(made)
    assert {len(line) for line in rows(result)} == {len(wording.HEADINGS) - 1}
    assert {len(line) for line in rows(replace(result, started=Started()))} == {len(wording.HEADINGS) - 1}
    assert [line[7] for line in rows(replace(result, started=Started()))] == ["-"] * 3


def test_a_platform_that_refuses_is_left_out_with_its_reason(started: Callable[..., Started]) -> None:
    made = started(Planted(absent=["podman"], fails_at=4))
    assert made.notes == ["exec of podman is not known: no such kernel", "exec of gvisor is not known: it was killed"]
    assert list(made.compared) == [BURST]
    assert [one.text for one in made.compared[BURST].commands] == list(NAMES)
    assert [line[7] for line in rows(result_of(made))] == ["-"] * 3


def test_what_has_no_time_is_left_out_or_ends_early(started: Callable[..., Started]) -> None:
    made = started(Planted(), most_s=1.0, begin=time.monotonic() - 2.0)
    # What warmed up is all that is known: no interval.
    assert {one.stopped for one in made.compared.values()} == {"time"}
    assert all(one.low is None for it in made.compared.values() for one in it.primary)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--fail-if", "gvisor burst slower"], "Add --burst N"),
        (["--burst", "5", "--memory", "1GB"], "exclude each other"),
        (["--burst", "1"], "--burst"),
    ],
)
def test_what_cannot_be_asked_is_refused(options: list[str], reason: str) -> None:
    done = CliRunner().invoke(app, ["weigh", *options, "--", "true"])
    assert isinstance(done.exception, BadInput | SystemExit)
    assert reason in f"{done.output}{done.exception}"
