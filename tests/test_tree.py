"""The tree as a whole: no registry host, no path of the place where it was written, one version, short pages."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import TypeGuard

import pytest
import rust_source
import thorough
from rust_modules import is_test

import vtare
from vtare import stats

# Put together here, since this file is searched as well.
REGISTRY_HOSTS = [
    ".".join(labels)
    for labels in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("crates", "io"),
        ("npmjs", "org"),
        ("deb", "debian", "org"),
        ("security", "debian", "org"),
        ("archive", "ubuntu", "com"),
        ("proxy", "golang", "org"),
        ("repo1", "maven", "org"),
        ("repo", "maven", "apache", "org"),
        ("registry-1", "docker", "io"),
        ("hub", "docker", "com"),
        ("conda", "anaconda", "org"),
    )
]
WORKPLACES = ["/" + name + "/" for name in ("work", "root", "home")]

HOST = re.compile("|".join(rf"(?<![\w-]){re.escape(host)}(?![\w])" for host in REGISTRY_HOSTS))
PATH = re.compile(rf"(?<![\w.)}}/~-])(?:{'|'.join(map(re.escape, WORKPLACES))})(?=[\w.])")
# Cargo writes its default source into every lock file; it is a name there, and part of the format.
LOCK_SOURCE = re.compile(r'^source = "registry\+https://github\.com/rust-lang/[a-z.]+-index"$', re.MULTILINE)


def offences(name: str, text: str) -> list[str]:
    """Every registry host and workplace path in `text`, as `name:line: what`."""
    # Most files have none of the words; the patterns take a minute over the whole tree.
    if not any(word in text for word in (*REGISTRY_HOSTS, *WORKPLACES)):
        return []
    if Path(name).name == "Cargo.lock":
        text = LOCK_SOURCE.sub("", text)
    return [
        f"{name}:{number}: {match[0]}"
        for number, line in enumerate(text.split("\n"), start=1)
        for pattern in (HOST, PATH)
        for match in pattern.finditer(line)
    ]


def test_no_tracked_file_names_a_registry_host_or_a_workplace_path(root: Path, tracked: list[Path]) -> None:
    found = [
        line for path in tracked for line in offences(str(path), (root / path).read_text("utf-8", errors="replace"))
    ]
    assert found == []


@pytest.mark.parametrize("host", REGISTRY_HOSTS)
def test_a_registry_host_is_found_in_an_address(host: str) -> None:
    assert offences("a.md", f"one\nsee https://files.{host}/simple") == [f"a.md:2: {host}"]


@pytest.mark.parametrize("place", WORKPLACES)
def test_a_workplace_path_is_found_whole_and_quoted(place: str) -> None:
    assert offences("a.py", f'open("{place}main/x")') == [f"a.py:1: {place}"]


def test_neighbours_of_the_patterns_are_left_alone() -> None:
    harmless = "crates/iota frame" + "work/x docker.io net" + "work/y $HOME" + "/home /home/ ~/work/x"
    assert offences("a.md", harmless) == []


def test_a_lock_file_may_state_where_cargo_looks_by_default_and_nothing_else() -> None:
    index = "-".join((REGISTRY_HOSTS[2], "index"))
    line = f'source = "registry+https://github.com/rust-lang/{index}"'
    assert offences("Cargo.lock", f"[[package]]\n{line}\n") == []
    assert offences("Cargo.toml", line) == [f"Cargo.toml:1: {REGISTRY_HOSTS[2]}"]


def python_strings(source: str) -> list[str]:
    """The strings of a Python source, each with its parts joined; what an f-string fills in is left out."""
    return [
        "".join(str(part.value) for part in ast.walk(node) if isinstance(part, ast.Constant))
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.JoinedStr | ast.Constant)
    ]


def strings_of(path: Path) -> list[str]:
    """The strings of a source in any of the tree's languages; of others each line."""
    text = path.read_text("utf-8", errors="replace")
    if path.suffix == ".py" or (not path.suffix and re.match("#!.*python", text)):
        return python_strings(text)
    return rust_source.strings(text) if path.suffix in (".rs", ".c", ".h", ".java", ".go") else text.split("\n")


# "found X, expected Y", in either order. A message has what is wrong, the value and the fix.
UNSAID = re.compile(r"\bfound\b[^.]*?[,;:] expected\b|\bexpected\b[^.]*?[,;:] found\b|[,;(] ?found [{\d]")


