"""The host's end of the control channel: what the lab requests of `vtare agent` in a guest. All has a time limit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from vtare.errors import PlatformFailed
from vtare.platforms.guest.child import GuestChild
from vtare.platforms.guest.errors import GuestFailed, GuestRefused
from vtare.platforms.guest.exchange import ANSWER_S, Exchange
from vtare.platforms.guest.frames import Kind, document_of
from vtare.platforms.guest.request import GuestRequest
from vtare.platforms.intake import printable

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vtare.platforms.intake import Incoming

_PIECE_BYTE: Final = 32 << 10


class Agent(Exchange):
    """One guest's agent: files, programs and facts over an open channel."""

    def facts(self) -> dict[str, Any]:
        """The guest's own facts, as the footer of its samples has them.

        Raises:
            GuestFailed: no answer.
        """
        with GuestRequest(self) as asked:
            asked.send(Kind.FACTS, {})
            return asked.answer()

    def put(self, path: Path, content: bytes) -> None:
        """Put a file into the guest, whole, readable by its owner only.

        Raises:
            GuestFailed: the guest does not take it, or no answer.
        """
        with GuestRequest(self) as asked:
            asked.send(Kind.PUT, {"path": str(path)})
            for begin in range(0, len(content), _PIECE_BYTE):
                self.send(Kind.DATA, asked.job, content[begin : begin + _PIECE_BYTE])
            asked.send(Kind.WHOLE, {"byte": len(content)})
            asked.answer()

    def get(self, path: Path, incoming: Incoming) -> None:
        """Read a file of the guest into `incoming`. A guest that does not give it as it should is given up.

        Raises:
            GuestFailed: there is no such file, a piece is missing, it is too long or too slow, or no answer.
            OSError: it cannot be written here.
        """
        try:
            with GuestRequest(self, incoming) as asked:
                asked.send(Kind.GET, {"path": str(path)})
                frame = asked.receive_whole(incoming)
            given = document_of(frame).get("byte")
            if frame.kind is not Kind.WHOLE or given != incoming.byte:
                raise GuestFailed(
                    f"guest {self.name}: {path}: {incoming.byte} B came, its agent sent {printable(given)} B"
                )
        except GuestRefused:
            raise
        except PlatformFailed as error:
            # What else it sends of the file belongs to no question any more.
            self.lose(str(error))
            raise error if isinstance(error, GuestFailed) else GuestFailed(str(error)) from error

    def start(self, arguments: Sequence[str], *, directory: Path, stdout: Path, stderr: Path) -> GuestChild:
        """Start `vtare ARGUMENTS` in the guest; what it prints is added to two files here.

        Raises:
            GuestFailed: the guest does not start it, or no answer.
            OSError: a file cannot be opened.
        """
        child = GuestChild(self, stdout, stderr)
        job = self.listen(child.take)
        child.job = job
        try:
            self.send(
                Kind.START,
                job,
                json.dumps({"arguments": list(arguments), "directory": str(directory)}).encode(),
            )
            child.wait_started(ANSWER_S)
        except BaseException:
            self.forget(job)
            raise
        return child
