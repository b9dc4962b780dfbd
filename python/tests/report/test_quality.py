"""No headline without a look at its readings: flaws stand before figures, with what to do about them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest
from forwarding_store import write_forwarding_store
from planted import of_cells, of_columns, others, planted
from synthetic_store import SMALL, Recipe, write_store

from vtare.report.build import build
from vtare.report.claims import Answer, answer
from vtare.report.content import content_of, layouts_of
from vtare.report.text import NO_BREAK
from vtare.sentences.template import plain
from vtare.summary import Summary, summarise


def answer_of(summary: Summary) -> Answer:
    return answer(summary, layouts_of(summary))


def first_screen(store: Path) -> tuple[list[str], str]:
    """The sentences of the answer, and the box on what is not certain."""
    said = answer_of(summarise(store))
    return [plain(one).replace(NO_BREAK, " ") for one in said.sentences], said.certainty.replace(NO_BREAK, " ")


def test_where_all_estimates_were_disturbed_there_is_no_headline_but_the_reason(
    routed_store: Path, tmp_path: Path
) -> None:
    sentences, certainty = first_screen(planted(routed_store, tmp_path / "store", others(1.5)))
    assert sentences == [
        "No figure here can be trusted: in the worst cell, 4 of 4 estimates were disturbed by other work; find what "
        "else uses the CPUs (`vtare check`), then run the plan again."
    ]
    assert certainty.startswith("Not certain: 32 of 32 estimates were disturbed by other work")


def test_a_disturbance_has_the_remedy_of_its_own_reason(routed_store: Path, tmp_path: Path) -> None:
    def late(rows: pl.DataFrame, _footer: dict[str, object], place: Path) -> pl.DataFrame:
        (place / "link.json").write_text(json.dumps({"directions": [{"late_share": 0.5}]}))
        return rows

    sentences, certainty = first_screen(planted(routed_store, tmp_path / "store", late))
    assert sentences == [
        "No figure here can be trusted: in the worst cell, 4 of 4 estimates were disturbed by an emulated link that "
        "was late; leave the link a CPU of its own, or give it fewer bits per second."
    ]
    assert "vtare check" not in certainty


def test_the_headline_is_that_of_the_cells_that_were_not_disturbed(routed_store: Path, tmp_path: Path) -> None:
    def some(rows: pl.DataFrame, footer: dict[str, object], place: Path) -> pl.DataFrame:
        is_yaz = footer["run"]["parameters"]["method"] == "yaz"  # type: ignore[index]
        return others(1.5)(rows, footer, place) if is_yaz else rows

    store = planted(routed_store, tmp_path / "store", some)
    title = re.search(r'<h2 class="plain">.*?<span class="range">(.*?)</span>', build(summarise(store)))
    assert title is not None
    assert title[1].endswith("; 4 of 8 cells cannot be trusted"), title[1]
    assert "<code>vtare check</code>" in build(summarise(store))
    sentences, certainty = first_screen(store)
    assert sentences[0].startswith("The figures of 4 of 8 cells cannot be trusted: in the worst cell, 4 of 4 ")
    assert "yaz" not in " ".join(sentences[1:])
    assert "vtare finds" in sentences[1]
    assert "16 of 16 estimates were disturbed by other work in 4 cells" in certainty


def test_an_interval_that_excludes_nothing_is_no_answer_and_others_have_their_width(
    routed_store: Path, tmp_path: Path
) -> None:
    summary = summarise(routed_store)
    said = [plain(one) for some in answer_of(summary).notes.values() for one in some]
    (held,) = (one for one in said if "held the truth in" in one)
    assert "estimates, at a median width of" in held
    is_known = pl.col("low_bit_per_s").is_not_null()
    wide = of_columns(
        low_bit_per_s=pl.when(is_known).then(0), high_bit_per_s=pl.when(is_known).then(10**12).cast(pl.Int64)
    )
    open_ones = summarise(planted(routed_store, tmp_path / "store", wide))
    said = [plain(one) for some in answer_of(open_ones).notes.values() for one in some]
    assert not any("held the truth" in one for one in said)
    assert open_ones.cells["intervals"].to_list() == [0] * 8
    assert "intervals exclude nothing" in answer_of(open_ones).certainty


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ({"trials": 9, "void_trials": 40}, "40 of 49 trials were void"),
        ({"disturbed_trials": 8}, "8 of 9 trials were disturbed"),
        ({"searches": 5, "unanswered": 4}, "4 of 5 searches gave no answer"),
    ],
)
def test_trials_and_searches_are_looked_at_before_throughput(
    tmp_path: Path, figures: dict[str, int], words: str
) -> None:
    made = write_forwarding_store(tmp_path / "made")
    sentences, _ = first_screen(planted(made, tmp_path / "store", of_cells(**figures)))
    summed = words.split()
    # Three runs a cell.
    summed[0], summed[2] = str(3 * int(summed[0])), str(3 * int(summed[2]))
    assert " ".join(summed) in sentences[0]
    assert "guests pass" not in " ".join(sentences)


def test_a_load_that_the_plan_makes_disturbs_no_sleep_that_it_asks_about(tmp_path: Path) -> None:
    made = write_store(tmp_path / "made", Recipe(blocks=4))
    sentences, certainty = first_screen(planted(made, tmp_path / "store", of_columns(disturbed=pl.lit(True)),
                                                instrument="sleep"))  # fmt: skip
    assert "100 % of the sleeps were disturbed in 4 cells" in certainty
    assert "The figures of 4 of 12 cells cannot be trusted" in " ".join(sentences)


def test_what_most_runs_of_a_cell_failed_to_show_the_others_do_not(tmp_path: Path) -> None:
    store = write_store(tmp_path / "store", Recipe(blocks=4, fail=tuple(("usleep", block) for block in (1, 2, 3))))
    sentences, certainty = first_screen(store)
    assert "9 of 12 runs failed or were skipped in 3 cells" in certainty
    assert "3 of 4 runs failed or were skipped" in " ".join(sentences)
    assert not any("usleep" in one for one in sentences)


def test_a_sound_store_has_its_headline_as_before(tmp_path: Path) -> None:
    sentences, certainty = first_screen(write_store(tmp_path / "store", SMALL))
    assert not any("trusted" in one for one in sentences)
    assert "disturbed" not in certainty


def test_the_first_screen_compares_no_cell_that_has_no_headline(routed_store: Path, tmp_path: Path) -> None:
    assert content_of(summarise(routed_store), figures=False).main is not None
    made = content_of(summarise(planted(routed_store, tmp_path / "all", others(1.5))), figures=False)
    assert (made.main, made.main_all) == (None, None)

    def idle(rows: pl.DataFrame, _footer: dict[str, object], place: Path) -> pl.DataFrame:
        return rows if (place / "load.json").exists() else rows.with_columns(disturbed=pl.lit(True))

    store = planted(write_store(tmp_path / "made", Recipe(blocks=4)), tmp_path / "idle", idle, instrument="sleep")
    made = content_of(summarise(store), figures=False)
    assert made.main is not None
    assert not [row for row in made.main.rows if row[0].text == "sleeps" and "load idle" in row[3].text]
    assert [row for row in made.section("verdicts").tables()[0].rows if "load: cpu against idle" in row[2].text]
