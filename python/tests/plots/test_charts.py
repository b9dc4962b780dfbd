"""Interactive charts show what the still figures show: same data, same colours, the page's parameters, no address."""

from __future__ import annotations

import json
from typing import Any

import altair
import jsonschema
import numpy as np
import pytest

from vtare import plots
from vtare.plots.charts import Chart


def line(label: str, style: str, *, early: bool = False) -> plots.CcdfLine:
    values = np.geomspace(1e3, 1e6, 2000)
    return plots.ccdf_line(label, style, np.concatenate([[0.0], values]) if early else values)


def layers(chart: Chart) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = chart.spec["layer"]
    return found


def mark(value: float, *, low: float | None = None, hollow: bool = False, truth: float | None = 1e8) -> Any:
    return plots.EstimateMark(0.5, 0.7, value, low, low and 2 * low, truth, "yaz", hollow)


CURVES = [
    plots.Curve("64 B", "a", (plots.CurvePoint(1.0, 4e5, 3.9e5, 4.1e5), plots.CurvePoint(0.1, 2e5, hollow=True))),
    plots.Curve("1518 B", "b", (plots.CurvePoint(0.1, 9e4),)),
]


def every_chart() -> list[Chart]:
    edges, truth = np.array([0.0, 1.0, 2.0]), np.array([1e8, np.nan])
    return [
        plots.ccdf_chart([line("usleep", "usleep"), line("spin", "spin")], quantity="miss_ns", floor=1e-4),
        plots.estimates_chart(edges, truth, [mark(9e7, low=8e7), mark(5e8)], limit=1.6e8),
        plots.curves_chart(CURVES, x_label="J", y_label="throughput", y_kind="packet_rate"),
        plots.curves_chart(CURVES, x_label="load", y_label="latency", x_kind="packet_rate", y_kind="time"),
    ]


def test_every_chart_can_be_compiled_and_names_no_address() -> None:
    vl_convert = pytest.importorskip("vl_convert")
    for chart in every_chart():
        assert "http" not in json.dumps(chart.spec)
        compiled = vl_convert.vegalite_to_vega(json.loads(json.dumps(chart.spec)), vl_version="6.4")
        names = {signal["name"] for signal in compiled["signals"]}
        assert {"picked", "x_low", "x_high"} <= names


def test_every_specification_is_one_by_the_schema_of_vega_lite() -> None:
    for chart in every_chart():
        spec = json.loads(json.dumps({**chart.spec, "datasets": {}}))
        altair.LayerChart.from_dict(spec)
        with pytest.raises(jsonschema.ValidationError, match="font"):
            altair.LayerChart.from_dict({**spec, "config": {**spec["config"], "font": 5}})


def test_a_chart_holds_just_the_data_that_it_is_given() -> None:
    for chart in every_chart():
        text = json.dumps(chart.spec, allow_nan=False)
        used = {layer["data"]["name"] for layer in layers(chart) if "data" in layer} | {
            chart.spec.get("data", {}).get("name")
        }
        assert used - {None} == set(chart.spec["datasets"])
        assert '"url"' not in text


def test_colours_are_those_of_the_page_and_follow_its_scheme() -> None:
    chart = every_chart()[0]
    assert [key.colour for key in chart.keys] == [plots.style_of(key.style).hue.css for key in chart.keys]
    text = json.dumps(chart.spec)
    assert all(key.colour in text for key in chart.keys)


def test_a_curve_has_the_steps_of_the_still_figure_and_shows_what_lies_at_or_below_0() -> None:
    early = plots.ccdf_chart([line("usleep", "usleep", early=True)], quantity="miss_ns", floor=1e-5)
    plain = plots.ccdf_chart([line("usleep", "usleep")], quantity="miss_ns", floor=1e-5)
    assert "at or below 0" in early.note
    assert plain.note == ""
    shares = [row["p"] for row in plain.spec["datasets"]["rows"]]
    assert shares[0] == 1.0
    assert shares == sorted(shares, reverse=True)
    assert (plain.log, plain.shared) == (True, True)


def test_a_curve_without_a_reading_above_0_is_named_and_has_no_step() -> None:
    lines = [line("usleep", "usleep"), plots.ccdf_line("coarse", "spin", np.zeros(1000))]
    assert "coarse (all at or below 0)" in plots.ccdf_chart(lines, quantity="cost_ns", floor=1e-5).note
    still = plots.ccdf(lines, name="tail", quantity="cost_ns")
    assert "coarse (all at or below 0)" in still.svg


def test_an_estimate_is_shown_with_its_window_truth_and_error_even_where_it_is_off_the_scale() -> None:
    chart = plots.estimates_chart(np.array([0.0, 1.0]), np.array([1e8]), [mark(5e8, low=9e7)], limit=1.6e8)
    (row,) = chart.spec["datasets"]["rows"]
    assert row["shown"] == "500 Mbit/s (off the scale)"
    # A triangle that is seen whole, at the edge.
    assert (row["beyond"], row["rate"]) == (True, pytest.approx(0.97 * 160.0))
    assert (row["true"], row["error"], row["interval"]) == ("100 Mbit/s", "+400 %", "90.0 to 180 Mbit/s")
    assert row["window"] == "0.500 to 0.700 s"


def test_what_is_not_known_is_stated_and_not_drawn_as_0() -> None:
    edges, truth = np.array([0.0, 1.0, 2.0]), np.array([np.nan, 1e8])
    chart = plots.estimates_chart(edges, truth, [mark(9e7, truth=None)], limit=1.6e8)
    assert [point["rate"] for point in chart.spec["datasets"]["course"]] == [None, 100.0, 100.0]
    (row,) = chart.spec["datasets"]["rows"]
    assert (row["true"], row["error"], row["interval"], row["low"]) == ("not known", "not known", "none", None)


def test_a_bound_is_shown_as_one() -> None:
    rows = every_chart()[2].spec["datasets"]["rows"]
    told = {(row["curve"], row["at"]): row for row in rows}
    assert told["64 B", "0.100"]["shown"] == "at least 200 kpacket/s"
    assert told["64 B", "0.100"]["filled"] is False
    assert told["64 B", "1.00"]["interval"] == "390 kpacket/s to 410 kpacket/s"
