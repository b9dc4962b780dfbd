"""How many instances of a server fit: what is tried, what ends it, and how it is shown."""

from __future__ import annotations

import io
import socket
from collections.abc import Callable
from dataclasses import replace
from itertools import count

import jsonschema
import pytest
from click.testing import CliRunner
from rich.console import Console
from simulated_server import PlantedServer, runner_of, weighed_server
from simulated_weighing import outcome_of

from vtare.ab.trials import OutOfTime
from vtare.cli import app
from vtare.errors import BadInput
from vtare.records.schema import schemas
from vtare.sentences import weigh as wording
from vtare.terminal.weigh import show_weighed
from vtare.weigh.density import MOST_INSTANCES, Density, Filled, Fit, density, search
from vtare.weigh.page import weighed_page
from vtare.weigh.runner import RefusedThere
from vtare.weigh.server import ServedCommand
from vtare.weigh.verdict import document

GIB = 1 << 30


class Instances:
    """Instances whose p99 is 1 ms for each of them, and which take memory."""

    def __init__(self, *, each_byte: float = 0.0, fails_at: int = 10**6, stalls: frozenset[int] = frozenset()) -> None:
        self.tried: list[int] = []
        self._each_byte = each_byte
        self._fails_at = fails_at
        self._stalls = set(stalls)

    def p99(self, instances: int) -> tuple[float | None, float]:
        self.tried.append(instances)
        if instances >= self._fails_at:
            raise RefusedThere("gvisor", "no more processes")
        free = GIB - instances * self._each_byte
        if instances in self._stalls:
            self._stalls.remove(instances)
            return None, free
        return 1e6 * instances, free


def searched(instances: Instances, limit_ms: float, *, until: float = 1e9, each_s: float = 0.0) -> Fit:
    clock = count(0.0, each_s)
    return search("gvisor", 1e6 * limit_ms, instances.p99, available=lambda: GIB, until=until, now=lambda: next(clock))


@pytest.mark.parametrize(
    ("limit_ms", "fits", "tried"),
    [
        (0.5, 0, [1, 1]),
        (1.0, 1, [1, 2, 2]),
        (11.0, 11, [1, 2, 4, 8, 16, 16, 12, 12, 10, 11]),
        (40.0, 40, [1, 2, 4, 8, 16, 32, 64, 64, 48, 48, 40, 44, 44, 42, 42, 41, 41]),
    ],
)
def test_the_number_is_found_to_one_instance(limit_ms: float, fits: int, tried: list[int]) -> None:
    instances = Instances()
    fit = searched(instances, limit_ms)
    assert (fit.fits, fit.breaks, fit.ended) == (fits, fits + 1, "p99")
    assert instances.tried == tried == [level.instances for level in fit.levels]


def test_one_stall_breaks_nothing() -> None:
    fit = searched(Instances(stalls=frozenset({4, 8})), 9.0)
    assert (fit.fits, fit.breaks) == (9, 10)
    assert fit.levels[2:4] == (Filled(4, None), Filled(4, 4e6))


def test_what_ends_a_search_is_a_bound_and_no_value() -> None:
    assert searched(Instances(), 1e3).fits == MOST_INSTANCES
    assert searched(Instances(), 1e3).ended == "most"
    # 0.1 GiB each: 8 are more than 80 % of what is there.
    by_memory = searched(Instances(each_byte=0.1 * GIB), 1e3)
    assert (by_memory.fits, by_memory.breaks, by_memory.ended) == (8, None, "memory")
    by_failure = searched(Instances(fails_at=8), 1e3)
    assert (by_failure.fits, by_failure.ended, by_failure.reason) == (4, "failed", "no more processes")
    # A level of n takes a second here, so one of 2 n is expected to take 2.
    by_time = searched(Instances(), 1e3, until=8.5, each_s=1.0)
    assert (by_time.breaks, by_time.ended) == (None, "time")
    assert 1 <= by_time.fits < MOST_INSTANCES


