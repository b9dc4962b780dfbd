"""Runs a command on each platform and measures it: from inside by `vtare trials`, from outside by its launcher."""

from __future__ import annotations

import json
import math
import os
import select
import signal
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from vtare.ab.commands import Command
from vtare.ab.figures import COUNTED, Figure
from vtare.ab.readings import Reading
from vtare.ab.trials import MachineTime, Measured, OutOfTime, Trials
from vtare.errors import BadInput
from vtare.process import PIPE, Process, TimeoutExpired, ending_text, start
from vtare.quantity_text import quantity_in
from vtare.sentences import weigh as wording
from vtare.stored.paths import plain_line, plain_text
from vtare.weigh.group import Group
from vtare.weigh.launchers import Launcher

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import IO


_SHOWN: Final = 4000
"""Bytes of a program's errors that are read."""
_END_S: Final = 0.5
"""What a tool has to end what it started before it is killed."""
_READY_S: Final = 20.0
"""What an instance has to come up."""
_LOOK_S: Final = 0.1
"""How often what runs beside a program is looked at."""
_LONGEST_S: Final = 86_400.0
_NOT_MEASURED: Final = ("exit_code", "signal", "timed_out", "printed_too_much")


def reading_figure(name: str, unit: str = "ns") -> Figure:
    """The figure that is a reading of each run."""
    return Figure(
        name, unit, lambda run: next(iter(run.readings[name].values), None), step=lambda _: 1.0,
        missing=lambda run: None if run.readings[name].values else run.readings[name].missing,
    )  # fmt: skip


START: Final = "start"
WHOLE: Final = "whole"
STOP: Final = "stop"
OUTSIDE: Final = "CPU time outside"
MEMORY: Final = "memory in all"
#: What is compared: wall time, CPU time and peak memory inside; the start, the whole as the launcher takes it, the
#: stop, and the CPU time of the platform itself; the memory of both.
FIGURES: Final = (*COUNTED[:3], *map(reading_figure, (START, WHOLE, STOP, OUTSIDE)), reading_figure(MEMORY, "B"))


class RefusedThere(Exception):
    """A command does not run on one platform."""

    def __init__(self, name: str, reason: str) -> None:
        """Name the platform, and the first line that explains it."""
        super().__init__(f"{name}: {reason}")
        self.name = name
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Ran:
    """A program that ended on a platform: what it printed last as JSON (empty: nothing), and what it took."""

    answer: dict[str, Any]
    code: int
    reported: str
    begin_ns: int
    whole_ns: int
    used_ns: int | None
    most_byte: int | None


@dataclass(frozen=True, slots=True)
class Running:
    """A program that runs on a platform: its tool, when that was called, and how far all memory rose since."""

    name: str
    tool: Process
    begin_ns: int
    most_memory: Callable[[], int | None]
    errors: IO[bytes]

    def reported(self) -> str:
        """What it printed as errors."""
        return plain_text(os.pread(self.errors.fileno(), _SHOWN, 0).decode(errors="replace")).strip()

    def ending(self) -> str | None:
        """How it ended, in the first line of its own words; None where it runs."""
        if (code := self.tool.poll()) is None:
            return None
        return first_line(self.reported()) or wording.ended_with(ending_text(code))


