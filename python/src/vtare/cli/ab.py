"""`ab`: commands against each other."""

from __future__ import annotations

import secrets
import shlex
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from vtare.cli.forms import read_form, write_form
from vtare.cli.options import (
    FILE,
    Choice,
    Percentage,
    Time,
    Whole,
    hidden_binary_option,
    json_option,
    print_json,
    seed_option,
    stderr,
    stdout,
)
from vtare.cli.tree import command
from vtare.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.ab.designs import DesignWord
    from vtare.ab.figures import Figure
    from vtare.ab.verdict import FailLimit


_LATEST: Final = 1.05
"""The share of --max-time at which a run that still goes on is ended."""


@command("ab")
@click.argument("commands", nargs=-1, required=True, metavar="-- A -- B ...", help="The commands, with -- before each.")
@click.option(
    "--margin",
    type=Percentage(0.0, 100.0),
    show_default="5, or the smallest that --fail-if names",
    metavar="PERCENT",
    help="Ignore differences smaller than this.",
)
@click.option("--max-time", type=Time(above=True), default="60 s", metavar="TIME", help="Stop after this time.")
@click.option("--pairs", type=Whole(1), metavar="N", help="Stop after this many pairs.")
@click.option(
    "--metric",
    multiple=True,
    metavar="NAME=HOW",
    help="A figure that the commands print: a regular expression, json:PATH, or criterion, go, "
    "google-benchmark, hyperfine, iperf3, jmh, perf-stat, pyperf, pytest-benchmark, wrk; the first one is "
    "judged instead of wall time.",
)
@click.option(
    "--suite",
    metavar="HOW",
    help="Judge all benchmarks that the commands print, together: criterion, go, ... as for --metric. "
    "VTARE_OPEN has a filter for the open ones: 'go test -bench \"$VTARE_OPEN\"'.",
)
@click.option("--judge", metavar="NAME", help="What is judged: wall, cpu, peak, or one of --metric.")
@click.option("--more-is-better", is_flag=True, help="Of the figures of --metric whose unit does not state it.")
@click.option("--less-is-better", is_flag=True, help="Of the figures of --metric whose unit does not state it.")
@click.option(
    "--locale", metavar="NAME", help="How the commands print numbers: en 1,234.5, de 1.234,5, fr 1 234,5, ch 1'234.5."
)
@click.option(
    "--design",
    type=Choice(("duet", "interleaved", "sequential")),
    metavar="NAME",
    help="How to pair runs: duet (at once), interleaved (alternating) or sequential (default: the most precise here).",
)
@click.option("--self-test", is_flag=True, help="Compare the first command with itself: what can this machine resolve?")
@click.option(
    "--fail-if", multiple=True, metavar="LIMIT", help="Exit with 1 where this is shown: 'slower by 5 %'; repeatable."
)
@click.option("--base", metavar="REF", help="Compare one command at this commit of git with the working directory.")
@click.option("--build", metavar="COMMAND", help="With --base: what to run on both sides first.")
@click.option(
    "--against",
    type=FILE,
    metavar="FILE",
    help="Compare one command with its runs of an earlier time (--write json=FILE), on the same machine only.",
)
@click.option(
    "--timeout", type=Time(above=True), default="10 min", metavar="TIME", help="The longest run of a command."
)
@click.option("--ignore-failure", is_flag=True, help="Ignore non-zero exit codes.")
@seed_option
@click.option(
    "--write",
    multiple=True,
    metavar="FORM=FILE",
    help="Keep it there as html (a report), json, md, junit, github (annotations), bencher or "
    "benchmark-action; repeatable; github=- prints them.",
)
@json_option
@click.option("--verbose", "-v", is_flag=True, help="Show every figure, the design and the noise.")
@hidden_binary_option
def ab(
    commands: tuple[str, ...],
    margin: float | None,
    max_time: float,
    pairs: int | None,
    metric: tuple[str, ...],
    suite: str | None,
    judge: str | None,
    more_is_better: bool,
    less_is_better: bool,
    locale: str | None,
    design: DesignWord | None,
    self_test: bool,
    fail_if: tuple[str, ...],
    base: str | None,
    build: str | None,
    against: Path | None,
    timeout: float,
    ignore_failure: bool,
    seed: int | None,
    write: tuple[str, ...],
    as_json: bool,
    verbose: bool,
    binary: Path | None,
) -> None:
    """Carry out `ab`.

    Stops by itself once the answer is known.
    """
    begin = time.monotonic()
    import numpy as np

    from vtare.ab import compare as comparison
    from vtare.ab import floors
    from vtare.ab.base import at_base
    from vtare.ab.baseline import read_baseline
    from vtare.ab.commands import read_commands
    from vtare.ab.compare import ALPHA, SUITE_ALPHA, Asked
    from vtare.ab.designs import warm_up
    from vtare.ab.figures import Reader, read_metric, read_suite
    from vtare.ab.publish import FORMS
    from vtare.ab.suite import Budget, beside_each_other, settle
    from vtare.ab.trials import Trials
    from vtare.ab.verdict import Outcome, document, floor_of, margin_of, read_limit
    from vtare.campaign.binary import find_binary
    from vtare.sentences.ab import SUITE_ALTERNATES
    from vtare.terminal.ab import show_compared, shown_progress

    if against is not None and (self_test or metric or suite):
        raise BadInput("--against compares only what the system counts: leave out --self-test, --metric and --suite")
    if suite and judge:
        raise BadInput(f"--suite judges all benchmarks, --judge {judge} one figure: leave out one of them")
    if suite and design == "sequential":
        raise BadInput("--suite needs pairs, --design sequential makes none: leave out --design")
    if base is not None and (self_test or against):
        raise BadInput("--base names what one command is compared with: leave out --self-test and --against")
    if build is not None and base is None:
        raise BadInput("--build is for --base REF: add it, or build before")
    typed = [*commands, "--", *commands] if self_test and "--" not in commands else commands
    is_one = against is not None or base is not None
    if is_one and "--" not in commands and len(commands) > 1:
        # As behind `--` of the other commands that take one.
        typed = [shlex.join(commands)]
    listed = read_commands(typed, least=1 if is_one else 2)
    if is_one and len(listed) > 1:
        option, other = ("--against", "its baseline") if base is None else ("--base", "itself")
        raise BadInput(f"{option} compares one command with {other}, not {len(listed)}: name one")
    if self_test:
        listed = (listed[0], listed[0])
    if suite and len(listed) > 2:
        raise BadInput(f"--suite compares two commands, not {len(listed)}: leave out the others")
    files = [read_form(text, ("html", *FORMS), printed=not as_json) for text in write or ()]
    limits = tuple(read_limit(text) for text in fail_if or ())
    if more_is_better and less_is_better:
        raise BadInput("--more-is-better and --less-is-better contradict each other: use one of them")
    metrics = [read_metric(text, locale=locale) for text in metric or ()]
    reader = Reader(metrics, suite=read_suite(suite) if suite else None)
    prints = bool(metrics or suite)
    read = reader.read if prints else None
    asked = Asked(
        margin=margin_of(limits) if margin is None else margin / 100.0,
        most_s=max_time,
        most_pairs=pairs,
        design="interleaved" if suite and design is None else design,
        limits=limits,
        alpha=SUITE_ALPHA if suite else ALPHA,
        asks_margin=margin is not None or not limits or not all(limit.share for limit in limits),
    )
    drawn = secrets.randbits(32) if seed is None else seed
    with (
        shown_progress(stderr()) as show,
        at_base(base, build, listed[0], show) if base is not None else nullcontext(listed) as listed,
        Trials(find_binary(binary), most_s=timeout, ignores_failure=ignore_failure, read=read) as trials,
    ):
        # Checking out and building take none of its time.
        begin = begin if base is None else time.monotonic()
        trials.until = begin + _LATEST * max_time
        before = None if against is None else read_baseline(against, trials.machine)
        if not prints:
            # Known without a run: a limit that can never be crossed is refused before one.
            figures = _figures(judge, (), limits)
        budget = Budget(suite or "")
        first = warm_up(trials, budget.commands(listed), show)
        if prints:
            direction = True if more_is_better else False if less_is_better else None
            figures = _figures(judge, reader.figures(more_is_better=direction), limits)
        judged = reader.suite(figures)
        if suite and not judged:
            raise BadInput(
                f"--suite {suite}: the commands have no benchmark in common: {', '.join(reader.absent()[:5])}"
            )
        for figure in judged:
            for limit in limits:
                limit.check(figure)
        if before is None:
            rng = np.random.default_rng(drawn)
            others = [one for one in figures if one not in judged]
            if suite:
                budget.keep([one.name for one in judged], rng)
                judged = beside_each_other(judged, first[0], budget.references)
            compared = comparison.compare(
                trials, listed, [*judged, *others], asked,
                rng=rng, show=show, first=first, begin=begin, judged=max(1, len(judged)),
                budget=budget,
            )  # fmt: skip
            settle(judged)
            if suite:
                chosen = compared.chosen if design else replace(compared.chosen, why=SUITE_ALTERNATES)
                compared = replace(compared, chosen=chosen, absent=tuple(reader.absent()))
        else:
            compared = comparison.against(trials, *before, listed[0], figures, asked, show=show)
    if (floor := floor_of(compared)) is not None and not suite:
        floors.remember(trials.machine, floor)
    compared = replace(compared, usual=floors.remembered(trials.machine))
    outcome = Outcome(compared, drawn, trials.machine, limits)
    if as_json:
        print_json(document(outcome))
    else:
        show_compared(stdout(), compared, verbose=verbose)
    for form, file in files:
        if form == "html":
            from vtare.ab.page import compared_page

            text = compared_page(outcome)
        else:
            text = FORMS[form](outcome)
        write_form(file, text)
    crossed = [limit.text for limit in limits if limit.crossed(compared.primary)]
    if compared.stopped == "interrupted":
        raise click.exceptions.Exit(130)
    if crossed:
        stderr().print(f"--fail-if: {', '.join(crossed)}")
        raise click.exceptions.Exit(1)


def _figures(judge: str | None, printed: Sequence[Figure], limits: Sequence[FailLimit]) -> list[Figure]:
    """All figures, the one that is judged in front; it must be one that the limits can be about."""
    from vtare.ab.figures import judged_first

    figures = judged_first(judge, printed)
    for limit in limits:
        limit.check(figures[0])
    return figures
