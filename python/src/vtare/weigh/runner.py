"""Runs a command on each platform and measures it: from inside by `vtare trials`, from outside by its launcher."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import tempfile
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from vtare.ab.commands import Command
from vtare.ab.compare import Asked, AskedLimit, Compared, compare
from vtare.ab.figures import COUNTED, Figure
from vtare.ab.readings import Reading
from vtare.ab.trials import MachineTime, Measured, OutOfTime
from vtare.errors import BadInput, MachineCannot, PlatformFailed
from vtare.process import PIPE, Process, TimeoutExpired, start
from vtare.sentences import ab as ab_wording
from vtare.sentences import weigh as wording
from vtare.stored.paths import plain_line, plain_text
from vtare.weigh.group import Group
from vtare.weigh.launchers import LAUNCHERS, Launcher
from vtare.weigh.layer import remove_leftovers

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    import numpy as np

_SHOWN: Final = 4000
"""Bytes of a program's errors that are read."""
_END_S: Final = 0.5
"""What a tool has to end what it started before it is killed."""
_NOT_MEASURED: Final = ("exit_code", "signal", "timed_out", "printed_too_much")


def _reading(name: str) -> Figure:
    return Figure(
        name, "ns", lambda run: next(iter(run.readings[name].values), None), step=lambda _: 1.0,
        missing=lambda run: None if run.readings[name].values else run.readings[name].missing,
    )  # fmt: skip


START: Final = "start"
WHOLE: Final = "whole"
STOP: Final = "stop"
OUTSIDE: Final = "CPU time outside"
#: What is compared: wall time, CPU time and peak memory inside; the start, the whole as the launcher takes it, the
#: stop, and the CPU time of the platform itself.
FIGURES: Final = (*COUNTED[:3], *map(_reading, (START, WHOLE, STOP, OUTSIDE)))


@dataclass(frozen=True, slots=True)
class Weighed:
    """The platforms against the host; None where the command ran on no other one.

    `absent` are platforms that do not work here, `refused` those on which the command does not run, with the reason.
    `apart`: where the clock inside is another one, so that the start is all that is not the command's own time.
    """

    compared: Compared | None
    absent: dict[str, str]
    refused: dict[str, str]
    apart: frozenset[str]


class RefusedThere(Exception):
    """A command does not run on one platform."""

    def __init__(self, name: str, reason: str) -> None:
        """Name the platform, and the first line that explains it."""
        super().__init__(f"{name}: {reason}")
        self.name = name
        self.reason = reason


class WeighRunner:
    """Runs the command on the platform that a command of `ab` names. See `Runner`."""

    def __init__(self, launchers: dict[str, Launcher], groups: dict[str, Group], *, most_s: float) -> None:
        """Take launchers and control groups by their names in the answer; a run longer than `most_s` is ended."""
        self._launchers = launchers
        self._groups = groups
        self._most_s = most_s
        #: A run that still goes on then (`time.monotonic`) is ended.
        self.until = math.inf
        self.apart: set[str] = set()

    def run(
        self, commands: Sequence[Command], cpus: Sequence[Sequence[int]] | None = None
    ) -> tuple[list[Measured], MachineTime]:
        """Run it once, on one platform.

        Raises:
            RefusedThere: it does not run there.
            OutOfTime: it still ran at `until`.
        """
        ((name,),) = (command.words for command in commands)
        launcher, group = self._launchers[name], self._groups[name]
        with tempfile.TemporaryFile(prefix="vtare-weigh-") as errors:
            words, used_before = launcher.words(), group.used_ns()
            try:
                with group.around_start():
                    begin = time.monotonic_ns()
                    process = start(words, stdout=PIPE, stderr=errors.fileno(), session=True)
            except OSError as error:
                raise RefusedThere(name, str(error)) from error
            left_s = max(0.001, self.until - time.monotonic())
            try:
                printed, _ = process.communicate(timeout=min(self._most_s, left_s))
            except BaseException as error:
                _end(process, launcher, group)
                if not isinstance(error, TimeoutExpired):
                    raise
                if left_s < self._most_s:
                    raise OutOfTime from None
                raise RefusedThere(name, wording.still_ran(self._most_s)) from None
            whole, used = time.monotonic_ns() - begin, group.used_ns()
            errors.seek(0)
            reported = plain_text(errors.read(_SHOWN).decode(errors="replace")).strip()
        answer = _answer(printed)
        if (reason := _failure(answer, process.returncode, reported)) is not None:
            raise RefusedThere(name, reason)
        counted = None if used is None or used_before is None else used - used_before
        return [self._measured(name, answer, begin, whole, counted)], MachineTime(None, None, None, None, whole)

    def _measured(self, name: str, answer: dict[str, Any], begin: int, whole: int, used: int | None) -> Measured:
        (counted,) = answer["programs"]
        for key in _NOT_MEASURED:
            del counted[key]
        # A clock that does not show the program begun in the time of its launcher is another one.
        if name not in self.apart and not begin <= counted["begin_ns"] <= begin + whole:
            self.apart.add(name)
        start_ns = whole - counted["wall_ns"] if name in self.apart else counted["begin_ns"] - begin
        stop_ns = None if name in self.apart else whole - start_ns - counted["wall_ns"]
        known = used is not None and self._launchers[name].STAYS
        outside_ns = used - counted["user_ns"] - counted["system_ns"] if known else None
        took = {START: start_ns, WHOLE: whole, STOP: stop_ns, OUTSIDE: outside_ns}
        readings = {
            key: Reading(key, (), "ns", missing=wording.MISSING[key])
            if value is None or value < 0
            else Reading(key, (value,), "ns")
            for key, value in took.items()
        }
        # On the launcher's clock: runs in turn are compared by when they were begun here.
        counted["begin_ns"] = begin
        return Measured(**counted, least_byte=answer["least_byte"], readings=readings)


