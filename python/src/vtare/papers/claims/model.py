"""What a re-analysis reports: claims, each with the printed and the computed figure, an outcome and its reason."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, Literal, cast

from vtare.papers.published import read_rows, rows_where
from vtare.records.answer import answered
from vtare.sentences import comparison as wording

if TYPE_CHECKING:
    from collections.abc import Callable

    from vtare.records import papers

Outcome = Literal["reproduces", "in part", "does not reproduce", "cannot be decided"]
OUTCOMES: Final[tuple[Outcome, ...]] = ("reproduces", "in part", "does not reproduce", "cannot be decided")


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim of a paper, in our words.

    `statement` is the claim, `printed` its figure in the paper, `found` what the code computes from the published
    figures; `why` is the reason of the outcome, or what would be needed to decide it.
    """

    id: str
    where: str
    statement: str
    printed: str
    found: str
    outcome: Outcome
    why: str


@dataclass(frozen=True, slots=True)
class Reanalysis:
    """All claims of one paper that were checked, with what the paper publishes and how it was checked."""

    paper: str
    about: str
    method: str
    claims: tuple[Claim, ...]

    @property
    def counts(self) -> Counter[str]:
        """How many claims have each outcome."""
        return Counter(claim.outcome for claim in self.claims)

    def headline(self) -> str:
        """How many claims have each outcome, in a sentence."""
        return wording.outcomes(self.paper, len(self.claims), [self.counts[word] for word in OUTCOMES])

    def document(self) -> papers.ReanalysisDocument:
        """The whole as one JSON-ready document of schema `vtare.reanalysis/2`."""
        return {
            "schema": "vtare.reanalysis/2",
            "answer": answered([self.headline()], "checked"),
            "paper": self.paper,
            "outcomes": {word: self.counts[word] for word in OUTCOMES},
            "claims": [cast("papers.CheckedClaim", asdict(claim)) for claim in self.claims],
        }


def grouped(table: str, by: Callable[[dict[str, str]], str], figure: str) -> dict[str, list[float]]:
    """The known figures of a table by group, in the order of the rows."""
    groups: dict[str, list[float]] = {}
    for row in read_rows(table):
        if row[figure].strip():
            groups.setdefault(by(row), []).append(float(row[figure]))
    return groups


def decide(*, holds: bool, in_part: bool = False) -> Outcome:
    """The outcome of a claim that was checked; *in part* where its conclusion holds and its figure does not."""
    return "reproduces" if holds else "in part" if in_part else "does not reproduce"


@dataclass(frozen=True, slots=True)
class Stated:
    """What sentences of a paper state for one claim: figures and words by part, and where the sentences stand."""

    id: str
    where: str
    numbers: dict[str, float]
    words: dict[str, str]

    def names(self, part: str) -> list[str]:
        """The names of a list in words: `Xen, ESXi` gives both."""
        return [name.strip() for name in self.words[part].split(",")]

    def claim(self, statement: str, printed: str, found: str, outcome: Outcome, why: str) -> Claim:
        """The claim that these sentences make, with what was computed for it."""
        return Claim(self.id, self.where, statement, printed, found, outcome, why)


def stated(paper: str, claim: str) -> Stated:
    """The rows of a paper's table of statements that belong to one claim.

    Raises:
        LookupError: the table has no such claim.
    """
    rows = rows_where(f"{paper}_statements", claim=claim)
    if not rows:
        raise LookupError(f"{paper}_statements: there is no row of claim {claim!r}")
    places = dict.fromkeys(row["source"].split(" ", 1)[1] for row in rows)
    numbers = {row["part"]: float(row["value"]) for row in rows if row["value"].strip()}
    words = {row["part"]: row["words"] for row in rows if row["words"].strip()}
    return Stated(claim, "; ".join(places), numbers, words)
