"""Paths drawn at random: each measured by all methods, and a table of what was right by kind of path."""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from figures import figure

from realpath import programs
from realpath.cells import Asked
from realpath.chain import Counted, chain, shaped, traffic
from realpath.draw import IDLE, Drawn, Link, draw
from realpath.methods import estimates, is_own, responder
from realpath.others import OTHERS
from realpath.programs import ended, ready
from realpath.table import half_iqr, middle
from realpath.truth import window_of

#: The goals: intervals that hold, %, and their median half-width, % of the true value.
COVER, HALF_WIDTH = 90.0, 5.0
#: An idle bucket: error, half-width, both %, and time of an estimate, s.
IDLE_ERROR, IDLE_HALF, IDLE_S = 1.0, 3.0, 0.1
#: No further path is begun after this time, s: a run ends within ten minutes.
MOST_S = 570
#: A lower bound holds where it is no more above the true value than this.
BOUND_SLACK = 1.02
#: The sender is the limit where it sends single packets no faster than this times what is free.
SENDER_LIMIT = 1.2


@dataclass(frozen=True)
class Judged:
    """One estimate beside what was counted; rates in bit/s."""

    drawn: Drawn
    method: str
    truth: float
    value: float | None
    interval: tuple[float, float] | None
    at_least: bool
    byte: int
    seconds: float
    stopped: str
    #: Share of its rate that the tight link's timer lost.
    lost: float
    #: Rate of single sends, bit/s; none: not known.
    sends: float | None
    others: float

    @property
    def answers(self) -> bool:
        """Whether it gives a value, and not only a bound of it."""
        return self.value is not None and not self.at_least

    @property
    def error(self) -> float | None:
        """In % of the true value."""
        return (self.value / self.truth - 1) * 100 if self.value is not None and self.truth > 0 else None

    @property
    def half_width(self) -> float | None:
        """Half of the interval, in % of the true value."""
        if self.interval is None or self.truth <= 0:
            return None
        return (self.interval[1] - self.interval[0]) / 2 / self.truth * 100

    @property
    def holds(self) -> bool | None:
        """Whether the interval, or the bound, holds the true value; none: neither was given."""
        if self.value is None or (self.interval is None and not self.at_least):
            return None
        if self.at_least or self.interval is None:
            return self.value <= BOUND_SLACK * self.truth
        return self.interval[0] <= self.truth <= self.interval[1]

    @property
    def sender_limited(self) -> bool:
        """Whether a lower bound is the sender's: it sends no faster than what is free."""
        return self.sends is None or self.sends < SENDER_LIMIT * self.truth


def measured(drawn: Drawn, methods: Sequence[str], asked: Asked) -> tuple[list[Judged], list[str]]:
    """Every method on one path, in random order, and what went wrong."""
    found: list[Judged] = []
    wrong: list[str] = []
    with (
        tempfile.TemporaryDirectory() as name,
        shaped(drawn) as receiver,
        responder(asked.key),
        traffic(drawn, receiver),
    ):
        for method in random.sample(list(methods), len(methods)):
            with Counted(drawn) as counted:
                if counted.why_not is not None:
                    raise RuntimeError(f"this kernel does not count what the links carry: {counted.why_not}")
                count = asked.count if is_own(method) else 1
                run = estimates(method, count, asked.key, Path(name), asked.limit_s, f"{receiver}:8462")
                counted.end()
            if not run.found:
                wrong.append(f"{method} on {drawn}: {run.wrong or 'no estimate'}")
            sends = 12e12 / run.send_cost_ns if run.send_cost_ns else None
            for one in run.found:
                row = judged(drawn, method, one, counted, sends)
                if row is None:
                    wrong.append(f"{method} on {drawn}: a window that was not counted")
                else:
                    found.append(row)
    return found, wrong


