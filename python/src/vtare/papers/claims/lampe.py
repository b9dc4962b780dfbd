"""Lampe et al. 2013, the tests of section 3: how steadily sixteen machines repeat a computation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from scipy import stats as scipy_stats

from vtare import plots, stats
from vtare.papers.claims.lampe_words import Row, ranks, table_rows, word_claims
from vtare.papers.claims.model import Claim, Reanalysis, decide
from vtare.papers.published import LAMPE_CV_QUANTUM, one_value
from vtare.papers.standing import lampe_lines
from vtare.sentences.answers import DIFFERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from vtare.plots import Drawing

PAPER: Final = "lampe2013"
ALPHA: Final = 0.05
_PROSE: Final = "lampe2013_prose"


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
    for row in table_rows():
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


def sign_test_below(blocks: list[list[float]]) -> float:
    """Two-sided sign test that leaves out the observed count: 2 P(X < k), k the smaller count.

    A sign test is 2 P(X <= k). Leaving out the observed count makes p too small.
    """
    ups, downs = sum(a > b for a, b in blocks), sum(a < b for a, b in blocks)
    return min(1.0, 2 * float(scipy_stats.binom.cdf(min(ups, downs) - 1, ups + downs, 0.5)))


def printed_ranks() -> tuple[int, int]:
    """How many printed ranks can be read and are not tied, and how many of them follow from the printed figures."""
    place = ranks()
    legible = [
        row for row in table_rows() if row["status"] == "ok" and row["tied_cv"] == "0" and row["rank_ocr"].strip()
    ]
    agree = sum(place[row["config_id"], int(row["argument_a"])] == int(row["rank_ocr"]) for row in legible)
    return len(legible), agree


def reanalyse() -> Reanalysis:
    """Check the tests of section 3, the ranks of Table 1 and the sentences about them."""
    claims = [_friedman(key) for key in COMPARED]
    legible, agree = printed_ranks()
    claims.append(
        Claim("ranks", "Table 1", "The ranks in brackets order the printed coefficients of variation.",
              f"{legible} ranks that can be read", f"{agree} of {legible} agree", decide(holds=legible == agree),
              "Ranks of ties at four decimals rest on digits that are not printed and are left out.")
    )  # fmt: skip
    claims += word_claims()
    about = (
        "Table 1 gives the coefficient of variation of a counter function for sixteen configurations and ten "
        "arguments, each from 2,000 calls in 20 batches."
    )
    method = (
        "Friedman's test over blocks of what both sides share (language and argument; the host's load or the software "
        "where both sides have it), from coefficients as printed. The paper does not state its blocks. "
        "Coefficients of one configuration at ten arguments come from the same batches: blocks are not independent, "
        "and all these p-values are too small. The exact p-value stands beside that by chi-squared. Sentences are "
        "compared with the printed coefficients."
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
    k = min(sum(x > y for x, y in blocks), sum(x < y for x, y in blocks))
    below = sign_test_below(blocks)
    if near:
        why = "Same p-value."
    elif abs(below - printed) < 5e-5:
        why = (
            f"The printed value is that of a sign test without the observed count, 2 P(X < {k}) = {below:.4f} with "
            f"{k} of {len(blocks)} blocks on one side: the step of the distribution at {k} is missing."
        )
    elif same_side:
        why = (
            "The conclusion at 0.05 holds, the p-value is another: blocks or digits differ from what is printed. "
            f"2 P(X < {k}) = {below:.4f} is not the printed value either."
        )
    else:
        why = "The conclusion does not hold with these blocks."
    ties = sum(a == b for a, b in blocks)
    why += f" {ties} {'block is' if ties == 1 else 'blocks are'} tied at four decimals." if ties else ""
    return Claim(key.replace("_", "-"), "section 3", says, f"p = {printed:.4f}",
                 f"p {_digits(p)} over {len(blocks)} blocks{exact}",
                 decide(holds=near, in_part=same_side), why)  # fmt: skip


def _digits(p: float) -> str:
    return "< 1e-4" if p < 1e-4 else f"= {p:.4f}"


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
        ends=plots.Ends("not used", DIFFERS, "p at most 0.05", None, "above"),
    )  # fmt: skip
    return plots.cv_by_argument(lines, name="lampe2013-cv", cv_quantum=LAMPE_CV_QUANTUM), matrix
