from __future__ import annotations

import json
from pathlib import Path

import pytest

from vtare.contract import Contract, columns, load_contract, read_schema, schema_of
from vtare.errors import BadInput
from vtare.instruments import RECORDS

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "python" / "src" / "vtare" / "data"


def test_every_instrument_has_parameters_columns_and_a_quantity() -> None:
    contract = load_contract()
    assert set(contract.instruments) == set(columns()) == {record.name for record in RECORDS}
    for record in RECORDS:
        assert set(record.parts) <= set(columns()[record.name])


def test_logs_of_helpers_state_the_columns_that_the_truth_is_read_from() -> None:
    logs = json.loads((DATA / "columns.json").read_text())["logs"]
    named = {log: {column["name"] for column in entries} for log, entries in logs.items()}
    assert {"lane", "bin_monotonic_ns", "capacity_bit_per_s", "socket_drop_frame"} <= named["link"]
    assert named["load net"] == {"bin_monotonic_ns", "ip_byte", "packets"}
    assert not named.keys() & columns().keys()


def test_schema_is_read_however_it_ties_parameters_to_instruments() -> None:
    parameters = {"type": "object", "properties": {"n": {"type": ["integer", "null"], "minimum": 2, "default": None}}}
    tagged = {"oneOf": [{"properties": {"instrument": {"const": "x"}, "parameters": {"$ref": "#/$defs/p"}}}]}
    conditional = {
        "allOf": [
            {
                "if": {"properties": {"instrument": {"const": "x"}}},
                "then": {"properties": {"parameters": parameters}},
            }
        ]
    }
    contracts: list[Contract] = [
        read_schema({**tagged, "$defs": {"p": parameters}}, origin="a"),
        read_schema(conditional, origin="b"),
    ]
    for contract in contracts:
        n = contract.instruments["x"]["n"]
        assert (n.kind, n.nullable, n.is_list, n.default) == ("integer", True, False, None)
        assert n.check(3, "here") == 3
        assert n.check("null", "here") is None
        with pytest.raises(BadInput, match="here is 1: use 2 or more"):
            n.check(1, "here")
    with pytest.raises(KeyError):
        read_schema({}, origin="empty")


def test_schema_of_a_binary_is_what_it_prints_and_another_program_has_none(tmp_path: Path) -> None:
    program = tmp_path / "vtare"
    document = json.loads((DATA / "run.schema.json").read_text())
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(document)}\nEND\n")
    program.chmod(0o755)
    assert schema_of(program).origin == str(program)
    with pytest.raises(ValueError, match="Expecting value"):
        schema_of(Path("/bin/true"))
