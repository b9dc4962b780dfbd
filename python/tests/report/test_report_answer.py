"""The report's answer, its tables, its words, each beside the figures that they are about."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest
from comparison_frames import compared
from conftest import Reported
from page import answer_of, cell, plain
from planted import planted
from synthetic_store import OTHER_INSTRUMENTS, PLAN, Recipe, write_store

from vtare.number_text import percent_text, ratio_text, time_range_text, time_text
from vtare.report import text
from vtare.report.cell_table import cell_table
from vtare.report.claims import answer
from vtare.report.content import layouts_of
from vtare.report.main_table import at_a_glance, main_rows, main_tables
from vtare.report.needs import inconclusive
from vtare.report.placement import standings
from vtare.report.tables import verdict_table
from vtare.report.text import Shown
from vtare.stats import Verdict
from vtare.summary import summarise
from vtare.summary.context import loads, notes_on

# --- the answer ---


def sentences_of(document: str) -> list[str]:
    """The answer's sentences, each on a line of its own."""
    found = re.search(r'<p class="answer">(.*?)</p>', document, re.DOTALL)
    assert found is not None
    lines = re.findall(r"<span>(.*?)</span> (?=<span>|$)", found.group(1).strip() + " ", re.DOTALL)
    return [plain(line) for line in lines]


def figure_of(row: dict[str, Any], suffix: str = "") -> str:
    return f"{time_text(row['median'])}{suffix} ({time_range_text(row['median_low'], row['median_high'])})"


def test_the_answer_sets_the_systems_sleep_beside_vtares_without_and_with_load(five_runs: Reported) -> None:
    idle, busy, _ = sentences_of(five_runs.html)
    for sentence, start, load in (
        (idle, "On the idle machine, a sleep of 1 ms ends", "idle"),
        (busy, "With 100 busy threads, it ends", "cpu"),
    ):
        usual = cell(five_runs.summary, experiment="sleeps", load=load, method="usleep")
        ours = cell(five_runs.summary, experiment="sleeps", load=load, method="adaptive")
        assert sentence.startswith(
            f"{start} {figure_of(usual, ' late')} with usleep and {figure_of(ours, ' late')} with"
        )
    assert busy.endswith("with vtare's. Both differ from idle.")


def test_the_answer_shows_what_a_read_costs_and_whether_load_changes_it(five_runs: Reported) -> None:
    told = sentences_of(five_runs.html)[2]
    for source in ("clock_monotonic", "vtare"):
        row = cell(five_runs.summary, experiment="timers", load="idle", source=source)
        span = time_range_text(row["read_cost_low_ns"], row["read_cost_high_ns"])
        assert f"{time_text(row['read_cost_ns'])} ({span})" in told
    assert told.startswith("On the idle machine, one reading of the clock costs")
    assert told.endswith("with vtare's. No load changes that by more than 5 %.")


def certainty_of(report: Reported) -> str:
    """What stands first in the box under the table."""
    found = re.search(r'<div class="limits"><p>(.*?)</p>', report.html, re.DOTALL)
    assert found is not None
    return plain(found.group(1))


def test_the_answer_has_three_sentences_at_most_and_the_box_below_states_what_is_not_certain(
    five_runs: Reported, one_run: Reported, all_instruments: Reported
) -> None:
    for report in (five_runs, one_run, all_instruments):
        found = sentences_of(report.html)
        assert 1 <= len(found) <= 3
        short = [re.sub(r" \([^)]*\)", "", sentence) for sentence in found]
        assert all(len(sentence.split()) <= 32 for sentence in short), short
        assert certainty_of(report).startswith("Not certain: ")
        assert "Not certain" not in answer_of(report.html)


@pytest.mark.parametrize("needed", [(None, None), (41, None), (41, 187), (41, 41)])
def test_the_box_states_how_large_a_new_campaign_would_decide_what_is_inconclusive(
    five_runs: Reported, needed: tuple[int | None, ...]
) -> None:
    """Two digits, never fewer blocks than it takes."""
    comparisons = five_runs.summary.comparisons
    is_open = [row.verdict is Verdict.INCONCLUSIVE for row in comparisons]
    assert sum(is_open) == len(needed)
    counts = iter(needed)
    changed = tuple(
        replace(row, runs_needed=next(counts) if one else None) for row, one in zip(comparisons, is_open, strict=True)
    )
    found = inconclusive(replace(five_runs.summary, comparisons=changed))
    assert found is not None
    wanted = {
        (None, None): "a new campaign of 1000 blocks would not decide them",
        (41, None): "to decide 1 of them, a new campaign of about 41 blocks is needed",
        (41, 187): "to decide them, a new campaign of about 41 to 190 blocks is needed",
        (41, 41): "to decide them, a new campaign of about 41 blocks is needed",
    }[needed]
    short = f"2 of {len(comparisons)} comparisons are inconclusive; {wanted} (80 % power for 5 %)"
    assert found[0] == short
    assert found[1].startswith(short.partition(";")[0])


