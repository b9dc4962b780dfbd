"""Method and caveats, generated from what was run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from vtare.plan.factors import PLATFORM_FACTORS
from vtare.plan.mesh import PAIR
from vtare.platforms import unverified
from vtare.plots.format import significant, time_text
from vtare.report import needs, text
from vtare.report.facts import own_kernels
from vtare.report.families import false_claims
from vtare.report.layout import key_name
from vtare.report.pages import page_of
from vtare.report.ranges import said_once
from vtare.sentences.words import listing, plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vtare.plan.model import StopRule
    from vtare.report.layout import Layout
    from vtare.summary import Summary

# Notes of the summary that the first screen and the section on blocks show already.
_TOLD_ELSEWHERE = ("control_drift", "failed_runs", "skipped_runs", "pending_runs")
_ADJUSTMENTS = {"holm": "Holm", "bh": "Benjamini-Hochberg"}
_INTERVALS = {
    "order statistics": "exact order statistics (sign test)",
}
_COMPARED_BY = {
    "paired t": "Student's t of the differences inside blocks, on logarithms of run figures",
    "welch t": "Welch's t on logarithms of run figures, where cells stand in different blocks",
}


def needed_runs(summary: Summary) -> int:
    """How many runs the campaign had to make: those that its stopping rule spared are none of them."""
    return summary.design.filter(pl.col("status") != "not_needed").height


def method_of(summary: Summary, layouts: Mapping[str, Layout]) -> tuple[str, ...]:
    """How the figures were made, one statement each."""
    plan = summary.plan
    done = summary.design.filter(pl.col("status") == "done").height
    lines = [
        f"Design: {plural(plan.blocks, 'randomised complete block')}, each a pass over all cells in a fresh "
        "random order from seed "
        f"{summary.seed}; {_whole_plots(plan.whole_plots)}{done} of "
        f"{plural(needed_runs(summary), 'run')} finished."
    ]
    if plan.stop is not None:
        lines.append(_stopping(summary, plan.stop))
    for layout in layouts.values():
        factors = "; ".join(
            f"{key_name(factor.name)}: {', '.join(layout.level(factor.name, level.label) for level in factor.levels)}"
            if factor.name != PAIR
            else f"{len(factor.levels)} pairs of hosts, in rounds in which no host is used twice"
            for factor in layout.experiment.factors
        )
        lines.append(
            f"{layout.experiment.title}: instrument {layout.experiment.instrument}, {factors or 'no factors'}"
            + (f"; held fixed: {layout.fixed_text()}." if layout.fixed_text() else ".")
        )
    lines.append(
        "Unit of inference: the run, a fresh start of the instrument. Readings inside a run follow each other and are "
        "never "
        "counted as independent."
    )
    methods = (
        summary.cells.get_column("interval_method").drop_nulls().unique().to_list() if summary.cells.height else []
    )
    named = [_INTERVALS.get(str(method), str(method)) for method in sorted(methods) if method != "none"]
    if named:
        levels = text.levels_text(summary.cells)
        lines.append(
            f"Intervals of medians ({levels}): over run medians, by {listing(named)}; none below 3 runs."
            + (
                " The exact method knows only a few levels: with 3, 4 and 5 runs 75, 87.5 and 93.75 %, from 6 on at "
                "least 95 %."
                if "order statistics" in methods
                else ""
            )
        )
    if summary.comparisons:
        lines.append(
            f"Comparisons: ratio and difference of geometric means of run figures with {_compared_by(summary)}, "
            "Cliff's delta beside them; p-values adjusted by Holm over all comparisons of a factor. Verdict: "
            f"equivalent when the interval of the ratio lies inside the margin of {plan.analysis.margin_percent:g} %, "
            f"higher or lower when the adjusted p is at most {plan.analysis.alpha:g} (the interval then leaves out 1), "
            "else inconclusive; the verdict's tip names the reason. Degrees of freedom: blocks less 1 where paired, "
            "Welch's where not."
        )
    lines += _tests(summary)
    for instrument in dict.fromkeys(layout.experiment.instrument for layout in layouts.values()):
        made = page_of(instrument).method
        if made is not None:
            lines += made([layout for layout in layouts.values() if layout.experiment.instrument == instrument])
    lines.append(
        "Quantiles: Hyndman-Fan type 7. p99 needs 299 readings in a run, p99.9 needs 2995; below that they are not "
        "estimable and "
        "shown as n/a. Half IQR is half the interquartile range (some papers call it MAD)."
    )
    if plan.control is not None:
        lines.append(
            f"Control: an idle {plan.control.instrument} run on the bare host opens, centres and closes each block; a "
            "block whose control "
            "lies further than 3 times its typical half interquartile range from the median of all controls is "
            "flagged."
        )
    return tuple(lines)


def paragraph_for_a_paper(summary: Summary) -> str:
    """What a paper says of how the figures were made, to be pasted and shortened."""
    plan = summary.plan
    versions = sorted({str(one.program.get("version", "unknown")) for one in summary.machines})
    done = summary.design.filter(pl.col("status") == "done").height
    kernels = sorted({str(one.machine.get("kernel")) for one in summary.machines if one.machine.get("kernel")})
    models = sorted({str(one.machine.get("cpu_model")) for one in summary.machines if one.machine.get("cpu_model")})
    where = ", ".join([*models, *(f"Linux {kernel}" for kernel in kernels)])
    return " ".join(
        [
            f"Measured with vtare {', '.join(versions) or 'unknown'} (plan {plan.name}, seed {summary.seed}):",
            f"{plural(done, 'run')} in {plural(plan.blocks, 'randomised complete block')}"
            + (f" on {where}." if where else "."),
            "The unit of inference is the run, a fresh start of the instrument; figures are medians over runs with "
            "intervals by exact order statistics.",
            *([_comparisons_for_a_paper(summary)] if summary.comparisons else []),
        ]
    )


def _comparisons_for_a_paper(summary: Summary) -> str:
    analysis = summary.plan.analysis
    return (
        f"Comparisons are ratios of geometric means with {_compared_by(summary)}; p-values are adjusted by Holm over "
        f"all comparisons of a factor (alpha {analysis.alpha:g}, margin of equivalence {analysis.margin_percent:g} %)."
    )


def _whole_plots(names: Sequence[str]) -> str:
    """How factors that are randomised apart were, and what tests of them take for the error."""
    if not names:
        return ""
    return (
        f"runs with the same {listing([key_name(name) for name in names])} stand together (a whole plot), these "
        "groups in random order too, and the error of what is compared between them is that of whole plots; "
    )


def _stopping(summary: Summary, rule: StopRule) -> str:
    """When the campaign was to stop, and whether it did."""
    if rule.experiment is None:
        first, what, last = rule.least_blocks, "every ratio", f"{summary.plan.blocks} blocks at most"
    else:
        first, what = summary.plan.blocks, f"every ratio of {rule.experiment}, which alone went on,"
        last = f"{rule.more_blocks} more blocks or {rule.seconds:g} s at most"
    line = (
        f"Stopping: between blocks, from block {first} on, once the half-width of the interval of {what} is within "
        f"{rule.precision_percent:g} %, never by a p-value; {last}."
    )
    if summary.stopped is None:
        return f"{line} The rule has not stopped this campaign."
    return f"{line} Stopped after block {summary.stopped.block}: {summary.stopped.reason}."


def _compared_by(summary: Summary) -> str:
    """What gave the intervals and p-values of the comparisons."""
    made = {row.inference for row in summary.comparisons}
    named = [words for method, words in _COMPARED_BY.items() if method in made]
    return listing(named) if named else "no interval (too few runs)"


def _tests(summary: Summary) -> list[str]:
    if summary.tests.height == 0:
        return []
    made = summary.tests.filter(pl.col("refused").is_null())
    refused = summary.tests.height - made.height
    names = sorted(str(name).replace("_", "-").title() for name in made.get_column("test").unique().to_list())
    adjustments = sorted(
        _ADJUSTMENTS.get(str(a), str(a)) for a in made.get_column("adjustment").drop_nulls().unique().to_list()
    )
    line = (
        f"Tests: {listing(names)} on figures of runs, p-values adjusted inside each family ({listing(adjustments)})."
        if names
        else ""
    )
    if refused:
        were = "was" if refused == 1 else "were"
        line += f" {plural(refused, 'test')} {were} refused, with the reason in the table."
    return [line.strip()]


def caveats_of(summary: Summary, layouts: Mapping[str, Layout]) -> tuple[str, ...]:
    """What the reader should keep in mind, from the machine's facts and from what was run."""
    found = [
        *false_claims(summary, layouts),
        *needs.power_caveats(summary),
        *needs.unfinished(summary),
        *needs.sensitive(summary),
        *needs.dependent_tails(summary),
    ]
    found += [*_unverified(summary), *_machine(summary), *_loads(summary)]
    if any(experiment.two_hosts and not experiment.meshed for experiment in summary.plan.experiments):
        found.append(
            "Sender, responder and both servers share the CPUs of one machine: a wake-up on a busy CPU is part of "
            "every piece, and rates are those of all of them together."
        )
    for note, merged in said_once(summary.notes):
        if note.id in _TOLD_ELSEWHERE:
            continue
        runs = f" ({plural(note.runs, 'time' if merged > 1 else 'run')})" if note.runs else ""
        sentence = note.text.rstrip(".")
        found.append(f"{sentence[:1].upper()}{sentence[1:]}{runs}.")
    for instrument in dict.fromkeys(experiment.instrument for experiment in summary.plan.experiments):
        found += page_of(instrument).caveats
    found.append(
        "Extremes (min, max) grow with the number of readings: compare them only between cells of equal length."
    )
    return tuple(found)


