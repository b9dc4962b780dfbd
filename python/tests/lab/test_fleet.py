"""A fleet: who gets which host, in a state machine, on simulated hosts with faults, and in the journal."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vtare.campaign.executor import Campaign
from vtare.campaign.journal import HostEvent, Journal
from vtare.campaign.stop import StopRequest
from vtare.campaign.store import Store
from vtare.design import make_design
from vtare.errors import BadInput
from vtare.fleet.dry import dry_run, simulated_number
from vtare.fleet.host_use import overlaps, use_of
from vtare.fleet.hosts import have_agents, hosts_of, load_hosts
from vtare.fleet.needs import check_plan, request_of, without_hosts
from vtare.fleet.scheduler import (
    MOST_ATTEMPTS,
    PATIENCE_S,
    Abandon,
    Decision,
    Ended,
    GiveUp,
    HostAnswered,
    Lost,
    Passed,
    Probe,
    Queued,
    Request,
    Scheduler,
    Silent,
    Start,
)
from vtare.fleet.simulated import SimulatedFiles
from vtare.plan.files import parse_plan
from vtare.plan.model import Plan

LAB = Callable[..., CompletedProcess[str]]

PLAN = """
schema = "vtare.plan/1"
name = "small"
question = "Does a fleet lose anything?"
blocks = 3
seed = 1
control = true

[[experiment]]
name = "sleep"
instrument = "sleep"
parameters = { target_ns = "1 ms", samples = 50, seconds = "0.2 s" }
factors = { method = ["usleep", "adaptive"] }

[[experiment]]
name = "rtt"
instrument = "rtt"
parameters = { seconds = "5 s" }
factors = { rate_packet_per_s = ["1 kpacket/s", "2 kpacket/s", "3 kpacket/s"] }

