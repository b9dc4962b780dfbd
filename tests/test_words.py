"""The words that the tree avoids (tools/words): found where they are read, counted by file, never more than before."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def words(tool: Callable[[str], ModuleType]) -> ModuleType:
    return tool("words")


@pytest.fixture
def tree(root: Path, tmp_path: Path) -> Path:
    """A small tree with the real table of words, a page with one of them, and its count."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/words.toml").write_bytes((root / "tools/words.toml").read_bytes())
    (tmp_path / "page.md").write_text("It is told once.\n")
    (tmp_path / "tools/words_left.json").write_text('{"page.md": 1}\n')
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    return tmp_path


def counts(tree: Path) -> object:
    return json.loads((tree / "tools/words_left.json").read_text())


def test_every_rule_finds_its_example_and_leaves_its_counterexample(words: ModuleType) -> None:
    table = words.rules()
    assert [rule.example for rule in table if not rule.pattern.search(rule.example)] == []
    assert [rule.fine for rule in table if rule.fine and rule.pattern.search(rule.fine)] == []
    assert [rule.write for rule in table if words.places("a.md", rule.write, table)] == []


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [
        ("a.md", "one\nit was told\n", 2),
        ("a.md", "it was held\nup for 1 ms\n", 1),
        ("a.py", 'x = 1\nraise E("so many")\n', 2),
        ("a.py", '"""One.\n\nTwo says more.\n"""\n', 3),
        ("a.py", "x = 'it''s'  # heard\n", 1),
        ("a.rs", 'let a = "x";\n/// It was held\n/// up.\n', 2),
        ("a.rs", "let q = '\"'; // told\n", 1),
        ("a.rs", 'r#"he "says" it"#', 1),
    ],
)
def test_a_word_is_found_in_prose_comments_and_strings(words: ModuleType, name: str, text: str, line: int) -> None:
    assert [place.line for place in words.places(name, text, words.rules())] == [line]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.py", "told = heard(1)\n"),
        ("a.py", "f\"{told['n']} runs\", table['said']\n"),
        ("a.rs", "fn told(heard: &'a u8) {}\n"),
        ("a.md", 'The key `{"say":1}` is.\n'),
        ("a.rs", '#[serde(tag = "say")] br#"{"say":"hello"}"#'),
    ],
)
def test_names_in_code_are_left_alone(words: ModuleType, name: str, text: str) -> None:
    assert words.places(name, text, words.rules()) == []


def test_a_tree_with_its_counts_passes(words: ModuleType, tree: Path) -> None:
    assert words.main([], tree) == 0


def test_one_more_word_fails_with_its_place_and_cannot_be_allowed(
    words: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "page.md").write_text("It is told once.\nIt says so.\n")
    assert words.main([], tree) == 1
    assert "page.md:2: 'says': write reports" in capsys.readouterr().err
    assert words.main(["--lower"], tree) == 1
    assert counts(tree) == {"page.md": 1}


def test_a_better_file_fails_until_its_count_is_lowered(
    words: ModuleType, tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tree / "page.md").write_text("It is reported once.\n")
    assert words.main([], tree) == 1
    assert "run `tools/words --lower`" in capsys.readouterr().err
    assert words.main(["--lower"], tree) == 0
    assert counts(tree) == {}
    assert words.main([], tree) == 0


def test_a_moved_file_takes_its_count_along(words: ModuleType, tree: Path) -> None:
    subprocess.run(["git", "mv", "page.md", "other.md"], cwd=tree, check=True)
    assert words.main([], tree) == 1
    assert words.main(["--lower"], tree) == 0
    assert counts(tree) == {"other.md": 1}
