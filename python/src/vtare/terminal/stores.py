"""A plan's design, a campaign's state and a store's check, as they are printed."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Final, NamedTuple

from vtare.plan.mesh import PAIR
from vtare.quantities import unit_of, write
from vtare.sentences.words import plural
from vtare.terminal.progress import run_words
from vtare.terminal.tables import duration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rich.console import Console

    from vtare.campaign.journal import Entry
    from vtare.campaign.status import State
    from vtare.campaign.verify import Verification
    from vtare.design import Run
    from vtare.doctor import Lack
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
    console.print(
        f"{plan.blocks} blocks of {cells} cells"
        + (f" and {controls} control runs" if controls else "")
        + f": {planned} runs, about {duration(expected_s)}, at most {_size(byte)} of samples; "
        + (f"seed {seed}" if seed is not None else "the seed is drawn at the start")
    )
    if plan.stop is not None and plan.stop.experiment is not None:
        console.print(
            f"then {plan.stop.experiment} alone, until its ratios are known to {plan.stop.precision_percent:g} %, "
            f"{plan.stop.more_blocks} more blocks, or {duration(plan.stop.seconds)}: at most {len(runs) - planned} runs"
        )
    if meshed is not None:
        most = "" if plan.mesh is None or plan.mesh.at_a_time is None else f", {plan.mesh.at_a_time} pairs at a time"
        console.print(
            f"mesh: {plural(meshed.pairs, 'pair')} of {meshed.hosts} hosts{most}; {plural(meshed.rounds, 'round')} a "
            f"block, in none of which a host is used twice; about {duration(meshed.seconds)} on them"
        )
    if plan.whole_plots:
        console.print(f"whole plots: runs with the same {' and '.join(plan.whole_plots)} stand together in each block")
    if fleet:
        able = Counter(role for host in fleet for role in host.roles)
        console.print(f"{plural(len(fleet), 'host')}: " + ", ".join(f"{n} can be {role}" for role, n in able.items()))
    for role, host in plan.hosts.items():
        stated = {key: value for key, value in asdict(host).items() if value is not None and key != "platform"}
        about = "".join(f", {key} {value}" for key, value in stated.items())
        console.print(f"{role} on {host.platform}{_reached(plan, host)}{about}")
    for experiment in plan.experiments:
        console.print(f"\n{experiment.name} ({experiment.instrument}): {experiment.title}")
        own = expected[experiment.name]
        console.print(
            f"  {plural(own.runs // plan.blocks, 'cell')}, {plural(own.runs, 'run')}, about {duration(own.seconds)}"
        )
        if experiment.cells != "all":
            console.print("  cells: the baseline, and those that differ from it in one factor")
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
    where = "on the hosts of the plan, as far as is known without a connection" if plan.hosts else "here"
    if reports is not None:
        silent = [one for one in reports if one.reason is not None]
        where = "on the hosts that answer" if silent else "on the hosts"
        for one in silent:
            console.print(f"{one.host.name} ({one.host.reached_at}): {one.reason}")
    if not lacks:
        console.print(f"\nNothing is missing {where}.")
        return
    console.print(f"\nMissing {where}; these runs would be skipped:")
    for lack in lacks:
        console.print(f"  {plural(lack.runs, 'run')}, the first: {run_words(lack.first)}: {lack.reason}")
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
    found: dict[str, list[Run]] = {}
    for run in runs:
        entry = entries.get(run.run_id)
        if entry is not None and entry.status == "skipped":
            found.setdefault(entry.reason or "no reason was noted", []).append(run)
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def show_skipped(console: Console, runs: Sequence[Run], entries: Mapping[str, Entry]) -> None:
    """Print a line for each reason why runs were skipped, the most frequent ones."""
    found = skipped_alike(runs, entries)
    for reason, alike in list(found.items())[:_FEW_SKIPPED]:
        console.print(f"skipped: {len(alike)} run{'s' if len(alike) > 1 else ''}: {reason}")
    if len(found) > _FEW_SKIPPED:
        console.print(f"skipped for {len(found) - _FEW_SKIPPED} more reasons")


def show_status(console: Console, store: Path, state: State) -> None:
    """Print how many runs are done, each failed one with its reason and the end of its log; why runs were skipped."""
    plan, runs, entries, stopped = state.plan, state.runs, state.entries, state.stopped
    words = Counter(map(state.word, runs))
    console.print(f"{plan.name} in {store}: {len(runs)} runs: {state.listed}")
    if stopped is not None:
        console.print(f"stopped after block {stopped.block} of {max(run.block for run in runs)}: {stopped.reason}")
    common = {reason: alike for reason, alike in skipped_alike(runs, entries).items() if len(alike) > _FEW_SKIPPED}
    for reason, alike in common.items():
        console.print(
            f"skipped: {len(alike)} runs, the first in block {alike[0].block}: {run_words(alike[0])}: {reason}"
        )
    for run in runs:
        entry = entries.get(run.run_id)
        if entry is None or entry.status == "done" or (entry.status == "skipped" and entry.reason in common):
            continue
        tries = f", tried {entry.attempts} times" if entry.attempts > 1 else ""
        console.print(f"{entry.status}: block {run.block}: {run_words(run)}{tries}: {entry.reason}")
        if entry.log_tail and entry.status == "failed":
            for line in entry.log_tail.splitlines()[-5:]:
                console.print(f"    {line}")
    if words["pending"] or words["failed"]:
        console.print(f"resume with: vtare resume {store}", soft_wrap=True)


def show_verification(console: Console, found: Verification) -> None:
    """Print how many runs are whole, a line for everything that is wrong, and what to do."""
    whole, damaged = len(found.conditions.whole), len(found.conditions.damaged)
    counts = ((whole, "whole"), (damaged, "damaged"), (found.total - whole - damaged, "not there"))
    listed = ", ".join(f"{count} {word}" for count, word in counts if count)
    read = f"{found.conditions.byte / 1e6:.1f} MB checked in {duration(found.conditions.elapsed_s)}"
    console.print(f"{found.plan} in {found.store}: {found.total} runs: {listed} ({read})")
    for problem in found.problems():
        console.print(problem)
    for name in found.strangers:
        console.print(f"not of this campaign: runs/{name}")
    if found.repaired:
        done = [] if found.journal is None else ["made the journal anew"]
        done += [f"added {len(found.unlisted)} runs to the journal"] if found.unlisted else []
        done += [f"moved {damaged} damaged runs to {found.store / 'damaged'}"] if damaged else []
        done += [f"took {len(found.missing)} missing runs out of the journal"] if found.missing else []
        done += [f"removed {found.leftovers} leftovers"] if found.leftovers else []
        console.print(f"repaired: {'; '.join(done)}" if done else "nothing to repair")
        if found.total > whole:
            console.print(f"make the other runs with: vtare resume {found.store}", soft_wrap=True)
    elif not found.sound:
        console.print(f"repair with: vtare verify {found.store} --repair", soft_wrap=True)
    else:
        console.print("sound")
