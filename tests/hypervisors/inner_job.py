"""The job of the outer machine: guests under its hypervisor by the ordinary adapter; what came of it as JSON lines.

Imports platforms and links only: what reads Parquet takes an emulated CPU minutes to load.
"""

from __future__ import annotations

import json
import secrets
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtare.platforms import open_platform
from vtare.platforms.owner import own_prefix
from vtare.platforms.protocol import Instance, Resources
from vtare.topology.links import TwoHosts

if TYPE_CHECKING:
    from vtare.platforms.child import Child

BEGAN = time.monotonic()
PORT = 8462


def tell(**facts: Any) -> None:
    """One line, at once: whoever waits outside sees how far it is."""
    print(json.dumps({"at_s": round(time.monotonic() - BEGAN, 1), **facts}), flush=True)


def measure(instance: Instance, directory: Path, instrument: str, **parameters: Any) -> None:
    """Carry out one run in the guest and print its exit code and its document."""
    run = {
        "schema": "vtare.run/1",
        "run_id": "0123456789abcdef",
        "instrument": instrument,
        "seed": 1,
        "output": str(directory / f"{instrument}.parquet"),
        "parameters": parameters,
    }
    (directory / "run.json").write_text(json.dumps(run))
    out, log = directory / f"{instrument}.json", directory / f"{instrument}.log"
    words = ["measure", str(directory / "run.json"), "--json"]
    code = instance.start(words, directory=directory, stdout=out, stderr=log).wait(600)
    instance.fetch(directory, {f"{instrument}.parquet": 16 << 20})
    samples = directory / f"{instrument}.parquet"
    tell(
        instrument=instrument,
        code=code,
        log=log.read_text()[-500:],
        samples_byte=samples.stat().st_size if samples.is_file() else None,
        document=json.loads(out.read_text() or "null"),
    )


def wait_for(child: Child, log: Path, holds: Callable[[], object]) -> None:
    """Wait until a program is ready; raise with its words where it ends before. The test outside has the time limit."""
    while not holds():
        if child.returncode is not None:
            raise RuntimeError(log.read_text())
        time.sleep(0.05)


def round_trips(guest: Instance, far: Instance, outside: Instance, directory: Path) -> None:
    """Measure round trips from the guest, and capture them at the host's end of its card."""
    words = ["serve", "--listen", f"{far.address}:{PORT}", "--json", "--key-file", str(directory / "key")]
    ready, log = directory / "serve.json", directory / "serve.log"
    server = far.start(words, directory=directory, stdout=ready, stderr=log)
    wait_for(server, log, ready.read_bytes)
    interface = str(guest.capture_interface())
    seen, said = directory / "capture.json", directory / "capture.log"
    capture = outside.start(["capture", interface, "--json"], directory=directory, stdout=seen, stderr=said)
    wait_for(capture, said, lambda: b"ready" in said.read_bytes())
    peer, key = [f"{far.address}:{PORT}"], str(directory / "key")
    measure(guest, directory, "rtt", peer=peer, key_file=key, rate_packet_per_s=20, seconds=1.0)
    code = capture.terminate(120)
    tell(interface=interface, code=code, log=said.read_text()[-500:], document=json.loads(seen.read_text() or "null"))
    server.terminate()


SETTINGS: dict[str, dict[str, str | int]] = {"qemu": {"accelerator": "kvm", "machine": "pc"}}


def main(binary: Path, platform: str, nics: list[str]) -> None:
    """Measure timer, sleep and round trips in one guest with each of these models of card."""
    guests = open_platform(platform, binary=binary, owner=own_prefix(), settings=SETTINGS.get(platform))
    others = open_platform("netns", binary=binary, owner=own_prefix())
    hosts_own = open_platform("host", binary=binary, owner=own_prefix())
    with TwoHosts(own_prefix()) as hosts:
        (outside,) = hosts_own.start(1, hosts.sender)
        for nic in nics:
            resources = Resources(nic=nic)
            tell(nic=nic, missing=guests.missing(resources))
            try:
                (guest,) = guests.start(1, hosts.sender, resources)
                tell(nic=nic, facts=guest.facts())
                (far,) = others.start(1, hosts.responder)
                directory = Path(tempfile.mkdtemp())
                (directory / "key").touch(0o600)
                (directory / "key").write_text(f"{secrets.token_hex(32)}\n")
                measure(guest, directory, "timer", samples=1000, seconds=0.2)
                measure(guest, directory, "sleep", samples=5, target_ns=[1_000_000])
                round_trips(guest, far, outside, directory)
            finally:
                guests.stop()
                others.stop()
            tell(nic=nic, destroyed=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
