"""`vtare ab`: commands in, pairs, and a verdict out; the loop on programs that are simulated."""

from __future__ import annotations

import io
import json
import math
import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from click import Context
from click.testing import CliRunner
from rich.console import Console
from simulated_trials import MACHINE, A, B, Noise, SimulatedTrials, bursts, compared, measured, noise_of, none, quiet

from vtare import stats
from vtare.ab import floors
from vtare.ab.baseline import read_baseline
from vtare.ab.calls import compare_calls
from vtare.ab.commands import Command, read_commands
from vtare.ab.compare import Asked, Finding, against, compare
from vtare.ab.designs import Orders
from vtare.ab.figures import COUNTED, judged_first
from vtare.ab.publish import bencher, benchmark_action, github, junit, markdown
from vtare.ab.trials import MachineTime, Measured, Trials
from vtare.ab.verdict import (
    Outcome,
    beside_text,
    change_and_range,
    change_text,
    document,
    finer_text,
    floor_of,
    known_beside,
    margin_of,
    read_limit,
    sentence,
    warnings,
)
from vtare.cli import app
from vtare.errors import BadInput
from vtare.stats import Verdict
from vtare.terminal.ab import show_compared

pytest_plugins = ("pytester",)


@pytest.mark.parametrize(
    ("ratio", "low", "high", "shown"),
    [
        (1.05, 1.02, 1.08, ("+5.0 %", "+2.0 to +8.0 %")),
        (8.5, 7.02, 12.31, ("8.50\N{MULTIPLICATION SIGN}", "7.02 to 12.3\N{MULTIPLICATION SIGN}")),
        (12.0, None, None, ("12.0\N{MULTIPLICATION SIGN}", "")),
        (1.5, 0.98, math.inf, ("+50.0 %", "-2.0 % or more")),
        (12.0, 9.0, math.inf, ("12.0\N{MULTIPLICATION SIGN}", "9.00\N{MULTIPLICATION SIGN} or more")),
        (12.0, 11.0, math.inf, ("12.0\N{MULTIPLICATION SIGN}", "11.0\N{MULTIPLICATION SIGN} or more")),
        (None, None, None, ("", "")),
    ],
)
def test_a_change_and_its_interval_are_in_one_unit(
    ratio: float | None, low: float | None, high: float | None, shown: tuple[str, str]
) -> None:
    assert change_and_range(Finding(COUNTED[0], 1, ratio, low, high, 0.95, Verdict.HIGHER, 0, 12)) == shown


def test_commands_are_split_at_double_dashes_and_a_shell_is_used_where_one_is_needed() -> None:
    listed = read_commands(["python3", "-c", "print(1)", "--", "ls | wc", "--", "true"])
    assert [command.words for command in listed] == [
        ("python3", "-c", "print(1)"), ("sh", "-c", "ls | wc"), ("true",)
    ]  # fmt: skip
    assert [command.words for command in read_commands(["A=1 env", "sleep 1"])] == [
        ("sh", "-c", "A=1 env"), ("sleep", "1")
    ]  # fmt: skip
    for wrong in ([], ["one"], ["a", "--"], ["a", ""]):
        with pytest.raises(BadInput, match=r"too few commands \(\d\): name 2 or more"):
            read_commands(wrong)


def test_each_order_is_drawn_on_its_own() -> None:
    orders = Orders(2, np.random.default_rng(1))
    drawn = [orders.next() for _ in range(4000)]
    for apart in (1, 2, 3, 8):
        same = sum(first == later for first, later in zip(drawn, drawn[apart:], strict=False)) / (4000 - apart)
        assert abs(same - 0.5) < 0.04, apart


