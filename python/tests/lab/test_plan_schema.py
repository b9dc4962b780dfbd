"""The schema by which editors check plans: what it refuses and allows."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from vtare.contract import load_contract
from vtare.plan.factors import FACTORS
from vtare.plan.files import load_plan, shipped_plans
from vtare.plan.schema import plan_schema

SCHEMA = plan_schema(load_contract())
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)


def errors(text: str) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(tomllib.loads(text))]


def test_the_schema_is_one() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("name", shipped_plans())
def test_every_shipped_plan_is_allowed(name: str) -> None:
    assert errors(shipped_plans()[name].read_text("utf-8")) == []


def test_plans_with_tables_that_no_shipped_plan_has_are_allowed(tmp_path: Path) -> None:
    text = """
schema = "vtare.plan/1"
name = "all"
question = "?"
blocks = 12
seed = 3
settle = "1 s"
control = { instrument = "timer", parameters = { samples = 5 } }
[stop]
precision_percent = 2.5
[platforms.left]
kind = "ssh"
host = "192.0.2.1"
port = 22
[platforms.qemu]
accelerator = "tcg"
[programs.iperf]
command = ["iperf3", "-c", "{peer}"]
pattern = "([0-9.]+)"
unit = "Mbit/s"
[hosts]
sender = { platform = "host", address = "192.0.2.3" }
responder = "left"
router = { platform = "left", inward = "eth1", outward = "eth2" }
[[experiment]]
instrument = "avb"
cells = "one-at-a-time"
exceed = "1 ms"
run_timeout = "2 min"
baseline = { method = "program:iperf", load = "nine" }
[experiment.factors]
method = ["program:iperf", "abacus"]
capacity = ["10 Mbit / s"]
loss = ["0 %", "1.5 %"]
delay = ["1 ms"]
affinity = ["off", "0, 1"]
load = ["idle", { kind = "cpu", threads = 9, label = "nine" }]
background = [0, 1]
background_load = ["none", { kind = "net", rate = "1 Mbit/s" }]
"""
    path = tmp_path / "all.toml"
    path.write_text(text, encoding="utf-8")
    load_plan(path)
    assert errors(text) == []


def test_every_factor_has_a_description_and_refuses_what_is_no_level_of_it() -> None:
    for spec in FACTORS:
        level = jsonschema.Draft7Validator(spec.read.schema)
        assert spec.about.endswith("."), spec.name
        odd: list[Any] = [None, -1, 1.5, [], {"x": 1}]
        assert [found for found in odd if level.is_valid(found)] == [], spec.name


def test_an_editor_is_offered_the_keys_of_every_instrument() -> None:
    """Editors see what stands in `anyOf`, and not what follows from an `if`."""
    experiment = SCHEMA["definitions"]["experiment"]
    offered = {branch["properties"]["parameters"]["$ref"] for branch in experiment["anyOf"] if branch}
    assert "#/definitions/sleep.parameters" in offered
    assert len(offered) == len(experiment["properties"]["instrument"]["enum"])
