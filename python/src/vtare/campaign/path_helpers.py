"""What an `avb` run has besides its two hosts: the bottleneck, cross traffic from a namespace of its own, and its sink.

Everything that makes or counts a truth is a program that reports when it is ready and leaves files: `cross.parquet`
(the sink's bins), `cross-sent.parquet` (the source's), `truth.parquet` (the log of `vtare link`), `capacity.jsonl` (the
steps of a kernel shaper), `link_counter.parquet` (what came to a kernel shaper and left it; between machines
`link_counter-left.parquet` has the latter).
"""

from __future__ import annotations

import json
import shutil
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from vtare.campaign.children import Helper, RunFailed, has_line, wait_ready
from vtare.errors import BadInput
from vtare.topology.link_counter import CROSS
from vtare.topology.path import DEFAULT_MTU_BYTE, IPERF3, PathSpec, Phase, link_arguments, rate_step
from vtare.topology.truth import CAPACITY_LOG, CROSS_LOG, LINK_LOG, SENT_LOG, document, read_cross, read_path

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vtare.campaign.stop import StopRequest
    from vtare.design import Run
    from vtare.plan.model import Experiment
    from vtare.platforms.protocol import Server
    from vtare.topology.link_counter import CountingPlace
    from vtare.topology.protocol import Hosts

CROSS_PORT: Final = 5001
#: Bins of the link counter, ns: of two packets at least, and short against a train. Trains on fast links are shorter.
_USUAL_BIN_NS, _FAST_BIN_NS, _FAST_BIT_PER_S = 50_000, 20_000, 5_000_000_000
_HOUR_NS: Final = 3_600_000_000_000
#: The headers of UDP over IPv4.
_HEADERS_BYTE: Final = 28
#: Cross traffic that others keep from the CPU is not sent: it goes before them.
_NICE: Final = ("nice", "-n", "-19")
#: The longest log that another machine may hand over.
_MOST_LOG_BYTE: Final = 1 << 30
_MOST_DOCUMENT_BYTE: Final = 1 << 16
#: The longest time that iperf3 takes: it is ended before.
_LONGEST_S: Final = "86400"
#: Windows are as short as a train of 2 ms: what was sent in them must be known better than to a millisecond.
_SENT_BIN: Final = "200us"


def path_of(run: Run, experiment: Experiment) -> PathSpec | None:
    """The path that a run's factors ask for; None where the plan names a far end of its own."""
    if not experiment.routed:
        return None

    def value(factor: str, default: Any) -> Any:
        label = run.factors.get(factor)
        return default if label is None else experiment.factor(factor).level(label).value

    capacity = value("capacity", None)
    return PathSpec(
        bottleneck=value("bottleneck", "tbf"),
        phases=(Phase(capacity, _HOUR_NS),) if capacity is not None else value("capacity_steps", ()),
        cross_bit_per_s=value("cross", 0),
        cross_arrivals=value("cross_arrivals", "constant"),
        cross_cpu=value("cross_cpu", None),
        delay_ns=value("delay", 0),
        loss_fraction=value("loss", 0.0),
        mtu_byte=value("mtu_byte", DEFAULT_MTU_BYTE),
        mtu_stated="mtu_byte" in run.factors,
    )


