from __future__ import annotations

import re
import tomllib
from pathlib import Path

import jsonschema
import pytest

from vtare.contract import load_contract
from vtare.errors import BadInput
from vtare.fleet.hosts import load_hosts
from vtare.plan.checks import Checks
from vtare.plan.factors import FACTORS, FactorSpec
from vtare.plan.files import find_plan, load_plan, parse_plan, shipped_plans
from vtare.plan.model import Plan
from vtare.plan.schema import plan_schema
from vtare.topology.instance_factors import Load

GOOD = """
schema = "vtare.plan/1"
name = "demo"
question = "How late?"
blocks = 4
seed = 7

[[experiment]]
name = "sleep"
instrument = "sleep"
exceed = "100 us"
baseline = { load = "idle", target_ns = "1000 us" }

[experiment.parameters]
samples = 300
seconds = "0.5 s"

[experiment.factors]
load = ["idle", { kind = "cpu", threads = 8 }, { kind = "cpu", threads = 9, label = "nine" }]
target_ns = ["1 ms", "100 us"]
platform = ["host"]
"""


def parse(text: str) -> Plan:
    return parse_plan(text, source=Path("demo.toml"))


def test_good_plan_is_resolved_with_its_units_gone() -> None:
    plan = parse(GOOD)
    experiment = plan.experiment("sleep")
    assert experiment.parameters == {"samples": 300, "seconds": 0.5}
    assert [level.label for level in experiment.factor("load").levels] == ["idle", "cpu 8", "nine"]
    assert experiment.factor("load").level("nine").value == Load("cpu", 9)
    assert [(level.label, level.value) for level in experiment.factor("target_ns").levels] == [
        ("1 ms", [1_000_000]),
        ("100 us", [100_000]),
    ]
    assert experiment.factor("target_ns").baseline == "1 ms"
    assert experiment.exceed_ns == 100_000
    assert plan.settle_s == pytest.approx(0.2)
    assert plan.analysis.margin_ratio == pytest.approx(1.05)
    assert plan.text == GOOD


def test_first_level_is_the_baseline_where_none_is_named() -> None:
    plan = parse(GOOD.replace('baseline = { load = "idle", target_ns = "1000 us" }', ""))
    assert plan.experiment("sleep").factor("load").baseline == "idle"


