"""Recompute what a report infers from the raw readings of its store, without any code of vtare.

    python independent_inference.py STORE REPORT.md
    python independent_inference.py --compare COMPARE.json

Of a report as Markdown: ratio, interval, p-value and verdict of every comparison and tail, the shares of readings above
thresholds, each ratio and rate in its sentences, and the figures of round trips, available bandwidth and throughput.
Of `vtare compare --json`: ratio, interval, p-value, verdict of every cell, from the stores that it names. polars opens
Parquet files, scipy knows the t distribution; all else is here. Prints how many figures of each kind were compared,
and each that differs; the exit code is 1 if one does.
"""

from __future__ import annotations

import json
import math
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from independent_statistics import alphas_left, benjamini, holm, memory_costs, quantile, steady
from scipy.special import betainc, stdtrit

PARTS = {"timer": "source", "sleep": "method", "counter": "argument", "noise": "cpu"}
READINGS = {"timer": "cost_ps", "sleep": "miss_ns", "counter": "wall_ns", "noise": "gap_ns", "rtt": "rtt_ns",
            "avb": "avb_bit_per_s"}  # fmt: skip
#: The metric of a comparison as the report names it: the run's figure, and whether the clock's step may widen it.
METRICS = {
    "miss": ("median", True), "RTT": ("median", True), "gap": ("median", True), "read cost": ("read cost", False),
    "CV": ("CV", False), "share lost": ("time lost", False), "error": ("error", False),
    "throughput": ("throughput", False), "time late": ("late", False), "latency": ("", False),
}  # fmt: skip
ABOVE_NS = {"1 \N{MICRO SIGN}s": 1e3, "10 \N{MICRO SIGN}s": 1e4, "100 \N{MICRO SIGN}s": 1e5, "1 ms": 1e6,
            "10 ms": 1e7, "100 ms": 1e8}  # fmt: skip
SCALES = {"ns": 1.0, "\N{MICRO SIGN}s": 1e3, "ms": 1e6, "s": 1e9, "%": 0.01, "B": 1.0, "kB": 1e3, "MB": 1e6,
          "packet/s": 1.0, "kpacket/s": 1e3, "Mpacket/s": 1e6, "Mbit/s": 1e6, "Gbit/s": 1e9}  # fmt: skip
STEP_NS = 10.0
#: What is equivalent, as a ratio: the plan's, set by `check_report`.
MARGIN = [1.05]


#: Figures of which more is better, by the words of tables; of all others that have a direction less is.
MORE_IS_BETTER = ("throughput", "load without any loss", "longest burst", "achieved")


def direction_of(row: dict[str, str]) -> str:
    """The verdict of a row with its direction: `worse` of a figure of which less is better is `higher`."""
    word = row["verdict"].split(" ")[0]
    if word not in ("worse", "better"):
        return word
    more = row.get("metric", row.get("figure of a run", "")).startswith(MORE_IS_BETTER)
    return "higher" if (word == "better") == more else "lower"


@dataclass
class Seen:
    """What was compared: numbers of figures by kind, and each that differs."""

    checked: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    #: What this script has no means for: figures of captures, of traces, of the link's log.
    skipped: Counter[str] = field(default_factory=Counter)

    def expect(self, kind: str, where: str, right: bool, printed: object, computed: object) -> None:
        """Count one figure, and keep it where it is not right."""
        self.checked[kind] += 1
        if not right:
            self.wrong.append(f"{kind}: {where}: printed {printed}, recomputed {computed}")


def close(printed: float, computed: float, digits: int = 3) -> bool:
    """Whether a printed figure is the computed one, rounded to three digits."""
    if printed == computed:
        return True
    if computed == 0 or not math.isfinite(computed):
        return False
    return abs(printed - computed) <= 0.51 * 10.0 ** (math.floor(math.log10(abs(computed))) + 1 - digits)


def same_ratio(printed: float, computed: float) -> bool:
    """Whether two ratios agree; far below 1 they are printed as 1/1280."""
    return close(1 / printed, 1 / computed) if 0 < printed < 0.1 else close(printed, computed)


@dataclass
class Cell:
    """One cell: its labels, and the figures of its run in each block."""

    labels: dict[str, str]
    blocks: dict[int, dict[str, float]]

    def by_block(self, figure: str) -> dict[int, float]:
        """The figure of each block whose run has it."""
        return {block: found[figure] for block, found in self.blocks.items() if figure in found}

    def middle(self, figure: str) -> float:
        """The median over runs."""
        return float(np.median(list(self.by_block(figure).values())))


