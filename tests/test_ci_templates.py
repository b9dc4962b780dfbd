"""The steps of `examples/ci`, carried out in a repository of their own: what do they flag, and what do they leave?"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.e2e
GIT = ("git", "-c", "user.name=x", "-c", "user.email=x@x", "-c", "commit.gpgsign=false")


def repository(place: Path, before_s: str, after_s: str) -> Path:
    """A program that takes so long at `main`, and so long in the commit after it."""
    place.mkdir()
    for seconds in (before_s, after_s):
        (place / "work").write_text(f"#!/bin/sh\nsleep {seconds}\n")
        (place / "work").chmod(0o755)
        if not (place / ".git").exists():
            subprocess.run([*GIT, "init", "-q", "-b", "main"], cwd=place, check=True)
        subprocess.run([*GIT, "add", "-A"], cwd=place, check=True)
        subprocess.run([*GIT, "commit", "-q", "--allow-empty", "-m", seconds], cwd=place, check=True)
    return place


def environment(template: dict[str, Any], given: dict[str, str]) -> dict[str, str]:
    """What the action's step gets, where `given` are its inputs."""
    (step,) = [step for step in template["runs"]["steps"] if "run" in step]
    defaults = {name: one["default"] for name, one in template["inputs"].items()}
    values = {**defaults, **given}
    return {name: values[text.split("inputs.")[1].split()[0]] for name, text in step["env"].items()}


@pytest.mark.parametrize(("after_s", "code"), [("0.06", 1), ("0.02", 0)])
def test_the_action_flags_a_slower_commit_and_no_other(
    after_s: str, code: int, root: Path, vtare: Path, tmp_path: Path
) -> None:
    template = yaml.safe_load((root / "examples/ci/action.yml").read_text())
    (script,) = [step["run"] for step in template["runs"]["steps"] if "run" in step]
    place = repository(tmp_path / "repository", "0.02", after_s)
    inputs = {"command": "./work", "base": "HEAD~1", "fail-if": "slower by 25 %", "max-time": "20s"}
    summary = tmp_path / "summary.md"
    floors = tmp_path / ".cache/vtare/floors.json"
    if code == 0:
        # As restored by the first step: no self-test.
        floors.parent.mkdir(parents=True)
        floors.write_text("{}")
    more = {"PATH": f"{vtare.parent}:{os.environ['PATH']}", "HOME": str(tmp_path), "GITHUB_STEP_SUMMARY": str(summary)}
    more = {**more, **environment(template, inputs)}
    outside = {name: text for name, text in os.environ.items() if name != "XDG_CACHE_HOME"}
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=place, env={**outside, **more}, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    assert "wall time" in summary.read_text()
    assert ("::error" in done.stdout) == bool(code), done.stdout
    assert (floors.read_text() == "{}") == (code == 0)


@pytest.mark.parametrize(("after_s", "code"), [("0.06", 1), ("0.02", 0)])
def test_the_template_of_gitlab_flags_a_slower_commit_and_no_other(
    after_s: str, code: int, root: Path, vtare: Path, tmp_path: Path
) -> None:
    (job,) = yaml.safe_load((root / "examples/ci/gitlab.yml").read_text()).values()
    place = repository(tmp_path / "repository", "0.02", after_s)
    variables = {name: str(value) for name, value in job["variables"].items()}
    variables |= {"COMMAND": "./work", "BASE": "HEAD~1", "FAIL_IF": "slower by 25 %", "MAX_TIME": "20s"}
    floors = place / ".cache/vtare/floors.json"
    floors.parent.mkdir(parents=True)
    floors.write_text("{}")
    done = subprocess.run(
        ["sh", "-e", "-c", "\n".join(job["script"])],
        cwd=place, env={**os.environ, "PATH": f"{vtare.parent}:{os.environ['PATH']}", **variables},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    assert "<testsuite" in (place / job["artifacts"]["reports"]["junit"]).read_text()
    assert all((place / name).is_file() for name in (*job["artifacts"]["paths"], *job["cache"]["paths"]))
