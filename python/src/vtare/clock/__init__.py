"""vtare's clock and sleeps for Python, over the C library `libvtare_clock`.

All times are whole nanoseconds on CLOCK_MONOTONIC, so they compare with `time.monotonic_ns()` and with readings of
other processes. The library is loaded at the first call; `LibraryMissing` lists where it was looked for.

    >>> from vtare import clock
    >>> deadline = clock.now_ns() + 250_000
    >>> clock.sleep_until_ns(deadline)
    >>> clock.now_ns() >= deadline
    True

A reading costs what a call through cffi costs (see docs/guide/clock-library.md), most of it outside the clock. Sleeps
let other Python threads run, also while they spin.
"""

from __future__ import annotations

import errno
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal

from vtare.clock._library import LIBRARY_VARIABLE, LibraryMissing, ffi, lib
from vtare.errors import BadInput, VtareError, bad_value, instead_of

__all__ = [
    "LIBRARY_VARIABLE",
    "SLEEP_POLICIES",
    "UTC_STATUSES",
    "BadValue",
    "Checked",
    "ClockError",
    "ClockInfo",
    "LibraryMissing",
    "SleepOptions",
    "SleepResult",
    "Ticker",
    "UtcConfirmed",
    "UtcInterval",
    "info",
    "last_sleep",
    "now_checked",
    "now_ns",
    "now_ordered_ns",
    "now_utc_confirmed",
    "now_utc_interval",
    "set_sleep_options",
    "set_sleep_policy",
    "sleep_ns",
    "sleep_options",
    "sleep_policy",
    "sleep_until_ns",
    "start",
    "tick",
    "tick_start",
    "tick_stop",
    "ticker",
    "ticks_to_ns",
    "witness",
]

SLEEP_POLICIES: Final = (
    "adaptive",
    "clock_nanosleep",
    "two_phase",
    "two_phase_capped",
    "spin",
    "usleep",
    "cheap",
    "never_early",
)
"""The ways to sleep, by name; `os` is another name of `clock_nanosleep`. Their meaning: docs/guide/clock-library.md."""

UTC_STATUSES: Final = ("synchronized", "free_running", "disrupted", "unknown")
"""What an interval of UTC is worth. The first two state that UTC lies in it: docs/methods/clock-contract.md."""

_MOST_NS: Final = 2**64 - 1
_PATHS: Final[tuple[Literal["kernel_page", "line", "vdso"], ...]] = ("kernel_page", "line", "vdso")
_SOURCES: Final = {"auto": 0, "os": 1}


class ClockError(VtareError, OSError):
    """The library refused a call. `errno` is its code, the message its sentence."""


class BadValue(BadInput, ValueError):
    """An argument that cannot be used: the message has the value and what to use instead."""


@dataclass(frozen=True, slots=True)
class ClockInfo:
    """Where the clock's time comes from and how far it can be off. A figure that is not known is None.

    Attributes:
        source: `tsc`, `cntvct`, or `os` (the kernel's clock).
        path: How readings are made: with the kernel's own time page (`kernel_page`), by a calibrated line that follows
            the kernel's clock (`line`), or by the kernel itself (`vdso`).
        trusted: Whether readings come from the counter.
        reason: The decisive reason for that, in words.
        error_bound_ns: The greatest difference of an ordered reading from CLOCK_MONOTONIC at this moment, in ns.
        read_cost_ns: The cost of one reading inside the library, in ns, without the call from Python.
        quantum_ns: The smallest step of the counter, in ns.
        frequency_hz: The counter's frequency.
        rate_error_ppm: The bound on its error against CLOCK_MONOTONIC_RAW; 0 where the kernel's multiplier is known.
        calibration_ns: How long calibration took, in ns.
        anchor_age_ns: Time since the last comparison with the kernel's clock, in ns (path `line`).
        anchor_error_ns: What it found: the kernel's clock minus this one, in ns (path `line`).
        anchor_half_width_ns: Half of the range that it leaves, in ns (path `line`).
        cross_core_ns: The least and the greatest offset between the counters of two CPUs, in ns (thorough start).
        events: How often each thing happened since the start; only those that did.
        library_version: The version of vtare that the library is from.
    """

    source: str
    path: Literal["kernel_page", "line", "vdso"]
    trusted: bool
    reason: str
    error_bound_ns: float
    read_cost_ns: float | None
    quantum_ns: float | None
    frequency_hz: float | None
    rate_error_ppm: float | None
    calibration_ns: float | None
    anchor_age_ns: float | None
    anchor_error_ns: float | None
    anchor_half_width_ns: float | None
    cross_core_ns: tuple[float, float] | None
    events: dict[str, int]
    library_version: str


