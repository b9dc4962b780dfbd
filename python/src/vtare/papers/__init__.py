"""Published tables and where a measured machine stands among them.

The names exported here are loaded on first use, so that `vtare.papers.published`, which writes the extract for the
binary, runs with the standard library alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vtare.lazy import attributes

if TYPE_CHECKING:
    from vtare.papers.catalogue import (
        BrokenTable,
        CatalogueEntry,
        Paper,
        PublishedTable,
        UnknownTable,
        find,
        list_papers,
        load,
    )
    from vtare.papers.claims import reanalyse
    from vtare.papers.claims.model import Claim, Reanalysis
    from vtare.papers.pages import page, write_pages
    from vtare.papers.standing import (
        CvStanding,
        PublishedFigure,
        Standing,
        place_counter_cv,
        place_sleep_miss,
        place_timer_cost,
    )

_HOME = {
    "catalogue": (
        "BrokenTable", "CatalogueEntry", "Paper", "PublishedTable", "UnknownTable", "find", "list_papers", "load",
    ),
    "claims": ("reanalyse",),
    "claims.model": ("Claim", "Reanalysis"),
    "pages": ("page", "write_pages"),
    "standing": (
        "CvStanding", "PublishedFigure", "Standing", "place_counter_cv", "place_sleep_miss", "place_timer_cost",
    ),
}  # fmt: skip

__all__ = [
    "BrokenTable",
    "CatalogueEntry",
    "Claim",
    "CvStanding",
    "Paper",
    "PublishedFigure",
    "PublishedTable",
    "Reanalysis",
    "Standing",
    "UnknownTable",
    "find",
    "list_papers",
    "load",
    "page",
    "place_counter_cv",
    "place_sleep_miss",
    "place_timer_cost",
    "reanalyse",
    "write_pages",
]

__getattr__ = attributes(__name__, _HOME)
