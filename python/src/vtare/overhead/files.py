"""The files that are joined: samples of `vtare rtt`, and captures of `vtare capture`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import polars as pl

from vtare import documents, parquet_check
from vtare.contract import SAMPLES_SCHEMA, refuse_beyond_memory
from vtare.errors import BadInput

_RTT_COLUMNS: Final = ("peer", "sequence", "fate", "sent_ns", "arrived_ns", "rtt_ns", "turnaround_ns")
_CAPTURE_COLUMNS: Final = ("captured_ns", "kind", "session", "form", "sequence", "source", "destination")
_SIGN: Final = 1 << 63
#: Files are joined in memory, where a row takes about as much.
_ROW_BYTE: Final = 100
_MOST_ROWS: Final = 1 << 27


@dataclass(frozen=True, slots=True)
class Flow:
    """One far end of a run.

    `address` is where probes went (`10.0.0.2:8462`; for ICMP its port means nothing), `session` what the packets on the
    wire name as their owner: the session id as a signed 64-bit number, in short forms the handle, for ICMP and STAMP
    the identifier. Times in the samples count from `origin_monotonic_ns` on the sender's clock. Each is None where the
    samples do not state it.
    """

    peer: str
    address: str | None = None
    session: int | None = None
    origin_monotonic_ns: int | None = None


@dataclass(frozen=True, slots=True)
class RoundTrips:
    """Samples of one `vtare rtt` run: its rows and its far ends."""

    path: Path
    frame: pl.DataFrame
    flows: tuple[Flow, ...]


@dataclass(frozen=True, slots=True)
class Capture:
    """What one capture point saw. `dropped` counts packets that it saw and could not keep, None where unknown."""

    path: Path
    frame: pl.DataFrame
    dropped: int | None


def read_round_trips(path: Path) -> RoundTrips:
    """Read the samples of `vtare rtt` (or of one run in a store).

    Raises:
        BadInput: no such file, or not samples of rtt.
    """
    footer, frame = _read(path, _RTT_COLUMNS, "vtare rtt PEER --out FILE.parquet")
    cells = _cells(footer)
    told = {str(cell["peer"]): cell for cell in cells if cell.get("peer") is not None}
    peers = frame.get_column("peer").cast(pl.String).unique(maintain_order=True).to_list()
    return RoundTrips(path, frame, tuple(_flow(peer, told.get(peer, {}), frame) for peer in peers))


def read_capture(path: Path) -> Capture:
    """Read what a capture point left.

    Raises:
        BadInput: no such file, or not written by `vtare capture`.
    """
    footer, frame = _read(path, _CAPTURE_COLUMNS, "vtare capture IFACE --out FILE.parquet")
    return Capture(path, frame, _dropped(footer))


def _cells(footer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    result = footer.get("result")
    cells = result.get("cells") if isinstance(result, dict) else None
    return [cell for cell in cells if isinstance(cell, dict)] if isinstance(cells, list) else []


def _flow(peer: str, cell: Mapping[str, Any], frame: pl.DataFrame) -> Flow:
    if "session" in frame.columns:
        session = frame.filter(pl.col("peer").cast(pl.String) == peer).get_column("session")[0]
    else:
        # Samples of the first versions: only the id of a full session, in the footer.
        told = cell.get("session")
        session = signed(int(told, 16)) if isinstance(told, str) else None
    origin = cell.get("origin_monotonic_ns")
    return Flow(peer, cell.get("address"), session, origin if isinstance(origin, int) else None)


def signed(session: int) -> int:
    """A session id of 64 bits as the signed number that Parquet holds."""
    return session - 2 * _SIGN if session >= _SIGN else session


def _dropped(footer: Mapping[str, Any]) -> int | None:
    counts = []
    for cell in _cells(footer):
        given = cell.get("file")
        file = given if isinstance(given, dict) else {}
        counts += [cell.get("lost"), file.get("dropped_by_interface"), file.get("dropped_by_system")]
    known = [count for count in counts if isinstance(count, int)]
    return sum(known) if known else None


def _read(path: Path, columns: tuple[str, ...], made_by: str) -> tuple[dict[str, Any], pl.DataFrame]:
    try:
        shape = parquet_check.check(path, most_rows=_MOST_ROWS)
        refuse_beyond_memory(path, shape.rows, _ROW_BYTE)
        footer = documents.parse(shape.metadata["vtare"])
        frame = pl.read_parquet(path)
    except FileNotFoundError as error:
        raise BadInput(f"{path}: no such file; make one with `{made_by}`") from error
    except (OSError, KeyError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise BadInput(f"{path}: damaged, or not made by `{made_by}` ({error})") from error
    run = footer.get("run")
    instrument = run.get("instrument") if isinstance(run, dict) else None
    missing = [name for name in columns if name not in frame.columns]
    if missing or footer.get("schema") != SAMPLES_SCHEMA:
        raise BadInput(
            f"{path}: the samples are of {instrument or 'no instrument'}: use a file of `{made_by}`"
            + (f" (column '{missing[0]}' is missing beside {', '.join(frame.columns)})" if missing else "")
        )
    return footer, frame