@dataclass(frozen=True, slots=True)
class Checked:
    """A reading and the generation it belongs to: between two readings of one generation no disruption was seen.

    Attributes:
        at_ns: As `now_ns`.
        generation: Grows before the first reading after a disruption of 1 ms and more returns; 0 while another thread
            starts the clock.
    """

    at_ns: int
    generation: int


@dataclass(frozen=True, slots=True)
class UtcInterval:
    """UTC, if `status` is `synchronized` or `free_running`, lies between the two.

    Attributes:
        earliest_ns: UTC is no earlier, in ns since 1970.
        latest_ns: And no later; 2**64 - 1 where there is no interval.
        status: What that is worth, one of `UTC_STATUSES`.
        generation: As of `Checked`.
    """

    earliest_ns: int
    latest_ns: int
    status: str
    generation: int


@dataclass(frozen=True, slots=True)
class UtcConfirmed:
    """UTC as witnesses confirm it: it was in the interval at an instant between the call and the return.

    Attributes:
        earliest_ns: No later than UTC at the return, in ns since 1970.
        latest_ns: No earlier than UTC at the call.
        hosts: Hosts whose statements count.
        liars: How many of them may be wrong.
        same_host: Witnesses that do not count: on a host with another one, or on this machine.
        stoppable: Hosts that can be stopped without seeing it.
        round_trip_ns: How long the call took.
        generation: As of `now_checked`, at the return.
    """

    earliest_ns: int
    latest_ns: int
    hosts: int
    liars: int
    same_host: int
    stoppable: int
    round_trip_ns: int
    generation: int


@dataclass(frozen=True, slots=True)
class SleepResult:
    """How a sleep ended.

    Attributes:
        deadline_ns: The time at which it was to end.
        miss_ns: Actual minus planned end, in ns; negative where a signal ended it early.
        spin_ns: Time spent spinning, in ns.
        disturbed: The CPU was taken away while spinning, or the guard against a crowded machine held spinning back.
        interrupted: A signal handler ended it.
        policy: How it slept, one of `SLEEP_POLICIES`.
    """

    deadline_ns: int
    miss_ns: int
    spin_ns: int
    disturbed: bool
    interrupted: bool
    policy: str


@dataclass(frozen=True, slots=True)
class SleepOptions:
    """How a thread sleeps in detail. All but `fifo_priority` are for the policies that learn.

    Attributes:
        cpu_price_ns: It spins 1 us more where that raises the share of sleeps on time by 1 us / price.
        tolerance_ns: A miss up to this is as good as none.
        slack_ns: Timer slack in the kernel, put back at wake-up; None leaves the thread's own.
        slice_ns: Time slice asked of the scheduler, 100_000 to 100_000_000; None leaves the thread's own.
        fifo_priority: SCHED_FIFO, 1 to 99, from the next sleep on, for the thread's work too; None leaves it as it is.
        refused: What the system did not allow, of `slice` and `fifo`; known after the first sleep with these options.
        cpu_share: For the cheap policy: the share of a CPU that sleeping may take, 1e-6 to 1, in steps of 1e-6.
    """

    cpu_price_ns: int = 2_000_000
    tolerance_ns: int = 0
    slack_ns: int | None = 1
    slice_ns: int | None = 100_000
    fifo_priority: int | None = None
    refused: tuple[str, ...] = ()
    cpu_share: float = 0.01


def now_ns() -> int:
    """CLOCK_MONOTONIC in ns, read from the counter. The CPU may move the reading by some ten nanoseconds either way."""
    return lib.vtare_now_ns()  # type: ignore[no-any-return]


