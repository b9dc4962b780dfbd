"""Commands on campaigns: `run`, `resume`, `retry`, `verify`, `status`, `clean`."""

from __future__ import annotations

import logging
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vtare.cli.options import (
    binary_option,
    fetch,
    json_option,
    on_option,
    plan_argument,
    print_json,
    seed_option,
    stderr,
    stdout,
    store_argument,
    store_option,
    summary_of,
    verbose_option,
)
from vtare.cli.tree import command
from vtare.errors import BadInput, VtareError
from vtare.records.answer import answered
from vtare.sentences import campaign as wording

if TYPE_CHECKING:
    from collections.abc import Callable

    from vtare.campaign.results import CampaignResult
    from vtare.campaign.store import Store, Tidied
    from vtare.fleet.real_machines import Workers
    from vtare.plan.model import Plan
    from vtare.records import campaigns as records

_LOG = logging.getLogger(__name__)


@command("run")
@plan_argument
@store_option
@seed_option
@on_option
@binary_option
@json_option
@verbose_option
def run(
    plan: str, store: Path | None, seed: int | None, on: str | None, binary: Path | None, as_json: bool, verbose: bool
) -> None:
    """Carry out `run`.

    Needs a store that does not exist yet.
    """
    from vtare.campaign.binary import binary_and_contract
    from vtare.campaign.objects import at_work, named
    from vtare.campaign.store import Store, default_store
    from vtare.design import draw_seed
    from vtare.plan.files import find_plan, load_plan

    if on is not None and on.startswith("simulated:"):
        _dry_run(on, plan, store, seed, as_json=as_json)
        return
    program, contract = binary_and_contract(binary)
    checked = load_plan(find_plan(plan), contract=contract)
    if on is not None and checked.mesh is not None:
        from vtare.fleet.named_fleet import fleet_hosts
        from vtare.fleet.needs import with_pairs

        checked = with_pairs(checked, fleet_hosts(on), contract)
    chosen = seed if seed is not None else checked.seed if checked.seed is not None else draw_seed()
    target = store or default_store(checked.name)
    fleet = _fleet(on, checked, target, program)
    with at_work(target) as files, Store.create(target, checked, chosen, files=files) as opened:
        most = "at most " if checked.stop else ""
        _LOG.info(named(f"{checked.name}: {most}{len(opened.runs)} runs into {target}, seed {chosen}"))
        _work(opened, program, target, fleet, as_json=as_json, verbose=verbose)


def _fleet(on: str | None, plan: Plan, store: Path, program: Path) -> Workers | None:
    """The fleet that --on names; None where all is on this machine."""
    if on is None:
        if plan.mesh is not None:
            raise BadInput(f"{plan.source}: mesh: there is no fleet to measure: add --on HOSTS")
        return None
    from vtare.fleet.named_fleet import open_fleet

    return open_fleet(on, plan, store, program)


def _dry_run(on: str, plan: str, store: Path | None, seed: int | None, *, as_json: bool) -> None:
    """Run a plan on hosts that do not exist."""
    from vtare.contract import load_contract
    from vtare.design import draw_seed
    from vtare.errors import BadInput
    from vtare.fleet.dry import dry_run, simulated_number
    from vtare.plan.files import find_plan, load_plan
    from vtare.terminal.fleet import show_dry_run

    hosts, faults = simulated_number(on)
    if store is not None:
        raise BadInput("--store does not go with a dry run, which keeps nothing: leave one of the two out")
    checked = load_plan(find_plan(plan), contract=load_contract())
    chosen = seed if seed is not None else checked.seed if checked.seed is not None else draw_seed()
    _LOG.info(f"{checked.name}: dry run on {hosts} simulated hosts, seed {chosen}; nothing is measured")
    outcome = dry_run(checked, chosen, hosts, faults)
    if as_json:
        print_json(outcome.document())
    else:
        show_dry_run(stdout(), outcome)
    if not outcome.kept:
        raise click.exceptions.Exit(1)


