"""A card: what the kernel's services cost on each platform of a machine; and what a command would take there.

A card holds the unit costs by which `why` explains a difference. Times the counts of a command, they predict one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from vtare import documents
from vtare.errors import BadInput, bad_value
from vtare.report.frame import lab_version
from vtare.sentences import weigh as wording
from vtare.stored.paths import plain_line
from vtare.weigh.why import Amount, Cause

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vtare.records import comparisons
    from vtare.weigh.costs import Prices

_SCHEMA: Final = "vtare.card/1"
#: Some hundred platforms.
_MOST_BYTE: Final = 1 << 20
_MOST_PLATFORMS: Final = 64
_MOST_TEXT: Final = 200
#: No event takes a quarter of an hour.
_MOST_NS: Final = 1e12


@dataclass(frozen=True, slots=True)
class CardPlatform:
    """What one event of each kind costs more there than on the host; kinds without a cost, with the reason."""

    name: str
    costs: dict[str, Amount]
    missing: dict[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class CostCard:
    """A card that was read: where and when it was written, and by which version."""

    hostname: str
    date: str
    version: str
    platforms: tuple[CardPlatform, ...]

    @property
    def day(self) -> str:
        """The day on which it was written."""
        return self.date.partition("T")[0]


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a command would take longer on a platform of a card than it takes on the host.

    `causes`: the largest first; `unpriced` as in `Explanation`.
    """

    platform: str
    card: CostCard
    longer: Amount
    causes: tuple[Cause, ...]
    unpriced: dict[str, str]


@dataclass(frozen=True, slots=True)
class Predicted:
    """The predictions beside the host's median wall time, or the `reason` why there are none."""

    predictions: tuple[Prediction, ...] = ()
    host_ns: float | None = None
    reason: str | None = None

    def ratio(self, one: Prediction) -> float | None:
        """How many times the host's time it takes."""
        return None if not self.host_ns else 1 + one.longer.value / self.host_ns


def predict(card: CostCard, platform: CardPlatform, counts: Mapping[str, float]) -> Prediction:
    """Multiply what a command asks for with what each of it costs more there."""
    causes = [
        Cause(kind, count, cost, cost.times(count))
        for kind, count in counts.items()
        if count > 0 and (cost := platform.costs.get(kind)) is not None
    ]
    unpriced = {
        kind: platform.missing.get(kind, "")
        for kind, count in counts.items()
        if count > 0 and kind not in platform.costs
    }
    longer = Amount.total(cause.together for cause in causes)
    causes.sort(key=lambda one: -abs(one.together.value))
    return Prediction(platform.name, card, longer, tuple(causes), unpriced)


def document(prices: Prices, absent: Mapping[str, str], machine: Mapping[str, Any]) -> comparisons.CardDocument:
    """The card of this machine as JSON; see `docs/guide/weigh.md`."""
    return {
        "schema": "vtare.card/1",
        "version": lab_version(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": dict(machine),
        "platforms": [
            {
                "name": name,
                "costs_ns": {
                    kind: {"value": cost.value, "low": cost.low, "high": cost.high} for kind, cost in costs.items()
                },
                "missing": {kind: plain_line(reason)[:_MOST_TEXT] for kind, reason in prices.lost[name].items()},
            }
            for name, costs in prices.costs.items()
        ],
        "absent": {**absent, **prices.missing},
    }


def read_card(file: Path) -> CostCard:
    """Read a card that any machine wrote.

    Raises:
        BadInput: it is none.
    """
    try:
        content = documents.read(file, most_byte=_MOST_BYTE)
    except BadInput as error:
        raise BadInput(f"--card: {error}. {wording.CARD_FROM}") from error
    try:
        return _card(content)
    except _WrongKey as error:
        raise BadInput(f"--card: {file}: {plain_line(str(error))}. {wording.CARD_FROM}") from None


class _WrongKey(Exception):
    """A key of a card has a value that it cannot have; the message is all that."""

    def __init__(self, key: str, value: object, use: str) -> None:
        """Name the key, its value and what to use."""
        shown = value if value is None or isinstance(value, (bool, int, float)) else f"{value!s:.80}"
        super().__init__(f"'{key:.80}' {bad_value(shown, use)}")


def _card(content: dict[str, Any]) -> CostCard:
    if content.get("schema") != _SCHEMA:
        raise _WrongKey("schema", content.get("schema"), f"'{_SCHEMA}'")
    machine = _object(content, "machine")
    platforms = content.get("platforms")
    if not isinstance(platforms, list) or not 0 < len(platforms) <= _MOST_PLATFORMS:
        raise _WrongKey("platforms", platforms, f"a list of 1 to {_MOST_PLATFORMS} platforms")
    read = tuple(_platform(one, f"platforms[{at}]") for at, one in enumerate(platforms))
    for at, one in enumerate(read):
        if one.name in [other.name for other in read[:at]]:
            raise _WrongKey(f"platforms[{at}].name", one.name, "each name once")
    hostname = "unknown" if machine.get("hostname") is None else _text(machine, "hostname", "machine.")
    return CostCard(hostname, _text(content, "date"), _text(content, "version"), read)


def _platform(value: object, where: str) -> CardPlatform:
    if not isinstance(value, dict):
        raise _WrongKey(where, value, "an object")
    costs, missing = _object(value, "costs_ns", f"{where}."), _object(value, "missing", f"{where}.")
    for key, kinds in (("costs_ns", costs), ("missing", missing)):
        if unknown := [kind for kind in kinds if kind not in wording.EVENTS]:
            raise _WrongKey(f"{where}.{key}", unknown[0], f"kinds of {', '.join(wording.EVENTS)}")
    return CardPlatform(
        _text(value, "name", f"{where}."),
        {kind: _amount(cost, f"{where}.costs_ns['{kind}']") for kind, cost in costs.items()},
        {kind: _text(missing, kind, f"{where}.missing.") for kind in missing},
    )


def _amount(value: object, where: str) -> Amount:
    ends = [value.get(key) if isinstance(value, dict) else None for key in ("low", "value", "high")]
    numbers = [end for end in ends if isinstance(end, (int, float)) and not isinstance(end, bool)]
    if len(numbers) < len(ends) or not -_MOST_NS <= numbers[0] <= numbers[1] <= numbers[2] <= _MOST_NS:
        raise _WrongKey(where, value, f"low <= value <= high, numbers of ns up to {_MOST_NS:g}")
    low, middle, high = map(float, numbers)
    return Amount(middle, low, high)


def _object(values: Mapping[str, Any], key: str, before: str = "") -> dict[str, Any]:
    value = values.get(key)
    if not isinstance(value, dict):
        raise _WrongKey(f"{before}{key}", value, "an object")
    return value


def _text(values: Mapping[str, Any], key: str, before: str = "") -> str:
    value = values.get(key)
    if not isinstance(value, str) or not 0 < len(value) <= _MOST_TEXT:
        raise _WrongKey(f"{before}{key}", value, f"a text of 1 to {_MOST_TEXT} characters")
    return plain_line(value)
