"""The documentation: links lead somewhere, commands exist, blocks that are marked so are run; the site."""

from __future__ import annotations

import os
import re
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path, PurePosixPath
from types import ModuleType

import far_end
import pytest
from pages import Command, ShellBlock, anchors, broken, commands, links, pages, shell_blocks, wide


@pytest.fixture(scope="module")
def hook(tool: Callable[[str], ModuleType]) -> ModuleType:
    return tool("site_hook.py")


def test_every_relative_link_and_anchor_of_the_pages_resolves(root: Path) -> None:
    assert [line for page in pages(root) for line in broken(page, page.read_text(encoding="utf-8"))] == []


def test_prose_of_the_pages_is_at_most_120_columns_wide(root: Path) -> None:
    # Not wrapped yet: architecture.md (at most 150 lines).
    left_out = {root / "docs/internals/architecture.md"}
    shown = {root / "README.md", root / "CHANGELOG.md", *(root / "docs").rglob("*.md")} - left_out
    found = [(page.name, line) for page in sorted(shown) for line in wide(page.read_text("utf-8"))]
    assert found == []


def test_wide_lines_are_prose_not_tables_links_or_code() -> None:
    long = "word " * 30
    text = f"{long}\n| {long} |\n    {long}\n[{long}](a.md)\n`{long}`\n```\n{long}\n```\n- {long}\n"
    assert wide(text) == [1, 9]


def test_links_to_missing_files_and_headings_are_named(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("# One `two`, three\n\n## Same\n\n## Same\n")
    text = "[a](b.md#one-two-three) [b](b.md#same-1)\n[c](b.md#same-2) [d](c.md) `[e](f.md)` [g](https://example.org)"
    assert broken(tmp_path / "a.md", text) == ["a.md: b.md#same-2: no such heading", "a.md: c.md: no such file"]


def test_links_run_over_the_end_of_a_line_and_headings_in_blocks_are_none() -> None:
    assert links("[two\nwords](a.md), ![picture](b.svg)\n```sh\n[c](d.md)\n```\n") == ["a.md", "b.svg"]
    assert anchors("# A\n```sh\n# B\n```\n") == {"a"}


def test_commands_are_read_from_fenced_and_indented_blocks() -> None:
    indented = "    sudo vtare run PLAN --store x   # remark --no\n\n"
    fenced = "```sh\nA=1 vtare avb P --follow \\\n  --json | head --x\n```\n"
    found = commands(f"{indented}{fenced}\n```text\nvtare check: vm\n```\n")
    assert [(one.subcommand, one.options) for one in found] == [("run", ["--store"]), ("avb", ["--follow", "--json"])]


@pytest.mark.e2e
def test_every_command_of_the_pages_has_its_subcommand_and_options(root: Path, vtare: Path) -> None:
    @cache
    def help_of(*words: str) -> str | None:
        done = subprocess.run([vtare, *words, "--help"], capture_output=True, text=True, timeout=60)
        return done.stdout if done.returncode == 0 else None

    def wrong(command: Command) -> str | None:
        known = help_of(command.subcommand)
        if known is None:
            return f"no subcommand {command.subcommand}"
        # `vtare plan check PLAN`: the options are those of the command below.
        for word in command.words[1:2]:
            if re.search(rf"^Commands:.*^  {re.escape(word)}  ", known, re.M | re.S):
                known = help_of(command.subcommand, word) or ""
        missing = [option for option in command.options if not re.search(rf"{re.escape(option)}(?![\w-])", known)]
        return f"no option {', '.join(missing)}" if missing else None

    shown = [(page, command) for page in pages(root) for command in commands(page.read_text(encoding="utf-8"))]
    assert len(shown) > 30, "found few commands in the pages: are their blocks read?"
    found = [(page.name, command.line, wrong(command)) for page, command in shown]
    assert [one for one in found if one[2] is not None] == []


def test_every_command_has_a_page_in_the_list_of_commands(root: Path) -> None:
    # The golden help is what the binary prints. A test of the binary holds plumbing against the page too.
    golden = (root / "crates/vtare/tests/golden/help_all.txt").read_text(encoding="utf-8")
    listed = re.findall(r"^  ([a-z-]+) {2,}", golden, re.M)
    rows = [line for line in (root / "docs/reference/commands.md").read_text("utf-8").splitlines() if line[:3] == "| ["]
    linked = {word for row in rows for word in re.findall(r"`vtare ([a-z-]+)", row.split("](")[0])}
    assert len(listed) > 25
    assert sorted(set(listed) - linked) == []


def test_readme_home_page_and_navigation_have_the_questions_of_one_table(
    root: Path, hook: ModuleType, tool: Callable[[str], ModuleType]
) -> None:
    reference = tool("reference.py")
    questions = reference.questions()
    assert len(questions) > 10
    for place, prefix in reference.TABLE_PAGES.items():
        text = (root / place).read_text(encoding="utf-8")
        assert reference.with_questions(text, prefix) == text, f"write {place} again: tools/reference.py"
    (shown,) = hook.expanded(["QUESTIONS"])[:1]
    assert shown == {questions[0]["asks"]: questions[0]["page"]}
    for one in questions:
        title = (root / "docs" / one["page"]).read_text(encoding="utf-8").splitlines()[0]
        assert title == f"# {one['asks']}"


def test_every_page_of_the_guide_is_in_the_navigation_and_short(root: Path, hook: ModuleType) -> None:
    text = (root / "tools/mkdocs.yml").read_text(encoding="utf-8")
    listed = set(re.findall(r"guide/[a-z-]+\.md", text + str(hook.expanded(["QUESTIONS"]))))
    pages = sorted((root / "docs/guide").glob("*.md"))
    assert {f"guide/{page.name}" for page in pages} == listed
    long = {page.name: words for page in pages if (words := len(page.read_text(encoding="utf-8").split())) > 700}
    assert long == {}


def test_all_pages_together_have_at_most_45000_words(root: Path) -> None:
    texts = [path.read_text(encoding="utf-8") for path in (root / "docs").rglob("*.md")]
    words = sum(len(re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL).split()) for text in texts)
    assert len(texts) > 50
    assert words <= 45_000, f"{words} words: what two pages say, one says"


