"""Sentences of Lampe et al. 2013 about coefficients of variation, against its Table 1."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy import stats as scipy_stats

from vtare.number_text import significant
from vtare.papers.claims.model import Claim, Stated, decide, stated
from vtare.papers.published import LAMPE_CV_QUANTUM, read_rows, rows_where
from vtare.stats import write_p

if TYPE_CHECKING:
    from collections.abc import Callable

Row = dict[str, str]
Block = tuple[str, ...]

_TABLE: Final = "lampe2013_table1_cv"
_FACTORS: Final = (
    "machine_type", "deployment_model", "virtualization_software", "host_utilization", "programming_language",
)  # fmt: skip
_SMALL: Final = 1.25
"""An advantage of up to a quarter is taken as small."""
_SHARP: Final = 2.0
"""At least twice the coefficient is taken as a sharp increase."""


def table_rows() -> list[Row]:
    """The rows of Table 1 that have a coefficient."""
    return [row for row in read_rows(_TABLE) if row["cv"].strip()]


def ranks() -> dict[tuple[str, int], int]:
    """Rank of each configuration at each argument, 1 the steadiest; equal printed figures share the better rank."""
    by_cell: dict[tuple[str, int], int] = {}
    rows = table_rows()
    for argument in sorted({int(row["argument_a"]) for row in rows}):
        some = [row for row in rows if int(row["argument_a"]) == argument]
        for row, rank in zip(some, scipy_stats.rankdata([float(r["cv"]) for r in some], method="min"), strict=True):
            by_cell[row["config_id"], argument] = int(rank)
    return by_cell


def coefficients(wanted: Callable[[Row], bool], block: tuple[str, ...]) -> dict[Block, float]:
    """One coefficient for each block; a printed 0.0000 counts as half of the last printed decimal."""
    by_block: dict[Block, float] = {}
    for row in table_rows():
        if wanted(row):
            place = tuple(row[name] for name in block)
            assert place not in by_block, place
            by_block[place] = max(float(row["cv"]), LAMPE_CV_QUANTUM / 2)
    return by_block


def ratios(over: Callable[[Row], bool], under: Callable[[Row], bool], block: tuple[str, ...]) -> dict[Block, float]:
    """Ratio of two sides' coefficients in each block that both have."""
    first, second = coefficients(over, block), coefficients(under, block)
    return {place: first[place] / second[place] for place in first if place in second}


def _typical(values: list[float]) -> float:
    return math.exp(float(np.mean(np.log(values))))


def sign_p(values: list[float]) -> float:
    """Two-sided sign test of ratios against 1; ties are left out."""
    ups, downs = sum(v > 1 for v in values), sum(v < 1 for v in values)
    return float(scipy_stats.binomtest(ups, ups + downs).pvalue)


def _sentence(claim: str) -> Stated:
    return stated("lampe2013", claim)


def _local(**wanted: str) -> Callable[[Row], bool]:
    return lambda row: row["deployment_model"] == "local" and all(row[key] == value for key, value in wanted.items())


def _physical(load: str) -> Callable[[Row], bool]:
    return lambda row: row["machine_type"] == "PM" and row["host_utilization"] == load


def word_claims() -> list[Claim]:
    """Sections 2.3, 3 and 5."""
    return [*_design(), *_private(), *_public(), *_hypervisors(), *_load_and_machine(), *_language()]


