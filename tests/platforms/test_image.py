"""The image of the Containerfile by Docker and by Podman, and the Debian package of a release, in containers."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from vtare import __version__
from vtare.platforms.owner import own_prefix
from vtare.platforms.podman import podman

pytestmark = [pytest.mark.e2e, pytest.mark.platform]

#: Both engines ask for more open files than this machine may have where no limit is named.
LIMITS = ("--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024")
#: In a container; what is left of the package at the end is printed.
PACKAGED = """
dpkg --install /mnt/vtare_*.deb >/dev/null
/usr/bin/vtare timer --samples 1000 --json
dpkg --remove vtare >/dev/null
find /usr/bin /usr/lib /usr/include /usr/share/man -name '*vtare*'
"""


def of_docker(request: pytest.FixtureRequest) -> Callable[..., list[str]]:
    if shutil.which("docker") is None:
        pytest.skip("the program 'docker' is missing (Debian: docker.io)")
    # The builder that every version of Docker has within itself.
    words = ["env", "DOCKER_BUILDKIT=0", "docker", "--host", request.getfixturevalue("docker_host")]
    return lambda *more: [*words, *more]


def of_podman(_request: pytest.FixtureRequest) -> Callable[..., list[str]]:
    if shutil.which("podman") is None:
        pytest.skip("the program 'podman' is missing (Debian: podman)")
    return podman


@pytest.mark.parametrize("engine", [of_docker, of_podman])
def test_the_image_of_a_release_is_built_and_measures(
    root: Path,
    static_vtare: Path,
    tmp_path: Path,
    engine: Callable[[pytest.FixtureRequest], Callable[..., list[str]]],
    request: pytest.FixtureRequest,
) -> None:
    line = engine(request)
    arch = platform.machine()
    shutil.copy(root / "tools/Containerfile", tmp_path)
    shutil.copy(static_vtare, tmp_path / f"vtare-{__version__}-{arch}-linux")
    name = f"{own_prefix()}-image"

    def run(*words: str | os.PathLike[str]) -> str:
        done = subprocess.run(line(*map(str, words)), capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    arguments = ("--build-arg", f"VERSION={__version__}", "--build-arg", f"ARCH={arch}")
    run("build", *arguments, "-f", tmp_path / "Containerfile", "-t", name, tmp_path)
    try:
        document = json.loads(
            run("run", "--rm", "--network", "none", *LIMITS, name, "timer", "--samples", "2000", "--json")
        )
        assert (document["schema"], document["program"]["version"]) == ("vtare.timer/1", __version__)
        assert document["machine"]["container"] is not None
    finally:
        run("rmi", name)


def test_the_debian_package_is_installed_runs_and_is_removed(root: Path) -> None:
    if not list(root.glob("dist/vtare_*.deb")):
        pytest.skip("no package in dist/: make dist")
    if shutil.which("podman") is None or shutil.which("dpkg") is None or os.geteuid() != 0:
        pytest.skip("a container over this machine's own Debian takes root, podman and dpkg")
    # What is written there goes with the container.
    words = ("run", "--rm", "--network", "none", *LIMITS, "--volume", f"{root}/dist:/mnt:ro", "--rootfs", "/:O")
    line = podman(*words, "sh", "-ec", PACKAGED)
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    document, end = json.JSONDecoder().raw_decode(done.stdout)
    assert (document["schema"], document["program"]["version"]) == ("vtare.timer/1", __version__)
    assert done.stdout[end:].strip() == ""
