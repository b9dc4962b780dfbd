"""The path of two links: two routers in a row, a wire that `vtare link` may be, and cross traffic that comes to
either router. Bits are those of IP packets: all that is large has 1500 B, so a bucket's rate is set in frames."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Self

from realpath.draw import FRAME_BYTE, Drawn, Link
from realpath.programs import NAMES, ended, ready, sh, start
from realpath.truth import LinkCounter
from vtare.topology.link_counter import CAME, CROSS, LEFT, Account

#: Pairs of devices: (namespace, device, its address), twice; `None`: no address, ends of the emulated wire.
PAIRS = (
    (("from", "vfrom", "10.114.1.2/24"), ("router", "rfrom", "10.114.1.1/24")),
    (("cross", "vcross", "10.114.2.2/24"), ("router", "rcross", "10.114.2.1/24")),
    (("cross", "wcross", "10.114.5.2/24"), ("second", "scross", "10.114.5.1/24")),
    (("router", "rnext", "10.114.6.1/24"), ("second", "snext", "10.114.6.2/24")),
    (("second", "sto", "10.114.3.1/24"), ("to", "vto", "10.114.3.2/24")),
    (("second", "slink", "10.114.4.1/24"), ("wire", "wa", None)),
    (("wire", "wb", None), ("to", "vlink", "10.114.4.2/24")),
)
#: The receiver behind the last router, and behind the emulated wire.
RECEIVER = {False: "10.114.3.2", True: "10.114.4.2"}
LOAD_PORT, IPERF3_PORT = 5001, 5201
IP_BYTE, ETHERNET_BYTE = 1500, 14
#: What a bucket's queue holds: time.
LATENCY = "100ms"
#: The table of rules that makes a policer, which drops what is more than its rate and holds nothing.
POLICER = "vtare_policer"


@contextmanager
def chain() -> Iterator[None]:
    """The namespaces and their wires."""
    try:
        for name in NAMES.values():
            sh("ip", "netns", "add", name)
            sh("ip", "-n", name, "link", "set", "lo", "up")
        for (end, device, address), (other, peer, peer_address) in PAIRS:
            made = ("link", "add", device, "netns", NAMES[end], "type", "veth", "peer", "name", peer)
            sh("ip", *made, "netns", NAMES[other])
            for where, name, given in ((end, device, address), (other, peer, peer_address)):
                # Every packet is one: a shaper would count a segment of many as one frame.
                one = ("gso_max_segs", "1") if where == "cross" else ()
                sh("ip", "-n", NAMES[where], "link", "set", name, "txqueuelen", "1000", *one, "up")
                if given:
                    sh("ip", "-n", NAMES[where], "addr", "add", given, "dev", name)
        for end in ("router", "second"):
            sh("ip", "netns", "exec", NAMES[end], "sysctl", "-qw", "net.ipv4.ip_forward=1")
        sh("ip", "-n", NAMES["from"], "route", "add", "default", "via", "10.114.1.1")
        sh("ip", "-n", NAMES["router"], "route", "add", "default", "via", "10.114.6.2")
        sh("ip", "-n", NAMES["second"], "route", "add", "10.114.0.0/22", "via", "10.114.6.1")
        yield
    finally:
        for name in NAMES.values():
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def shape(end: str, device: str, link: Link) -> None:
    """Shapes what leaves a device; an emulated link has no bucket, and shapes by itself."""

    def tc(*words: str) -> None:
        sh("tc", "-n", NAMES[end], *words[:2], "dev", device, *words[2:])

    if link.depth_byte is None:
        return
    rate = f"{link.bit_per_s * (IP_BYTE + ETHERNET_BYTE) // IP_BYTE}bit"
    depth = str(link.depth_byte)
    if link.kind == "tbf":
        tc("qdisc", "add", "root", "handle", "1:", "tbf", "rate", rate, "burst", depth, "latency", LATENCY)
    elif link.kind == "htb":
        tc("qdisc", "add", "root", "handle", "1:", "htb", "default", "1")
        shares = ("rate", rate, "ceil", rate, "burst", depth, "cburst", depth, "quantum", str(FRAME_BYTE))
        tc("class", "add", "parent", "1:", "classid", "1:1", "htb", *shares)
        held = max(20, round(link.bit_per_s / 8 / FRAME_BYTE / 10))
        tc("qdisc", "add", "parent", "1:1", "pfifo", "limit", str(held))
    elif link.kind == "police":
        # It counts packets: of bytes, the kernel's bucket would hold those of a second at least.
        limit = f"limit rate over {link.bit_per_s // 8 // IP_BYTE}/second burst {link.depth_byte // FRAME_BYTE} packets"
        chain = f"chain f {{ type filter hook forward priority 0; oifname {device} {limit} drop; }}"
        rules = f"table ip {POLICER} {{ {chain}; }}"
        sh("ip", "netns", "exec", NAMES[end], "nft", rules)


@contextmanager
def shaped(drawn: Drawn) -> Iterator[str]:
    """Makes the path what was drawn; gives the receiver's address."""
    *first, last = drawn.links
    devices = [("router", "rnext", link) for link in first] + [("second", "sto", last)]
    emulated = last.kind == "link"
    receiver = RECEIVER[emulated]
    wire = None
    try:
        for end, device, link in devices:
            shape(end, device, link)
        sh("ip", "-n", NAMES["to"], "route", "replace", "default", "via", receiver[:-1] + "1")
        entry = "10.114.2.1" if drawn.through_all else "10.114.5.1"
        sh("ip", "-n", NAMES["cross"], "route", "replace", "default", "via", entry)
        if emulated:
            emulate = ("--ab-rate", str(last.bit_per_s), "--layer", "ip", "--cpu", "1")
            wire = start("wire", 1, "vtare", "link", "wa", "wb", *emulate)
            time.sleep(0.5)
        # Segments of many packets would count as one for a policer.
        segments = "1" if any(link.kind == "police" for link in drawn.links) else "65535"
        sh("ip", "-n", NAMES["from"], "link", "set", "vfrom", "gso_max_segs", segments)
        yield receiver
    finally:
        if wire is not None:
            ended(wire)
        for end, device, _ in devices:
            undone: tuple[tuple[str, ...], ...] = (
                ("tc", "-n", NAMES[end], "qdisc", "del", "dev", device, "root"),
                ("ip", "netns", "exec", NAMES[end], "nft", "delete", "table", "ip", POLICER),
            )
            for words in undone:
                subprocess.run(words, capture_output=True, check=False)


