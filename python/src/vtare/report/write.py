"""Write a report, its plain forms or its figures: each file whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vtare import process
from vtare.errors import BadInput
from vtare.plots import Drawing, png
from vtare.report.build import build
from vtare.report.content import content_of
from vtare.report.plain import FORMATS, render_plain
from vtare.stored.paths import kind_of
from vtare.summary import summarise

if TYPE_CHECKING:
    from vtare.report.content import Content
    from vtare.summary import Summary

REPORT_NAME = "report.html"
FIGURES_NAME = "figures"
FIGURE_FORMS: Final[dict[str, Callable[[Drawing], bytes]]] = {
    "svg": lambda drawing: f"{drawing.svg}\n".encode(),
    "png": png,
    "csv": lambda drawing: drawing.data.write_csv().encode(),
}
"""The forms of a figure's file, by the ending of its name."""


def write_report(store: Path, out: Path | None = None) -> Path:
    """Summarise a store and write its report.

    Args:
        store: directory of a campaign.
        out: file to write; left out: `STORE/report.html`, or in a cache where the store cannot be written.

    Returns:
        The file that was written.

    Raises:
        BadInput: the path is no store, holds no finished run, or the file cannot be written.
    """
    return write_summary(summarise(store), out if out is not None else REPORT_NAME)


def write_summary(summary: Summary, out: Path | str, *, form: str = "html") -> Path:
    """Write the report of a summary to `out` in one of `FORMATS`: a temporary name, then fsync and rename.

    A name alone (`str`) is one in the store or, where that cannot be written, in its place in the cache.

    Raises:
        BadInput: no run has finished or has a reading, or the file cannot be written.
    """
    refuse_empty(summary)
    if isinstance(out, str):
        out = _default_place(summary) / out
    if out.is_dir():
        raise BadInput(f"{out} is a directory: name a file, such as {out / default_name(form)}")
    made = build(summary) if form == "html" else render_plain(content_of(summary, figures=False), form)
    write_whole(out, made)
    return out


def _default_place(summary: Summary) -> Path:
    """Where files of a summary go where no place is named."""
    return summary.store if summary.derived is None else summary.derived.directory


def figures_place(summary: Summary) -> Path:
    """Where figures go where no place is named.

    Raises:
        BadInput: something else stands there: a link in a store that somebody else made may lead anywhere.
    """
    place = _default_place(summary) / FIGURES_NAME
    kind = kind_of(place)
    if kind not in (None, "directory"):
        raise BadInput(f"{place} is a {kind}, not a directory: name another with --out")
    return place


def default_name(form: str) -> str:
    """The name of a report's file in its store."""
    return REPORT_NAME if form == "html" else FORMATS[form]


def write_figures(
    content: Content, directory: Path, *, only: tuple[str, ...] = (), forms: tuple[str, ...] = ("svg",)
) -> list[Path]:
    """Write every figure of a report as files of its own, one for each of `forms` (keys of `FIGURE_FORMS`).

    `only` keeps those whose name has one of these words.

    Raises:
        BadInput: no figure has such a name, or the directory cannot be written.
    """
    drawings = {drawing.name: drawing for drawing in content.drawings()}
    chosen = [name for name in drawings if not only or any(word in name for word in only)]
    if not chosen:
        kinds = ", ".join(dict.fromkeys(name.partition("-")[0] for name in drawings)) or "none"
        asked = " or ".join(f"'{word}'" for word in only) or "any name"
        raise BadInput(
            f"--only: no figure has {asked} in its name: use a part of one; they begin with {kinds}, followed by "
            "experiment and levels"
        )
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(
            f"{directory}: cannot make the directory: {error.strerror}; choose another with --out"
        ) from error
    written = []
    for name in chosen:
        for form in forms:
            path = directory / f"{name}.{form}"
            write_whole(path, FIGURE_FORMS[form](drawings[name]))
            written.append(path)
    return written


def refuse_empty(summary: Summary) -> None:
    """Refuse a summary without a finished run.

    Raises:
        BadInput: there is none.
    """
    finished = summary.design["status"].to_list().count("done")
    if summary.runs.height == 0 and finished:
        raise BadInput(
            f"{summary.store}: {finished} runs finished without any reading: see {summary.store}/runs/*/log for what "
            "the instrument reported, and measure into a new store"
        )
    if summary.runs.height == 0:
        raise BadInput(f"{summary.store}: no run is finished: let `vtare resume {summary.store}` measure, then report")


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file under a temporary name beside it, fsync, and rename it into place.

    Raises:
        BadInput: the directory is missing or cannot be written, or the disk is full; nothing is left behind.
    """
    try:
        process.write_whole(path, content.encode() if isinstance(content, str) else content)
    except OSError as error:
        reason = error.strerror or str(error)
        what = "figure" if path.suffix[1:] in FIGURE_FORMS else "report"
        raise BadInput(f"{path}: cannot write the {what}: {reason}; choose another place with --out") from error
