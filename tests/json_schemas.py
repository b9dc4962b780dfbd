"""The JSON Schemas of documents, as `tools/schemas` makes them of docs/reference/json.md."""

from __future__ import annotations

import sys
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema


@cache
def maker() -> ModuleType:
    """`tools/schemas` as a module."""
    loader = SourceFileLoader("vtare_schemas", str(Path(__file__).parents[1] / "tools" / "schemas"))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    sys.modules[loader.name] = module = module_from_spec(spec)
    loader.exec_module(module)
    return module


@cache
def _schemas() -> dict[str, dict[str, Any]]:
    made: dict[str, dict[str, Any]] = maker().schemas()
    return made


def schema_of(name: str) -> dict[str, Any]:
    """The schema of documents such as `vtare.rtt/1`."""
    return _schemas()[f"{name.replace('/', '.')}.json"]


def validate(document: dict[str, Any]) -> None:
    """Hold a document against the schema that it names.

    Raises:
        jsonschema.ValidationError: it is another.
    """
    jsonschema.validate(document, schema_of(document["schema"]))