def test_a_campaign_without_limits_states_how_far_its_figures_carry(five_runs: Reported) -> None:
    from vtare.report.limits import last_sentence

    decided = tuple(row for row in five_runs.summary.comparisons if not row.verdict.is_open)
    words = "decided, for this machine while it was measured."
    for count, said in ((len(decided), f"All {len(decided)} comparisons are {words}"),
                        (1, f"The comparison is {words}")):  # fmt: skip
        assert last_sentence(replace(five_runs.summary, comparisons=decided[:count]), ()) == said
    # What could not be tested is not decided.
    assert last_sentence(five_runs.summary, ()).startswith("Not certain: 2 of 39 comparisons could not be tested (")


def test_the_level_of_intervals_is_shown_where_it_is_not_95_percent(
    five_runs: Reported, all_instruments: Reported
) -> None:
    assert set(five_runs.summary.cells.get_column("interval_level").to_list()) == {0.9375}
    words = plain(five_runs.html)
    assert "Medians over 5 runs; in brackets their 93.75 % intervals over runs." in words
    assert "Bar: its 93.75 % interval" in words
    assert "Intervals of medians (93.75 %)" in words
    assert "95 % interval" not in words
    assert "in brackets their 75 % intervals over runs" in plain(all_instruments.html)
    assert "93.75 % interval" not in plain(all_instruments.html)


def notes_of(report: Reported) -> str:
    """The further sentences, in the sections of the experiments."""
    return plain("".join(re.findall(r'<ul class="details">(.*?)</ul>', report.html, re.DOTALL)))


def test_the_sections_show_how_the_idle_favourite_fares_under_load(five_runs: Reported) -> None:
    summary = five_runs.summary
    idle = {m: cell(summary, experiment="sleeps", load="idle", method=m)["median"] for m in ("two_phase", "adaptive")}
    assert idle["two_phase"] <= idle["adaptive"]
    fallen = cell(summary, experiment="sleeps", load="cpu", method="two_phase")
    assert f"two_phase, the best without load, ends {time_text(fallen['median'])} late" in notes_of(five_runs)


def test_every_time_in_the_answer_is_a_figure_of_some_cell(five_runs: Reported) -> None:
    known = set()
    names = ("median", "median_low", "median_high"), ("read_cost_ns", "read_cost_low_ns", "read_cost_high_ns")
    for row in five_runs.summary.cells.iter_rows(named=True):
        value, low, high = (row[name] for name in names[row["instrument"] == "timer"])
        known |= {time_text(figure) for figure in (value, low, high)}
        known |= set(re.findall(r"[0-9.]+ \S+$", time_range_text(low, high)))
    found = re.findall(r"[0-9.]+ (?:ns|\N{MICRO SIGN}s|ms|s)\b", answer_of(five_runs.html))
    assert len(found) > 10
    for figure in found:
        assert figure in known or figure == "1 ms", figure


def test_a_timer_is_drawn_and_tabled_by_its_read_cost_and_its_differences_are_named(five_runs: Reported) -> None:
    row = cell(five_runs.summary, experiment="timers", load="idle", source="clock_monotonic")
    assert time_text(row["read_cost_ns"]) != time_text(row["median"])
    label = re.search(r'aria-label="(Medians[^"]*cost of one read: [^"]*)"', five_runs.html)
    assert label is not None
    assert f"clock_monotonic {time_text(row['read_cost_ns'])}" in label.group(1)
    assert "difference between readings on log-log axes" in five_runs.html
    layouts = layouts_of(five_runs.summary)
    cells = five_runs.summary.cells.filter(pl.col("experiment") == "timers")
    keys = [column.key for column in cell_table(layouts["timers"], cells, 10.0, 1e3).columns]
    assert keys.index("read_cost_ns") < keys.index("median_ns")
    sleeps = five_runs.summary.cells.filter(pl.col("experiment") == "sleeps")
    assert "read_cost_ns" not in [column.key for column in cell_table(layouts["sleeps"], sleeps, 10.0, 1e3).columns]
    words = plain(five_runs.html)
    assert words.count("The read cost is the time of a tight loop of reads over their number") == 1


