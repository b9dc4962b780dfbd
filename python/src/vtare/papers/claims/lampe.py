"""Lampe et al. 2013: how steadily sixteen machines repeat a computation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from scipy import stats as scipy_stats

from vtare import plots, stats
from vtare.papers.claims.model import Claim, Reanalysis, decide, one_value
from vtare.papers.published import LAMPE_CV_QUANTUM, read_rows
from vtare.papers.standing import lampe_lines

if TYPE_CHECKING:
    from collections.abc import Callable

    from vtare.plots import Drawing

PAPER: Final = "lampe2013"
ALPHA: Final = 0.05
_TABLE: Final = "lampe2013_table1_cv"
_PROSE: Final = "lampe2013_prose"

Row = dict[str, str]


def _rows() -> list[Row]:
    return [row for row in read_rows(_TABLE) if row["cv"].strip()]


def _pm(load: str) -> Callable[[Row], bool]:
    return lambda row: row["machine_type"] == "PM" and row["host_utilization"] == load


def _deployed(model: str) -> Callable[[Row], bool]:
    return lambda row: row["deployment_model"] == model


def _local(software: str) -> Callable[[Row], bool]:
    return lambda row: row["deployment_model"] == "local" and row["virtualization_software"] == software


def _vm(load: str) -> Callable[[Row], bool]:
    return lambda row: row["deployment_model"] == "local" and row["host_utilization"] == load


def _language(name: str) -> Callable[[Row], bool]:
    return lambda row: row["programming_language"] == name


_BASE: Final = ("programming_language", "argument_a")
COMPARED: Final[dict[str, tuple[str, Callable[[Row], bool], Callable[[Row], bool], tuple[str, ...]]]] = {
    "p_pm_vs_private": ("Lightly loaded physical machines and the private cloud do not differ.", _pm("low"),
                        _deployed("private"), _BASE),
    "p_public_vs_pm_low": ("The public cloud differs from lightly loaded physical machines.", _deployed("public"),
                           _pm("low"), _BASE),
    "p_public_vs_pm_high": ("The public cloud does not differ from physical machines under load.",
                            _deployed("public"), _pm("high"), _BASE),
    "p_esxi_vs_xen": ("ESXi and Xen differ.", _local("ESXi"), _local("Xen"), (*_BASE, "host_utilization")),
    "p_low_vs_high_pm": ("Load on the host matters for physical machines.", _pm("low"), _pm("high"), _BASE),
    "p_low_vs_high_vm": ("Load on the host matters for virtual machines.", _vm("low"), _vm("high"),
                         (*_BASE, "virtualization_software")),
    "p_c_vs_java": ("C and Java do not differ.", _language("C"), _language("Java"),
                    ("argument_a", "machine_type", "deployment_model", "virtualization_software",
                     "host_utilization")),
}  # fmt: skip
"""Printed p-value -> the claim, both sides and what a block shares."""


def paired(key: str) -> list[list[float]]:
    """The two coefficients of variation of each block of one comparison."""
    _, first, second, block = COMPARED[key]
    sides: list[dict[tuple[str, ...], list[float]]] = [{}, {}]
    for row in _rows():
        place = tuple(row[name] for name in block)
        for side, wanted in zip(sides, (first, second), strict=True):
            if wanted(row):
                side.setdefault(place, []).append(float(row["cv"]))
    # A level that one side has and the other has not ("random" of the public cloud) makes no block.
    shared = [place for place in sides[0] if place in sides[1]]
    return [[float(np.mean(side[place])) for side in sides] for place in shared]


def asymptotic_p(blocks: list[list[float]]) -> float:
    """Friedman's chi-squared p of two levels, as common programs print it; blocks with equal values leave nothing."""
    ups, downs = sum(a > b for a, b in blocks), sum(a < b for a, b in blocks)
    return float(scipy_stats.chi2.sf((ups - downs) ** 2 / max(ups + downs, 1), 1))


def ranks() -> dict[tuple[str, int], int]:
    """Rank of each configuration at each argument, 1 the steadiest; equal printed figures share the better rank."""
    found: dict[tuple[str, int], int] = {}
    rows = _rows()
    for argument in sorted({int(row["argument_a"]) for row in rows}):
        some = [row for row in rows if int(row["argument_a"]) == argument]
        for row, rank in zip(some, scipy_stats.rankdata([float(r["cv"]) for r in some], method="min"), strict=True):
            found[row["config_id"], argument] = int(rank)
    return found


def printed_ranks() -> tuple[int, int]:
    """How many printed ranks can be read and are not tied, and how many of them follow from the printed figures."""
    place = ranks()
    legible = [row for row in _rows() if row["status"] == "ok" and row["tied_cv"] == "0" and row["rank_ocr"].strip()]
    agree = sum(place[row["config_id"], int(row["argument_a"])] == int(row["rank_ocr"]) for row in legible)
    return len(legible), agree


def reanalyse() -> Reanalysis:
    """Check the tests of section 3, the ranks of Table 1 and the three claims that are told from them."""
    claims = [_friedman(key) for key in COMPARED]
    legible, agree = printed_ranks()
    claims.append(
        Claim("ranks", "Table 1", "The ranks in brackets order the printed coefficients of variation.",
              f"{legible} ranks that can be read", f"{agree} of {legible} agree", decide(holds=legible == agree),
              "Ranks of ties at four decimals rest on digits that are not printed and are left out.")
    )  # fmt: skip
    claims += _claims_in_words()
    about = (
        "Table 1 gives the coefficient of variation of a counter function for sixteen configurations and ten "
        "arguments, each from 2,000 calls in 20 batches."
    )
    method = (
        "Friedman's test over blocks of what both sides share (language and argument; the host's load or the software "
        "where both sides have it), from coefficients as printed. The paper does not say what its blocks were. "
        "Coefficients of one configuration at ten arguments come from the same batches: blocks are not independent, "
        "and all these p-values are too small. What the code counts exactly stands beside the chi-squared value."
    )
    return Reanalysis(PAPER, about, method, tuple(claims))


