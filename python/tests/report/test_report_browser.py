"""The report in a real browser: no error, every figure drawn, nothing cut at 1280 and at 400 px.

Filter, sorting and download are tried, too.
`VTARE_SCREENSHOTS=DIR` keeps a picture of each width there.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from conftest import Reported

from vtare.report.build import render

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER = next((path for name in BROWSERS if (path := shutil.which(name))), None)

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason=f"no browser found ({', '.join(BROWSERS)}): install chromium to check the report's looks"
)

# Goes first into the head: it must see errors of everything after it.
LISTEN = """<script>
window.problems = [];
// A browser without a screen reports late what is in view, or never: here all is, at once.
window.IntersectionObserver = class {
  constructor(notify) { this.notify = notify; }
  observe(target) { queueMicrotask(() => this.notify([{ isIntersecting: true, target }])); }
  unobserve() {}
};
addEventListener("error", (event) => problems.push("error: " + event.message));
addEventListener("unhandledrejection", (event) => problems.push("rejection: " + event.reason));
addEventListener("securitypolicyviolation", (event) => problems.push("policy: " + event.blockedURI));
for (const name of ["error", "warn"]) {
  const real = console[name];
  console[name] = (...words) => { problems.push(name + ": " + words.join(" ")); real.apply(console, words); };
}
</script>"""

PROBE = """<script>
addEventListener("load", async () => {
  const box = document.querySelector("[data-table=verdicts]");
  const rows = () => Array.from(box.querySelectorAll("tbody tr")).filter((row) => !row.hidden);
  const column = (at) => rows().map((row) => row.cells[at].textContent);
  const result = { width: innerWidth, before: rows().length };
  const page = document.documentElement;
  const drawn = Array.from(document.querySelectorAll("#answer figure"));
  result.mainBottom = Math.max(...drawn.map((figure) => figure.getBoundingClientRect().bottom));
  result.answerBottom = document.querySelector(".answer").getBoundingClientRect().bottom;
  result.overflow = page.scrollWidth - page.clientWidth;
  result.wide = Array.from(document.querySelectorAll("body *"))
    .filter((e) => !e.closest(".box, svg, .skip, pre") && e.getBoundingClientRect().right > innerWidth + 1)
    .map((e) => e.tagName + "." + e.className);
  for (const part of document.querySelectorAll("details")) part.open = true;
  const pause = (ms) => new Promise((done) => setTimeout(done, ms));
  const until = async (holds) => { for (let i = 0; i < 50 && !holds(); i++) await pause(50); return holds(); };
  const charts = Array.from(document.querySelectorAll(".chart"));
  for (const chart of charts) {
    chart.parentElement.scrollIntoView();
    await until(() => chart.dataset.drawn !== undefined);
  }
  result.charts = charts.length;
  result.drawn = charts.filter((chart) => chart.dataset.drawn !== undefined).length;
  const wide = (element) => element.getBoundingClientRect().width > 0;
  result.stills = charts.filter((chart) => wide(chart.parentElement.querySelector(".still"))).length;
  const group = charts[0].closest(".drawable");
  const faint = () => charts[0].querySelectorAll("path[opacity='0.1']").length;
  const labels = () => Array.from(charts[0].querySelectorAll(".role-axis-label text"));
  // Labels are moved, not made anew: their order in the page means nothing.
  const ticks = () => labels().map((label) => label.textContent).sort().join(" ");
  const pick = group.querySelector("button[data-curve]");
  result.faint = [faint()];
  pick.click();
  result.pressed = pick.getAttribute("aria-pressed");
  await until(() => faint() > 0);
  result.faint.push(faint());
  pick.click();
  await until(() => faint() === 0);
  result.faint.push(faint());
  const whole = ticks();
  const changes = async (act) => { const before = ticks(); act(); return until(() => ticks() !== before); };
  const press = (key) => () => charts[0].dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  result.zoomed = [
    await changes(press("+")), await changes(press("ArrowRight")), await changes(press("0")),
    await until(() => ticks() === whole),
    await changes(() => group.querySelector("button[data-zoom=in]").click()),
    await changes(() => group.querySelector("button[data-zoom=all]").click()),
    await until(() => ticks() === whole),
  ];
  charts[0].scrollIntoView();
  const at = charts[0].querySelector("svg").getBoundingClientRect();
  const place = { clientX: at.left + at.width / 2, clientY: at.top + at.height / 2, bubbles: true };
  const under = document.elementFromPoint(place.clientX, place.clientY);
  for (const kind of ["pointerover", "pointermove", "mouseover", "mousemove"]) {
    under.dispatchEvent(new (kind.startsWith("p") ? PointerEvent : MouseEvent)(kind, place));
  }
  const tip = () => document.querySelector("#vg-tooltip-element.visible")?.textContent ?? "";
  await until(() => tip() !== "");
  result.tip = tip();
  under.dispatchEvent(new PointerEvent("pointerout", place));
  scrollTo(0, 0);
  const asked = performance.getEntriesByType("resource").map((one) => one.name);
  result.requests = asked.filter((name) => !name.startsWith("data:"));
  result.figures = Array.from(document.querySelectorAll("figure")).map((figure) => {
    const svg = Array.from(figure.querySelectorAll("svg")).find((one) => one.getBoundingClientRect().width > 0);
    const box = svg ? svg.getBoundingClientRect() : { width: 0, height: 0 };
    const cut = svg ? Array.from(svg.querySelectorAll("text")).filter((t) => {
      const r = t.getBoundingClientRect();
      return r.left < box.left - 1 || r.right > box.right + 1 || r.top < box.top - 1 || r.bottom > box.bottom + 1;
    }).map((t) => t.textContent) : [];
    const marks = svg ? svg.querySelectorAll("path,use,image").length : 0;
    return { id: figure.id, width: box.width, height: box.height, marks, cut };
  });
  result.overflowOpen = page.scrollWidth - page.clientWidth;
  const search = box.querySelector("input[type=search]");
  search.value = "two_phase LOAD: cpu";
  search.dispatchEvent(new Event("input"));
  result.filtered = column(1);
  search.value = "";
  search.dispatchEvent(new Event("input"));
  const choice = box.querySelector("select");
  choice.value = "equivalent";
  choice.dispatchEvent(new Event("change"));
  const verdicts = "td.higher, td.lower, td.equivalent, td.inconclusive";
  result.chosen = rows().map((row) => row.querySelector(verdicts).textContent);
  choice.value = "";
  choice.dispatchEvent(new Event("change"));
  const cells = document.querySelector("[data-table^=cells-sleeps]");
  const heads = Array.from(cells.querySelectorAll("th"));
  const column_at = heads.findIndex((head) => head.dataset.k === "median_ns");
  const body = () => Array.from(cells.querySelectorAll("tbody tr"));
  const order = () => body().map((row) => row.cells[column_at].dataset.o ?? null);
  heads[column_at].querySelector("button").click();
  result.rising = order();
  heads[column_at].querySelector("button").click();
  result.falling = order();
  result.sorted = heads[column_at].getAttribute("aria-sort");
  let blob = null;
  const real = URL.createObjectURL;
  URL.createObjectURL = (object) => { blob = object; return real.call(URL, object); };
  cells.querySelector("button.csv").click();
  result.csv = blob ? await blob.text() : null;
  result.focusable = Array.from(document.querySelectorAll(".box, pre")).every((e) => e.tabIndex === 0);
  result.problems = problems;
  const holder = parent.document.createElement("script");
  holder.type = "application/json";
  holder.id = "result";
  holder.textContent = JSON.stringify(result).replace(/</g, "\\u003c");
  parent.document.body.append(holder);
});
</script>"""


def browse(page: Path | str, profile: Path, width: int, *extra: str) -> subprocess.CompletedProcess[str]:
    assert BROWSER is not None
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
        f"--user-data-dir={profile}", f"--window-size={width},900", "--enable-logging=stderr", "--v=0", *extra,
        page if isinstance(page, str) else page.as_uri(),
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def probe(report: Reported, directory: Path, width: int) -> tuple[dict[str, Any], str]:
    """Open a copy of the report with the probe inside; what it found and the browser's own log."""
    page = directory / "report.html"
    # The script of the charts holds the words of a page, too: the body's own end is the last one.
    start, end, rest = report.html.replace("<head>", "<head>" + LISTEN, 1).rpartition("</body>")
    document = allowed(start + PROBE + end + rest, PROBE)
    # A window cannot be narrower than 500 px; a frame can.
    frame = f'<iframe style="border:0;width:{width}px;height:900px" srcdoc="{html.escape(document)}"></iframe>'
    page.write_text(f'<!doctype html><meta charset="utf-8"><body>{frame}</body>', encoding="utf-8")
    done = browse(page, directory / "profile", 1400, "--dump-dom", "--virtual-time-budget=60000")
    found = re.search(r'<script type="application/json" id="result">(.*?)</script>', done.stdout, re.DOTALL)
    assert found is not None, done.stderr[-2000:]
    if keep := os.environ.get("VTARE_SCREENSHOTS"):
        keep_pictures(report, directory, width, Path(keep).absolute())
    return json.loads(html.unescape(found.group(1))), done.stderr