def test_a_clear_difference_is_found_early_and_none_takes_until_the_precision_is_there() -> None:
    slow = compared(1.10, quiet, seed=2)
    (finding,) = slow.primary
    assert (finding.word, slow.stopped) == ("slower", "known")
    assert finding.low is not None
    assert finding.high is not None
    assert finding.low < 1.10 < finding.high
    assert "B is" in sentence(slow, finding)
    assert "slower than A" in sentence(slow, finding)
    same = compared(1.0, quiet, seed=5)
    assert same.primary[0].verdict == "equivalent"
    assert len(same.pairs) >= len(slow.pairs)


def test_what_cannot_be_known_is_called_too_noisy_with_the_pairs_that_it_takes() -> None:
    found = compared(1.0, bursts, most_pairs=20)
    assert (found.primary[0].word, found.stopped) == ("too noisy", "pairs")
    assert found.primary[0].more_pairs > 100
    assert "more pairs are needed for 2 %" in sentence(found, found.primary[0])


def test_programs_that_suffer_together_are_run_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {2, 3})
    monkeypatch.setattr("vtare.ab.designs._core", str)

    def storms(rng: np.random.Generator) -> float:
        return float(rng.normal(scale=0.5))

    shared = [compared(1.0, quiet, storms, seed=seed, most_pairs=8).chosen for seed in range(5)]
    assert {(chosen.design, chosen.cpus) for chosen in shared} == {("duet", (2, 3))}
    assert all("interleaved pairs would take" in chosen.why for chosen in shared)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {2})
    alone = compared(1.0, quiet, storms, most_pairs=8).chosen
    assert (alone.design, alone.why) == ("interleaved", "no duet: 1 core for 2 commands")


@pytest.mark.parametrize("own", [quiet, bursts])
def test_false_alarms_keep_to_their_share(own: Noise) -> None:
    trials = 400
    alarms = sum(
        compared(1.0, own, seed=100 + seed, margin=0.03, most_pairs=60, design="interleaved").primary[0].is_different
        for seed in range(trials)
    )
    share = stats.share_of(alarms, trials)
    # 3 to 7 % are wanted: the exact interval of the share meets that range.
    assert share.low <= 0.07
    assert share.high >= 0.03


def test_all_of_one_after_all_of_the_other_takes_a_number_of_runs() -> None:
    with pytest.raises(BadInput, match="--pairs N"):
        compared(1.0, quiet, design="sequential", most_pairs=None)
    found = compared(1.2, quiet, design="sequential", most_pairs=10)
    assert (found.chosen.design, found.primary[0].change, len(found.pairs)) == ("sequential", "worse", 10)


def test_where_wall_time_is_too_noisy_cpu_time_may_be_known() -> None:
    class Counted(SimulatedTrials):
        def run(
            self, commands: Sequence[Command], cpus: Sequence[Sequence[int]] | None = None
        ) -> tuple[list[Measured], MachineTime]:
            runs, beside = super().run(commands, cpus)
            cpu_ns = {A: 100_000, B: 110_000}
            return [replace(run, user_ns=cpu_ns[it]) for it, run in zip(commands, runs, strict=True)], beside

    trials = Counted(1.0, bursts, none, 4)
    found = compare(trials, (A, B), COUNTED, Asked(most_pairs=12), rng=np.random.default_rng(1))
    assert found.primary[0].word == "too noisy"
    text = known_beside(found)
    assert text is not None
    assert "B is 10 % slower than A in CPU time" in text
    first = compare(trials, (A, B), judged_first("cpu", []), Asked(most_pairs=12), rng=np.random.default_rng(1))
    assert (first.primary[0].figure.name, first.primary[0].change) == ("CPU time", "worse")
    assert known_beside(first) is None
    with pytest.raises(BadInput, match="--judge"):
        judged_first("disk", [])


def test_memory_below_that_of_the_starting_program_is_not_compared() -> None:
    memory = COUNTED[2]
    assert memory.hidden([measured(1.0, most_resident_byte=10_000_000)] * 2) is not None
    assert memory.hidden([measured(1.0), measured(1.0)]) is None


