"""`vtare ab --suite`: all benchmarks of two commands judged together."""

from __future__ import annotations

import io
import json
import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console
from simulated_trials import MACHINE, A, B, Noise, SimulatedSuite, bursts, compared_suite, noise_of, none, quiet

from vtare import stats
from vtare.ab.base import at_base
from vtare.ab.commands import Command, read_commands
from vtare.ab.compare import SUITE_ALPHA, Asked, compare
from vtare.ab.designs import Pair
from vtare.ab.figures import Reader, read_suite
from vtare.ab.page import compared_page
from vtare.ab.publish import github, junit, markdown
from vtare.ab.suite import TYPICAL, Budget, beside_each_other, settle
from vtare.ab.trials import MachineTime, Measured
from vtare.ab.verdict import Outcome, answer, document, read_limit, worst_first, written
from vtare.cli import app
from vtare.errors import BadInput
from vtare.terminal.ab import show_compared

LIMIT = read_limit("slower by 5 %")
FILES = Path(__file__).parent / "benchmarks"


def printed(names: Sequence[str], seconds: float) -> str:
    rows = [{"name": name, "fullname": name, "stats": {"mean": seconds}} for name in names]
    return json.dumps({"benchmarks": rows})


def test_the_benchmark_that_is_slower_stands_first_and_fails_the_suite() -> None:
    found = compared_suite(12, 1.10, quiet, limits=(LIMIT,), asks_margin=False)
    assert found.is_suite
    # The typical benchmark is judged beside the 12.
    assert (found.stopped, len(found.primary)) == ("known", 13)
    assert worst_first(found)[0].figure.name == "benchmark/0"
    (line,) = answer(found)
    assert line.startswith("1 of 12 benchmarks is slower by more than 5 %: benchmark/0 (+")
    assert LIMIT.state(found.primary) == "crossed"
    outcome = Outcome(found, 1, MACHINE, (LIMIT,))
    kept = document(outcome)
    assert kept["answer"]["status"] == "worse"
    assert [row["figure"] for row in kept["findings"]] == [TYPICAL, *(f"benchmark/{at}" for at in range(12))]
    assert junit(outcome).count("<failure") == 1
    assert github(outcome).count("::error") == 1
    assert github(outcome).count("::notice") == 1
    table = markdown(outcome).splitlines()
    assert next(line for line in table if line.startswith("| benchmark")).startswith("| benchmark/0 |")
    assert table.index("<details><summary>All figures</summary>") < 20
    page = compared_page(outcome)
    assert "Is any of 12 benchmarks worse in B than in A?" in page
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert sum(name.startswith("figures-") for name in ids) == 6


def test_a_suite_that_is_alike_passes_and_one_that_is_not_known_says_so() -> None:
    found = compared_suite(12, 1.0, quiet, limits=(LIMIT,), asks_margin=False)
    assert answer(found) == ("None of 12 benchmarks is slower by more than 5 %.",)
    short = compared_suite(12, 1.0, bursts, limits=(LIMIT,), asks_margin=False, most_pairs=16)
    (line,) = answer(short)
    assert line.startswith("Too close to call for ")
    assert line.endswith(" more.")
    assert document(Outcome(short, 1, MACHINE, (LIMIT,)))["limits"] == [{"text": "slower by 5 %", "state": "open"}]
    few = compared_suite(12, 1.0, quiet, limits=(LIMIT,), asks_margin=False, most_pairs=6)
    assert answer(few) == ("No answer about 12 benchmarks: 6 pairs of at least 12 (raise --max-time or --pairs).",)
    assert "`--fail-if 'slower by 5 %'` is open." in markdown(Outcome(few, 1, MACHINE, (LIMIT,)))
    plain = compared_suite(12, 1.10, quiet)
    assert answer(plain) == ("Of 12 benchmarks, 1 is worse and 11 are equivalent within 5 %.",)
    console = Console(file=io.StringIO(), width=80)
    show_compared(console, plain)
    shown = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert shown[0] == answer(plain)[0]
    assert len(shown) <= 11
    assert "5 more benchmarks not shown." in " ".join(shown)
    rows = written(plain).rows
    assert [(row.figure, row.command, row.verdict) for row in rows[:1]] == [("benchmark/0", "B", "worse")]
    assert sum(row.figure.startswith("benchmark/") for row in rows) == 12


