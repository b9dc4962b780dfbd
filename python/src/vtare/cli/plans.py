"""The command `plan`: a plan's design, the time it will take, and the runs that it needs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vtare.arguments import percentage
from vtare.cli.options import BinaryOption, JsonOption, SeedOption, print_json, stdout
from vtare.errors import BadInput

if TYPE_CHECKING:
    from vtare.plan import Plan


def plan(
    plan: Annotated[
        str | None, typer.Argument(metavar="PLAN", help="A plan file, or the name of a shipped plan; none: a list.")
    ] = None,
    seed: SeedOption = None,
    binary: BinaryOption = None,
    power: Annotated[
        bool, typer.Option("--power", help="State how many runs a cell needs; PLAN may be the store of a pilot.")
    ] = False,
    pilot: Annotated[
        Path | None, typer.Option("--pilot", metavar="STORE", help="With --power: a store to take spreads from.")
    ] = None,
    spread: Annotated[
        float | None,
        typer.Option(
            "--spread",
            parser=percentage("--spread", 0.0, 1e4),
            metavar="PERCENT",
            help="With --power: standard deviation of run medians, no pilot.",
        ),
    ] = None,
    shift: Annotated[
        float | None,
        typer.Option(
            "--shift",
            parser=percentage("--shift", 0.0, 1e4),
            metavar="PERCENT",
            help="With --power: the difference to find (default 10).",
        ),
    ] = None,
    chance: Annotated[
        float | None,
        typer.Option(
            "--chance",
            parser=percentage("--chance", 5.0, 100.0),
            metavar="PERCENT",
            help="With --power: the probability of finding it (default 80).",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check a plan and show its design and the time it will take, or the runs it needs. Measures nothing.

    Without a plan the shipped ones are listed.
    """
    of_power = {"--pilot": pilot, "--spread": spread, "--shift": shift, "--chance": chance}
    given = [name for name, value in of_power.items() if value is not None]
    if plan is None and (power or given or as_json):
        raise BadInput("found no plan, expected one: `vtare plan` lists those that are shipped")
    if plan is None or (plan == "list" and not Path(plan).exists()):
        from vtare.plan import question_of, shipped_plans

        for name, path in shipped_plans().items():
            stdout().print(f"{name}: {question_of(path)}")
        return
    if power:
        _show_power(plan, pilot, spread, shift or 10.0, chance or 80.0, as_json=as_json)
        return
    if given:
        raise BadInput(f"found {' and '.join(given)} without --power, to which they belong: add it, or leave them out")
    from vtare.campaign import binary_and_contract
    from vtare.contract import load_contract
    from vtare.design import expected_run_s, make_design
    from vtare.plan import find_plan, load_plan
    from vtare.terminal.stores import show_plan

    # Named by hand, the binary's own schema is used; else the packaged one: a plan can be checked without a binary.
    contract = load_contract() if binary is None else binary_and_contract(binary)[1]
    checked = load_plan(find_plan(plan), contract=contract)
    shown_seed = seed if seed is not None else checked.seed
    runs = make_design(checked, 0 if shown_seed is None else shown_seed)
    expected_s = sum(expected_run_s(r, checked) for r in runs)
    if as_json:
        print_json(_plan_document(checked, shown_seed, len(runs), expected_s))
    else:
        show_plan(stdout(), checked, runs, shown_seed, expected_s)


def _show_power(
    plan: str, pilot: Path | None, spread: float | None, shift: float, chance: float, *, as_json: bool
) -> None:
    """State how many runs per cell find a shift, from a pilot store or a stated spread."""
    from vtare.campaign import read_store
    from vtare.plan import find_plan, load_plan
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
    question = planning.Question(shift, chance / 100.0, checked.analysis.alpha, checked.blocks)
    if spread is not None:
        needs = planning.needs_from_spread(checked, spread, question)
    else:
        needs = planning.needs_from_pilot(Path(str(pilot)), question)
    if as_json:
        print_json(planning.document(question, needs, plan=checked.name, pilot=pilot))
    else:
        show_needs(stdout(), question, needs)


def _plan_document(plan: Plan, seed: int | None, runs: int, expected_s: float) -> dict[str, Any]:
    return {
        "schema": "vtare.plan-check/1",
        "plan": plan.name,
        "question": plan.question,
        "seed": seed,
        "blocks": plan.blocks,
        "stop": None
        if plan.stop is None
        else {"precision_percent": plan.stop.precision_percent, "least_blocks": plan.stop.least_blocks},
        "runs": runs,
        "expected_s": expected_s,
        "hosts": {role: asdict(host) for role, host in plan.hosts.items()},
        "experiments": [
            {
                "name": e.name,
                "instrument": e.instrument,
                "parameters": e.parameters,
                "factors": {f.name: [level.label for level in f.levels] for f in e.factors},
            }
            for e in plan.experiments
        ],
    }