def test_a_limit_is_crossed_only_where_the_whole_interval_is_beyond_it() -> None:
    slow = compared(1.10, quiet, seed=2).primary
    assert read_limit("slower by 5 %").crossed(slow)
    assert read_limit("slower").crossed(slow)
    assert not read_limit("slower by 10 %").crossed(slow)
    assert not read_limit("faster").crossed(slow)
    assert read_limit("higher by 5 %").crossed(slow)
    with pytest.raises(BadInput, match="slower by 5 %"):
        read_limit("slower than 5")


def test_the_document_holds_every_pair_and_no_number_that_json_has_not() -> None:
    found = compared(1.0, quiet, most_pairs=10)
    written = json.loads(json.dumps(document(Outcome(found, 7, MACHINE)), allow_nan=False))
    assert written["schema"] == "vtare.ab/1"
    assert len(written["pairs"]) == len(found.pairs)
    assert set(written["pairs"][0]["figures"]) == {figure.name for figure in COUNTED}
    assert written["findings"][0]["word"] in ("slower", "faster", "equivalent", "too noisy")


def test_a_program_that_fails_ends_the_comparison_with_what_it_said(tmp_path: Path) -> None:
    answer = {
        "programs": [
            {
                **{k: 0 for k in Measured.__slots__ if k not in ("readings", "least_byte")},
                "exit_code": 3, "signal": None, "timed_out": False, "printed_too_much": False,
            }
        ],
        "beside": dict.fromkeys(MachineTime.__slots__, 0),
        "least_byte": 0,
    }  # fmt: skip
    script = tmp_path / "vtare"
    script.write_text(
        "#!/usr/bin/env python3\nimport json, sys\nprint('{\"machine\": {}}', flush=True)\nfor line in sys.stdin:\n"
        "    open(json.loads(line)['programs'][0]['stderr'], 'w').write('no such thing')\n"
        f"    print({json.dumps(json.dumps(answer))}, flush=True)\n"
    )
    script.chmod(0o755)
    with (
        Trials(script, most_s=5.0, ignores_failure=False) as trials,
        pytest.raises(BadInput, match=r"exit code 3, not 0 .*no such thing"),
    ):
        trials.run([A])
    with Trials(script, most_s=5.0, ignores_failure=True) as trials:
        assert trials.run([A])[0][0].wall_ns == 0


def test_ci_systems_get_what_they_read() -> None:
    limits = (read_limit("slower by 5 %"),)
    slow = Outcome(compared(1.10, quiet, seed=2), 7, MACHINE, limits)
    page = markdown(slow)
    assert "slower than A" in page
    assert "`--fail-if 'slower by 5 %'` is crossed." in page
    assert "| wall time | B | +" in page
    suite = ElementTree.fromstring(junit(slow))
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("1", "1", "0")
    assert "slower than A" in (suite.find("testcase/failure").attrib["message"])  # type: ignore[union-attr]
    assert github(slow).startswith("::error title=vtare ab::B is ")
    assert "%25" in github(slow)
    noisy = Outcome(compared(1.0, bursts, most_pairs=12), 7, MACHINE, limits)
    assert ElementTree.fromstring(junit(noisy)).get("skipped") == "1"
    assert github(noisy).startswith("::warning")
    measures = json.loads(bencher(slow))
    assert set(measures) == {"a", "b"}
    assert measures["a"]["wall-time"]["lower_value"] <= measures["a"]["wall-time"]["value"]
    rows = json.loads(benchmark_action(slow))
    assert {"name", "unit", "value", "range"} == set(rows[0])
    assert rows[0]["unit"] == "ns"


#: What the schema of the Jenkins xUnit plugin (junit-10.xsd) lets stand where: required attributes, others, children.
JUNIT = {
    "testsuite": ({"name", "tests", "failures", "errors"}, {"skipped", "time"}, {"testcase"}),
    "testcase": ({"name"}, {"classname", "time"}, {"failure", "skipped", "system-out"}),
    "failure": (set(), {"message", "type"}, set()),
    "skipped": (set(), {"message", "type"}, set()),
    "system-out": (set(), set(), set()),
}


