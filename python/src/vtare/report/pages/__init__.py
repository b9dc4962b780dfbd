"""One file for each instrument whose report shows more than figures and tables that all have in common.

`report/pages/NAME.py` holds a `PAGE`; an instrument without one has the usual page
(docs/internals/add-an-instrument.md).
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

from vtare.report.pages.model import Page

if TYPE_CHECKING:
    from vtare.plan.model import Experiment


@cache
def page_of(instrument: str) -> Page:
    """The page of an instrument: its own, else the usual one."""
    name = f"{__name__}.{instrument}"
    page: Page = import_module(name if find_spec(name) is not None else "vtare.report.default_page").PAGE
    return page


def page_for(experiment: Experiment) -> Page:
    """The page of an experiment: that of its instrument, or of meshes."""
    if experiment.meshed:
        page: Page = import_module("vtare.report.mesh").PAGE
        return page
    return page_of(experiment.instrument)
