"""Instances in the background of a run, and the load that each makes: started before, checked, ended after.

A load counts once it has reported that all its threads work. What it did while the run was made is in its report; the
run keeps them all in `background.json`, schema `vtare.background/1`, and is no run where one of them did nothing.
"""

from __future__ import annotations

import json
import resource
import shutil
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from vtare import documents
from vtare.campaign.capacity import require_capacity, spare_memory_byte
from vtare.campaign.children import Helper, RunFailed, end, has_line, wait_ready
from vtare.campaign.file_service import serving
from vtare.campaign.sample_checks import check_load
from vtare.errors import BadInput
from vtare.platforms.intake import printable
from vtare.platforms.protocol import Need
from vtare.process import ending_text
from vtare.topology.instance_factors import FIT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from vtare.campaign.files import Files
    from vtare.campaign.stop import StopRequest
    from vtare.platforms.network import Site
    from vtare.platforms.protocol import Instance, Platform, Resources, Server
    from vtare.topology.instance_factors import Background, Load

BACKGROUND_SCHEMA: Final = "vtare.background/1"
_MEBIBYTE: Final = 1 << 20
SINK_PORT: Final = 5002
#: The first index behind a bridge that is no instance that measures.
FIRST: Final = 1
_PLACE: Final = "background"
#: What the programs of one instance may take; its platform states what the instance itself takes.
_OF_LOAD: Final = {
    "idle": Need(),
    "cpu": Need(memory_byte=4 << 20, processes=1),
    "counter": Need(memory_byte=4 << 20, processes=1),
    "io": Need(memory_byte=4 << 20, processes=1, disk_byte=8 << 20),
    "nbd": Need(memory_byte=24 << 20, processes=4, disk_byte=16 << 20),
    "net": Need(memory_byte=4 << 20, processes=2),
}


@dataclass(frozen=True, slots=True)
class BesideServers:
    """The servers that loads in the background need: where their traffic goes, and where their files are."""

    sink: Server | None = None
    files: Server | None = None


class Neighbours:
    """The background instances of one run, started and idle."""

    def __init__(
        self,
        spec: Background,
        platform: str,
        instances: Sequence[Instance],
        servers: BesideServers = BesideServers(),
        memory_byte: int | None = None,
    ) -> None:
        """Take over started instances, the servers that their loads need, and what memory each was given."""
        self._memory_byte = memory_byte
        self._spec = spec
        self._platform = platform
        self._instances = instances
        self._sink = servers.sink if spec.load.kind == "net" else None
        self._files = servers.files if spec.served else None

    @contextmanager
    def at_work(self, directory: Path, files: Files, stop: StopRequest) -> Iterator[tuple[Helper, ...]]:
        """Load every instance, wait until all loads run, and end them; the run's directory gets their report.

        Raises:
            RunFailed: a load could not start, ended early or did nothing.
            Interrupted: a stop was requested while they started.
        """
        place = directory / _PLACE
        place.mkdir()
        helpers: list[Helper] = []
        try:
            sink = self._start_sink(place, helpers)
            if sink is not None:
                wait_ready(sink, lambda: has_line(sink.log, b"ready"), stop)
            services = self._serve(place, helpers)
            for service in services:
                wait_ready(service, lambda log=service.log: has_line(log, b"ready"), stop)  # type: ignore[misc]
            loads = [self._start(n, place / str(n), helpers) for n in range(len(self._instances))]
            for load in loads:
                wait_ready(load, lambda log=load.log: has_line(log, b"ready"), stop)  # type: ignore[misc]
            yield tuple(helpers)
            reports = [_ended(load, stop) for load in loads]
            for report, service in zip(reports, services, strict=bool(services)):
                report["nbd"] = {**(report["nbd"] or {}), "server": (_ended(service, stop)["nbd"] or {}).get("server")}
            received = None if sink is None else _ended(sink, stop)
            document = self._document(reports, received)
            files.write(directory / "background.json", json.dumps(document, indent=2).encode())
        except RunFailed as failure:
            if failure.log is not None and failure.log.is_relative_to(place):
                failure.log = failure.log.rename(directory / "background.log")
            raise
        finally:
            for helper in helpers:
                if helper.child.returncode is None:
                    end(helper.child, stop)
            shutil.rmtree(place, ignore_errors=True)

    def _start_sink(self, place: Path, helpers: list[Helper]) -> Helper | None:
        if self._sink is None:
            return None
        words = ["load", "net", "--sink", f"{self._sink.address}:{SINK_PORT}", "--json"]
        return _start("sink of background traffic", self._sink, words, place / "sink", helpers)

    def _serve(self, place: Path, helpers: list[Helper]) -> list[Helper]:
        """Start a file service for each instance; none where their load needs none."""
        server = self._files
        if server is None:
            return []
        return [
            _start(f"file service of {one.name}", server, serving(server, 1 + n)[1], place / f"served-{n}", helpers)
            for n, one in enumerate(self._instances)
        ]

    def _start(self, number: int, place: Path, helpers: list[Helper]) -> Helper:
        instance, to = self._instances[number], None
        if self._sink is not None:
            to = f"{self._sink.address}:{SINK_PORT}"
        elif self._files is not None:
            to = serving(self._files, 1 + number)[0]
        return _start(f"background load in {instance.name}", instance, _words(self._spec.load, to), place, helpers)

    def _document(self, reports: Sequence[dict[str, Any]], received: dict[str, Any] | None) -> dict[str, Any]:
        for instance, report in zip(self._instances, reports, strict=True):
            if self._spec.load.kind != "idle" and not report.get("operations"):
                raise RunFailed(f"the background load in {instance.name} did nothing while the run was made")
        return {
            "schema": BACKGROUND_SCHEMA,
            "platform": self._platform,
            "side": self._spec.side,
            # `none` is the word of this schema.
            "load": "none" if self._spec.load.kind == "idle" else self._spec.load.kind,
            "instances": len(self._instances),
            "memory_byte": self._memory_byte,
            "offered": _offered(reports, received),
            "reports": [
                {"instance": instance.name, **report} for instance, report in zip(self._instances, reports, strict=True)
            ],
        }