def test_junit_files_keep_to_the_schema_and_count_their_cases() -> None:
    limits = (read_limit("slower by 5 %"), read_limit("slower by 50 %"))
    kinds = set()
    for found in (compared(1.10, quiet, seed=2), compared(1.0, bursts, most_pairs=12)):
        suite = ElementTree.fromstring(junit(Outcome(found, 7, MACHINE, limits)))
        for element in suite.iter():
            required, others, children = JUNIT[element.tag]
            assert required <= set(element.attrib) <= required | others
            assert {child.tag for child in element} <= children
            kinds.add(element.tag)
        counted = {
            name: len(suite.findall(f".//{tag}"))
            for name, tag in {
                "tests": "testcase",
                "failures": "failure",
                "skipped": "skipped",
                "errors": "error",
            }.items()
        }
        assert {name: int(suite.attrib[name]) for name in counted} == counted
    assert kinds == set(JUNIT)


@pytest.mark.parametrize("file", ["missing/ab.html", "."])
def test_a_file_that_cannot_be_written_is_named_before_anything_runs(file: str, tmp_path: Path) -> None:
    words = ["ab", "--binary", "/nonexistent", "--write", f"html={tmp_path / file}", "--", "true", "--", "true"]
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, BadInput)
    assert "name another file" in str(done.exception)


def test_benchmark_files_have_the_form_of_their_readers() -> None:
    outcome = Outcome(compared(1.10, quiet, seed=2), 7, MACHINE)
    # Bencher Metric Format: benchmark -> measure -> value, with bounds around it.
    for measures in json.loads(bencher(outcome)).values():
        for measure in measures.values():
            assert set(measure) == {"value", "lower_value", "upper_value"}
            assert all(type(number) in (int, float) for number in measure.values())
            assert measure["lower_value"] <= measure["value"] <= measure["upper_value"]
    # github-action-benchmark, customSmallerIsBetter: name, unit and value are required, range and extra are texts.
    for row in json.loads(benchmark_action(outcome)):
        assert {"name", "unit", "value"} <= set(row) <= {"name", "unit", "value", "range", "extra"}
        assert all(isinstance(row[key], str) for key in ("name", "unit", "range"))
        assert type(row["value"]) in (int, float)


@pytest.mark.parametrize("name", ["action.yml", "gitlab.yml"])
def test_the_templates_of_ci_systems_run_what_vtare_takes(name: str) -> None:
    import yaml

    from vtare.ab.publish import FORMS

    template = yaml.safe_load((Path(__file__).resolve().parents[3] / "examples/ci" / name).read_text())
    if name == "action.yml":
        assert template["runs"]["using"] == "composite"
        kept, step = template["runs"]["steps"]
        assert kept["with"]["path"] == "~/.cache/vtare/floors.json"
        script = step["run"]
        assert set(template["inputs"]) == {value.split("inputs.")[1].split()[0] for value in step["env"].values()}
    else:
        (job,) = template.values()
        (script,) = job["script"]
        assert job["artifacts"]["reports"]["junit"] == "vtare-ab.xml"
    subprocess.run(["sh", "-n"], input=script, text=True, check=True)
    written = re.findall(r"--write (\w[\w-]*)=", script)
    assert written
    assert set(written) <= set(FORMS)
    commands = app
    taken = commands.get_command(Context(commands), "ab")
    assert taken is not None
    known = {option for parameter in taken.params for option in parameter.opts}
    assert set(re.findall(r"(--[a-z]+[\w-]*)", script)) <= known