def allowed(page: str, script: str) -> str:
    """The page with one script more in its policy: that of a test."""
    text = script.removeprefix("<script>").removesuffix("</script>")
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return page.replace("script-src ", f"script-src &#39;sha256-{digest}&#39; ", 1)


def keep_pictures(report: Reported, directory: Path, width: int, keep: Path) -> None:
    """The page as a reader first sees it and with everything open, light and dark; a window is 500 px at least."""
    keep.mkdir(parents=True, exist_ok=True)
    page = directory / "picture.html"
    opened = report.html.replace("<details", "<details open")
    frame = f'<iframe style="border:0;width:{width}px;height:{{height}}px" srcdoc="{{document}}"></iframe>'
    for name, document, height in (("first", report.html, 900), ("all", opened, 16000)):
        framed = frame.format(height=height, document=html.escape(document))
        page.write_text(f'<!doctype html><meta charset="utf-8"><style>*{{margin:0}}</style>{framed}', encoding="utf-8")
        for scheme, setting in (("light", ()), ("dark", ("--blink-settings=preferredColorScheme=0",))):
            if name == "first" or scheme == "light":
                size = f"--window-size={max(width, 500)},{height}"
                shot = f"--screenshot={keep / f'report-{width}-{name}-{scheme}.png'}"
                browse(page, directory / "profile", width, size, shot, *setting)


