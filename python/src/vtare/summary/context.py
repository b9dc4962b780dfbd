"""What surrounds the figures: runs that are missing, the machines, the loads really made, notes to the reader."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from vtare import stats
from vtare.campaign.status import run_status
from vtare.platforms import platform_class
from vtare.sentences import campaign as wording
from vtare.summary.model import LoadMade, MachineFacts, Note

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vtare.campaign.journal import Entry, Stopped
    from vtare.design import Run
    from vtare.plan.model import Plan
    from vtare.samples import Problem, RunFile, SampleSet

#: A note on io loads that reached no device.
NO_DEVICE: Final = "io_reached_no_device"


def statuses(
    runs: Sequence[Run],
    entries: Mapping[str, Entry],
    problems: Sequence[Problem],
    stopped: Stopped | None = None,
) -> dict[str, str]:
    """The status of every run; a finished run whose file cannot be used counts as failed."""
    bad = {problem.run_id for problem in problems}
    return {run.run_id: "failed" if run.run_id in bad else run_status(run, entries, stopped) for run in runs}


def missing_frame(
    runs: Sequence[Run],
    entries: Mapping[str, Entry],
    status: Mapping[str, str],
    word: str,
    problems: Sequence[Problem],
    plan: Plan,
) -> pl.DataFrame:
    """One row per run with this status (`failed`, `skipped`), with its reason and the end of its log."""
    reasons = {problem.run_id: problem.reason for problem in problems}
    rows = []
    for run in runs:
        if status[run.run_id] != word:
            continue
        entry = entries[run.run_id]
        rows.append(
            {
                "run_id": run.run_id,
                "experiment": run.experiment,
                "instrument": run.instrument,
                **{name: run.factors.get(name) for name in plan.factor_names},
                "block": run.block,
                "reason": reasons.get(run.run_id, entry.reason),
                "exit_code": entry.exit_code,
                "log_tail": entry.log_tail,
            }
        )
    schema = {
        **dict.fromkeys(("run_id", "experiment", "instrument", *plan.factor_names), pl.String),
        "block": pl.Int64,
        "reason": pl.String,
        "exit_code": pl.Int64,
        "log_tail": pl.String,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


#: What a kernel is called that nobody has named, as in a micro guest.
_UNNAMED: Final = ("(none)", "None", "")


def _named(hostname: str, platform: str) -> str:
    """What to call a machine: its name, else what it is."""
    return f"the {platform} guest" if hostname in _UNNAMED else hostname


def machines(files: Sequence[RunFile]) -> tuple[MachineFacts, ...]:
    """The facts of each machine and platform that runs came from."""
    groups: dict[tuple[str, str], list[RunFile]] = defaultdict(list)
    for file in files:
        platform = file.run.factors.get("platform", "host")
        groups[(_named(str(file.footer["machine"].get("hostname")), platform), platform)].append(file)
    known = []
    for (hostname, platform), members in groups.items():
        facts = [file.footer["machine"] for file in members]
        residuals = [r for f in members if (r := f.footer.get("clock", {}).get("residual_ppm")) is not None]
        averages = [a for m in facts if (a := m.get("load_average_1min")) is not None]
        stolen = [
            m["steal_ns_after"] - m["steal_ns_before"]
            for m in facts
            if m.get("steal_ns_after") is not None and m.get("steal_ns_before") is not None
        ]
        first = members[0].footer
        known.append(
            MachineFacts(
                hostname=hostname,
                platform=platform,
                runs=len(members),
                machine=first["machine"],
                clock=first.get("clock", {}),
                program=first.get("program", {}),
                residual_ppm_max=max(residuals, default=None),
                load_average_max=max(averages, default=None),
                steal_ns=sum(stolen) if stolen else None,
            )
        )
    return tuple(known)


def loads(files: Sequence[RunFile], plan: Plan) -> tuple[LoadMade, ...]:
    """What each level of load really did, in the plan's order."""
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    no_device_on: dict[str, set[str]] = defaultdict(set)
    for file in files:
        if file.load is not None and file.run.control is None:
            label = file.run.factors.get("load", "idle")
            groups[label].append(file.load)
            if _reached_no_device(file.load):
                no_device_on[label].add(file.run.factors.get("platform", "host"))
    order = [level.label for e in plan.experiments for f in e.factors if f.name == "load" for level in f.levels]
    summaries = []
    for label in sorted(groups, key=lambda name: order.index(name) if name in order else -1):
        documents = groups[label]
        rates = [d["operations_per_s"] for d in documents if d.get("operations_per_s") is not None]
        fractions = [d["cpu_fraction"] for d in documents if d.get("cpu_fraction") is not None]
        summaries.append(
            LoadMade(
                kind=label,
                runs=len(documents),
                threads=documents[0].get("threads"),
                operations_per_s=stats.median(rates).value,
                cpu_fraction=stats.median(fractions).value,
                documents=tuple(documents),
                no_device_on=frozenset(no_device_on[label]),
            )
        )
    return tuple(summaries)