def test_a_run_that_is_cut_off_ends_the_search() -> None:
    def cut(instances: int) -> tuple[float | None, float]:
        raise OutOfTime

    fit = search("gvisor", 1e6, cut, available=lambda: GIB, until=1e9)
    assert (fit.fits, fit.ended, fit.levels) == (0, "time", ())


@pytest.fixture
def ports() -> int:
    """The first of 64 ports on which nobody listens, as far as one test may know."""
    for first in range(21_000, 32_000, MOST_INSTANCES):
        with socket.socket() as free:
            if all(free.connect_ex(("127.0.0.1", first + at)) for at in range(MOST_INSTANCES)):
                return first
    pytest.skip("every port is in use")


def test_each_instance_has_a_port_and_all_are_asked_together(ports: int) -> None:
    planted = PlantedServer()
    served = runner_of(planted, ServedCommand(ports))
    shown: list[str] = []
    made = density(served, ["host", "gvisor"], 0.0003, until=1e12, show=shown.append)
    # Replies take 0.2 ms at p99 on the host, and three times that on the other.
    assert [(one.platform, one.fits, one.ended) for one in made.fits] == [("host", 64, "most"), ("gvisor", 0, "p99")]
    assert planted.running_now == 0
    assert ["serve", f"--port={ports + 63}"] in planted.started
    (most,) = [words for words in planted.asked if f"127.0.0.1:{ports + 63}" in words]
    assert {f"127.0.0.1:{ports + at}" for at in range(64)} <= set(most)
    assert {"--rate=100.0", "--requests=100", "--seconds=0.0"} <= set(most)
    assert shown[-1] == "1 instance on gvisor"


@pytest.fixture
def made() -> Density:
    """One of each end."""
    return Density(
        2e7,
        100.0,
        (
            Fit("host", 64, None, "most", (Filled(64, 1e7),)),
            Fit("bubblewrap", 11, 12, "p99", (Filled(11, 1.9e7), Filled(12, None))),
            Fit("gvisor", 4, 8, "time", (Filled(4, 1e7),)),
            Fit("podman", 2, None, "failed", (Filled(2, 1e7),), "no more processes"),
        ),
    )


def test_it_stands_in_every_form(made: Density, ports: int) -> None:
    result = replace(weighed_server(ServedCommand(ports)), density=made)
    line = (
        "Instances until p99 exceeds 20.0 ms, each with 100 requests/s: host at least 64, bubblewrap 11, gvisor 4 to 7 "
        "(time ran out), podman at least 2."
    )
    out = io.StringIO()
    show_weighed(Console(file=out, width=200, highlight=False, markup=False), result)
    assert line in out.getvalue()
    assert "more instances on podman failed: no more processes" in out.getvalue()
    assert line in weighed_page(outcome_of(result)).replace("\u00a0", " ")
    shown = document(outcome_of(result))
    jsonschema.validate(shown, schemas()["vtare.weigh/1"])
    assert shown["density"] is not None
    assert [one["breaks"] for one in shown["density"]["platforms"]] == [None, 12, 8, None]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--density", "20ms"], wording.NEEDS_SERVER),
        (["--server", "80", "--client", "true", "--density", "20ms"], wording.DENSITY_OR_CLIENT),
        (["--server", "80", "--memory", "1GB", "--density", "20ms"], wording.DENSITY_IN_LIMIT),
        (["--server", "80", "--density", "20ms"], wording.density_needs_port(64)),
    ],
)
def test_what_cannot_be_asked_is_refused(options: list[str], reason: str) -> None:
    refuses: Callable[[list[str]], object] = lambda words: CliRunner().invoke(app, words).exception  # noqa: E731
    error = refuses(["weigh", *options, "--", "true"])
    assert isinstance(error, BadInput)
    assert reason in str(error)
    high = refuses(["weigh", "--server", "65500", "--density", "20ms", "--", "serve", "{port}"])
    assert "a lower PORT" in str(high)
