"""One file for each instrument whose report shows more than figures and tables that all have in common.

`report/pages/NAME.py` holds a `PAGE`; an instrument without one has the usual page (docs/add-an-instrument.md).
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec

from vtare.report.pages.model import Answered, Beside, CellColumn, Page, Placement


@cache
def page_of(instrument: str) -> Page:
    """The page of an instrument: its own, else the usual one."""
    name = f"{__name__}.{instrument}"
    page: Page = import_module(name if find_spec(name) is not None else "vtare.report.usual").PAGE
    return page


__all__ = ["Answered", "Beside", "CellColumn", "Page", "Placement", "page_of"]
