"""The command `papers`: published tables, the claims that they bear out, a campaign's results among them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from vtare.cli.options import JsonOption, exit_with_problems, print_json, stdout, summary_of
from vtare.errors import BadInput

_LOG = logging.getLogger(__name__)


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
            print_json(found.document())
        else:
            printed.show_claims(stdout(), found)
    elif name is None:
        if as_json:
            raise BadInput("--json: found no paper, expected one: `vtare papers` lists them")
        printed.show_list(stdout())
    else:
        from vtare.terminal.tables import for_tables

        printed.show_tables(for_tables(stdout()), name)


def _write_paper_pages(directory: Path) -> None:
    from vtare.papers import write_pages
    from vtare.plan.files import shipped_plans

    try:
        for path in write_pages(directory, plans=frozenset(shipped_plans())):
            stdout().print(str(path))
    except OSError as error:
        raise BadInput(f"{directory}: cannot write the pages: {error.strerror}; choose another directory") from error


def _show_standing(name: str | None, store: Path, out: Path | None, *, as_json: bool) -> None:
    """Where a campaign's results stand among a paper's, all papers' where none is named."""
    from vtare.papers import find
    from vtare.report.overlay import overlay, write_overlay
    from vtare.terminal.overlay import show_overlay
    from vtare.watch.store import is_watched, newest_round

    paper = None if name is None else find(name)[0].name
    if is_watched(store):
        store = newest_round(store)
        _LOG.info(f"the newest round of a watch: {store}")
    summary = summary_of(store)
    found = overlay(summary, paper)
    if as_json:
        print_json(found.document())
    else:
        show_overlay(stdout(), found)
    if out is not None:
        for path in write_overlay(found, out):
            _LOG.info(f"figure: {path}")
    exit_with_problems(summary)
