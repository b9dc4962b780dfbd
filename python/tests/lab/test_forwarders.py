"""Guests that forward: planned without privileges, named so that nothing of others is touched; and plans for them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from vtare.campaign.children import RunFailed
from vtare.campaign.forwarding import ForwardingPlacement, ForwardingRun, guests_of
from vtare.design import Run
from vtare.errors import BadInput, PlatformFailed
from vtare.instruments import instrument
from vtare.instruments.model import PartRows
from vtare.plan.files import load_plan, parse_plan, shipped_plans
from vtare.plan.model import Plan
from vtare.platforms import openvswitch
from vtare.platforms.guest.qemu_command import GuestSpec, command, kernel_command_line
from vtare.platforms.network import NetworkError, Step
from vtare.platforms.owner import own_prefix
from vtare.platforms.protocol import Resources
from vtare.platforms.qemu import GuestAttachment, QemuPlatform
from vtare.stats import Known
from vtare.summary import throughput
from vtare.topology.forwarding import ForwardingTopology
from vtare.topology.forwarding_guests import MachineGuests, NamespaceGuests
from vtare.topology.guest_slots import MOST_GUESTS

OWNER = "vtare-123-a0"
PLAN = """
schema = "vtare.plan/1"
name = "guests"
question = "How much passes?"
blocks = 1

[[experiment]]
name = "spread"
instrument = "throughput"

[experiment.parameters]
PARAMETERS

