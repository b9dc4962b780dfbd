"""Figures: honest, deterministic, without addresses, fit for a page in either colour scheme."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vtare import plots
from vtare.number_text import (
    change_text,
    ratio_range_text,
    ratio_text,
    significant,
    tick_text,
    time_range_text,
    time_text,
)
from vtare.plots import decimate, palette
from vtare.plots.axes import log_ticks, scale_for
from vtare.plots.drawn import style_context
from vtare.plots.svg import new_figure
from vtare.report.processes import drawing_processes

RNG_SEED = 5


def drawings() -> list[plots.Drawing]:
    """One of every kind."""
    rng = np.random.default_rng(RNG_SEED)
    values = 8e4 * np.exp(0.3 * rng.standard_t(3, 2000))
    dots = [
        plots.Dot("usleep", "usleep", 8e4, 7e4, 9e4, (7.5e4, 8e4, 8.8e4), "target 1 ms"),
        plots.Dot("spin", "spin", 28.0, None, None, (28.0,), "target 1 ms"),
    ]
    index = np.arange(values.size, dtype=np.float64)
    tail = plots.RawSeries(
        "rdtsc", "rdtsc", index[:40] * 900, values[:40], 10.0, 1_000_000, np.arange(9.0, 30.0), np.arange(21.0) + 1
    )
    controls = [plots.DriftPoint(b, c, 24.0 + b, b == 3) for b in (1, 2, 3) for c in ("open", "centre", "close")]
    return [
        plots.dot_intervals(dots, name="dots"),
        plots.placement([plots.Dot("Xen", "published", 18.6, 18.0, 19.2), dots[1]], name="placement", label="cost"),
        plots.share_bars([("spin", "spin", 1.0), ("usleep", "usleep", 0.015)], name="shares", label="CPU time"),
        plots.ccdf([plots.ccdf_line("usleep", "usleep", values)], name="ccdf"),
        plots.boxes([plots.BoxRow("usleep", "usleep", (plots.run_box(values),) * 2)], name="boxes"),
        plots.raw_samples(plots.RawSeries("usleep", "usleep", index, values, 8e4, values.size), name="raw"),
        plots.raw_samples(tail, name="raw-tail", quantity="cost_ns"),
        plots.stacks(
            [plots.Stack("netns", 5e4, (("sender_overhead_ns", 1.3e4), ("wire_ns", -200.0)))],
            name="stacks",
            names={"sender_overhead_ns": "sender", "wire_ns": "wire"},
            label="time by place",
        ),
        plots.share_stacks(
            [plots.Stack("netns", 5e4, (("sender_overhead_ns", 1.3e4), ("wire_ns", 3.7e4)), 0.26)],
            name="share-stacks",
            names={"sender_overhead_ns": "sender", "wire_ns": "wire"},
            label="share",
            main="sender_overhead_ns",
        ),
        plots.control_drift(controls, centre=25.0, limit=1.5, name="drift"),
        plots.cv_by_argument(
            [
                plots.CvLine("1 PM", "published", (1, 2), (0.01, 0.0), True),
                plots.CvLine("here", "adaptive", (1, 2), (0.05, 0.02)),
            ],
            name="cv",
        ),
        *inference_drawings(values),
    ]  # fmt: skip


def inference_drawings(values: np.ndarray) -> list[plots.Drawing]:
    """One of every kind that shows what was inferred."""
    ends = plots.Ends("shorter", "longer", "higher or lower", "equivalent", "inconclusive")
    squares = [
        [
            plots.Square(1.0, "161\N{MULTIPLICATION SIGN}", "sure"),
            plots.Square(0.0, "1.00\N{MULTIPLICATION SIGN}", "alike"),
        ],
        [None, plots.Square(-0.5, "1/3", "open")],
    ]
    levels = [
        plots.Profile("usleep", "usleep", (plots.Point(0, 8e4, 7e4, 9e4), plots.Point(1, 1e7))),
        plots.Profile("p99.9", "quantile:p99.9", (plots.Point(1, 2e7),)),
    ]
    ratios = [
        plots.RatioRow("usleep", (plots.RatioMark("p99", 2.0, True), plots.RatioMark("p99.9", 0.4, False)), "load"),
        plots.RatioRow("spin", (plots.RatioMark("p99", 240.0, True),), "load"),
    ]
    return [
        plots.matrix(["usleep", "two_phase_capped"], ["cpu", "io"], squares, name="matrix", label="load", ends=ends),
        plots.profiles(levels, ["idle", "cpu"], name="profiles", label="load", quantity="miss_ns"),
        plots.profiles(levels, ["idle", "cpu"], name="profiles-rate", label="load", quantity="avb_bit_per_s"),
        plots.ratio_dots(ratios, name="ratios", label="tail over tail", margin_ratio=1.05),
        plots.violins(
            [
                plots.violin("usleep", "usleep", values, group="target 1 ms"),
                plots.violin("spin", "spin", [0, 0, 10], [5, 1, 9]),
            ],
            name="violins", quantity="miss_ns",
        ),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def drawn() -> list[plots.Drawing]:
    return drawings()


def test_a_drawing_stands_alone_as_a_well_formed_file(drawn: list[plots.Drawing]) -> None:
    for drawing in drawn:
        root = ET.fromstring(drawing.svg)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert root.attrib["aria-label"] == drawing.text


def test_nothing_in_a_drawing_points_to_a_network(drawn: list[plots.Drawing]) -> None:
    for drawing in drawn:
        assert re.findall(r"https?:|//", re.sub(r"data:image/png;base64,[^\"]*", "", drawing.inline)) == []
        addresses = set(re.findall(r"https?://[^\"'<> ]*", drawing.svg))
        assert addresses <= {"http://www.w3.org/2000/svg"}, drawing.name


def test_every_colour_follows_the_page(drawn: list[plots.Drawing]) -> None:
    known = {hue.light for hue in palette.HUES}
    for drawing in drawn:
        bare = re.sub(r"var\(--vt-[a-z]+,#[0-9a-f]{6}\)", "", drawing.inline)
        assert set(re.findall(r"#[0-9a-f]{6}\b", bare)) == set(), drawing.name
        assert set(re.findall(r"var\(--vt-[a-z]+,(#[0-9a-f]{6})\)", drawing.inline)) <= known


def test_ids_of_two_drawings_never_meet(drawn: list[plots.Drawing]) -> None:
    seen: set[str] = set()
    for drawing in drawn:
        ids = set(re.findall(r'\bid="([^"]+)"', drawing.inline))
        assert not ids & seen
        seen |= ids
        targets = set(re.findall(r'href="#([^"]+)"', drawing.inline)) | set(
            re.findall(r"url\(#([^)]+)\)", drawing.inline)
        )
        assert targets <= ids


def test_another_process_draws_the_same_bytes(drawn: list[plots.Drawing]) -> None:
    code = (
        "import hashlib, test_figures\n"
        "print([hashlib.sha256(d.svg.encode()).hexdigest() for d in test_figures.drawings()])"
    )
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "7"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == str([hashlib.sha256(d.svg.encode()).hexdigest() for d in drawn])


def test_no_label_leaves_the_picture(drawn: list[plots.Drawing]) -> None:
    for drawing in drawn:
        box = re.search(r'viewBox="0 0 ([0-9.]+) ([0-9.]+)"', drawing.svg)
        assert box is not None
        width, height = float(box.group(1)), float(box.group(2))
        for x, y in re.findall(r'<text [^>]*?x="([0-9.-]+)" y="([0-9.-]+)"', drawing.svg):
            assert 0 <= float(x) <= width, drawing.name
            assert 0 <= float(y) <= height, drawing.name


def test_every_axis_states_its_unit(drawn: list[plots.Drawing]) -> None:
    # A ratio is a pure number: each tick has the sign.
    unit = re.compile(r"\d (ns|\N{MICRO SIGN}s|ms|s)$|\d\N{MULTIPLICATION SIGN}$|, [MGk]?bit/s$")
    for drawing in drawn:
        texts = re.findall(r"<text[^>]*>([^<]+)</text>", drawing.svg)
        ticks = [text for text in texts if unit.search(text)]
        assert ticks or any("(%)" in text for text in texts), drawing.name


def test_only_raw_layers_are_pictures(drawn: list[plots.Drawing]) -> None:
    assert {d.name for d in drawn if "<image" in d.svg} == {"raw", "raw-tail"}


def test_a_million_readings_cost_no_more_than_a_picture() -> None:
    rng = np.random.default_rng(RNG_SEED)
    n = 200_000
    series = plots.RawSeries("x", "usleep", np.arange(n, dtype=np.float64), rng.exponential(1e4, n), 6931.0, n)
    assert len(plots.raw_samples(series, name="many").svg) < 400_000


def test_the_legend_shows_that_banded_readings_have_no_position(drawn: list[plots.Drawing]) -> None:
    text = next(d for d in drawn if d.name == "raw-tail").svg
    assert "231 readings, position not kept" in text
    assert "40 single readings" in text


def test_readings_at_or_below_zero_are_shown_in_the_legend_of_a_log_axis() -> None:
    line = plots.ccdf_line("spin", "spin", [-20.0, 0.0, 10.0, 20.0, 30.0])
    drawing = plots.ccdf([line], name="negative")
    assert "40 % at or below 0" in drawing.svg


def test_a_cell_without_interval_has_a_hollow_marker(drawn: list[plots.Drawing]) -> None:
    dots = next(d for d in drawn if d.name == "dots").svg
    assert palette.SURFACE.css in dots


@pytest.mark.parametrize(
    "draw",
    [
        lambda: plots.dot_intervals([], name="a"),
        lambda: plots.ccdf([], name="a"),
        lambda: plots.boxes([], name="a"),
        lambda: plots.boxes([plots.BoxRow("a", "a", ())], name="a"),
        lambda: plots.control_drift([], centre=1, limit=1, name="a"),
        lambda: plots.cv_by_argument([], name="a"),
        lambda: plots.share_bars([], name="a", label="b"),
        lambda: plots.raw_samples(plots.RawSeries("a", "a", np.array([]), np.array([]), 1.0, 0), name="a"),
    ],
)  # fmt: skip
def test_an_empty_figure_is_refused(draw: object) -> None:
    assert callable(draw)
    with pytest.raises(ValueError, match=r"pass at least one"):
        draw()


def test_a_bad_figure_name_is_refused() -> None:
    from vtare.plots.svg import to_drawing

    with style_context():
        figure, _ = new_figure(1.0)
        with pytest.raises(ValueError, match="figure name is 'A b'"):
            to_drawing(figure, "A b", "text", [])


# --- palette ---


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_every_data_colour_stands_out_on_its_page() -> None:
    for hue in palette.HUES:
        if hue in (palette.GRID, palette.SURFACE):
            continue
        assert contrast(hue.light, "#ffffff") >= 3, hue
        assert contrast(hue.dark, "#14171b") >= 3, hue


def test_text_colours_read_like_text() -> None:
    for hue in (palette.INK, palette.MUTED):
        assert contrast(hue.light, "#ffffff") >= 4.5
        assert contrast(hue.dark, "#14171b") >= 4.5


def test_no_two_methods_of_one_instrument_look_alike() -> None:
    for names in (
        ("usleep", "clock_nanosleep", "two_phase", "adaptive", "spin"),
        ("rdtsc", "lfence_rdtsc", "rdtscp", "clock_monotonic", "clock_monotonic_raw", "clock_monotonic_coarse",
         "clock_monotonic_syscall", "gettimeofday", "vtare", "vtare_ordered"),
    ):  # fmt: skip
        styles = [plots.style_of(name) for name in names]
        assert len({(s.hue, s.marker) for s in styles}) == len(styles)
        assert len({(s.hue, s.line) for s in styles}) == len(styles)


def test_an_unknown_name_always_gets_the_same_style() -> None:
    assert plots.style_of("some_new_method") == plots.style_of("some_new_method")


def test_numbers_that_stand_in_one_figure_differ_in_hue_and_marker() -> None:
    for names in (("1", "2", "4"), ("1", "6", "12"), ("0", "1", "2", "3")):
        styles = [plots.style_of(name) for name in names]
        assert len({(style.hue, style.marker) for style in styles}) == len(names)
        assert len({style.marker for style in styles}) == len(names)


# --- decimation ---

readings = st.lists(st.integers(min_value=-50, max_value=10**9), min_size=1, max_size=400)


@given(readings)
def test_a_curve_is_the_strict_share_above_each_value(values: list[int]) -> None:
    line = plots.ccdf_line("x", "x", values)
    for x, p in zip(line.x, line.p, strict=True):
        assert p == sum(value > x for value in values) / len(values)
    assert line.p[-1] == 0
    assert line.x[-1] == max(values)
    assert line.mean == pytest.approx(sum(values) / len(values))


@given(readings, st.lists(st.integers(min_value=1, max_value=50), min_size=400, max_size=400))
def test_weights_mean_repeated_readings(values: list[int], weights: list[int]) -> None:
    weights = weights[: len(values)]
    repeated = [value for value, weight in zip(values, weights, strict=True) for _ in range(weight)]
    weighted, plain = plots.ccdf_line("x", "x", values, weights), plots.ccdf_line("x", "x", repeated)
    assert weighted.n == plain.n
    np.testing.assert_array_equal(weighted.p, plain.p)
    box, plain_box = plots.run_box(values, weights), plots.run_box(repeated)
    assert box == plain_box


@settings(max_examples=20)
@given(st.integers(min_value=0, max_value=2**32 - 1))
def test_a_decimated_curve_only_drops_points(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.rint(1e4 * np.exp(rng.standard_t(3, 20_000)))
    full, cut = plots.ccdf_line("x", "x", values, points=10**6), plots.ccdf_line("x", "x", values)
    assert cut.x.size <= 310
    where = np.searchsorted(full.x, cut.x)
    np.testing.assert_array_equal(full.x[where], cut.x)
    np.testing.assert_array_equal(full.p[where], cut.p)
    # The tail is what a CCDF is for: the largest values must survive.
    np.testing.assert_array_equal(cut.x[-2:], full.x[-2:])
    assert np.max(np.abs(np.diff(np.log10(cut.p[cut.p > 0])))) < 0.35


@given(st.lists(st.integers(min_value=0, max_value=1000), min_size=1, max_size=300))
def test_box_quantiles_are_numpys_type_7(values: list[int]) -> None:
    box = plots.run_box(values)
    expected = np.quantile(values, [0.0, 0.25, 0.5, 0.75, 1.0], method="linear")
    np.testing.assert_allclose([box.min, box.q1, box.median, box.q3, box.max], expected, rtol=1e-12)
    assert (box.p99 is None) == (len(values) < 299)


@pytest.mark.parametrize(
    ("values", "weights", "message"),
    [
        ([], None, "there are no readings"),
        ([1.0, float("nan")], None, "not finite"),
        ([1.0, 2.0], [1], "1 weights for 2 readings"),
        ([1.0], [0], "the smallest weight is 0"),
    ],
)
def test_bad_readings_are_refused(values: list[float], weights: list[int] | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decimate.sorted_counts(values, weights)


# --- numbers and axes ---


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 ns"), (9.8, "9.80 ns"), (999.4, "999 ns"), (999.6, "1.00 \N{MICRO SIGN}s"),
        (12_345, "12.3 \N{MICRO SIGN}s"), (12.3e6, "12.3 ms"), (5e9, "5.00 s"), (0.2, "0.200 ns"),
        (-83_500, "-83.5 \N{MICRO SIGN}s"),
    ],
)  # fmt: skip
def test_times_have_three_digits_and_the_unit_that_fits(value: float, text: str) -> None:
    assert time_text(value) == text


def test_a_range_shares_its_unit_unless_the_ends_are_far_apart() -> None:
    assert time_range_text(10.1e6, 14e6) == "10.1 to 14.0 ms"
    assert time_range_text(500, 14e6) == "500 ns to 14.0 ms"
    assert time_range_text(-100, 20) == "-100 to 20.0 ns"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (8.1, "8.10\N{MULTIPLICATION SIGN}"),
        (0.000571, "1/1750"),
        (893_692, "894\u00a0000\N{MULTIPLICATION SIGN}"),
        (0.5, "0.500\N{MULTIPLICATION SIGN}"),
    ],
)
def test_ratios_stay_readable_far_from_one(value: float, text: str) -> None:
    assert ratio_text(value) == text


def test_a_change_is_a_percentage_up_to_tenfold_and_a_ratio_beyond() -> None:
    assert [change_text(ratio) for ratio in (1.29, 0.767, 9.9, 0.02)] == ["+29 %", "-23.3 %", "+890 %", "1/50.0"]
    assert change_text(103) == ratio_text(103)


def test_a_small_ratios_interval_is_written_like_the_ratio() -> None:
    assert ratio_range_text(0.000534, 0.0006) == "1/1870 to 1/1670"
    assert ratio_range_text(7.024, 9.31) == "7.02 to 9.31"


def test_a_missing_number_is_never_formatted() -> None:
    with pytest.raises(ValueError, match="finite"):
        significant(float("nan"))


@given(st.floats(min_value=1e-4, max_value=1e5))
def test_three_digits_are_within_half_a_percent(value: float) -> None:
    assert float(significant(value)) == pytest.approx(value, rel=0.0051)


@given(
    st.floats(min_value=1e-2, max_value=1e10),
    st.floats(min_value=2.0, max_value=1e10),
)
def test_a_log_axis_has_a_few_ticks_inside_its_limits(low: float, span: float) -> None:
    ticks = log_ticks(low, low * span)
    assert len(ticks) <= 6
    assert all(low * 0.99 <= tick <= low * span * 1.01 for tick in ticks)
    assert len({tick_text(tick) for tick in ticks}) == len(ticks)


@given(st.lists(st.floats(min_value=-1e6, max_value=1e9), min_size=1, max_size=50))
@example([5e-324])
@example([5e-324, 1.0])
@example([-5e-324])
def test_a_scale_shows_every_value(values: list[float]) -> None:
    scale = scale_for(values)
    assert scale.low <= min(values)
    assert max(values) <= scale.high
    assert scale.low < scale.high
    assert (scale.kind == "symlog") == (min(values) < sys.float_info.min)


def test_a_narrow_spread_is_drawn_linearly() -> None:
    assert scale_for([9.6, 9.8]).kind == "linear"
    assert scale_for([9.6, 9.8], always_log=True).kind == "log"


def test_an_interval_far_beyond_all_readings_ends_in_an_arrow_and_leaves_the_axis_alone() -> None:
    rough = plots.Dot("adaptive", "adaptive", 23.0, 0.006, 1.1e7, (23.0, 23.0, 4e4))
    scale = scale_for(plots.dot_values([rough]))
    assert scale.low > 1
    assert scale.high < 1e6
    exact = plots.Dot("adaptive", "adaptive", 23.0, 20.0, 1e4, (23.0, 23.0, 4e4))
    rough_bars, bars = (plots.dot_intervals([dot], name="rough", scale=scale).svg for dot in (rough, exact))
    assert rough_bars.count("<use") == bars.count("<use") + 2


def test_readings_of_zero_are_part_of_the_band() -> None:
    def bars(value: list[float], count: list[float]) -> plots.Drawing:
        none = np.array([])
        band = (np.array(value), np.array(count))
        return plots.raw_samples(plots.RawSeries("x", "vtare", none, none, 10.0, 1000, *band), name="zero")

    # The same band but for the readings at 0: the picture must differ, for they were read.
    assert bars([0.0, 10.0], [1.0, 999.0]).svg != bars([0.0, 10.0], [999.0, 1.0]).svg


def test_a_lower_end_below_any_clock_is_not_a_figure() -> None:
    assert time_range_text(0.0066, 11.2e6) == "below 0.1 ns to 11.2 ms"
    assert time_range_text(0.2, 5) == "0.200 to 5.00 ns"


# --- what was inferred ---


def test_a_matrix_never_speaks_by_colour_alone() -> None:
    drawing = inference_drawings(np.array([1.0, 2.0]))[0]
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", drawing.svg)
    assert "161\N{MULTIPLICATION SIGN}" in texts
    assert "= 1.00\N{MULTIPLICATION SIGN}" in texts
    assert "? 1/3" in texts
    assert "usleep, cpu: 161\N{MULTIPLICATION SIGN} (sure)" in drawing.text
    assert "two_phase_capped, io: 1/3 (inconclusive)" in drawing.text


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("letters", [25, 120])
def test_long_names_of_columns_leave_room_for_the_squares(letters: int) -> None:
    ends = plots.Ends("less", "more", "sure", None, "open")
    squares = [[plots.Square(0.5, "1.2", "sure")] * 3]
    columns = [f"{'c' * letters}{at}" for at in range(3)]
    assert "1.2" in plots.matrix(["usleep"], columns, squares, name="m", label="load", ends=ends).svg


def test_a_matrix_that_does_not_fit_is_refused() -> None:
    ends = plots.Ends("less", "more", "sure", None, "open")
    for rows, columns, squares in (([], ["a"], []), (["a"], ["b"], [[None, None]]), (["a"], ["b"], [])):
        with pytest.raises(ValueError, match="pass a matrix"):
            plots.matrix(rows, columns, squares, name="m", label="l", ends=ends)


def test_profiles_and_ratios_without_a_figure_are_refused() -> None:
    with pytest.raises(ValueError, match="pass at least one"):
        plots.profiles([plots.Profile("a", "a", ())], ["idle"], name="p", label="l", quantity="miss_ns")
    with pytest.raises(ValueError, match="pass positions from 0"):
        plots.profiles(
            [plots.Profile("a", "a", (plots.Point(2, 1.0),))], ["idle"], name="p", label="l", quantity="x_ns"
        )
    with pytest.raises(ValueError, match="above 0"):
        plots.ratio_dots([plots.RatioRow("a", (plots.RatioMark("p99", 0.0, True),))], name="r", label="l")


@given(
    st.lists(st.tuples(st.integers(-50, 10**9), st.integers(1, 10**6)), min_size=1, max_size=60),
)
@settings(max_examples=60)
def test_a_violin_holds_every_reading_once(readings: list[tuple[int, int]]) -> None:
    values, weights = [float(v) for v, _ in readings], [w for _, w in readings]
    shape = plots.violin("a", "a", values, weights)
    assert shape.n == sum(weights)
    assert shape.share.sum() + (shape.hidden if any(v > 0 for v in values) else 0.0) == pytest.approx(1.0)
    assert min(values) <= shape.q1 <= shape.median <= shape.q3 <= max(values)
    assert (np.diff(shape.edges) > 0).all()


def test_other_processes_draw_the_same_and_pass_on_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    here = drawings()
    with drawing_processes():
        for one, other in zip(here, drawings(), strict=True):
            assert (one.name, one.svg, one.inline, one.text) == (other.name, other.svg, other.inline, other.text)
            assert one.data.equals(other.data)
        refused = plots.dot_intervals([plots.Dot("usleep", "usleep", 8e4, 7e4, 9e4, (7.5e4,))], name="No Name")
        with pytest.raises(ValueError, match="figure name"):
            _ = refused.svg


@pytest.mark.parametrize("program", ["/bin/false", "/nonexistent"])
def test_where_no_process_can_be_started_all_is_drawn_here(program: str, tmp_path: Path) -> None:
    script = tmp_path / "drawn.py"
    script.write_text(
        "import multiprocessing, sys\nfrom vtare import plots\nfrom vtare.report.processes import drawing_processes\n"
        "if __name__ == '__main__':\n"
        "    multiprocessing.get_context('spawn').set_executable(sys.argv[1])\n"
        "    with drawing_processes():\n"
        "        rows = [plots.Dot('usleep', 'usleep', 8e4, 7e4, 9e4, (7.5e4,))]\n"
        "        print(sum(len(plots.dot_intervals(rows, name=f'd{at}').svg) > 1000 for at in range(4)))\n"
    )
    done = subprocess.run([sys.executable, script, program], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "4\n", done.stderr


def test_drawing_processes_end_with_a_lab_that_is_killed(tmp_path: Path) -> None:
    program = tmp_path / "draws.py"
    program.write_text(
        "import os, time\n"
        "from vtare.report.processes import drawing_processes\n"
        "if __name__ == '__main__':\n"
        "    with drawing_processes():\n"
        "        from vtare.plots import drawn\n"
        "        print(drawn._executor.submit(os.getpid).result() if drawn._executor else 0, flush=True)\n"
        "        time.sleep(60)\n"
    )
    lab = subprocess.Popen([sys.executable, str(program)], stdout=subprocess.PIPE, text=True)
    assert lab.stdout is not None
    worker = int(lab.stdout.readline())
    lab.kill()
    lab.wait()
    until = time.monotonic() + 30
    while worker and Path(f"/proc/{worker}").exists():
        assert time.monotonic() < until
        time.sleep(0.02)