def _design() -> list[Claim]:
    text = _sentence("observations")
    n = text.numbers
    rows = table_rows()
    arguments = {row["argument_a"] for row in rows}
    configurations = {row["config_id"] for row in rows}
    each = n["batches"] * n["calls"]
    computed = {"per argument": each, "per configuration": each * len(arguments),
                "all": each * len(arguments) * len(configurations)}  # fmt: skip
    counted = text.claim(
        "The numbers of observations follow from batches, calls, arguments and configurations.",
        ", ".join(f"{n[part]:,.0f} {part}" for part in computed),
        ", ".join(f"{value:,.0f} {part}" for part, value in computed.items()),
        decide(holds=all(n[part] == value for part, value in computed.items())),
        f"{n['batches']:g} batches of {n['calls']:g} calls, {len(arguments)} arguments, {len(configurations)} "
        "configurations.",
    )  # fmt: skip
    text = _sentence("full-factorial")
    levels = [sorted({row[factor] for row in rows}) for factor in _FACTORS]
    possible = [
        combination for combination in itertools.product(*levels)
        # A physical machine has neither deployment nor software, a virtual one has both; EC2 is Xen under unknown load.
        if (combination[0] == "PM") == (combination[1] == "none") == (combination[2] == "none")
        and (combination[3] == "random") == (combination[1] == "public")
        and (combination[1] != "public" or combination[2] == "Xen")
    ]  # fmt: skip
    run = {tuple(row[factor] for factor in _FACTORS) for row in rows}
    missing = sorted({f"{c[1]} cloud, {c[2]}, {c[3]}" for c in possible if c not in run})
    factorial = text.claim(
        "Each possible combination of the five variables is examined.", f"{text.numbers['variables']:g} variables",
        f"{len(run)} of {len(possible)} combinations that do not exclude each other",
        decide(holds=run == set(possible)), f"Not run, in either language: {'; '.join(missing)}.",
    )  # fmt: skip
    return [counted, factorial]


def _private() -> list[Claim]:
    place = ranks()
    arguments = sorted({argument for _, argument in place})
    private = {row["config_id"] for row in rows_where(_TABLE, deployment_model="private")}
    best = {a: min(place[c, a] for c in private) for a in arguments}
    where_best = [a for a in arguments if best[a] == 1]
    small = [a for a in arguments if a <= 2]
    claims = [
        Claim("private-best-small", "section 3", "The private cloud is steadiest for arguments up to 2.", "a <= 2",
              f"best rank of the private cloud at a = 1 and 2: {', '.join(str(best[a]) for a in small)}",
              decide(holds=all(best[a] == 1 for a in small)), "Ranks of the printed coefficients."),
        Claim("private-lowest", "section 3", "The lowest coefficients of all were seen in the private cloud.",
              "all arguments", f"rank 1 at a = {', '.join(map(str, where_best))} of {len(arguments)} arguments",
              decide(holds=len(where_best) > len(arguments) / 2),
              "From a = 4 on, a physical or a local machine is steadier."),
    ]  # fmt: skip
    text = _sentence("private-loads")
    loads = sorted({row["host_utilization"] for row in rows_where(_TABLE, deployment_model="private")})
    physical = sorted({row["host_utilization"] for row in rows_where(_TABLE, machine_type="PM")})
    claims.append(text.claim(
        "Physical machines and virtual machines of the private cloud are compared.",
        f"loads of the physical machines: {', '.join(physical)}", f"loads of the private cloud: {', '.join(loads)}",
        decide(holds=loads == physical, in_part=bool(set(loads) & set(physical))),
        "The private cloud was measured under one load, on other hardware (blade servers) than the physical machine (a "
        "desktop computer): its effect cannot be separated from that of the hardware.",
    ))  # fmt: skip
    text = _sentence("prefer-physical")
    longest = text.numbers["longest"]
    block = ("programming_language", "argument_a", "approx_runtime_ms")
    both = ratios(_physical("low"), lambda row: row["deployment_model"] == "private", block)
    subsecond = [ratio for place_, ratio in both.items() if float(place_[2]) < longest]
    won = sum(ratio < 1 for ratio in subsecond)
    claims.append(text.claim(
        "In the sub-second range, physical machines are to be preferred to virtual ones.", "physical machines",
        f"steadier than the private cloud in {won} of {len(subsecond)} blocks below {longest / 1000:g} s",
        decide(holds=won > 0.75 * len(subsecond), in_part=won > 0.5 * len(subsecond)),
        f"Sign test over these blocks: p {write_p(sign_p(subsecond))}. The paper's own test finds no difference.",
    ))  # fmt: skip
    return claims


