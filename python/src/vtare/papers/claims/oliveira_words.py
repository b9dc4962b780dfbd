"""Sentences of Oliveira Filho et al. against its tables, its other sentences and arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vtare.number_text import percent_points, significant, time_text
from vtare.papers.claims.model import Stated, decide, stated
from vtare.papers.published import one_value, read_rows, rows_where

if TYPE_CHECKING:
    from vtare.papers.claims.model import Claim

_TABLE: Final = "oliveira_rtt_tables"
_PING_WIRE_BYTE: Final = 122
"""A ping of 56 bytes on Ethernet: 8 + 56 ICMP, 20 IP, 14 + 4 frame, 20 preamble and gap."""


def _sentence(claim: str) -> Stated:
    return stated("oliveira", claim)


def _overhead_ms(rate: str, machines: str) -> float:
    """The overhead that section 4.1.3 prints for network load at the responder."""
    return one_value(_TABLE, "value_ms", statistic="overhead", technology="KVM", frequency_pps=rate,
                     n_background_vms=machines)  # fmt: skip


def _ms(value: float) -> str:
    return f"{value:g} ms"


def word_claims() -> list[Claim]:
    """Sections 3, 4 and 6."""
    return [*_overhead(), *_measured(), *_drivers(), *_rates(), *_containers(), *_presentation()]


def _overhead() -> list[Claim]:
    changes = {}
    for rate, name in (("1", "1 packet/s"), ("1000 or 1000000", "1 kpps and 1 Mpps")):
        first, last = _overhead_ms(rate, "0"), _overhead_ms(rate, "128")
        changes[name] = (first, last, 100 * (last / first - 1))
    text = _sentence("overhead-constant")
    written = ", ".join(f"{name}: {a:g} to {b:g} ms ({percent_points(c)})" for name, (a, b, c) in changes.items())
    claims = [text.claim(
        "Under network load at the responder, the overhead in ms does not depend on the number of machines.",
        f"{text.numbers['change']:g} % change", f"from 0 to 128 machines, {written}",
        decide(holds=all(abs(change) < 10 for *_, change in changes.values())), "Figures of section 4.1.3.",
    )]  # fmt: skip
    grown = [name for name, (a, b, _) in changes.items() if b > a]
    claims.append(_sentence("network-load-overhead").claim(
        "Many machines that send much create a considerable overhead.", "considerable", written,
        decide(holds=len(grown) == len(changes), in_part=bool(grown)), f"It grows at {', '.join(grown)} only.",
    ))  # fmt: skip
    text = _sentence("high-rtt-low-overhead")
    claims.append(text.claim(
        "There is no case of a high round-trip time with a low share of overhead.", text.words["summary"],
        f"with the lowest shares, round trips are {text.words['two paragraphs before']}",
        decide(holds=text.words["two paragraphs before"] != "higher"),
        "The same section: network load at the responder has the lowest shares and the longest round trips.",
    ))  # fmt: skip
    text = _sentence("overhead-of-median")
    n = text.numbers
    part = n["share"] / 100 * n["round trip"]
    least = min(_overhead_ms(rate, machines) for rate in ("1", "1000 or 1000000") for machines in ("0", "128"))
    claims.append(text.claim(
        "VirtIO's median round trip is below 0.35 ms, of which 25.26 % is overhead.", f"{n['share']:g} % of "
        f"{_ms(n['round trip'])}", f"{significant(part)} ms at most; the least overhead printed is {_ms(least)}",
        "reproduces" if part >= least else "cannot be decided",
        "A share of medians is no median of shares, and which runs each figure is of is not printed.",
    ))  # fmt: skip
    return claims


def _measured() -> list[Claim]:
    """What the difference of two round trips is: of one side, and a share of the whole."""
    text = _sentence("capture-points")
    points, hosts = (int(text.numbers[part]) for part in ("points", "virtualized hosts"))
    claims = [text.claim(
        "The difference of the round trips of ping and tcpdump is what virtualization adds to a round trip.",
        f"{points} capture point", f"both ends are virtualized: {points} of {hosts} sides is measured",
        decide(holds=points == hosts, in_part=points > 0),
        "What the responder's virtualization adds is beyond the capture point, and counts as the network.",
    )]  # fmt: skip
    text = _sentence("share-of-whole")
    added = {driver: 100 * share / (100 - share) for driver, share in text.numbers.items()}
    shares = list(text.numbers.values())
    ratio = max(added.values()) / min(added.values())
    claims.append(text.claim(
        "The share of the round trip shows how much more one driver adds than another.",
        ", ".join(f"{driver} {share:g} %" for driver, share in text.numbers.items())
        + f": {significant(max(shares) / min(shares))} times as much",
        ", ".join(f"{driver} {significant(value)} %" for driver, value in added.items())
        + f" on top of the rest: {significant(ratio)} times as much",
        decide(holds=abs(ratio / (max(shares) / min(shares)) - 1) < 0.05, in_part=ratio > 1),
        "A share of the total cannot pass 100 % and falls when anything else grows: at equal overhead in ms it is "
        "lower under network load (section 4.1.1).",
    ))  # fmt: skip
    return claims


def _drivers() -> list[Claim]:
    text = _sentence("only-virtio")
    n = text.numbers
    claims = [text.claim(
        "VirtIO alone has a median round trip below 0.35 ms; all other cases are close to 0.01 ms.",
        f"{_ms(n['virtio'])} and {_ms(n['other cases'])}", f"1 to {significant(n['virtio'] / n['other cases'])}",
        decide(holds=n["other cases"] >= n["virtio"]),
        "Both are of Figure 3: the slower cases cannot be a small part of the fastest.",
    )]  # fmt: skip
    text = _sentence("virtio-range")
    n = text.numbers
    quartiles = {state: [one_value(_TABLE, "value_percent", table="3", driver_or_factor=f"cpu_affinity={state}",
                                   statistic=name) for name in ("q25", "median", "q75", "min", "max")]
                 for state in ("off", "on")}  # fmt: skip
    inside = all(n["low"] <= row[1] <= n["high"] for row in quartiles.values())
    below = all(row[0] < n["low"] for row in quartiles.values())
    claims.append(text.claim(
        "Considering all scenarios, para-virtualized drivers contribute 25 to 32 % of the round trip.",
        f"{n['low']:g} to {n['high']:g} %",
        f"VirtIO: medians {quartiles['off'][1]:g} and {quartiles['on'][1]:g} %, lower quartiles "
        f" {quartiles['off'][0]:g} and {quartiles['on'][0]:g} %, extremes {quartiles['on'][3]:g} to "
        f"{quartiles['on'][4]:g} %", decide(holds=inside and not below, in_part=inside),
        "The medians of Table 3 are in that range; more than a quarter of the shares are below it.",
    ))  # fmt: skip
    text = _sentence("emulated-range")
    n = text.numbers
    claims.append(text.claim(
        "The RTL8139's share of overhead is among the 30 to 40 % of the emulated drivers.",
        f"{n['low']:g} to {n['high']:g} %", f"{n['RTL8139']:g} %", decide(holds=n["low"] <= n["RTL8139"] <= n["high"]),
        "A median over all runs.",
    ))  # fmt: skip
    spread = {driver: one_value(_TABLE, "value_ms", statistic="rtt_std_dev", n_background_vms="128",
                                driver_or_factor=driver) for driver in ("VirtIO", "RTL8139")}  # fmt: skip
    apart = 100 * (max(spread.values()) / min(spread.values()) - 1)
    claims.append(_sentence("no-driver-stands-out").claim(
        "No driver stands out against the variation of the round trip.", "none",
        ", ".join(f"{driver} {_ms(value)}" for driver, value in spread.items()) + f": {significant(apart)} % apart",
        decide(holds=apart < 20), "Standard deviations at 128 machines; those of the other drivers are not printed.",
    ))  # fmt: skip
    text = _sentence("kvm-close-to-zero")
    share = one_value(_TABLE, "value_percent", statistic="overhead_share_median", driver_or_factor="VirtIO")
    whole = _overhead_ms("1000 or 1000000", "0") / (share / 100)
    claims.append(text.claim(
        "Round trips with KVM under I/O load are close to zero.", text.words["round trip"],
        f"an overhead of {_ms(_overhead_ms('1000 or 1000000', '0'))} at {share:g} % makes {significant(whole)} ms",
        "reproduces" if whole < 0.1 else "cannot be decided",
        "From the least overhead and the median share that are printed, of other loads. Round trips under I/O load are "
        "drawn, not printed; close to zero is not defined.",
    ))  # fmt: skip
    return claims


def _rates() -> list[Claim]:
    text = _sentence("kpps-with-itself")
    first, second = text.numbers["first"], text.numbers["second"]
    claims = [text.claim(
        "The growth at 1 kpps is larger than that at another rate.", "two rates", f"{first:g} and {second:g} packet/s",
        decide(holds=first != second), "The sentence compares a rate with itself.",
    )]  # fmt: skip
    text = _sentence("near-line-rate")
    most = text.numbers["link"] / (8 * _PING_WIRE_BYTE)
    share = 100 * text.numbers["rate"] / most
    claims.append(text.claim(
        "1 Mpps of pings is near the line rate.", f"{text.numbers['rate'] / 1e6:g} Mpps",
        f"{significant(share)} % of {significant(most / 1e6)} Mpps", decide(holds=80 <= share <= 100),
        f"Pings of the default 56 B take {_PING_WIRE_BYTE} B on a 1 Gbit/s link. Nothing shows that "
        "ping reaches this rate.",
    ))  # fmt: skip
    text = _sentence("burst-length")
    n = text.numbers
    burst_ms = 1e3 * n["packets"] / n["rate"]
    claims.append(text.claim(
        "At 1 Mpps, round trips of up to 120 ms are those of a steady rate.", f"{n['round trip']:g} ms",
        f"{n['packets']:g} packets are sent within {burst_ms:g} ms",
        "reproduces" if n["round trip"] < burst_ms else "cannot be decided",
        f"The round trip is {significant(n['round trip'] / burst_ms)} times as long as the burst: what is measured is "
        "the queue of one burst, or the rate was lower than stated.",
    ))  # fmt: skip
    return claims


def _containers() -> list[Claim]:
    text = _sentence("lxc-rtt-128")
    values = text.numbers
    claims = [text.claim(
        "The round-trip time of LXC under CPU load with 128 machines has one value.", "one value",
        ", ".join(f"{_ms(value)} ({part})" for part, value in values.items()),
        decide(holds=len(set(values.values())) == 1,
               in_part=max(values.values()) / min(values.values()) < 1.05),
        "Which of them is a median and which a maximum is not printed.",
    )]  # fmt: skip
    text = _sentence("container-trend")
    kvm = min(_overhead_ms(rate, machines) for rate in ("1", "1000 or 1000000") for machines in ("0", "128"))
    own = text.numbers["containers"]
    claims.append(text.claim(
        "The overhead of containers, close to 0.01 ms, follows the trend seen with KVM under network load.",
        time_text(1e6 * own), f"KVM {_ms(kvm)} at least: {significant(kvm / own)} times that",
        decide(holds=kvm <= 2 * own), "Section 4.1.3 prints KVM's overhead under network load.",
    ))  # fmt: skip
    text = _sentence("io-containers")
    claims.append(text.claim(
        "I/O load changes round trips in containers, other than in KVM.", text.words["conclusion"],
        f"the only exception of section 4.2: {text.words['only exception']} load",
        decide(holds="I/O" in text.words["only exception"]),
        "For the overhead, section 4.2 has no effect of I/O load; round trips are drawn, not printed.",
    ))  # fmt: skip
    text = _sentence("direction")
    claims.append(text.claim(
        "Network load at the responder stands for machines that receive much.", f"{text.words['conclusion']} packets",
        f"the load consists of {text.words['cause']} packets",
        decide(holds=text.words["cause"] == text.words["conclusion"]),
        "Section 4.1.1 explains the effect by packets that leave; the advice is for those that arrive.",
    ))  # fmt: skip
    return claims


def _presentation() -> list[Claim]:
    text = _sentence("factors-listed")
    named = set(text.names("list"))
    factors = {row["factor"] for row in read_rows("oliveira_factor_levels")} - {"technology"}
    claims = [text.claim(
        "Section 3 lists the factors of the experiments.", f"{len(named)} factors",
        f"{len(factors)} factors are varied",
        decide(holds=named == factors, in_part=True),
        f"Not listed: {', '.join(sorted(name.replace('_', ' ') for name in factors - named))}.",
    )]  # fmt: skip
    text = _sentence("agrees-with-dantas")
    own, cited = set(text.words["agreement"].split(" or ")), set(text.words["reference 2"].split(" or "))
    claims.append(text.claim(
        "Under high network or I/O load, affinity does not help, as in reference 2.", text.words["agreement"],
        f"reference 2 excepts {text.words['reference 2']} load", decide(holds=own <= cited, in_part=bool(own & cited)),
        "As section 5 itself describes reference 2: under network load affinity did lower the round-trip time there.",
    ))  # fmt: skip
    text = _sentence("location-names")
    hosts = {row["load_location"].split("[printed: ")[1].rstrip("]") if "[printed: " in row["load_location"]
             else row["load_location"] for row in rows_where(_TABLE, table="4", record="table")}  # fmt: skip
    claims.append(text.claim(
        "Table 4 has two locations of the load: sender and responder server.", "2 locations",
        f"{len(hosts)} names: {', '.join(sorted(hosts))}", decide(holds=len(hosts) == 2, in_part=True),
        f"{text.words['one row']} is likely the {text.words['another row'].lower()}.",
    ))  # fmt: skip
    text = _sentence("same-caption")
    claims.append(text.claim(
        "The captions of Figures 4 and 5 state what each shows.", "round-trip time; share of overhead",
        "; ".join(f"{part}: {caption}" for part, caption in text.words.items()),
        decide(holds=len(set(text.words.values())) == len(text.words)),
        "The captions are the same; by the text Figure 4 shows round-trip times and Figure 5 shares of overhead.",
    ))  # fmt: skip
    return claims
