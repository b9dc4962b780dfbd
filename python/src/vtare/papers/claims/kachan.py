"""Kachan et al. 2017: three tools of available bandwidth on a link that changes its capacity up to 10 Gbit/s."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vtare import plots
from vtare.papers.claims.model import Claim, Reanalysis, decide, one_value, rows_where
from vtare.plots.format import percent_points, rate_text, significant

if TYPE_CHECKING:
    from vtare.plots import Drawing

PAPER: Final = "kachan2017"
_PROSE: Final = "kachan_prose"
_CONFIG: Final = "kachan_table2_config"
_LINK_MBPS: Final = 10_000.0


def _mbps(quantity: str, tool: str) -> float:
    return one_value(_PROSE, "value_mbps", quantity=quantity, tool=tool)


def occupied_percent(tool: str) -> float:
    """What a tool's probes take up of the 10 Gbit/s link, by the text."""
    return 100 * _mbps("probe_rate_consumed_10G", tool) / _LINK_MBPS


def reanalyse() -> Reanalysis:
    """Check what the figures of the text and Table 2 let one check."""
    occupied = occupied_percent("Kite2")
    set_to = one_value(_CONFIG, "optimized_value", tool="Kite2", parameter="Ratio of occupied bandwidth")
    under, over = _mbps("underestimation_up_to_10G", "Kite2"), _mbps("overestimation_up_to", "Yaz")
    steps = [float(row["value_mbps"]) for row in rows_where(_PROSE, quantity="capacity_step")]
    seconds = one_value(_PROSE, "value_s", quantity="measurement_duration")
    rounds = one_value(_PROSE, "value_as_printed", quantity="capacity_variation_iterations")
    least = one_value(_PROSE, "value_as_printed", quantity="kite2_iterations_min")
    each = seconds / rounds / len(steps)
    length = one_value(_CONFIG, "optimized_value", tool="Yaz", parameter="Packet Stream Length")
    size = one_value(_CONFIG, "optimized_value", tool="Yaz", parameter="MTU, bytes")
    on_wire_us = length * size * 8 / _LINK_MBPS
    claims = (
        Claim(
            "occupied", "results; Table 2", "Kite2 with its tuned settings occupies 1 % of the link.", f"{set_to:g} %",
            f"{significant(occupied)} % of 10 Gbit/s", decide(holds=abs(occupied - set_to) < 1.0),
            f"The text has it consume {rate_text(1e6 * _mbps('probe_rate_consumed_10G', 'Kite2'))} for each estimate. "
            "Either the setting does not bound what is sent, or the two speak of different spans of time.",
        ),
        Claim(
            "cheaper", "results", "Kite (Estimator) needs less of the link than Kite2.",
            "300 Mbit/s against 1.6 Gbit/s",
            f"{significant(occupied_percent('Kite (Estimator)'))} against {significant(occupied)} % of the link, 1 to "
            f"{significant(occupied / occupied_percent('Kite (Estimator)'))}",
            decide(holds=occupied > occupied_percent("Kite (Estimator)")), "Both figures are the paper's own.",
        ),
        Claim(
            "kite2-bias", "results", "Kite2 overestimates at high speeds, and underestimates by up to 100 Mbit/s.",
            "both, one paragraph apart", f"{percent_points(-100 * under / _LINK_MBPS)} of 10 Gbit/s at most",
            "does not",
            "The two sentences contradict each other; the figures of the plot are not printed.",
        ),
        Claim(
            "most-precise", "results", "From 4 to 10 Gbit/s Kite2 is the most precise of the three.",
            f"off by up to {under:g} Mbit/s, Yaz by {over:g}",
            f"{significant(100 * under / _LINK_MBPS)} against {significant(100 * over / _LINK_MBPS)} % of 10 Gbit/s",
            "cannot be checked",
            "Extremes of one run of 60 s each, read off a plot; their number of estimates differs by tool. The plan "
            "kachan-avb measures the same steps with a known truth for every estimate's own window.",
        ),
        Claim(
            "steps", "test environment", "60 s hold three rounds of 2, 7 and 10 Gbit/s.", f"{seconds:g} s",
            f"{significant(each)} s a step", decide(holds=each > 1.0),
            f"Kite2 needs at least {least:g} rounds of probes an estimate: how many fall into a step is not printed, "
            "and an estimate that crosses an edge has no single truth.",
        ),
        Claim(
            "yaz-train", "Table 2", f"Yaz is tuned with streams of {length:g} packets of {size:g} B.", f"{length:g}",
            f"{significant(on_wire_us)} us at 10 Gbit/s", "cannot be checked",
            "A stream this short is over within a few interrupts of a card that coalesces them; whether the gaps still "
            "carry the queue is not shown.",
        ),
        Claim(
            "loss", "results", "All three tools measure with 1 % of the packets lost.", "1 %", "no figures of the runs",
            "cannot be checked", "Success is not defined: neither errors nor failed estimates are printed. The plan "
            "kachan-avb has the same loss as a factor.",
        ),
    )  # fmt: skip
    about = (
        "Figures of the text and the settings of Table 2; the estimates themselves are plotted, not printed. No "
        "spread, number of estimates or truth by window is given."
    )
    method = "Arithmetic on the printed figures, set beside each other where they speak of the same thing."
    return Reanalysis(PAPER, about, method, claims)


def figures() -> tuple[Drawing, ...]:
    """What the probes take up, by the text and by Table 2."""
    set_to = one_value(_CONFIG, "optimized_value", tool="Kite2", parameter="Ratio of occupied bandwidth")
    rows = [
        ("Kite2, Table 2 (setting)", "published", set_to / 100),
        ("Kite2, text", "kite2", occupied_percent("Kite2") / 100),
        ("Kite (Estimator), text", "kite", occupied_percent("Kite (Estimator)") / 100),
    ]
    return (plots.share_bars(rows, name="kachan2017-occupied", label="share of the 10 Gbit/s link that probes take"),)
