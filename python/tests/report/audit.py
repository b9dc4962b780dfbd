"""Check the first screen of a report against its store, without any code of vtare.

    python audit.py STORE REPORT.md

Looks for what a first screen must not do: take a bound for a value, mix figures of different readings in a row, compare
a level that was not reached, hide disturbed, void, unsent or failed readings, count intervals that exclude nothing, and
contradict the line next to it. Every number of the page is recomputed by `independent_inference.py` beside it. Prints
each finding; the exit code is 1 if there is one.
"""

from __future__ import annotations

import json
import re
import sqlite3
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import independent_inference as inference
import numpy as np
import polars as pl

PARTS = {**{name: (part,) for name, part in inference.PARTS.items()}, "path": ("direction", "load_percent")}
READINGS = {**inference.READINGS, "throughput": "throughput_packet_per_s", "path": "added_ns"}
#: Columns that mark a reading as a lower bound, and metrics of the page that are medians of such readings.
MARKS = ("at_least", "censored")
MEDIANS = ("throughput", "available", "added")
#: What the page calls a flaw.
WORDS = {"disturbed": "were disturbed", "unanswered": "gave no answer", "void": "were void",
         "unsent": "were never sent", "failed": "failed or were skipped", "open": "exclude nothing"}  # fmt: skip
HIDES, MENTIONED, REACHED, OTHERS, LEAST_RUNS = 0.5, 0.1, 0.95, 0.1, 4


@dataclass
class RawCell:
    """A cell as its files have it: which runs give only a bound of the median, flaws, and what was achieved."""

    experiment: str
    instrument: str
    labels: dict[str, str]
    bounded: list[bool] = field(default_factory=list)
    medians: list[float] = field(default_factory=list)
    flaws: dict[str, list[float]] = field(default_factory=dict)
    achieved: list[float] = field(default_factory=list)
    intervals: int = 0

    def count(self, flaw: str, count: float, total: float) -> None:
        """Add readings with a flaw, of how many."""
        found = self.flaws.setdefault(flaw, [0.0, 0.0])
        found[0] += count
        found[1] += total

    def share(self, flaw: str) -> float:
        """The share of readings with a flaw."""
        count, total = self.flaws.get(flaw, (0.0, 0.0))
        return count / total if total else 0.0

    @property
    def is_short(self) -> bool:
        """Whether its level was not reached."""
        return bool(self.achieved) and float(np.median(self.achieved)) < REACHED


def raw_cells(store: Path) -> list[RawCell]:
    """Every cell of a store from its design, journal, samples and footers."""
    ids = {"position", "block", "replicate", "run_id", "experiment", "instrument", "control", "parameters", "status"}
    with sqlite3.connect(f"file:{store / 'journal.sqlite'}?mode=ro", uri=True) as journal:
        status = dict(journal.execute("select run_id, status from runs"))
    cells: dict[tuple[Any, ...], RawCell] = {}
    for run in pl.read_parquet(store / "design.parquet").filter(pl.col("control").is_null()).to_dicts():
        factors = {key: str(value) for key, value in run.items() if key not in ids and value is not None}
        if factors.get("frame_byte", "").endswith("kB"):
            factors["frame_byte"] = f"{round(1000 * float(factors['frame_byte'].split()[0]))} B"
        place = store / "runs" / run["run_id"]
        for labels, rows, footer in _parts(run["instrument"], place, factors):
            key = (run["experiment"], *labels.items())
            cell = cells.setdefault(key, RawCell(run["experiment"], run["instrument"], labels))
            _add(cell, rows, footer, place)
        own = [cell for cell in cells.values() if cell.experiment == run["experiment"]
               and factors.items() <= cell.labels.items()]  # fmt: skip
        lost = status.get(run["run_id"]) in ("failed", "skipped")
        for cell in own or [cells.setdefault((run["experiment"], *factors.items()),
                                             RawCell(run["experiment"], run["instrument"], factors))]:  # fmt: skip
            if run["run_id"] in status:
                cell.count("failed", lost, 1)
    return list(cells.values())


