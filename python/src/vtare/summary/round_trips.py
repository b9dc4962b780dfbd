"""The figures of one `rtt` run: what was lost, how fast it went, and where its time went if it was captured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from vtare import stats
from vtare.campaign.two_hosts import SIDES, capture_name
from vtare.overhead.figures import figures_of
from vtare.overhead.files import read_capture, read_round_trips
from vtare.overhead.join import join
from vtare.sentences import caveats as wording
from vtare.summary.model import Note
from vtare.topology.clock_relation import ClockRelation, read_relations

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vtare.instruments.model import PartRows


def figures(part: PartRows) -> dict[str, Any]:
    """The figures of one far end of one run.

    Packets that were lost have no reading, so they are in no quantile, and are counted here, over the whole run.
    Captures lie beside the samples file; pieces are those of the settled round trips, as is the round-trip time.

    Raises:
        BadInput: a capture cannot be used.
    """
    group = part.whole
    fates = dict(group.group_by(pl.col("fate").cast(pl.String)).len().iter_rows())
    unsent = fates.get("too_late", 0) + fates.get("no_room", 0)
    sent = group.height - unsent
    lost = fates.get("lost", 0) + fates.get("late", 0)
    scheduled = stats.in_order(part.rows["rtt_scheduled_ns"].drop_nulls().cast(pl.Float64).to_numpy(), None)
    return {
        "sent": sent,
        "unsent": unsent,
        "too_late": fates.get("too_late", 0),
        "no_room": fates.get("no_room", 0),
        "lost": lost,
        "late": fates.get("late", 0),
        "lost_fraction": lost / sent if sent else None,
        "duplicate": int(group["duplicates"].sum()),
        "reordered": int(group["reordered"].sum()),
        "rtt_scheduled_ns": stats.median(scheduled).value,
        "rtt_scheduled_p99_ns": stats.quantile(scheduled, 0.99).value,
        "achieved_packet_per_s": part.cell.get("achieved_packet_per_s"),
        "achieved_share": _achieved_share(part, sent, unsent),
        **_pieces(part.rows, part.path),
    }


def _achieved_share(part: PartRows, sent: int, unsent: int) -> float | None:
    """The share of the rate asked for that was achieved; None where none was asked for."""
    asked: Mapping[str, Any] = part.footer.get("run", {}).get("parameters", {})
    achieved = part.cell.get("achieved_packet_per_s")
    if asked.get("flood") or not sent:
        return None
    # A random schedule has a random rate: its slots are what was asked for.
    if asked.get("poisson"):
        return sent / (sent + unsent)
    gap_ns, rate = asked.get("gap_ns"), asked.get("rate_packet_per_s")
    rate = 1e9 / gap_ns if gap_ns else rate
    return None if achieved is None or not rate else float(achieved / rate)


def _pieces(group: pl.DataFrame, samples: Path) -> dict[str, Any]:
    """Medians of the pieces, from the captures beside the samples; nothing where there are none."""
    paths = {side: samples.with_name(capture_name(side)) for side in SIDES}
    captures = {side: read_capture(path) for side, path in paths.items() if path.exists()}
    if not captures or group.height == 0:
        return {}
    peer = str(group["peer"][0])
    flow = next(flow for flow in read_round_trips(samples).flows if flow.peer == peer)
    relations = read_relations(samples.parent)
    # One machine has one clock, exactly.
    clock = ClockRelation() if relations is None else relations.get("responder")
    sides = {side: captures.get(side) for side in SIDES}
    joined = figures_of(join(group, flow, sender=sides["sender"], responder=sides["responder"], clock=clock))
    described = joined["pieces"] | joined["one_way"]
    pieces = {name: None if piece is None else piece["median"] for name, piece in described.items()}
    side = joined["responder_side_ns"]
    return {
        **pieces,
        "overhead_ns": pieces["sender_overhead_ns"],
        "overhead_share_percent": joined["overhead_share_percent"],
        "overhead_relative_percent": joined["overhead_relative_percent"],
        "responder_side_ns": None if side is None else side["median"],
        "clock_bound_ns": joined["clock_bound_ns"],
        "paired": joined["paired"],
        "not_captured": joined["received"] - joined["paired"],
        "negative": sum(joined["negative"].values()),
        "capture_dropped": sum(count or 0 for count in joined["dropped"].values()),
    }


def notes(runs: pl.DataFrame) -> list[Note]:
    """What the reader must know about the joined packets: those that a capture missed, and pieces below 0."""
    captured = runs.filter(pl.col("paired").is_not_null())
    paired, missed, negative = (int(captured[name].sum()) for name in ("paired", "not_captured", "negative"))
    remarks = []
    if missed:
        text = wording.not_captured(missed, missed + paired)
        remarks.append(Note("not_captured", text, captured.filter(pl.col("not_captured") > 0).height))
    dropped = int(captured["capture_dropped"].sum())
    if dropped:
        text = wording.capture_dropped(dropped)
        remarks.append(Note("capture_dropped", text, captured.filter(pl.col("capture_dropped") > 0).height))
    if negative:
        text = wording.negative_pieces(negative, paired)
        remarks.append(Note("negative_pieces", text, captured.filter(pl.col("negative") > 0).height))
    return remarks