def test_what_meets_all_benchmarks_of_a_run_hides_no_change_of_one() -> None:
    def neighbour(rng: np.random.Generator) -> float:
        return 0.3 if rng.random() < 0.2 else 0.0

    found = compared_suite(12, 1.05, quiet, neighbour, most_pairs=40)
    by_name = {it.figure.name: it for it in found.primary}
    slower = by_name["benchmark/0"]
    assert slower.low is not None
    assert slower.high is not None
    assert (slower.change, slower.low < 1.05 < slower.high, slower.high / slower.low < 1.04) == ("worse", True, True)
    assert not by_name[TYPICAL].is_different
    (shared,) = [line for line in written(found).warnings if "moved together" in line]
    assert shared.endswith(": not by the code.")
    assert not any("moved together" in line for line in written(compared_suite(12, 1.0, quiet)).warnings)


def test_a_change_of_all_benchmarks_is_one_of_the_typical_one() -> None:
    class AllSlower(SimulatedSuite):
        def run(
            self, commands: Sequence[Command], cpus: Sequence[Sequence[int]] | None = None
        ) -> tuple[list[Measured], MachineTime]:
            runs, beside = super().run(commands, cpus)
            return [_scaled(run, 1.1 if it is B else 1.0) for it, run in zip(commands, runs, strict=True)], beside

    trials = AllSlower(12, 1.0, quiet, none, 3)
    first = trials.run((A, B))[0]
    figures = beside_each_other(trials.figures(), first[0])
    asked = Asked(
        most_pairs=40, most_s=1e9, alpha=SUITE_ALPHA, design="interleaved", limits=(LIMIT,), asks_margin=False
    )
    rng = np.random.default_rng(3)
    found = compare(trials, (A, B), figures, asked, rng=rng, first=first, judged=len(figures))
    (line,) = answer(found)
    assert line.startswith("Most benchmarks together are slower by more than 5 %: +10")
    assert LIMIT.state(found.primary) == "crossed"


def _scaled(run: Measured, factor: float) -> Measured:
    return replace(
        run, readings={name: replace(one, values=(factor * one.values[0],)) for name, one in run.readings.items()}
    )


def test_what_is_divided_by_the_typical_benchmark_keeps_its_size() -> None:
    trials = SimulatedSuite(12, 1.0, quiet, none, 3)
    runs = [run for _ in range(21) for run in trials.run((A, B))[0]]
    # The first run was beside a busy neighbour.
    first = _scaled(runs[0], 1.5)
    typical, *figures = beside_each_other(trials.figures(), first)
    for run in (first, *runs[1:]):
        for figure in (typical, *figures):
            assert figure.read(run)
    pair = Pair((first, runs[2]), (0, 1), ())
    before = pair.log_ratio(figures[4], 1)
    settle([typical, *figures])
    assert before is not None
    assert pair.log_ratio(figures[4], 1) == pytest.approx(before)
    middle = np.median([typical.read(run) or 0.0 for run in runs[1:]])
    assert abs(middle - 1.0) < 0.01
    shown = np.median([figures[4].read(run) or 0.0 for run in runs[1:]])
    assert abs(shown / 5000.0 - 1.0) < 0.01


def test_what_only_one_command_has_is_named_and_not_compared() -> None:
    reader = Reader([], suite=read_suite("pytest-benchmark"))
    reader.read(printed(["same", "gone"], 1.0), "a")
    reader.read(printed(["new", "same"], 1.0), "b")
    assert [figure.name for figure in reader.figures()] == ["same"]
    assert reader.absent() == ["gone", "new"]
    assert [figure.name for figure in reader.suite(reader.figures())] == ["same"]
    alone = Reader([], suite=read_suite("pytest-benchmark"))
    for command, name in (("a", "one"), ("b", "other")):
        alone.read(printed([name], 1.0), command)
    assert (alone.figures(), alone.absent()) == ([], ["one", "other"])
    with pytest.raises(BadInput, match="--suite: 'cargo' is not known"):
        read_suite("cargo")


