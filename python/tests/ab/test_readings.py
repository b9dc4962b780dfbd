"""How `vtare ab` reads figures: whole numbers with unit and direction, or a refusal that names the cause."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from simulated_trials import measured

from vtare.ab.figures import Reader, judged_first, read_metric
from vtare.ab.formats import FORMATS
from vtare.ab.readings import LOCALES, NoReading, Reading, read_unit
from vtare.errors import BadInput

RECORDED = Path(__file__).parent / "benchmarks"
"""What the programs themselves wrote: pyperf 2.10, hyperfine 1.20, JMH 1.37, google-benchmark 1.7, criterion 0.8,
pytest-benchmark 5, go 1.26, iperf3 3.12, wrk 4.1, perf 6.1."""


def read(how: str, printed: str, *, locale: str | None = None) -> list[Reading]:
    return read_metric(f"m={how}", locale=locale).read(printed)


def value(how: str, printed: str, *, locale: str | None = None) -> float:
    (reading,) = read(how, printed, locale=locale)
    (found,) = reading.values
    return found


@pytest.mark.parametrize(
    ("unit", "symbol", "factor", "more_is_better"),
    [
        ("ns", "ns", 1, False), ("us", "ns", 1e3, False), ("µs", "ns", 1e3, False), ("μs", "ns", 1e3, False),
        ("ms", "ns", 1e6, False), ("msec", "ns", 1e6, False), ("s", "ns", 1e9, False), ("seconds", "ns", 1e9, False),
        ("min", "ns", 60e9, False), ("h", "ns", 3600e9, False), ("ns/op", "ns", 1, False), ("us/op", "ns", 1e3, False),
        ("ops/s", "op/s", 1, True), ("ops/ms", "op/s", 1e3, True), ("Mops/s", "op/s", 1e6, True),
        ("kB", "B", 1e3, None), ("KiB", "B", 1024, None), ("MiB/s", "B/s", 2**20, True), ("MB/s", "B/s", 1e6, True),
        ("Mbit/s", "bit/s", 1e6, True), ("Gbits/sec", "bit/s", 1e9, True), ("Mbps", "bit/s", 1e6, True),
        ("B/op", "B", 1, False), ("allocs/op", "allocs/op", 1, False), ("Requests/sec", "Requests/s", 1, True),
        ("k", "", 1e3, None), ("M", "", 1e6, None), ("Ki", "", 1024, None), ("%", "%", 1, None), ("", "", 1, None),
        ("GHz", "Hz", 1e9, None), ("turns", "turns", 1, None),
    ],
)  # fmt: skip
def test_units_are_converted_and_state_which_direction_is_better(
    unit: str, symbol: str, factor: float, more_is_better: bool | None
) -> None:
    found = read_unit(unit)
    assert (found.symbol, found.factor, found.more_is_better) == (symbol, pytest.approx(factor), more_is_better)


@pytest.mark.parametrize(
    ("how", "printed", "wanted"),
    [
        ("rate=([0-9.]+) MB/s", "rate=1.5 MB/s\nrate=2.5 MB/s", 2.5e6),
        ("[0-9]+", "it took 12 turns", 12.0),
        (r"Latency +([\d.]+)", "Latency   635.91us", 635_910.0),
        (r"Latency +([\d.]+)", "Latency   1.02ms", 1_020_000.0),
        (r"took (.+)", "took 1.5 µs", 1500.0),
        (r"took (.+)", "took 1.5μs", 1500.0),
        (r"took (\S+)", "took \x1b[1;32m12.5\x1b[0m ms", 12.5e6),
        (r"took (\S+)", "\x1b]0;a title 7\x07took 12", 12.0),
        (r"(\d+) +cycles", "1_000_000 cycles".replace("_", ""), 1e6),
        (r"n=(\S+)", "n=1_000", 1000.0),
        (r"n=(\S+)", "n=1.5e3", 1500.0),
        (r"n=(\S+)", "n=-.5", -0.5),
        (r"n=(\d+)k", "n=5k", 5000.0),
        (r"([\d.]+k?) req/s", "12.5k req/s", 12_500.0),
        (r"rate ([\d.]+)", "rate 12.5 M bit/s", 12.5e6),
        (r"p50 (\d+) \d+", "p50 12 345", 12.0),
        (r"p50 (\d+)", "p50 12 3456", 12.0),
        (r"size (\S+)", "size 1.5 MiB", 1.5 * 2**20),
        (r"(?:left (\d+)|right)", "left 3 right", 3.0),
        ("json:results[0].mean", '{"results": [{"mean": 0.25}]}', 0.25),
        ("json:a.b[-1]", '\ufeff{"a": {"b": [1, 2]}}', 2.0),
        ("json:t", '{"t": "1.02ms"}', 1_020_000.0),
    ],
)
def test_a_figure_is_read_with_its_unit(how: str, printed: str, wanted: float) -> None:
    assert value(how, printed) == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("locale", "printed", "wanted"),
    [
        ("en", "1,234,567", 1_234_567.0), ("en", "12,112.5", 12_112.5), ("de", "12,112", 12.112),
        ("de", "1.234.567,8", 1_234_567.8), ("fr", "1\u202f234,5", 1234.5), ("ch", "1'234.5", 1234.5),
        ("en", "7", 7.0), ("de", "7", 7.0),
    ],
)  # fmt: skip
def test_separators_are_read_where_the_language_is_stated(locale: str, printed: str, wanted: float) -> None:
    assert value("took ([^ ]+) turns", f"took {printed} turns", locale=locale) == pytest.approx(wanted)


@pytest.mark.parametrize(("locale", "printed"), [("en", "12,11"), ("de", "1.23"), ("en", "1.234.567"), ("fr", "1,2,3")])
def test_groups_that_are_not_of_three_digits_are_refused(locale: str, printed: str) -> None:
    with pytest.raises(NoReading, match="not a number as a whole"):
        read("took (.+)", f"took {printed}", locale=locale)


@pytest.mark.parametrize(
    ("how", "printed", "cause"),
    [
        (r"([\d,]+) +instructions", "1,234,567 instructions", "'1,234,567' has a sign .* --locale"),
        (r"avg ([\d.,]+)", "avg 12,112 ms", "'12,112' has a sign"),
        (r"avg ([\d.']+)", "avg 12'112 ms", "has a sign"),
        (r"avg ([^m]+)", "avg 12\u202f112 ms", "has a sign"),
        (r"avg (\d+)", "avg 12,112 ms", "'12' is only a part of '12,112'"),
        (r"avg (\d+)", "avg 12.5 ms", "'12' is only a part of '12.5'"),
        (r"took (\d+)", "took 1 234 567 ms", "'1' is only a part of '1 234 567'"),
        (r"(\d+) ms", "took 1 234 ms", "'234' is only a part of '1 234'"),
        (r"n (\d+)", "n 0x1f", "'0' is only a part of '0x1f'"),
        (r"n (\d+)", "n 5e3", "'5' is only a part of '5e3'"),
        (r"(\d+) ms", "12,112 ms", "'112' is only a part of|'12,112'"),
        (r"real\s+(\d+)", "real 0m1.234s", "'0' is only a part of '0m1.234s'"),
        (r"real\s+(\S+)", "real 0m1.234s", "'0m1.234s' is not a number as a whole"),
        (r"t ([\d:.]+)", "t 1:02.30", "'1:02.30' is a time in minutes or hours"),
        (r"t (\d+)", "t 1:02.30", "'1' is only a part of '1:02.30'"),
        (r"t (\S+)", "t NaN", "'NaN' is no finite number"),
        (r"t (\S+)", "t -inf", "'-inf' is no finite number"),
        (r"t (\S+)", "t 1e400", "'1e400' is beyond the range"),
        (r"t (\S+)", "t " + "9" * 50_000, "has 50000 digits"),
        (r"t (\S+)", "t " + "9" * 390, "beyond the range"),
        (r"n (\d+)", "n 5 million", "followed by 'million'"),
        ("took ([0-9]+) ms", "it failed", "nothing in the output matches .* it ends with: it failed"),
        ("took ([0-9]+) ms", "  \n", "the output is empty"),
        ("took [0-9]+ turns", "took 12 turns", "'took 12 turns' is not a number as a whole"),
        ("all:t ([0-9]+)", "t 1 ms t 2 turns/s", "one run has readings in the unit 'ns' and in"),
        ("json:a.b", '{"a": {"c": 1, "d": 2}}', "there is no 'b' beside 'c', 'd'"),
        ("json:a", '{"x": 1,\n"a": }', "no valid JSON: .* in line 2"),
        ("json:a", "", "the output is empty"),
        ("json:a", '{"error": "no\x01 device"}', "no valid JSON"),
        ("json:a", '{"error": "no device"}', "the program reports: no device"),
        ("json:a", '{"a": true}', "'a' is true"),
        ("json:a", '{"a": {}}', "'a' is an object"),
        ("json:a[3]", '{"a": [1]}', "a is a list of 1 items, there is no '3'"),
        ("json:a", '{"a": NaN}', "'NaN' is no finite number"),
        ("json:a", '{"a": -Infinity}', "'-Infinity' is no finite number"),
        ("json:a", '{"a": 1e999}', "beyond the range"),
        ("json:a", '{"a": ' + "1" * 5000 + "}", "has 5000 digits"),
        ("json:a", "[" * 100_000, "nested too deep"),
        ("json:a", '{"a": "1:02"}', "a time in minutes"),
    ],
)
def test_what_is_no_whole_number_is_refused_with_the_cause(how: str, printed: str, cause: str) -> None:
    with pytest.raises(NoReading, match=cause):
        read(how, printed)


def test_an_expression_that_would_run_for_ever_does_not() -> None:
    # Python's own engine takes longer than the universe is old for these.
    for pattern in (r"(a+)+b([0-9])", r"(a|a)*b([0-9])", r"(.*a){30}([0-9])"):
        with pytest.raises(NoReading, match="nothing in the output"):
            read(pattern, "a" * 50_000)
    with pytest.raises(BadInput, match="look-around"):
        read_metric("m=(?=x)([0-9])")


@pytest.mark.parametrize("name", ["google_benchmark", "pytest", "jhm", "perf", "total"])
def test_an_unknown_format_is_no_regular_expression(name: str) -> None:
    with pytest.raises(BadInput, match=f"there is no format '{name}'") as caught:
        read_metric(f"m={name}")
    assert "google-benchmark, hyperfine" in str(caught.value)
    near = {"google_benchmark": "google-benchmark", "pytest": "pytest-benchmark", "jhm": "jmh", "perf": "perf-stat"}
    assert name not in near or f"Did you mean '{near[name]}'?" in str(caught.value)


def test_an_option_without_a_figure_is_refused() -> None:
    for wrong in ("t", "=x", "t=", "t=(", "t=json:"):
        with pytest.raises(BadInput, match="--metric"):
            read_metric(wrong)
    with pytest.raises(BadInput, match="--locale: 'it' is not known"):
        read_metric("t=([0-9]+)", locale="it")
    assert set(LOCALES) == {"en", "de", "fr", "ch"}


# What each program itself worked out, or what stands in its document.
WANTED = {
    "criterion-estimates": lambda text: json.loads(text)["mean"]["point_estimate"],
    "criterion-sample": lambda _: json.loads((RECORDED / "criterion-estimates.json").read_text())["mean"][
        "point_estimate"
    ],
    "google-benchmark": lambda text: next(
        row["real_time"] for row in json.loads(text)["benchmarks"] if row.get("aggregate_name") == "mean"
    ),
    "hyperfine": lambda text: 1e9 * sum(json.loads(text)["results"][0]["times"]) / 10,
    "jmh": lambda text: np.mean(json.loads(text)[0]["primaryMetric"]["rawData"]),
    "pyperf": lambda text: 1e9 * np.mean(
        [value for run in json.loads(text)["benchmarks"][0]["runs"][1:] for value in run["values"]]
    ),
    "pytest-benchmark": lambda text: 1e9 * json.loads(text)["benchmarks"][0]["stats"]["mean"],
    "go": lambda _: (188.3 + 192.1) / 2,
    "iperf3": lambda text: json.loads(text)["end"]["sum_received"]["bits_per_second"],
    "iperf3-udp": lambda text: json.loads(text)["end"]["sum_received"]["bits_per_second"],
    "wrk": lambda _: 2150.23,
    "perf-stat": lambda _: 0.65e6,
    "perf-stat-csv": lambda _: 0.48e6,
    "perf-stat-json": lambda _: 533_261.0,
}  # fmt: skip
MORE_IS_BETTER = {"iperf3", "iperf3-udp", "wrk"}


@pytest.mark.parametrize("name", sorted(WANTED))
def test_what_benchmark_programs_wrote_is_read_with_its_unit(name: str) -> None:
    how = next(known for known in sorted(FORMATS, key=len, reverse=True) if name.startswith(known))
    (file,) = RECORDED.glob(f"{name}.*")
    readings = read(how, file.read_text())
    assert readings[0].values[0] == pytest.approx(WANTED[name](file.read_text()))
    assert readings[0].more_is_better is (name in MORE_IS_BETTER)
    assert len({reading.name for reading in readings}) == len(readings)
    assert name == "perf-stat" or all(reading.step > 0 for reading in readings if reading.values)


def test_every_recorded_document_is_used() -> None:
    assert {file.stem for file in RECORDED.iterdir()} == {*WANTED, "go-failed", "iperf3-refused"}


def test_all_benchmarks_of_a_document_become_figures() -> None:
    go = {one.name: one for one in read("go", (RECORDED / "go.txt").read_text())}
    assert list(go)[:5] == [
        "m BenchmarkFib10 ns/op", "m BenchmarkCopy ns/op", "m BenchmarkCopy MB/s", "m BenchmarkCopy B/op",
        "m BenchmarkCopy allocs/op",
    ]  # fmt: skip
    assert (go["m BenchmarkCopy MB/s"].unit, go["m BenchmarkCopy MB/s"].more_is_better) == ("B/s", True)
    wrk = {one.name: one.values[0] for one in read("wrk", (RECORDED / "wrk.txt").read_text())}
    assert wrk == {
        "m requests": 2150.23, "m latency mean": 1.08e6, "m latency p50": 460e3, "m latency p75": 1.43e6,
        "m latency p90": 2.98e6, "m latency p99": 4.63e6, "m transfer": 1.83 * 2**20,
    }  # fmt: skip
    udp = {one.name: one.more_is_better for one in read("iperf3", (RECORDED / "iperf3-udp.json").read_text())}
    assert udp["m jitter"] is udp["m lost"] is False
    events = {one.name: one for one in read("perf-stat", (RECORDED / "perf-stat.txt").read_text())}
    assert (events["m page-faults"].values, events["m cycles"].values) == ((50.0,), ())
    assert events["m time elapsed"].values == (pytest.approx(87_077_763.0),)
    assert "not supported" in events["m cycles"].missing
    assert len(read("pytest-benchmark", (RECORDED / "pytest-benchmark.json").read_text())) == 2


def google(*rows: dict[str, object]) -> str:
    usual = {"name": "BM_x", "run_name": "BM_x", "run_type": "iteration", "real_time": 900, "time_unit": "us"}
    return json.dumps({"context": {}, "benchmarks": [{**usual, **row} for row in rows]})


def jmh(score: object, unit: str, mode: str = "avgt") -> str:
    return json.dumps([{"benchmark": "o.m", "mode": mode, "primaryMetric": {"score": score, "scoreUnit": unit}}])


def test_formats_convert_by_their_unit_and_take_the_direction_from_it() -> None:
    assert value("google-benchmark", google({})) == 900e3
    assert value("google-benchmark", google({"real_time": 1.1, "time_unit": "ms"})) == pytest.approx(1.1e6)
    assert value("google-benchmark", google({"real_time": 0.5, "time_unit": "s"})) == 0.5e9
    assert value("jmh", jmh(1.1, "us/op")) == pytest.approx(1100.0)
    (rate,) = read("jmh", jmh(2.5, "ops/us", "thrpt"))
    assert (rate.values, rate.unit, rate.more_is_better) == ((2.5e6,), "op/s", True)
    (sampled,) = read("jmh", jmh(2.5, "ms/op", "sample"))
    assert (sampled.values, sampled.more_is_better) == ((2.5e6,), False)
    pyperf = {"benchmarks": [{"metadata": {"name": "x", "unit": "byte"}, "runs": [{"values": [7, 9]}]}]}
    (memory,) = read("pyperf", json.dumps(pyperf))
    assert (memory.values, memory.unit, memory.more_is_better) == ((8.0,), "B", False)
    lines = '{"reason":"other"}\n{"reason":"benchmark-complete","id":"g/x","mean":{"estimate":1.5,"unit":"us"}}\n'
    assert value("criterion", lines) == 1500.0


def test_repetitions_are_averaged_and_aggregates_are_enough() -> None:
    assert value("google-benchmark", google({"real_time": 1}, {"real_time": 3})) == 2e3
    mean = {"run_type": "aggregate", "name": "BM_x_mean", "aggregate_name": "mean", "real_time": 7}
    spread = {"run_type": "aggregate", "name": "BM_x_cv", "aggregate_name": "cv", "real_time": 0.01}
    assert value("google-benchmark", google(mean, spread)) == 7e3
    assert value("google-benchmark", google({**mean, "aggregate_name": "median"}, spread)) == 7e3
    assert value("google-benchmark", google({"real_time": 1}, mean)) == 1e3
    with pytest.raises(NoReading, match="has neither repetitions nor a mean, only cv"):
        read("google-benchmark", google(spread))


@pytest.mark.parametrize(
    ("how", "printed", "cause"),
    [
        ("google-benchmark", google({"error_occurred": True, "error_message": "no device"}), "reports: no device"),
        ("google-benchmark", google({"skipped": True, "skip_message": "needs root"}), "'BM_x' reports: needs root"),
        ("google-benchmark", google({"real_time": float("nan")}), "'NaN' is no finite number"),
        ("google-benchmark", google({"time_unit": "turns"}), "the unknown time unit 'turns'"),
        ("google-benchmark", '{"benchmarks": []}', "'benchmarks' is empty"),
        ("jmh", jmh("NaN", "us/op"), "'score' is the text 'NaN'"),
        ("jmh", "[]", "the list of benchmarks is empty"),
        ("jmh", "{}", "the benchmarks are an object, not a list of objects"),
        ("pyperf", '{"benchmarks": [{"runs": [{"warmups": []}]}]}', "no run of the benchmark has values"),
        ("hyperfine", '{"results": [{"command": "x", "mean": null}]}', "'mean' is null"),
        ("pytest-benchmark", '{"benchmarks": [{"name": "x"}]}', "there is no 'stats' beside 'name'"),
        ("iperf3", (RECORDED / "iperf3-refused.json").read_text(), "reports: unable to connect to server"),
        ("iperf3", '{"end": {"streams": []}}', "there is no 'sum_received' beside 'streams'"),
        ("go", (RECORDED / "go-failed.txt").read_text(), "BenchmarkBroken failed"),
        ("go", "PASS\nok  x 0.1s\n", "no lines of benchmarks .* it ends with: PASS"),
        ("wrk", "unable to connect to 127.0.0.1:1 Connection refused", "no 'Requests/sec:' .* Connection refused"),
        ("perf-stat", "   <not supported>      cycles\n", "no event was counted: perf reports 'not supported'"),
        ("perf-stat", "hello", "add 2>&1"),
        ("criterion", '{"times": [1], "iters": [0]}', "1 times do not match 1 numbers of iterations, each above 0"),
        *((name, "", "the output is empty") for name in FORMATS if name != "perf-stat"),
        *((name, '{"x": [1, "a", null]}', f"no figure in the format {name}") for name in FORMATS),
        *((name, "[[[1]]]", f"no figure in the format {name}") for name in FORMATS),
        *((name, '"text"', f"no figure in the format {name}") for name in FORMATS),
    ],
)  # fmt: skip
def test_a_document_without_a_figure_is_refused_with_the_cause(how: str, printed: str, cause: str) -> None:
    with pytest.raises(NoReading, match=cause):
        read(how, printed)


WRK = """Running 10s test @ http://127.0.0.1
    Latency   635.91us    0.89ms  12.92ms   93.69%
  {requests} requests in 10.00s, 17.76GB read
{more}Requests/sec: {rate}
Transfer/sec:    606.33MB
"""


@pytest.mark.parametrize(
    ("how", "printed", "wanted"),
    [
        ("go", "BenchmarkX 9 10 ns/op\nBenchmarkX-2 9 20 ns/op\n", {"BenchmarkX ns/op": 10, "BenchmarkX-2 ns/op": 20}),
        (
            "go",
            "BenchmarkX/size-64 9 10 ns/op\nBenchmarkX/size-128 9 20 ns/op\n",
            {"BenchmarkX/size-64 ns/op": 10, "BenchmarkX/size-128 ns/op": 20},
        ),
        (
            "go",
            "BenchmarkX/size-64-8 9 10 ns/op\nBenchmarkX/size-128-8 9 20 ns/op\n",
            {"BenchmarkX/size-64 ns/op": 10, "BenchmarkX/size-128 ns/op": 20},
        ),
        (
            "go",
            '{"Time":"2026-11-28","Action":"output","Output":"BenchmarkX-2 \\t"}\n'
            '{"Action":"output","Output":"     100\\t        10 ns/op\\n"}\n{"Action":"pass"}\n',
            {"": 10},
        ),
        (
            "iperf3",
            '{"event":"start","data":{}}\n{"event":"interval","data":{}}\n'
            '{"event":"end","data":{"sum_sent":{"bits_per_second":5},"sum_received":{"bits_per_second":4}}}\n',
            {"received": 4, "sent": 5},
        ),
        (
            "iperf3",
            json.dumps(
                {"end": {name: {"bits_per_second": rate} for rate, name in enumerate(
                    ("sum_sent", "sum_received", "sum_sent_bidir_reverse", "sum_received_bidir_reverse"), start=1)}}
            ),
            {"received": 2, "sent": 1, "received back": 4, "sent back": 3},
        ),
        (
            "criterion",
            "fib 20                  time:   [25.1 µs 26.5 µs 27.0 µs]\n"
            "                        change: [-1.0% +0.1% +1.2%] (p = 0.90 > 0.05)\n"
            "a_name_that_has_a_line_of_its_own\n                        time:   [1.1 ms 1.5 ms 1.9 ms]\n",
            {"fib 20": 26_500, "a_name_that_has_a_line_of_its_own": 1.5e6},
        ),
        (
            "perf-stat",
            "      1,234      L1-dcache-loads\n      2,000      LLC-loads:u    #  1.0 M/sec\n",
            {"L1-dcache-loads": 1234, "LLC-loads:u": 2000},
        ),
        (
            "google-benchmark",
            google({"run_name": "a/threads:2"}, {"run_name": "b", "time_unit": "s"}),
            {"a/threads:2": 900e3, "b": 900e9},
        ),
    ],
)  # fmt: skip
def test_other_ways_in_which_programs_write_are_read(how: str, printed: str, wanted: dict[str, float]) -> None:
    found = {one.name.removeprefix("m").lstrip(): one.values[0] for one in read(how, printed)}
    assert found == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("how", "printed", "cause"),
    [
        ("go", "BenchmarkX-8 hello\n    1000\t 321 ns/op\nBenchmarkY-8 9 5 ns/op\n", "prints text of its own"),
        ("go", "BenchmarkY-8 9 5 ns/op\npanic: index out of range\nexit status 2\n", "reports: panic: index"),
        ("go", "BenchmarkY-8 9 5 ns/op\nFAIL\texample.com/x 1.2s\n", "reports: FAIL"),
        ("wrk", WRK.format(requests=9, rate=7, more="  Non-2xx or 3xx responses: 12\n"), "Non-2xx .* 12"),
        (
            "wrk",
            WRK.format(requests=9, rate=7, more="  Socket errors: connect 0, read 5, write 0, timeout 0\n"),
            "Socket errors: connect 0, read 5",
        ),
        ("wrk", WRK.format(requests=0, rate="0.00", more=""), "reports: 0 requests"),
        ("perf-stat", "CPU0       1,234      cycles\n      0.001 seconds time elapsed\n", "of one CPU or one interval"),
        ("perf-stat", "S0-D0-C1     2      1,234      cycles\n", "of one CPU or one interval"),
        ("perf-stat", "CPU0,1234,,cycles,1,100.00,,\n7,,faults,1,100.00,,\n", "of one CPU or one interval"),
        ("perf-stat", "     1.000123456      12.34 msec task-clock\n", "of one CPU or one interval"),
        ("perf-stat", "1.000123456,12.34,msec,task-clock,1,100.00,,\n", "of one CPU or one interval"),
        ("perf-stat", '{"interval" : 1.0, "counter-value" : "7", "event" : "cycles"}', "of one CPU or one interval"),
        ("iperf3", '{"event":"start","data":{}}\n{"event":"error","data":"no route"}\n', "reports: no route"),
        ("iperf3", "[  5]   0.00-1.00   sec  1.1 GBytes  9.4 Gbits/sec    0   sender\n", "Start the program with -J"),
        ("hyperfine", "Benchmark 1: sleep 0.1\n  Time (mean):  103.1 ms\n", "Start the program with --export-json"),
        ("hyperfine", "command,mean,stddev\nsleep,1.0,0\n", "no JSON: 'command,mean,stddev'"),
        ("jmh", "Benchmark  Mode  Cnt  Score\nB.m  avgt  5  1.2\n", "Start the program with -rf json"),
        ("google-benchmark", '\x1b[32mBM_x\x1b[0m   900 ns', "no JSON: 'BM_x   900 ns'"),
        ("google-benchmark", "name,iterations,real_time\n", "--benchmark_format=json"),
        (
            "google-benchmark",
            google({"family_index": 0}, {"family_index": 1, "real_time": 7}),
            "two benchmarks are called 'BM_x'",
        ),
        ("pyperf", "startup: Mean +- std dev: 8.1 ms +- 0.5 ms\n", "Start the program with --output"),
        ("pytest-benchmark", "Name (time in us)     Min      Max\n", "--benchmark-json"),
    ],
)  # fmt: skip
def test_parts_and_failures_of_other_ways_are_refused_with_the_cause(how: str, printed: str, cause: str) -> None:
    with pytest.raises(NoReading, match=cause):
        read(how, printed)


def test_two_benchmarks_of_one_name_are_refused() -> None:
    twice = json.dumps({"results": [{"command": "x", "mean": 1.0}, {"command": "x", "mean": 2.0}]})
    with pytest.raises(NoReading, match="two benchmarks are called 'x'"):
        read("hyperfine", twice)


def test_runs_must_have_the_same_figures_in_the_same_units() -> None:
    def pyperf(*names: str) -> str:
        return json.dumps(
            {"benchmarks": [{"metadata": {"name": name}, "runs": [{"values": [len(name)]}]} for name in names]}
        )

    reader = Reader([read_metric("t=pyperf")])
    first = reader.read(pyperf("a", "bbb"), "A")
    second = reader.read(pyperf("bbb", "a"), "B")
    assert {name: one.values for name, one in first.items()} == {name: one.values for name, one in second.items()}
    with pytest.raises(BadInput, match="'t bbb' is in the output of A, but not of B"):
        reader.read(pyperf("a", "c"), "B")
    with pytest.raises(BadInput, match="'t c' is in the output of B, but not of A"):
        reader.read(pyperf("a", "bbb", "c"), "B")
    reader = Reader([read_metric("rate=rate (.+)")])
    reader.read("rate 12 kfoo/s".replace("kfoo", "kops"), "A")
    reader.read("rate 900 ops/s", "B")
    with pytest.raises(BadInput, match="A printed it with the unit 'op/s', B with no unit"):
        reader.read("rate 900", "B")
    reader = Reader([read_metric(r"rate=rate ([\d.]+)")])
    reader.read("rate 1.2 Mfoo/s", "A")
    with pytest.raises(BadInput, match="the unit 'Mfoo/s', B with the unit 'kfoo/s'"):
        reader.read("rate 900 kfoo/s", "B")


def test_two_figures_of_one_name_are_refused() -> None:
    for texts in (("t=([0-9]+) a", "t=([0-9]+) b"), ("wall time=([0-9]+) a",)):
        with pytest.raises(BadInput, match=r"there are two figures '(t|wall time)'"):
            Reader([read_metric(text) for text in texts]).read("7 a 8 b", "A")


def test_readings_of_a_run_become_its_median_and_its_tails() -> None:
    def run(count: int) -> tuple[Reader, object]:
        reader = Reader([read_metric("rtt=all:rtt ([0-9.]+)")])
        found = reader.read("\n".join(f"rtt {number}" for number in range(1, count + 1)), "A")
        return reader, measured(1.0, readings=found)

    reader, long = run(301)
    figures = reader.figures()
    assert [figure.name for figure in figures] == ["rtt median", "rtt p90", "rtt p99"]
    assert [figure.read(long) for figure in figures] == [151.0, 271.0, pytest.approx(298.0)]  # type: ignore[arg-type]
    short = run(100)[1]
    assert [figure.read(short) is None for figure in figures] == [False, False, True]  # type: ignore[arg-type]
    assert figures[2].hidden([long, short]) == "needs 299 readings a run, not 100"  # type: ignore[list-item]
    assert read("json:p99", '{"p99": null}')[0].values == ()
    # A lost packet is null, and no reading.
    assert read("json:runs[*].ns[*]", '{"runs": [{"ns": [1, null, 3]}, {"ns": [8]}]}')[0].values == (1.0, 3.0, 8.0)


def test_the_judged_figure_is_named_by_its_own_name() -> None:
    reader = Reader([read_metric("b=go")])
    reader.read((RECORDED / "go.txt").read_text(), "A")
    figures = reader.figures()
    assert judged_first(None, figures)[0].name == "b BenchmarkFib10 ns/op"
    assert judged_first("BenchmarkCopy MB/s", figures)[0].name == "b BenchmarkCopy MB/s"
    with pytest.raises(BadInput, match="there is no figure 'copy'"):
        judged_first("copy", figures)
