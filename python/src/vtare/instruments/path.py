"""`vtare path`: what is free on a path, latency when it is used, the depth of the buffer that makes it so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from vtare.instruments.model import Instrument, Metric, PartRows, PlannedRun, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vtare.stats import Known

#: Setting up the far end and the session, s.
_AROUND_S: Final = 1.3
#: Directions, and loads of each (crates/methods/src/path/mod.rs, `SHARES`).
_ROWS: Final = 2 * 3


def _expected_s(asked: PlannedRun) -> float:
    """A path of some Mbit/s or more takes about half of the time that it may."""
    return _AROUND_S + float(asked.value("most_ns")) / 2e9


def _most_rows(_asked: PlannedRun, _timeout_s: float) -> float:
    return float(_ROWS)


def _figures(part: PartRows) -> Mapping[str, Any]:
    """The figures of the direction that the rows are of: all its loads share them."""
    direction = part.rows["direction"][0] if part.rows.height else None
    cells = part.footer.get("result", {}).get("cells", [])
    cell: Mapping[str, Any] = next((one for one in cells if one.get("direction") == direction), {})
    return {
        "idle_rtt_ns": cell.get("idle_rtt_ns"),
        "free_bit_per_s": _known(cell, "avb_bit_per_s", cell.get("avb_at_least")),
        "depth_ns": _known(cell, "depth_ns", cell.get("depth_at_least")),
        "depth_byte": _known(cell, "depth_byte", cell.get("depth_at_least")),
        "drain_bit_per_s": cell.get("drain_bit_per_s"),
        "path_byte": cell["probe_byte"] + cell["extra_byte"] if "probe_byte" in cell else None,
        "deeper_buffers": int(bool(cell.get("depth_at_least"))),
    }


def _known(cell: Mapping[str, Any], name: str, is_bound: object) -> Known | None:
    """A figure of a cell: of a buffer that was not filled, or a sender at its limit, a lower bound."""
    from vtare.stats import Known

    number = cell.get(name)
    return None if number is None else Known(float(number), "at least" if is_bound else "exact")


RECORD: Final = Instrument(
    name="path",
    asks="How much latency does using the path add?",
    quantity="added_ns",
    value=Value("added_ns", at_least="at_least"),
    parts=("direction", "load_percent"),
    expected_s=_expected_s,
    most_rows=_most_rows,
    metrics=(
        Metric("added_ns", "added", "latency that the load adds", "latency that the load adds", better="less"),
        Metric(
            "idle_rtt_ns",
            "idle",
            "round-trip time of the idle path",
            better="less",
            about="round trip of the idle path",
            missing="not known",
        ),
        Metric(
            "free_bit_per_s",
            "free",
            "available bandwidth",
            interval=True,
            about="available bandwidth of the direction",
            missing="not known",
        ),
        Metric(
            "depth_ns",
            "buffer",
            "time that a full buffer takes to drain",
            interval=True,
            about="time that a full buffer takes to drain",
            missing="not filled",
        ),
        Metric(
            "depth_byte",
            "buffer",
            "depth of the buffer",
            heading="buffer, bytes",
            about="the same in bytes of IP packets",
            missing="not filled",
        ),
        Metric("drain_bit_per_s", "drains at"),
        Metric(
            "path_byte",
            "bytes",
            "bytes of all probes",
            better="less",
            about="all probes of the direction",
            missing="not recorded",
        ),
        Metric("deeper_buffers", over_runs="sum", unit="1"),
    ),
    figures=_figures,
    hosts="routed",
    compared_parts=("direction",),
    series=("bottleneck", "cross"),
)
