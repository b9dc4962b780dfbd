"""Method and caveats, generated from what was run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from vtare.number_text import significant, time_text
from vtare.plan.factors import PLATFORM_FACTORS
from vtare.plan.mesh import PAIR
from vtare.platforms import unverified
from vtare.report import needs, text
from vtare.report.facts import own_kernels
from vtare.report.families import false_claims
from vtare.report.layout import key_name
from vtare.report.pages import page_of
from vtare.report.ranges import said_once
from vtare.sentences import caveats as caveat_wording
from vtare.sentences import method as wording
from vtare.sentences.words import listing, plural

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vtare.plan.model import StopRule
    from vtare.report.layout import Layout
    from vtare.summary import Summary

# Notes of the summary that the first screen and the section on blocks show already.
_TOLD_ELSEWHERE = ("control_drift", "failed_runs", "skipped_runs", "pending_runs")
_ADJUSTMENTS = {"holm": "Holm", "bh": "Benjamini-Hochberg"}


def needed_runs(summary: Summary) -> int:
    """How many runs the campaign had to make: those that its stopping rule spared are none of them."""
    return summary.design.filter(pl.col("status") != "not_needed").height


def method_of(summary: Summary, layouts: Mapping[str, Layout]) -> tuple[str, ...]:
    """How the figures were made, one statement each."""
    plan = summary.plan
    done = summary.design.filter(pl.col("status") == "done").height
    whole_plots = [key_name(name) for name in plan.whole_plots]
    lines = [wording.design(plan.blocks, summary.seed, whole_plots, done, needed_runs(summary))]
    if plan.stop is not None:
        lines.append(_stopping(summary, plan.stop))
    for layout in layouts.values():
        factors = [
            wording.levels_of(key_name(one.name), [layout.level(one.name, level.label) for level in one.levels])
            if one.name != PAIR
            else wording.pairs_of_hosts(len(one.levels))
            for one in layout.experiment.factors
        ]
        experiment = layout.experiment
        lines.append(wording.experiment(experiment.title, experiment.instrument, factors, layout.fixed_text()))
    lines.append(wording.UNIT_OF_INFERENCE)
    methods = (
        summary.cells.get_column("interval_method").drop_nulls().unique().to_list() if summary.cells.height else []
    )
    named = [wording.INTERVALS.get(str(method), str(method)) for method in sorted(methods) if method != "none"]
    if named:
        levels = text.levels_text(summary.cells)
        exact = [wording.FEW_LEVELS] if "order statistics" in methods else []
        lines.append(" ".join([wording.intervals(levels, named), *exact]))
    if summary.comparisons:
        analysis = plan.analysis
        lines.append(wording.comparisons(_compared_by(summary), analysis.margin_percent, analysis.alpha))
    lines += _tests(summary)
    for instrument in dict.fromkeys(layout.experiment.instrument for layout in layouts.values()):
        made = page_of(instrument).method
        if made is not None:
            lines += made([layout for layout in layouts.values() if layout.experiment.instrument == instrument])
    lines.append(wording.QUANTILES)
    if plan.control is not None:
        lines.append(wording.control(plan.control.instrument))
    return tuple(lines)


def paragraph_for_a_paper(summary: Summary) -> str:
    """What a paper says of how the figures were made, to be pasted and shortened."""
    plan = summary.plan
    versions = sorted({str(one.program.get("version", "unknown")) for one in summary.machines})
    done = summary.design.filter(pl.col("status") == "done").height
    kernels = sorted({str(one.machine.get("kernel")) for one in summary.machines if one.machine.get("kernel")})
    models = sorted({str(one.machine.get("cpu_model")) for one in summary.machines if one.machine.get("cpu_model")})
    where = ", ".join([*models, *(f"Linux {kernel}" for kernel in kernels)])
    analysis = plan.analysis
    sentences = [
        wording.measured_with(versions, plan.name, summary.seed, done, plan.blocks, where),
        wording.PAPER_UNIT,
    ]
    if summary.comparisons:
        sentences.append(wording.paper_comparisons(_compared_by(summary), analysis.alpha, analysis.margin_percent))
    return " ".join(sentences)


def _stopping(summary: Summary, rule: StopRule) -> str:
    """When the campaign was to stop, and whether it did."""
    most, percent = summary.plan.blocks, rule.precision_percent
    if rule.experiment is None:
        stopping = wording.stopping(rule.least_blocks, percent, most)
    else:
        stopping = wording.stopping_alone(rule.experiment, most, percent, rule.more_blocks, rule.seconds)
    if summary.stopped is None:
        return f"{stopping} {wording.RULE_HAS_NOT_STOPPED}"
    return f"{stopping} {wording.stopped(summary.stopped.block, summary.stopped.reason)}"


def _compared_by(summary: Summary) -> str:
    """What gave the intervals and p-values of the comparisons."""
    made = {row.inference for row in summary.comparisons}
    named = [words for method, words in wording.COMPARED_BY.items() if method in made]
    return listing(named) if named else wording.NO_INTERVAL


def _tests(summary: Summary) -> list[str]:
    if summary.tests.height == 0:
        return []
    made = summary.tests.filter(pl.col("refused").is_null())
    refused = summary.tests.height - made.height
    names = sorted(str(name).replace("_", "-").title() for name in made.get_column("test").unique().to_list())
    adjustments = sorted(
        _ADJUSTMENTS.get(str(a), str(a)) for a in made.get_column("adjustment").drop_nulls().unique().to_list()
    )
    lines = [wording.tests(names, adjustments)] if names else []
    lines += [wording.refused_tests(refused)] if refused else []
    return [" ".join(lines)]


def caveats_of(summary: Summary, layouts: Mapping[str, Layout]) -> tuple[str, ...]:
    """What the reader should keep in mind, from the machine's facts and from what was run."""
    caveats = [
        *false_claims(summary, layouts),
        *needs.power_caveats(summary),
        *needs.unfinished(summary),
        *needs.sensitive(summary),
        *needs.dependent_tails(summary),
    ]
    caveats += [*_unverified(summary), *_machine(summary), *_loads(summary)]
    if any(experiment.two_hosts and not experiment.meshed for experiment in summary.plan.experiments):
        caveats.append(caveat_wording.SHARED_CPUS)
    for note, merged in said_once(summary.notes):
        if note.id in _TOLD_ELSEWHERE:
            continue
        runs = f" ({plural(note.runs, 'time' if merged > 1 else 'run')})" if note.runs else ""
        caveats.append(f"{note.text.rstrip('.')}{runs}.")
    for instrument in dict.fromkeys(experiment.instrument for experiment in summary.plan.experiments):
        caveats += page_of(instrument).caveats
    caveats.append(caveat_wording.EXTREMES)
    return tuple(caveats)


