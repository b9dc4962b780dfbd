"""One round of `vtare watch`, as a process of its own: run the plan, append its figures, report what was found.

    python -m vtare.watch.round STORE BINARY

What the libraries hold goes with the process, so that the one that waits stays small. It prints one JSON document,
`vtare.round/1`; a round that failed leaves nothing but its reason.
"""

from __future__ import annotations

import json
import signal
import sqlite3
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from vtare.campaign.binary import binary_and_contract
from vtare.campaign.executor import Campaign
from vtare.campaign.files import Files
from vtare.campaign.journal import Journal
from vtare.campaign.stop import StopRequest
from vtare.campaign.store import Store, read_store
from vtare.errors import CampaignStopped, VtareError, refusal_of
from vtare.instruments import instrument, metric
from vtare.plan.files import parse_plan
from vtare.samples import open_samples
from vtare.series.figures import bound_text, facts_of, figures_of
from vtare.series.model import SeriesKey
from vtare.series.sentences import sentence
from vtare.stored.paths import read_regular
from vtare.summary.figures import run_parts
from vtare.watch.history import History, Round
from vtare.watch.standstills import SteadySamples, standstills_of
from vtare.watch.store import PLAN, room, round_place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vtare.samples import RunFile
    from vtare.stats import Known
    from vtare.summary.figures import Part

#: Events of a run's clock (docs/internals/contract.md) that happen to a machine, and are no part of an ordinary run.
_DISRUPTIONS: Final = ("suspended", "migrated", "clock_source_changed", "rate_broken", "given_up", "rate_contradicted")
#: Steps 1, 2, 5 of each power of ten that a histogram has, by the unit of its quantity; exported in s.
_DECADES: Final = {"ns": (-9, 1), "bit/s": (5, 11)}
_SCALE: Final = {"ns": 1e-9, "bit/s": 1.0}


@dataclass(slots=True)
class Collected:
    """What one round holds: facts of the machine, figures (medians over its runs), and what the metrics are made of.

    `clock` is whether every run trusts its clock, None where none states it; `events` counts what happened to
    clocks and programs, `standstills` are times in which a program that measured did not run.
    """

    facts: Mapping[str, Any]
    missing: list[str]
    values: dict[SeriesKey, list[Known]] = field(default_factory=lambda: defaultdict(list))
    histograms: list[Mapping[str, Any]] = field(default_factory=list)
    causes: list[Mapping[str, Any]] = field(default_factory=list)
    clock: bool | None = None
    events: dict[str, int] = field(default_factory=dict)
    standstills: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def figures(self) -> dict[SeriesKey, float]:
        """Medians over the runs, where no run gives only a bound: the others are the runs that were not capped."""
        return {
            key: float(np.median([known.number for known in some]))
            for key, some in self.values.items()
            if all(known.side == "exact" for known in some)
        }

    @property
    def bounds(self) -> list[str]:
        """What is known of figures only as a bound, in words; none of them is followed."""
        known_bounds = {
            key: next((known for known in some if known.side != "exact"), None) for key, some in self.values.items()
        }
        return [bound_text(key, known) for key, known in known_bounds.items() if known is not None]


def measure(store: Path, binary: Path) -> dict[str, Any]:
    """Make the next round of a store and return the document of it.

    Raises:
        VtareError: it cannot be made; nothing of it is kept.
    """
    program, contract = binary_and_contract(binary)
    plan = parse_plan(read_regular(store / PLAN).decode("utf-8"), source=store / PLAN, contract=contract)
    room(store)
    with History(store) as history:
        number = history.rounds
        place = round_place(store, number)
        Files().remove_tree(place)
        at_s, begin = time.time(), time.monotonic()
        # Each round has another order, and the same again if it must be repeated.
        with StopRequest() as stop, Store.create(place, plan, number) as opened:
            Campaign(opened, program, stop).run()
        collected = collect(place)
        made = Round(at_s, time.monotonic() - begin, collected.facts, collected.figures)
        try:
            changes = history.append(made)
        except sqlite3.Error as error:
            Files().remove_tree(place)
            raise CampaignStopped(f"{store}: the round cannot be kept ({error}): free space") from error
    return {
        "schema": "vtare.round/1",
        "number": number,
        "at_unix_s": at_s,
        "elapsed_s": made.elapsed_s,
        "changes": [{**change.document(), "text": sentence(change)} for change in changes],
        "ended_boot_s": time.clock_gettime(time.CLOCK_BOOTTIME),
        "figures": [{**key.document(), "value": value} for key, value in made.figures.items()],
        **{
            name: getattr(collected, name)
            for name in ("missing", "bounds", "histograms", "causes", "clock", "events", "standstills")
        },
    }