def now_ordered_ns() -> int:
    """CLOCK_MONOTONIC in ns; a reading that happened later, in whichever thread, is never the smaller."""
    return lib.vtare_now_ordered_ns()  # type: ignore[no-any-return]


def now_checked() -> Checked:
    """The clock now, and the generation of the reading."""
    generation = ffi.new("uint64_t *")
    return Checked(at_ns=lib.vtare_now_checked(generation), generation=generation[0])


def now_utc_interval() -> UtcInterval:
    """UTC now, as an interval.

    Raises:
        ClockError: The library is older than this package.
    """
    interval = _read("vtare_utc_interval", lib.vtare_now_utc_interval)
    return UtcInterval(
        earliest_ns=interval.earliest_ns,
        latest_ns=interval.latest_ns,
        status=UTC_STATUSES[interval.status],
        generation=interval.generation,
    )


def witness(witnesses: str, key_file: str | None = None) -> None:
    """Name the witnesses of this process, hosts that run `vtare serve`: "HOST:PORT,HOST:PORT,HOST:PORT".

    Without this call they come from VTARE_WITNESSES and VTARE_KEY; without `key_file` the key comes from VTARE_KEY.

    Raises:
        ClockError: No witness, no address or no key.
    """
    if lib.vtare_clock_witness(witnesses.encode(), ffi.NULL if key_file is None else key_file.encode()) != 0:
        raise _failure()


def now_utc_confirmed() -> UtcConfirmed:
    """UTC as witnesses confirm it, in one round trip: right whatever happened to this machine before.

    Raises:
        ClockError: No witnesses (EINVAL), too few that stated UTC (ETIMEDOUT), or they contradict each other (EAGAIN).
    """
    confirmed = _read("vtare_utc_confirmed", lib.vtare_now_utc_confirmed)
    names = ("earliest_ns", "latest_ns", "hosts", "liars", "same_host", "stoppable", "round_trip_ns", "generation")
    return UtcConfirmed(**{name: getattr(confirmed, name) for name in names})


def tick() -> int:
    """The bare counter, in its own ticks; of the kernel's clock (1 ns) where user code may not read the counter."""
    return lib.vtare_tick()  # type: ignore[no-any-return]


def tick_start() -> int:
    """The counter at the start of timed work: earlier work is done, the timed work has not begun."""
    return lib.vtare_tick_start()  # type: ignore[no-any-return]


def tick_stop() -> int:
    """The counter at the end of timed work: the timed work is done, later work has not begun."""
    return lib.vtare_tick_stop()  # type: ignore[no-any-return]


def ticks_to_ns(ticks: int) -> int:
    """A difference of ticks in ns, rounded down: `ticks_to_ns(tick_stop() - tick_start())`.

    Raises:
        BadValue: The difference does not fit 64 bits.
        ClockError: The counter could not be calibrated.
    """
    if not -(2**63) <= ticks < 2**63:
        raise BadValue(f"a difference of {ticks} ticks is too large: use one that fits a signed 64-bit number")
    nanoseconds = int(lib.vtare_ticks_to_ns(ticks))
    if nanoseconds == -(2**63):
        raise _failure()
    return nanoseconds


def sleep_ns(span_ns: int) -> None:
    """Sleep for `span_ns` from now; never less, and through signals, whose Python handlers run (as `time.sleep` does).

    Raises:
        BadValue: The span is negative or does not fit 64 bits.
        ClockError: The kernel or the heap refused.
    """
    _checked("sleep_ns", span_ns)
    _through_signals(lib.vtare_sleep_until_ns, min(now_ns() + span_ns, _MOST_NS))


def sleep_until_ns(deadline_ns: int) -> None:
    """Sleep until `now_ns()` shows `deadline_ns`; return at once where that has passed.

    Raises:
        BadValue: The deadline is negative or does not fit 64 bits.
        ClockError: The kernel or the heap refused.
    """
    _checked("sleep_until_ns", deadline_ns)
    _through_signals(lib.vtare_sleep_until_ns, deadline_ns)