def run_figures(
    instrument: str, frame: pl.DataFrame, footer: dict[str, Any], labels: dict[str, str]
) -> dict[str, float]:
    """The figures of one run and part from its rows and what the run recorded of the part."""
    if instrument == "throughput":
        names = ("jain", "jain_planned", "trials", "void_trials", "searches", "throughput_packet_per_s")
        if any(footer.get(name) is None for name in names):
            return {}
        latency = {"latency": "median", "latency p99": "p99"}
        found = {name: float(footer[name]) for name in names}
        known = footer["latency_ns"] or {}
        found |= {name: float(known[key]) for name, key in latency.items() if known.get(key) is not None}
        return {**found, "throughput": found["throughput_packet_per_s"], "J": found["jain"]}
    rows = frame
    frame = frame.filter(pl.col(READINGS[instrument]).is_not_null())
    values = frame[READINGS[instrument]].to_numpy().astype(float) / (1000 if instrument == "timer" else 1)
    counts = frame["count"].to_numpy() if "count" in frame.columns else np.ones(len(values), dtype=np.int64)
    if not len(values):
        return {"asked": float(rows.height), "answered": 0.0} if instrument == "avb" else {}
    n = int(counts.sum())
    found = {"n": float(n), "median": quantile(values, counts, 0.5), "mean": float((values * counts).sum() / n)}
    found |= {f"p{name}": quantile(values, counts, p) for name, p, least in (("99", 0.99, 299), ("99.9", 0.999, 2995))
              if n >= least}  # fmt: skip
    found |= {f"above {name}": float(counts[values > limit].sum()) / n for name, limit in ABOVE_NS.items()}
    if instrument == "timer":
        found["read cost"] = float(footer["read_cost_ns"]["median"])
    if instrument == "counter":
        found["CV"] = float(np.std(values, ddof=1) / np.mean(values))
    if instrument == "noise":
        found["time lost"] = float(footer["lost_fraction"])
    if instrument == "sleep":
        found["late"] = float(np.clip(values, 0, None).sum() / (values + frame["target_ns"].to_numpy()).sum())
    if instrument == "avb" and not {"capacity", "cross"} <= labels.keys():
        # Of a capacity that changes the truth is in the link's own log.
        taken = (rows["probe_byte"] + rows["extra_byte"]).drop_nulls().to_numpy()
        found |= {"asked": float(rows.height), "answered": float(frame.height), "bytes": float(np.median(taken)),
                  "time": float(np.median(rows["elapsed_ns"].drop_nulls().to_numpy()))}  # fmt: skip
    elif instrument == "avb":
        truth = 1e6 * (float(labels["capacity"].split()[0]) - float(labels["cross"].split()[0]))
        sure = frame.filter(~pl.col("at_least"))
        held = (sure["low_bit_per_s"] <= truth) & (sure["high_bit_per_s"] >= truth)
        taken = (frame["probe_byte"] + frame["extra_byte"]).to_numpy()
        found |= {
            "asked": float(rows.height), "answered": float(frame.height), "intervals": float(sure.height),
            "held": float(held.sum()), "truth": truth,
            "time": float(np.median(frame["elapsed_ns"].to_numpy())), "bytes": float(np.median(taken)),
        }  # fmt: skip
        # A lower bound has no error.
        exact = sure["avb_bit_per_s"].to_numpy().astype(float)
        found |= {"bounds": float(frame.height - sure.height)}
        found |= {"error": float(np.median(np.abs(exact - truth) / truth))} if len(exact) else {}
    return found


def counts(rows: pl.DataFrame) -> dict[str, float]:
    """Packets sent and lost, of the whole run."""
    if "fate" not in rows.columns:
        return {}
    unsent = rows["fate"].is_in(["too_late", "no_room"])
    if unsent.mean() >= 0.5:
        # Too few for a headline.
        return {}
    return {"sent": float((~unsent).sum()), "lost": float(rows["fate"].is_in(["lost", "late"]).sum())}


def cells_of(store: Path) -> dict[str, list[Cell]]:
    """The cells of each experiment."""
    made: dict[str, dict[tuple[str, ...], Cell]] = defaultdict(dict)
    ids = {"position", "block", "replicate", "run_id", "experiment", "instrument", "control", "parameters", "status"}
    for run in pl.read_parquet(store / "design.parquet").filter(pl.col("control").is_null()).to_dicts():
        path = store / "runs" / run["run_id"] / "samples.parquet"
        if not path.exists():
            continue
        footer = json.loads(pl.read_parquet_metadata(path)["vtare"])
        frame, part = pl.read_parquet(path), PARTS.get(run["instrument"])
        groups = frame.group_by([part], maintain_order=True) if part is not None else [((None,), frame)]
        for (name,), rows in groups:
            labels = {key: str(value) for key, value in run.items() if key not in ids and value is not None}
            labels |= {} if part is None else {part: str(name)}
            if labels.get("frame_byte", "").endswith("kB"):
                labels["frame_byte"] = f"{round(1000 * float(labels['frame_byte'].split()[0]))} B"
            recorded = footer["result"]["cells"] or [{}]
            own = next((one for one in recorded if part is None or str(one.get(part)) == str(name)), {})
            cell = made[run["experiment"]].setdefault(tuple(labels.values()), Cell(labels, {}))
            if run["instrument"] in ("sleep", "rtt"):
                readings = rows[READINGS[run["instrument"]]]
                cut = steady(readings.drop_nulls().to_numpy(), (footer.get("clock") or {}).get("quantum_ns") or 0.0)
                settled = rows.filter(readings.is_not_null().cum_sum() > cut) if cut else rows
                cell.blocks[run["block"]] = run_figures(run["instrument"], settled, own, labels) | counts(rows)
                continue
            cell.blocks[run["block"]] = run_figures(run["instrument"], rows, own, labels)
    return {name: list(cells.values()) for name, cells in made.items()}


