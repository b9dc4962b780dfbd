"""Runs between two hosts, with stand-in programs: who is started how; that no failure hangs or leaves anything."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from comparison_frames import compared

from vtare.campaign import children
from vtare.campaign.results import CampaignResult
from vtare.campaign.store import Store
from vtare.errors import BadInput
from vtare.plan.files import parse_plan
from vtare.plan.model import Plan
from vtare.platforms.network import NetworkError, NetworkRefused
from vtare.summary import summarise

Run = Callable[[Store], CampaignResult]


TWO_HOSTS = (Path(__file__).parents[1] / "two_hosts.toml").read_text(encoding="utf-8")


def plan_of(text: str, *changes: tuple[str, str]) -> Plan:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse_plan(text, source=Path("two-hosts.toml"))


ONE_CELL = (
    ("blocks = 3", "blocks = 1"),
    ('["off", "on"]', '["on"]'),
    ('["host", "netns", "docker"]', '["netns"]'),
    ('capture = "off"', 'capture = "on"'),
    ('platform = "host", ', ""),
)


def test_each_run_keeps_what_both_host_sides_saw_and_no_key(
    tmp_path: Path, fake: Any, fake_hosts: Any, run_campaign: Run
) -> None:
    with Store.create(tmp_path / "store", plan_of(TWO_HOSTS, ONE_CELL[0]), 7) as store:
        result = run_campaign(store)
        assert (result.done, result.failed, result.skipped) == (4, 0, 2)
        reasons = {entry.reason for entry in store.journal.entries().values() if entry.status == "skipped"}
        assert reasons == {"platform docker (sender): no daemon"}
        for run in store.runs:
            if run.factors["platform"] == "docker":
                continue
            names = {path.name for path in store.directory(run.run_id).iterdir()}
            captured = {"capture-sender.parquet", "capture-responder.parquet"} <= names
            assert captured == (run.factors["capture"] == "on")
            assert "key" not in names
            document = json.loads((store.directory(run.run_id) / "run.json").read_text())
            assert document["parameters"].items() >= {"peer": ["127.0.0.1:8462"], "gso": False}.items()
            assert "peer" not in run.parameters
            topology = json.loads((store.directory(run.run_id) / "topology.json").read_text())
            assert topology["sender"]["platform"] == run.factors["platform"]
            assert topology["responder"]["capture_interface"] == "port0"
    served = (fake.directory / "serve.arguments").read_text()
    assert "--listen 127.0.0.1:8462" in served
    assert "--spin --cpu 1" in served
    assert "--no-gso" in served
    assert (fake.directory / "capture-sender.arguments").read_text().startswith("port0 --out ")
    assert (fake_hosts.made, fake_hosts.platform.running) == (0, 0)


def test_a_responder_of_the_same_platform_follows_the_sender(
    tmp_path: Path, fake: Any, fake_hosts: Any, run_campaign: Run
) -> None:
    same = plan_of(TWO_HOSTS, ONE_CELL[0], ('responder_platform = ["netns"]', 'responder_platform = ["same"]'))
    with Store.create(tmp_path / "store", same, 7) as store:
        assert run_campaign(store).done == 4
        entries = store.journal.entries()
        for run in store.runs:
            if entries[run.run_id].status == "done":
                topology = json.loads((store.directory(run.run_id) / "topology.json").read_text())
                platforms = {topology[side]["platform"] for side in ("sender", "responder")}
                assert platforms == {run.factors["platform"]}
                assert run.factors["responder_platform"] == "same"


def test_a_hook_that_the_plan_names_is_handed_to_the_capture(
    tmp_path: Path, fake: Any, fake_hosts: Any, run_campaign: Run
) -> None:
    changes = (ONE_CELL[0], ('["off", "on"]', '["packet"]'), ONE_CELL[2], ('capture = "off"', 'capture = "packet"'))
    plan = plan_of(TWO_HOSTS, *changes, ONE_CELL[4])
    with Store.create(tmp_path / "store", plan, 7) as store:
        assert run_campaign(store).done == 1
    assert (fake.directory / "capture-responder.arguments").read_text().endswith("--hook packet")


def test_icmp_needs_no_responder_and_captures_echo(
    tmp_path: Path, fake: Any, fake_hosts: Any, run_campaign: Run
) -> None:
    plan = plan_of(TWO_HOSTS, *ONE_CELL, ('seconds = "0.4 s"', 'mode = "icmp"'))
    with Store.create(tmp_path / "store", plan, 7) as store:
        assert run_campaign(store).done == 1
        document = json.loads((store.directory(store.runs[0].run_id) / "run.json").read_text())
    assert document["parameters"]["peer"] == ["127.0.0.1"]
    assert "key_file" not in document["parameters"]
    assert not (fake.directory / "serve.arguments").exists()
    assert (fake.directory / "capture-sender.arguments").read_text().endswith("--icmp")


FAILURES = [
    ({"serve": "cannot"}, "skipped", 3, "the responder could not start (exit code 3): serve: this kernel has no hook"),
    ({"serve": "mute"}, "failed", None, "the responder was not ready within 1 s"),
    ({"serve": "dies"}, "failed", 9, "the responder ended (exit code 9) before the run did: serve: out of memory"),
    ({"serve": "dies", "hang": "rtt"}, "failed", 9, "the responder ended (exit code 9) before the run did"),
    ({"serve": "fails"}, "failed", 1, "the responder ended with exit code 1"),
    ({"capture": "cannot:sender"}, "skipped", 3, "the capture at the sender could not start (exit code 3)"),
    ({"capture": "mute:responder"}, "failed", None, "the capture at the responder was not ready within 1 s"),
    ({"capture": "dies:responder"}, "failed", 9, "the capture at the responder ended (exit code 9) before the run did"),
    ({"capture": "dies:sender", "hang": "rtt"}, "failed", 9, "the capture at the sender ended (exit code 9)"),
    ({"capture": "garbage:sender"}, "failed", None, "capture-sender.parquet: damaged, or not made by `vtare capture"),
    ({"fail": "rtt"}, "failed", 4, "the instrument ended with exit code 4: cannot open the counter device"),
]


@pytest.mark.parametrize(
    ("steer", "word", "code", "reason"),
    FAILURES,
    ids=[" ".join(f"{k} {v}" for k, v in case[0].items()) for case in FAILURES],
)
def test_helper_that_fails_costs_its_run_and_never_hangs_it(
    tmp_path: Path,
    fake: Any,
    fake_hosts: Any,
    run_campaign: Run,
    monkeypatch: pytest.MonkeyPatch,
    steer: dict[str, str],
    word: str,
    code: int | None,
    reason: str,
) -> None:
    # The others may take longer on a busy machine.
    if any(how.startswith("mute") for how in steer.values()):
        monkeypatch.setattr(children, "READY_S", 1.0)
    fake.behave(**steer)
    with Store.create(tmp_path / "store", plan_of(TWO_HOSTS, *ONE_CELL), 7) as store:
        # The run's own time-out, 20 s, would be another reason than the helper's end.
        assert getattr(run_campaign(store), word) == 1
        (entry,) = store.journal.entries().values()
        assert (entry.status, entry.exit_code) == (word, code)
        assert reason in str(entry.reason)
        assert list((store.path / "runs").iterdir()) == []
    assert (fake_hosts.made, fake_hosts.platform.running) == (0, 0)


@pytest.mark.parametrize(
    ("error", "word"), [(NetworkRefused("not permitted"), "skipped"), (NetworkError("no such device"), "failed")]
)
def test_hosts_that_cannot_be_made_are_no_end_of_the_campaign(
    tmp_path: Path,
    fake: Any,
    fake_hosts: Any,
    run_campaign: Run,
    monkeypatch: pytest.MonkeyPatch,
    error: NetworkError,
    word: str,
) -> None:
    def refuse(self: Any) -> None:
        raise error

    monkeypatch.setattr(fake_hosts, "make", refuse)
    with Store.create(tmp_path / "store", plan_of(TWO_HOSTS, *ONE_CELL), 7) as store:
        assert getattr(run_campaign(store), word) == 1


WRONG = [
    (('capture = ["off", "on"]', 'capture = ["of"]'), r"factors.capture\[0\] is 'of'. Did you mean 'off'\?"),
    (("responder_cpu = [1]", 'responder_cpu = ["a"]'), r"responder_cpu\[0\] is 'a': use an integer from 0"),
    (('seconds = "0.4 s"', 'peer = "10.0.0.2"'), "needs the far end that the lab sets up; leave 'peer' out"),
    (('seconds = "0.4 s"', 'key_file = "k"'), "parameters.key_file: the lab makes a key for each run"),
    (('seconds = "0.4 s"', 'mode = "stamp"'), "speaks udp or icmp, not STAMP"),
    (('platform = ["host", "netns", "docker"]', 'platform = ["hots"]'), "is 'hots'. Did you mean 'host'"),
]


@pytest.mark.parametrize(("change", "message"), WRONG, ids=[case[0][1] for case in WRONG])
def test_roles_that_cannot_be_are_refused_with_the_way_out(change: tuple[str, str], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        plan_of(TWO_HOSTS, change)


def test_an_experiment_with_a_peer_of_its_own_is_not_between_two_hosts() -> None:
    text = TWO_HOSTS[: TWO_HOSTS.index("[experiment.factors]")].replace('platform = "host", capture = "off"', "")
    assert not plan_of(text, ('seconds = "0.4 s"', 'peer = "10.0.0.2"')).experiments[0].two_hosts
    assert plan_of(text).experiments[0].two_hosts


def test_summary_splits_the_round_trip_and_counts_the_lost_as_lost(two_host_store: Path) -> None:
    summary = summarise(two_host_store)
    captured = summary.cells.filter((summary.cells["capture"] == "on") & (summary.cells["platform"] == "netns")).row(
        0, named=True
    )
    pieces = ("sender_overhead_ns", "wire_ns", "responder_overhead_ns", "turnaround_ns")
    assert [captured[name] for name in pieces] == [13_000, 12_000, 5_000, 20_000]
    assert (captured["overhead_ns"], captured["median"]) == (13_000, 50_000)
    assert captured["overhead_share_percent"] == pytest.approx(26.0)
    assert captured["overhead_relative_percent"] == pytest.approx(100 * 13 / 37)
    # Four runs of 400 packets, of each of which the last was lost: it is in no reading.
    assert (captured["sent"], captured["lost"], captured["n"]) == (1600, 4, 1596)
    assert captured["lost_fraction"] == pytest.approx(1 / 400)
    assert (captured["paired"], captured["not_captured"], captured["negative"]) == (1596, 0, 0)
    plain = summary.cells.filter((summary.cells["capture"] == "off") & (summary.cells["platform"] == "host")).row(
        0, named=True
    )
    assert (plain["lost"], plain["overhead_ns"], plain["paired"]) == (4, None, None)
    observer = compared(summary.comparisons).filter(compared(summary.comparisons)["factor"] == "capture")
    assert set(observer["platform"]) == {"host", "netns"}
    assert set(observer["difference"]) == {0.0}
