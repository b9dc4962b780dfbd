"""The pages of this tree as Markdown: their links, their anchors, and the commands that they show."""

from __future__ import annotations

import os
import re
import shlex
import textwrap
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(
    r"^(?P<indent> *)(?P<mark>```|~~~)(?P<info>[^\n]*)\n(?P<body>.*?)^(?P=indent)(?P=mark)[ ]*$", re.M | re.S
)
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(([^()\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
# An HTML comment above each shell block: where the tests run its commands, or why they do not.
MARK = re.compile(
    r"^ *<!-- (?:(?P<run>run by the tests(?: at the (?P<end>far|near) end)?)|not run: (?P<why>[^>]+)) -->\n\Z", re.M
)


def pages(root: Path) -> list[Path]:
    """The pages whose links and commands are checked."""
    places = ["README.md", "CHANGELOG.md", "bench/README.md", "crates/vtare/counters/README.md"]
    return [*(root / place for place in places), *sorted((root / "docs").rglob("*.md"))]


def without_code(text: str) -> str:
    """`text` without fenced blocks and code spans; lines stay."""
    text = FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)
    return re.sub(r"`[^`\n]*`", lambda span: "x" * len(span[0]), text)


def wide(text: str) -> list[int]:
    """The lines of prose above 120 columns, by number; tables, links and code may be wider."""
    found = []
    for number, line in enumerate(without_code(text).splitlines(), 1):
        plain = re.sub(r"x{3,}", "", LINK.sub("", line)).rstrip()
        if len(plain) > 120 and not re.match(r" *\||    ", line):
            found.append(number)
    return found


def links(text: str) -> list[str]:
    """The targets of the links and pictures of a page."""
    return LINK.findall(without_code(text))


def anchors(text: str) -> set[str]:
    """What `#...` may name on a page, by the rule of code forges and of the site."""
    found: set[str] = set()
    for title in HEADING.findall(FENCE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        number = 0
        while (name := f"{slug}-{number}" if number else slug) in found:
            number += 1
        found.add(name)
    return found | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


def broken(page: Path, text: str) -> list[str]:
    """The relative links of a page that lead nowhere."""
    wrong = []
    for target in links(text):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        file = Path(os.path.normpath(page.parent / path)) if path else page
        if not file.exists():
            wrong.append(f"{page.name}: {target}: no such file")
        elif anchor and file.suffix == ".md":
            there = text if file == page else file.read_text(encoding="utf-8")
            if anchor not in anchors(there):
                wrong.append(f"{page.name}: {target}: no such heading")
    return wrong


@dataclass(frozen=True)
class Command:
    """A command line of vtare as a page shows it."""

    line: str

    @property
    def words(self) -> list[str]:
        """Its words from the subcommand on, up to a pipe, a redirection, another program's words, or a remark."""
        bare = re.sub(r"[\[\]]", " ", self.line)
        bare = re.split(r" \| | > | 2>| -- | # |\s#|;| && ", bare + " ")[0]
        words = shlex.split(bare.replace("'", "").replace('"', "").replace(".venv/bin/", ""))
        return words[words.index("vtare") + 1 :]

    @property
    def subcommand(self) -> str:
        """`rtt` of `vtare rtt PEER`."""
        return self.words[0]

    @property
    def options(self) -> list[str]:
        """Its long options, without their values."""
        return [re.split(r"[=,|]", word)[0] for word in self.words if re.match(r"--[a-z]", word)]


STARTS = re.compile(r"\s*(?:\$ )?(?:sudo )?(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?vtare [a-z]")


def commands(text: str) -> list[Command]:
    """The command lines of vtare in the fenced and indented blocks of a page."""
    text = text.replace("\\\n", " ")
    fenced = [block["body"] for block in FENCE.finditer(text) if block["info"].strip() != "text"]
    indented = re.findall(r"^ {4,}\S.*$", FENCE.sub("", text), re.MULTILINE)
    lines = [*indented, *(line for body in fenced for line in body.split("\n"))]
    return [Command(line.strip()) for line in lines if STARTS.match(line)]


@dataclass(frozen=True)
class ShellBlock:
    """A shell block of a page, and what its mark states; of one without a mark, neither `end` nor `why` is set."""

    body: str
    #: Where the tests run it: "here"; at the "far" or the "near" end of a path between 10.0.0.1 and 10.0.0.2.
    end: str | None
    #: Why they do not.
    why: str | None


def shell_blocks(text: str) -> list[ShellBlock]:
    """The shell blocks of a page, in their order."""
    found = []
    for block in FENCE.finditer(text):
        if block["info"].strip() != "sh":
            continue
        mark = MARK.search(text[: block.start()])
        end = (mark["end"] or "here") if mark and mark["run"] else None
        found.append(ShellBlock(textwrap.dedent(block["body"]), end, mark["why"] if mark else None))
    return found