@pytest.fixture(scope="module", params=[1280, 400])
def opened(
    request: pytest.FixtureRequest, five_runs: Reported, tmp_path_factory: pytest.TempPathFactory
) -> tuple[int, dict[str, Any], str, Reported]:
    width = int(request.param)
    result, log = probe(five_runs, tmp_path_factory.mktemp(f"browser-{width}"), width)
    return width, result, log, five_runs


Opened = tuple[int, dict[str, Any], str, Reported]


def test_no_error_reaches_the_console(opened: Opened) -> None:
    _, result, log, _ = opened
    assert result["problems"] == []
    assert not [line for line in log.splitlines() if "CONSOLE" in line]


@pytest.mark.attack
@pytest.mark.parametrize(
    "planted",
    ["<script>ran('script')</script>", "<img src=x onerror=\"ran('handler')\">", "<p style='color:red'>",
     "<style>*{color:red}</style>", "<iframe srcdoc='&lt;script&gt;parent.ran(1)&lt;/script&gt;'></iframe>"],
)  # fmt: skip
def test_what_gets_past_the_escaping_is_still_refused(planted: str, five_runs: Reported, tmp_path: Path) -> None:
    tell = (
        "<script>addEventListener('load', () => setTimeout(() => { document.title = 'refused ' + refused.join(' '); }, "
        "500)); const refused = []; addEventListener('securitypolicyviolation', (event) => "
        "refused.push(event.effectiveDirective)); const ran = (what) => refused.push('RAN ' + what);</script>"
    )
    page = tmp_path / "page.html"
    held = five_runs.html.replace("<head>", "<head>" + tell, 1).replace(
        '<section id="answer"', f'{planted}<section id="answer"', 1
    )
    page.write_text(held, encoding="utf-8")
    done = browse(page, tmp_path / "profile", 1280, "--dump-dom", "--virtual-time-budget=20000")
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title is not None
    assert title[1].startswith("refused ")
    assert "RAN" not in title[1]
    # A frame reports to itself.
    assert "iframe" in planted or re.search(r"-src", title[1]), title[1]


def test_the_page_never_scrolls_sideways(opened: Opened) -> None:
    width, result, _, _ = opened
    assert result["width"] == width
    assert result["overflow"] <= 0
    assert result["overflowOpen"] <= 0
    assert result["wide"] == []


def test_the_first_screen_holds_the_answer_and_on_a_desk_the_main_figure(opened: Opened) -> None:
    width, result, _, _ = opened
    assert 100 < result["answerBottom"] < 800
    if width == 1280:
        assert result["answerBottom"] < result["mainBottom"] <= 800


def test_every_figure_is_drawn_and_none_of_its_labels_is_cut(opened: Opened) -> None:
    _, result, _, report = opened
    wanted = re.findall(r'<figure id="([^"]+)"', report.html)
    assert [figure["id"] for figure in result["figures"]] == wanted
    assert len(wanted) > 20
    for figure in result["figures"]:
        assert figure["width"] > 250, figure
        assert figure["height"] > 60, figure
        assert figure["marks"] > 3, figure
        assert figure["cut"] == [], figure


def test_charts_take_the_place_of_their_still_figures_and_ask_nobody_for_anything(opened: Opened) -> None:
    _, result, _, report = opened
    assert result["charts"] == report.html.count('<div class="chart"') > 3
    assert result["drawn"] == result["charts"]
    assert result["stills"] == 0
    assert result["requests"] == []