#: Factors that a report calls otherwise than the plan.
CALLED = {"cross": "cross traffic", "frame_byte": "frame", "cpu": "CPU", "responder_platform": "responder on",
          "responder_cpu": "responder CPU", "rate_packet_per_s": "rate", "size_byte": "size",
          "target_ns": "target", "load_side": "load at",
          "mtu_byte": "MTU", "capacity_steps": "capacity"}  # fmt: skip


def called(factor: str) -> str:
    """How a report calls a factor."""
    return CALLED.get(factor, factor.replace("_", " "))


def canonical(level: str) -> str:
    """A level with its unit as reports write it: `10 us` as a number of ns, `1.518 kB` as one of B."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ([kMG]?(?:B|bit/s|packet/s)|ns|us|\u00b5s|ms|s)", level)
    if match is None:
        return level
    unit = match.group(2).replace("us", "\u00b5s")
    kind = unit.lstrip("kMG") if "/" in unit or unit.endswith("B") else "ns"
    return f"{float(match.group(1)) * SCALES.get(unit, 1.0):.6g} {kind}"


def names(text: str, factor: str, level: str) -> bool:
    """Whether a text names a level, alone or behind the name of its factor: `load cpu`."""
    shown = f"{level} %" if factor.endswith("_percent") else level
    alone = text.removeprefix(f"{called(factor)} ")
    return canonical(alone) in (canonical(level), canonical(shown))


def two_cells(cells: list[Cell], where: str, level: str, base: str) -> tuple[Cell, Cell]:
    """The cell with the level and the one with the baseline, at the place that the report names."""
    pieces = [] if where == "everywhere" else where.split(", ")

    keys = {key for cell in cells for key in cell.labels}

    def fits(cell: Cell) -> bool:
        # A nested factor is not in every cell: what names its level says nothing of one without it.
        without = [f"{called(key)} " for key in keys - cell.labels.keys()]
        return all(
            any(names(p, *label) for label in cell.labels.items()) or p.startswith(tuple(without)) for p in pieces
        )

    for one in filter(fits, cells):
        for other in filter(fits, cells):
            differ = [key for key in one.labels if one.labels[key] != other.labels.get(key, one.labels[key])]
            if len(differ) == 1 and all(
                names(text, differ[0], cell.labels[differ[0]]) for text, cell in ((level, one), (base, other))
            ):
                return one, other
    raise LookupError(f"{where}: {level} against {base}")


def sides_of(seen: Seen, cells: list[Cell], where: str, level: str, base: str, figure: str) -> tuple[Cell, Cell] | None:
    """The same; None, and counted as skipped, where the design has no such levels, or no run of a side its figure."""
    try:
        here, there = two_cells(cells, where, level, base)
    except LookupError:
        seen.skipped["levels that are no factors"] += 1
        return None
    if here.by_block(figure).keys() & there.by_block(figure).keys():
        return here, there
    seen.skipped[figure] += 1
    return None


@dataclass
class Found:
    """A ratio with its 95 % interval and p-value, by Student's t of differences of logarithms (unpaired: Welch's)."""

    ratio: float
    low: float
    high: float
    p: float
    error: float
    freedom: float

    def ends(self, word: str, alpha: float) -> tuple[float, float]:
        """The interval beside a verdict."""
        if word == "equivalent":
            return self.low, self.high
        reach = math.exp(float(stdtrit(self.freedom, 1 - alpha / 2)) * self.error)
        return self.ratio / reach, self.ratio * reach

    def word(self, p: float) -> str:
        """The verdict at an adjusted p."""
        margin = MARGIN[0]
        if 1 / margin <= self.low and self.high <= margin:
            return "equivalent"
        return ("higher" if self.ratio > 1 else "lower") if p <= 0.05 else "inconclusive"


def t_of(shift: float, error: float, freedom: float) -> Found:
    """The ratio of a shift of logarithms with its error and degrees of freedom."""
    half = float(stdtrit(freedom, 0.975)) * error
    t = abs(shift) / error if error else (0.0 if shift == 0 else math.inf)
    p = 0.0 if math.isinf(t) else float(betainc(freedom / 2, 0.5, freedom / (freedom + t * t)))
    return Found(math.exp(shift), math.exp(shift - half), math.exp(shift + half), p, error, freedom)


def paired(here: dict[int, float], there: dict[int, float]) -> Found:
    """Blocks that have both, as pairs."""
    d = np.array([math.log(here[block] / there[block]) for block in sorted(here) if block in there])
    error, freedom = float(d.std(ddof=1)) / math.sqrt(len(d)), float(len(d) - 1)
    widening, least_freedom = memory_costs(d)
    return t_of(float(d.mean()), error * widening, min(freedom, least_freedom))


def welch(x: np.ndarray, y: np.ndarray) -> Found:
    """Two groups of logarithms."""
    a, b = x.var(ddof=1) / len(x), y.var(ddof=1) / len(y)
    freedom = (a + b) ** 2 / (a**2 / (len(x) - 1) + b**2 / (len(y) - 1))
    return t_of(float(x.mean() - y.mean()), math.sqrt(a + b), float(freedom))


def ratio_number(text: str) -> float:
    """`8.10x`, `1/1280`, `966 000`."""
    text = text.strip().replace("\N{MULTIPLICATION SIGN}", "").replace(" ", "")
    return 1 / float(text[2:]) if text.startswith("1/") else float(text)


def ratio_and_ends(text: str) -> tuple[float, float, float] | None:
    """A ratio with its interval; None where it has none."""
    match = re.fullmatch(r"(\S.*?)\N{MULTIPLICATION SIGN}? \((.+?) to (.+?)\)", text)
    return None if match is None else tuple(map(ratio_number, match.groups()))  # type: ignore[return-value]


def p_agrees(printed: str, computed: float) -> bool:
    """Whether a printed p-value is the computed one, at two digits."""
    if printed.startswith("<"):
        return computed < 1e-4
    if printed.startswith("n/a"):
        return False
    return close(float(printed), computed, 2) or (float(printed) == 1.0 and computed >= 0.995)


def tables(text: str) -> list[tuple[str, list[dict[str, str]]]]:
    """Every table with the heading above it."""
    found: list[tuple[str, list[dict[str, str]]]] = []
    heading, header = "", None
    for line in text.splitlines():
        if line.startswith("#"):
            heading, header = line.lstrip("# "), None
        elif line.startswith("| "):
            cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
            if header is None:
                header = cells
                found.append((heading, []))
            elif not set("".join(cells)) <= set("-:| "):
                found[-1][1].append(dict(zip(header, cells, strict=False)))
        else:
            header = None
    return found


def check_rows(seen: Seen, kind: str, rows: list[dict[str, str]], made: list[tuple[Found, bool, Cell, Cell]],
               families: list[str], adjust: Any,
               unknown: set[str] = frozenset()) -> list[tuple[float, float]]:  # fmt: skip
    """Compare rows with what was recomputed, and return the adjusted p of each with the alpha that it leaves.

    Where the clock's step may widen an interval, it is no narrower. Of `unknown` families not all members are known.
    """
    adjusted: dict[int, float] = {}
    left: dict[int, float] = {}
    for family in dict.fromkeys(families):
        places = [at for at, name in enumerate(families) if name == family]
        raw = [made[at][0].p for at in places]
        adjusted.update(zip(places, adjust(raw), strict=True))
        left.update(zip(places, alphas_left(raw, adjust(raw)), strict=True))
    stepped = {*unknown} | {family for family, (_, step, _, _) in zip(families, made, strict=True) if step}
    for at, (row, (found, step, here, there)) in enumerate(zip(rows, made, strict=True)):
        where = f"{row['where']}, {row['compared']}"
        shown = ratio_and_ends(row["ratio (95 %)"])
        if shown is None:
            seen.expect(kind, where, False, row["ratio (95 %)"], found)
            continue
        seen.expect(kind, f"{where}, ratio", same_ratio(shown[0], found.ratio), shown[0], found.ratio)
        p = adjusted[at]
        exact = families[at] not in stepped
        word = direction_of(row) if "verdict" in row else found.word(p)
        ends = found.ends(word, left[at]) if exact else (found.low, found.high)
        seen.expect(kind, f"{where}, interval", ends_agree(shown[1:], ends, exact), shown[1:], ends)
        if families[at] not in stepped:
            seen.expect(kind, f"{where}, p", p_agrees(row["p (adjusted)"], p), row["p (adjusted)"], p)
        if "verdict" in row and families[at] not in unknown:
            right = word == found.word(p) if not step else (
                word not in ("higher", "lower") or word == found.word(p)
            )  # fmt: skip
            seen.expect(kind, f"{where}, verdict", right, word, found.word(p))
        for cell, side in ((here, 0), (there, 1)):
            runs = re.sub(r" of \d+", "", row["runs"]).split(" / ")[side]
            seen.expect(kind, f"{where}, runs", int(runs) <= len(cell.blocks), runs, len(cell.blocks))
    return [(adjusted[at], left[at] if families[at] not in stepped else 0.0) for at in range(len(rows))]


def ends_agree(shown: tuple[float, ...], ends: tuple[float, float], exact: bool) -> bool:
    """Whether an interval is the recomputed one; not exact: it is no narrower."""
    same = [same_ratio(*pair) for pair in zip(shown, ends, strict=True)]
    return all(same) if exact else (
        (same[0] or shown[0] <= ends[0] * 1.006) and (same[1] or shown[1] >= ends[1] * 0.994)
    )  # fmt: skip


def check_report(store: Path, text: str) -> Seen:
    """Compare a report with its store."""
    seen = Seen()
    text = re.sub(r"(?<=\d)[\u00a0\u2009\u202f](?=\d{3})", "", text).replace("\u00a0", " ").replace("\u202f", " ")
    text = text.replace("\\_", "_").replace("&lt;", "<").replace("&gt;", ">").replace("\N{MINUS SIGN}", "-")
    plan = tomllib.loads((store / "plan.toml").read_text("utf-8"))
    MARGIN[0] = 1 + plan.get("analysis", {}).get("margin_percent", 5) / 100
    cells = cells_of(store)
    every = [cell for some in cells.values() for cell in some]
    known: list[Found] = []
    judged: Judged = {}
    main: list[dict[str, str]] = []
    # The table of costs repeats rows of families that stand whole in the others.
    for heading, rows in sorted(tables(text), key=lambda table: table[0].startswith("Costs of layers")):
        if heading in ("Main comparisons", "All main comparisons"):
            main += rows
        if heading.startswith("Comparisons"):
            known += check_table(seen, "comparisons", rows, cells, judged, holm)
        elif "tails, by the rule" in heading:
            known += check_table(seen, "tails", rows, cells, judged, benjamini)
        elif heading.startswith("Costs of layers"):
            check_table(seen, "tail costs", [row for row in rows if row["of"] == "tail"], cells, judged, benjamini)
            check_table(seen, "costs", [row for row in rows if row["of"] != "tail"], cells, judged, holm)
        elif "above common thresholds" in heading:
            check_shares(seen, rows, every)
        elif heading.endswith("all cells"):
            check_cells(seen, rows, every)
    check_main(seen, main, cells, judged)
    check_sentences(seen, text, every, known)
    check_counts(seen, text, cells)
    return seen


#: The figure of a run in the table of costs -> the same here. Those of captures and traces are not read here.
COSTS = {"mean reading": ("mean", True), "cost of a reading": ("read cost", False), "miss": ("median", True),
         "round-trip time": ("median", True), "throughput": ("throughput", False),
         "coefficient of variation": ("CV", False)}  # fmt: skip


def figure_of(row: dict[str, str]) -> tuple[str, bool]:
    """The figure that a row compares (empty: unknown), and whether the clock's step may widen its interval."""
    if "metric" in row:
        return METRICS.get(row["metric"], ("", True))
    return COSTS.get(row["figure of a run"], ("", True)) if "figure of a run" in row else (row["tail"], True)


