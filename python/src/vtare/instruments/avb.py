"""`vtare avb`: the available bandwidth of a path, by each method."""

from __future__ import annotations

from typing import Final

from vtare.instruments.model import QUIET, Exceed, Flaw, Instrument, Metric, PlannedRun, Reached, Value, later

#: What an estimate takes by each method, s: about the median over paths of 0.3 to 10 Gbit/s on a machine of two CPUs.
#: `most_ns` ends all of them; `pathrate` used up the 15 s it was given.
TYPICAL_ESTIMATE_S: Final[dict[str, float]] = {
    "abacus": 0.15, "vtare": 0.15, "adr": 0.03, "yaz": 0.4, "kite": 0.8, "kite2": 0.6, "pathload": 4.0,
    "pathchirp": 9.0, "assolo": 1.2, "igi": 0.4, "ptr": 0.15, "spruce": 11.0, "abing": 2.5, "udpst": 11.0,
    "pathrate": 60.0, "tcp": 10.0, "program": 10.0,
}  # fmt: skip
_OTHER_ESTIMATE_S: Final = 2.0
#: Setting up, s: the counter of a shaped link takes most of a second to load and to be read.
_AROUND_SHAPED_S: Final = 1.3
_AROUND_S: Final = 0.5
#: Estimates in 1 s at most, interim ones too.
_ESTIMATE_PER_S: Final = 1_000

#: Reason in the column `disturbed` (`vtare.topology.truth`) -> what was wrong with the estimates, and what to do.
_DISTURBANCES: Final = {
    "other work on the machine": ("estimates were disturbed by other work", QUIET),
    "link was late": (
        "estimates were disturbed by an emulated link that was late",
        "leave the link a CPU of its own, or give it fewer bits per second",
    ),
    "sink missed packets": (
        "estimates were disturbed by a sink of cross traffic that missed packets",
        "give the far end a CPU of its own (`responder_cpu`)",
    ),
    "receiver overloaded": (
        "estimates were disturbed by a far end that could not keep up",
        "give the far end a CPU of its own (`responder_cpu`)",
    ),
    "clocks too far from each other": (
        "estimates were disturbed by clocks of hosts that are too far apart",
        "measure for longer, or synchronize the hosts",
    ),
}


def _expected_s(asked: PlannedRun) -> float:
    """Each estimate takes what its method takes, at most the time it may."""
    value = asked.value
    is_shaped = not value("peer") and asked.factors.get("bottleneck") != "link"
    around_s = _AROUND_SHAPED_S if is_shaped else _AROUND_S
    most_s = value("most_ns") * 1e-9 if value("most_ns") else float("inf")
    method = str(value("method")).partition(":")[0]
    each = min(most_s, TYPICAL_ESTIMATE_S.get(method, _OTHER_ESTIMATE_S))
    estimates, seconds = value("estimates"), value("seconds")
    if estimates is None and seconds is None:
        return around_s + each
    many = float("inf") if estimates is None else estimates * (each + value("pause_ns") * 1e-9)
    # One that has begun goes on to its end.
    return around_s + min(many, float("inf") if seconds is None else float(seconds) + each / 2.0)


def _most_rows(asked: PlannedRun, timeout_s: float) -> float:
    return timeout_s * _ESTIMATE_PER_S


_NO_TRUTH: Final = "path not the lab's, or no answer"


def _sum(name: str, about: str = "", heading: str = "", missing: str = "unknown") -> Metric:
    return Metric(name, over_runs="sum", heading=heading, about=about, missing=missing)


RECORD: Final = Instrument(
    name="avb",
    asks="How much bandwidth is free?",
    quantity="avb_bit_per_s",
    value=Value("avb_bit_per_s", at_least="at_least"),
    parts=("method",),
    expected_s=_expected_s,
    most_rows=_most_rows,
    metrics=(
        # An estimate is the path's, no merit; its error is the method's.
        Metric("avb_bit_per_s", "available", "available bandwidth", "available bandwidth", heading="estimate",
               about="median of the run medians", missing="no answer"),
        Metric("truth_bit_per_s", heading="truth", missing=_NO_TRUTH,
               about="capacity less cross traffic in the windows, median over runs"),
        Metric("true_capacity_bit_per_s"),
        Metric("error_percent", "error", better="less", interval=True, signed=True, missing=_NO_TRUTH,
               about="of an estimate against the truth of its window, median"),
        Metric("error_half_iqr_percent", better="less", heading="half IQR", missing=_NO_TRUTH,
               about="half the interquartile range of the error in a run"),
        Metric("absolute_error_percent", "error", "error", "absolute error", better="less", by_level=True,
               heading="absolute error", about="median of the error without its sign", missing=_NO_TRUTH),
        Metric("estimate_byte", "size of an estimate", better="less", heading="bytes",
               about="that an estimate puts on the path, median",
               missing="no estimate, or another program's, which does not report it"),
        Metric("estimate_ns", "time of an estimate", axis="time of an estimate", better="less", heading="time",
               about="of an estimate, median", missing="no estimate"),
        Metric("occupied_bit_per_s", better="less"),
        Metric("occupied_share", unit="1", better="less", heading="occupied", missing=_NO_TRUTH,
               about="probe bytes over the time, as a share of the capacity"),
        Metric("cross_bit_per_s", "cross traffic sent"),
        Metric("cross_share", unit="1"),
        Metric("others_cores", heading="others", about="cores that other programs took, median", missing=_NO_TRUTH),
        Metric("interval_width_percent", "width", "width of the intervals", better="less", missing="no interval",
               about="of these intervals, in percent of the capacity, median"),
        _sum("estimates"),
        _sum("at_least", "answers that are lower bounds only", "bounds"),
        _sum("truth_unknown", "estimates whose window is not known", "no truth", missing=_NO_TRUTH),
        _sum("disturbed_estimates", "estimates in windows that something else disturbed", "disturbed",
             missing=_NO_TRUTH),
        _sum("open_intervals", "intervals that exclude nothing: they count as no interval", "open", missing=_NO_TRUTH),
        *map(_sum, ("unanswered", "intervals", "intervals_covering")),
    ),
    figures=later("vtare.summary.bandwidth:figures"),
    hosts="routed",
    one_way=True,
    compared="absolute_error_percent",
    compared_parts=("method",),
    series=("method",),
    exceed=Exceed(),
    estimates=True,
    flaws=(
        Flaw(("disturbed_estimates",), ("estimates",), "estimates were disturbed", QUIET, made_by_load=True,
             reason="disturbed", by_reason=_DISTURBANCES),
        Flaw(("unanswered",), ("estimates",), "estimates gave no answer", "give the method more time (`most_ns`)"),
        Flaw(("open_intervals",), ("intervals", "open_intervals"), "intervals exclude nothing",
             "give the method more time (`most_ns`)"),
        Flaw(("truth_unknown",), ("estimates",), "estimates have no truth", QUIET),
    ),
    reached=Reached("cross", "cross_bit_per_s", "cross_share"),
)  # fmt: skip