def judged(drawn: Drawn, method: str, one: dict[str, Any], counted: Counted, sends: float | None) -> Judged | None:
    """Sets an estimate beside what was counted; None: not all of its window was."""
    whole = (one["began_ns"], one["began_ns"] + one["elapsed_ns"])
    truth = counted.truth(window_of(one)[0], whole)
    if truth is None:
        return None
    ends = (one["low_bit_per_s"], one["high_bit_per_s"])
    began_s, seconds = one["began_ns"] / 1e9, one["elapsed_ns"] / 1e9
    return Judged(
        drawn=drawn,
        method=method,
        truth=truth[0],
        value=one["avb_bit_per_s"],
        interval=None if None in ends else ends,
        at_least=one["at_least"],
        byte=one["probe_byte"],
        seconds=seconds,
        stopped=one["stopped"],
        lost=truth[1],
        sends=sends,
        others=OTHERS.share(began_s, began_s + seconds),
    )


@contextmanager
def busy(threads: int) -> Iterator[None]:
    """Threads that compute all the time, and a measurement that no scheduler prefers to them."""
    if threads == 0:
        yield
        return
    programs.PREFERRED[0] = False
    load = programs.start("from", None, "vtare", "load", "cpu", "--threads", str(threads))
    ready(load)
    try:
        yield
    finally:
        ended(load)
        programs.PREFERRED[0] = True


HEAD = (
    f"{'path':<10} {'method':<20} {'answers':>9} {'error %':>8} {'half-IQR':>8} {'half-width':>10} {'holds':>9} "
    f"{'>=':>4} {'not sender':>10} {'kB':>8} {'s':>6} {'lost %':>6} {'others':>6}  stopped"
)


def line(name: str, method: str, rows: Sequence[Judged]) -> None:
    """One line of the table."""
    errors = [abs(row.error) for row in rows if row.answers and row.error is not None]
    signed = [row.error for row in rows if row.answers and row.error is not None]
    halves = [row.half_width for row in rows if row.answers and row.half_width is not None]
    holds = [row.holds for row in rows if row.holds is not None]
    bounds = [row for row in rows if row.at_least and row.value is not None]
    stops, at = Counter(row.stopped for row in rows), f"real paths, {name}/{method}"
    figure(f"{at}/intervals that hold", sum(holds) / len(holds) if holds else None)
    print(
        f"{name:<10} {method:<20} {sum(row.answers for row in rows):>4}/{len(rows):<4} "
        f"{figure(f'{at}/error', middle(errors), '%'):>8.2f} "
        f"{half_iqr(signed):>8.2f} {figure(f'{at}/half-width', middle(halves), '%'):>10.2f} {sum(holds):>4}"
        f"/{len(holds):<4} {len(bounds):>4} "
        f"{sum(not row.sender_limited for row in bounds):>10} {middle([row.byte for row in rows]) / 1e3:>8.0f} "
        f"{middle([row.seconds for row in rows]):>6.2f} {middle([row.lost * 100 for row in rows]):>6.2f} "
        f"{middle([row.others for row in rows]):>6.2f}  "
        f"{' '.join(f'{stop}:{count}' for stop, count in stops.most_common())}",
        flush=True,
    )


def parts(rows: Sequence[Judged]) -> list[tuple[str, Callable[[Drawn], bool]]]:
    """The parts of the table, and which paths belong to each: each kind of path, and sums over them."""
    groups = sorted({row.drawn.group for row in rows})
    kinds: list[tuple[str, Callable[[Drawn], bool]]] = [
        (name, partial(lambda name, drawn: drawn.group == name, name)) for name in groups
    ]
    return [
        *kinds,
        ("deep", lambda drawn: drawn.is_deep and not drawn.polices),
        ("idle", lambda drawn: drawn.cross == "none"),
        ("shapers", lambda drawn: not drawn.polices),
        ("policers", lambda drawn: drawn.polices),
        ("all", lambda drawn: True),
    ]


