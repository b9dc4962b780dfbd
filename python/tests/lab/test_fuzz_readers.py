"""Every reader of foreign text in the lab: damaged text is read, or refused with a reason, and nothing else."""

from __future__ import annotations

import json
import random
import tomllib
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from vtare.ab.baseline import read_baseline
from vtare.ab.figures import Reader, read_metric
from vtare.ab.formats import FORMATS
from vtare.campaign.sample_checks import check_load
from vtare.contract import load_contract, read_schema
from vtare.documents import BadDocument, parse
from vtare.errors import VtareError
from vtare.fleet.hosts import load_hosts
from vtare.plan.files import parse_plan, shipped_plans
from vtare.quantities import QuantityError, Unit
from vtare.quantities import parse as parse_quantity
from vtare.topology.clock_relation import read_relations
from vtare.topology.path import read_rate, read_steps

pytestmark = [pytest.mark.attack, pytest.mark.thorough]

#: Inputs of all readers together.
ALL: Final = 12_000
BENCHMARKS = Path(__file__).parents[1] / "ab" / "benchmarks"
HOSTS = """schema = "vtare.hosts/1"
[hosts.left]
host = "192.0.2.11"
user = "measure"
address = "10.0.0.1"
roles = ["sender", "responder"]
[hosts.here]
kind = "host"
address = "10.0.0.9"
"""
LOAD = {"kind": "cpu", "elapsed_s": 1.5, "threads": 2, "operations": 5, "operations_per_s": 3.3, "cpu_fraction": 1.9,
        "io": None, "nbd": None, "net": None}  # fmt: skip
#: What a reader states besides, and who asks it for a document takes for a refusal.
REFUSED: Final[dict[str, tuple[type[Exception], ...]]] = {"schema": (KeyError, TypeError, ValueError, AttributeError)}
PIECES = (
    b"null", b"NaN", b"-Infinity", b"1e999", b"-1", b'"\\u001b[2J"', b"[]", b"{}", b"9" * 400, b"\xff\xfe", b"true",
    b"",
    b"\x1b[", b"\n", b'"', b"=", b"[[", b"0x", b"\0", b"{" * 2000, b"[" * 2000, b"1979-05-27", b"'", b"..", b"-",
)  # fmt: skip


def file_of(read: Callable[[Path], object], place: Path) -> Callable[[bytes], object]:
    """What reads a file, for its bytes."""

    def call(data: bytes) -> object:
        place.write_bytes(data)
        return read(place)

    return call


def text_of(read: Callable[[str], object]) -> Callable[[bytes], object]:
    """What reads a text, for bytes."""
    return lambda data: read(data.decode(errors="replace"))


def relations(data: bytes, place: Path) -> object:
    (place / "clock_relations.json").write_bytes(data)
    return read_relations(place)


def readers(place: Path) -> dict[str, tuple[list[bytes], Callable[[bytes], object]]]:
    """Name -> documents that are right, and what reads them."""
    plans = [path.read_bytes() for path in shipped_plans().values()]
    schema = (Path(__file__).parents[2] / "src/vtare/data/run.schema.json").read_bytes()
    contract = load_contract()
    formats = {
        name: (sorted(path.read_bytes() for path in BENCHMARKS.glob(f"{name}*")) or [b"{}"], name) for name in FORMATS
    }
    seconds = Unit("s", {"s": Decimal(1), "ms": Decimal("0.001")})
    made: dict[str, tuple[list[bytes], Callable[[bytes], object]]] = {
        "hosts": ([HOSTS.encode()], file_of(load_hosts, place / "hosts.toml")),
        "plan": (plans, text_of(lambda text: parse_plan(text, source=place / "plan.toml", contract=contract))),
        "document": ([json.dumps(LOAD).encode()], parse),
        "load": ([json.dumps(LOAD).encode()], lambda data: check_load(parse(data))),
        "schema": ([schema], lambda data: read_schema(parse(data), origin="a binary")),
        "relations": ([b'{"responder": {"offset_ns": 5, "bound_ns": 3}}'], lambda data: relations(data, place)),
        "baseline": ([b'{"schema": "vtare.ab/1", "machine": {}, "pairs": []}'],
                     file_of(lambda path: read_baseline(path, {}), place / "baseline.json")),
        "rate": ([b"100 Mbit/s"], text_of(lambda text: read_rate(text, least=1))),
        "steps": ([b"2 Gbit/s:6 s, 7 Gbit/s:7 s"], text_of(read_steps)),
        "quantity": ([b"5 ms", b"1.5 s"], text_of(lambda text: parse_quantity(text, seconds))),
    }  # fmt: skip
    formats["expression"] = [b"took 12.5 ms\nthen 1,234 us", b"rate 9 Mbit/s"], "all:([0-9.,]+)"
    formats["path"] = [b'{"a": [{"b": 1.5}, {"b": "7 ms"}]}'], "json:a[*].b"
    for name, (documents, how) in formats.items():
        read = partial(Reader([read_metric(f"t={how}")]).read, command="A")
        made[f"ab {name}"] = documents, text_of(read)
    return made


def damaged(rng: random.Random, document: bytes) -> bytes:
    """The document with some of its bytes replaced, doubled or lost."""
    data = bytearray(document)
    for _ in range(rng.randint(1, 5)):
        at = rng.randrange(len(data) + 1)
        data[at : at + rng.choice([0, 1, 3, 30])] = rng.choice([*PIECES, rng.randbytes(4), bytes(data[at : at + 40])])
    return bytes(data)


def test_no_damaged_input_of_any_reader_ends_in_a_traceback(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    seed = random.SystemRandom().randrange(2**32)
    rng = random.Random(seed)
    made = readers(tmp_path)
    wrong: dict[str, Any] = {}
    tried = 0
    for name, (documents, read) in made.items():
        for _ in range(-(-ALL // len(made))):
            data = damaged(rng, rng.choice(documents))
            tried += 1
            try:
                with suppress(VtareError, BadDocument, QuantityError, *REFUSED.get(name, ())):
                    read(data)
            except Exception as error:
                wrong.setdefault(name, (type(error).__name__, str(error)[:200], data[:300]))
    record_property("attack", f"ATTACK {tried:,} damaged inputs to the {len(made)} readers of text: survived")
    assert wrong == {}, f"seed {seed}"


def test_the_documents_that_are_damaged_are_right_at_first(tmp_path: Path) -> None:
    assert tomllib.loads(HOSTS)
    for name in ("hosts", "plan", "document", "load", "schema", "rate", "steps", "quantity"):
        documents, read = readers(tmp_path)[name]
        for document in documents:
            read(document)
