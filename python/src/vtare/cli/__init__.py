"""`vtare-lab`: the lab's commands, one module for each group of them. The only room that sees every stage.

`vtare run`, `status`, `resume`, `verify`, `report`, `plot`, `serve-report`, `compare`, `plan`, `papers`, `overhead` and
`clean` of the binary end here, as git's commands do.
"""

from __future__ import annotations

import logging
import signal
import sys
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from vtare import __version__
from vtare.arguments import forgive_lost_readers
from vtare.cli import ab, campaigns, papers, plans, results
from vtare.cli.options import OUT, print_json
from vtare.errors import MachineCannot, VtareError, refusal_of
from vtare.terminal.logs import start_logging

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

#: The commands, in the order in which `--help` lists them.
_COMMANDS: Final[dict[str, Callable[..., None]]] = {
    "run": campaigns.run,
    "resume": campaigns.resume,
    "verify": campaigns.verify,
    "status": campaigns.status,
    "report": results.report,
    "plot": results.plot,
    "serve-report": results.serve_report,
    "compare": results.compare,
    "plan": plans.plan,
    "overhead": results.overhead,
    "clean": campaigns.clean,
    "ab": ab.ab,
    "papers": papers.papers,
}
_LOG = logging.getLogger(__name__)

app = typer.Typer(
    name="vtare-lab",
    help="Plans, campaigns and reports of vtare.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for _name, _command in _COMMANDS.items():
    app.command(_name)(_command)


def _version(shown: bool) -> None:
    if shown:
        OUT.print(f"vtare-lab {__version__}")
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
            app(prog_name="vtare")
        finally:
            sys.stdout.flush()
    except VtareError as error:
        _end(error)
    except OSError as error:
        _end(refusal_of(error))
    except MemoryError:
        _end(MachineCannot("this process may not take the memory that it needs (see `ulimit -v`); nothing is lost"))
    except KeyboardInterrupt:
        _LOG.error("interrupted")
        sys.exit(130)


def _end(error: VtareError) -> NoReturn:
    if "--json" in sys.argv:
        print_json({"schema": "vtare.error/1", "error": str(error), "exit_code": error.exit_code})
    _LOG.error("%s", error)
    sys.exit(error.exit_code)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
