"""Fixtures of the lab's tests: a stand-in binary, a small plan, a finished campaign."""

from __future__ import annotations

import fcntl
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hermetic import seal

from vtare.campaign import surroundings as surroundings_module
from vtare.campaign import two_hosts as hosts_module
from vtare.campaign.executor import Campaign
from vtare.campaign.results import CampaignResult
from vtare.campaign.stop import StopRequest
from vtare.campaign.store import Store
from vtare.cli import main as command_line
from vtare.plan.files import parse_plan
from vtare.plan.model import Plan
from vtare.platforms.host import HostInstance
from vtare.platforms.protocol import DEFAULT_RESOURCES, Need, Resources
from vtare.topology.link_counter import CountingPlace
from vtare.topology.path import PathSpec
from vtare.topology.protocol import Hosts

seal()

TINY = """
schema = "vtare.plan/1"
name = "tiny"
question = "Does the lab work?"
blocks = 2
settle = "0 ms"
control = false

[[experiment]]
name = "sleep"
instrument = "sleep"
parameters = { target_ns = "1 ms", samples = 300 }
baseline = { method = "usleep" }

[experiment.factors]
load = ["idle", { kind = "cpu", threads = 3 }]
method = ["usleep", "spin"]
"""


#: The plans that tests of campaigns between two hosts, and over the lab's own path, start from.
ROUTED = Path(__file__).with_name("routed.toml")
TWO_HOSTS = Path(__file__).with_name("two_hosts.toml")
PATHS = Path(__file__).with_name("paths.toml")


class FakeInstance(HostInstance):
    """A process on this machine that states a bridge in its facts."""

    address = "127.0.0.1"

    def capture_interface(self) -> str | None:
        return "port0"


class FakePlatform:
    """Starts such instances, and counts what was started and not stopped."""

    running = 0

    def __init__(self, name: str, binary: Path) -> None:
        self.name = name
        self._binary = binary
        self._started = 0

    def missing(self, resources: Resources = DEFAULT_RESOURCES) -> str | None:
        return "no daemon" if self.name == "docker" else None

    def need(self, resources: Resources = DEFAULT_RESOURCES) -> Need:
        return Need()

    def start(
        self, instances: int, site: object = None, resources: Resources = DEFAULT_RESOURCES, *, first: int = 0
    ) -> list[FakeInstance]:
        self._started += instances
        FakePlatform.running += instances
        return [FakeInstance(self._binary) for _ in range(instances)]

    def stop(self) -> None:
        FakePlatform.running -= self._started
        self._started = 0


class FakeHosts(Hosts):
    """Two hosts that need no privileges."""

    made = 0
    platform = FakePlatform
    inward, outward = "in0", "out0"

    def __init__(self, owner: str) -> None:
        self.owner = owner

    @staticmethod
    def missing() -> str | None:
        return None

    def site(self, side: str) -> None:
        """None stands for no namespace."""

    def server(self, side: str, binary: Path) -> FakeInstance:
        return FakeInstance(binary)

    def _make(self) -> None:
        FakeHosts.made += 1

    def remove(self) -> None:
        FakeHosts.made -= 1

    def facts(self) -> dict[str, str]:
        return {"link": "fake"}

    def shape(self, path: PathSpec) -> None:
        raise AssertionError("a plain link takes no shape")

    def counted(self, binary: Path) -> list[CountingPlace]:
        """Nothing passes a link of nothing."""
        return []


class FakeRoutedHosts(FakeHosts):
    """Two hosts with a router between, of nothing."""

    def __init__(self, owner: str, *, mtu_byte: int, bridged: bool) -> None:
        super().__init__(owner)
        self.wiring = (mtu_byte, bridged)

    def shape(self, path: PathSpec) -> None:
        FakeRoutedHosts.shaped.append((path, self.wiring))

    shaped: ClassVar[list[tuple[PathSpec, tuple[int, bool]]]] = []


def fake_the_hosts(patch: pytest.MonkeyPatch) -> None:
    """Let campaigns between two hosts run without privileges: no namespaces, every instance a plain process."""
    FakeHosts.made = FakePlatform.running = 0
    FakeRoutedHosts.shaped.clear()
    patch.setattr(hosts_module, "TwoHosts", FakeHosts)
    patch.setattr(hosts_module, "RoutedHosts", FakeRoutedHosts)
    # What else runs on the machine of these tests is no part of them.
    patch.setattr(surroundings_module, "_look", lambda: (0.0, None, 0.0))
    patch.setattr(hosts_module, "remove_leftovers", lambda *, elsewhere: ())
    patch.setattr(hosts_module, "open_platform", lambda name, *, binary, owner, settings: FakePlatform(name, binary))


