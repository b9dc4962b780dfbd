"""Hosts that a plan names by role: what is refused, what is shown, and how their clocks are related."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from typing import TYPE_CHECKING, cast

import numpy as np
import polars as pl
import pytest

from vtare.campaign.host_clocks import compared
from vtare.errors import BadInput, PlatformFailed
from vtare.overhead.files import Flow, RoundTrips
from vtare.plan.files import parse_plan
from vtare.plan.model import Plan
from vtare.platforms.host import HostInstance
from vtare.topology.clock_relation import ClockComparison, ClockRelation, read_relations
from vtare.topology.named_hosts import HostSpec, device_towards

if TYPE_CHECKING:
    from vtare.platforms.protocol import Server

TWO_HOSTS = (Path(__file__).parents[1] / "two_hosts.toml").read_text(encoding="utf-8")
ROUTED = (Path(__file__).parents[1] / "routed.toml").read_text(encoding="utf-8")
HERE = 'sender = { platform = "host", address = "192.0.2.1" }'
MACHINES = f"""
[platforms.right]
kind = "ssh"
host = "192.0.2.2"
user = "lab"

[hosts]
{HERE}
responder = {{ platform = "right", interface = "eth1" }}
"""


def plan_of(*changes: tuple[str, str], text: str = TWO_HOSTS) -> Plan:
    for line in ("platform = [", "responder_platform = ["):
        text = "\n".join(part for part in text.splitlines() if not part.startswith(line))
    text = text.replace('platform = "host", ', "") + MACHINES
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return parse_plan(text, source=Path("hosts.toml"))


def test_hosts_are_read_by_role() -> None:
    assert plan_of().hosts == {
        "sender": HostSpec("host", "192.0.2.1"),
        "responder": HostSpec("right", None, "eth1"),
    }


def test_vtare_plan_prints_who_is_where(lab_command: Callable[..., CompletedProcess[str]], tmp_path: Path) -> None:
    (tmp_path / "hosts.toml").write_text(plan_of().text)
    out = lab_command("plan", str(tmp_path / "hosts.toml")).stdout
    assert "sender on host (this machine), address 192.0.2.1" in out
    assert "responder on right (ssh lab@192.0.2.2), interface eth1" in out


WRONG = [
    ((HERE, ""), r"hosts.sender is missing: use the machine of this role, as experiment\[0\] \(rtt\) needs it"),
    ((HERE, 'sender = "host"'), "hosts.sender.address is missing: use this machine's address"),
    (
        ('"right", interface', '"rihgt", interface'),
        r"is 'rihgt'. Did you mean 'right'\? Use one of: host, right \('host' is this machine, .*\)$",
    ),
    (
        ('kind = "ssh"', 'kind = "docker"'),
        r"hosts.responder.platform is 'right': use one of: host \('host' is",
    ),
    (('kind = "ssh"', 'kind = "qemu"'), r"is 'right': .* made for a run .* platform and responder_platform"),
    (("responder = {", "responder = 5 # {"), "hosts.responder is 5: use a platform such as"),
    (("responder = {", "rsponder = {"), r"unknown key 'rsponder'. Did you mean 'responder'\?"),
    (('interface = "eth1"', 'device = "eth1"'), "hosts.responder: unknown key 'device'|unknown key 'device'"),
    (('platform = "right", ', ""), "hosts.responder.platform is missing: use a string"),
    (("responder_cpu = [1]", 'platform = ["netns"]'), r"factors.platform: states what is made for a run"),
    (("responder_cpu = [1]", "vcpus = [1]"), r"factors.vcpus: states what is made for a run"),
    (
        ('"right", interface', '"right", address = "`reboot`", interface'),
        r"responder.address: '`reboot`' is not a name",
    ),
    (
        ("[hosts]", '[[experiment]]\nname = "f"\ninstrument = "throughput"\n[hosts]\ntester = "right"'),
        r"hosts.tester: experiment\[\d\] names no ports of it: name its tx_port, rx_port and flow",
    ),
]


@pytest.mark.parametrize(("change", "message"), WRONG, ids=[case[0][1] or "no sender" for case in WRONG])
def test_hosts_that_cannot_be_are_refused_with_the_way_out(change: tuple[str, str], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        plan_of(change)


def test_a_path_needs_a_router() -> None:
    with pytest.raises(BadInput, match=r"hosts.router is missing: use the machine of this role, as .* \(avb\)"):
        plan_of(text=ROUTED)


def trips(rows: list[tuple[int, int, int, int]]) -> RoundTrips:
    names = ("sent_ns", "peer_received_ns", "peer_replied_ns", "arrived_ns")
    frame = pl.DataFrame(rows, schema=names, orient="row")
    return RoundTrips(Path("clock.parquet"), frame, (Flow("peer", origin_monotonic_ns=1_000_000),))


def test_no_packet_arrives_before_it_is_sent_and_that_bounds_the_other_clock() -> None:
    # The other clock is 7,000,000 ns ahead; there in 30 and 10 us, back in 20 and 40 us.
    ahead = 1_000_000 + 7_000_000
    rows = [(sent, ahead + sent + there, ahead + sent + there + 5_000, sent + there + 5_000 + back)
            for sent, there, back in ((0, 30_000, 20_000), (200_000, 10_000, 40_000))]  # fmt: skip
    found = compared(trips(rows))
    assert found == ClockComparison(1_100_000, 7_000_000 - 20_000, 7_000_000 + 10_000)


def test_clocks_that_moved_against_each_other_are_bounded_by_the_quickest_round_trip() -> None:
    # Ahead by 0 at first, by 100 us later; 5 us each way, then 6.
    rows = [(0, 1_005_000, 1_005_000, 10_000), (50_000, 1_156_000, 1_156_000, 62_000)]
    assert compared(trips(rows)) == ClockComparison(1_025_000, -5_000, 5_000)


def test_without_a_reply_nothing_is_known_of_the_other_clock() -> None:
    answered = trips([(1, 1, 1, 1)])
    assert compared(replace(answered, frame=answered.frame.clear())) is None


def test_a_comparison_that_the_other_asked_for_is_turned_round() -> None:
    asked = ClockComparison(1_000_000, 6_999_980, 7_000_020)
    turned = asked.reversed
    assert (turned.at_ns, turned.low_ns, turned.high_ns) == (8_000_000, -7_000_020, -6_999_980)
    assert turned.reversed == asked


def test_between_two_comparisons_the_clocks_keep_their_rates(tmp_path: Path) -> None:
    relation = ClockRelation((ClockComparison(0, -10, 30), ClockComparison(1000, 90, 110)))
    assert relation.ahead(np.array([-5.0, 0.0, 500.0, 1000.0, 2000.0])).tolist() == [10.0, 10.0, 55.0, 100.0, 100.0]
    assert relation.bound_ns == 20.0
    assert ClockRelation().ahead(np.array([3.0])).tolist() == [0.0]
    assert ClockRelation().bound_ns == 0.0
    assert ClockRelation.of_document(relation.document()) == relation
    assert read_relations(tmp_path) is None
    (tmp_path / "clocks.json").write_text('{"schema": "vtare.clocks/1", "hosts": {"responder": [{"at_ns": 1}]}}')
    with pytest.raises(BadInput, match="damaged, or not left by a run between machines"):
        read_relations(tmp_path)


EVERY_FACTOR = """
bottleneck = ["tbf", "htb", "link"]
mtu_byte = ["1500 B", "9000 B"]
affinity = ["off", "0,1"]
load = ["idle", "cpu"]
load_side = ["responder"]
background = [1]
background_load = ["net"]
background_side = ["responder"]
responder_cpu = [0]
cross_cpu = [0]
delay = ["1 ms"]
loss = ["1 %"]
"""


@pytest.mark.parametrize("capacity", ['capacity = ["40 Mbit/s"]', 'capacity_steps = ["2 Mbit/s:1 s, 4 Mbit/s:1 s"]'])
def test_what_works_on_one_machine_is_not_refused_between_several(capacity: str) -> None:
    router = 'router = { platform = "host", address = "192.0.2.1", inward = "eth0", outward = "eth1" }'
    text = (
        'schema = "vtare.plan/1"\nname = "all"\nquestion = "?"\nblocks = 1\n'
        f'[[experiment]]\nname = "all"\ninstrument = "avb"\n[experiment.factors]\n{capacity}{EVERY_FACTOR}'
    )
    plan = parse_plan(text + MACHINES + router, source=Path("hosts.toml"))
    assert plan.hosts["router"].inward == "eth0"


def test_what_is_changed_on_this_machine_is_undone_when_the_lab_ends_or_says_so(tmp_path: Path) -> None:
    host = HostInstance(Path("vtare"))
    made = tmp_path / "made"

    def remove_at_end(name: str) -> None:
        (tmp_path / name).touch()
        host.undo_with([("rm", str(tmp_path / name))])

    remove_at_end("first")
    remove_at_end("made")
    assert made.exists()
    host.undo()
    host.undo()
    assert not made.exists()
    # What was to be undone before was replaced.
    assert (tmp_path / "first").exists()


def test_an_answer_that_is_not_whole_fails_the_run_and_does_not_skip_it() -> None:
    class Mute:
        name = "router"

        def run(self, words: Sequence[str]) -> str:
            return ""

    with pytest.raises(PlatformFailed, match=r"router: `ip -j route get 10.0.0.2` answered '', not a list"):
        device_towards("10.0.0.2", cast("Server", Mute()))
