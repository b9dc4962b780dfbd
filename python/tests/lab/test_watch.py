"""`vtare watch`: rounds over months on a simulated clock, a history that is never half written, alerts, metrics."""

from __future__ import annotations

import itertools
import json
import logging
import os
import re
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import textwrap
import threading
import time
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from vtare.campaign.store import read_store
from vtare.cli import app
from vtare.errors import BadInput, CampaignStopped, Interrupted
from vtare.plan.files import load_plan
from vtare.report.over_time import page
from vtare.report.text import NO_BREAK
from vtare.samples import open_samples
from vtare.series.model import SeriesKey
from vtare.series.over_time import answer
from vtare.watch.history import History, Round
from vtare.watch.loop import watch
from vtare.watch.metrics import Metrics, serve
from vtare.watch.over_time import over_time
from vtare.watch.standstills import SteadySamples, standstills_of
from vtare.watch.store import drop_old, held_store, room, round_place

ROOT = Path(__file__).parents[3]
KEY = SeriesKey("sleep", (("method", "usleep"),), "median", "miss_ns", "less")
LOST = SeriesKey("noise", (("cpu", "0"),), "lost_fraction", "lost_fraction", "less")


class Jumping:
    """A clock that jumps to what it waits for, and stops at `end_s`."""

    def __init__(self, end_s: float = float("inf")) -> None:
        self.at_s, self.end_s, self.waits = 1000.0, end_s, 0

    def now_s(self) -> float:
        return self.at_s

    def wait_until(self, due_s: float) -> bool:
        self.waits += 1
        self.at_s = max(self.at_s, due_s)
        return self.at_s >= self.end_s