class PathHelpers:
    """The programs on the path of one run."""

    def __init__(self, binary: Path, hosts: Hosts, path: PathSpec) -> None:
        """Prepare for this path over these hosts, which are made."""
        self._hosts = hosts
        self._path = path
        self._router, self._source, self._sink = (hosts.server(one, binary) for one in ("router", "source", "sink"))
        self._counted = [] if path.bottleneck == "link" else hosts.counted(binary)

    def start(self, directory: Path, helpers: list[Helper], stop: StopRequest, *, seed: int) -> None:
        """Start what the path needs and wait until each is ready; `helpers` takes them in as they start.

        Raises:
            RunFailed: one of them could not start.
            Interrupted: a stop was requested.
        """
        self._add_at_bottleneck(directory, helpers, stop, seed=seed)
        if self._path.cross_bit_per_s and self._path.cross_arrivals == IPERF3:
            self._add_iperf3(directory, helpers, stop)
        elif self._path.cross_bit_per_s:
            sink = f"{self._sink.address}:{CROSS_PORT}"
            words = ["load", "net", "--sink", sink, "--out", str(directory / CROSS_LOG), "--json"]
            self._add("sink", self._sink, words, directory, helpers, stop)
            words = ["load", "net", "--to", sink, "--rate", str(self._path.cross_bit_per_s), "--seed", str(seed)]
            words += ["--arrivals", self._path.cross_arrivals, "--size", str(self._path.mtu_byte - _HEADERS_BYTE)]
            words += ["--out", str(directory / SENT_LOG), "--bin", _SENT_BIN]
            words += ["--cpu", str(self._path.cross_cpu)] if self._path.cross_cpu is not None else []
            self._add("cross", self._source, [*words, "--json"], directory, helpers, stop)

    def fetch(self, directory: Path) -> None:
        """Bring what the programs left from where they ran. Raises PlatformFailed where one is missing."""
        if self._path.cross_bit_per_s and self._path.cross_arrivals != IPERF3:
            self._source.fetch(directory, {SENT_LOG: _MOST_LOG_BYTE})
            self._sink.fetch(directory, {CROSS_LOG: _MOST_LOG_BYTE})
        if self._path.bottleneck == "link":
            self._router.fetch(directory, {LINK_LOG: _MOST_LOG_BYTE})
            return
        if self._path.steady_bit_per_s is None:
            self._router.fetch(directory, {CAPACITY_LOG: _MOST_LOG_BYTE})
        for place in self._counted:
            place.server.fetch(directory, {f"{place.stem}.json": _MOST_DOCUMENT_BYTE})
            if (document(directory, place.stem) or {}).get("counted"):
                place.server.fetch(directory, {f"{place.stem}.parquet": _MOST_LOG_BYTE})

    def check(self, directory: Path) -> None:
        """Check what the programs left.

        Raises:
            RunFailed: a file is missing or damaged.
        """
        try:
            if self._path.cross_bit_per_s and self._path.cross_arrivals != IPERF3:
                read_cross(directory / SENT_LOG)
                read_cross(directory / CROSS_LOG)
            read_path(directory, self._path)
        except BadInput as error:
            raise RunFailed(str(error)) from error

    def _add(
        self, name: str, server: Server, words: Sequence[str], directory: Path, helpers: list[Helper], stop: StopRequest
    ) -> None:
        log = directory / f"{name}.log"
        child = server.start(words, directory=directory, stdout=directory / f"{name}.json", stderr=log, before=_NICE)
        helpers.append(Helper(_NAMES[name], child, log))
        wait_ready(helpers[-1], lambda: has_line(log, b"ready"), stop)

    def _add_iperf3(self, directory: Path, helpers: list[Helper], stop: StopRequest) -> None:
        """Cross traffic as in the papers. It leaves no account of its own: the truth is counted at the link."""
        if self._hosts.HERE and shutil.which(IPERF3) is None:
            raise RunFailed(
                "cross traffic by iperf3: it is not on PATH; install it (`apt install iperf3`)", None, "skipped"
            )
        path = self._path
        payload_byte = path.mtu_byte - _HEADERS_BYTE
        # Its rate counts payload, that of the path IP packets.
        rate = path.cross_bit_per_s * payload_byte // path.mtu_byte
        common = ["--port", str(CROSS_PORT), "--forceflush"]
        at = str(self._sink.address)
        send = ["--client", at, "--udp", "--bitrate", str(rate), "--length", str(payload_byte), "--time", _LONGEST_S]
        send += ["--affinity", str(path.cross_cpu)] if path.cross_cpu is not None else []
        for name, server, words, sign in (
            ("sink", self._sink, ["--server", "--bind", at], b"Server listening"),
            ("cross", self._source, send, b" connected to "),
        ):
            log = directory / f"{name}.log"
            program = ["exec", "--plain", "--with-parent", "--", IPERF3, *words, *common]
            child = server.start(program, directory=directory, stdout=log, stderr=log, before=_NICE)
            # It reports SIGTERM as an interruption.
            helpers.append(Helper(_NAMES[name], child, log, ended_well=(0, 1)))
            wait_ready(helpers[-1], partial(_has_sign, log, sign), stop)

    def _add_at_bottleneck(self, directory: Path, helpers: list[Helper], stop: StopRequest, *, seed: int) -> None:
        """What is the bottleneck, changes it, or counts at it."""
        if self._path.bottleneck == "link":
            words = link_arguments(self._path, self._hosts.inward, self._hosts.outward, str(directory / LINK_LOG))
            self._add("link", self._router, [*words, "--seed", str(seed)], directory, helpers, stop)
            return
        for place in self._counted:
            self._add_link_counter(place, directory, helpers, stop)
        if self._path.steady_bit_per_s is None:
            self._add_shaper(directory, helpers, stop)

    def _add_shaper(self, directory: Path, helpers: list[Helper], stop: StopRequest) -> None:
        job = directory / "shaper.json"
        steps = [
            {
                "bit_per_s": phase.bit_per_s,
                "duration_ns": phase.duration_ns,
                "words": rate_step(self._path, self._hosts.outward, phase.bit_per_s).words[1:],
            }
            for phase in self._path.phases
        ]
        job.write_text(json.dumps({"steps": steps}), encoding="utf-8")
        words = ["shaper", str(job), "--log", str(directory / CAPACITY_LOG)]
        log = directory / "shaper.log"
        child = self._router.start(words, directory=directory, stdout=log, stderr=log)
        helpers.append(Helper("shaper", child, log))
        wait_ready(helpers[-1], lambda: has_line(log, b"ready"), stop)

    def _add_link_counter(
        self, place: CountingPlace, directory: Path, helpers: list[Helper], stop: StopRequest
    ) -> None:
        taps = {name: {**tap, "port": CROSS_PORT} if name == CROSS else tap for name, tap in place.taps.items()}
        fast = self._path.most_bit_per_s >= _FAST_BIT_PER_S
        job = directory / f"{place.stem}-job.json"
        job.write_text(json.dumps({"taps": taps, "bin_ns": _FAST_BIN_NS if fast else _USUAL_BIN_NS}), encoding="utf-8")
        words = ["link-counter", str(job), "--out", str(directory / f"{place.stem}.parquet")]
        log = directory / f"{place.stem}.log"
        child = place.server.start(words, directory=directory, stdout=log, stderr=log)
        helpers.append(Helper("link counter", child, log))
        wait_ready(helpers[-1], lambda: has_line(log, b"ready"), stop)


def _has_sign(log: Path, sign: bytes) -> bool:
    return sign in log.read_bytes()


_NAMES: Final = {"link": "link", "sink": "sink of cross traffic", "cross": "cross traffic"}
