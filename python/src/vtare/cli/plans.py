"""The command `plan`: a plan's design, the time it will take, and the runs that it needs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vtare.cli.options import STORE, Percentage, Word, binary_option, json_option, print_json, seed_option, stdout
from vtare.cli.tree import command
from vtare.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vtare.contract import Contract
    from vtare.design import Run
    from vtare.doctor import Lack
    from vtare.fleet.hosts import FleetHost
    from vtare.fleet.survey import HostReport
    from vtare.plan.model import Plan
    from vtare.terminal.stores import Expected, MeshExpected


@command("plan")
@click.argument(
    "plan",
    type=Word("plan"),
    required=False,
    metavar="PLAN",
    help="A plan file, or the name of a shipped plan; none: a list.",
)
@seed_option
@binary_option
@click.option("--power", is_flag=True, help="State how many runs a cell needs; PLAN may be the store of a pilot.")
@click.option("--pilot", type=STORE, metavar="STORE", help="With --power: a store to take spreads from.")
@click.option(
    "--spread",
    type=Percentage(0.0, 10000.0),
    metavar="PERCENT",
    help="With --power: standard deviation of run medians, no pilot.",
)
@click.option(
    "--shift",
    type=Percentage(0.0, 10000.0),
    metavar="PERCENT",
    help="With --power: the difference to find (default 10).",
)
@click.option(
    "--chance",
    type=Percentage(5.0, 100.0),
    metavar="PERCENT",
    help="With --power: the probability of finding it (default 80).",
)
@click.option(
    "--missing",
    is_flag=True,
    help="Look for what its runs lack here, or on --on HOSTS; QEMU may boot a guest once, to try KVM.",
)
@click.option(
    "--schema", is_flag=True, help="Print the JSON Schema of plans, by which editors complete and check them."
)
@click.option(
    "--on",
    type=Word("fleet"),
    metavar="FLEET",
    help="Check it for a file of hosts or simulated:HOSTS; a mesh needs one.",
)
@json_option
def plan(
    plan: str | None,
    seed: int | None,
    binary: Path | None,
    power: bool,
    pilot: Path | None,
    spread: float | None,
    shift: float | None,
    chance: float | None,
    missing: bool,
    schema: bool,
    on: str | None,
    as_json: bool,
) -> None:
    """Check a plan and show its design and the time it will take, or the runs it needs. Measures nothing.

    Without a plan the shipped ones are listed.
    """
    of_power = {"--pilot": pilot, "--spread": spread, "--shift": shift, "--chance": chance}
    given = [name for name, value in of_power.items() if value is not None]
    if schema:
        _print_schema(binary, alone=plan is None and seed is None and not power and not given and not missing)
        return
    if plan is None and (power or given or as_json or missing):
        raise BadInput("found no plan, expected one: `vtare plan` lists those that are shipped")
    if plan is None or (plan == "list" and not Path(plan).exists()):
        from vtare.plan.files import question_of, shipped_plans

        for name, path in shipped_plans().items():
            stdout().print(f"{name}: {question_of(path)}")
        return
    if power:
        _show_power(plan, pilot, spread, shift or 10.0, chance or 80.0, as_json=as_json)
        return
    if given:
        raise BadInput(f"found {' and '.join(given)} without --power, to which they belong: add it, or leave them out")
    from vtare.design import make_design
    from vtare.plan.files import find_plan, load_plan
    from vtare.terminal.stores import show_lacking, show_plan

    checked = load_plan(find_plan(plan), contract=_contract_of(binary))
    fleet: tuple[FleetHost, ...] = ()
    if on is not None:
        checked, fleet = _on_fleet(checked, on, binary)
    shown_seed = seed if seed is not None else checked.seed
    runs = make_design(checked, 0 if shown_seed is None else shown_seed)
    expected = _expected(checked, runs)
    lacks, reports = None, None
    if missing and on is None:
        lacks = _lacking(checked, runs, binary)
    elif missing:
        lacks, reports = _lacking_on(checked, runs, str(on), fleet, binary)
    meshed = _meshed(checked, runs)
    if as_json:
        print_json(_plan_document(checked, shown_seed, expected, lacks, meshed, fleet, reports))
        return
    show_plan(stdout(), checked, runs, shown_seed, expected, meshed, fleet)
    if lacks is not None:
        show_lacking(stdout(), checked, lacks, reports)


def _on_fleet(plan: Plan, on: str, binary: Path | None) -> tuple[Plan, tuple[FleetHost, ...]]:
    """The plan with the pairs of a fleet's hosts, checked as `vtare run --on` does, and the hosts."""
    from vtare.fleet.named_fleet import fleet_hosts
    from vtare.fleet.needs import check_plan, with_pairs

    hosts = fleet_hosts(on)
    made = with_pairs(plan, hosts, _contract_of(binary))
    check_plan(made, hosts, on, made_there=on.startswith("simulated:"))
    return made, hosts