def document(number: int, changes: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """A round as the process of it prints it."""
    labels = {"load": "idle", "cpu": "0"}
    noise = {"experiment": "noise", "labels": labels}
    return {
        "schema": "vtare.round/1", "number": number, "at_unix_s": 1.79e9 + 600 * number, "elapsed_s": 3.0,
        "changes": changes or [],
        "figures": [{**KEY.document(), "value": 60e3}], "bounds": [],
        "missing": [], "clock": True, "events": {"suspended": 0, "migrated": 1},
        "causes": [{**noise, "causes": {"steal_ns": 0, "other_threads_ns": 2_000_000, "unattributed_ns": None,
                                        "outside_ns_min": 500_000}}],
        "histograms": [
            {**noise, "instrument": "noise", "quantity": "gap_ns", "unit": "ns", "cause": "outside",
             "bounds": [1e-5, 1e-3], "counts": [3, 1, 1], "sum": 0.01},
            {"experiment": "timer", "labels": {"source": "vtare"}, "instrument": "timer", "quantity": "cost_ns",
             "unit": "ns", "cause": None, "bounds": [1e-8], "counts": [90, 10], "sum": 1e-6},
            {"experiment": "sleep", "labels": {"method": "usleep"}, "instrument": "sleep", "quantity": "miss_ns",
             "unit": "ns", "cause": None, "bounds": [1e-4], "counts": [90, 10], "sum": 1e-6},
        ],
    }  # fmt: skip


def change(after: float = 90e3) -> dict[str, Any]:
    return {**KEY.document(), "at": 1, "before": 60e3, "after": after, "text": f"60 us -> {after / 1e3:g} us"}


def test_ten_thousand_rounds_keep_their_distance_and_each_is_waited_for_once() -> None:
    clock, starts = Jumping(), []

    def measure() -> dict[str, Any]:
        starts.append(clock.at_s)
        # Now and then a round takes longer than the interval.
        clock.at_s += 1500.0 if len(starts) % 100 == 0 else 4.0
        return document(len(starts))

    tally = watch(measure, clock, every_s=600.0, rounds=10_000)
    assert (tally.measured, tally.failed, tally.alerts) == (10_000, 0, 0)
    assert clock.waits == 10_000
    assert all((start - 1000.0) % 600.0 == 0.0 for start in starts)
    apart = np.diff(starts)
    assert set(apart.tolist()) == {600.0, 1800.0}
    assert int((apart == 1800.0).sum()) == 99


def test_a_round_that_fails_costs_itself_alone_and_a_stop_ends_the_wait() -> None:
    clock, made = Jumping(end_s=1000.0 + 600.0 * 5), itertools.count()

    def measure() -> dict[str, Any]:
        number = next(made)
        if number == 1:
            raise CampaignStopped("No space left on device")
        return document(number)

    metrics = Metrics()
    with pytest.raises(Interrupted, match="after 4 rounds"):
        watch(measure, clock, every_s=600.0, observer=metrics)
    assert families(metrics)["vtare_rounds"] == {(("outcome", "measured"),): 4.0, (("outcome", "failed"),): 1.0}


def test_alerts_are_changes_beyond_the_margin_and_each_round_offers_its_own() -> None:
    offered: list[list[float]] = []
    rounds = iter([document(0, [change()]), document(1, [change(61e3)]), document(2, [change(30e3)]), document(3)])
    tally = watch(
        lambda: next(rounds), Jumping(), every_s=1.0, rounds=4, margin=0.05,
        send=lambda alerts: offered.append([one["after"] for one in alerts]),
    )  # fmt: skip
    assert tally.alerts == 2
    assert offered == [[90e3], [], [30e3], []]


def test_a_bound_is_named_once_and_not_in_every_round(caplog: pytest.LogCaptureFixture) -> None:
    bound = "forward: median of throughput_packet_per_s: at least 2.00 kpacket/s"
    rounds = iter([{**document(number), "bounds": [bound]} for number in range(3)])
    with caplog.at_level(logging.WARNING):
        watch(lambda: next(rounds), Jumping(), every_s=60.0, rounds=3)
    assert [line for line in caplog.messages if bound in line] == [
        f"not followed, known only as a bound: {bound}; raise the limit that its runs end at"
    ]


def test_a_standstill_in_a_round_and_one_of_the_watch_itself_are_named(caplog: pytest.LogCaptureFixture) -> None:
    clock = Jumping()
    text = "sleep: the program that measured stalled for 1 s, from 2026-11-28 09:54:23 UTC: it was stopped"
    ends = iter([0.0, 0.0, 5.0])

    def measure() -> dict[str, Any]:
        made = {**document(0), "standstills": [{"text": text}], "ended_boot_s": clock.at_s}
        # The third round was over 5 s before the watch went on.
        clock.at_s += next(ends)
        return made

    class Late(Jumping):
        def wait_until(self, due_s: float) -> bool:
            # The second round begins late.
            self.waits += 1
            self.at_s = due_s + (7.0 if self.waits == 2 else 0.0)
            return False

    clock = Late()
    with caplog.at_level(logging.WARNING):
        watch(measure, clock, every_s=60.0, rounds=3)
    assert sum(text in line for line in caplog.messages) == 3
    own = [line for line in caplog.messages if line.startswith("this watch stalled")]
    assert ["The round begins that much late" in line for line in own] == [True, False]
    assert "for 7 s, from 2" in own[0]
    assert "for 5 s, from 2" in own[1]


def test_round_trips_that_a_standstill_lengthened_are_in_no_distribution(two_host_store: Path) -> None:
    opened = open_samples(two_host_store, *_finished(two_host_store))
    file = next(one for one in opened.files if one.run.instrument == "rtt")
    frame = opened.read(file)
    began, ended = (int(frame["sent_ns"][row]) + 1 for row in (3, 6))
    outage = {"place": "here", "began_ns": began, "length_ns": ended - began}
    beyond = {"place": "beyond", "began_ns": 0, "length_ns": 10**12}
    footer = {**file.footer, "result": {"cells": [{"outages": [outage, beyond]}, {"outages": [outage]}, {}]}}
    steady = SteadySamples(opened.plan, opened.files, opened.problems).read(replace(file, footer=footer))
    away = frame["sent_ns"].is_between(0, ended - 1) & (frame["arrived_ns"] > began).fill_null(value=False)
    assert away.sum() >= 3
    assert steady["value"].is_null().to_list() == (away | frame["value"].is_null()).to_list()
    (one,) = standstills_of(replace(file, footer=footer))
    assert one["length_s"] == (ended - began) / 1e9
    assert "suspended or moved" in one["text"]


def _finished(store: Path) -> tuple[Any, list[Any]]:
    plan, runs, _ = read_store(store)
    return plan, [run for run in runs if (store / "runs" / run.run_id / "samples.parquet").exists()]


def filled(store: Path, rounds: int, step_at: int, *, rng_seed: int = 1) -> list[Any]:
    """A history whose sleeps wake 40 % later from a round on, with the kernel of then; the changes found."""
    store.mkdir(exist_ok=True)
    rng = np.random.default_rng(rng_seed)
    found = []
    with History(store) as history:
        for number in range(history.rounds, rounds):
            late = number >= step_at
            figures = {KEY: 60e3 * (1.4 if late else 1.0) * (1 + 0.02 * rng.normal())}
            # A figure that a round lacks is no 0.
            figures |= {LOST: 0.01 + 0.001 * rng.normal()} if number % 10 else {}
            facts = {"kernel": "6.2" if late else "6.1", "microcode": None}
            found += history.append(Round(1.79e9 + 600 * number, 3.0, facts, figures))
    return found


def test_a_change_is_found_once_with_the_facts_that_changed_there(tmp_path: Path) -> None:
    found = filled(tmp_path / "store", 80, 50)
    assert [(one.key, one.at) for one in found] == [(KEY, 50)]
    assert found[0].worse
    assert found[0].facts == (("kernel", "6.1", "6.2"),)
    assert found[0].found <= 60
    with History(tmp_path / "store", read_only=True) as history:
        assert history.changes() == found
        series = {one.key: one for one in history.series()}
    assert len(series[KEY].values) == 80
    assert len(series[LOST].values) == 72
    assert 0.0 not in series[LOST].values


@pytest.mark.fault
def test_a_full_disk_leaves_the_history_as_it_was(tmp_path: Path) -> None:
    filled(tmp_path / "store", 20, 99)
    with History(tmp_path / "store") as history:
        pages = history._connection.execute("PRAGMA page_count").fetchone()[0]
        history._connection.execute(f"PRAGMA max_page_count = {pages}")
        figures = {SeriesKey("x", (("n", f"{n:0500}"),), "median", "miss_ns"): 1.0 for n in range(100)}
        with pytest.raises(sqlite3.OperationalError, match="full"):
            history.append(Round(1.8e9, 1.0, {}, figures))
        assert history.rounds == 20
    assert len(filled(tmp_path / "store", 60, 40)) == 1


@pytest.mark.fault
def test_a_killed_writer_leaves_whole_rounds(tmp_path: Path) -> None:
    program = textwrap.dedent(
        f"""
        import sys
        
        from pathlib import Path
        from vtare.watch.history import History, Round
        from vtare.series.model import SeriesKey
        with History(Path({str(tmp_path)!r})) as history:
            while True:
                keys = [SeriesKey("x", (("n", str(n)),), "median", "miss_ns") for n in range(30)]
                history.append(Round(1.0, 1.0, {{}}, dict.fromkeys(keys, 1.0)))
                print(history.rounds, flush=True)
        """
    )
    writer = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert writer.stdout is not None
    for line in writer.stdout:
        if int(line) >= 5:
            break
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    with History(tmp_path, read_only=True) as history:
        assert history.rounds >= 5
        assert {len(one.values) for one in history.series()} == {history.rounds}


@pytest.mark.attack
def test_a_clock_that_jumps_takes_no_samples_away(tmp_path: Path) -> None:
    year_s = 365 * 86_400.0
    at_s = [1.79e9, 1.79e9 + 600, 1.79e9 + year_s, 1.79e9 - year_s, 1.79e9 + 1800]
    with History(tmp_path) as history:
        for at in at_s:
            history.append(Round(at, 3.0, {}, {KEY: 60e3}))
    for number in range(len(at_s)):
        round_place(tmp_path, number).mkdir(parents=True)
    assert drop_old(tmp_path, 4) == 1
    assert [path.name for path in sorted((tmp_path / "rounds").iterdir())] == [f"{number:08}" for number in range(1, 5)]
    assert len(over_time(tmp_path).series[0].values) == len(at_s)


def test_samples_are_kept_for_a_time_and_figures_for_ever(tmp_path: Path) -> None:
    filled(tmp_path, 6, 99)
    for number in range(7):
        (round_place(tmp_path, number) / "runs").mkdir(parents=True)
    # The last one has no row: its round was killed.
    assert drop_old(tmp_path, 3) == 4
    assert sorted(path.name for path in (tmp_path / "rounds").iterdir()) == ["00000003", "00000004", "00000005"]
    assert len(over_time(tmp_path).series[0].values) >= 5


def test_a_store_is_held_by_one_program_and_by_one_plan(tmp_path: Path) -> None:
    plan, other = (
        load_plan(ROOT / "python/src/vtare/plans" / f"{name}.toml") for name in ("watch", "quickstart-quick")
    )
    with (
        held_store(tmp_path / "store", plan),
        pytest.raises(BadInput, match="another `vtare watch` holds it"),
        held_store(tmp_path / "store", plan),
    ):
        pass
    with pytest.raises(BadInput, match="watched by another plan"), held_store(tmp_path / "store", other):
        pass
    with held_store(tmp_path / "store", plan):
        pass
    (tmp_path / "else").mkdir()
    (tmp_path / "else" / "file").touch()
    with pytest.raises(BadInput, match="holds something else"), held_store(tmp_path / "else", plan):
        pass


@pytest.mark.fault
def test_a_disk_that_is_nearly_full_begins_no_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vtare.campaign.files.Files.free_byte", lambda *_: 1_000_000)
    with pytest.raises(CampaignStopped, match="No space left on device: 1 MB are free"):
        room(tmp_path)


def labelled(*pairs: Any) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(itertools.chain(*pairs)))