[[experiment]]
name = "avb"
instrument = "avb"
factors = { capacity = ["40 Mbit/s"], method = ["yaz", "pathload"] }
"""
SOURCE = Path("small.toml")


def started(decisions: Sequence[Decision]) -> list[Start]:
    return [decision for decision in decisions if isinstance(decision, Start)]


def answering(*hosts: str) -> Scheduler:
    scheduler = Scheduler(hosts, 1)
    assert scheduler.begin(0.0) == [Probe(host, 0.0) for host in sorted(hosts)]
    for host in hosts:
        scheduler.handle(HostAnswered(host), 0.0)
    return scheduler


def request(run_id: str, **needs: str) -> Request:
    return Request(run_id, tuple((role, frozenset(hosts.split())) for role, hosts in needs.items()), 100.0)


def test_a_run_takes_all_its_hosts_together_and_a_later_one_need_not_wait_for_it() -> None:
    scheduler = answering("a", "b")
    first = request("first", sender="a")
    both, other = request("both", sender="a b", responder="a b"), request("other", sender="b")
    (one, three) = started(scheduler.handle(Queued([first, both, other]), 1.0))
    assert (one.run_id, one.hosts, one.until_s) == ("first", {"sender": "a"}, 101.0)
    assert (three.run_id, three.held) == ("other", ("b",))
    assert started(scheduler.handle(Ended("other", 1), 2.0)) == []
    (two,) = started(scheduler.handle(Ended("first", 1), 3.0))
    assert (two.run_id, two.held) == ("both", ("a", "b"))


def test_no_host_is_used_before_it_has_answered() -> None:
    scheduler = Scheduler(["a"], 1)
    scheduler.begin(0.0)
    assert scheduler.handle(Queued([request("run", sender="a")]), 0.0) == []
    assert started(scheduler.handle(HostAnswered("a"), 1.0)) != []


def test_a_run_whose_host_is_lost_is_tried_once_more_and_then_given_up_with_its_hosts() -> None:
    scheduler = answering("a", "b")
    scheduler.handle(Queued([request("run", sender="a")]), 0.0)
    assert scheduler.handle(Lost("run", 1, frozenset({"a"})), 1.0) == [Probe("a", 1.0)]
    assert scheduler.handle(Silent("a", "no route"), 2.0) == [Probe("a", 32.0)]
    (again,) = started(scheduler.handle(HostAnswered("a"), 3.0))
    assert again.attempt == MOST_ATTEMPTS
    decisions = scheduler.handle(Lost("run", 2, frozenset({"a"})), 4.0)
    assert decisions == [Probe("a", 4.0), GiveUp("run", "hosts were lost in 2 attempts: a, then a", tried=True)]
    assert not scheduler.busy


def test_what_an_abandoned_attempt_reports_changes_nothing() -> None:
    scheduler = answering("a")
    scheduler.handle(Queued([request("run", sender="a")]), 0.0)
    assert scheduler.deadline_s == 100.0
    assert scheduler.handle(Passed(), 100.0) == [Abandon("run", 1, ("a",)), Probe("a", 100.0)]
    (again,) = started(scheduler.handle(HostAnswered("a"), 101.0))
    assert scheduler.handle(Ended("run", 1), 102.0) == []
    assert scheduler.lease("run", 1) is None
    assert scheduler.lease("run", 2) == again


def test_runs_wait_for_a_silent_host_for_a_while_and_are_then_skipped_with_its_reason() -> None:
    scheduler = Scheduler(["a", "b"], 1)
    scheduler.begin(0.0)
    scheduler.handle(HostAnswered("b"), 0.0)
    scheduler.handle(Silent("a", "no route"), 1.0)
    scheduler.handle(Queued([request("run", sender="a"), request("pair", sender="a b", responder="a b")]), 1.0)
    assert scheduler.deadline_s == PATIENCE_S
    given_up = scheduler.handle(Passed(), PATIENCE_S)
    assert [(d.run_id, d.tried) for d in given_up if isinstance(d, GiveUp)] == [("run", False), ("pair", False)]
    assert all("a: no route" in d.reason for d in given_up if isinstance(d, GiveUp))
    assert scheduler.deadline_s is None


def test_runs_wait_without_end_for_a_host_that_another_campaign_has() -> None:
    scheduler = Scheduler(["a"], 1)
    scheduler.begin(0.0)
    scheduler.handle(Silent("a", "process 7 has it", held=True), 1.0)
    scheduler.handle(Queued([request("run", sender="a")]), 1.0)
    assert scheduler.deadline_s is None
    assert scheduler.handle(Passed(), 10 * PATIENCE_S) == []
    assert started(scheduler.handle(HostAnswered("a"), 11 * PATIENCE_S)) != []


@given(st.data())
@settings(max_examples=25)
def test_no_two_runs_have_one_host_whatever_happens(data: st.DataObject) -> None:
    hosts = ["a", "b", "c", "d"]
    scheduler = Scheduler(hosts, data.draw(st.integers(0, 9)))
    scheduler.begin(0.0)
    subsets = st.sets(st.sampled_from(hosts), min_size=1).map(" ".join)
    requests = [
        request(str(i), **dict(zip("xyz", data.draw(st.lists(subsets, min_size=1, max_size=3)), strict=False)))
        for i in range(8)
    ]
    running: dict[str, Start] = {}
    ended: list[str] = []
    now_s, decisions = 0.0, list(scheduler.handle(Queued(requests), 0.0))
    for _ in range(60):
        for decision in decisions:
            match decision:
                case Abandon(run_id):
                    del running[run_id]
                case GiveUp(run_id):
                    ended.append(run_id)
                case Start(run_id):
                    assert run_id not in running
                    assert not set(decision.held) & {host for other in running.values() for host in other.held}
                    assert len(set(decision.held)) == len(decision.hosts)
                    running[run_id] = decision
        now_s += data.draw(st.floats(0.0, 50.0))
        what = data.draw(st.sampled_from(["ended", "lost", "answered", "silent", "passed"]))
        if what in ("ended", "lost") and running:
            start = running.pop(data.draw(st.sampled_from(sorted(running))))
            if what == "ended":
                ended.append(start.run_id)
                decisions = scheduler.handle(Ended(start.run_id, start.attempt), now_s)
            else:
                lost = frozenset(data.draw(st.sets(st.sampled_from(start.held), min_size=1)))
                decisions = scheduler.handle(Lost(start.run_id, start.attempt, lost), now_s)
        elif what == "passed":
            decisions = scheduler.handle(Passed(), now_s)
        else:
            host = data.draw(st.sampled_from(hosts))
            # As machines do: no host on which a run is answers a probe.
            if any(host in start.held for start in running.values()):
                decisions = []
            else:
                event = HostAnswered(host) if what == "answered" else Silent(host, "no route")
                decisions = scheduler.handle(event, now_s)
    assert len(ended) == len(set(ended))


@pytest.mark.parametrize("seed", range(int(os.environ.get("VTARE_FLEET_SEEDS", "12"))))
def test_a_campaign_on_a_simulated_fleet_loses_nothing_and_counts_nothing_twice(seed: int) -> None:
    plan = parse_plan(PLAN, source=SOURCE)
    found = dry_run(plan, seed, 3 + seed % 6, 12)
    assert (found.overlaps, found.twice, found.unsound, found.left) == ((), (), (), 0)
    assert found.done + found.failed + found.skipped == found.runs == 30
    assert sum(found.faults.values()) >= 6
    assert found.kept


def test_a_dry_run_without_faults_makes_every_run_in_one_session() -> None:
    found = dry_run(parse_plan(PLAN, source=SOURCE), 1, 64, 0)
    assert (found.done, found.sessions, dict(found.faults)) == (30, 1, {})
    busy = [use.busy_share for use in found.hosts if use.runs]
    assert busy
    assert all(share is not None and 0.0 < share < 1.0 for share in busy)
    assert found == dry_run(parse_plan(PLAN, source=SOURCE), 1, 64, 0)


def test_a_lost_worker_that_still_writes_into_its_directory_does_not_end_the_campaign(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    remove, refused = SimulatedFiles.remove_tree, list[Path]()

    def refuse_once(files: SimulatedFiles, path: Path) -> None:
        if path.name.startswith(".tmp-") and path not in refused and len(refused) < 3:
            refused.append(path)
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(path))
        remove(files, path)

    monkeypatch.setattr(SimulatedFiles, "remove_tree", refuse_once)
    found = dry_run(parse_plan(PLAN, source=SOURCE), 1, 4, 0)
    assert (len(refused), found.kept, found.done) == (3, True, found.runs)


def test_the_command_prints_a_dry_run_and_keeps_nothing(lab_command: LAB, tmp_path: Path) -> None:
    plan = tmp_path / "small.toml"
    plan.write_text(PLAN)
    done = lab_command("run", plan, "--on", "simulated:8")
    assert done.returncode == 0, done.stderr
    assert "small on 8 simulated hosts: 30 of 30 runs done" in done.stdout
    document = json.loads(lab_command("run", plan, "--on", "simulated:8:0", "--json").stdout)
    assert (document["schema"], document["done"], document["left"]) == ("vtare.dry_run/1", 30, 0)
    assert sorted(tmp_path.iterdir()) == [plan]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--on", "simulated:0"), "use simulated:HOSTS"),
        (("--on", "simulated:x"), "use simulated:HOSTS"),
        (("--on", "simulated:2"), "too few hosts (2): list 3, one for each of sender, responder, router"),
        (("--on", "simulated:8", "--store", "x"), "keeps nothing"),
        (("--on", "everywhere"), "--on is 'everywhere': use a file of hosts"),
        (("--on", "small.toml"), "unknown key 'name': use one of: schema, hosts"),
    ],
)
def test_a_fleet_that_cannot_be_is_refused(
    words: Sequence[str], message: str, lab_command: LAB, tmp_path: Path, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = tmp_path / "small.toml"
    plan.write_text(PLAN)
    monkeypatch.chdir(tmp_path)
    done = lab_command("run", plan, *words, "--binary", fake.path)
    assert done.returncode == 2
    assert not (tmp_path / "vtare-store").exists()
    assert message in done.stderr
    assert simulated_number("simulated:4:9") == (4, 9)


HOSTS = """
schema = "vtare.hosts/1"

