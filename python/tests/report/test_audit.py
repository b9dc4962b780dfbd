"""The first screens of stores of all instruments, good and planted bad, and screens that were tampered with."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from audit import audit
from forwarding_store import write_forwarding_store
from planted import of_cells, of_columns, others, planted
from synthetic_store import SMALL, Recipe, write_store

from vtare.report.content import content_of
from vtare.report.plain import markdown
from vtare.summary import summarise

HERE = Path(__file__).parent
ALL_FAILED = tuple((method, block) for method in ("usleep", "clock_nanosleep", "two_phase", "adaptive")
                   for block in (1, 2))  # fmt: skip


def slow(rows: pl.DataFrame, footer: dict[str, Any], place: Path) -> pl.DataFrame:
    """A sender that reaches a sixth of its rate, and is too late for one slot in five."""
    footer["run"]["parameters"]["rate_packet_per_s"] = 1000
    late = pl.int_range(pl.len()) % 5 == 0
    rows = rows.with_columns(fate=pl.when(late).then(pl.lit("too_late")).otherwise(pl.col("fate").cast(pl.String)))
    return of_cells(achieved_packet_per_s=165.0)(rows, footer, place)


Make = Callable[[Path, dict[str, Path]], Path]
#: What each store is, and how it is made in a directory; the whole stores are those of fixtures.
STORES: dict[str, Make] = {
    "timers, sleeps, counters, noise": lambda to, _: write_store(to, Recipe(blocks=5, all_instruments=True)),
    "one run": lambda to, _: write_store(to, Recipe(blocks=1, all_instruments=True)),
    "half empty": lambda to, _: write_store(to, Recipe(blocks=6, pending_from_block=4, skip_load="io")),
    "all failed": lambda to, _: write_store(to, Recipe(blocks=2, plan_text=SMALL.plan_text, fail=ALL_FAILED)),
    "most runs failed": lambda to, _: write_store(
        to, Recipe(blocks=4, fail=tuple(("usleep", block) for block in (1, 2, 3)))
    ),
    "sleeps capped": lambda to, _: write_store(to, Recipe(blocks=5, capped={"two_phase": (20, 0.3)})),
    "sleeps disturbed": lambda to, _: planted(
        write_store(to.with_name("made"), Recipe(blocks=4)), to, of_columns(disturbed=pl.lit(True)), instrument="sleep"
    ),
    "round trips": lambda to, whole: planted(whole["rtt"], to, of_cells()),
    "round trips too slow": lambda to, whole: planted(whole["rtt"], to, slow),
    "estimates": lambda to, whole: planted(whole["avb"], to, of_cells()),
    "estimates disturbed": lambda to, whole: planted(whole["avb"], to, others(1.5)),
    "estimates open": lambda to, whole: planted(whole["avb"], to, of_columns(
        low_bit_per_s=pl.when(pl.col("low_bit_per_s").is_not_null()).then(0),
        high_bit_per_s=pl.when(pl.col("high_bit_per_s").is_not_null()).then(pl.lit(10**12)),
    )),
    "throughput": lambda to, _: write_forwarding_store(to),
    "throughput capped": lambda to, _: write_forwarding_store(to, blocks=5, loaded=(1, 12), most=100_000),
    "throughput all capped": lambda to, _: write_forwarding_store(to, blocks=6, loaded=(1, 12), most=2_000),
    "throughput disturbed": lambda to, _: planted(
        write_forwarding_store(to.with_name("made")), to, of_cells(disturbed_trials=8)
    ),
    "throughput void": lambda to, _: planted(
        write_forwarding_store(to.with_name("made")), to, of_cells(void_trials=40)
    ),
    "paths": lambda to, whole: planted(whole["path"], to, of_cells()),
    "paths not filled": lambda to, whole: planted(
        whole["path"], to, lambda rows, footer, place: of_columns(at_least=pl.lit(True))(
            of_cells(depth_at_least=True, avb_at_least=True)(rows, footer, place), footer, place)
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def whole(two_host_store: Path, routed_store: Path, path_store: Path) -> dict[str, Path]:
    return {"rtt": two_host_store, "avb": routed_store, "path": path_store}


@pytest.fixture(scope="module")
def screens(whole: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, str]]:
    """The store of a name and its report, made once."""
    made: dict[str, tuple[Path, str]] = {}

    def get(name: str) -> tuple[Path, str]:
        if name not in made:
            store = STORES[name](tmp_path_factory.mktemp("store") / "store", whole)
            made[name] = (store, markdown(content_of(summarise(store), figures=False)))
        return made[name]

    return get


def test_the_script_imports_nothing_of_vtare() -> None:
    tree = ast.parse((HERE / "audit.py").read_text(encoding="utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not {name for name in names if name.split(".")[0] == "vtare"}


@pytest.mark.parametrize("name", STORES)
def test_a_first_screen_states_only_what_its_readings_carry(
    screens: Callable[[str], tuple[Path, str]], name: str
) -> None:
    assert audit(*screens(name)) == []


@pytest.mark.parametrize(
    ("name", "pattern", "by", "found"),
    [
        ("throughput all capped", "at least ", "", "bound used as value"),
        ("throughput capped", r"n/a \(not compared\) \| inconclusive", "1.00\N{MULTIPLICATION SIGN} (1.00 to 1.00) | "
         "equivalent within 5 %", "bound used as value"),
        ("round trips", r"(\d[\d.]*) % or", "60.1 % or", "mixed readings"),
        ("round trips too slow", "not reached", "reached", "unreached level"),
        ("round trips too slow", r"n/a \(not compared\)", "290\N{MULTIPLICATION SIGN} (280 to 300)", "unreached level"),
        ("estimates disturbed", "Not certain: [^;]*;", "Not certain:", "hidden disturbance"),
        ("estimates disturbed", "be trusted", "be read", "hidden disturbance"),
        ("sleeps disturbed", "were disturbed", "were made", "hidden disturbance"),
        ("throughput void", "were void", "were made", "hidden disturbance"),
        ("most runs failed", "failed or were skipped", "ended", "hidden disturbance"),
        ("estimates", "at a median width of", "and a width of", "interval without its width"),
        ("estimates", r"held the truth in (\d+) of \d+", r"held the truth in \1 of 25", "interval without information"),
        ("throughput capped", "Not certain: .*", "All 2 comparisons are decided, for this machine.", "contradiction"),
    ],
)  # fmt: skip
def test_a_screen_that_was_tampered_with_is_found(
    screens: Callable[[str], tuple[Path, str]], name: str, pattern: str, by: str, found: str
) -> None:
    store, text = screens(name)
    # The pages keep numbers with their units by spaces that do not break.
    text = text.replace("\N{NO-BREAK SPACE}", " ")
    changed = re.sub(pattern, by, text)
    assert changed != text
    assert any(line.startswith(found) for line in audit(store, changed)), audit(store, changed)
