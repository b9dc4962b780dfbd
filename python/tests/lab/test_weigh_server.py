"""A command that is a server: what is measured of it, compared, shown and judged, and what is refused."""

from __future__ import annotations

import io
import os
import re
import socket
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner
from rich.console import Console
from simulated_server import FACTORS, PlantedServer, runner_of, weighed_server
from simulated_weighing import outcome_of

from vtare.ab.commands import Command
from vtare.ab.readings import Reading
from vtare.ab.trials import Measured
from vtare.cli import app
from vtare.errors import BadInput
from vtare.records.schema import schemas
from vtare.sentences import weigh as wording
from vtare.terminal.weigh import show_weighed
from vtare.weigh.page import weighed_page
from vtare.weigh.runner import RefusedThere
from vtare.weigh.server import RATE, ServedCommand
from vtare.weigh.verdict import document, read_platform_limit

SCREEN = Path(__file__).parents[1] / "screens/weigh_server.txt"


@pytest.fixture
def port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number: int = free.getsockname()[1]
        return number


def test_latencies_and_the_rate_are_compared_and_stand_in_every_form(port: int) -> None:
    result = weighed_server(ServedCommand(port))
    outcome = outcome_of(result)
    shown = document(outcome)
    jsonschema.validate(shown, schemas()["vtare.weigh/1"])
    ratios = {one["figure"]: one["ratio"] for one in shown["findings"] if one["platform"] == "gvisor"}
    expected = {"p50": 3.0, "p99": 3.0, "rate": 1 / 3, "memory in all": 1.0, "start": 3.0}
    assert ratios == pytest.approx(expected, rel=0.02)
    # Half of what each connection of the slowest platform carries.
    per_s = pytest.approx(8000 / 3 / 4 / 2, rel=0.05)
    assert shown["server"] == {"port": port, "request": None, "client": None, "per_s": per_s, "connections": 4}
    names = list(FACTORS)
    states = [
        read_platform_limit(text, names, ServedCommand(port)).state(result)
        for text in ("gvisor p99 slower by 20 %", "gvisor rate worse by 20 %", "bubblewrap p50 slower by 20 %")
    ]
    assert states == ["crossed", "crossed", "not crossed"]
    page = weighed_page(outcome).replace("\u00a0", " ")
    for text in ("p99", "rate", " k/s", "Requests had fixed times"):
        assert text in page


def test_the_screen_of_80_columns_is_as_agreed(port: int) -> None:
    out = io.StringIO()
    show_weighed(Console(file=out, width=80, highlight=False, markup=False), weighed_server(ServedCommand(port)))
    lines = [re.sub(".* rounds in .*|(?<= at )[0-9]+", "N", line) for line in out.getvalue().splitlines()]
    if os.environ.get("VTARE_BLESS"):
        SCREEN.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert lines == SCREEN.read_text(encoding="utf-8").splitlines()
    assert max(map(len, lines)) <= 80


def test_a_client_is_timed_where_one_is_named(port: int) -> None:
    planted = PlantedServer()
    server = ServedCommand(port, client=Command(("load", "it"), "load it"))
    result = weighed_server(server, planted)
    assert result.compared is not None
    assert {one.figure.name for one in result.compared.primary} == {"wall time"}
    assert planted.started[0] == ["serve", f"--port={port}"]
    # It is only waited for.
    assert {"--requests=0", "--seconds=0.0"} <= set(planted.asked[0])
    assert document(outcome_of(result))["server"] == {
        "port": port, "request": None, "client": "load it", "per_s": None, "connections": None,
    }  # fmt: skip
    out = io.StringIO()
    show_weighed(Console(file=out, width=80, highlight=False, markup=False), result)
    assert out.getvalue().startswith("By the client's time, ")
    with pytest.raises(BadInput, match="Figures: wall, memory, start"):
        read_platform_limit("gvisor p99 slower", list(FACTORS), server)


def test_requests_without_a_reply_are_later_than_all_others(port: int) -> None:
    runner = runner_of(PlantedServer(failed=4), ServedCommand(port))
    runner.settle([], 60.0)
    ((run,), _) = runner.run([Command(("host",), "host")])
    assert run.readings["p50"].values == pytest.approx([1.5e5], rel=0.05)
    assert run.readings["p99"].values == ()
    assert run.readings["p99"].missing == "too few replies: it answered with status 503"


@pytest.mark.parametrize(
    ("per_s", "left_s", "asked_per_s", "requests"),
    [(8000.0, 60.0, 500, 299), (400.0, 60.0, 50, 145), (80.0, 60.0, 10, 29), (400.0, 5.0, 50, 8), (400.0, 1.0, 50, 5)],
)
def test_the_slowest_platform_keeps_up_and_there_is_time_for_rounds(
    per_s: float, left_s: float, asked_per_s: float, requests: int, port: int
) -> None:
    planted = PlantedServer()
    runner = runner_of(planted, ServedCommand(port))
    host = [Command(("host",), "host")]
    slow = Reading(RATE, (per_s,), "/s")
    # A first run takes 0.1 s beyond its 20 requests at 100/s.
    runner.settle([replace(runner.run(host)[0][0], wall_ns=3e8), Measured(0, 3e8, 0, 0, readings={RATE: slow})], left_s)
    runner.run(host)
    assert {f"--rate={float(asked_per_s)}", f"--requests={requests}"} <= set(planted.asked[-1])


def test_what_gives_no_figure_is_refused_with_its_reason(port: int) -> None:
    host = [Command(("host",), "host")]
    with pytest.raises(RefusedThere, match=rf"no reply on port {port}: Connection refused"):
        runner_of(PlantedServer(code=4), ServedCommand(port)).run(host)
    client = ServedCommand(port, client=Command(("load",), "load"))
    for run, reason in (
        ({"exit_code": 3, "signal": None}, "--client failed: no route"),
        ({"exit_code": None, "signal": 9}, "--client failed: no route"),
    ):
        with pytest.raises(RefusedThere, match=reason):
            runner_of(PlantedServer(run=run), client).run(host)


def test_a_port_that_somebody_else_has_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        number = other.getsockname()[1]
        with pytest.raises(BadInput, match=f"--server {number}: another program listens"):
            runner_of(PlantedServer(), ServedCommand(number))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--client", "true"], wording.NEEDS_SERVER),
        (["--request", "PING"], wording.NEEDS_SERVER),
        (["--server", "80", "--request", "PING", "--client", "true"], wording.CLIENT_OR_REQUEST),
        (["--server", "80", "--burst", "3"], wording.SERVER_ALONE),
        (["--server", "0"], "from 1 to 65535"),
        (["--server", "80", "--fail-if", "gvisor wall slower by 20 %"], "Figures: p50, p99, rate, memory, start"),
        (["--fail-if", "gvisor p99 slower by 20 %"], "Example: 'gvisor wall slower by 20 %'"),
    ],
)
def test_what_cannot_be_asked_is_refused(options: list[str], reason: str) -> None:
    done = CliRunner().invoke(app, ["weigh", *options, "--", "true"])
    assert isinstance(done.exception, BadInput | SystemExit)
    assert reason in f"{done.output}{done.exception}"