class PlainProcesses:
    """In place of a platform: plain processes on a machine that the plan names."""

    name: Final = "host"

    def __init__(self, server: Instance) -> None:
        """Have them on this server."""
        self._server = server

    def need(self, resources: Resources) -> Need:
        """They take nothing of this machine, or what their load takes."""
        return Need()

    def missing(self, resources: Resources) -> str | None:
        """Nothing: that machine is there."""
        return None

    def start(self, instances: int, site: Site | None, resources: Resources, *, first: int) -> Sequence[Instance]:
        """The server itself, once for each."""
        return [self._server] * instances

    def stop(self) -> None:
        """Do nothing: there is nothing but their loads."""


@contextmanager
def neighbours(
    spec: Background,
    platform: Platform | PlainProcesses,
    site: Site | None,
    servers: BesideServers,
    resources: Resources,
) -> Iterator[Neighbours]:
    """Start the background instances of one run and end them after it, whatever happens.

    Raises:
        MachineCannot: this machine cannot start them, or has no room for them.
    """
    of_load = _OF_LOAD[spec.load.kind] * _threads(spec.load)
    if spec.memory == FIT:
        resources = fitted(platform, spec.instances, resources, of_load)
    _allow_files(spec.instances)
    require_capacity(
        f"{spec.instances} background instances of {platform.name}",
        (platform.need(resources) + of_load) * spec.instances,
    )
    with ExitStack() as stack:
        stack.callback(platform.stop)
        started = platform.start(spec.instances, site, resources, first=FIRST)
        yield Neighbours(spec, platform.name, started, servers, resources.memory_byte)


def fitted(
    platform: Platform | PlainProcesses,
    instances: int,
    resources: Resources,
    of_load: Need,
    *,
    look: Callable[[], Need] | None = None,
) -> Resources:
    """These resources, with less memory where this machine has no room for all instances otherwise.

    Where there is no room even for the smallest that boots, nothing changes: they are refused with the figure that is
    short.
    `look` states what is free; that of this machine by default.
    """
    given = resources.memory_byte
    if given is None:
        return resources
    around = platform.need(resources).memory_byte - given
    room = spare_memory_byte(look) // instances - around - of_load.memory_byte
    if around < 0 or room >= given:
        return resources
    smaller = replace(resources, memory_byte=room // _MEBIBYTE * _MEBIBYTE)
    return resources if room < _MEBIBYTE or platform.missing(smaller) is not None else smaller


def _allow_files(instances: int) -> None:
    """Raise this process's limit of open files, as far as it may: each instance keeps some open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 512 + 16 * instances
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def _start(name: str, instance: Instance, words: Sequence[str], place: Path, helpers: list[Helper]) -> Helper:
    """Start a load in a directory of its own: a platform copies what is in it into the instance."""
    place.mkdir()
    log = place / "log"
    log.touch()
    child = instance.start(words, directory=place, stdout=place / "report.json", stderr=log)
    helpers.append(Helper(name, child, log))
    return helpers[-1]


def _threads(load: Load) -> int:
    """The threads of one instance: those of one stream where the plan states no number."""
    return load.threads or (2 if load.kind == "io" else 1)


def _words(load: Load, to: str | None) -> list[str]:
    if load.kind == "idle":
        return ["load", "idle", "--json"]
    if load.kind == "net":
        # Spinning before each packet would load the CPU more than the network.
        pace = ["--rate", str(load.rate_bit_per_s), "--tolerance", "50us"]
        return ["load", "net", "--to", str(to), *pace, "--json"]
    service = [] if to is None else ["--to", to]
    return ["load", load.kind, *service, "--threads", str(_threads(load)), "--json"]


def _ended(helper: Helper, stop: StopRequest) -> dict[str, Any]:
    """End a load and return its report."""
    code = end(helper.child, stop)
    if code != 0:
        raise RunFailed(f"the {helper.name} ended with {ending_text(code)}", code, log=helper.log)
    try:
        report = documents.read(helper.log.parent / "report.json")
        check_load(report)
    except BadInput as error:
        raise RunFailed(printable(f"the {helper.name} left no report: {error}"), log=helper.log) from error
    return {key: report.get(key) for key in ("kind", "elapsed_s", "threads", "operations", "operations_per_s",
                                             "cpu_fraction", "io", "nbd", "net")}  # fmt: skip


def _offered(reports: Sequence[dict[str, Any]], received: dict[str, Any] | None) -> dict[str, Any]:
    """What all instances offered together, measured by themselves; null where one of them does not know."""

    def total(values: Sequence[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return sum(known) if len(known) == len(values) else None

    offered: dict[str, Any] = {"operations_per_s": total([report["operations_per_s"] for report in reports])}
    parts = [report["io"] or (report["nbd"] or {}).get("client") for report in reports]
    io = [part for part in parts if part]
    if len(io) == len(reports) > 0:
        for key in ("written_byte", "read_byte", "socket_byte"):
            rates = [
                part[key] / r["elapsed_s"] if r["elapsed_s"] and part.get(key) is not None else None
                for part, r in zip(io, reports, strict=True)
            ]
            offered[f"{key}_per_s"] = total(rates)
    if received is not None:
        sent = [(report["net"] or {}).get("rate_bit_per_s") for report in reports]
        offered["net"] = {"sent_bit_per_s": total(sent), "received": received.get("net")}
    return offered
