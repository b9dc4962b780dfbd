"""The counter function in other languages: built once by the binary, and laid beside a run that calls for it.

A program lies in the run's own directory, which every platform brings to its instances, and is removed with the run: a
store keeps none. Where it cannot be built, or an instance has nothing to run it with, the run is skipped.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from vtare.errors import MachineCannot
from vtare.instruments import instrument as record_of
from vtare.platforms import PlatformFailed, kinds_with
from vtare.process import ToolFailed, run_tool

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from vtare.design import Run

#: The one whose program needs nothing but a kernel.
_STATIC: Final = "c"
_FILE: Final = "counter-program"
_MACHINE_CANNOT: Final = 3
_BUILT_S: Final = 120.0


def language_of(instrument: str, parameters: Mapping[str, Any]) -> str | None:
    """The language whose program the lab provides for a run; None where it needs none, or its plan names one."""
    program = record_of(instrument).program
    return None if program is None else program(parameters)


class CounterPrograms:
    """The programs of one campaign. Each language's is built when first needed."""

    def __init__(self, binary: Path) -> None:
        """Have this binary build them; nothing is built yet."""
        self._binary = binary
        self._built: dict[str, bytes] = {}
        self._refused: dict[str, str] = {}

    @contextmanager
    def beside(self, run: Run, platform: str, kind: str, directory: Path) -> Iterator[Run]:
        """Lay the program that a run needs into its directory, and give the run that names it.

        `platform` is named in messages, `kind` states what its instances have. A run without need of one is given back
        as it is.

        Raises:
            MachineCannot: the language's tools are missing here or in the instance, with the way out.
            PlatformFailed: the program could not be built although they are there.
            OSError: it cannot be written.
        """
        language = language_of(run.instrument, run.parameters)
        if language is None:
            yield run
            return
        furnished = kinds_with(lambda one: one.FURNISHED)
        if language != _STATIC and kind not in furnished:
            raise MachineCannot(
                f"language {language} on platform {platform}: its instances hold vtare's static binary alone, nothing "
                f"to run {language} with; {', '.join(furnished)} have what is installed on their machine"
            )
        program = directory.absolute() / _FILE
        self._lay(run.instrument, language, program)
        try:
            yield replace(run, parameters={**run.parameters, "program": str(program)})
        finally:
            program.unlink(missing_ok=True)

    def _lay(self, instrument: str, language: str, program: Path) -> None:
        if language in self._refused:
            raise MachineCannot(self._refused[language])
        if language not in self._built:
            self._build(instrument, language, program)
            self._built[language] = program.read_bytes()
        else:
            program.write_bytes(self._built[language])
            program.chmod(0o755)

    def _build(self, instrument: str, language: str, program: Path) -> None:
        command = [str(self._binary), instrument, "--language", language, "--build", str(program)]
        try:
            # What a killed build leaves goes with the run's directory.
            run_tool(command, timeout_s=_BUILT_S, environment={"TMPDIR": str(program.parent)})
        except ToolFailed as error:
            lines = error.output.strip().splitlines() or [error.reason]
            why = lines[-1].removeprefix("vtare: ")
            if error.code == _MACHINE_CANNOT:
                self._refused[language] = why
                raise MachineCannot(why) from error
            raise PlatformFailed(f"language {language}: its program could not be built: {why}") from error


__all__ = ["CounterPrograms", "language_of"]