def check_again(seen: Seen, kind: str, row: dict[str, str], found: Found, step: bool, p: float, _left: float) -> None:
    """Compare a row with what was recomputed for another table."""
    where = f"{row['where']}, {row['compared']}"
    shown = ratio_and_ends(row["ratio (95 %)"])
    right = shown is not None and same_ratio(shown[0], found.ratio)
    seen.expect(kind, f"{where}, ratio", right, row["ratio (95 %)"], found)
    if not step:
        seen.expect(kind, f"{where}, p", p_agrees(row["p (adjusted)"], p), row["p (adjusted)"], p)
        word = direction_of(row)
        seen.expect(kind, f"{where}, verdict", word == found.word(p), word, found.word(p))


def mean_ratio(here: dict[int, float], there: dict[int, float]) -> float:
    """The geometric mean of ratios of blocks that have both."""
    return math.exp(np.mean([math.log(here[block] / there[block]) for block in here if block in there]))


def check_table(seen: Seen, kind: str, rows: list[dict[str, str]], cells: dict[str, list[Cell]],
                judged: dict[tuple[str, int, int], Any], adjust: Any) -> list[Found]:  # fmt: skip
    """Rows of one table of comparisons, but for those that another table has; what was recomputed."""
    tested: list[dict[str, str]] = []
    made: list[tuple[Found, bool, Cell, Cell]] = []
    families: list[str] = []
    unknown: set[str] = set()
    for row in rows:
        figure, step = figure_of(row)
        factor, _, levels = row["compared"].partition(": ")
        named = row.get("family (adjustment)") or row.get("family")
        experiment = row.get("experiment") or str(named).split(":")[0]
        family = named or f"{experiment}: {factor}"
        level, base = levels.split(" against ")
        sides = sides_of(seen, cells[experiment], row["where"], level, base, figure)
        has_ends = ratio_and_ends(row["ratio (95 %)"]) is not None
        if sides is None:
            unknown |= {family} if has_ends else set()
            continue
        here, there = (side.by_block(figure) for side in sides)
        earlier = judged.get((figure.removesuffix(" reading"), *map(id, sides)))
        if has_ends and earlier is not None:
            # Another table has its whole family.
            check_again(seen, kind, row, *earlier)
        elif has_ends:
            tested.append(row)
            families.append(family)
            made.append((paired(here, there), step, *sides))
        elif row["ratio (95 %)"][0].isdigit() and here.keys() == there.keys():
            printed = ratio_number(row["ratio (95 %)"].rstrip("\N{MULTIPLICATION SIGN}"))
            mean = mean_ratio(here, there)
            seen.expect(kind, row["where"], close(printed, mean), printed, mean)
    ps = check_rows(seen, kind, tested, made, families, adjust, unknown)
    for row, (found, step, here, there), (p, left), family in zip(tested, made, ps, families, strict=True):
        figure = figure_of(row)[0].removesuffix(" reading")
        judged[figure, id(here), id(there)] = found, step or family in unknown, p, left
    return [found for found, _, _, _ in made]


