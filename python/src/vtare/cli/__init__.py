"""`vtare-lab`: the lab's commands, one module for each group of them. The only room that sees every stage.

`vtare run`, `status`, `resume`, `retry`, `verify`, `report`, `plot`, `serve-report`, `compare`, `watch`, `plan`,
`papers`, `overhead`, `doctor`, `fleet` and `clean` of the binary end here, as git's commands do.
"""

from __future__ import annotations

import logging
import re
import signal
import sys
import traceback
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer
from typer.core import TyperGroup, TyperOption

from vtare import __version__
from vtare.arguments import forgive_lost_readers
from vtare.cli.examples import below
from vtare.errors import INTERNAL, BadInput, MachineCannot, VtareError, did_you_mean, nearest, refusal_of
from vtare.stored.paths import plain_text
from vtare.terminal.logs import be_quiet, start_logging

if TYPE_CHECKING:
    from types import FrameType

#: The commands and the modules that hold them, in the order in which `--help` lists them.
_COMMANDS: Final = {
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
#: The errors of the library of command lines, which comes with typer or beside it.
_USAGE: Final[Any] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "UsageError")
_LOG = logging.getLogger(__name__)
_TRACE_LINES: Final = 20


class _Commands(TyperGroup):
    """The commands, of which one is loaded: the one that was called."""

    def __init__(self, **attributes: Any) -> None:
        """Take what typer gives; the names alone, so that a misspelt one finds its neighbours."""
        super().__init__(**attributes)
        self.commands: Any = dict.fromkeys(_COMMANDS)

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands."""
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Load one command; None where there is none of this name."""
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f"vtare.cli.{_COMMANDS[cmd_name]}")
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(cmd_name, epilog=below(cmd_name))(getattr(module, cmd_name.replace("-", "_")))
        command = typer.main.get_command(alone)
        command.params.append(_quiet_option())
        return command


def _quiet_option() -> TyperOption:
    def quiet(context: Any, option: Any, wanted: bool) -> None:
        if wanted:
            be_quiet()

    # Not eager: it goes before --verbose.
    words = "Show results and errors only: no progress, no notices."
    return TyperOption(param_decls=["--quiet", "-q"], is_flag=True, expose_value=False, callback=quiet, help=words)


app = typer.Typer(
    name="vtare-lab",
    cls=_Commands,
    help="Plans, campaigns and reports of vtare.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(shown: bool) -> None:
    if shown:
        typer.echo(f"vtare-lab {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Plans, campaigns and reports of vtare."""


def main() -> None:
    """Entry point of `vtare-lab`: prints an error as one line and ends with its exit code."""
    start_logging()
    forgive_lost_readers()
    for number in (signal.SIGTERM, signal.SIGHUP):
        # What is half written is removed on the way out. A campaign takes these signals over; nohup ignores SIGHUP.
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _interrupt)
    try:
        try:
            # As it is typed: the binary hands its subcommands on.
            code = app(prog_name="vtare", standalone_mode=False)
        finally:
            sys.stdout.flush()
    except VtareError as error:
        _end(error)
    except _USAGE as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            sys.stderr.write(f"{error.format_message()}\n")
            sys.exit(2)
        _end(BadInput(_usage(error)))
    except typer.Abort:
        _LOG.error("interrupted")
        sys.exit(130)
    except OSError as error:
        _end(refusal_of(error))
    except KeyboardInterrupt:
        _LOG.error("interrupted")
        sys.exit(130)
    except Exception as error:
        if _is_of_memory(error):
            _end(MachineCannot("this process may not take the memory that it needs (see `ulimit -v`); nothing is lost"))
        _end_unexpected(error)
    sys.exit(code if isinstance(code, int) else 0)


def _usage(error: Any) -> str:
    """What is wrong with a command line, in one line: as all other messages, and those of the binary."""
    if error.ctx is None:
        return str(error.format_message()).rstrip(".")
    lists = f"`{error.ctx.command_path} --help`"
    option = getattr(error, "option_name", None)
    if hasattr(error, "possibilities"):
        near = did_you_mean(str(option), error.possibilities or ())
        return f"found the argument '{option}'{near}, expected one that {lists} lists"
    parameter = getattr(error, "param", None)
    if parameter is not None and not str(getattr(error, "message", "")):
        return f"found no {parameter.human_readable_name}, expected one: see {lists}"
    unknown = re.match(r"No such command '([^']+)'", error.format_message())
    if unknown is not None:
        meant = nearest(unknown[1], _COMMANDS)
        hint = f"Did you mean '{meant}'?" if meant else "`vtare help --all` lists the commands"
        return f"unknown command '{unknown[1]}'. {hint}"
    return f"{error.format_message().rstrip('.')}: see {lists}"


def _end(error: VtareError) -> NoReturn:
    text = str(error)
    if (objects := sys.modules.get("vtare.campaign.objects")) is not None:
        # A store on S3 is named as such, and not by its working copy here.
        text = objects.named(text)
    _report(text, error.exit_code)
    sys.exit(error.exit_code)


def _report(text: str, exit_code: int) -> None:
    """Print an error on stderr; with `--json` as the one document on stdout, too."""
    if "--json" in sys.argv:
        from vtare.cli.options import print_json

        print_json({"schema": "vtare.error/1", "error": text, "exit_code": exit_code})
    _LOG.error("%s", text)


def _is_of_memory(error: BaseException) -> bool:
    """Whether memory is short: libraries have errors of their own for that, the loader of modules only words."""
    words = ("failed to map segment", "cannot allocate memory", "not enough memory", "memory allocation")
    return isinstance(error, MemoryError) or (
        type(error).__name__ in ("OutOfMemoryException", "ComputeError", "ImportError", "PanicException")
        and any(word in str(error).lower() for word in (*words, "out of memory"))
    )


def _end_unexpected(error: Exception) -> NoReturn:
    """Any error that nobody foresaw: the last lines of its trace, and how to report it."""
    trace = "".join(traceback.format_exception(error))
    sys.stderr.write("".join(f"{plain_text(line)}\n" for line in trace.splitlines()[-_TRACE_LINES:]))
    text = (
        f"internal error: {type(error).__name__}: {error!s:.200}. This is a fault of vtare. Please report it with the "
        "lines above, the command and the output of `vtare --version`"
    )
    _report(text, INTERNAL)
    sys.exit(INTERNAL)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