@pytest.mark.parametrize(
    ("how", "file", "least"), [("go", "go.txt", 3), ("pyperf", "pyperf.json", 1), ("jmh", "jmh.json", 1),
                               ("google-benchmark", "google-benchmark.json", 1), ("hyperfine", "hyperfine.json", 1)]
)  # fmt: skip
def test_all_benchmarks_of_a_document_are_judged_by_their_own_names(how: str, file: str, least: int) -> None:
    reader = Reader([], suite=read_suite(how))
    for command in ("a", "b"):
        reader.read((FILES / file).read_text(encoding="utf-8"), command)
    judged = reader.suite(reader.figures())
    assert len(judged) >= least
    assert not any(figure.name.startswith("suite ") for figure in judged)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--judge", "wall"], "--suite judges all benchmarks, --judge wall one figure: leave out one of them"),
        (["--design", "sequential"], "--suite needs pairs, --design sequential makes none"),
        (["--suite", "none"], "--suite: 'none' is not known"),
        (["--", "third"], "--suite compares two commands, not 3"),
        (["--base", "HEAD"], "--base compares one command with itself, not 2: name one"),
        (["--build", "make"], "--build is for --base REF"),
    ],
)
def test_what_a_suite_cannot_be_is_refused_before_anything_runs(more: Sequence[str], says: str) -> None:
    options, commands = (more, []) if more[0] != "--" else ([], more)
    words = ["ab", "--suite", "go", *options, "--", "false", "--", "false", *commands]
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, BadInput), done.output
    assert says in str(done.exception)


