"""The control channel into guests: frames, and what the lab does when the other end lies, dies or falls silent."""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_end import exited, guest, on_the_line, say
from hypothesis import given
from hypothesis import strategies as st

from vtare.platforms.guest import child as child_module
from vtare.platforms.guest import request as request_module
from vtare.platforms.guest.channel import connect
from vtare.platforms.guest.errors import GuestFailed
from vtare.platforms.guest.frames import MAX_PAYLOAD_BYTE, Decoder, Frame, Kind, encode
from vtare.platforms.guest.instance import GuestFiles, settled_facts, start_in_turn
from vtare.platforms.guest.output import Output
from vtare.platforms.intake import OUTPUT_LOST, Incoming

FRAMES = st.builds(
    Frame,
    st.sampled_from(Kind),
    st.integers(0, 2**32 - 1),
    st.one_of(st.binary(max_size=200), st.text(alphabet="vtG1", max_size=40).map(str.encode)),
)


def in_pieces(data: bytes, cuts: list[int]) -> tuple[list[Frame], Decoder]:
    decoder, found = Decoder(), list[Frame]()
    for cut in cuts:
        found += decoder.take(data[:cut])
        data = data[cut:]
    return found + decoder.take(data), decoder


def test_a_frame_is_laid_out_as_the_agent_expects_it() -> None:
    # The same bytes as in crates/vtare/src/agent/frame.rs.
    data = encode(Kind.FACTS, 0x01020304, b"{}")
    assert data[:13] == b"vtG1\x06\x04\x03\x02\x01\x02\x00\x00\x00"
    assert (data[17:19], len(data)) == (b"{}", 23)
    with pytest.raises(ValueError, match="a frame holds 65536 B"):
        encode(Kind.DATA, 1, bytes(MAX_PAYLOAD_BYTE + 1))


@given(st.lists(FRAMES, max_size=6), st.lists(st.integers(0, 80), max_size=30))
def test_frames_come_out_as_they_went_in_however_the_line_cuts_them(sent: list[Frame], cuts: list[int]) -> None:
    found, decoder = in_pieces(on_the_line(sent), cuts)
    assert (found, decoder.skipped_byte) == (sent, 0)


@given(st.lists(FRAMES, min_size=1, max_size=4), st.binary(max_size=300))
def test_noise_between_frames_costs_no_frame(sent: list[Frame], noise: bytes) -> None:
    data = b"".join(noise + on_the_line([frame]) for frame in sent)
    found, decoder = in_pieces(data, [])
    assert (found, decoder.skipped_byte) == (sent, len(noise) * len(sent))


@given(st.binary(max_size=2000), st.lists(st.integers(0, 200), max_size=10))
def test_any_bytes_are_survived_and_never_more_than_came_is_given(data: bytes, cuts: list[int]) -> None:
    found, decoder = in_pieces(data, cuts)
    assert sum(len(frame.payload) + 21 for frame in found) + decoder.skipped_byte <= len(data)


@given(FRAMES, st.data())
def test_a_changed_byte_never_makes_another_frame(frame: Frame, data: st.DataObject) -> None:
    changed = bytearray(on_the_line([frame]))
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    following = Frame(Kind.END, 7, b"")
    found, _ = in_pieces(bytes(changed) + bytes(MAX_PAYLOAD_BYTE) + on_the_line([following]), [])
    assert found[-1] == following
    assert frame == following or frame not in found


def test_what_a_program_states_lands_in_its_files_and_its_end_wakes_the_lab(tmp_path: Path) -> None:
    def answer(frame: Frame) -> list[Frame]:
        if frame.kind is not Kind.START:
            return []
        assert json.loads(frame.payload) == {"arguments": ["load", "cpu"], "directory": str(tmp_path)}
        return [
            say(Kind.ANSWER, frame.job, {"pid": 1}),
            Frame(Kind.STDOUT, frame.job, b"out"),
            Frame(Kind.STDERR, frame.job, b"ready\n"),
            exited(frame.job, 3, stdout=b"out", stderr=b"ready\n"),
        ]

    with guest(answer) as agent:
        assert agent.hello(30)["schema"] == "vtare.agent/1"
        child = agent.start(["load", "cpu"], directory=tmp_path, stdout=tmp_path / "o", stderr=tmp_path / "e")
        assert child.wait(30) == child.returncode == 3
        assert ((tmp_path / "o").read_bytes(), (tmp_path / "e").read_bytes()) == (b"out", b"ready\n")
        with pytest.raises(ProcessLookupError):
            child.watch()
        assert child.terminate() == child.kill() == 3


DOCUMENT = [b"{" + bytes(8190) + b"a", b"second piece", b"}\n"]


def dropped(frames: list[bytes]) -> bytes:
    return b"".join([*frames[:1], *frames[2:]])


def doubled(frames: list[bytes]) -> bytes:
    return b"".join([*frames[:2], *frames[1:]])