class Counted:
    """The counters of all links of a path, and what they state of a window."""

    def __init__(self, drawn: Drawn) -> None:
        """Starts to count."""
        self._drawn = drawn
        self._stack = ExitStack()
        self._accounts: list[Account] = []
        self._counters: list[LinkCounter] = []
        try:
            self._count_all()
        except BaseException:
            self._stack.close()
            raise

    def _count_all(self) -> None:
        drawn = self._drawn
        probes, cross = ("router", "rfrom"), ("router", "rcross")
        last, left = ("second", "snext"), ("to", "vlink" if drawn.links[-1].kind == "link" else "vto")
        own_device = ("second", "scross")
        if len(drawn.links) > 1:
            self._count(probes, cross, last, None)
        if drawn.through_all:
            port = IPERF3_PORT if drawn.cross == "iperf3" else LOAD_PORT
            self._count(last, last, left, port)
        else:
            self._count(last, own_device, left, None)

    def _count(self, came: tuple[str, str], cross: tuple[str, str], left: tuple[str, str], port: int | None) -> None:
        def tap(end: str, device: str) -> dict[str, Any]:
            return {"namespace": NAMES[end], "device": device}

        taps = {CAME: tap(*came), CROSS: {**tap(*cross), "port": port}, LEFT: tap(*left)}
        self._counters.append(self._stack.enter_context(LinkCounter(taps, apart=port is None)))

    def __enter__(self) -> Self:
        """The counters, which count already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Ends those that still count."""
        self._stack.close()

    @property
    def why_not(self) -> str | None:
        """Why this kernel does not count; None where it counts."""
        return self._counters[0].why_not

    def end(self) -> None:
        """Counts no longer."""
        self._accounts = [counter.account() for counter in self._counters]
        self._stack.close()

    def truth(self, window: tuple[float, float], estimate: tuple[float, float]) -> tuple[float, float] | None:
        """Available bandwidth in a window, bit/s, and the share of its rate that the tight link's timer lost.

        A link whose queue was empty for half of the window or more, in between packets, does not show in it what it
        could not have carried: what it lost while busy during the whole estimate stands for that. But it could carry
        what left it in the window, beyond what its bucket had saved. None: not all was counted.
        """
        found = []
        seconds = (window[1] - window[0]) / 1e9
        for link, account in zip(self._drawn.links, self._accounts, strict=True):
            if seconds <= 0 or not account.knows(*window):
                return None
            rate = float(link.bit_per_s)
            lost_byte, busy_ns, shown_ns = account.lost_while_busy(rate, *window)
            if busy_ns / 1e9 < seconds / 2:
                lost_byte, shown_ns, _ = account.lost_while_busy(rate, *estimate)
            lost = lost_byte * 8e9 / shown_ns / rate if shown_ns > 0 else 0.0
            carried = (account.carried(*window) - (link.depth_byte or 0)) * 8 / seconds
            lost = min(lost, max(0.0, 1 - carried / rate))
            free = rate * (1 - lost) - account.crossed(*window) * 8 / seconds
            found.append((max(0.0, free), lost))
        return min(found)


@contextmanager
def traffic(drawn: Drawn, receiver: str) -> Iterator[None]:
    """The cross traffic."""
    rate = str(drawn.cross_bit_per_s)
    with ExitStack() as stack:

        def run(end: str, *words: str) -> subprocess.Popen[str]:
            process = start(end, 1, *words)
            stack.callback(ended, process)
            return process

        if drawn.cross == "iperf3":
            run("to", "iperf3", "-s", "-p", str(IPERF3_PORT))
            time.sleep(0.3)
            words = ("-c", receiver, "-p", str(IPERF3_PORT), "-b", rate, "-t", "600", "-J")
            sender = run("cross", "iperf3", *words)
            time.sleep(0.3)
            if sender.poll() is not None:
                error = json.loads(sender.communicate()[0]).get("error", "ended at once")
                raise RuntimeError(f"iperf3: {error}")
        elif drawn.cross != "none":
            address = f"{receiver}:{LOAD_PORT}"
            ready(run("to", "vtare", "load", "net", "--sink", address, "--cpu", "1"))
            sending = ("--to", address, "--rate", rate, "--no-gso", "--tolerance", "20us", "--cpu", "1")
            arrivals = ("--arrivals", "onoff", "--burst", "1ms") if drawn.cross == "onoff" else ()
            ready(run("cross", "vtare", "load", "net", *sending, *arrivals))
        if drawn.cross != "none":
            time.sleep(0.3)
        yield
