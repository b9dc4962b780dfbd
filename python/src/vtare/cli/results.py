"""Commands on what was measured: `report`, `compare`, `overhead`."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from vtare.cli.options import (
    FILE,
    STORE,
    Choice,
    Percentage,
    Time,
    Whole,
    exit_with_problems,
    fetch,
    json_option,
    print_json,
    stdout,
    store_argument,
    summary_of,
    write_page,
)
from vtare.cli.tree import command
from vtare.errors import BadInput

if TYPE_CHECKING:
    from vtare.records.campaigns import Plot

_LOG = logging.getLogger(__name__)
#: What a report is written as, and what each figure of it is.
REPORT_FORMS: Final = ("html", "md", "latex", "json")
FIGURE_FORMS: Final = ("svg", "png", "csv")


@command("report")
@store_argument
@click.argument("after", type=STORE, required=False, metavar="STORE2", help="A second store, to compare with.")
@click.option(
    "--out",
    type=FILE,
    metavar="PLACE",
    help="The file to write (default STORE/report.html, .md, .tex or .json), or the directory of figures "
    "(default STORE/figures).",
)
@click.option(
    "--format",
    "forms",
    multiple=True,
    type=Choice((*REPORT_FORMS, *FIGURE_FORMS)),
    metavar="FORM",
    help="html (default), md (Markdown), latex (tables for a paper) or json; or svg, png, csv (what is drawn): each "
    "figure as a file of its own, in one form or several.",
)
@click.option("--only", multiple=True, metavar="WORD", help="Only figures with this in their name; repeatable.")
@click.option("--live", is_flag=True, help="Show it in a browser on this machine while the campaign runs.")
@click.option(
    "--port", type=Whole(0, 65_535), metavar="N", help="With --live: the port on the loopback address (default: any)."
)
@click.option(
    "--every", type=Time(), metavar="TIME", help="With --live: the least time between two new reports (default 30 s)."
)
@click.option("--json", "as_json", is_flag=True, help="List figures, or compare, in one JSON document.")
def report(
    store: Path,
    after: Path | None,
    out: Path | None,
    forms: tuple[str, ...],
    only: tuple[str, ...],
    live: bool,
    port: int | None,
    every: float | None,
    as_json: bool,
) -> None:
    """Carry out `report`.

    The campaign need not be finished. Exits with 1 where a run could not be used. With a second store it shows what
    `vtare compare` shows.
    """
    drawn = tuple(dict.fromkeys(form for form in forms if form in FIGURE_FORMS))
    written = [form for form in forms if form in REPORT_FORMS]
    _refuse_apart(
        ("--port", port is not None, "--live", live),
        ("--every", every is not None, "--live", live),
        ("--only", bool(only), "--format svg, png or csv", bool(drawn)),
        ("--json", as_json, "figures (--format svg, png or csv) or two stores", bool(drawn) or after is not None),
    )
    if live and (out is not None or forms):
        raise BadInput("--live: no file is written. Leave --out and --format out")
    if after is not None and forms:
        raise BadInput("two stores: the comparison is a page. Leave --format out, and name the page with --out")
    if live and after is not None:
        raise BadInput("--live shows one store. Leave the second out")
    if after is not None:
        show_compared_stores([store], [after], out=out, as_json=as_json)
    elif live:
        _show_live(store, port or 0, 30.0 if every is None else every)
    elif drawn:
        if written:
            raise BadInput(f"--format: {written[0]} is a report and {drawn[0]} a figure. Write one after the other")
        _write_figures(store, out, only, drawn, as_json=as_json)
    elif len(written) > 1:
        raise BadInput(f"--format: {' and '.join(written)} are two reports. Write one after the other")
    else:
        _write_report(store, out, written[0] if written else "html")


def _refuse_apart(*pairs: tuple[str, bool, str, bool]) -> None:
    """Refuse options that were typed without the one they belong to."""
    for option, typed, home, at_home in pairs:
        if typed and not at_home:
            raise BadInput(f"{option} belongs to {home}: add it, or leave {option} out")


def _write_report(store: Path, out: Path | None, form: str) -> None:
    from vtare.report.processes import drawing_processes
    from vtare.report.write import default_name, write_summary
    from vtare.stored.paths import is_watched

    if is_watched(store):
        if form != "html":
            raise BadInput(f"--format: '{form}' cannot be made of a store of `vtare watch`. Use html")
        stdout().print(str(_report_over_time(store, out)), soft_wrap=True)
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


def _write_figures(
    store: Path, out: Path | None, only: tuple[str, ...], forms: tuple[str, ...], *, as_json: bool
) -> None:
    from vtare.report.content import content_of
    from vtare.report.processes import drawing_processes
    from vtare.report.write import figures_place, refuse_empty, write_figures

    summary = summary_of(store)
    refuse_empty(summary)
    directory = out if out is not None else figures_place(summary)
    with drawing_processes():
        written = write_figures(content_of(summary), directory, only=only, forms=forms)
    if as_json:
        left_out = [problem.reason for problem in summary.sample_set.problems]
        figures = [str(path) for path in written]
        document: Plot = {"schema": "vtare.plot/1", "figures": figures, "left_out": left_out}
        print_json(document)
    else:
        for path in written:
            stdout().print(str(path), soft_wrap=True)
    exit_with_problems(summary)


def _show_live(store: Path, port: int, every_s: float) -> None:
    from vtare.campaign.store import read_store
    from vtare.report.live import serve

    fetch(store)
    read_store(store)
    serve(store, port=port, every_s=every_s, say=stdout().print)


@command("compare")
@click.argument(
    "before", type=STORE, required=False, metavar="BEFORE", help="The store of a campaign before the change."
)
@click.argument("after", type=STORE, required=False, metavar="AFTER", help="The store of a campaign after it.")
@click.option(
    "--before",
    "more_before",
    multiple=True,
    type=STORE,
    metavar="STORE",
    help="Another campaign before; may be repeated.",
)
@click.option(
    "--after", "more_after", multiple=True, type=STORE, metavar="STORE", help="Another campaign after; may be repeated."
)
@click.option(
    "--fail-on-regression",
    is_flag=True,
    help="Exit with 1 where a median or a tail got worse; needs two campaigns on each side.",
)
@click.option(
    "--margin",
    type=Percentage(0.0, 100.0),
    metavar="PERCENT",
    help="Margin of equivalence (default AFTER's plan's; over time 5 %).",
)
@click.option(
    "--over-time",
    type=STORE,
    metavar="STORE",
    help="Instead: where figures of this store of `vtare watch`, or of a campaign, changed over time.",
)
@click.option("--verbose", "-v", is_flag=True, help="Show every cell with its p-value.")
@click.option("--out", type=FILE, metavar="FILE.html", help="Also write the comparison as a page to send.")
@json_option
def compare(
    before: Path | None,
    after: Path | None,
    more_before: tuple[Path, ...],
    more_after: tuple[Path, ...],
    fail_on_regression: bool,
    margin: float | None,
    over_time: Path | None,
    verbose: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """Carry out `compare`.

    Compares cell by cell, with intervals and verdicts. A verdict takes at least two campaigns on each side: one cannot
    tell a change from the spread between campaigns.

    With --over-time STORE --fail-on-regression exits with 1 where a figure has changed for the worse by the margin.
    """
    if over_time is not None:
        if before is not None or more_before or more_after:
            raise BadInput("--over-time compares one store with itself: leave out the other stores")
        _compare_over_time(over_time, 0.05 if margin is None else margin / 100.0, fail_on_regression, as_json)
        return
    if before is None or after is None:
        missing = "BEFORE and AFTER are" if before is None else "AFTER is"
        raise BadInput(f"{missing} missing: name the stores of before and after a change")
    show_compared_stores(
        [before, *more_before],
        [after, *more_after],
        margin=margin,
        fail_on_regression=fail_on_regression,
        verbose=verbose,
        out=out,
        as_json=as_json,
    )


def show_compared_stores(
    before: list[Path],
    after: list[Path],
    *,
    margin: float | None = None,
    fail_on_regression: bool = False,
    verbose: bool = False,
    out: Path | None = None,
    as_json: bool = False,
) -> None:
    """Show what changed between the campaigns of two sides; with `out` write it as a page, too."""
    from vtare.summary.between import compare_stores, refuse_undecidable
    from vtare.terminal.between import show_between

    for store in (*before, *after):
        fetch(store)
    if fail_on_regression:
        refuse_undecidable(before, after)
    compared = compare_stores(before, after, margin_percent=margin)
    if as_json:
        print_json(compared.document())
    else:
        show_between(stdout(), compared, verbose=verbose)
    if out is not None:
        from vtare.report.compared import compared_page

        write_page(out, compared_page(compared), as_json=as_json)
    for reason in (*compared.left_out_before, *compared.left_out_after):
        _LOG.warning(f"left out: {reason}")
    if compared.damaged or (fail_on_regression and compared.regressions):
        raise click.exceptions.Exit(1)


def _compare_over_time(store: Path, margin: float, fail_on_regression: bool, as_json: bool) -> None:
    from vtare.terminal.over_time import show_over_time
    from vtare.watch.over_time import over_time

    fetch(store)
    history = over_time(store)
    if as_json:
        print_json(history.document(store, margin))
    else:
        show_over_time(stdout(), history, margin)
    if fail_on_regression and any(change.worse for change in history.alerts(margin)):
        raise click.exceptions.Exit(1)


@command("overhead")
@click.argument("samples", type=FILE, metavar="SAMPLES", help="Samples of `vtare rtt` (--out).")
@click.option("--sender-capture", type=FILE, metavar="FILE", help="Samples of `vtare capture` from the sender's host.")
@click.option("--responder-capture", type=FILE, metavar="FILE", help="The same from the responder's host.")
@json_option
def overhead(samples: Path, sender_capture: Path | None, responder_capture: Path | None, as_json: bool) -> None:
    """Carry out `overhead`.

    Joins samples of `vtare rtt` with captures from the hosts.
    """
    from vtare.overhead.files import read_capture, read_round_trips
    from vtare.overhead.join import join
    from vtare.terminal.overhead import document, show_document
    from vtare.topology.clock_relation import read_relations

    if sender_capture is None and responder_capture is None:
        raise BadInput(
            "there is no capture to compare with: add --sender-capture FILE, --responder-capture FILE or both "
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
