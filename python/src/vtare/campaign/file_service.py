"""The file service of the load `nbd`: a server beside the instance under load, on the host of its role.

The instance reads and writes it over its network card. What the two moved is one report, `load.json`: the client's,
with where the server had the bytes. Instances in the background have a server each (`vtare.campaign.background`).
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from vtare import documents
from vtare.campaign.children import Helper, RunFailed, end, has_line, wait_ready
from vtare.campaign.sample_checks import check_load
from vtare.errors import BadInput
from vtare.platforms.intake import printable
from vtare.process import ending_text
from vtare.topology.instance_factors import FILE_SERVICE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vtare.campaign.files import Files
    from vtare.campaign.stop import StopRequest
    from vtare.platforms.protocol import Server
    from vtare.topology.instance_factors import Load

#: The port that is registered for the protocol.
_PORT: Final = 10809


@dataclass(frozen=True, slots=True)
class FileService:
    """A server that answers: the words that lead a load to it, and the program; nothing where the load needs none."""

    words: tuple[str, ...] = ()
    helpers: tuple[Helper, ...] = ()


@contextmanager
def file_service(
    server: Server | None, load: Load, directory: Path, files: Files, stop: StopRequest
) -> Iterator[FileService]:
    """Serve from this server while a run is made, where its load is `nbd`, then add its report to the load's.

    Raises:
        RunFailed: the server could not start, ended early or left no report.
        Interrupted: a stop was requested while it started.
    """
    if load.kind != FILE_SERVICE:
        yield FileService()
        return
    if server is None:
        raise RunFailed("load nbd: this setup has no server beside the instance", status="skipped")
    address, words = serving(server)
    log, report = directory / "nbd-server.log", directory / "nbd-server.json"
    log.touch()
    child = server.start(words, directory=directory, stdout=report, stderr=log)
    helper = Helper("server of the load nbd", child, log)
    try:
        wait_ready(helper, lambda: has_line(log, b"ready"), stop)
        yield FileService(("--to", address), (helper,))
    finally:
        code = end(child, stop)
    if code != 0:
        raise RunFailed(f"the {helper.name} ended with {ending_text(code)}", code, log=log)
    files.write(directory / "load.json", json.dumps(_both(directory / "load.json", report), indent=2).encode())
    report.unlink()


def serving(server: Server, number: int = 0) -> tuple[str, list[str]]:
    """The address of one of the file services on this server, and the words that start it."""
    address = f"{server.address}:{_PORT + number}"
    return address, ["load", FILE_SERVICE, "--serve", address, "--json"]


def _both(client: Path, server: Path) -> dict[str, Any]:
    """The client's report, with the server's part of the server's."""
    ends = []
    for path in (client, server):
        try:
            document = documents.read(path)
            check_load(document)
        except BadInput as error:
            raise RunFailed(printable(f"the load's report: {error}")) from error
        if document.get("kind") != FILE_SERVICE or not isinstance(document.get("nbd"), dict):
            raise RunFailed(f"the load's report {path.name} is not of the load {FILE_SERVICE}")
        ends.append(document)
    own, other = ends
    return {**own, "nbd": {**own["nbd"], "server": other["nbd"].get("server")}}