def test_timers_of_a_store_without_read_costs_are_shown_by_their_medians(five_runs: Reported) -> None:
    from dataclasses import replace

    from vtare.sentences.template import plain as words

    cells = five_runs.summary.cells
    empty = {name: pl.lit(None, pl.Float64) for name in ("read_cost_ns", "read_cost_low_ns", "read_cost_high_ns")}
    old = replace(five_runs.summary, cells=cells.with_columns(**empty))
    row = cell(old, experiment="timers", load="idle", source="clock_monotonic")
    assert f"{time_text(row['median'])} (" in words(answer(old, layouts_of(old)).sentences[2])


def test_the_verdict_table_shows_both_figures_of_a_comparison(five_runs: Reported) -> None:
    table = verdict_table(five_runs.summary, layouts_of(five_runs.summary))
    assert table is not None
    keys = [column.key for column in table.columns]
    rows = [dict(zip(keys, row, strict=True)) for row in table.rows]
    change = "source: vtare against rdtsc"
    row = next(row for row in rows if (row["where"].text, row["change"].text) == ("load idle", change))
    for key, source in (("here_ns", "vtare"), ("baseline_ns", "rdtsc")):
        wanted = cell(five_runs.summary, experiment="timers", load="idle", source=source)["read_cost_ns"]
        assert row[key].order == wanted
        assert row[key].text.replace("\u00a0", " ").startswith(f"{time_text(wanted)} (")


def test_the_headline_is_the_sleep_and_stands_under_the_answer(five_runs: Reported) -> None:
    main = five_runs.html[: five_runs.html.index("<nav")]
    assert re.findall(r'<figure id="figure-([a-z0-9-]+)"', main) == [
        f"medians-sleeps-{load}" for load in ("idle", "cpu", "io")
    ]


def test_with_one_run_per_cell_the_report_refuses_to_conclude(one_run: Reported) -> None:
    words = plain(one_run.html)
    assert "With 1 run per cell nothing can be concluded about differences" in words
    told = answer_of(one_run.html)
    assert "\N{MULTIPLICATION SIGN}" not in told
    assert "(" not in told
    assert "Each figure is that of one run, without an interval." in words
    assert not re.findall(r'<td class="(higher|lower|equivalent)"', one_run.html)


def test_the_report_states_what_is_missing_and_why(one_run: Reported) -> None:
    words = plain(one_run.html)
    assert "no io load on this machine" in words
    assert "this machine <cannot> do it" in words
    assert f"{one_run.summary.pending_runs} runs of the plan are still pending" in words
    assert "Which runs failed? (2)" in words
    skipped = one_run.summary.skipped.height
    assert skipped > 0
    assert f"Which runs were skipped? ({skipped})" in words


def test_other_instruments_have_sentences_of_their_own(all_instruments: Reported) -> None:
    told = notes_of(all_instruments)
    row = cell(all_instruments.summary, experiment="counters", load="idle", argument="1")
    assert f"a computation of {time_text(row['median'])} varies by" in told
    assert "a spinning thread loses 1.90 %" in told
    assert "of its time on CPU 0, the most of 2 CPUs" in told


def test_a_drifted_control_is_shown_on_the_first_screen(five_runs: Reported) -> None:
    from dataclasses import replace

    drifted = replace(five_runs.summary, flagged_blocks=(2, 4))
    limits = answer(drifted, layouts_of(drifted)).limits
    assert any("drifted in blocks 2 and 4" in limit for limit in limits)
    assert not any("drifted" in limit for limit in answer(five_runs.summary, layouts_of(five_runs.summary)).limits)


def answer_to(directory: Path, plan_text: str) -> tuple[list[str], str]:
    """The sentences of the answer, and how certain it is."""
    from vtare.sentences.template import plain as words
    from vtare.summary import summarise

    summary = summarise(write_store(directory / "store", Recipe(blocks=3, plan_text=plan_text)))
    found = answer(summary, layouts_of(summary))
    return [words(sentence) for sentence in found.sentences], found.certainty


LOADS = 'load = ["idle", { kind = "cpu", threads = 100, label = "cpu" }, "io"]\n'


