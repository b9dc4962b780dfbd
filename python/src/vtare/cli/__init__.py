"""`vtare-lab`: the lab's commands, one module for each group of them. The only room that sees every stage.

The binary hands its commands of the lab on to it, as git does.
"""

from __future__ import annotations

import logging
import signal
import sys
import traceback
from typing import TYPE_CHECKING, Final, NoReturn

import click

from vtare import __version__
from vtare.arguments import forgive_lost_readers
from vtare.cli.tree import HOMES, SETTINGS, Lab
from vtare.errors import INTERNAL, BadInput, MachineCannot, VtareError, nearest, refusal_of
from vtare.stored.paths import plain_text
from vtare.terminal.logs import start_logging

if TYPE_CHECKING:
    from types import FrameType

    from vtare.records.programs import Error

_LOG = logging.getLogger(__name__)
_TRACE_LINES: Final = 20


def _print_commands(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted:
        from vtare.cli.listing import document
        from vtare.cli.options import print_json

        assert isinstance(context.command, click.Group)
        print_json(document(context.command))
        raise click.exceptions.Exit(0)


def _print_schema(context: click.Context, option: click.Parameter, name: str | None) -> None:
    if name:
        from vtare.cli.options import print_json
        from vtare.records.schema import shipped

        all_of_them = shipped()
        if name != "all" and name not in all_of_them:
            near = nearest(name, all_of_them)
            hint = f"Did you mean '{near}'?" if near else "`vtare schema all` prints all"
            raise BadInput(f"unknown document '{name}'. {hint}")
        print_json(all_of_them if name == "all" else all_of_them[name])
        raise click.exceptions.Exit(0)


@click.group("vtare-lab", cls=Lab, context_settings=SETTINGS, no_args_is_help=True)
@click.version_option(__version__, message="vtare-lab %(version)s")
@click.option("--commands", is_flag=True, is_eager=True, hidden=True, expose_value=False, callback=_print_commands)
@click.option("--schema", is_eager=True, hidden=True, expose_value=False, callback=_print_schema)
def app() -> None:
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
    except click.exceptions.NoArgsIsHelpError as error:
        sys.stderr.write(f"{error.format_message()}\n")
        sys.exit(2)
    except click.UsageError as error:
        _end(BadInput(_usage(error)))
    except click.Abort:
        _LOG.error("interrupted")
        sys.exit(130)
    except OSError as error:
        _end(refusal_of(error))
    except KeyboardInterrupt:
        _LOG.error("interrupted")
        sys.exit(130)
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("vtare."):
            _end_unexpected(error)
        # `ab`, `watch`, `fleet` and the claims of `papers` may be left out of an installation.
        _end(MachineCannot(f"{error.name} is left out of this installation: install all of vtare (`make install`)"))
    except Exception as error:
        if _is_of_memory(error):
            _end(MachineCannot("this process may not take the memory that it needs (see `ulimit -v`); nothing is lost"))
        _end_unexpected(error)
    sys.exit(code if isinstance(code, int) else 0)


def _usage(error: click.UsageError) -> str:
    """What is wrong with a command line, in one line: as all other messages, and those of the binary."""
    see = "" if error.ctx is None else f": see `{error.ctx.command_path} --help`"
    match error:
        case click.NoSuchOption():
            near = nearest(error.option_name, error.possibilities or ())
            return f"unknown option '{error.option_name}'" + (f". Did you mean '{near}'?" if near else see)
        case click.MissingParameter(param=click.Parameter() as parameter):
            return f"{parameter.human_readable_name} is missing{see}"
        case click.BadParameter(param=click.Parameter() as parameter):
            name = parameter.opts[0] if isinstance(parameter, click.Option) else parameter.human_readable_name
            return f"{name}: {error.message}"
        case click.NoSuchCommand():
            near = nearest(error.command_name, HOMES)
            hint = f"Did you mean '{near}'?" if near else "`vtare help --all` lists the commands"
            return f"unknown command '{error.command_name}'. {hint}"
        case _:
            return f"{error.format_message().rstrip('.')}{see}"


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

        document: Error = {"schema": "vtare.error/1", "error": text, "exit_code": exit_code}
        print_json(document)
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
