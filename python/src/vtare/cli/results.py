"""Commands on what was measured: `report`, `plot`, `serve-report`, `compare`, `overhead`."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from vtare.arguments import integer, percentage
from vtare.cli.options import (
    JsonOption,
    OutOption,
    StoreArgument,
    exit_with_problems,
    fetch,
    place_of,
    print_json,
    seconds_of,
    stdout,
    summary_of,
)
from vtare.errors import BadInput

_LOG = logging.getLogger(__name__)


def report(
    store: StoreArgument,
    out: OutOption = None,
    form: Annotated[
        str, typer.Option("--format", metavar="FORM", help="html, md (Markdown), latex (tables for a paper) or json.")
    ] = "html",
) -> None:
    """Write the report of a campaign, finished or not. Exits with 1 where a run could not be used."""
    from vtare.plots.processes import drawing_processes
    from vtare.report.write import default_name, write_summary
    from vtare.watch.store import is_watched

    if form not in ("html", "md", "latex", "json"):
        raise BadInput(f"--format: found '{form}', expected html, md, latex or json")
    if is_watched(store):
        if form != "html":
            raise BadInput(f"--format: found '{form}', expected html for a store of `vtare watch`")
        stdout().print(str(_report_over_time(store, out)))
        return
    drawing = drawing_processes() if form == "html" else nullcontext()
    with drawing:
        summary = summary_of(store)
        stdout().print(str(write_summary(summary, out or default_name(form), form=form)))
    exit_with_problems(summary)


def _report_over_time(store: Path, out: Path | None) -> Path:
    from vtare.report.over_time import page
    from vtare.report.write import REPORT_NAME, write_whole
    from vtare.watch.over_time import over_time

    place = out or store / REPORT_NAME
    write_whole(place, page(store, over_time(store)))
    return place


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
    from vtare.plots.processes import drawing_processes
    from vtare.report.content import content_of
    from vtare.report.write import FIGURE_FORMS, figures_place, refuse_empty, write_figures

    asked = tuple(dict.fromkeys(forms or ("svg",)))
    if unknown := [form for form in asked if form not in FIGURE_FORMS]:
        raise BadInput(f"--format: found '{unknown[0]}', expected {', '.join(FIGURE_FORMS)}")
    summary = summary_of(store)
    refuse_empty(summary)
    directory = out if out is not None else figures_place(summary)
    with drawing_processes():
        written = write_figures(content_of(summary), directory, only=tuple(only or ()), forms=asked)
    if as_json:
        left_out = [problem.reason for problem in summary.sample_set.problems]
        print_json({"schema": "vtare.plot/1", "figures": [str(path) for path in written], "left_out": left_out})
    else:
        for path in written:
            stdout().print(str(path))
    exit_with_problems(summary)


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
    every: Annotated[str, typer.Option("--every", metavar="TIME", help="Least time between two new reports.")] = "30 s",
) -> None:
    """Show the report in a browser while its campaign runs: on this machine only, renewed as runs finish."""
    from vtare.campaign.store import read_store
    from vtare.report.live import serve

    every_s = seconds_of("--every", every)
    fetch(store)
    read_store(store)
    serve(store, port=port, every_s=every_s, say=stdout().print)


def compare(
    before: Annotated[
        Path | None,
        typer.Argument(metavar="BEFORE", parser=place_of, help="The store of a campaign before the change."),
    ] = None,
    after: Annotated[
        Path | None, typer.Argument(metavar="AFTER", parser=place_of, help="The store of a campaign after it.")
    ] = None,
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
            help="Margin of equivalence (default AFTER's plan's; over time 5 %).",
        ),
    ] = None,
    over_time: Annotated[
        Path | None,
        typer.Option(
            "--over-time",
            metavar="STORE",
            help="Instead: where figures of this store of `vtare watch`, or of a campaign, changed over time.",
        ),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show every cell with its p-value.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare campaigns before and after a change, cell by cell, with intervals and verdicts.

    A verdict takes at least two campaigns on each side: one cannot separate a change from a campaign's own offset.

    With --over-time STORE --fail-on-regression exits with 1 where a figure has changed for the worse by the margin.
    """
    if over_time is not None:
        if before is not None or more_before or more_after:
            raise BadInput("--over-time: found another store, expected the one of --over-time alone")
        _compare_over_time(over_time, 0.05 if margin is None else margin / 100.0, fail_on_regression, as_json)
        return
    if before is None or after is None:
        raise BadInput(f"found {'no store' if before is None else 'one store'}, expected BEFORE and AFTER")
    from vtare.summary.between import compare_stores, refuse_undecidable
    from vtare.terminal.between import show_between

    sides = [before, *(more_before or [])], [after, *(more_after or [])]
    for store in (*sides[0], *sides[1]):
        fetch(store)
    if fail_on_regression:
        refuse_undecidable(*sides)
    found = compare_stores(*sides, margin_percent=margin)
    if as_json:
        print_json(found.document())
    else:
        show_between(stdout(), found, verbose=verbose)
    for reason in (*found.left_out_before, *found.left_out_after):
        _LOG.warning(f"left out: {reason}")
    if found.damaged or (fail_on_regression and found.regressions):
        raise typer.Exit(1)


def _compare_over_time(store: Path, margin: float, fail_on_regression: bool, as_json: bool) -> None:
    from vtare.terminal.over_time import show_over_time
    from vtare.watch.over_time import over_time

    fetch(store)
    found = over_time(store)
    if as_json:
        print_json(found.document(store, margin))
    else:
        show_over_time(stdout(), found, margin)
    if fail_on_regression and any(change.worse for change in found.alerts(margin)):
        raise typer.Exit(1)


def overhead(
    samples: Annotated[Path, typer.Argument(metavar="SAMPLES", help="Samples of `vtare rtt` (--out).")],
    sender_capture: Annotated[
        Path | None, typer.Option("--sender-capture", help="Samples of `vtare capture` from the sender's host.")
    ] = None,
    responder_capture: Annotated[
        Path | None, typer.Option("--responder-capture", help="The same from the responder's host.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Split round trips into pieces by place: join samples of `vtare rtt` with captures from the hosts."""
    from vtare.overhead.figures import document
    from vtare.overhead.files import read_capture, read_round_trips
    from vtare.overhead.join import join
    from vtare.terminal.overhead import show_document
    from vtare.topology.clock_relation import read_relations

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
        print_json(described)
    else:
        show_document(stdout(), described)
