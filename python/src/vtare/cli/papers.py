"""The command `papers`: published tables, the claims that they bear out, a campaign's results among them."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from vtare.cli.options import (
    DIRECTORY,
    STORE,
    exit_with_problems,
    json_option,
    print_json,
    stdout,
    summary_of,
    write_page,
)
from vtare.cli.tree import command
from vtare.errors import BadInput

_LOG = logging.getLogger(__name__)


@command("papers")
@click.argument("name", required=False, metavar="NAME", help="A paper or one of its tables.")
@click.option("--claims", is_flag=True, help="Which claims of the paper reproduce from its own tables, and why not.")
@click.option("--store", type=STORE, metavar="STORE", help="Set a campaign's results among the published ones.")
@click.option(
    "--out",
    type=DIRECTORY,
    metavar="FILE.html",
    help="Also write a page to send; with --store and a DIR, the figures as SVG.",
)
@click.option("--write", type=DIRECTORY, metavar="DIR", help="Write a page for each paper.")
@json_option
def papers(
    name: str | None, claims: bool, store: Path | None, out: Path | None, write: Path | None, as_json: bool
) -> None:
    """Carry out `papers`.

    With --store your own results stand among the published ones.
    """
    from vtare.terminal import papers as printed

    if write is not None:
        if claims or as_json or any(other is not None for other in (name, store, out)):
            raise BadInput("--write writes a page for each paper: leave out the other options")
        _write_paper_pages(write)
        return
    if store is not None:
        _show_standing(name, store, out, as_json=as_json)
        return
    if out is not None and not is_page(out):
        raise BadInput(f"--out {out}: a directory belongs to --store. Name a page: FILE.html")
    if claims or out is not None or (as_json and name is not None):
        if name is None:
            raise BadInput("--claims, --out: no paper is named. `vtare papers` lists them")
        from vtare.papers.catalogue import find
        from vtare.papers.claims import reanalyse

        claimed = reanalyse(find(name)[0].name)
        if as_json:
            print_json(claimed.document())
        else:
            printed.show_claims(stdout(), claimed)
        if out is not None:
            write_page(out, printed.claims_page(claimed), as_json=as_json)
    elif name is None:
        if as_json:
            raise BadInput("--json needs a paper: name one that `vtare papers` lists")
        printed.show_list(stdout())
    else:
        from vtare.terminal.tables import for_tables

        printed.show_tables(for_tables(stdout()), name)


def is_page(out: Path) -> bool:
    """Whether a file for `--out` is a page, not a directory."""
    return out.suffix.lower() in (".html", ".htm")


def _write_paper_pages(directory: Path) -> None:
    from vtare.papers.pages import write_pages
    from vtare.plan.files import shipped_plans

    try:
        for path in write_pages(directory, plans=frozenset(shipped_plans())):
            stdout().print(str(path), soft_wrap=True)
    except OSError as error:
        raise BadInput(f"{directory}: cannot write the pages: {error.strerror}; choose another directory") from error


def _show_standing(name: str | None, store: Path, out: Path | None, *, as_json: bool) -> None:
    """Where a campaign's results stand among a paper's, all papers' where none is named."""
    from vtare.papers.catalogue import find
    from vtare.report.overlay import overlay, overlay_page, write_overlay
    from vtare.stored.paths import is_watched
    from vtare.terminal.overlay import show_overlay
    from vtare.watch.store import newest_round

    paper = None if name is None else find(name)[0].name
    if is_watched(store):
        store = newest_round(store)
        _LOG.info(f"the newest round of a watch: {store}")
    summary = summary_of(store)
    standing = overlay(summary, paper)
    if as_json:
        print_json(standing.document())
    else:
        show_overlay(stdout(), standing)
    if out is not None and is_page(out):
        write_page(out, overlay_page(standing), as_json=as_json)
    elif out is not None:
        for path in write_overlay(standing, out):
            _LOG.info(f"figure: {path}")
    exit_with_problems(summary)
