"""Write a report as one file, whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from vtare.errors import BadInput
from vtare.report.build import build
from vtare.summary import summarise

if TYPE_CHECKING:
    from vtare.summary import Summary

REPORT_NAME = "report.html"


def write_report(store: Path, out: Path | None = None) -> Path:
    """Summarise a store and write its report.

    Args:
        store: directory of a campaign.
        out: file to write, `STORE/report.html` when left out.

    Returns:
        The file that was written.

    Raises:
        BadInput: the path is no store, holds no finished run, or the file cannot be written.
    """
    return write_summary(summarise(store), out if out is not None else store / REPORT_NAME)


def write_summary(summary: Summary, out: Path) -> Path:
    """Write the report of a summary to `out`: a temporary name first, then fsync and rename.

    Raises:
        BadInput: no run has finished or has a reading, or the file cannot be written.
    """
    finished = summary.design["status"].to_list().count("done")
    if summary.runs.height == 0 and finished:
        raise BadInput(
            f"{summary.store}: found {finished} finished runs without any reading, wanted at least one reading: see "
            f"{summary.store}/runs/*/log for what the instrument said, and measure into a new store"
        )
    if summary.runs.height == 0:
        raise BadInput(
            f"{summary.store}: found no finished run, wanted at least one: let `vtare resume {summary.store}` measure, "
            f"then report"
        )
    if out.is_dir():
        raise BadInput(f"{out}: found a directory, wanted a file name such as {out / REPORT_NAME}")
    write_whole(out, build(summary))
    return out


def write_whole(path: Path, content: str) -> None:
    """Write a text file under a temporary name beside it, fsync, and rename it into place.

    Raises:
        BadInput: the directory is missing or cannot be written, or the disk is full; nothing is left behind.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with temporary.open("w", encoding="utf-8", newline="\n") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        reason = error.strerror or str(error)
        raise BadInput(f"{path}: cannot write the report: {reason}; choose another file with --out") from error
