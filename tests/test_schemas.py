"""The JSON Schemas of documents: made of the records that are printed, and held by what the programs print."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypedDict

import jsonschema
import pytest
from json_schemas import of_the_program, schema_of, validate

from vtare.campaign.journal import HostEvent
from vtare.campaign.store import Store
from vtare.plan.files import parse_plan
from vtare.records.schema import schema_of as record_schema
from vtare.records.schema import schemas


def held() -> dict[str, dict[str, Any]]:
    """All schemas, by name."""
    return {**of_the_program(), **schemas()}


@pytest.mark.e2e
def test_each_schema_is_one_and_is_that_of_the_document_that_it_names() -> None:
    for name, schema in held().items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert (schema["title"], schema["properties"]["schema"]) == (name, {"const": name})
        assert "schema" in schema["required"], name


@pytest.mark.e2e
def test_each_document_that_shows_an_answer_has_it_and_both_halves_have_the_same_error() -> None:
    program, lab = (half["vtare.error/1"] for half in (of_the_program(), schemas()))
    assert sorted(program["required"]) == sorted(lab["required"]) == ["error", "exit_code", "schema"]
    without = {name for name, schema in held().items() if "answer" not in schema["properties"]}
    assert without <= WITHOUT_ANSWER, "a document of a command that answers a question needs an `answer`"


#: Documents that are lists or logs, for which people read a table; `answer` of vtare.report/1 is its sentences.
WITHOUT_ANSWER: Final = {
    *("vtare.alert/1", "vtare.avb.estimate/1", "vtare.card/1", "vtare.clean/1", "vtare.commands/1", "vtare.error/1"),
    *("vtare.link/1", "vtare.live/1", "vtare.load/1", "vtare.plans/1", "vtare.plot/1", "vtare.serve/1"),
    *("vtare.serve_end/1", "vtare.standing/2"),
}


def test_a_key_that_is_missing_or_undeclared_and_a_type_that_is_wrong_are_refused() -> None:
    good: dict[str, Any] = {"schema": "vtare.error/1", "error": "cpu is 4000: use 0 or 1", "exit_code": 2}
    validate(good)
    schema = schema_of(good["schema"])
    for wrong in (
        {**good, "exit_code": "2"},
        {"schema": "vtare.error/1", "error": "x"},
        {**good, "schema": "a"},
        {**good, "cause": "x"},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


class Inner(TypedDict):
    """A part."""

    at_s: float


class Whole(TypedDict):
    """A document."""

    schema: Literal["vtare.test/1"]
    n: Annotated[int | None, "how many; null where nobody counted"]
    inner: list[Inner]
    by_name: dict[str, bool]
    word: Literal["a", "b"]


def test_a_schema_has_what_its_record_declares() -> None:
    made = record_schema(Whole, "vtare.test/1")
    assert made["properties"] == {
        "schema": {"const": "vtare.test/1"},
        "n": {"type": ["integer", "null"], "description": "how many; null where nobody counted"},
        "inner": {"type": "array", "items": {"$ref": "#/$defs/Inner"}},
        "by_name": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "word": {"enum": ["a", "b"]},
    }
    assert (made["description"], made["required"]) == ("A document.", ["by_name", "inner", "n", "schema", "word"])
    part = {
        "description": "A part.",
        "type": "object",
        "properties": {"at_s": {"type": "number"}},
        "required": ["at_s"],
    }
    assert made["$defs"] == {"Inner": part}


@pytest.mark.e2e
def test_the_page_lists_every_document_and_its_examples_are_as_the_schemas_state(root: Path) -> None:
    page = (root / "docs/reference/json.md").read_text("utf-8")
    listed = re.findall(r"^\| `(vtare\.[^`]+)`", page, re.MULTILINE)
    assert listed == sorted(listed)
    assert set(listed) == held().keys()
    examples = re.findall(r"^```json\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert 1 <= len(examples) <= 3
    for example in examples:
        validate(json.loads(example))


# What runs in a moment and needs nothing; those over a network are held by the Rust tests of the same page.
LINES = (
    "timer --samples 3000",
    "sleep --target 1us --samples 5",
    "counter --batches 2 --calls 2 --max-exponent 1 --unit-ms 0.05",
    "noise --seconds 0.01",
    "check --seconds 5",
    "timer --all-cpus --seconds 0.05",
    "load cpu --threads 1 --seconds 0.05",
    "load io --threads 2 --seconds 0.05",
    "selftest --quick --only simulated-loss",
    "rtt 127.0.0.1 --icmp --count 3",
    "doctor host",
    "sleep --tarket 1ms",
    "plan no-such-plan",
    "plan quickstart-quick",
    "plan mesh-quick --on simulated:5",
    "run watch --on simulated:2:1 --seed 1",
    "plan quickstart-quick --power --spread 4 --shift 5",
    "ab --pairs 12 --seed 7 -- true -- true",
    "clean",
)


@pytest.mark.e2e
@pytest.mark.parametrize("line", LINES)
def test_real_documents_are_as_their_schemas_state(root: Path, vtare: Path, line: str) -> None:
    command, *words = line.split()
    done = subprocess.run([vtare, command, "--json", *words], capture_output=True, text=True, check=False, timeout=120)
    document = json.loads(done.stdout)
    validate(document)


@pytest.mark.e2e
def test_documents_of_a_fleet_are_as_their_schemas_state(root: Path, vtare: Path, tmp_path: Path) -> None:
    hosts, store = tmp_path / "hosts.toml", tmp_path / "store"
    hosts.write_text('schema = "vtare.hosts/1"\n[hosts.here]\nkind = "host"\n')
    text = 'schema = "vtare.plan/1"\nname = "p"\nquestion = "q?"\nblocks = 1\n[[experiment]]\ninstrument = "sleep"\n'
    with Store.create(store, parse_plan(text, source=Path("plan.toml")), 1) as opened:
        opened.journal.keep_host_events()
        opened.journal.add_host_events(
            [HostEvent(1.0, "here", "answered"), HostEvent(2.0, "here", "taken", opened.runs[0].run_id)]
        )
    for words in (["check", str(hosts), "--seconds", "5 s"], [str(store)]):
        command = [str(vtare), "fleet", *words, "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        document = json.loads(done.stdout)
        validate(document)
        (host,) = document["hosts"]
        assert host["figures"] if document["schema"] == "vtare.fleet/1" else host["holder"], document


@pytest.fixture(scope="module")
def store(vtare: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A measured campaign: 3 blocks of two ways to read the clock."""
    place = tmp_path_factory.mktemp("measured")
    (place / "plan.toml").write_text(
        'schema = "vtare.plan/1"\nname = "p"\nquestion = "q?"\nblocks = 3\n[[experiment]]\ninstrument = "timer"\n'
        'parameters = { samples = 3000 }\nfactors = { source = ["vtare", "clock_monotonic"] }\n'
    )
    words = ["run", str(place / "plan.toml"), "--store", str(place / "store"), "--seed", "1", "--json"]
    done = subprocess.run([vtare, *words], capture_output=True, check=True, timeout=120)
    (place / "store/campaign.json").write_bytes(done.stdout)
    return place / "store"


