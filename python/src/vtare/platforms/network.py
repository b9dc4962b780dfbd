"""Network namespaces by iproute2: steps as data, so that a topology can be planned, shown and tested without root."""

from __future__ import annotations

import json
import os
import shlex
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vtare import process
from vtare.errors import MachineCannot, VtareError
from vtare.kernel_files import capabilities
from vtare.platforms.lacks import programs, together
from vtare.platforms.owner import Leftover, owner_of, started_by, still_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

_NAMESPACES: Final = Path("/run/netns")
_READY_S: Final = 10.0
#: What a tool states where this process, or this kernel, never can.
_REFUSALS: Final = ("Operation not permitted", "Permission denied", "qdisc kind is unknown", "Unknown qdisc")
#: What makes namespaces: program -> Debian package.
TOOLS: Final = {"ip": "iproute2", "sysctl": "procps"}
_NET_ADMIN, _SYS_ADMIN = 12, 21
USUAL_MTU_BYTE: Final = 1500


class NetworkError(VtareError):
    """A step failed: the message holds the command and what it reported."""

    exit_code = 1


class NetworkRefused(NetworkError, MachineCannot):
    """The system refuses such steps to this process, and will refuse them again."""

    exit_code = 3


@dataclass(frozen=True, slots=True)
class Step:
    """One command of iproute2 or sysctl."""

    words: tuple[str, ...]

    def __str__(self) -> str:
        """The command as it would be typed."""
        return shlex.join(self.words)


@dataclass(frozen=True, slots=True)
class Site:
    """One server of a topology: a namespace with a bridge behind which instances are attached.

    `number` (1, 2, ..) is the third byte of every address behind it. `peers` are the addresses beyond the bridge's
    uplink that instances here talk to: their neighbour entries are static, so that no address resolution is measured.
    `mtu_byte` is that of every device behind it.
    """

    name: str
    namespace: str
    number: int
    peers: tuple[str, ...] = ()

    bridge: str = "br0"
    prefix_length: int = 16
    mtu_byte: int = USUAL_MTU_BYTE

    @property
    def address(self) -> str:
        """The server's own address, on its bridge."""
        return address(self.number, 0)

    def instance_address(self, index: int) -> str:
        """The address of the instance with this index, from 0."""
        return address(self.number, index + 1)

    def instance_namespace(self, index: int) -> str:
        """The namespace of the instance with this index, from 0."""
        return f"{self.namespace}-{index}"

    def port(self, index: int) -> str:
        """The bridge port in front of the instance with this index: its host-side interface."""
        return f"port{index}"


def address(site: int, host: int) -> str:
    """An address of the lab's own network: host 0 is the server itself, 1 its first instance.

    These addresses exist inside the lab's namespaces only, so they cannot clash with those of the machine.
    """
    return f"10.77.{site}.{host + 1}"


def mac(ip: str) -> str:
    """The (locally administered) hardware address that belongs to an address of the lab's network."""
    return ":".join(["02", "76", *(f"{int(byte):02x}" for byte in ip.split("."))])


def make_namespace(name: str) -> list[Step]:
    """Steps that make a namespace without IPv6, whose router solicitations and reports would be measured too."""
    return [Step(("ip", "netns", "add", name)), *_quieten(name)]


def _quieten(name: str) -> list[Step]:
    off = [f"net.ipv6.conf.{which}.disable_ipv6=1" for which in ("all", "default")]
    return [
        # -e: a kernel without IPv6 has no such keys, and then no noise either.
        Step(("ip", "netns", "exec", name, "sysctl", "-q", "-e", "-w", *off)),
        Step(("ip", "-n", name, "link", "set", "lo", "up")),
    ]


def give_address(namespace: str, device: str, ip: str, prefix_length: int, peers: Iterable[str]) -> list[Step]:
    """Steps that bring a device up with a static address and static neighbours."""
    steps = [
        Step(("ip", "-n", namespace, "link", "set", device, "address", mac(ip), "up")),
        Step(("ip", "-n", namespace, "addr", "add", f"{ip}/{prefix_length}", "dev", device)),
    ]
    for peer in peers:
        neighbour = ("neigh", "replace", peer, "lladdr", mac(peer), "dev", device, "nud", "permanent")
        steps.append(Step(("ip", "-n", namespace, *neighbour)))
    return steps


def attach(site: Site, index: int) -> list[Step]:
    """Steps that make one instance behind a site's bridge: a namespace whose `eth0` ends in the bridge's port."""
    return [*make_namespace(site.instance_namespace(index)), *plug_in(site, index)]