[hosts.left]
host = "192.0.2.11"
user = "measure"
address = "10.0.0.1"

[hosts.middle]
host = "192.0.2.12"
roles = ["router"]
inward = "eth1"
outward = "eth2"

[hosts.here]
kind = "host"
address = "10.0.0.9"
roles = ["sender"]
"""


def test_hosts_are_read_with_their_roles_and_how_they_are_reached(tmp_path: Path) -> None:
    path = tmp_path / "hosts.toml"
    path.write_text(HOSTS)
    left, middle, here = load_hosts(path)
    assert (left.name, left.roles, left.settings["host"], left.spec.address) == (
        "left", ("sender", "responder"), "192.0.2.11", "10.0.0.1",
    )  # fmt: skip
    assert (left.reached_at, middle.reached_at, here.reached_at) == (
        "ssh measure@192.0.2.11", "ssh 192.0.2.12", "this machine",
    )  # fmt: skip
    assert (middle.roles, middle.spec.inward) == (("router",), "eth1")
    plan = parse_plan(PLAN, source=SOURCE)
    needs = request_of(next(run for run in _runs() if run.experiment == "avb"), plan, (left, middle, here), 60.0).needs
    assert needs == (
        ("sender", frozenset({"left", "here"})), ("responder", frozenset({"left"})), ("router", frozenset({"middle"})),
    )  # fmt: skip
    check_plan(plan, (left, middle, here), "hosts.toml")
    with pytest.raises(BadInput, match="no host can be the router"):
        check_plan(plan, (left, here), "hosts.toml")


def _runs() -> Sequence[object]:
    return make_design(parse_plan(PLAN, source=SOURCE), 1)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('"vtare.hosts/1"', '"x"', "schema is 'x': use 'vtare.hosts/1'"),
        ('user = "measure"', 'usr = "measure"', "usr"),
        ('kind = "host"', 'kind = "docker"', "hosts.here.kind is 'docker': use one of: host"),
        ('["sender"]', '["boss"]', "use a list of: sender, responder, router, tester"),
        ("192.0.2.12", "192.0.2.11", "is the same machine"),
        ('host = "192.0.2.12"', "", "hosts.middle.host is missing"),
        ("[hosts.left]", '[hosts."a b"]', "a name has letters"),
        ('host = "192.0.2.11"', "host = 1.5", "is 1.5: use a text or an integer"),
        ('host = "192.0.2.12"', 'host = "192.0.2.12"\nagent = "python3"', "hosts.left.agent is missing"),
        ('host = "192.0.2.11"', 'host = "192.0.2.11"\nagent = 3', "hosts.left.agent is 3"),
        (
            'kind = "host"',
            'kind = "host"\nagent = "python3"',
            "hosts.here.agent is 'python3': use the path of a Python",
        ),
        (
            'host = "192.0.2.11"',
            'host = "-oProxyCommand=reboot"',
            "host: '-oProxyCommand=reboot' is not a name or an address",
        ),
        ('host = "192.0.2.11"', 'host = "a;reboot"', "host: 'a;reboot' is not a name or an address"),
        ('host = "192.0.2.11"', 'host = "$(reboot)"', "host: '$(reboot)' is not a name or an address"),
        ('host = "192.0.2.11"', 'host = "a b"', "host: 'a b' is not a name or an address"),
        ('user = "measure"', 'user = "-l root"', "user: '-l root' is not the name of an account"),
        ('address = "10.0.0.9"', 'address = "-h"', "hosts.here.address: '-h' is not a name or an address"),
        ('kind = "host"', 'kind = "host"\ninterface = "a|b"', "hosts.here.interface: 'a|b' is not the name"),
    ],
)
def test_a_file_of_hosts_that_is_wrong_is_refused(before: str, after: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "hosts.toml"
    text = HOSTS.replace('user = "measure"\n', "") if before == "192.0.2.12" else HOSTS
    path.write_text(text.replace(before, after))
    with pytest.raises(BadInput, match=r"hosts\.toml") as raised:
        load_hosts(path)
    assert message in str(raised.value)


def test_overlaps_and_shares_are_read_from_the_events_of_hosts() -> None:
    a, b = "a" * 16, "b" * 16
    fine = [
        HostEvent(0.0, "h", "answered"), HostEvent(1.0, "h", "taken", a), HostEvent(5.0, "h", "released", a),
        HostEvent(5.0, "h", "lost"), HostEvent(7.0, "h", "answered"), HostEvent(8.0, "h", "taken", b),
    ]  # fmt: skip
    (use,) = use_of(fine, 10.0)
    assert (use.runs, use.busy_s, use.free_s, use.silent_s, use.lost, use.holder) == (2, 6.0, 2.0, 2.0, 1, b)
    assert (use.busy_share, use.free_share) == (0.6, 0.2)
    assert overlaps(fine) == []
    assert len(overlaps([*fine, HostEvent(9.0, "h", "taken", a)])) == 1
    assert len(overlaps([*fine, HostEvent(9.0, "h", "released", a)])) == 1
    assert use_of([]) == ()


def test_the_journal_keeps_the_events_of_hosts_and_refuses_what_is_none(tmp_path: Path) -> None:
    path = tmp_path / "journal.sqlite"
    event = HostEvent(1.5, "h", "taken", "a" * 16)
    with Journal(path) as journal:
        assert journal.host_events() == ()
        journal.keep_host_events()
        journal.add_host_events([event])
    with Journal(path, there=True) as journal:
        assert journal.host_events() == (event,)
        journal._connection.execute("INSERT INTO host_events VALUES (9, 2.0, 'h', 'taken', 'no run')")
        with pytest.raises(BadInput, match="the run of an event is 'no run'"):
            journal.host_events()


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ('kind = "host"', 'kind = "host"\nnamespace = 7', "use the name of a network namespace"),
        ('kind = "host"', 'kind = "host"\nnamespace = "../x"', "use the name of a network namespace"),
        ('kind = "host"', 'kind = "host"\nspeed = 7', "unknown setting 'speed'"),
    ],
)
def test_settings_of_a_namespace_are_checked(before: str, after: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "hosts.toml"
    path.write_text(HOSTS.replace(before, after))
    with pytest.raises(BadInput, match=re.escape(message)):
        load_hosts(path)


def test_hosts_with_agents_make_guests_but_measure_no_pairs(tmp_path: Path) -> None:
    path = tmp_path / "hosts.toml"
    path.write_text('schema = "vtare.hosts/1"\n[hosts.one]\nhost = "192.0.2.11"\nagent = "/usr/bin/python3"\n')
    (one,) = hosts = load_hosts(path)
    assert (one.agent, have_agents(hosts), dict(one.settings)) == (
        "/usr/bin/python3", True, {"kind": "ssh", "host": "192.0.2.11"},
    )  # fmt: skip
    plan = parse_plan(PLAN, source=SOURCE)
    # One host is enough for all runs of it: the far end is made there.
    check_plan(plan, hosts, "hosts.toml")
    assert without_hosts(plan, make_design(plan, 1), hosts, ()) == {}
    with pytest.raises(BadInput, match=r"too few hosts \(1\): list 2"):
        check_plan(plan, [replace(one, agent=None)], "hosts.toml")
    pairs = 'schema = "vtare.plan/1"\nname = "m"\nquestion = "?"\nblocks = 1\nmesh = ["one", "two"]\n'
    mesh = parse_plan(pairs + '[[experiment]]\nname = "rtt"\ninstrument = "rtt"\n', source=SOURCE)
    with pytest.raises(BadInput, match="whose workers make each run on one host"):
        check_plan(mesh, hosts, "hosts.toml")


def test_a_host_of_this_machine_between_others_needs_an_address(tmp_path: Path) -> None:
    path = tmp_path / "hosts.toml"
    path.write_text(HOSTS.replace('address = "10.0.0.9"', ""))
    with pytest.raises(BadInput, match=r"hosts\.here\.address is missing"):
        check_plan(parse_plan(PLAN, source=SOURCE), load_hosts(path), "hosts.toml")


def test_a_plan_that_names_hosts_or_makes_instances_is_no_plan_for_a_fleet(tmp_path: Path) -> None:
    path = tmp_path / "hosts.toml"
    path.write_text(HOSTS)
    named = (
        PLAN + '[platforms.m]\nkind = "ssh"\nhost = "192.0.2.1"\n[hosts]\nsender = "m"\nresponder = "m"\nrouter = "m"\n'
    )
    made = PLAN.replace('factors = { method = ["usleep", "adaptive"] }', 'factors = { platform = ["netns"] }')
    for text, message in ((named, "provides the hosts"), (made, "has the factor 'platform'")):
        plan = parse_plan(text, source=SOURCE)
        with pytest.raises(BadInput, match=message):
            check_plan(plan, load_hosts(path), "hosts.toml")
    check_plan(parse_plan(made, source=SOURCE), load_hosts(path), "x", made_there=True)


def test_retry_makes_failed_runs_again_and_no_others(
    lab_command: LAB, tmp_path: Path, fake: Any, tiny_plan: Plan
) -> None:
    def campaign(only: frozenset[str] | None = None) -> tuple[int, int]:
        with Store.open(tmp_path / "store") as store, StopRequest() as stop:
            result = Campaign(store, fake.path, stop, only=only).run()
        return result.done, result.failed

    Store.create(tmp_path / "store", tiny_plan, 7).__exit__(None, None, None)
    fake.behave(fail='"spin"')
    assert campaign() == (4, 4)
    with Journal(tmp_path / "store" / "journal.sqlite") as journal:
        failed, other = [run_id for run_id, entry in journal.entries().items() if entry.status == "failed"][:2]
        journal.forget(other)
    fake.behave()
    assert campaign(frozenset({"skipped"})) == (4, 3)
    assert campaign(frozenset({"failed"})) == (7, 0)
    with Journal(tmp_path / "store" / "journal.sqlite") as journal:
        assert journal.entries()[failed].attempts == 2
        assert other not in journal.entries()
    refused = lab_command("retry", tmp_path / "store", "--binary", fake.path)
    assert (refused.returncode, "add --failed, --skipped or both" in refused.stderr) == (2, True)
    dry = lab_command("resume", tmp_path / "store", "--on", "simulated:4", "--binary", fake.path)
    assert (dry.returncode, "a dry run keeps no store" in dry.stderr) == (2, True)
    assert "this campaign was on one machine" in lab_command("fleet", tmp_path / "store").stdout


def test_how_hosts_were_used_is_shown_from_a_store(lab_command: LAB, tmp_path: Path, fake: Any) -> None:
    plan = parse_plan(PLAN, source=SOURCE)
    with Store.create(tmp_path / "store", plan, 1) as store:
        run_id = store.runs[0].run_id
        store.journal.keep_host_events()
        store.journal.add_host_events(
            [
                HostEvent(0.0, "left", "answered"),
                HostEvent(1.0, "left", "taken", run_id),
                HostEvent(4.0, "left", "released", run_id),
            ]
        )
    shown = lab_command("fleet", tmp_path / "store")
    assert shown.returncode == 0, shown.stderr
    assert "left" in shown.stdout
    assert "75 %" in shown.stdout
    (host,) = json.loads(lab_command("fleet", tmp_path / "store", "--json").stdout)["hosts"]
    assert (host["host"], host["runs"], host["busy_share"], host["free_share"]) == ("left", 1, 0.75, 0.25)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nowhere",), "nowhere: cannot read the hosts"),
        (("a", "b"), "'a' and 'b' are two: name one file of hosts or store"),
        (("a", "--seconds", "5 s"), "--seconds belongs to `check`"),
    ],
)
def test_a_misused_fleet_command_is_told_what_it_takes(words: Sequence[str], message: str, lab_command: LAB) -> None:
    done = lab_command("fleet", *words)
    assert done.returncode == 2
    assert message in done.stderr


def test_hosts_may_be_named_in_one_word() -> None:
    """As `--on a,me@b:2222` has them."""
    hosts = hosts_of("192.0.2.1, me@b.example:2222,c,fd00::2,me@[fd00::3]:22")
    assert [(host.name, dict(host.settings)) for host in hosts] == [
        ("192.0.2.1", {"kind": "ssh", "host": "192.0.2.1"}),
        ("b.example-2222", {"kind": "ssh", "host": "me@b.example", "port": 2222}),
        ("c", {"kind": "ssh", "host": "c"}),
        ("fd00--2", {"kind": "ssh", "host": "fd00::2"}),
        ("fd00--3-22", {"kind": "ssh", "host": "me@fd00::3", "port": 22}),
    ]
    for wrong, part in (
        ("a,,b", "'' is no host"),
        ("me@", "'me@' is no host"),
        ("a,a", "'a' is named twice"),
        ("x.toml", "cannot read"),
        ("-oProxyCommand=x", "a name has letters"),
        ("a:99999", "port is 99999: use 1 to 65535"),
    ):
        with pytest.raises(BadInput, match=re.escape(part)):
            hosts_of(wrong)
