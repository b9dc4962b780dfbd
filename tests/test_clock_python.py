"""vtare.clock: the library found and called from Python."""

from __future__ import annotations

import errno
import json
import os
import signal
import threading
import time
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from native import Installed, need, run
from witnesses import kept_page, witnesses

from vtare import clock
from vtare.clock import _library
from vtare.errors import VtareError
from vtare.watch.utc_page import kept_utc


@pytest.fixture(scope="module")
def library(installed: Installed) -> Installed:
    """The installed library, the one that vtare.clock loads from now on."""
    os.environ[clock.LIBRARY_VARIABLE] = str(installed.library)
    return installed


def test_a_library_that_is_not_there_is_named_with_the_ways_out(tmp_path: Path) -> None:
    lacking = tmp_path / "libvtare_clock.so"
    with pytest.raises(clock.LibraryMissing) as caught:
        _library.open_library(str(lacking))
    text = str(caught.value)
    assert f"VTARE_CLOCK_LIBRARY={lacking}" in text
    assert "make install" in text
    assert isinstance(caught.value, ImportError)
    assert isinstance(caught.value, VtareError)


def test_without_a_choice_the_package_is_looked_at_first_and_then_the_dynamic_linker(tmp_path: Path) -> None:
    with pytest.raises(clock.LibraryMissing, match=r"libvtare_clock\.so\.1, asked of the dynamic linker since .*none"):
        _library.open_library(None, packaged=tmp_path / "none")
    broken = tmp_path / "libvtare_clock.so"
    broken.write_bytes(b"no library")
    with pytest.raises(clock.LibraryMissing, match="cannot load"):
        _library.open_library(None, packaged=broken)


def test_a_library_that_is_another_one_is_refused(tmp_path: Path) -> None:
    compiler = need("gcc", "gcc")
    for text, complaint in (
        ("unsigned vtare_clock_abi_version(void) { return 9; }", "interface 9, not 1"),
        ("", "cannot load"),
    ):
        source, built = tmp_path / "other.c", tmp_path / f"{len(text)}.so"
        source.write_text(text + "\n", encoding="utf-8")
        assert run([compiler, "-shared", "-fPIC", str(source), "-o", str(built)]).returncode == 0
        with pytest.raises(clock.LibraryMissing, match=complaint):
            _library.open_library(str(built))


@given(st.integers(max_value=-1) | st.integers(min_value=2**64))
def test_a_time_that_does_not_fit_is_refused_before_the_library_is_asked(nanoseconds: int) -> None:
    for call in (clock.sleep_ns, clock.sleep_until_ns, clock.Ticker):
        with pytest.raises(clock.BadValue, match=str(nanoseconds)):
            call(nanoseconds)


def test_an_unknown_policy_or_source_is_refused_with_the_choices() -> None:
    with pytest.raises(clock.BadValue, match=r"'spim'. Did you mean 'spin'\? Use one of: adaptive"):
        clock.set_sleep_policy("spim")
    with pytest.raises(ValueError, match="'hpet': choose one of auto, os"):
        clock.start(source="hpet")  # type: ignore[arg-type]
    with pytest.raises(clock.BadValue, match="period_ns is 0: use 1"):
        clock.ticker(0)