Judged = dict[tuple[str, int, int], tuple[Found, bool, float, float]]
"""Figure and both cells -> what was recomputed, whether the clock's step may widen it, the adjusted p, and the alpha
that it leaves (0: not known)."""


def check_main(seen: Seen, rows: list[dict[str, str]], cells: dict[str, list[Cell]], judged: Judged) -> None:
    """Rows of the main comparisons: both figures, ratio, interval and verdict."""
    for row in rows:
        experiment = row.get("experiment") or next(iter(cells))
        where = f"{experiment}, {row['metric']}: {row['here']} against {row['against']}"
        # What was achieved of a level stands behind it.
        here, against = (re.sub(r" \([^)]* reached\)", "", row[side]) for side in ("here", "against"))
        level, _, value = here.partition(": ")
        base, _, base_value = against.partition(": ")
        ratio, low, high = ratio_and_ends(row["ratio (95 %)"]) or (None, None, None)
        word = direction_of(row)
        if row["metric"] == "overhead":
            # Captures are not read here: its ratio must at least lie in its interval.
            seen.expect("main", where, ratio is None or low <= ratio <= high, row["ratio (95 %)"], "an interval")
            continue
        figure = METRICS.get(row["metric"], (row["metric"], True))[0]
        sides = sides_of(seen, cells[experiment], row["at"], level, base, figure)
        if sides is None:
            continue
        here, there = sides
        for cell, printed in ((here, value), (there, base_value)):
            if printed:
                number, wanted = printed_number(printed), cell.middle(figure)
                right = number is not None and close(number, wanted, 2 if row["metric"] == "error" else 3)
                seen.expect("main", f"{where}, figure", right, printed, wanted)
        if ratio is None:
            seen.expect("main", f"{where}, verdict", word == "inconclusive", word, "inconclusive")
            if row["ratio (95 %)"][0].isdigit():
                mean = mean_ratio(here.by_block(figure), there.by_block(figure))
                shown = ratio_number(row["ratio (95 %)"])
                seen.expect("main", f"{where}, ratio", same_ratio(shown, mean), shown, mean)
            continue
        if (figure, id(here), id(there)) not in judged:
            seen.skipped[row["metric"]] += 1
            continue
        found, step, p, left = judged[figure, id(here), id(there)]
        seen.expect("main", f"{where}, ratio", same_ratio(ratio, found.ratio), ratio, found.ratio)
        exact = left > 0 and not step
        ends = found.ends(word, left) if exact else (found.low, found.high)
        seen.expect("main", f"{where}, interval", ends_agree((low, high), ends, exact), (low, high), ends)
        right = word == found.word(p) or (step and word not in ("higher", "lower"))
        seen.expect("main", f"{where}, verdict", right, word, found.word(p))


