"""`vtare throughput`: how many frames guests forward, by frame size and spread of the load."""

from __future__ import annotations

from typing import Final

from vtare.instruments.model import QUIET, Exceed, Flaw, Instrument, LatencyPair, Metric, PlannedRun, Value, later

#: Trials in 1 s at most.
_TRIAL_PER_S: Final = 1_000
#: Bursts of a search for the longest one, about.
_BURSTS: Final = 15
#: A device is watched for so long after an overload, s, at most.
_WATCHED_S: Final = 10.0


def _expected_s(asked: PlannedRun) -> float:
    """Three sums of trials for each goal of a search, trials for latency, bursts, soak, recovery; void ones, too."""
    value = asked.value
    cells = asked.count("frame_byte") * asked.count("loaded")
    goals = 2.0 if value("zero_loss") else 1.0
    one = 1.0 + goals * 3.0 * value("trial_sum_ns") * 1e-9
    loads = asked.count("latency_load") + len(value("latency_packet_per_s") or ())
    latency = loads * value("latency_trials") * (0.1 + value("latency_trial_ns") * 1e-9)
    bursts = value("bursts") * _BURSTS * (0.1 + value("trial_ns") * 1e-9)
    soak = (value("soak_ns") or 0) * 1e-9
    overload = value("overload_ns") * 1e-9
    recovery = value("recovery") * (0.1 + overload + min(overload, _WATCHED_S))
    return float(2.0 + cells * (2.0 + value("searches") * one + latency + bursts + soak + recovery))


def _most_rows(asked: PlannedRun, timeout_s: float) -> float:
    return timeout_s * _TRIAL_PER_S


_NO_RUN: Final = "no run"
_UNREACHED: Final = "not reached"


def _sum(name: str, about: str = "", heading: str = "") -> Metric:
    return Metric(name, over_runs="sum", heading=heading, about=about, missing=_NO_RUN)


RECORD: Final = Instrument(
    name="throughput",
    asks="How much do the guests forward?",
    quantity="throughput_packet_per_s",
    value=Value("throughput_packet_per_s", at_least="censored"),
    parts=("frame_byte", "loaded"),
    expected_s=_expected_s,
    most_rows=_most_rows,
    metrics=(
        Metric(
            "throughput_packet_per_s",
            "throughput",
            "throughput",
            "throughput",
            better="more",
            about="median over runs of each run's median over searches",
            missing=_UNREACHED,
        ),
        Metric(
            "jain",
            heading="J",
            about="Jain's index of the frames sent to each guest, median over runs",
            missing=_NO_RUN,
        ),
        Metric("jain_planned", heading="J planned", about="the same in closed form", missing=_NO_RUN),
        Metric(
            "throughput_bit_per_s",
            "throughput in bit/s",
            better="more",
            heading="rate",
            missing=_UNREACHED,
            about="bits of frames with check sequence, without preamble and gap",
        ),
        Metric(
            "zero_loss_packet_per_s",
            "load without any loss",
            better="more",
            heading="without loss",
            about="the highest load without any loss, median",
            missing=_UNREACHED,
            asked_by="zero_loss",
        ),
        Metric("latency_ns", better="less", about="of all frames at the throughput, median", missing="not measured"),
        Metric("latency_p99_ns", better="less", heading="p99", missing="not estimable"),
        Metric("latency_p999_ns", better="less"),
        Metric(
            "latency_total_ns",
            better="less",
            heading="over guests",
            missing="not measured",
            about="mean over the guests, each part with its load (L_tot)",
        ),
        Metric("tagged_ns", better="less", about="mean of one frame a trial (RFC 2544)", missing="not measured"),
        Metric("trial_s", "time of trials"),
        Metric("latency_shared_ns", "latency", "latency at the load that all share", better="less"),
        Metric("latency_least_p99_ns", better="less"),
        Metric("latency_most_p99_ns", better="less"),
        Metric(
            "burst_frames",
            "longest burst",
            "longest burst that passes whole",
            better="more",
            asked_by="bursts",
            about="frames that pass whole at the greatest rate, median over runs",
            missing="none passed whole",
        ),
        Metric(
            "buffer_frames",
            "buffers",
            about="frames that they hold (RFC 9004), median over runs",
            missing="not known",
            asked_by="bursts",
        ),
        Metric(
            "buffer_ns",
            "time in buffers",
            about="how long the buffers last, median over runs",
            missing="not known",
            asked_by="bursts",
        ),
        Metric(
            "soak_loss_fraction",
            "share lost in the soak",
            better="less",
            heading="soak",
            asked_by="soak_ns",
            about="share lost at the throughput for long, median over runs",
            missing="not known",
        ),
        Metric(
            "recovery_ns",
            "recovery",
            "recovery from an overload",
            better="less",
            asked_by="recovery",
            about="from the end of an overload to the last lost frame, median over runs",
            missing="no overload",
        ),
        _sum("searches"),
        _sum("trials"),
        _sum("void_trials", "trials that showed nothing of the guests, and were made again", "void"),
        _sum("disturbed_trials", "trials that counted under disturbed conditions", "disturbed"),
        _sum("censored_runs", "ended by the generator or the greatest load asked for"),
        _sum("unanswered_searches"),
    ),
    figures=later("vtare.summary.throughput:figures"),
    hosts="ports",
    series=("loaded",),
    layer_figures=("latency_shared_ns",),
    latency_pair=LatencyPair(
        "latency_load", "offered load", "latency_most_p99_ns", "latency_least_p99_ns", "latency_ns", "p99 of latency"
    ),
    exceed=Exceed(),
    flaws=(
        Flaw(("void_trials",), ("void_trials", "trials"), "trials were void", QUIET),
        Flaw(("disturbed_trials",), ("trials",), "trials were disturbed", QUIET),
        Flaw(
            ("unanswered_searches",), ("searches",), "searches gave no answer", "give the search more time (`most_ns`)"
        ),
    ),
)
