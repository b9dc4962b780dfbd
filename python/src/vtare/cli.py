"""`vtare-lab`: the lab's commands. The only file that sees every stage.

`vtare run`, `status`, `resume`, `verify`, `report`, `plot`, `serve-report`, `compare`, `plan`, `papers`, `overhead` and
`clean` of the binary end here, as git's commands do.
"""

from __future__ import annotations

import json
import logging
import signal
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console

from vtare import __version__
from vtare.arguments import forgive_lost_readers, integer, percentage
from vtare.campaign import (
    Journal,
    StopRequest,
    Store,
    Tidied,
    binary_and_contract,
    default_store,
    forget_keys,
    read_store,
)
from vtare.campaign import verify as verify_store
from vtare.campaign.status import STATUSES, run_status
from vtare.contract import load_contract
from vtare.design import draw_seed, expected_run_s, make_design
from vtare.errors import BadInput, MachineCannot, VtareError, refusal_of
from vtare.plan import Plan, find_plan, load_plan, shipped_plans
from vtare.terminal.logs import start_logging
from vtare.terminal.progress import PlainProgress, TerminalProgress
from vtare.terminal.stores import show_plan, show_skipped, show_status, show_verification
from vtare.terminal.tables import duration, for_tables

if TYPE_CHECKING:
    from types import FrameType

    from vtare.bulk import Executor
    from vtare.campaign import CampaignResult
    from vtare.summary import Summary