def _unverified(summary: Summary) -> list[str]:
    """Platforms with finished runs whose adapter has never met the real thing."""
    done = summary.design.filter(pl.col("status") == "done")
    columns = [name for name in PLATFORM_FACTORS if name in done.columns]
    used = sorted({str(level) for name in columns for level in done.get_column(name).drop_nulls().unique()})
    why = ((name, unverified(name, summary.plan.platforms.get(name))) for name in used)
    return [f"The platform {name} is unverified: {reason}." for name, reason in why if reason is not None]


def _machine(summary: Summary) -> list[str]:
    found = []
    for machine in own_kernels(summary.machines):
        hypervisor = machine.machine.get("hypervisor")
        if hypervisor == "tcg":
            found.append(
                f"{machine.hostname} is emulated in software (TCG): its figures prove function, not performance."
            )
        elif hypervisor:
            found.append(
                f"{machine.hostname} is a virtual machine ({hypervisor}): its figures hold for this guest on this host "
                "at this time, a neighbour can change them."
            )
        quantum = machine.clock.get("quantum_ns")
        if quantum:
            found.append(
                f"The clock of {machine.hostname} moves in steps of {time_text(quantum)}: a single reading is known no "
                "better, medians of "
                f"many readings sit on that lattice."
            )
        online = machine.machine.get("cpus_online")
        if isinstance(online, int) and online < 4:
            cpus = plural(online, "CPU")
            found.append(
                f"{machine.hostname} has {cpus}: kernel, instrument and load share {'it' if online == 1 else 'them'}."
            )
    names = [machine.hostname for machine in summary.machines if machine.platform == "host"]
    if len(names) > 1:
        found.append(f"The campaign ran on {len(names)} machines: differences between them are part of every figure.")
    # One machine may stand for several platforms.
    return list(dict.fromkeys(found))


def _loads(summary: Summary) -> list[str]:
    found = []
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
            found.append(
                f"The load {load.kind} runs {load.threads} threads on {cpus[0]} CPUs ({share} per CPU): a method that "
                "spins uses up its fair share "
                f"of the CPU and then waits for its turn."
            )
    return found
