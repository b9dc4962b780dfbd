"""The re-analysis of the papers: its outcomes, and pages whose every figure is the code's."""

from __future__ import annotations

import html
import json
import math
import re
from collections import Counter
from pathlib import Path

import pytest
from click.testing import CliRunner
from scipy import stats as scipy_stats

from vtare.cli import app
from vtare.errors import BadInput
from vtare.papers.catalogue import list_papers
from vtare.papers.claims import figures_of, kirova, lampe, oliveira, reanalyse
from vtare.papers.claims.batalla import index_by_loaded, loads, most_bit_per_s
from vtare.papers.claims.model import OUTCOMES, Claim
from vtare.papers.held import ROWS, rows_of
from vtare.papers.pages import PLANS, pages
from vtare.papers.published import one_value, read_rows
from vtare.plan.files import shipped_plans

DOCS = Path(__file__).parents[3] / "docs" / "methods" / "papers.md"
NAMES = [paper.name for paper in list_papers()]


def claim(paper: str, name: str) -> Claim:
    (found,) = [claim for claim in reanalyse(paper).claims if claim.id == name]
    return found


@pytest.fixture(scope="module")
def written() -> dict[str, str]:
    return pages(plans=frozenset(shipped_plans()))


@pytest.mark.parametrize("paper", NAMES)
def test_every_claim_has_both_figures_an_outcome_and_a_reason(paper: str) -> None:
    found = reanalyse(paper)
    assert len(found.claims) >= 5
    assert len({one.id for one in found.claims}) == len(found.claims)
    for one in found.claims:
        assert one.outcome in OUTCOMES
        assert all((one.where, one.statement, one.printed, one.found, one.why)), one.id
        assert "0.0000" not in one.found, one.id
    assert sum(found.counts.values()) == len(found.claims)


def test_the_pages_show_every_claim_and_the_overview_counts_them(written: dict[str, str]) -> None:
    for paper in NAMES:
        found = reanalyse(paper)
        rows = [line for line in written[f"{paper}.md"].splitlines() if line.startswith("| ")]
        assert {row.split(" | ")[0].removeprefix("| ") for row in rows} >= {one.id for one in found.claims}
        counts = " | ".join(str(found.counts[outcome]) for outcome in OUTCOMES)
        assert f"| [{paper}]({paper}.md) | {counts} |" in written["README.md"]


def test_each_paper_has_its_results_on_its_page_and_their_number_on_the_first(written: dict[str, str]) -> None:
    for paper in NAMES:
        assert rows_of(paper)
        assert all(f"| {row.shown} | {row.system} |" in written[f"{paper}.md"] for row in rows_of(paper))
    counts = Counter(row.state for row in ROWS)
    assert counts["whole"] >= 26
    first = written["README.md"]
    assert f"Of {len(ROWS)} results" in first
    assert f"{counts['whole']} whole, {counts['partly']} partly, {counts['impossible']} impossible" in first


def test_the_page_about_the_papers_names_each_and_its_plans() -> None:
    page = DOCS.read_text(encoding="utf-8")
    for paper in NAMES:
        assert f"`vtare papers {paper}`" in page
        for plan in PLANS[paper]:
            assert f"`vtare run {plan}`" in page or f"`vtare watch {plan}`" in page


def test_every_figure_of_a_page_is_there_and_no_page_names_a_plan_that_is_not(written: dict[str, str]) -> None:
    for paper in NAMES:
        text = written[f"{paper}.md"]
        shown = re.findall(r"\]\(([a-z0-9-]+\.svg)\)", text)
        assert shown == [f"{drawing.name}.svg" for drawing in figures_of(paper)]
        assert set(shown) <= set(written)
        assert set(re.findall(r"`vtare run ([a-z-]+)`", text)) <= set(shipped_plans())


def test_notes_of_the_transcriber_and_computed_p_values_agree() -> None:
    # lampe2013_prose.csv notes what the transcriber computed by other means.
    notes = {row["quantity"]: row["note"] for row in read_rows("lampe2013_prose")}
    for key in ("p_pm_vs_private", "p_public_vs_pm_high", "p_esxi_vs_xen", "p_c_vs_java"):
        (noted,) = re.findall(r"not reproduced; (0\.\d{4})", notes[key])
        assert lampe.asymptotic_p(lampe.paired(key)) == pytest.approx(float(noted), abs=6e-5), key
        assert claim("lampe2013", key.replace("_", "-")).outcome == "in part"
    assert lampe.asymptotic_p(lampe.paired("p_public_vs_pm_low")) == pytest.approx(7.7e-6, rel=0.02)
    for key in ("p-public-vs-pm-low", "p-low-vs-high-pm", "p-low-vs-high-vm"):
        assert claim("lampe2013", key).outcome == "reproduces"