SCHEMA = jsonschema.Draft7Validator(plan_schema(load_contract()))
#: What only the reader sees: several keys together, and what a quantity amounts to.
BEYOND = (
    "more than a year", "1e999999999 s", "use more than 0", "is listed twice", "is also in", "1.5 ns", "hots",
    "Use one of: idle, cpu 8, nine", "control characters",
)  # fmt: skip
BAD = [
    ("blocks = 4", 'blocks = 4\nsettle = "1e30 s"', "settle: '1e30 s' is more than a year"),
    ("blocks = 4", 'blocks = 4\nsettle = "1e999999999 s"', "settle: '1e999999999 s' is"),
    ('seconds = "0.5 s"', 'seconds = "1e300 s"', "seconds: '1e300 s' is more than a year"),
    ("samples = 300", "samples = 1e400", "samples is inf: use a finite number"),
    ("samples = 300", f"samples = {10**30}", f"samples is {10**30}: use 10000000 or less"),
    ("samples = 300", f"samples = {'9' * 5000}", "not valid TOML"),
    ('"How late?"', '"\\u001b[2J"', "question is '\\x1b[2J': use a string without control characters"),
    ('exceed = "100 us"', 'run_timeout = "0 s"', "run_timeout is '0 s': use more than 0"),
    ("blocks = 4", f"blocks = {'[' * 5000}{']' * 5000}", "nested too deep"),
    ('schema = "vtare.plan/1"', 'schema = "vtare.plan/9"', "schema is 'vtare.plan/9': use 'vtare.plan/1'"),
    ("blocks = 4", "block = 4", "block: unknown key 'block'. Did you mean 'blocks'? Use one of: schema, name"),
    ("blocks = 4", "", "blocks is missing: use an integer from 1 to 10000"),
    ("blocks = 4", "blocks = 0", "blocks is 0: use an integer from 1 to 10000"),
    ("blocks = 4", "blocks = true", "blocks is true: use an integer"),
    ("seed = 7", "seed = -1", "seed is -1"),
    ('name = "demo"', 'name = "../demo"', "name is '../demo': use letters, digits"),
    ('question = "How late?"', 'question = ""', "question is '': use a string"),
    (
        'instrument = "sleep"',
        'instrument = "slep"',
        ".instrument is 'slep'. Did you mean 'sleep'? Use one of: timer,",
    ),
    (
        "samples = 300",
        'samples = "300"',
        "experiment[0].parameters.samples is '300': use a whole number without quotes",
    ),
    ("samples = 300", "samples = 0", "experiment[0].parameters.samples is 0: use 1 or more"),
    ("samples = 300", "samples = 1.5", "samples is 1.5: use a whole number"),
    ("samples = 300", "sample = 300", "parameters.sample: unknown key 'sample'. Did you mean 'samples'?"),
    ("samples = 300", 'method = "spn"', "parameters.method is 'spn'. Did you mean 'spin'? Use one of"),
    (
        "samples = 300",
        "samples = [1, 2]",
        "is [1, 2]: use one value: a whole number; a list of levels is a factor",
    ),
    ('seconds = "0.5 s"', "seconds = 0.5", 'parameters.seconds is 0.5 without a unit: use a quantity such as "0.5 s"'),
    ('seconds = "0.5 s"', 'seconds = "0.5 kB"', "seconds: '0.5 kB' has the unknown unit 'kB': use one of: ps, ns,"),
    ('seconds = "0.5 s"', 'seconds = "0 s"', "seconds is '0 s': use more than 0 s"),
    ('seconds = "0.5 s"', 'target_ns = "1 ms"', "'target_ns' is also in experiment[0].parameters; keep it in one"),
    ('["1 ms", "100 us"]', '["1 ms", "1 mss"]', "factors.target_ns[1]: '1 mss' has the unknown unit 'mss'"),
    ('["1 ms", "100 us"]', '["1 ms", "1000 us"]', "factors.target_ns[1]: level '1 ms' is listed twice"),
    ('["1 ms", "100 us"]', "[]", "factors.target_ns is []: use a list of levels"),
    ('["1 ms", "100 us"]', '["1.5 ns"]', "factors.target_ns[0] is '1.5 ns': use a whole number of ns"),
    (
        "target_ns = [",
        "target = [",
        "factors.target: unknown factor of sleep. Did you mean 'target_ns'? Use one of: load,",
    ),
    ('["idle", {', '["idel", {', "factors.load[0] is 'idel'. Did you mean 'idle'? Use one of: idle, cpu"),
    ("threads = 8", "threads = 0", "factors.load[1].threads is 0: use an integer from 1"),
    ("threads = 8", "thread = 8", "factors.load[1].thread: unknown key 'thread'. Did you mean 'threads'?"),
    ('["host"]', '["hots"]', "factors.platform[0] is 'hots'. Did you mean 'host'? Use one of: host"),
    (
        'load = "idle", ',
        'load = "ide", ',
        "baseline.load is 'ide'. Did you mean 'idle'? Use one of: idle, cpu 8, nine",
    ),
    ('exceed = "100 us"', "exceed = 100", "exceed is 100: use a quantity with a unit"),
    ('exceed = "100 us"', 'exceed = "-1 us"', "exceed is '-1 us': use 0 or more"),
]


@pytest.mark.parametrize(("good", "bad", "message"), BAD)
def test_bad_plan_names_file_line_key_found_and_wanted(good: str, bad: str, message: str) -> None:
    assert good in GOOD
    changed = GOOD.replace(good, bad, 1)
    with pytest.raises(BadInput) as error:
        parse(changed)
    found = re.match(r"demo\.toml(?::(\d+):(\d+))?: ", str(error.value))
    assert found is not None
    assert message in str(error.value)
    if found[1]:
        first = changed[: changed.index(bad)].count("\n") + 1
        assert first <= int(found[1]) <= first + bad.count("\n") or "keep it in one" in message
    else:
        assert "not valid TOML" in message or "nested" in message or "missing" in message


@pytest.mark.parametrize(
    ("line", "position"),
    [
        ('load = ["idle", "io", "cup"]', "19:23: experiment[0].factors.load[2] is 'cup'"),
        ('loadd = ["idle"]', "19:1: experiment[0].factors.loadd: unknown factor"),
        ('load = ["idle",  # a\n { kind = "cpu",\tthread = 3 }]', "20:18: experiment[0].factors.load[1].thread"),
        ('load = ["idle", { threads = 3 }]', "19:17: experiment[0].factors.load[1].kind is missing"),
        ("load = [1", "20:1: not valid TOML"),
        ("load = ", "19:8: not valid TOML"),
    ],
)  # fmt: skip
def test_an_error_names_line_and_column(line: str, position: str) -> None:
    text = GOOD.split("load = [", maxsplit=1)[0] + line + "\n"
    with pytest.raises(BadInput) as error:
        parse(text)
    assert str(error.value).startswith(f"demo.toml:{position}")