def verdict(method: str, rows: Sequence[Judged], threads: int) -> None:
    """Which goals were missed, and what limited them here."""
    holds = [row.holds for row in rows if row.holds is not None]
    cover = 100 * sum(holds) / len(holds) if holds else float("nan")
    width = middle([row.half_width for row in rows if row.answers and row.half_width is not None])
    others = sum(row.at_least and not row.sender_limited for row in rows)
    words = []
    if not rows:
        words.append("no estimate")
    elif not cover >= COVER:
        words.append(f"intervals and bounds hold in {cover:.0f} %, expected {COVER:.0f} %")
    if rows and not threads and not width <= HALF_WIDTH:
        words.append(f"median half-width {width:.1f} %, expected {HALF_WIDTH:g} %")
    shapers = middle([row.half_width for row in rows if row.answers and row.half_width and not row.drawn.polices])
    policers = middle([row.half_width for row in rows if row.answers and row.half_width and row.drawn.polices])
    if others:
        words.append(f"{others} lower bounds where the sender was not the limit, expected none")
    refused = Counter(row.stopped for row in rows if row.value is None)
    why = f"; refused: {', '.join(f'{stop} {count}' for stop, count in refused.most_common())}" if refused else ""
    widths = f"median half-width {shapers:.1f} % without a policer, {policers:.1f} % with one"
    print(f"{method}: {'MISSED: ' + '; '.join(words) if words else 'goals met'} (cover {cover:.0f} %; {widths}{why})")
    if words:
        sends = [row.sends / 1e6 for row in rows if row.sends is not None]
        lost = [row.lost * 100 for row in rows]
        print(
            f"  measured limits: single sends reach {middle(sends):.0f} Mbit/s (median; least "
            f"{min(sends, default=0):.0f}); timers of the links lost {middle(lost):.1f} % (most "
            f"{max(lost, default=0):.0f}); "
            f"other work took {middle([row.others for row in rows]):.2f} CPUs"
        )


def random_paths(number: int, seed: int, methods: Sequence[str], threads: int, asked: Asked) -> None:
    """Draws paths and prints the table."""
    rng = random.Random(seed)
    beside = f", beside {threads} busy threads" if threads else ""
    print(f"{number} random real paths, seed {seed} (--seed {seed} draws them again){beside}", flush=True)
    rows: list[Judged] = []
    wrong: list[str] = []
    began = time.monotonic()
    with ExitStack() as stack:
        try:
            stack.enter_context(chain())
            stack.enter_context(busy(threads))
            for done in range(number):
                if time.monotonic() - began > MOST_S:
                    print(f"{MOST_S} s are over: {done} of {number} paths", flush=True)
                    break
                drawn = draw(rng)
                try:
                    found, amiss = measured(drawn, methods, asked)
                except RuntimeError as error:
                    found, amiss = [], [f"path {done} ({drawn}): {error}"]
                wrong += amiss
                rows += found
                if asked.rows:
                    keep(asked.rows, rows)
        except KeyboardInterrupt:
            print("interrupted: what was measured by then")
    report(rows, wrong, methods, threads, asked)
    print(f"{time.monotonic() - began:.0f} s")


def report(rows: list[Judged], wrong: Sequence[str], methods: Sequence[str], threads: int, asked: Asked) -> None:
    """The table of what was measured, without estimates beside other work where at least half of all are left."""
    quiet = [row for row in rows if row.others <= asked.others]
    if len(quiet) < len(rows):
        enough = 2 * len(quiet) >= len(rows)
        print(
            f"other work took more than {asked.others:g} CPUs during {len(rows) - len(quiet)} of {len(rows)} "
            f"estimates: {'they are set apart' if enough else 'all are shown, and the goals judged beside that work'}"
        )
        rows = quiet if enough else rows
    print(HEAD)
    for method in methods:
        own = [row for row in rows if row.method == method]
        for name, belongs in parts(rows):
            some = [row for row in own if belongs(row.drawn)]
            if some:
                line(name, method, some)
    print("\nerror: median of absolute errors of answers that are no bounds; lost: share of its rate that a link's")
    print("timer lost; >=: lower bounds, and those where single sends reach 1.2 times what is free; shapers, policers:")
    print("paths without and with a policer among their links; deep: of the shapers, with a bucket of more than 2 ms;")
    print("idle: without cross traffic")
    for text in wrong:
        print(text)
    for method in filter(is_own, methods):
        verdict(method, [row for row in rows if row.method == method], threads)


