"""Execute one run: helpers and load on, settle, measure, load and helpers off, check what came out.

Nothing here writes outside the run's temporary directory, and every child is ended on every way out.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vtare import documents
from vtare.campaign.allowance import SAMPLES, Allowance, allowance
from vtare.campaign.children import Helper, RunFailed, end, has_line, wait_measured, wait_ready
from vtare.campaign.file_service import FileService, file_service
from vtare.campaign.sample_checks import check_left, check_load
from vtare.contract import RUN_SCHEMA
from vtare.errors import BadInput, Interrupted
from vtare.platforms.child import wait_readable
from vtare.platforms.intake import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vtare.campaign.files import Files
    from vtare.campaign.journal import Status
    from vtare.campaign.setup import RunSetup
    from vtare.campaign.stop import StopRequest
    from vtare.design import Run
    from vtare.platforms.child import Child
    from vtare.topology.instance_factors import Load

LOG_TAIL_BYTE: Final = 4000
#: The longest reason that the journal keeps, in characters.
_REASON: Final = 600


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended. `reason` and `log_tail` are None for done runs; `exit_code` None where no program ended.

    `lost`: a host was not reached, or a connection to one was lost, so that another attempt may succeed.
    `away`: the files were written on another machine, whose disk is not that of the store.
    """

    status: Status
    elapsed_s: float
    exit_code: int | None = None
    reason: str | None = None
    log_tail: str | None = None
    lost: bool = False
    away: bool = False


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What the lab adds to a run: its seed, its load, how long to settle and when to give up.

    `freeze` stops this process until one of the programs has ended or the time is over; None: it waits as usual.
    """

    seed: int
    load: Load
    settle_s: float
    timeout_s: float
    freeze: Callable[[Sequence[Child], float], None] | None = None


def execute(
    run: Run,
    settings: RunSettings,
    directory: Path,
    *,
    setup: RunSetup,
    files: Files,
    stop: StopRequest,
) -> RunOutcome:
    """Execute one run in `directory`, which must exist, and return how it ended. `setup` is what the run has.

    Raises:
        Interrupted: a stop was requested; all children have ended.
        OSError: the program cannot be started or the directory cannot be written.
    """
    begin = time.monotonic()
    setup.begins(settings.settle_s + settings.timeout_s)
    document = {
        "schema": RUN_SCHEMA,
        "run_id": run.run_id,
        "instrument": run.instrument,
        "seed": settings.seed,
        "output": str(directory / SAMPLES),
        "parameters": setup.parameters(run.parameters, directory),
    }
    files.write(directory / "run.json", json.dumps(document, indent=2).encode())
    log = directory / "log"
    log.touch()
    try:
        with (
            setup.at_work(directory, files, stop) as helpers,
            nullcontext(()) if setup.beside is None else setup.beside.at_work(directory, files, stop) as busy,
            file_service(setup.file_server, settings.load, directory, files, stop) as served,
        ):
            code = _measure_under_load(settings, directory, log, setup, (*helpers, *busy), served, stop)
        most = allowance(run, settings.timeout_s)
        setup.sender.fetch(directory, {SAMPLES: most.byte})
        check_files(directory, run, most)
        setup.check(directory)
    except RunFailed as failure:
        tail = _tail(failure.log or log)
        reason = _with_log(failure, tail)
        # A setup that knows what failed explains it better than the program that measured.
        cause = setup.cause() if failure.status == "failed" else None
        if cause is not None and cause != reason:
            reason = f"{cause}; {reason}"
        return RunOutcome(failure.status, time.monotonic() - begin, failure.exit_code, reason, tail)
    return RunOutcome("done", time.monotonic() - begin, code)


def check_files(directory: Path, run: Run, most: Allowance) -> None:
    """Check the load's report and the samples of a run that is done.

    Raises:
        RunFailed: they are missing, damaged, of another run or more than this run can leave.
    """
    load = directory / "load.json"
    if not load.is_file() or not load.stat().st_size:
        raise RunFailed("the load left no report on stdout")
    _check_load(load)
    _check_samples(directory / SAMPLES, run, most)


def _measure_under_load(
    settings: RunSettings,
    directory: Path,
    log: Path,
    setup: RunSetup,
    helpers: Sequence[Helper],
    served: FileService,
    stop: StopRequest,
) -> int:
    arguments = ["load", settings.load.kind, "--json", *served.words]
    if settings.load.threads is not None:
        arguments += ["--threads", str(settings.load.threads)]
    child = setup.loaded.start(arguments, directory=directory, stdout=directory / "load.json", stderr=log)
    load = Helper("load", child, log)
    try:
        wait_ready(load, lambda: has_line(log, b"ready"), stop)
        if wait_readable([stop.fd], time.monotonic() + settings.settle_s):
            raise Interrupted("stopped while the load settled")
        child = setup.sender.start(
            ["measure", str(directory / "run.json")], directory=directory, stdout=log, stderr=log
        )
        return wait_measured(child, settings.timeout_s, stop, (*helpers, *served.helpers, load), settings.freeze)
    finally:
        end(load.child, stop)


def _check_load(path: Path) -> None:
    try:
        document = documents.read(path)
        check_load(document)
    except BadInput as error:
        raise RunFailed(printable(f"the load's report: {error}", _REASON)) from error
    if document.get("schema") != "vtare.load/1":
        raise RunFailed(f"the load's report has schema {printable(document.get('schema'))}, not 'vtare.load/1'")


def _check_samples(path: Path, run: Run, most: Allowance) -> None:
    if not path.is_file():
        raise RunFailed("the instrument reported it measured but left no samples.parquet")
    try:
        check_left(path, run, most)
    except BadInput as error:
        raise RunFailed(printable(error, _REASON)) from error


def _tail(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - LOG_TAIL_BYTE))
            return file.read(LOG_TAIL_BYTE).decode("utf-8", errors="replace").strip()
    except FileNotFoundError:
        return ""


def _with_log(failure: RunFailed, tail: str) -> str:
    """Add the program's own last words: they name the cause better than an exit code does."""
    lines = [line.strip() for line in tail.splitlines() if line.strip() and line.strip() != "ready"]
    return f"{failure.reason}: {printable(lines[-1])}" if lines and failure.exit_code is not None else failure.reason
