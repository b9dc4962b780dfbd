"""Kirova et al. 2019: timers and sleeps on five platforms under three loads, and bandwidth estimated with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from vtare import plots, stats
from vtare.number_text import percent_points, significant, time_text
from vtare.papers.claims.kirova_methods import method_claims
from vtare.papers.claims.kirova_rates import rate_claims
from vtare.papers.claims.kirova_sleeps import sleep_claims
from vtare.papers.claims.kirova_tables import (
    ALPHA,
    FIGURES,
    LOADS,
    OTHERS,
    PAPER,
    TABLES,
    cells,
    joined_p,
    joined_significant,
    listed,
)
from vtare.papers.claims.kirova_timers import platform_claims, timer_claims
from vtare.papers.claims.model import Claim, Outcome, Reanalysis, decide, grouped
from vtare.papers.published import one_value, read_rows, rows_where
from vtare.stats import write_p

if TYPE_CHECKING:
    from vtare.plots import Drawing

_PROSE: Final = "kirova2019_prose"
_TOLERANCE: Final = 0.02
_HALF_DIGIT_NS: Final = 0.05
"""Half of the last decimal of the tables."""


def factor_p(kind: str, factor: str) -> dict[str, float]:
    """Kruskal-Wallis p of one factor for each statistical parameter of a table, Holm over the four."""
    raw = {}
    for name, figure in FIGURES.items():
        groups = list(grouped(TABLES[kind], lambda row: row[factor], figure).values())
        test = stats.kruskal_wallis(groups, family=f"{kind}: {factor}")
        assert test.p is not None
        raw[name] = test.p.raw
    adjusted = stats.adjust(list(raw.values()), family=f"{kind}: {factor}", adjustment="holm")
    return {name: p.adjusted for name, p in zip(raw, adjusted, strict=True)}


def sure_pairs(kind: str, factor: str, figure: str) -> list[tuple[str, str]]:
    """Pairs of levels that differ by Dunn's test (Holm)."""
    groups = grouped(TABLES[kind], lambda row: row[factor], FIGURES[figure])
    names = list(groups)
    pairs = stats.dunn(list(groups.values()), family=f"{kind}: {factor}")
    return [(names[pair.first], names[pair.second]) for pair in pairs if pair.p.adjusted <= ALPHA]


def printed_as_zero(kind: str) -> dict[str, int]:
    """How many figures of each parameter a table prints as 0: they are below half of its last decimal."""
    counts = {name: sum(value == 0.0 for value in cells(kind, name).values()) for name in FIGURES}
    return {name: count for name, count in counts.items() if count}


def interaction_p(kind: str, factors: tuple[str, str]) -> dict[str, float]:
    """The p-value of an interaction for each parameter, on logarithms; the third factor gives the replicates.

    By the ANOVA-type statistic, which takes no spreads as equal. What is printed as 0 is taken as half of the last
    decimal, and `printed_as_zero` counts it.
    """
    by_name = {}
    for name, figure in FIGURES.items():
        rows = [row for row in read_rows(TABLES[kind]) if row[figure].strip()]
        values = np.log([float(row[figure]) or _HALF_DIGIT_NS for row in rows])
        labels = {factor: [row[factor] for row in rows] for factor in factors}
        (test,) = stats.interaction_tests(values, labels, family=f"{kind}: {' x '.join(factors)}")
        assert test.p is not None
        by_name[name] = test.p.raw
    adjusted = stats.adjust(list(by_name.values()), family=f"{kind}: {' x '.join(factors)}", adjustment="holm")
    return {name: p.adjusted for name, p in zip(by_name, adjusted, strict=True)}