def _reached_no_device(load: Mapping[str, Any]) -> bool:
    """Whether a load that has files had them in memory, or does not state where: here, or at its file service."""
    nbd = load.get("nbd")
    part = (nbd.get("server") or {}) if nbd else load.get("io")
    return part is not None and (part.get("file_system") or {}).get("in_memory") is not False


def notes_on(made: Sequence[LoadMade]) -> tuple[Note, ...]:
    """Which loads are placed beside none of the papers', and why."""
    diskless = [one for one in made if one.no_device_on]
    if not diskless:
        return ()
    text = wording.no_device([wording.load_on(one.kind, sorted(one.no_device_on)) for one in diskless])
    return (Note(NO_DEVICE, text, sum(one.runs for one in diskless)),)


def notes_for(
    samples: SampleSet, flagged: Sequence[int], pending: int, status: Mapping[str, str], unsettled: int = 0
) -> tuple[Note, ...]:
    """Everything the reader must know that is not a figure: the instruments' notes first, then the lab's."""
    notes = []
    said: Counter[tuple[str, str]] = Counter()
    boots: dict[str, set[str]] = defaultdict(set)
    kernels: dict[str, set[str]] = defaultdict(set)
    for file in samples.files:
        said.update((str(note["id"]), str(note["text"])) for note in file.footer.get("notes", []))
        clock = file.footer.get("clock", {})
        if clock.get("trusted") is False:
            why = "; ".join(clock.get("reasons") or ["no reason given"])
            said[("clock_not_trusted", wording.untrusted_counter(why))] += 1
        kernels[file.run.factors.get("platform", "host")].add(str(file.footer["machine"].get("kernel")))
        if file.footer.get("interrupted"):
            said[("interrupted", wording.INTERRUPTED)] += 1
        platform = file.run.factors.get("platform", "host")
        # An instance that boots for the campaign itself is no sign of a restart.
        kind = platform_class(platform, samples.plan.platforms.get(platform))
        if kind is None or not kind.BOOTS:
            boots[platform].add(str(file.footer["machine"].get("boot_id")))
    notes += [Note(key, text, runs) for (key, text), runs in said.items()]
    notes += [Note("left_out", wording.left_out(problem.reason), 1) for problem in samples.problems]
    counts = Counter(status.values())
    for platform, names in kernels.items():
        if len(names) > 1:
            notes.append(Note("kernels_differ", wording.kernels_differ(platform, sorted(names)), 0))
    most = max((len(machines_boots) for machines_boots in boots.values()), default=0)
    if most > 1:
        notes.append(Note("rebooted", wording.rebooted(most), 0))
    if flagged:
        notes.append(Note("control_drift", wording.control_drift(flagged), 0))
    if unsettled:
        notes.append(Note("unsettled", wording.UNSETTLED, unsettled))
    for word, why in wording.LEFT_OUT.items():
        if counts[word]:
            notes.append(Note(f"{word}_runs", wording.runs_left_out(counts[word], len(status), why), counts[word]))
    if pending:
        notes.append(Note("pending_runs", wording.pending(pending, len(status)), pending))
    return tuple(notes)
