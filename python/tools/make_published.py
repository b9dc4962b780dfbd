"""Write `python/src/vtare/papers/data/published.json` from the published tables beside it.

Usage: python python/tools/make_published.py [--check]

`--check` writes nothing and exits 1 when the file is not what the tables give.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
sys.path.insert(0, str(SOURCE))

from vtare.papers.published import published_text  # noqa: E402  (the package is found through the line above)

TARGET = SOURCE / "vtare" / "papers" / "data" / "published.json"


def main(arguments: list[str]) -> int:
    """Write the file, or compare it when `--check` is given; the exit code of the process."""
    unknown = [argument for argument in arguments if argument != "--check"]
    if unknown:
        print(f"make_published: found argument {unknown[0]!r}, wanted nothing or --check", file=sys.stderr)
        return 2
    text = published_text()
    if "--check" in arguments:
        current = TARGET.read_text(encoding="utf-8") if TARGET.exists() else None
        if current == text:
            return 0
        print(f"{TARGET} is not what the tables give: run python {Path(__file__).name}", file=sys.stderr)
        return 1
    temporary = TARGET.with_suffix(".json.partial")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(TARGET)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