def adopt(name: str, pid: int) -> list[Step]:
    """Steps that give the namespace in which a process stands a name, and switch IPv6 off in it."""
    return [Step(("ip", "netns", "attach", name, str(pid))), *_quieten(name)]


def plug_in(site: Site, index: int) -> list[Step]:
    """Steps that join the namespace of an instance, which exists, to the site's bridge."""
    inside, port = site.instance_namespace(index), site.port(index)
    pair = ("eth0", "netns", inside, "type", "veth", "peer", "name", port, "netns", site.namespace)
    return [
        Step(("ip", "link", "add", *pair)),
        *set_mtu(((inside, "eth0"), (site.namespace, port)), site.mtu_byte),
        *give_address(inside, "eth0", site.instance_address(index), site.prefix_length, (site.address, *site.peers)),
        Step(("ip", "-n", site.namespace, "link", "set", port, "master", site.bridge, "up")),
    ]


def make_bridge(namespace: str, name: str) -> Step:
    """The step that makes a bridge which forwards at once: no spanning tree, no listening to multicast."""
    kind = ("type", "bridge", "stp_state", "0", "forward_delay", "0", "mcast_snooping", "0")
    return Step(("ip", "-n", namespace, "link", "add", name, *kind))


def pair(one: tuple[str, str], other: tuple[str, str], mtu_byte: int, *, mac: str | None = None) -> list[Step]:
    """Steps that make a pair of devices, given as namespace and name; `mac` is the hardware address of the first."""
    address = () if mac is None else ("address", mac)
    peer = ("type", "veth", "peer", "name", other[1], "netns", other[0])
    add = Step(("ip", "link", "add", one[1], "netns", one[0], *address, *peer))
    return [add, *set_mtu((one, other), mtu_byte)]


def set_mtu(devices: Iterable[tuple[str, str]], mtu_byte: int) -> list[Step]:
    """Steps that give devices, as pairs of namespace and name, an MTU; none where it is the usual one."""
    if mtu_byte == USUAL_MTU_BYTE:
        return []
    return [Step(("ip", "-n", name, "link", "set", device, "mtu", str(mtu_byte))) for name, device in devices]


def detach(site: Site, index: int) -> None:
    """Remove one instance from a site. The port goes first: namespaces end in the background, and so would it.

    Raises:
        NetworkError: the namespace could not be removed.
    """
    with suppress(NetworkError):
        run_tool(("ip", "-n", site.namespace, "link", "del", site.port(index)))
    remove_namespaces([site.instance_namespace(index)])


def missing_tools(tools: Mapping[str, str] | None = None) -> str | None:
    """Why this machine cannot make namespaces, or lacks one of these tools (program -> package); None where it can."""
    return together(programs({**(tools or {}), **TOOLS}), _missing_right())


def _missing_right() -> str | None:
    if _has_capabilities():
        return None
    if os.geteuid() != 0:
        return "needs root (CAP_NET_ADMIN and CAP_SYS_ADMIN) to make network namespaces; run it with sudo"
    return (
        "needs CAP_NET_ADMIN and CAP_SYS_ADMIN to make network namespaces, which root does not have here; start this "
        "container with both"
    )


def _has_capabilities() -> bool:
    held = capabilities()
    return bool(held >> _NET_ADMIN & 1 and held >> _SYS_ADMIN & 1)


def carry_out(steps: Sequence[Step]) -> None:
    """Carry out steps in order; the first that fails ends it.

    Raises:
        NetworkError: with the command and its own words.
    """
    for step in steps:
        run_tool(step.words)


def wait_forwarding(devices: Iterable[tuple[str, str]]) -> None:
    """Wait until devices, as pairs of namespace and name, carry packets: up, and as bridge ports forwarding.

    The kernel notifies a bridge of a port's carrier with a delay of up to a second; what is sent before is lost.

    Raises:
        NetworkError: one does not come up within 10 s.
    """
    deadline = time.monotonic() + _READY_S
    for namespace, device in devices:
        while (state := _state(namespace, device)) != "up":
            if time.monotonic() > deadline:
                raise NetworkError(f"{device} in {namespace} is '{state}' after {_READY_S:g} s, not 'up'")
            time.sleep(0.01)


def _state(namespace: str, device: str) -> str:
    """`up`, or what the device is instead."""
    (link,) = json.loads(run_tool(("ip", "-n", namespace, "-j", "-d", "link", "show", "dev", device)))
    port = link.get("linkinfo", {}).get("info_slave_data", {}).get("state", "forwarding")
    operational = str(link.get("operstate", "unknown")).lower()
    # A tap that was made by the program which holds it states no more than that it carries.
    if operational == "unknown" and "LOWER_UP" in link.get("flags", ()):
        operational = "up"
    return operational if port == "forwarding" else str(port)


