"""Readers of levels: what a plan writes as one level of a factor, and what it means.

A reader takes the checks of the plan, what was found and its key path, and returns the level. It raises BadInput with
the value and what to use instead. Its schema states the same for editors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from vtare.errors import BadInput
from vtare.plan import kinds
from vtare.plan.checks import Checks
from vtare.plan.kinds import Key, Schema, ValueKind, quantity_schema, read_table, table_schema
from vtare.plan.level import Level
from vtare.platforms import KINDS
from vtare.quantities import QuantityError, unit_of
from vtare.topology.instance_factors import FILE_SERVICE, BadLevel, Load, level_schema, read_level
from vtare.topology.path import DEFAULT_MTU_BYTE, rate_label, read_rate, read_steps, steps_label


@dataclass(frozen=True, slots=True)
class LevelReader:
    """Reads levels: called with the checks of the plan, what was found and its key path.

    `schema` states what may be found, as JSON Schema.
    """

    read: Callable[[Checks, Any, str], Level]
    schema: Schema

    def __call__(self, checks: Checks, found: Any, path: str) -> Level:
        """The level that was found. Raises BadInput."""
        return self.read(checks, found, path)


def reader(schema: Schema) -> Callable[[Callable[[Checks, Any, str], Level]], LevelReader]:
    """Make a reader of a function."""
    return lambda read: LevelReader(read, schema)


#: The level of `responder_platform` that is the platform of the sender.
SAME: Final = "same"
#: What a load uses, and words of earlier plans for one of these.
LOADS: Final = ("idle", "cpu", "counter", "io", FILE_SERVICE, "net")
_OLD_LOADS: Final = {"none": "idle"}
#: Of which loads a key may be stated, where not of all.
_STATED_OF: Final = {"threads": {"cpu", "counter", "io", FILE_SERVICE}, "rate": {"net"}}
#: Streams of `vtare load nbd`.
_MOST_STREAMS: Final = 64
_LARGEST_CPU: Final = 8191
_LARGEST_MTU_BYTE: Final = 9000
_LONGEST_DELAY_S: Final = 10.0
_SECOND: Final = unit_of("seconds")
_RATE: Final = unit_of("rate_bit_per_s")


def choice(*words: str) -> LevelReader:
    """A reader of one of these words."""

    @reader({"enum": list(words)})
    def read(checks: Checks, found: Any, path: str) -> Level:
        return Level(checks.choice(found, words, path), found)

    return read


def integer(low: int, high: int) -> LevelReader:
    """A reader of an integer in a range, its ends included."""

    @reader(kinds.integer(low, high).schema)
    def read(checks: Checks, found: Any, path: str) -> Level:
        number = checks.integer(found, path, low=low, high=high)
        return Level(str(number), number)

    return read


def rate(least_bit_per_s: int) -> LevelReader:
    """A reader of a rate in bit/s."""

    @reader(quantity_schema(_RATE))
    def read(checks: Checks, found: Any, path: str) -> Level:
        try:
            value = read_rate(_string(checks, found, path, '"300 Mbit/s"'), least=least_bit_per_s)
        except QuantityError as error:
            raise checks.error(path, str(error)) from error
        return Level(rate_label(value), value)

    return read


def instance(factor: str) -> LevelReader:
    """A reader of what instances are given, or what runs in the background (`vtare.topology.instance_factors`)."""

    @reader(level_schema(factor))
    def read(checks: Checks, found: Any, path: str) -> Level:
        try:
            return Level(*read_level(factor, found))
        except BadLevel as error:
            raise BadInput(f"{checks.at(path)} {error}") from error
        except QuantityError as error:
            raise checks.error(path, str(error)) from error

    return read


#: The number of a CPU.
cpu: Final = integer(0, _LARGEST_CPU)


#: A plan may have names of its own for platforms; the others complete what an editor offers.
_PLATFORM: Final = {"anyOf": [{"enum": list(KINDS)}, {"type": "string", "pattern": kinds.NAME_PATTERN}]}


@reader(_PLATFORM)
def platform(checks: Checks, found: Any, path: str) -> Level:
    """A kind of platform, or one of the plan's own."""
    return Level(checks.choice(found, (*KINDS, *checks.platforms), path), found)


@reader({"anyOf": [{"enum": [SAME]}, *_PLATFORM["anyOf"]]})
def responder(checks: Checks, found: Any, path: str) -> Level:
    """The platform of the far end: as `platform`, or `same`, which is the sender's."""
    return Level(found, found) if found == SAME else platform(checks, found, path)


