"""What the runs of a plan need of a fleet: a host for each role, and for how long at most."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vtare.campaign.setup import AROUND_S
from vtare.errors import BadInput, instead_of
from vtare.fleet.hosts import have_agents
from vtare.fleet.scheduler import Request, assigned
from vtare.plan.files import parse_plan
from vtare.plan.mesh import PAIR, listed
from vtare.plan.rules import MADE
from vtare.topology.named_hosts import RESPONDER, ROUTER, SENDER, TESTER

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from vtare.contract import Contract
    from vtare.design import Run
    from vtare.fleet.hosts import FleetHost
    from vtare.plan.model import Experiment, Plan


def roles_of(experiment: Experiment | None) -> tuple[str, ...]:
    """The roles of a run of this experiment, or of a control run."""
    if experiment is None:
        return (SENDER,)
    if experiment.two_hosts:
        return (SENDER, RESPONDER, *((ROUTER,) if experiment.routed else ()))
    return (TESTER if experiment.record.hosts == "ports" else SENDER,)


def check_plan(
    plan: Plan, hosts: Sequence[FleetHost], source: str, *, made_there: bool = False, alone: bool = False
) -> None:
    """Refuse a plan that cannot run on these hosts, which `source` names.

    `made_there`: each host can make instances for runs, as the machine of the lab does; `alone`: and each run has one.
    Hosts with agents can, and theirs have.

    Raises:
        BadInput: it names hosts itself, describes instances of the lab's machine, or needs a role that no host has.
    """
    alone = alone or have_agents(hosts)
    made_there = made_there or alone
    if plan.hosts:
        raise BadInput(
            f"{plan.source}: hosts: the plan names {', '.join(plan.hosts)}, but --on {source} provides the hosts; "
            "leave one of the two out"
        )
    for experiment in plan.experiments:
        names = [factor.name for factor in experiment.factors if factor.name in MADE]
        if not made_there and (experiment.through_guests or names):
            what = f"the factor '{names[0]}'" if names else "guests that forward"
            raise BadInput(
                f"{plan.source}: experiment '{experiment.name}' has {what}: that is made on the machine of the lab, "
                f"but --on {source} names machines that are there; leave it out, or run this plan without --on"
            )
    if plan.mesh is not None:
        _check_mesh(plan, hosts, source, alone=alone)
    if not made_there:
        _check_addresses(plan, hosts, source)
    checked = (*plan.experiments, *((None,) if plan.control is not None else ()))
    for entry in () if alone else checked:
        roles = roles_of(entry)
        for role in roles:
            if not any(role in host.roles for host in hosts):
                name = "control" if entry is None else entry.name
                raise BadInput(
                    f"{source}: no host can be the {role}, which the experiment '{name}' of {plan.source} needs; add "
                    f'"{role}" to the roles of one'
                )
        if len({host.name for host in hosts if set(host.roles) & set(roles)}) < len(roles):
            raise BadInput(
                f"{source}: too few hosts ({len(hosts)}): list {len(roles)}, one for each of {', '.join(roles)}"
            )


def with_pairs(plan: Plan, hosts: Sequence[FleetHost], contract: Contract | None = None) -> Plan:
    """The plan whose mesh lists these hosts, where it asks for all of a fleet; else the plan as it is.

    Raises:
        BadInput: the hosts are too few.
    """
    if plan.mesh is None or plan.mesh.hosts:
        return plan
    return parse_plan(listed(plan.text, _ends(hosts)), source=plan.source, contract=contract)


def _ends(hosts: Sequence[FleetHost]) -> list[str]:
    """The hosts that can be both ends of a pair."""
    return [host.name for host in hosts if {SENDER, RESPONDER} <= {*host.roles}]


def _check_mesh(plan: Plan, hosts: Sequence[FleetHost], source: str, *, alone: bool) -> None:
    """Refuse a mesh of hosts that are not there, or cannot be both ends of a pair."""
    if alone:
        raise BadInput(
            f"{plan.source}: mesh: --on is {source}, whose workers make each run on one host, but pairs of hosts "
            "are measured: use a file of hosts"
        )
    able = _ends(hosts)
    for name in plan.mesh.hosts if plan.mesh is not None else ():
        if name not in able:
            raise BadInput(
                f"{plan.source}: mesh: '{name}' is no host of {source} with the roles {SENDER} and {RESPONDER}"
                f"{instead_of(name, able)}"
            )


def _check_addresses(plan: Plan, hosts: Sequence[FleetHost], source: str) -> None:
    """Refuse hosts on this machine whose address for measurements is not known, where another is to reach them."""
    roles = {role for experiment in plan.experiments if experiment.two_hosts for role in roles_of(experiment)}
    for host in hosts:
        if roles & set(host.roles) and "host" not in host.settings and host.spec.address is None:
            raise BadInput(
                f"{source}: hosts.{host.name}.address is missing: use the address at which other hosts reach it, "
                f"as {plan.source} measures between hosts"
            )


def request_of(run: Run, plan: Plan, hosts: Sequence[FleetHost], timeout_s: float, *, alone: bool = False) -> Request:
    """What one run needs of these hosts; it is ended after `timeout_s`, what is around it later.

    `alone`: all of a run is on one host, which makes instances and namespaces as the machine of the lab does.
    """
    experiment = None if alone or run.control is not None else plan.experiment(run.experiment)
    if experiment is not None and experiment.meshed:
        pair = zip((SENDER, RESPONDER), experiment.factor(PAIR).level(run.factors[PAIR]).value, strict=True)
        needs = tuple((role, frozenset((name,))) for role, name in pair)
        return Request(run.run_id, needs, plan.settle_s + timeout_s + AROUND_S)
    needs = tuple((role, frozenset(host.name for host in hosts if role in host.roles)) for role in roles_of(experiment))
    return Request(run.run_id, needs, plan.settle_s + timeout_s + AROUND_S)


def without_hosts(
    plan: Plan, runs: Sequence[Run], hosts: Sequence[FleetHost], silent: Collection[str]
) -> dict[tuple[str, ...], list[Run]]:
    """The runs that cannot be made without the `silent` of these hosts, by the hosts that each lacks."""
    by_lack: dict[tuple[str, ...], list[Run]] = {}
    for run in runs:
        needs = request_of(run, plan, hosts, 0.0, alone=have_agents(hosts)).needs
        if assigned([(role, sorted(able.difference(silent))) for role, able in needs]) is None:
            lacking = frozenset().union(*(able for _, able in needs)).intersection(silent)
            by_lack.setdefault(tuple(sorted(lacking)), []).append(run)
    return by_lack
