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


def _sum(name: str) -> Metric:
    return Metric(name, over_runs="sum")


RECORD: Final = Instrument(
    name="throughput",
    asks="How much do the guests forward?",
    quantity="throughput_packet_per_s",
    value=Value("throughput_packet_per_s", at_least="censored"),
    parts=("frame_byte", "loaded"),
    expected_s=_expected_s,
    most_rows=_most_rows,
    metrics=(
        Metric("throughput_packet_per_s", "throughput", "throughput", "throughput", better="more"),
        Metric("jain"),
        Metric("jain_planned"),
        Metric("throughput_bit_per_s", "throughput in bit/s", better="more"),
        Metric("zero_loss_packet_per_s", "load without any loss", better="more"),
        Metric("latency_ns", better="less"),
        Metric("latency_p99_ns", better="less"),
        Metric("latency_p999_ns", better="less"),
        Metric("latency_total_ns", better="less"),
        Metric("tagged_ns", better="less"),
        Metric("trial_s", "time of trials"),
        Metric("latency_shared_ns", "latency", "latency at the load that all share", better="less"),
        Metric("latency_least_p99_ns", better="less"),
        Metric("latency_most_p99_ns", better="less"),
        Metric("burst_frames", "longest burst", "longest burst that passes whole", better="more"),
        Metric("buffer_frames", "buffers"),
        Metric("buffer_ns", "time in buffers"),
        Metric("soak_loss_fraction", "share lost in the soak", better="less"),
        Metric("recovery_ns", "recovery", "recovery from an overload", better="less"),
        *map(_sum, ("searches", "unanswered_searches", "censored_runs", "trials", "void_trials", "disturbed_trials")),
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
