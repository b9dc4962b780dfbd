"""What well-known benchmark programs write, as readings: all benchmarks of a document, with their units."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from vtare.ab.json_figures import kind, mean_of, member, members, number_of, numbers_of, parse_json, text_of
from vtare.ab.readings import NoReading, Number, Reading, ReadingUnit, read_number, read_unit, with_unit
from vtare.ab.text_figures import without_escapes
from vtare.stored.paths import plain_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_SECOND: Final = ReadingUnit("ns", 1e9, False)
_PERCENT: Final = ReadingUnit("%", 1.0, None)


def _reading(name: str, number: Number, unit: ReadingUnit) -> Reading:
    return with_unit([(number, unit)], name)


def _rows(document: Any, key: str | None = None) -> list[dict[str, Any]]:
    """The objects of a list that is the document, or a member of it."""
    rows = members(document, key) if key is not None else document
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise NoReading(f"the benchmarks are {kind(rows)}, not a list of objects")
    if not rows:
        raise NoReading("the list of benchmarks is empty")
    return rows


def _pyperf(printed: str) -> list[Reading]:
    document = parse_json(printed)
    shared = document.get("metadata", {}) if isinstance(document, dict) else {}
    readings = []
    for benchmark in _rows(document, "benchmarks"):
        own = benchmark.get("metadata", {})
        about = {**(shared if isinstance(shared, dict) else {}), **(own if isinstance(own, dict) else {})}
        values = [number for run in _rows(benchmark, "runs") if "values" in run
                  for number in numbers_of(run["values"], "values")]  # fmt: skip
        if not values:
            raise NoReading("no run of the benchmark has values")
        unit = {"second": _SECOND, "byte": ReadingUnit("B", 1.0, False), "integer": ReadingUnit()}.get(
            text_of(about, "unit", "second")
        )
        if unit is None:
            raise NoReading(f"unknown unit '{about['unit']}'; pyperf has second, byte and integer")
        readings.append(_reading(text_of(about, "name", ""), mean_of(values), unit))
    return readings


def _hyperfine(printed: str) -> list[Reading]:
    return [
        _reading(text_of(row, "command", ""), number_of(member(row, "mean"), "mean"), _SECOND)
        for row in _rows(parse_json(printed), "results")
    ]


def _jmh(printed: str) -> list[Reading]:
    rows = _rows(parse_json(printed))
    modes = {text_of(row, "mode", "") for row in rows}
    readings = []
    for row in rows:
        metric = member(row, "primaryMetric")
        unit = read_unit(text_of(metric, "scoreUnit"))
        mode = text_of(row, "mode", "")
        if mode:
            unit = replace(unit, more_is_better=mode == "thrpt")
        parameters = row.get("params")
        given = [f"{key}={value}" for key, value in parameters.items()] if isinstance(parameters, dict) else []
        name = " ".join([text_of(row, "benchmark", ""), *map(plain_text, given), *([mode] if len(modes) > 1 else [])])
        readings.append(_reading(name.strip(), number_of(member(metric, "score"), "score"), unit))
    return readings


def _google_benchmark(printed: str) -> list[Reading]:
    rows: dict[tuple[str, Any], list[dict[str, Any]]] = {}
    for row in _rows(parse_json(printed), "benchmarks"):
        for mark, message in (("error_occurred", "error_message"), ("skipped", "skip_message")):
            if row.get(mark) is True:
                about = text_of(row, message, "") or text_of(row, "error_message", "")
                raise NoReading(f"benchmark '{text_of(row, 'name', '')}' reports: {about or 'it was skipped'}")
        # Two benchmarks may have one name: repetitions of one are of the same family.
        own = text_of(row, "run_name", text_of(row, "name", "")), str(row.get("family_index"))
        rows.setdefault(own, []).append(row)
    return [_of_repetitions(name, some) for (name, _), some in rows.items() if not _is_complexity(some)]


def _is_complexity(rows: Sequence[dict[str, Any]]) -> bool:
    """Whether these are coefficients of a fit over sizes, and no times."""
    return all(row.get("aggregate_name") in ("BigO", "RMS") for row in rows)


def _of_repetitions(name: str, rows: Sequence[dict[str, Any]]) -> Reading:
    """The mean of the repetitions; where only aggregates were written, their mean, else their median."""
    single = [row for row in rows if row.get("run_type", "iteration") == "iteration"]
    for aggregate in ("mean", "median"):
        single = single or [row for row in rows if row.get("aggregate_name") == aggregate]
    if not single:
        written = ", ".join(str(row.get("aggregate_name")) for row in rows)
        raise NoReading(f"benchmark '{name}' has neither repetitions nor a mean, only {plain_text(written)}")
    numbers = []
    for row in single:
        unit = read_unit(text_of(row, "time_unit", "ns"))
        if unit.symbol != "ns":
            raise NoReading(f"benchmark '{name}' has the unknown time unit '{text_of(row, 'time_unit')}'")
        time = number_of(member(row, "real_time"), "real_time")
        numbers.append(Number(time.value * unit.factor, time.step * unit.factor))
    return _reading(name, mean_of(numbers), ReadingUnit("ns", 1.0, False))


def _pytest_benchmark(printed: str) -> list[Reading]:
    return [
        _reading(
            text_of(row, "fullname", text_of(row, "name", "")), number_of(member(member(row, "stats"), "mean"), "mean"),
            _SECOND,
        )
        for row in _rows(parse_json(printed), "benchmarks")
    ]  # fmt: skip


def _criterion(printed: str) -> list[Reading]:
    """`estimates.json`, `sample.json`, the lines of `cargo criterion --message-format=json`, or what it prints."""
    if re.search(r'^\s*\{"reason"', printed, re.MULTILINE):
        return _cargo_criterion(printed)
    if shown := _criterion_text(without_escapes(printed)):
        return shown
    document = parse_json(printed)
    if isinstance(document, dict) and "mean" in document:
        return [_reading("", number_of(member(document["mean"], "point_estimate"), "point_estimate"), _NANOSECOND)]
    times = numbers_of(member(document, "times"), "times")
    turns = numbers_of(member(document, "iters"), "iters")
    if len(times) != len(turns) or any(turn.value <= 0 for turn in turns):
        raise NoReading(f"{len(times)} times do not match {len(turns)} numbers of iterations, each above 0")
    per_turn = [Number(t.value / k.value, t.step / k.value) for t, k in zip(times, turns, strict=True)]
    return [_reading("", mean_of(per_turn), _NANOSECOND)]


_NANOSECOND: Final = ReadingUnit("ns", 1.0, False)
#: The name, which has a line of its own where it is long, and the estimate between its bounds.
_CRITERION_TIME: Final = re.compile(r"^(\S.*?)?\s+time:\s+\[\S+ \S+ (\S+) (\S+) \S+ \S+\]")


def _criterion_text(text: str) -> list[Reading]:
    readings, before = [], ""
    for line in text.splitlines():
        if match := _CRITERION_TIME.match(line):
            readings.append(_reading(plain_text(match[1] or before), read_number(match[2]), read_unit(match[3])))
        before = line.strip()
    return readings


def _cargo_criterion(printed: str) -> list[Reading]:
    readings = []
    for line in printed.splitlines():
        if not line.lstrip().startswith("{"):
            continue
        row = parse_json(line)
        if isinstance(row, dict) and row.get("reason") == "benchmark-complete":
            mean = member(row, "mean")
            number = number_of(member(mean, "estimate"), "estimate")
            readings.append(_reading(text_of(row, "id"), number, read_unit(text_of(mean, "unit"))))
    if not readings:
        raise NoReading("there is no line with the reason 'benchmark-complete'")
    return readings


_GO_LINE: Final = re.compile(r"^(Benchmark\S*)\s+(\d+)\s+(\S.*)$")
#: How a benchmark says that it, or all of its package, failed or was left out.
_GO_FAILED: Final = re.compile(r"\s*--- (FAIL|SKIP): (Benchmark.*)|(panic: .*|FAIL\b.*|exit status .*)")


def _go(printed: str) -> list[Reading]:
    """The lines of `go test -bench`: name, number of turns, then each value with its unit."""
    values: dict[tuple[str, str, str], list[tuple[Number, ReadingUnit]]] = {}
    text = _go_text(without_escapes(printed))
    package, packages = "", {match.strip() for match in re.findall(r"^pkg: (.+)$", text, re.MULTILINE)}
    for line in text.splitlines():
        if failed := _GO_FAILED.match(line):
            how = "" if failed[3] else " was skipped" if failed[1] == "SKIP" else " failed"
            raise NoReading(f"the program reports: {plain_text(failed[3] or failed[2])[:100]}{how}")
        if re.match(r"\s+\d+\s+[\d.]+ ns/op", line):
            raise NoReading(f"the line {plain_text(line.strip())!r} has no name: the benchmark prints text of its own")
        if line.startswith("pkg: "):
            package = f"{line[5:].strip()} " if len(packages) > 1 else ""
        if (match := _GO_LINE.match(line)) is None:
            continue
        words = match[3].split()
        for number, symbol in zip(words[::2], words[1::2], strict=False):
            values.setdefault((package, match[1], symbol), []).append((read_number(number), read_unit(symbol)))
    if not values:
        raise NoReading(_without_lines(printed, "lines of benchmarks such as 'BenchmarkX-8 1000 321 ns/op'"))
    # The number of CPUs is behind all names or behind none; else it is part of them, or distinguishes them.
    processors = {re.search(r"(-\d+)?$", name)[0] for _, name, _ in values}  # type: ignore[index]
    shared = processors.pop() if len(processors) == 1 else ""
    return [
        _mean_reading(plain_text(f"{package}{name.removesuffix(shared)} {symbol}"), numbers)
        for (package, name, symbol), numbers in values.items()
    ]


def _go_text(text: str) -> str:
    """What the tests printed; with `-json` it is in pieces."""
    if not re.match(r'\s*\{"(Time|Action|ImportPath)"', text):
        return text
    rows = [parse_json(line) for line in text.splitlines() if line.lstrip().startswith("{")]
    return "".join(row["Output"] for row in rows if isinstance(row, dict) and isinstance(row.get("Output"), str))


def _mean_reading(name: str, numbers: Sequence[tuple[Number, ReadingUnit]]) -> Reading:
    reading = with_unit(numbers, name)
    return replace(reading, values=(math.fsum(reading.values) / len(reading.values),))


def _without_lines(printed: str, wanted: str) -> str:
    text = plain_text(printed.strip()[-200:])
    return f"there are no {wanted} in the output; it ends with: {text}" if text else "the output is empty"


def _iperf3(printed: str) -> list[Reading]:
    document = _iperf3_document(printed)
    if isinstance(document, dict) and isinstance(document.get("error"), str):
        raise NoReading(f"the program reports: {plain_text(document['error'])[:200]}")
    end = member(document, "end")
    rate = ReadingUnit("bit/s", 1.0, True)
    readings: list[Reading] = []
    for key, name in _IPERF3_SUMS:
        if any(one.name == name for one in readings):
            continue
        if isinstance(end, dict) and isinstance(end.get(key), dict) and "bits_per_second" in end[key]:
            readings.append(_reading(name, number_of(end[key]["bits_per_second"], "bits_per_second"), rate))
    datagrams = end.get("sum") if isinstance(end, dict) else None
    for key, name, unit in (("jitter_ms", "jitter", ReadingUnit("ns", 1e6, False)), ("lost_percent", "lost", _LOST)):
        if isinstance(datagrams, dict) and key in datagrams:
            readings.append(_reading(name, number_of(datagrams[key], key), unit))
    if not readings:
        member(end, "sum_received")
        raise NoReading("'end' has no sum with 'bits_per_second'")
    return readings


def _iperf3_document(printed: str) -> Any:
    """The document of `-J`; of `--json-stream` the end, or the error, in a line of its own."""
    if not re.match(r'\s*\{"event"', printed):
        return parse_json(printed)
    for line in printed.splitlines():
        row = parse_json(line) if line.strip() else None
        if isinstance(row, dict) and row.get("event") in ("end", "error"):
            return {row["event"]: row.get("data")}
    raise NoReading("there is no line with the event 'end'")


_IPERF3_SUMS: Final = (
    *(("sum_received", "received"), ("sum_sent", "sent"), ("sum", "received")),
    *(("sum_received_bidir_reverse", "received back"), ("sum_sent_bidir_reverse", "sent back")),
)
_LOST: Final = ReadingUnit("%", 1.0, False)
#: wrk writes sizes in units of 1024, as K, M and G.
_WRK_SIZES: Final = {"": 1.0, "K": 2.0**10, "M": 2.0**20, "G": 2.0**30, "T": 2.0**40}


def _wrk(printed: str) -> list[Reading]:
    """Requests and bytes a second, the mean latency, and its quantiles where `--latency` has them printed."""
    text = without_escapes(printed)
    readings = []
    if failed := re.search(r"^\s*((?:Non-2xx or 3xx responses|Socket errors): .*[1-9].*)$", text, re.MULTILINE):
        raise NoReading(f"the program reports: {plain_text(failed[1])}")
    if re.search(r"^\s*0 requests in ", text, re.MULTILINE):
        raise NoReading("the program reports: 0 requests")
    if rate := re.search(r"^Requests/sec:\s+(\S+)", text, re.MULTILINE):
        readings.append(_reading("requests", read_number(rate[1]), ReadingUnit("request/s", 1.0, True)))
    for name, number, unit in [
        *(("latency mean", *row) for row in re.findall(r"^\s+Latency\s+([\d.]+)([a-z]+)\s", text, re.MULTILINE)[:1]),
        *((f"latency p{float(share):g}", value, unit)
          for share, value, unit in re.findall(r"^\s+(\d+\.?\d*)%\s+([\d.]+)([a-z]+)\s*$", text, re.MULTILINE)),
    ]:  # fmt: skip
        readings.append(_reading(name, read_number(number), read_unit("min" if unit == "m" else unit)))
    if moved := re.search(r"^Transfer/sec:\s+([\d.]+)([KMGT]?)B", text, re.MULTILINE):
        readings.append(_reading("transfer", read_number(moved[1]), ReadingUnit("B/s", _WRK_SIZES[moved[2]], True)))
    if not readings or readings[0].name != "requests":
        raise NoReading(_without_lines(printed, "'Requests/sec:'"))
    return readings


#: Rows of single CPUs, cores, sockets, nodes or threads, and rows that begin with a time.
_PERF_PARTS: Final = re.compile(
    r"^\s*(?:CPU\d+|[NSC]\d+(?:-\w+)*|\S+-\d+)[,; ]\s*(?:\d+[,; ]\s*)?[\d.,<].*$"
    r"|^\s+\d+\.\d{9}\s+[\d.,<]+.*$|^\s*\d+\.\d{9}[,;][\d.<].*$|^.*\"interval\"\s*:.*$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class _Event:
    name: str
    value: str
    unit: str


def _perf_stat(printed: str) -> list[Reading]:
    """Events of `perf stat`: as text, with `-x,` or as JSON (`-j`); it prints on stderr: 2>&1."""
    text = without_escapes(printed)
    if match := _PERF_PARTS.search(text):
        raise NoReading(
            f"the line {plain_text(match[0].strip())!r} is of one CPU or one interval. Leave out -A, --per-... and -I"
        )
    events = [event for line in text.splitlines() if (event := _event(line)) is not None]
    if not events:
        raise NoReading(_without_lines(printed, "events of `perf stat` (it prints them on stderr: add 2>&1)"))
    readings = []
    for event in events:
        if event.value.startswith("<"):
            missing = f"perf reports '{plain_text(event.value.strip('<>'))}'"
            readings.append(Reading(plain_text(event.name), (), missing=missing))
            continue
        unit = read_unit(event.unit) if event.unit else ReadingUnit("", 1.0, None)
        readings.append(_reading(plain_text(event.name), read_number(event.value), unit))
    if not any(reading.values for reading in readings):
        raise NoReading(f"no event was counted: {readings[0].missing} for '{readings[0].name}'")
    return readings


def _event(line: str) -> _Event | None:
    if line.lstrip().startswith("{"):
        row = parse_json(line)
        if "event" not in row or "counter-value" not in row:
            return None
        return _Event(text_of(row, "event"), text_of(row, "counter-value"), text_of(row, "unit", ""))
    if match := re.match(r"([\d.]+|<[^>]+>),([^,]*),([^,]+),", line):
        return _Event(match[3], match[1], match[2])
    shown = re.match(r"\s+([\d.,\u202f]+|<[^>]+>)\s+(?:(msec|ns|Joules|MiB)\s+)?([A-Za-z][\w.:/=,-]*)(?:\s|$)", line)
    if shown and shown[3] != "seconds":
        return _Event(shown[3], _ungrouped(shown[1], counted=shown[2] is None), shown[2] or "")
    if elapsed := re.match(r"\s+(\S+) seconds (time elapsed|user|sys)", line):
        return _Event(elapsed[2], elapsed[1], "s")
    return None


def _ungrouped(text: str, *, counted: bool) -> str:
    """An event is counted in whole numbers, so that any sign in its count separates thousands."""
    if counted and re.fullmatch(r"\d{1,3}([.,\u202f]\d{3})+", text):
        return re.sub(r"\D", "", text)
    return re.sub(r",(?=\d{3})", "", text) if re.fullmatch(r"\d{1,3}(,\d{3})+\.\d+", text) else text


def _unique(readings: Iterable[Reading]) -> list[Reading]:
    unique: dict[str, Reading] = {}
    for one in readings:
        if one.name in unique:
            raise NoReading(f"two benchmarks are called '{one.name}'")
        unique[one.name] = one
    return list(unique.values())


_FORMATS: Final[dict[str, Callable[[str], list[Reading]]]] = {
    "criterion": _criterion,
    "go": _go,
    "google-benchmark": _google_benchmark,
    "hyperfine": _hyperfine,
    "iperf3": _iperf3,
    "jmh": _jmh,
    "perf-stat": _perf_stat,
    "pyperf": _pyperf,
    "pytest-benchmark": _pytest_benchmark,
    "wrk": _wrk,
}
FORMATS: Final = tuple(_FORMATS)


#: How a program is made to print its document, where it prints text for people else.
_HOW: Final = {
    "google-benchmark": "--benchmark_format=json",
    "hyperfine": "--export-json /dev/stdout --style none",
    "iperf3": "-J",
    "jmh": "-rf json -rff /dev/stdout -o /dev/null",
    "pyperf": "--output FILE, then `cat FILE`",
    "pytest-benchmark": "--benchmark-json=FILE, then `cat FILE`",
}


def read_format(name: str, printed: str) -> list[Reading]:
    """Return the readings of a document of one of `FORMATS`, at least one, each with a name of its own.

    Raises:
        NoReading: it is no such document, or it holds no figure, with the cause.
    """
    text = without_escapes(printed).lstrip("\ufeff \t\r\n")
    # iperf3 begins the lines of its streams with their number: [  5].
    if name in _HOW and text and not re.match(r'[{"]|\[(?! *\d+\] )', text):
        shown = plain_text(text.splitlines()[0].strip())[:80]
        raise NoReading(f"the output is no JSON: {shown!r}. Start the program with {_HOW[name]}")
    readings = _unique(_FORMATS[name](printed))
    if not readings:
        raise NoReading("there is no benchmark in the output")
    return readings
