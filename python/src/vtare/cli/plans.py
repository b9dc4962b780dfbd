"""The command `plan`: a plan's design, the time it will take, and the runs that it needs."""

from __future__ import annotations

import itertools
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from vtare.cli.options import (
    STORE,
    Percentage,
    Word,
    hidden_binary_option,
    json_option,
    plan_argument,
    print_json,
    seed_option,
    stdout,
)
from vtare.cli.tree import SETTINGS, LabGroup, command, tell_new_words
from vtare.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vtare.contract import Contract
    from vtare.design import Run
    from vtare.doctor.plans import Lack
    from vtare.fleet.hosts import FleetHost
    from vtare.fleet.survey import HostReport
    from vtare.plan.model import Plan
    from vtare.records import campaigns as records
    from vtare.records.answer import Answered
    from vtare.terminal.stores import Expected, MeshExpected


#: Options that are subcommands now, and the words with which nothing but the list can be meant.
_OLD: Final = {"--power": "power", "--missing": "check", "--schema": "schema"}
_OF_LIST: Final = {"--json", "-q", "--quiet"}

_fleet_option = click.option(
    "--on",
    type=Word("fleet"),
    metavar="FLEET",
    help="Check it for a file of hosts or simulated:HOSTS; a mesh needs one.",
)


class _PlanGroup(LabGroup):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """`plan PLAN` is `plan show PLAN`, and `plan` alone the list; options of old are subcommands."""
        first = next((word for word in args if word not in ("-q", "--quiet")), None)
        if first in self.commands or first in SETTINGS["help_option_names"]:
            return super().parse_args(ctx, args)
        old = next((word for word in _OLD if word in args), None)
        if old is not None:
            tell_new_words(f"plan {old}", f"plan {_OLD[old]}", args)
            args = [_OLD[old], *(word for word in args if word != old)]
        elif set(args) <= _OF_LIST:
            args = ["list", *args]
        else:
            args = ["show", *args]
        return super().parse_args(ctx, args)


@command("plan", cls=_PlanGroup)
def plan() -> None:
    """Carry out `plan`.

    `vtare plan PLAN` is `vtare plan show PLAN`. Nothing is measured.
    """


def _plan_command(name: str) -> Callable[[Callable[..., None]], click.Command]:
    def make(function: Callable[..., None]) -> click.Command:
        made = command(f"plan {name}")(function)
        assert isinstance(plan, click.Group)
        plan.add_command(made)
        return made

    return make


@_plan_command("list")
@json_option
def list_plans(as_json: bool) -> None:
    """List the shipped plans and the question of each."""
    from vtare.plan.files import question_of, shipped_plans

    questions = {name: question_of(path) for name, path in shipped_plans().items()}
    if as_json:
        rows: list[records.ShippedPlan] = [{"name": name, "question": text} for name, text in questions.items()]
        document: records.Plans = {"schema": "vtare.plans/1", "plans": rows}
        print_json(document)
        return
    for name, question in questions.items():
        stdout().print(f"{name}: {question}")


@_plan_command("show")
@plan_argument
@seed_option
@_fleet_option
@hidden_binary_option
@json_option
def show_design(plan: str, seed: int | None, on: str | None, binary: Path | None, as_json: bool) -> None:
    """Show a plan's design and the time it will take."""
    _show(plan, seed, on, binary, as_json=as_json, missing=False)


@_plan_command("check")
@plan_argument
@seed_option
@_fleet_option
@hidden_binary_option
@json_option
def check_plan(plan: str, seed: int | None, on: str | None, binary: Path | None, as_json: bool) -> None:
    """Show what the runs of a plan lack on this machine, or on a fleet.

    QEMU may boot a guest once, to try KVM.
    """
    _show(plan, seed, on, binary, as_json=as_json, missing=True)


def _show(plan: str, seed: int | None, on: str | None, binary: Path | None, *, as_json: bool, missing: bool) -> None:
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


