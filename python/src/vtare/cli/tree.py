"""The commands of the lab: their names and words from the table that both halves read, loaded when they are called."""

from __future__ import annotations

import inspect
import json
import logging
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
    "compare": "results",
    "plan": "plans",
    "overhead": "results",
    "clean": "campaigns",
    "fleet": "fleet",
    "ab": "ab",
    "weigh": "weigh",
    "watch": "watch",
    "papers": "papers",
    "doctor": "doctor",
}
#: Old names of commands, and the options with which new ones do the same.
_OLD_NAMES: Final = {"plot": ("report", ["--format", "svg"]), "serve-report": ("report", ["--live"])}
#: The words and the groups of all commands. The binary contains the same file.
_TABLE: Final = Path(__file__).parents[1] / "data/commands.json"
_LOG = logging.getLogger(__name__)
SETTINGS: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"], "show_default": True}


@cache
def _table() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(_TABLE.read_text("utf-8"))
    return table


@cache
def words() -> dict[str, str]:
    """What each command does, in one line, by `data/commands.json`."""
    shown = [command for group in _table()["groups"] for command in group["commands"]]
    return {command["name"]: command["about"] for command in (*shown, *_table()["replaced"])}


@cache
def replaced() -> dict[str, str]:
    """Old names of commands, which keep working: name -> what replaced it."""
    return {command["name"]: command["by"] for command in _table()["replaced"]}


def _be_quiet(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted:
        be_quiet()


def quiet_option() -> click.Option:
    """The option of every command. Not eager: it goes before --verbose."""
    return click.Option(
        ["--quiet", "-q"],
        is_flag=True,
        expose_value=False,
        callback=_be_quiet,
        help="Show results and errors only: no progress, no notices.",
    )


class LabCommand(click.Command):
    """A command with its words, its examples and the options of every command."""

    def __init__(self, name: str, *, params: list[click.Parameter] | None = None, **attributes: Any) -> None:
        """Take what click gives; arguments that may be left out stand in brackets."""
        for one in params or []:
            if isinstance(one, click.Argument) and not one.required:
                one.metavar = f"[{one.metavar}]"
        super().__init__(name, params=[*(params or []), quiet_option()], **attributes)


class LabGroup(LabCommand, click.Group):
    """A command with subcommands."""


def tell_new_words(old: str, new: str, typed: list[str]) -> None:
    """Print what replaced an old way of typing a command."""
    if not {"-q", "--quiet"} & set(typed):
        _LOG.info(f"`vtare {old}` is now `vtare {new}`")


def command(path: str, *, cls: type[LabCommand] = LabCommand) -> Callable[[Callable[..., None]], click.Command]:
    """Return what makes a command of a function: `plan list` is the command `list` below `plan`.

    Its words are those of the table, else the first line of the function's docstring; the rest are the details.
    """

    def make(function: Callable[..., None]) -> click.Command:
        first, _, details = inspect.cleandoc(function.__doc__ or "").partition("\n\n")
        about = words().get(path, first).rstrip(".")
        # The mark keeps click from filling the lines.
        lines = [f"  vtare {line}\n      {what}" for line, what in EXAMPLES.get(path, ())]
        return click.command(
            path.rpartition(" ")[2],
            cls=cls,
            context_settings=SETTINGS,
            help=f"{about}{'' if about.endswith('?') else '.'}\n\n{details}".rstrip(),
            short_help=about,
            epilog="\n".join(["\b\nExamples:", *lines]) if lines else None,
        )(function)

    return make


class Lab(click.Group):
    """The commands, of which one is loaded: the one that was called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands that this installation has."""
        return [name for name, home in HOMES.items() if (Path(__file__).parent / f"{home}.py").exists()]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The names and words of all commands, of which none is loaded."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, words()[name]) for name in self.list_commands(ctx)])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that was called; an old name is the new one with the option that it stood for."""
        if args[0] in _OLD_NAMES:
            (name, option), typed = _OLD_NAMES[args[0]], args[1:]
            tell_new_words(args[0], replaced()[args[0]], typed)
            more = [] if any(word.startswith(option[0]) for word in typed) else option
            return super().resolve_command(ctx, [name, *more, *typed])
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load one command; None where there is none of this name."""
        if cmd_name not in HOMES:
            return None
        module = import_module(f"vtare.cli.{HOMES[cmd_name]}")
        loaded = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(loaded, click.Command)
        return loaded
