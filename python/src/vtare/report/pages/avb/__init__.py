"""What a report shows of available bandwidth: how near the truth, how sure, how expensive, how quick."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vtare.report.overlay_tables import error_standing
from vtare.report.pages.avb.answer import sentences
from vtare.report.pages.avb.figures import questions
from vtare.report.pages.avb.table import COLUMNS, made_columns, method_lines
from vtare.report.pages.model import Page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.report.layout import Layout


def _method(layouts: Sequence[Layout]) -> tuple[str, ...]:
    return method_lines() if any(layout.experiment.routed for layout in layouts) else ()


PAGE: Final = Page(
    sentences=sentences,
    is_titled=True,
    questions=questions,
    columns=COLUMNS,
    made=made_columns,
    all_columns=True,
    method=_method,
    more_and_less={"absolute_error_percent": ("more error", "less error")},
    papers=("kirova2019", "kachan2017"),
    beside=error_standing,
)