[experiment.factors]
FACTORS
"""


def plan(factors: str, parameters: str = "cpu = 0") -> Plan:
    text = PLAN.replace("FACTORS", factors).replace("PARAMETERS", parameters)
    return parse_plan(text, source=Path("plan.toml"))


def row(factors: dict[str, str], parameters: dict[str, Any]) -> Run:
    return Run(0, 0, 0, "r", "spread", "throughput", None, factors, parameters)


def every_step(guests: int = 12) -> tuple[ForwardingTopology, list[Step]]:
    room = ForwardingTopology(OWNER, guests, switch="linux")
    return room, [*room.steps(), *(step for index in range(guests) for step in room.guest_steps(index))]


def namespaces_of(step: Step) -> list[str]:
    words = step.words
    if words[:2] == ("ip", "-n"):
        return [words[2]]
    if words[:3] == ("ip", "netns", "exec"):
        return [words[3]]
    if words[:3] == ("ip", "netns", "add"):
        return [words[3]]
    if words[:2] == ("bridge", "-n"):
        return [words[2]]
    return [words[i + 1] for i, word in enumerate(words) if word == "netns"]


def test_no_step_touches_the_network_of_the_machine() -> None:
    _, steps = every_step()
    for step in steps:
        places = namespaces_of(step)
        # Both ends of a pair are made inside namespaces.
        assert len(places) == (2 if step.words[:3] == ("ip", "link", "add") else 1), step
        assert all(place.startswith(f"{OWNER}-") for place in places), step


def test_every_guest_has_addresses_of_its_own_and_forwards_to_the_second_port() -> None:
    room, steps = every_step(MOST_GUESTS)
    flows = [flow.split("/") for flow in room.flows]
    assert len({mac for mac, _ in flows}) == len({ip for _, ip in flows}) == MOST_GUESTS
    hardware = [step.words[step.words.index("address") + 1] for step in steps if "address" in step.words]
    assert len(hardware) == len(set(hardware)) == 2 * MOST_GUESTS + 2
    assert {mac for mac, _ in flows} <= set(hardware)
    for guest, (_, address) in zip(room.guests, flows, strict=True):
        own = [step.words for step in steps if namespaces_of(step)[0] == guest]
        (neighbour,) = [words for words in own if "neigh" in words]
        assert (neighbour[5], neighbour[-4:]) == (address, ("dev", "out0", "nud", "permanent"))
        assert any("net.ipv4.ip_forward=1" in words for words in own)


def test_the_switch_knows_beforehand_who_is_behind_each_port() -> None:
    room, steps = every_step()
    known = {step.words[5]: step.words[7] for step in steps if step.words[:1] == ("bridge",) and step.words[3] == "fdb"}
    isolated = {step.words[6] for step in steps if step.words[-2:] == ("isolated", "on")}
    interfaces = [interface for slot in room.slots for interface in slot.interfaces]
    assert {mac: port for mac, port in known.items() if not mac.startswith("02:76:c6:00")} == {
        interface.mac: interface.port for interface in interfaces
    }
    assert len(known) == 2 * 12 + 2
    # No guest reaches another, and all reach the tester.
    assert isolated == {interface.port for interface in interfaces}
    # A frame goes to the guest whose address it bears.
    assert [flow.split("/")[0] for flow in room.flows] == [slot.interfaces[0].mac for slot in room.slots]


def test_device_names_fit_and_are_those_of_one_process() -> None:
    _, steps = every_step(MOST_GUESTS)
    made = [step.words[3] for step in steps if step.words[:3] == ("ip", "link", "add")]
    peers = [step.words[step.words.index("name") + 1] for step in steps if "peer" in step.words]
    assert all(len(name) <= 15 for name in made + peers)
    assert len(set(peers)) == len(peers)


def test_interfaces_carry_the_largest_frame_and_no_more_than_usual_for_small_ones() -> None:
    assert [ForwardingTopology(OWNER, 1, switch="linux", frame_byte=size).mtu_byte for size in (64, 1518, 9000)] == [
        1500,
        1500,
        8982,
    ]


def test_open_vswitch_works_in_its_daemons_namespace_under_names_of_its_own() -> None:
    room = ForwardingTopology(OWNER, 2, switch="ovs")
    words = [step.words for step in [*room.steps(), *room.guest_steps(0), *room.guest_steps(1)]]
    assert ("ip", "netns", "attach", room.bridge_namespace, str(os.getpid())) in words
    assert not any(step[:4] == ("ip", "netns", "add", room.bridge_namespace) for step in words)
    bridges = {step[3] for step in words if step[:1] == ("ovs-vsctl",) and step[2] == "add-br"}
    ports = [(step[3], step[4]) for step in words if step[:1] == ("ovs-vsctl",) and step[2] == "add-port"]
    assert len(bridges) == 2
    assert {bridge for bridge, _ in ports} == bridges
    assert len(ports) == len(set(ports)) == 2 + 2 * 2


@pytest.mark.parametrize("guests", [0, MOST_GUESTS + 1])
def test_a_number_of_guests_without_addresses_is_refused(guests: int) -> None:
    with pytest.raises(NetworkError, match=f"guests is {guests}: use 1 to {MOST_GUESTS}"):
        ForwardingTopology(OWNER, guests, switch="linux")


def test_only_platforms_that_can_forward_have_guests() -> None:
    for name in ("netns", "docker", "lxc", "qemu"):
        found = guests_of(name, Path("vtare"), "vtare-1-0")
        assert found is not None
        assert found.name == name
    assert guests_of("ssh", Path("vtare"), "vtare-1-0") is None
    named = guests_of("old", Path("vtare"), "vtare-1-0", settings={"kind": "qemu", "machine": "pc"})
    assert isinstance(named, MachineGuests)
    with pytest.raises(BadInput, match="unknown setting 'colour'"):
        guests_of("qemu", Path("vtare"), "vtare-1-0", settings={"colour": "red"})
    # What a kind cannot be given is a reason to skip the cell.
    reason = guests_of("netns", Path("vtare"), "vtare-1-0", resources=Resources(vcpus=2))
    assert reason is not None
    assert "number of CPUs" in str(reason.missing())


def test_a_machine_between_the_bridges_gets_a_card_at_either_and_forwards(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[GuestAttachment] = []
    monkeypatch.setattr(QemuPlatform, "boot", lambda _, stands, __: asked.extend(stands) or [])
    kind = MachineGuests(QemuPlatform(Path("vtare"), OWNER), Resources(nic="e1000"))
    room = ForwardingTopology(OWNER, 2, switch="linux", kind=kind, frame_byte=9000)
    kind.start(room.slots, room.bridge_namespace, room.mtu_byte)
    assert [stand.name for stand in asked] == list(room.guests)
    assert all(stand.forwards and stand.namespace == room.bridge_namespace and stand.nic == "e1000" for stand in asked)
    # Its taps are QEMU's own: all that is left to do is in the switch's namespace, and is done to them.
    taps = {card.port for stand in asked for card in stand.cards}
    steps = [step for index in range(2) for step in room.guest_steps(index)]
    assert {place for step in steps for place in namespaces_of(step)} == {room.bridge_namespace}
    assert {step.words[5] for step in steps if step.words[-2:] in {("master", "brin"), ("master", "brout")}} == taps
    line = kernel_command_line(
        GuestSpec("g", Path("/d"), Path("/k"), Path("/i"), "tcg", cards=asked[1].cards, forwards=True)
    )
    assert line.split()[-12:-3] == [
        "vtare.port=org.vtare.agent",
        "vtare.forward=1",
        "vtare.device=02:76:c6:01:00:02",
        "vtare.address=198.18.1.2/16",
        "vtare.mtu=8982",
        "vtare.device=02:76:c6:02:00:02",
        "vtare.address=198.19.1.2/16",
        "vtare.mtu=8982",
        "vtare.neighbours=198.19.0.2@02:76:c6:00:00:02",
    ]
    words = command(GuestSpec("g", Path("/d"), Path("/k"), Path("/i"), "tcg", cards=asked[0].cards, namespace="ns"))
    assert words[:4] == ["ip", "netns", "exec", "ns"]
    devices = [words[at + 1] for at, word in enumerate(words) if word == "-device"]
    assert [word for word in devices if word.startswith("e1000,")] == [
        "e1000,netdev=net0,mac=02:76:c6:01:00:01,romfile=",
        "e1000,netdev=net1,mac=02:76:c6:02:00:01,romfile=",
    ]


class Died(NamespaceGuests):
    """Guests of which one does not answer."""

    asked = 0

    def check(self) -> None:
        self.asked += 1
        raise PlatformFailed("guest d0: no answer within 60 s")


def test_a_guest_that_hangs_is_no_result_and_is_asked_once(tmp_path: Path) -> None:
    kind = Died()
    made = ForwardingRun(Path("vtare"), ForwardingTopology(OWNER, 1, switch="linux", kind=kind), ForwardingPlacement())
    with pytest.raises(RunFailed, match="guest d0: no answer"):
        made.check(tmp_path)
    assert (made.cause(), kind.asked) == ("guest d0: no answer within 60 s", 1)


def test_bridges_of_open_vswitch_are_found_by_the_mark_of_a_process_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = {
        "headings": ["name", "external_ids"],
        "data": [
            ["brin0ab", ["map", [["vtare-owner", "vtare-1-ffffffffff"]]]],
            ["brout0ab", ["map", [["vtare-owner", own_prefix()]]]],
            ["br-int", ["map", []]],
            ["br-ex", ["map", [["vtare-owner", "else"]]]],
        ],
    }
    tool = tmp_path / "ovs-vsctl"
    tool.write_text(f"#!/bin/sh\necho \"$@\" >>{tmp_path}/asked\necho '{json.dumps(listed)}'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    gone, ours = openvswitch.leftovers()
    assert (gone.kind, gone.name, gone.kept_because) == ("bridge", "brin0ab", None)
    assert ours.name == "brout0ab"
    assert f"process {os.getpid()}" in str(ours.kept_because)
    gone.remove()
    assert (tmp_path / "asked").read_text().splitlines()[-1] == "--timeout=5 --if-exists del-br brin0ab"
    # Its daemon does not answer: then there are none.
    tool.write_text("#!/bin/sh\nexit 1\n")
    assert openvswitch.leftovers() == ()


@pytest.mark.parametrize("name", ["batalla", "batalla-quick"])
def test_shipped_plan_is_good_and_runs_through_guests_of_the_lab(name: str) -> None:
    experiments = load_plan(shipped_plans()[name]).experiments
    assert experiments
    assert all(experiment.through_guests and not experiment.two_hosts for experiment in experiments)


def test_a_runs_room_follows_from_its_factors_and_its_tester_has_a_cpu_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    found = plan('guests = [4, 8]\nframe_byte = ["64 B", "9000 B"]\nguest_cpu = [1]\nswitch = ["linux"]')
    experiment = found.experiment("spread")
    labels = {
        "guests": "8",
        "guest_cpu": "1",
        "switch": "linux",
        "frame_byte": experiment.factor("frame_byte").levels[1].label,
    }
    run = row(labels, {"frame_byte": [9000], "cpu": 0})
    assert ForwardingPlacement.of(run, experiment) == ForwardingPlacement("netns", 8, "linux", 9000, 1, 0)
    assert ForwardingPlacement.of(row({}, {"cpu": 2}), experiment) == ForwardingPlacement("netns", 12, None, 1518, 1, 2)
    assert ForwardingPlacement.of(row({}, {}), experiment).cpu is None


@pytest.mark.parametrize(
    ("factors", "parameters", "message"),
    [
        ('platform = ["host"]', "cpu = 0", "'host' cannot forward"),
        ("guests = [4, 8]\nloaded = [1, 6]", "cpu = 0", "factors.loaded is 6: use 4 or less"),
        ("frame_byte = ['64 B']", "loaded = [13]", "parameters.loaded is 13: use 12 or less"),
        ("guests = [0]", "cpu = 0", "use an integer from 1 to 250"),
        ('switch = ["cisco"]', "cpu = 0", "is 'cisco': use one of: linux, ovs"),
        ('frame_byte = ["64 B"]', 'tx_port = "a"', "name all of tx_port, rx_port and flow, or none"),
        (
            "guests = [2]",
            'tx_port = "a"\nrx_port = "b"\nflow = ["02:00:00:00:00:01"]',
            "needs the guests that the lab sets up",
        ),
        ('capture = ["on"]', "cpu = 0", "unknown factor"),
        ("background = [2]", "cpu = 0", "have no others beside them yet"),
    ],
)
def test_what_guests_cannot_be_is_refused(factors: str, parameters: str, message: str) -> None:
    with pytest.raises(BadInput) as found:
        plan(factors, parameters)
    assert message in str(found.value)


def test_ports_of_ones_own_need_no_guests_of_the_lab() -> None:
    found = plan('frame_byte = ["64 B"]', 'tx_port = "a"\nrx_port = "b"\nflow = ["02:00:00:00:00:01"]')
    assert not found.experiment("spread").through_guests


def test_figures_of_a_cell_that_is_not_there_are_missing_and_never_zero() -> None:
    assert set(throughput.figures(PartRows(pl.DataFrame(), {}, Path(), {}, pl.DataFrame())).values()) == {None}
    cell = {
        "jain": 0.51,
        "censored": "generator",
        "searches": 5,
        "back_to_back": {"frames": {"median": 800.0}, "buffer_ns": 2e6, "buffer_frames": None},
        "soak": {"loss_ratio": 1e-6},
        "recovery": {"recovery_ns": {"median": 12e6}},
        "latency_ns": {"median": 10.0, "p99": None},
        "latencies": [{"load_share": 0.5, "latency_total_ns": 1.0}, {"load_share": 1.0, "latency_total_ns": 2.0}],
    }
    figures = throughput.figures(PartRows(pl.DataFrame(), cell, Path(), {}, pl.DataFrame()))
    assert (figures["jain"], figures["censored_runs"], figures["latency_total_ns"]) == (0.51, 1, 2.0)
    assert (figures["latency_ns"], figures["latency_p99_ns"], figures["tagged_ns"]) == (10.0, None, None)
    assert (figures["burst_frames"], figures["buffer_ns"], figures["buffer_frames"]) == (Known(800.0), Known(2e6), None)
    assert (figures["soak_loss_fraction"], figures["recovery_ns"]) == (1e-6, Known(12e6))
    assert set(figures) == {one.name for one in instrument("throughput").metrics} - {"throughput_packet_per_s"}