def test_lampes_claims_in_words_stand_or_fall_by_the_ranks() -> None:
    place = lampe.ranks()
    assert place["15", 1] == 16
    assert claim("lampe2013", "private-best-small").outcome == "reproduces"
    assert claim("lampe2013", "public-worst").outcome == "does not reproduce"
    assert claim("lampe2013", "public-worst").found == "at 1 of 10 arguments"
    assert claim("lampe2013", "private-lowest").outcome == "does not reproduce"


def test_kirovas_factors_are_those_of_kruskal_wallis() -> None:
    timers = kirova.factor_p("timers", "function")
    assert timers["median"] < 0.05
    assert timers["max"] > 0.5
    assert claim("kirova2019", "timers-function").outcome == "in part"
    assert claim("kirova2019", "sleeps-load").outcome == "reproduces"
    assert all("VBox" in pair for pair in kirova.sure_pairs("timers", "platform", "median"))


def test_the_platform_claim_is_tested_on_all_four_parameters() -> None:
    found = claim("kirova2019", "timers-platform")
    assert found.outcome == "in part"
    for name in ("median", "half IQR", "min", "max"):
        pairs = kirova.sure_pairs("timers", "platform", name)
        assert all("VBox" in pair for pair in pairs), name
        assert f"{name} {', '.join(' - '.join(pair) for pair in pairs) or 'no pair'}" in found.found
    assert kirova.sure_pairs("timers", "platform", "max") == []
    assert claim("kirova2019", "sleeps-platform").outcome == "does not reproduce"


@pytest.mark.parametrize("factors", [("function", "platform"), ("platform", "load"), ("function", "load")])
def test_interactions_of_sleeps_reproduce_by_the_papers_procedure(factors: tuple[str, str]) -> None:
    name = f"sleeps-{'-'.join(factors)}"
    printed = {"function-platform": {"median", "mad", "min"}, "platform-load": {"max"},
               "function-load": {"median", "mad", "min", "max"}}["-".join(factors)]  # fmt: skip
    for figure in ("median", "mad", "min", "max"):
        groups: dict[tuple[str, ...], list[float]] = {}
        for row in read_rows("kirova2019_table2_sleep_miss"):
            groups.setdefault(tuple(row[factor] for factor in factors), []).append(float(row[f"{figure}_ns"]))
        assert (scipy_stats.kruskal(*groups.values()).pvalue <= 0.05) == (figure in printed)
    assert claim("kirova2019", name).outcome == "reproduces"
    # Joined levels also see both factors themselves: what is left as an interaction is less.
    assert claim("kirova2019", f"{name}-interaction").outcome != "reproduces"


def test_sentences_about_timers_follow_with_mad_and_max_exchanged() -> None:
    found = claim("kirova2019", "timers-exchanged")
    assert found.outcome == "does not reproduce"
    assert "0 of 3 sentences" in found.why
    assert "3 of 3 with the two names exchanged" in found.why


@pytest.mark.parametrize(("name", "smaller"), [("p_pm_vs_private", 9), ("p_public_vs_pm_high", 8)])
def test_lampes_p_values_are_those_of_a_sign_test_without_the_observed_count(name: str, smaller: int) -> None:
    # 2 P(X < k) for X binomial with n = 20 and p = 1/2, by counting.
    below = 2 * sum(math.comb(20, k) for k in range(smaller)) / 2**20
    assert round(below, 4) == one_value("lampe2013_prose", "value", quantity=name)
    assert lampe.sign_test_below(lampe.paired(name)) == pytest.approx(below)
    assert f"2 P(X < {smaller}) = {below:.4f}" in claim("lampe2013", name.replace("_", "-")).why