def _end(process: Process, launcher: Launcher, group: Group) -> None:
    """End a tool, then what it may have left."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(TimeoutExpired):
            process.communicate(timeout=_END_S)
    launcher.end()
    group.end()


def _answer(printed: bytes) -> dict[str, Any]:
    """What `vtare trials` printed inside; empty where it did not get so far."""
    for line in reversed(printed.splitlines()):
        with suppress(ValueError):
            answer = json.loads(line)
            if isinstance(answer, dict):
                return answer
    return {}


def _failure(answer: dict[str, Any], code: int, reported: str) -> str | None:
    if "error" in answer:
        return str(answer["error"])
    if "programs" not in answer:
        return reported or wording.ended_with(f"exit code {code}")
    (run,) = answer["programs"]
    if run["exit_code"] == 0:
        return None
    how = f"signal {run['signal']}" if run["exit_code"] is None else f"exit code {run['exit_code']}"
    return reported or wording.ended_with(how)


def read_platforms(text: str | None) -> list[str]:
    """The platforms of `--on`, the host in front; all where there is no text.

    >>> read_platforms("gvisor,host"), read_platforms("host,host")
    (['host', 'gvisor'], ['host', 'host'])

    Raises:
        BadInput: one is none of those that are weighed.
    """
    if text is None:
        return list(LAUNCHERS)
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
    cpus: Sequence[int] | None,
    timeout_s: float,
    rng: np.random.Generator,
    show: Callable[[str], None] = lambda text: None,
    limits: Sequence[tuple[str, AskedLimit]] = (),
) -> Weighed:
    """Run the command on each platform in turn until each comparison of wall time with the host is decided.

    With `limits` (of wall time, each of one platform) and without `asks_margin`: until they are.

    Raises:
        BadInput: the command fails on the host, or leaves processes behind.
        MachineCannot: no other platform works here.
    """
    begin = time.monotonic()
    words = [shutil.which(command.words[0]) or command.words[0], *command.words[1:]]
    request = json.dumps({"programs": [{"words": words}], "most_s": timeout_s})
    program = [str(binary.resolve()), "trials", "--request", request]
    absent: dict[str, str] = {}
    refused: dict[str, str] = {}
    launchers: dict[str, Launcher] = {}
    groups: dict[str, Group] = {}
    remove_leftovers()
    with ExitStack() as stack:
        for at, (name, platform) in enumerate(zip(names_of(platforms), platforms, strict=True)):
            show(wording.preparing(name))
            if (reason := LAUNCHERS[platform].missing(binary)) is not None:
                absent[name] = reason
                continue
            launcher = LAUNCHERS[platform](program, cpus)
            stack.callback(launcher.close)
            try:
                launcher.open(at)
            except (MachineCannot, PlatformFailed) as error:
                absent[name] = str(error)
                continue
            launchers[name], groups[name] = launcher, Group(at)
            stack.callback(groups[name].close)
        if len(launchers) < 2:
            raise MachineCannot(wording.no_platform(absent))
        runner = WeighRunner(launchers, groups, most_s=timeout_s)
        first = _warm_up(runner, command, list(launchers), refused, show)
        runner.until = begin + 1.05 * asked.most_s
        compared = None
        while compared is None and len(first) > 1:
            commands = [Command((name,), name) for name in first]
            names = list(first)
            of_commands = [OfCommand(limit, names.index(name)) for name, limit in limits if name in first]
            try:
                compared = compare(
                    runner, commands, FIGURES, replace(asked, limits=tuple(of_commands)),
                    rng=rng, show=show, first=list(first.values()), begin=begin,
                )  # fmt: skip
            except RefusedThere as error:
                # It ran at first: without it, the others are compared anew.
                if error.name == "host":
                    raise BadInput(f"{command.text}: {error.reason}") from None
                refused[error.name] = _first_line(error.reason)
                del first[error.name]
        return Weighed(compared, absent, refused, frozenset(runner.apart))


def _warm_up(
    runner: WeighRunner,
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
            refused[name] = _first_line(error.reason)
            continue
        if run.left_behind:
            raise BadInput(ab_wording.still_running(command.text, run.left_behind))
        first[name] = run
    return first


def _first_line(text: str) -> str:
    return plain_line(text.strip().partition("\n")[0])