def test_a_plan_without_loads_is_answered_without_them(tmp_path: Path) -> None:
    plan = PLAN.format(blocks=4, targets='["1 ms"]')
    assert plan.count(LOADS) == 2
    (sleep, timer), certainty = answer_to(tmp_path, plan.replace(LOADS, ""))
    assert sleep.startswith("A sleep of 1\N{NO-BREAK SPACE}ms ends ")
    assert timer.startswith("One reading of the clock costs ")
    assert certainty == "Not certain: intervals over 4 runs are rough."


def test_a_single_method_is_shown_alone(tmp_path: Path) -> None:
    plan = PLAN.format(blocks=4, targets='["1 ms"]')
    plan = re.sub(r'method = \["usleep".*?\]', 'method = ["two_phase"]', plan)
    plan = plan[: plan.index("[[experiment]]")] + plan[plan.rindex("[[experiment]]") :]
    (idle, busy), _ = answer_to(tmp_path, plan)
    assert idle.endswith(" with two_phase.")
    assert " and " not in idle
    assert " with two_phase. That differs from idle. Its p99 is " in busy


# --- the main comparisons ---


def main_of(report: Reported) -> list[dict[str, Shown]]:
    """The rows of the table of all main comparisons."""
    layouts = layouts_of(report.summary)
    table = main_tables(report.summary, layouts, answer(report.summary, layouts).headline)[1]
    assert table is not None
    return [dict(zip((column.key for column in table.columns), row, strict=True)) for row in table.rows]


def test_each_effect_at_the_baseline_is_a_row_with_its_figures_ratio_interval_and_verdict(five_runs: Reported) -> None:
    (comparison, *_) = (
        row for row in five_runs.summary.comparisons
        if row.factor == "load" and (row.labels["load"], row.labels.get("method")) == ("cpu", "usleep")
    )  # fmt: skip
    assert comparison.verdict is Verdict.HIGHER
    (row,) = [
        row for row in main_of(five_runs)
        if (row["metric"].text, row["here"].raw, row["where"].text) == ("miss", "cpu", "usleep")
    ]  # fmt: skip
    shown = {key: one.text.replace("\u00a0", " ") for key, one in row.items()}
    assert shown["ratio"].startswith(f"{ratio_text(comparison.ratio or 0.0)} (")
    assert row["ratio"].order == comparison.ratio
    assert shown["verdict"] == "worse"
    for side, load in (("here", "cpu"), ("against", "idle")):
        wanted = cell(five_runs.summary, experiment="sleeps", load=load, method="usleep")["median"]
        assert shown[side] == f"load {load}: {time_text(wanted)}"


def test_the_main_comparisons_hold_every_comparison_at_the_baseline_and_no_other(five_runs: Reported) -> None:
    base = {"sleeps": {"load": "idle", "method": "usleep"}, "timers": {"load": "idle", "source": "rdtsc"}}
    wanted = set()
    for row in compared(five_runs.summary.comparisons).iter_rows(named=True):
        others = {key: level for key, level in base[row["experiment"]].items() if key != row["factor"]}
        # A load is compared for every source: sources are parts of one run.
        at_baseline = all(row[key] == level or key == "source" for key, level in others.items())
        if at_baseline:
            wanted.add((row["experiment"], row["level"], row["baseline"], row["ratio"]))
    main = {
        (row["experiment"].text, row["here"].raw, row["against"].raw, row["ratio"].order) for row in main_of(five_runs)
        if row["metric"].text in ("miss", "read cost")
    }  # fmt: skip
    assert main == wanted
    assert len(main) == 5 + 14
    words = plain(five_runs.html)
    assert words.index("What differs, and by how much?") < words.index("Not certain: ")


def test_the_first_screen_has_eight_main_comparisons_at_most_and_the_others_are_folded_away_below(
    five_runs: Reported,
) -> None:
    layouts = layouts_of(five_runs.summary)
    rows = main_rows(five_runs.summary, layouts, "sleeps")
    few = at_a_glance(rows, {"sleeps": {}, "timers": {"source": "rdtsc"}})
    assert len(few) == 8 < len(rows)
    # The main metric of each factor at the first part of a run, in the order of all.
    assert few == [row for row in rows if row in few]
    assert {(row.experiment, row.figure) for row in few} == {("sleeps", "miss_ns"), ("timers", "read_cost_ns")}
    assert {row.labels["source"] for row in few if row.factor == "load" and row.experiment == "timers"} <= {"rdtsc"}
    # No difference gives way to what is no difference.
    left = [row for row in rows if row.figure in ("miss_ns", "read_cost_ns") and row not in few
            and row.labels.get("source", "rdtsc") == "rdtsc"]  # fmt: skip
    assert {row.verdict for row in few} <= {"higher", "lower"} or not {
        row.verdict for row in left} & {"higher", "lower"}  # fmt: skip
    first, every = main_tables(five_runs.summary, layouts, "sleeps")
    assert first is not None
    assert every is not None
    assert (len(first.rows), len(every.rows)) == (8, len(rows))
    words = plain(five_runs.html)
    assert words.index("What differs, and by how much?") < words.index(f"All main comparisons ({len(rows)})")