def test_a_limit_inside_the_interval_is_no_passed_test() -> None:
    limit = read_limit("slower by 5 %")
    found = compared(1.05, quiet, seed=2)
    assert (found.primary[0].word, limit.state(found.primary)) == ("slower", "open")
    assert junit(Outcome(found, 7, MACHINE, (limit,))).count("<skipped") == 1


def test_a_baseline_is_compared_with_on_its_own_machine_only(tmp_path: Path) -> None:
    kept = compared(1.0, quiet, most_pairs=12, margin=0.001)
    file = tmp_path / "baseline.json"
    file.write_text(json.dumps(document(Outcome(kept, 7, MACHINE))))
    before, runs = read_baseline(file, MACHINE)
    assert (before.text, [run.wall_ns for run in runs]) == (
        "b (baseline)", [pair.runs[1].wall_ns for pair in kept.pairs]
    )  # fmt: skip
    found = against(SimulatedTrials(1.3, quiet, none, 3), before, runs, B, COUNTED, Asked())
    assert (found.primary[0].change, len(found.pairs)) == ("worse", 12)
    assert (
        json.loads(json.dumps(document(Outcome(found, 7, MACHINE)), allow_nan=False))["noise"]["others_cpus_median"]
        is None
    )
    with pytest.raises(BadInput, match=r"another machine.*kernel"):
        read_baseline(file, {**MACHINE, "kernel": "0.0.1"})
    for content in ("", "[]", json.dumps({**document(Outcome(kept, 7, MACHINE)), "schema": "vtare.ab/9"})):
        file.write_text(content)
        with pytest.raises(BadInput, match="--against"):
            read_baseline(file, MACHINE)


def test_functions_are_compared_in_this_process() -> None:
    found = compare_calls(lambda: sum(range(2000)), lambda: sum(range(60000)), margin=0.2, seed=1)
    assert found.primary[0].change == "worse"
    assert found.chosen.design == "interleaved"
    assert [finding.figure.name for finding in found.others] == ["CPU time"]


def test_a_test_fails_where_a_function_is_shown_to_be_slower(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        """
        def test_slower(vtare_ab):
            vtare_ab(lambda: sum(range(2000)), lambda: sum(range(60000)), margin=0.5, fail_if="slower")

        def test_faster(vtare_ab):
            assert vtare_ab(lambda: sum(range(60000)), lambda: sum(range(2000)), margin=0.5).primary[0].ratio < 1
        """
    )
    done = pytester.runpytest_subprocess("-p", "vtare.ab.fixture", "-p", "no:cacheprovider")
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["*slower: B is * slower than A*"])


def test_a_figure_without_a_ratio_or_an_interval_is_refused_with_the_reason() -> None:
    def without_switches(run: Measured) -> Measured:
        return replace(run, voluntary_switches=0, involuntary_switches=0, minor_faults=None)

    class Still(SimulatedTrials):
        def run(
            self, commands: Sequence[Command], cpus: Sequence[Sequence[int]] | None = None
        ) -> tuple[list[Measured], MachineTime]:
            runs, beside = super().run(commands, cpus)
            return [without_switches(run) for run in runs], beside

    found = compare(Still(1.0, quiet, none, 4), (A, B), COUNTED, Asked(most_pairs=4), rng=np.random.default_rng(1))
    reasons = {one.figure.name: (one.verdict, one.reason) for one in (*found.primary, *found.others)}
    assert reasons["context switches"] == ("refused", "a value is 0 or was not counted: it has no ratio")
    assert reasons["page faults"] == reasons["context switches"]
    assert reasons["wall time"][0] == "refused"
    assert "no answer: 4 pairs of at least 6 (" in sentence(found, found.primary[0])
    with pytest.raises(BadInput, match="context switches: a run has no value above 0"):
        compare(Still(1.0, quiet, none, 4), (A, B), judged_first("context", []), Asked(), rng=np.random.default_rng(1))