@command("resume")
@store_argument
@on_option
@binary_option
@json_option
@verbose_option
def resume(store: Path, on: str | None, binary: Path | None, as_json: bool, verbose: bool) -> None:
    """Carry out `resume`.

    Makes the runs that are missing or damaged, tries again those that failed or were skipped, and writes the report.
    """
    from vtare.campaign.binary import binary_and_contract
    from vtare.campaign.objects import at_work
    from vtare.campaign.store import Store

    program, contract = binary_and_contract(binary)
    with at_work(store) as files, Store.open(store, files=files, contract=contract) as opened:
        _work(opened, program, store, _fleet(on, opened.plan, store, program), as_json=as_json, verbose=verbose)


@command("retry")
@store_argument
@click.option("--failed", is_flag=True, help="Make the runs again that failed.")
@click.option("--skipped", is_flag=True, help="Make the runs again that were skipped.")
@on_option
@binary_option
@json_option
@verbose_option
def retry(
    store: Path, failed: bool, skipped: bool, on: str | None, binary: Path | None, as_json: bool, verbose: bool
) -> None:
    """Carry out `retry`.

    Makes no other runs, and writes the report.
    """
    from vtare.campaign.binary import binary_and_contract
    from vtare.campaign.objects import at_work
    from vtare.campaign.store import Store
    from vtare.errors import BadInput

    chosen = [word for word, wanted in (("failed", failed), ("skipped", skipped)) if wanted]
    if not chosen:
        raise BadInput(
            "which runs to repeat is missing: add --failed, --skipped or both (`vtare resume` makes all that is left)"
        )
    program, contract = binary_and_contract(binary)
    with at_work(store) as files, Store.open(store, files=files, contract=contract) as opened:
        fleet = _fleet(on, opened.plan, store, program)
        _work(opened, program, store, fleet, frozenset(chosen), as_json=as_json, verbose=verbose)


@command("verify")
@store_argument
@click.option(
    "--repair",
    is_flag=True,
    help="Rebuild the journal from the runs; move damaged runs to STORE/damaged, to be made again.",
)
@json_option
def verify(store: Path, repair: bool, as_json: bool) -> None:
    """Carry out `verify`.

    Exits with 1 where a file differs from its checksum, or the journal from the runs. Nothing is changed without
    --repair.
    """
    from vtare.campaign.objects import at_work
    from vtare.campaign.verify import verify as verify_store
    from vtare.terminal.stores import show_verification

    fetch(store)
    with at_work(store) if repair else nullcontext():
        verification = verify_store(store, repair=repair)
    if as_json:
        print_json(verification.document())
    else:
        show_verification(stdout(), verification)
    if not verification.sound and not repair:
        raise click.exceptions.Exit(1)


@command("status")
@store_argument
@json_option
@click.option("--live", is_flag=True, help="Follow it on a terminal until it has ended; Ctrl-C stops looking.")
def status(store: Path, as_json: bool, live: bool) -> None:
    """Carry out `status`.

    Also names the runs that failed or were skipped.
    """
    from vtare.campaign.objects import named
    from vtare.campaign.status import State, read_state

    def state_now() -> State:
        fetch(store, runs=False)
        return read_state(store)

    if live:
        if as_json or not stdout().is_terminal:
            raise BadInput("--live needs a terminal: leave --live out")
        from vtare.terminal.live import follow

        follow(stdout(), store, state_now)
        return
    state = state_now()
    if not as_json:
        from vtare.terminal.stores import show_status

        show_status(stdout(), store, state)
        return
    words = [state.word(run) for run in state.runs]
    open_runs = words.count("failed") + words.count("pending")
    entries, stopped = state.entries, state.stopped
    document: records.Status = {
        "schema": "vtare.status/1",
        "answer": answered(
            [wording.runs(len(state.runs), state.listed)],
            "open" if open_runs else "done",
            advice=[(wording.MAKE_OPEN_RUNS, f"vtare resume {named(str(store))}")] if open_runs else [],
        ),
        "store": named(str(store)),
        "plan": state.plan.name,
        "seed": state.seed,
        "total": len(state.runs),
        "done": words.count("done"),
        "failed": words.count("failed"),
        "skipped": words.count("skipped"),
        "pending": words.count("pending"),
        "not_needed": words.count("not_needed"),
        "stopped": None if stopped is None else {"block": stopped.block, "reason": stopped.reason},
        "runs": [
            {
                "run_id": r.run_id,
                "experiment": r.experiment,
                "factors": r.factors,
                "block": r.block,
                "status": word,
                "reason": entries[r.run_id].reason if r.run_id in entries else None,
            }
            for r, word in zip(state.runs, words, strict=True)
            if word not in ("done", "not_needed")
        ],
    }
    print_json(document)


