"""What the commands share: options, the two streams of output, summaries of stores and the exit code that they give."""

from __future__ import annotations

import json
import logging
import os
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from vtare.errors import nearest
from vtare.terminal.logs import start_logging

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from vtare.summary import Summary

_LOG = logging.getLogger(__name__)


class Whole(click.ParamType[int]):
    """A whole number from `least` to `most`."""

    name = "integer"

    def __init__(self, least: int, most: int | None = None) -> None:
        """Take the bounds."""
        self._least, self._most = least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read it; what is refused is named with what is allowed."""
        try:
            number = int(value)
        except ValueError:
            number = self._least - 1
        if number < self._least or (self._most is not None and number > self._most):
            allowed = f"of {self._least} or more" if self._most is None else f"from {self._least} to {self._most}"
            self.fail(f"'{value}' is not a whole number {allowed}", param, ctx)
        return number


class Percentage(click.ParamType[float]):
    """A percentage, both bounds excluded; a `%` behind is allowed."""

    name = "percentage"

    def __init__(self, above: float, below: float) -> None:
        """Take the bounds."""
        self._above, self._below = above, below

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read it; what is refused is named with what is allowed."""
        try:
            number = float(str(value).removesuffix("%"))
        except ValueError:
            number = self._above
        if not self._above < number < self._below:
            self.fail(f"'{value}' is not a percentage above {self._above:g} and below {self._below:g}", param, ctx)
        return number


class Time(click.ParamType[float]):
    """A time in seconds, from `least` (or above it) to `most`; a bare number is one of seconds."""

    name = "time"

    def __init__(self, least: float = 0.0, most: float = 86_400.0, *, above: bool = False) -> None:
        """Take the bounds."""
        self._least, self._most, self._above = least, most, above

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read it with its unit."""
        from vtare.quantities import QuantityError, Unit, parse, unit_of

        plain = str(value).strip()
        text = f"{plain} s" if plain.replace(".", "", 1).isdigit() else plain
        try:
            seconds = float(parse(text, unit_of("seconds") or Unit("s", {})))
        except QuantityError as error:
            self.fail(str(error), param, ctx)
        if not self._least <= seconds <= self._most or (self._above and seconds == self._least):
            least = f"{'above ' if self._above else ''}{self._least:g} s"
            self.fail(f"'{plain}' is not a time from {least} to {self._most / 3600:g} h", param, ctx)
        return seconds


class Size(click.ParamType[int]):
    """A number of bytes above 0; a bare number is one of bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read it with its unit."""
        from vtare.quantities import QuantityError, Unit, parse, unit_of

        plain = str(value).strip()
        try:
            size = int(parse(f"{plain} B" if plain.isdigit() else plain, unit_of("memory_byte") or Unit("B", {})))
        except QuantityError as error:
            self.fail(str(error), param, ctx)
        if size < 1:
            self.fail(f"'{plain}' is not a size above 0 B", param, ctx)
        return size


class Choice(click.Choice[str]):
    """One of a few words; a misspelt one is told the nearest."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read it."""
        if value not in self.choices:
            near = nearest(value, self.choices)
            hint = f". Did you mean '{near}'?" if near else ""
            self.fail(f"'{value}' is not one of {', '.join(self.choices)}{hint}", param, ctx)
        return value


class Named(click.Path):
    """What a path on the command line names: a file or a directory. It need not exist."""

    def __init__(self, kind: str) -> None:
        """Take what shells complete."""
        super().__init__(path_type=Path)
        self.name = kind


class StorePlace(click.ParamType[Path]):
    """A store: a directory, or one on S3. See `vtare.campaign.objects.place_of`."""

    name = "store"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        """The directory of the store."""
        # Here, not above: most commands name no store.
        from vtare.campaign.objects import place_of

        return value if isinstance(value, Path) else place_of(value)


class Word(click.types.StringParamType):
    """A text of which shells know what it may be: a plan, an instrument, a fleet."""

    def __init__(self, kind: str) -> None:
        """Take what shells complete."""
        self.name = kind


FILE, DIRECTORY, STORE = Named("file"), Named("directory"), StorePlace()

plan_argument = click.argument(
    "plan", type=Word("plan"), metavar="PLAN", help="A plan file, or the name of a shipped plan."
)
store_argument = click.argument(
    "store", type=STORE, metavar="STORE", help="The directory a campaign left, or s3://BUCKET/NAME."
)
store_option = click.option(
    "--store",
    type=STORE,
    metavar="STORE",
    help="Where to keep it: a directory, or s3://BUCKET/NAME (default vtare-store/NAME).",
)
on_option = click.option(
    "--on",
    type=Word("fleet"),
    metavar="FLEET",
    help="A file of hosts; dask://HOST:PORT; slurm:NODES; or simulated:HOSTS[:FAULTS], a dry run.",
)
binary_option = click.option("--binary", type=FILE, metavar="FILE", help="The vtare binary that measures.")
#: Where measuring with another binary is no purpose: not shown.
hidden_binary_option = click.option("--binary", type=FILE, metavar="FILE", hidden=True)
seed_option = click.option(
    "--seed", type=Whole(0), metavar="N", help="Seed of the design (default: the plan's, else drawn)."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout, nothing else.")


def _start_verbose(context: click.Context, option: click.Parameter, wanted: bool) -> bool:
    if wanted:
        start_logging(verbose=True)
    return wanted


verbose_option = click.option(
    "--verbose",
    "-v",
    is_flag=True,
    callback=_start_verbose,
    help="Log each run and each tool that is called, on stderr.",
)


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
    from vtare.terminal.screen import Screen

    # NO_COLOR goes before the other (bixense.com/clicolors). By itself rich would still write bold and italic.
    forced = os.environ.get("CLICOLOR_FORCE", "0") not in ("", "0")
    colours: Literal["standard", "auto"] | None = "standard" if forced else "auto"
    if os.environ.get("NO_COLOR"):
        colours = None
    return Screen(stderr=stderr, highlight=False, markup=False, color_system=colours)


def write_page(out: Path, page: str, *, as_json: bool) -> None:
    """Write a page to send, and print where it is unless the output is JSON."""
    from vtare.report.write import write_whole

    write_whole(out, page)
    if not as_json:
        stdout().print(f"page: {out}", soft_wrap=True)


def print_json(document: Mapping[str, object]) -> None:
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
        raise click.exceptions.Exit(1)