def set_sleep_policy(name: str) -> None:
    """Set how this thread sleeps from now on, by one of `SLEEP_POLICIES`; what its sleeper has learned is dropped.

    Raises:
        BadValue: There is no such policy.
        ClockError: The heap refused.
    """
    if name not in (*SLEEP_POLICIES, "os"):
        raise BadValue(f"unknown sleep policy {name!r}{instead_of(name, SLEEP_POLICIES)}")
    if lib.vtare_set_sleep_policy_name(name.encode()) != 0:
        raise _failure()


def sleep_policy() -> str:
    """How this thread sleeps."""
    return _policy_name(lib.vtare_get_sleep_policy())


def sleep_options() -> SleepOptions:
    """This thread's options for its sleeps."""
    options = _sleep_options()
    return SleepOptions(
        cpu_price_ns=options.cpu_price_ns,
        tolerance_ns=options.tolerance_ns,
        slack_ns=options.slack_ns or None,
        slice_ns=options.slice_ns or None,
        fifo_priority=options.fifo_priority or None,
        refused=tuple(name for name in ("slice", "fifo") if getattr(options, f"{name}_refused")),
        cpu_share=options.cpu_share_ppm / 1e6,
    )


def set_sleep_options(options: SleepOptions) -> None:
    """Set this thread's options for its sleeps; what its sleeper has learned is dropped.

    `dataclasses.replace(sleep_options(), cpu_price_ns=500_000)` changes one of them.

    Raises:
        BadValue: A value is out of range; nothing is changed.
    """
    for name in ("cpu_price_ns", "tolerance_ns", "slack_ns", "slice_ns", "fifo_priority"):
        _checked(name, getattr(options, name) or 0, most=2**32 - 1 if name == "fifo_priority" else _MOST_NS)
    if not 1e-6 <= options.cpu_share <= 1:
        raise BadValue(f"cpu_share {bad_value(options.cpu_share, '1e-6 to 1')}")
    wanted = _sleep_options()
    wanted.cpu_share_ppm = round(options.cpu_share * 1e6)
    wanted.cpu_price_ns = options.cpu_price_ns
    wanted.tolerance_ns = options.tolerance_ns
    wanted.slack_ns = options.slack_ns or 0
    wanted.slice_ns = options.slice_ns or 0
    wanted.fifo_priority = options.fifo_priority or 0
    if lib.vtare_set_sleep_options(wanted) != 0:
        raise BadValue(_message())


def last_sleep() -> SleepResult:
    """How this thread's last sleep ended.

    Raises:
        ClockError: It has not slept through vtare yet.
    """
    result = _read("vtare_sleep_result", lib.vtare_last_sleep)
    return SleepResult(
        deadline_ns=result.deadline_ns,
        miss_ns=result.miss_ns,
        spin_ns=result.spin_ns,
        disturbed=bool(result.disturbed),
        interrupted=bool(result.interrupted),
        policy=_policy_name(result.policy),
    )


def start(*, source: Literal["auto", "os"] = "auto", thorough: bool = False) -> None:
    """Start the clock now, instead of at first use, with options of its own.

    Args:
        source: `auto` for the counter where it can be trusted, `os` for the kernel's clock.
        thorough: Calibrate against the kernel and test the CPUs' counters against each other (tens of ms).

    Raises:
        BadValue: There is no such source.
        ClockError: The clock runs already (`errno` EALREADY): its options are fixed.
    """
    if source not in _SOURCES:
        raise BadValue(f"unknown clock source {source!r}: choose one of {', '.join(_SOURCES)}")
    options = _sized("vtare_clock_options")
    options.source = _SOURCES[source]
    options.thorough = thorough
    if lib.vtare_clock_start(options) != 0:
        raise _failure()


