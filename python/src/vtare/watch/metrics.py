"""What Prometheus reads: rounds, figures and alerts in the OpenMetrics format, on an address of this machine.

A series that was not measured is absent, never 0. Counters and histograms count from the start of this process.
"""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from vtare.errors import BadInput, MachineCannot
from vtare.http_server import IDLE_S, BoundedServer
from vtare.instruments import instrument as record_of
from vtare.quantities import stem_of
from vtare.sentences.watch import ABOUT_UTC
from vtare.watch.utc_page import STATUSES, kept_utc

try:
    from prometheus_client import CollectorRegistry, make_wsgi_app
    from prometheus_client.core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
        StateSetMetricFamily,
    )
    from prometheus_client.registry import Collector
except ImportError as error:
    raise MachineCannot(
        "the Python package 'prometheus-client' is missing, which --metrics needs; install it with "
        "`pip install prometheus-client`"
    ) from error

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from prometheus_client.metrics_core import Metric

    Labels = tuple[tuple[str, str], ...]

#: Causes of gaps that share out the time that was lost.
_CAUSES: Final = ("steal", "quota", "other_threads", "unattributed")
#: Labels that no factor may have: their own, and `le`, which histograms have.
_OWN_LABELS: Final = frozenset({"experiment", "figure", "quantity", "cause", "le"})
_UNITS: Final = {"ns": "seconds", "bit/s": "bits_per_second", "packet/s": "packets_per_second"}


class Metrics(Collector):
    """All that was measured since the start, as families of metrics."""

    def __init__(self, utc_page: Path | None = None) -> None:
        """Begin without a round; `utc_page` is looked at whenever somebody asks."""
        self._utc_page = utc_page
        self._lock = threading.Lock()
        self._rounds = {"measured": 0, "failed": 0}
        self._last: dict[str, float] = {}
        self._trusted: bool | None = None
        self._events: dict[str, int] = {}
        self._figures: dict[Labels, float] = {}
        self._alerts: dict[Labels, int] = {}
        self._causes: dict[str, dict[Labels, float]] = defaultdict(lambda: defaultdict(float))
        self._histograms: dict[str, dict[Labels, dict[str, Any]]] = defaultdict(dict)
        self._about: dict[str, str] = {}

    def failed(self) -> None:
        """Count a round that could not be made."""
        with self._lock:
            self._rounds["failed"] += 1

    def measured(self, document: Mapping[str, Any], alerts: Iterable[Mapping[str, Any]]) -> None:
        """Add a round (`vtare.round/1`) and its alerts."""
        with self._lock:
            self._rounds["measured"] += 1
            self._last = {"timestamp": document["at_unix_s"] + document["elapsed_s"], "duration": document["elapsed_s"]}
            self._trusted = document["clock"]
            for event, count in document["events"].items():
                self._events[event] = self._events.get(event, 0) + count
            # Figures that this round lacks are absent from it on.
            self._figures = {_figure(one): one["value"] for one in document["figures"]}
            for labels in self._figures:
                self._alerts.setdefault(labels, 0)
            for alert in alerts:
                self._alerts[_figure(alert)] += 1
            for one in document["causes"]:
                self._add_causes(_labels(one), one["causes"])
            for one in document["histograms"]:
                self._add_histogram(one)

    def _add_causes(self, labels: Labels, causes: Mapping[str, Any]) -> None:
        for cause in _CAUSES:
            if (lost_ns := causes.get(f"{cause}_ns")) is not None:
                self._causes["lost"][(*labels, ("cause", cause))] += lost_ns / 1e9
        outside_ns, steal_ns = causes.get("outside_ns_min"), causes.get("steal_ns")
        if outside_ns is not None:
            self._causes["outside"][labels] += outside_ns / 1e9
        if outside_ns is not None and steal_ns is not None:
            self._causes["unadmitted"][labels] += max(0.0, outside_ns - steal_ns) / 1e9

    def _add_histogram(self, one: Mapping[str, Any]) -> None:
        labels = _labels(one)
        if one["cause"] is not None:
            labels = (*labels, ("cause", one["cause"]))
        name = histogram_name(one["instrument"], one["quantity"], one["unit"])
        self._about[name] = about_of(one["instrument"], one["quantity"])
        family = self._histograms[name]
        kept = family.setdefault(labels, {"bounds": one["bounds"], "counts": [0] * len(one["counts"]), "sum": 0.0})
        kept["counts"] = [a + b for a, b in zip(kept["counts"], one["counts"], strict=True)]
        kept["sum"] += one["sum"]

    def collect(self) -> Iterable[Metric]:
        """Every family that has a series."""
        with self._lock:
            yield from list(self._families())

    def _families(self) -> Iterable[Metric]:
        rounds = CounterMetricFamily("vtare_rounds", "Rounds of the plan, by how they ended.", labels=["outcome"])
        for outcome, count in self._rounds.items():
            rounds.add_metric([outcome], count)
        yield rounds
        if self._last:
            yield _gauge("vtare_last_round_timestamp_seconds", "When the last round ended.", self._last["timestamp"])
            yield _gauge("vtare_last_round_duration_seconds", "How long the last round took.", self._last["duration"])
        if self._trusted is not None:
            about = "Whether readings of the time came from the CPU's counter in all runs of the last round."
            yield _gauge("vtare_clock_trusted", about, float(self._trusted))
        if self._events:
            events = CounterMetricFamily("vtare_disruptions", "What happened to the clock in runs.", labels=["event"])
            for event, count in self._events.items():
                events.add_metric([event], count)
            yield events
        yield from _filled(
            GaugeMetricFamily, "vtare_figure", "Figures of the last round, in the unit that their names end with.",
            self._figures,
        )  # fmt: skip
        yield from _filled(CounterMetricFamily, "vtare_alerts", "Changes of a figure's level over time.", self._alerts)
        for kind, about in {
            "lost": "Time that gaps took from a spinning thread, by cause.",
            "outside": "Time of gaps that no event of this kernel explains: a lower bound.",
            "unadmitted": "The same beyond what steal admits: a lower bound.",
        }.items():
            yield from _filled(CounterMetricFamily, f"vtare_gap_{kind}_seconds", about, self._causes[kind])
        for name, series in self._histograms.items():
            names = _names(series)
            family = HistogramMetricFamily(name, self._about[name], labels=names)
            for labels, kept in series.items():
                given, total, buckets = dict(labels), 0, []
                for bound, count in zip((*kept["bounds"], float("inf")), kept["counts"], strict=True):
                    total += count
                    buckets.append(("+Inf" if bound == float("inf") else repr(bound), total))
                family.add_metric([given.get(one, "") for one in names], buckets, kept["sum"])
            yield family
        if self._utc_page is not None:
            yield from _utc(self._utc_page)


