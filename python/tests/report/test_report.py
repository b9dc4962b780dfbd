"""The report as a document: complete, self-contained, whole or not at all."""

from __future__ import annotations

import dataclasses
import errno
import html
import os
import re
from pathlib import Path

import pytest
from conftest import Reported
from page import plain
from synthetic_store import SMALL, Recipe, write_store

from vtare.errors import BadInput
from vtare.report import embed
from vtare.report.build import build, render
from vtare.report.bundle import bundle
from vtare.report.write import write_report, write_whole

# --- one file, nothing fetched ---


def test_nothing_in_the_file_points_outside_it(five_runs: Reported, all_instruments: Reported) -> None:
    for report in (five_runs, all_instruments):
        # Vega's own script names things by addresses; that none is asked for is tried in a browser.
        page = report.html.replace(bundle(), "")
        assert len(page) < len(report.html) - 100_000
        assert re.findall(r"https?://", page) == []
        for name, value in re.findall(r'\b(src|href|action|srcset)="([^"]*)"', page):
            assert value.startswith(("#", "data:")), (name, value)
        assert "@import" not in page
        assert re.findall(r"url\((?!#)", page) == []


def test_the_script_of_the_charts_stands_in_the_page_once_and_is_left_out_where_nothing_needs_it(
    five_runs: Reported,
) -> None:
    assert five_runs.html.count(bundle()) == 1
    bare = dataclasses.replace(five_runs.content, headline=None, sections=())
    assert "vegaEmbed" not in render(bare)


def test_a_chart_beyond_the_room_for_them_stays_a_still_figure(
    five_runs: Reported, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = list(five_runs.content.questions())
    every = embed.embed(questions)
    sizes = [len(chart.json) for chart in every.by_figure.values()]
    monkeypatch.setattr(embed, "MOST_BYTE", sum(sizes) - 1)
    fewer = embed.embed(questions)
    assert len(fewer.by_figure) == len(every.by_figure) - 1


def test_the_policy_in_the_file_forbids_fetching(five_runs: Reported) -> None:
    policy = html.unescape(five_runs.html.partition('Content-Security-Policy" content="')[2].partition('"')[0])
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    # Whatever comes with data is none of the scripts that the policy names, and a style is none either.
    assert policy.count("'sha256-") == 1 + len(re.findall(r"<script(?! type=\"application/json\")", five_runs.html))
    assert ' style="' not in five_runs.html


def test_the_file_stays_under_five_megabytes(five_runs: Reported, all_instruments: Reported) -> None:
    assert len(five_runs.html.encode()) < 5_000_000
    assert len(all_instruments.html.encode()) < 5_000_000


def test_the_same_store_gives_the_same_bytes(one_run: Reported) -> None:
    assert build(one_run.summary) == one_run.html


def test_every_link_inside_the_page_has_its_target_and_ids_are_unique(all_instruments: Reported) -> None:
    ids = re.findall(r'\bid="([^"]+)"', all_instruments.html)
    assert len(ids) == len(set(ids))
    for target in re.findall(r'href="#([^"]+)"', all_instruments.html):
        assert target in ids


# --- origin ---


def test_the_plan_seed_versions_and_facts_are_in_the_report(five_runs: Reported) -> None:
    shown = re.search(r"<pre[^>]*><code>(.*?)</code></pre>", five_runs.html, re.DOTALL)
    assert shown is not None
    assert html.unescape(shown.group(1)) == (five_runs.store / "plan.toml").read_text(encoding="utf-8")
    words = plain(five_runs.html)
    for piece in (
        "Seed 20",
        "vtare 0.1.0",
        "Synthetic CPU <1 & 2>",
        "6.1.0-synthetic",
        "kvm",
        "tsc, trusted",
        "98.0 % of the CPUs",
    ):
        assert piece in words, piece


def test_hostile_names_stay_text(one_run: Reported) -> None:
    assert "<script>alert" not in one_run.html
    assert "<img src=x>" not in one_run.html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in one_run.html


# --- writing ---


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return write_store(tmp_path / "store", SMALL)


def test_the_report_lands_in_the_store_and_leaves_nothing_else(small: Path) -> None:
    out = write_report(small)
    assert out == small / "report.html"
    assert out.read_text(encoding="utf-8").rstrip().endswith("</html>")
    assert not list(small.glob(".*partial"))


def test_a_store_without_a_finished_run_is_refused(tmp_path: Path) -> None:
    store = write_store(tmp_path / "store", Recipe(blocks=1, pending_from_block=1))
    with pytest.raises(BadInput, match=r"no run is finished.*vtare resume"):
        write_report(store)
    assert not (store / "report.html").exists()


def test_a_path_that_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        write_report(tmp_path)


def test_a_directory_as_output_is_refused_with_a_name_to_use(small: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"is a directory: name a file, such as .*report\.html"):
        write_report(small, tmp_path)


def test_a_full_disk_keeps_the_old_report_and_leaves_no_half_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "report.html"
    out.write_text("old", encoding="utf-8")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BadInput, match=r"No space left on device; choose another place with --out"):
        write_whole(out, "new")
    assert out.read_text(encoding="utf-8") == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_missing_directory_is_shown(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file or directory"):
        write_whole(tmp_path / "nowhere" / "report.html", "new")
