"""Samples that a hostile guest made: what they declare is checked before any reader believes it."""

from __future__ import annotations

import json
import os
import resource
import struct
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vtare import parquet_check
from vtare.campaign.allowance import Allowance, allowance
from vtare.campaign.sample_checks import check_left, check_load
from vtare.contract import check_samples_file, columns, load_contract
from vtare.design import Run
from vtare.errors import BadInput
from vtare.overhead.files import read_capture

pytestmark = pytest.mark.attack

MOST = Allowance(rows=1000, byte=1 << 20)
RUN = Run(0, 1, 1, "0123456789abcdef", "e", "noise", None, {}, {})
FOOTER = {
    "schema": "vtare.samples/1",
    "program": {"name": "vtare", "version": "0"},
    "run": {"run_id": RUN.run_id, "instrument": "noise", "parameters": {}},
    "interrupted": False,
    "started_unix_ns": 1,
    "elapsed_ns": 5,
    "machine": {"hostname": "h"},
    "clock": None,
    "result": {"cells": [{"gap_ns": {"n": 1}}]},
    "notes": [{"id": "x", "text": "y"}],
}


def written(path: Path, footer: dict[str, Any] | str = FOOTER, frame: pl.DataFrame | None = None, **how: Any) -> Path:
    """A file of `noise`, or of another frame."""
    if frame is None:
        frame = pl.DataFrame({"cpu": [0] * 100, "at_ns": range(100), "gap_ns": range(100)})
    text = footer if isinstance(footer, str) else json.dumps(footer)
    frame.write_parquet(path, metadata={"vtare": text}, **{"compression": "lz4", **how})
    return path


def test_a_file_as_the_instruments_write_it_passes(tmp_path: Path) -> None:
    for compression in ("lz4", "zstd", "snappy", "uncompressed"):
        check_left(written(tmp_path / "s.parquet", compression=compression), RUN, MOST)
    shape = parquet_check.check(tmp_path / "s.parquet", most_rows=100)
    assert (shape.rows, shape.columns) == (100, ("cpu", "at_ns", "gap_ns"))
    empty = pl.DataFrame(schema={name: pl.Int64 for name in ("cpu", "at_ns", "gap_ns")})
    check_left(written(tmp_path / "s.parquet", frame=empty), RUN, MOST)


def change(**changes: Any) -> dict[str, Any]:
    return {**FOOTER, **changes}


@pytest.mark.parametrize(
    "footer",
    [
        "",
        "[1]",
        "[" * 100_000,
        '{"a":' * 50_000,
        change(run=[1]),
        change(machine="x"),
        change(clock=[]),
        change(result=[1]),
        change(result={"cells": {"a": 1}}),
        change(result={"cells": [1]}),
        change(result={"cells": [{"gap_ns": "many"}]}),
        change(clock={"quantum_ns": "1"}),
        change(machine={"memory_byte": True}),
        change(notes=[{"id": 1}]),
        change(notes="all well"),
        change(elapsed_ns="5"),
        change(elapsed_ns=None),
        change(elapsed_ns=-1),
        change(elapsed_ns=1e300),
        change(started_unix_ns="now"),
        change(interrupted="no"),
        change(run={"run_id": {"a": 1}}),
    ],
    ids=lambda footer: str(footer)[-40:].replace("/", " "),
)
def test_a_footer_of_other_kinds_than_figures_use_is_refused(tmp_path: Path, footer: dict[str, Any] | str) -> None:
    with pytest.raises(BadInput):
        check_left(written(tmp_path / "s.parquet", footer), RUN, MOST)


def test_more_rows_than_the_run_can_make_are_refused_with_both_figures(tmp_path: Path) -> None:
    # A thousand million equal rows take some kilobytes.
    frame = pl.DataFrame({name: pl.zeros(3_000_000, pl.Int64, eager=True) for name in ("cpu", "at_ns", "gap_ns")})
    path = written(tmp_path / "s.parquet", frame=frame)
    assert path.stat().st_size < 100_000
    with pytest.raises(BadInput, match="3000000 rows, 1000 are the most that this run can produce"):
        check_left(path, RUN, MOST)


def test_texts_that_unfold_to_more_than_a_page_may_hold_are_refused(tmp_path: Path) -> None:
    texts = [f"{number}{'x' * 100_000}" for number in range(900)]
    frame = pl.DataFrame({"cpu": texts, "at_ns": range(900), "gap_ns": range(900)})
    path = written(tmp_path / "s.parquet", frame=frame, compression="zstd")
    assert path.stat().st_size < 1_000_000
    with pytest.raises(parquet_check.BadParquet, match=r"pages of \d+ values and \d+ B in a column of 900 values"):
        parquet_check.check(path, most_rows=1000)


