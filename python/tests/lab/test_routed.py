"""Campaigns over the lab's own path with programs that are none: who is started, what fails, what the truth is."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from comparison_frames import compared

from vtare.campaign import children
from vtare.campaign.journal import Journal
from vtare.campaign.results import CampaignResult
from vtare.campaign.store import Store
from vtare.campaign.surroundings import Surroundings
from vtare.errors import BadInput
from vtare.plan.files import parse_plan
from vtare.plan.model import Plan
from vtare.platforms import network
from vtare.report.build import build
from vtare.stats import Known
from vtare.summary import summarise
from vtare.summary.rows import known_of
from vtare.topology.path import DEFAULT_MTU_BYTE

Run = Callable[[Store], CampaignResult]
ROUTED = (Path(__file__).parents[1] / "routed.toml").read_text(encoding="utf-8")
ONE_CELL = (
    ('["0 Mbit/s", "150 Mbit/s"]', '["150 Mbit/s"]'),
    ('["os", "vtare"]', '["vtare"]'),
    ('["vtare", "yaz"]', '["vtare"]'),
)
OVER_LINK = ('capacity = ["300 Mbit/s"]', 'capacity = ["300 Mbit/s"]\nbottleneck = ["link"]\ndelay = ["0.5 ms"]')


def plan_of(*changes: tuple[str, str]) -> Plan:
    text = ROUTED
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse_plan(text, source=Path("routed.toml"))


def test_each_run_keeps_what_its_helpers_logged(routed_store: Path) -> None:
    with Store.open(routed_store) as store:
        for run in store.runs:
            names = {path.name for path in store.directory(run.run_id).iterdir()}
            crossed = run.factors["cross"] != "0 Mbit/s"
            assert ({"cross.parquet", "cross-sent.parquet", "cross.json", "sink.json"} <= names) == crossed
            assert {"topology.json", "surroundings.json", "responder.json"} <= names
            assert "key" not in names
            topology = json.loads((store.directory(run.run_id) / "topology.json").read_text())
            assert topology["path"]["phases"][0]["bit_per_s"] == 300_000_000
            document = json.loads((store.directory(run.run_id) / "run.json").read_text())["parameters"]
            assert document["peer"] == "127.0.0.1:8462"
            wanted = {"os": ("os", "usleep"), "vtare": ("vtare", "spin")}[run.factors["timers"]]
            assert (document["clock"], document["sleep"]) == wanted


def test_helpers_get_the_path_of_the_plan(tmp_path: Path, fake: Any, fake_hosts: Any, run_campaign: Run) -> None:
    with Store.create(tmp_path / "store", plan_of(*ONE_CELL, OVER_LINK), 7) as store:
        assert run_campaign(store).done == 1
    sent = (fake.directory / "cross.arguments").read_text()
    assert "--to 127.0.0.1:5001 --rate 150000000" in sent
    assert "--arrivals constant --size 1472" in sent
    assert "--sink 127.0.0.1:5001" in (fake.directory / "sink.arguments").read_text()
    linked = (fake.directory / "link.arguments").read_text()
    assert linked.startswith("in0 out0 --ab-rate 300000000 --ab-buffer 1500000B --delay 500000ns")
    assert (fake_hosts.made, fake_hosts.platform.running) == (0, 0)
    assert not list(fake.directory.glob("*.pid")) or not any(fake.directory.glob("load-*.pid"))


IPERF3 = """#!/bin/sh
echo "$*" >>"$(dirname "$0")/arguments"
trap 'exit 1' TERM
case $1 in --server) echo "Server listening on 5001" ;; *) echo "[  5] local a port 1 connected to b port 5001" ;; esac
while :; do sleep 0.05; done
"""
BY_IPERF3 = ('capacity = ["300 Mbit/s"]', 'capacity = ["300 Mbit/s"]\ncross_arrivals = ["iperf3"]')


def test_cross_traffic_by_iperf3_has_a_truth_only_where_the_link_was_counted(
    tmp_path: Path, fake: Any, fake_hosts: Any, fake_routes: Any, run_campaign: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "programs" / "iperf3"
    program.parent.mkdir()
    program.write_text(IPERF3)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    with Store.create(tmp_path / "store", plan_of(*ONE_CELL, BY_IPERF3), 7) as store:
        assert run_campaign(store).done == 1
    server, client = (program.parent / "arguments").read_text().splitlines()
    assert server.startswith("--server --bind 127.0.0.1 --port 5001")
    # 150 Mbit/s of packets of 1500 B.
    assert client.startswith("--client 127.0.0.1 --udp --bitrate 147200000 --length 1472")
    # The link of a fake is not counted, and iperf3 leaves no account: no truth, rather than one without cross traffic.
    estimates = summarise(tmp_path / "store").estimates
    assert set(estimates["no_truth"]) == {"not logged"}


def test_cross_traffic_by_iperf3_is_skipped_where_it_is_not_installed(
    tmp_path: Path, fake: Any, fake_hosts: Any, fake_routes: Any, run_campaign: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vtare.campaign.path_helpers.shutil.which", lambda name: None)
    with Store.create(tmp_path / "store", plan_of(*ONE_CELL, BY_IPERF3), 7) as store:
        assert run_campaign(store).skipped == 1
    with Journal(tmp_path / "store" / "journal.sqlite", read_only=True) as journal:
        (entry,) = journal.entries().values()
    assert entry.reason == "cross traffic by iperf3: it is not on PATH; install it (`apt install iperf3`)"


TABLE = """
[programs.tool]
command = ["true", "{peer}"]
far_end = ["sh", "-c", "echo $0 is {peer}; echo listening; exec sleep 60", "tool"]
ready = "listening"
pattern = "([0-9.]+) Mbit"
unit = "Mbit/s"
"""
PROGRAM = (
    *ONE_CELL,
    ('["vtare"]\nplatform', '["program:tool"]\nplatform'),
    ('method = "vtare", ', ""),
    ("responder_cpu = [1]", f"responder_cpu = [1]\n{TABLE}"),
)


def test_a_program_of_the_plan_estimates_with_its_own_far_end(
    tmp_path: Path, fake: Any, fake_hosts: Any, fake_routes: Any, run_campaign: Run
) -> None:
    with Store.create(tmp_path / "store", plan_of(*PROGRAM), 7) as store:
        assert run_campaign(store).done == 1
        (run,) = store.runs
        directory = store.directory(run.run_id)
    parameters = json.loads((directory / "run.json").read_text())["parameters"]
    assert (parameters["command"], parameters["unit"]) == (["true", "{peer}"], "Mbit/s")
    assert (parameters["method"], parameters["pattern"]) == ("program:tool", "([0-9.]+) Mbit")
    assert "key_file" not in parameters
    assert (directory / "far-end.log").read_text() == "tool is 127.0.0.1\nlistening\n"
    assert not (directory / "responder.json").exists()


@pytest.mark.parametrize(
    ("change", "status", "reason"),
    [
        (('["true", "{peer}"]', '["no-such-tool"]'), "skipped", "program:tool: the program 'no-such-tool' is missing"),
        (("exec sleep 60", "exit 5"), "failed", "the far end of tool ended (exit code 5) before the run did"),
        (("echo listening", "exit 5"), "failed", "the far end of tool could not start (exit code 5)"),
        (
            ('platform = ["host"]', 'platform = ["docker"]'), "skipped",
            "its instances hold vtare's static binary alone; host, netns",
        ),
    ],
)  # fmt: skip
def test_a_program_that_cannot_run_costs_its_run(
    change: tuple[str, str], status: str, reason: str, tmp_path: Path, fake: Any, fake_hosts: Any, fake_routes: Any,
    run_campaign: Run,
) -> None:  # fmt: skip
    with Store.create(tmp_path / "store", plan_of(*PROGRAM, change), 7) as store:
        run_campaign(store)
    with Journal(tmp_path / "store" / "journal.sqlite", read_only=True) as journal:
        (entry,) = journal.entries().values()
    assert entry.status == status
    assert reason in (entry.reason or "")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("program:tool", "program:tol"),
            "the plan has no table [programs.tol]. Did you mean 'tool'?",
        ),
        (("[programs.tool]", '[programs."a b"]'), "programs.a b is 'a b': use letters"),
        (
            ('"Mbit/s"', '"Mbits"'),
            "programs.tool.unit is 'Mbits'. Did you mean 'bit/s'? Use one of: bit/s, kbit/s, Mbit/s",
        ),
        (("([0-9.]+) Mbit", "("), "programs.tool.pattern is '(': use a regular expression"),
        (('["true", "{peer}"]', "[]"), "programs.tool.command is []: use a program and its words"),
        (('["true", "{peer}"]', "[1]"), "programs.tool.command[0] is 1: use a string"),
        (("far_end =", "far ="), "programs.tool.far: unknown key 'far'. Did you mean 'far_end'?"),
        ((TABLE, "[programs]\ntool = 1"), "programs.tool is 1: use a table"),
    ],
)
def test_a_program_that_is_not_described_is_refused(change: tuple[str, str], message: str) -> None:
    with pytest.raises(BadInput) as error:
        plan_of(*PROGRAM, change)
    assert message in str(error.value)


def test_hosts_are_made_anew_only_where_their_wiring_changes(
    tmp_path: Path, fake: Any, fake_hosts: Any, fake_routes: Any, run_campaign: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[int] = []
    make = fake_hosts.make
    monkeypatch.setattr(fake_hosts, "make", lambda self: (made.append(1), make(self)))
    text = ('capacity = ["300 Mbit/s"]', 'capacity = ["300 Mbit/s", "1 Gbit/s"]')
    with Store.create(tmp_path / "store", plan_of(*ONE_CELL, text), 7) as store:
        assert run_campaign(store).done == 2
    assert len(made) == 1
    assert sorted(path.steady_bit_per_s for path, _ in fake_routes.shaped) == [300_000_000, 10**9]
    assert {wiring for _, wiring in fake_routes.shaped} == {(DEFAULT_MTU_BYTE, True)}


FAILURES: list[tuple[tuple[tuple[str, str], ...], dict[str, str], str, int | None, str]] = [
    ((), {"cross": "cannot"}, "skipped", 3, "the cross traffic could not start (exit code 3)"),
    ((), {"cross": "dies"}, "failed", 9, "the cross traffic ended (exit code 9) before the run did: cross: out of"),
    ((), {"sink": "dies", "hang": "avb"}, "failed", 9, "the sink of cross traffic ended (exit code 9)"),
    ((), {"sink": "mute"}, "failed", None, "the sink of cross traffic was not ready within 1 s"),
    ((), {"sink": "fails"}, "failed", 1, "the sink of cross traffic ended with exit code 1"),
    ((), {"cross": "garbage"}, "failed", None, "cross-sent.parquet: damaged"),
    ((OVER_LINK,), {"link": "cannot"}, "skipped", 3, "the link could not start (exit code 3): link: this kernel"),
    ((OVER_LINK,), {"link": "dies"}, "failed", 9, "the link ended (exit code 9) before the run did"),
    ((), {"serve": "dies"}, "failed", 9, "the responder ended (exit code 9) before the run did"),
]


@pytest.mark.parametrize(("changes", "steer", "word", "code", "reason"), FAILURES)
def test_helper_that_fails_costs_its_run_with_its_log_and_leaves_nothing(
    tmp_path: Path,
    fake: Any,
    fake_hosts: Any,
    run_campaign: Run,
    monkeypatch: pytest.MonkeyPatch,
    changes: tuple[tuple[str, str], ...],
    steer: dict[str, str],
    word: str,
    code: int | None,
    reason: str,
) -> None:
    monkeypatch.setattr(children, "READY_S", 1.0 if "mute" in steer.values() else 30.0)
    fake.behave(**steer)
    with Store.create(tmp_path / "store", plan_of(*ONE_CELL, *changes), 7) as store:
        result = run_campaign(store)
        assert getattr(result, word) == 1
        (entry,) = store.journal.entries().values()
        assert (entry.status, entry.exit_code) == (word, code)
        assert reason in str(entry.reason)
        assert list((store.path / "runs").iterdir()) == []
    assert (fake_hosts.made, fake_hosts.platform.running) == (0, 0)


def test_a_kernel_that_has_no_such_shaper_is_a_skip(
    tmp_path: Path, fake: Any, fake_routes: Any, run_campaign: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shape(self: Any, path: Any) -> None:
        network.run_tool(("sh", "-c", "echo 'Error: Specified qdisc kind is unknown.' >&2; exit 2"))

    monkeypatch.setattr(fake_routes, "shape", shape)
    no_method = (('method = ["vtare", "yaz"]\n', ""), ('method = "vtare", ', ""))
    with Store.create(tmp_path / "store", plan_of(*ONE_CELL[:2], *no_method), 7) as store:
        assert run_campaign(store).skipped == 1
        (entry,) = store.journal.entries().values()
        assert "qdisc kind is unknown" in str(entry.reason)
    # Without a single run there is a report all the same: it states that.
    page = build(summarise(tmp_path / "store"))
    assert "qdisc kind is unknown" in page
    assert "No run finished, so there is no figure." in page


def test_estimates_stand_beside_the_truth_of_their_windows(routed_store: Path) -> None:
    summary = summarise(routed_store)
    crossed = summary.estimates.filter(pl.col("cross") == "150 Mbit/s").sort("run_id", "estimate")
    assert crossed.height == 2 * 2 * 4
    first = crossed.head(4)
    assert first["truth_bit_per_s"].to_list() == pytest.approx([150e6] * 4)
    # The third gave no answer; the fourth is a lower bound, which has no error.
    assert first["error_percent"].to_list() == pytest.approx([0.0, 10.0, None, None])
    assert first["at_least"].to_list()[3] is True
    assert first["avb_bit_per_s"].to_list()[3] is not None
    assert first["covered"].to_list() == [True, False, None, None]
    assert first["own_window"].to_list() == [True, True, False, False]
    alone = summary.estimates.filter(pl.col("cross") == "0 Mbit/s")
    assert set(alone["truth_bit_per_s"]) == {300e6}


def test_cells_count_what_gave_no_answer_and_what_was_a_bound(routed_store: Path) -> None:
    summary = summarise(routed_store)
    cells = summary.cells.filter(pl.col("cross") == "150 Mbit/s")
    assert cells.height == 4
    for cell in cells.iter_rows(named=True):
        counts = {
            name: cell[name] for name in ("estimates", "unanswered", "at_least", "intervals", "intervals_covering")
        }
        assert counts == {"estimates": 4, "unanswered": 1, "at_least": 1, "intervals": 2, "intervals_covering": 1}
        assert (cell["n"], known_of(cell, "median"), cell["truth_unknown"]) == (3, Known(150e6, "at least"), 0)
        # Of the two answers that are no bounds: 0 and 10 %.
        assert cell["error_percent"] == pytest.approx(5.0)
        assert cell["absolute_error_percent"] == pytest.approx(5.0)
        assert (cell["estimate_byte"], cell["estimate_ns"]) == (75_000, 20_000_000)
        assert cell["occupied_share"] == pytest.approx(0.1)
    said = {note.id: note.text for note in summary.notes}
    assert "8 of 32 estimates gave no answer: lossy 8" in said["no_answer"]
    assert "8 of 32 answers are lower bounds" in said["at_least"]
    assert "not counted for 32 of 32 estimates" in said["not_counted"]
    # Another path has another truth: what differs there is no finding.
    assert set(compared(summary.comparisons)["factor"]) == {"method", "timers"}


@pytest.mark.parametrize(
    ("steer", "changes", "reason"),
    [({"unlogged": "yes"}, (), "not logged"), ({"missed": "yes"}, (OVER_LINK,), "link missed frames")],
)
def test_an_estimate_whose_window_is_not_known_has_no_error_and_is_counted(
    tmp_path: Path,
    fake: Any,
    fake_hosts: Any,
    run_campaign: Run,
    steer: dict[str, str],
    changes: tuple[tuple[str, str], ...],
    reason: str,
) -> None:
    fake.behave(**steer)
    with Store.create(tmp_path / "store", plan_of(*ONE_CELL, *changes), 7) as store:
        assert run_campaign(store).done == 1
    summary = summarise(tmp_path / "store")
    assert summary.estimates["truth_bit_per_s"].to_list() == [None] * 4
    assert set(summary.estimates["no_truth"]) == {reason}
    assert summary.cells["truth_unknown"].to_list() == [4]
    assert summary.cells["error_percent"].to_list() == [None]
    assert any(f"{reason} 4" in note.text for note in summary.notes)


def test_a_late_link_marks_its_estimates_and_drops_none(
    tmp_path: Path, fake: Any, fake_hosts: Any, run_campaign: Run
) -> None:
    with Store.create(tmp_path / "store", plan_of(*ONE_CELL, OVER_LINK), 7) as store:
        assert run_campaign(store).done == 1
    summary = summarise(tmp_path / "store")
    assert summary.estimates["disturbed"].to_list() == ["link was late"] * 4
    assert summary.cells["disturbed_estimates"].to_list() == [4]
    assert summary.cells["error_percent"].null_count() == 0


WRONG = [
    (('capacity = ["300 Mbit/s"]', ""), "the path that the lab sets up has none: use either 'capacity'"),
    (('capacity = ["300 Mbit/s"]', 'capacity = ["300"]'), r"capacity\[0\]: '300' has no unit"),
    (('capacity = ["300 Mbit/s"]', "capacity = [300]"), "is 300: use a string such as"),
    (('capacity = ["300 Mbit/s"]', 'capacity_steps = ["1 Gbit/s"]'), "is no RATE:TIME"),
    (("estimates = 4", 'clock = "os"'), "factors.timers: sets 'clock', too"),
    (("estimates = 4", "reverse = true"), "bottleneck is on the way forward"),
    (("estimates = 4", 'peer = "10.0.0.2"'), "needs the far end that the lab sets up"),
    (("estimates = 4", 'key_file = "k"'), "the lab makes a key for each run"),
    (('timers = ["os", "vtare"]', 'timers = ["oss"]'), "is 'oss'.*[Uu]se one of: os, vtare"),
    (('timers = ["os", "vtare"]', 'timers = ["vtare"]\nloss = ["1"]'), "use a share below 100 %"),
    (('timers = ["os", "vtare"]', 'timers = ["vtare"]\nloss = ["100 %"]'), "use a share below 100 %"),
    (('timers = ["os", "vtare"]', 'timers = ["vtare"]\nloss = ["nan %"]'), "use a share below 100 %"),
    (('timers = ["os", "vtare"]', 'timers = ["vtare"]\ndelay = ["11 s"]'), "use 10 s or less"),
    (('timers = ["os", "vtare"]', 'timers = ["vtare"]\nmtu_byte = ["1400 B"]'), "use 1500 to 9000 B"),
    (('timers = ["os", "vtare"]', 'timers = ["vtare"]\ncapture = ["on"]'), "unknown factor"),
    (('timers = ["os", "vtare"]', 'timers = ["vtare"]\nbottleneck = ["fq"]'), "se one of: tbf, htb, link"),
    (
        ('timers = ["os", "vtare"]', 'timers = ["vtare"]\nbottleneck = ["tbf", "link"]\ncross_arrivals = ["iperf3"]'),
        "traffic of 'iperf3' over the bottleneck 'link' is not counted: use the bottleneck tbf or htb",
    ),
]


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_a_path_that_cannot_be_is_refused_with_the_way_out(change: tuple[str, str], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        plan_of(change)


def test_levels_of_a_path_may_be_written_in_any_unit() -> None:
    plan = plan_of(
        ('["0 Mbit/s", "150 Mbit/s"]', '["0 bit/s", "150000 kbit/s"]'),
        ('baseline = { method = "vtare", timers = "vtare" }', 'baseline = { cross = "0.15 Gbit/s", loss = "1%" }'),
        ('platform = ["host"]', 'platform = ["host"]\nloss = ["0 %", "1 %"]'),
    )
    factor = plan.experiments[0].factor("cross")
    assert [(level.label, level.value) for level in factor.levels] == [("0 Mbit/s", 0), ("150 Mbit/s", 150_000_000)]
    assert (factor.baseline, plan.experiments[0].factor("loss").baseline) == ("150 Mbit/s", "1 %")


def test_work_of_others_is_what_no_child_did(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([(10.0, 100.0, 5.0), (12.0, 103.5, 6.5)])
    monkeypatch.setattr("vtare.campaign.surroundings._look", lambda: next(looks))
    assert Surroundings().seen()["others_cores"] == pytest.approx(1.0)


def test_surroundings_can_be_seen_here() -> None:
    watch = Surroundings()
    time.sleep(0.02)
    seen = watch.seen()
    assert seen["elapsed_s"] > 0
    assert seen["others_cores"] is None or seen["others_cores"] >= 0