def _friedman(key: str) -> Claim:
    says, *_ = COMPARED[key]
    blocks = paired(key)
    printed = one_value(_PROSE, "value", quantity=key)
    p = asymptotic_p(blocks)
    test = stats.friedman(blocks, family="lampe")
    assert test.p is not None
    exact = f", exact {stats.write_p(test.p.raw)}" if test.p.exact else ""
    same_side = (p <= ALPHA) == (printed <= ALPHA)
    near = abs(p - printed) < 5e-4
    why = "Same p-value." if near else (
        "The conclusion at 0.05 holds, the p-value is another: blocks or digits differ from what is printed."
        if same_side else "The conclusion does not hold with these blocks."
    )  # fmt: skip
    ties = sum(a == b for a, b in blocks)
    why += f" {ties} {'block is' if ties == 1 else 'blocks are'} tied at four decimals." if ties else ""
    return Claim(key.replace("_", "-"), "section 3", says, f"p = {printed:.4f}",
                 f"p {_digits(p)} over {len(blocks)} blocks{exact}",
                 decide(holds=near, in_part=same_side), why)  # fmt: skip


def _digits(p: float) -> str:
    return "< 1e-4" if p < 1e-4 else f"= {p:.4f}"


def _claims_in_words() -> list[Claim]:
    place = ranks()
    arguments = sorted({argument for _, argument in place})
    by_model: dict[str, list[str]] = {}
    for row in _rows():
        ids = by_model.setdefault(row["deployment_model"], [])
        if row["config_id"] not in ids:
            ids.append(row["config_id"])
    private, public = by_model["private"], by_model["public"]
    small = [a for a in arguments if a <= 2]
    best_small = all(min(place[c, a] for c in private) == 1 for a in small)
    private_ranks = {a: min(place[c, a] for c in private) for a in arguments}
    where_best = [a for a in arguments if private_ranks[a] == 1]
    worst = {a: max((rank, config) for (config, b), rank in place.items() if b == a)[1] for a in arguments}
    public_worst = [a for a in arguments if worst[a] in public]
    names = _names()
    others = ", ".join(f"a = {a}: {names[worst[a]]}" for a in arguments if worst[a] not in public)
    return [
        Claim("private-best-small", "section 3", "The private cloud is steadiest for arguments up to 2.", "a <= 2",
              f"best rank of the private cloud at a = 1 and 2: {', '.join(str(private_ranks[a]) for a in small)}",
              decide(holds=best_small), "Ranks of the printed coefficients."),
        Claim("private-lowest", "section 4", "The lowest coefficients of all were seen in the private cloud.",
              "all arguments", f"rank 1 at a = {', '.join(map(str, where_best))} of {len(arguments)} arguments",
              decide(holds=len(where_best) > len(arguments) / 2),
              "From a = 4 on, a physical or a local machine is steadier."),
        Claim("public-worst", "section 3", "The public cloud has the highest coefficients for most arguments.",
              "most arguments", f"at {len(public_worst)} of {len(arguments)} arguments",
              decide(holds=len(public_worst) > len(arguments) / 2), f"Elsewhere the highest are of {others}."),
    ]  # fmt: skip


def _names() -> dict[str, str]:
    found: dict[str, Any] = {}
    for row in _rows():
        software = "" if row["virtualization_software"] == "none" else f" {row['virtualization_software']}"
        found[row["config_id"]] = (
            f"#{row['config_id']} ({row['machine_type']}{software}, {row['host_utilization']}, "
            f"{row['programming_language']})"
        )
    return found


def _square(p: float, shown: str) -> plots.Square:
    return plots.Square(1.0, shown, "sure") if p <= ALPHA else plots.Square(0.0, shown, "open")


def figures() -> tuple[Drawing, ...]:
    """Coefficients by argument: the private cloud and the lightly loaded physical machine among all sixteen."""
    told = {"1": "adaptive", "13": "two_phase", "15": "usleep"}
    lines = []
    labels = {"1": "physical, low", "13": "private", "15": "public"}
    for name, arguments, cvs in lampe_lines():
        config = name.split()[0]
        if config in told:
            kept = tuple(max(cv, LAMPE_CV_QUANTUM / 2) for cv in cvs)
            lines.append(plots.CvLine(labels[config], told[config], arguments, kept))
        else:
            lines.append(plots.CvLine(name, "published", arguments, cvs, published=True))
    p = [(key, asymptotic_p(paired(key))) for key in COMPARED]
    squares = []
    for key, value in p:
        printed = one_value(_PROSE, "value", quantity=key)
        squares.append([_square(printed, f"{printed:.4f}"), _square(value, stats.write_p(value))])
    matrix = plots.matrix(
        [key.removeprefix("p_").replace("_", " ") for key, _ in p], ["printed", "computed"], squares,
        name="lampe2013-friedman", label="p of Friedman's test",
        ends=plots.Ends("not used", "differs", "p at most 0.05", None, "above"),
    )  # fmt: skip
    return plots.cv_by_argument(lines, name="lampe2013-cv", cv_quantum=LAMPE_CV_QUANTUM), matrix