def match_cell(every: list[Cell], row: dict[str, str]) -> Cell | None:
    """The cell whose levels a row of cells shows, where it is the only one."""
    named = {"cross traffic": "cross", "frame": "frame_byte", "CPU": "cpu", "responder on": "responder_platform",
             "responder CPU": "responder_cpu"}  # fmt: skip
    shown = {named.get(header, header): value for header, value in row.items()}
    fitting = [
        cell for cell in every
        if all(shown[key] == value for key, value in cell.labels.items() if key in shown)
        and not ({*PARTS.values()} & shown.keys()) - cell.labels.keys()
    ]  # fmt: skip
    return fitting[0] if len(fitting) == 1 else None


def check_shares(seen: Seen, rows: list[dict[str, str]], every: list[Cell]) -> None:
    """Shares of readings above thresholds: the mean over runs and its interval."""
    for row in rows:
        cell = match_cell(every, row)
        for name, printed in row.items():
            limit = re.search(r"> (.+?)\)", name)
            if cell is None or limit is None:
                continue
            shares = np.array(list(cell.by_block(f"above {limit.group(1)}").values()))
            mean = float(shares.mean())
            numbers = [float(one) / 100 for one in re.findall(r"\d+(?:\.\d+)?(?:e-?\d+)?", printed.replace("%", ""))]
            right = mean == 0 if printed.startswith("0 of") else close(numbers[0], mean)
            seen.expect("exceedances", f"{list(row.values())[:3]} {name}", right, printed, mean)
            if len(numbers) == 3:
                half = float(stdtrit(len(shares) - 1, 0.975)) * float(shares.std(ddof=1)) / math.sqrt(len(shares))
                ends = max(0.0, mean - half), min(1.0, mean + half)
                right = all(map(close, numbers[1:], ends))
                seen.expect("exceedances", f"{list(row.values())[:3]} {name}, interval", right, numbers[1:], ends)


COLUMNS = {"median": "median", "p99": "p99", "throughput": "throughput", "latency": "latency", "J": "J",
           "estimate": "median", "truth": "truth", "absolute error": "error", "time": "time", "bytes": "bytes",
           "time lost": "time lost", "CV": "CV", "read cost": "read cost"}  # fmt: skip


