"""The four words of a verdict, with their direction from the estimate and the interval that the verdict stands on."""

from __future__ import annotations

from typing import Final, Protocol

HIGHER: Final = "higher"
LOWER: Final = "lower"
EQUIVALENT: Final = "equivalent"
INCONCLUSIVE: Final = "inconclusive"
#: Every word, conclusions first.
WORDS: Final = (HIGHER, LOWER, EQUIVALENT, INCONCLUSIVE)


class Judged(Protocol):
    """A row with `verdict`, `ratio` or `difference`, and the interval of the one that it has."""

    @property
    def verdict(self) -> str: ...
    @property
    def ratio(self) -> float | None: ...
    @property
    def ratio_low(self) -> float | None: ...
    @property
    def ratio_high(self) -> float | None: ...
    @property
    def ratio_side(self) -> str | None: ...
    @property
    def difference(self) -> float | None: ...
    @property
    def difference_low(self) -> float | None: ...
    @property
    def difference_high(self) -> float | None: ...


def word_of(row: Judged) -> str:
    """Return the word for a row.

    Ratio, interval and p-value of a row are one formula. Were they not, no direction would be claimed: a row that
    *differs* is `higher` only where estimate and interval lie above no difference, `lower` only where both lie below.
    """
    if row.verdict == "equivalent":
        return EQUIVALENT
    if row.verdict != "differs":
        return INCONCLUSIVE
    if row.ratio_side is not None:
        return HIGHER if row.ratio_side == "at least" else LOWER
    estimate, low, high, centre = (
        (row.ratio, row.ratio_low, row.ratio_high, 1.0)
        if row.ratio is not None
        else (row.difference, row.difference_low, row.difference_high, 0.0)
    )
    # An end that is not there has no limit: a baseline below the clock's step.
    if estimate is not None and estimate > centre and (low is None or low > centre):
        return HIGHER
    if estimate is not None and estimate < centre and (high is None or high < centre):
        return LOWER
    return INCONCLUSIVE


__all__ = ["EQUIVALENT", "HIGHER", "INCONCLUSIVE", "LOWER", "WORDS", "word_of"]
