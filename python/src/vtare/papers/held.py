"""Every result of the five papers, and where it is held here: the plan's experiment with its levels, or a test.

A row is one result: what ran, what was changed, what was measured, and the table or figure that shows it. `whole` is as
published, where the plan is run at its full counts on hardware that has what it names; `partly` and `impossible` state
what is missing. Tests check every name of a row against the shipped plans and the tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

STATES: Final = ("whole", "partly", "impossible")


@dataclass(frozen=True, slots=True)
class HeldRow:
    """One result of a paper. `levels` are those of `plan`'s `experiment` that it needs, `tests` files that check it."""

    paper: str
    shown: str
    system: str
    factor: str
    metric: str
    state: str
    plan: str | None = None
    experiment: str | None = None
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    tests: tuple[str, ...] = ()
    why: str = ""

    @property
    def place(self) -> str:
        """Where it is held, in words."""
        places = [f"`{self.plan}`, {self.experiment}"] if self.plan else []
        return "; ".join([*places, *(f"`{test}`" for test in self.tests)]) or "nowhere"


_MACHINES: Final = ("host", "xen", "virtualbox", "qemu", "esxi")
_LOADS: Final = ("idle", "cpu", "io", "nbd")
_TOOLS: Final = ("yaz", "kite", "kite2")
_CHANGED: Final = ("2 Gbit/s:6 s, 7 Gbit/s:7 s, 10 Gbit/s:7 s",)
_TUNED: Final = tuple(f"{tool}:kachan-optimized" for tool in _TOOLS)
_SPREADS: Final = tuple(str(k) for k in range(1, 13))
_FRAMES: Final = ("64 B", "128 B", "512 B", "1.024 kB", "1.518 kB")
_NEIGHBOURS: Final = ("0", "1", "2", "4", "8", "16", "32", "64", "128")
_OTHERS: Final = {
    "background": _NEIGHBOURS,
    "background_load": ("cpu", "io", "net"),
    "background_side": ("sender", "responder"),
}
_RATES: Final = ("1 packet/s", "1 kpacket/s", "1 Mpacket/s")
_CARDS: Final = ("virtio", "vmxnet3", "e1000", "rtl8139")
_REACHED: Final = (
    "Guests of ESXi and VirtualBox cannot stand behind the lab's path; name one that runs sshd in [hosts]."
)
_PARAVIRTUAL: Final = "The lab's guests under Xen are paravirtual; the paper's cards were emulated in full."
_RECONSTRUCTED: Final = (
    "Kite and Kite2 are reconstructed from what the papers print of them; their published accuracy was not reached."
)
_ROOM: Final = "Guests in the background are made smaller where the machine is short of memory; else cells are skipped."