# What each prints of that store: a document on stdout, or in the file that it names.
OF_A_STORE = {
    "run": "cat {store}/campaign.json",
    "status": "{vtare} status {store} --json",
    "verify": "{vtare} verify {store} --json",
    "plan-check": "{vtare} plan check {store}/plan.toml --json",
    "power": "{vtare} plan {store} --power --json",
    "plot": "{vtare} report {store} --format svg --out {store}/figures --json",
    "standing": "{vtare} papers kirova2019 --store {store} --json",
    "reanalysis": "{vtare} papers lampe2013 --claims --json",
    "report": "{vtare} report {store} --format json --out {store}/report.json && cat {store}/report.json",
    "exec": "{vtare} exec --report={store}/exec.json sleep 0.01 && cat {store}/exec.json",
}


@pytest.mark.e2e
@pytest.mark.parametrize("document", OF_A_STORE)
def test_documents_of_a_store_are_as_their_schemas_state(root: Path, vtare: Path, store: Path, document: str) -> None:
    line = OF_A_STORE[document].format(vtare=vtare, store=store)
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=True, timeout=120)
    found = json.loads(done.stdout[done.stdout.index("{") :])
    validate(found)


def test_records_of_cells_take_levels_as_keys_and_no_others_do() -> None:
    found = schemas()["vtare.compare/2"]
    open_ones = {name for name, one in found["$defs"].items() if one.get("additionalProperties")}
    assert open_ones == {"ComparedCell", "ComparedTail", "LoneCellDocument"}
