"""Oliveira Filho et al.: the share of virtualization in round-trip times."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from vtare import plots, stats
from vtare.number_text import percent_points, significant
from vtare.papers.claims.model import Claim, Reanalysis, decide, stated
from vtare.papers.claims.oliveira_words import word_claims
from vtare.papers.published import oliveira_affinity, one_value, read_rows, rows_where

if TYPE_CHECKING:
    from vtare.plots import Drawing

PAPER: Final = "oliveira"
_TABLE: Final = "oliveira_rtt_tables"
_TECHNOLOGY: Final = {"4": "KVM", "5": "LXC", "6": "Docker"}
_RUNS: Final = 400_000
"""Any large number: bounds of tau-b depend on shares alone."""


def outlier_shares(table: str) -> dict[str, float]:
    """Shares of outliers by scenario as a table prints them, in percent."""
    return {
        ", ".join(part for part in (row["load_type"], row["load_location"].split(" [")[0],
                                    row["frequency_pps"] if row["frequency_pps"] not in ("", "all") else "") if part):
            float(row["value_percent"])
        for row in rows_where(_TABLE, record="table", table=table, statistic="share_of_outliers")
    }  # fmt: skip


def tau_bounds() -> dict[str, float]:
    """The most that tau-b can reach for one level of each factor, levels equally often."""
    sizes: dict[str, int] = {}
    for row in read_rows("oliveira_factor_levels"):
        sizes[row["factor"]] = sizes.get(row["factor"], 0) + 1
    return {factor: stats.tau_bound(k * _RUNS, _RUNS) for factor, k in sizes.items() if k > 1}


def reanalyse() -> Reanalysis:
    """Check what Tables 3 to 6 and the figures of the text let one check."""
    claims = [_affinity(), *_outliers(), *_tau(), *_overheads(), *word_claims()]
    about = (
        "Tables 3 to 6 give the share of virtualization in round-trip times with and without pinned CPUs, and where "
        "the outliers of each technology were. Correlations are drawn as pictures without figures; single round trips "
        "are not published."
    )
    method = (
        "Arithmetic on the printed figures, and the bound that Kendall's tau-b has against one level of a factor. What "
        "needs the round trips themselves cannot be decided; two sentences of the text that exclude each other do not "
        "reproduce."
    )
    return Reanalysis(PAPER, about, method, tuple(claims))


def _affinity() -> Claim:
    on, off = oliveira_affinity("median", "on"), oliveira_affinity("median", "off")
    iqr = [oliveira_affinity("q75", state) - oliveira_affinity("q25", state) for state in ("on", "off")]
    return Claim(
        "affinity", "section 4.1.2", "Pinning the machines to CPUs does not change the share of virtualization.",
        f"medians {off:g} % off, {on:g} % on",
        f"difference {percent_points(on - off)}, beside interquartile ranges of {significant(iqr[0])} and "
        f"{significant(iqr[1])} points", decide(holds=abs(on - off) < 0.1 * min(iqr)),
        "The quartiles are almost the same, too. No margin and no number of repeated runs is printed, "
        "so equality does not follow.",
    )  # fmt: skip


def shares_by(table: str, column: str) -> dict[str, float]:
    """Shares of outliers in percent by one column of a table (its rates, locations or load types)."""
    shares: dict[str, float] = {}
    for row in rows_where(_TABLE, record="table", table=table, statistic="share_of_outliers"):
        name = row[column].split(" [")[0] or "other scenarios"
        shares[name] = shares.get(name, 0.0) + float(row["value_percent"])
    return shares


def _outliers() -> list[Claim]:
    claims = []
    for table, technology in _TECHNOLOGY.items():
        shares = outlier_shares(table)
        total = sum(shares.values())
        worst = max(shares, key=lambda scenario: shares[scenario])
        claims.append(
            Claim(
                f"outliers-{technology.lower()}-total", f"Table {table}",
                f"The shares of the outliers of {technology} add up.", "100 %", f"{total:.2f} %",
                decide(holds=abs(total - 100) <= 0.1), "Rounded to the printed decimals.",
            )
        )  # fmt: skip
        if technology == "LXC":
            continue
        claims.append(
            Claim(
                f"outliers-{technology.lower()}", f"Table {table}",
                f"Most outliers of {technology} are in one scenario: network load at the responder.",
                "NET, responder server", f"{shares[worst]:g} % in {worst}",
                decide(holds=shares[worst] > 90 and worst == "NET, responder server"),
                "Shares of all outliers do not show how many there are: a scenario can hold nearly all of few.",
            )
        )  # fmt: skip
    claims.append(_lxc_outliers())
    return claims


def _lxc_outliers() -> Claim:
    """Where LXC's outliers are: spread over loads and locations, concentrated at one packet rate."""
    text = stated(PAPER, "outliers-lxc")
    by_rate = shares_by("5", "frequency_pps")
    rate = f"{text.numbers['rate']:.0f}"
    rates = [row["level"] for row in read_rows("oliveira_factor_levels") if row["factor"] == "packet_frequency_pps"]
    by_place, by_load = shares_by("5", "load_location"), shares_by("5", "load_type")
    even = 100 / len(rates)
    written = ", ".join(f"{name} packet/s {share:.1f} %" if name[0].isdigit() else f"{name} {share:.1f} %"
                        for name, share in by_rate.items())  # fmt: skip
    others = "; ".join(", ".join(f"{name} {share:.1f} %" for name, share in part.items() if name != "other scenarios")
                       for part in (by_place, by_load))  # fmt: skip
    return Claim(
        "outliers-lxc", text.where, "The outliers of LXC are distributed over scenarios: they are a property of LXC "
        "itself.", "several experiments", f"by rate: {written}; by location and load: {others}",
        decide(holds=by_rate[rate] < 1.5 * even, in_part=max(by_place.values()) < 90 and max(by_load.values()) < 90),
        f"They concentrate at 1 Mpps: {by_rate[rate]:.1f} % of them, {significant(by_rate[rate] / even)} times the "
        f"even share of one of {len(rates)} rates. Over loads and locations they are spread. Section 6 names the "
        "high packet rate.",
    )  # fmt: skip