def printed_number(text: str) -> float | None:
    """A figure with its unit in ns, bit/s, packet/s, byte or as a share."""
    match = re.match(r"(?:at least )?(-?\d+(?:\.\d+)?)(?: ([kMG]?[A-Za-z\u00b5%/]+))?", text)
    return None if match is None else float(match.group(1)) * SCALES.get(match.group(2) or "", 1.0)


def check_cells(seen: Seen, rows: list[dict[str, str]], every: list[Cell]) -> None:
    """Figures of cells: medians over runs."""
    for row in rows:
        cell = match_cell(every, row)
        for name, printed in row.items():
            figure = COLUMNS.get(name)
            number = printed_number(printed)
            if cell is None or figure is None or number is None or not cell.by_block(figure):
                continue
            wanted = cell.middle("latency p99" if figure == "p99" and "throughput" in row else figure)
            digits = 2 if name == "absolute error" else 3
            seen.expect("cells", f"{list(row.values())[:5]} {name}", close(number, wanted, digits), printed, wanted)


def check_sentences(seen: Seen, text: str, every: list[Cell], known: list[Found]) -> None:
    """Ratios with intervals are those of comparisons, one way or the other; figures with units are those of cells."""
    other = re.compile(r"[|#*]|Held fixed|.*not (?:reached|trusted)|$")
    said = [line for line in text.splitlines() if not other.match(line)]
    end = next((at for at, line in enumerate(said) if line.startswith("- Design:")), len(said))
    for line in said[:end]:
        for match in re.finditer(r"(1/\d\S*|\d\S*?)\N{MULTIPLICATION SIGN}(?: less)? \((.+?) to (.+?)\)", line):
            three = tuple(map(ratio_number, match.groups()))
            right = any(
                same_ratio(three[0], found.ratio) or same_ratio(three[0], 1 / found.ratio) for found in known
            ) or "overhead" in line or "mean reading" in line or "coefficient" in line or "Against" in line  # fmt: skip
            seen.expect("sentences", line[:80], right and three[1] <= three[0] <= three[2], match.group(0), "no row")
        plain = re.sub(r"\([^)]*\)", "", line)
        for match in re.finditer(r"(?<![\w./])(\d+(?:\.\d+)?) (ns|\u00b5s|ms|kB|[kM]packet/s|Mbit/s)(?![\w/])", plain):
            if float(match.group(1)) == 0 or re.search(
                r"(sleep of|traffic|with frame|above|rate|steps? of) $", plain[: match.start()]
            ):
                continue
            value = float(match.group(1)) * SCALES[match.group(2)]
            names = ("median", "p99", "read cost", "throughput", "latency", "truth", "time", "bytes")
            figures = [cell.middle(name) for cell in every for name in names if cell.by_block(name)]
            right = any(close(value, one) for one in figures) or "overhead" in line or "layer at the sender" in plain
            seen.expect("sentences", line[:80], right, match.group(0), "no figure of a cell")


def total(cells: list[Cell], figure: str) -> int:
    """The sum over all runs."""
    return round(sum(sum(cell.by_block(figure).values()) for cell in cells))


def check_counts(seen: Seen, text: str, cells: dict[str, list[Cell]]) -> None:
    """Counts in sentences: packets lost, estimates without an answer, intervals that hold the truth, trials."""
    every = [cell for some in cells.values() for cell in some]

    def expect(pattern: str, *wanted: float) -> None:
        for match in re.finditer(pattern, text, re.MULTILINE):
            printed = [float(group) for group in match.groups()]
            right = all(close(one, other) for one, other in zip(printed, wanted, strict=True))
            seen.expect("sentences", match.group(0)[:60], right, printed, wanted)

    def expect_of(pattern: str, figures: Callable[[list[Cell]], list[float]]) -> None:
        """A sentence over the cells of one experiment, or over all."""
        wanted = [figures(some) for some in (every, *cells.values())]
        for match in re.finditer(pattern, text, re.MULTILINE):
            printed = [float(group) for group in match.groups()]
            right = any(all(map(close, printed, one)) for one in wanted)
            seen.expect("sentences", match.group(0)[:60], right, printed, wanted)

    def lost(some: list[Cell]) -> float:
        return 100 * max(
            (total([one], "lost") / total([one], "sent") for one in some if one.by_block("sent")), default=0
        )

    expect_of(r"(\d+) of (\d+) packets were lost", lambda some: [total(some, "lost"), total(some, "sent")])
    expect_of(r"packets were lost, most at .*? \((\d\S*) %\)", lambda some: [lost(some)])

    def silent(some: list[Cell]) -> list[float]:
        return [total(some, "asked") - total(some, "answered"), total(some, "asked")]

    expect_of(r"(\d+) of (\d+) estimates gave no answer(?! in \d+ cell)", silent)
    # Only cells of which more than a tenth is silent are counted there.
    often = [one for one in every if one.by_block("asked") and silent([one])[0] > 0.1 * silent([one])[1]]
    expect(rf"(\d+) of (\d+) estimates gave no answer in {len(often)} cell", *silent(often))
    expect_of(
        r"(\d+) trials counted, (\d+) were void", lambda some: [total(some, "trials"), total(some, "void_trials")]
    )
    for method in sorted({cell.labels["method"] for cell in every if cell.by_block("intervals")}):
        mine = [cell for cell in every if cell.labels["method"] == method]
        expect(rf"[Tt]he interval of {method} held the truth in (\d+) of (\d+)", total(mine, "held"),
               total(mine, "intervals"))  # fmt: skip
        bounds = total(mine, "bounds")
        expect(rf"with {method} \((\d+) estimates, beside (\d+) lower bounds?\)", total(mine, "answered") - bounds,
               bounds)  # fmt: skip
        expect(rf"with {method} \((\d+) estimates\)", total(mine, "answered") - bounds)
    even = [cell.middle("J") for cell in every if cell.by_block("J")]
    if even:
        expect(r"[Tt]he least even load \(J (\d\S*)\)", float(f"{min(even):.2f}"))
        expect(r"the most even one \(J (\d\S*)\)", float(f"{max(even):.2f}"))
    check_spans(seen, text, [list(cell.by_block("throughput").values()) for cell in every])


