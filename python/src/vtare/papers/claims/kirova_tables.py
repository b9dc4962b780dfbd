"""The cells of Kirova's two tables, and the tests that its text makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from scipy import stats as scipy_stats

from vtare import stats
from vtare.papers.claims.model import Stated, grouped, stated
from vtare.papers.published import read_rows

if TYPE_CHECKING:
    from collections.abc import Iterable

PAPER: Final = "kirova2019"
ALPHA: Final = 0.05
"""The paper's own level."""
TABLES: Final = {"timers": "kirova2019_table1_timer_cost", "sleeps": "kirova2019_table2_sleep_miss"}
FIGURES: Final = {"median": "median_ns", "half IQR": "mad_ns", "min": "min_ns", "max": "max_ns"}
"""The four statistical parameters, by our name; the paper prints half the interquartile range as MAD."""
LOADS: Final = ("idle", "cpu", "io_network")
PLATFORMS: Final = ("HostOS", "Xen", "VBox", "QEMU", "ESXi")
OTHERS: Final = tuple(platform for platform in PLATFORMS if platform != "VBox")
"""All platforms but VirtualBox, which the text leaves out of most of its comparisons."""
FUNCTIONS: Final = {"timers": ("TSC", "System Call"), "sleeps": ("HPTSleep", "uSleep")}

Cell = tuple[str, str, str]


def cells(kind: str, parameter: str) -> dict[Cell, float]:
    """One parameter of a table in ns, by function, platform and load."""
    return {
        (row["function"], row["platform"], row["load"]): float(row[FIGURES[parameter]])
        for row in read_rows(TABLES[kind])
        if row[FIGURES[parameter]].strip()
    }


def sentence(claim: str) -> Stated:
    """What the paper states for one claim."""
    return stated(PAPER, claim)


def listed(names: Iterable[str]) -> str:
    """Parameters in the order of the table, `none` where there are none."""
    kept = set(names)
    return ", ".join(name for name in FIGURES if name in kept) or "none"


def joined_p(kind: str, factors: tuple[str, ...], parameter: str) -> float:
    """Kruskal-Wallis p over the joined levels of factors: the paper's procedure, not adjusted."""
    groups = grouped(TABLES[kind], lambda row: " / ".join(row[factor] for factor in factors), FIGURES[parameter])
    return chi_squared_p(list(groups.values()))


def chi_squared_p(groups: list[list[float]]) -> float:
    """Kruskal-Wallis p by chi-squared at every size, as common programs print it.

    Groups of two or three are too small for chi-squared: this is the paper's procedure, not a recommendation.
    """
    return float(scipy_stats.kruskal(*groups).pvalue)


def joined_significant(kind: str, factors: tuple[str, ...]) -> set[str]:
    """Parameters that the paper's procedure calls affected by joined factors at its level."""
    return {parameter for parameter in FIGURES if joined_p(kind, factors, parameter) <= ALPHA}


def pairs_p(kind: str, factors: tuple[str, ...], parameter: str) -> dict[frozenset[str], float]:
    """Dunn's p of every pair of joined levels (`Xen / idle`), not adjusted: the most that a pair can show."""
    groups = grouped(TABLES[kind], lambda row: " / ".join(row[factor] for factor in factors), FIGURES[parameter])
    names = list(groups)
    pairs = stats.dunn(list(groups.values()), family=f"{kind}: {' / '.join(factors)}")
    return {frozenset({names[pair.first], names[pair.second]}): pair.p.raw for pair in pairs}
