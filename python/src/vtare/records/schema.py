"""The JSON Schema of each document of the lab, made of its record."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from vtare.records import campaigns, comparisons, fleets, papers, programs

#: Records with more keys than are declared: the levels of a cell, by the names of its factors.
_OPEN: Final = (comparisons.ComparedCell, comparisons.ComparedTail, comparisons.LoneCellDocument)
_NAMES: Final = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def schemas() -> dict[str, dict[str, Any]]:
    """The schema of each document, by its name `vtare.NAME/N`."""
    return dict(
        sorted(schema for module in (campaigns, comparisons, fleets, papers, programs) for schema in _of(module))
    )


def shipped() -> dict[str, dict[str, Any]]:
    """The schemas of the lab's documents, and those of the program's, which an installation has as files."""
    files = (Path(__file__).parents[1] / "schemas").glob("*.json")
    documents = [json.loads(file.read_text("utf-8")) for file in files]
    return dict(sorted(({schema["title"]: schema for schema in documents} | schemas()).items()))


def _of(module: ModuleType) -> list[tuple[str, dict[str, Any]]]:
    named = []
    for record in vars(module).values():
        if is_typeddict(record) and record.__module__ == module.__name__:
            hints = get_type_hints(record)
            if get_origin(hints.get("schema")) is Literal:
                (name,) = get_args(hints["schema"])
                named.append((name, schema_of(record, name)))
    return named


def schema_of(record: type, name: str) -> dict[str, Any]:
    """The schema of one record; those that it refers to are in `$defs`."""
    definitions: dict[str, Any] = {}
    whole = _object(record, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": name,
        **whole,
        **({"$defs": dict(sorted(definitions.items()))} if definitions else {}),
    }


def _object(record: type, definitions: dict[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(record, include_extras=True)
    return {
        "description": (record.__doc__ or "").strip(),
        "type": "object",
        "properties": {key: _value(hint, definitions) for key, hint in hints.items()},
        "required": sorted(hints),
        **({"additionalProperties": True} if record in _OPEN else {}),
    }


def _value(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return {**_value(inner[0], definitions), "description": inner[1]}
    if hint is Any:
        return {}
    if is_typeddict(hint):
        if hint.__name__ not in definitions:
            definitions[hint.__name__] = {}
            definitions[hint.__name__] = _object(hint, definitions)
        return {"$ref": f"#/$defs/{hint.__name__}"}
    if origin is Literal:
        return {"enum": list(inner)} if len(inner) > 1 else {"const": inner[0]}
    if origin is list:
        return {"type": "array", "items": _value(inner[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _value(inner[1], definitions)}
    if origin in (Union, UnionType):
        choices = [_value(one, definitions) for one in inner]
        simple = [choice["type"] for choice in choices if choice.keys() == {"type"}]
        return {"type": simple} if len(simple) == len(choices) else {"anyOf": choices}
    return {"type": _NAMES[hint]}
