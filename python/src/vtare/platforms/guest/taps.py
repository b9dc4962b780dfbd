"""The tap in front of a guest: a port of its site's bridge, made there, or handed over by the host's own namespace."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from vtare.platforms import network
from vtare.platforms.network import NetworkError, Step
from vtare.platforms.owner import Leftover, owner_of, still_runs

if TYPE_CHECKING:
    from vtare.platforms.network import Site

_PREFIX: Final = "vtt"


def tap_steps(site: Site, index: int) -> list[Step]:
    """Steps that make the tap in front of a guest, a port of the site's bridge."""
    inside, port = site.namespace, site.port(index)
    return [Step(("ip", "-n", inside, "tuntap", "add", "dev", port, "mode", "tap")), *_as_port(site, index)]


def remove_tap(site: Site, index: int) -> None:
    """Remove it; one that is gone is fine."""
    # Gone already where its namespace is.
    with suppress(NetworkError):
        network.run_tool(("ip", "-n", site.namespace, "link", "del", site.port(index)))


def make_outside(owner: str, index: int) -> str:
    """Make a tap for a daemon, which opens it in the host's own namespace, and return its name.

    Raises:
        NetworkError: it cannot be made.
    """
    name = f"{_PREFIX}{os.getpid()}x{index}"
    network.run_tool(("ip", "tuntap", "add", "dev", name, "mode", "tap"))
    # Its name is too short to state whose it is.
    network.run_tool(("ip", "link", "set", "dev", name, "alias", f"{owner}-tap"))
    return name


def hand_over(name: str, site: Site, index: int) -> None:
    """Bring a tap that is open behind the site's bridge: whoever has it open keeps it.

    Raises:
        NetworkError: it cannot be moved.
    """
    network.carry_out(
        [
            Step(("ip", "link", "set", "dev", name, "netns", site.namespace, "name", site.port(index))),
            *_as_port(site, index),
        ]
    )


def remove_outside(name: str) -> None:
    """Remove a tap that was not handed over; one that is gone is fine."""
    with suppress(NetworkError):
        network.run_tool(("ip", "link", "del", "dev", name))


def leftovers() -> list[Leftover]:
    """Taps that lab processes made in the host's own namespace and left there."""
    try:
        devices = json.loads(network.run_tool(("ip", "-j", "link", "show")) or "[]")
    except (NetworkError, OSError, ValueError):
        return []
    taps = []
    for device in devices:
        owner = owner_of(str(device.get("ifalias", "")))
        name = str(device.get("ifname", ""))
        if owner is not None and name.startswith(_PREFIX):
            taps.append(Leftover("tap", name, still_runs(owner), partial(remove_outside, name)))
    return taps


def _as_port(site: Site, index: int) -> list[Step]:
    inside, port = site.namespace, site.port(index)
    return [
        *network.set_mtu([(inside, port)], site.mtu_byte),
        Step(("ip", "-n", inside, "link", "set", port, "master", site.bridge, "up")),
    ]
