"""What MkDocs does for this tree beyond its configuration (tools/mkdocs.yml).

- Pages that stand outside docs/ (the benchmarks, the changelog) become pages of the site.
- Links between docs/ and the rest of the tree: to a page of the site where there is one; else the text alone stays,
  since the site has no copy of the source.
- Lists and tables that follow a line of text at once, as code forges allow, get the blank line that Markdown in Python
  needs.
- The pages of the papers are written from their tables (python/src/vtare/papers).
- The navigation lists the questions of docs/questions.toml and the pages of whole folders.
- Figures of runs, keys of plans and options of commands stand in the place of their marks (tools/reference.py,
  python/src/vtare/instruments).
"""

from __future__ import annotations

import json
import os
import re
import runpy
import sys
from pathlib import Path, PurePosixPath
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python" / "src"))
# File of the tree -> page of the site.
OUTSIDE = {
    "CHANGELOG.md": "changelog.md",
    "README.md": "overview.md",
    "bench/README.md": "benchmarks.md",
    "crates/vtare/counters/README.md": "counters.md",
}
SOURCES = {page: source for source, page in OUTSIDE.items()}

REFERENCE = runpy.run_path(str(ROOT / "tools" / "reference.py"))
FIGURES = "<!-- the figures of runs, by instrument -->"
#: Mark on a page -> what makes the text in its place.
MADE = {"<!-- the keys of plans -->": "plan_keys", "<!-- the help of each command -->": "options"}
PAPERS = "<!-- the pages of the papers -->"
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^()\s]+)\)")
FENCE = re.compile(r"\s*(```|~~~)")
LIST_ITEM = re.compile(r"(?:[-*+]|\d+\.) ")


def expanded(entries: list[Any]) -> list[Any]:
    """A part of the navigation with the questions, and with the pages of folders."""
    found: list[Any] = []
    for entry in entries:
        if entry == "QUESTIONS":
            found += REFERENCE["navigation"]()
        elif isinstance(entry, str) and entry.endswith("/"):
            pages = sorted((ROOT / "docs" / entry).rglob("*.md"))
            found += [str(page.relative_to(ROOT / "docs")) for page in pages]
        elif isinstance(entry, dict):
            found.append({name: expanded(one) if isinstance(one, list) else one for name, one in entry.items()})
        else:
            found.append(entry)
    return found


def on_config(config: Any) -> Any:
    """Expand the navigation."""
    config["nav"] = expanded(config["nav"] or [])
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that stand outside docs/, the pages of the papers, and the JSON Schemas of documents."""
    from mkdocs.structure.files import File, InclusionLevel

    for page, source in SOURCES.items():
        files.append(File.generated(config, page, abs_src_path=str(ROOT / source)))
    program = ROOT / "build" / "programs" / "bin" / "vtare"
    command = (program, "schema", "all") if program.exists() else ()
    for name, schema in runpy.run_path(str(ROOT / "tools" / "schemas"))["schemas"](*command).items():
        files.append(File.generated(config, f"schemas/{name}", content=json.dumps(schema, indent=1) + "\n"))
    for name, text in paper_pages().items():
        added = File.generated(config, f"methods/papers/{name}", content=text)
        added.inclusion = InclusionLevel.NOT_IN_NAV
        files.append(added)
    return files


def site_link(target: str, source: PurePosixPath, page: PurePosixPath) -> str | None:
    """Where the link `target` of the file `source` leads from the page `page`; None where the site has no such page."""
    path, _, anchor = target.partition("#")
    if not path or re.match(r"[a-z]+:", target):
        return target
    found = os.path.normpath(source.parent / path)
    if found in OUTSIDE:
        found = OUTSIDE[found]
    elif found.startswith("docs/"):
        found = found.removeprefix("docs/")
    else:
        return None
    return os.path.relpath(found, page.parent) + (f"#{anchor}" if anchor else "")


def rewritten(markdown: str, source: PurePosixPath, page: PurePosixPath) -> str:
    """The text of a file of the tree as the text of a page of the site."""

    def link(match: re.Match[str]) -> str:
        target = site_link(match[3], source, page)
        return match[2] if target is None else f"{match[1]}[{match[2]}]({target})"

    # Through the whole text, since links run over the ends of lines; fenced blocks are left alone.
    parts = re.split(r"(^```.*?^```)", markdown, flags=re.MULTILINE | re.DOTALL)
    text = "".join(part if part.startswith("```") else LINK.sub(link, part) for part in parts)
    lines: list[str] = []
    fenced = False
    for line in text.split("\n"):
        fenced ^= bool(FENCE.match(line))
        before = lines[-1] if lines else ""
        is_list = LIST_ITEM.match(line) and not LIST_ITEM.match(before) and not before.startswith(" ")
        is_table = line.startswith("|") and not before.startswith("|")
        if not fenced and before and (is_list or is_table):
            lines.append("")
        if not fenced and line.startswith("|"):
            # Inside a code span of a table a bar needs no backslash here, and one would be shown.
            line = re.sub(r"`[^`]*`", lambda span: span[0].replace("\\|", "|"), line)
        lines.append(line)
    return "\n".join(lines)


def with_made(markdown: str) -> str:
    """The text of a page with what is made for it in the place of the marks."""
    if FIGURES in markdown:
        from vtare.instruments.reference import tables

        markdown = markdown.replace(FIGURES, tables())
    for mark, made in MADE.items():
        if mark in markdown:
            markdown = markdown.replace(mark, REFERENCE[made]())
    if PAPERS in markdown:
        shown = ", ".join(f"[{name}](papers/{name}.md)" for name in paper_names())
        markdown = markdown.replace(PAPERS, f"All claims and figures: {shown}; [in numbers](papers/README.md).")
    return markdown


def paper_names() -> list[str]:
    """The papers in the lab's order."""
    from vtare.papers.catalogue import PAPERS as CATALOGUE

    return [paper.name for paper in CATALOGUE]


def paper_pages() -> dict[str, str]:
    """What `vtare papers --write` writes: name -> text."""
    from vtare.papers.pages import pages
    from vtare.plan.files import shipped_plans

    return pages(plans=frozenset(shipped_plans()))


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Write the figures of one page and rewrite its links."""
    where = page.file.src_uri
    return rewritten(with_made(markdown), PurePosixPath(SOURCES.get(where, f"docs/{where}")), PurePosixPath(where))


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Name the search dialog for screen readers."""
    return output.replace('component="search" role="dialog"', 'component="search" role="dialog" aria-label="Search"')