class WeighRunner:
    """Runs the command on the platform that a command of `ab` names. See `Runner`."""

    def __init__(
        self, binary: Path, inside: Path, words: Sequence[str], launchers: dict[str, Launcher],
        groups: dict[str, Group], *, most_s: float, memory_byte: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        """Take the command, launchers and control groups by their names in the answer; a longer run is ended.

        `binary` is where the binary lies on this machine, `inside` on all platforms. `memory_byte` is the limit that
        they keep, `environment` the command's (None: that of its platform).
        """
        self._memory_byte = memory_byte
        self._environment = None if environment is None else dict(environment)
        self._here = binary
        self._binary = str(inside)
        self._words = list(words)
        self._launchers = launchers
        self._groups = groups
        self.most_s = most_s
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
        ran, counted = self._trial(name, self._words)
        return [self._measured(name, ran, counted)], MachineTime(None, None, None, None, ran.whole_ns)

    def counted(self, name: str) -> dict[str, float] | str:
        """How often each kind of event happens in the command on the host called `name`, or why nobody knows.

        Raises:
            RefusedThere: it does not run.
            OutOfTime: it still ran at `until`.
        """
        _, counted = self._trial(name, self._words, counts=True)
        happened: dict[str, float] | None = counted["counts"].get("happened")
        return counted["counts"]["missing"] if happened is None else happened

    def costs(self, name: str, *, count: bool = False) -> dict[str, Any]:
        """What `vtare costs` prints on a platform.

        Raises:
            RefusedThere: it does not run there.
            OutOfTime: it still ran at `until`.
        """
        words = self._launchers[name].words([self._binary, "costs", *(["--count"] if count else [])])
        ran = self._carry_out(name, words)
        if ran.code or not ran.answer:
            raise RefusedThere(name, first_line(ran.reported) or wording.ended_with(f"exit code {ran.code}"))
        return ran.answer

    @contextmanager
    def running(self, name: str, *commands: Sequence[str]) -> Iterator[list[Running]]:
        """Keep each of the commands running in a new instance of a platform.

        Raises:
            RefusedThere: one cannot be started.
        """
        launcher, group = self._launchers[name], self._groups[name]
        all_running: list[Running] = []
        with ExitStack() as stack:
            most_memory = stack.enter_context(group.most_memory())
            stack.callback(lambda: _end([one.tool for one in all_running], launcher, group))
            for at, words in enumerate(commands):
                errors = stack.enter_context(tempfile.TemporaryFile(prefix="vtare-weigh-"))
                program = launcher.words(self._request(words), at)
                try:
                    with group.around_start():
                        begin = time.monotonic_ns()
                        tool = start(program, stderr=errors.fileno(), session=True)
                        all_running.append(
                            Running(name, tool, begin, most_memory if launcher.STAYS else lambda: None, errors)
                        )
                except OSError as error:
                    raise RefusedThere(name, str(error)) from error
            yield all_running

    def beside(self, running: Sequence[Running], words: Sequence[str]) -> tuple[bytes, int, str]:
        """What a program of this machine printed while others ran, its exit code, and its errors.

        Raises:
            RefusedThere: one of the others ended, or it took too long.
            OutOfTime: it still ran at `until`.
        """
        until = min(time.monotonic() + self.most_s, self.until)
        with tempfile.TemporaryFile(prefix="vtare-weigh-") as errors:
            process = start(words, stdout=PIPE, stderr=errors.fileno(), session=True)
            try:
                while True:
                    with suppress(TimeoutExpired):
                        printed, _ = process.communicate(timeout=_LOOK_S)
                        break
                    self._look(running, until)
            finally:
                if process.returncode is None:
                    _signal([process])
            self._look(running, math.inf)
            errors.seek(0)
            return printed, process.returncode, plain_text(errors.read(_SHOWN).decode(errors="replace")).strip()

    def _look(self, running: Sequence[Running], until: float) -> None:
        for one in running:
            if (ending := one.ending()) is not None:
                raise RefusedThere(one.name, wording.server_ended(ending))
        if time.monotonic() > until:
            if until == self.until:
                raise OutOfTime
            raise RefusedThere(running[0].name, wording.still_ran(self.most_s))

    @contextmanager
    def instance(self, name: str) -> Iterator[int]:
        """Keep an instance that runs on a platform, and give the process of its tool.

        Raises:
            RefusedThere: it does not run there.
        """
        launcher, group = self._launchers[name], self._groups[name]
        if launcher.IS_MACHINE:
            raise RefusedThere(name, wording.NOT_ENTERED)
        left_s = max(0.0, self.until - time.monotonic())
        most_s = min(_READY_S, left_s)
        # It ends by itself, whoever else may be gone.
        idle = [self._binary, "load", "idle", "--seconds", f"{min(left_s, _LONGEST_S) + _READY_S:.0f}"]
        with group.around_start():
            process = start(launcher.words(idle), stderr=PIPE, buffered=False, session=True)
        try:
            reported = _until_ready(process, most_s)
            if "ready" not in reported.splitlines():
                raise RefusedThere(name, first_line(reported) or wording.not_ready(most_s))
            yield process.pid
        finally:
            _end([process], launcher, group)

    def enter(self, name: str, tool: int) -> float:
        """The time from the call that starts a program in the instance of this tool to its first instruction, in ns.

        Raises:
            RefusedThere: it does not run there.
            OutOfTime: it still ran at `until`.
        """
        ran, counted = self._trial(name, self._small, tool=tool)
        return self._start_ns(name, ran.begin_ns, ran.whole_ns, counted)

    def burst(self, name: str, starts: int) -> float:
        """The time from the first of many calls at once until all programs had their first instruction, in ns.

        Raises:
            RefusedThere: one does not run there.
            OutOfTime: one still ran at `until`.
        """
        launcher, group = self._launchers[name], self._groups[name]
        program = self._request(self._small)
        commands = [Command(tuple(launcher.words(program, at)), name) for at in range(1, starts + 1)]
        try:
            with ExitStack() as stack:
                with group.around_start():
                    trials = stack.enter_context(Trials(self._here, most_s=self.most_s, read=_began))
                trials.until = self.until
                runs, _ = trials.run(commands)
        except BadInput as error:
            raise RefusedThere(name, first_line(str(error))) from None
        finally:
            # A tool that was too late leaves its container.
            launcher.end()
        begin = min(run.begin_ns for run in runs)
        return max(
            run.begin_ns - begin
            + self._start_ns(name, run.begin_ns, run.wall_ns, {key: one.values[0] for key, one in run.readings.items()})
            for run in runs
        )  # fmt: skip

    @property
    def _small(self) -> list[str]:
        """A program that does nothing."""
        return [self._binary, "--version"]

    def _request(self, words: Sequence[str], *, counts: bool = False) -> list[str]:
        """The program that runs words and states when they began, and what they took."""
        program = {"words": list(words), "environment": self._environment}
        request = json.dumps({"programs": [program], "most_s": self.most_s, "counts": counts})
        return [self._binary, "trials", "--request", request]

    def _trial(
        self, name: str, words: Sequence[str], *, counts: bool = False, tool: int | None = None
    ) -> tuple[Ran, dict[str, Any]]:
        """Run words in a new instance, or in the one of a tool."""
        launcher, program = self._launchers[name], self._request(words, counts=counts)
        ran = self._carry_out(name, launcher.words(program) if tool is None else launcher.words_into(tool, program))
        if (reason := _failure(ran)) is not None:
            if self._memory_byte is not None:
                reason = wording.killed_in_limit(first_line(reason), quantity_in("B").text(self._memory_byte))
            raise RefusedThere(name, reason)
        (counted,) = ran.answer["programs"]
        return ran, counted

    def _start_ns(self, name: str, begin_ns: int, whole_ns: float, counted: Mapping[str, float]) -> float:
        """The time between the call of a tool and the first instruction of the program that it starts."""
        # A clock that does not show the program begun in the time of its launcher is another one.
        if name not in self.apart and not begin_ns <= counted["begin_ns"] <= begin_ns + whole_ns:
            self.apart.add(name)
        return whole_ns - counted["wall_ns"] if name in self.apart else counted["begin_ns"] - begin_ns

    def _carry_out(self, name: str, words: Sequence[str]) -> Ran:
        """Run the words that start a program of vtare's own on a platform."""
        launcher, group = self._launchers[name], self._groups[name]
        with tempfile.TemporaryFile(prefix="vtare-weigh-") as errors, group.most_memory() as most_memory:
            used_before = group.used_ns()
            try:
                with group.around_start():
                    begin = time.monotonic_ns()
                    process = start(words, stdout=PIPE, stderr=errors.fileno(), session=True)
            except OSError as error:
                raise RefusedThere(name, str(error)) from error
            left_s = max(0.001, self.until - time.monotonic())
            try:
                printed, _ = process.communicate(timeout=min(self.most_s, left_s))
            except BaseException as error:
                _end([process], launcher, group)
                if not isinstance(error, TimeoutExpired):
                    raise
                if left_s < self.most_s:
                    raise OutOfTime from None
                raise RefusedThere(name, wording.still_ran(self.most_s)) from None
            whole, used, most = time.monotonic_ns() - begin, group.used_ns(), most_memory()
            errors.seek(0)
            reported = plain_text(errors.read(_SHOWN).decode(errors="replace")).strip()
        used_here = None if used is None or used_before is None else used - used_before
        return Ran(_answer(printed), process.returncode, reported, begin, whole, used_here, most)

    def _measured(self, name: str, ran: Ran, counted: dict[str, Any]) -> Measured:
        begin, whole, used = ran.begin_ns, ran.whole_ns, ran.used_ns
        for key in _NOT_MEASURED:
            del counted[key]
        start_ns = self._start_ns(name, begin, whole, counted)
        stop_ns = None if name in self.apart else whole - start_ns - counted["wall_ns"]
        stays = self._launchers[name].STAYS
        outside_ns = used - counted["user_ns"] - counted["system_ns"] if stays and used is not None else None
        took = {START: start_ns, WHOLE: whole, STOP: stop_ns, OUTSIDE: outside_ns}
        took[MEMORY] = ran.most_byte if stays else None
        units = {figure.name: figure.unit for figure in FIGURES}
        readings = {
            key: Reading(key, (), units[key], missing=wording.MISSING[key])
            if value is None or value < 0
            else Reading(key, (value,), units[key])
            for key, value in took.items()
        }
        # On the launcher's clock: runs in turn are compared by when they were begun here.
        counted["begin_ns"] = begin
        return Measured(**counted, least_byte=ran.answer["least_byte"], readings=readings)


def _end(tools: Sequence[Process], launcher: Launcher, group: Group) -> None:
    """End tools, then what they may have left."""
    try:
        _signal(tools)
    finally:
        # One that ended by itself took its instance along.
        if any(tool.returncode is None or tool.returncode < 0 for tool in tools):
            launcher.end()
        group.end()


def _signal(processes: Sequence[Process]) -> None:
    """End programs and their sessions: at first with a signal that they may answer."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for process in processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
        until = time.monotonic() + _END_S
        for process in processes:
            with suppress(TimeoutExpired):
                process.communicate(timeout=max(0.0, until - time.monotonic()))


def _until_ready(process: Process, most_s: float) -> str:
    """What `vtare load` reports until it is ready, ends, or the time is over."""
    assert process.stderr is not None
    reported, until = b"", time.monotonic() + most_s
    while b"ready\n" not in reported:
        readable, _, _ = select.select([process.stderr], [], [], max(0.0, until - time.monotonic()))
        if not readable or not (piece := process.stderr.read(_SHOWN)):
            break
        reported += piece
    return plain_text(reported.decode(errors="replace"))


def _began(printed: str, name: str) -> dict[str, Reading]:
    """When a small program that one of many tools ran began, and what it took."""
    (run,) = _answer(printed.encode()).get("programs") or [None]
    if run is None:
        raise BadInput(f"{name}: {wording.NO_ANSWER}")
    return {key: Reading(key, (run[key],)) for key in ("begin_ns", "wall_ns")}


def _answer(printed: bytes) -> dict[str, Any]:
    """What `vtare trials` printed inside; empty where it did not get so far."""
    for line in reversed(printed.splitlines()):
        with suppress(ValueError):
            answer = json.loads(line)
            if isinstance(answer, dict):
                return answer
    return {}


def _failure(ran: Ran) -> str | None:
    answer, reported = ran.answer, ran.reported
    if "error" in answer:
        return str(answer["error"])
    if "programs" not in answer:
        return reported or wording.ended_with(f"exit code {ran.code}")
    (run,) = answer["programs"]
    if run["exit_code"] == 0:
        return None
    how = f"signal {run['signal']}" if run["exit_code"] is None else f"exit code {run['exit_code']}"
    return reported or wording.ended_with(how)


def first_line(text: str) -> str:
    """The first line of what a program reported."""
    return plain_line(text.strip().partition("\n")[0])