def _tau() -> list[Claim]:
    bounds = tau_bounds()
    listed = ", ".join(f"{factor.replace('_', ' ')} {bound:.2f}" for factor, bound in bounds.items())
    return [
        Claim(
            "tau-levels", "section 4.3", "Levels such as the driver or the load go with higher or lower round-trip "
            "times, by Kendall's tau.", "figures 15 to 17", f"tau-b of one level cannot pass: {listed}",
            "cannot be decided",
            "The pictures carry no figures. Against one level of a factor tau-b is bounded by about the root of "
            "2 p (1 - p): a tau of 0.5 for one of four drivers is near the most there can be, and for one of nine "
            "numbers of machines it cannot occur.",
        ),
        Claim(
            "tau-counts", "section 4.3", "The number of machines enters as one level each.", "nine levels",
            f"{bounds['n_background_vms']:.2f} at most for one level, 1.00 for the number itself",
            decide(holds=bounds["n_background_vms"] >= 1.0),
            "A count has an order; as nine separate levels most of what tau could see is lost. Taken as a number it "
            "has no bound below 1.",
        ),
    ]  # fmt: skip


def _overheads() -> list[Claim]:
    virtio = one_value(_TABLE, "value_percent", statistic="overhead_share_median", driver_or_factor="VirtIO")
    emulated = one_value(_TABLE, "value_percent", statistic="overhead_share_median", driver_or_factor="RTL8139")
    printed = one_value(_TABLE, "value_percent", statistic="rtt_reduction")
    # Same wire time W: RTT = W / (1 - share).
    follows = 100 * (1 - (1 - emulated / 100) / (1 - virtio / 100))
    rtts = sorted(float(row["value_ms"]) for row in rows_where(_TABLE, technology="LXC", load_type="cpu",
                  n_background_vms="128", statistic="rtt"))  # fmt: skip
    spent = one_value(_TABLE, "value_ms", technology="LXC", load_type="cpu", statistic="overhead")
    shares = [100 * spent / rtt for rtt in rtts]
    tiny = one_value(_TABLE, "value_ms", statistic="rtt_value_other_cases")
    least = min(float(row["value_ms"]) for row in rows_where(_TABLE, technology="KVM", statistic="overhead"))
    return [
        Claim(
            "reduction", "section 4.1.1", f"VirtIO's round-trip time is about {printed:g} % below that of the RTL8139.",
            f"{printed:g} %", f"{percent_points(follows, signed=False)} from the shares of virtualization alone",
            "cannot be decided",
            f"With the same time on the wire, shares of {virtio:g} and {emulated:g} % give this much. The rest would "
            "have to come from outside the virtual machine, or from other subsets of the runs.",
        ),
        Claim(
            "lxc-overhead", "section 4.2", "With LXC under CPU load at 128 machines, the overhead makes up nearly all "
            "of the round trip.", f"{spent:g} of {' or '.join(f'{rtt:g}' for rtt in rtts)} ms",
            " or ".join(percent_points(share, signed=False) for share in reversed(shares)),
            decide(holds=min(shares) > 90),
            "Two paragraphs print two round-trip times; either way more than nine tenths are overhead.",
        ),
        Claim(
            "rtt-tiny", "section 4.1.1", f"In all other cases round trips with KVM take about {tiny:g} ms.",
            f"{tiny:g} ms", f"the least overhead printed is {least:g} ms", decide(holds=tiny >= least),
            f"A part cannot be {math.floor(least / tiny)} times the whole: 0.1 ms or more is likely what was meant.",
        ),
    ]  # fmt: skip


def figures() -> tuple[Drawing, ...]:
    """Where the outliers were, by technology; how far tau-b can reach."""
    rows = [
        (f"{technology}: {scenario}", technology.lower() if technology != "KVM" else "qemu", share / 100)
        for table, technology in _TECHNOLOGY.items()
        for scenario, share in outlier_shares(table).items()
    ]
    bounds = [(factor.replace("_", " "), "adaptive", bound) for factor, bound in tau_bounds().items()]
    return (
        plots.share_bars(rows, name="oliveira-outliers", label="share of the technology's outliers", limit=1.0),
        plots.share_bars(
            bounds, name="oliveira-tau", label="share of tau-b's range that one level can reach", limit=1.0
        ),
    )