@_plan_command("schema")
@hidden_binary_option
def print_schema(binary: Path | None) -> None:
    """Print the JSON Schema of plans, by which editors complete and check them."""
    from vtare.plan.schema import plan_schema

    print_json(plan_schema(_contract_of(binary)))


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
    from vtare.doctor.plans import Lack
    from vtare.fleet.needs import without_hosts
    from vtare.fleet.survey import survey

    if on.startswith("simulated:"):
        raise BadInput(f"--on {on}: simulated hosts lack nothing. Give a file of hosts")
    reports = survey(hosts, find_binary(binary)).hosts
    silent = {one.host.name for one in reports if one.reason is not None}
    by_hosts = without_hosts(plan, runs, hosts, silent)
    lacks = (
        Lack(f"too few hosts answer: without {', '.join(names)}", len(some), some[0], None)
        for names, some in by_hosts.items()
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

    by_experiment: dict[str, Expected] = {}
    for run in itertools.takewhile(lambda run: run.block == 1, runs):
        seconds, before = expected_run_s(run, plan), by_experiment.get(run.experiment, Expected(0, 0.0, 0))
        byte = expected_byte(run, seconds)
        by_experiment[run.experiment] = Expected(
            before.runs + plan.blocks, before.seconds + plan.blocks * seconds, before.byte + plan.blocks * byte
        )
    return by_experiment


def _lacking(plan: Plan, runs: Sequence[Run], binary: Path | None) -> tuple[Lack, ...]:
    from vtare.campaign.binary import find_binary
    from vtare.doctor.plans import lacking
    from vtare.doctor.ways import Ways

    return lacking(plan, runs, find_binary(binary), Ways())


def _contract_of(binary: Path | None) -> Contract:
    """The schema of a binary named by hand; else the packaged one: a plan can be checked without a binary."""
    from vtare.campaign.binary import binary_and_contract
    from vtare.contract import load_contract

    return load_contract() if binary is None else binary_and_contract(binary)[1]


@_plan_command("power")
@plan_argument
@click.option("--pilot", type=STORE, metavar="STORE", help="A store to take spreads from; PLAN may be that store.")
@click.option(
    "--spread", type=Percentage(0.0, 1e4), metavar="PERCENT", help="Standard deviation of run medians, without a pilot."
)
@click.option("--shift", type=Percentage(0.0, 1e4), default=10.0, metavar="PERCENT", help="The difference to find.")
@click.option(
    "--chance", type=Percentage(5.0, 100.0), default=80.0, metavar="PERCENT", help="The probability of finding it."
)
@json_option
def show_power(plan: str, pilot: Path | None, spread: float | None, shift: float, chance: float, as_json: bool) -> None:
    """Show how many runs a cell needs to find a difference."""
    from vtare.campaign.store import read_store
    from vtare.plan.files import find_plan, load_plan
    from vtare.summary import power as planning
    from vtare.terminal.power import show_needs

    if Path(plan).is_dir():
        if pilot is not None:
            raise BadInput(f"{plan} is a store, and --pilot names another: name one of them")
        pilot = Path(plan)
        checked, _, _ = read_store(pilot)
    else:
        checked = load_plan(find_plan(plan))
    if (pilot is None) == (spread is None):
        raise BadInput(
            ("No spread is given" if pilot is None else "--pilot and --spread both give a spread")
            + f". Write `vtare plan power {plan} --pilot STORE`, or --spread PERCENT of run medians"
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


def _plan_answer(plan: Plan, expected: Mapping[str, Expected], lacks: Sequence[Lack] | None) -> Answered:
    from vtare.records.answer import answered
    from vtare.sentences import campaign as wording
    from vtare.sentences.words import duration

    runs, seconds = sum(of.runs for of in expected.values()), sum(of.seconds for of in expected.values())
    missing = [one.reason for one in lacks or ()]
    status = "unknown" if lacks is None else "incomplete" if missing else "ready"
    advice = [(one.reason, one.command) for one in lacks or () if one.command is not None]
    return answered([wording.planned(plan.name, runs, duration(seconds))], status, limits=missing, advice=advice)


def _plan_document(
    plan: Plan,
    seed: int | None,
    expected: Mapping[str, Expected],
    lacks: Sequence[Lack] | None,
    meshed: MeshExpected | None,
    fleet: Sequence[FleetHost],
    reports: Sequence[HostReport] | None,
) -> records.PlanCheck:
    reasons = {one.host.name: one.reason for one in reports or ()}
    return {
        "schema": "vtare.plan-check/1",
        "answer": _plan_answer(plan, expected, lacks),
        "plan": plan.name,
        "question": plan.question,
        "seed": seed,
        "blocks": plan.blocks,
        "whole_plots": list(plan.whole_plots),
        "mesh": None
        if plan.mesh is None or meshed is None
        else {
            "hosts": list(plan.mesh.hosts),
            "pairs_at_a_time": plan.mesh.at_a_time,
            "pairs": meshed.pairs,
            "rounds_of_a_block": meshed.rounds,
            "expected_s": meshed.seconds,
        },
        "stop": None
        if plan.stop is None
        else {
            "precision_percent": plan.stop.precision_percent,
            "least_blocks": plan.stop.least_blocks,
            "experiment": plan.stop.experiment,
            "more_blocks": plan.stop.more_blocks,
            "seconds": plan.stop.seconds if plan.stop.experiment else None,
        },
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
