"""The tests of Python that `make test` leaves to `make test-all`, with the reason for each kind.

An entry is the beginning of a test's id: a file, a test, or one of its cases. `KEPT` are the cases of these that
`make test` runs all the same. tests/test_tree.py refuses an entry that is no test's beginning.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

LAB = "python/tests/lab/test_"
REPORT = "python/tests/report/test_"
STATS = "python/tests/stats/test_"
PAPERS = "python/tests/papers/test_"

THOROUGH: Final[dict[str, tuple[str, ...]]] = {
    "builds the benchmarks": ("tests/test_avb_bench.py",),
    "needs a browser, and looks at pages that other tests read as text": (
        f"{REPORT}accessibility.py", f"{REPORT}report_browser.py",
    ),
    "simulates hundreds of campaigns: a rate of errors, whose rule has tests of single cases": (
        f"{STATS}stores.py::test_a_a_stores", f"{STATS}stores.py::test_ten_percent",
        f"{STATS}whole_plots.py::test_a_whole_plot_factor", f"{STATS}factor_tests.py::test_equal_levels",
        f"{STATS}quantile_shift.py::test_the_band", f"{STATS}planning.py::test_stopping_on_precision",
        f"{STATS}changes.py::test_steps_of_two", f"{STATS}between.py::test_families_span",
        f"{REPORT}shifts.py::test_the_band_", "python/tests/ab/test_ab.py::test_false_alarms",
        "python/tests/ab/test_intervals.py::test_a_machine_with_a_rhythm",
        f"{REPORT}families.py::test_reports_of", f"{STATS}factor_tests.py::test_a_factor_is_one",
    ),
    "draws every figure of a report again, or starts the lab for it": (
        f"{LAB}cells.py::test_a_campaign_compares", f"{LAB}path_instrument.py::test_a_plan_sets_latency",
        f"{LAB}documents.py::test_a_document_of_a_store_is_as_its_schema_states[vtare.plot/1]",
        f"{LAB}watch.py::test_rounds_are_processes", f"{LAB}cli.py::test_run_measures_and_leaves",
        f"{STATS}whole_plots.py::test_report_and_plan_state", f"{REPORT}live.py::test_the_real_page",
        f"{REPORT}live.py::test_the_process_that_makes", f"{REPORT}live.py::test_the_command_serves",
        f"{REPORT}report.py::test_the_same_store", f"{REPORT}report.py::test_the_report_lands",
        f"{REPORT}unfinished.py::test_a_finished_campaign", f"{REPORT}unfinished.py::test_headings",
        f"{REPORT}unfinished.py::test_comparisons_of_an_unfinished", f"{REPORT}bandwidth.py", f"{REPORT}capped.py",
        f"{REPORT}plain.py::test_plot_", f"{REPORT}plain.py::test_a_figure_is_written", f"{REPORT}overlay_platforms.py",
        f"{REPORT}hostile_store.py", f"{REPORT}inference.py::test_two_targets", f"{REPORT}report.py::test_nothing_in",
        f"{REPORT}independent_inference.py::test_a_comparison_of_campaigns", f"{REPORT}plain.py::test_every_figure_of",
        "python/tests/plots/test_figures.py::test_another_process",
    ),
    "recomputes every figure or sentence of whole reports from their readings": (
        f"{REPORT}independent_inference.py", f"{REPORT}independent_check.py", f"{REPORT}audit.py", f"{REPORT}layers.py",
        f"{REPORT}counter_ranks.py", f"{PAPERS}claims.py::test_interactions_of",
        f"{REPORT}text_and_value.py::test_text_and_value_of_every_cell_of_every_table_agree[all",
        f"{REPORT}text_and_value.py::test_a_raw", f"{REPORT}one_argument.py::test_sentences",
        f"{REPORT}dependence.py::test_a_report_names",
        f"{PAPERS}claims.py::test_the_platform", f"{PAPERS}claims.py::test_kirovas",
        f"{PAPERS}claims.py::test_every_figure_of",
    ),
    "sends as fast as the shaper passes, which takes the optimized program": (
        "tests/test_path_and_avb.py::test_no_answer_claims_more_than_a_shaper_lets_pass[10gbit",
    ),
    "follows a page of docs/ step by step, drawing all figures": (
        f"{LAB}add_a_platform.py", f"{LAB}add_a_plot.py", f"{LAB}add_an_instrument.py", f"{PAPERS}add_a_claim.py",
    ),
    "kills or limits a campaign at many points, of which one of each kind is kept": (
        f"{LAB}crash.py::test_kill_at_this_point", f"{LAB}crash.py::test_one_stop_signal", f"{LAB}random_faults.py",
        f"{LAB}limits.py::test_a_store_that_may_not", f"{LAB}limits.py::test_a_report_that_is_ended",
        f"{LAB}limits.py::test_a_run_that_may_not", f"{LAB}limits.py::test_a_journal_that_may_not",
        f"{LAB}limits.py::test_a_limit_", f"{LAB}campaign.py::test_full_disk_at_any_step",
        f"{LAB}verify.py::test_every_file_of_a_run", f"{LAB}verify.py::test_a_key_that_a_killed",
        f"{LAB}two_hosts.py::test_helper_that_fails", f"{LAB}routed.py::test_helper_that_fails",
        f"{LAB}routed.py::test_a_program_that_cannot_run", f"{LAB}stopping.py::test_interrupted_campaign",
        f"{LAB}stopping.py::test_plan_without", f"{LAB}two_hosts.py::test_each_run_keeps",
        f"{LAB}campaign.py::test_failing_cell_costs_its_cell_and_resume_tries_it_again[hang]",
        f"{LAB}hostile_history.py::test_any_row",
    ),
    "starts each benchmark, tool or compiler": (
        "tests/test_bench.py::test_a_benchmark_in_python", "tests/test_clock_go.py",
        "tests/test_clock_library.py::test_the_java_example", "tests/test_clock_library.py::test_java_",
    ),
    "needs the wheel or the static program that `make build` makes": (
        "tests/test_wheel.py", "tests/test_binary.py", "tests/platforms",
        "tests/test_clock_library.py::test_the_library_behaves_as_its_header_states[threads]",
        "tests/test_clock_library.py::test_the_static_library_behaves_as_its_header_states[threads]",
    ),
    "measures for tens of seconds on real paths, hosts or programs of others": (
        "tests/test_stamp.py", "tests/test_docs.py::test_shell_blocks",
        "tests/test_docs.py::test_commands_of_both_ends",
        "tests/test_selftest.py", "tests/test_routed.py", "tests/test_rpm.py",
        "tests/test_two_hosts.py", "tests/test_fleet_hosts.py", "tests/test_fleet_faults.py",
        "tests/test_fleet_slurm.py",
        "tests/test_forwarders.py::test_twelve", "tests/test_preload.py::test_pythons_own",
        "tests/test_preload.py::test_results_are_the_same", "tests/test_end_to_end.py::test_a_killed_campaign",
        "tests/test_schemas.py::test_documents_of_a_fleet", "tests/test_s3.py", "tests/test_kubernetes.py",
        "tests/test_guest_hosts.py", "tests/test_named_hosts.py", "tests/test_doctor.py", "tests/test_file_service.py",
    ),
}  # fmt: skip

#: A store that takes ten seconds to make; other stores have tests of the same rules.
FIXTURE: Final = "all_instruments"

KEPT: Final = (
    f"{REPORT}audit.py::test_the_script",
    f"{REPORT}audit.py::test_a_first_screen_states_only_what_its_readings_carry[throughput",
    f"{REPORT}audit.py::test_a_screen_that_was_tampered_with_is_found[throughput",
    f"{LAB}crash.py::test_kill_at_this_point_loses_at_most_the_running_cell[write-half-3-1]",
    f"{LAB}crash.py::test_kill_at_this_point_loses_at_most_the_running_cell[publish-after-2-1]",
    f"{LAB}crash.py::test_kill_at_this_point_loses_at_most_the_running_cell[record-before-1-1]",
    f"{LAB}crash.py::test_one_stop_signal_ends_cleanly_and_states_how_to_go_on[15]",
    f"{LAB}campaign.py::test_full_disk_at_any_step_leaves_a_store_that_can_go_on[publish]",
    f"{LAB}verify.py::test_every_file_of_a_run_is_checked_and_a_damaged_run_is_measured_again[samples.parquet]",
    f"{LAB}two_hosts.py::test_helper_that_fails_costs_its_run_and_never_hangs_it[serve mute]",
    f"{LAB}two_hosts.py::test_helper_that_fails_costs_its_run_and_never_hangs_it[capture garbage:sender]",
    f"{LAB}limits.py::test_a_limit_of_open_files",
    f"{REPORT}one_argument.py::test_sentences_and_table_have_one_target[targets2",
    "tests/test_fleet_hosts.py::test_a_campaign_on_four_hosts",
    "tests/test_two_hosts.py::test_a_narrow_queue_shows_in_the_piece_and_place_where_it_was_put[responder]",
)  # fmt: skip


def mark(items: list[pytest.Item]) -> None:
    """Gives these tests the marker `thorough`."""
    begins = tuple(begin for group in THOROUGH.values() for begin in group)
    for item in items:
        slow = item.nodeid.startswith(begins) or FIXTURE in getattr(item, "fixturenames", ())
        if slow and not item.nodeid.startswith(KEPT):
            item.add_marker("thorough")


def unknown(root: Path) -> list[str]:
    """The entries that are the beginning of no test under `root`."""
    entries = [begin for group in (*THOROUGH.values(), KEPT) for begin in group]
    return [entry for entry in entries if not _is_known(root, *entry.split("::"))]


def _is_known(root: Path, file: str, test: str = "") -> bool:
    place = root / file
    if not test or not place.is_file():
        return place.exists()
    return f"def {test.partition('[')[0]}" in place.read_text(encoding="utf-8")
