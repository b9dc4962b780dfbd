"""What a reader must not conclude from a campaign: each limit in a few words for the answer, then in full."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vtare.sentences.words import are, listing, plural, were

if TYPE_CHECKING:
    from collections.abc import Sequence

    Limited = tuple[str, str]

NOTHING_COMPARED: Final = "There is no statement about differences: the plan compares no cells."
UNRECORDED: Final = "what limited it was not recorded"


def not_certain(limits: Sequence[str]) -> str:
    return f"Not certain: {'; '.join(limits)}."


def not_tested(open_ones: int, comparisons: int, reason: str | None) -> str:
    return f"Not certain: {open_ones} of {plural(comparisons, 'comparison')} could not be tested ({reason})."


def all_decided(comparisons: int) -> str:
    decided = "The comparison is" if comparisons == 1 else f"All {comparisons} comparisons are"
    return f"{decided} decided, for this machine while it was measured."


def flaw(amount: str, words: str, cells: str, remedy: str) -> Limited:
    where = f" in {cells}" if cells else ""
    return f"{amount} {words}{where}", f"{amount} {words}{where}: {remedy}."


def untrusted_figures(gone: int, cells: int, amount: str, words: str, remedy: str) -> str:
    which = "No figure here can" if gone == cells else f"The figures of {gone} of {cells} cells cannot"
    where = "in the worst cell, " if gone > 1 else ""
    return f"{which} be trusted: {where}{amount} {words}; {remedy}."


def bounds(count: int, cells: int, remedy: str) -> Limited:
    short = f"{count} of {plural(cells, 'cell')} {are(count)} known only as a bound"
    return short, (
        f"{short}: a limit of the plan or of the sender ended the runs. A bound is compared only where it decides "
        f"which is higher; {remedy}."
    )


def unreached(levels: Sequence[str], cells: int, span: str, why: str, remedy: str) -> Limited:
    short = f"{listing(levels)} {were(len(levels))} not reached in {plural(cells, 'cell')}"
    return f"{short} ({span})", (
        f"{short}: {span} {were(cells)} achieved; {why}. Such cells are compared with none: {remedy}."
    )


def unreached_rate(cells: int, span: str, why: str, remedy: str) -> Limited:
    return f"the rate asked for was not reached in {plural(cells, 'cell')} ({span})", (
        f"The rate asked for was not reached in {plural(cells, 'cell')}: {span} {were(cells)} achieved; {why}. Such "
        f"cells are compared with none: {remedy}."
    )


def too_few_runs(runs: int, least_blocks: int) -> Limited:
    return f"with {plural(runs, 'run')} per cell nothing can be concluded about differences", (
        f"With {plural(runs, 'run')} per cell nothing can be concluded about differences: the figures describe these "
        f"runs only. A comparison needs {least_blocks} blocks: plan at least 5."
    )


def rough_intervals(runs: int, sure_runs: int) -> Limited:
    return f"intervals over {runs} runs are rough", (
        f"{runs} runs per cell give rough intervals: take a verdict as a hint, and plan at least {sure_runs} blocks to "
        "rely on it."
    )


def emulated(platforms: Sequence[str]) -> Limited:
    short = f"{listing(platforms)} {are(len(platforms))} emulated in software (TCG)"
    return short, (
        f"{short}: their figures show that it works, not what a guest under KVM costs. Run the plan where /dev/kvm "
        "works."
    )


def untrusted_clock(hostname: str, reasons: Sequence[str]) -> Limited:
    return f"the clock of {hostname} was not trusted", f"The clock of {hostname} was not trusted: {listing(reasons)}."


def drift(blocks: Sequence[int]) -> Limited:
    place = f"{'blocks' if len(blocks) > 1 else 'block'} {listing(map(str, blocks))}"
    return f"the machine changed in {place}", (
        f"The control cell drifted in {place}: the machine changed while it was measured."
    )


def capped(cells: int, least: str) -> Limited:
    return f"a time limit ended runs of {plural(cells, 'cell')} early", (
        f"A time limit ended runs of {plural(cells, 'cell')} early: they completed {least} of the readings asked for "
        "and more. Their medians describe what was completed: they are compared by the share of the time spent late."
    )


def inconclusive(count: int, comparisons: int, margin_percent: float, needed: str) -> Limited:
    short = f"{count} of {plural(comparisons, 'comparison')} {are(count)} inconclusive"
    return f"{short}; {needed}", (
        f"{short}: neither shown to be higher or lower, all comparisons of a factor taken together, nor to lie inside "
        f"the margin of {margin_percent:g} %; {needed}."
    )


def never_decided(count: int, most_blocks: int, power: str) -> str:
    return f"a new campaign of {most_blocks} blocks would not decide {_them(count)} {power}"


def decided_by(known: int, count: int, blocks: str, power: str) -> str:
    which = _them(count) if known == count else f"{known} of them"
    return f"to decide {which}, a new campaign of about {blocks} blocks is needed {power}"


def _them(count: int) -> str:
    return "it" if count == 1 else "them"


def power(chance: float, margin_percent: float) -> str:
    return f"({100 * chance:g} % power for {margin_percent:g} %)"


def lost(here: int, of_here: int, level: str, there: int, of_there: int, baseline: str) -> str:
    return f"{here} of {of_here} at {level} against {there} of {of_there} at {baseline}"


def one_sided(comparisons: int, worst: str) -> Limited:
    return f"in {plural(comparisons, 'comparison')} one side lacks runs ({worst})", (
        f"In {plural(comparisons, 'comparison')} one side lacks runs ({worst}): if runs failed because they were slow, "
        "that side seems faster than it is. See why they failed, then repeat them with `vtare resume`."
    )


def failed(runs: int) -> Limited:
    short = f"{plural(runs, 'run')} failed or could not be used"
    return short, f"{short}, listed below with reasons."


def skipped(runs: int) -> Limited:
    short = f"{plural(runs, 'run')} {were(runs)} skipped"
    return short, f"{short}, listed below with reasons."


def pending(runs: int) -> Limited:
    short = f"{plural(runs, 'run')} of the plan {are(runs)} still pending"
    return short, f"{short}: make them with `vtare resume`."