def test_what_is_missing_is_named_at_the_table_that_lacks_it() -> None:
    with pytest.raises(BadInput, match=r"^demo\.toml:8:1: experiment\[0\]\.instrument is missing"):
        parse(GOOD.replace('instrument = "sleep"\n', ""))
    with pytest.raises(BadInput, match=r"^demo\.toml: blocks is missing"):
        parse(GOOD.replace("blocks = 4\n", ""))


@pytest.mark.parametrize(("good", "bad", "message"), BAD)
def test_the_schema_for_editors_refuses_a_bad_plan_where_one_key_alone_shows_it(
    good: str, bad: str, message: str
) -> None:
    text = GOOD.replace(good, bad, 1)
    try:
        allowed = SCHEMA.is_valid(tomllib.loads(text))
    except (ValueError, RecursionError):
        return
    assert allowed is any(words in message or words in bad for words in BEYOND)


def test_plan_without_experiment_and_one_with_a_name_twice_are_refused() -> None:
    with pytest.raises(BadInput, match=r"add an \[\[experiment\]\] table"):
        parse(GOOD.split("[[experiment]]")[0])
    twice = GOOD + '[[experiment]]\nname = "sleep"\ninstrument = "timer"\n'
    with pytest.raises(BadInput, match=r"experiment\[1\].name: 'sleep' is used twice"):
        parse(twice)


def test_control_true_stands_for_a_sleep_cell_and_a_table_is_checked() -> None:
    plan = parse(GOOD.replace("seed = 7", "control = true"))
    assert plan.control is not None
    assert plan.control.instrument == "sleep"
    with pytest.raises(BadInput, match=r"control.parameters.sample: unknown key"):
        parse(GOOD.replace("seed = 7", 'control = { instrument = "timer", parameters = { sample = 1 } }'))


def test_files_of_people_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text(GOOD, encoding="utf-8-sig")
    assert load_plan(tmp_path / "plan.toml").text == GOOD
    hosts = 'schema = "vtare.hosts/1"\n[hosts.one]\nkind = "host"\naddress = "10.0.0.9"\nroles = ["sender"]\n'
    (tmp_path / "hosts.toml").write_text(hosts, encoding="utf-8-sig")
    assert [host.name for host in load_hosts(tmp_path / "hosts.toml")] == ["one"]


def test_broken_toml_missing_file_and_binary_file_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="not valid TOML"):
        parse("schema = ")
    with pytest.raises(BadInput, match="cannot read the plan: No such file"):
        load_plan(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match="not UTF-8"):
        load_plan(tmp_path / "bad.toml")
    with pytest.raises(BadInput, match="Did you mean 'quickstart'"):
        find_plan("quikstart")


def test_a_load_on_a_file_service_is_refused_where_the_lab_has_no_server_beside_the_instance() -> None:
    text = """
schema = "vtare.plan/1"
name = "nbd"
question = "?"
blocks = 1
[[experiment]]
name = "rtt"
instrument = "INSTRUMENT"
factors = { load = ["idle", "nbd"] }
PARAMETERS
"""
    for instrument, parameters in (("throughput", ""), ("rtt", 'parameters = { peer = "192.0.2.1" }')):
        with pytest.raises(BadInput, match=r"load\[1\]: 'nbd' needs a server beside an instance"):
            parse_plan(text.replace("INSTRUMENT", instrument).replace("PARAMETERS", parameters), source=Path("p.toml"))
    beside = text.replace('load = ["idle"', 'background = [1], background_load = ["none"').replace("INSTRUMENT", "rtt")
    with pytest.raises(BadInput, match=r"background_load\[1\]: 'nbd' needs a server beside an instance"):
        parse_plan(beside.replace("PARAMETERS", 'parameters = { peer = "192.0.2.1" }'), source=Path("p.toml"))
    for instrument in ("rtt", "timer"):
        parse_plan(text.replace("INSTRUMENT", instrument).replace("PARAMETERS", ""), source=Path("p.toml"))


@pytest.mark.parametrize("name", ["quickstart", "quickstart-quick"])
def test_shipped_plan_is_good(name: str) -> None:
    assert load_plan(shipped_plans()[name]).name == name


@pytest.mark.parametrize("spec", FACTORS, ids=[spec.name for spec in FACTORS])
def test_every_factor_of_the_lab_refuses_what_is_no_level_of_it(spec: FactorSpec) -> None:
    checks = Checks(Path("plan.toml"), load_contract())
    for found in (None, -1, 1.5, "nonsense of no unit", [], {"x": 1}):
        if spec.name in ("nic", "guest_clock") and isinstance(found, str):
            # The platform knows these names.
            continue
        with pytest.raises(BadInput, match=r"^plan.toml: experiment\.factors"):
            spec.read(checks, found, f"experiment.factors.{spec.name}")