@command("clean")
@json_option
@verbose_option
def clean(as_json: bool, verbose: bool) -> None:
    """Carry out `clean`.

    Finds namespaces, containers, guests and programs by their names.
    """
    from vtare.platforms import remove_leftovers

    more = []
    # What is left out of an installation has left nothing.
    with suppress(ModuleNotFoundError):
        from vtare.weigh.layer import leftovers as weighed

        more.append(weighed)
    leftovers = remove_leftovers(more=more)
    gone = [leftover for leftover in leftovers if leftover.kept_because is None]
    kept = [leftover for leftover in leftovers if leftover.kept_because is not None]
    if as_json:
        document: records.Clean = {
            "schema": "vtare.clean/1",
            "removed": [leftover.name for leftover in gone],
            "kept": {leftover.name: leftover.kept_because for leftover in kept},
        }
        print_json(document)
        return
    for leftover in gone:
        stdout().print(wording.removed(f"{leftover.kind} {leftover.name}"))
    for leftover in kept:
        stdout().print(wording.kept(f"{leftover.kind} {leftover.name}", leftover.kept_because))
    if not leftovers:
        stdout().print(wording.NOTHING_LEFT)


def _work(
    opened: Store,
    program: Path,
    shown: Path,
    fleet: Workers | None,
    only: frozenset[str] | None = None,
    *,
    as_json: bool,
    verbose: bool,
) -> None:
    """Run what a store lacks, write its report, and end with the exit code of how it went.

    With `only`, runs of those statuses alone.
    """
    from vtare.campaign.executor import Campaign
    from vtare.campaign.journal import Journal
    from vtare.campaign.stop import StopRequest
    from vtare.sentences.words import duration
    from vtare.terminal.logs import is_quiet
    from vtare.terminal.progress import PlainProgress, TerminalProgress
    from vtare.terminal.stores import show_skipped

    on_terminal = stderr().is_terminal and not verbose and not is_quiet()
    progress = TerminalProgress(stderr()) if on_terminal else PlainProgress()
    with StopRequest() as stop:
        try:
            options: Any = {
                "progress": progress,
                "precise": _precision(opened, shown),
                "tidied": _log_tidied(shown),
                "only": only,
            }
            if fleet is None:
                result = Campaign(opened, program, stop, **options).run()
            else:
                from vtare.fleet.named_fleet import fleet_campaign

                result = fleet_campaign(opened, fleet, program, stop, **options).run()
        except VtareError as error:
            if error.exit_code == 130:
                _LOG.info(
                    f"stopped: the running cell was dropped, finished runs are kept; resume with: vtare resume {shown}"
                )
            raise
    document = _result_document(shown, result)
    sentences: list[str] = []
    if result.done:
        try:
            report, sentences, limits = _write_report(shown)
            document["report"] = str(report)
            document["answer"] = answered(
                sentences,
                "failed" if result.failed else "done",
                limits=limits,
                advice=[(wording.MAKE_FAILED_RUNS, f"vtare resume {shown}")] if result.failed else [],
            )
        except KeyboardInterrupt:
            _LOG.info(f"all runs are kept; write the report with: vtare report {shown}")
            raise
    if as_json:
        print_json(document)
    else:
        others = {"failed": result.failed, "skipped": result.skipped, "not needed": result.not_needed}
        stdout().print(wording.ended(result.done, result.total, duration(result.elapsed_s), others))
        if result.stopped is not None:
            stdout().print(wording.stopped(result.stopped.block, result.stopped.reason))
        if result.skipped:
            with Journal(shown / "journal.sqlite", read_only=True) as journal:
                show_skipped(stdout(), opened.runs, journal.entries())
        if result.failed:
            stdout().print(wording.see_why(str(shown)), soft_wrap=True)
        for line in sentences:
            stdout().print(line)
        stdout().print(wording.report(str(document["report"])) if result.done else wording.NO_REPORT, soft_wrap=True)
    if result.failed or not result.done:
        raise click.exceptions.Exit(1 if result.failed else 3)


