"""What an agent is asked for. Each task returns bytes, which the lab reads with `agent_answers`, and raises nothing.

A result is announced first, as JSON; its files follow in pieces, each when it is asked for. So the longest message has
a bound that no plan changes.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vtare.fleet.worker import carry_out, leave, probe
from vtare.platforms.host import work_directory

if TYPE_CHECKING:
    import tempfile
    from collections.abc import Callable

    from vtare.fleet.worker import Job

PIECE_BYTE: Final = 2 << 20
#: The directory of the last run, by the name that the lab has for it: its files are asked for after it.
_last: Final[dict[str, tempfile.TemporaryDirectory[str]]] = {}


def make_run(job: Job) -> bytes:
    """Make one attempt; where the lab's store is seen here, in its directory."""
    return _answer(lambda: _made(job))


def _made(job: Job) -> dict[str, Any]:
    _forget()
    if Path(job.directory).is_dir():
        outcome, files = carry_out(job, Path(job.directory)).outcome, None
    else:
        _last[job.directory] = work_directory()
        place = Path(_last[job.directory].name)
        outcome = carry_out(job, place).outcome
        files = {path.name: path.stat().st_size for path in place.iterdir() if path.is_file() and path.name[0] != "."}
    return {"run_id": job.run.run_id, "outcome": asdict(outcome), "files": files}


def read_piece(directory: str, name: str, offset: int) -> bytes:
    """A piece of a file of the last run; nothing where it cannot be read."""
    try:
        with (Path(_last[directory].name) / Path(name).name).open("rb") as file:
            file.seek(offset)
            return file.read(PIECE_BYTE)
    except (KeyError, OSError):
        return b""


def find_facts(binary: str) -> bytes:
    """Remove what a lab that is gone has left here, and state the facts of this machine."""
    return _answer(lambda: probe(None, binary))


def leave_host() -> bytes:
    """End all that stays between runs."""
    return _answer(_left)


def _left() -> dict[str, Any]:
    _forget()
    leave()
    return {}


def _forget() -> None:
    while _last:
        _last.popitem()[1].cleanup()


def _answer(work: Callable[[], dict[str, Any]]) -> bytes:
    try:
        return json.dumps(work()).encode()
    except Exception as error:
        return json.dumps({"error": f"{type(error).__name__}: {error}"[:1000]}).encode()
