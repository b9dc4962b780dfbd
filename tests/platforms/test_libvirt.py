"""Micro guests under a libvirt daemon, for real where one answers: measured behind the bridge, killed, cleaned up.

The machine's own is used where it answers, at VTARE_LIBVIRT_URI or qemu:///system; else one of these tests' own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from machines import PATIENCE_S, end_daemon

from vtare.errors import MachineCannot
from vtare.overhead.figures import figures_of
from vtare.overhead.files import read_capture, read_round_trips
from vtare.overhead.join import join
from vtare.platforms import network, open_platform, qemu
from vtare.platforms.guest.kernel import find_kernel
from vtare.platforms.guest.libvirt_machine import URI_VARIABLE, found_manager
from vtare.platforms.host import HostInstance
from vtare.platforms.owner import own_prefix
from vtare.platforms.protocol import Platform, Resources
from vtare.topology.instance_factors import IDLE
from vtare.topology.links import TwoHosts

pytestmark = [pytest.mark.e2e, pytest.mark.platform]

SETTINGS = {"manager": "libvirt"}


#: A daemon whose state nobody else sees: empty directories in a mount namespace of its own, a socket that all see.
DAEMON = """
place=$1
for directory in /etc/libvirt /var/lib/libvirt /var/cache/libvirt /var/log/libvirt /run/libvirt; do
  mkdir -p $directory && mount -t tmpfs none $directory || exit 1
done
cp $place/qemu.conf /etc/libvirt/
# The user and groups that Debian's daemon asks for before it reads its settings: a package of services makes them.
for line in passwd:libvirt-qemu:x:64055:64055::/:/bin/false group:libvirt-qemu:x:64055: group:kvm:x:64056:; do
  file=${line%%:*} entry=${line#*:}
  [ -e $place/$file ] || cp /etc/$file $place/$file
  grep -q "^${entry%%:*}:" $place/$file || echo "$entry" >>$place/$file
done
mount --bind $place/passwd /etc/passwd && mount --bind $place/group /etc/group || exit 1
exec libvirtd --config $place/libvirtd.conf --pid-file $place/pid
"""
#: Logs in files, since there is no virtlogd; no control groups, which belong to a service manager.
QEMU_CONF = """
stdio_handler = "file"
cgroup_controllers = []
namespaces = []
security_driver = "none"
user = "root"
group = "root"
"""


@pytest.fixture(scope="module", autouse=True)
def able() -> Iterator[None]:
    """A daemon of these tests' own where none answers; skip where libvirt or a kernel is missing, with the reason."""
    try:
        find_kernel("generic")
    except MachineCannot as error:
        pytest.skip(str(error))
    if found_manager().uri is not None:
        yield
        return
    pytest.importorskip("libvirt", reason="the Python package 'libvirt-python' is missing: pip install libvirt-python")
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    if shutil.which("libvirtd", path=path) is None or os.geteuid() != 0 or URI_VARIABLE in os.environ:
        pytest.skip(
            f"{found_manager().reason}; libvirtd is not installed (Debian: libvirt-daemon), or this is not root"
        )
    # Short: the path of a socket has 108 bytes at most.
    place = Path(f"/tmp/vtare-libvirtd-{os.getpid()}")
    place.mkdir()
    (place / "qemu.conf").write_text(QEMU_CONF)
    (place / "libvirtd.conf").write_text(f'unix_sock_dir = "{place}"\nauth_unix_ro = "none"\nauth_unix_rw = "none"\n')
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", DAEMON, "sh", str(place)]
    with (place / "log").open("wb") as log:
        daemon = subprocess.Popen(
            words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={**os.environ, "PATH": path}
        )  # fmt: skip

    def answers() -> bool:
        found_manager.cache_clear()
        return found_manager().uri is not None or daemon.poll() is not None

    try:
        os.environ[URI_VARIABLE] = f"qemu+unix:///system?socket={place}/libvirt-sock"
        deadline = time.monotonic() + PATIENCE_S
        while not answers() and time.monotonic() < deadline:
            time.sleep(0.1)
        if found_manager().uri is None:
            pytest.skip(f"libvirtd does not work on this machine: {(place / 'log').read_text(errors='replace')[-300:]}")
        yield
    finally:
        end_daemon(daemon)
        os.environ.pop(URI_VARIABLE, None)
        found_manager.cache_clear()
        shutil.rmtree(place, ignore_errors=True)


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
    from vtare.campaign.execute import RunSettings, execute
    from vtare.campaign.files import Files
    from vtare.campaign.stop import StopRequest
    from vtare.campaign.two_hosts import SIDES, Roles, TwoHostRun, capture_name
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
            made = TwoHostRun(
                Roles(sender="qemu", responder="netns", capture="on"),
                {"sender": sender, "responder": responder},
                {side: HostInstance.at(static_vtare, site) for side, site in host_sides.items()},
                hosts,
            )
            parameters: dict[str, Any] = {"rate_packet_per_s": 100, "seconds": 1.0}
            run = Run(0, 1, 1, "0123456789abcdef", "e", "rtt", None, {}, parameters)
            settings = RunSettings(seed=1, load=IDLE, settle_s=0.0, timeout_s=600.0)
            with StopRequest() as stop:
                outcome = execute(run, settings, tmp_path, setup=made, files=Files(), stop=stop)
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


@pytest.mark.alone
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