ROWS: Final = (
    HeldRow("kirova2019", "Table 1, figures 4, 6, 8", "host and four hypervisors", "function, platform, load",
            "cost of a reading: median, MAD, min, max", "whole", "kirova-timers", "timer",
            {"platform": _MACHINES, "load": _LOADS, "source": ("rdtsc", "clock_monotonic"), "vcpus": ("2",),
             "memory": ("1 GiB",)}),
    HeldRow("kirova2019", "figures 5, 7, 9", "host and four hypervisors", "function, platform, load",
            "CCDF of the cost of a reading", "whole", "kirova-timers", "timer",
            {"platform": _MACHINES, "load": _LOADS, "source": ("rdtsc", "clock_monotonic")},
            ("python/tests/plots/test_figures.py",)),
    HeldRow("kirova2019", "Table 2, figures 10, 12, 14", "host and four hypervisors", "function, platform, load",
            "miss of a sleep: median, MAD, min, max", "whole", "kirova-timers", "sleep",
            {"platform": _MACHINES, "load": _LOADS, "method": ("usleep", "two_phase"), "vcpus": ("2",),
             "memory": ("1 GiB",)}),
    HeldRow("kirova2019", "figures 11, 13, 15", "host and four hypervisors", "function, platform, load",
            "CCDF of the miss of a sleep", "whole", "kirova-timers", "sleep",
            {"platform": _MACHINES, "load": _LOADS, "method": ("usleep", "two_phase")},
            ("python/tests/plots/test_figures.py",)),
    HeldRow("kirova2019", "figure 16", "guests under Xen and QEMU", "cross traffic, timers",
            "estimates of 300 Mbit/s by Yaz: median, MAD", "whole", "kirova-avb", "300-mbit",
            {"platform": ("xen", "qemu"), "timers": ("os", "vtare"), "method": ("yaz",),
             "cross": tuple(f"{rate} Mbit/s" for rate in range(0, 251, 50))}),
    HeldRow("kirova2019", "figure 16", "guests under ESXi and VirtualBox", "cross traffic, timers",
            "estimates of 300 Mbit/s by Yaz: median, MAD", "partly", "kirova-avb", "300-mbit",
            {"platform": ("esxi", "virtualbox"), "timers": ("os", "vtare"), "method": ("yaz",)}, why=_REACHED),
    HeldRow("kirova2019", "figure 17", "guest under QEMU", "timers", "estimates of 1 Gbit/s by patched Yaz", "whole",
            "kirova-avb", "1-gbit", {"platform": ("qemu",), "timers": ("os", "vtare"), "method": ("yaz:kirova-1g",),
                                     "cross": ("500 Mbit/s",)}),
    HeldRow("kirova2019", "figure 18", "host", "timers", "estimates of 10 Gbit/s by Kite2 over 20 ms", "partly",
            "kirova-avb", "wide-area-10-gbit",
            {"platform": ("host",), "timers": ("os", "vtare"), "method": ("kite2:kachan-optimized",),
             "delay": ("10 ms",), "cross": ("1 Gbit/s",)}, why=_RECONSTRUCTED),
    HeldRow("kirova2019", "figure 19", "guest under QEMU", "timers", "estimates of 10 Gbit/s by Kite2 over 20 ms",
            "partly", "kirova-avb", "wide-area-10-gbit",
            {"platform": ("qemu",), "timers": ("os", "vtare"), "method": ("kite2:kachan-optimized",),
             "delay": ("10 ms",), "cross": ("1 Gbit/s",)}, why=_RECONSTRUCTED),
    HeldRow("kirova2019", "section 2.2.2", "host and guests", "load of the sender", "estimates of 300 Mbit/s", "whole",
            "kirova-avb", "loads", {"platform": ("host", "xen", "qemu"), "load": _LOADS, "timers": ("os", "vtare")}),
    HeldRow("kirova2019", "sections 3.1.4, 3.2.4", "the two tables", "function, platform, load",
            "Kruskal-Wallis, Tukey on ranks and Dunn", "whole",
            tests=("python/tests/papers/test_reanalysis.py", "python/tests/report/test_pooled_ranks.py")),
    HeldRow("lampe2013", "Table 1, rows 1 and 2", "physical machine, low load", "language", "CV of run times", "whole",
            "lampe-counter", "counter", {"platform": ("host",), "background": ("0",), "language": ("c", "java")}),
    HeldRow("lampe2013", "Table 1, rows 3 and 4", "physical machine, high load", "language", "CV of run times",
            "whole", "lampe-counter", "counter",
            {"platform": ("host",), "background": ("3",), "background_load": ("counter",), "language": ("c", "java")}),
    HeldRow("lampe2013", "Table 1, rows 5 and 6", "guest under ESXi, low load", "language", "CV of run times", "whole",
            "lampe-counter", "counter", {"platform": ("esxi",), "background": ("0",), "language": ("c", "java")}),
    HeldRow("lampe2013", "Table 1, rows 7 and 8", "guest under ESXi, high load", "language", "CV of run times",
            "whole", "lampe-counter", "counter",
            {"platform": ("esxi",), "background": ("3",), "background_load": ("counter",), "language": ("c", "java")}),
    HeldRow("lampe2013", "Table 1, rows 9 and 10", "guest under Xen, low load", "language", "CV of run times", "whole",
            "lampe-counter", "counter", {"platform": ("xen",), "background": ("0",), "language": ("c", "java")}),
    HeldRow("lampe2013", "Table 1, rows 11 and 12", "guest under Xen, high load", "language", "CV of run times",
            "whole", "lampe-counter", "counter",
            {"platform": ("xen",), "background": ("3",), "background_load": ("counter",), "language": ("c", "java")}),
    HeldRow("lampe2013", "Table 1, rows 13 and 14", "machine of a private cloud", "language", "CV of run times",
            "whole", "lampe-counter", "counter",
            {"platform": ("ssh",), "background": ("0",), "language": ("c", "java")}),
    HeldRow("lampe2013", "Table 1, rows 15 and 16", "machine of a public cloud", "language", "CV of run times", "whole",
            "lampe-counter", "counter", {"platform": ("cloud",), "background": ("0",), "language": ("c", "java")}),
    HeldRow("lampe2013", "section 3", "groups of configurations", "type, software, load, language", "Friedman test",
            "whole", tests=("python/tests/papers/test_reanalysis.py", "python/tests/report/test_counter_ranks.py")),
    HeldRow("lampe2013", "section 5", "machines of clouds, over time", "language", "CV of run times", "whole",
            "lampe-cloud", "counter", {"language": ("c", "java")}, ("python/tests/lab/test_watch.py",)),
    HeldRow("oliveira", "figures 3 and 4", "guests under KVM", "card, neighbours, load, side", "RTT: median, spread",
            "whole", "oliveira-rtt", "cards", {"platform": ("qemu",), "nic": _CARDS, **_OTHERS}, why=_ROOM),
    HeldRow("oliveira", "figure 5", "guests under KVM", "card, neighbours, load, side", "share of virtualization",
            "whole", "oliveira-rtt", "cards", {"platform": ("qemu",), "nic": _CARDS, "capture": ("on",), **_OTHERS},
            why=_ROOM),
    HeldRow("oliveira", "figure 6, Table 3", "guests under KVM", "CPU affinity", "RTT and share of virtualization",
            "whole", "oliveira-rtt", "cards",
            {"nic": ("virtio",), "affinity": ("off", "CPU 0"), "capture": ("on",), **_OTHERS}, why=_ROOM),
    HeldRow("oliveira", "figures 7 and 8", "guests under KVM", "packet frequency", "RTT: median, spread", "whole",
            "oliveira-rtt", "cards", {"nic": ("virtio",), "affinity": ("off",), "rate_packet_per_s": _RATES, **_OTHERS},
            why=_ROOM),
    HeldRow("oliveira", "figure 9", "guests under KVM", "packet frequency", "overhead of virtualization", "whole",
            "oliveira-rtt", "cards",
            {"nic": ("virtio",), "rate_packet_per_s": _RATES, "capture": ("on",), **_OTHERS}, why=_ROOM),
    HeldRow("oliveira", "figures 10 and 11", "containers: LXC, Docker", "packet frequency, neighbours, load, side",
            "RTT: median, spread", "whole", "oliveira-rtt", "neighbours",
            {"platform": ("lxc", "docker"), "rate_packet_per_s": _RATES, **_OTHERS}),
    HeldRow("oliveira", "figure 12", "containers: LXC, Docker", "packet frequency, neighbours, load",
            "overhead of virtualization", "whole", "oliveira-rtt", "neighbours",
            {"platform": ("lxc", "docker"), "rate_packet_per_s": _RATES, "capture": ("on",), **_OTHERS}),
    HeldRow("oliveira", "section 4.3", "all", "levels of all factors", "Kendall's tau", "whole",
            tests=("python/tests/stats/test_outliers_and_levels.py", "python/tests/report/test_inference.py")),
    HeldRow("oliveira", "Tables 4, 5, 6", "all", "load, side, frequency", "share of outliers", "whole",
            tests=("python/tests/stats/test_outliers_and_levels.py", "python/tests/papers/test_reanalysis.py")),
    HeldRow("kachan2017", "figure 3", "three tools at 2, 7 and 10 Gbit/s", "capacity over time",
            "estimates beside the capacity", "partly", "kachan-avb", "shaped",
            {"capacity_steps": _CHANGED, "method": _TUNED, "delay": ("0 ms",), "loss": ("0 %",)}, why=_RECONSTRUCTED),
    HeldRow("kachan2017", "figure 4", "three tools at 2, 7 and 10 Gbit/s", "capacity over time", "errors", "partly",
            "kachan-avb", "shaped", {"capacity_steps": _CHANGED, "method": _TUNED}, why=_RECONSTRUCTED),
    HeldRow("kachan2017", "figures 5 and 6", "three tools", "delay of 0.5 ms", "estimates and errors", "partly",
            "kachan-avb", "emulated", {"capacity_steps": _CHANGED, "method": _TUNED, "delay": ("0.5 ms",)},
            why=_RECONSTRUCTED),
    HeldRow("kachan2017", "results", "three tools", "growing delay and loss", "the last that a tool measures under",
            "partly", "kachan-avb", "stress", {"method": _TUNED, "loss": ("0 %", "0.5 %", "1 %", "2 %", "5 %")},
            why=_RECONSTRUCTED),
    HeldRow("kachan2017", "Table 2", "three tools", "settings", "estimates by default and optimized settings", "partly",
            "kachan-avb", "shaped",
            {"method": tuple(f"{tool}:kachan-{one}" for tool in _TOOLS for one in ("default", "optimized"))},
            why=_RECONSTRUCTED),
    HeldRow("batalla2018", "figure 2", "12 guests under Xen", "spread of the load, frame size", "throughput", "partly",
            "batalla", "rfc2544-guests", {"platform": ("xen",), "loaded": _SPREADS, "frame_byte": _FRAMES},
            why=_PARAVIRTUAL),
    HeldRow("batalla2018", "figure 3", "12 guests under KVM", "spread of the load, frame size", "throughput", "whole",
            "batalla", "rfc2544-guests", {"platform": ("qemu",), "loaded": _SPREADS, "frame_byte": _FRAMES}),
    HeldRow("batalla2018", "figures 4 and 5", "12 guests under Xen", "spread of the load, frame size",
            "latency at the throughput", "partly", "batalla", "rfc2544-guests",
            {"platform": ("xen",), "loaded": _SPREADS, "frame_byte": _FRAMES}, why=_PARAVIRTUAL),
    HeldRow("batalla2018", "figures 6 and 7", "12 guests under KVM", "spread of the load, frame size",
            "latency at the throughput", "whole", "batalla", "rfc2544-guests",
            {"platform": ("qemu",), "loaded": _SPREADS, "frame_byte": _FRAMES}),
    HeldRow("batalla2018", "figures 8 and 9", "12 guests under KVM", "load, spread, frame size", "latency", "whole",
            "batalla", "load", {"platform": ("qemu",), "loaded": ("1", "6", "12"), "frame_byte": ("64 B", "512 B",
                                                                                               "1.518 kB")},
            ("python/tests/report/test_overlay_throughput.py",)),
    HeldRow("batalla2018", "throughput results", "12 guests under KVM", "card: paravirtual or emulated in full",
            "throughput", "whole", "batalla", "cards", {"nic": ("virtio", "e1000"), "platform": ("qemu",)}),
    HeldRow("batalla2018", "throughput results", "12 guests under Xen", "card emulated in full", "throughput",
            "impossible", why=_PARAVIRTUAL),
    HeldRow("batalla2018", "test configuration", "12 guests", "Open vSwitch with two rules",
            "no frame reaches another guest", "whole", "batalla", "switches", {"switch": ("ovs", "linux")},
            ("tests/test_forwarders.py",)),
    HeldRow("batalla2018", "equations 2 to 6", "12 guests", "spread of the load", "Jain's index", "whole", "batalla",
            "spread", {"loaded": _SPREADS}, ("python/tests/report/test_overlay_throughput.py",)),
)  # fmt: skip


def rows_of(paper: str) -> tuple[HeldRow, ...]:
    """The results of one paper, in its order."""
    return tuple(row for row in ROWS if row.paper == paper)
