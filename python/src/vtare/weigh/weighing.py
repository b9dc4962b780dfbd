"""A command on every platform here, beside the host, until each comparison is decided or the time is up."""

from __future__ import annotations

import shutil
import statistics
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vtare.ab.commands import Command
from vtare.ab.compare import Asked, AskedLimit, Compared, compare
from vtare.ab.trials import OutOfTime
from vtare.errors import BadInput, MachineCannot, PlatformFailed
from vtare.platforms.protocol import Resources
from vtare.platforms.rooted import BINARY
from vtare.process import ToolFailed
from vtare.sentences import ab as ab_wording
from vtare.sentences import weigh as wording
from vtare.weigh.card import Predicted, predict
from vtare.weigh.costs import prices as measure_prices
from vtare.weigh.costs import why
from vtare.weigh.density import Density, density
from vtare.weigh.group import Group
from vtare.weigh.launchers import LAUNCHERS
from vtare.weigh.layer import remove_leftovers
from vtare.weigh.runner import FIGURES, RefusedThere, WeighRunner, first_line
from vtare.weigh.server import ServedCommand, ServerRunner
from vtare.weigh.starts import Started, starts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np

    from vtare.ab.designs import Runner
    from vtare.ab.figures import Figure
    from vtare.ab.trials import Measured
    from vtare.weigh.card import CostCard
    from vtare.weigh.costs import Prices
    from vtare.weigh.image import Root
    from vtare.weigh.launchers import Launcher
    from vtare.weigh.why import Why

_COMPARED: Final = 0.75
_COMPARED_BESIDE_A_BURST: Final = 0.5
"""The share of the time after which the runs end: the rest is for entering and bursts, and then for the reasons."""
_COMPARED_BESIDE_DENSITY: Final = 0.4
_STARTED: Final = 0.85
_ALONE_RUNS: Final = 5
"""Runs on the host where nothing stands beside it."""


@dataclass(frozen=True, slots=True)
class Weighed:
    """The platforms against the host; None where the command ran on no other one.

    `absent` are platforms that do not work here, `refused` those on which the command does not run, with the reason.
    `apart`: where the clock inside is another one, so that the start is all that is not the command's own time.
    `why` it costs that: None where no platform is slower. `root` is what all had the files of: None: this machine.
    `started` is about instances that run, and many starts at once. `server`: what the command is, where it is
    one; `density`: how many instances of it fit. `predicted` from cards: None: there was none.
    """

    compared: Compared | None
    absent: dict[str, str]
    refused: dict[str, str]
    apart: frozenset[str]
    why: Why | None = None
    root: str | None = None
    started: Started = field(default_factory=Started)
    server: ServerRunner | None = None
    density: Density | None = None
    predicted: Predicted | None = None

    @property
    def figures(self) -> tuple[Figure, ...]:
        """What is compared."""
        return FIGURES if self.server is None else self.server.server.figures


def read_platforms(text: str | None) -> list[str]:
    """The platforms of `--on`, the host in front; without a text all that do not boot for each run.

    >>> read_platforms("gvisor,host"), read_platforms("host,host")
    (['host', 'gvisor'], ['host', 'host'])

    Raises:
        BadInput: one is none of those that are weighed.
    """
    if text is None:
        return [name for name, launcher in LAUNCHERS.items() if not launcher.IS_MACHINE]
    platforms = [word.strip() for word in text.split(",")]
    for platform in platforms:
        if platform not in LAUNCHERS:
            raise BadInput(f"--on: '{platform}' is no platform that weigh knows. Use {', '.join(LAUNCHERS)}")
    if "host" in platforms:
        platforms.remove("host")
    return ["host", *platforms]


def names_of(platforms: Sequence[str]) -> list[str]:
    """What each is called: the second host is `host (2)`.

    >>> names_of(["host", "host", "gvisor"])
    ['host', 'host (2)', 'gvisor']
    """
    counts = [platforms[: at + 1].count(platform) for at, platform in enumerate(platforms)]
    return [f"{one} ({count})" if count > 1 else one for one, count in zip(platforms, counts, strict=True)]


