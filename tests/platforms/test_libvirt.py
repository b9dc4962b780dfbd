"""Micro guests under a libvirt daemon, for real where one answers: measured behind the bridge, killed, cleaned up.

None is started here: `make test-platforms` uses the machine's own, at VTARE_LIBVIRT_URI or qemu:///system.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from machines import PATIENCE_S

from vtare.errors import MachineCannot
from vtare.links import TwoHosts
from vtare.overhead import figures_of, join, read_capture, read_round_trips
from vtare.platforms import Platform, Resources, network, open_platform, qemu
from vtare.platforms.guest.kernel import find_kernel
from vtare.platforms.guest.libvirt_machine import found_manager
from vtare.platforms.host import HostInstance
from vtare.platforms.owner import own_prefix

pytestmark = [pytest.mark.e2e, pytest.mark.platform]

SETTINGS = {"manager": "libvirt"}


@pytest.fixture(scope="module", autouse=True)
def able() -> None:
    """Skip where libvirt or a kernel cannot be had, with the reason."""
    manager = found_manager()
    if manager.uri is None:
        pytest.skip(manager.reason)
    try:
        find_kernel("generic")
    except MachineCannot as error:
        pytest.skip(str(error))


def domains(prefix: str) -> set[str]:
    """The domains that run now and whose names begin so: another lab's may run beside them."""
    import libvirt

    connection = libvirt.open(found_manager().uri)
    try:
        return {one.name() for one in connection.listAllDomains() if one.name().startswith(prefix)}
    finally:
        connection.close()


def platform_of(vtare: Path, resources: Resources) -> Platform:
    platform = open_platform("qemu", binary=vtare, owner=own_prefix(), settings=SETTINGS)
    reason = platform.missing(resources)
    if reason is not None:
        pytest.skip(reason)
    return platform


@pytest.mark.parametrize(("nic", "clock_source"), [("virtio", None), ("e1000", "hpet")])
def test_round_trips_of_a_guest_under_libvirt_are_captured_in_front_of_it(
    static_vtare: Path, tmp_path: Path, nic: str, clock_source: str | None
) -> None:
    from vtare.campaign import Files, StopRequest
    from vtare.campaign.crew import SIDES, Crew, Roles, capture_name
    from vtare.campaign.execute import RunSettings, execute
    from vtare.design import Run

    pinned = min(os.sched_getaffinity(0))
    resources = Resources(nic=nic, vcpus=2, pinned=(pinned,), clock_source=clock_source)
    guests = platform_of(static_vtare, resources)
    others = open_platform("netns", binary=static_vtare, owner=own_prefix())
    with TwoHosts(own_prefix()) as hosts:
        try:
            (sender,) = guests.start(1, hosts.sender, resources)
            (responder,) = others.start(1, hosts.responder)
            told = sender.facts()["guest"]
            assert isinstance(told, dict)
            assert told["manager"] == f"libvirt at {found_manager().uri}"
            assert (told["nic"], told["pinned"], told["vcpus"]) == (nic, [pinned, pinned], 2)
            assert clock_source in (None, told["clock_source"])
            assert domains(f"{own_prefix()}-") == {sender.name}
            host_sides = {"sender": hosts.sender, "responder": hosts.responder}
            crew = Crew(
                Roles(sender="qemu", responder="netns", capture="on"),
                {"sender": sender, "responder": responder},
                {side: HostInstance(static_vtare, site) for side, site in host_sides.items()},
                hosts.facts(),
            )
            parameters: dict[str, Any] = {"rate_packet_per_s": 100, "seconds": 1.0}
            run = Run(0, 1, 1, "0123456789abcdef", "e", "rtt", None, {}, parameters)
            settings = RunSettings(seed=1, load={"kind": "idle"}, settle_s=0.0, timeout_s=600.0)
            with StopRequest() as stop:
                outcome = execute(run, settings, tmp_path, instance=sender, files=Files(), stop=stop, crew=crew)
        finally:
            guests.stop()
            others.stop()
    assert outcome.status == "done", outcome
    trips = read_round_trips(tmp_path / "samples.parquet")
    captures = {side: read_capture(tmp_path / capture_name(side)) for side in SIDES}
    found = figures_of(join(trips.frame, trips.flows[0], sender=captures["sender"], responder=captures["responder"]))
    assert found["sent"] == found["received"] + found["late"] + sum(found["lost_at"].values())
    assert found["received"] > 0
    assert json.loads((tmp_path / "topology.json").read_text())["sender"]["capture_interface"] == hosts.sender.port(0)
    assert domains(f"{own_prefix()}-") == set()
    assert {name for name in network.namespaces() if name.startswith(own_prefix())} <= {f"{own_prefix()}-ssh"}


LAB = """
import sys, time
from pathlib import Path
sys.path[:0] = sys.argv[2:]
from vtare.platforms import open_platform
from vtare.platforms.owner import own_prefix
platform = open_platform("qemu", binary=Path(sys.argv[1]), owner=own_prefix(), settings={"manager": "libvirt"})
platform.start(1)
print("ready", flush=True)
time.sleep(600)
"""


def test_a_killed_lab_takes_its_domains_along(static_vtare: Path) -> None:
    platform_of(static_vtare, Resources())
    lab = subprocess.Popen([sys.executable, "-c", LAB, str(static_vtare), *sys.path], stdout=subprocess.PIPE, text=True)
    assert lab.stdout is not None
    assert lab.stdout.readline() == "ready\n"
    (name,) = domains(f"vtare-{lab.pid}-")
    lab.kill()
    lab.wait(60)
    lab.stdout.close()
    deadline = time.monotonic() + PATIENCE_S
    while name in domains(name):
        assert time.monotonic() < deadline, f"the domain outlived the lab by {PATIENCE_S:g} s"
        time.sleep(0.05)
    (left,) = (one for one in qemu.leftovers() if one.name == name)
    assert left.kept_because is None
    left.remove()
    assert not qemu.directory_of(name).exists()


def test_a_domain_that_is_ended_by_others_is_given_up(static_vtare: Path, tmp_path: Path) -> None:
    import libvirt

    platform = platform_of(static_vtare, Resources())
    try:
        (guest,) = platform.start(1)
        child = guest.start(["load", "idle"], directory=tmp_path, stdout=tmp_path / "out", stderr=tmp_path / "log")
        connection = libvirt.open(found_manager().uri)
        connection.lookupByName(guest.name).destroy()
        connection.close()
        assert child.wait(PATIENCE_S) is not None
        assert "its control channel is closed" in (tmp_path / "log").read_text()
        assert not guest.alive  # type: ignore[attr-defined]
    finally:
        platform.stop()
