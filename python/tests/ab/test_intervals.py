"""What `vtare ab` concludes of rounded figures, rare slow runs and machines with a rhythm, and the gates of CI."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import pytest
from simulated_trials import MACHINE, A, B, SimulatedTrials, bursts, compared, measured, noise_of, none, quiet

from vtare import stats
from vtare.ab.commands import Command
from vtare.ab.compare import EQUIVALENT_PAIRS, Asked, Compared, Finding, compare
from vtare.ab.figures import COUNTED, Figure
from vtare.ab.readings import Reading
from vtare.ab.trials import MachineTime, Measured
from vtare.ab.verdict import Outcome, document, mean_text, median_text, read_limit, sentence, typical_text, written
from vtare.errors import BadInput
from vtare.sentences.ab import costs_more
from vtare.stats import Verdict


def printing(
    draw: Callable[[Command, np.random.Generator], float], *, step: float, seed: int = 1, **asked: object
) -> Compared:
    """Compare commands that print what is drawn, rounded to a step."""

    class Printing(SimulatedTrials):
        def run(
            self, commands: Sequence[Command], cpus: Sequence[Sequence[int]] | None = None
        ) -> tuple[list[Measured], MachineTime]:
            runs = []
            for command in commands:
                value = round(draw(command, self.rng) / step) * step
                runs.append(measured(1e6, readings={"t": Reading("t", (value,), "", None, step)}))
            return runs, MachineTime(0, None, None, None, 1)

    figure = Figure("t", "", lambda run: run.readings["t"].values[0], None, step=lambda run: run.readings["t"].step)
    trials = Printing(1.0, quiet, none, seed)
    chosen = Asked(**{"margin": 0.02, "most_pairs": 100, "design": "interleaved", **asked})  # type: ignore[arg-type]
    return compare(trials, (A, B), [figure], chosen, rng=np.random.default_rng(seed))


@pytest.mark.parametrize("truth", [1.0, 1.04, 1.078, 1.089])
@pytest.mark.parametrize("noise", [0.0, 0.002, 0.02])
@pytest.mark.parametrize("step", [0.1, 0.05])
def test_rounded_figures_are_never_equivalent_and_their_interval_holds_the_truth(
    truth: float, noise: float, step: float
) -> None:
    for seed in range(5):
        centre = float(np.random.default_rng(seed).uniform(0.95, 1.1))

        def draw(command: Command, rng: np.random.Generator, centre: float = centre) -> float:
            return centre * (truth if command is B else 1.0) * math.exp(noise * rng.normal())

        (found,) = printing(draw, step=step, seed=seed).primary
        assert found.verdict != "equivalent"
        assert found.low is not None
        assert found.high is not None
        assert found.low <= truth <= found.high
        assert found.step == pytest.approx(step)


def test_what_is_too_coarse_is_called_so_at_once_and_a_large_difference_is_shown_all_the_same() -> None:
    coarse = printing(lambda command, rng: 1.0, step=0.1)
    assert coarse.primary[0].word == "too coarse"
    assert len(coarse.pairs) == EQUIVALENT_PAIRS
    text = sentence(coarse, coarse.primary[0])
    assert "Too coarse to show whether B differs from A in t" in text
    assert "steps of 10 %" in text
    assert "Print more digits" in text
    large = printing(lambda command, rng: 2.0 if command is B else 1.0, step=0.1)
    assert large.primary[0].verdict == "higher"
    fine = printing(lambda command, rng: 1.0, step=0.001)
    assert fine.primary[0].verdict == "equivalent"


@pytest.mark.parametrize("step_ns", [1e7, 5e6, 1e8 / 24])
def test_the_step_of_a_coarse_clock_is_found_from_the_runs(step_ns: float) -> None:
    class Coarse(SimulatedTrials):
        def run(
            self, commands: Sequence[Command], cpus: Sequence[Sequence[int]] | None = None
        ) -> tuple[list[Measured], MachineTime]:
            runs, beside = super().run(commands, cpus)
            return [measured(round(run.wall_ns / step_ns) * step_ns) for run in runs], beside

    for slower in (1.0, 1.04, 1.08):
        trials = Coarse(slower, lambda rng: float(rng.normal(scale=0.02)), none, 3)
        asked = Asked(margin=0.02, most_pairs=60, design="interleaved")
        (found,) = compare(trials, (A, B), COUNTED[:1], asked, rng=np.random.default_rng(3)).primary
        assert found.step >= 0.99 * step_ns
        assert found.verdict != "equivalent"
        assert found.low is not None
        assert found.high is not None
        assert found.low <= slower <= found.high


@pytest.mark.parametrize("period", [3, 4, 5, 6, 7, 8])
def test_a_machine_with_a_rhythm_makes_no_false_alarms(period: int) -> None:
    class Rhythm(SimulatedTrials):
        at = 0

        def run(
            self, commands: Sequence[Command], cpus: Sequence[Sequence[int]] | None = None
        ) -> tuple[list[Measured], MachineTime]:
            runs, beside = super().run(commands, cpus)
            self.at += 1
            return [measured(run.wall_ns * (1.3 if self.at % period == 0 else 1.0)) for run in runs], beside

    trials = 200
    alarms = 0
    for seed in range(trials):
        asked = Asked(margin=0.02, most_pairs=40, design="interleaved")
        rng = np.random.default_rng(1000 * period + seed)
        alarms += compare(Rhythm(1.0, quiet, none, seed), (A, B), COUNTED[:1], asked, rng=rng).primary[0].is_different
    # 3 to 7 % are wanted: the exact interval of the share meets that range.
    share = stats.share_of(alarms, trials)
    assert share.low <= 0.07
    assert share.high >= 0.03


@pytest.mark.parametrize(("rare", "slower"), [(0.1, 1.5), (0.15, 1.4), (0.25, 1.2)])
def test_nothing_is_equivalent_where_rare_runs_are_slower(rare: float, slower: float) -> None:
    class Rare(SimulatedTrials):
        def run(
            self, commands: Sequence[Command], cpus: Sequence[Sequence[int]] | None = None
        ) -> tuple[list[Measured], MachineTime]:
            runs, beside = super().run(commands, cpus)
            times = [slower if command is B and self.rng.random() < rare else 1.0 for command in commands]
            return [measured(run.wall_ns * by) for run, by in zip(runs, times, strict=True)], beside

    trials = 100
    false = 0
    for seed in range(trials):
        asked = Asked(margin=0.02, most_pairs=60, design="interleaved")
        rng = np.random.default_rng(seed)
        found = compare(Rare(1.0, quiet, none, seed), (A, B), COUNTED[:1], asked, rng=rng)
        (finding,) = found.primary
        false += finding.verdict == "equivalent"
        if finding.word == "too noisy" and finding.reason is not None:
            assert "Not enough pairs to call B and A equivalent" in sentence(found, finding)
        assert mean_text(finding) is not None
    assert stats.share_of(false, trials).low <= 0.05


def test_the_mean_stands_beside_the_typical_run_in_every_form() -> None:
    found = compared(1.10, quiet, seed=2)
    (finding,) = found.primary
    assert finding.mean_ratio is not None
    a, b = ([pair.runs[k].wall_ns for pair in found.pairs] for k in (0, 1))
    assert finding.mean_ratio == pytest.approx(np.mean(b) / np.mean(a))
    text = mean_text(finding)
    assert text is not None
    assert any("typical run" in line and text in line for line in written(found).about)
    of_document = document(Outcome(found, 7, MACHINE))["findings"][0]
    assert of_document["mean_ratio"] == finding.mean_ratio
    assert of_document["mean_ratio_low"] < finding.mean_ratio < of_document["mean_ratio_high"]


def test_few_pairs_are_never_equivalent() -> None:
    few = compared(1.0, lambda rng: float(rng.normal(scale=0.001)), seed=7, most_pairs=EQUIVALENT_PAIRS - 1)
    assert few.primary[0].word == "too noisy"
    assert few.primary[0].more_pairs == 1
    assert compared(1.0, quiet, seed=5, most_pairs=100).primary[0].verdict == "equivalent"


#: Figures of every direction: a time, a rate, a cost, an unknown one.
FIGURES = (
    *COUNTED,
    Figure("latency", "ns", lambda run: run.wall_ns, False),
    Figure("throughput", "op/s", lambda run: run.wall_ns, True),
    Figure("score", "", lambda run: run.wall_ns, None),
    Figure("allocations", "allocs/op", lambda run: run.wall_ns, False),
)
WORDS = ("slower", "faster", "worse", "better", "higher", "lower")


def finding_of(figure: Figure, ratio: float) -> Finding:
    verdict = Verdict.HIGHER if ratio > 1 else Verdict.LOWER
    return Finding(figure, 1, ratio, 0.99 * ratio, 1.01 * ratio, 0.95, verdict, 0, 50)


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.name)
@pytest.mark.parametrize("word", WORDS)
def test_every_limit_can_be_crossed_by_every_figure_or_is_refused(figure: Figure, word: str) -> None:
    limit = read_limit(f"{word} by 5 %")
    if figure.more_is_better is None and word not in ("higher", "lower"):
        with pytest.raises(BadInput, match=r"--fail-if .* nothing states whether more or less is better"):
            limit.check(figure)
        with pytest.raises(BadInput, match="--fail-if"):
            limit.crossed([finding_of(figure, 2.0)])
        return
    limit.check(figure)
    crossed = [ratio for ratio in (0.5, 0.99, 1.01, 2.0) if limit.crossed([finding_of(figure, ratio)])]
    up = word == "higher" or (word != "lower" and (word in ("slower", "worse")) != bool(figure.more_is_better))
    assert crossed == [2.0 if up else 0.5]


@pytest.mark.parametrize(
    ("unit", "value", "text"),
    [
        ("B/s", 2.17e9, "2.17 GB/s"), ("op/s", 12_500.0, "12.5 kop/s"), ("1/s", 7.0, "7.00 1/s"),
        ("ns", 1.5e6, "1.50 ms"),
        ("allocs/op", 4000.0, "4000 allocs/op"), ("", 12.0, "12.0"),
    ],
)  # fmt: skip
def test_medians_are_written_with_their_unit(unit: str, value: float, text: str) -> None:
    figure = Figure("f", unit, lambda run: value)
    shown = median_text(compared(1.0, quiet, most_pairs=8), figure, 0)
    assert shown.replace("\u00a0", " ") == text


def test_typical_runs_are_as_far_apart_as_the_change_beside_them() -> None:
    """Medians of each side alone are not, where runs differ much: 48 -> 60 ms would stand beside +34 %."""
    apart = 0
    for seed in range(20):
        result = compared(1.3, partial(noise_of, spread=0.15), bursts, seed, most_pairs=30)
        (finding,) = result.primary
        alone = [float(np.median([pair.runs[at].wall_ns for pair in result.pairs])) for at in (0, 1)]
        apart += abs(alone[1] / alone[0] / (finding.ratio or 1.0) - 1) > 0.03
        both = [typical_text(result, finding.figure, at).split() for at in (0, 1)]
        assert {unit for _, unit in both} == {"ms"}
        assert float(both[1][0]) / float(both[0][0]) == pytest.approx(finding.ratio, rel=0.01)
    assert apart > 0, "the medians alone would contradict some of these"


def test_one_pair_has_no_interval() -> None:
    found = compared(1.0, quiet, most_pairs=1)
    assert "no answer: 1 pair of at least 6 (" in sentence(found, found.primary[0])


@pytest.mark.parametrize(
    ("times", "says"), [(1.7, "1.7 times"), (99.4, "99 times"), (8_200.0, "many times"), (None, "many times")]
)
def test_what_a_design_would_take_is_said_without_an_exponent(times: float | None, says: str) -> None:
    assert (
        costs_more("interleaved", times) == f"for the same precision interleaved pairs would take {says} as long here"
    )