app = typer.Typer(
    name="vtare-lab",
    help="Plans, campaigns and reports of vtare.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
_out = Console(highlight=False, markup=False, soft_wrap=True)
_err = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
_LOG = logging.getLogger("vtare.cli")

PlanArgument = Annotated[str, typer.Argument(metavar="PLAN", help="A plan file, or the name of a shipped plan.")]
StoreArgument = Annotated[Path, typer.Argument(metavar="STORE", help="The directory a campaign left.")]
StoreOption = Annotated[Path | None, typer.Option("--store", help="Where to keep it (default vtare-store/NAME).")]
BinaryOption = Annotated[Path | None, typer.Option("--binary", help="The vtare binary that measures.")]
SeedOption = Annotated[
    int | None,
    typer.Option(
        "--seed", parser=integer("--seed", 0), metavar="N", help="Seed of the design (default: the plan's, else drawn)."
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, nothing else.")]


def _verbose(wanted: bool) -> bool:
    if wanted:
        start_logging(verbose=True)
    return wanted


VerboseOption = Annotated[
    bool,
    typer.Option("--verbose", "-v", callback=_verbose, help="Log each run and each tool that is called, on stderr."),
]
DaskOption = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="ADDRESS",
        help="Read the store on the workers of this Dask scheduler, which see it under the same path.",
    ),
]
OutOption = Annotated[
    Path | None, typer.Option("--out", help="The file to write (default STORE/report.html, .md or .tex).")
]


@app.command()
def run(
    plan: PlanArgument,
    store: StoreOption = None,
    seed: SeedOption = None,
    binary: BinaryOption = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Run a plan into a new store and write its report."""
    program, contract = binary_and_contract(binary)
    checked = load_plan(find_plan(plan), contract=contract)
    chosen = seed if seed is not None else checked.seed if checked.seed is not None else draw_seed()
    target = store or default_store(checked.name)
    with Store.create(target, checked, chosen) as opened:
        _LOG.info(f"{checked.name}: {len(opened.runs)} runs into {target}, seed {chosen}")
        _work(opened, program, target, as_json=as_json, verbose=verbose)


@app.command()
def resume(
    store: StoreArgument,
    binary: BinaryOption = None,
    as_json: JsonOption = False,
    verbose: VerboseOption = False,
) -> None:
    """Go on with a campaign: make what is missing or damaged, try again what failed or was skipped, and report."""
    program, contract = binary_and_contract(binary)
    with Store.open(store, contract=contract) as opened:
        _work(opened, program, store, as_json=as_json, verbose=verbose)


@app.command()
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
    found = verify_store(store, repair=repair)
    if as_json:
        _print_json(found.document())
    else:
        show_verification(_out, found)
    if not found.sound and not repair:
        raise typer.Exit(1)


@app.command()
def status(store: StoreArgument, as_json: JsonOption = False) -> None:
    """Show how far a campaign is, and what failed or was skipped."""
    forget_keys(store)
    plan, runs, seed = read_store(store)
    with Journal(store / "journal.sqlite", read_only=True) as journal:
        entries, stopped = journal.entries(), journal.stopped()
    if not as_json:
        show_status(_out, store, plan, runs, entries, stopped)
        return
    words = [run_status(r, entries, stopped) for r in runs]
    _print_json(
        {
            "schema": "vtare.status/1",
            "store": str(store),
            "plan": plan.name,
            "seed": seed,
            "total": len(runs),
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
                for r, word in zip(runs, words, strict=True)
                if word not in ("done", "not_needed")
            ],
        }
    )


@app.command()
def report(
    store: StoreArgument,
    out: OutOption = None,
    form: Annotated[
        str, typer.Option("--format", metavar="FORM", help="html, md (Markdown), latex (tables for a paper) or json.")
    ] = "html",
    dask: DaskOption = None,
) -> None:
    """Write the report of a campaign, finished or not. Exits with 1 where a run could not be used."""
    from vtare.bulk import ALONE, dask_executor
    from vtare.report.write import default_name, write_summary

    if form not in ("html", "md", "latex", "json"):
        raise BadInput(f"--format: found '{form}', expected html, md, latex or json")
    with nullcontext(ALONE) if dask is None else dask_executor(dask) as executor:
        # Workers have working directories of their own.
        summary = _summary_of(store if dask is None else store.resolve(), executor)
        _out.print(str(write_summary(summary, out or default_name(form), form=form)))
    _exit_with_problems(summary)


@app.command()
def plot(
    store: StoreArgument,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Where to write them (default STORE/figures).")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="WORD", help="Only figures with this in their name; repeatable."),
    ] = None,
    forms: Annotated[
        list[str] | None,
        typer.Option("--format", metavar="FORM", help="svg (default), png, csv (what is drawn); repeatable."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write every figure of the report as files of its own, for papers and print: picture, data or both."""
    from vtare.report.content import content_of
    from vtare.report.write import FIGURE_FORMS, figures_place, refuse_empty, write_figures

    asked = tuple(dict.fromkeys(forms or ("svg",)))
    if unknown := [form for form in asked if form not in FIGURE_FORMS]:
        raise BadInput(f"--format: found '{unknown[0]}', expected {', '.join(FIGURE_FORMS)}")
    summary = _summary_of(store)
    refuse_empty(summary)
    directory = out if out is not None else figures_place(summary)
    written = write_figures(content_of(summary), directory, only=tuple(only or ()), forms=asked)
    if as_json:
        left_out = [problem.reason for problem in summary.sample_set.problems]
        _print_json({"schema": "vtare.plot/1", "figures": [str(path) for path in written], "left_out": left_out})
    else:
        for path in written:
            _out.print(str(path))
    _exit_with_problems(summary)


@app.command("serve-report")
def serve_report(
    store: StoreArgument,
    port: Annotated[
        int,
        typer.Option(
            "--port",
            parser=integer("--port", 0, 65_535),
            metavar="N",
            help="Port on the loopback address; 0 takes any free one.",
        ),
    ] = 0,
    every: Annotated[
        str, typer.Option("--every", metavar="TIME", help="Least time between two reports made anew.")
    ] = "30 s",
) -> None:
    """Show the report in a browser while its campaign runs: on this machine only, made anew as runs finish."""
    from vtare.quantities import QuantityError, Unit, parse, unit_of
    from vtare.report.live import serve

    try:
        every_s = float(parse(every, unit_of("seconds") or Unit("s", {})))
    except QuantityError as error:
        raise BadInput(f"--every: {error}") from error
    if not 0.0 <= every_s <= 86_400.0:
        raise BadInput(f"--every: found {every}, expected 0 s to 24 h")
    forget_keys(store)
    read_store(store)
    serve(store, port=port, every_s=every_s, say=_out.print)


@app.command()
def compare(
    before: Annotated[Path, typer.Argument(metavar="BEFORE", help="The store of a campaign before the change.")],
    after: Annotated[Path, typer.Argument(metavar="AFTER", help="The store of a campaign after it.")],
    more_before: Annotated[
        list[Path] | None, typer.Option("--before", metavar="STORE", help="Another campaign before; may be repeated.")
    ] = None,
    more_after: Annotated[
        list[Path] | None, typer.Option("--after", metavar="STORE", help="Another campaign after; may be repeated.")
    ] = None,
    fail_on_regression: Annotated[
        bool,
        typer.Option(
            "--fail-on-regression",
            help="Exit with 1 where a median or a tail got worse; needs two campaigns on each side.",
        ),
    ] = False,
    margin: Annotated[
        float | None,
        typer.Option(
            "--margin",
            parser=percentage("--margin", 0.0, 100.0),
            metavar="PERCENT",
            help="Margin of equivalence (default AFTER's plan's).",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare campaigns before and after a change, cell by cell, with intervals and verdicts.

    A verdict takes at least two campaigns on each side: one cannot separate a change from a campaign's own offset.
    """
    from vtare.summary.between import compare_stores, refuse_undecidable
    from vtare.terminal.between import show_between

    sides = [before, *(more_before or [])], [after, *(more_after or [])]
    for store in (*sides[0], *sides[1]):
        forget_keys(store)
    if fail_on_regression:
        refuse_undecidable(*sides)
    found = compare_stores(*sides, margin_percent=margin)
    if as_json:
        _print_json(found.document())
    else:
        show_between(_out, found)
    for reason in (*found.left_out_before, *found.left_out_after):
        _LOG.warning(f"left out: {reason}")
    if found.damaged or (fail_on_regression and found.regressions):
        raise typer.Exit(1)


@app.command("plan")
def plan_command(
    plan: Annotated[
        str | None, typer.Argument(metavar="PLAN", help="A plan file, or the name of a shipped plan; none: a list.")
    ] = None,
    seed: SeedOption = None,
    binary: BinaryOption = None,
    power: Annotated[
        bool, typer.Option("--power", help="State how many runs per cell it takes; PLAN may be a pilot's store.")
    ] = False,
    pilot: Annotated[
        Path | None, typer.Option("--pilot", metavar="STORE", help="With --power: a store to take spreads from.")
    ] = None,
    spread: Annotated[
        float | None,
        typer.Option(
            "--spread",
            parser=percentage("--spread", 0.0, 1e4),
            metavar="PERCENT",
            help="With --power: standard deviation of run medians, no pilot.",
        ),
    ] = None,
    shift: Annotated[
        float | None,
        typer.Option(
            "--shift",
            parser=percentage("--shift", 0.0, 1e4),
            metavar="PERCENT",
            help="With --power: the difference to find (default 10).",
        ),
    ] = None,
    chance: Annotated[
        float | None,
        typer.Option(
            "--chance",
            parser=percentage("--chance", 5.0, 100.0),
            metavar="PERCENT",
            help="With --power: how surely to find it (default 80).",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check a plan and show its design and the time it will take, or the runs it needs. Measures nothing.

    Without a plan the shipped ones are listed.
    """
    of_power = {"--pilot": pilot, "--spread": spread, "--shift": shift, "--chance": chance}
    given = [name for name, value in of_power.items() if value is not None]
    if plan is None and (power or given or as_json):
        raise BadInput("found no plan, expected one: `vtare plan` lists those that are shipped")
    if plan is None or (plan == "list" and not Path(plan).exists()):
        for name, path in shipped_plans().items():
            question = " ".join(load_plan(path).question.split())
            _out.print(f"{name}: {question}")
        return
    if power:
        _show_power(plan, pilot, spread, shift or 10.0, chance or 80.0, as_json=as_json)
        return
    if given:
        raise BadInput(f"found {' and '.join(given)} without --power, to which they belong: add it, or leave them out")
    # Named by hand, the binary's own schema is used; else the packaged one: a plan can be checked without a binary.
    contract = load_contract() if binary is None else binary_and_contract(binary)[1]
    checked = load_plan(find_plan(plan), contract=contract)
    shown_seed = seed if seed is not None else checked.seed
    runs = make_design(checked, 0 if shown_seed is None else shown_seed)
    expected_s = sum(expected_run_s(r, checked) for r in runs)
    if as_json:
        _print_json(_plan_document(checked, shown_seed, len(runs), expected_s))
    else:
        show_plan(_out, checked, runs, shown_seed, expected_s)


@app.command()
def overhead(
    samples: Annotated[Path, typer.Argument(metavar="SAMPLES", help="Samples of `vtare rtt` (--out).")],
    sender_capture: Annotated[
        Path | None, typer.Option("--sender-capture", help="What `vtare capture` saw on the sender's host side.")
    ] = None,
    responder_capture: Annotated[
        Path | None, typer.Option("--responder-capture", help="What it saw on the responder's host side.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Split round trips into pieces by place: join samples of `vtare rtt` with captures from the hosts."""
    from vtare.clock_relation import read_relations
    from vtare.overhead import document, join, read_capture, read_round_trips
    from vtare.terminal.overhead import show_document

    if sender_capture is None and responder_capture is None:
        raise BadInput(
            "found no capture, expected --sender-capture FILE, --responder-capture FILE or both "
            "(`vtare capture IFACE --out FILE.parquet` on the host)"
        )
    trips = read_round_trips(samples)
    sender, responder = (None if path is None else read_capture(path) for path in (sender_capture, responder_capture))
    clock = (read_relations(samples.parent) or {}).get("responder")
    joined = [join(trips.frame, flow, sender=sender, responder=responder, clock=clock) for flow in trips.flows]
    described = document(joined, samples=samples, sender=sender_capture, responder=responder_capture)
    if as_json:
        _print_json(described)
    else:
        show_document(_out, described)


@app.command()
def clean(as_json: JsonOption = False, verbose: VerboseOption = False) -> None:
    """Remove what a killed campaign left on this machine, by its names: namespaces, containers, guests, programs."""
    from vtare.platforms import remove_leftovers

    found = remove_leftovers()
    gone = [leftover for leftover in found if leftover.kept_because is None]
    kept = [leftover for leftover in found if leftover.kept_because is not None]
    if as_json:
        _print_json(
            {
                "schema": "vtare.clean/1",
                "removed": [leftover.name for leftover in gone],
                "kept": {leftover.name: leftover.kept_because for leftover in kept},
            }
        )
        return
    for leftover in gone:
        _out.print(f"removed: {leftover.kind} {leftover.name}")
    for leftover in kept:
        _out.print(f"kept: {leftover.kind} {leftover.name}: {leftover.kept_because}")
    if not found:
        _out.print("nothing was left behind")


@app.command()
def papers(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A paper or one of its tables.")] = None,
    claims: Annotated[
        bool, typer.Option("--claims", help="Which claims of the paper reproduce from its own tables, and why not.")
    ] = False,
    store: Annotated[
        Path | None, typer.Option("--store", metavar="STORE", help="Set a campaign's results among the published ones.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="With --store: also write its figures there, as SVG.")
    ] = None,
    write: Annotated[
        Path | None, typer.Option("--write", metavar="DIR", help="Write a page for each paper (as docs/papers).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the published tables or show one; state which claims reproduce; set own results among them."""
    from vtare import papers as published
    from vtare.terminal import papers as printed

    if write is not None:
        if claims or as_json or any(other is not None for other in (name, store, out)):
            raise BadInput("--write: found other options beside it, expected none: it writes a page for each paper")
        _write_paper_pages(write)
        return
    if store is not None:
        _show_standing(name, store, out, as_json=as_json)
        return
    if out is not None:
        raise BadInput("--out belongs to --store: add it, or leave it out")
    if claims or (as_json and name is not None):
        if name is None:
            raise BadInput("--claims: found no paper, expected one: `vtare papers` lists them")
        found = published.reanalyse(published.find(name)[0].name)
        if as_json:
            _print_json(found.document())
        else:
            printed.show_claims(_out, found)
    elif name is None:
        if as_json:
            raise BadInput("--json: found no paper, expected one: `vtare papers` lists them")
        printed.show_list(_out)
    else:
        printed.show_tables(for_tables(_out), name)


def _write_paper_pages(directory: Path) -> None:
    from vtare.papers import write_pages

    try:
        for path in write_pages(directory, plans=frozenset(shipped_plans())):
            _out.print(str(path))
    except OSError as error:
        raise BadInput(f"{directory}: cannot write the pages: {error.strerror}; choose another directory") from error


def _show_standing(name: str | None, store: Path, out: Path | None, *, as_json: bool) -> None:
    """Where a campaign's results stand among a paper's, all papers' where none is named."""
    from vtare.papers import find
    from vtare.report.overlay import overlay, write_overlay
    from vtare.terminal.overlay import show_overlay

    paper = None if name is None else find(name)[0].name
    summary = _summary_of(store)
    found = overlay(summary, paper)
    if as_json:
        _print_json(found.document())
    else:
        show_overlay(_out, found)
    if out is not None:
        for path in write_overlay(found, out):
            _LOG.info(f"figure: {path}")
    _exit_with_problems(summary)


def _show_power(
    plan: str, pilot: Path | None, spread: float | None, shift: float, chance: float, *, as_json: bool
) -> None:
    """State how many runs per cell find a shift, from a pilot store or a stated spread."""
    from vtare.summary import power as planning
    from vtare.terminal.power import show_needs

    if Path(plan).is_dir():
        if pilot is not None:
            raise BadInput(f"{plan} is a store and --pilot names another; expected one pilot")
        pilot = Path(plan)
        checked, _, _ = read_store(pilot)
    else:
        checked = load_plan(find_plan(plan))
    if (pilot is None) == (spread is None):
        raise BadInput(
            "--power: found "
            + ("neither a pilot nor a spread" if pilot is None else "a pilot and a spread")
            + f", expected one: `vtare plan {plan} --power --pilot STORE`, or --spread PERCENT of run medians"
        )
    question = planning.Question(shift, chance / 100.0, checked.analysis.alpha, checked.blocks)
    if spread is not None:
        needs = planning.needs_from_spread(checked, spread, question)
    else:
        needs = planning.needs_from_pilot(Path(str(pilot)), question)
    if as_json:
        _print_json(planning.document(question, needs, plan=checked.name, pilot=pilot))
    else:
        show_needs(_out, question, needs)


def _work(opened: Store, program: Path, shown: Path, *, as_json: bool, verbose: bool) -> None:
    """Run what a store lacks, write its report, and end with the exit code of how it went."""
    from vtare.campaign import Campaign

    on_terminal = _err.is_terminal and not verbose
    progress = TerminalProgress(_err) if on_terminal else PlainProgress()
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
        _print_json(document)
    else:
        words = f"{result.done} of {result.total} runs done in {duration(result.elapsed_s)}"
        counts = ((result.failed, "failed"), (result.skipped, "skipped"), (result.not_needed, "not needed"))
        extra = [f"{n} {word}" for n, word in counts if n]
        _out.print(", ".join([words, *extra]))
        if result.stopped is not None:
            _out.print(f"stopped after block {result.stopped.block}: {result.stopped.reason}")
        if result.skipped:
            with Journal(shown / "journal.sqlite", read_only=True) as journal:
                show_skipped(_out, opened.runs, journal.entries())
        if result.failed:
            _out.print(f"see why with: vtare status {shown}; try them again with: vtare resume {shown}")
        _out.print(f"report: {document['report']}" if result.done else "no run was measured, so there is no report")
    if result.failed or not result.done:
        raise typer.Exit(1 if result.failed else 3)


def _log_tidied(shown: Path) -> Callable[[Tidied], None]:
    """What prints, before the first run, what the check of a store found; nothing about a new store."""

    def log(found: Tidied) -> None:
        checked = found.conditions
        if checked.reasons:
            size = f"{checked.byte / 1e6:.1f} MB"
            _LOG.info(f"checked {len(checked.reasons)} finished runs ({size}) in {duration(checked.elapsed_s)}")
        if found.adopted:
            _LOG.info(f"taken over {len(found.adopted)} whole runs that the journal lacked")
        for run_id, reason in found.set_aside.items():
            _LOG.info(f"damaged: run {run_id}: {reason}; moved to {shown / 'damaged'} and made again")

    return log


def _summary_of(store: Path, executor: Executor | None = None) -> Summary:
    """The summary of a store, read by an executor; where no run can be used, the reasons are reported first."""
    from vtare.bulk import ALONE
    from vtare.summary import summarise

    forget_keys(store)
    summary = summarise(store, executor=ALONE if executor is None else executor)
    derived = summary.derived
    if derived is not None and derived.reason is not None:
        _LOG.warning(f"{store} cannot be written ({derived.reason}); files made from it are in {derived.directory}")
    if summary.runs.height == 0:
        for problem in summary.sample_set.problems:
            _LOG.warning(f"left out: {problem.reason}")
    return summary


def _exit_with_problems(summary: Summary) -> None:
    """Name every run that could not be used, and end with 1 where there is one."""
    for problem in summary.sample_set.problems:
        _LOG.warning(f"left out: {problem.reason}")
    if summary.sample_set.problems:
        raise typer.Exit(1)


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

    return write_summary(_summary_of(store), REPORT_NAME)


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


def _plan_document(plan: Plan, seed: int | None, runs: int, expected_s: float) -> dict[str, Any]:
    return {
        "schema": "vtare.plan-check/1",
        "plan": plan.name,
        "question": plan.question,
        "seed": seed,
        "blocks": plan.blocks,
        "stop": None
        if plan.stop is None
        else {"precision_percent": plan.stop.precision_percent, "least_blocks": plan.stop.least_blocks},
        "runs": runs,
        "expected_s": expected_s,
        "hosts": {role: asdict(host) for role, host in plan.hosts.items()},
        "experiments": [
            {
                "name": e.name,
                "instrument": e.instrument,
                "parameters": e.parameters,
                "factors": {f.name: [level.label for level in f.levels] for f in e.factors},
            }
            for e in plan.experiments
        ],
    }


def _print_json(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")


def _version(shown: bool) -> None:
    if shown:
        _out.print(f"vtare-lab {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Plans, campaigns and reports of vtare."""


def main() -> None:
    """Entry point of `vtare-lab`: prints an error as one line and ends with its exit code."""
    start_logging()
    forgive_lost_readers()
    for number in (signal.SIGTERM, signal.SIGHUP):
        # What is half written is removed on the way out. A campaign takes these signals over; nohup ignores SIGHUP.
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _interrupt)
    try:
        try:
            # As it is typed: the binary hands its subcommands on.
            app(prog_name="vtare")
        finally:
            sys.stdout.flush()
    except VtareError as error:
        _end(error)
    except OSError as error:
        _end(refusal_of(error))
    except MemoryError:
        _end(MachineCannot("this process may not take the memory that it needs (see `ulimit -v`); nothing is lost"))
    except KeyboardInterrupt:
        _LOG.error("interrupted")
        sys.exit(130)


def _end(error: VtareError) -> NoReturn:
    if "--json" in sys.argv:
        _print_json({"schema": "vtare.error/1", "error": str(error), "exit_code": error.exit_code})
    _LOG.error("%s", error)
    sys.exit(error.exit_code)


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