def collect(place: Path) -> Collected:
    """What the store of one round holds."""
    plan, runs, _ = read_store(place)
    with Journal(place / "journal.sqlite", read_only=True) as journal:
        entries = journal.entries()
    finished = [run for run in runs if run.run_id in entries and entries[run.run_id].status == "done"]
    opened = open_samples(place, plan, finished)
    samples = SteadySamples(opened.plan, opened.files, opened.problems)
    missing = [problem.reason for problem in samples.problems]
    missing += [entry.reason or entry.status for entry in entries.values() if entry.status != "done"]
    if not samples.files:
        raise CampaignStopped(f"no run of the round can be used: {missing[0] if missing else 'it has none'}")
    collected = Collected(facts_of(samples.files[0].footer), missing)
    for file in samples.files:
        _note_clock(file, collected)
        collected.standstills += standstills_of(file)
        if file.run.control is not None:
            continue
        for part in run_parts(samples, file, exceed_ns=None):
            labels = {**file.run.factors, **part.labels}
            of_part = figures_of(file.run.experiment, file.run.instrument, labels, part.figures)
            for key, value in of_part.items():
                collected.values[key].append(value)
            cell = _cell(file, part.labels)
            collected.histograms.append(_histogram(file, part, labels, cell))
            if (causes := cell.get("causes")) is not None:
                collected.causes.append({"experiment": file.run.experiment, "labels": labels, "causes": causes})
    collected.events["stalled"] = len(collected.standstills)
    return collected


def _cell(file: RunFile, labels: Mapping[str, str]) -> Mapping[str, Any]:
    """The cell of the footer that a part belongs to; where the labels are those of the footer itself."""
    cells = file.footer.get("result", {}).get("cells", [])
    own = {name: labels[name] for name in labels if name not in file.run.factors}
    return next((cell for cell in cells if all(str(cell.get(name)) == text for name, text in own.items())), {})


def _histogram(file: RunFile, part: Part, labels: Mapping[str, str], cell: Mapping[str, Any]) -> dict[str, Any]:
    """How many readings lie at or below each bound, in the unit that is exported."""
    quantity = instrument(file.run.instrument).quantity
    unit = metric(quantity).symbol or ""
    low, high = _DECADES.get(unit, (-3, 9))
    bounds = [float(f"{step}e{power}") for power in range(low, high) for step in (1, 2, 5)]
    scaled = part.values * _SCALE.get(unit, 1.0)
    weights = np.ones(len(scaled)) if part.weights is None else part.weights
    # The last bin holds what lies above all bounds.
    counts = np.bincount(np.searchsorted(bounds, scaled, side="left"), weights=weights, minlength=len(bounds) + 1)
    return {
        "instrument": file.run.instrument,
        "quantity": quantity,
        "unit": unit,
        "experiment": file.run.experiment,
        "labels": dict(labels),
        "cause": (cell.get("causes") or {}).get("dominant_cause"),
        "bounds": bounds,
        "counts": [int(count) for count in counts],
        "sum": float(np.dot(scaled, weights)),
    }


def _note_clock(file: RunFile, found: Collected) -> None:
    clock = file.footer.get("clock") or {}
    if clock.get("trusted") is not None:
        # One run that does not trust its clock is enough.
        found.clock = bool(clock["trusted"]) and found.clock is not False
    if (events := clock.get("events")) is not None:
        happened = {event["event"]: int(event["count"]) for event in events}
        for name in _DISRUPTIONS:
            found.events[name] = found.events.get(name, 0) + happened.get(name, 0)


def main() -> None:
    """Entry point: one document on stdout; exit code and one line on stderr where the round failed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        document = measure(Path(sys.argv[1]), Path(sys.argv[2]))
    except OSError as error:
        _end(refusal_of(error))
    except VtareError as error:
        _end(error)
    else:
        sys.stdout.write(json.dumps(document))


def _end(error: VtareError) -> None:
    sys.stderr.write(f"{error}\n")
    sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
