"""The page of `vtare weigh`: which platform costs least, where the time goes, and why each slower one is slower."""

from __future__ import annotations

import statistics
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from vtare import plots
from vtare.ab.figures import COUNTED
from vtare.report import text
from vtare.report.facts import facts_of_machine
from vtare.report.frame import lab_version
from vtare.report.page import HtmlPage, render
from vtare.report.parts import Column, Facts, Notes, Panel, Question, Section, Table, Text
from vtare.report.text import words
from vtare.sentences import titles
from vtare.sentences import weigh as wording
from vtare.weigh.runner import FIGURES, START, STOP, WHOLE
from vtare.weigh.verdict import answer, basis, density_text, headings, notes, ranked, rows

if TYPE_CHECKING:
    from vtare.ab.compare import Compared
    from vtare.ab.figures import Figure
    from vtare.weigh.card import Predicted
    from vtare.weigh.verdict import WeighedOutcome
    from vtare.weigh.weighing import Weighed
    from vtare.weigh.why import Amount, Explanation

_MOST_CAUSES: Final = 5
"""Kinds of events with a colour of their own; numbers are names of colours that differ."""
_FIRST: Final = 4
"""Columns of the first screen: up to the verdict. A telephone shows them without their headings."""
_SMALL: Final = str(_MOST_CAUSES)
_REST: Final = "published"
_WALL: Final = COUNTED[0].name


def weighed_page(outcome: WeighedOutcome) -> str:
    """One HTML document that fetches nothing."""
    weighed, compared = outcome.weighed, outcome.weighed.compared
    explained = () if weighed.why is None else weighed.why.explanations
    predicted = weighed.predicted if weighed.predicted is not None and weighed.predicted.predictions else None
    title = wording.costs_least(outcome.command.text)
    machine = ", ".join(str(outcome.machine.get(key) or "unknown") for key in ("hostname", "cpu_model", "kernel"))
    limits = [wording.limit_state(limit.text, limit.state(weighed)) for limit in outcome.limits]
    burst = [] if outcome.burst is None else [wording.burst_of(outcome.burst)]
    density = density_text(weighed)
    beneath = [
        *([] if density is None else [density]),
        *limits,
        *burst,
        *([] if compared is None else [basis(compared)]),
        *notes(weighed),
    ]
    figures = [
        *([_causes(explained)] if explained else []),
        *([] if compared is None or weighed.server else [_phases(compared)]),
    ]
    headline = figures.pop(0) if figures else None
    method = (wording.method if weighed.server is None else wording.server_method)(outcome.seed)
    sections = [
        *([Section("phases", titles.PIECES, tuple(figures))] if figures else []),
        *([Section("causes", wording.REASONS, (_cause_table(explained),))] if explained else []),
        *([Section("predicted", wording.PREDICTED, _predictions(predicted))] if predicted else []),
        Section("method", titles.METHOD, (Notes(tuple((line,) for line in method)),)),
        Section("machine", titles.MACHINE, (Facts("machine-1", "fact", facts_of_machine(outcome.machine)),)),
    ]
    return render(HtmlPage(
        title=f"{title}: vtare weigh",
        origin="vtare weigh",
        about=machine,
        question=title,
        sentences=[(text.keep(line),) for line in (answer(weighed), *beneath)],
        headline=headline,
        main=None if compared is None else _platforms(weighed, _FIRST),
        main_title=titles.DIFFERENCES,
        main_all=None if compared is None else _platforms(weighed),
        sections=tuple(sections),
        footer=[f"vtare {lab_version()}", f"seed {outcome.seed}"],
    ))  # fmt: skip


def _platforms(weighed: Weighed, most: int | None = None) -> Table:
    """The lines of the screen, all columns or the first ones."""
    all_rows = rows(weighed)
    names = ("platform", *headings(weighed)[1:most])
    columns = tuple(Column(name.replace(" ", "_"), name, numeric=name != "verdict" and at > 0)
                    for at, name in enumerate(names))  # fmt: skip
    assert weighed.compared is not None
    kinds = ["", *(one.verdict.word(one.figure.better) for one in ranked(weighed.compared))]
    at = names.index("verdict")
    lines = [
        tuple(replace(words(cell), kind=kind if place == at else "") for place, cell in enumerate(line))
        for kind, line in zip(kinds, (line[:most] for line in all_rows), strict=True)
    ]
    return Table("platforms" if most else "platforms-all", wording.PLATFORMS, columns, tuple(lines))


