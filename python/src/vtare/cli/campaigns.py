"""Commands on campaigns: `run`, `resume`, `verify`, `status`, `clean`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vtare.cli.options import (
    BinaryOption,
    JsonOption,
    PlanArgument,
    SeedOption,
    StoreArgument,
    StoreOption,
    VerboseOption,
    print_json,
    stderr,
    stdout,
    summary_of,
)
from vtare.errors import VtareError

if TYPE_CHECKING:
    from collections.abc import Callable

    from vtare.campaign import CampaignResult, Store, Tidied

_LOG = logging.getLogger(__name__)


def run(
    plan: PlanArgument,
    store: StoreOption = None,
    seed: SeedOption = None,
    binary: BinaryOption = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Run a plan into a new store and write its report."""
    from vtare.campaign import Store, binary_and_contract, default_store
    from vtare.design import draw_seed
    from vtare.plan import find_plan, load_plan

    program, contract = binary_and_contract(binary)
    checked = load_plan(find_plan(plan), contract=contract)
    chosen = seed if seed is not None else checked.seed if checked.seed is not None else draw_seed()
    target = store or default_store(checked.name)
    with Store.create(target, checked, chosen) as opened:
        _LOG.info(f"{checked.name}: {len(opened.runs)} runs into {target}, seed {chosen}")
        _work(opened, program, target, as_json=as_json, verbose=verbose)


def resume(
    store: StoreArgument,
    binary: BinaryOption = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Go on with a campaign: make what is missing or damaged, try again what failed or was skipped, and report."""
    from vtare.campaign import Store, binary_and_contract

    program, contract = binary_and_contract(binary)
    with Store.open(store, contract=contract) as opened:
        _work(opened, program, store, as_json=as_json, verbose=verbose)


def verify(
    store: StoreArgument,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair", help="Rebuild the journal from the runs; move damaged runs to STORE/damaged, to be made again."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Check every file of a store by its checksum, and the journal by the runs. Exits with 1 where something is wrong.

    Nothing is changed without --repair.
    """
    from vtare.campaign.verify import verify as verify_store
    from vtare.terminal.stores import show_verification

    found = verify_store(store, repair=repair)
    if as_json:
        print_json(found.document())
    else:
        show_verification(stdout(), found)
    if not found.sound and not repair:
        raise typer.Exit(1)


def status(store: StoreArgument, as_json: JsonOption = False) -> None:
    """Show how far a campaign is, and what failed or was skipped."""
    from vtare.campaign import forget_keys
    from vtare.campaign.status import STATUSES, read_state

    forget_keys(store)
    state = read_state(store)
    if not as_json:
        from vtare.terminal.stores import show_status

        show_status(stdout(), store, state)
        return
    words = [state.word(run) for run in state.runs]
    entries, stopped = state.entries, state.stopped
    print_json(
        {
            "schema": "vtare.status/1",
            "store": str(store),
            "plan": state.plan.name,
            "seed": state.seed,
            "total": len(state.runs),
            **{word: words.count(word) for word in STATUSES},
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
    )


def clean(as_json: JsonOption = False, verbose: VerboseOption = False) -> None:
    """Remove what a killed campaign left on this machine, by its names: namespaces, containers, guests, programs."""
    from vtare.platforms import remove_leftovers

    found = remove_leftovers()
    gone = [leftover for leftover in found if leftover.kept_because is None]
    kept = [leftover for leftover in found if leftover.kept_because is not None]
    if as_json:
        print_json(
            {
                "schema": "vtare.clean/1",
                "removed": [leftover.name for leftover in gone],
                "kept": {leftover.name: leftover.kept_because for leftover in kept},
            }
        )
        return
    for leftover in gone:
        stdout().print(f"removed: {leftover.kind} {leftover.name}")
    for leftover in kept:
        stdout().print(f"kept: {leftover.kind} {leftover.name}: {leftover.kept_because}")
    if not found:
        stdout().print("nothing was left behind")


def _work(opened: Store, program: Path, shown: Path, *, as_json: bool, verbose: bool) -> None:
    """Run what a store lacks, write its report, and end with the exit code of how it went."""
    from vtare.campaign import Campaign, Journal, StopRequest
    from vtare.terminal.progress import PlainProgress, TerminalProgress
    from vtare.terminal.stores import show_skipped
    from vtare.terminal.tables import duration

    on_terminal = stderr().is_terminal and not verbose
    progress = TerminalProgress(stderr()) if on_terminal else PlainProgress()
    with StopRequest() as stop:
        try:
            result = Campaign(opened, program, stop, progress, _precision(opened, shown), _log_tidied(shown)).run()
        except VtareError as error:
            if error.exit_code == 130:
                _LOG.info(
                    f"stopped: the running cell was dropped, finished runs are kept; go on with: vtare resume {shown}"
                )
            raise
    document = _result_document(shown, result)
    if result.done:
        try:
            document["report"] = str(_write_report(shown))
        except KeyboardInterrupt:
            _LOG.info(f"all runs are kept; write the report with: vtare report {shown}")
            raise
    if as_json:
        print_json(document)
    else:
        words = f"{result.done} of {result.total} runs done in {duration(result.elapsed_s)}"
        counts = ((result.failed, "failed"), (result.skipped, "skipped"), (result.not_needed, "not needed"))
        extra = [f"{n} {word}" for n, word in counts if n]
        stdout().print(", ".join([words, *extra]))
        if result.stopped is not None:
            stdout().print(f"stopped after block {result.stopped.block}: {result.stopped.reason}")
        if result.skipped:
            with Journal(shown / "journal.sqlite", read_only=True) as journal:
                show_skipped(stdout(), opened.runs, journal.entries())
        if result.failed:
            stdout().print(f"see why with: vtare status {shown}; try them again with: vtare resume {shown}")
        stdout().print(f"report: {document['report']}" if result.done else "no run was measured, so there is no report")
    if result.failed or not result.done:
        raise typer.Exit(1 if result.failed else 3)


def _log_tidied(shown: Path) -> Callable[[Tidied], None]:
    """What prints, before the first run, what the check of a store found; nothing about a new store."""

    def log(found: Tidied) -> None:
        from vtare.terminal.tables import duration

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

    def judge(block: int) -> str | None:
        from vtare.summary.stopping import judge_precision

        found = judge_precision(shown, rule)
        _LOG.info(f"block {block}: {found.reason}")
        return found.reason if found.stop else None

    return judge


def _write_report(store: Path) -> Path:
    # Here, not above: plotting costs a second that `status` and `plan` need not pay.
    from vtare.report.write import REPORT_NAME, write_summary

    return write_summary(summary_of(store), REPORT_NAME)


def _result_document(store: Path, result: CampaignResult) -> dict[str, Any]:
    return {
        "schema": "vtare.campaign/1",
        "store": str(store),
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
    }
