"""A plan's design, a campaign's state and a store's check, as they are printed."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Final, NamedTuple

from vtare.plan.mesh import PAIR
from vtare.quantities import unit_of, write
from vtare.sentences import campaign as wording
from vtare.sentences.words import duration
from vtare.terminal.progress import run_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rich.console import Console

    from vtare.campaign.journal import Entry
    from vtare.campaign.status import State
    from vtare.campaign.verify import Verification
    from vtare.design import Run
    from vtare.doctor.plans import Lack
    from vtare.fleet.hosts import FleetHost
    from vtare.fleet.survey import HostReport
    from vtare.plan.model import Plan
    from vtare.topology.named_hosts import HostSpec


#: Levels of a factor that are listed: a mesh of 64 hosts has 2,016 pairs.
_MOST_LEVELS: Final = 30


class Expected(NamedTuple):
    """What the runs of one experiment take: how many they are, how long they last, the most that they leave."""

    runs: int
    seconds: float
    byte: int


class MeshExpected(NamedTuple):
    """What a mesh takes: hosts, pairs of them, rounds of a block, and how long its rounds last one after the other."""

    hosts: int
    pairs: int
    rounds: int
    seconds: float


def show_plan(
    console: Console,
    plan: Plan,
    runs: Sequence[Run],
    seed: int | None,
    expected: Mapping[str, Expected],
    meshed: MeshExpected | None = None,
    fleet: Sequence[FleetHost] = (),
) -> None:
    """Print what a plan asks, its experiments, what they take, and the order of its first block."""
    expected_s, byte = sum(e.seconds for e in expected.values()), sum(e.byte for e in expected.values())
    console.print(f"{plan.name}: {' '.join(plan.question.split())}")
    cells = sum(1 for run in runs if run.block == 1 and run.control is None)
    controls = sum(1 for run in runs if run.control is not None)
    planned = sum(1 for run in runs if run.block <= plan.blocks)
    console.print(wording.size(plan.blocks, cells, controls, planned, duration(expected_s), _size(byte), seed))
    rule = plan.stop
    if rule is not None and rule.experiment is not None:
        more_s, more = duration(rule.seconds), len(runs) - planned
        console.print(wording.then_alone(rule.experiment, rule.precision_percent, rule.more_blocks, more_s, more))
    if meshed is not None:
        at_a_time = None if plan.mesh is None else plan.mesh.at_a_time
        length = duration(meshed.seconds)
        console.print(wording.mesh(meshed.pairs, meshed.hosts, at_a_time, meshed.rounds, length))
    if plan.whole_plots:
        console.print(wording.whole_plots(plan.whole_plots))
    if fleet:
        able = Counter(role for host in fleet for role in host.roles)
        console.print(wording.hosts(len(fleet), able))
    for role, host in plan.hosts.items():
        stated = {key: value for key, value in asdict(host).items() if value is not None and key != "platform"}
        about = "".join(f", {key} {value}" for key, value in stated.items())
        console.print(f"{role} on {host.platform}{_reached(plan, host)}{about}")
    for experiment in plan.experiments:
        console.print(f"\n{experiment.name} ({experiment.instrument}): {experiment.title}")
        own = expected[experiment.name]
        console.print(wording.experiment(own.runs // plan.blocks, own.runs, duration(own.seconds)))
        if experiment.cells != "all":
            console.print(wording.FROM_BASELINE)
        for name, value in experiment.parameters.items():
            console.print(f"  {name} = {_parameter_text(name, value)}")
        for factor in experiment.factors:
            levels = _listed([level.label for level in factor.levels])
            nested = experiment.nested.get(factor.name)
            only = "" if nested is None else f", only with {_combination(nested)}"
            baseline = "" if factor.name == PAIR else f" (baseline {factor.baseline})"
            console.print(f"  factor {factor.name}: {levels}{baseline}{only}")
        for excluded in experiment.excluded:
            console.print(f"  not measured: {_combination(excluded)}")
    if seed is not None:
        from rich.table import Table
        from rich.text import Text

        table = Table(title="Block 1, in order of execution", title_justify="left")
        for heading in ("position", "run", "run id"):
            table.add_column(heading)
        for run in runs:
            if run.block == 1:
                table.add_row(str(run.position), Text(run_words(run)), run.run_id)
        console.print(table)


def _listed(labels: Sequence[str]) -> str:
    """Levels in a line; of many the first ones, and how many there are."""
    shown = ", ".join(labels[:_MOST_LEVELS])
    return shown if len(labels) <= _MOST_LEVELS else f"{shown}, ... ({len(labels)})"


def show_lacking(
    console: Console, plan: Plan, lacks: Sequence[Lack], reports: Sequence[HostReport] | None = None
) -> None:
    """Print what is missing for runs of a plan, with what gets it; of a fleet, what its hosts reported."""
    where = wording.ON_PLAN_HOSTS if plan.hosts else wording.HERE
    if reports is not None:
        silent = [one for one in reports if one.reason is not None]
        where = wording.ON_ANSWERING_HOSTS if silent else wording.ON_HOSTS
        for one in silent:
            console.print(f"{one.host.name} ({one.host.reached_at}): {one.reason}")
    if not lacks:
        console.print(wording.nothing_missing(where))
        return
    console.print(wording.missing(where))
    for lack in lacks:
        console.print(wording.lacking(lack.runs, run_words(lack.first), lack.reason))
        if lack.command is not None:
            console.print(f"    {lack.command}", soft_wrap=True)


def _size(byte: float) -> str:
    """A size of files: `120 MB`."""
    for unit, scale in (("TB", 1e12), ("GB", 1e9)):
        if byte >= scale:
            return f"{byte / scale:.3g} {unit}"
    return f"{max(1.0, byte / 1e6):.3g} MB"


def _combination(levels: Mapping[str, Sequence[str]]) -> str:
    """Levels of several factors: `platform docker or lxc with load io`."""
    return " with ".join(f"{factor} {' or '.join(labels)}" for factor, labels in levels.items())


def _reached(plan: Plan, host: HostSpec) -> str:
    """How the machine of a host is reached."""
    from vtare.platforms import kind_of
    from vtare.topology.named_hosts import THIS_MACHINE

    settings = plan.platforms.get(host.platform, {})
    if "host" not in settings:
        return " (this machine)" if host.platform == THIS_MACHINE else f" ({kind_of(host.platform, settings)})"
    at = f"{settings['user']}@" if "user" in settings else ""
    return f" ({kind_of(host.platform, settings)} {at}{settings['host']})"


def _parameter_text(name: str, value: object) -> str:
    """A parameter as a person would write it: `1 s` for `most_ns = 1000000000`."""
    if isinstance(value, list):
        return ", ".join(_parameter_text(name, item) for item in value)
    unit = unit_of(name)
    if unit is not None and isinstance(value, int | float) and not isinstance(value, bool):
        return write(value, unit)
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


#: Skipped runs of one reason that are listed one by one, and reasons that are shown when a campaign ends.
_FEW_SKIPPED: Final = 3


def skipped_alike(runs: Sequence[Run], entries: Mapping[str, Entry]) -> dict[str, list[Run]]:
    """The runs that were skipped, by the reason; the most frequent one first."""
    by_reason: dict[str, list[Run]] = {}
    for run in runs:
        entry = entries.get(run.run_id)
        if entry is not None and entry.status == "skipped":
            by_reason.setdefault(entry.reason or "no reason was noted", []).append(run)
    return dict(sorted(by_reason.items(), key=lambda item: -len(item[1])))


def show_skipped(console: Console, runs: Sequence[Run], entries: Mapping[str, Entry]) -> None:
    """Print a line for each reason why runs were skipped, the most frequent ones."""
    by_reason = skipped_alike(runs, entries)
    for reason, alike in list(by_reason.items())[:_FEW_SKIPPED]:
        console.print(wording.skipped(len(alike), reason))
    if len(by_reason) > _FEW_SKIPPED:
        console.print(wording.more_reasons(len(by_reason) - _FEW_SKIPPED))


def show_status(console: Console, store: Path, state: State) -> None:
    """Print how many runs are done, each failed one with its reason and the end of its log; why runs were skipped."""
    plan, runs, entries, stopped = state.plan, state.runs, state.entries, state.stopped
    words = Counter(map(state.word, runs))
    console.print(wording.state(plan.name, str(store), len(runs), state.listed))
    if stopped is not None:
        console.print(wording.stopped_of(stopped.block, max(run.block for run in runs), stopped.reason))
    common = {reason: alike for reason, alike in skipped_alike(runs, entries).items() if len(alike) > _FEW_SKIPPED}
    for reason, alike in common.items():
        console.print(wording.skipped_alike(len(alike), alike[0].block, run_words(alike[0]), reason))
    for run in runs:
        entry = entries.get(run.run_id)
        if entry is None or entry.status == "done" or (entry.status == "skipped" and entry.reason in common):
            continue
        console.print(wording.run_state(entry.status, run.block, run_words(run), entry.attempts, entry.reason))
        if entry.log_tail and entry.status == "failed":
            for line in entry.log_tail.splitlines()[-5:]:
                console.print(f"    {line}")
    if words["pending"] or words["failed"]:
        console.print(wording.resume(str(store)), soft_wrap=True)


def show_verification(console: Console, found: Verification) -> None:
    """Print how many runs are whole, a line for everything that is wrong, and what to do."""
    whole, damaged = len(found.conditions.whole), len(found.conditions.damaged)
    counts = {"whole": whole, "damaged": damaged, "not there": found.total - whole - damaged}
    size, elapsed = found.conditions.byte / 1e6, duration(found.conditions.elapsed_s)
    console.print(wording.checked(found.plan, str(found.store), found.total, counts, size, elapsed))
    for problem in found.problems():
        console.print(problem)
    for name in found.strangers:
        console.print(wording.stranger(name))
    if found.repaired:
        done = [] if found.journal is None else [wording.JOURNAL_MADE]
        done += [wording.added(len(found.unlisted))] if found.unlisted else []
        done += [wording.moved(damaged, str(found.store / "damaged"))] if damaged else []
        done += [wording.taken_out(len(found.missing))] if found.missing else []
        done += [wording.removed_leftovers(found.leftovers)] if found.leftovers else []
        console.print(wording.repaired(done) if done else wording.NOTHING_TO_REPAIR)
        if found.total > whole:
            console.print(wording.make_others(str(found.store)), soft_wrap=True)
    elif not found.sound:
        console.print(wording.repair(str(found.store)), soft_wrap=True)
    else:
        console.print(wording.SOUND)