def _phases(compared: Compared) -> Question:
    """Start, command and stop of each platform, as medians of its runs."""
    by_name = {figure.name: figure for figure in FIGURES}
    names = {START: wording.PHASES[0], _WALL: wording.PHASES[1], STOP: wording.PHASES[2]}
    stacks = []
    for command in (0, *(one.command for one in ranked(compared))):
        whole = _median(compared, by_name[WHOLE], command)
        pieces = [(str(at), _median(compared, by_name[name], command)) for at, name in enumerate(names)]
        known = tuple((key, value) for key, value in pieces if value is not None)
        if whole is not None:
            stacks.append(plots.Stack(compared.commands[command].text, whole, known))
    keys = {str(at): label for at, label in enumerate(names.values())}
    drawing = plots.stacks(stacks, name="phases", names=keys, label=wording.PHASE_AXIS)
    return Question("phases", wording.PHASE_TITLE, wording.PHASE_CAPTION, (Panel("phases", drawing),))


def _median(compared: Compared, figure: Figure, command: int) -> float | None:
    values = [value for pair in compared.pairs if (value := figure.read(pair.runs[command])) is not None]
    return statistics.median(values) if values else None


def _causes(explained: tuple[Explanation, ...]) -> Question:
    """What each kind of event costs more, the largest kinds in colours of their own, and what is not explained."""
    weight: dict[str, float] = {}
    for one in explained:
        for cause in one.large:
            share = abs(cause.together.value) / abs(one.measured.value)
            weight[cause.kind] = max(weight.get(cause.kind, 0.0), share)
    kinds = sorted(weight, key=lambda kind: -weight[kind])[:_MOST_CAUSES]
    names = {str(at): wording.EVENTS[kind][1] for at, kind in enumerate(kinds)}
    names |= {_SMALL: wording.SMALL_CAUSES, _REST: wording.NOT_EXPLAINED}
    stacks = []
    for one in explained:
        together = {cause.kind: cause.together.value for cause in one.causes}
        own = [(str(at), together[kind]) for at, kind in enumerate(kinds) if kind in together]
        small = one.explained.value - sum(value for _, value in own)
        stacks.append(plots.Stack(one.platform, one.measured.value, (*own, (_SMALL, small), (_REST, one.rest.value))))
    drawing = plots.stacks(stacks, name="why", names=names, label=wording.LONGER_AXIS)
    return Question("why", wording.REASONS, wording.CAUSE_CAPTION, (Panel("why", drawing),))


def _predictions(predicted: Predicted) -> tuple[Text, Table]:
    columns: tuple[Column, ...] = (
        Column("platform", "platform", numeric=False),
        Column("card", "card of", numeric=False),
        Column("date", "date", numeric=False),
        Column("longer_ns", "longer"),
        Column("longer_interval", "95 % interval", numeric=False),
        Column("ratio", "times the host's"),
        Column("cause", "largest cause", numeric=False),
        Column("without", "without the costs of", numeric=False),
    )
    lines: list[tuple[text.Shown, ...]] = []
    for one in predicted.predictions:
        ratio = predicted.ratio(one)
        lines.append((
            words(one.platform), words(one.card.hostname), words(one.card.day), *_amount(one.longer),
            words("" if ratio is None else f"{ratio:.3g}"),
            words(wording.EVENTS[one.causes[0].kind][1] if one.causes else ""),
            words(", ".join(wording.EVENTS[kind][1] for kind in one.unpriced)),
        ))  # fmt: skip
    if not any(one.unpriced for one in predicted.predictions):
        columns, lines = columns[:-1], [line[:-1] for line in lines]
    return Text(wording.PREDICTED_ABOUT, caption=True), Table("predicted", wording.PREDICTED, columns, tuple(lines))


def _cause_table(explained: tuple[Explanation, ...]) -> Table:
    columns = (
        Column("platform", "platform", numeric=False),
        Column("cause", "cause", numeric=False),
        Column("count", "count", about=wording.COUNT_ABOUT),
        Column("each_ns", "more for each"),
        Column("each_interval", "95 % interval", numeric=False),
        Column("all_ns", "together"),
        Column("all_interval", "95 % interval", numeric=False),
    )
    lines: list[tuple[text.Shown, ...]] = []
    for one in explained:
        for cause in one.causes:
            each, together = cause.each, cause.together
            label = words(wording.EVENTS[cause.kind][1])
            count = text.count(round(cause.count), "")
            lines.append((words(one.platform), label, count, *_amount(each), *_amount(together)))
        rest = (words(one.platform), words(wording.NOT_EXPLAINED))
        lines.append((*rest, *(words("") for _ in range(3)), *_amount(one.rest)))
    return Table("causes", wording.CAUSES, columns, tuple(lines))


def _amount(amount: Amount) -> tuple[text.Shown, text.Shown]:
    return text.time(amount.value, ""), text.interval(amount.low, amount.high, "")