def info() -> ClockInfo:
    """Where the clock's time comes from, how far it can be off, and why.

    Raises:
        ClockError: The library refused, which it does only where it does not fit this package.
    """
    facts = _read("vtare_clock_info", lib.vtare_clock_info)
    low, high = _known(facts.cross_core_low_ns), _known(facts.cross_core_high_ns)
    events = {
        name.removeprefix("events_"): int(getattr(facts, name)) for name in dir(facts) if name.startswith("events_")
    }
    return ClockInfo(
        source=_text(facts.source),
        path=_PATHS[facts.path],
        trusted=bool(facts.trusted),
        reason=_text(facts.reason),
        error_bound_ns=float(facts.error_bound_ns),
        read_cost_ns=_known(facts.read_cost_ns),
        quantum_ns=_known(facts.quantum_ns),
        frequency_hz=_known(facts.frequency_hz),
        rate_error_ppm=_known(facts.rate_error_ppm),
        calibration_ns=_known(facts.calibration_ns),
        anchor_age_ns=_known(facts.anchor_age_ns),
        anchor_error_ns=_known(facts.anchor_error_ns),
        anchor_half_width_ns=_known(facts.anchor_half_width_ns),
        cross_core_ns=None if low is None or high is None else (low, high),
        events={name: count for name, count in events.items() if count},
        library_version=_text(lib.vtare_clock_version()),
    )


class Ticker:
    """Deadlines at a fixed distance, without drift. Iterating waits for one after the other and gives what was missed.

    >>> beat = Ticker(100_000)
    >>> for _, missed in zip(range(3), beat):
    ...     pass
    >>> beat.ticks >= 3
    True
    """

    def __init__(self, period_ns: int) -> None:
        """Begin; the first deadline lies one period ahead.

        Raises:
            BadValue: The period is not from 1 to 2**64 - 1 ns.
        """
        _checked("period_ns", period_ns, least=1)
        self._ticker: Any = ffi.new("struct vtare_ticker *")
        if lib.vtare_ticker_init(self._ticker, period_ns) != 0:
            raise _failure()

    def wait(self) -> int:
        """Sleep until the next deadline, through signals.

        Returns:
            How many deadlines have passed unseen since the last wait: 0 where the caller is on time.
        """
        before = int(self._ticker.missed)
        _through_signals(lib.vtare_ticker_wait, self._ticker)
        return int(self._ticker.missed) - before

    def __iter__(self) -> Iterator[int]:
        """The ticker itself."""
        return self

    def __next__(self) -> int:
        """Same as `wait`; a ticker does not end."""
        return self.wait()

    @property
    def period_ns(self) -> int:
        """Between two deadlines."""
        return int(self._ticker.period_ns)

    @property
    def next_ns(self) -> int:
        """The next deadline."""
        return int(self._ticker.next_ns)

    @property
    def ticks(self) -> int:
        """Deadlines passed so far, waited for or missed."""
        return int(self._ticker.ticks)

    @property
    def missed(self) -> int:
        """How many of these passed before anybody waited for them."""
        return int(self._ticker.missed)


def ticker(period_ns: int) -> Ticker:
    """Begin a `Ticker` of `period_ns`."""
    return Ticker(period_ns)


def _checked(name: str, value: int, least: int = 0, most: int = _MOST_NS) -> None:
    if not least <= value <= most:
        raise BadValue(f"{name} {bad_value(value, f'{least} to {most}')}")


def _sleep_options() -> Any:
    return _read("vtare_sleep_options", lib.vtare_get_sleep_options)


def _sized(struct: str) -> Any:
    """A struct of the library that states its own size: the library fills no more than that."""
    made: Any = ffi.new(f"struct {struct} *")
    made.size = ffi.sizeof(f"struct {struct}")
    return made


def _read(struct: str, call: Callable[[Any], int]) -> Any:
    """What the library fills such a struct with."""
    filled = _sized(struct)
    if call(filled) != 0:
        raise _failure()
    return filled


def _through_signals(call: Callable[[Any], int], argument: Any) -> None:
    # Python's own handlers run between two turns; where one raises, the sleep ends with that.
    while call(argument) != 0:
        if ffi.errno != errno.EINTR:
            raise _failure()


def _failure() -> ClockError:
    return ClockError(ffi.errno, _message())


def _message() -> str:
    return _text(lib.vtare_error_message())


def _text(characters: Any) -> str:
    text = ffi.string(characters)
    assert isinstance(text, bytes)
    return text.decode(errors="replace")


def _known(figure: float) -> float | None:
    return None if math.isnan(figure) else float(figure)


def _policy_name(policy: int) -> str:
    return _text(lib.vtare_sleep_policy_name(policy))
