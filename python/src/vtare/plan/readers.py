"""Readers of levels: what a plan writes as one level of a factor, and what it means.

A reader takes the checks of the plan, what was found and its key path, and returns the level. It raises BadInput with
the value found and the values expected.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from vtare.instance_factors import read_level
from vtare.path import DEFAULT_MTU_BYTE, rate_label, read_rate, read_steps, steps_label
from vtare.plan.checks import Checks
from vtare.plan.level import Level
from vtare.platforms import KINDS
from vtare.quantities import QuantityError, unit_of

Reader = Callable[[Checks, Any, str], Level]

#: The level of `responder_platform` that is the platform of the sender.
SAME: Final = "same"
LOAD_KINDS: Final = ("idle", "cpu", "io", "nbd")
_LARGEST_CPU: Final = 8191
_LARGEST_MTU_BYTE: Final = 9000
_LONGEST_DELAY_S: Final = 10.0
_SECOND: Final = unit_of("seconds")


def choice(*words: str) -> Reader:
    """A reader of one of these words."""

    def read(checks: Checks, found: Any, path: str) -> Level:
        return Level(checks.choice(found, words, path), found)

    return read


def integer(low: int, high: int) -> Reader:
    """A reader of an integer in a range, its ends included."""

    def read(checks: Checks, found: Any, path: str) -> Level:
        number = checks.integer(found, path, low=low, high=high)
        return Level(str(number), number)

    return read


def rate(least_bit_per_s: int) -> Reader:
    """A reader of a rate in bit/s."""

    def read(checks: Checks, found: Any, path: str) -> Level:
        try:
            value = read_rate(_string(checks, found, path, '"300 Mbit/s"'), least=least_bit_per_s)
        except QuantityError as error:
            raise checks.error(path, str(error)) from error
        return Level(rate_label(value), value)

    return read


def instance(factor: str) -> Reader:
    """A reader of what instances are given, or what runs in the background (`vtare.instance_factors`)."""

    def read(checks: Checks, found: Any, path: str) -> Level:
        try:
            return Level(*read_level(factor, found))
        except (QuantityError, ValueError) as error:
            raise checks.error(path, str(error)) from error

    return read


#: The number of a CPU.
cpu: Final = integer(0, _LARGEST_CPU)


def platform(checks: Checks, found: Any, path: str) -> Level:
    """A kind of platform, or one of the plan's own."""
    return Level(checks.choice(found, (*KINDS, *checks.platforms), path), found)


def responder(checks: Checks, found: Any, path: str) -> Level:
    """The platform of the far end: as `platform`, or `same`, which is the sender's."""
    return Level(found, found) if found == SAME else platform(checks, found, path)


def load(checks: Checks, found: Any, path: str) -> Level:
    """A load: a kind, or a table of kind, threads and label."""
    if isinstance(found, str):
        kind = checks.choice(found, LOAD_KINDS, path)
        return Level(kind, {"kind": kind})
    if not isinstance(found, dict):
        raise checks.error(path, f'found {found!r}, expected a load such as "cpu" or {{kind = "cpu", threads = 50}}')
    checks.known(found, ("kind", "threads", "label"), path)
    kind = checks.choice(found.get("kind"), LOAD_KINDS, f"{path}.kind")
    settings: dict[str, Any] = {"kind": kind}
    label = kind
    if "threads" in found:
        if kind == "idle":
            raise checks.error(f"{path}.threads", "an idle load has no threads; leave the key out")
        settings["threads"] = checks.integer(found["threads"], f"{path}.threads", low=1, high=100_000)
        label = f"{kind} {settings['threads']}"
    return Level(checks.text(found.get("label", label), f"{path}.label"), settings)


def steps(checks: Checks, found: Any, path: str) -> Level:
    """Steps of a capacity: rates with their durations."""
    try:
        phases = read_steps(_string(checks, found, path, '"2 Gbit/s:10 s, 7 Gbit/s:10 s"'))
    except QuantityError as error:
        raise checks.error(path, str(error)) from error
    return Level(steps_label(phases), phases)


def mtu(checks: Checks, found: Any, path: str) -> Level:
    """The largest IP packet of a path."""
    size = checks.quantity(found, path, unit_of("mtu_byte"))
    if size != int(size) or not DEFAULT_MTU_BYTE <= size <= _LARGEST_MTU_BYTE:
        raise checks.error(path, f"found {found!r}, expected {DEFAULT_MTU_BYTE} to {_LARGEST_MTU_BYTE} B")
    return Level(f"{int(size)} B", int(size))


def delay(checks: Checks, found: Any, path: str) -> Level:
    """The delay of a path, in ns."""
    seconds = checks.quantity(found, path, _SECOND)
    if seconds > _LONGEST_DELAY_S:
        raise checks.error(path, f"found {found!r}, expected {_LONGEST_DELAY_S:g} s at most")
    return Level(" ".join(str(found).split()), round(seconds * 1e9))


def loss(checks: Checks, found: Any, path: str) -> Level:
    """A share of packets lost, below 100 %."""
    number, sign, rest = str(found).partition("%")
    try:
        percent = Decimal(number.strip())
    except InvalidOperation:
        percent = Decimal(-1)
    if not sign or rest or not 0 <= percent < 100:
        raise checks.error(path, f'found {found!r}, expected a share below 100 % such as "1 %"')
    return Level(f"{percent.normalize():f} %", float(percent / 100))


def _string(checks: Checks, found: Any, path: str, example: str) -> str:
    if not isinstance(found, str):
        raise checks.error(path, f"found {found!r}, expected a string such as {example}")
    return found
