"""Figures: frozen results in, SVG out; one visual language for reports, papers and print.

Every function returns a `Drawing`. All times are in ns; axes carry the unit on each tick. Colours belong to methods
and sources (`palette.style_of`) and follow a light or a dark page.
"""

from vtare.plots.axes import Scale, scale_for
from vtare.plots.boxes import box_values, boxes
from vtare.plots.ccdf import ccdf, ccdf_values
from vtare.plots.charts import Chart, ChartKey, ccdf_chart, curves_chart, estimates_chart
from vtare.plots.curves import Curve, CurvePoint, Kind, curves
from vtare.plots.cv import cv_by_argument
from vtare.plots.decimate import ccdf_line, run_box
from vtare.plots.dots import dot_intervals, dot_values, placement, share_bars
from vtare.plots.drawn import Drawing
from vtare.plots.drift import control_drift
from vtare.plots.inputs import BoxRow, CcdfLine, CvLine, Dot, DriftPoint, RawSeries, RunBox, Stack
from vtare.plots.matrix import Ends, Square, matrix
from vtare.plots.pairs import Changes, Strip, pair_changes, quantile_changes
from vtare.plots.palette import Hue, Style, css_colours, style_of
from vtare.plots.profiles import Point, Profile, profile_values, profiles
from vtare.plots.rates import (
    CostPoint,
    ErrorRow,
    EstimateMark,
    cost_against_error,
    error_boxes,
    error_limits,
    estimates_against_truth,
    estimates_over_time,
    rate_limit,
)
from vtare.plots.ratios import RatioMark, RatioRow, ratio_dots
from vtare.plots.raw import raw_samples, raw_values
from vtare.plots.stacks import share_stacks, stack_scale, stack_values, stacks
from vtare.plots.svg import png
from vtare.plots.violins import Violin, violin, violin_values, violins

__all__ = [
    "BoxRow",
    "CcdfLine",
    "Changes",
    "Chart",
    "ChartKey",
    "CostPoint",
    "Curve",
    "CurvePoint",
    "CvLine",
    "Dot",
    "Drawing",
    "DriftPoint",
    "Ends",
    "ErrorRow",
    "EstimateMark",
    "Hue",
    "Kind",
    "Point",
    "Profile",
    "RatioMark",
    "RatioRow",
    "RawSeries",
    "RunBox",
    "Scale",
    "Square",
    "Stack",
    "Strip",
    "Style",
    "Violin",
    "box_values",
    "boxes",
    "ccdf",
    "ccdf_chart",
    "ccdf_line",
    "ccdf_values",
    "control_drift",
    "cost_against_error",
    "css_colours",
    "curves",
    "curves_chart",
    "cv_by_argument",
    "dot_intervals",
    "dot_values",
    "error_boxes",
    "error_limits",
    "estimates_against_truth",
    "estimates_chart",
    "estimates_over_time",
    "matrix",
    "pair_changes",
    "placement",
    "png",
    "profile_values",
    "profiles",
    "quantile_changes",
    "rate_limit",
    "ratio_dots",
    "raw_samples",
    "raw_values",
    "run_box",
    "scale_for",
    "share_bars",
    "share_stacks",
    "stack_scale",
    "stack_values",
    "stacks",
    "style_of",
    "violin",
    "violin_values",
    "violins",
]