def test_no_design_is_tried_where_the_time_is_too_short_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {2, 3})
    monkeypatch.setattr("vtare.ab.designs._core", str)
    # Runs of 100 ms: two pairs of both designs take 0.6 s, a quarter of the time is less.
    short = compared(1.0, quiet, most_s=2.0, most_pairs=8).chosen
    assert (short.design, short.why) == ("interleaved", "there is no time to try a duet")
    assert "pairs would take" in compared(1.0, quiet, most_s=60.0, most_pairs=8).chosen.why


def test_what_a_quota_withheld_is_named_beside_other_programs() -> None:
    class Limited(SimulatedTrials):
        def run(
            self, commands: Sequence[Command], cpus: Sequence[Sequence[int]] | None = None
        ) -> tuple[list[Measured], MachineTime]:
            runs, _ = super().run(commands, cpus)
            return runs, MachineTime(0, 10, None, None, 10, quota_ns=9)

    found = compare(Limited(1.0, quiet, none, 4), (A, B), COUNTED, Asked(most_pairs=8), rng=np.random.default_rng(1))
    said = beside_text(found)
    assert said is not None
    assert "A CPU quota of this control group withheld 0.90 CPUs." in said
    free = beside_text(compared(1.0, quiet))
    assert free is None or "quota" not in free


def test_the_screen_has_the_answer_and_a_line_for_each_figure_that_matters() -> None:
    console = Console(file=io.StringIO(), width=80)
    found = compared(1.2, quiet)
    show_compared(console, found)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert len(lines) <= 6
    assert all(len(line) <= 80 for line in lines)
    (finding,) = found.primary
    assert lines[0] == sentence(found, finding)
    row = rf"  {finding.figure.name} .*{re.escape(change_text(finding))} +slower"
    assert any(re.fullmatch(row, line) for line in lines)
    assert lines[-1].endswith("Stopped once the answer was certain. More: -v")


def test_the_margin_is_what_the_question_names_where_none_is_stated() -> None:
    limits = [read_limit(text) for text in ("slower by 5 %", "faster by 10 %", "worse")]
    assert margin_of(limits) == 0.05
    assert margin_of([read_limit("slower")]) == margin_of([]) == 0.05


@pytest.mark.parametrize(("slower", "state"), [(1.0, "not crossed"), (1.30, "crossed")])
def test_a_limit_ends_the_run_as_soon_as_it_is_decided(slower: float, state: str) -> None:
    limit = read_limit("slower by 5 %")
    asked = {"margin": 0.05, "limits": (limit,)}
    own = partial(noise_of, spread=0.05)
    asks = [compared(slower, own, seed=seed, asks_margin=False, **asked) for seed in range(10)]
    also_margin = [compared(slower, own, seed=seed, asks_margin=True, **asked) for seed in range(10)]
    assert [limit.state(found.primary) for found in asks].count(state) >= 9
    assert {found.stopped for found in asks} == {"known"}
    assert sum(len(found.pairs) for found in asks) <= sum(len(found.pairs) for found in also_margin)
    decided = next(found for found in asks if limit.state(found.primary) == state)
    assert "at most" in sentence(decided, decided.primary[0]) or slower > 1 or decided.primary[0].is_different
    assert not decided.primary[0].is_open


