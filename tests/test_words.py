"""The words that the tree avoids (tools/words): found in prose, comments and strings, and in no file of the tree."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def words(tool: Callable[[str], ModuleType]) -> ModuleType:
    return tool("words")


def test_every_rule_finds_its_example_and_leaves_its_counterexample(words: ModuleType) -> None:
    table = words.rules()
    assert [rule.example for rule in table if not rule.pattern.search(rule.example)] == []
    assert [rule.fine for rule in table if rule.fine and rule.pattern.search(rule.fine)] == []
    assert [rule.write for rule in table if words.places("a.md", rule.write, table)] == []


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("a.md", "one\nit was heard\n", 2),
        ("a.md", "it was held\nup for 1 ms\n", 1),
        ("a.py", 'x = 1\nraise E("so many")\n', 2),
        ("a.py", '"""One.\n\nTwo hears more.\n"""\n', 3),
        ("a.py", "x = 'it''s'  # heard\n", 1),
        ("a.rs", 'let a = "x";\n/// It was held\n/// up.\n', 2),
        ("a.rs", "let q = '\"'; // heard\n", 1),
        ("a.rs", 'r#"he "hears" it"#', 1),
        ("a.c", "int heard; /* one\n * looks at the\n * clock */\n", 2),
        ("a.java", "/** It\n * hears. */\n", 2),
        ("a.toml", "a = 1\n# heard\n", 2),
        ("a.j2", "{{ heard }}\n<p>It hears.</p>\n", 2),
        ("run", "#!/bin/sh\ntold=1 # it hears\n", 2),
    ],
)
def test_a_word_is_found_in_prose_comments_and_strings(words: ModuleType, name: str, text: str, line: int) -> None:
    assert [place.line for place in words.places(name, text, words.rules())] == [line]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.py", "heard = heard(1)\n"),
        ("a.py", "f\"{heard['n']} runs\", table['said']\n"),
        ("a.rs", "fn heard(heard: &'a u8) {}\n"),
        ("a.md", 'The key `{"hear":1}` is.\n'),
        ("a.c", 'SEC("xdp.frags/knock") int knock(void)\n'),
        ("notes.txt", "He said.\n"),
        ("a.rs", '#[serde(tag = "hear")] br#"{"hear":"hello"}"#'),
    ],
)
def test_names_in_code_are_left_alone(words: ModuleType, name: str, text: str) -> None:
    assert words.places(name, text, words.rules()) == []


def test_the_place_of_a_word_is_printed_and_fails(
    words: ModuleType, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/words.toml").write_bytes((root / "tools/words.toml").read_bytes())
    (tmp_path / "page.md").write_text("It is reported once.\n")
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    assert words.main([], tmp_path) == 0
    (tmp_path / "page.md").write_text("It is reported once.\nIt hears so.\n")
    assert words.main([], tmp_path) == 1
    assert "page.md:2: 'hears': write receives" in capsys.readouterr().err