def test_one_entry_of_a_dictionary_is_no_text_of_every_row(tmp_path: Path) -> None:
    # Some kilobytes that readers unfold to 200 MB where they group by it; longer texts unfold to any size.
    path = tmp_path / "s.parquet"
    text = pl.Series(["x" * 4_000], dtype=pl.Categorical).new_from_index(0, 50_000)
    written(path, frame=pl.DataFrame({"cpu": text, "at_ns": range(50_000), "gap_ns": range(50_000)}))
    assert path.stat().st_size < 1_000_000
    with pytest.raises(parquet_check.BadParquet, match="200000000 B of texts in 'cpu' once they are unfolded"):
        parquet_check.check(path, most_rows=50_000)


def test_rows_that_memory_does_not_hold_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pl.DataFrame({name: pl.zeros(3_000_000, pl.Int64, eager=True) for name in ("cpu", "at_ns", "gap_ns")})
    path = written(tmp_path / "s.parquet", frame=frame)
    monkeypatch.setattr("vtare.contract.free_memory_byte", lambda: 50_000_000)
    with pytest.raises(BadInput, match=r"its 3000000 rows take 0\.072 GB of memory to read, 0\.05 GB are free"):
        check_samples_file(path, run_id=RUN.run_id, instrument="noise")
    monkeypatch.setattr("vtare.contract.free_memory_byte", lambda: 80_000_000)
    check_samples_file(path, run_id=RUN.run_id, instrument="noise")


def test_nested_columns_and_missing_values_are_refused(tmp_path: Path) -> None:
    nested = pl.DataFrame({"cpu": [[1, 2]], "at_ns": [1], "gap_ns": [1]})
    with pytest.raises(BadInput, match="nested columns"):
        check_left(written(tmp_path / "s.parquet", frame=nested), RUN, MOST)
    missing = pl.DataFrame({"cpu": [1, None], "at_ns": [1, 2], "gap_ns": [1, 2]})
    with pytest.raises(BadInput, match="column 'cpu' lacks 1 values"):
        check_left(written(tmp_path / "s.parquet", frame=missing), RUN, MOST)


# --- what lies in the metadata and in page headers ---