class FakeBinary:
    """The stand-in binary in a directory of its own."""

    def __init__(self, directory: Path, cache: Path) -> None:
        self.directory = directory
        self.path = directory / "vtare"
        source = Path(__file__).with_name("fake_vtare.py").read_text(encoding="utf-8")
        source = source.replace("CACHE = HERE\n", f"CACHE = Path({str(cache)!r})\n")
        schema = Path(__file__).resolve().parents[1] / "src/vtare/data/run.schema.json"
        source = source.replace('SCHEMA = HERE / "run.schema.json"\n', f"SCHEMA = Path({str(schema)!r})\n")
        self.path.write_text(f"#!{sys.executable}\n{source}", encoding="utf-8")
        self.path.chmod(0o755)

    def behave(self, **steer: str) -> None:
        """Steer the runs that follow: see fake_vtare.py."""
        (self.directory / "behaviour.json").write_text(json.dumps(steer))


class Once:
    """Makes each directory once in a session, and gives each worker a copy of its own."""

    def __init__(self, shared: Path, own: Path) -> None:
        self.shared, self._own = shared, own

    def __call__(self, name: str, make: Callable[[Path], object]) -> Path:
        made, done = self.shared / name, self.shared / f"{name}.done"
        with (self.shared / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                shutil.rmtree(made, ignore_errors=True)
                made.mkdir()
                make(made)
                done.touch()
        own = self._own / f"own-{name}"
        return own if own.exists() else Path(shutil.copytree(made, own, symlinks=True))


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """What is made once, for all workers of this session."""
    own = tmp_path_factory.getbasetemp()
    shared = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "once"
    shared.mkdir(exist_ok=True)
    return Once(shared, own)


@pytest.fixture(scope="session")
def fake_cache(once: Once) -> Path:
    """Sample files that all stand-in binaries share."""
    place = once.shared / "fake-cache"
    place.mkdir(exist_ok=True)
    return place


def campaign(root: Path, cache: Path, plan: Plan, seed: int = 7) -> None:
    """Carries out a plan with a stand-in binary: root/store."""
    (root / "bin").mkdir()
    binary = FakeBinary(root / "bin", cache)
    with Store.create(root / "store", plan, seed) as store, StopRequest() as stop:
        Campaign(store, binary.path, stop).run()
        failed = [entry for entry in store.journal.entries().values() if entry.status == "failed"]
    # What a test misses then would point elsewhere.
    assert not failed, failed


@pytest.fixture
def fake(tmp_path: Path, fake_cache: Path) -> FakeBinary:
    directory = tmp_path / "bin"
    directory.mkdir()
    return FakeBinary(directory, fake_cache)


@pytest.fixture
def tiny_plan() -> Plan:
    return parse_plan(TINY, source=Path("tiny.toml"))


@pytest.fixture(scope="session")
def finished(once: Once, fake_cache: Path) -> Path:
    """A finished campaign with every instrument, two loads, three blocks and controls. Tests must not change it."""
    plan = parse_plan(
        TINY.replace("blocks = 2", "blocks = 3").replace("control = false", "control = true")
        + """
[[experiment]]
name = "timer"
instrument = "timer"
parameters = { samples = 20000 }
factors = { source = ["clock_monotonic", "vtare"] }

[[experiment]]
name = "counter"
instrument = "counter"

[[experiment]]
name = "noise"
instrument = "noise"
""",
        source=Path("finished.toml"),
    )
    return once("finished", lambda root: campaign(root, fake_cache, plan)) / "store"


@pytest.fixture(scope="session")
def eight_runs(once: Once, fake_cache: Path) -> Path:
    """A finished store of the tiny plan. Tests must not change it."""
    plan = parse_plan(TINY, source=Path("tiny.toml"))
    return once("eight", lambda root: campaign(root, fake_cache, plan)) / "store"


#: A counter experiment in two languages, of as many blocks as a rank test between two levels wants.
LANGUAGES = """
schema = "vtare.plan/1"
name = "languages"
question = "Which language runs evenly?"
blocks = 6
settle = "0 ms"

[[experiment]]
name = "counter"
instrument = "counter"
parameters = { batches = 10, calls = 3, max_exponent = 1, unit_ms = "0.05 ms" }
baseline = { language = "c" }

[experiment.factors]
language = ["rust", "c"]
"""


@pytest.fixture(scope="session")
def language_store(once: Once, fake_cache: Path) -> Path:
    """A finished campaign with the counter in two languages. Tests must not change it."""
    plan = parse_plan(LANGUAGES, source=Path("languages.toml"))
    return once("languages", lambda root: campaign(root, fake_cache, plan, 1)) / "store"


@pytest.fixture
def fake_hosts(monkeypatch: pytest.MonkeyPatch) -> type[FakeHosts]:
    fake_the_hosts(monkeypatch)
    return FakeHosts


@pytest.fixture
def fake_routes(fake_hosts: type[FakeHosts]) -> type[FakeRoutedHosts]:
    """The routed hosts that campaigns of this test get."""
    return FakeRoutedHosts


def hosts_campaign(root: Path, cache: Path, plan: Plan) -> None:
    """The same between hosts that need no privileges."""
    with pytest.MonkeyPatch.context() as patch:
        fake_the_hosts(patch)
        campaign(root, cache, plan)


@pytest.fixture(scope="session")
def two_host_store(once: Once, fake_cache: Path) -> Path:
    """A finished campaign between two hosts. Tests must not change it."""
    # Four runs a cell: fewer can show no difference.
    text = TWO_HOSTS.read_text(encoding="utf-8").replace("blocks = 3", "blocks = 4")
    plan = parse_plan(text, source=TWO_HOSTS)
    return once("two-hosts", lambda root: hosts_campaign(root, fake_cache, plan)) / "store"


@pytest.fixture(scope="session")
def routed_store(once: Once, fake_cache: Path) -> Path:
    """A finished campaign over the lab's own path. Tests must not change it."""
    plan = parse_plan(ROUTED.read_text(encoding="utf-8"), source=ROUTED)
    return once("routed", lambda root: hosts_campaign(root, fake_cache, plan)) / "store"


@pytest.fixture(scope="session")
def path_store(once: Once, fake_cache: Path) -> Path:
    """A finished campaign of `path`. Tests must not change it."""
    # Four runs a cell: fewer can show no difference.
    plan = parse_plan(PATHS.read_text(encoding="utf-8").replace("blocks = 2", "blocks = 4"), source=PATHS)
    return once("paths", lambda root: hosts_campaign(root, fake_cache, plan)) / "store"


@pytest.fixture
def run_campaign(fake: FakeBinary) -> Callable[[Store], CampaignResult]:
    def run(store: Store) -> CampaignResult:
        with StopRequest() as stop:
            return Campaign(store, fake.path, stop).run()

    return run


@pytest.fixture(autouse=True)
def own_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Notes of machines elsewhere are each test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(autouse=True)
def lab_of_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs that a test starts find the lab in the sources, installed or not."""
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[1] / "src"))


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports made in this process have all but their figures, which take fifty times as long."""
    from vtare.report.content import content_of

    monkeypatch.setattr(import_module("vtare.report.build"), "content_of", partial(content_of, figures=False))


@pytest.fixture
def hangup_ends() -> Iterator[None]:
    """Processes started here are ended by SIGHUP, also where the tests run under nohup, which the lab respects."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def lab_command() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command line of `vtare-lab` in this process: an exception that gets out of it is a traceback."""

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        words = [str(argument) for argument in arguments]
        out, err = io.StringIO(), io.StringIO()
        code: Any = 0
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setattr(sys, "argv", ["vtare-lab", *words])
            patch.setenv("COLUMNS", "1000")
            try:
                command_line()
            except SystemExit as end:
                code = end.code
            except Exception:
                code = 1
                err.write(traceback.format_exc())
        return subprocess.CompletedProcess(words, 0 if code is None else code, out.getvalue(), err.getvalue())

    return run


@pytest.fixture(scope="session")
def four_runs(once: Once, fake_cache: Path) -> Path:
    plan = parse_plan(TINY.replace("blocks = 2", "blocks = 1"), source=Path("tiny.toml"))
    return once("four", lambda root: campaign(root, fake_cache, plan)) / "store"


@pytest.fixture
def store_of_four(tmp_path: Path, four_runs: Path) -> Path:
    """A finished store of four runs, the test's own."""
    return Path(shutil.copytree(four_runs, tmp_path / "store"))
