"""The JSON Schemas of documents, and to their keys alone: a document with a key that its record lacks is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema

from vtare.records.schema import schemas


@cache
def of_the_program() -> dict[str, dict[str, Any]]:
    """The schemas of the documents that the program prints, by name."""
    prefix = os.environ.get("VTARE_TEST_PREFIX")
    beside = Path(sys.executable).parent / "vtare"
    program = Path(prefix).resolve() / "bin" / "vtare" if prefix else beside if beside.is_file() else Path("vtare")
    printed = subprocess.run([program, "schema", "all"], check=True, capture_output=True)
    found: dict[str, dict[str, Any]] = json.loads(printed.stdout)
    return found


def closed(schema: Any) -> Any:
    """The same without further keys, where they are not open by their record."""
    if isinstance(schema, list):
        return [closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: closed(value) for key, value in schema.items()}
    return {"additionalProperties": False, **made} if isinstance(schema.get("required"), list) else made


@cache
def schema_of(name: str) -> dict[str, Any]:
    """The schema of documents such as `vtare.rtt/1`, with no further keys."""
    lab = schemas()
    found: dict[str, Any] = closed(lab[name] if name in lab else of_the_program()[name])
    return found


def validate(document: dict[str, Any]) -> None:
    """Hold a document against the schema that it names.

    Raises:
        jsonschema.ValidationError: it is another.
    """
    jsonschema.Draft202012Validator(schema_of(document["schema"])).validate(document)