def _parts(
    instrument: str, place: Path, factors: dict[str, str]
) -> Iterator[tuple[dict[str, str], pl.DataFrame, dict[str, Any]]]:
    path = place / "samples.parquet"
    if not path.exists():
        return
    footer = json.loads(pl.read_parquet_metadata(path)["vtare"])
    frame, names = pl.read_parquet(path), PARTS.get(instrument, ())
    for key, rows in frame.group_by(names, maintain_order=True) if names else [((), frame)]:
        yield {**factors, **{name: str(value) for name, value in zip(names, key, strict=True)}}, rows, footer


def _add(cell: RawCell, rows: pl.DataFrame, footer: dict[str, Any], place: Path) -> None:
    known = rows.filter(pl.col(READINGS[cell.instrument]).is_not_null())
    values = known[READINGS[cell.instrument]].to_numpy().astype(float)
    mark = next((name for name in MARKS if name in rows.columns), None)
    if len(values):
        marks = np.zeros(len(values), dtype=bool)
        if mark is not None:
            column = known[mark]
            marks = (column.fill_null(value=False) if column.dtype == pl.Boolean else column.is_not_null()).to_numpy()
        cell.medians.append(float(np.median(values)))
        cell.bounded.append(bool(np.median(np.where(marks, np.inf, values)) != np.median(values)))
    recorded = next(iter(footer["result"]["cells"]), {})
    if cell.instrument == "sleep" and cell.labels.get("load", "idle") == "idle":
        cell.count("disturbed", float(rows["disturbed"].sum()), rows.height)
    if cell.instrument == "throughput":
        trials, void = recorded["trials"], recorded["void_trials"]
        cell.count("disturbed", recorded["disturbed_trials"], trials)
        cell.count("void", void, trials + void)
        cell.count("unanswered", recorded["unanswered"], recorded["searches"])
    if cell.instrument == "rtt":
        unsent = rows["fate"].cast(pl.String).is_in(["too_late", "no_room"]).sum()
        cell.count("unsent", unsent, rows.height)
        asked = footer["run"]["parameters"].get("rate_packet_per_s")
        if asked and not footer["run"]["parameters"].get("flood"):
            cell.achieved.append(recorded["achieved_packet_per_s"] / asked)
    if cell.instrument == "avb":
        surroundings = place / "surroundings.json"
        others = json.loads(surroundings.read_text()).get("others_cores") if surroundings.exists() else 0.0
        cell.count("disturbed", rows.height if (others or 0.0) > OTHERS else 0, rows.height)
        cell.count("unanswered", rows.height - len(values), rows.height)
        if "capacity" not in cell.labels:
            # It changes: what an interval from 0 to all of it is, is in the link's own log.
            return
        capacity = 1e6 * float(cell.labels["capacity"].split()[0])
        whole = rows.filter(pl.col("low_bit_per_s").is_not_null() & pl.col("high_bit_per_s").is_not_null())
        says = whole.filter((pl.col("low_bit_per_s") > 0) | (pl.col("high_bit_per_s") < capacity)).height
        cell.intervals += says
        cell.count("open", whole.height - says, whole.height)


def audit(store: Path, text: str) -> list[str]:
    """Return what is wrong with the first screen of a report (Markdown) of a store, a line each."""
    text = re.sub(r"(?<=\d)[\u00a0\u2009\u202f](?=\d{3})", "", text).replace("\u00a0", " ").replace("\u202f", " ")
    text = text.replace("\\_", "_").replace("&lt;", "<").replace("&gt;", ">")
    cells = raw_cells(store)
    screen = text.partition("\n## What differs")[0].partition("\n## What does")[0]
    answer, _, limits = screen.partition("\n## What cannot be concluded")
    begins = re.compile(r"Not certain|All |The comparison is|There is no")
    sure = next((line for line in answer.splitlines() if begins.match(line)), "")
    rows = [row for heading, some in inference.tables(text) if heading.endswith("ain comparisons") for row in some]
    return [
        *_bounds(cells, rows, answer),
        *_mixed(answer),
        *_levels(cells, rows, answer, sure + limits),
        *_disturbance(cells, answer, sure, sure + limits, _sections(store, text)),
        *_intervals(cells, text),
        *_contradictions(text, sure),
        *(_numbers(store, text, cells)),
    ]