@dataclass(frozen=True, slots=True)
class OfCommand:
    """A limit of one command alone."""

    limit: AskedLimit
    command: int

    def edge(self, figure: Figure, command: int) -> float | None:
        """The limit's, of its command; None of every other."""
        return self.limit.edge(figure, command) if command == self.command else None


def weigh(
    command: Command,
    platforms: Sequence[str],
    asked: Asked,
    *,
    binary: Path,
    resources: Resources,
    timeout_s: float,
    rng: np.random.Generator,
    show: Callable[[str], None] = lambda text: None,
    limits: Sequence[tuple[str, AskedLimit]] = (),
    root: Root | None = None,
    burst: int | None = None,
    server: ServedCommand | None = None,
    cards: Sequence[CostCard] = (),
) -> Weighed:
    """Run the command on each platform in turn until each comparison of wall time with the host is decided.

    Of a server: of what is measured first of it. All have the files of `root`, else this machine's.
    With `limits` (of wall time, each of one platform) and without `asks_margin`: until they are. What was not measured
    is predicted from `cards`.

    Raises:
        BadInput: the command fails on the host, or leaves processes behind; or another program has the server's port.
        MachineCannot: no other platform works here, and there is no card.
    """
    begin = time.monotonic()
    inside = binary.resolve() if root is None else Path(BINARY)
    program = shutil.which(command.words[0]) if root is None else None
    words = [program or command.words[0], *command.words[1:]]
    refused: dict[str, str] = {}
    with _opened(platforms, binary, resources, root, show) as (launchers, groups, absent):
        if len(launchers) < 2 and not cards:
            raise MachineCannot(wording.no_platform(absent))
        runner = WeighRunner(
            binary, inside, words, launchers, groups, most_s=timeout_s, memory_byte=resources.memory_byte,
            environment=None if root is None else root.environment,
        )  # fmt: skip
        figures = FIGURES if server is None else server.figures
        served = None if server is None else ServerRunner(runner, server, words, binary)
        measuring = served or runner
        first = _warm_up(measuring, command, list(launchers), refused, show)
        runner.until = begin + 1.05 * asked.most_s
        limit_s = None if server is None else server.density_s
        share = _COMPARED if burst is None else _COMPARED_BESIDE_A_BURST
        if server is not None:
            share = 1.0 if limit_s is None else _COMPARED_BESIDE_DENSITY
        if served is not None:
            served.settle(list(first.values()), begin + share * asked.most_s - time.monotonic())
        before_reasons = replace(asked, most_s=share * asked.most_s)
        compared = None
        while compared is None and len(first) > 1:
            commands = [Command((name,), name) for name in first]
            names = list(first)
            of_commands = [OfCommand(limit, names.index(name)) for name, limit in limits if name in first]
            try:
                compared = compare(
                    measuring, commands, figures, replace(before_reasons, limits=tuple(of_commands)),
                    rng=rng, show=show, first=list(first.values()), begin=begin,
                )  # fmt: skip
            except RefusedThere as error:
                # It ran at first: without it, the others are compared anew.
                if error.name == "host":
                    raise BadInput(f"{command.text}: {error.reason}") from None
                refused[error.name] = first_line(error.reason)
                del first[error.name]
        reasons, started, dense, predicted = None, Started(), None, None
        if compared is not None and served is not None and limit_s is not None and compared.stopped != "interrupted":
            try:
                dense = density(served, list(first), limit_s, until=begin + asked.most_s, show=show)
            except KeyboardInterrupt:
                compared = replace(compared, stopped="interrupted")
        if compared is not None and server is None and compared.stopped != "interrupted":
            try:
                before_reasons = replace(asked, most_s=_STARTED * asked.most_s)
                started = starts(runner, list(first), before_reasons, burst=burst, begin=begin, rng=rng, show=show)
                if started.is_interrupted:
                    raise KeyboardInterrupt
                reasons = why(compared, runner, until=begin + asked.most_s, rng=rng, show=show)
            except KeyboardInterrupt:
                compared = replace(compared, stopped="interrupted")
        if cards and (compared is None or compared.stopped != "interrupted"):
            runner.until = begin + 1.05 * asked.most_s
            predicted = _predicted(cards, runner, list(first), compared, reasons, show)
        source = None if root is None else root.name
        return Weighed(
            compared, absent, refused, frozenset(runner.apart), reasons, source, started, served, dense, predicted
        )


