"""The table of `make test-attacks`: every attack is in it, what failed fails it, and what was not measured is not 0."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import ModuleType

import pytest

CARGO = """
running 3 tests
test serve::attack_garbage ... ok
test attack_silence ... FAILED
test attack_namespaces ... ready
ok

successes:

---- serve::attack_garbage stdout ----
ATTACK garbage: survived, probes lost 2 of 46,000, memory +120 kB, replies to strangers 0
ATTACK copies: survived, memory +8 kB

---- attack_namespaces stdout ----
skipped: a namespace of its own needs root

successes:
    serve::attack_garbage

failures:

---- attack_silence stdout ----
thread 'attack_silence' panicked at x.rs:1:1:

failures:
    attack_silence
"""

JUNIT = """<testsuites><testsuite>
<testcase classname="python.tests.lab.test_store" name="test_link"><system-out>x
ATTACK a link in a store: survived, memory +3 kB
</system-out></testcase>
<testcase classname="python.tests.lab.test_store" name="test_wal"><failure message="no">no</failure></testcase>
<testcase classname="python.tests.lab.test_ssh" name="test_sshd"><skipped message="no sshd"/></testcase>
<testcase classname="t" name="p"><properties>
<property name="attack" value="ATTACK p: survived, replies to strangers 1"/>
</properties></testcase>
</testsuite></testsuites>"""

FIGURES = {
    "garbage datagrams": 1_000_000,
    "half-open connections": 9_990,
    "replies to the datagrams": 0,
    "probes sent": 20_000,
    "answers": 19_999,
    "memory grew by": 1_100,
    "reached: the session lost nothing in the responder": 1,
    "reached: the session lost nothing at all": 0,
    "reached: memory grew by less than 64 MB": 1,
}


def flood(**changed: int) -> str:
    """The document of bench/serve."""
    figures = {**FIGURES, **changed}
    return json.dumps({"figures": [{"name": name, "value": value} for name, value in figures.items()]})


@pytest.fixture(scope="module")
def attacks(tool: Callable[[str], ModuleType]) -> ModuleType:
    """`tools/attacks` as a module."""
    return tool("attacks")


def test_lines_of_rust_tests_are_attacks_with_their_figures_and_a_test_without_a_line_is_one_itself(
    attacks: ModuleType,
) -> None:
    found = attacks.of_cargo(CARGO.splitlines())
    assert found == [
        attacks.Attack("garbage", "survived", 2, 46_000, 120, 0),
        attacks.Attack("copies", "survived", memory_kb=8),
        attacks.Attack("attack_silence", "FAILED"),
        attacks.Attack("attack_namespaces", "skipped", why="a namespace of its own needs root"),
    ]


def test_python_tests_are_read_from_their_report_with_printed_lines_properties_and_skips(attacks: ModuleType) -> None:
    found = attacks.of_junit(JUNIT)
    assert found == [
        attacks.Attack("a link in a store", "survived", memory_kb=3),
        attacks.Attack("test_store::test_wal", "FAILED"),
        attacks.Attack("test_ssh::test_sshd", "skipped", why="no sshd"),
        attacks.Attack("p", "survived", replies=1),
    ]
    assert [attack.failed for attack in found] == [False, True, False, True], "a reply to a stranger is a failure"


def test_the_flood_counts_probes_memory_and_replies_and_fails_by_what_the_responder_did(attacks: ModuleType) -> None:
    (found,) = attacks.of_flood(flood())
    assert (found.result, found.probes_lost, found.probes, found.memory_kb, found.replies) == (
        "survived", 1, 20_000, 1_100, 0,
    )  # fmt: skip
    (found,) = attacks.of_flood(flood(**{"reached: memory grew by less than 64 MB": 0}))
    assert (found.failed, found.why) == (True, "memory grew by less than 64 MB")
    (found,) = attacks.of_flood("")
    assert (found.failed, found.why) == (True, "printed nothing")


def test_the_table_adds_up_and_leaves_empty_what_was_not_measured(attacks: ModuleType) -> None:
    lines = attacks.table([*attacks.of_cargo(CARGO.splitlines()), *attacks.of_flood(flood())])
    assert lines[0].split("  ")[0] == "attack"
    assert lines[2].split() == ["copies", "survived", "+8", "kB"]
    assert lines[-4:] == [
        "5 attacks, 3 survived, 1 failed, 1 skipped",
        "probes lost of running sessions: 3 of 66,000",
        "memory: +1,100 kB at most",
        "replies to strangers: 0",
    ]
    assert "no session's probes were counted" in attacks.table([attacks.Attack("a", "survived")])


def test_a_part_without_attacks_and_an_exit_code_without_a_failed_test_fail_the_run(
    attacks: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    survived = attacks.Attack("a", "survived")
    for answer, code in (((0, [survived]), 0), ((0, []), 1), ((101, [survived]), 1)):
        monkeypatch.setitem(attacks.PARTS, "rust", lambda _vtare, answer=answer: answer)
        assert attacks.main(["--part", "rust"]) == code
    assert "no attack was found" in capsys.readouterr().out


def test_the_table_has_a_row_of_each_stated_attack_and_one_of_each_file(attacks: ModuleType) -> None:
    results = [*attacks.of_cargo(CARGO.splitlines()), *attacks.of_junit(JUNIT)]
    lines = [" ".join(line.split()) for line in attacks.table(results)]
    assert "garbage survived 2 of 46,000 +120 kB 0" in lines
    assert "attack_silence FAILED" in lines
    assert "test_ssh: 1 tests survived 0, skipped 1" in lines
    assert any(line.startswith("8 attacks,") for line in lines)