def test_with_one_run_per_cell_no_main_comparison_has_a_direction(one_run: Reported) -> None:
    rows = main_of(one_run)
    assert rows
    assert {row["verdict"].text for row in rows} == {"inconclusive"}
    assert not any("(" in row["ratio"].text and row["ratio"].order is not None for row in rows)


# --- tables ---


def test_the_verdict_table_starts_with_the_largest_effect(five_runs: Reported) -> None:
    table = verdict_table(five_runs.summary, layouts_of(five_runs.summary))
    assert table is not None
    assert len(table.rows) == len(five_runs.summary.comparisons)
    first = dict(zip((column.key for column in table.columns), table.rows[0], strict=True))
    assert (first["where"].text, first["change"].text) == ("two_phase", "load: cpu against idle")
    assert first["verdict"].kind == "worse"


def test_every_comparison_with_a_tested_factor_carries_its_p_value_family_and_adjustment(five_runs: Reported) -> None:
    for row in compared(five_runs.summary.comparisons).iter_rows(named=True):
        assert row["family"] == f"{row['experiment']}: {row['factor']}"
        # Verdict, interval and p-value are those of one rule.
        assert (row["verdict"] in ("higher", "lower")) <= (row["p_adjusted"] <= 0.05)
        assert (row["p_value"] <= 0.05) == (row["ratio_low"] > 1 or row["ratio_high"] < 1)
    assert re.search(r'title="paired t; family sleeps: load, 8 comparisons; adjusted by holm"', five_runs.html)
    assert ">0.0000<" not in five_runs.html


def test_a_figure_that_cannot_be_estimated_states_why(five_runs: Reported, one_run: Reported) -> None:
    # 400 sleeps a run: enough for p99, too few for p99.9.
    assert "n/a (n < 2995)" in plain(five_runs.html)
    assert "n/a (n < 299)" not in plain(five_runs.html)
    assert "n/a (needs 3 runs)" in plain(one_run.html)
    assert "n/a (skipped)" in plain(one_run.html)


def test_a_spread_of_zero_is_below_the_quantum(all_instruments: Reported) -> None:
    summary = all_instruments.summary
    row = cell(summary, experiment="sleeps", load="idle", method="adaptive", target_ns="1 ms")
    assert row["half_iqr"] == 0
    assert "below the quantum (10.0 ns)" in plain(all_instruments.html)


def test_cells_stand_in_the_plans_order_and_keep_full_precision(all_instruments: Reported) -> None:
    summary = all_instruments.summary
    layout = layouts_of(summary)["sleeps"]
    table = cell_table(layout, summary.cells.filter(pl.col("experiment") == "sleeps"), 10.0, 1e5)
    keys = [column.key for column in table.columns]
    places = [tuple(shown.raw for shown in row[: keys.index("median_ns")]) for row in table.rows]
    methods = ("usleep", "clock_nanosleep", "two_phase", "adaptive")
    wanted = [(load, t, m) for load in ("idle", "cpu", "io") for t in ("100 us", "1 ms") for m in methods]
    assert places == wanted
    median = table.rows[0][keys.index("median_ns")]
    assert (
        float(median.raw)
        == cell(summary, experiment="sleeps", load="idle", method="usleep", target_ns="100 us")["median"]
    )


def test_the_placement_table_agrees_with_the_papers(five_runs: Reported) -> None:
    from vtare.papers.standing import place_sleep_miss

    row = cell(five_runs.summary, experiment="sleeps", load="cpu", method="two_phase")
    standing = place_sleep_miss("two_phase", "cpu", row["median"], row["median_low"], row["median_high"])
    assert standing is not None
    assert standing.rank_text == "above all 5 published medians"
    assert standing.rank_text in plain(five_runs.html)