def _sides(cells: list[RawCell], row: dict[str, str]) -> list[tuple[RawCell, str]]:
    """The two cells of a row of the main table, each with what stands there."""
    own = [cell for cell in cells if row.get("experiment", cell.experiment) == cell.experiment]
    level, base = (re.sub(r" \([^)]* reached\)", "", row[side]).partition(": ")[0] for side in ("here", "against"))
    try:
        here, there = inference.two_cells(own, row["at"], level, base)  # type: ignore[arg-type]
    except LookupError:
        # Levels of a part of a run, such as an offered load, are not in the design.
        return []
    return [(here, row["here"]), (there, row["against"])]  # type: ignore[list-item]


def _bounds(cells: list[RawCell], rows: list[dict[str, str]], answer: str) -> Iterator[str]:
    for row in (row for row in rows if row["metric"] in MEDIANS):
        for cell, shown in _sides(cells, row):
            if not any(cell.bounded):
                continue
            if _is_decided(row, *(one for one, _ in _sides(cells, row))):
                continue
            if row["ratio (95 %)"][:1].isdigit() or row["verdict"].split()[0] != "inconclusive":
                yield f"bound used as value: {row['here']} against {row['against']}: {row['ratio (95 %)']}"
            if all(cell.bounded) and ": " in shown and "at least" not in shown:
                yield f"bound used as value: {shown}"
    prose = "\n".join(line for line in answer.splitlines() if not line.startswith("|"))
    only = [cell for cell in cells if cell.bounded and all(cell.bounded)]
    free = [value for cell in cells if cell not in only for value in [np.median(cell.medians or [np.nan])]]
    for match in re.finditer(r"(at least )?(\d[\d.]*) ([kMG]?(?:packet/s|bit/s))", prose):
        value = float(match.group(2)) * inference.SCALES.get(match.group(3), 1.0)
        hit = any(inference.close(value, float(np.median(cell.medians))) for cell in only)
        if hit and not match.group(1) and not any(inference.close(value, float(one)) for one in free) and (
            "are available" not in prose[match.end() : match.end() + 15]
            and not prose[: match.start()].endswith("traffic ")
        ):  # fmt: skip
            yield f"bound used as value: {match.group(0)} in the answer"


def _is_decided(row: dict[str, str], here: RawCell, there: RawCell) -> bool:
    """Whether a row claims what bounds of one side alone show: the other side is exact, and lies on the right side."""
    found = re.match(r"(at least|at most) (\d[\d.]*)", row["ratio (95 %)"])
    if found is None or inference.direction_of(row) != {"at least": "higher", "at most": "lower"}[found.group(1)]:
        return False
    bounded, exact = (here, there) if found.group(1) == "at least" else (there, here)
    # A marked reading is a least value: of the other side every run must be known.
    means = [float(np.exp(np.mean(np.log(cell.medians)))) for cell in (here, there)]
    return (
        any(bounded.bounded)
        and not any(exact.bounded)
        and inference.close(float(found.group(2)), means[0] / means[1])
        and (means[0] > means[1]) == (found.group(1) == "at least")
    )


def _mixed(answer: str) -> Iterator[str]:
    prose = " ".join(line for line in answer.splitlines() if not line.startswith("|"))
    time = r"(\d[\d.]*) (ns|\u00b5s|ms|s)\b"
    whole_text = re.findall(r"(?:round trip(?: \([^)]*\))? takes|it takes) (.*?)[.;](?: |$)", prose)
    parts = re.findall(rf"(\d[\d.]*) % or {time}", prose)
    if not parts or not whole_text:
        return
    plain = re.sub(r"\([^)]*\)", "", whole_text[-1])
    wholes = [float(value) * inference.SCALES[unit] for value, unit in re.findall(time, plain)]
    if len(wholes) != len(parts):
        yield f"mixed readings: {len(parts)} shares beside {len(wholes)} round trips"
    for (share, value, unit), whole in zip(parts, wholes, strict=False):
        made = 100 * float(value) * inference.SCALES[unit] / whole
        if abs(made - float(share)) > 0.012 * made:
            yield f"mixed readings: {share} % where {value} {unit} of {whole:g} ns are {made:.3g} %"


