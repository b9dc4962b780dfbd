"""The counter function in other languages: built once by the binary, and laid beside a run that calls for it.

A program lies in the run's own directory, which every platform brings to its instances, and is removed with the run: a
store keeps none. That in Java brings its virtual machine along, but for instances that have the programs of this
machine. Where it cannot be built, or an instance has nothing to run it with, the run is skipped.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from vtare.errors import MachineCannot, PlatformFailed
from vtare.instruments import instrument as record_of
from vtare.platforms import kinds_with, platform_class
from vtare.platforms.base import Layer
from vtare.process import ToolFailed, run_tool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from vtare.design import Run
    from vtare.platforms.protocol import Resources

#: The one whose program needs nothing but a kernel.
_STATIC: Final = "c"
#: The one whose program brings what runs it along, where its instance is no place with the programs of this machine.
_BROUGHT: Final = "java"
#: What the virtual machine takes, with the files it comes in, which a guest holds in memory: measured, rounded up.
BROUGHT_MEMORY_BYTE: Final = 256 << 20
_FILE: Final = "counter-program"
_MACHINE_CANNOT: Final = 3
#: `jlink` takes 4 s of CPU time.
_BUILT_S: Final = 240.0


def language_of(instrument: str, parameters: Mapping[str, Any]) -> str | None:
    """The language whose program the lab provides for a run; None where it needs none, or its plan names one."""
    program = record_of(instrument).program
    return None if program is None else program(parameters)


def room_for(run: Run, kind: str, resources: Resources) -> Resources:
    """What an instance of this kind is given for a run: a guest whose memory no one chose gets enough for its program.

    Left alone is what the plan chooses, and what has the memory of its machine.
    """
    platform = platform_class(kind)
    if platform is None or platform.LAYER is not Layer.MACHINE or "memory_byte" not in platform.OFFERED:
        return resources
    if resources.memory_byte is not None or not _is_brought(language_of(run.instrument, run.parameters), kind):
        return resources
    return replace(resources, memory_byte=BROUGHT_MEMORY_BYTE)


def _is_brought(language: str | None, kind: str) -> bool:
    """Whether the program of a language brings what runs it: machines elsewhere may have another version, or none."""
    platform = platform_class(kind)
    return language == _BROUGHT and (platform is None or not platform.FURNISHED or platform.LAYER is Layer.MACHINE)


class CounterPrograms:
    """The programs of one campaign. Each language's is built when first needed, with and without what runs it."""

    def __init__(self, binary: Path) -> None:
        """Have this binary build them; nothing is built yet."""
        self._binary = binary
        self._built: dict[tuple[str, bool], bytes] = {}
        self._refused: dict[tuple[str, bool], str] = {}

    @contextmanager
    def beside(
        self, run: Run, platform: str, kind: str, directory: Path, memory_byte: int | None = None
    ) -> Iterator[Run]:
        """Lay the program that a run needs into its directory, and give the run that names it.

        `platform` is named in messages, `kind` states what its instances have, `memory_byte` what the plan gives them.
        A run without need of one is given back as it is.

        Raises:
            MachineCannot: the language's tools are missing here or in the instance, with the way out.
            PlatformFailed: the program could not be built although they are there.
            OSError: it cannot be written.
        """
        language = language_of(run.instrument, run.parameters)
        if language is None:
            yield run
            return
        brought = _is_brought(language, kind)
        furnished = kinds_with(lambda one: one.FURNISHED)
        if brought and memory_byte is not None and memory_byte < BROUGHT_MEMORY_BYTE:
            raise MachineCannot(
                f"language {language}: platform {platform} has {memory_byte >> 20} MiB of memory, its virtual "
                f"machine needs {BROUGHT_MEMORY_BYTE >> 20} MiB"
            )
        if language != _STATIC and not brought and kind not in furnished:
            raise MachineCannot(
                f"language {language} on platform {platform}: its instances hold vtare's static binary alone, nothing "
                f"to run {language} with; {', '.join(furnished)} have what is installed on their machine"
            )
        program = directory.absolute() / _FILE
        self._lay(run.instrument, (language, brought), program)
        try:
            yield replace(run, parameters={**run.parameters, "program": str(program)})
        finally:
            program.unlink(missing_ok=True)

    def _lay(self, instrument: str, wanted: tuple[str, bool], program: Path) -> None:
        if wanted in self._refused:
            raise MachineCannot(self._refused[wanted])
        if wanted not in self._built:
            self._build(instrument, wanted, program)
            self._built[wanted] = program.read_bytes()
        else:
            program.write_bytes(self._built[wanted])
            program.chmod(0o755)

    def _build(self, instrument: str, wanted: tuple[str, bool], program: Path) -> None:
        language, brought = wanted
        command = [str(self._binary), instrument, "--language", language, "--build", str(program)]
        command += ["--with-runtime"] if brought else []
        try:
            # What a killed build leaves goes with the run's directory.
            run_tool(command, timeout_s=_BUILT_S, environment={"TMPDIR": str(program.parent)})
        except ToolFailed as error:
            lines = error.output.strip().splitlines() or [error.reason]
            why = lines[-1].removeprefix("vtare: ")
            if error.code == _MACHINE_CANNOT:
                self._refused[wanted] = why
                raise MachineCannot(why) from error
            raise PlatformFailed(f"language {language}: its program could not be built: {why}") from error
