"""What carries out runs for a fleet: functions that a worker process is asked for, one at a time.

A worker process stands on the machine of the lab and reaches its hosts, or it is on the host itself and measures there.
What runs need again (connections, instances) stays between them, for the few hosts that it had last.
"""

from __future__ import annotations

import ctypes
import os
import signal
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vtare import __version__, documents
from vtare.campaign.attempts import Attempts
from vtare.campaign.binary import find_binary
from vtare.campaign.files import Files
from vtare.campaign.stop import StopRequest
from vtare.errors import BadInput, VtareError
from vtare.fleet.frozen import Freezer
from vtare.platforms import open_platform
from vtare.platforms.host import remove_work_directories, work_directory
from vtare.platforms.owner import own_prefix

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.campaign.execute import RunOutcome
    from vtare.design import Run
    from vtare.fleet.hosts import FleetHost
    from vtare.plan.model import Plan

_PR_SET_PDEATHSIG: Final = 1
#: Setups that stay open: those of the last hosts.
_MOST_OPEN: Final = 4
#: What answers within this time answers.
_PROBE_S: Final = 60.0
_open: Final[dict[tuple[object, ...], Attempts]] = {}
_freezer: Final = Freezer()


@dataclass(frozen=True, slots=True)
class Job:
    """One attempt: the plan with its hosts by role, the run, the campaign's seed, and where its files go.

    `hosts` is empty where the worker is on the host itself: it then stops while a program measures, for `freeze_s` at
    the most.
    """

    plan: Plan
    run: Run
    seed: int
    binary: str
    directory: str
    hosts: tuple[FleetHost, ...]
    freeze_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Result:
    """How an attempt ended, and the hosts that were lost in it."""

    outcome: RunOutcome
    lost: frozenset[str] = frozenset()


def prepare(lab_pid: int) -> None:
    """Become a worker of this lab process: end with it, and leave Ctrl-C to it."""
    with suppress(OSError):
        os.setsid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != lab_pid:
        os._exit(1)


def perform(job: Job) -> Result:
    """Make one attempt in the directory that the job names.

    Raises:
        OSError: the program cannot be started or the directory cannot be written.
    """
    return carry_out(job, Path(job.directory))


def carry_out(job: Job, directory: Path) -> Result:
    """Make one attempt in another directory; see `perform`."""
    outcome = _attempts(job).attempt(job.run, directory)
    return Result(outcome, frozenset() if outcome.status == "done" else _lost(job, outcome))


def probe(host: FleetHost | None, binary: str) -> dict[str, Any]:
    """Find out whether a host answers, end what a lab that is gone has left there, and return its facts.

    `host` is None for the machine of this worker. A host that does not answer gives {"reason": ...}.
    """
    try:
        remove_work_directories()
        return _facts(host, _binary(binary))
    except (VtareError, OSError) as error:
        return {"reason": str(error)}


def leave() -> None:
    """End all that stays between runs."""
    while _open:
        _open.popitem()[1].close()
    _freezer.close()


def _attempts(job: Job) -> Attempts:
    """The setups on these hosts; those of the hosts that were used the longest ago are closed for them."""
    reached = tuple((host.name, *sorted(host.settings.items())) for host in job.hosts)
    key = (job.plan.text, job.seed, reached, *job.plan.hosts.items(), job.freeze_s)
    attempts = _open.pop(key, None)
    if attempts is None:
        for stale in list(_open)[: max(0, len(_open) - _MOST_OPEN + 1)]:
            _open.pop(stale).close()
        freeze = partial(_freezer.freeze, job.freeze_s) if job.freeze_s else None
        attempts = Attempts(job.plan, job.seed, _binary(job.binary), Files(), StopRequest(), freeze)
    _open[key] = attempts
    return attempts


def _binary(stated: str) -> Path:
    """The binary of the lab where its path leads to one here, too; else this machine's own."""
    return Path(stated) if Path(stated).is_file() else find_binary()


def _lost(job: Job, outcome: RunOutcome) -> frozenset[str]:
    """The hosts of an attempt that do not answer after it; all where they do, but a connection was lost in it."""
    silent = frozenset(host.name for host in job.hosts if "reason" in probe(host, job.binary))
    return silent or frozenset(host.name for host in job.hosts if outcome.lost)


def check(host: FleetHost | None, binary: str, seconds: float) -> dict[str, Any]:
    """The document of `vtare check`, made on a host; {"reason": ...} where that cannot be."""
    try:
        words = ("check", "--seconds", f"{seconds:g}", "--json")
        return _document(host, _binary(binary), words, 10.0 * seconds + _PROBE_S)
    except (VtareError, OSError) as error:
        return {"reason": str(error)}


def _facts(host: FleetHost | None, binary: Path) -> dict[str, Any]:
    """What a host reports of itself, by the shortest measurement there is."""
    words = ("timer", "--samples", "100", "--source", "clock_monotonic", "--json")
    document = _document(host, binary, words, _PROBE_S)
    return {"machine": document["machine"], "lab": __version__}


def _document(host: FleetHost | None, binary: Path, words: Sequence[str], patience_s: float) -> dict[str, Any]:
    """What a command of the binary prints on a host with `--json`.

    Raises:
        BadInput: it ends badly there, or prints something else.
        VtareError, OSError: the host does not answer.
    """
    name = "host" if host is None else host.name
    settings = None if host is None else host.settings
    platform = open_platform(name, binary=binary, owner=own_prefix(), settings=settings)
    reason = platform.missing()
    if reason is not None:
        raise BadInput(reason)
    command = f"`vtare {words[0]} --json`"
    with work_directory() as place:
        out, log = Path(place) / "out", Path(place) / "log"
        try:
            (instance,) = platform.start(1)
            child = instance.start(words, directory=Path(place), stdout=out, stderr=log)
            code = child.wait(patience_s)
            if code is None:
                child.kill()
                raise BadInput(f"{command} did not end there within {patience_s:g} s")
            if code != 0:
                raise BadInput(f"{command} ended there with exit code {code}: {log.read_text()[-300:].strip()}")
            document = documents.read(out)
            if not isinstance(document.get("machine"), dict):
                raise BadInput(f"{command} printed no facts of the machine there")
            return dict(document)
        finally:
            platform.stop()