def _utc(page: Path) -> Iterable[Metric]:
    """UTC as `vtare clock` keeps it; nothing where it does not."""
    if (kept := kept_utc(page)) is None:
        return
    statuses = {name: name == kept.status for name in STATUSES}
    yield StateSetMetricFamily("vtare_utc_status", ABOUT_UTC["status"], value=statuses)
    for name, value in (
        ("generation", kept.generation),
        ("interval_width_seconds", kept.width_s),
        ("hosts", kept.hosts),
        ("liars", kept.liars),
    ):
        if value is not None:
            yield _gauge(f"vtare_utc_{name}", ABOUT_UTC[name], value)


def histogram_name(instrument: str, quantity: str, unit: str) -> str:
    """The name of an instrument's histogram.

    >>> histogram_name("sleep", "miss_ns", "ns"), histogram_name("rtt", "rtt_ns", "ns")
    ('vtare_sleep_miss_seconds', 'vtare_rtt_seconds')
    """
    stem = stem_of(quantity)
    words = ["vtare", instrument, *([stem] if stem != instrument else []), *([_UNITS[unit]] if unit in _UNITS else [])]
    return "_".join(words)


def about_of(instrument: str, quantity: str) -> str:
    """What a histogram shows, in the words of the figure's axis.

    >>> about_of("rtt", "rtt_ns")
    'Round-trip time.'
    """
    declared = record_of(instrument).metric(quantity)
    return (
        "Readings of all runs."
        if declared is None or not declared.axis
        else f"{declared.axis[0].upper()}{declared.axis[1:]}."
    )


def _labels(one: Mapping[str, Any]) -> Labels:
    """The experiment and each factor with its level, under names that differ as the factors' do.

    >>> _labels({"experiment": "e", "labels": {"a-b": 1, "a_b": 2, "cause": 3, "2x": 4}})
    (('experiment', 'e'), ('_2x', '4'), ('a_b', '1'), ('a_b_', '2'), ('cause_', '3'))
    """
    named: dict[str, str] = {}
    for factor, level in sorted(one["labels"].items()):
        name = re.sub(r"^(?=\d)|\W", "_", factor, flags=re.ASCII)
        while name in named or name in _OWN_LABELS:
            name += "_"
        named[name] = str(level)
    return (("experiment", one["experiment"]), *named.items())


def _figure(one: Mapping[str, Any]) -> Labels:
    return (*_labels(one), ("figure", one["figure"]), ("quantity", one["quantity"]))


def _names(series: Iterable[Labels]) -> list[str]:
    """All label names of a family: a series has those that it lacks as empty texts, which is the same."""
    return list(dict.fromkeys(name for labels in series for name, _ in labels))


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(name, about, value=value)


def _filled(kind: Any, name: str, about: str, series: Mapping[Labels, float]) -> Iterable[Metric]:
    if series:
        names = _names(series)
        family = kind(name, about, labels=names)
        for labels, value in series.items():
            given = dict(labels)
            family.add_metric([given.get(one, "") for one in names], value)
        yield family


class _Quiet(WSGIRequestHandler):
    timeout = IDLE_S

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _MetricsServer(BoundedServer, WSGIServer):
    """Serves the metrics."""


def serve(metrics: Metrics, host: str, port: int) -> tuple[str, int]:
    """Serve the metrics from a thread of this process, which sleeps between requests; return the address.

    Raises:
        BadInput: the address cannot be listened on.
    """
    registry = CollectorRegistry()
    registry.register(metrics)
    try:
        server = make_server(host, port, make_wsgi_app(registry), server_class=_MetricsServer, handler_class=_Quiet)
    except OSError as error:
        raise BadInput(f"--metrics: cannot listen on {host}:{port}: {error.strerror}") from error
    # It never looks whether to end: its thread ends with the process.
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": None}, daemon=True).start()
    address: tuple[str, int] = server.server_address[:2]  # type: ignore[assignment]
    return address