def _levels(cells: list[RawCell], rows: list[dict[str, str]], answer: str, said: str) -> Iterator[str]:
    short = [cell for cell in cells if cell.is_short]
    if not short:
        return
    if "not reached" not in said:
        yield "unreached level: the page does not name it"
    for row in rows:
        if any(cell.is_short for cell, _ in _sides(cells, row)) and row["ratio (95 %)"][:1].isdigit():
            yield f"unreached level compared: {row['here']} against {row['against']}"
    for label in {cell.labels.get("rate_packet_per_s") for cell in short} - {None}:
        if any(not cell.is_short and cell.labels.get("rate_packet_per_s") == label for cell in cells):
            continue
        for line in answer.splitlines():
            if f"{label}" in line and not line.startswith("Not certain") and "reached" not in line:
                yield f"unreached level named without what was achieved: {line[:90]}"


def _sections(store: Path, text: str) -> dict[str, str]:
    """What the page states of each experiment below its title, by its name."""
    plan = tomllib.loads((store / "plan.toml").read_text("utf-8"))
    names = {one.get("name", one["instrument"]): one.get("title") for one in plan["experiment"]}
    return {name: text.partition(f"\n## {title}\n")[2].partition("\n## ")[0] for name, title in names.items() if title}


def _disturbance(cells: list[RawCell], answer: str, sure: str, said: str, sections: dict[str, str]) -> Iterator[str]:
    measured = [cell for cell in cells if cell.medians]
    grave = [words for flaw, words in WORDS.items() if any(cell.share(flaw) >= HIDES for cell in measured)]
    # The box has room for two.
    if sum(words in sure for words in grave) < min(2, len(grave)):
        yield f"hidden disturbance: cells whose readings {' and '.join(grave)}, and the box says {sure[:90]}"
    for flaw, words in WORDS.items():
        worst = max((cell.share(flaw) for cell in measured), default=0.0)
        if worst > MENTIONED and words not in said:
            yield f"hidden disturbance: {worst:.0%} of the readings of a cell {words}"
        for experiment in {cell.experiment for cell in measured if cell.share(flaw) >= HIDES}:
            # The answer leaves out such cells; where their experiment is not in it, its own section says so.
            if words not in said or "trusted" not in answer + sections.get(experiment, ""):
                yield f"hidden disturbance: a headline of {experiment}, where {worst:.0%} {words}"
    if not measured and re.search(r"\d [kMG]?(ns|\u00b5s|ms|packet/s|bit/s)\b", answer):
        yield "a figure where no run finished"


def _intervals(cells: list[RawCell], text: str) -> Iterator[str]:
    for method, _, total, rest in re.findall(
        r"[Tt]he interval of (\S+) held the truth in (\d+) of (\d+)(.{0,40})", text
    ):
        mine = [cell for cell in cells if cell.labels.get("method") == method]
        own = sum(cell.intervals for cell in mine)
        if int(total) != own and all("capacity" in cell.labels for cell in mine):
            yield f"interval without information: {total} of {method} counted, {own} exclude anything"
        if "median width of" not in rest:
            yield f"interval without its width: {method}"


def _contradictions(text: str, sure: str) -> Iterator[str]:
    rows = [row for heading, some in inference.tables(text) if heading.startswith("Comparisons") for row in some]
    if "decided" in sure and any(row["verdict"].startswith("inconclusive") for row in rows):
        yield f"contradiction: {sure} beside inconclusive comparisons"
    if re.search(r"\b1 (comparison|cell|run|estimate)s?\b are\b", text):
        yield "contradiction: one is called several"


def _numbers(store: Path, text: str, cells: list[RawCell]) -> list[str]:
    known = {*inference.READINGS, "throughput"}
    if not {cell.instrument for cell in cells} <= known or not any(cell.medians for cell in cells):
        return []
    # Inference is recomputed of complete blocks, enough for a test.
    is_whole = len({len(cell.medians) for cell in cells}) == 1 and len(cells[0].medians) >= LEAST_RUNS
    kinds = ("",) if is_whole else ("sentences", "cells")
    return [f"number: {line}" for line in inference.check_report(store, text).wrong if line.startswith(kinds)]


def main(arguments: list[str]) -> int:
    """Check one report; print what is wrong with it."""
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    found = audit(Path(arguments[0]), Path(arguments[1]).read_text(encoding="utf-8"))
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
