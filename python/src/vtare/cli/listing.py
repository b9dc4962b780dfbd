"""The commands of the lab as one JSON document, of which the binary makes help, completions and man pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vtare.cli.examples import EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vtare.records import programs


def document(app: click.Group, names: Iterable[str] = ()) -> programs.Commands:
    """All commands, or those of these names, and the words that stand for plans and instruments."""
    from vtare.plan.files import shipped_plans

    context = click.Context(app)
    commands = {name: app.get_command(context, name) for name in names or app.list_commands(context)}
    return {
        "schema": "vtare.commands/1",
        "words": {"plan": list(shipped_plans()), "instrument": _instruments()},
        "commands": [_command(name, one) for name, one in commands.items() if one is not None],
    }


def _instruments() -> list[str]:
    from vtare.contract import load_contract
    from vtare.platforms import KINDS

    return [*load_contract().instruments, *KINDS]


def _command(path: str, command: click.Command) -> programs.CommandDocument:
    below = command.commands if isinstance(command, click.Group) else {}
    return {
        "name": command.name,
        "about": command.short_help or "",
        "details": (command.help or "").partition("\n\n")[2],
        "hidden": command.hidden,
        "examples": [list(example) for example in EXAMPLES.get(path, ())],
        "parameters": [_parameter(one) for one in command.params],
        "commands": [_command(f"{path} {name}", one) for name, one in below.items()],
    }


def _parameter(parameter: click.Parameter) -> programs.CommandParameter:
    option = parameter if isinstance(parameter, click.Option) else None
    flag = option is not None and option.is_flag
    default = None if flag or not isinstance(parameter.default, str | int | float) else str(parameter.default)
    return {
        "name": parameter.name,
        "options": [] if option is None else list(option.opts),
        "value": None if flag else (parameter.metavar or str(parameter.name).upper()).strip("[]"),
        "kind": None if flag else parameter.type.name,
        "choices": list(parameter.type.choices) if isinstance(parameter.type, click.Choice) else [],
        "help": parameter.help or "",
        "default": default,
        "required": parameter.required,
        "repeatable": parameter.multiple or parameter.nargs == -1,
        "hidden": option is not None and option.hidden,
    }