def test_the_reference_of_the_site_has_every_plan_key_and_every_command(
    root: Path, tool: Callable[[str], ModuleType]
) -> None:
    reference = tool("reference.py")
    keys = reference.plan_keys()
    assert all(f"\n| `{key}` |" in keys for key in ("blocks", "least_blocks", "instrument", "guest_clock", "target_ns"))
    assert "number with ps, ns" in keys
    options = reference.options()
    golden = (root / "crates/vtare/tests/golden/help_all.txt").read_text(encoding="utf-8")
    listed = set(re.findall(r"^  ([a-z-]+) {2,}", golden, re.M)) - {"help"}
    titles = set(re.findall(r"^## vtare ([a-z-]+)$", options, re.M))
    assert len(titles) > 25
    assert titles <= listed
    assert "--fail-on-regression" in options
    assert "--cpu" in options


def test_readme_and_changelog_stay_short_enough_to_be_read(root: Path) -> None:
    assert len((root / "README.md").read_text(encoding="utf-8").splitlines()) <= 120
    releases = (root / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")[1:]
    assert releases
    # A heading and a blank line stand above the changes.
    lines = {release.partition("\n")[0]: len(release.strip().splitlines()) - 2 for release in releases}
    assert {release: count for release, count in lines.items() if count > 60} == {}


def test_the_citation_names_the_version_of_the_program(root: Path) -> None:
    cited = re.search(r"^version: (\S+)$", (root / "CITATION.cff").read_text(encoding="utf-8"), re.M)
    version = tomllib.loads((root / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["version"]
    assert cited is not None
    assert cited[1] == version


def test_shell_blocks_are_read_with_their_marks() -> None:
    text = (
        "<!-- run by the tests -->\n```sh\na\n```\n1. x\n\n    <!-- not run: long -->\n    ```sh\n    b\n    ```\n"
        "<!-- run by the tests at the far end -->\n```sh\nc\n```\n```sh\nd\n```\n```text\ne\n```\n"
    )
    assert shell_blocks(text) == [
        ShellBlock("a\n", "here", None),
        ShellBlock("b\n", None, "long"),
        ShellBlock("c\n", "far", None),
        ShellBlock("d\n", None, None),
    ]


def test_every_shell_block_is_run_or_states_why_not(root: Path) -> None:
    blocks = [(page.name, block) for page in pages(root) for block in shell_blocks(page.read_text(encoding="utf-8"))]
    assert blocks, "found no shell block"
    assert [(name, block.body) for name, block in blocks if not (block.end or block.why)] == []


def run_block(page: Path, block: str, where: list[str], cwd: Path, vtare: Path) -> None:
    environment = {**os.environ, "PATH": f"{vtare.parent}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "120"}
    line = [*where, "bash", "-euo", "pipefail", "-c", block]
    done = subprocess.run(line, cwd=cwd, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"{page.name}:\n{block}\n{done.stderr}"


@pytest.mark.e2e
def test_shell_blocks_of_the_pages_run_to_their_end(root: Path, vtare: Path, tmp_path: Path) -> None:
    work: list[tuple[Path, list[str]]] = []
    for page in pages(root):
        bodies = [block.body for block in shell_blocks(page.read_text(encoding="utf-8")) if block.end == "here"]
        # What a page before it begins with, too, need not run again.
        known = {other[0] for _, other in work}
        if bodies := [body for body in bodies if body not in known]:
            work.append((page, bodies))

    def run_page(page: Path, bodies: list[str]) -> None:
        place = tmp_path / page.stem
        place.mkdir()
        for body in bodies:
            run_block(page, body, [], place, vtare)

    # They also wait for what they measure.
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda one: run_page(*one), work))


@pytest.fixture
def two_ends() -> Iterator[dict[str, str]]:
    """Two network namespaces, "near" (10.0.0.1) and "far" (10.0.0.2), by their names."""
    if os.geteuid() != 0:
        pytest.skip("namespaces need root")
    with far_end.two_ends("docs") as names:
        yield names


@pytest.mark.e2e
@pytest.mark.parametrize("name", ["bandwidth", "round-trip"])
def test_commands_of_both_ends_run_as_the_page_has_them(
    name: str, root: Path, vtare: Path, tmp_path: Path, two_ends: dict[str, str]
) -> None:
    page = root / "docs/guide" / f"{name}.md"
    blocks = shell_blocks(page.read_text(encoding="utf-8"))
    (far,) = [block.body for block in blocks if block.end == "far"]
    inside = {end: [*far_end.inside(netns)] for end, netns in two_ends.items()}
    *first, last = [Command(line) for line in far.splitlines()]
    for command in first:
        run_block(page, command.line, inside["far"], tmp_path, vtare)
    server = subprocess.Popen([*inside["far"], vtare, *last.words], cwd=tmp_path, stdout=subprocess.DEVNULL)
    try:
        near = [block.body for block in blocks if block.end == "near"]
        assert near, "found no block of the near end"
        for body in near:
            run_block(page, body, inside["near"], tmp_path, vtare)
        assert server.poll() is None, "the responder ended"
    finally:
        server.terminate()
        server.wait(30)


@pytest.mark.parametrize(
    ("target", "source", "page", "expected"),
    [
        ("rtt.md#figures", "docs/methods/avb.md", "methods/avb.md", "rtt.md#figures"),
        ("../guide/trust.md", "docs/methods/avb.md", "methods/avb.md", "../guide/trust.md"),
        ("../../crates/vtare/counters/README.md", "docs/methods/avb.md", "methods/avb.md", "../counters.md"),
        ("../crates/vtare/counters/README.md#x", "docs/index.md", "index.md", "counters.md#x"),
        ("../../../docs/reference/json.md", "crates/vtare/counters/README.md", "counters.md", "reference/json.md"),
        ("../../crates/vtare", "docs/methods/avb.md", "methods/avb.md", None),
        ("https://example.org/a", "docs/methods/avb.md", "avb.md", "https://example.org/a"),
        ("#here", "docs/methods/avb.md", "avb.md", "#here"),
    ],
)
def test_links_between_the_pages_and_the_tree_lead_to_the_site(
    hook: ModuleType, target: str, source: str, page: str, expected: str | None
) -> None:
    assert hook.site_link(target, PurePosixPath(source), PurePosixPath(page)) == expected


def test_a_link_to_a_file_that_the_site_lacks_becomes_its_text(hook: ModuleType) -> None:
    place = PurePosixPath("docs/a.md")
    assert hook.rewritten("see [the\ncode](../crates/x.rs).", place, PurePosixPath("a.md")) == "see the\ncode."


def test_lists_and_tables_right_below_a_line_of_text_get_a_blank_line(hook: ModuleType) -> None:
    place = PurePosixPath("docs/a.md")
    text = "One:\n- a\n  b\n- c\nTwo:\n|a|\n|-|\n```\nx\n- y\n```\n"
    assert hook.rewritten(text, place, PurePosixPath("a.md")) == text.replace(":\n", ":\n\n")


def test_escaped_bars_in_code_spans_of_tables_lose_their_backslash(hook: ModuleType) -> None:
    place = PurePosixPath("docs/a.md")
    assert hook.rewritten("| `a\\|b` | c\\|d |", place, PurePosixPath("a.md")) == "| `a|b` | c\\|d |"
