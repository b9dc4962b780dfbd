"""What a reader of a report is to keep in mind: the campaign's size, its machine, its loads, and papers beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vtare.sentences.words import are, listing, plural, were

if TYPE_CHECKING:
    from collections.abc import Sequence

SHARED_CPUS: Final = (
    "Sender, responder and both servers share the CPUs of one machine: a wake-up on a busy CPU is part of every piece, "
    "and rates are those of all of them together."
)
EXTREMES: Final = (
    "Extremes (min, max) grow with the number of readings: compare them only between cells of equal length."
)
TIMER_HISTOGRAM: Final = (
    "Timer readings up to the plan's tail threshold are kept as a lossless histogram without their position; only the "
    "readings above it can be shown in the order they were taken."
)
OTHER_MACHINES: Final = "The papers measured other hardware and kernels: compare orders of magnitude; this is no test."
MAD: Final = "The paper's MAD is half the interquartile range."
NO_PRINTED_CURVE: Final = (
    "Batalla et al. plot throughput and latency by frame size and by J and print a few figures only: no curve of "
    "theirs can be drawn here."
)
OTHER_LOADS: Final = (
    "A printed latency belongs to loads that are not printed with it; here it is that at the throughput found."
)


def other_guests(platforms: Sequence[str]) -> str:
    return (
        "Their guests are KVM and Xen on a link of 1 Gbit/s before a hardware tester; the guests here are "
        f"{listing(platforms)}, and no link bounds the path. A rate beyond 1 Gbit/s contradicts nothing: theirs at "
        "1518 B is that of the link, a lower bound."
    )


def other_numbers(printed: int, guests: Sequence[int]) -> str:
    return (
        f"Their index is that of {printed} guests; this campaign has {listing(map(str, guests))}: equal shares of "
        "loaded guests compare, equal numbers do not."
    )


def families(count: int, main: int, claims: str, alpha: float) -> str:
    of_main = f", of which {main} {are(main)} main comparisons" if main else ""
    return (
        f"This report holds {plural(count, 'family', 'families')} of tests{of_main}. If nothing differed, about "
        f"{claims} of them would still claim a difference ({100 * alpha:g} % each). Rely on the main comparisons; take "
        "the rest as hints to test again."
    )


def nothing_found(runs: str, comparisons: int, chance: float) -> str:
    return (
        f"With {runs} and {plural(comparisons, 'comparison')} in a family no difference is found with {100 * chance:g} "
        "%."
    )


def difference_found(runs: str, comparisons: int, shift: str, of: str, chance: float) -> str:
    return (
        f"With {runs} and {plural(comparisons, 'comparison')} in a family a difference of {shift} standard deviations "
        f"of {of} is found with {100 * chance:g} %; smaller ones are mostly inconclusive. `vtare plan power STORE` "
        "computes how many blocks another campaign needs."
    )


def unfinished(runs: int) -> str:
    return (
        f"{plural(runs, 'run')} of the plan not made yet: intervals and p-values hold at the planned end, not where "
        "they are read after each block and the first difference ends the campaign (docs/methods/statistics.md). "
        "Column 'at every look' holds then; or stop on precision ([stop] in the plan)."
    )


def fragile(verdicts: int, named: Sequence[str], others: int) -> str:
    more = f" and {others} others" if others else ""
    which = f" (without {listing(named)}{more})" if named else ""
    return (
        f"{plural(verdicts, 'verdict')} {'changes' if verdicts == 1 else 'change'} when a single run or block is left "
        f"out{which}: marked in the table of comparisons, with the ratio by ranks in the tip."
    )


def two_kinds(cell: str, modes: str) -> str:
    return f"{cell}: {modes}."


def dependent_tail(name: str, mark: str, cells: int, needed: int) -> str:
    return (
        f"{name}{mark}: in {plural(cells, 'cell')} readings follow each other, and a run amounts to fewer than the "
        f"{needed} independent ones that {name} needs: the true {name} may be higher. Measure longer."
    )


def memory(seen: int, comparisons: int, most: str) -> str:
    return (
        f"In {seen} of {plural(comparisons, 'comparison')} each block resembles the one before (memory up to {most}; "
        "about 1 in 10 shows one by chance): their intervals are wider by what it costs. Longer pauses between blocks, "
        "or a campaign on another day, make blocks independent."
    )


def trend(drifting: int, comparisons: int) -> str:
    return (
        f"In {drifting} of {plural(comparisons, 'comparison')} the difference grows or shrinks from block to block: "
        "the ratio is that of this time, not a constant of the platform."
    )


def unverified(platform: str, reason: str) -> str:
    return f"The platform {platform} is unverified: {reason}."


def emulated(hostname: str) -> str:
    return f"{hostname} is emulated in software (TCG): its figures prove function, not performance."


def virtual_machine(hostname: str, hypervisor: str) -> str:
    return (
        f"{hostname} is a virtual machine ({hypervisor}): its figures hold for this guest on this host at this time, a "
        "neighbour can change them."
    )


def clock_steps(hostname: str, step: str) -> str:
    return (
        f"The clock of {hostname} moves in steps of {step}: a single reading is known no better, medians of many "
        "readings sit on that lattice."
    )


def few_cpus(hostname: str, cpus: int) -> str:
    return f"{hostname} has {plural(cpus, 'CPU')}: kernel, instrument and load share {'it' if cpus == 1 else 'them'}."


def many_machines(count: int) -> str:
    return f"The campaign ran on {count} machines: differences between them are part of every figure."


def crowded_cpus(load: str, threads: int, cpus: int, share: str) -> str:
    return (
        f"The load {load} runs {threads} threads on {cpus} CPUs ({share} per CPU): a method that spins uses up its "
        "fair share of the CPU and then waits for its turn."
    )


# Notes on estimates of available bandwidth, and on the pieces of round trips.


def no_estimate(count: int, total: int, reasons: str) -> str:
    return f"{count} of {plural(total, 'estimate')} gave no answer: {reasons}."


def bounds_only(count: int, total: int) -> str:
    return (
        f"{count} of {plural(total, 'answer')} {are(count)} lower bounds (at least X): the sender, or the method, "
        "could go no faster. They have no error, and are counted apart."
    )


def truth_unknown(count: int, total: int, reasons: str) -> str:
    return f"The truth of {count} of {plural(total, 'estimate')} is not known, so there is no error: {reasons}."


def not_counted(count: int, total: int) -> str:
    return (
        f"What the link carried was not counted for {count} of {plural(total, 'estimate')}: the truth is the shaper's "
        "rate less what the source of cross traffic reports as sent, which a busy machine may miss."
    )


def clocks_related(count: int, total: int, bound_us: float) -> str:
    return (
        f"The truth of {count} of {plural(total, 'estimate')} was counted on other machines than the sender: their "
        f"clocks are related to its clock within {bound_us:.3g} us."
    )


def disturbed_estimates(count: int, total: int, reasons: str) -> str:
    return f"{count} of {plural(total, 'estimate')} {were(count)} disturbed and stay in the figures: {reasons}."


def not_captured(count: int, total: int) -> str:
    return f"{count} of {plural(total, 'round trip')} {were(count)} missed by a capture point and are in no piece."


def capture_dropped(packets: int) -> str:
    return f"The capture points had no room for {plural(packets, 'packet')}: what they did not see may have been there."


def negative_pieces(count: int, total: int) -> str:
    return (
        f"{plural(count, 'piece')} of {plural(total, 'round trip')} {are(count)} below 0 (stamps are taken a little "
        "before or after a packet passes) and kept, so that the pieces add up."
    )