def _public() -> list[Claim]:
    place = ranks()
    arguments = sorted({argument for _, argument in place})
    public = {row["config_id"] for row in rows_where(_TABLE, deployment_model="public")}
    worst = {a: max((rank, config) for (config, b), rank in place.items() if b == a)[1] for a in arguments}
    public_worst = [a for a in arguments if worst[a] in public]
    names = _names()
    others = ", ".join(f"a = {a}: {names[worst[a]]}" for a in arguments if worst[a] not in public)
    text = _sentence("public-subsecond")
    runtime = {int(row["argument_a"]): float(row["approx_runtime_ms"]) for row in table_rows()}
    short = [a for a in arguments if runtime[a] < text.numbers["longest"]]
    hits = [a for a in short if worst[a] in public]
    return [
        Claim("public-worst", "section 3", "The public cloud has the highest coefficients for most arguments.",
              "most arguments", f"at {len(public_worst)} of {len(arguments)} arguments",
              decide(holds=len(public_worst) > len(arguments) / 2), f"Elsewhere the highest are of {others}."),
        text.claim(
            "In the sub-second range, the public cloud has the highest coefficients for most arguments.",
            "most arguments below 1 s", f"at {len(hits)} of {len(short)} arguments",
            decide(holds=len(hits) > len(short) / 2),
            f"Arguments of {short[0]} to {short[-1]}, about {runtime[short[0]]:g} to {runtime[short[-1]]:g} ms.",
        ),
    ]  # fmt: skip


def _names() -> dict[str, str]:
    names: dict[str, str] = {}
    for row in table_rows():
        software = "" if row["virtualization_software"] == "none" else f" {row['virtualization_software']}"
        names[row["config_id"]] = (
            f"#{row['config_id']} ({row['machine_type']}{software}, {row['host_utilization']}, "
            f"{row['programming_language']})"
        )
    return names


def _hypervisors() -> list[Claim]:
    block = ("programming_language", "argument_a", "host_utilization")
    every = ratios(_local(virtualization_software="ESXi"), _local(virtualization_software="Xen"), block)
    low = {place: ratio for place, ratio in every.items() if place[2] == "low"}
    high = {place: ratio for place, ratio in every.items() if place[2] == "high"}
    text = _sentence("esxi-small")
    limit = text.numbers["argument"]
    small = [ratio for place, ratio in low.items() if int(place[1]) <= limit]
    longest = {}
    for language in ("C", "Java"):
        losses = [int(place[1]) for place, ratio in low.items() if place[0] == language and ratio >= 1]
        longest[language] = max(int(place[1]) for place in low if int(place[1]) < min(losses))
    claims = [text.claim(
        "Under low load, ESXi is steadier than Xen for arguments up to 2.", f"a <= {limit:g}",
        f"in {sum(ratio < 1 for ratio in small)} of {len(small)} blocks", decide(holds=all(r < 1 for r in small)),
        "It is steadier up to " + ", ".join(f"a = {a} in {language}" for language, a in longest.items()) + ".",
    )]  # fmt: skip
    worse = sum(ratio > 1 for ratio in high.values())
    claims.append(_sentence("esxi-high-poor").claim(
        "Under high load, Xen is steadier than ESXi.", "Xen steadier", f"in {worse} of {len(high)} blocks; ESXi has "
        f"{significant(min(high.values()))} to {significant(max(high.values()))} times the coefficient",
        decide(holds=worse == len(high)), "Blocks of language and argument.",
    ))  # fmt: skip
    better: dict[str, list[bool]] = {}
    for place, ratio in every.items():
        better.setdefault(f"{place[0]}, {place[2]}", []).append(ratio > 1)
    claims.append(_sentence("xen-across").claim(
        "Xen is steadier than ESXi across languages and loads.", "all four groups",
        ", ".join(f"{name}: {sum(won)} of {len(won)}" for name, won in better.items()),
        decide(holds=all(sum(won) > len(won) / 2 for won in better.values()),
               in_part=any(sum(won) > len(won) / 2 for won in better.values())),
        "Arguments at which Xen has the lower coefficient, by language and load.",
    ))  # fmt: skip
    size = _typical(list(high.values()))
    claims.append(_sentence("xen-small-advantage").claim(
        "Xen has small advantages over ESXi.", "small",
        f"ESXi has {significant(size)} times Xen's coefficient under high load, "
        f"{significant(_typical(list(low.values())))} times under low load",
        decide(holds=1 < _typical(list(every.values())) <= _SMALL and size <= _SMALL),
        "Geometric means over blocks of language and argument. Section 3 calls ESXi's accuracy under high load very "
        "poor.",
    ))  # fmt: skip
    return claims


