"""The contract with the instruments: which parameters each takes, which columns each writes.

The checked form of `docs/internals/contract.md`: `run.schema.json` and `columns.json`, emitted by the binary (`vtare
schema`, `vtare schema --columns`). They travel with the package; where a binary is at hand its own schema is used, so
that a newer binary's parameters can be planned with.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from vtare import parquet_check
from vtare.errors import BadInput, bad_value
from vtare.kernel_files import free_memory_byte
from vtare.process import run_tool
from vtare.quantities import QuantityError, parse, refuse_above_a_year, unit_of, write
from vtare.stored.paths import parse_json, plain_values

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: No number of a plan is larger: the binary keeps them in 64 bits.
_LARGEST: Final = Decimal(2**63 - 1)
#: Rows of samples beyond which none are read.
_MOST_ROWS: Final = 10**10
#: Any machine has as much.
_LITTLE_BYTE: Final = 1 << 24
RUN_SCHEMA: Final = "vtare.run/1"
SAMPLES_SCHEMA: Final = "vtare.samples/1"
# What every figure stands on; other parts of the footer may be missing.
_FOOTER_NEEDS: Final = ("run", "machine", "elapsed_ns")
_FOOTER_TABLES: Final = ("run", "machine", "clock", "program", "result")
#: Type of a column in the contract -> the types of polars that may hold it.
_TYPES: Final[dict[str, tuple[str, ...]]] = {
    "string": ("String", "Categorical"),
    "int64": ("Int64", "Int32", "UInt32", "UInt64"),
    "boolean": ("Boolean",),
    "float64": ("Float64", "Float32"),
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an instrument: its JSON type, and what it may hold."""

    name: str
    kind: str
    is_list: bool
    nullable: bool
    choices: tuple[str, ...]
    minimum: Decimal | None
    maximum: Decimal | None
    above: Decimal | None
    default: Any
    has_default: bool
    description: str

    def check(self, value: Any, where: object) -> Any:
        """Return `value` as the binary takes it (units resolved, a scalar wrapped where a list is wanted).

        Raises:
            BadInput: with `where` (what messages begin with), the value and what to use instead.
        """
        if value is None or value == "null":
            if self.nullable:
                return None
            raise BadInput(f"{where} {bad_value(None, self.wanted)}")
        if self.is_list:
            items = value if isinstance(value, list) else [value]
            if not items:
                raise BadInput(f"{where} is an empty list: use at least one of: {self.wanted}")
            return [self._check_one(item, where) for item in items]
        if isinstance(value, list):
            raise BadInput(f"{where} {bad_value(value, f'one value: {self.wanted}')}; a list of levels is a factor")
        return self._check_one(value, where)

    @property
    def wanted(self) -> str:
        """What this parameter may hold, as words for a message."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        unit = unit_of(self.name)
        if unit is not None:
            return f'a quantity with a unit such as "1 {unit.symbol}" ({unit.examples})'
        return {"integer": "a whole number", "number": "a number", "boolean": "true or false"}.get(self.kind, "a text")

    def label(self, value: Any) -> str:
        """Write a checked value the way a person would: `1 ms` for `target_ns = 1000000`."""
        if isinstance(value, list):
            return ", ".join(self.label(item) for item in value)
        if value is None:
            return "none"
        unit = unit_of(self.name)
        if unit is not None and isinstance(value, int | float) and not isinstance(value, bool):
            return write(value, unit)
        return str(value).lower() if isinstance(value, bool) else str(value)

    def _check_one(self, value: Any, where: object) -> Any:
        if self.kind == "string":
            if not isinstance(value, str) or (self.choices and value not in self.choices):
                raise BadInput(f"{where} {bad_value(value, self.choices or self.wanted)}")
            return value
        if self.kind == "boolean":
            if not isinstance(value, bool):
                raise BadInput(f"{where} {bad_value(value, self.wanted)}")
            return value
        return self._check_number(value, where)

    def _check_number(self, value: Any, where: object) -> int | float:
        unit = unit_of(self.name)
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise BadInput(f"{where} {bad_value(value, self.wanted)}")
        if unit is None:
            if isinstance(value, str):
                raise BadInput(f"{where} {bad_value(value, self.wanted)} without quotes or unit")
            exact = Decimal(repr(value))
        elif isinstance(value, str):
            try:
                exact = parse(value, unit)
                refuse_above_a_year(value, exact, unit)
            except QuantityError as error:
                raise BadInput(f"{where}: {error}") from error
        else:
            raise BadInput(f'{where} is {value} without a unit: use a quantity such as "{value} {unit.symbol}"')
        if (use := self._instead(exact, "" if unit is None else f" {unit.symbol}")) is not None:
            raise BadInput(f"{where} {bad_value(value, use)}")
        return int(exact) if self.kind == "integer" else float(exact)

    def _instead(self, exact: Decimal, symbol: str) -> str | None:
        """What to use instead of a number out of range; None where it can be used."""
        if not exact.is_finite():
            return "a finite number"
        if self.above is not None and exact <= self.above:
            return f"more than {self.above.normalize():f}{symbol}"
        if exact < (least := -_LARGEST if self.minimum is None else self.minimum):
            return f"{least.normalize():f}{symbol} or more"
        if exact > (most := _LARGEST if self.maximum is None else min(self.maximum, _LARGEST)):
            return f"{most.normalize():f}{symbol} or less"
        if self.kind == "integer" and exact != exact.to_integral_value():
            return f"a whole number of{symbol}" if symbol else "a whole number"
        return None


@dataclass(frozen=True, slots=True)
class Contract:
    """Every instrument's parameters. `origin` is where they were read."""

    instruments: Mapping[str, Mapping[str, Parameter]]
    origin: str

    def parameters(self, instrument: str, where: object) -> Mapping[str, Parameter]:
        """Return the parameters of one instrument.

        Raises:
            BadInput: there is no such instrument.
        """
        if instrument not in self.instruments:
            raise BadInput(f"{where} {bad_value(instrument, self.instruments)}")
        return self.instruments[instrument]


