"""docs/internals/add-a-platform.md holds: one file and one line make a platform of plan, campaign and report."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from vtare import platforms
from vtare.campaign.store import read_store
from vtare.platforms.base import BasePlatform, Layer
from vtare.platforms.protocol import Resources

PAGE = Path(__file__).parents[3] / "docs/internals" / "add-a-platform.md"
Command = Callable[..., CompletedProcess[str]]


def blocks(language: str) -> list[str]:
    """The page's blocks of code in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture
def polite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The page's platform, registered, and the file with its plan."""
    *parts, line = blocks("python")
    package = tmp_path / "package"
    package.mkdir()
    (package / "polite.py").write_text("\n\n".join(parts), encoding="utf-8")
    monkeypatch.setattr(platforms, "__path__", [*platforms.__path__, str(package)])
    registered: dict[str, Any] = {}
    exec(line, registered)
    for kind, name in registered["KINDS"].items():
        monkeypatch.setitem(platforms.KINDS, kind, name)
    (plan,) = blocks("toml")
    (tmp_path / "polite.toml").write_text(plan, encoding="utf-8")
    yield tmp_path / "polite.toml"
    sys.modules.pop("vtare.platforms.polite", None)


def test_the_page_adds_a_platform_that_plan_campaign_and_report_show(
    polite: Path, tmp_path: Path, fake: Any, lab_command: Command
) -> None:
    shown = lab_command("plan", polite)
    assert shown.returncode == 0, shown.stderr
    assert "factor platform: host, polite" in shown.stdout
    store = tmp_path / "store"
    ran = lab_command("run", polite, "--store", store, "--binary", fake.path, "--seed", 3)
    assert ran.returncode == 0, ran.stderr
    _, runs, _ = read_store(store)
    on_it = [run.run_id for run in runs if run.factors["platform"] == "polite"]
    assert len(on_it) == 4
    for run_id in on_it:
        facts = (store / "runs" / run_id / "platform.json").read_text(encoding="utf-8")
        assert '"platform": "polite"' in facts
        assert '"nice": 19' in facts
    report = (store / "report.html").read_text(encoding="utf-8")
    assert "polite" in report
    status = lab_command("status", store)
    assert "8 done" in status.stdout


def test_what_it_cannot_give_is_refused_in_its_own_words(polite: Path, tmp_path: Path) -> None:
    opened = platforms.open_platform("polite", binary=tmp_path, owner="vtare-1-2")
    reason = opened.missing(Resources(nic="e1000"))
    assert reason == "a polite process has no model of its network card to choose: leave out e1000"
    assert platforms.platform_class("polite").LAYER is Layer.HOST  # type: ignore[union-attr]


def test_the_page_names_every_trait() -> None:
    traits = {name for name in vars(BasePlatform) if name.isupper()}
    traits |= {name for name in BasePlatform.__annotations__ if name.isupper()}
    text = PAGE.read_text(encoding="utf-8")
    assert {name for name in traits if f"`{name}`" not in text} == set()
