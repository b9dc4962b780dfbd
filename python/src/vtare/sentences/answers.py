"""The answers of a report: what the first screen and the sections of experiments state of each instrument."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vtare.sentences.template import FigureText, Sentence, fill, joined
from vtare.sentences.words import are, listing, plural

if TYPE_CHECKING:
    from collections.abc import Sequence

NO_RUN_FINISHED: Final = "No run finished, so there is no figure."
HERE: Final = "Here"
IDLE: Final = "On the idle machine"
DISK_AND_NETWORK: Final = "Under the disk and network load"
FILE_SERVICE: Final = "Under the load on a file service outside"
OF_ONE_RUN: Final = "Each figure is that of one run, without an interval."


def busy(threads: int) -> str:
    return f"With {threads} busy threads"


def under(load: str) -> str:
    return f"Under the load {load}"


def titled(title: str, sentence: Sentence) -> Sentence:
    return fill("{title}: {sentence}", title=title, sentence=sentence)


def several(sentences: Sequence[Sentence]) -> Sentence:
    """Sentences that stand together, as one."""
    return joined([one for one in sentences if one], " ")


def without_intervals(most_runs: int) -> str:
    return f"Medians of {most_runs} runs at most, without intervals."


def medians_over(least_runs: int, most_runs: int, levels: str) -> str:
    span = plural(least_runs, "run") if least_runs == most_runs else f"{least_runs} to {most_runs} runs"
    return f"Medians over {span}; in brackets their {levels} intervals over runs."


def same_in_all_runs(step: str) -> str:
    return f"What is the same in all runs is known to the clock's step{f' of {step}' if step else ''}."


def median_is(load: str, figure: str, value: FigureText, of: str) -> Sentence:
    return fill("{load}, the median {figure} is {value}{of}.", load=load, figure=figure, value=value, of=of)


# Two ways side by side.


def with_way(figure: Sentence, way: str) -> Sentence:
    return fill("{figure} with {way}", figure=figure, way=way)


def ways(parts: Sequence[Sentence]) -> Sentence:
    return joined(parts, " and ")


def of_its_time(share: FigureText) -> Sentence:
    return (share, " of its time")


def completed(name: str, share: str, counts: str) -> str:
    return f"Of the sleeps asked for, {name} completed {share} ({counts})."


def some_completed(load: str, completions: Sequence[str]) -> Sentence:
    return (f"{load}, a time limit ended runs early: of the sleeps asked for, {listing(completions)}.",)


def one_completed(name: str, share: str, counts: str) -> str:
    return f"{name} completed {share} ({counts})"


def elsewhere(differing: Sequence[Sentence], alike: Sequence[str]) -> Sentence:
    others: list[Sentence] = [joined(differing)] if differing else []
    return fill("Elsewhere: {levels}.", levels=joined([*others, *((one,) for one in alike)], "; "))


def times_as_long(level: str, ratio: FigureText) -> Sentence:
    return fill("{level} {ratio}", level=level, ratio=ratio)


def times_as_late(level: str, ratio: FigureText) -> Sentence:
    return fill("{level} {ratio} as much time late", level=level, ratio=ratio)


def equivalent(levels: Sequence[str], margin_percent: float) -> str:
    return f"{listing(levels)} equivalent within {margin_percent:g} %"


def inconclusive(levels: Sequence[str]) -> str:
    return f"{listing(levels)} inconclusive"


def least_miss(load: str, best: str, miss: FigureText) -> Sentence:
    return fill("{load}, the least miss is that of {best}: it ends {miss}.", load=load, best=best, miss=miss)


def least_cost(load: str, best: str, cost: FigureText) -> Sentence:
    return fill("{load}, the least cost is that of {best}: it costs {cost}.", load=load, best=best, cost=cost)


def least_time_late(load: str, best: str, late: FigureText) -> Sentence:
    return fill("{load}, the least time late is that of {best}: {late}.", load=load, best=best, late=late)


def ties(others: Sequence[str]) -> Sentence:
    return (f"Its interval meets that of {listing(others)}.",) if others else ()


def best_without_load_ends(load: str, name: str, miss: FigureText) -> Sentence:
    return fill("{load}, {name}, the best without load, ends {miss}.", load=load, name=name, miss=miss)


def best_without_load_costs(load: str, name: str, cost: FigureText) -> Sentence:
    return fill("{load}, {name}, the best without load, costs {cost}.", load=load, name=name, cost=cost)


# Clocks.


def clock_cost(load: str, costs: Sentence) -> Sentence:
    return fill("{load}, one reading of the clock costs {costs}.", load=load, costs=costs)


def clock_cost_of(where: str, costs: Sentence) -> Sentence:
    return fill("One reading of the clock{where} costs {costs}.", where=where, costs=costs)


def load_changes_most(name: str, load: str, ratio: FigureText) -> Sentence:
    return fill("Load changes that, most for {name} under {load}: {ratio}.", name=name, load=load, ratio=ratio)


def no_load_changes(margin_percent: float) -> Sentence:
    return (f"No load changes that by more than {margin_percent:g} %.",)


LOAD_CHANGE_UNKNOWN: Final[Sentence] = ("The data do not show that load changes that.",)


def some_load_changes(margin_percent: float, same: int, comparisons: int) -> Sentence:
    rest = comparisons - same
    return (
        f"Load changes that by less than {margin_percent:g} % in {same} of {plural(comparisons, 'comparison')}, {rest} "
        f"{are(rest)} inconclusive.",
    )


# Sleeps.


def sleep_ends(load: str, target: str, misses: Sentence) -> Sentence:
    return fill("{load}, a sleep{target} ends {misses}.", load=load, target=target, misses=misses)


def sleep_is_late(load: str, target: str, shares: Sentence) -> Sentence:
    return fill("{load}, a sleep{target} is late for {shares}.", load=load, target=target, shares=shares)


def any_sleep_ends(target: str, misses: Sentence) -> Sentence:
    return fill("A sleep{target} ends {misses}.", target=target, misses=misses)


def any_sleep_is_late(target: str, shares: Sentence) -> Sentence:
    return fill("A sleep{target} is late for {shares}.", target=target, shares=shares)


def it_ends(load: str, misses: Sentence) -> Sentence:
    return fill("{load}, it ends {misses}.", load=load, misses=misses)


def it_is_late(load: str, shares: Sentence) -> Sentence:
    return fill("{load}, it is late for {shares}.", load=load, shares=shares)


def p99_ratio(ratio: FigureText, baseline: str, *, sure: bool) -> Sentence:
    doubt = "" if sure else ", inconclusive"
    return fill("Its p99 is {ratio} that of {baseline}{doubt}.", ratio=ratio, baseline=baseline, doubt=doubt)


def late_by_1ms(share: FigureText, with_p99: int, runs: int) -> Sentence:
    return fill(
        "It is more than 1 ms late in {share} of sleeps ({with_p99} of {runs} runs have a p99).",
        share=share, with_p99=with_p99, runs=runs,
    )  # fmt: skip


def late_by_1ms_against(share: FigureText, there: FigureText, baseline: str, with_p99: int, runs: int) -> Sentence:
    return fill(
        "It is more than 1 ms late in {share} of sleeps, {there} with {baseline} ({with_p99} of {runs} runs have a "
        "p99).",
        share=share, there=there, baseline=baseline, with_p99=with_p99, runs=runs,
    )  # fmt: skip


def differs(base: str) -> Sentence:
    return (f"That differs from {base}.",)


def both_differ(base: str) -> Sentence:
    return (f"Both differ from {base}.",)


def equals(base: str, margin: str) -> Sentence:
    return (f"That equals {base} within {margin}.",)


def both_equal(base: str, margin: str) -> Sentence:
    return (f"Both equal {base} within {margin}.",)


def no_difference_shown(base: str) -> Sentence:
    return (f"The data do not show a difference from {base}.",)


def against(base: str, first: str, first_is: str, second: str, second_is: str) -> Sentence:
    return (f"Compared with {base}, {first} {first_is} and {second} {second_is}.",)


DIFFERS: Final = "differs"
IS_EQUAL: Final = "is equal"
NOT_SIGNIFICANT: Final = "has no significant difference"

# Time taken from a spinning thread.


def time_lost(load: str, share: FigureText, cpu: str, cpus: int) -> Sentence:
    most = f", the most of {cpus} CPUs" if cpus > 1 else ""
    return fill(
        "{load}, a spinning thread loses {share} of its time on CPU {cpu}{most}.",
        load=load, share=share, cpu=cpu, most=most,
    )  # fmt: skip


def more_time_lost(load: str, share: FigureText, cpu: str) -> Sentence:
    return fill("{load}, it loses {share} on CPU {cpu}.", load=load, share=share, cpu=cpu)


# What a path is worth.


def added_latency(added: FigureText, where: str) -> Sentence:
    return fill("Using more than is free lengthens a round trip by {added} ({where}).", added=added, where=where)


def added_latencies(least: FigureText, where_least: str, most: FigureText, where_most: str) -> Sentence:
    return fill(
        "Using more than is free lengthens a round trip by {least} ({where_least}) to {most} ({where_most}).",
        least=least, where_least=where_least, most=most, where_most=where_most,
    )  # fmt: skip


def free_and_buffer(where: str, free: FigureText, buffer: FigureText) -> Sentence:
    return fill("{where}: free {free}, buffer {buffer}.", where=where, free=free, buffer=buffer)


# Round trips.


def round_trip(load: str, times: Sequence[Sentence]) -> Sentence:
    return fill("{load}, a round trip takes {times}.", load=load, times=joined(times, last=" and "))


def round_trip_of(where: str, times: Sequence[Sentence]) -> Sentence:
    return fill("A round trip{where} takes {times}.", where=where, times=joined(times, last=" and "))


def with_captures(times: Sequence[Sentence]) -> Sentence:
    return fill("With captures on both hosts it takes {times}.", times=joined(times, last=" and "))


def sender_layer(times: Sequence[Sentence]) -> Sentence:
    return fill("Of this, the layer at the sender takes {times}.", times=joined(times, last=" and "))


def share_or_time(share: FigureText, time: FigureText, of: str) -> Sentence:
    return fill("{share} or {time}{of}", share=share, time=time, of=of)


def none_lost(sent: FigureText) -> Sentence:
    return fill("None of {sent} packets was lost.", sent=sent)


def packets_lost(lost: FigureText, sent: str) -> Sentence:
    return fill("{lost} of {sent} packets were lost.", lost=lost, sent=sent)


def packets_lost_most_at(lost: FigureText, sent: str, place: str, share: FigureText) -> Sentence:
    return fill(
        "{lost} of {sent} packets were lost, most at {place} ({share}).",
        lost=lost, sent=sent, place=place, share=share,
    )  # fmt: skip


# Throughput.


def guests_pass(rate: FigureText, where: str) -> Sentence:
    return fill("The guests pass {rate}{where}.", rate=rate, where=f" ({where})" if where else "")


def guests_pass_between(least: FigureText, where_least: str, most: FigureText, where_most: str) -> Sentence:
    return fill(
        "The guests pass from {least} ({where_least}) to {most} ({where_most}).",
        least=least, where_least=where_least, most=most, where_most=where_most,
    )  # fmt: skip


def evenness(jain: float, rate: FigureText, even_jain: float, even_rate: FigureText) -> Sentence:
    return fill(
        "The least even load (J {jain}) passes {rate} and the most even one (J {even_jain}) {even_rate}.",
        jain=f"{jain:.2f}", rate=rate, even_jain=f"{even_jain:.2f}", even_rate=even_rate,
    )  # fmt: skip


def evenness_at(where: str, jain: float, rate: FigureText, even_jain: float, even_rate: FigureText) -> Sentence:
    return fill(
        "With {where}, the least even load (J {jain}) passes {rate} and the most even one (J {even_jain}) {even_rate}.",
        where=where, jain=f"{jain:.2f}", rate=rate, even_jain=f"{even_jain:.2f}", even_rate=even_rate,
    )  # fmt: skip


def frame_takes(time: FigureText) -> Sentence:
    return fill("At that load a frame takes {time} (median).", time=time)


def frame_takes_between(least: FigureText, where_least: str, most: FigureText, where_most: str) -> Sentence:
    return fill(
        "At these loads a frame takes from {least} ({where_least}) to {most} ({where_most}; medians).",
        least=least, where_least=where_least, most=most, where_most=where_most,
    )  # fmt: skip


def trials(counted: int, void: int) -> Sentence:
    return (f"{plural(counted, 'trial')} counted, {void} were void and made again.",)


def disturbed_trials(count: int) -> Sentence:
    return (f"{count} counted under disturbed conditions, since they were no better when made again.",)


def bounded_runs(count: int) -> Sentence:
    return (f"{plural(count, 'run')} ended at what the generator or the plan allows: a lower bound.",)


# Available bandwidth.


def estimates(truth: FigureText, found: Sequence[Sentence]) -> Sentence:
    return fill("Where {truth} are available, {found}.", truth=truth, found=joined(found, last=" and "))


def estimates_at(where: str, truth: FigureText, found: Sequence[Sentence]) -> Sentence:
    return fill(
        "With {where}, where {truth} are available, {found}.",
        where=where, truth=truth, found=joined(found, last=" and "),
    )  # fmt: skip


def finds(method: str, rate: FigureText) -> Sentence:
    return fill("{method} finds {rate}", method=method, rate=rate)


def half_are_off(errors: Sequence[Sentence]) -> Sentence:
    return fill(
        "Over all paths half of the estimates are off by at most {errors}.", errors=joined(errors, last=" and ")
    )


def error_with(error: FigureText, method: str, count: int, bounds: int) -> Sentence:
    apart = f", beside {plural(bounds, 'lower bound')}" if bounds else ""
    return fill(
        "{error} with {method} ({count}{apart})",
        error=error, method=method, count=plural(count, "estimate"), apart=apart,
    )  # fmt: skip


def estimate_takes(costs: Sequence[Sentence]) -> Sentence:
    return fill("An estimate takes {costs}.", costs=joined(costs))


def cost_with(costs: Sequence[FigureText], method: str) -> Sentence:
    return fill("{costs} with {method}", costs=joined([(cost,) for cost in costs], " and "), method=method)


def off_by_timers(methods: Sequence[Sentence]) -> Sentence:
    return fill("{methods}.", methods=joined(methods, "; "))


def off_by(method: str, errors: Sequence[Sentence]) -> Sentence:
    return fill("{method} is off by {errors}", method=method, errors=joined(errors, " and "))


def with_timers(error: FigureText, timers: str) -> Sentence:
    return fill("{error} with {timers} timers", error=error, timers=timers)


def nothing_excluded(method: str, count: int) -> Sentence:
    return (f"No interval of {method} excludes anything ({plural(count, 'estimate')}).",)


def truth_held(method: str, held: FigureText, width: FigureText, open_ones: int) -> Sentence:
    apart = f", beside {plural(open_ones, 'interval')} that excluded nothing" if open_ones else ""
    return fill(
        "The interval of {method} held the truth in {held} estimates, at a median width of {width} of the "
        "capacity{apart}.",
        method=method, held=held, width=width, apart=apart,
    )  # fmt: skip


def unanswered(count: FigureText, why: str, method: str, of_method: int) -> Sentence:
    return fill(
        "{count} estimates gave no answer ({why}), most of them {method} ({of_method}).",
        count=count, why=why, method=method, of_method=of_method,
    )  # fmt: skip


# The counter function.


def variation_at(load: str, time: str, where: str, share: FigureText) -> Sentence:
    return fill(
        "{load}, a computation of {time}{where} varies by {share} (coefficient of variation).",
        load=load, time=time, where=where, share=share,
    )  # fmt: skip


def variation(time: str, where: str, share: FigureText) -> Sentence:
    return fill(
        "A computation of {time}{where} varies by {share} (coefficient of variation).",
        time=time, where=where, share=share,
    )  # fmt: skip


def variations(baseline: str, ratios: Sequence[Sentence]) -> Sentence:
    return fill("Against {baseline} it is {ratios}.", baseline=baseline, ratios=joined(ratios))


def ratio_with(ratio: FigureText, level: str) -> Sentence:
    return fill("{ratio} with {level}", ratio=ratio, level=level)


def too_few_ranks(sets: int) -> Sentence:
    return (f"That is too few for a test of ranks: {plural(sets, 'matched set')}.",)


def levels_differ(sets: int, p: str) -> Sentence:
    return (f"The levels differ (ranks of {plural(sets, 'matched set')}, {p}).",)


def levels_do_not_differ(sets: int, p: str) -> Sentence:
    return (f"The ranks do not show a difference between the levels ({plural(sets, 'matched set')}, {p}).",)


# A mesh of hosts.


def too_few_hosts(by: str, hosts: int) -> Sentence:
    return (f"By the {by}, {hosts} hosts are too few to look for clusters.",)


def one_cluster(by: str, hosts: int, margin_percent: float) -> Sentence:
    return (
        f"By the {by}, the {hosts} hosts are one cluster: they differ, but by less than the margin of "
        f"{margin_percent:g} %.",
    )


def no_cluster(by: str, hosts: int, p: str) -> Sentence:
    return (
        f"By the {by}, no cluster is named: noise explains how differently the {hosts} hosts see each other (p = {p}).",
    )


def clusters(by: str, hosts: int, groups: Sequence[str], within: FigureText | None, between: FigureText) -> Sentence:
    return fill(
        "By the {by}, the {hosts} hosts form {count} clusters: {groups}; it is {within}{between} between them.",
        by=by, hosts=hosts, count=len(groups), groups="; ".join(groups),
        within="" if within is None else (within, " within them and "), between=between,
    )  # fmt: skip


#: Of a pair: no finished run, a bound, or no answer.
NO_VALUE: Final = "no value"
NO_PAIR_TESTED: Final[Sentence] = ("No pair was looked at for being odd: there are too few of each kind.",)


def odd_pairs_unknown(blocks: int, needed: int) -> Sentence:
    return (
        f"No pair could be found odd with {plural(blocks, 'block')}: it takes {needed} or more, whatever was measured.",
    )


def no_odd_pair(pairs: int) -> Sentence:
    return (f"None of the {plural(pairs, 'pair')} tested is odd.",)


def odd_pairs(count: int, pairs: int, listed: Sequence[str]) -> Sentence:
    more = f", and {count - len(listed)} more" if count > len(listed) else ""
    return fill(
        "{count} of the {pairs} tested {are} odd, in brackets against the pairs of the same kind: {listed}{more}.",
        count=FigureText(str(count)), pairs=plural(pairs, "pair"), are=are(count), listed=listing(listed), more=more,
    )  # fmt: skip


def pairs_left_out(pairs: int, absent: int) -> str:
    return (
        f"Of {plural(pairs, 'pair')} up to {absent} have no value (no finished run, a bound, or no answer) and are "
        "left out."
    )
