"""What the lab's commands print on a terminal of 80 columns: each screen as it was agreed, in `python/tests/screens`.

`VTARE_BLESS=1` writes them anew. Look at every line that changes before you commit it.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

STORES = Path(__file__).parents[1] / "stores"
SCREENS = Path(__file__).parents[1] / "screens"
#: File -> the command, and the most lines that its screen may have.
COMMANDS = {
    "plan-list": ("plan list", 30),
    "plan-show": ("plan show quickstart-quick", 24),
    "plan-power": ("plan power quickstart-quick --spread 4 --shift 5", 12),
    "status": ("status before", 4),
    "verify": ("verify before", 4),
    "compare": ("compare before after", 24),
    "papers": ("papers", 60),
    "papers-table": ("papers batalla_jain_index", 30),
    "clean": ("clean", 2),
}
#: A line with one of these is to be copied: it stays whole.
WHOLE = ("vtare run ", "vtare compare ", "vtare resume ", "vtare status ")


@pytest.mark.parametrize("name", COMMANDS)
def test_screen_of_80_columns_is_as_agreed(name: str, tmp_path: Path) -> None:
    for store, archive in (("before", "ae2cfa03"), ("after", "c17cec1b")):
        shutil.unpack_archive(STORES / f"store-0.1.0-{archive}.tar.xz", tmp_path / "unpacked")
        (tmp_path / "unpacked" / "old-store").rename(tmp_path / store)
    line, most = COMMANDS[name]
    terminal = {"FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "80"}
    words = [sys.executable, "-m", "vtare.cli", *shlex.split(line)]
    done = subprocess.run(
        words, cwd=tmp_path, env={**os.environ, **terminal}, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    golden = SCREENS / f"{name}.txt"
    # How long it took is not agreed.
    shown = re.sub(r"checked in \d+ s", "checked in 0 s", done.stdout)
    if os.environ.get("VTARE_BLESS"):
        golden.write_text(shown, encoding="utf-8")
    assert shown == golden.read_text(encoding="utf-8"), f"{golden}: VTARE_BLESS=1 writes it anew"
    lines = shown.splitlines()
    assert [text for text in lines if len(text) > 80 and not any(word in text for word in WHOLE)] == []
    assert len(lines) <= most