def test_no_message_has_the_form_that_nobody_says(root: Path, tracked: list[Path]) -> None:
    sources = [path for path in tracked if path.suffix in ("", ".py", ".rs", ".c", ".h", ".java", ".go", ".txt")]
    said = [
        f"{path}: {text}"
        for path in sources
        if path.name != "test_tree.py" and "found" in (root / path).read_text("utf-8", errors="replace")
        for text in strings_of(root / path)
        if UNSAID.search(text)
    ]
    assert said == [], "write `KEY is VALUE: use WHAT`"


def test_the_form_that_nobody_says_is_found_across_the_parts_of_a_string(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('f"x: found {1}, "\\\n"expected {2}"')
    (tmp_path / "a.rs").write_text('// found 1, expected 2\nf("x: found {a}, \\\n   expected {b}")')
    for name in ("a.py", "a.rs"):
        assert any(UNSAID.search(text) for text in strings_of(tmp_path / name)), name
    assert not UNSAID.search("it was found where nobody expected it")


#: The rooms of the lab whose sentences stand in `vtare.sentences`.
SPEAKING = ("ab", "campaign", "cli", "doctor", "fleet", "report", "series", "summary", "terminal", "watch", "weigh")
#: Sentences that are left there, by file: comments in TeX, help of metrics. It may only get shorter.
SENTENCES_LEFT = {"report/plain.py": 2, "watch/metrics.py": 10}


def sentences(source: str) -> list[str]:
    """Sentences and questions of five or more words, but those of docstrings, errors, and help of options."""
    found = []
    nodes: list[ast.AST] = [ast.parse(source)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Raise) or (isinstance(node, ast.keyword) and node.arg == "help"):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        parts = node.values if isinstance(node, ast.JoinedStr) else [node] if isinstance(node, ast.Constant) else []
        text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts).rstrip()
        if re.search(r"[\w)}%`]\.$|\w\?$", text) and len(text.split()) >= 5:
            found.append(text)
        nodes += [] if isinstance(node, ast.JoinedStr) else ast.iter_child_nodes(node)
    return found


def test_sentences_of_the_lab_stand_in_one_package(root: Path) -> None:
    lab = root / "python/src/vtare"
    files = [path for room in SPEAKING for path in (lab / room).rglob("*.py")]
    said = {str(path.relative_to(lab)): sentences(path.read_text(encoding="utf-8")) for path in files}
    assert {name: len(some) for name, some in said.items() if some} == SENTENCES_LEFT, "move it to vtare.sentences"


def test_a_sentence_is_found_and_what_is_none_is_left_alone() -> None:
    assert sentences('"""A docstring is no sentence here."""\nprint(f"The figure is {x} "\n"and no more.")') == [
        "The figure is {} and no more."
    ]
    for harmless in (
        'raise E(f"{x} is not what was meant.")',
        'f(help="Show all that there is.")',
        '"Not a sentence."',
    ):
        assert sentences(harmless) == []


#: Where the binary has every sentence that it answers with, and where option help and the contract have theirs.
SENTENCES = "sentences.rs"
OTHER_WORDS = re.compile(r"(?:^|/)(?:cli|schema|parameters|sentences)\.rs$|(?:^|/)exec/")
#: What takes a sentence is not given letters of its own.
GIVEN = re.compile(
    r"(?:Note::new\([^,()]+,|\.(?:limit|change|figure)\(|Answer::(?:new|none)\()\s*(?:format!\(\s*)?\"(?P<text>[^\"]*)"
)


def own_sentences(source: str) -> list[str]:
    """The sentences that a file of the binary has itself, outside its tests."""
    program = re.split(r"^#\[cfg\(test\)\]\nmod \w+ {", source, maxsplit=1, flags=re.MULTILINE)[0]
    given = [found["text"] for found in GIVEN.finditer(program)]
    whole = [text.strip('"') for text in rust_source.strings(program)]
    # Four words or more, and a full stop or the colon before a command.
    return [text for text in whole if len(re.findall(r"\w+", text)) >= 4 and re.search(r"[.:]\s*$", text)] + [
        text for text in given if re.search("[A-Za-z]", re.sub("{[^}]*}", "", text))
    ]


def test_every_sentence_of_the_binary_stands_in_one_file(root: Path) -> None:
    source = root / "crates" / "vtare" / "src"
    files = [file for file in source.rglob("*.rs") if not is_test(file.relative_to(source))]
    found = [
        f"{file.relative_to(source)}: {text}"
        for file in files
        if not OTHER_WORDS.search(str(file.relative_to(source)))
        for text in own_sentences(file.read_text(encoding="utf-8"))
    ]
    assert found == [], f"move it to {SENTENCES}"


