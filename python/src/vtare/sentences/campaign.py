"""What `vtare run`, `plan`, `status`, `verify`, `resume`, `clean` and `overhead` state of a campaign."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vtare.sentences.words import listing, plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# The end of a campaign.

NO_REPORT: Final = "No run was measured, so there is no report."


def ended(done: int, total: int, elapsed: str, others: Mapping[str, int]) -> str:
    extra = [f"{count} {word}" for word, count in others.items() if count]
    return ", ".join([f"{done} of {total} runs done in {elapsed}", *extra])


def stopped(block: int, reason: str) -> str:
    return f"stopped after block {block}: {reason}"


def see_why(store: str) -> str:
    return f"see why with: vtare status {store}; try them again with: vtare resume {store}"


def report(path: str) -> str:
    return f"report: {path}"


def time_is_over(experiment: str | None, seconds: float, reason: str) -> str:
    return f"the time to repeat {experiment} ({seconds:g} s) is over; {reason}"


def skipped(runs: int, reason: str) -> str:
    return f"skipped: {plural(runs, 'run')}: {reason}"


def more_reasons(count: int) -> str:
    return f"skipped for {plural(count, 'more reason')}"


# Its state.


def runs(total: int, listed: str) -> str:
    return f"{plural(total, 'run')}: {listed}."


def state(plan: str, store: str, total: int, listed: str) -> str:
    return f"{plan} in {store}: {plural(total, 'run')}: {listed}"


def stopped_of(block: int, blocks: int, reason: str) -> str:
    return f"stopped after block {block} of {blocks}: {reason}"


def skipped_alike(runs: int, block: int, first: str, reason: str) -> str:
    return f"skipped: {plural(runs, 'run')}, the first in block {block}: {first}: {reason}"


def run_state(status: str, block: int, run: str, attempts: int, reason: str | None) -> str:
    tries = f", tried {attempts} times" if attempts > 1 else ""
    return f"{status}: block {block}: {run}{tries}: {reason}"


def resume(store: str) -> str:
    return f"resume with: vtare resume {store}"


# Its check.

DAMAGED: Final = "The store is damaged."
SOUND: Final = "sound"
NOTHING_TO_REPAIR: Final = "nothing to repair"
JOURNAL_MADE: Final = "made the journal anew"


def all_whole(runs: int) -> str:
    return f"All {runs} runs are whole."


def finished_whole(left: int, runs: int) -> str:
    return f"All finished runs are whole; {left} of {runs} are not finished."


def checked(plan: str, store: str, runs: int, counts: Mapping[str, int], megabytes: float, elapsed: str) -> str:
    listed = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f"{plan} in {store}: {plural(runs, 'run')}: {listed} ({megabytes:.1f} MB checked in {elapsed})"


def stranger(name: str) -> str:
    return f"not of this campaign: runs/{name}"


def added(runs: int) -> str:
    return f"added {plural(runs, 'run')} to the journal"


def moved(runs: int, place: str) -> str:
    return f"moved {plural(runs, 'damaged run')} to {place}"


def taken_out(runs: int) -> str:
    return f"took {plural(runs, 'missing run')} out of the journal"


def removed_leftovers(count: int) -> str:
    return f"removed {plural(count, 'leftover')}"


def repaired(done: Sequence[str]) -> str:
    return f"repaired: {'; '.join(done)}"


def make_others(store: str) -> str:
    return f"make the other runs with: vtare resume {store}"


def repair(store: str) -> str:
    return f"repair with: vtare verify {store} --repair"


# What killed runs left.

NOTHING_LEFT: Final = "nothing was left behind"


def removed(what: str) -> str:
    return f"removed: {what}"


def kept(what: str, why: str | None) -> str:
    return f"kept: {what}: {why}"


# A plan.


def size(blocks: int, cells: int, controls: int, runs: int, time: str, samples: str, seed: int | None) -> str:
    with_controls = f" and {controls} control runs" if controls else ""
    seeded = "the seed is drawn at the start" if seed is None else f"seed {seed}"
    return (
        f"{plural(blocks, 'block')} of {plural(cells, 'cell')}{with_controls}: {plural(runs, 'run')}, about {time}, "
        f"at most {samples} of samples; {seeded}"
    )


def then_alone(experiment: str, precision_percent: float, blocks: int | None, time: str, runs: int) -> str:
    return (
        f"then {experiment} alone, until its ratios are known to {precision_percent:g} %, {blocks} more blocks, or "
        f"{time}: at most {runs} runs"
    )


def mesh(pairs: int, hosts: int, at_a_time: int | None, rounds: int, time: str) -> str:
    most = "" if at_a_time is None else f", {at_a_time} pairs at a time"
    return (
        f"mesh: {plural(pairs, 'pair')} of {hosts} hosts{most}; {plural(rounds, 'round')} a block, in none of which a "
        f"host is used twice; about {time} on them"
    )


def whole_plots(factors: Sequence[str]) -> str:
    return f"whole plots: runs with the same {listing(factors)} stand together in each block"


def hosts(count: int, roles: Mapping[str, int]) -> str:
    return f"{plural(count, 'host')}: {', '.join(f'{n} can be {role}' for role, n in roles.items())}"


def experiment(cells: int, runs: int, time: str) -> str:
    return f"  {plural(cells, 'cell')}, {plural(runs, 'run')}, about {time}"


FROM_BASELINE: Final = "  cells: the baseline, and those that differ from it in one factor"
HERE: Final = "here"
ON_PLAN_HOSTS: Final = "on the hosts of the plan, as far as is known without a connection"
ON_ANSWERING_HOSTS: Final = "on the hosts that answer"
ON_HOSTS: Final = "on the hosts"


def nothing_missing(where: str) -> str:
    return f"\nNothing is missing {where}."


def missing(where: str) -> str:
    return f"\nMissing {where}; these runs would be skipped:"


def lacking(runs: int, first: str, reason: str) -> str:
    return f"  {plural(runs, 'run')}, the first: {first}: {reason}"


# Its power.


def power(shift_percent: float, power: float, alpha: float) -> str:
    return (
        f"runs per cell that find a shift of {shift_percent:g} % with power {100 * power:g} % at alpha {alpha:g}, all "
        "comparisons of a factor taken together"
    )


def enough_answer(shift_percent: float, power: float, blocks: int, planned: int) -> str:
    enough = f"{plural(blocks, 'block')} {'is' if blocks == 1 else 'are'} enough"
    return f"To find a change of {shift_percent:g} % ({100 * power:g} % power), {enough}; the plan has {planned}."


def enough_unknown(shift_percent: float) -> str:
    return f"How many blocks find a change of {shift_percent:g} % is not known for every cell."


REPAIR: Final = "Remove what is damaged and note those runs as open:"
MAKE_OPEN_RUNS: Final = "Make the runs that are open:"
MAKE_FAILED_RUNS: Final = "Make the runs that failed again:"
NO_OVERHEAD: Final = "What the sender's virtualization adds is not known: no capture point bounds it."


def sender_adds(peer: str, time: str, share_percent: float | None) -> str:
    share = "" if share_percent is None else f", {share_percent:.3g} % of it"
    return f"{peer}: the sender's virtualization adds {time} to a round trip{share}."


def sender_unknown(peer: str) -> str:
    return f"{peer}: no capture point bounds what the sender's virtualization adds."


def planned(plan: str, runs: int, time: str) -> str:
    return f"{plan}: {plural(runs, 'run')} in about {time}."


# Notes on what was measured.

INTERRUPTED: Final = "A run was interrupted; what it had measured is kept."
UNSETTLED: Final = (
    "A run changed to its very end (MSER-5 and its halves): its figures are those of a machine not settled."
)
LEFT_OUT: Final = {"failed": "failed and are left out", "skipped": "were skipped and are left out"}


def no_device(loads: Sequence[str]) -> str:
    return (
        f"Not compared with papers, whose files were on a disk: {'; '.join(loads)}. Its files were in memory, or it "
        "does not state where they were."
    )


def load_on(load: str, platforms: Sequence[str]) -> str:
    return f"load {load} on {', '.join(platforms)}"


def untrusted_counter(why: str) -> str:
    return f"The CPU counter was not trusted: {why}"


def left_out(reason: str) -> str:
    return f"Left out: {reason}"


def kernels_differ(platform: str, kernels: Sequence[str]) -> str:
    return f"The kernels on platform {platform} differ between cells ({', '.join(kernels)}): so may figures."


def rebooted(boots: int) -> str:
    return f"The machine was started anew during the campaign: {boots} boots."


def control_drift(blocks: Sequence[int]) -> str:
    return f"The idle control drifted in block {', '.join(map(str, blocks))}: the machine was not steady then."


def runs_left_out(count: int, runs: int, why: str) -> str:
    return f"{count} of {runs} runs {why}."


def pending(count: int, runs: int) -> str:
    return f"{count} of {runs} runs have not been made yet."


# Round trips joined with captures.


def joined(peer: str, paired: int, received: int) -> str:
    return f"{peer}: {paired} of {received} round trips seen at every capture point"


def one_way_bound(bound: str) -> str:
    return f"wire there and back: within {bound}, as far as the clocks are compared"


def overhead(time: str, share_percent: float, relative_percent: float) -> str:
    return (
        f"overhead: {time}, {share_percent:.3g} % of the round trip inside, {relative_percent:.3g} % of the one at the "
        "host side"
    )


def lost(count: int, sent: int, places: Sequence[str]) -> str:
    where = f" ({', '.join(places)})" if places else ""
    return f"lost: {count} of {sent}{where}"


def not_captured(counts: Sequence[str]) -> str:
    return f"not captured: {', '.join(counts)}"


def negative(counts: Sequence[str]) -> str:
    return f"below 0, kept: {', '.join(counts)} (stamps are taken a little before or after a packet passes)"


def dropped(counts: Sequence[str]) -> str:
    return f"dropped by the captures: {', '.join(counts)}; packets may have been where they were not seen"