def run_tool(words: Sequence[str]) -> str:
    """Run one tool and return its output.

    Raises:
        NetworkError: it is missing, failed or hung; NetworkRefused where this process may not do that.
    """
    try:
        return process.run_tool(words)
    except process.ToolFailed as error:
        raise refusal(words, error.code, error.reason) from error


def refusal(words: Sequence[str], code: int | None, reason: str) -> NetworkError:
    """The error for a tool that ended with this code, None where it did not run."""
    refused = code is not None and any(word in reason for word in _REFUSALS)
    return (NetworkRefused if refused else NetworkError)(f"`{shlex.join(words)}`: {reason}")


def namespaces() -> list[str]:
    """The names of all network namespaces that have one."""
    return sorted(entry.name for entry in _NAMESPACES.iterdir()) if _NAMESPACES.is_dir() else []


def remove_namespaces(names: Iterable[str]) -> None:
    """Remove namespaces by name, with every device in them; one that is not there is fine.

    Raises:
        NetworkError: one could not be removed; the others have been tried.
    """
    failed: NetworkError | None = None
    present = set(namespaces())
    for name in names:
        if name in present:
            try:
                run_tool(("ip", "netns", "del", name))
            except NetworkError as error:
                # Another process that cleans up may have been faster.
                failed = error if name in namespaces() else failed
    if failed is not None:
        raise failed


def leftovers() -> tuple[Leftover, ...]:
    """Every namespace that a lab process made, by the form of its name alone.

    Raises:
        NetworkError: what runs in one of them cannot be listed.
    """
    orphans = []
    for name in namespaces():
        owner = owner_of(name)
        if owner is None:
            continue
        leftover = _leftover(name, owner)
        # It may be gone since the names were read: its campaign has ended.
        if name in namespaces():
            orphans.append(leftover)
    return tuple(orphans)


def _leftover(name: str, owner: str) -> Leftover:
    def remove() -> None:
        # Looked at again: an instance that stood in it may have been removed since, and its programs with it.
        for pid in _inside(name):
            with suppress(ProcessLookupError):
                if started_by(pid, owner):
                    os.kill(pid, signal.SIGKILL)
        remove_namespaces([name])

    kept = still_runs(owner)
    # A second name of the network that this process stands in takes nothing from whoever else does.
    if kept is None and not _is_own(name):
        strangers = [process for process in _inside(name) if not started_by(process, owner)]
        if strangers:
            kept = f"process {strangers[0]}, not of the lab, runs in it; end it first"
    return Leftover("namespace", name, kept, remove)


def _is_own(name: str) -> bool:
    with suppress(OSError):
        return (_NAMESPACES / name).samefile("/proc/self/ns/net")
    return False


def _inside(name: str) -> list[int]:
    if name not in namespaces():
        return []
    try:
        return [int(word) for word in run_tool(("ip", "netns", "pids", name)).split()]
    except NetworkError:
        # Another lab process may have removed its own since.
        if name in namespaces():
            raise
        return []


def interface_facts(namespace: str, device: str) -> dict[str, Any]:
    """Facts of one device in a namespace. What a missing tool would report is null."""
    inside = ("ip", "netns", "exec", namespace)
    return {"namespace": namespace, **device_facts(device, lambda words: run_tool((*inside, *words)))}


def device_facts(device: str, run: Callable[[Sequence[str]], str]) -> dict[str, Any]:
    """The same of a device where `run` runs tools: MTU, queueing and offloads."""
    facts: dict[str, Any] = {"interface": device}
    try:
        (link,) = json.loads(run(("ip", "-j", "-d", "link", "show", "dev", device)))
        kept = ("mtu", "qdisc", "txqlen", "num_tx_queues", "num_rx_queues", "gso_max_size", "gro_max_size")
        facts |= {key: link.get(key) for key in kept}
        facts["kind"] = link.get("linkinfo", {}).get("info_kind")
    except (VtareError, ValueError) as error:
        facts["error"] = str(error)
    try:
        text = run(("ethtool", "-k", device))
    except VtareError:
        text = ""
    wanted = ("tcp-segmentation-offload", "generic-segmentation-offload", "generic-receive-offload",
              "tx-udp-segmentation", "rx-udp-gro-forwarding", "tx-checksumming")  # fmt: skip
    pairs = (line.strip().partition(": ") for line in text.splitlines())
    facts["offloads"] = {key: value.startswith("on") for key, _, value in pairs if key in wanted} or None
    return facts