def keep(place: Path, rows: Sequence[Judged]) -> None:
    """Writes all estimates as CSV."""
    import polars

    columns = ("truth", "value", "at_least", "byte", "seconds", "stopped", "lost", "sends", "others", "method")
    frame = polars.DataFrame(
        [
            {
                "path": str(row.drawn),
                "group": row.drawn.group,
                "low": row.interval[0] if row.interval else None,
                "high": row.interval[1] if row.interval else None,
                **{name: getattr(row, name) for name in columns},
            }
            for row in rows
        ],
        infer_schema_length=None,
    )
    frame.write_csv(place)


def idle_buckets(methods: Sequence[str], asked: Asked) -> None:
    """Idle token buckets: the simplest real paths there are."""
    print("idle token buckets (tbf); the true value is what the bucket let through, counted in the kernel")
    print(
        f"{'rate':>5} {'depth':>14} {'method':<20} {'truth':>6} {'error %':>8} {'worst':>7} {'half-width':>10} "
        f"{'holds':>6} {'>=':>3} {'kB':>6} {'s':>6}  verdict"
    )
    every: list[Judged] = []
    with chain():
        for rate, depth_us in IDLE:
            depth = max(1514, rate * depth_us // 8)
            drawn = Drawn((Link("tbf", rate * 1_000_000, depth),), "idle", "none", 0, False)
            found, wrong = measured(drawn, methods, asked)
            for method in methods:
                idle_line(rate, f"{depth_us} us {depth} B", method, [row for row in found if row.method == method])
            for text in wrong:
                print(text)
            every += found
            if asked.rows:
                keep(asked.rows, every)


def idle_line(rate: int, depth: str, method: str, rows: Sequence[Judged]) -> None:
    """One bucket by one method."""
    errors = [row.error for row in rows if row.error is not None]
    halves = [row.half_width for row in rows if row.half_width is not None]
    holds = [row.holds for row in rows if row.holds is not None]
    bounds = sum(row.at_least for row in rows)
    error, half, seconds = middle(errors), middle(halves), middle([row.seconds for row in rows])
    words = []
    if not abs(error) <= IDLE_ERROR:
        words.append(f"error above {IDLE_ERROR:g} %")
    if not half <= IDLE_HALF:
        words.append(f"half-width above {IDLE_HALF:g} %")
    if not seconds <= IDLE_S:
        words.append(f"longer than {IDLE_S:g} s")
    if not 100 * sum(holds) >= COVER * len(holds):
        words.append(f"{len(holds) - sum(holds)} of {len(holds)} intervals do not hold")
    shown = f"MISSED: {', '.join(words)}" if words else "met"
    if words and rows:
        sends = rows[0].sends or float("nan")
        lost = [row.lost * 100 for row in rows]
        others = middle([row.others for row in rows])
        shown += (
            f" (single sends reach {sends / 1e6:.0f} Mbit/s, the bucket lost {middle(lost):.1f} % of its rate, "
            f"from {min(lost):.1f} to {max(lost):.1f}; other work took {others:.2f} CPUs)"
        )
    worst = max(errors, key=abs, default=float("nan"))
    at = f"idle bucket of {rate} Mbit/s, {depth}/{method}"
    print(
        f"{rate:>4}M {depth:>14} {method:<20} {middle([row.truth for row in rows]) / 1e6:>6.0f} "
        f"{figure(f'{at}/error', error, '%'):>8.2f} {worst:>7.1f} {figure(f'{at}/half-width', half, '%'):>10.2f} "
        f"{sum(holds):>3}/{len(holds):<2} {bounds:>3} "
        f"{middle([row.byte for row in rows]) / 1e3:>6.0f} {figure(f'{at}/time', seconds, 's'):>6.3f}  {shown}",
        flush=True,
    )