def test_a_sentence_in_the_logic_is_found_and_a_part_is_none() -> None:
    for code in (
        'answer.change("Keep it on one CPU:", line);',
        'let text = format!("{way}: the buffer holds \\\n    {depth}.");',
        'notes.push(Note::new("late", format!("late by {x}")));',
        'answer.limit("too slow");',
    ):
        assert own_sentences(code), code
    for code in ('Answer::new(format!("{first} {second}"))', "answer.limit(words::late(peer));", '"ps -eo psr,pcpu"'):
        assert not own_sentences(code), code
    assert own_sentences('#[cfg(test)]\nmod tests {\n    assert_eq!(text, "It is late by 3 ms.");\n}') == []


def test_the_lab_states_the_version_of_the_workspace(root: Path) -> None:
    manifest = tomllib.loads((root / "Cargo.toml").read_text(encoding="utf-8"))
    assert vtare.__version__ == manifest["workspace"]["package"]["version"]


def test_benches_are_built_as_the_product_is(root: Path) -> None:
    profiles = [
        tomllib.loads((root / name).read_text(encoding="utf-8"))["profile"]["release"]
        for name in ("Cargo.toml", "bench/Cargo.toml")
    ]
    product, bench = ({key: value for key, value in profile.items() if key != "package"} for profile in profiles)
    assert bench == product


def test_the_architecture_page_stays_short_enough_to_be_read(root: Path) -> None:
    assert len((root / "docs/internals/architecture.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_lines_of_compiled_code_are_at_most_120_columns_wide(root: Path, tracked: list[Path]) -> None:
    """rustfmt holds most code to that width, but no comments, strings and insides of macros. Rows of tables may be."""
    wide = [
        f"{path}:{number}"
        for path in tracked
        if path.suffix in (".rs", ".c", ".h", ".java", ".go")
        for number, line in enumerate((root / path).read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > 120 and not line.rstrip().endswith("|")
    ]
    assert wide == [], "break strings with a backslash at the end of the line, and other code by hand"


def test_every_entry_of_the_thorough_tests_is_a_tests_beginning(root: Path) -> None:
    assert thorough.unknown(root) == []
    assert not thorough._is_known(root, "tests/test_tree.py", "test_that_is_not_there")


#: Where the word of a verdict may stand as text, and why; a name ending in `/` is a whole room.
VERDICT_WORDS = {
    "stats/verdicts.py": "declares them",
    "sentences/": "has sentences, which nothing decides by",
    "report/text.py": "names the CSS class of a cell that stands out",
    "papers/claims/oliveira_words.py": "compares with a word that the paper prints",
}


def verdict_words(source: str) -> list[str]:
    """Strings that are the word of a verdict, but keys of documents and of columns."""
    words = {*stats.Merit, *stats.Verdict, *stats.Speed, *stats.Unclear, "differs", "undecided"}
    words.remove(stats.Verdict.REFUSED)  # heads columns of reasons, too
    nodes = list(ast.walk(ast.parse(source)))
    keys = {id(key) for node in nodes if isinstance(node, ast.Dict) for key in node.keys}
    keys |= {id(node.slice) for node in nodes if isinstance(node, ast.Subscript)}
    keys |= {id(node.args[0]) for node in nodes if _makes_a_column(node)}
    constants = [node for node in nodes if isinstance(node, ast.Constant) and id(node) not in keys]
    return [node.value for node in constants if isinstance(node.value, str) and node.value.strip() in words]


def _makes_a_column(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and ast.unparse(node.func) == "Column" and bool(node.args)


def test_the_word_of_a_verdict_stands_where_verdicts_are_declared(root: Path) -> None:
    lab = root / "python/src/vtare"
    said = {str(path.relative_to(lab)): verdict_words(path.read_text("utf-8")) for path in sorted(lab.rglob("*.py"))}
    owned = {name: next((owner for owner in VERDICT_WORDS if name.startswith(owner)), None) for name in said}
    assert {name: some for name, some in said.items() if some and not owned[name]} == {}, "use vtare.stats.verdicts"
    assert {owned[name] for name, some in said.items() if some} - {None} == set(VERDICT_WORDS)


def test_the_word_of_a_verdict_is_found_and_a_key_is_none() -> None:
    assert verdict_words('x = "slower" if y else f"{z} too noisy"') == ["slower", " too noisy"]
    assert verdict_words('Column("differs", "worse")') == ["worse"]
    assert verdict_words('{"worse": row["better"], "refused": "it is worse than that"}') == []
