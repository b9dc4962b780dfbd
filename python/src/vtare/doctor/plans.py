"""What a plan needs that is missing here: the reasons why its runs would be skipped, before any of them is tried."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from vtare.campaign.forwarding import ForwardingSetup
from vtare.campaign.one_host import OneHostSetup
from vtare.campaign.two_hosts import TwoHostSetup
from vtare.errors import MachineCannot

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vtare.campaign.setup import Setup
    from vtare.design import Run
    from vtare.doctor.ways import Ways
    from vtare.plan.model import Experiment, Plan

_OWNER: Final = "vtare-doctor"


@dataclass(frozen=True, slots=True)
class Lack:
    """Something that is missing: how many runs it costs, the first of them, and the command that gets it."""

    reason: str
    runs: int
    first: Run
    command: str | None


def lacking(plan: Plan, runs: Sequence[Run], binary: Path, ways: Ways) -> tuple[Lack, ...]:
    """What keeps runs of a plan from being made, the most frequent reason first. Nothing is started but KVM's trial."""
    one_host = OneHostSetup(binary, _OWNER, plan.platforms, plan.hosts)
    two_hosts = TwoHostSetup(binary, _OWNER, plan.platforms, plan.hosts)
    forwarding = ForwardingSetup(binary, _OWNER, plan.platforms)
    experiments = {experiment.name: experiment for experiment in plan.experiments}
    known: dict[Hashable, str | None] = {}
    by_reason: dict[str, list[Run]] = {}
    for run in runs:
        experiment = None if run.control is not None else experiments[run.experiment]
        setup: Setup[Any] = one_host
        if experiment is not None and (experiment.two_hosts or experiment.through_guests):
            setup = two_hosts if experiment.two_hosts else forwarding
        # Runs of one cell lack the same; there may be thousands.
        cell = (run.experiment, tuple(run.factors.items()))
        if cell not in known:
            known[cell] = _missing(setup, run, experiment)
        reason = known[cell]
        if reason is not None:
            by_reason.setdefault(reason, []).append(run)
    ordered = sorted(by_reason.items(), key=lambda item: -len(item[1]))
    return tuple(Lack(reason, len(some), some[0], ways.out_of(reason)) for reason, some in ordered)


def _missing(setup: Setup[Any], run: Run, experiment: Experiment | None) -> str | None:
    try:
        return setup.missing(setup.wanted(run, experiment))
    except MachineCannot as error:
        return str(error)
