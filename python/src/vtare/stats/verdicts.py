"""The words of a verdict: one vocabulary for reports, `compare`, `ab` and `watch`."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal

#: Which direction of a figure is an improvement.
Better = Literal["more", "less"]


class Merit(StrEnum):
    """A difference of a figure that has a direction."""

    WORSE = "worse"
    BETTER = "better"


class Speed(StrEnum):
    """A difference of the time of a command, which people call slow or fast."""

    SLOWER = "slower"
    FASTER = "faster"


class Unclear(StrEnum):
    """An inconclusive comparison of commands: the figure's steps are why, or the scatter of its runs, or neither."""

    COARSE = "too coarse"
    NOISY = "too noisy"
    NO_CLEAR_DIFFERENCE = "no clear difference"


class Verdict(StrEnum):
    """What a comparison shows of one side against the other, conclusions first."""

    HIGHER = "higher"
    LOWER = "lower"
    EQUIVALENT = "equivalent"
    INCONCLUSIVE = "inconclusive"
    REFUSED = "refused"

    @property
    def is_different(self) -> bool:
        """Whether it shows a difference."""
        return self in (Verdict.HIGHER, Verdict.LOWER)

    @property
    def is_open(self) -> bool:
        """Whether it gives no answer."""
        return self in (Verdict.INCONCLUSIVE, Verdict.REFUSED)

    def change(self, better: Better | None) -> Merit | None:
        """Whether the difference is an improvement; None without a difference or where the figure has no direction.

        >>> Verdict.HIGHER.change("less"), Verdict.HIGHER.change(None), Verdict.EQUIVALENT.change("less")
        (<Merit.WORSE: 'worse'>, None, None)
        """
        if better is None or not self.is_different:
            return None
        return Merit.BETTER if (self is Verdict.HIGHER) == (better == "more") else Merit.WORSE

    def word(self, better: Better | None = None) -> str:
        """The word that people read: worse and better where the figure has a direction.

        >>> Verdict.LOWER.word("more"), Verdict.LOWER.word(), Verdict.EQUIVALENT.word("more")
        ('worse', 'lower', 'equivalent')
        """
        return str(self.change(better) or self)


#: Every word that a verdict may have, conclusions first.
WORDS: Final = (*Merit, *Verdict)
#: The words that a limit may be stated in.
LIMIT_WORDS: Final = (*Speed, *Merit, Verdict.HIGHER, Verdict.LOWER)
