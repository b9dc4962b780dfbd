"""Sentences of Kirova 2019 about data rates, bandwidth estimates and the test bed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from vtare.number_text import percent_points, rate_text, significant, time_text
from vtare.papers.claims.kirova_tables import LOADS, OTHERS, cells, sentence
from vtare.papers.claims.model import decide
from vtare.papers.published import rows_where

if TYPE_CHECKING:
    from vtare.papers.claims.model import Claim


def rate_mbps(frame_byte: float, gap_ns: float) -> float:
    """Equation 1 of the paper: the rate in Mbit/s of one packet in every gap."""
    return 8e3 * frame_byte / gap_ns


def _text(mbps: float) -> str:
    return rate_text(1e6 * mbps)


def rate_claims() -> list[Claim]:
    """Sections 1, 2.2 and 4: rates that follow from times."""
    return [*_equation(), *_reach(), _calls(), *_test_bed(), *_estimates()]


def _equation() -> list[Claim]:
    text = sentence("limit-120-320")
    n = text.numbers
    slow, fast = rate_mbps(n["frame"], n["longest"]), rate_mbps(n["frame"], n["shortest"])
    agree = [abs(slow / n["low"] - 1) < 0.01, abs(fast / n["high"] - 1) < 0.01]
    first = text.claim(
        "Gaps of 100 to 40 \N{MICRO SIGN}s limit the rate to 120 to 320 Mbit/s with packets of 1500 B.",
        f"{n['low']:g} to {n['high']:g} Mbit/s", f"equation 1: {_text(slow)} to {_text(fast)}",
        decide(holds=all(agree), in_part=any(agree)),
        f"{n['high']:g} Mbit/s would take {time_text(8e3 * n['frame'] / n['high'])}; section 2.2.3 has 300 Mbit/s.",
    )  # fmt: skip
    text = sentence("limit-300")
    n = text.numbers
    rate = rate_mbps(n["frame"], n["time"])
    second = text.claim(
        "A gap of 40 \N{MICRO SIGN}s corresponds to 300 Mbit/s.", f"{n['rate']:g} Mbit/s", f"equation 1: {_text(rate)}",
        decide(holds=abs(rate / n["rate"] - 1) < 0.01), "With packets of 1500 B, as in section 1.",
    )  # fmt: skip
    return [first, second]


def _reach() -> list[Claim]:
    median = cells("sleeps", "median")
    rates = [rate_mbps(1500, median["HPTSleep", p, load]) for p in OTHERS for load in LOADS]
    claims = []
    for key, statement in (
        ("reach-100", "Sleeping with HPTSleep allows 100 Gbit/s and more."),
        ("reach-120", "HPTSleep allows the analysis of networks of up to 120 Gbit/s."),
    ):
        text = sentence(key)
        wanted = text.numbers["rate"]
        reached = sum(rate >= wanted for rate in rates)
        measured = text.numbers.get("measured")
        claims.append(text.claim(
            statement, f"{wanted / 1000:g} Gbit/s",
            f"equation 1 on medians of HPTSleep: {_text(min(rates))} to {_text(max(rates))}; {reached} of {len(rates)} "
            "reach it", decide(holds=reached == len(rates), in_part=reached > 0),
            "Packets of 1500 B, VirtualBox left out." if measured is None else
            f"The highest rate that was measured is {_text(measured)}; the rest is equation 1, in which reading the "
            "clock and sending take no time.",
        ))  # fmt: skip
    return claims


def _calls() -> Claim:
    text = sentence("calls-per-packet")
    n = text.numbers
    cost = min(value for (function, _, _), value in cells("timers", "median").items() if function == "TSC")
    spent = n["calls"] * cost
    rate = rate_mbps(n["frame"], spent)
    needed = math.ceil(n["rate"] * spent / 8e3)
    return text.claim(
        f"More than {n['calls']:g} clock reads are made for each packet, at up to 8.9 Gbit/s.",
        f"{n['calls']:g} reads, {_text(n['rate'])}",
        f"{n['calls']:g} reads of {time_text(cost)} take {time_text(spent)}: {_text(rate)} with packets of 1500 B",
        decide(holds=rate >= n["rate"]),
        f"The cheapest read of Table 1; packets of {needed} B or more would be needed, and none but 1500 B is printed.",
    )  # fmt: skip


def _test_bed() -> list[Claim]:
    text = sentence("host-nic-model")
    cards = set(text.words.values())
    model = text.claim(
        "The machine of section 2.1.2 hosts the virtual machines of the bandwidth measurements.",
        text.words["section 2.1.2"], text.words["section 2.2.2"], decide(holds=len(cards) == 1),
        "Two sections give the same machine two network cards.",
    )  # fmt: skip
    text = sentence("host-nic-rate")
    card, estimate = text.numbers["card"], text.numbers["estimate"]
    rate = text.claim(
        "A virtual machine on that host estimates 8.9 Gbit/s on a 10 Gbit/s path.", _text(estimate),
        f"the card of the host carries {_text(card)}", decide(holds=estimate <= card),
        "Another card than that of section 2.2.2 must have been used, or no card between the two machines.",
    )  # fmt: skip
    text = sentence("only-kite2")
    at_10g = ("probe_rate_consumed_10G", "overestimation_up_to")
    others = sorted({row["tool"] for row in rows_where("kachan_prose") if row["quantity"] in at_10g} - {"Kite2"})
    only = text.claim(
        "No other tool than Kite2 can probe at 10 Gbit/s.", f"{text.numbers['others']:g} others",
        f"{len(others)} others: {', '.join(others)}", decide(holds=len(others) == text.numbers["others"]),
        "The paper's reference 10 (kachan2017, authors in common) prints errors of these tools on a 10 Gbit/s link.",
    )  # fmt: skip
    return [model, rate, only]


def _estimates() -> list[Claim]:
    text = sentence("variance-unit")
    n = text.numbers
    as_mad, as_variance = n["MAD"] / n["variance"], n["MAD"] / math.sqrt(n["variance"])
    unit = text.claim(
        f"The variance of the estimates on the host is {n['variance']:g} Mbit/s.", f"variance {n['variance']:g} Mbit/s",
        f"{n['MAD']:g} Mbit/s, called MAD, is {significant(as_mad)} times that, and {significant(as_variance)} times "
        "its root", decide(holds=abs(as_variance - n["ratio"]) < abs(as_mad - n["ratio"])),
        f"A variance has another unit. The text's ratio of almost {n['ratio']:g} follows only if this is a MAD, too.",
    )  # fmt: skip
    text = sentence("closer-587")
    n = text.numbers
    avb = n["link"] - n["cross traffic"]
    errors = {name: 100 * (n[name] - avb) / avb for name in ("HighPerTimer", "system")}
    closer = text.claim(
        "With HighPerTimer the estimate of Yaz is closer to what is available than with system timers.",
        f"{n['HighPerTimer']:g} and {n['system']:g} Mbit/s",
        f"{percent_points(errors['HighPerTimer'])} and {percent_points(errors['system'])} of {avb:g} Mbit/s",
        decide(holds=abs(errors["HighPerTimer"]) < abs(errors["system"])),
        "Both overestimate; intervals are not printed.",
    )  # fmt: skip
    text = sentence("less-than-half")
    n = text.numbers
    ratio = n["HighPerTimer"] / n["system"]
    half = text.claim(
        "With HighPerTimer the spread of estimates is less than half of that with system timers.",
        f"less than {n['ratio']:g}", f"{significant(ratio)} at 10 Gbit/s on the host", decide(holds=ratio < n["ratio"]),
        "The two figures that are printed; those at 1 Gbit/s and in QEMU are not.",
    )  # fmt: skip
    text = sentence("host-and-qemu")
    first, second = text.numbers["first"], text.numbers["second"]
    apart = 100 * abs(second - first) / max(first, second)
    close = text.claim(
        "With HighPerTimer, the medians on the host and in QEMU are close.", f"{first:g} and {second:g} Mbit/s",
        f"{significant(apart)} % apart", decide(holds=apart < 1), "Medians of Kite2 at 10 Gbit/s.",
    )  # fmt: skip
    return [unit, closer, half, close]
