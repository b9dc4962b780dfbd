"""Topologies and namespaces: planned without privileges, named so that nothing of others is ever touched."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from vtare.errors import BadInput
from vtare.platforms import network, open_platform
from vtare.platforms.network import NetworkError, NetworkRefused, Step
from vtare.platforms.owner import OWNER_VARIABLE, Leftover, own_prefix, started_by
from vtare.platforms.protocol import Resources
from vtare.topology.links import TwoHosts

OWNER = "vtare-123-a0"


def namespace_of(step: Step) -> str | None:
    """The namespace in which a step works; None where it works in the one of the machine."""
    words = step.words
    if words[:2] == ("ip", "-n"):
        return words[2]
    if words[:4] == ("ip", "netns", "exec", words[3]):
        return words[3]
    if words[:3] == ("ip", "netns", "add"):
        return words[3]
    # Both ends of a pair are made inside namespaces.
    ends = [words[i + 1] for i, word in enumerate(words) if word == "netns"]
    return ends[0] if words[:3] == ("ip", "link", "add") and len(ends) == 2 else None


def all_steps() -> tuple[TwoHosts, list[Step]]:
    hosts = TwoHosts(OWNER)
    return hosts, [*hosts.steps(), *network.attach(hosts.sender, 0), *network.attach(hosts.responder, 0)]


def test_no_step_touches_the_network_of_the_machine() -> None:
    _, steps = all_steps()
    assert all(str(namespace_of(step)).startswith(f"{OWNER}-") for step in steps)


def test_every_namespace_is_made_before_it_is_used_and_without_ipv6() -> None:
    _, steps = all_steps()
    made: list[str] = []
    for step in steps:
        if step.words[:3] == ("ip", "netns", "add"):
            made.append(step.words[3])
        else:
            assert namespace_of(step) in made
    quiet = {step.words[3] for step in steps if "net.ipv6.conf.all.disable_ipv6=1" in step.words}
    assert quiet == set(made)
    assert len(made) == len(set(made)) == 4


def test_every_end_knows_the_others_it_talks_to_by_static_neighbours() -> None:
    hosts, steps = all_steps()
    addresses: dict[str, str] = {}
    known: dict[str, dict[str, str]] = {}
    devices: dict[tuple[str, str], str] = {}
    for step in steps:
        words = step.words
        if words[3:5] == ("addr", "add"):
            addresses[words[2]] = words[5].split("/")[0]
        if words[3:5] == ("neigh", "replace"):
            known.setdefault(words[2], {})[words[5]] = words[7]
            assert words[-2:] == ("nud", "permanent")
        if words[3:5] == ("link", "set") and "address" in words:
            devices[(words[2], words[5])] = words[7]
    hardware = {addresses[namespace]: mac for (namespace, _), mac in devices.items()}
    assert len(set(hardware.values())) == len(set(addresses.values())) == 4
    for side, other in ((hosts.sender, hosts.responder), (hosts.responder, hosts.sender)):
        for end in (side.namespace, side.instance_namespace(0)):
            far = {other.address, other.instance_address(0)}
            assert far <= set(known[end])
            assert all(mac == hardware[ip] for ip, mac in known[end].items())


def test_instances_of_one_site_have_ports_and_addresses_of_their_own() -> None:
    site = TwoHosts(OWNER).sender
    count = 130
    assert len({site.port(i) for i in range(count)}) == count
    addresses = {site.instance_address(i) for i in range(count)} | {site.address}
    assert len(addresses) == count + 1
    assert len({network.mac(ip) for ip in addresses}) == count + 1
    # 15 bytes is all that the kernel allows.
    assert max(len(site.port(i)) for i in range(count)) <= 15


def test_a_failed_topology_is_removed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[str] = []

    def fail(steps: Sequence[Step]) -> None:
        raise NetworkError("no such device")

    monkeypatch.setattr(network, "carry_out", fail)
    monkeypatch.setattr(network, "namespaces", lambda: [f"{OWNER}-s", f"{OWNER}-s-0", f"{OWNER}-r", "vtare-9-1-s"])
    monkeypatch.setattr(network, "run_tool", lambda words: removed.append(words[-1]) or "")
    with pytest.raises(NetworkError, match="no such device"):
        TwoHosts(OWNER).make()
    assert sorted(removed) == [f"{OWNER}-r", f"{OWNER}-s", f"{OWNER}-s-0"]


def test_a_failing_tool_is_named_with_its_own_words_and_a_refusal_distinguished(tmp_path: Path) -> None:
    with pytest.raises(NetworkError, match=r"`sh -c 'echo no such thing >&2; exit 3'`: no such thing"):
        network.run_tool(("sh", "-c", "echo no such thing >&2; exit 3"))
    with pytest.raises(NetworkRefused, match="Operation not permitted"):
        network.run_tool(("sh", "-c", "echo RTNETLINK answers: Operation not permitted >&2; exit 2"))
    with pytest.raises(NetworkError, match="no-such-tool"):
        network.run_tool((str(tmp_path / "no-such-tool"),))


def clean_namespaces() -> Sequence[Leftover]:
    found = network.leftovers()
    for leftover in found:
        if leftover.kept_because is None:
            leftover.remove()
    return found


def test_only_namespaces_of_gone_lab_processes_are_leftovers_and_only_their_programs_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    living = own_prefix()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    dead = own_prefix(child.pid)
    child.communicate(b"\n")
    # The process number is in use again, by this very process, but it was not this process that made it.
    reused = f"vtare-{os.getpid()}-1"
    names = [f"{living}-s", f"{dead}-r-0", f"{reused}-s", "vtare-dev-a", "vtare-cap-1", "docker-1-2-s", f"{dead}"]
    for name in names:
        (tmp_path / name).touch()
    orphan = subprocess.Popen(["sleep", "600"], env={**os.environ, OWNER_VARIABLE: dead})
    stranger = subprocess.Popen(["sleep", "600"])
    # A program that has just been started shows no environment for a moment.
    deadline = time.monotonic() + 30
    while not started_by(orphan.pid, dead):
        assert time.monotonic() < deadline, "the program was not started within 30 s"
        time.sleep(0.01)
    inside = {f"{dead}-r-0": orphan.pid, f"{reused}-s": stranger.pid}
    removed = []

    def tool(words: Sequence[str]) -> str:
        if words[2] == "del":
            removed.append(words[-1])
        return f"{inside.get(words[-1], '')}\n"

    monkeypatch.setattr(network, "_NAMESPACES", tmp_path)
    monkeypatch.setattr(network, "run_tool", tool)
    try:
        found = {leftover.name: leftover.kept_because for leftover in clean_namespaces()}
        assert found == {
            f"{living}-s": f"process {os.getpid()}, which made it, still runs",
            f"{dead}-r-0": None,
            f"{reused}-s": f"process {stranger.pid}, not of the lab, runs in it; end it first",
        }
        assert removed == [f"{dead}-r-0"]
        assert orphan.wait(timeout=30) == -9
        assert stranger.poll() is None
    finally:
        for process in (orphan, stranger):
            process.kill()
            process.wait()


def test_namespaces_that_another_process_removes_meanwhile_are_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"vtare-{os.getpid()}-1-{end}" for end in ("r", "s")]

    def vanish(words: Sequence[str]) -> str:
        (tmp_path / words[-1]).unlink(missing_ok=True)
        raise NetworkError("No such file or directory")

    monkeypatch.setattr(network, "_NAMESPACES", tmp_path)
    monkeypatch.setattr(network, "run_tool", vanish)
    for name in names:
        (tmp_path / name).touch()
    assert network.leftovers() == ()
    for name in names:
        (tmp_path / name).touch()
    network.remove_namespaces(names)

    def stay(words: Sequence[str]) -> str:
        raise NetworkError("Device or resource busy")

    (tmp_path / names[0]).touch()
    monkeypatch.setattr(network, "run_tool", stay)
    with pytest.raises(NetworkError, match="busy"):
        network.remove_namespaces(names)


def test_unknown_platforms_and_settings_are_refused(tmp_path: Path) -> None:
    assert open_platform("host", binary=tmp_path, owner=OWNER).missing() is None
    with pytest.raises(BadInput, match="unknown platform 'hots'"):
        open_platform("hots", binary=tmp_path, owner=OWNER)
    with pytest.raises(BadInput, match="unknown setting 'memory': use none"):
        open_platform("host", binary=tmp_path, owner=OWNER, settings={"memory": 1})
    with pytest.raises(BadInput, match="machine is 'pdp11': use one of: q35, pc"):
        open_platform("qemu", binary=tmp_path, owner=OWNER, settings={"machine": "pdp11"})


def test_resources_that_a_platform_cannot_give_are_named(tmp_path: Path) -> None:
    for name, whose in (("host", "the host"), ("netns", "a namespace")):
        platform = open_platform(name, binary=tmp_path, owner=OWNER)
        reason = platform.missing(Resources(nic="e1000"))
        assert reason == f"{whose} has no model of its network card to choose: leave out e1000"