def test_an_io_load_that_reached_no_device_is_placed_beside_no_published_one(five_runs: Reported) -> None:
    summary = five_runs.summary
    layout = layouts_of(summary)["sleeps"]
    assert "io" in {standing.load for standing in standings(summary, layout)}
    disk = {"type": "ext4", "device": "vda", "in_memory": False}
    for place, reached in ((disk, True), ({**disk, "type": "tmpfs", "in_memory": True}, False), (None, False)):
        document = {"kind": "io", "io": {"written_byte": 1, "file_system": place}, "operations_per_s": 1.0}
        run = SimpleNamespace(control=None, factors={"load": "io"})
        made = loads([SimpleNamespace(run=run, load=document)], summary.plan)  # type: ignore[list-item]
        notes = notes_on(made)
        served = {"kind": "nbd", "nbd": {"client": {}, "server": {"file_system": place}}}
        (outside,) = loads([SimpleNamespace(run=run, load=served)], summary.plan)  # type: ignore[list-item]
        assert bool(outside.no_device_on) is not reached
        found = standings(replace(summary, loads=made), layout)
        assert ("io" in {standing.load for standing in found}) is reached
        assert "cpu" in {standing.load for standing in found}
        assert [note.text.partition(" on a disk: ")[2][:15] for note in notes] == (
            [] if reached else ["load io on host"]
        )


def test_lampes_machines_stand_beside_the_counter(all_instruments: Reported) -> None:
    assert 'id="figure-placement-counters' in all_instruments.html
    assert re.search(r"below \d+ of 16 published CVs", plain(all_instruments.html))


# --- words ---


def test_missing_figures_are_empty_in_the_csv_file() -> None:
    shown = text.time(None, "needs 3 runs")
    assert (shown.text, shown.raw, shown.order) == ("n/a (needs 3 runs)", "", None)


def test_runs_that_agree_to_the_digit_are_called_the_same_and_the_clocks_step_is_named(
    all_instruments: Reported,
) -> None:
    from dataclasses import replace

    from vtare.sentences.template import plain as words

    frozen = pl.when(pl.col("method") == "adaptive").then(60.0)
    columns = {name: frozen.otherwise(name) for name in ("median", "median_low", "median_high")}
    summary = replace(all_instruments.summary, cells=all_instruments.summary.cells.with_columns(**columns))
    said = answer(summary, layouts_of(summary))
    assert "60.0 ns late (the same in all runs) with vtare's adaptive sleep" in words(said.sentences[0])
    assert said.key.endswith("What is the same in all runs is known to the clock's step of 10.0 ns.")


def test_an_early_wake_up_is_called_early(five_runs: Reported) -> None:
    from vtare.report.sentences import main_figure
    from vtare.sentences.template import plain as words

    layout = layouts_of(five_runs.summary)["sleeps"]
    row = {"experiment": "sleeps", "median": -50.0, "median_low": -60.0, "median_high": -40.0}
    assert words((main_figure(layout, row),)).startswith("50.0 ns early (")


def test_all_rows_of_the_first_screen_are_at_one_argument_that_its_sentence_is_of(tmp_path: Path) -> None:
    head, *_ = PLAN.split("[[experiment]]")
    (counters,) = (part for part in OTHER_INSTRUMENTS.split("[[experiment]]") if '"counters"' in part)
    plan_text = f"{head.format(blocks=4)}[[experiment]]{counters.format()}".replace('["idle", "cpu"]',
                                                                                 '["idle", "cpu", "io"]')  # fmt: skip
    least = {"idle": 1, "cpu": 2, "io": 4}

    def without_short_ones(rows: pl.DataFrame, _footer: dict[str, Any], place: Path) -> pl.DataFrame:
        load = json.loads((place / "load.json").read_text())["kind"] if (place / "load.json").exists() else "idle"
        return rows.filter(pl.col("argument") >= least[load])

    made = write_store(tmp_path / "made", Recipe(blocks=4, plan_text=plan_text))
    summary = summarise(planted(made, tmp_path / "store", without_short_ones, instrument="counter"))
    layouts = layouts_of(summary)
    first, every = main_tables(summary, layouts, "counters")
    assert first is not None
    assert every is not None
    assert [row[-1].text for row in first.rows] == ["argument 4", "argument 4"]
    assert len(every.rows) > len(first.rows)
    cell = summary.cells.filter((pl.col("argument") == "4") & (pl.col("load") == "idle")).row(0, named=True)
    said = "".join(piece if isinstance(piece, str) else piece.value
                    for one in answer(summary, layouts).sentences for piece in one)  # fmt: skip
    assert f"computation of {time_text(cell['median'])} varies by {percent_text(cell['cv'])}" in said.replace(
        text.NO_BREAK, " "
    )
