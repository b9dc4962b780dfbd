"""How the figures of a report were made: the list at its end, and the paragraph for a paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vtare.sentences.words import listing, plural, were

if TYPE_CHECKING:
    from collections.abc import Sequence

UNIT_OF_INFERENCE: Final = (
    "Unit of inference: the run, a fresh start of the instrument. Readings inside a run follow each other and are "
    "never counted as independent."
)
FEW_LEVELS: Final = (
    "The exact method knows only a few levels: with 3, 4 and 5 runs 75, 87.5 and 93.75 %, from 6 on at least 95 %."
)
QUANTILES: Final = (
    "Quantiles: Hyndman-Fan type 7. p99 needs 299 readings in a run, p99.9 needs 2995; below that they are not "
    "estimable and shown as n/a. Half IQR is half the interquartile range (some papers call it MAD)."
)
PAPER_UNIT: Final = (
    "The unit of inference is the run, a fresh start of the instrument; figures are medians over runs with intervals "
    "by exact order statistics."
)
RULE_HAS_NOT_STOPPED: Final = "The rule has not stopped this campaign."
NO_INTERVAL: Final = "no interval (too few runs)"
#: How intervals and comparisons are named.
INTERVALS: Final = {"order statistics": "exact order statistics (sign test)"}
COMPARED_BY: Final = {
    "paired t": "Student's t of the differences inside blocks, on logarithms of run figures",
    "welch t": "Welch's t on logarithms of run figures, where cells stand in different blocks",
}
PATHS: Final = (
    "Paths: latency under load is computed from the cross traffic that short trains saw, at 50, 90 and 110 % of what "
    "it leaves free; the buffer is what a burst fills, the worst case and not what TCP makes of it "
    "(docs/methods/path.md)."
)
THROUGHPUT: Final = (
    "Throughput: one process sends on one port and counts on another, with one clock; between them stand a bridge, the "
    "guests, and a bridge. Each flow carries the hardware address of its guest. Searches are MLRsearch (RFC 9971) or "
    "binary (RFC 2544); a run's figure is the median of its searches. A trial in which the generator was off its rate "
    "by more than 0.5 %, stalled, or others used the CPUs is void and made again (docs/methods/throughput.md)."
)
#: Where sender and responder are.
IN_NAMESPACES: Final = (
    "two namespaces on this machine stand for the servers of sender and responder, each with its bridge and a link "
    "between"
)
ON_NAMED_HOSTS: Final = "sender and responder are the machines that the plan names (docs/guide/hosts.md)"
IN_A_MESH: Final = "sender and responder are the two hosts of a pair of the fleet (docs/guide/fleet.md)"


def round_trips(where: str) -> str:
    return (
        f"Round trips: {where}; every run starts instances and responder anew. Lost packets are counted and are no "
        "readings. Pieces: requests and replies are captured on both host sides and joined by session and sequence "
        "number; each piece is a median of paired differences on one clock (docs/guide/overhead.md). The wire's two "
        "ways alone need a common one: they are known to within the bound beside them."
    )


def available_bandwidth(others: str) -> str:
    return (
        "Available bandwidth: sender, router and receiver are namespaces of this machine, the bottleneck is on the "
        "router's egress. Truth of an estimate: what the link could carry less the cross traffic that came to it, "
        "counted in the kernel inside the estimate's own window (else between its first step and its answer), in bit/s "
        "of IP packets; where nobody counted, its rate less what the source sent. Error: estimate less truth, over "
        f"truth. Lower bounds count as answers; {others} of a core of other work, packets that the emulator let go "
        "late and packets missed by the sink mark an estimate as disturbed; it stays in all figures "
        "(docs/methods/avb-lab.md)."
    )


def design(blocks: int, seed: int, whole_plots: Sequence[str], done: int, runs: int) -> str:
    groups = (
        f"runs with the same {listing(whole_plots)} stand together (a whole plot), these groups in random order too, "
        "and the error of what is compared between them is that of whole plots; "
    )
    return (
        f"Design: {plural(blocks, 'randomised complete block')}, each a pass over all cells in a fresh random order "
        f"from seed {seed}; {groups if whole_plots else ''}{done} of {plural(runs, 'run')} finished."
    )


def experiment(title: str, instrument: str, factors: Sequence[str], fixed: str) -> str:
    held = f"; held fixed: {fixed}" if fixed else ""
    return f"{title}: instrument {instrument}, {'; '.join(factors) or 'no factors'}{held}."


def levels_of(factor: str, levels: Sequence[str]) -> str:
    return f"{factor}: {', '.join(levels)}"


def pairs_of_hosts(pairs: int) -> str:
    return f"{pairs} pairs of hosts, in rounds in which no host is used twice"


def stopping(first: int, precision_percent: float, blocks: int) -> str:
    return (
        f"Stopping: between blocks, from block {first} on, once the half-width of the interval of every ratio is "
        f"within {precision_percent:g} %, never by a p-value; {blocks} blocks at most."
    )


def stopping_alone(experiment: str, first: int, precision_percent: float, blocks: int | None, seconds: float) -> str:
    return (
        f"Stopping: between blocks, from block {first} on, once the half-width of the interval of every ratio of "
        f"{experiment}, which alone went on, is within {precision_percent:g} %, never by a p-value; {blocks} more "
        f"blocks or {seconds:g} s at most."
    )


def stopped(block: int, reason: str) -> str:
    return f"Stopped after block {block}: {reason}."


def intervals(levels: str, methods: Sequence[str]) -> str:
    return f"Intervals of medians ({levels}): over run medians, by {listing(methods)}; none below 3 runs."


def comparisons(compared_by: str, margin_percent: float, alpha: float) -> str:
    return (
        f"Comparisons: ratio and difference of geometric means of run figures with {compared_by}, Cliff's delta beside "
        "them; p-values adjusted by Holm over all comparisons of a factor. Verdict: equivalent when the interval of "
        f"the ratio lies inside the margin of {margin_percent:g} %, higher or lower when the adjusted p is at most "
        f"{alpha:g} (the interval, adjusted likewise, then leaves out 1), else inconclusive; the verdict's tip names "
        "the reason. Degrees of freedom: blocks less 1 where paired, Welch's where not."
    )


def tests(names: Sequence[str], adjustments: Sequence[str]) -> str:
    return f"Tests: {listing(names)} on figures of runs, p-values adjusted inside each family ({listing(adjustments)})."


def refused_tests(count: int) -> str:
    return f"{plural(count, 'test')} {were(count)} refused, with the reason in the table."


def control(instrument: str) -> str:
    return (
        f"Control: an idle {instrument} run on the bare host opens, centres and closes each block; a block whose "
        "control lies further than 3 times its typical half interquartile range from the median of all controls is "
        "flagged."
    )


def measured_with(versions: Sequence[str], plan: str, seed: int, runs: int, blocks: int, where: str) -> str:
    return (
        f"Measured with vtare {', '.join(versions) or 'unknown'} (plan {plan}, seed {seed}): {plural(runs, 'run')} in "
        f"{plural(blocks, 'randomised complete block')}{f' on {where}' if where else ''}."
    )


def paper_comparisons(compared_by: str, alpha: float, margin_percent: float) -> str:
    return (
        f"Comparisons are ratios of geometric means with {compared_by}; p-values and intervals are adjusted by Holm "
        f"over all comparisons of a factor (alpha {alpha:g}, margin of equivalence {margin_percent:g} %)."
    )
