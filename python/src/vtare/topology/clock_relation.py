"""How far the clock of one host is ahead of the sender's, with a bound that holds whatever delayed the packets.

Before a run and after it, the sender exchanges packets with each other host. Each has four stamps: it left the sender
at `sent`, on the sender's clock; it came to the other host at `received` and was answered at `replied`, on the other's;
the answer was there at `arrived`. No packet arrives before it is sent, so the other clock is ahead by `received - sent`
at most and by `replied - arrived` at least. No assumption is made on the delays, neither that both ways are alike nor
that they are short. Between two comparisons both clocks are taken to keep their rates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from vtare import documents
from vtare.errors import BadInput

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

CLOCKS_SCHEMA: Final = "vtare.clocks/1"
CLOCKS_FILE: Final = "clocks.json"


@dataclass(frozen=True, slots=True)
class ClockComparison:
    """By how much another clock was ahead when the sender's was at `at_ns`: `low_ns` at least, `high_ns` at most."""

    at_ns: int
    low_ns: int
    high_ns: int

    @property
    def width_ns(self) -> int:
        """What it leaves open."""
        return self.high_ns - self.low_ns

    @property
    def reversed(self) -> ClockComparison:
        """The same seen from the other clock: by how much the one of `at_ns` is ahead of that.

        >>> ClockComparison(1000, 40, 60).reversed
        ClockComparison(at_ns=1050, low_ns=-60, high_ns=-40)
        """
        return ClockComparison(self.at_ns + (self.low_ns + self.high_ns) // 2, -self.high_ns, -self.low_ns)


@dataclass(frozen=True, slots=True)
class ClockRelation:
    """The comparisons of one clock with the sender's, in order; none where it is the sender's own."""

    comparisons: tuple[ClockComparison, ...] = ()

    def ahead(self, at_ns: NDArray[np.float64]) -> NDArray[np.float64]:
        """By how much the other clock is ahead at times of the sender's clock, in the middle of what is possible."""
        if not self.comparisons:
            return np.zeros_like(at_ns)
        known = [one.at_ns for one in self.comparisons]
        return np.interp(at_ns, known, [(one.low_ns + one.high_ns) / 2 for one in self.comparisons])

    def on_senders(self, at_ns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Times of the sender's clock at times of the other's."""
        # What the other is ahead by changes by far less than itself: the second guess is exact to a nanosecond.
        guess = at_ns - self.ahead(at_ns - self.ahead(at_ns))
        return at_ns - self.ahead(guess)

    @property
    def bound_ns(self) -> float:
        """How far off that may be, at any time between the comparisons."""
        return max((one.width_ns / 2 for one in self.comparisons), default=0.0)

    def document(self) -> list[dict[str, int]]:
        """The comparisons as a run's `clocks.json` has them."""
        return [asdict(one) for one in self.comparisons]

    @classmethod
    def of_document(cls, found: Any) -> Self:
        """Read back what `document` wrote. Raises KeyError, TypeError or ValueError where it is none."""
        return cls(tuple(ClockComparison(int(one["at_ns"]), int(one["low_ns"]), int(one["high_ns"])) for one in found))


def read_relations(directory: Path) -> Mapping[str, ClockRelation] | None:
    """The clocks of a run's other hosts, by role; None where the run was on one machine, which has one clock.

    Raises:
        BadInput: the file is damaged.
    """
    path = directory / CLOCKS_FILE
    if not path.exists():
        return None
    try:
        return {role: ClockRelation.of_document(relation) for role, relation in documents.read(path)["hosts"].items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"{path}: damaged, or not left by a run between machines ({error!r}); measure again") from error
