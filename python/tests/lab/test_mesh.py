"""Meshes: every pair of hosts in rounds in which no host is used twice, in the design and in what a fleet made."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vtare.campaign.journal import HostEvent, Journal
from vtare.campaign.stop import StopRequest
from vtare.campaign.store import Store
from vtare.design import Run, groups_of, make_design
from vtare.errors import BadInput
from vtare.fleet.campaign import FleetCampaign
from vtare.fleet.hosts import FleetHost, simulated_hosts
from vtare.fleet.needs import check_plan, request_of, with_pairs
from vtare.fleet.simulated import SimulatedFiles, SimulatedMachines
from vtare.plan.files import parse_plan
from vtare.plan.mesh import PAIR, hosts_of_pair, rounds_of_all
from vtare.plan.model import Plan

HEAD = """
schema = "vtare.plan/1"
name = "mesh"
question = "How far are the hosts from each other?"
mesh = true
blocks = {blocks}
seed = 1
{more}
"""
RTT = """
[[experiment]]
name = "rtt"
instrument = "rtt"
parameters = { seconds = "1 s", rate_packet_per_s = "1 kpacket/s" }
factors = { capture = ["off", "on"] }
"""
AVB = """
[[experiment]]
name = "avb"
instrument = "avb"
parameters = { method = "abacus" }
"""


def plan_of(hosts: int, text: str = RTT + AVB, *, blocks: int = 2, more: str = "") -> Plan:
    """The plan of a mesh of this many simulated hosts."""
    plan = parse_plan(HEAD.format(blocks=blocks, more=more) + text, source=Path("mesh.toml"))
    return with_pairs(plan, simulated_hosts(hosts))


def rounds(plan: Plan, runs: Sequence[Run]) -> list[list[Run]]:
    """The runs of a design by round."""
    found: dict[int, list[Run]] = defaultdict(list)
    for run, number in zip(runs, groups_of(plan, runs), strict=True):
        found[number].append(run)
    return list(found.values())


def hosts_in(runs: Sequence[Run]) -> list[str]:
    return [host for run in runs if PAIR in run.factors for host in hosts_of_pair(run.factors[PAIR])]


@given(st.integers(2, 33))
def test_all_players_meet_once_and_nobody_plays_twice_in_a_round(number: int) -> None:
    found = rounds_of_all(number)
    assert len(found) == number - 1 + number % 2
    assert all(len({one for pair in pairs for one in pair}) == 2 * len(pairs) == number - number % 2 for pairs in found)
    met = Counter(frozenset(pair) for pairs in found for pair in pairs)
    assert set(met.values()) == {1}
    assert len(met) == number * (number - 1) // 2


@settings(max_examples=8, deadline=None)
@given(st.integers(2, 9), st.integers(0, 2**31 - 1), st.sampled_from([None, 1, 2, 3]))
def test_each_block_has_every_pair_once_in_rounds_without_a_host_twice(
    hosts: int, seed: int, at_a_time: int | None
) -> None:
    more = "control = true" if at_a_time is None else f"control = true\npairs_at_a_time = {at_a_time}"
    plan = plan_of(hosts, more=more)
    runs = make_design(plan, seed)
    assert runs == make_design(plan, seed)
    for made in rounds(plan, runs):
        assert len(hosts_in(made)) == len(set(hosts_in(made)))
        assert len({(run.block, run.experiment, run.factors.get("capture")) for run in made}) == 1
        assert at_a_time is None or len(made) <= at_a_time
    times = Counter((r.block, r.experiment, r.factors.get("capture"), r.factors[PAIR]) for r in runs if r.factors)
    assert set(times.values()) == {1}
    both_ways, pairs = hosts * (hosts - 1), hosts * (hosts - 1) // 2
    assert times.total() == 2 * (2 * pairs + both_ways)
    if at_a_time is None:
        each = hosts - 1 + hosts % 2
        assert len(rounds(plan, runs)) == 2 * (2 * each + 2 * each + 3)


def test_seed_and_block_decide_which_pairs_meet_in_a_round() -> None:
    plan = plan_of(8, RTT)
    first, other = (make_design(plan, seed) for seed in (1, 2))
    assert first != other

    def sets(runs: Sequence[Run], block: int) -> set[frozenset[str]]:
        return {frozenset(r.factors[PAIR] for r in made) for made in rounds(plan, runs) if made[0].block == block}

    assert sets(first, 1) != sets(first, 2)


def run_on(plan: Plan, hosts: Sequence[FleetHost], path: Path, faults: int) -> tuple[Store, Sequence[HostEvent]]:
    """Run a plan on simulated hosts by the code of a real campaign; the store and its log."""
    files, names = SimulatedFiles(), [host.name for host in hosts]
    with Store.create(path, plan, 1, files=files) as store:
        machines = SimulatedMachines(names, lambda _: 2.0, seed=1, faults=faults, runs=len(store.runs), files=files)
        request = lambda run: request_of(run, plan, hosts, 60.0)  # noqa: E731
        FleetCampaign(store, names, request, machines, Path("/"), StopRequest()).run()
    with Journal(path / "journal.sqlite", read_only=True) as journal:
        return store, journal.host_events()


@pytest.mark.parametrize("hosts", [5, 8])
def test_the_log_of_a_fleet_has_each_pair_once_in_its_round_and_no_host_in_two(hosts: int, tmp_path: Path) -> None:
    fleet = simulated_hosts(hosts)
    plan = plan_of(hosts)
    store, events = run_on(plan, fleet, tmp_path / "store", 0)
    number = dict(zip((run.run_id for run in store.runs), groups_of(plan, store.runs), strict=True))
    pair = {run.run_id: {*hosts_of_pair(run.factors[PAIR])} for run in store.runs}
    holds: dict[str, str] = {}
    now, used = 0, set[str]()
    taken: dict[str, set[str]] = defaultdict(set)
    for event in events:
        run_id = str(event.run_id)
        if event.kind == "taken":
            assert event.host not in holds
            if number[run_id] != now:
                # A round begins when the one before has ended.
                assert (number[run_id], holds) == (now + 1, {})
                now, used = now + 1, set()
            assert event.host not in used
            used.add(event.host)
            holds[event.host] = run_id
            taken[run_id].add(event.host)
        elif event.kind == "released":
            assert holds.pop(event.host) == run_id
    assert taken == pair
    assert now == max(number.values())
    if hosts % 2 == 0:
        # Every round had every host.
        assert all(len(made) == hosts // 2 for made in rounds(plan, store.runs))


def test_hosts_of_a_mesh_are_those_of_the_fleet_that_can_be_both_ends() -> None:
    plan = parse_plan(HEAD.format(blocks=1, more="") + RTT, source=Path("mesh.toml"))
    with pytest.raises(BadInput, match="add --on HOSTS"):
        make_design(plan, 1)
    fleet = (*simulated_hosts(3), FleetHost("tap", ("tester",)), FleetHost("end", ("responder",)))
    made = with_pairs(plan, fleet)
    assert 'mesh = ["h1", "h2", "h3"]\n' in made.text
    assert [level.label for level in made.experiments[0].factor(PAIR).levels] == ["h1 to h2", "h1 to h3", "h2 to h3"]
    check_plan(made, fleet, "hosts.toml", made_there=True)
    with pytest.raises(BadInput, match="mesh: 'h3' is no host of hosts"):
        check_plan(made, fleet[:2], "hosts.toml", made_there=True)
    with pytest.raises(BadInput, match="whose workers make each run on one host"):
        check_plan(made, (), "dask://a:1", made_there=True, alone=True)
    (needs,) = {request_of(run, made, fleet, 1.0).needs for run in make_design(made, 1)
                if run.factors[PAIR] == "h1 to h3"}  # fmt: skip
    assert needs == (("sender", frozenset({"h1"})), ("responder", frozenset({"h3"})))


@pytest.mark.parametrize(
    ("text", "more", "message"),
    [
        (RTT, 'mesh = "all"', "true \\(all hosts of the fleet\\) or a list of their names"),
        (RTT, 'mesh = ["a"]', "list 2 or more"),
        (RTT, 'mesh = ["a", "b", "a"]', "host 'a' is listed twice"),
        (RTT, 'mesh = ["a", "b c"]', "is 'b c': use a name from the file of hosts"),
        (RTT, "pairs_at_a_time = 2", "means nothing without 'mesh'"),
        (RTT, 'mesh = true\nwhole_plots = ["capture"]', "does not go with 'mesh'"),
        (RTT, "mesh = true\npairs_at_a_time = 0", "use an integer from 1"),
        (AVB + 'factors = { capacity = ["10 Mbit/s"] }', "mesh = true", "a mesh has the one that is there"),
        (RTT.replace('{ capture = ["off", "on"] }', '{ platform = ["host"] }'), "mesh = true", "but a mesh has hosts"),
        ('[[experiment]]\ninstrument = "sleep"', "mesh = true", "'sleep' has no far end"),
    ],
)
def test_a_mesh_that_cannot_be_is_refused(text: str, more: str, message: str) -> None:
    head = HEAD.format(blocks=1, more=more).replace("mesh = true\nblocks", "blocks")
    with pytest.raises(BadInput, match=message):
        parse_plan(head + text, source=Path("mesh.toml"))


def test_the_runs_of_a_whole_plot_are_made_before_those_of_the_next() -> None:
    text = HEAD.format(blocks=2, more='whole_plots = ["method"]').replace("mesh = true\n", "")
    text += (
        '[[experiment]]\ninstrument = "sleep"\nfactors = { method = ["usleep", "spin"], target_ns = ["1 ms", "2 ms"] }'
    )
    plan = parse_plan(text, source=Path("plots.toml"))
    runs = make_design(plan, 1)
    assert [{run.factors["method"] for run in made} for made in rounds(plan, runs)] == [
        {runs[k].factors["method"]} for k in (0, 2, 4, 6)
    ]
    assert [len(made) for made in rounds(plan, runs)] == [2, 2, 2, 2]
    whole = replace(plan, whole_plots=())
    assert groups_of(whole, runs) == [0, 0, 0, 0, 1, 1, 1, 1]
