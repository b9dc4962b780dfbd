"""Attacks by the text of a store: names, levels and notes are shown as text by every form of the report."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest

from vtare.design import make_design, write_design
from vtare.plan.files import load_plan
from vtare.report.build import render
from vtare.report.content import Content, content_of
from vtare.report.plain import render_plain
from vtare.summary import summarise

pytestmark = pytest.mark.attack

MARK = "owned-by-a-store"
SCRIPT = f'<script>alert("{MARK}")</script>'
IMAGE = f'"><img src=x onerror=alert("{MARK}")>'
END = f"]]></style></script><script>{MARK}()</script>"
HOSTILE = f"{SCRIPT}{IMAGE}{END}"


@pytest.fixture(scope="module")
def hostile_store(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished store in which every free text is an attempt to be carried out."""
    store = tmp_path_factory.mktemp("hostile") / "store"
    shutil.copytree(finished, store)
    plan_path = store / "plan.toml"
    before = load_plan(plan_path)
    quoted = json.dumps(HOSTILE)
    text = plan_path.read_text().replace('question = "Does the lab work?"', f"question = {quoted}")
    text = text.replace('name = "sleep"', f"name = {quoted}\ntitle = {quoted}")
    text = text.replace('{ kind = "cpu", threads = 3 }', f'{{ kind = "cpu", threads = 3, label = {quoted} }}')
    plan_path.write_text(text)
    plan = load_plan(plan_path)
    runs = make_design(plan, 7)
    old = {run.position: run.run_id for run in make_design(before, 7)}
    write_design(store / "design.parquet", runs, plan.labels, seed=7, program="0", plan_text=plan.text)
    connection = sqlite3.connect(store / "journal.sqlite")
    failed = next(run.run_id for run in runs if run.instrument == "noise")
    with connection:
        for run in runs:
            query = "UPDATE runs SET run_id = ? WHERE run_id = ?"
            connection.execute(query, (run.run_id, old[run.position]))
        query = "UPDATE runs SET status = 'failed', reason = ?, log_tail = ? WHERE run_id = ?"
        connection.execute(query, (HOSTILE, HOSTILE, failed))
    connection.close()
    for run in runs:
        directory = store / "runs" / run.run_id
        if old[run.position] != run.run_id:
            (store / "runs" / old[run.position]).rename(directory)
        path = directory / "samples.parquet"
        footer = json.loads(pl.read_parquet_metadata(path)["vtare"])
        footer["run"]["run_id"] = run.run_id
        footer["machine"] |= {"hostname": HOSTILE, "cpu_model": HOSTILE, "boot_id": HOSTILE}
        footer["notes"] = [{"id": HOSTILE, "text": HOSTILE}]
        footer["clock"] |= {"trusted": False, "reasons": [HOSTILE]}
        pl.read_parquet(path).write_parquet(path, metadata={"vtare": json.dumps(footer)})
    return store


@pytest.fixture(scope="module")
def content(hostile_store: Path) -> Content:
    return content_of(summarise(hostile_store))


class Elements(HTMLParser):
    """Collects the elements of a page as a browser would: those with a handler, and the text of scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.handlers: list[str] = []
        self.sources: list[str] = []
        self.scripts: list[tuple[str | None, str]] = []
        self._kind: str | None = None
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        self.sources += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]
        if tag == "script":
            self._inside, self._kind = True, dict(attrs).get("type")

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag != "script"

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.scripts.append((self._kind, data))


def test_a_report_carries_out_nothing_that_a_store_states(content: Content) -> None:
    page = render(content)
    assert MARK in page
    found = Elements()
    found.feed(page)
    assert found.handlers == []
    assert all(source.startswith(("#", "data:image/", "data:,")) for source in found.sources), found.sources
    for kind, text in found.scripts:
        assert kind == "application/json" or MARK not in text
        if kind == "application/json":
            json.loads(text)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert "default-src &#39;none&#39;" in policy[1]
    assert "unsafe" not in policy[1]


def test_figures_carry_out_nothing_that_a_store_states(content: Content) -> None:
    drawings = list(content.drawings())
    assert any(MARK in drawing.svg for drawing in drawings)
    for drawing in drawings:
        assert re.fullmatch(r"[a-z0-9-]+", drawing.name)
        tree = ElementTree.fromstring(drawing.svg)
        tags = {element.tag.rpartition("}")[2] for element in tree.iter()}
        assert not tags & {"script", "foreignObject", "iframe", "img"}
        links = [value for element in tree.iter() for name, value in element.attrib.items() if name.endswith("href")]
        assert all(link.startswith(("#", "data:image/png;base64,")) for link in links)
        names = {name.rpartition("}")[2] for element in tree.iter() for name in element.attrib}
        assert not {name for name in names if name.startswith("on")}


def test_a_report_in_markdown_holds_no_element_that_a_store_states(content: Content) -> None:
    text = render_plain(content, "md")
    assert MARK in text
    assert "<script>" not in text
    assert "<img" not in text