def swapped(frames: list[bytes]) -> bytes:
    return b"".join([frames[1], frames[0], *frames[2:]])


def damaged(frames: list[bytes]) -> bytes:
    # A message of a guest's kernel in the middle of a frame.
    return b"".join([frames[0], frames[1][:20], b"[ 1.0] BUG: soft lockup\r\n", frames[1][20:], *frames[2:]])


@pytest.mark.parametrize(
    ("how", "lost"),
    [
        (dropped, r"of 8206 B of stdout 8194 B came; nothing came that was no frame"),
        (doubled, r"of 8206 B of stdout 8218 B came; nothing came that was no frame"),
        (swapped, r"8206 B of stdout came with CRC-32 \d+, sent was \d+; nothing came that was no frame"),
        (damaged, r"of 8206 B of stdout 8194 B came; 58 B came that were no frame, the last b'vtG1.*soft lockup"),
    ],
)
def test_output_that_the_channel_loses_fails_the_program_with_the_figures(
    tmp_path: Path, how: Callable[[list[bytes]], bytes], lost: str
) -> None:
    def answer(frame: Frame) -> bytes:
        if frame.kind is not Kind.START:
            return b""
        whole = exited(frame.job, 0, stdout=b"".join(DOCUMENT), stderr=b"ready\n")
        pieces = how([encode(Kind.STDOUT, frame.job, piece) for piece in DOCUMENT])
        begin = [say(Kind.ANSWER, frame.job, {"pid": 1}), Frame(Kind.STDERR, frame.job, b"ready\n")]
        return on_the_line(begin) + pieces + on_the_line([whole])

    with guest(answer) as agent:
        child = agent.start(["measure"], directory=tmp_path, stdout=tmp_path / "o", stderr=tmp_path / "e")
        assert child.wait(30) == OUTPUT_LOST
        said = (tmp_path / "e").read_text().splitlines()
        assert said[0] == "ready"
        words = f"vtare: guest g: output is lost: {lost}.*; the program itself had ended with 0"
        assert re.fullmatch(words, said[1]), said
        # The channel itself goes on.
        assert agent.lost is None


@pytest.mark.parametrize("figures", [None, 3, {"byte": 0}])
def test_an_agent_that_does_not_count_is_not_believed(tmp_path: Path, figures: object) -> None:
    def answer(frame: Frame) -> list[Frame]:
        end = {"code": 0, "signal": None, "stdout": figures}
        return [say(Kind.ANSWER, frame.job, {"pid": 1}), say(Kind.EXITED, frame.job, end)]

    with guest(answer) as agent:
        child = agent.start(["measure"], directory=tmp_path, stdout=tmp_path / "o", stderr=tmp_path / "e")
        assert child.wait(30) == OUTPUT_LOST
        assert "of stdout, not byte and crc32" in (tmp_path / "e").read_text()


def test_output_that_cannot_be_kept_is_no_success(tmp_path: Path) -> None:
    output = Output(Path("/dev/full"), tmp_path / "e")
    output.keep(Kind.STDOUT, b"x")
    assert "No space left on device" in str(output.lost({}))
    output.close()
    unread = Output(tmp_path / "o", tmp_path / "e")
    nothing = {"byte": 0, "crc32": 0, "error": None}
    assert unread.lost({"stdout": nothing, "stderr": nothing}) is None
    failed = {**nothing, "error": "no more"}
    assert unread.lost({"stdout": failed, "stderr": nothing}) == "its agent could not read stdout behind 0 B: no more"
    unread.close()
    closed = Output(tmp_path / "o", tmp_path / "e")
    closed.close()
    closed.keep(Kind.STDOUT, b"x")
    assert "cannot be kept" in str(closed.lost({}))


def test_a_guest_that_dies_ends_its_programs_and_their_log_states_why(tmp_path: Path) -> None:
    def answer(frame: Frame) -> list[Frame]:
        return [say(Kind.ANSWER, frame.job, {"pid": 1})] if frame.kind is Kind.START else []

    with guest(answer) as agent:
        child = agent.start(["serve"], directory=tmp_path, stdout=tmp_path / "o", stderr=tmp_path / "e")
        assert child.returncode is None
        agent.end()
        assert child.wait(30) == -signal.SIGKILL
        assert "guest g: its control channel is closed; the kernel panicked" in (tmp_path / "e").read_text()
        with pytest.raises(GuestFailed, match="the kernel panicked"):
            agent.facts()
        with pytest.raises(GuestFailed, match="the kernel panicked"):
            agent.start(["serve"], directory=tmp_path, stdout=tmp_path / "o", stderr=tmp_path / "e")


