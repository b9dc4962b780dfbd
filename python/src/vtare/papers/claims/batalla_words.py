"""Sentences of Batalla et al. 2018 about throughput and latency, against each other and against arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vtare.number_text import rate_text, significant
from vtare.papers.claims.model import Stated, decide, stated
from vtare.papers.published import one_value, read_rows

if TYPE_CHECKING:
    from vtare.papers.claims.model import Claim

_PROSE: Final = "batalla_prose"
_INDEX: Final = "batalla_jain_index"


def _sentence(claim: str) -> Stated:
    return stated("batalla2018", claim)


def _latency(quantity: str, subject: str) -> float:
    return one_value(_PROSE, "value_us", quantity=quantity, subject=subject)


def word_claims() -> list[Claim]:
    """Method, results and summary."""
    return [*_index(), _groups(), _sums(), *_throughput(), *_latencies(), *_loads(), _citation()]


def _sums() -> Claim:
    text = _sentence("equation-7-index")
    start = int(text.numbers["first index"])
    rows = read_rows(_INDEX)
    n = int(rows[0]["n_vms"])
    ranges = [(range(start, n - k + start), range(1, k + 1)) for k in range(1, n)]
    right = sum(not set(weak) & set(strong) for weak, strong in ranges)
    return text.claim(
        "Equation 7 adds the latencies of the slightly and of the strongly loaded machines.",
        f"both sums begin at i = {start}", f"the two sums have no machine in common for {right} of {len(ranges)} k",
        decide(holds=right == len(ranges)),
        "Machine 1 is in both sums for every k, and the last machine in none: the first sum has to begin at k + 1.",
    )  # fmt: skip


def _index() -> list[Claim]:
    rows = read_rows(_INDEX)
    index = [float(row["j_eq5"]) for row in rows]
    n, q = int(rows[0]["n_vms"]), float(rows[0]["q"])
    text = _sentence("index-range")
    low, high = text.numbers["low"], text.numbers["high"]
    claims = [text.claim(
        "Jain's index takes values in [0, 1].", f"{low:g} to {high:g}",
        f"1/N to 1: {1 / n:.4f} to {high:g} for {n} machines",
        decide(holds=abs(1 / n - low) < 1e-6, in_part=max(index) <= high),
        "By the Cauchy-Schwarz inequality the index of N loads is 1/N at least.",
    )]  # fmt: skip
    text = _sentence("index-tests")
    claims.append(text.claim(
        "In the tests the index ranges from 1/N to 1.", f"{1 / n:.4f} to {text.numbers['high']:g}",
        f"{min(index):.4f} to {max(index):g}", decide(holds=abs(min(index) - 1 / n) < 1e-6, in_part=True),
        f"The slightly loaded machines always have {100 * q:g} % of the load, or all machines the same.",
    ))  # fmt: skip
    text = _sentence("negligible-load")
    off = max(abs(float(row["j_vs_limit_percent"])) for row in rows)
    claims.append(text.claim(
        "The load of the slightly loaded machines hardly matters.", f"{text.words['impact']}, q = {q:g}",
        f"the index is {significant(off)} % at most above its limit without that load", decide(holds=off < 5),
        "Table of equations 2 to 6; its effect on throughput is not printed.",
    ))  # fmt: skip
    return claims


def _groups() -> Claim:
    """For which numbers of machines the strongly loaded ones have more load than the others, for every k below N."""
    rows = read_rows(_INDEX)
    n, q = int(rows[0]["n_vms"]), float(rows[0]["q"])
    text = _sentence("groups-of-loads")
    holds = [k for k in range(1, n) if q < (n - k) / n]
    most = next(size for size in range(2, 100_000) if q >= 1 / size) - 1
    return text.claim(
        "The k machines are the strongly loaded ones, whatever k below N.", f"{text.words['groups']} groups, q = {q:g}",
        f"it takes q < (N - k)/N: right for {len(holds)} of {n - 1} k with {n} machines, for every k up to {most} of "
        "them",
        decide(holds=most >= 99_999, in_part=len(holds) == n - 1),
        "By equations 3 and 4 a strongly loaded machine has (1 - q)/k of the load and a slightly loaded one q/(N - k). "
        "The condition is not printed, and the methodology is proposed for any N.",
    )  # fmt: skip


def _throughput() -> list[Claim]:
    text = _sentence("ratio-and-index")
    n = text.numbers
    varies = n["xen growth"] / n["kvm growth"]
    claims = [text.claim(
        "KVM's throughput is five times Xen's at every index.", f"{n['ratio']:g} times",
        f"where it is {n['ratio']:g} times at J = 1, it is {significant(n['ratio'] * varies)} times at the least index",
        decide(holds=varies < 1.1),
        f"Xen's throughput grows {n['xen growth']:g} times with the index and KVM's lines are nearly flat: one ratio "
        "cannot hold at both ends.",
    )]  # fmt: skip
    text = _sentence("both-grow")
    claims.append(text.claim(
        "With both hypervisors the throughput increases with the index.", text.words["summary"],
        f"influence on KVM with 1518 B: {text.words['KVM, 1518 B']}",
        decide(holds=text.words["KVM, 1518 B"] != "none", in_part=True),
        "At 1518 B KVM is limited by the link, by the section on throughput.",
    ))  # fmt: skip
    return claims


def _latencies() -> list[Claim]:
    text = _sentence("comparable-latency")
    typical = text.numbers["latency"]
    xen, kvm = _latency("latency_max", "XEN 1518 B"), _latency("latency_min", "KVM large packets")
    claims = [text.claim(
        "The latencies of both hypervisors are comparable, about 100 us.", f"{typical:g} us",
        f"large packets: KVM {kvm:g} us or more, Xen {xen:g} us at most", decide(holds=kvm <= 1.5 * xen, in_part=False),
        f"KVM has {significant(kvm / xen)} times Xen's latency at least, for 1024 and 1518 B.",
    )]  # fmt: skip
    text = _sentence("size-gap")
    low, high = text.numbers["small below"], text.numbers["large from"]
    frames = sorted(float(row["value_bytes"]) for row in read_rows(_PROSE) if row["quantity"] == "frame_size")
    between = [f"{size:g} B" for size in frames if low <= size < high]
    claims.append(text.claim(
        "KVM's latency is small for packets of less than 512 B and large from 1024 B on.",
        f"below {low:g} B, from {high:g} B", f"in neither group: {', '.join(between) or 'no size'}",
        decide(holds=not between, in_part=True), "The five sizes that were measured.",
    ))  # fmt: skip
    text = _sentence("packet-duration")
    duration = 8 * (frames[-1] + 20) / 1e9 * 1e6
    rise = kvm - _latency("latency_max", "KVM <512 B")
    claims.append(text.claim(
        "The higher latency of large packets is not that of their duration.", text.words["cause"],
        f"{significant(duration)} us on the link, against a rise of {rise:g} us", decide(holds=rise > 2 * duration),
        "1518 B with preamble and gap at 1 Gbit/s; the packet crosses two links.",
    ))  # fmt: skip
    return claims


def _loads() -> list[Claim]:
    text = _sentence("xen-load")
    growth = one_value(_PROSE, "value_as_printed", quantity="throughput_ratio_J1_over_J0.09")
    claims = [text.claim(
        "The latency of Xen depends on the index and not on the load.", f"load: {text.words['load']}",
        f"the load at which latency was measured grows {growth:g} times with the index", "cannot be decided",
        "Latency is measured at the throughput that goes with each index, so index and load change together. Figures 8 "
        "and 9, over the load, are of KVM.",
    )]  # fmt: skip
    text = _sentence("xen-below-50")
    claims.append(text.claim(
        "Below 50 Mbit/s the latency of Xen is lower than that of KVM.", rate_text(1e6 * text.numbers["load"]),
        "no latency of Xen is given by load", "cannot be decided",
        "Figures 4 and 5 have Xen's latency at its throughput only.",
    ))  # fmt: skip
    text = _sentence("low-load-limits")
    first, second = text.numbers["figure 9"], text.numbers["figure 8"]
    claims.append(text.claim(
        "KVM's latency is higher at loads below 50 to 80 Mbit/s, and even above.", rate_text(1e6 * first),
        f"for 1518 B it decreases up to {rate_text(1e6 * second)}", decide(holds=second <= first),
        "Two figures of the same measurement, two limits.",
    ))  # fmt: skip
    return claims


def _citation() -> Claim:
    text = _sentence("citation")
    cited, meant = text.numbers["cited"], text.numbers["meant"]
    return text.claim(
        "The methodology is that of reference 1.", f"[{cited:g}]", f"[{meant:g}]", decide(holds=cited == meant),
        "Reference 1 is about surveillance video; the methodology is introduced as that of reference 19.",
    )  # fmt: skip