def test_a_curve_is_picked_by_the_legend_and_let_go_again(opened: Opened) -> None:
    _, result, _, _ = opened
    none, some, again = result["faint"]
    assert result["pressed"] == "true"
    assert (none, again) == (0, 0)
    assert some > 0


def test_a_chart_zooms_moves_and_returns_by_keyboard_and_by_buttons(opened: Opened) -> None:
    assert opened[1]["zoomed"] == [True] * 7


def test_the_pointer_is_shown_the_reading_that_it_is_at(opened: Opened) -> None:
    told = opened[1]["tip"]
    assert "curve" in told
    assert "P(X > x)" in told


def test_without_scripts_the_still_figures_are_there(five_runs: Reported, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    # A frame without leave to run scripts; the page around it looks inside.
    probe_script = """<script>addEventListener("load", () => {
      const inside = document.querySelector("iframe").contentDocument;
      const wide = (e) => e.getBoundingClientRect().width > 0;
      const count = (what) => Array.from(inside.querySelectorAll(what)).filter(wide).length;
      document.title = [count(".still > svg"), count(".chart"), count(".explore")].join(" ");
    });</script>"""
    inside = html.escape(five_runs.html)
    frame = f'<iframe sandbox="allow-same-origin" width="1280" height="900" srcdoc="{inside}"></iframe>'
    page.write_text(f'<!doctype html><meta charset="utf-8">{probe_script}<body>{frame}</body>', encoding="utf-8")
    done = browse(page, tmp_path / "profile", 1400, "--dump-dom", "--virtual-time-budget=5000")
    title = re.search(r"<title>([^<]*)</title>", done.stdout)
    assert title is not None, done.stderr[-2000:]
    stills = five_runs.html.count('<div class="still">')
    assert title.group(1) == f"{stills} 0 0"


def test_the_filter_keeps_the_rows_that_have_every_word(opened: Opened) -> None:
    _, result, _, report = opened
    assert result["before"] == len(report.summary.comparisons)
    assert result["filtered"] == ["two_phase"]


def test_the_verdict_choice_keeps_that_verdict(opened: Opened) -> None:
    _, result, _, report = opened
    count = sum(row.verdict == "equivalent" for row in report.summary.comparisons)
    assert count > 0
    assert result["chosen"] == ["equivalent"] * count


def test_a_heading_sorts_by_the_figure_and_again_the_other_way(opened: Opened) -> None:
    _, result, _, _ = opened
    rising = [float(value) for value in result["rising"]]
    assert rising == sorted(rising)
    assert len(set(rising)) > 5
    assert [float(value) for value in result["falling"]] == sorted(rising, reverse=True)
    assert result["sorted"] == "descending"


def test_the_download_has_every_cell_with_full_precision(opened: Opened) -> None:
    import csv

    _, result, _, report = opened
    rows = list(csv.DictReader(result["csv"].splitlines()))
    cells = [row for row in report.summary.cells.iter_rows(named=True) if row["experiment"] == "sleeps"]
    assert len(rows) == len(cells)
    found = {(row["load"], row["method"]): row for row in rows}
    for cell in cells:
        row = found[cell["load"], cell["method"]]
        assert float(row["median_ns"]) == cell["median"]
        assert row["p999_ns"] == ""
        assert int(row["n_runs"]) == cell["n_runs"]


def test_scrolling_boxes_can_be_reached_by_keyboard(opened: Opened) -> None:
    assert opened[1]["focusable"] is True


def test_the_live_page_shows_how_far_the_campaign_is_and_shows_the_newer_report(
    five_runs: Reported, tmp_path: Path
) -> None:
    from vtare.report.live import ADDRESS, LivePage, LiveServer

    live = tmp_path / "live.html"
    live.write_text(render(five_runs.content, live=True), encoding="utf-8")
    copied = [sys.executable, "-c", "import shutil, sys; shutil.copy(sys.argv[1], sys.argv[2])", str(live)]
    page = LivePage(five_runs.store, every_s=0.0, make=lambda _, out, log: subprocess.Popen([*copied, str(out)]))
    server = LiveServer(page, 0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        # The first look finds a page that waits; it loads the report by itself as soon as there is one.
        address = f"http://{ADDRESS}:{server.server_port}/"
        done = browse(address, tmp_path / "profile", 1280, "--dump-dom", "--virtual-time-budget=60000")
    finally:
        server.shutdown()
        server.server_close()
        page.close()
    assert "CONSOLE" not in done.stderr, done.stderr[-2000:]
    bar = re.search(r'<p class="live">(.*?)</p>', done.stdout)
    assert bar is not None, done.stdout[:2000]
    assert "Live: 90 done of 90 runs." in bar.group(1)
    assert "show newer reports by themselves" in bar.group(1)
    assert '<figure id="figure-medians-sleeps-idle">' in done.stdout
