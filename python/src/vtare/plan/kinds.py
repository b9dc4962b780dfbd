"""What a value of a plan may be, declared once: the reader takes its check from here, editors their JSON Schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from vtare.platforms.endpoint_names import DEVICE, MACHINE
from vtare.quantities import Unit, pattern_of, unit_of

if TYPE_CHECKING:
    from vtare.plan.checks import Checks

Schema = Mapping[str, Any]
#: A name that the plan gives: to itself, its platforms and its programs.
NAME_PATTERN: Final = r"^\s*[\w-]*[^\W_][\w-]*\s*$"


@dataclass(frozen=True, slots=True)
class ValueKind:
    """One kind of value: `read` checks what stands at a key path, `schema` states the same as JSON Schema."""

    read: Callable[[Checks, Any, str], Any]
    schema: Schema


@dataclass(frozen=True, slots=True)
class Key:
    """One key of a table: what it holds, what that is in a sentence, and what stands for it where it is left out."""

    kind: ValueKind
    about: str
    default: Any = None
    needed: bool = False


Table = Mapping[str, Key]


def read_key(checks: Checks, found: dict[str, Any], name: str, key: Key, path: str) -> Any:
    """The value of one key of a table; its default, or None, where it is left out."""
    value = found.get(name, key.default)
    if value is None and not key.needed:
        return None
    return key.kind.read(checks, value, f"{path}.{name}" if path else name)


def read_table(checks: Checks, found: Any, keys: Table, path: str) -> dict[str, Any]:
    """The values of all keys of a table that has no others."""
    if not isinstance(found, dict):
        raise checks.bad_value(path, found, f"a table with the keys {', '.join(keys)}")
    checks.known(found, tuple(keys), path)
    return {name: read_key(checks, found, name, key, path) for name, key in keys.items()}


def quantity_schema(unit: Unit | None) -> Schema:
    """A quantity with its unit, 0 or more."""
    if unit is None:
        raise AssertionError("the unit comes from this package's own constants")
    return {"type": "string", "pattern": pattern_of(unit)}


def quantity(parameter: str) -> ValueKind:
    """A quantity in the unit that the name of a parameter states."""
    unit = unit_of(parameter)
    return ValueKind(lambda checks, found, path: checks.quantity(found, path, unit), quantity_schema(unit))


def integer(low: int, high: int) -> ValueKind:
    """An integer in a range, its ends included."""
    return ValueKind(
        lambda checks, found, path: checks.integer(found, path, low=low, high=high),
        {"type": "integer", "minimum": low, "maximum": high},
    )


def number(low: float, high: float) -> ValueKind:
    """A number in a range, its ends not included."""
    return ValueKind(
        lambda checks, found, path: checks.number(found, path, low, high),
        {"type": "number", "exclusiveMinimum": low, "exclusiveMaximum": high},
    )


def choice(*words: str) -> ValueKind:
    """One of these words."""
    return ValueKind(lambda checks, found, path: checks.choice(found, words, path), {"enum": list(words)})


def table(keys: Table) -> ValueKind:
    """A table with these keys and no others."""
    return ValueKind(lambda checks, found, path: read_table(checks, found, keys, path), table_schema(keys))


def table_schema(keys: Table) -> Schema:
    """The schema of a table with these keys and no others."""
    return {
        "type": "object",
        "properties": {name: described(key) for name, key in keys.items()},
        "required": [name for name, key in keys.items() if key.needed],
        "additionalProperties": False,
    }


def described(key: Key) -> Schema:
    """The schema of what a key holds, with what it is."""
    default = {} if key.default is None else {"default": key.default}
    return {"description": key.about, **default, **key.kind.schema}


TEXT: Final = ValueKind(lambda checks, found, path: checks.text(found, path), {"type": "string", "pattern": r"\S"})
MACHINE_NAME: Final = ValueKind(
    lambda checks, found, path: checks.endpoint(found, path, "address"), {"type": "string", "pattern": MACHINE}
)
DEVICE_NAME: Final = ValueKind(
    lambda checks, found, path: checks.endpoint(found, path, "interface"), {"type": "string", "pattern": DEVICE}
)
NAME: Final = ValueKind(
    lambda checks, found, path: checks.name(found, path), {"type": "string", "pattern": NAME_PATTERN}
)
WORDS: Final = ValueKind(
    lambda checks, found, path: checks.texts(found, path, 'a program and its words, such as ["iperf3", "--version"]'),
    {"type": "array", "items": TEXT.schema, "minItems": 1},
)
#: Names of factors.
FACTOR_NAMES: Final = ValueKind(
    lambda checks, found, path: checks.texts(found, path, 'a list of factors such as ["platform"]'),
    {"type": "array", "items": TEXT.schema, "minItems": 1},
)
SECONDS: Final = quantity("seconds")
#: What is checked by the reader alone.
ANY: Final = ValueKind(lambda checks, found, path: found, {})
