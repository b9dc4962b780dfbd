"""The commands of the lab: their names and words from the table that both halves read, loaded when they are called."""

from __future__ import annotations

import inspect
import json
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from vtare.cli.examples import EXAMPLES
from vtare.terminal.logs import be_quiet

if TYPE_CHECKING:
    from collections.abc import Callable

#: The commands and the modules that hold them, in the order in which `--help` lists them.
HOMES: Final = {
    "run": "campaigns",
    "resume": "campaigns",
    "retry": "campaigns",
    "verify": "campaigns",
    "status": "campaigns",
    "report": "results",
    "plot": "results",
    "serve-report": "results",
    "compare": "results",
    "plan": "plans",
    "overhead": "results",
    "clean": "campaigns",
    "fleet": "fleet",
    "ab": "ab",
    "watch": "watch",
    "papers": "papers",
    "doctor": "doctor",
}
#: The words and the groups of all commands. The binary contains the same file.
_TABLE: Final = Path(__file__).parents[1] / "data/commands.json"
SETTINGS: Final = {"help_option_names": ["-h", "--help"], "show_default": True}


@cache
def words() -> dict[str, str]:
    """What each command does, in one line, by `data/commands.json`."""
    table = json.loads(_TABLE.read_text("utf-8"))
    return {command["name"]: command["about"] for group in table["groups"] for command in group["commands"]}


def _be_quiet(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted:
        be_quiet()


def quiet_option() -> click.Option:
    """The option of every command. Not eager: it goes before --verbose."""
    shown = "Show results and errors only: no progress, no notices."
    return click.Option(["--quiet", "-q"], is_flag=True, expose_value=False, callback=_be_quiet, help=shown)


class LabCommand(click.Command):
    """A command with its words, its examples and the options of every command."""

    def __init__(self, name: str, *, params: list[click.Parameter] | None = None, **attributes: Any) -> None:
        """Take what click gives."""
        super().__init__(name, params=[*(params or []), quiet_option()], **attributes)


def command(name: str) -> Callable[[Callable[..., None]], click.Command]:
    """Return what makes a command of a function: its words are those of the table, the details those of the function.

    The first line of the function's docstring is for those who read the code.
    """

    def make(function: Callable[..., None]) -> click.Command:
        text = f"{words()[name]}.".replace("?.", "?")
        details = inspect.cleandoc(function.__doc__ or "").partition("\n\n")[2]
        # The mark keeps click from filling the lines.
        lines = [f"  vtare {line}\n      {what}" for line, what in EXAMPLES[name]]
        return click.command(
            name,
            cls=LabCommand,
            context_settings=SETTINGS,
            help=f"{text}\n\n{details}".rstrip(),
            epilog="\b\nExamples:\n" + "\n".join(lines),
        )(function)

    return make


class Lab(click.Group):
    """The commands, of which one is loaded: the one that was called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands."""
        return list(HOMES)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The names and words of all commands, of which none is loaded."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, words()[name]) for name in HOMES])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load one command; None where there is none of this name."""
        if cmd_name not in HOMES:
            return None
        module = import_module(f"vtare.cli.{HOMES[cmd_name]}")
        found = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(found, click.Command)
        return found
