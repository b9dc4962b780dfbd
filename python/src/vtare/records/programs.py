"""Documents of this machine, the commands, and errors."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from vtare.records.answer import Answered


class DoctorFeature(TypedDict):
    """One thing that something needs."""

    name: str
    used_by: str
    lacks: Annotated[str | None, "why it is not there; null where it is"]
    command: Annotated[str | None, "what gets it; null where no command does"]


class DoctorPlatform(TypedDict):
    """One platform."""

    name: str
    lacks: Annotated[str | None, "why no instance can be made; null where one can"]
    command: Annotated[str | None, "what changes that"]
    by_plan: Annotated[bool, "reached by what a plan names: cannot be looked at without one"]
    unverified: Annotated[str | None, "why it was never compared with the real thing"]
    instruments: Annotated[dict[str, str | None], "why each cannot measure there; null where it can"]


class Doctor(TypedDict):
    """`vtare doctor`."""

    schema: Literal["vtare.doctor/1"]
    answer: Answered
    distribution: str | None
    kernel: str
    architecture: str
    asked: list[str]
    able: Annotated[bool, "what was asked for can be measured"]
    features: list[DoctorFeature]
    platforms: list[DoctorPlatform]


class CommandParameter(TypedDict):
    """An argument or option of a command."""

    name: str | None
    options: Annotated[list[str], "empty for an argument"]
    value: Annotated[str | None, "null for a flag"]
    kind: Annotated[str | None, "null for a flag"]
    choices: list[str]
    help: str
    default: str | None
    required: bool
    repeatable: bool
    hidden: bool


class CommandDocument(TypedDict):
    """A command of the lab."""

    name: str | None
    about: str
    details: str
    hidden: bool
    examples: Annotated[list[list[str]], "a line, and what it does"]
    parameters: list[CommandParameter]
    commands: Annotated[list[CommandDocument], "subcommands"]


class Commands(TypedDict):
    """`vtare-lab --commands`, of which the binary makes completions and man pages."""

    schema: Literal["vtare.commands/1"]
    words: Annotated[dict[str, list[str]], "the words that stand for plans and instruments"]
    commands: list[CommandDocument]


class Error(TypedDict):
    """Any command with `--json` where nothing could be done."""

    schema: Literal["vtare.error/1"]
    error: Annotated[str, "the message, as on stderr"]
    exit_code: Annotated[int, "what the process returns"]
