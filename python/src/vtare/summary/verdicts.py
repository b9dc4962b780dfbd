"""The four words of a verdict, with their direction from the estimate and the interval that the verdict stands on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

HIGHER: Final = "higher"
LOWER: Final = "lower"
EQUIVALENT: Final = "equivalent"
INCONCLUSIVE: Final = "inconclusive"
#: Every word, conclusions first.
WORDS: Final = (HIGHER, LOWER, EQUIVALENT, INCONCLUSIVE)


def word_of(row: Mapping[str, Any]) -> str:
    """Return the word for a row with `verdict`, `ratio` or `difference`, and the interval of the one that it has.

    Ratio, interval and p-value of a row are one formula. Were they not, no direction would be claimed: a row that
    *differs* is `higher` only where estimate and interval lie above no difference, `lower` only where both lie below.

    >>> word_of({"verdict": "differs", "ratio": 0.59, "ratio_low": 0.42, "ratio_high": 0.83, "difference": 120.0})
    'lower'
    >>> word_of({"verdict": "differs", "ratio": 1.2, "ratio_low": 0.9, "ratio_high": 1.6, "difference": 120.0})
    'inconclusive'
    """
    if row["verdict"] == "equivalent":
        return EQUIVALENT
    if row["verdict"] != "differs":
        return INCONCLUSIVE
    name, centre = ("ratio", 1.0) if row["ratio"] is not None else ("difference", 0.0)
    estimate, low, high = row[name], row.get(f"{name}_low"), row.get(f"{name}_high")
    # An end that is not there has no limit: a baseline below the clock's step.
    if estimate > centre and (low is None or low > centre):
        return HIGHER
    if estimate < centre and (high is None or high < centre):
        return LOWER
    return INCONCLUSIVE


__all__ = ["EQUIVALENT", "HIGHER", "INCONCLUSIVE", "LOWER", "WORDS", "word_of"]
