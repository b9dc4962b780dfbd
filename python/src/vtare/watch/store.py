"""The directory that `vtare watch` keeps: made once, held by one program at a time, kept from growing for ever."""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vtare.campaign.files import Files
from vtare.errors import BadInput, CampaignStopped
from vtare.process import write_whole
from vtare.stored.paths import is_watched, read_regular
from vtare.watch.history import History

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vtare.plan.model import Plan

PLAN: Final = "plan.toml"
_ROUNDS: Final = "rounds"
#: Below it a round is not begun: it could not be kept as a whole.
_ROOM_BYTE: Final = 32_000_000


def round_place(store: Path, number: int) -> Path:
    """Where the runs of a round lie, a store of its own."""
    return store / _ROUNDS / f"{number:08}"


def newest_round(store: Path) -> Path:
    """The store of the newest round whose samples are kept.

    Raises:
        BadInput: none is.
    """
    for place in sorted((store / _ROUNDS).glob("*"), reverse=True):
        if (place / PLAN).exists():
            return place
    raise BadInput(f"{store}: keeps the samples of no round: let `vtare watch` make one, or raise its --keep")


@contextmanager
def held_store(store: Path, plan: Plan) -> Iterator[None]:
    """Make the store of a plan, or go on with that of the same plan, and hold it: no second program may.

    Raises:
        BadInput: it holds something else, another plan, or is held by another program.
    """
    # What was killed while it made the store has left a part of it.
    if store.exists() and not is_watched(store) and {path.name for path in store.iterdir()} - {PLAN, _ROUNDS}:
        raise BadInput(f"{store}: holds something else than what `vtare watch` keeps; name another --store")
    (store / _ROUNDS).mkdir(parents=True, exist_ok=True)
    descriptor = os.open(store, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not (store / PLAN).exists():
            write_whole(store / PLAN, plan.text.encode())
        elif read_regular(store / PLAN).decode("utf-8") != plan.text:
            raise BadInput(f"{store}: is watched by another plan, {store / PLAN}; name another --store")
        with History(store):
            pass
        yield
    except BlockingIOError as error:
        raise BadInput(f"{store}: another `vtare watch` holds it; end that one, or name another --store") from error
    finally:
        os.close(descriptor)


def room(store: Path) -> None:
    """Refuse to begin a round that the disk has no room for.

    Raises:
        CampaignStopped: so it is.
    """
    free = Files().free_byte(store)
    if free < _ROOM_BYTE:
        raise CampaignStopped(
            f"{store}: {os.strerror(errno.ENOSPC)}: {free / 1e6:.0f} MB are free, {_ROOM_BYTE / 1e6:.0f} MB needed: "
            "free space, or shorten --keep"
        )


def drop_old(store: Path, keep: int) -> int:
    """Remove the samples of all rounds but the last `keep`, and what killed rounds left; their number.

    Their figures stay in the history. Rounds are counted and not dated: a clock that is set forward by mistake would
    take all of them.
    """
    files = Files()
    with History(store, read_only=True) as history:
        kept = {round_place(store, number).name for number in history.newest(keep)}
    gone = [path for path in sorted((store / _ROUNDS).iterdir()) if path.name not in kept]
    for path in gone:
        files.remove_tree(path)
    return len(gone)