def _lacking_on(
    plan: Plan, runs: Sequence[Run], on: str, hosts: Sequence[FleetHost], binary: Path | None
) -> tuple[tuple[Lack, ...], tuple[HostReport, ...]]:
    """What the runs lack on the hosts of a fleet, each of which is asked; and what each reports."""
    from vtare.campaign.binary import find_binary
    from vtare.doctor import Lack
    from vtare.fleet.needs import without_hosts
    from vtare.fleet.survey import survey

    if on.startswith("simulated:"):
        raise BadInput(f"--missing: found --on {on}, but simulated hosts lack nothing; expected a file of hosts")
    reports = survey(hosts, find_binary(binary)).hosts
    silent = {one.host.name for one in reports if one.reason is not None}
    found = without_hosts(plan, runs, hosts, silent)
    lacks = (
        Lack(f"too few hosts answer: without {', '.join(names)}", len(some), some[0], None)
        for names, some in found.items()
    )
    return tuple(sorted(lacks, key=lambda lack: -lack.runs)), reports


def _meshed(plan: Plan, runs: Sequence[Run]) -> MeshExpected | None:
    """What a mesh takes: its rounds one after the other, each as long as its longest run; None where it is none."""
    from vtare.design import expected_run_s, groups_of
    from vtare.terminal.stores import MeshExpected

    if plan.mesh is None:
        return None
    longest: dict[int, float] = {}
    for run, number in zip(runs, groups_of(plan, runs), strict=True):
        if run.block == 1:
            longest[number] = max(longest.get(number, 0.0), expected_run_s(run, plan))
    hosts = len(plan.mesh.hosts)
    return MeshExpected(hosts, hosts * (hosts - 1) // 2, len(longest), plan.blocks * sum(longest.values()))


def _expected(plan: Plan, runs: Sequence[Run]) -> dict[str, Expected]:
    """What each experiment takes, and the control runs; those of a block are like those of any other."""
    from vtare.campaign.allowance import expected_byte
    from vtare.design import expected_run_s
    from vtare.terminal.stores import Expected

    found: dict[str, Expected] = {}
    for run in runs[: len(runs) // plan.blocks]:
        seconds, before = expected_run_s(run, plan), found.get(run.experiment, Expected(0, 0.0, 0))
        byte = expected_byte(run, seconds)
        found[run.experiment] = Expected(
            before.runs + plan.blocks, before.seconds + plan.blocks * seconds, before.byte + plan.blocks * byte
        )
    return found


def _lacking(plan: Plan, runs: Sequence[Run], binary: Path | None) -> tuple[Lack, ...]:
    from vtare.campaign.binary import find_binary
    from vtare.doctor import Ways, lacking

    return lacking(plan, runs, find_binary(binary), Ways())


def _contract_of(binary: Path | None) -> Contract:
    """The schema of a binary named by hand; else the packaged one: a plan can be checked without a binary."""
    from vtare.campaign.binary import binary_and_contract
    from vtare.contract import load_contract

    return load_contract() if binary is None else binary_and_contract(binary)[1]


def _print_schema(binary: Path | None, *, alone: bool) -> None:
    """Print the JSON Schema of plans."""
    from vtare.plan.schema import plan_schema

    if not alone:
        raise BadInput("--schema: found a plan or another option beside it, expected it alone, or with --binary")
    print_json(plan_schema(_contract_of(binary)))


def _show_power(
    plan: str, pilot: Path | None, spread: float | None, shift: float, chance: float, *, as_json: bool
) -> None:
    """State how many runs per cell find a shift, from a pilot store or a stated spread."""
    from vtare.campaign.store import read_store
    from vtare.plan.files import find_plan, load_plan
    from vtare.summary import power as planning
    from vtare.terminal.power import show_needs

    if Path(plan).is_dir():
        if pilot is not None:
            raise BadInput(f"{plan} is a store and --pilot names another; expected one pilot")
        pilot = Path(plan)
        checked, _, _ = read_store(pilot)
    else:
        checked = load_plan(find_plan(plan))
    if (pilot is None) == (spread is None):
        raise BadInput(
            "--power: found "
            + ("neither a pilot nor a spread" if pilot is None else "a pilot and a spread")
            + f", expected one: `vtare plan {plan} --power --pilot STORE`, or --spread PERCENT of run medians"
        )
    question = planning.PowerQuestion(shift, chance / 100.0, checked.analysis.alpha, checked.blocks)
    if spread is not None:
        needs = planning.needs_from_spread(checked, spread, question)
    else:
        needs = planning.needs_from_pilot(Path(str(pilot)), question)
    if as_json:
        print_json(planning.document(question, needs, plan=checked.name, pilot=pilot))
    else:
        show_needs(stdout(), question, needs)


def _plan_document(
    plan: Plan,
    seed: int | None,
    expected: Mapping[str, Expected],
    lacks: Sequence[Lack] | None,
    meshed: MeshExpected | None,
    fleet: Sequence[FleetHost],
    reports: Sequence[HostReport] | None,
) -> dict[str, Any]:
    reasons = {one.host.name: one.reason for one in reports or ()}
    return {
        "schema": "vtare.plan-check/1",
        "plan": plan.name,
        "question": plan.question,
        "seed": seed,
        "blocks": plan.blocks,
        "whole_plots": list(plan.whole_plots),
        "mesh": None
        if plan.mesh is None or meshed is None
        else {"hosts": list(plan.mesh.hosts), "pairs_at_a_time": plan.mesh.at_a_time, **meshed.counts()},
        "stop": None
        if plan.stop is None
        else {"precision_percent": plan.stop.precision_percent, "least_blocks": plan.stop.least_blocks},
        "runs": sum(of.runs for of in expected.values()),
        "expected_s": sum(of.seconds for of in expected.values()),
        "most_byte": sum(of.byte for of in expected.values()),
        "hosts": {role: asdict(host) for role, host in plan.hosts.items()},
        "fleet": [
            {
                "host": host.name,
                "roles": list(host.roles),
                "answers": None if reports is None else reasons[host.name] is None,
                "reason": reasons.get(host.name),
            }
            for host in fleet
        ],
        "experiments": [
            {
                "name": e.name,
                "instrument": e.instrument,
                "parameters": e.parameters,
                "factors": {f.name: [level.label for level in f.levels] for f in e.factors},
                "nested": {name: dict(of) for name, of in e.nested.items()},
                "exclude": [dict(levels) for levels in e.excluded],
                "cells": expected[e.name].runs // plan.blocks,
                "runs": expected[e.name].runs,
                "expected_s": expected[e.name].seconds,
                "most_byte": expected[e.name].byte,
            }
            for e in plan.experiments
        ],
        # Null where nobody has looked.
        "missing": None
        if lacks is None
        else [
            {"reason": lack.reason, "runs": lack.runs, "first": lack.first.run_id, "command": lack.command}
            for lack in lacks
        ],
    }
