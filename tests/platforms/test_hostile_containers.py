"""Hostile containers, for real: what they leave in place of samples, and output without end."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from machines import PATIENCE_S

from vtare.errors import PlatformFailed
from vtare.platforms import open_platform
from vtare.platforms.intake import MOST_OUTPUT_BYTE, OUTPUT_LOST
from vtare.platforms.owner import own_prefix
from vtare.platforms.protocol import Instance

pytestmark = [pytest.mark.attack, pytest.mark.e2e, pytest.mark.platform]

SOURCE = Path(__file__).parents[1] / "hostile" / "program.c"
EXPECTED = {"samples.parquet": 1 << 20}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The hostile program, static."""
    program = tmp_path_factory.mktemp("hostile") / "vtare"
    if shutil.which("gcc") is None:
        pytest.skip("gcc is missing: it builds the hostile program")
    subprocess.run(["gcc", "-O1", "-static", "-o", str(program), str(SOURCE)], check=True, timeout=PATIENCE_S)
    return program


@pytest.fixture(params=["docker", "lxc"])
def container(
    request: pytest.FixtureRequest, hostile: Path, namespaces: None, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Instance]:
    if request.param == "docker":
        monkeypatch.setenv("DOCKER_HOST", request.getfixturevalue("docker_host"))
    platform = open_platform(request.param, binary=hostile, owner=own_prefix())
    if (reason := platform.missing()) is not None:
        pytest.skip(reason)
    try:
        yield platform.start(1)[0]
    finally:
        platform.stop()


def test_what_is_no_regular_file_of_its_size_does_not_come_out(container: Instance, tmp_path: Path) -> None:
    reasons = {
        "link": "is a symbolic link, not a regular file",
        "pipe": "is .*, not a regular file",
        "directory": "is .*, not a regular file",
        "long": f"has {1 << 36} B or more, {1 << 20} B are the most",
    }
    for what, reason in reasons.items():
        out, log = tmp_path / "out", tmp_path / "log"
        child = container.start([what], directory=tmp_path, stdout=out, stderr=log)
        assert child.wait(PATIENCE_S) == 0, (what, log.read_text())
        with pytest.raises(PlatformFailed, match=reason):
            container.fetch(tmp_path, EXPECTED)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "out"], what


def test_output_without_end_is_cut_off(container: Instance, tmp_path: Path) -> None:
    out, log = tmp_path / "out", tmp_path / "log"
    child = container.start(["flood"], directory=tmp_path, stdout=out, stderr=log)
    assert child.wait(PATIENCE_S) == OUTPUT_LOST
    assert out.stat().st_size <= MOST_OUTPUT_BYTE
    assert f"more than {MOST_OUTPUT_BYTE} B of output" in log.read_text()


def test_output_that_is_held_open_does_not_keep_the_lab_waiting(container: Instance, tmp_path: Path) -> None:
    child = container.start(["held"], directory=tmp_path, stdout=tmp_path / "out", stderr=tmp_path / "log")
    assert child.wait(30.0) is not None or child.kill() is not None