def families(metrics: Metrics) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """What a scrape in the OpenMetrics format has: family -> labels -> value, as a strict parser reads it."""
    host, port = serve(metrics, "127.0.0.1", 0)
    asked = urllib.request.Request(
        f"http://{host}:{port}/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"}
    )
    with urllib.request.urlopen(asked, timeout=10) as answer:
        text = answer.read().decode()
    assert text.endswith("# EOF\n")
    return {
        family.name: {
            labelled(sample.labels.items()): sample.value
            for sample in family.samples
            if not sample.name.endswith("_sum")
        }
        for family in text_string_to_metric_families(text)
    }


@pytest.mark.attack
def test_silent_connections_take_no_thread_each_and_keep_nobody_from_the_metrics() -> None:
    host, port = serve(Metrics(), "127.0.0.1", 0)
    silent = [socket.create_connection((host, port), timeout=60) for _ in range(600)]
    try:
        with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=60) as answer:
            assert b"vtare_rounds" in answer.read()
        assert threading.active_count() < 100
    finally:
        for connection in silent:
            connection.close()


@pytest.mark.parametrize(
    "names", [("a-b", "a_b"), ("a.b", "a b"), ("experiment", "cause"), ("figure", "le"), ("1", "_1")]
)
def test_factors_whose_names_map_to_one_label_keep_a_series_each(names: tuple[str, str]) -> None:
    metrics = Metrics()
    figures = [
        {"experiment": "sleep", "labels": dict(zip(names, levels, strict=True)), "figure": "median",
         "quantity": "miss_ns", "value": value}
        for value, levels in enumerate(itertools.product(("x", "y"), repeat=2))
    ]  # fmt: skip
    metrics.measured({**document(0), "figures": figures}, [])
    found = families(metrics)["vtare_figure"]
    assert sorted(found.values()) == [0.0, 1.0, 2.0, 3.0]
    for labels in found:
        assert {"experiment", "figure", "quantity"} < {name for name, _ in labels}
        assert ("experiment", "sleep") in labels


