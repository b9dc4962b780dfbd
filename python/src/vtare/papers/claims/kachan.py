"""Kachan et al. 2017: three tools of available bandwidth on a link that changes its capacity up to 10 Gbit/s."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vtare import plots
from vtare.number_text import percent_points, rate_text, significant
from vtare.papers.claims.model import Claim, Reanalysis, decide, stated
from vtare.papers.published import one_value, read_rows, rows_where

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
    bias = stated(PAPER, "kite2-bias")
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
            " and ".join(bias.words.values()), f"{percent_points(-100 * under / _LINK_MBPS)} of 10 Gbit/s at most",
            decide(holds=len(set(bias.words.values())) == 1),
            "The two sentences, one paragraph apart, contradict each other; the figures of the plot are not printed.",
        ),
        Claim(
            "most-precise", "results", "From 4 to 10 Gbit/s Kite2 is the most precise of the three.",
            f"off by up to {under:g} Mbit/s, Yaz by {over:g}",
            f"{significant(100 * under / _LINK_MBPS)} against {significant(100 * over / _LINK_MBPS)} % of 10 Gbit/s",
            "cannot be decided",
            "Extremes of one run of 60 s each, read off a plot; their number of estimates differs by tool. The plan "
            "kachan-avb measures the same steps with the available bandwidth known for every estimate's own window.",
        ),
        Claim(
            "steps", "test environment", "60 s hold three rounds of 2, 7 and 10 Gbit/s.", f"{seconds:g} s",
            f"{significant(each)} s a step", decide(holds=each > 1.0),
            f"Kite2 needs at least {least:g} rounds of probes an estimate: how many fall into a step is not printed, "
            "and an estimate that crosses an edge has no single true value.",
        ),
        Claim(
            "yaz-train", "Table 2", f"Yaz is tuned with streams of {length:g} packets of {size:g} B.", f"{length:g}",
            f"{significant(on_wire_us)} us at 10 Gbit/s", "cannot be decided",
            "A stream this short is over within a few interrupts of a card that coalesces them; nothing shows "
            "that the gaps still carry the queue.",
        ),
        Claim(
            "loss", "results", "All three tools measure with 1 % of the packets lost.", "1 %", "no figures of the runs",
            "cannot be decided", "Success is not defined: neither errors nor failed estimates are printed. The plan "
            "kachan-avb has the same loss as a factor.",
        ),
        *_results(steps), *_settings(),
    )  # fmt: skip
    about = (
        "Figures of the text and the settings of Table 2; the estimates themselves are plotted, not printed. No "
        "spread, number of estimates or available bandwidth by window is given."
    )
    method = "Arithmetic on the printed figures, compared where they are about the same quantity."
    return Reanalysis(PAPER, about, method, claims)


def _results(steps: list[float]) -> list[Claim]:
    text = stated(PAPER, "four-gbit")
    rate = text.numbers["rate"]
    listed = ", ".join(f"{step / 1000:g}" for step in steps)
    claims = [text.claim(
        "All three tools have small errors up to 4 Gbit/s, and Kite2 the smallest from there on.",
        f"{rate / 1000:g} Gbit/s", f"capacities: {listed} Gbit/s", decide(holds=rate in steps),
        "No capacity near 4 Gbit/s was set: errors are known at the three steps only.",
    )]  # fmt: skip
    text = stated(PAPER, "delay-figures")
    shown = {part: words for part, words in text.words.items() if part != "text"}
    conditions = text.words["text"].split(" or ")
    claims.append(text.claim(
        "Figures 5 and 6 show the accuracy with losses and with delay.", " and ".join(conditions),
        ", ".join(f"{part}: {words}" for part, words in shown.items()),
        decide(holds=set(shown.values()) == set(conditions), in_part=bool(set(shown.values()) & set(conditions))),
        "By their captions both show 0.5 ms of delay; no figure shows losses.",
    ))  # fmt: skip
    levels = {name: rows_where(_PROSE, quantity=name) for name in ("delay_injected", "packet_loss_survived")}
    text = stated(PAPER, "threshold")
    claims.append(text.claim(
        "Delay and losses were raised until a tool failed.", "a threshold for each",
        ", ".join(f"{len(rows)} level of {name.split('_')[1] if name.startswith('packet') else 'delay'}"
                  for name, rows in levels.items()) + ", no threshold",
        decide(holds=all(len(rows) > 1 for rows in levels.values())),
        "One level of each is printed, and all tools measure at both.",
    ))  # fmt: skip
    text = stated(PAPER, "delay-worse")
    delay_s = float(levels["delay_injected"][0]["value_s"])
    loss = float(levels["packet_loss_survived"][0]["value_percent"])
    claims.append(text.claim(
        "The tools suffer more from delay than from losses.", text.words["order"],
        f"{1e3 * delay_s:g} ms of delay and {loss:g} % of losses", "cannot be decided",
        "One level of each, no errors printed at either: which is worse depends on how much of it there is.",
    ))  # fmt: skip
    return claims


def _settings() -> list[Claim]:
    default, tuned = (
        one_value(_CONFIG, f"{which}_value", tool="Yaz", parameter="Packet Stream Length")
        for which in ("default", "optimized")
    )
    text = stated(PAPER, "stream-length")
    numbers = [row for row in read_rows(_CONFIG) if row["default_value"].strip() and row["optimized_value"].strip()]
    changed = [row for row in numbers if float(row["default_value"]) != float(row["optimized_value"])]
    claims = [text.claim(
        "The packet stream length was optimized.", "modified", f"{default:g} before and after",
        decide(holds=default != tuned, in_part=len(changed) > 0),
        f"Of the settings in Table 2 that are numbers, {len(changed)} of {len(numbers)} were changed.",
    )]  # fmt: skip
    text = stated(PAPER, "one-train")
    trains = one_value(_CONFIG, "optimized_value", tool="Yaz", parameter="Streams per measurement")
    claims.append(text.claim(
        "Yaz uses one train of probes.", f"{text.numbers['trains']:g}", f"{trains:g} streams per measurement as tuned",
        decide(holds=trains == text.numbers["trains"]),
        "The default of Table 2 is one; the results are of the tuned tool.",
    ))  # fmt: skip
    text = stated(PAPER, "datagram-sizes")
    header = text.numbers["header"]
    sizes = {
        which: (one_value(_CONFIG, f"{which}_value", tool="Yaz", parameter="MTU, bytes"),
                one_value(_CONFIG, f"{which}_value", tool="Kite2", parameter="MSS, bytes"))
        for which in ("default", "optimized")
    }  # fmt: skip
    claims.append(text.claim(
        "The segment sizes of Kite and Kite2 fill the MTU of Yaz.",
        ", ".join(f"{mss:g} of {mtu:g} B" for mtu, mss in sizes.values()),
        ", ".join(f"{mtu - mss:g} B left" for mtu, mss in sizes.values()),
        decide(holds=all(mtu - mss == header for mtu, mss in sizes.values())),
        f"The headers of IP and UDP take {header:g} B.",
    ))  # fmt: skip
    rates = {
        which: (100 * one_value(_CONFIG, f"{which}_value", tool="Kite2", parameter="Send rate") / _LINK_MBPS,
                one_value(_CONFIG, f"{which}_value", tool="Kite2", parameter="Ratio of occupied bandwidth"))
        for which in ("default", "optimized")
    }  # fmt: skip
    claims.append(Claim(
        "send-rate", "Table 2", "Kite2's send rate is its ratio of occupied bandwidth.",
        ", ".join(f"{ratio:g} %" for _, ratio in rates.values()),
        ", ".join(f"{share:g} % of 10 Gbit/s" for share, _ in rates.values()),
        "reproduces" if all(abs(share - ratio) < 0.01 for share, ratio in rates.values()) else "cannot be decided",
        "What the ratio is of, the link or the time, is not defined; the default may be a ratio of 0.01, that is 1 %.",
    ))  # fmt: skip
    text = stated(PAPER, "resource-intensive")
    claims.append(text.claim(
        "Measurements are required to be resource intensive.", text.words["required"],
        f"tools are compared by {text.words['compared by']}", 
        decide(holds=text.words["required"] == text.words["compared by"]),
        "The opposite is meant: the section on approaches asks for a balance of intrusiveness and accuracy.",
    ))  # fmt: skip
    return claims


def figures() -> tuple[Drawing, ...]:
    """What the probes take up, by the text and by Table 2."""
    set_to = one_value(_CONFIG, "optimized_value", tool="Kite2", parameter="Ratio of occupied bandwidth")
    rows = [
        ("Kite2, Table 2 (setting)", "published", set_to / 100),
        ("Kite2, text", "kite2", occupied_percent("Kite2") / 100),
        ("Kite (Estimator), text", "kite", occupied_percent("Kite (Estimator)") / 100),
    ]
    return (plots.share_bars(rows, name="kachan2017-occupied", label="share of the 10 Gbit/s link that probes take"),)