def _written(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {write_p(p)}" for name, p in values.items())


def _significant(values: dict[str, float]) -> set[str]:
    return {name for name, p in values.items() if p <= ALPHA}


def _decide(found: set[str], printed: set[str]) -> Outcome:
    """Equal sets of parameters reproduce, sets that share some do so in part."""
    return decide(holds=found == printed, in_part=bool(found & printed))


def reanalyse() -> Reanalysis:
    """Check every claim that the two tables and the figures of the text let one check."""
    claims = [
        *_factors(), *_interactions(), *timer_claims(), _text_against_tables(), *sleep_claims(), *_sleep_words(),
        *platform_claims(), *rate_claims(), *_bandwidth(), *method_claims(),
    ]  # fmt: skip
    about = (
        "Two tables give median, half interquartile range (printed as MAD), minimum and maximum of 30 datasets each: "
        "two functions, five platforms, three loads. The tests of the paper were made on such summaries."
    )
    method = (
        "Kruskal-Wallis and Dunn's test over the 30 datasets, p-values adjusted by Holm over the four parameters or "
        "over the pairs, alpha 0.05 as in the paper. Interactions are tested twice: by Kruskal-Wallis over joined "
        "levels, which is the paper's procedure, and by the ANOVA-type statistic on logarithms, which takes no spreads "
        "as equal, with the levels of the third factor as replicates, because there is one value a cell. Sentences of "
        "the text are compared with the cells of the tables; rounding by 2 % counts as agreement. Each dataset is one "
        "start of one machine, so nothing here shows how the figures vary from run to run."
    )
    return Reanalysis(PAPER, about, method, tuple(claims))


def _factors() -> list[Claim]:
    claims = []
    sections = {"timers": "3.1.4", "sleeps": "3.2.4"}
    printed_load = {"timers": {"half IQR"}, "sleeps": {"max"}}
    for kind, where in sections.items():
        function = factor_p(kind, "function")
        claims.append(
            Claim(
                f"{kind}-function", f"section {where}", f"For {kind} the function is a significant factor of all four "
                "parameters.", "significant: all four", f"Holm-adjusted p: {_written(function)}",
                _decide(_significant(function), set(FIGURES)),
                f"Over all platforms and loads the function makes a difference in: {listed(_significant(function))}. "
                + ("The maxima are single disturbances, in both functions alike."
                   if "max" not in _significant(function) else "Fifteen datasets on each side."),
            )
        )  # fmt: skip
        load = factor_p(kind, "load")
        claims.append(
            Claim(
                f"{kind}-load", f"section {where}", f"For {kind} the load is a significant factor of "
                f"{listed(printed_load[kind])} alone.", f"significant: {listed(printed_load[kind])}",
                f"Holm-adjusted p: {_written(load)}", _decide(_significant(load), printed_load[kind]),
                f"With functions and platforms mixed in each group, the load makes a difference in: "
                f"{listed(_significant(load))}. "
                "To this test, differences between functions and platforms are noise: it has little power.",
            )
        )  # fmt: skip
        claims.append(_platform(kind, where))
    return claims


def _platform(kind: str, where: str) -> Claim:
    """Whether VirtualBox, and no other platform, differs: in location (median, min), spread (half IQR) and max."""
    pairs = {name: sure_pairs(kind, "platform", name) for name in FIGURES}
    box_alone = {
        name: bool(differing) and all("VBox" in pair for pair in differing) for name, differing in pairs.items()
    }
    written = "; ".join(f"{name} {', '.join(' - '.join(pair) for pair in differing) or 'no pair'}"
                        for name, differing in pairs.items())  # fmt: skip
    shown = [name for name, alone in box_alone.items() if alone]
    full = [name for name, differing in pairs.items() if box_alone[name] and len(differing) == len(OTHERS)]
    return Claim(
        f"{kind}-platform", f"section {where}", f"For {kind}, of all platforms only VirtualBox differs (medians, half "
        "IQRs, minima and maxima).", "only VirtualBox, all four parameters", f"Dunn, Holm over the pairs: {written}",
        decide(holds=len(full) == len(FIGURES), in_part=bool(shown)),
        f"VirtualBox, and no other platform, differs from some platform in: {listed(shown)}; from all four in: "
        f"{listed(full)}. Six datasets a platform, both functions among them: no difference found does not mean "
        "equal.",
    )  # fmt: skip


_INTERACTIONS: Final[tuple[tuple[str, tuple[str, str], frozenset[str], str], ...]] = (
    ("timers", ("function", "platform"), frozenset({"median", "max", "min"}), "3.1.4"),
    ("timers", ("platform", "load"), frozenset({"half IQR"}), "3.1.4"),
    ("sleeps", ("function", "platform"), frozenset({"median", "half IQR", "min"}), "3.2.4"),
    ("sleeps", ("platform", "load"), frozenset({"max"}), "3.2.4"),
    ("sleeps", ("function", "load"), frozenset(FIGURES), "3.2.4"),
)
"""The sentences about interactions: table, factors, the parameters that are named, section."""


def _zeros(kind: str) -> str:
    zeros = printed_as_zero(kind)
    shown = ", ".join(f"{count} of the figures for {name}" for name, count in zeros.items())
    return f" Printed as 0, and taken as {_HALF_DIGIT_NS:g} ns: {shown}." if zeros else ""


def _interactions() -> list[Claim]:
    """Each sentence twice: by the paper's procedure (joined levels), and as an interaction beyond both factors."""
    claims = []
    for kind, factors, wanted, where in _INTERACTIONS:
        effect = " x ".join(factors)
        joined = {name: joined_p(kind, factors, name) for name in FIGURES}
        by_paper = joined_significant(kind, factors)
        claims.append(
            Claim(
                f"{kind}-{'-'.join(factors)}", f"section {where}", f"For {kind}, by the paper's procedure (ranks of "
                f"joined levels), {effect} affects {listed(wanted)}.", f"significant: {listed(wanted)}",
                f"Kruskal-Wallis over joined levels, not adjusted: {_written(joined)}", _decide(by_paper, set(wanted)),
                f"At most {ALPHA:g}: {listed(by_paper)}. This test also sees what either factor does alone.",
            )
        )  # fmt: skip
        values = interaction_p(kind, factors)
        proper = _significant(values)
        claims.append(
            Claim(
                f"{kind}-{'-'.join(factors)}-interaction", f"section {where}", f"For {kind}, {effect} interact on "
                f"{listed(wanted)}: one factor changes what the other does.", f"significant: {listed(wanted)}",
                f"ANOVA-type statistic, Holm: {_written(values)}", _decide(proper, set(wanted)),
                f"As an interaction, with the effects of both factors taken out, it is found for: {listed(proper)}."
                + _zeros(kind),
            )
        )  # fmt: skip
    return claims


def text_against_tables() -> tuple[int, list[tuple[str, str, float, float]]]:
    """How many medians of the text the tables hold too, and those that differ: name, printed, text and table in ns."""
    checked, off = 0, []
    for row in read_rows(_PROSE):
        if row["statistic"] != "median" or not row["table_value_ns"].strip():
            continue
        checked += 1
        text, table = float(row["value_ns"]), float(row["table_value_ns"])
        if abs(text / table - 1.0) > _TOLERANCE:
            name = f"{row['function_or_tool']} on {row['platform']}, {row['load_or_condition']}"
            off.append((name, f"{row['value_as_printed']} {row['unit_as_printed']}", text, table))
    return checked, off


def _text_against_tables() -> Claim:
    checked, off = text_against_tables()
    listed = "; ".join(f"{name}: {time_text(text)} in the text, {time_text(table)} in the table"
                       for name, _, text, table in off)  # fmt: skip
    return Claim(
        "text-and-tables", "sections 3.1 and 3.2", "Medians in the text are those of the tables.",
        f"{checked} medians", f"{checked - len(off)} of {checked} agree within {100 * _TOLERANCE:g} %",
        decide(holds=not off, in_part=len(off) < checked / 2), f"The others: {listed}." if off else "All agree.",
    )  # fmt: skip


def _sleep_words() -> list[Claim]:
    table = TABLES["sleeps"]
    median = {(row["function"], row["platform"], row["load"]): float(row["median_ns"]) for row in read_rows(table)}
    others = OTHERS
    claims = []
    for function in ("HPTSleep", "uSleep"):
        printed = one_value(_PROSE, "value_percent", quantity="sleep_miss_spread_of_medians", function_or_tool=function)
        under = [median[function, platform, "cpu"] for platform in others]
        of_max = 100 * (max(under) - min(under)) / max(under)
        of_min = 100 * (max(under) - min(under)) / min(under)
        claims.append(
            Claim(
                f"spread-{function.lower()}", "section 3.2.2", f"Under CPU load the medians of {function} differ by "
                f"{printed:g} % at most (VirtualBox left out).", f"{printed:g} %",
                f"{significant(of_max)} % of the largest, {significant(of_min)} % of the smallest",
                decide(holds=min(of_max, of_min) <= printed + 0.5),
                f"{time_text(min(under))} to {time_text(max(under))} in Table 2.",
            )
        )  # fmt: skip
    ratios = [
        median["HPTSleep", "VBox", load] / median["HPTSleep", platform, load]
        for platform in others for load in LOADS
    ]  # fmt: skip
    claims.append(
        Claim(
            "vbox-hundred", "section 4", "With HPTSleep, VirtualBox misses by 100 times as much as the others.",
            "100", f"{significant(min(ratios))} to {significant(max(ratios))} times", decide(holds=max(ratios) >= 95),
            "Ratios of the medians of Table 2, platform by platform and load by load.",
        )
    )  # fmt: skip
    worst = max((median["HPTSleep", platform, "cpu"], platform) for platform in others)
    limit = one_value(
        _PROSE, "value_ns", quantity="sleep_miss", statistic="quantile_0.999", function_or_tool="HPTSleep"
    )
    claims.append(
        Claim(
            "quantile-below-median", "section 3.2.2", "Under CPU load, HPTSleep misses by less than 120 ns in 999 of "
            "1,000 sleeps (VirtualBox left out).", time_text(limit), f"median on {worst[1]} {time_text(worst[0])}",
            decide(holds=worst[0] < limit), "A quantile of 0.999 cannot lie below the median of the same data.",
        )
    )  # fmt: skip
    return claims


def _bandwidth() -> list[Claim]:
    claims = []
    avb = 10_000.0 - one_value(_PROSE, "value_mbps", quantity="cross_traffic_scenario3")
    for platform in ("HostOS", "QEMU"):
        # The error of the host is printed without a platform, in the discussion.
        where = "QEMU" if platform == "QEMU" else ""
        printed = one_value(_PROSE, "value_percent", quantity="avb_error", platform=where)
        rate = one_value(_PROSE, "value_mbps", quantity="max_sending_rate", platform=platform)
        error = 100 * (avb - rate) / avb
        claims.append(
            Claim(
                f"rate-error-{platform.lower()}", "section 3.3.3", f"Kite2 with system timers on {platform} sends "
                f"{rate / 1000:g} Gbit/s at most, an error of {printed:g} %.", f"{printed:g} %",
                f"{percent_points(error, signed=False)} of {avb / 1000:g} Gbit/s",
                decide(holds=abs(error - printed) < 1.0),
                "10 Gbit/s less 1 Gbit/s of cross traffic are available; "
                + ("the figure follows." if abs(error - printed) < 1.0 else
                   f"an error of {printed:g} % would mean {significant(avb * (1 - printed / 100) / 1000)} Gbit/s."),
            )
        )  # fmt: skip
    sizes = {
        row["platform"]: float(row["value_mbps"])
        for row in rows_where(_PROSE, quantity="avb_spread", function_or_tool="Kite2+HighPerTimer")
    }
    ratio = sizes["QEMU"] / sizes["HostOS"]
    claims.append(
        Claim(
            "avb-spread", "section 3.3.3", "In QEMU the spread of the estimates is almost 10 times that on the host.",
            "10", f"{significant(ratio)} times", decide(holds=9.0 <= ratio < 10.0),
            "One of the two is called a variance, in Mbit/s; a variance would be in their square.",
        )
    )  # fmt: skip
    gap_ns = one_value(_PROSE, "value_ns", quantity="sleep_miss", function_or_tool="uSleep", platform="HostOS",
                       load_or_condition="", statistic="median")  # fmt: skip
    rate = 1500 * 8 / gap_ns * 1e3
    claims.append(
        Claim(
            "rate-from-miss", "section 4", "The miss of uSleep explains why Kite2 does not pass 3.6 Gbit/s.",
            "3600 Mbit/s", f"{significant(rate)} Mbit/s", decide(holds=rate > 3000),
            f"One packet of 1500 B every {time_text(gap_ns)} gives this; a sender that reaches 3.6 Gbit/s sends many "
            "packets a sleep.",
        )
    )  # fmt: skip
    return claims


def figures() -> tuple[Drawing, ...]:
    """Which factor matters for which parameter, and the published medians."""
    drawings = []
    for kind in TABLES:
        factors = ("function", "platform", "load")
        squares = []
        for factor in factors:
            values = factor_p(kind, factor)
            squares.append([
                plots.Square(1.0 if p <= ALPHA else 0.0, write_p(p), "sure" if p <= ALPHA else "open")
                for p in values.values()
            ])  # fmt: skip
        drawings.append(
            plots.matrix(
                list(factors), list(FIGURES), squares, name=f"kirova2019-factors-{kind}",
                label=f"p of each factor for each parameter, {kind}",
                ends=plots.Ends("not used", "matters", "p at most 0.05", None, "may be chance"),
            )
        )  # fmt: skip
        rows = [
            plots.Dot(f"{row['function']}, {row['platform']}", "usleep" if row["function"] in ("uSleep", "System Call")
                      else "adaptive", float(row["median_ns"]), None, None, group=f"load {row['load']}")
            for load in LOADS
            for row in sorted(rows_where(TABLES[kind], load=load), key=lambda row: float(row["median_ns"]))
        ]  # fmt: skip
        label = "cost of one clock read" if kind == "timers" else "miss of a sleep"
        drawings.append(plots.dot_intervals(rows, name=f"kirova2019-medians-{kind}", label=f"{label}, median"))
    return tuple(drawings)