def check_spans(seen: Seen, text: str, runs: list[list[float]]) -> None:
    """Rates with their intervals: of up to five runs the interval of the median is their range."""
    few = [values for values in runs if 3 <= len(values) <= 5]
    for match in re.finditer(r"^[^|\n]*", text, re.MULTILINE):
        for span in re.finditer(r"(\S+) (\S+packet/s) \((\S+) to (\S+) (\S+packet/s)\)", match.group(0)):
            middle, low, high = (
                float(span.group(at)) * SCALES[span.group(unit)] for at, unit in ((1, 2), (3, 5), (4, 5))
            )
            right = any(
                close(middle, float(np.median(one))) and close(low, min(one)) and close(high, max(one)) for one in few
            )
            seen.expect("sentences", match.group(0)[:60], right, span.group(0), "no cell of these runs")


def check_compare(document: dict[str, Any]) -> Seen:
    """Compare `vtare compare --json` with the stores that it names."""
    seen = Seen()
    sides = [[cells_of(Path(store)) for store in document[side]] for side in ("after", "before")]
    for kind, rows, adjust in (("medians", document["cells"], holm), ("tails", document["tails"], benjamini)):
        made = []
        for row in rows:
            figure = {"p99": "p99", "p999": "p99.9"}.get(row.get("tail"), "median")
            logs = []
            for side in sides:
                means = []
                for campaign in side:
                    (cell,) = [cell for cell in campaign[row["experiment"]]
                               if all(str(row.get(key)) == value for key, value in cell.labels.items())]  # fmt: skip
                    means.append(float(np.mean(np.log(list(cell.by_block(figure).values())))))
                logs.append(np.array(means))
            made.append(logs)
            ratio = math.exp(logs[0].mean() - logs[1].mean())
            seen.expect(kind, f"{row['experiment']}, ratio", math.isclose(row["ratio"], ratio), row["ratio"], ratio)
            for side, name in ((0, "after"), (1, "before")):
                centre = math.exp(logs[side].mean())
                seen.expect(kind, f"{row['experiment']}, {name}", math.isclose(row[name], centre), row[name], centre)
        if document["refused"] is not None:
            for row in rows:
                seen.expect(kind, row["experiment"], row["verdict"] == "refused", row["verdict"], "refused")
            continue
        found = [welch(*logs) for logs in made]
        raw = [one.p for one in found]
        for row, one, p, alpha in zip(rows, found, adjust(raw), alphas_left(raw, adjust(raw)), strict=True):
            judged = row["judged_low"], row["judged_high"]
            wanted = one.ends(row["verdict"], alpha)
            seen.expect(kind, row["experiment"], ends_agree(judged, wanted, False), judged, wanted)
            # The clock's step widens an interval, and never narrows it.
            ends = row["ratio_low"] <= one.low * (1 + 1e-9) and row["ratio_high"] >= one.high * (1 - 1e-9)
            near = math.isclose(row["ratio_low"], one.low, rel_tol=1e-3)
            seen.expect(kind, row["experiment"], ends and near, row["ratio_low"], one.low)
            seen.expect(kind, row["experiment"], abs(row["p_adjusted"] - p) < 1e-3, row["p_adjusted"], p)
            seen.expect(kind, row["experiment"], row["verdict"] == one.word(p), row["verdict"], one.word(p))
    return seen


def main(arguments: list[str]) -> int:
    """Check one document; prints the numbers of figures by kind and each that differs."""
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    text = Path(arguments[1]).read_text(encoding="utf-8")
    seen = check_compare(json.loads(text)) if arguments[0] == "--compare" else check_report(Path(arguments[0]), text)
    for kind, count in sorted(seen.checked.items()):
        print(f"{kind}: {count} figures")
    for name, count in sorted(seen.skipped.items()):
        print(f"not recomputed: {count} of {name or 'figures of captures, traces or the link'}")
    for line in seen.wrong:
        print(line)
    return 1 if seen.wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
