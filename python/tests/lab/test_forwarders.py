"""Guests that forward: planned without privileges, named so that nothing of others is touched; and plans for them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from vtare.campaign.guests import Place, guests_of
from vtare.design import Run
from vtare.errors import BadInput
from vtare.forwarders import MOST_GUESTS, ForwardingRoom
from vtare.plan import Plan, load_plan, parse_plan, shipped_plans
from vtare.platforms.network import NetworkError, Step
from vtare.summary import throughput

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


def every_step(guests: int = 12) -> tuple[ForwardingRoom, list[Step]]:
    room = ForwardingRoom(OWNER, guests, switch="linux")
    return room, [*room.steps(), *(step for index in range(guests) for step in room.guest_steps(index))]


def namespaces_of(step: Step) -> list[str]:
    words = step.words
    if words[:2] == ("ip", "-n"):
        return [words[2]]
    if words[:3] == ("ip", "netns", "exec"):
        return [words[3]]
    if words[:3] == ("ip", "netns", "add"):
        return [words[3]]
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


def test_device_names_fit_and_are_those_of_one_process() -> None:
    _, steps = every_step(MOST_GUESTS)
    made = [step.words[3] for step in steps if step.words[:3] == ("ip", "link", "add")]
    peers = [step.words[step.words.index("name") + 1] for step in steps if "peer" in step.words]
    assert all(len(name) <= 15 for name in made + peers)
    assert len(set(peers)) == len(peers)


def test_interfaces_carry_the_largest_frame_and_no_more_than_usual_for_small_ones() -> None:
    assert [ForwardingRoom(OWNER, 1, switch="linux", frame_byte=size).mtu_byte for size in (64, 1518, 9000)] == [
        1500,
        1500,
        8982,
    ]


def test_open_vswitch_works_in_its_daemons_namespace_under_names_of_its_own() -> None:
    room = ForwardingRoom(OWNER, 2, switch="ovs")
    words = [step.words for step in [*room.steps(), *room.guest_steps(0), *room.guest_steps(1)]]
    assert ("ip", "netns", "attach", room.fabric, str(os.getpid())) in words
    assert not any(step[:4] == ("ip", "netns", "add", room.fabric) for step in words)
    bridges = {step[3] for step in words if step[:1] == ("ovs-vsctl",) and step[2] == "add-br"}
    ports = [(step[3], step[4]) for step in words if step[:1] == ("ovs-vsctl",) and step[2] == "add-port"]
    assert len(bridges) == 2
    assert {bridge for bridge, _ in ports} == bridges
    assert len(ports) == len(set(ports)) == 2 + 2 * 2


@pytest.mark.parametrize("guests", [0, MOST_GUESTS + 1])
def test_a_number_of_guests_without_addresses_is_refused(guests: int) -> None:
    with pytest.raises(NetworkError, match=f"found {guests}, wanted from 1 to {MOST_GUESTS}"):
        ForwardingRoom(OWNER, guests, switch="linux")


def test_only_platforms_that_can_forward_have_guests() -> None:
    assert guests_of("netns", Path("vtare"), "vtare-1-0") is not None
    assert guests_of("qemu", Path("vtare"), "vtare-1-0") is None


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
    assert Place.of(run, experiment) == Place("netns", 8, "linux", 9000, 1)
    assert Place.of(row({}, {"cpu": 2}), experiment) == Place("netns", 12, None, 1518, 1)
    assert Place.of(row({}, {}), experiment).cpu is None


@pytest.mark.parametrize(
    ("factors", "parameters", "message"),
    [
        ('platform = ["host"]', "cpu = 0", "found 'host', which cannot forward"),
        ("guests = [4, 8]\nloaded = [1, 6]", "cpu = 0", "factors.loaded: found 6, wanted 4 at most"),
        ("frame_byte = ['64 B']", "loaded = [13]", "parameters.loaded: found 13, wanted 12 at most"),
        ("guests = [0]", "cpu = 0", "wanted a whole number from 1 to 250"),
        ('switch = ["cisco"]', "cpu = 0", "wanted one of: linux, ovs"),
        ('frame_byte = ["64 B"]', 'tx_port = "a"', "name all of tx_port, rx_port and flow, or none"),
        (
            "guests = [2]",
            'tx_port = "a"\nrx_port = "b"\nflow = ["02:00:00:00:00:01"]',
            "needs the guests that the lab sets up",
        ),
        ('capture = ["on"]', "cpu = 0", "unknown factor"),
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
    assert set(throughput.figures({}).values()) == {None}
    cell = {
        "jain": 0.51,
        "censored": "generator",
        "searches": 5,
        "latency_ns": {"median": 10.0, "p99": None},
        "latencies": [{"load_share": 0.5, "latency_total_ns": 1.0}, {"load_share": 1.0, "latency_total_ns": 2.0}],
    }
    figures = throughput.figures(cell)
    assert (figures["jain"], figures["censored_runs"], figures["latency_total_ns"]) == (0.51, 1, 2.0)
    assert (figures["latency_ns"], figures["latency_p99_ns"], figures["tagged_ns"]) == (10.0, None, None)
    assert set(figures) == set(throughput.COLUMNS)