def _unverified(summary: Summary) -> list[str]:
    """Platforms with finished runs whose adapter has never met the real thing."""
    done = summary.design.filter(pl.col("status") == "done")
    columns = [name for name in PLATFORM_FACTORS if name in done.columns]
    used = sorted({str(level) for name in columns for level in done.get_column(name).drop_nulls().unique()})
    why = ((name, unverified(name, summary.plan.platforms.get(name))) for name in used)
    return [caveat_wording.unverified(name, reason) for name, reason in why if reason is not None]


def _machine(summary: Summary) -> list[str]:
    caveats = []
    for machine in own_kernels(summary.machines):
        hypervisor = machine.machine.get("hypervisor")
        if hypervisor == "tcg":
            caveats.append(caveat_wording.emulated(machine.hostname))
        elif hypervisor:
            caveats.append(caveat_wording.virtual_machine(machine.hostname, hypervisor))
        quantum = machine.clock.get("quantum_ns")
        if quantum:
            caveats.append(caveat_wording.clock_steps(machine.hostname, time_text(quantum)))
        online = machine.machine.get("cpus_online")
        if isinstance(online, int) and online < 4:
            caveats.append(caveat_wording.few_cpus(machine.hostname, online))
    names = [machine.hostname for machine in summary.machines if machine.platform == "host"]
    if len(names) > 1:
        caveats.append(caveat_wording.many_machines(len(names)))
    # One machine may stand for several platforms.
    return list(dict.fromkeys(caveats))


def _loads(summary: Summary) -> list[str]:
    caveats = []
    for load in summary.loads:
        cpus = [m.machine.get("cpus_online") for m in summary.machines]
        level = summary.level_of.get("load", {}).get(load.kind)
        if (
            level is not None
            and level.value.kind == "cpu"
            and load.threads
            and cpus
            and isinstance(cpus[0], int)
            and load.threads > cpus[0]
        ):
            share = significant(load.threads / cpus[0], 2)
            caveats.append(caveat_wording.crowded_cpus(load.kind, load.threads, cpus[0], share))
    return caveats
