"""What a re-analysis says: claims, each with the printed and the computed figure and a verdict."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from vtare.papers.published import read_rows

if TYPE_CHECKING:
    from collections.abc import Callable

Outcome = Literal["reproduces", "in part", "does not", "cannot be checked"]
OUTCOMES: Final[tuple[Outcome, ...]] = ("reproduces", "in part", "does not", "cannot be checked")


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim of a paper, in our words.

    `printed` is its figure as the paper has it, `found` what the code computes from the published tables; `why` says
    where the difference comes from, or what would be needed to check it.
    """

    id: str
    where: str
    says: str
    printed: str
    found: str
    outcome: Outcome
    why: str


@dataclass(frozen=True, slots=True)
class Reanalysis:
    """All claims of one paper that were looked at, and what stands above them."""

    paper: str
    about: str
    method: str
    claims: tuple[Claim, ...]

    @property
    def counts(self) -> Counter[str]:
        """How many claims have each outcome."""
        return Counter(claim.outcome for claim in self.claims)

    def document(self) -> dict[str, Any]:
        """The whole as one JSON-ready document of schema `vtare.reanalysis/1`."""
        return {
            "schema": "vtare.reanalysis/1",
            "paper": self.paper,
            "outcomes": {word: self.counts[word] for word in OUTCOMES},
            "claims": [
                {name: getattr(claim, name) for name in ("id", "where", "says", "printed", "found", "outcome", "why")}
                for claim in self.claims
            ],
        }


def rows_where(table: str, /, **wanted: str) -> list[dict[str, str]]:
    """Rows of a published table with these values."""
    return [row for row in read_rows(table) if all(row[key] == value for key, value in wanted.items())]


def one_value(table: str, column: str, /, **wanted: str) -> float:
    """The one number that a published table holds there.

    Raises:
        LookupError: none, or several that differ.
    """
    found = {row[column] for row in rows_where(table, **wanted) if row[column].strip()}
    if len(found) != 1:
        raise LookupError(f"{table}: found {len(found)} values of {column} with {wanted}, wanted one")
    return float(found.pop())


def grouped(table: str, by: Callable[[dict[str, str]], str], figure: str) -> dict[str, list[float]]:
    """The known figures of a table by group, in the order of the rows."""
    groups: dict[str, list[float]] = {}
    for row in read_rows(table):
        if row[figure].strip():
            groups.setdefault(by(row), []).append(float(row[figure]))
    return groups


def decide(*, holds: bool, in_part: bool = False) -> Outcome:
    """The outcome of a claim that was checked; *in part* where its conclusion holds and its figure does not."""
    return "reproduces" if holds else "in part" if in_part else "does not"