@pytest.mark.e2e
@pytest.mark.usefixtures("library")
class TestWithTheLibrary:
    """What needs the library itself."""

    def test_readings_lie_between_the_systems_before_and_after_within_the_stated_error(self) -> None:
        for read in (clock.now_ordered_ns, clock.now_ns):
            for _ in range(1000):
                before = time.monotonic_ns()
                ours = read()
                after = time.monotonic_ns()
                bound = clock.info().error_bound_ns + 50 * (read is clock.now_ns)
                assert before - bound <= ours <= after + bound

    def test_info_is_frozen_and_does_not_turn_the_unknown_into_zero(self) -> None:
        info = clock.info()
        assert info.source in ("tsc", "cntvct", "os")
        assert info.trusted == (info.path != "vdso")
        assert info.reason
        assert info.cross_core_ns is None
        assert (info.anchor_age_ns is None) == (info.path != "line")
        assert set(info.events) <= {
            "suspended",
            "migrated",
            "clock_source_changed",
            "seated",
            "rate_broken",
            "given_up",
            "rate_contradicted",
        }
        with pytest.raises(FrozenInstanceError):
            info.source = "other"  # type: ignore[misc]

    @pytest.mark.parametrize("policy", [*clock.SLEEP_POLICIES, "os"])
    def test_no_policy_wakes_early_and_each_leaves_its_result(self, policy: str) -> None:
        clock.set_sleep_policy(policy)
        deadline = clock.now_ns() + 200_000
        clock.sleep_until_ns(deadline)
        assert clock.now_ordered_ns() >= deadline
        slept = clock.last_sleep()
        assert slept.deadline_ns == deadline
        assert slept.miss_ns >= 0
        assert slept.policy == clock.sleep_policy() == ("clock_nanosleep" if policy == "os" else policy)
        assert not slept.interrupted

    def test_options_are_changed_one_by_one_and_wrong_ones_refused(self) -> None:
        usual = clock.sleep_options()
        try:
            clock.set_sleep_options(replace(usual, cpu_price_ns=500_000, slice_ns=None))
            assert clock.sleep_options() == replace(usual, cpu_price_ns=500_000, slice_ns=None)
            for wrong, complaint in (
                (replace(usual, cpu_price_ns=0), "cpu_price_ns is 0: use 1"),
                (replace(usual, cpu_share=0.0), "cpu_share is 0.0: use 1e-6 to 1"),
                (replace(usual, slice_ns=5), "slice_ns is 5: use 0"),
                (replace(usual, fifo_priority=100), "fifo_priority is 100"),
                (replace(usual, slack_ns=-1), "slack_ns is -1"),
            ):
                with pytest.raises(clock.BadValue, match=complaint):
                    clock.set_sleep_options(wrong)
            assert clock.sleep_options().cpu_price_ns == 500_000
        finally:
            clock.set_sleep_options(usual)
        assert usual == clock.SleepOptions()

    def test_a_thread_has_its_own_policy_and_no_result_before_its_first_sleep(self) -> None:
        clock.set_sleep_policy("spin")
        found: list[object] = []

        def other() -> None:
            found.append(clock.sleep_policy())
            try:
                clock.last_sleep()
            except clock.ClockError as error:
                found.append(error.errno)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert found == ["adaptive", errno.ENODATA]
        assert clock.sleep_policy() == "spin"

    def test_a_sleep_lets_handlers_run_and_goes_on_to_its_end(self) -> None:
        ran: list[int] = []
        before = signal.signal(signal.SIGALRM, lambda number, _: ran.append(number))
        try:
            clock.set_sleep_policy("os")
            signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
            deadline = clock.now_ns() + 30_000_000
            clock.sleep_until_ns(deadline)
            assert clock.now_ordered_ns() >= deadline
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert ran

    def test_a_handler_that_raises_ends_the_sleep(self) -> None:
        def stop(*_: object) -> None:
            raise InterruptedError("enough")

        before = signal.signal(signal.SIGALRM, stop)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.005)
            with pytest.raises(InterruptedError, match="enough"):
                clock.sleep_ns(3600 * 10**9)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def test_a_child_reads_and_sleeps_on(self) -> None:
        before = clock.now_ordered_ns()
        child = os.fork()
        if child == 0:
            fine = clock.now_ordered_ns() >= before
            clock.sleep_ns(100_000)
            os._exit(0 if fine else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

    def test_a_ticker_keeps_to_its_grid_and_counts_what_was_missed(self) -> None:
        beat = clock.ticker(150_000)
        grid = beat.next_ns
        for turn, missed in zip(range(5), beat, strict=False):
            assert missed >= 0
            assert (beat.next_ns - grid) % beat.period_ns == 0
            assert beat.ticks == turn + 1 + beat.missed
        late = beat.next_ns + 10 * beat.period_ns
        clock.sleep_until_ns(late)
        assert beat.wait() >= 10

    def test_ticks_become_nanoseconds(self) -> None:
        start = clock.tick_start()
        stop = clock.tick_stop()
        assert clock.ticks_to_ns(stop - start) >= 0
        assert clock.ticks_to_ns(-(10**9)) < 0 < clock.ticks_to_ns(10**9)
        with pytest.raises(clock.BadValue, match="64-bit"):
            clock.ticks_to_ns(2**63)

    def test_checked_readings_share_a_generation_and_utc_lies_between_its_ends(self) -> None:
        first = clock.now_checked()
        second = clock.now_checked()
        assert first.generation >= 1
        assert second.generation > first.generation or second.at_ns >= first.at_ns
        utc = clock.now_utc_interval()
        assert utc.status in clock.UTC_STATUSES
        assert utc.earliest_ns <= utc.latest_ns
        assert utc.generation >= first.generation

    def test_a_clock_that_runs_takes_no_other_options(self) -> None:
        clock.now_ns()
        with pytest.raises(clock.ClockError, match="runs already") as caught:
            clock.start(source="os")
        assert caught.value.errno == errno.EALREADY


@pytest.mark.e2e
def test_the_page_of_vtare_clock_is_what_watch_shows_of_utc(vtare: Path, tmp_path: Path) -> None:
    page = tmp_path / "utc"
    with witnesses(0, 0, -3_600_000_000_000) as addresses, kept_page(vtare, addresses, page):
        until_s = time.monotonic() + 30
        while (kept := kept_utc(page)) is None or kept.status != "synchronized":
            assert time.monotonic() < until_s, kept
            time.sleep(0.02)
    assert (kept.hosts, kept.liars) == (3, 1)
    # The witnesses state 2 ms; a round trip on loopback is short, or the page would not be vouched for.
    assert kept.width_s is not None
    assert 0.002 < kept.width_s < 0.2
    later = kept_utc(page, time.monotonic_ns() + 10**9)
    assert later is not None
    assert (later.status, later.width_s, later.hosts) == ("unknown", None, None), "nobody keeps it any more"


@pytest.mark.e2e
@pytest.mark.parametrize(("ahead_s", "right"), [(0, True), (3600, False), (-3600, False)])
def test_check_says_whether_utc_is_right_here_and_by_how_much(vtare: Path, ahead_s: int, right: bool) -> None:
    # Two witnesses agree with each other, and here the clock is ahead of them or behind.
    with witnesses(-ahead_s * 10**9, -ahead_s * 10**9, 5 * 10**12) as addresses:
        done = run([str(vtare), "check", "--seconds", "5", "--json", "--witness", addresses])
    assert done.returncode == 0, done.stderr
    utc = json.loads(done.stdout)["utc"]
    assert (utc["right"], utc["hosts"], utc["liars"]) == (right, 3, 1)
    least_ns, most_ns = utc["ahead_least_ns"], utc["ahead_most_ns"]
    # The witnesses state 2 ms; the greatest offset also has the round trip.
    assert least_ns <= ahead_s * 10**9 <= most_ns
    assert most_ns - least_ns <= 3e6 + 2 * utc["round_trip_ns"] + 1e8
    words = {0: "UTC is right here to", 3600: "at least 3600 s ahead.", -3600: "at least 3600 s behind."}
    assert words[ahead_s] in utc["text"]
