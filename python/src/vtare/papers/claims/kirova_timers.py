"""Sentences of Kirova 2019 about clock reads and about all platforms together, against Tables 1 and 2."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vtare.number_text import significant, time_range_text, time_text
from vtare.papers.claims.kirova_tables import (
    ALPHA,
    FIGURES,
    FUNCTIONS,
    LOADS,
    OTHERS,
    PLATFORMS,
    cells,
    chi_squared_p,
    joined_significant,
    listed,
    pairs_p,
    sentence,
)
from vtare.papers.claims.model import decide
from vtare.stats import write_p

if TYPE_CHECKING:
    from vtare.papers.claims.model import Claim

_NEAR = 1.1
"""A median within a tenth of another one is taken as almost the same."""
_DRAMATIC = 2.0
"""Twice a median is taken as a dramatic change."""


def timer_claims() -> list[Claim]:
    """Sections 1 and 3.1: cost of a clock read."""
    return [*_cost(), *_virtual_box(), *_io(), *_tests(), _exchanged(), _mad()]


def _cost() -> list[Claim]:
    median = cells("timers", "median")
    ratios = {(p, load): median["System Call", p, load] / median["TSC", p, load] for p in PLATFORMS for load in LOADS}
    text = sentence("tsc-half-cost")
    enough = sum(ratio >= text.numbers["ratio"] for ratio in ratios.values())
    half = text.claim(
        "Reading the TSC costs half of a System Call.", f"System Call {text.numbers['ratio']:g} times the TSC",
        f"{significant(min(ratios.values()))} to {significant(max(ratios.values()))} times; at least "
        f"{text.numbers['ratio']:g} times in {enough} of {len(ratios)} pairs of medians",
        decide(holds=enough == len(ratios), in_part=enough > 0),
        f"Without virtualization it is {significant(min(ratios['HostOS', load] for load in LOADS))} to "
        f"{significant(max(ratios['HostOS', load] for load in LOADS))} times.",
    )  # fmt: skip
    slower = [platform for platform in PLATFORMS if ratios[platform, "idle"] <= 1]
    pairs = "; ".join(f"{p}: TSC {time_text(median['TSC', p, 'idle'])}, System Call "
                      f"{time_text(median['System Call', p, 'idle'])}" for p in slower)  # fmt: skip
    always = sentence("tsc-always-faster").claim(
        "On the idle system the TSC is read faster than by a System Call in all cases.", "5 of 5 platforms",
        f"{len(PLATFORMS) - len(slower)} of {len(PLATFORMS)} platforms", decide(holds=not slower),
        f"The exception is {pairs}." if slower else "By the medians of Table 1.",
    )  # fmt: skip
    lowest = all(
        median[function, "HostOS", "idle"] == min(median[function, p, "idle"] for p in PLATFORMS)
        for function in FUNCTIONS["timers"]
    )
    host = sentence("host-lowest-idle").claim(
        "On the idle system, clock reads cost least without virtualization.", "Host OS lowest",
        f"TSC {time_text(median['TSC', 'HostOS', 'idle'])}, System Call "
        f"{time_text(median['System Call', 'HostOS', 'idle'])}", decide(holds=lowest),
        "Medians of Table 1. Under CPU load the TSC medians of QEMU and ESXi "
        f"({time_text(median['TSC', 'QEMU', 'cpu'])}) are below that of the host.",
    )  # fmt: skip
    changes = {(f, p): 100 * (median[f, p, "cpu"] / median[f, p, "idle"] - 1)
               for f in FUNCTIONS["timers"] for p in PLATFORMS}  # fmt: skip
    small = sum(abs(change) <= 100 * (_NEAR - 1) for change in changes.values())
    most = max(changes, key=lambda key: abs(changes[key]))
    cpu = sentence("cpu-medians").claim(
        "CPU load has no big effect on the medians of clock reads.", "no big effect",
        f"{small} of {len(changes)} change by 10 % at most; {most[0]} on {most[1]} by {changes[most]:+z.1f} %",
        decide(holds=small == len(changes), in_part=2 * small > len(changes)),
        "Against the idle system. The largest changes are of TSC reads that became faster.",
    )  # fmt: skip
    return [half, always, host, cpu]


def _virtual_box() -> list[Claim]:
    most, least = cells("timers", "max"), cells("timers", "min")
    idle_max = {f: most[f, "VBox", "idle"] for f in FUNCTIONS["timers"]}
    idle_min = {f: least[f, "VBox", "idle"] for f in FUNCTIONS["timers"]}
    written = ", ".join(f"{f} {time_text(value)}" for f, value in idle_max.items())
    claims = []
    text = sentence("vbox-max-idle")
    limit = text.numbers["max"]
    claims.append(text.claim(
        "On the idle VirtualBox, clock reads take up to 1 ms.", time_text(limit), written,
        decide(holds=max(idle_max.values()) <= limit * 1.05),
        "Maxima of Table 1; the same section gives 2 ms for the TSC two sentences later.",
    ))  # fmt: skip
    text = sentence("vbox-tail-tsc")
    limit = text.numbers["max"]
    claims.append(text.claim(
        "On the idle VirtualBox, the tail of TSC reads ends at 2 ms.", time_text(limit), time_text(idle_max["TSC"]),
        decide(holds=abs(idle_max["TSC"] / limit - 1) <= 0.05), "The maximum of Table 1.",
    ))  # fmt: skip
    text = sentence("vbox-min-idle")
    limit = text.numbers["min"]
    near = [f for f, value in idle_min.items() if abs(value - limit) < 0.5]
    claims.append(text.claim(
        "On the idle VirtualBox, the least cost of a clock read is 1 ns.", time_text(limit),
        ", ".join(f"{f} {time_text(value)}" for f, value in idle_min.items()),
        decide(holds=len(near) == len(idle_min), in_part=bool(near)), f"Minima of Table 1; it holds for: "
        f"{', '.join(near) or 'none'}.",
    ))  # fmt: skip
    box = [value for (_, platform, _), value in least.items() if platform == "VBox"]
    rest = [value for (_, platform, _), value in least.items() if platform != "VBox"]
    claims.append(sentence("vbox-minimum-access").claim(
        "The minimal cost on VirtualBox indicates that it gives no direct access to the hardware.",
        "a high minimum", f"VirtualBox {time_range_text(min(box), max(box))}, others "
        f"{time_range_text(min(rest), max(rest))}", decide(holds=min(box) > max(rest)),
        "VirtualBox has the lowest minima of all. Readings below what one instruction takes point to a clock that "
        "is not read each time; the conclusion would follow from the medians.",
    ))  # fmt: skip
    return claims


def _io() -> list[Claim]:
    spread, most, median = cells("timers", "half IQR"), cells("timers", "max"), cells("timers", "median")
    text = sentence("esxi-spread-io")
    others = text.names("others")
    own = spread["TSC", "ESXi", "io_network"]
    claims = [text.claim(
        "Under I/O load, TSC reads on ESXi have a significantly lower spread than on QEMU, Host OS and Xen.",
        "ESXi lowest", f"half IQR: ESXi {significant(own)} ns, "
        + ", ".join(f"{p} {significant(spread['TSC', p, 'io_network'])} ns" for p in others),
        decide(holds=all(own < spread["TSC", p, "io_network"] for p in others)),
        "The half IQR is the only spread that Table 1 prints.",
    )]  # fmt: skip
    lowest = [f for f in FUNCTIONS["timers"]
              if most[f, "ESXi", "io_network"] == min(most[f, p, "io_network"] for p in PLATFORMS)]  # fmt: skip
    claims.append(sentence("esxi-tail-io").claim(
        "Under I/O load, the tails of ESXi are lower than in the other cases.", "ESXi lowest",
        "; ".join(f"{f}: ESXi {time_text(most[f, 'ESXi', 'io_network'])}, Host OS "
                  f"{time_text(most[f, 'HostOS', 'io_network'])}" for f in FUNCTIONS["timers"]),
        decide(holds=len(lowest) == 2, in_part=bool(lowest)),
        f"Maxima of Table 1: lowest of all platforms for {', '.join(lowest) or 'neither function'}.",
    ))  # fmt: skip
    text = sentence("esxi-panel")
    claims.append(text.claim(
        "Figure 8c shows ESXi.", text.words["text"], text.words["caption"],
        decide(holds=text.words["text"] == text.words["caption"]),
        "By its caption panel c is VirtualBox, and ESXi is panel e.",
    ))  # fmt: skip
    qemu, host = median["TSC", "QEMU", "io_network"], median["TSC", "HostOS", "io_network"]
    claims.append(sentence("qemu-below-host").claim(
        "Under I/O load, the median of TSC reads on QEMU is below that of its host.", "QEMU below Host OS",
        f"{time_text(qemu)} and {time_text(host)}", decide(holds=qemu < host),
        f"They differ by {significant(host - qemu)} ns.",
    ))  # fmt: skip
    text = sentence("io-variance")
    grown = {(f, p): (spread[f, p, "idle"], spread[f, p, "io_network"])
             for f in FUNCTIONS["timers"] for p in text.names("platforms")}  # fmt: skip
    wider = [key for key, (idle, io) in grown.items() if io > idle]
    claims.append(text.claim(
        "I/O load raises the spread of clock reads on VirtualBox and Xen.", "VirtualBox and Xen",
        "half IQR from idle to I/O: " + "; ".join(f"{p}, {f}: {significant(a)} to {significant(b)} ns"
                                                  for (f, p), (a, b) in grown.items()),
        decide(holds=len(wider) == len(grown), in_part=bool(wider)),
        f"It grows in {len(wider)} of {len(grown)} cases.",
    ))  # fmt: skip
    return claims


def _tests() -> list[Claim]:
    text = sentence("xen-qemu-functions")
    p: dict[tuple[str, str], float] = {}
    for platform in text.names("platforms"):
        for parameter in text.names("parameters"):
            table = cells("timers", parameter)
            groups = [[table[f, platform, load] for load in LOADS] for f in FUNCTIONS["timers"]]
            p[platform, parameter] = chi_squared_p(groups)
    sure = [key for key, value in p.items() if value <= ALPHA]
    least = 2 / math.comb(2 * len(LOADS), len(LOADS))
    claims = [text.claim(
        "On Xen and QEMU, changing from TSC to System Call affects median and max.", "significant: 4 of 4",
        "Kruskal-Wallis: " + ", ".join(f"{platform} {parameter} {write_p(value)}"
                                       for (platform, parameter), value in p.items()),
        decide(holds=len(sure) == len(p), in_part=bool(sure)),
        f"Three datasets on each side: an exact rank test has no p below {significant(least, 2)}.",
    )]  # fmt: skip
    cell_p = {parameter: pairs_p("timers", ("platform", "load"), parameter) for parameter in FIGURES}
    text = sentence("idle-xen-pairs")
    values = {f"Xen - {other}": cell_p["median"][frozenset({"Xen / idle", f"{other} / idle"})]
             for other in text.names("others")}  # fmt: skip
    claims.append(text.claim(
        "On the idle system, changing from Xen to Host OS or ESXi affects the median.", "significant: 2 of 2",
        "Dunn, not adjusted: " + ", ".join(f"{pair} {write_p(value)}" for pair, value in values.items()),
        decide(holds=all(value <= ALPHA for value in values.values())),
        f"There are two datasets for each platform and load: alone, they have no exact p below "
        f"{significant(2 / math.comb(4, 2), 2)}.",
    ))  # fmt: skip
    text = sentence("mad-idle-cpu")
    p_spread = pairs_p("timers", ("load",), "half IQR")[frozenset({text.words["from"], text.words["to"]})]
    claims.append(text.claim(
        "The half IQR does not change significantly from the idle system to CPU load.", "not significant",
        f"Dunn, not adjusted: p {write_p(p_spread)}", decide(holds=p_spread > ALPHA),
        "The sentence before calls the load significant for the half IQR; see timers-load and timers-exchanged.",
    ))  # fmt: skip
    text = sentence("host-and-esxi")
    first, second = text.names("platforms")
    by_parameter = {name: pairs_p("timers", ("platform",), name)[frozenset({first, second})] for name in FIGURES}
    claims.append(text.claim(
        "Between Host OS and ESXi there is no significant difference in any parameter.", "not significant: all four",
        "Dunn, not adjusted: " + ", ".join(f"{name} {write_p(value)}" for name, value in by_parameter.items()),
        decide(holds=all(value > ALPHA for value in by_parameter.values())),
        "With six datasets a platform, no difference found is not equality: "
        f"System Call costs {significant(cells('timers', 'median')['System Call', second, 'cpu'])} ns on ESXi and "
        f"{significant(cells('timers', 'median')['System Call', first, 'cpu'])} ns on the host.",
    ))  # fmt: skip
    text = sentence("loaded-vbox-pairs")
    ps = [cell_p[parameter][frozenset({f"VBox / {load}", f"{other} / {load}"})]
          for load in LOADS[1:] for other in text.names("others") for parameter in FIGURES]  # fmt: skip
    shown = sum(value <= ALPHA for value in ps)
    claims.append(text.claim(
        "Under CPU or I/O load, changing from VirtualBox to any other platform affects all four parameters.",
        f"significant: {len(ps)} of {len(ps)}", f"Dunn, not adjusted: {shown} of {len(ps)} with p at most {ALPHA:g}",
        decide(holds=shown == len(ps), in_part=2 * shown > len(ps)),
        "Two loads, four platforms, four parameters; two datasets each.",
    ))  # fmt: skip
    text = sentence("loaded-host-xen")
    ps = [cell_p[parameter][frozenset({f"HostOS / {load}", f"Xen / {load}"})]
          for load in LOADS[1:] for parameter in text.names("parameters")]  # fmt: skip
    shown = sum(value <= ALPHA for value in ps)
    claims.append(text.claim(
        "Under CPU or I/O load, changing from Host OS to Xen affects median, min and max.",
        f"significant: {len(ps)} of {len(ps)}", f"Dunn, not adjusted: {shown} of {len(ps)}; the least p is "
        f"{significant(min(ps), 2)}", decide(holds=shown == len(ps), in_part=2 * shown > len(ps)),
        "There are two datasets for each platform and load.",
    ))  # fmt: skip
    return claims


def _exchanged() -> Claim:
    """The three sentences about timers that name half IQR or max, as printed and with the two names exchanged."""
    text = sentence("timers-exchanged")
    swap = {"half IQR": "max", "max": "half IQR"}
    as_printed = exchanged = 0
    written = []
    for effect in text.words:
        tested = joined_significant("timers", tuple(effect.split(" x ")))
        printed = set(text.names(effect))
        as_printed += tested == printed
        exchanged += tested == {swap.get(name, name) for name in printed}
        written.append(f"{effect}: {listed(tested)}")
    return text.claim(
        "Section 3.1.4 names MAD and max as the columns of Table 1 do.",
        "; ".join(f"{effect}: {listed(text.names(effect))}" for effect in text.words),
        f"Kruskal-Wallis over the joined levels: {'; '.join(written)}", decide(holds=as_printed == len(text.words)),
        f"By the paper's own procedure {as_printed} of {len(text.words)} sentences follow from the table as printed, "
        f"and {exchanged} of {len(text.words)} with the two names exchanged.",
    )  # fmt: skip


def _mad() -> Claim:
    ratios = []
    for kind in FUNCTIONS:
        low, median, high = (cells(kind, parameter) for parameter in ("min", "median", "max"))
        ratios += [(high[key] - median[key]) / (median[key] - low[key]) for key in median if median[key] > low[key]]
    text = sentence("mad-name")
    return text.claim(
        "Half the interquartile range is the median absolute deviation.", "MAD = half IQR",
        f"max - median is {significant(min(ratios))} to {significant(max(ratios), 1)} times median - min",
        decide(holds=max(ratios) < _DRAMATIC, in_part=True),
        "The two are equal only where the quartiles lie evenly about the median. All datasets are skewed; quartiles "
        "are not printed, so the difference cannot be computed.",
    )  # fmt: skip


def platform_claims() -> list[Claim]:
    """Section 4: what holds over both tables."""
    claims = []
    medians = {kind: cells(kind, "median") for kind in FUNCTIONS}
    every = [(kind, f, load) for kind, functions in FUNCTIONS.items() for f in functions for load in LOADS]
    text = sentence("bare-metal-overhead")
    ratios = [medians[kind][f, p, load] / medians[kind][f, "HostOS", load]
              for p in text.names("platforms") for kind, f, load in every]  # fmt: skip
    near = sum(ratio <= _NEAR for ratio in ratios)
    claims.append(text.claim(
        "Xen and ESXi have almost no overhead in the majority of measurements.", "more than half",
        f"{near} of {len(ratios)} medians are at most 10 % above the host's",
        decide(holds=100 * near / len(ratios) > text.numbers["share"]),
        f"The largest is {significant(max(ratios))} times the host's, a System Call on Xen.",
    ))  # fmt: skip
    text = sentence("hypervisor-benefit")
    below = {p: [medians[kind][f, h, load] < medians[kind][f, p, load]
                 for h in text.names("hypervisors") for kind, f, load in every]
             for p in text.names("os-based")}  # fmt: skip
    claims.append(text.claim(
        "Xen and ESXi have measurable benefits over QEMU and VirtualBox.", "all",
        ", ".join(f"lower median than {p} in {sum(won)} of {len(won)} pairs" for p, won in below.items()),
        decide(holds=all(all(won) for won in below.values()), in_part=any(all(won) for won in below.values())),
        "Of all 12 cells and both hypervisors. Section 4 also calls QEMU the most accurate for bandwidth.",
    ))  # fmt: skip
    tops = [max(PLATFORMS, key=lambda p: cells(kind, parameter)[f, p, load]) for kind, f, load in every
            for parameter in ("median", "half IQR")]  # fmt: skip
    box = tops.count("VBox")
    claims.append(sentence("vbox-highest").claim(
        "VirtualBox has the highest medians and the highest spread.", "highest",
        f"highest in {box} of {len(tops)} comparisons of medians and half IQRs", decide(holds=box == len(tops)),
        "Two functions, three loads, two tables, two parameters.",
    ))  # fmt: skip
    guests = [p for p in PLATFORMS if p != "HostOS"]
    first = sum(min(guests, key=lambda p: medians[kind][f, p, load]) == "QEMU" or
                medians[kind][f, "QEMU", load] == min(medians[kind][f, p, load] for p in guests)
                for kind, f, load in every)  # fmt: skip
    claims.append(sentence("qemu-most-precise").claim(
        "The most precise timing operations are those on QEMU.", "QEMU first",
        f"lowest median of the four virtual platforms in {first} of {len(every)} cells",
        decide(holds=first == len(every), in_part=2 * first > len(every)),
        "On the idle system QEMU has the highest medians of TSC and HPTSleep after VirtualBox.",
    ))  # fmt: skip
    text = sentence("loads-and-medians")
    changes: dict[tuple[str, str, str], float] = {}
    for kind, functions in FUNCTIONS.items():
        for parameter in text.names("parameters"):
            table = cells(kind, parameter)
            for f in functions:
                for p in PLATFORMS:
                    row = [table[f, p, load] for load in LOADS]
                    changes[f, p, parameter] = max(row) / min(row)
    worst = max(changes, key=lambda key: changes[key])
    calm = sum(change < _DRAMATIC for change in changes.values())
    claims.append(text.claim(
        "The load does not change medians and minima dramatically.", "no dramatic change",
        f"{calm} of {len(changes)} stay within a factor of {_DRAMATIC:g}; {worst[0]} on {worst[1]}: "
        f"{worst[2]} changes {significant(changes[worst])} times",
        decide(holds=calm == len(changes), in_part=2 * calm > len(changes)),
        f"Left out VirtualBox, the largest change is "
        f"{significant(max(change for (_, p, _), change in changes.items() if p in OTHERS))} times.",
    ))  # fmt: skip
    return claims
