"""Batalla et al. 2018: throughput and latency of forwarding guests against the fairness of their loads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vtare import plots, stats
from vtare.number_text import rate_text, significant
from vtare.papers.claims.batalla_words import word_claims
from vtare.papers.claims.model import Claim, Reanalysis, decide
from vtare.papers.published import one_value, read_rows, rows_where

if TYPE_CHECKING:
    from vtare.plots import Drawing

PAPER: Final = "batalla2018"
_PROSE: Final = "batalla_prose"
_INDEX: Final = "batalla_jain_index"
_OVERHEAD_B: Final = 20
"""Preamble and gap between frames on Ethernet."""
_RFC_FRAMES: Final = (64, 128, 256, 512, 1024, 1280, 1518)
_RFC_SECONDS: Final = 120


def loads(k: int, n: int, q: float) -> list[float]:
    """Loads of n machines, k of them strong: the others share q of the whole, all of them alike at k = n."""
    if k == n:
        return [1.0 / n] * n
    return [(1.0 - q) / k] * k + [q / (n - k)] * (n - k)


def index_by_loaded() -> list[tuple[int, float, float]]:
    """Loaded machines, Jain's index computed from their loads, and the index as the closed form gives it."""
    indices = []
    for row in read_rows(_INDEX):
        k, n, q = int(row["k_strongly_loaded"]), int(row["n_vms"]), float(row["q"])
        index = stats.jain_index(loads(k, n, q)).value
        assert index is not None
        indices.append((k, index, float(row["j_eq5"])))
    return indices


def most_bit_per_s(frame_byte: int, link_bit_per_s: float = 1e9) -> float:
    """Bits of frames that a link carries at most: preamble and gap take their part."""
    return link_bit_per_s * frame_byte / (frame_byte + _OVERHEAD_B)


def reanalyse() -> Reanalysis:
    """Check equations 2 to 7 and the figures of the text."""
    index = index_by_loaded()
    off = max(abs(computed - closed) for _, computed, closed in index)
    by_k = {k: computed for k, computed, _ in index}
    knee = one_value(_PROSE, "value_as_printed", quantity="j_knee")
    first = one_value(_PROSE, "value_as_printed", quantity="j_k1")
    undefined = [row["k_strongly_loaded"] for row in read_rows(_INDEX) if row["eq7_status"] != "ok"]
    printed = 1e6 * one_value(_PROSE, "value_mbps", quantity="throughput", subject="KVM 1518 B")
    most = most_bit_per_s(1518)
    ratio = one_value(_PROSE, "value_as_printed", quantity="throughput_ratio")
    frames = sorted(int(float(row["value_bytes"])) for row in rows_where(_PROSE, quantity="frame_size"))
    seconds = one_value(_PROSE, "value_as_printed", quantity="scenario_duration_min")
    left_out = [size for size in _RFC_FRAMES if size not in frames]
    claims = (
        Claim(
            "jain", "equations 2 to 5", "The closed form J(k) is Jain's index of the loads.", "equation 5",
            f"largest difference over k = 1 to 12: {off:.1e}", decide(holds=off < 1e-9),
            "Computed from the loads of all twelve machines.",
        ),
        Claim(
            "jain-1", "latency results", "One loaded machine gives J = 0.09.", f"{first:g}", f"{by_k[1]:.4f}",
            decide(holds=round(by_k[1], 2) == first), "Rounded to two decimals.",
        ),
        Claim(
            "jain-knee", "latency results", "Latency of Xen grows faster above J = 0.51.", f"{knee:g}",
            f"{by_k[6]:.4f} with half of the machines loaded", "cannot be decided",
            "The place of the knee is that of k = 6, the only point near it: the next ones are "
            f"{significant(by_k[5])} and {significant(by_k[7])}. Latencies are plotted, not printed.",
        ),
        Claim(
            "equation-7", "equation 7", "The weights of the total latency add up to 1 for every k.", "k = 1 to 12",
            f"not defined at k = {', '.join(undefined)}", decide(holds=not undefined),
            "With all machines loaded the part of the others is nothing divided by nothing; the plain mean is meant.",
        ),
        Claim(
            "line-rate", "throughput results", "KVM forwards 1518 B frames at 1 Gbit/s.", rate_text(printed),
            f"the link carries {significant(most / 1e9, 4)} Gbit/s of such frames at most",
            decide(holds=printed <= most * 1.005, in_part=True),
            "Preamble and gap take 1.3 %: what was measured is the link, not KVM. The figure is a lower bound.",
        ),
        Claim(
            "five-times", "summary", "KVM's throughput is about five times that of Xen at every frame size.",
            f"{ratio:g} times", "at least that where KVM fills the link", "cannot be decided",
            "Where the link is full the ratio is bounded by the link, and a ratio that is the same at every size "
            "would be a coincidence. Throughputs by size are plotted, not printed.",
        ),
        Claim(
            "rfc-2544", "test methodology", "Throughput and latency are measured as RFC 2544 has it.",
            f"frames of {', '.join(map(str, frames))} B, {seconds:g} s",
            f"RFC 2544 also has {', '.join(map(str, left_out))} B, and {_RFC_SECONDS} s for latency",
            decide(holds=not left_out and seconds >= _RFC_SECONDS, in_part=True),
            "Close to it: two frame sizes and half of the time are left out, as is the number of repetitions behind "
            "the intervals.",
        ),
        *word_claims(),
    )  # fmt: skip
    about = (
        "Equations 2 to 7 define the loads and their fairness; of throughput and latency a few figures stand in the "
        "text, the rest in plots."
    )
    method = (
        "Jain's index of the loads of all machines, computed for every k; the most that a link carries from the "
        "lengths of frames, preamble and gap."
    )
    return Reanalysis(PAPER, about, method, claims)


def figures() -> tuple[Drawing, ...]:
    """Jain's index over the loaded machines."""
    index = index_by_loaded()
    n = max(k for k, _, _ in index)
    lines = [
        plots.Curve("with the rest's own load", "adaptive", tuple(plots.CurvePoint(k, j) for k, j, _ in index)),
        plots.Curve("k / N", "quantile:p99", tuple(plots.CurvePoint(k, k / n) for k, _, _ in index)),
    ]
    drawing = plots.curves(
        lines, name="batalla2018-jain", x_label="strongly loaded machines k (number)",
        y_label="Jain's index (1: all alike)",
    )  # fmt: skip
    return (drawing,)
