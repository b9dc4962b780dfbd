"""The JSON Schema of plans, for editors: made of what the reader checks by, and never written by hand.

What ties several keys together (a baseline that is one of the levels, a path that needs a capacity) is left to the
reader: what this schema refuses, the reader refuses too, but not the other way round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from vtare.instruments import RECORDS
from vtare.plan.factors import FACTORS, factors_of
from vtare.plan.keys import ANALYSIS, CONTROL, EXPERIMENT, HOST, PROGRAM, REPEAT, ROUTER_HOST, STOP, TOP
from vtare.plan.kinds import NAME_PATTERN, TEXT, Schema, table_schema
from vtare.platforms import KINDS, platform_class
from vtare.quantities import pattern_of, unit_of
from vtare.topology.named_hosts import ROLES, ROUTER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vtare.contract import Contract, Parameter

#: The draft that editors with `#:schema` (taplo, Even Better TOML) understand.
_DRAFT: Final = "http://json-schema.org/draft-07/schema#"


def plan_schema(contract: Contract) -> dict[str, Any]:
    """The JSON Schema of plans, with the instruments of this contract and their parameters."""
    parameters = {
        record.name: contract.instruments[record.name] for record in RECORDS if record.name in contract.instruments
    }
    tables: dict[str, Any] = {
        "control": {"anyOf": [{"type": "boolean"}, _measured(table_schema(CONTROL), parameters)]},
        "mesh": {"anyOf": [{"type": "boolean"}, {"type": "array", "minItems": 2, "items": {"type": "string"}}]},
        "analysis": table_schema(ANALYSIS),
        "stop": table_schema(STOP),
        "repeat": table_schema(REPEAT),
        "platforms": _platforms(),
        "hosts": _hosts(),
        "programs": _named(_with(table_schema(PROGRAM), unit=_unit(parameters))),
        "experiment": {"type": "array", "minItems": 1, "items": {"$ref": "#/definitions/experiment"}},
    }
    return {
        "$schema": _DRAFT,
        "title": "A plan of vtare",
        **_with(table_schema(TOP), **tables),
        "definitions": {
            "experiment": _measured(table_schema(EXPERIMENT), parameters),
            **{f"factor.{spec.name}": _levels(spec.about, spec.read.schema) for spec in FACTORS},
            **{f"{name}.parameters": _parameters(known) for name, known in parameters.items()},
            **{f"{name}.factors": _factors(name, known) for name, known in parameters.items()},
            **{f"{name}.baseline": _baseline(name, known) for name, known in parameters.items()},
        },
    }


def _with(schema: Schema, **properties: Schema) -> dict[str, Any]:
    """A table's schema in which these keys hold more than their own declaration states."""
    joined = {name: {**schema["properties"][name], **more} for name, more in properties.items()}
    return {**schema, "properties": {**schema["properties"], **joined}}


def _measured(schema: Schema, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """A table with an instrument, by which its other keys hold other things: one `if` inside the `else` of another.

    Editors that complete keys do not see what follows from an `if`: for them all stands in an `anyOf` that nothing
    violates, as its last branch allows everything.
    """
    keys = [key for key in ("parameters", "factors", "baseline") if key in schema["properties"]]
    held: dict[str, Any] = {
        name: {"properties": {key: {"$ref": f"#/definitions/{name}.{key}"} for key in keys}} for name in parameters
    }
    chain: dict[str, Any] = {}
    for name in reversed(held):
        chain = {
            "if": {"properties": {"instrument": {"const": name}}},
            "then": held[name],
            **({"else": chain} if chain else {}),
        }
    return {**_with(schema, instrument={"enum": list(parameters)}), **chain, "anyOf": [*held.values(), {}]}


def _parameters(known: Mapping[str, Parameter]) -> Schema:
    properties = {name: {"description": of.description, **_parameter(of)} for name, of in known.items()}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _levels(about: str, level: Schema) -> Schema:
    return {"description": about, "type": "array", "items": level, "minItems": 1}


def _factors(instrument: str, known: Mapping[str, Parameter]) -> Schema:
    """The lab's own factors that go with an instrument, and its parameters."""
    own = {name: {"$ref": f"#/definitions/factor.{name}"} for name in _own_factors(instrument)}
    there = f"#/definitions/{instrument}.parameters/properties"
    others = {name: _levels(of.description, {"$ref": f"{there}/{name}"}) for name, of in known.items()}
    return {"type": "object", "properties": {**others, **own}, "additionalProperties": False}


def _baseline(instrument: str, known: Mapping[str, Parameter]) -> Schema:
    """The same keys; whether the value is one of the levels, the reader finds out."""
    names: dict[str, Schema] = {name: {} for name in (*_own_factors(instrument), *known)}
    return {"type": "object", "properties": names, "additionalProperties": False}


def _own_factors(instrument: str) -> tuple[str, ...]:
    return factors_of(next(record.hosts for record in RECORDS if record.name == instrument))


def _parameter(parameter: Parameter) -> Schema:
    """What a plan may write for a parameter: one value, or a list where it takes several."""
    one = _one(parameter)
    schema = {"anyOf": [one, {"type": "array", "items": one, "minItems": 1}]} if parameter.is_list else one
    return {"anyOf": [schema, {"enum": ["null"]}]} if parameter.nullable else schema


def _one(parameter: Parameter) -> Schema:
    if parameter.choices:
        return {"enum": list(parameter.choices)}
    unit = unit_of(parameter.name)
    if parameter.kind in ("string", "boolean"):
        return {"type": parameter.kind}
    if unit is not None:
        return {"type": "string", "pattern": pattern_of(unit, signed=True)}
    bounds = {"minimum": parameter.minimum, "maximum": parameter.maximum, "exclusiveMinimum": parameter.above}
    return {
        "type": parameter.kind,
        **{
            word: int(bound) if bound == bound.to_integral_value() else float(bound)
            for word, bound in bounds.items()
            if bound is not None
        },
    }


def _unit(parameters: Mapping[str, Mapping[str, Parameter]]) -> Schema:
    """The units of what programs print."""
    (name,) = (record.name for record in RECORDS if record.estimates)
    return _one(parameters[name]["unit"])


def _named(items: Schema) -> Schema:
    """Tables that the plan names."""
    return {"type": "object", "propertyNames": {"pattern": NAME_PATTERN}, "additionalProperties": items}


def _platforms() -> Schema:
    """`[platforms.NAME]`: a table named like a kind has its settings, of which those with a choice are known here."""
    setting = {"type": ["string", "integer"]}
    kinds = {}
    for kind in KINDS:
        platform = platform_class(kind)
        known = {} if platform is None else {key: {"enum": list(values)} for key, values in platform.SETTINGS.items()}
        kinds[kind] = {
            "type": "object",
            "properties": {"kind": {"enum": [kind]}, **known},
            "additionalProperties": setting,
        }
    other = {
        "type": "object",
        "properties": {"kind": {"description": "What kind of platform it is.", "enum": list(KINDS)}},
        "required": ["kind"],
        "additionalProperties": setting,
    }
    return {**_named(other), "properties": kinds}


def _hosts() -> Schema:
    roles = {role: {"anyOf": [TEXT.schema, table_schema(ROUTER_HOST if role == ROUTER else HOST)]} for role in ROLES}
    return {"type": "object", "properties": roles, "additionalProperties": False}