def _load_and_machine() -> list[Claim]:
    block = ("programming_language", "argument_a")
    groups = {
        "physical": ratios(_physical("high"), _physical("low"), block),
        "ESXi": ratios(_local(virtualization_software="ESXi", host_utilization="high"),
                       _local(virtualization_software="ESXi", host_utilization="low"), block),
        "Xen": ratios(_local(virtualization_software="Xen", host_utilization="high"),
                      _local(virtualization_software="Xen", host_utilization="low"), block),
    }  # fmt: skip
    every = [ratio for group in groups.values() for ratio in group.values()]
    sharp = sum(ratio >= _SHARP for ratio in every)
    (least, place, name) = min((ratio, place, name) for name, group in groups.items() for place, ratio in group.items())
    claims = [_sentence("sharp-increases").claim(
        "Load on the host increases the coefficients sharply, whatever machine and software.", "all",
        f"{sum(ratio > 1 for ratio in every)} of {len(every)} increase, {sharp} at least {_SHARP:g} times",
        decide(holds=sharp == len(every), in_part=2 * sharp > len(every)),
        f"The least increase is {significant(least)} times ({name}, {place[0]}, a = {place[1]}).",
    )]  # fmt: skip
    load = _typical(every)
    software = ratios(_local(virtualization_software="ESXi"), _local(virtualization_software="Xen"),
                      (*block, "host_utilization"))  # fmt: skip
    typical_software = math.exp(float(np.mean(np.abs(np.log(list(software.values()))))))
    claims.append(_sentence("utilization-decisive").claim(
        "The load of the host is the key determinant.", "host utilization",
        f"load {significant(load)} times, software {significant(typical_software)} times either way",
        decide(holds=load > typical_software),
        "Geometric means of ratios over blocks; for the software, of the larger over the smaller coefficient.",
    ))  # fmt: skip
    local = {
        software: ratios(_local(virtualization_software=software, host_utilization="low"), _physical("low"), block)
        for software in ("ESXi", "Xen")
    }
    flat = [ratio for group in local.values() for ratio in group.values()]
    p = {software: sign_p(list(group.values())) for software, group in local.items()}
    worse = sum(ratio > 1 for ratio in flat)
    written = ", ".join(f"{software} {significant(_typical(list(group.values())))} times"
                        for software, group in local.items())  # fmt: skip
    claims.append(_sentence("single-host-similar").claim(
        "Virtual machines on a single host performed very similarly to the physical machine.", "very similarly",
        f"{written} its coefficient under low load; {significant(min(flat))} to {significant(max(flat))} times by "
        "block", decide(holds=max(flat) < _SHARP and min(flat) > 1 / _SHARP),
        "Geometric means over language and argument, on the same desktop computer; a printed 0.0000 counts as half of "
        "the last decimal.",
    ))  # fmt: skip
    claims.append(_sentence("virtualization-as-such").claim(
        "Virtualization as such is no key determinant.", "no",
        f"local machines under low load are less steady in {worse} of {len(flat)} blocks; sign tests: "
        + ", ".join(f"{software} p {write_p(value)}" for software, value in p.items()),
        decide(holds=all(value > 0.05 for value in p.values()), in_part=any(value > 0.05 for value in p.values())),
        "The paper tests the private cloud, which is other hardware; on the same hardware the printed coefficients "
        "allow this test.",
    ))  # fmt: skip
    return claims


def _language() -> list[Claim]:
    block = ("argument_a", "machine_type", "deployment_model", "virtualization_software", "host_utilization")
    both = ratios(lambda row: row["programming_language"] == "C", lambda row: row["programming_language"] == "Java",
                  block)  # fmt: skip
    c = sum(ratio < 1 for ratio in both.values())
    java = sum(ratio > 1 for ratio in both.values())
    return [_sentence("languages-mixed").claim(
        "Neither C nor Java is consistently steadier.", "neither",
        f"C in {c}, Java in {java} of {len(both)} blocks", decide(holds=min(c, java) > 0.25 * len(both)),
        "Blocks of argument and machine.",
    )]  # fmt: skip