def test_one_command_runs_at_a_commit_and_in_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = tmp_path / "a b"
    (repository / "bench").mkdir(parents=True)

    def git(*words: str) -> str:
        about = ["-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "commit.gpgsign=false"]
        return subprocess.run(
            ["git", "-C", str(repository), *about, *words], check=True, capture_output=True, text=True
        ).stdout

    git("init", "--quiet")
    (repository / "bench" / "figure").write_text("1")
    git("add", ".")
    git("commit", "--quiet", "-m", "First")
    (repository / "bench" / "figure").write_text("2")
    monkeypatch.chdir(repository / "bench")
    (command,) = read_commands(["cat built"], least=1)
    with at_base("HEAD", "cp figure built", command, lambda text: None) as both:
        said = [subprocess.run(one.words, check=True, capture_output=True, text=True).stdout for one in both]
        assert (said, [one.text for one in both]) == (["1", "2"], ["cat built (HEAD)", "cat built"])
    assert len(git("worktree", "list").splitlines()) == 1
    for ref, build, says in (
        ("none", None, "--base none: .*Run it in a git repository"),
        ("--help", None, "--base --help: "),
        ("HEAD", "echo broken; false", "--build 'echo broken; false' failed in .*: "),
    ):
        with pytest.raises(BadInput, match=says), at_base(ref, build, command, lambda text: None):
            pass
        assert len(git("worktree", "list").splitlines()) == 1


@pytest.mark.thorough
@pytest.mark.parametrize("own", [partial(noise_of, spread=0.02), bursts])
def test_suites_without_a_difference_are_rarely_flagged(own: Noise) -> None:
    trials = 40
    slower = read_limit("slower")
    flagged = sum(
        bool(slower.crossed(compared_suite(12, 1.0, own, seed=500 + seed, most_pairs=40).primary))
        for seed in range(trials)
    )
    # At most 1 % is wanted, of worse or better: the exact interval of the share meets that range.
    assert stats.share_of(flagged, trials).low <= 0.01


def test_a_suite_that_reads_the_variable_spends_its_time_on_what_is_open() -> None:
    whole, open_only = (
        compared_suite(40, 1.1, quiet, seed=3, noisy=2, form=form, most_pairs=60, limits=(LIMIT,))
        for form in ("", "criterion")
    )
    assert len(whole.pairs) == len(open_only.pairs) == 60, "two noisy benchmarks stay open"
    took, saved = (sum(pair.span_ns for pair in one.pairs) for one in (whole, open_only))
    assert saved < 0.75 * took
    for one in (whole, open_only):
        assert [it.figure.name for it in LIMIT.crossed(one.primary)] == ["benchmark/0"]
        assert len(one.primary) == 41, "every benchmark has its answer"
    for form in (markdown, junit, github, compared_page):
        assert "benchmark/0" in form(Outcome(open_only, 1, MACHINE, (LIMIT,)))
    show_compared(Console(file=io.StringIO()), open_only, verbose=True)


def test_what_is_open_is_no_fair_choice_of_the_typical_benchmark() -> None:
    """All that is still open became 10 % slower: the typical benchmark of such a run is that of the references."""
    trials = SimulatedSuite(20, 1.0, none, none, 1)
    (first, whole), _ = trials.run((A, B))
    figures = trials.figures()
    names = [figure.name for figure in figures]
    references, open_ = names[:4], names[4:14]
    slower = {
        name: replace(one, values=(1.1 * one.values[0],)) for name, one in whole.readings.items() if name in open_
    }
    narrow = replace(whole, readings={name: whole.readings[name] for name in references} | slower)
    for some, typical in ((references, 1.0), ([], 1.1)):
        judged = beside_each_other(figures, first, some)
        assert judged[0].read(narrow) == pytest.approx(typical)
        assert judged[1 + names.index(open_[0])].read(narrow) == pytest.approx(slower[open_[0]].values[0] / typical)
        assert judged[0].read(whole) == pytest.approx(1.0), "all of them, where nothing is left out"


@pytest.mark.parametrize("breaks", ["no benchmark", "an error"])
def test_a_filter_that_does_not_work_costs_a_pair_and_no_answer(breaks: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain, narrowed = SimulatedSuite.run, []

    def run(self: SimulatedSuite, commands: Sequence[Command], cpus: object = None) -> object:
        if any("|" in word for command in commands for word in command.words):
            narrowed.append(1)
            if breaks == "an error":
                raise BadInput("there is no benchmark in the output")
            commands = [Command(("VTARE_OPEN=none of them",), command.text) for command in commands]
        return plain(self, commands)

    monkeypatch.setattr(SimulatedSuite, "run", run)
    result = compared_suite(40, 1.1, quiet, seed=3, noisy=2, form="criterion", most_pairs=40, limits=(LIMIT,))
    assert 1 <= len(narrowed) <= 2, "both runs of one pair"
    assert (len(result.pairs), len(result.primary)) == (40, 41)


@pytest.mark.parametrize(
    ("form", "names", "expression"),
    [
        ("go", ["x BenchmarkA/sub-1 ns/op", "x BenchmarkA/two B/op", "BenchmarkB ns/op"], "^(BenchmarkB|BenchmarkA)$"),
        ("criterion", ["fib/10", "fib 20"], "^(fib.20|fib/10)$"),
        ("google-benchmark", ["sum<int>/8/threads:2"], "^(sum.int./8/threads:2)"),
        ("jmh", ["b.Sums.sum size=10"], "^(b.Sums.sum)$"),
        ("pytest-benchmark", ["t/test_pb.py::Test::test_sum[10]", "test_pb.py::bench"], "test_sum or bench"),
        ("criterion", ["$(reboot)`x`\"; rm -rf ~ '\\"], "^(..reboot..x....rm.-rf.....)$"),
        ("go", ["no such name"], "."), ("criterion", ["a" * 200_000], ""),
    ],
)  # fmt: skip
def test_the_filter_of_each_form_is_one_that_its_tool_reads(form: str, names: list[str], expression: str) -> None:
    budget = Budget(form)
    budget.keep(names, np.random.default_rng(1))
    budget.choose(names)
    words = budget.commands([Command(("cargo", "bench"), "bench")])[0].words
    assert words[0] == "env"
    assert words[2:] == ("cargo", "bench")
    kind, _, value = words[1].partition("=")
    assert (kind, value) == ("VTARE_OPEN", expression)


def test_a_form_without_a_filter_runs_as_it_is() -> None:
    command = Command(("hyperfine",), "hyperfine")
    budget = Budget("hyperfine")
    budget.keep(["a"], np.random.default_rng(1))
    budget.choose([])
    assert (budget.commands([command]), budget.is_narrow) == ([command], False)
