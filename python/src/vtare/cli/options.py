"""What the commands share: options, the two streams of output, summaries of stores and the exit code that they give."""

from __future__ import annotations

import json
import logging
import os
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from vtare.arguments import integer
from vtare.errors import BadInput
from vtare.terminal.logs import start_logging

if TYPE_CHECKING:
    from rich.console import Console

    from vtare.summary import Summary

_LOG = logging.getLogger(__name__)


def place_of(text: str) -> Path:
    """The directory of a store that is named on the command line. See `vtare.campaign.objects.place_of`."""
    # Here, not above: most commands name no store.
    from vtare.campaign.objects import place_of

    return place_of(text)


PlanArgument = Annotated[str, typer.Argument(metavar="PLAN", help="A plan file, or the name of a shipped plan.")]
StoreArgument = Annotated[
    Path,
    typer.Argument(metavar="STORE", parser=place_of, help="The directory a campaign left, or s3://BUCKET/NAME."),
]
StoreOption = Annotated[
    Path | None,
    typer.Option(
        "--store",
        metavar="STORE",
        parser=place_of,
        help="Where to keep it: a directory, or s3://BUCKET/NAME (default vtare-store/NAME).",
    ),
]
BinaryOption = Annotated[Path | None, typer.Option("--binary", help="The vtare binary that measures.")]
SeedOption = Annotated[
    int | None,
    typer.Option(
        "--seed", parser=integer("--seed", 0), metavar="N", help="Seed of the design (default: the plan's, else drawn)."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, nothing else.")]


def _verbose(wanted: bool) -> bool:
    if wanted:
        start_logging(verbose=True)
    return wanted


VerboseOption = Annotated[
    bool,
    typer.Option("--verbose", "-v", callback=_verbose, help="Log each run and each tool that is called, on stderr."),
]
OutOption = Annotated[
    Path | None, typer.Option("--out", help="The file to write (default STORE/report.html, .md, .tex or .json).")
]


def fetch(store: Path, *, runs: bool = True) -> None:
    """Bring a store that is to be read here, and remove the keys that killed runs left in it."""
    from vtare.campaign.objects import fetch
    from vtare.campaign.store import forget_keys

    fetch(store, runs=runs)
    forget_keys(store)


@cache
def stdout() -> Console:
    """What results are printed on."""
    return _console()


@cache
def stderr() -> Console:
    """What progress is printed on."""
    return _console(stderr=True)


def _console(*, stderr: bool = False) -> Console:
    # Here, not above: help and a wrong option print nothing by it.
    from rich.console import Console

    # NO_COLOR goes before the other (bixense.com/clicolors). By itself rich would still write bold and italic.
    forced = os.environ.get("CLICOLOR_FORCE", "0") not in ("", "0")
    colours: Literal["standard", "auto"] | None = "standard" if forced else "auto"
    if os.environ.get("NO_COLOR"):
        colours = None
    return Console(stderr=stderr, highlight=False, markup=False, soft_wrap=True, color_system=colours)


def seconds_of(option: str, text: str, *, above: bool = False) -> float:
    """A time of the command line in s: 0 s (or above it) to 24 h; a bare number is one of seconds.

    Raises:
        BadInput: it is no time, or out of this range.
    """
    from vtare.quantities import QuantityError, Unit, parse, unit_of

    plain = text.strip()
    try:
        # A bare number is one of seconds.
        seconds = float(
            parse(f"{plain} s" if plain.replace(".", "", 1).isdigit() else plain, unit_of("seconds") or Unit("s", {}))
        )
    except QuantityError as error:
        raise BadInput(f"{option}: {error}") from error
    if not 0.0 <= seconds <= 86_400.0 or (above and seconds == 0.0):
        raise BadInput(f"{option}: found {text}, expected {'above ' if above else ''}0 s to 24 h")
    return seconds


def print_json(document: dict[str, Any]) -> None:
    """Print one document, and nothing else."""
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")


def summary_of(store: Path) -> Summary:
    """The summary of a store; where no run can be used, the reasons are reported first."""
    from vtare.summary import summarise

    fetch(store)
    summary = summarise(store)
    derived = summary.derived
    if derived is not None and derived.reason is not None:
        _LOG.warning(f"{store} cannot be written ({derived.reason}); files made from it are in {derived.directory}")
    if summary.runs.height == 0:
        for problem in summary.sample_set.problems:
            _LOG.warning(f"left out: {problem.reason}")
    return summary


def exit_with_problems(summary: Summary) -> None:
    """Name every run that could not be used, and end with 1 where there is one."""
    for problem in summary.sample_set.problems:
        _LOG.warning(f"left out: {problem.reason}")
    if summary.sample_set.problems:
        raise typer.Exit(1)
