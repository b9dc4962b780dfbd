"""Check answers of `vtare ab` against their runs, without any code of vtare.

    python ab_audit.py DOCUMENT.json [ANSWER.txt]

`DOCUMENT.json` is what `--json` or `--write json=FILE` gives, `ANSWER.txt` what the terminal showed of the same
comparison. Every ratio, interval and verdict of the document is worked out again from its pairs, and every number of
the answer is compared with it. Prints each finding; the exit code is 1 if there is one.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import statistics
import sys
from pathlib import Path
from typing import Any

import scipy.stats

#: Pairs up to which signed ranks are counted, and the pairs below which nothing is equivalent.
EXACT, FEWEST = 60, 32
#: Counts, which no rounding has changed.
COUNTS = ("peak memory", "page faults", "context switches")


def ranks_left_out(n: int, alpha: float) -> int | None:
    """How many sums of two lie outside the interval of the signed-rank test on either side; None: there is none."""
    if n > EXACT:
        spread = math.sqrt(n * (n + 1) * (2 * n + 1) / 24)
        left = math.floor(n * (n + 1) / 4 + scipy.stats.norm.ppf(alpha / 2) * spread)
        return left - 1 if left > 0 else None
    ways = [1] + [0] * (n * (n + 1) // 2)
    for rank in range(1, n + 1):
        for total in range(len(ways) - 1, rank - 1, -1):
            ways[total] += ways[total - rank]
    sums = itertools.accumulate(ways)
    left = sum(1 for total in sums if total / 2**n <= alpha / 2 * (1 + 1e-12))
    return left - 1 if left > 0 else None


def averages(ratios: list[float]) -> list[float]:
    """The means of two, each with itself as well, in order."""
    return sorted((a + b) / 2 for k, a in enumerate(ratios) for b in ratios[k:])


def hidden(values: list[float], step: float) -> float:
    """How far rounding may have moved the middle of values: half a step, unless they spread over a whole one."""
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    if spread < step:
        return step / 2
    if step <= 0:
        return 0.0
    e = math.exp(-2 * math.pi**2 * min(spread / step, 6) ** 2)
    return min(step / 2, step / math.pi * e / (1 - e))


def slack(own: list[float], first: list[float], step: float) -> tuple[float, float]:
    """How far a step may have raised and lowered the log ratio."""
    half = [hidden(side, step) / statistics.geometric_mean(side) for side in (own, first)]
    return math.log1p(half[1]) - math.log1p(-min(half[0], 1 - 1e-15)), math.log1p(half[0]) - math.log1p(
        -min(half[1], 1 - 1e-15)
    )


class Findings:
    """What is wrong, as it is found."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.paired = document["design"] != "sequential"
        self.texts: list[str] = []

    def sides(self, figure: str, command: str) -> tuple[list[float], list[float]] | None:
        """The figure of a command and of the first one, of all pairs; None where a value is missing or 0."""
        at = [one["name"] for one in self.document["commands"]].index(command)
        rows = [pair["figures"][figure] for pair in self.document["pairs"]]
        own, first = ([row[k] for row in rows] for k in (at, 0))
        return None if any(value is None or value <= 0 for value in own + first) else (own, first)

    def check(self, row: dict[str, Any], *, judged: bool) -> None:
        """Work out one finding again."""
        name = f"{row['figure']} of {row['command']}"
        sides = self.sides(row["figure"], row["command"])
        if row["verdict"] == "refused":
            if row["reason"] is None:
                self.texts.append(f"{name}: refused without a reason")
            return
        if sides is None:
            self.texts.append(f"{name}: a verdict where a value is missing or 0")
            return
        self.check_typical(name, row, sides, judged=judged)
        self.check_mean(name, row, *sides)
        self.check_verdict(name, row)

    def check_typical(
        self, name: str, row: dict[str, Any], sides: tuple[list[float], list[float]], *, judged: bool
    ) -> None:
        """The ratio of typical runs and its interval."""
        own, first = (side[: row["pairs"]] for side in sides)
        ratios = [math.log(a / b) for a, b in zip(own, first, strict=True)]
        if not self.paired:
            self.near(name, "ratio", row["ratio"], math.exp(statistics.fmean(ratios)))
            return
        sums = averages(ratios)
        self.near(name, "ratio", row["ratio"], math.exp(statistics.median(sums)))
        down, up = slack(*sides, row["step"])
        left = ranks_left_out(len(ratios), 1 - row["level"])
        if left is None:
            self.texts.append(f"{name}: an interval that so few pairs do not have")
            return
        low, high = math.exp(sums[left] - down), math.exp(sums[-1 - left] + up)
        if not judged and row["figure"] not in self.printed():
            self.near(name, "low", row["ratio_low"], low)
            self.near(name, "high", row["ratio_high"], high)
            return
        # Of the judged figure all looks share the error, and sides of a printed one may have steps of their own.
        narrow = row["ratio_low"] > low * (1 + 1e-9) or (row["ratio_high"] or math.inf) < high * (1 - 1e-9)
        if narrow and row["figure"] not in self.printed():
            self.texts.append(f"{name}: the interval is narrower than that of a single look")

    def printed(self) -> set[str]:
        """Figures whose sides may be printed with different digits."""
        usual = {"wall time", "CPU time", *COUNTS}
        return {one["name"] for one in self.document["figures"]} - usual

    def check_mean(self, name: str, row: dict[str, Any], own: list[float], first: list[float]) -> None:
        """The ratio of means, and that its interval is at least that of Student's t."""
        ratio = statistics.fmean(own) / statistics.fmean(first)
        self.near(name, "mean ratio", row["mean_ratio"], ratio)
        if self.paired and len(own) > 1:
            off = [a - ratio * b for a, b in zip(own, first, strict=True)]
            half = scipy.stats.t.ppf(0.5 + row["level"] / 2, len(off) - 1) * statistics.stdev(off) / math.sqrt(len(off))
            reach = half / statistics.fmean(first)
            low, high = row["mean_ratio_low"], row["mean_ratio_high"]
            if low > ratio - 0.8 * reach or (high is not None and high < ratio + 0.8 * reach):
                self.texts.append(f"{name}: the interval of the means is narrower than that of Student's t")

    def check_verdict(self, name: str, row: dict[str, Any]) -> None:
        """The verdict follows from the intervals."""
        margin = 1 + self.document["margin_percent"] / 100
        low, high = row["ratio_low"], row["ratio_high"] or math.inf
        about = next(one for one in self.document["figures"] if one["name"] == row["figure"])
        if low > 1 or high < 1:
            wanted = "higher" if low > 1 else "lower"
            if about["more_is_better"] is not None:
                wanted = "better" if (low > 1) == about["more_is_better"] else "worse"
        else:
            means = (row["mean_ratio_low"], row["mean_ratio_high"] or math.inf)
            inside = 1 / margin <= min(low, means[0]) and max(high, means[1]) <= margin
            wanted = "equivalent" if inside and len(self.document["pairs"]) >= FEWEST else "open"
        found = "open" if row["verdict"] == "inconclusive" else row["verdict"]
        if found != wanted:
            self.texts.append(f"{name}: the verdict is {row['verdict']}, the intervals make it {wanted}")

    def near(self, name: str, what: str, shown: float, wanted: float) -> None:
        """Compare two numbers that must be the same."""
        if not math.isclose(shown, wanted, rel_tol=1e-9):
            self.texts.append(f"{name}: {what} is {shown}, the runs make it {wanted}")

    def check_answer(self, answer: str) -> None:
        """The sentences of the terminal: each says what the document holds."""
        for row in self.document["findings"]:
            if row["ratio_low"] is None:
                continue
            ends = (row["ratio_low"], row["ratio_high"] if row["ratio_high"] is not None else math.inf)
            interval = "({:+z.1f} to {:+z.1f} %".format(*(100 * (end - 1) for end in ends))
            if interval not in answer:
                self.texts.append(f"{row['command']}: the answer lacks its interval {interval})")
            mean = f"{100 * (row['mean_ratio'] - 1):+z.1f} %"
            if row["mean_ratio_high"] is not None and f"differs by {mean}" not in answer:
                self.texts.append(f"{row['command']}: the answer lacks the ratio of means {mean}")
            first = next((line for line in answer.splitlines() if interval in line), "")
            for word, sign in (("slower", 1), ("faster", -1), ("higher", 1), ("lower", -1)):
                if re.search(rf" % {word} than", first) and (row["ratio"] - 1) * sign <= 0:
                    self.texts.append(f"{row['command']}: '{word}' of a ratio of {row['ratio']:.4g}")
            open_words = {"too noisy": ("Too noisy", "Not enough pairs"), "too coarse": ("Too coarse",),
                          "equivalent": ("are equivalent",)}.get(row["word"], (" than ",))  # fmt: skip
            if not any(words in first for words in open_words):
                self.texts.append(f"{row['command']}: the answer does not say '{row['word']}': {first}")


def audit(document: dict[str, Any], answer: str | None = None) -> list[str]:
    """What is wrong with a document, and with the answer on the terminal."""
    findings = Findings(document)
    for row in document["findings"]:
        findings.check(row, judged=True)
    for row in document["other_findings"]:
        findings.check(row, judged=False)
    if answer is not None:
        findings.check_answer(answer)
    return findings.texts


if __name__ == "__main__":
    document = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    found = audit(document, Path(sys.argv[2]).read_text(encoding="utf-8") if len(sys.argv) > 2 else None)
    print("\n".join(found) or "nothing is wrong")
    sys.exit(bool(found))