def test_a_limit_is_decided_wrongly_no_more_often_than_stated() -> None:
    limit, trials = read_limit("slower by 5 %"), 200
    asked = {"margin": 0.05, "limits": (limit,), "asks_margin": False, "most_pairs": 150}
    own = partial(noise_of, spread=0.06)
    at_limit = [limit.state(compared(1.05, own, seed=seed, **asked).primary) for seed in range(trials)]
    # The interval leaves the truth out in 5 % of comparisons, whenever it was looked at.
    share = stats.share_of(trials - at_limit.count("open"), trials)
    assert share.low <= 0.05
    alike = [limit.state(compared(1.0, own, seed=1000 + seed, **asked).primary) for seed in range(trials // 2)]
    assert alike.count("crossed") == 0
    assert alike.count("not crossed") >= 0.9 * len(alike)


def test_ctrl_c_gives_what_is_known() -> None:
    class Interrupted(SimulatedTrials):
        left = 9

        def run(
            self, commands: Sequence[Command], cpus: Sequence[Sequence[int]] | None = None
        ) -> tuple[list[Measured], MachineTime]:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            return super().run(commands, cpus)

    for runs, pairs in ((2, 1), (9, 3), (31, 14)):
        trials = Interrupted(1.0, quiet, none, 4)
        trials.left = runs
        found = compare(trials, (A, B), COUNTED, Asked(design="interleaved"), rng=np.random.default_rng(1))
        assert (found.stopped, len(found.pairs)) == ("interrupted", pairs)
        assert (found.primary[0].low is None) == (pairs < 6)
    assert found.primary[0].low is not None


def test_the_time_that_it_may_take_is_kept_and_pilots_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {2, 3})
    monkeypatch.setattr("vtare.ab.designs._core", str)

    trials = SimulatedTrials(1.0, quiet, none, 4)
    monkeypatch.setattr("time.monotonic", lambda: trials.now / 1e9)
    found = compare(trials, (A, B), COUNTED, Asked(most_s=5.0, margin=0.0001), rng=np.random.default_rng(1))
    assert found.stopped == "time"
    assert 4.5 <= trials.now / 1e9 <= 5.5
    # The runs that warmed up and the pairs of the other design are all that does not count.
    counted_s = sum(pair.span_ns for pair in found.pairs) / 1e9
    assert trials.now / 1e9 - counted_s <= 0.2 + 4 * 0.21
    trials = SimulatedTrials(1.0, quiet, none, 4)
    assert len(compare(trials, (A, B), COUNTED, Asked(most_pairs=4), rng=np.random.default_rng(1)).pairs) == 4
    assert trials.now / 1e9 <= 1.5


def test_the_screen_names_the_time_for_a_finer_answer() -> None:
    found = compared(1.0, quiet, margin=0.05)
    text = finer_text(found)
    assert text is not None
    assert text.startswith("An answer to 1 % would take ")
    assert finer_text(compared(1.0, quiet, margin=0.01)) is None
    assert finer_text(compared(1.3, quiet, margin=0.05)) is None


def test_what_machines_like_this_resolve_is_named_where_an_answer_is_open(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert floors.remembered(MACHINE) is None
    itself = compared(1.0, quiet)
    itself = replace(itself, commands=(A, A))
    resolved = floor_of(itself)
    assert resolved is not None
    assert 1.0 < resolved < 1.1
    for ratio in (resolved, 1.02, 1.5):
        floors.remember(MACHINE, ratio)
    floors.remember({**MACHINE, "cpu_model": "another"}, 3.0)
    usual = floors.remembered({**MACHINE, "kernel": "another"})
    assert usual == floors.Floor(sorted((resolved, 1.02, 1.5))[1], 3)
    line = "Machines like this resolve 2.0 % (median of 3 self-tests)."
    noisy = compared(1.0, partial(noise_of, spread=0.3), most_pairs=12)
    known = compared(1.3, quiet)
    assert line in warnings(replace(noisy, usual=floors.Floor(1.02, 3)))
    assert line not in warnings(replace(known, usual=floors.Floor(1.02, 3)))
    assert floor_of(known) is None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"simulated; 2; None": ["x"]}', '{"simulated; 2; None": [NaN, 0.5]}'])
def test_a_cache_that_is_none_of_ours_is_no_floor(text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "vtare").mkdir()
    (tmp_path / "vtare/floors.json").write_text(text)
    assert floors.remembered(MACHINE) is None
    floors.remember(MACHINE, 1.5)
    assert floors.remembered(MACHINE) == floors.Floor(1.5, 1)
