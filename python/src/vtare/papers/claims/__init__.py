"""The published tables through this package's own statistics: which claims reproduce, which do not, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vtare.papers.claims import batalla, kachan, kirova, lampe, oliveira
from vtare.papers.claims.model import Reanalysis

if TYPE_CHECKING:
    from collections.abc import Callable

    from vtare.plots import Drawing


_CLAIMS: dict[str, Callable[[], Reanalysis]] = {
    "kirova2019": kirova.reanalyse,
    "lampe2013": lampe.reanalyse,
    "oliveira": oliveira.reanalyse,
    "kachan2017": kachan.reanalyse,
    "batalla2018": batalla.reanalyse,
}
_FIGURES: dict[str, Callable[[], tuple[Drawing, ...]]] = {
    "kirova2019": kirova.figures,
    "lampe2013": lampe.figures,
    "oliveira": oliveira.figures,
    "kachan2017": kachan.figures,
    "batalla2018": batalla.figures,
}


def reanalyse(paper: str) -> Reanalysis:
    """Every claim of a paper that its published figures let one check, computed now from the tables.

    Raises:
        KeyError: no such paper; `catalogue.PAPERS` lists them.
    """
    return _CLAIMS[paper]()


def figures_of(paper: str) -> tuple[Drawing, ...]:
    """The figures that go with it.

    Raises:
        KeyError: no such paper.
    """
    return _FIGURES[paper]()
