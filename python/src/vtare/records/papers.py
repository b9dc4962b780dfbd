"""Documents of papers, and of round trips taken apart."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from vtare.records.answer import Answered


class CheckedClaim(TypedDict):
    """One claim of a paper, in our words."""

    id: str
    where: str
    statement: str
    printed: Annotated[str, "its figure in the paper"]
    found: Annotated[str, "what the code computes of the published figures"]
    outcome: Literal["reproduces", "in part", "does not reproduce", "cannot be decided"]
    why: str


class ReanalysisDocument(TypedDict):
    """`vtare papers NAME --claims`."""

    schema: Literal["vtare.reanalysis/2"]
    answer: Answered
    paper: str
    outcomes: Annotated[dict[str, int], "claims by outcome"]
    claims: list[CheckedClaim]


class StandingTable(TypedDict):
    """A table that sets a campaign beside papers."""

    id: str
    rows: Annotated[list[dict[str, float | str | None]], "a value for each column, in the unit of its name"]


class StandingDocument(TypedDict):
    """`vtare papers NAME --store STORE`."""

    schema: Literal["vtare.standing/2"]
    store: str
    papers: list[str]
    tables: list[StandingTable]
    notes: Annotated[list[str], "what cannot be compared"]


class Described(TypedDict):
    """Figures of readings; null where not estimable."""

    n: int
    median: float | None
    half_iqr: float | None
    min: float
    max: float
    mean: float
    p99: float | None
    p999: float | None


class OverheadCell(TypedDict):
    """One far end. What no capture point bounds is null; keys of places depend on the capture points."""

    peer: str
    sent: int
    received: int
    late: int
    paired: Annotated[int, "round trips seen at every capture point"]
    rtt_ns: Annotated[Described | None, "inside the sender"]
    rtt_wire_ns: Annotated[Described | None, "at the sender's host"]
    overhead_ns: Annotated[Described | None, "their difference: what the sender's virtualization adds"]
    overhead_share_percent: Annotated[float | None, "its median, of that inside"]
    overhead_relative_percent: Annotated[float | None, "its median, of that at the host"]
    responder_side_ns: Described | None
    pieces: dict[str, Described | None]
    one_way: dict[str, Described | None]
    clock_bound_ns: Annotated[float | None, "how far the two hosts' clocks may be apart"]
    negative: Annotated[dict[str, int], "pieces below 0"]
    lost_at: dict[str, int]
    not_captured: dict[str, int]
    copies: int
    unknown: int
    dropped: dict[str, int | None]


class Overhead(TypedDict):
    """`vtare overhead`."""

    schema: Literal["vtare.overhead/1"]
    answer: Answered
    samples: str
    sender_capture: str | None
    responder_capture: str | None
    cells: list[OverheadCell]
