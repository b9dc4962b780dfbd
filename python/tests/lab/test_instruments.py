"""Each instrument is known by one record and one page: nothing else in the lab names one."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import vtare
from vtare.contract import columns, load_contract
from vtare.instruments import RECORDS, control_instrument, instrument, metric
from vtare.quantity_text import quantity_of
from vtare.report.pages import page_of
from vtare.summary.cells import CELL_COLUMNS
from vtare.summary.figures import FIGURE_COLUMNS

SOURCE = Path(vtare.__file__).parent
NAMES = {record.name for record in RECORDS}
HOMES = ("instruments", "report/pages")
#: Words that are an instrument's name and mean something else: file -> words, with what they are there.
OTHER_MEANINGS = {
    "ab/verdict.py": {"noise"},  # a key of its JSON document
    "campaign/background.py": {"counter"},  # a load
    "campaign/host_clocks.py": {"rtt"},  # the program whose stamps compare two clocks
    "campaign/objects.py": {"path"},  # a key of a listing
    "campaign/two_hosts.py": {"capture", "path"},  # the program that runs beside a measurement; a key of topology.json
    "doctor/places.py": {"capture"},  # the program that needs the right to read packets
    "fleet/survey.py": {"noise"},  # a key of the document of `vtare check`
    "fleet/worker.py": {"timer"},  # the program whose document has the facts of a machine
    "papers/claims/batalla.py": {"throughput"},  # a column of a published table
    "papers/claims/oliveira.py": {"rtt"},  # a column of a published table
    # Experiments of plans, which have names like these.
    "papers/held.py": {"counter", "sleep", "capture", "timer", "throughput"},
    "platforms/guest/agent.py": {"path"},  # a key of its messages
    "platforms/guest/libvirt_domain.py": {"timer"},  # an element of a domain's XML
    "platforms/gvisor.py": {"path"},  # a key of a container's configuration
    "platforms/uml.py": {"path"},  # a group of a regular expression
    "plan/factors.py": {"capture"},  # the factor
    "plan/readers.py": {"counter"},  # a load
    "report/overlay_throughput.py": {"throughput"},  # a column of a published table
    "sentences/weigh.py": {"sleep"},  # what a program asks of the kernel
    "terminal/fleet.py": {"noise"},  # a key of the document of `vtare check`
    "topology/path.py": {"sleep"},  # a parameter
    "topology/truth.py": {"path"},  # a key of topology.json
    "terminal/doctor.py": {"path", "rtt"},  # commands
    "weigh/launchers.py": {"path"},  # a key of a container's configuration
}


def named_in(path: Path) -> set[str]:
    """The strings of a module, docstrings aside, that are an instrument's name."""
    return {
        node.value
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in NAMES
    }


def test_only_its_record_and_its_page_name_an_instrument() -> None:
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE).as_posix()
        if not place.startswith(HOMES) and (named := named_in(path)):
            found[place] = named
    assert found == OTHER_MEANINGS


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_record_agrees_with_the_contract(record: object) -> None:
    assert isinstance(record, type(RECORDS[0]))
    written = columns()[record.name]
    parts = {*record.parts, record.value.column, *record.value.gaps_within}
    parts |= {name for name in (record.value.weight, record.until) if name is not None}
    assert parts <= set(written)
    assert record.name in load_contract().instruments
    assert record.exceed is None or record.exceed.parameter in (None, *load_contract().instruments[record.name])


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_every_figure_that_a_record_names_is_a_figure_of_its_runs(record: object) -> None:
    assert isinstance(record, type(RECORDS[0]))
    own = {one.name for one in record.metrics}
    assert record.quantity in own
    named = {*record.layer_figures, *((record.compared,) if record.compared else ())}
    if record.latency_pair is not None:
        named |= {record.latency_pair.most, record.latency_pair.least, record.latency_pair.quantity}
    assert named <= own
    assert {*named, *record.tail_figures} <= set(FIGURE_COLUMNS)
    for one in record.metrics:
        assert one.name == record.quantity or one.name in CELL_COLUMNS
        assert not one.interval or {one.end("low"), one.end("high")} <= set(CELL_COLUMNS)


def test_every_instrument_has_a_page_and_every_quantity_a_unit() -> None:
    for record in RECORDS:
        assert callable(page_of(record.name).sentences)
        assert quantity_of(record.quantity).symbol in ("ns", "bit/s", "packet/s")
        assert metric(record.quantity).axis


def test_control_cell_without_a_name_is_one_that_the_contract_knows() -> None:
    record = control_instrument()
    assert set(record.control or ()) <= set(load_contract().instruments[record.name])


def test_unknown_instrument_is_refused_with_those_that_are_known() -> None:
    from vtare.errors import BadInput

    with pytest.raises(BadInput, match=r"unknown instrument 'timr'\. Did you mean 'timer'\? Use one of"):
        instrument("timr")


@pytest.mark.parametrize(
    "module",
    [
        "instruments",
        "instruments.model",
        "quantity_text",
        "quantities",
        "sentences.template",
        "sentences.words",
        "summary.between",
        "summary.completion",
        "summary.factors",
        "summary.rows",
    ],
)
def test_every_example_gives_what_it_shows(module: str) -> None:
    assert doctest.testmod(importlib.import_module(f"vtare.{module}")).failed == 0


def test_records_load_no_library_that_takes_time_to_start() -> None:
    heavy = ("numpy", "polars", "scipy", "matplotlib")
    program = f"import sys, vtare.instruments; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60,
                          env={"PYTHONPATH": str(SOURCE.parent)})  # fmt: skip
    assert done.stdout.strip() == "[]"


def test_the_unit_in_a_name_is_read_by_one_module() -> None:
    reads = re.compile(r"""(endswith|removesuffix)\(\(?f?["']_(\w+_per_s|byte|hz|ps|ns|us|ms|s|fraction|percent)["']""")
    found = [
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if reads.search(path.read_text(encoding="utf-8"))
    ]
    assert found == ["quantities.py"]