def test_outliers_of_lxc_concentrate_at_one_rate() -> None:
    shares = {row["frequency_pps"]: 0.0 for row in read_rows("oliveira_rtt_tables") if row["table"] == "5"}
    for row in read_rows("oliveira_rtt_tables"):
        if row["table"] == "5":
            shares[row["frequency_pps"]] += float(row["value_percent"])
    assert shares["1000000"] == pytest.approx(78.6)
    found = claim("oliveira", "outliers-lxc")
    assert found.outcome == "in part"
    assert "1000000 packet/s 78.6 %" in found.found
    assert "They concentrate at 1 Mpps: 78.6 %" in found.why


def test_medians_of_the_text_that_the_table_does_not_have_are_named() -> None:
    checked, off = kirova.text_against_tables()
    assert checked == 37
    assert {name for name, *_ in off} == {
        "TSC on VBox, idle", "System Call on VBox, idle", "uSleep on QEMU, cpu", "HPTSleep on VBox, cpu",
    }  # fmt: skip
    # The transcriber marked the same ones by hand.
    marked = [row for row in read_rows("kirova2019_prose")
              if row["statistic"] == "median" and row["agrees_with_table"] == "no"]  # fmt: skip
    assert len(marked) == len(off)


def test_a_quantile_below_the_median_is_impossible() -> None:
    found = claim("kirova2019", "quantile-below-median")
    assert found.outcome == "does not reproduce"
    assert found.found == "median on QEMU 137 ns"


def test_oliveiras_levels_are_bounded_by_their_shares() -> None:
    bounds = oliveira.tau_bounds()
    assert bounds["driver"] == pytest.approx(0.6124, abs=1e-4)
    assert claim("oliveira", "rtt-tiny").outcome == "does not reproduce"
    for table in ("4", "5", "6"):
        assert sum(oliveira.outlier_shares(table).values()) == pytest.approx(100, abs=0.1)


def test_batallas_index_is_that_of_the_loads_for_every_k() -> None:
    for k, computed, closed in index_by_loaded():
        assert computed == pytest.approx(closed, abs=1e-9), k
        assert sum(loads(k, 12, 0.01)) == pytest.approx(1.0)
    assert most_bit_per_s(1518) == pytest.approx(986.995e6, rel=1e-5)
    assert claim("batalla2018", "line-rate").outcome == "in part"


def test_kachans_two_figures_of_the_occupied_link_do_not_agree() -> None:
    assert claim("kachan2017", "occupied").outcome == "does not reproduce"


def test_a_figure_that_is_not_there_or_not_alone_is_an_error() -> None:
    with pytest.raises(LookupError, match="0 values of"):
        one_value("lampe2013_prose", "value", quantity="no such")
    with pytest.raises(LookupError, match=r"values of cv with .*, not one"):
        one_value("lampe2013_table1_cv", "cv", machine_type="PM")


# --- on the command line ---


def test_claims_are_shown_with_both_figures() -> None:
    done = CliRunner().invoke(app, ["papers", "batalla2018", "--claims"])
    assert done.exit_code == 0
    assert done.stdout.startswith(f"Of {len(reanalyse('batalla2018').claims)} claims of batalla2018, ")
    assert "printed: 0.09" in done.stdout
    assert "computed: 0.0850" in done.stdout


def test_claims_as_json_are_one_document() -> None:
    done = CliRunner().invoke(app, ["papers", "lampe2013_table1_cv", "--json"])
    document = json.loads(done.stdout)
    assert (document["schema"], document["paper"]) == ("vtare.reanalysis/2", "lampe2013")
    assert sum(document["outcomes"].values()) == len(document["claims"]) == len(reanalyse("lampe2013").claims)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--claims"], "no paper is named"),
        (["--json"], "--json needs a paper"),
        (["--out", "x"], "--out x: a directory belongs to --store"),
        (["kirova2018", "--claims"], "Did you mean 'kirova2019'"),
        (["lampe2013", "--store", "/nonexistent"], "no such store"),
    ],
)
def test_bad_questions_are_refused(arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(app, ["papers", *arguments])
    assert isinstance(done.exception, BadInput)
    assert message in str(done.exception)


def test_pages_into_a_place_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    done = CliRunner().invoke(app, ["papers", "--write", str(tmp_path / "file" / "docs")])
    assert isinstance(done.exception, BadInput)
    assert "cannot write the pages" in str(done.exception)


def test_pages_hold_no_markup_of_their_own(written: dict[str, str]) -> None:
    for name, text in written.items():
        if name.endswith(".md"):
            assert re.findall(r"<(?!!--)[a-z/]", text) == [], name
            assert html.unescape(text).count("\n\n\n") == 0