def _log_tidied(shown: Path) -> Callable[[Tidied], None]:
    """What prints, before the first run, what the check of a store found; nothing about a new store."""

    def log(found: Tidied) -> None:
        from vtare.sentences.words import duration

        checked = found.conditions
        if checked.reasons:
            size = f"{checked.byte / 1e6:.1f} MB"
            _LOG.info(f"checked {len(checked.reasons)} finished runs ({size}) in {duration(checked.elapsed_s)}")
        if found.adopted:
            _LOG.info(f"taken over {len(found.adopted)} whole runs that the journal lacked")
        for run_id, reason in found.set_aside.items():
            _LOG.info(f"damaged: run {run_id}: {reason}; moved to {shown / 'damaged'} and made again")

    return log


def _precision(opened: Store, shown: Path) -> Callable[[int], str | None] | None:
    """What judges the plan's stopping rule between blocks; None where the plan has none."""
    rule = opened.plan.stop
    if rule is None:
        return None

    end: float | None = None

    def judge(block: int) -> str | None:
        from vtare.summary.stopping import judge_precision

        nonlocal end
        precision = judge_precision(shown, rule)
        if rule.experiment is None or (end is None and not precision.stop):
            _LOG.info(f"block {block}: {precision.reason}")
        end = time.monotonic() + rule.seconds if end is None else end
        if precision.stop:
            return precision.reason
        over = time.monotonic() >= end
        return wording.time_is_over(rule.experiment, rule.seconds, precision.reason) if over else None

    return judge


def _write_report(store: Path) -> tuple[Path, list[str], list[str]]:
    """Write the report of a campaign; beside the path stand its answer in sentences, and what limits it."""
    # Here, not above: plotting costs a second that `status` and `plan` need not pay.
    from vtare.report.claims import answer
    from vtare.report.content import layouts_of
    from vtare.report.processes import drawing_processes
    from vtare.report.write import REPORT_NAME, write_summary
    from vtare.sentences.template import plain

    with drawing_processes():
        summary = summary_of(store)
        path = write_summary(summary, REPORT_NAME)
        headline = answer(summary, layouts_of(summary))
        return path, [plain(sentence) for sentence in headline.sentences], list(headline.limits)


def _result_document(store: Path, result: CampaignResult) -> records.CampaignDocument:
    from vtare.campaign.objects import named

    return {
        "schema": "vtare.campaign/1",
        "store": named(str(store)),
        "total": result.total,
        "done": result.done,
        "failed": result.failed,
        "skipped": result.skipped,
        "not_needed": result.not_needed,
        "stopped": None if result.stopped is None else {"block": result.stopped.block, "reason": result.stopped.reason},
        "adopted": result.adopted,
        "set_aside": result.set_aside,
        "elapsed_s": result.elapsed_s,
        "report": None,
        "answer": answered([wording.NO_REPORT], "failed"),
    }
