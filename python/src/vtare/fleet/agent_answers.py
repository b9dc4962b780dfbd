"""Read what an agent answers: bytes of a machine that is not trusted, checked before anything uses them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from vtare import documents
from vtare.campaign.children import RunFailed
from vtare.campaign.execute import LOG_TAIL_BYTE, RunOutcome, check_files
from vtare.fleet.agent_tasks import PIECE_BYTE
from vtare.platforms.intake import MOST_OUTPUT_BYTE, Incoming, printable
from vtare.stored.manifest import MANIFEST
from vtare.stored.paths import odd_entry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from vtare.campaign.allowance import Allowance
    from vtare.campaign.journal import Status
    from vtare.design import Run

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
#: A run leaves some logs and documents, and one of each for every guest.
_MOST_FILES: Final = 4096
_STATUSES: Final[Mapping[str, Status]] = {"done": "done", "failed": "failed", "skipped": "skipped"}
#: The longest reason that the journal keeps, in characters.
_REASON: Final = 600


class BadAnswer(ValueError):
    """An agent has answered what no agent of vtare answers. The message is one line."""


@dataclass(frozen=True, slots=True)
class Announced:
    """How a run ended, by the word of an agent, and the sizes of its files; None where they are in the store."""

    outcome: RunOutcome
    files: Mapping[str, int] | None


def read_document(data: object) -> dict[str, Any]:
    """The document that an agent answers.

    Raises:
        BadAnswer: it is none, or states an error.
    """
    if not isinstance(data, bytes):
        raise BadAnswer(f"the answer is of type {type(data).__name__}, not bytes")
    try:
        document = documents.parse(data)
    except documents.BadDocument as error:
        raise BadAnswer(printable(error)) from error
    if "error" in document:
        raise BadAnswer(f"it reports {printable(document['error'])}")
    return document


def read_announced(data: object, run: Run, most: Allowance) -> Announced:
    """The result of this run as an agent announces it.

    Raises:
        BadAnswer: it is that of another run, or names files that no run has.
    """
    document = read_document(data)
    if document.get("run_id") != run.run_id:
        raise BadAnswer(f"the answer is of run {printable(document.get('run_id'))}, not {run.run_id}")
    files = document.get("files")
    outcome = _outcome(document.get("outcome"), away=files is not None)
    if files is None:
        return Announced(outcome, None)
    if not isinstance(files, dict) or len(files) > _MOST_FILES:
        raise BadAnswer(f"its files are no list of {_MOST_FILES} at most")
    for name, byte in files.items():
        if not _NAME.fullmatch(name) or name == MANIFEST:
            raise BadAnswer(f"no run leaves a file named {printable(repr(name))}")
        if isinstance(byte, bool) or not isinstance(byte, int) or not 0 <= byte <= max(most.byte, MOST_OUTPUT_BYTE):
            raise BadAnswer(f"{printable(byte)} B for {name} are more than this run can leave")
    if sum(files.values()) > 2 * most.byte + 16 * MOST_OUTPUT_BYTE:
        raise BadAnswer(f"{sum(files.values())} B in all files are more than this run can leave")
    return Announced(outcome, files)


def _outcome(found: Any, *, away: bool) -> RunOutcome:
    if not isinstance(found, dict):
        raise BadAnswer("the answer has no outcome")
    status, elapsed_s, code = (found.get(key) for key in ("status", "elapsed_s", "exit_code"))
    if not isinstance(status, str) or status not in _STATUSES:
        raise BadAnswer(f"unknown status {printable(status)}")
    if isinstance(elapsed_s, bool) or not isinstance(elapsed_s, int | float) or not 0.0 <= elapsed_s < math.inf:
        raise BadAnswer(f"a run cannot take {printable(elapsed_s)} s")
    if code is not None and (isinstance(code, bool) or not isinstance(code, int) or abs(code) > 1 << 31):
        raise BadAnswer(f"impossible exit code {printable(code)}")
    texts = [found.get(key) for key in ("reason", "log_tail")]
    if any(text is not None and not isinstance(text, str) for text in texts):
        raise BadAnswer("its reason is not a text")
    if status == "done":
        return RunOutcome("done", float(elapsed_s), code, away=away)
    reason, tail = (str(text or "") for text in texts)
    return RunOutcome(
        _STATUSES[status],
        float(elapsed_s),
        code,
        printable(reason, _REASON) or "no reason was given",
        tail[:LOG_TAIL_BYTE],
        away=away,
    )


def take_files(
    announced: Announced, directory: Path, run: Run, most: Allowance, piece_of: Callable[[str, int], object], host: str
) -> None:
    """Bring the files of a run that is done into `directory`, piece by piece, and check them.

    Raises:
        BadAnswer: they are not what was announced, or not what this run leaves.
        OSError: they cannot be written here.
    """
    for name, byte in (announced.files or {}).items():
        with Incoming(directory, name, byte, host) as incoming:
            while incoming.byte < byte:
                piece = piece_of(name, incoming.byte)
                if not isinstance(piece, bytes) or not 0 < len(piece) <= min(PIECE_BYTE, byte - incoming.byte):
                    raise BadAnswer(f"no piece of {name} came at {incoming.byte} of {byte} B")
                incoming.write(piece)
            incoming.keep()
    odd = odd_entry(directory)
    if odd is not None:
        raise BadAnswer(printable(odd))
    try:
        check_files(directory, run, most)
    except RunFailed as error:
        raise BadAnswer(error.reason) from error
