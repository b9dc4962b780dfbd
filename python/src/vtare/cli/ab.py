"""`ab`: commands against each other."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vtare.arguments import integer, percentage
from vtare.cli.options import BinaryOption, JsonOption, SeedOption, print_json, seconds_of, stderr, stdout
from vtare.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.ab.figures import Figure
    from vtare.ab.verdict import FailLimit


def ab(
    commands: Annotated[list[str], typer.Argument(metavar="-- A -- B ...", help="The commands, with -- before each.")],
    margin: Annotated[
        float,
        typer.Option(
            "--margin",
            parser=percentage("--margin", 0.0, 100.0),
            metavar="PERCENT",
            help="Ignore differences smaller than this.",
        ),
    ] = 2.0,
    max_time: Annotated[str, typer.Option("--max-time", metavar="TIME", help="Stop after this time.")] = "5 min",
    pairs: Annotated[
        int | None,
        typer.Option("--pairs", parser=integer("--pairs", 1), metavar="N", help="Stop after this many pairs."),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(
            "--metric",
            metavar="NAME=HOW",
            help="A figure that the commands print: a regular expression, json:PATH, or criterion, go, "
            "google-benchmark, hyperfine, iperf3, jmh, perf-stat, pyperf, pytest-benchmark, wrk; the first one is "
            "judged instead of wall time.",
        ),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option("--judge", metavar="NAME", help="What is judged: wall, cpu, peak, or one of --metric."),
    ] = None,
    more_is_better: Annotated[
        bool, typer.Option("--more-is-better", help="Of the figures of --metric whose unit does not state it.")
    ] = False,
    less_is_better: Annotated[
        bool, typer.Option("--less-is-better", help="Of the figures of --metric whose unit does not state it.")
    ] = False,
    locale: Annotated[
        str | None,
        typer.Option(
            "--locale",
            metavar="NAME",
            help="How the commands print numbers: en 1,234.5, de 1.234,5, fr 1 234,5, ch 1'234.5.",
        ),
    ] = None,
    design: Annotated[
        str | None,
        typer.Option(
            "--design",
            metavar="NAME",
            help="How to pair runs: duet (at once), interleaved (alternating) or sequential (default: the most "
            "precise here).",
        ),
    ] = None,
    self_test: Annotated[
        bool, typer.Option("--self-test", help="Compare the first command with itself: what can this machine resolve?")
    ] = False,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-if", metavar="LIMIT", help="Exit with 1 where this is shown: 'slower by 5 %'; repeatable."
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            metavar="FILE",
            help="Compare one command with its runs of an earlier time (--write json=FILE), on the same machine only.",
        ),
    ] = None,
    timeout: Annotated[str, typer.Option("--timeout", metavar="TIME", help="The longest run of a command.")] = "10 min",
    ignore_failure: Annotated[bool, typer.Option("--ignore-failure", help="Ignore non-zero exit codes.")] = False,
    seed: SeedOption = None,
    write: Annotated[
        list[str] | None,
        typer.Option(
            "--write",
            metavar="FORM=FILE",
            help="Keep it there as html (a report), json, md, junit, github (annotations), bencher or "
            "benchmark-action; repeatable; github=- prints them.",
        ),
    ] = None,
    as_json: JsonOption = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show every figure, the design and the noise.")
    ] = False,
    binary: BinaryOption = None,
) -> None:
    """Compare commands on a noisy machine: is B slower than A? Stops by itself once that is known."""
    import numpy as np

    from vtare.ab import compare as comparison
    from vtare.ab.baseline import read_baseline
    from vtare.ab.commands import read_commands
    from vtare.ab.compare import Asked
    from vtare.ab.designs import DESIGNS, warm_up
    from vtare.ab.figures import Reader, read_metric
    from vtare.ab.publish import FORMS
    from vtare.ab.trials import Trials
    from vtare.ab.verdict import Outcome, document, read_limit
    from vtare.campaign.binary import find_binary
    from vtare.process import write_whole
    from vtare.terminal.ab import show_compared, shown_progress

    if against is not None and (self_test or metric):
        raise BadInput("--against: found --self-test or --metric, expected neither: it compares what the system counts")
    typed = [*commands, "--", *commands] if self_test and "--" not in commands else commands
    listed = read_commands(typed, least=2 if against is None else 1)
    if against is not None and len(listed) > 1:
        raise BadInput(f"--against: found {len(listed)} commands, expected one")
    if self_test:
        listed = (listed[0], listed[0])
    wanted = next((name for name in DESIGNS if name == design), None)
    if design is not None and wanted is None:
        raise BadInput(f"--design: found '{design}', expected {', '.join(DESIGNS)}")
    files = [_form(text, printed=not as_json) for text in write or ()]
    limits = tuple(read_limit(text) for text in fail_if or ())
    if more_is_better and less_is_better:
        raise BadInput("found --more-is-better and --less-is-better. Give one of them")
    metrics = [read_metric(text, locale=locale) for text in metric or ()]
    reader = Reader(metrics)
    read = reader.read if metrics else None
    asked = Asked(
        margin=margin / 100.0,
        most_s=seconds_of("--max-time", max_time, above=True),
        most_pairs=pairs,
        design=wanted,
    )
    most_s = seconds_of("--timeout", timeout, above=True)
    drawn = secrets.randbits(32) if seed is None else seed
    with (
        Trials(find_binary(binary), most_s=most_s, ignores_failure=ignore_failure, read=read) as trials,
        shown_progress(stderr()) as show,
    ):
        before = None if against is None else read_baseline(against, trials.machine)
        if not metrics:
            # Known without a run: a limit that can never be crossed is refused before one.
            figures = _figures(judge, (), limits)
        first = warm_up(trials, listed, show)
        if metrics:
            direction = True if more_is_better else False if less_is_better else None
            figures = _figures(judge, reader.figures(more_is_better=direction), limits)
        if before is None:
            rng = np.random.default_rng(drawn)
            found = comparison.compare(trials, listed, figures, asked, rng=rng, show=show, first=first)
        else:
            found = comparison.against(trials, *before, listed[0], figures, asked, show=show)
    outcome = Outcome(found, drawn, trials.machine, limits)
    if as_json:
        print_json(document(outcome))
    else:
        show_compared(stdout(), found, verbose=verbose)
    for form, file in files:
        if form == "html":
            from vtare.ab.page import compared_page

            text = compared_page(outcome)
        else:
            text = FORMS[form](outcome)
        if file == "-":
            stdout().print(text, end="")
        else:
            write_whole(Path(file), text.encode())
    crossed = [limit.text for limit in limits if limit.crossed(found.primary)]
    if found.stopped == "interrupted":
        raise typer.Exit(130)
    if crossed:
        stderr().print(f"--fail-if: {', '.join(crossed)}")
        raise typer.Exit(1)


def _figures(judge: str | None, printed: Sequence[Figure], limits: Sequence[FailLimit]) -> list[Figure]:
    """All figures, the one that is judged in front; it must be one that the limits can be about."""
    from vtare.ab.figures import judged_first

    figures = judged_first(judge, printed)
    for limit in limits:
        limit.check(figures[0])
    return figures


def _form(text: str, *, printed: bool) -> tuple[str, str]:
    from vtare.ab.publish import FORMS

    form, _, file = text.partition("=")
    if form not in ("html", *FORMS) or not file:
        raise BadInput(f"--write: found '{text}', expected FORM=FILE with one of html, {', '.join(FORMS)}")
    if file == "-" and not printed:
        raise BadInput(f"--write: found '{text}' beside --json, expected a file: --json prints one document alone")
    place = Path(file).parent
    if file != "-" and (Path(file).is_dir() or not os.access(place, os.W_OK | os.X_OK)):
        found = "a directory" if Path(file).is_dir() else f"no directory {place} that can be written"
        raise BadInput(f"--write: '{text}': found {found}, expected a file in a directory that can be written")
    return form, file
