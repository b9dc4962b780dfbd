"""What the surroundings of the tests are, wherever they run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

SHOWN = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
import hermetic
hermetic.seal()
umask = os.umask(0)
print(os.environ.get("VTARE_KEY"), os.environ.get("XDG_CACHE_HOME"), os.environ["LC_ALL"], time.tzname[0], oct(umask))
print(os.environ["HOME"], os.environ["VTARE_FAULTS"])
"""


@pytest.mark.parametrize("more", [{}, {"XDG_CACHE_HOME": "/nowhere", "VTARE_KEY": "0" * 64, "LANG": "de_DE.UTF-8"}])
def test_variables_locale_time_zone_and_umask_are_the_same_everywhere(root: Path, more: dict[str, str]) -> None:
    surroundings = os.environ | {"TZ": "Asia/Kathmandu", "LC_ALL": "de_DE.UTF-8", "VTARE_FAULTS": "7"} | more
    command = ["sh", "-c", 'umask 077; exec "$@"', "sh", sys.executable, "-c", SHOWN, str(root / "tests")]
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["None None C.UTF-8 UTC 0o22", f"{root / 'build/home'} 7"]


def test_this_session_is_sealed() -> None:
    assert time.tzname[0] == "UTC"
    assert Path.home().parts[-2:] == ("build", "home")
