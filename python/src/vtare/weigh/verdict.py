"""The platforms in order, the answer in words and as JSON, and whether a limit of `--fail-if` is crossed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from vtare.ab.verdict import FailLimit, change_and_range, median_text, percent, read_limit, typical_text
from vtare.errors import BadInput
from vtare.quantity_text import quantity_in
from vtare.records.answer import answered
from vtare.sentences import weigh as wording
from vtare.stats import Verdict
from vtare.weigh.runner import FIGURES, MEMORY, START, reading_figure
from vtare.weigh.server import CONNECTIONS, P50, P99, RATE
from vtare.weigh.starts import BURST, EXEC

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vtare.ab.commands import Command
    from vtare.ab.compare import Compared, Finding
    from vtare.ab.designs import Pair
    from vtare.ab.figures import Figure
    from vtare.ab.trials import Measured
    from vtare.records import comparisons
    from vtare.weigh.card import Predicted, Prediction
    from vtare.weigh.density import Density
    from vtare.weigh.server import ServedCommand
    from vtare.weigh.weighing import Weighed
    from vtare.weigh.why import Amount, Cause, Why

_TWICE: Final = 1.995
"""The ratio from which people speak of times instead of percent."""
#: Words of `--fail-if` for figures: of a command, of a server, and of a server with a client.
_FIGURES: Final = {
    "wall": "wall time", "cpu": "CPU time", "memory": MEMORY, "peak": "peak memory", "start": START, "exec": EXEC,
    "burst": BURST,
}  # fmt: skip
_BESIDE_SERVER: Final = {"memory": MEMORY, "start": START}
_SERVER_FIGURES: Final = {"p50": P50, "p99": P99, "rate": RATE, **_BESIDE_SERVER}
_CLIENT_FIGURES: Final = {"wall": "wall time", **_BESIDE_SERVER}


@dataclass(frozen=True, slots=True)
class PlatformLimit:
    """`gvisor wall slower by 20 %`: a limit of one figure on one platform."""

    platform: str
    figure: str
    limit: FailLimit
    text: str

    @property
    def is_watched(self) -> bool:
        """Whether the runs may end once it is decided: wall time, or p50, is what each round looks at."""
        return self.figure in (FIGURES[0].name, P50) and self.limit.share > 0

    def state(self, weighed: Weighed) -> str:
        """crossed, not crossed or open."""
        wanted = (self.platform, self.figure)
        findings = [one for name, one in findings_of(weighed) if (name, one.figure.name) == wanted]
        return self.limit.state(findings) if findings else "open"


def read_platform_limit(text: str, names: Sequence[str], server: ServedCommand | None = None) -> PlatformLimit:
    """Return the limit of a text; `names` are those of the platforms, `server` is what is weighed, where it is one.

    Raises:
        BadInput: it is none.
    """
    platform, _, rest = text.strip().partition(" ")
    # The second host has a name of two words.
    if rest.startswith("("):
        number, _, rest = rest.partition(" ")
        platform = f"{platform} {number}"
    figure, _, limit = rest.strip().partition(" ")
    figures = _FIGURES if server is None else _SERVER_FIGURES if server.client is None else _CLIENT_FIGURES
    if platform not in names[1:] or figure not in figures:
        raise BadInput(
            f"--fail-if: '{text}' is no limit of a platform. Example: 'gvisor {next(iter(figures))} slower by 20 %'. "
            f"Platforms: {', '.join(names[1:])}. Figures: {', '.join(figures)}"
        )
    return PlatformLimit(platform, figures[figure], read_limit(limit), text.strip())


@dataclass(frozen=True, slots=True)
class WeighedOutcome:
    """What came of it, with the command, the seed of the orders, the limits of `--fail-if` and facts of the machine."""

    weighed: Weighed
    command: Command
    seed: int
    limits: Sequence[PlatformLimit]
    machine: Mapping[str, Any]
    burst: int | None = None


def findings_of(weighed: Weighed) -> list[tuple[str, Finding]]:
    """Every finding with the name of its platform, those of wall time first."""
    all_compared = () if weighed.compared is None else (weighed.compared, *weighed.started.compared.values())
    return [(it.commands[one.command].text, one) for it in all_compared for one in (*it.primary, *it.others)]


def name_of(weighed: Weighed, finding: Finding) -> str:
    """The platform of a finding."""
    assert weighed.compared is not None
    return weighed.compared.commands[finding.command].text


def ranked(compared: Compared) -> list[Finding]:
    """The findings of wall time, the cheapest platform first; those without a ratio last."""
    return sorted(compared.primary, key=lambda one: math.inf if one.ratio is None else one.ratio)


def _cost(compared: Compared, finding: Finding) -> str:
    if finding.verdict is Verdict.EQUIVALENT:
        return wording.same(f"{100 * compared.asked.margin:.3g} %")
    if finding.ratio is None or not finding.is_different:
        return wording.UNKNOWN
    return _share(finding.ratio, is_higher=finding.is_higher)


def _share(ratio: float, *, is_higher: bool) -> str:
    if ratio >= _TWICE:
        return wording.times(ratio)
    return (wording.slower if is_higher else wording.faster)(percent(ratio))


def answer(weighed: Weighed) -> str:
    """Which platform costs least, as far as the intervals of wall time (of a server: p50) show it."""
    compared, served = weighed.compared, weighed.server
    if compared is None:
        if (predicted := weighed.predicted) is None or not predicted.predictions:
            return wording.NOTHING
        return wording.only_predicted([
            f"{one.platform} {_predicted_cost(predicted, one)}" for one in predicted.predictions
        ])  # fmt: skip
    text = _answer(weighed, compared)
    if served is None:
        return text
    return (wording.of_server if served.server.client is None else wording.of_client)(text)


def _answer(weighed: Weighed, compared: Compared) -> str:
    best, *others = ranked(compared)
    costs = {name_of(weighed, one): _cost(compared, one) for one in (best, *others)}
    first = name_of(weighed, best)
    if not others:
        return wording.only(first, costs[first])
    # The intervals hold together, so what is apart is told apart.
    close = [one for one in others if best.high is None or one.low is None or one.low <= best.high]
    named = [f"{name} {cost}" for name, cost in costs.items()]
    if close:
        known = [text for text, cost in zip(named, costs.values(), strict=True) if cost != wording.UNKNOWN]
        return wording.too_close([first, *(name_of(weighed, one) for one in close)], known)
    return wording.least(first, costs[first], named[1:])


def _predicted_cost(predicted: Predicted, one: Prediction) -> str:
    ratio = predicted.ratio(one)
    if ratio is None or one.longer.low <= 0 <= one.longer.high:
        return wording.NOT_SHOWN
    return _share(ratio, is_higher=ratio > 1)


def predictions(weighed: Weighed) -> list[list[tuple[str, str]]]:
    """What each card predicts: a heading, then a line for each platform with the time in front. See `reasons`."""
    if (predicted := weighed.predicted) is None:
        return []
    time = quantity_in("ns")
    blocks: list[list[tuple[str, str]]] = []
    for card in dict.fromkeys(one.card for one in predicted.predictions):
        own = [one for one in predicted.predictions if one.card is card]
        lines = [
            (
                time.text(one.longer.value),
                wording.predicted(
                    one.platform, time.range_text(one.longer.low, one.longer.high), _predicted_cost(predicted, one)
                ),
            )
            for one in own
        ]
        lacks = [("", wording.predicted_without(one.platform, list(one.unpriced))) for one in own if one.unpriced]
        blocks.append([("", wording.predicted_from(card.hostname, card.day)), *lines, *lacks])
    return blocks


def density_text(weighed: Weighed) -> str | None:
    """How many instances fit on each platform; None where nobody asked."""
    if (dense := weighed.density) is None:
        return None
    fits = [wording.fits(one.platform, one.fits, one.breaks, one.ended) for one in dense.fits]
    return wording.density(quantity_in("ns").text(dense.limit_ns), dense.per_s, fits)


def notes(weighed: Weighed) -> list[str]:
    """What must be read with the answer, a line each."""
    compared = weighed.compared
    unknown = {} if weighed.why is None else weighed.why.missing
    apart = [] if compared is None else [one.text for one in compared.commands if one.text in weighed.apart]
    served = weighed.server
    asked = served is not None and served.server.client is None and compared is not None
    dense = () if weighed.density is None else weighed.density.fits
    return [
        *([wording.asked_at(served.per_s, CONNECTIONS)] if served is not None and asked else []),
        *([wording.no_figure(P99, why)] if asked and (why := _why_not(compared, P99)) else []),
        *(wording.no_density(one.platform, one.reason) for one in dense if one.reason is not None),
        *([] if weighed.root is None else [wording.same_root(weighed.root)]),
        *(wording.refused(name, reason) for name, reason in weighed.refused.items()),
        *(wording.absent(name, reason) for name, reason in weighed.absent.items()),
        *([wording.apart(apart)] if apart else []),
        *weighed.started.notes,
        *([] if weighed.predicted is None else _not_predicted(weighed.predicted)),
        *(wording.no_reason(name, reason) for name, reason in unknown.items()),
    ]


def _not_predicted(predicted: Predicted) -> list[str]:
    reason = predicted.reason or (None if predicted.predictions else wording.ALL_MEASURED)
    return [] if reason is None else [wording.not_predicted(reason)]


def _why_not(compared: Compared | None, figure: str) -> str | None:
    """Why a figure of no platform is compared; None where one is."""
    reasons = [] if compared is None else [one.reason for one in compared.others if one.figure.name == figure]
    return reasons[0] if reasons and all(reasons) else None


def basis(compared: Compared) -> str:
    """What the answer rests on."""
    by_limits = compared.stopped == "known" and not compared.asked.asks_margin
    ended = wording.ENDED["limits" if by_limits else compared.stopped]
    text = wording.basis(len(compared.pairs), compared.elapsed_s, ended)
    is_late = compared.stopped == "time" and any(one.is_noisy for one in compared.primary)
    return f"{text} {wording.MORE_TIME}" if is_late else text


def rows(weighed: Weighed) -> list[tuple[str, ...]]:
    """A line of text for each platform: the host's own figures, then the others' changes, the cheapest first."""
    compared = weighed.compared
    if compared is None:
        return []
    if weighed.server is not None:
        return _server_rows(compared, weighed.figures)
    wall, cpu, _, start, _, stop, outside, memory = FIGURES
    beside = [
        [
            *(_beside(compared, figure, command) for figure in (memory, start)),
            _started(weighed, EXEC, one.text),
            *(_beside(compared, figure, command) for figure in (stop, outside)),
            _started(weighed, BURST, one.text),
        ]
        for command, one in enumerate(compared.commands)
    ]
    wall_text, cpu_text = (typical_text(compared, figure, 0) for figure in (wall, cpu))
    lines = [(compared.commands[0].text, wall_text, "", "", cpu_text, *beside[0])]
    for one in ranked(compared):
        change, interval = _change_and_interval(one)
        name = compared.commands[one.command].text
        lines.append((name, change, interval, one.word, _change(compared, cpu.name, one.command), *beside[one.command]))
    # Nobody asked for it.
    return lines if BURST in weighed.started.compared else [line[:-1] for line in lines]


def headings(weighed: Weighed) -> tuple[str, ...]:
    """What stands above the columns of `rows`."""
    if weighed.server is not None:
        return wording.SERVER_HEADINGS if weighed.server.server.client is None else wording.CLIENT_HEADINGS
    return wording.HEADINGS if BURST in weighed.started.compared else wording.HEADINGS[:-1]


def _server_rows(compared: Compared, figures: Sequence[Figure]) -> list[tuple[str, ...]]:
    """As `rows`; between the verdict and what the platform takes stand the other figures of the server."""
    first, *others, memory, start = figures
    lines = []
    for command in (0, *(one.command for one in ranked(compared))):
        finding = next((one for one in compared.primary if one.command == command), None)
        if finding is None:
            judged = (typical_text(compared, first, 0), "", "")
            changes = [typical_text(compared, figure, 0) or "-" for figure in others]
        else:
            judged = (*_change_and_interval(finding), finding.word)
            changes = [_change(compared, figure.name, command) for figure in others]
        name = compared.commands[command].text
        lines.append((name, *judged, *changes, *(_beside(compared, figure, command) for figure in (memory, start))))
    return lines


def _change_and_interval(finding: Finding) -> tuple[str, str]:
    # From twice the time on, a tenth of a percent is beyond what anybody can see, and takes room.
    is_wide = max(finding.ratio or 0.0, finding.high or 0.0) >= _TWICE
    return change_and_range(finding, 0 if is_wide else 1)


def reasons(weighed: Weighed) -> list[list[tuple[str, str]]]:
    """Why each slower platform is: a heading, then a line for each cause with its time in front."""
    time = quantity_in("ns").text
    blocks: list[list[tuple[str, str]]] = []
    for one in () if weighed.why is None else weighed.why.explanations:
        large = one.large
        lines = [
            (time(it.together.value), wording.cause(it.kind, round(it.count), time(it.each.value))) for it in large
        ]
        small = one.explained.value - sum(it.together.value for it in large)
        rest = quantity_in("ns").range_text(one.rest.low, one.rest.high)
        blocks.append([
            ("", wording.why(one.platform, time(one.measured.value))),
            *lines,
            (time(small), wording.SMALL_CAUSES),
            (time(one.rest.value), wording.unexplained(rest)),
            *(("", wording.unpriced(kind, reason)) for kind, reason in one.unpriced.items()),
        ])  # fmt: skip
    return blocks


def _beside(compared: Compared, figure: Figure, command: int) -> str:
    """The median of what the platform itself takes; `-` where it is not known."""
    return median_text(compared, figure, command) or "-"


def _started(weighed: Weighed, figure: str, name: str) -> str:
    compared = weighed.started.compared.get(figure)
    at = {} if compared is None else {one.text: k for k, one in enumerate(compared.commands)}
    return "-" if compared is None or name not in at else _beside(compared, reading_figure(figure), at[name])


def _change(compared: Compared, figure: str, command: int) -> str:
    """The change of a figure; `~` in front where no difference is shown, `-` where there is no ratio."""
    one = next(it for it in compared.others if (it.figure.name, it.command) == (figure, command))
    if one.ratio is None:
        return "-"
    return f"{'' if one.is_different else '~'}{change_and_range(one, 0)[0]}"


def document(outcome: WeighedOutcome) -> comparisons.Weighing:
    """The whole as one JSON document (docs/guide/weigh.md)."""
    weighed, compared = outcome.weighed, outcome.weighed.compared
    names = [] if compared is None else [one.text for one in compared.commands]
    decided = compared is not None and not any(one.is_open for one in compared.primary)
    return {
        "schema": "vtare.weigh/1",
        "answer": answered([answer(weighed)], "decided" if decided else "open", limits=notes(weighed)),
        "command": outcome.command.text,
        "server": _server(weighed),
        "root": weighed.root,
        "seed": outcome.seed,
        "machine": dict(outcome.machine),
        "margin_percent": None if compared is None else 100 * compared.asked.margin,
        "stopped": None if compared is None else compared.stopped,
        "elapsed_s": None if compared is None else compared.elapsed_s,
        "burst": outcome.burst,
        "density": _density(weighed.density),
        "rounds": 0 if compared is None else len(compared.pairs),
        "void_rounds": 0 if compared is None else compared.void,
        "ranking": [] if compared is None else [name_of(weighed, one) for one in ranked(compared)],
        "platforms": [
            {
                "name": name,
                "start_by_difference": name in weighed.apart,
                "runs": [{one.name: _value(one, pair.runs[k]) for one in weighed.figures} for pair in _pairs(weighed)],
                "starts": {
                    figure: [reading_figure(figure).read(pair.runs[at]) for pair in it.pairs]
                    for figure, it in weighed.started.compared.items()
                    for at, command in enumerate(it.commands)
                    if command.text == name
                },
            }
            for k, name in enumerate(names)
        ],
        "refused": weighed.refused,
        "absent": weighed.absent,
        "limits": [{"text": limit.text, "state": limit.state(weighed)} for limit in outcome.limits],
        "why": _why(weighed.why),
        "predicted": _predicted(weighed.predicted),
        "findings": [
            {
                "platform": platform, "figure": one.figure.name, "unit": one.figure.unit,
                "ratio": one.ratio, "ratio_low": one.low,
                "ratio_high": one.high if one.high is not None and math.isfinite(one.high) else None,
                "level": one.level, "verdict": one.verdict.word(one.figure.better), "reason": one.reason,
            }
            for platform, one in findings_of(weighed)
        ],
    }  # fmt: skip


def _server(weighed: Weighed) -> comparisons.ServerDocument | None:
    if weighed.server is None:
        return None
    server, is_asked = weighed.server.server, weighed.server.server.client is None
    return {
        "port": server.port,
        "request": server.request,
        "client": None if server.client is None else server.client.text,
        "per_s": weighed.server.per_s if is_asked else None,
        "connections": CONNECTIONS if is_asked else None,
    }


def _density(dense: Density | None) -> comparisons.DensityDocument | None:
    if dense is None:
        return None
    return {
        "limit_ns": dense.limit_ns,
        "per_s": dense.per_s,
        "platforms": [
            {
                "name": one.platform, "fits": one.fits, "breaks": one.breaks, "ended": one.ended, "reason": one.reason,
                "levels": [{"instances": it.instances, "p99_ns": it.p99_ns} for it in one.levels],
            }
            for one in dense.fits
        ],
    }  # fmt: skip


def _predicted(predicted: Predicted | None) -> comparisons.PredictedDocument | None:
    if predicted is None:
        return None
    return {
        "host_ns": predicted.host_ns,
        "reason": predicted.reason,
        "platforms": [
            {
                "name": one.platform, "hostname": one.card.hostname, "date": one.card.date,
                "version": one.card.version, "longer_ns": _amount(one.longer), "ratio": predicted.ratio(one),
                "causes": [_cause(it) for it in one.causes], "unpriced": one.unpriced,
            }
            for one in predicted.predictions
        ],
    }  # fmt: skip


def _why(why: Why | None) -> comparisons.Reasons | None:
    if why is None:
        return None
    return {
        "counts": why.counts,
        "missing": why.missing,
        "platforms": [
            {
                "name": one.platform,
                "measured_ns": _amount(one.measured),
                "explained_ns": _amount(one.explained),
                "unexplained_ns": _amount(one.rest),
                "causes": [_cause(it) for it in one.causes],
                "unpriced": one.unpriced,
            }
            for one in why.explanations
        ],
    }


def _cause(cause: Cause) -> comparisons.CauseDocument:
    each, together = _amount(cause.each), _amount(cause.together)
    return {"kind": cause.kind, "count": cause.count, "each_ns": each, "all_ns": together}


def _amount(amount: Amount) -> comparisons.AmountDocument:
    return {"value": amount.value, "low": amount.low, "high": amount.high}


def _value(figure: Figure, run: Measured) -> float | None:
    """A figure of a run; None where it cannot be seen: memory below that of the program that measures."""
    return None if figure.hidden([run]) is not None else figure.read(run)


def _pairs(weighed: Weighed) -> Sequence[Pair]:
    return () if weighed.compared is None else weighed.compared.pairs
