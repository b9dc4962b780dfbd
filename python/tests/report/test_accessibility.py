"""Every kind of report in a real browser: axe-core finds nothing, nothing is asked for, and keys reach everything."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from browser import BROWSER, Tab, tab
from forwarding_store import write_forwarding_store
from synthetic_store import OTHER_INSTRUMENTS, PLAN, Recipe, write_store

from vtare.report.build import build
from vtare.report.over_time import page as over_time_page
from vtare.series.model import SeriesKey
from vtare.summary import summarise
from vtare.watch.history import History, Round
from vtare.watch.over_time import over_time

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no browser found: install chromium to check the report")

#: Each kind of report, by the fixture that has its store.
KINDS = {
    "timer-sleep-counter-noise": "four",
    "rtt": "two_host_store",
    "avb": "routed_store",
    "throughput": "forwarding_store",
}
AXE = files("axe_core_python") / "axe.min.js"
#: What a reader without a mouse must be able to reach.
INTERACTIVE = "a[href], button, input, select, summary, [tabindex='0']"
#: A campaign of four instruments that is small: a page of 50,000 elements takes axe-core a minute.
FOUR = re.sub(r", \{\{ kind = .cpu.*? \}\}, .io.", ', "cpu"', PLAN.replace('"two_phase", ', "")) + OTHER_INSTRUMENTS


@pytest.fixture(scope="session")
def four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = FOUR.format(blocks=3, targets='["1 ms"]')
    return write_store(tmp_path_factory.mktemp("four") / "store", Recipe(blocks=3, plan_text=text))


@pytest.fixture(scope="session")
def forwarding_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_forwarding_store(tmp_path_factory.mktemp("forwarding") / "store")


@pytest.fixture(scope="module")
def page() -> Iterator[Tab]:
    with tab() as opened:
        yield opened


def watched(store: Path) -> str:
    """The page of `vtare watch`: one figure that changed and one that did not."""
    keys = [SeriesKey("sleep", (("method", "usleep"),), name, "miss_ns", "less") for name in ("median", "p99")]
    with History(store) as history:
        for number in range(30):
            values = (60e3 + 100 * (number % 7) + 3e4 * (number >= 15), 90e3 + 100 * (number % 5))
            history.append(Round(1.79e9 + 600 * number, 3.0, {}, dict(zip(keys, values, strict=True))))
    return over_time_page(store, over_time(store))


@pytest.fixture(scope="module", params=[*KINDS, "watch"])
def report(request: pytest.FixtureRequest, once: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    """The report of one kind as a file."""

    def make(place: Path) -> None:
        if request.param == "watch":
            (place / "watch").mkdir()
            text = watched(place / "watch")
        else:
            text = build(summarise(request.getfixturevalue(KINDS[request.param])))
        (place / "report.html").write_text(text, encoding="utf-8")

    return once(f"page-{request.param}", make) / "report.html"


def draw_charts(page: Tab) -> None:
    """Bring every chart into view until it has taken the place of its still figure."""
    page.evaluate("""(async () => {
      for (const chart of document.querySelectorAll(".chart")) {
        const figure = chart.parentElement;
        if (!figure.checkVisibility()) continue;
        figure.scrollIntoView();
        while (chart.dataset.drawn === undefined) await new Promise((done) => setTimeout(done, 20));
      }
      scrollTo(0, 0);
    })()""")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_and_nobody_is_asked_for_anything(report: Path, page: Tab, dark: bool) -> None:
    page.open(report, width=400 if dark else 1280, dark=dark)
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    draw_charts(page)
    # Colours are all that differs in the dark.
    rules = ", runOnly: ['color-contrast']" if dark else ""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate(
        f"axe.run(document, {{ resultTypes: ['violations']{rules} }}).then((all) => all.violations.map((one) => "
        "[one.id, one.help, one.nodes.length, one.nodes.slice(0, 3).map((node) => node.html.slice(0, 200))]))"
    )
    assert found == []
    assert page.problems == []
    assert [url for url in page.requests if not url.startswith("data:")] == [report.as_uri()]


def test_every_figure_has_words_for_those_who_do_not_see_it(report: Path, page: Tab) -> None:
    page.open(report)
    found = page.evaluate(
        "Array.from(document.querySelectorAll('figure')).map((figure) => "
        "[figure.id, figure.querySelector('svg[role=img]')?.getAttribute('aria-label') ?? ''])"
    )
    assert found != []
    # A number at least: what is drawn, and not only that something is.
    assert [name for name, words in found if not any(letter.isdigit() for letter in words)] == []


def test_the_tab_key_reaches_all_that_can_be_used_in_the_order_of_the_page(report: Path, page: Tab) -> None:
    page.open(report)
    draw_charts(page)
    page.evaluate(
        f"window.wanted = Array.from(document.querySelectorAll({INTERACTIVE!r})).filter((one) => one.checkVisibility())"
    )
    count = page.evaluate("wanted.length")
    assert count > 10
    for _ in range(count):
        page.press("Tab")
        page.evaluate("(window.reached ??= []).push(document.activeElement)")
    assert page.evaluate("reached.findIndex((one, at) => one !== wanted[at])") == -1


def test_keys_alone_open_sort_link_and_save(report: Path, page: Tab) -> None:
    page.open(report)
    press: Callable[[str, str], None] = lambda what, key: (  # noqa: E731
        page.evaluate(f"document.querySelector({what!r}).focus()"),
        page.press(key),
    )[1]
    press("details > summary", "Enter")
    assert page.evaluate("document.querySelector('details').open") is True
    press("th button", " ")
    assert page.evaluate("document.querySelector('th').getAttribute('aria-sort')") == "ascending"
    page.evaluate(
        "window.saved = []; HTMLAnchorElement.prototype.click = function () { saved.push(this.download); };"
        "window.blobs = []; URL.createObjectURL = (blob) => { blobs.push(blob); return 'data:,'; }"
    )
    for form in ("svg", "png", "csv"):
        press(f"figure [data-save={form}]", "Enter")
    page.evaluate(
        "new Promise((done) => { const wait = () => saved.length < 3 ? setTimeout(wait, 20) : done(); wait(); })"
    )
    names = page.evaluate("saved")
    first = page.evaluate("document.querySelector('figure').id")
    assert sorted(names) == sorted(f"{first.removeprefix('figure-')}.{form}" for form in ("svg", "png", "csv"))
    parts = "Promise.all(blobs.map(async (blob) => (await blob.text()).slice(0, 40)))"
    starts = dict(zip((name.rpartition(".")[2] for name in names), page.evaluate(parts), strict=True))
    assert starts["svg"].startswith("<svg ")
    assert starts["png"][1:4] == "PNG"
    assert "," in starts["csv"]
    press("figure .share a", "Enter")
    assert page.evaluate("location.hash") == f"#{first}"


#: Every save button of the page is clicked, and what it saves is looked at there: `[name, kind, what is wrong]`.
SAVE_ALL = """(async () => {
  const blobs = [], found = [];
  let saved = null;
  URL.createObjectURL = (blob) => { blobs.push(blob); return "data:,"; };
  HTMLAnchorElement.prototype.click = function () { saved(this.download); };
  const columns = (line) => line.replace(/"(""|[^"])*"/g, "").split(",").length;
  const wrong = {
    svg: async (blob) => {
      const drawn = new DOMParser().parseFromString(await blob.text(), "image/svg+xml").documentElement;
      return drawn.tagName !== "svg" ? drawn.textContent : drawn.querySelector("path, use") ? "" : "nothing is drawn";
    },
    png: async (blob) => {
      const pixels = await createImageBitmap(blob, { resizeWidth: 60, resizeHeight: 40 });
      const pen = new OffscreenCanvas(60, 40).getContext("2d");
      pen.drawImage(pixels, 0, 0);
      return pen.getImageData(0, 0, 60, 40).data.some((value) => value < 250) ? "" : "nothing is drawn";
    },
    csv: async (blob) => {
      const [head, ...lines] = (await blob.text()).trim().replace(/"(""|[^"])*"/g, "x").split(/\\r?\\n/);
      const short = lines.filter((line) => columns(line) !== columns(head));
      return lines.length === 0 ? "no row" : short.length > 0 ? "row: " + short[0] : "";
    },
  };
  for (const button of document.querySelectorAll("[data-save], button.csv")) {
    const form = button.dataset.save ?? "csv";
    const name = await new Promise((done) => { saved = done; button.click(); });
    const of = button.closest("figure")?.id.replace(/^figure-/, "") ?? button.closest("[data-table]").dataset.table;
    found.push([name, name === of + "." + form ? "" : "expected " + of, await wrong[form](blobs.pop())]);
  }
  return found;
})()"""


def test_every_save_button_saves_what_its_figure_or_table_has(report: Path, page: Tab) -> None:
    page.open(report)
    found = page.evaluate(SAVE_ALL)
    assert {name.rpartition(".")[2] for name, _, _ in found} == {"svg", "png", "csv"}
    assert [one for one in found if one[1] or one[2]] == []
    names = [name for name, _, _ in found]
    assert sorted(set(names)) == sorted(names)


def test_nothing_is_wider_than_a_printed_page(report: Path, page: Tab) -> None:
    # A4 with the margins that a browser leaves.
    page.open(report, width=718, height=1047, media="print")
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    found = page.evaluate(
        "Array.from(document.querySelectorAll('body *')).filter((one) => !one.closest('svg svg, .skip') && "
        "one.getBoundingClientRect().right > innerWidth + 1).map((one) => one.outerHTML.slice(0, 200))"
    )
    assert found == []
