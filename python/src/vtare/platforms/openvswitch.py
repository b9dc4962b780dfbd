"""Open vSwitch: bridges of its daemon, marked with the lab process that made them.

Where the kernel has its module, frames are passed on there (datapath `system`); else in the daemon itself (`netdev`),
which is slower by far.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vtare.platforms import network
from vtare.platforms.lacks import programs
from vtare.platforms.network import NetworkError, Step
from vtare.platforms.owner import Leftover, owner_of, still_runs

if TYPE_CHECKING:
    from collections.abc import Iterable

_CONTROL: Final = ("ovs-vsctl", "--timeout=5")
#: Where the daemon's own database keeps who made a bridge.
_OWNER_KEY: Final = "vtare-owner"
#: Debian's script, which needs no systemd.
_START: Final = "/usr/share/openvswitch/scripts/ovs-ctl"
_RUN_DIRECTORY: Final = "/var/run/openvswitch"


def missing() -> str | None:
    """Why this machine has no Open vSwitch that works, or None."""
    reason = programs(dict.fromkeys(("ovs-vsctl", "ovs-ofctl", "ovs-dpctl"), "openvswitch-switch"))
    if reason is not None:
        return reason
    try:
        network.run_tool((*_CONTROL, "show"))
    except NetworkError as error:
        return f"Open vSwitch is installed, but its daemon does not answer ({error}); run `{_START} start`"
    return None


def datapath() -> str:
    """Where frames are passed on: `system`, in the kernel, where that has the module; else `netdev`, in the daemon."""
    try:
        network.run_tool(("ovs-dpctl", "dump-dps"))
    except NetworkError:
        return "netdev"
    return "system"


def version() -> str | None:
    """What it states of itself, such as `3.1.0`; None where it does not state."""
    with suppress(NetworkError, IndexError):
        return network.run_tool(("ovs-vsctl", "--version")).splitlines()[0].split()[-1]
    return None


def daemon() -> int | None:
    """The process that passes frames on in the datapath `netdev`; None where that is not known."""
    place = Path(os.environ.get("OVS_RUNDIR", _RUN_DIRECTORY)) / "ovs-vswitchd.pid"
    with suppress(OSError, ValueError):
        return int(place.read_text(encoding="ascii"))
    return None


def add_bridge(name: str, owner: str) -> Step:
    """The step that makes a bridge, marked with its owner from the first moment on."""
    marked = ("--", "set", "bridge", name, f"datapath_type={datapath()}", f"external_ids:{_OWNER_KEY}={owner}")
    return Step((*_CONTROL, "add-br", name, *marked))


def plug(port: str, bridge: str, mac: str) -> list[Step]:
    """Steps that make a device a port of a bridge, and have frames for this hardware address go there alone."""
    return [
        Step((*_CONTROL, "add-port", bridge, port)),
        Step(("ovs-ofctl", "add-flow", bridge, f'priority=10,dl_dst={mac},actions=output:"{port}"')),
    ]


def isolate(port: str, bridge: str, outlet: str) -> Step:
    """The step that has every frame from a port leave by one other port, above the rules for hardware addresses."""
    return Step(("ovs-ofctl", "add-flow", bridge, f'priority=20,in_port="{port}",actions=output:"{outlet}"'))


def remove(bridges: Iterable[str]) -> None:
    """Remove bridges, with their ports; one that is not there is fine, and so is a daemon that does not answer."""
    if shutil.which("ovs-vsctl") is not None:
        for bridge in bridges:
            with suppress(NetworkError):
                network.run_tool((*_CONTROL, "--if-exists", "del-br", bridge))


def leftovers() -> tuple[Leftover, ...]:
    """Every bridge that a lab process made, by the mark it bears. Where the daemon does not answer, none is there."""
    bridges = []
    for name, owner in _marked():
        if owner_of(f"{owner}-ovs") == owner:
            bridges.append(
                Leftover("bridge", name, still_runs(owner), lambda name=name: remove([name]))  # type: ignore[misc]
            )
    return tuple(bridges)


def _marked() -> list[tuple[str, str]]:
    """Bridges with their owners."""
    if shutil.which("ovs-vsctl") is None:
        return []
    listed: dict[str, Any] = {}
    with suppress(NetworkError, ValueError):
        listed = json.loads(
            network.run_tool((*_CONTROL, "--format=json", "--columns=name,external_ids", "list", "bridge"))
        )
    return [
        (str(name), str(dict(ids[1])[_OWNER_KEY])) for name, ids in listed.get("data", []) if _OWNER_KEY in dict(ids[1])
    ]