def schema_of(binary: Path) -> Contract:
    """Read the parameters from what `binary` prints for `vtare schema`.

    Raises:
        ToolFailed, ValueError, KeyError: it is no vtare binary.
    """
    document = parse_json(run_tool([str(binary), "schema"], timeout_s=30))
    if not isinstance(document, dict):
        raise ValueError("found no table")
    return read_schema(document, origin=str(binary))


@cache
def load_contract() -> Contract:
    """Return the parameters by the copy of the schema in the package: a plan can be checked without a binary."""
    text = files("vtare").joinpath("data/run.schema.json").read_text(encoding="utf-8")
    return read_schema(json.loads(text), origin="vtare/data/run.schema.json")


@cache
def columns() -> Mapping[str, Mapping[str, Any]]:
    """Return, for each instrument, its sample columns: name -> `{"type": ..., "nullable": ...}` (columns.json)."""
    text = files("vtare").joinpath("data/columns.json").read_text(encoding="utf-8")
    document = json.loads(text)
    tables = document.get("instruments", document)
    return {name: _column_table(table) for name, table in tables.items() if isinstance(table, dict | list)}


def _column_table(table: Any) -> dict[str, Any]:
    entries = table.get("columns", table) if isinstance(table, dict) else table
    if isinstance(entries, list):
        return {entry["name"]: entry for entry in entries}
    return {name: ({"type": entry} if isinstance(entry, str) else entry) for name, entry in entries.items()}


def refuse_beyond_memory(path: Path, rows: int, row_byte: int) -> None:
    """Refuse rows that the free memory does not hold, where each takes this much.

    Raises:
        BadInput: they do not fit.
    """
    wanted = rows * row_byte
    # To ask takes as long as to read a small file.
    if wanted < _LITTLE_BYTE:
        return
    free = free_memory_byte()
    # 0: this machine states none.
    if 0 < free < wanted:
        raise BadInput(
            f"{path}: its {rows} rows take {wanted / 1e9:.3g} GB of memory to read, {free / 1e9:.3g} GB are "
            "free; read it on a larger machine"
        )