def test_a_guest_that_hangs_costs_the_time_limit_and_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = threading.Event()

    def answer(frame: Frame) -> list[Frame]:
        return [] if silent.is_set() else [say(Kind.ANSWER, frame.job, {"pid": 1})]

    with guest(answer) as agent:
        child = agent.start(["serve"], directory=tmp_path, stdout=tmp_path / "o", stderr=tmp_path / "e")
        silent.set()
        monkeypatch.setattr(request_module, "ANSWER_S", 0.2)
        monkeypatch.setattr(child_module, "_KILL_S", 0.2)
        with pytest.raises(GuestFailed, match=r"no answer within .* the kernel panicked"):
            agent.facts()
        assert child.terminate(0.1) == -signal.SIGKILL
        assert agent.lost == "did not kill a program within 0 s"


def test_what_the_guest_refuses_or_states_wrongly_is_an_error_with_its_words(tmp_path: Path) -> None:
    def answer(frame: Frame) -> list[Frame]:
        match frame.kind:
            case Kind.START | Kind.WHOLE:
                return [say(Kind.FAILED, frame.job, {"error": "no room"})]
            case _:
                return []

    with guest(answer) as agent:
        with pytest.raises(GuestFailed, match="guest g: no room"):
            agent.put(tmp_path / "x", b"y" * 100_000)
        with pytest.raises(GuestFailed, match="guest g: no room"):
            agent.start(["load"], directory=tmp_path, stdout=tmp_path / "o", stderr=tmp_path / "e")


def test_a_file_of_which_a_piece_is_missing_does_not_appear(tmp_path: Path) -> None:
    def answer(frame: Frame) -> list[Frame]:
        return [Frame(Kind.DATA, frame.job, b"123"), say(Kind.WHOLE, frame.job, {"byte": 4})]

    with guest(answer) as agent, Incoming(tmp_path, "x", 10, "guest g") as incoming:
        with pytest.raises(GuestFailed, match="3 B came, its agent sent 4 B"):
            agent.get(tmp_path / "x", incoming)
        assert agent.lost is not None
    assert list(tmp_path.iterdir()) == []


def test_files_go_in_when_they_are_new_and_only_those_that_are_expected_come_back(tmp_path: Path) -> None:
    inside: dict[str, bytes] = {"samples.parquet": b"PAR1"}
    on_the_way: dict[int, str] = {}
    puts: list[str] = []

    def answer(frame: Frame) -> list[Frame]:
        job = frame.job
        match frame.kind:
            case Kind.PUT:
                on_the_way[job] = Path(json.loads(frame.payload)["path"]).name
                inside[on_the_way[job]] = b""
                return []
            case Kind.DATA:
                inside[on_the_way[job]] += frame.payload
                return []
            case Kind.WHOLE:
                puts.append(on_the_way[job])
                return [say(Kind.ANSWER, job, {})]
            case Kind.START:
                return [say(Kind.ANSWER, job, {}), exited(job, 0)]
            case Kind.GET:
                content = inside[Path(json.loads(frame.payload)["path"]).name]
                return [Frame(Kind.DATA, job, content), say(Kind.WHOLE, job, {"byte": len(content)})]
            case _:
                return []

    (tmp_path / "run.json").write_bytes(b"{}")
    with guest(answer) as agent:
        files = GuestFiles(agent)
        for _ in range(2):
            child = files.start(["measure"], directory=tmp_path, stdout=tmp_path / "log", stderr=tmp_path / "log")
            assert child.wait(30) == 0
        (tmp_path / "key").write_bytes(b"k")
        files.start(["serve"], directory=tmp_path, stdout=tmp_path / "log", stderr=tmp_path / "log").wait(30)
        assert puts == ["run.json", "key"]
        (tmp_path / "key").unlink()
        files.fetch(tmp_path, {"samples.parquet": 4})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "run.json", "samples.parquet"]
    assert (tmp_path / "samples.parquet").read_bytes() == b"PAR1"


def test_a_guest_is_ready_when_its_kernel_stays_with_its_clock_source() -> None:
    said = iter(["tsc-early", "tsc-early", "tsc"])

    def answer(frame: Frame) -> list[Frame]:
        return [say(Kind.ANSWER, frame.job, {"clock_source": next(said, "tsc")})] if frame.kind is Kind.FACTS else []

    with guest(answer) as agent:
        assert settled_facts(agent, "g", None)["clock_source"] == "tsc"


def test_guests_come_up_four_at_a_time_and_in_order() -> None:
    seen: list[str] = []

    def create(number: int) -> Any:
        seen.append(f"create {number}")
        return number

    def ready(guest: Any) -> int:
        seen.append(f"ready {guest}")
        return int(guest) * 10

    assert start_in_turn(range(6), create, ready) == [0, 10, 20, 30, 40, 50]
    first = [f"{what} {n}" for what in ("create", "ready") for n in range(4)]
    assert seen == [*first, "create 4", "create 5", "ready 4", "ready 5"]


def test_a_program_that_ends_before_its_socket_is_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(GuestFailed, match="QEMU ended with exit code 1"):
        connect(tmp_path / "none", 30, lambda: "QEMU ended with exit code 1")