def test_what_was_not_measured_is_absent_and_what_was_adds_up() -> None:
    metrics = Metrics()
    assert set(families(metrics)) == {"vtare_rounds"}
    metrics.measured(document(0), [])
    metrics.measured(document(1, [change()]), [change()])
    found = families(metrics)
    where = (("experiment", "noise"), ("load", "idle"), ("cpu", "0"))
    assert found["vtare_gap_lost_seconds"] == {
        labelled(where, [("cause", "steal")]): 0.0,
        labelled(where, [("cause", "other_threads")]): pytest.approx(0.004),
    }
    assert found["vtare_gap_unadmitted_seconds"] == {labelled(where): pytest.approx(0.001)}
    gaps = found["vtare_noise_gap_seconds"]
    bounds = [labelled(where, [("cause", "outside"), ("le", bound)]) for bound in ("1e-05", "0.001", "+Inf")]
    assert [gaps[bound] for bound in bounds] == [6, 8, 10]
    assert found["vtare_disruptions"] == {(("event", "suspended"),): 0.0, (("event", "migrated"),): 2.0}
    assert list(found["vtare_alerts"].values()) == [1.0]
    assert found["vtare_clock_trusted"] == {(): 1.0}
    assert "vtare_rtt_seconds" not in found


def utc_page(path: Path, *, age_ns: int = 50_000_000, until_ns: int = 10**10, status: int = 0, votes: int = 1) -> None:
    """A page of `vtare clock` whose last round ended some time ago, by three hosts."""
    at_ns = time.monotonic_ns() - age_ns
    ends = (1_000_000_000, 1_002_000_000, 2**32 // 1000, 2**32 // 1000)
    words = (int.from_bytes(b"vtareUT\x01", "big"), 6, at_ns, at_ns, *ends, at_ns + until_ns, status, 7, 9)
    path.write_bytes(struct.pack("=13Q", *words, votes and (3 << 32) + votes).ljust(4096, b"\0"))
    path.chmod(0o644)


def utc_metrics(path: Path) -> dict[str, float]:
    """All about UTC; of the statuses those that hold."""
    return {
        f"{name}{''.join(dict(labels).values())}": value
        for name, samples in families(Metrics(path)).items()
        for labels, value in samples.items()
        if name.startswith("vtare_utc") and (value or not labels)
    }


def test_utc_of_a_kept_page_is_among_the_metrics_and_of_no_page_absent(tmp_path: Path) -> None:
    page = tmp_path / "utc"
    assert utc_metrics(page) == {}
    utc_page(page)
    kept = utc_metrics(page)
    # 2 ms, and 2 per mille of the time since.
    assert 2.1e-3 <= kept.pop("vtare_utc_interval_width_seconds") < 2.1e-3 + 0.02
    assert kept == {
        "vtare_utc_statussynchronized": 1.0,
        "vtare_utc_generation": 7.0,
        "vtare_utc_hosts": 3.0,
        "vtare_utc_liars": 1.0,
    }
    utc_page(page, votes=0)
    assert "vtare_utc_hosts" not in utc_metrics(page), "an earlier version did not count them"


@pytest.mark.parametrize(
    ("page", "status"),
    [({"status": 2}, "disrupted"), ({"status": 3}, "unknown"), ({"until_ns": 1}, "unknown"),
     ({"age_ns": -(10**12)}, "disrupted")],
)  # fmt: skip
def test_a_page_that_vouches_for_nothing_has_a_status_and_no_width(
    tmp_path: Path, page: dict[str, int], status: str
) -> None:
    utc_page(tmp_path / "utc", **page)
    assert utc_metrics(tmp_path / "utc") == {f"vtare_utc_status{status}": 1.0, "vtare_utc_generation": 7.0}


@pytest.mark.attack
def test_a_page_that_others_may_write_a_link_and_something_else_are_no_page(tmp_path: Path) -> None:
    utc_page(tmp_path / "utc")
    (tmp_path / "link").symlink_to(tmp_path / "utc")
    assert utc_metrics(tmp_path / "link") == {}
    (tmp_path / "utc").chmod(0o666)
    assert utc_metrics(tmp_path / "utc") == {}
    for name, text in (("short", b"short"), ("letter", b"a letter" * 512)):
        (tmp_path / name).write_bytes(text)
        assert utc_metrics(tmp_path / name) == {}
    os.mkfifo(tmp_path / "pipe")
    assert utc_metrics(tmp_path / "pipe") == {}


def test_the_dashboard_asks_for_metrics_that_are_exported() -> None:
    dashboard = json.loads((ROOT / "examples/watch/grafana.json").read_text())
    metrics = Metrics()
    made = document(0, [change()])
    for name, unit, quantity in (("rtt", "ns", "rtt_ns"), ("avb", "bit/s", "avb_bit_per_s")):
        made["histograms"].append({"experiment": name, "labels": {"peer": "responder"}, "instrument": name,
                                   "quantity": quantity, "unit": unit, "cause": None, "bounds": [1.0],
                                   "counts": [1, 1], "sum": 1.0})  # fmt: skip
    metrics.measured(made, [change()])
    names: dict[str, set[str]] = {}
    for family in metrics.collect():
        for sample in family.samples:
            names.setdefault(sample.name, {"instance"}).update(sample.labels)
    panels = dashboard["panels"]
    queries = [target["expr"] for panel in panels for target in panel["targets"]]
    queries += [one["expr"] for one in dashboard["annotations"]["list"]]
    queries += [one["definition"] for one in dashboard["templating"]["list"] if one["type"] == "query"]
    for query in queries:
        asked = re.findall(r"vtare_\w+", query)
        assert asked
        for name in asked:
            assert name in names, f"{name}: no such metric: {sorted(names)}"
            for group in re.findall(r"by \(([^)]*)\)", query):
                assert set(group.split(", ")) <= names[name] | {"le"}, query
    shown = [target["legendFormat"] for panel in panels for target in panel["targets"]]
    for query, legend in zip(queries, shown, strict=False):
        grouped = set(re.findall(r"\w+", " ".join(re.findall(r"by \(([^)]*)\)", query)))) or {"instance"}
        assert set(re.findall(r"{{(\w+)}}", legend)) <= grouped | {"instance"}, query
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [panel["gridPos"] for panel in panels]
    taken = [(x, y) for p in places for x in range(p["x"], p["x"] + p["w"]) for y in range(p["y"], p["y"] + p["h"])]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < 24


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--every", "0 s"], "--every: '0 s' is not a time from 1 s to 8760 h"),
        (["--every", "soon"], "--every"),
        (["--webhook", "example.org"], "--webhook is 'example.org'"),
        (["--metrics", "host:port"], "--metrics: 'port' is not a port from 0 to 65535"),
        (["no-such-plan"], "no-such-plan"),
    ],
)
def test_bad_options_are_refused_before_a_store_is_made(
    words: list[str], message: str, tmp_path: Path, fake: Any, lab_command: Callable[..., Any]
) -> None:
    done = lab_command("watch", "--binary", fake.path, "--store", tmp_path / "store", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert not (tmp_path / "store").exists()


@pytest.mark.fault
def test_rounds_are_processes_of_their_own_and_a_restart_goes_on(
    tmp_path: Path, fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store"
    words = ["watch", "--binary", str(fake.path), "--store", str(store), "--every", "1 s"]
    first = CliRunner().invoke(app, [*words, "--rounds", "1"])
    assert (first.exit_code, first.stdout.splitlines()[0]) == (0, "1 round measured; no alert.")
    assert first.stdout.splitlines()[1].startswith("All changes: vtare compare --over-time ")
    assert CliRunner().invoke(app, [*words, "--rounds", "1"]).exit_code == 0
    found = over_time(store)
    assert {len(one.values) for one in found.series} == {2}
    keys = {(one.key.experiment, one.key.figure) for one in found.series}
    assert ("sleep", "median") in keys
    shown = CliRunner().invoke(app, ["compare", "--over-time", str(store), "--json", "--fail-on-regression"])
    assert shown.exit_code == 0
    made = json.loads(shown.output)
    assert made["schema"] == "vtare.over_time/1"
    assert all(one["n"] == 2 for one in made["series"])
    page = CliRunner().invoke(app, ["report", str(store)])
    assert page.exit_code == 0
    assert "Not known yet: a change needs 13 rounds, 2 are there." in (store / "report.html").read_text()
    # Each round is an ordinary store for as long as it is kept.
    assert CliRunner().invoke(app, ["status", str(round_place(store, 0))]).exit_code == 0


def test_a_change_for_the_worse_is_an_exit_code(tmp_path: Path) -> None:
    filled(tmp_path / "store", 70, 50)
    words = ["compare", "--over-time", str(tmp_path / "store")]
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0
    assert shown.output.startswith("Yes: by its last change 1 of 2 figures is worse, 1 unchanged.")
    assert "changed there: kernel 6.1 -> 6.2" in shown.output
    assert CliRunner().invoke(app, [*words, "--fail-on-regression"]).exit_code == 1
    assert CliRunner().invoke(app, [*words, "--fail-on-regression", "--margin", "60"]).exit_code == 0


def test_the_page_answers_by_the_last_change_of_each_figure(tmp_path: Path) -> None:
    filled(tmp_path / "store", 70, 50)
    found = over_time(tmp_path / "store")
    shown = page(tmp_path / "store", found).replace(NO_BREAK, " ")
    assert "<span>Yes: by its last change 1 of 2 figures is worse, 1 unchanged.</span>" in shown
    change = found.changes[0]
    assert f"(+{100 * (change.ratio - 1):.3g} %) since 2026-" in shown
    assert "kernel 6.1 to 6.2" in shown
    # Where the level fell back, the last change counts.
    back = replace(found, changes=(change, replace(change, before=change.after, after=change.before)))
    assert answer(back) == "No: by its last change none of 2 figures is worse, 1 better, 1 unchanged."
    assert answer(replace(found, changes=())) == "No: none of 2 figures changed its level in 70 rounds."