def check_samples_file(path: Path, *, run_id: str, instrument: str) -> dict[str, Any]:
    """Return the footer of one samples file whose columns and identity are right.

    Raises:
        BadInput: missing, damaged, of another schema or run, or with other columns than the contract's.
    """
    import polars as pl

    try:
        shape = parquet_check.check(path, most_rows=_MOST_ROWS)
        footer: dict[str, Any] = plain_values(parse_json(pl.read_parquet_metadata(path)["vtare"]))
        types = pl.read_parquet_schema(path)
    except FileNotFoundError as error:
        raise BadInput(f"{path}: the file is gone") from error
    except PermissionError as error:
        raise BadInput(f"{path}: cannot be read: permission denied; give yourself read access") from error
    except (OSError, KeyError, ValueError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise BadInput(f"{path}: damaged, or not written by vtare ({error})") from error
    refuse_beyond_memory(path, shape.rows, 8 * len(shape.columns))
    schema = footer.get("schema") if isinstance(footer, dict) else None
    if schema != SAMPLES_SCHEMA:
        raise BadInput(
            f"{path}: its schema is {schema!r}, not '{SAMPLES_SCHEMA}': another version of vtare wrote it; report it "
            "with that version, or measure it again"
        )
    absent = [name for name in _FOOTER_NEEDS if name not in footer]
    if absent:
        raise BadInput(f"{path}: the footer lacks {', '.join(absent)}; measure this run again")
    odd = [
        name for name in _FOOTER_TABLES
        if not isinstance(footer.get(name), dict) and (name in _FOOTER_NEEDS or footer.get(name) is not None)
    ]  # fmt: skip
    notes = footer.get("notes", [])
    if not isinstance(notes, list) or not all(
        isinstance(note, dict) and {"id", "text"} <= note.keys() for note in notes
    ):
        odd.append("notes")
    if odd:
        raise BadInput(f"{path}: damaged: {', '.join(odd)} in its footer is of another type; measure this run again")
    found_id = footer["run"].get("run_id")
    if found_id != run_id:
        raise BadInput(f"{path}: belongs to run {found_id!r}, not '{run_id}'; measure this run again")
    for name, column in columns()[instrument].items():
        if name not in types:
            raise BadInput(
                f"{path}: column '{name}' is missing beside {', '.join(types) or 'none'}: another version of vtare "
                "wrote it, or it was changed since; measure this run again"
            )
        if type(types[name]).__name__ not in _TYPES[column["type"]]:
            raise BadInput(f"{path}: column '{name}' is {types[name]}, not {column['type']}; measure this run again")
    return footer


def read_schema(schema: Mapping[str, Any], *, origin: str) -> Contract:
    """Take each instrument's parameters out of a JSON schema of run.json.

    Raises:
        KeyError: the schema has no instruments in it.
    """
    instruments: dict[str, dict[str, Parameter]] = {}
    for branch in _branches(schema, schema):
        properties = branch.get("properties", {})
        tag = _resolve(properties.get("instrument", {}), schema)
        names = [tag["const"]] if "const" in tag else list(tag.get("enum", []))
        holder = _resolve(properties.get("parameters", {}), schema)
        if len(names) == 1 and holder.get("properties") is not None:
            instruments[names[0]] = {
                name: _parameter(name, entry, schema) for name, entry in holder["properties"].items()
            }
    if not instruments:
        raise KeyError("no instrument found in the schema of run.json")
    return Contract(instruments, origin)


def _branches(node: Mapping[str, Any], root: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Every object of the schema that could tie an instrument to its parameters, however the schema nests them."""
    branches: list[Mapping[str, Any]] = [node]
    for word in ("oneOf", "anyOf", "allOf"):
        for child in node.get(word, []):
            branches.extend(_branches(_resolve(child, root), root))
    if "if" in node and "then" in node:
        merged = {"properties": {**node["if"].get("properties", {}), **node["then"].get("properties", {})}}
        branches.append(merged)
    return branches


def _resolve(node: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in node:
        return node
    target: Any = root
    for part in str(node["$ref"]).removeprefix("#/").split("/"):
        target = target[part]
    rest = {key: value for key, value in node.items() if key != "$ref"}
    return {**_resolve(target, root), **rest}


def _parameter(name: str, entry: Mapping[str, Any], root: Mapping[str, Any]) -> Parameter:
    node = _resolve(entry, root)
    outer = node
    node, nullable = _without_null(node, root)
    is_list = "array" in _types(node)
    nullable = nullable or "null" in _types(node)
    item = node
    if is_list:
        item, _ = _without_null(_resolve(node.get("items", {}), root), root)
    choices = tuple(str(c) for c in item.get("enum", []) if c is not None)
    if not choices:
        choices = tuple(str(b["const"]) for b in item.get("oneOf", []) if "const" in b)
        choices += tuple(str(c) for b in item.get("oneOf", []) for c in b.get("enum", []))
    kinds = [k for k in _types(item) if k not in {"null", "array"}]
    return Parameter(
        name=name,
        kind=kinds[0] if kinds else "string",
        is_list=is_list,
        nullable=nullable,
        choices=choices,
        minimum=_bound(item, "minimum"),
        maximum=_bound(item, "maximum"),
        above=_bound(item, "exclusiveMinimum"),
        default=outer.get("default"),
        has_default="default" in outer,
        description=str(outer.get("description", "")),
    )


def _without_null(node: Mapping[str, Any], root: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool]:
    for word in ("anyOf", "oneOf"):
        branches = [_resolve(branch, root) for branch in node.get(word, [])]
        others = [branch for branch in branches if branch.get("type") != "null"]
        if len(others) == 1 and len(others) < len(branches):
            return others[0], True
    return node, False


def _types(node: Mapping[str, Any]) -> list[str]:
    kind = node.get("type", [])
    return [kind] if isinstance(kind, str) else list(kind)


def _bound(node: Mapping[str, Any], word: str) -> Decimal | None:
    return Decimal(repr(node[word])) if word in node else None
