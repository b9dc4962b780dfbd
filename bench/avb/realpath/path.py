"""The path: four namespaces, and a token bucket on the way of the router to the receiver."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from realpath.cells import GROUPED_MBIT, JUMBO_MBIT, Cell
from realpath.programs import NAMES, sh

PEER, SINK = "10.114.3.2:8462", "10.114.3.2:5001"
#: Bursts of the token bucket that make its rate true (smaller ones give less), bytes, by capacity in Mbit/s.
BURST_BYTE = {100: 3200, 300: 3200, 1000: 9000, 10000: 90000}
#: Header of Ethernet, which the bucket is not to count.
ETHERNET_BYTE = 14


@contextmanager
def path() -> Iterator[None]:
    """The four namespaces."""
    try:
        for name in NAMES.values():
            sh("ip", "netns", "add", name)
            sh("ip", "-n", name, "link", "set", "lo", "up")
        for number, end in ((1, "from"), (2, "cross"), (3, "to")):
            peer = ("peer", "name", f"r{end}", "netns", NAMES["router"])
            sh("ip", "link", "add", f"v{end}", "netns", NAMES[end], "type", "veth", *peer)
            for where, device, last in ((end, f"v{end}", 2), ("router", f"r{end}", 1)):
                sh("ip", "-n", NAMES[where], "addr", "add", f"10.114.{number}.{last}/24", "dev", device)
                sh("ip", "-n", NAMES[where], "link", "set", device, "txqueuelen", "1000", "up")
            sh("ip", "-n", NAMES[end], "route", "add", "default", "via", f"10.114.{number}.1")
        sh("ip", "netns", "exec", NAMES["router"], "sysctl", "-qw", "net.ipv4.ip_forward=1")
        yield
    finally:
        for name in NAMES.values():
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def shape(cell: Cell, bucket: float = 1) -> None:
    """Sets the router's egress to a capacity, with a token bucket of `bucket` times the least that gives it."""
    mtu = "9000" if cell.capacity >= JUMBO_MBIT else "1500"
    for end in ("from", "cross", "to"):
        sh("ip", "-n", NAMES[end], "link", "set", f"v{end}", "mtu", mtu)
        sh("ip", "-n", NAMES["router"], "link", "set", f"r{end}", "mtu", mtu)
        # Routes keep the path MTU that they learned.
        subprocess.run(["ip", "-n", NAMES[end], "route", "flush", "cache"], capture_output=True, check=False)
    rate_bit = cell.capacity * 1_000_000
    burst = str(round(BURST_BYTE[cell.capacity] * bucket))
    device = ["dev", "rto", "root", "handle", "1:"]
    if cell.capacity < GROUPED_MBIT:
        device += ["stab", "overhead", str(-ETHERNET_BYTE)]
    else:
        rate_bit = rate_bit * (int(mtu) + ETHERNET_BYTE) // int(mtu)
    rate = ("rate", f"{rate_bit}bit", "burst", burst, "latency", "100ms")
    old = ["tc", "-n", NAMES["router"], "qdisc", "del", "dev", "rto", "root"]
    subprocess.run(old, capture_output=True, check=False)
    sh("tc", "-n", NAMES["router"], "qdisc", "add", *device, "tbf", *rate)