def _loads(*wanted: str) -> LevelReader:
    """A reader of loads of these kinds: a word, or a table of what may be stated of one."""
    words = kinds.choice(*wanted, *_OLD_LOADS)
    word = ValueKind(lambda checks, found, path: _load_word(checks, found, wanted, path), words.schema)
    offered = rate(1000)
    every = {
        "kind": Key(word, "What the load uses.", needed=True),
        "threads": Key(kinds.integer(1, 100_000), "How many threads."),
        "rate": Key(ValueKind(lambda *found: offered(*found).value, offered.schema), "The rate that it offers."),
        "label": Key(kinds.TEXT, "How tables call it."),
    }

    def keys_of(*of: str) -> dict[str, Key]:
        return {name: key for name, key in every.items() if not _STATED_OF.get(name, {*of}).isdisjoint(of)}

    @reader({"anyOf": [words.schema, table_schema(keys_of(*wanted))]})
    def read(checks: Checks, found: Any, path: str) -> Level:
        if isinstance(found, str):
            return _load_level(checks, {"kind": word.read(checks, found, path)}, path)
        if not isinstance(found, dict):
            example = '"cpu" or {kind = "cpu", threads = 50}'
            raise checks.error(path, f"{found!r} is not a load. Example: {example}")
        kind = _OLD_LOADS.get(str(found.get("kind")), found.get("kind"))
        keys = keys_of(*((kind,) if kind in wanted else wanted))
        return _load_level(checks, read_table(checks, found, keys, path), path)

    return read


def _load_word(checks: Checks, found: Any, wanted: tuple[str, ...], path: str) -> str:
    """The word that a plan has for the kind of a load; messages name those of today."""
    return str(found) if found in tuple(_OLD_LOADS) else checks.choice(found, wanted, path)


def _load_level(checks: Checks, given: dict[str, Any], path: str) -> Level:
    word, threads, rate_bit_per_s = given["kind"], given.get("threads"), given.get("rate")
    kind = _OLD_LOADS.get(word, word)
    if kind == "io" and (threads or 0) % 2:
        reason = "an io load needs an even number: two for each stream"
        raise checks.error(f"{path}.threads", f"{threads} threads: {reason}")
    if kind == FILE_SERVICE and (threads or 0) > _MOST_STREAMS:
        reason = f"{_MOST_STREAMS} at most, its file has room for no more"
        raise checks.error(f"{path}.threads", f"{threads} threads: {reason}")
    if rate_bit_per_s is not None:
        return Level(given["label"] or f"{word} {rate_label(rate_bit_per_s)}", Load(kind, threads, rate_bit_per_s))
    return Level(given.get("label") or (word if threads is None else f"{word} {threads}"), Load(kind, threads))


#: Without a far end there is no sink of traffic.
load: Final = _loads("idle", "cpu", "io", FILE_SERVICE)
background_load: Final = _loads(*LOADS)


_STEP: Final = ":".join(quantity_schema(unit)["pattern"].strip("^$") for unit in (_RATE, _SECOND))


@reader({"type": "string", "pattern": f"^{_STEP}(?:,{_STEP})+$"})
def steps(checks: Checks, found: Any, path: str) -> Level:
    """Steps of a capacity: rates with their durations."""
    try:
        phases = read_steps(_string(checks, found, path, '"2 Gbit/s:10 s, 7 Gbit/s:10 s"'))
    except QuantityError as error:
        raise checks.error(path, str(error)) from error
    return Level(steps_label(phases), phases)


@reader(quantity_schema(unit_of("mtu_byte")))
def mtu(checks: Checks, found: Any, path: str) -> Level:
    """The largest IP packet of a path."""
    size = checks.quantity(found, path, unit_of("mtu_byte"))
    if size != int(size) or not DEFAULT_MTU_BYTE <= size <= _LARGEST_MTU_BYTE:
        raise checks.bad_value(path, found, f"{DEFAULT_MTU_BYTE} to {_LARGEST_MTU_BYTE} B")
    return Level(f"{int(size)} B", int(size))


@reader(quantity_schema(_SECOND))
def delay(checks: Checks, found: Any, path: str) -> Level:
    """The delay of a path, in ns."""
    seconds = checks.quantity(found, path, _SECOND)
    if seconds > _LONGEST_DELAY_S:
        raise checks.bad_value(path, found, f"{_LONGEST_DELAY_S:g} s or less")
    return Level(" ".join(str(found).split()), round(seconds * 1e9))


@reader({"type": "string", "pattern": r"^\s*[+-]?[\d_.]+(?:[eE][+-]?\d+)?\s*%$"})
def loss(checks: Checks, found: Any, path: str) -> Level:
    """A share of packets lost, below 100 %."""
    number, sign, rest = str(found).partition("%")
    try:
        percent = Decimal(number.strip())
    except InvalidOperation:
        percent = Decimal(-1)
    if not sign or rest or not percent.is_finite() or not 0 <= percent < 100:
        raise checks.bad_value(path, found, 'a share below 100 %, such as "1 %"')
    return Level(f"{percent.normalize():f} %", float(percent / 100))


def _string(checks: Checks, found: Any, path: str, example: str) -> str:
    if not isinstance(found, str):
        raise checks.bad_value(path, found, f"a string such as {example}")
    return found