def varint(number: int) -> bytes:
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def with_metadata(path: Path, metadata: bytes, body: bytes = b"") -> Path:
    path.write_bytes(b"PAR1" + body + metadata + struct.pack("<I", len(metadata)) + b"PAR1")
    return path


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\x19",
        # A list of 2^60 entries, one of a million structs, and structs in structs.
        b"\x29\xfc" + varint(1 << 60),
        b"\x29\xfc" + varint(7_000_000) + bytes(7_000_000),
        b"\x1c" * 5000,
        b"\x19" * 5000,
        # A text of 2^40 bytes, a number of 100 bits, a kind that is not used.
        b"\x18" + varint(1 << 40),
        b"\x16" + b"\xff" * 20,
        b"\x1f",
    ],
    ids=["none", "cut", "long list", "structs", "deep", "deep lists", "long text", "wide", "kind"],
)
def test_metadata_that_reserves_memory_by_its_own_word_is_refused(tmp_path: Path, metadata: bytes) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(parquet_check.BadParquet):
        parquet_check.check(with_metadata(tmp_path / "s.parquet", metadata), most_rows=1000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 600_000


def test_metadata_longer_than_any_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "s.parquet"
    with path.open("wb") as file:
        file.write(b"PAR1")
        file.truncate(1 << 34)
        file.seek((1 << 34) - 8)
        file.write(struct.pack("<I", 0xFFFF_FFFF) + b"PAR1")
    with pytest.raises(parquet_check.BadParquet, match="4294967295 B of metadata"):
        parquet_check.check(path, most_rows=1000)


def test_links_and_pipes_are_no_samples(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no regular file"):
        parquet_check.check(tmp_path / "pipe", most_rows=1)
    (tmp_path / "link").symlink_to(written(tmp_path / "s.parquet"))
    with pytest.raises(OSError, match="symbolic"):
        parquet_check.check(tmp_path / "link", most_rows=1)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_passes_or_is_refused_and_nothing_else(tmp_path: Path, data: st.DataObject) -> None:
    """Any change of a good file, at any place, ends in samples that can be read or in one clear error."""
    good = written(tmp_path / "good.parquet").read_bytes()
    changed = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "s.parquet"
    path.write_bytes(changed[: data.draw(st.integers(len(changed) - 60, len(changed)))])
    try:
        check_left(path, RUN, MOST)
    except BadInput:
        return
    assert pl.read_parquet(path).height <= MOST.rows


def test_metadata_with_any_byte_changed_passes_or_is_refused(tmp_path: Path) -> None:
    good = written(tmp_path / "good.parquet").read_bytes()
    length = struct.unpack("<I", good[-8:-4])[0]
    path = tmp_path / "s.parquet"
    refused = 0
    for place in range(len(good) - 8 - length, len(good)):
        for value in (0, 128, 255):
            path.write_bytes(good[:place] + bytes([value]) + good[place + 1 :])
            try:
                parquet_check.check(path, most_rows=MOST.rows)
            except parquet_check.BadParquet:
                refused += 1
    assert refused > 100, (refused, length)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(metadata=st.binary(max_size=400))
def test_any_metadata_is_refused_or_has_a_shape(tmp_path: Path, metadata: bytes) -> None:
    try:
        parquet_check.check(with_metadata(tmp_path / "s.parquet", metadata), most_rows=1000)
    except parquet_check.BadParquet:
        return


# --- other documents ---


@pytest.mark.parametrize(
    "part",
    [{"operations": "many"}, {"elapsed_s": -1}, {"threads": True}, {"io": [1]}, {"net": "x"}, {"cpu_fraction": [1]},
     {"io": {"written_byte": "9"}}, {"net": {"rate_bit_per_s": {}}}],
    ids=str,
)  # fmt: skip
def test_a_report_of_a_load_that_could_not_be_added_up_is_refused(part: dict[str, Any]) -> None:
    good = {"elapsed_s": 1.5, "operations": 3, "io": None, "net": {"rate_bit_per_s": 1.0, "address": "a"}}
    check_load(good)
    with pytest.raises(BadInput, match=r" is .*, not a"):
        check_load({**good, **part})


@pytest.mark.parametrize(
    "footer",
    [
        "[" * 100_000,
        change(run="x"),
        change(run={"instrument": "capture"}, schema=[1]),
    ],
    ids=["deep", "run", "schema"],
)
def test_a_capture_with_another_footer_is_refused(tmp_path: Path, footer: dict[str, Any] | str) -> None:
    with pytest.raises(BadInput):
        read_capture(written(tmp_path / "c.parquet", footer))


def test_a_capture_whose_pages_lie_is_refused_before_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "c.parquet").write_bytes(b"PAR1" + bytes(100) + b"\xff\xff\xff\x7fPAR1")
    with pytest.raises(BadInput, match="B of metadata"):
        read_capture(tmp_path / "c.parquet")


# --- how much a run can leave ---


def run_of(instrument: str, **parameters: Any) -> Run:
    return Run(0, 1, 1, "0123456789abcdef", "e", instrument, None, {}, parameters)


@pytest.mark.parametrize(
    ("run", "timeout_s", "rows"),
    [
        (run_of("sleep", method=["spin"], target_ns=[1, 2], samples=10), 60.0, 20),
        (run_of("counter", batches=2, calls=3, max_exponent=4), 60.0, 30),
        (run_of("timer", source=["rdtsc"], samples=2000), 60.0, 2000),
        (run_of("timer", source=["rdtsc", "vtare"]), 60.0, 3_000_000),
        (run_of("noise", threshold_ns=1_000_000), 2.0, 2001),
        (run_of("rtt", rate_packet_per_s=100, seconds=3.0), 60.0, 301),
        (run_of("rtt", peer=["a", "b"], gap_ns=1_000_000, packets=7, seconds=None), 60.0, 14),
        (run_of("rtt", rate_packet_per_s=100, seconds=1.0, poisson=True), 60.0, 210),
        (run_of("capture", seconds=2.0), 60.0, 2_000_000),
        (run_of("capture", packets=9), 60.0, 9),
        (run_of("avb"), 3.0, 3000),
    ],
    ids=lambda value: value.instrument if isinstance(value, Run) else None,
)
def test_the_most_rows_of_a_run_follow_from_its_plan(run: Run, timeout_s: float, rows: int) -> None:
    assert allowance(run, timeout_s).rows == rows


def test_every_instrument_has_an_allowance_that_grows_with_its_rows() -> None:
    for instrument in load_contract().instruments:
        short, long = (allowance(run_of(instrument), timeout_s) for timeout_s in (1.0, 3600.0))
        assert 0 < short.rows <= long.rows
        assert long.byte - short.byte >= (long.rows - short.rows) * len(columns()[instrument])
