"""Trials: programs that `vtare trials` runs at once, and what each of them took."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from vtare.errors import BadInput, MachineCannot
from vtare.platforms.host import work_directory
from vtare.process import PIPE, start
from vtare.stored.paths import plain_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vtare.ab.commands import Command
    from vtare.ab.readings import Reading

    ReadFigures = Callable[[str, str], Mapping[str, Reading]]

_SHOWN: Final = 400
"""Characters of a failed command's errors that are shown, from the end."""
MOST_PRINTED_BYTE: Final = 16 << 20
"""The most that a run may print where figures are read from it."""
_LEAST_S: Final = 0.001


class OutOfTime(Exception):
    """The time that a comparison may take ended during a run."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What one program took. Times in ns; what was not counted is None.

    `waited_ns` is the time for which its first thread was ready to run but had no CPU. `readings` are the figures that
    it printed, by their names; `least_byte` is the memory that the kernel counts for any program started here: less
    cannot be seen. `left_behind` counts processes of it that still ran when it ended, and were ended then. `stopped_ns`
    is the time in which it was stopped, alone or with this machine.
    """

    begin_ns: int
    wall_ns: float
    user_ns: float
    system_ns: float
    most_resident_byte: int | None = None
    minor_faults: int | None = None
    major_faults: int | None = None
    voluntary_switches: int | None = None
    involuntary_switches: int | None = None
    least_byte: int | None = None
    waited_ns: int | None = None
    left_behind: int = 0
    stopped_ns: int = 0
    readings: Mapping[str, Reading] = field(default_factory=dict)

    @property
    def cpu_ns(self) -> float:
        """CPU time, in user mode and in the kernel."""
        return self.user_ns + self.system_ns

    @property
    def end_ns(self) -> float:
        """When it ended, on the clock of `begin_ns`."""
        return self.begin_ns + self.wall_ns


#: The fields of a run in a document.
COUNTED_FIELDS: Final = tuple(one.name for one in fields(Measured) if one.name != "readings")


@dataclass(frozen=True, slots=True)
class MachineTime:
    """What the machine did in the meantime, all CPUs together, ns; None where the system does not report it."""

    steal_ns: int | None
    busy_ns: int | None
    cpu_pressure_ns: int | None
    io_pressure_ns: int | None
    span_ns: int
    quota_ns: int | None = None


class Trials:
    """The running program that carries out trials. A context manager: it ends with it."""

    def __init__(
        self, binary: Path, *, most_s: float, ignores_failure: bool = False, read: ReadFigures | None = None
    ) -> None:
        """Start it. `most_s`: a program that runs longer is killed, which ends the comparison.

        `read` gives the figures of what a run printed, for a command of that name.
        """
        self._most_s = most_s
        #: A run that still goes on then (`time.monotonic`) is ended.
        self.until = math.inf
        self._read = read
        self._ignores_failure = ignores_failure
        self._place = work_directory()
        self._process = start([str(binary), "trials"], stdin=PIPE, stdout=PIPE, stderr=PIPE)
        #: The facts of the machine, as every document of the binary has them.
        self.machine: dict[str, Any] = self._answer()["machine"]

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it, with the programs that run."""
        self._process.terminate()
        self._process.communicate()
        self._place.cleanup()

    def run(
        self, commands: Sequence[Command], cpus: Sequence[Sequence[int]] | None = None
    ) -> tuple[list[Measured], MachineTime]:
        """Run commands at once, each on its CPUs (all where None), and return what each took, in their order.

        Raises:
            BadInput: a command cannot be started, failed, or took too long.
            OutOfTime: it still ran at `until`.
            MachineCannot: this machine cannot carry out trials.
        """
        files = [(f"{self._place.name}/out{k}", f"{self._place.name}/err{k}") for k in range(len(commands))]
        programs = [
            {
                "words": command.words,
                "cpus": [] if cpus is None else list(cpus[k]),
                "stdout": files[k][0] if self._read is not None else None,
                "stderr": files[k][1],
            }
            for k, command in enumerate(commands)
        ]
        left_s = max(_LEAST_S, self.until - time.monotonic())
        most_s = min(self._most_s, left_s)
        answer = self._ask({"programs": programs, "most_s": most_s, "most_printed_byte": MOST_PRINTED_BYTE})
        if "error" in answer:
            raise BadInput(answer["error"])
        measured = []
        if left_s < self._most_s and any(one_run["timed_out"] for one_run in answer["programs"]):
            raise OutOfTime
        for command, (out, err), one_run in zip(commands, files, answer["programs"], strict=True):
            self._check(command, one_run, Path(err))
            del one_run["exit_code"], one_run["signal"], one_run["timed_out"], one_run["printed_too_much"]
            run = Measured(**one_run, least_byte=answer["least_byte"])
            if self._read is not None and not run.left_behind:
                run = replace(run, readings=self._read(_output(command, Path(out)), command.text))
            measured.append(run)
        return measured, MachineTime(**answer["beside"])

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            # It has ended: its last words are read below.
            pass
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            said = "" if self._process.stderr is None else self._process.stderr.read().decode(errors="replace").strip()
            raise MachineCannot(said or "the program that runs the commands has ended")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _check(self, command: Command, found: Mapping[str, Any], err: Path) -> None:
        if found["timed_out"]:
            raise BadInput(f"{command.text}: it still ran after {self._most_s:g} s. Allow more with --timeout SECONDS")
        if found["printed_too_much"]:
            raise _too_much(command)
        if self._ignores_failure or found["exit_code"] == 0:
            return
        how = f"signal {found['signal']}" if found["exit_code"] is None else f"exit code {found['exit_code']}"
        said = plain_text(_end(err).strip())
        raise BadInput(
            f"{command.text}: it ended with {how}, not 0 (add --ignore-failure to accept any)"
            + (f": {said}" if said else "")
        )


def _output(command: Command, file: Path) -> str:
    """What a program printed.

    Raises:
        BadInput: it is more than is read.
    """
    with file.open("rb") as opened:
        data = opened.read(MOST_PRINTED_BYTE + 1)
    if len(data) > MOST_PRINTED_BYTE:
        raise _too_much(command)
    return data.decode(errors="replace")


def _too_much(command: Command) -> BadInput:
    return BadInput(
        f"{command.text}: it printed more than {MOST_PRINTED_BYTE >> 20} MiB. Print less, such as with `| tail -n 100`"
    )


def _end(file: Path) -> str:
    """The last characters of a file of any size."""
    with file.open("rb") as opened:
        opened.seek(max(0, file.stat().st_size - 4 * _SHOWN))
        return opened.read(4 * _SHOWN).decode(errors="replace")[-_SHOWN:]