def price(
    platforms: Sequence[str],
    *,
    binary: Path,
    timeout_s: float,
    most_s: float,
    rng: np.random.Generator,
    show: Callable[[str], None] = lambda text: None,
) -> tuple[Prices, dict[str, str]]:
    """Measure for a card what the kernel's services cost on each platform; and state why others are absent.

    Raises:
        MachineCannot: no other platform works here, or events cannot be counted.
    """
    until = time.monotonic() + most_s
    with _opened(platforms, binary, Resources(), None, show) as (launchers, groups, absent):
        if len(launchers) < 2:
            raise MachineCannot(wording.no_platform(absent))
        runner = WeighRunner(binary, binary.resolve(), [], launchers, groups, most_s=timeout_s)
        prices = measure_prices(runner, list(launchers), until=until, rng=rng, show=show)
    if not prices.costs:
        raise MachineCannot(wording.no_platform(absent | prices.missing))
    return prices, absent


@contextmanager
def _opened(
    platforms: Sequence[str], binary: Path, resources: Resources, root: Root | None, show: Callable[[str], None]
) -> Iterator[tuple[dict[str, Launcher], dict[str, Group], dict[str, str]]]:
    """Make ready what each platform needs, by its name; and state why some are absent."""
    absent: dict[str, str] = {}
    launchers: dict[str, Launcher] = {}
    groups: dict[str, Group] = {}
    remove_leftovers()
    with ExitStack() as stack:
        for at, (name, platform) in enumerate(zip(names_of(platforms), platforms, strict=True)):
            show(wording.preparing(name))
            if (reason := LAUNCHERS[platform].missing(binary)) is not None:
                absent[name] = reason
                continue
            launcher = LAUNCHERS[platform](resources, root)
            stack.callback(launcher.close)
            try:
                launcher.open(at, binary)
            except (MachineCannot, PlatformFailed, ToolFailed) as error:
                if platform == "host":
                    raise
                absent[name] = str(error)
                continue
            launchers[name], groups[name] = launcher, Group(at, resources.memory_byte if launcher.STAYS else None)
            stack.callback(groups[name].close)
        yield launchers, groups, absent


def _predicted(
    cards: Sequence[CostCard],
    runner: WeighRunner,
    measured: Sequence[str],
    compared: Compared | None,
    reasons: Why | None,
    show: Callable[[str], None],
) -> Predicted:
    """What the command would take on those platforms of the cards that were not measured here."""
    host = measured[0]
    try:
        if compared is not None:
            walls = [pair.runs[0].wall_ns for pair in compared.pairs]
        else:
            show(wording.warming_up(host))
            until, walls = (time.monotonic() + runner.until) / 2, []
            while len(walls) < _ALONE_RUNS and (not walls or time.monotonic() < until):
                walls.append(runner.run([Command((host,), host)])[0][0].wall_ns)
        counts: dict[str, float] | str | None = None if reasons is None else reasons.counts
        if counts is None:
            show(wording.COUNTING)
            counts = runner.counted(host)
    except RefusedThere as error:
        return Predicted(reason=error.reason)
    except OutOfTime:
        return Predicted(reason=wording.NO_TIME)
    if isinstance(counts, str):
        return Predicted(reason=counts)
    predictions = [
        predict(card, platform, counts)
        for card in cards
        for platform in card.platforms
        if platform.name not in measured
    ]
    return Predicted(tuple(predictions), statistics.median(walls))


def _warm_up(
    runner: Runner,
    command: Command,
    names: Sequence[str],
    refused: dict[str, str],
    show: Callable[[str], None],
) -> dict[str, Measured]:
    """Run it once on each platform; those on which it does not run are `refused`."""
    first: dict[str, Measured] = {}
    for name in names:
        show(wording.warming_up(name))
        try:
            (run,), _ = runner.run([Command((name,), name)])
        except RefusedThere as error:
            if name == "host":
                raise BadInput(wording.fails_on_the_host(command.text, error.reason)) from None
            refused[name] = first_line(error.reason)
            continue
        if run.left_behind:
            raise BadInput(ab_wording.still_running(command.text, run.left_behind))
        first[name] = run
    return first
