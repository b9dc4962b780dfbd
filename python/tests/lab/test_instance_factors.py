"""What a plan states of instances and their neighbours, and what the lab makes of it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from vtare.campaign import background as background_module
from vtare.campaign.background import fitted
from vtare.campaign.capacity import require_capacity
from vtare.campaign.results import CampaignResult
from vtare.campaign.store import Store
from vtare.contract import load_contract
from vtare.errors import BadInput, MachineCannot
from vtare.plan.checks import Checks
from vtare.plan.files import parse_plan
from vtare.plan.model import Plan
from vtare.plan.readers import LevelReader, background_load, load
from vtare.platforms import owner as owner_module
from vtare.platforms.owner import own_prefix, owner_of, still_runs
from vtare.platforms.protocol import Need, Resources
from vtare.topology.instance_factors import Background, Load, background_of, read_level, resources_of

MIB = 1 << 20
PLAN = """
schema = "vtare.plan/1"
name = "neighbours"
question = "What do neighbours change?"
blocks = 1
settle = "0 ms"

[[experiment]]
name = "round-trips"
instrument = "rtt"

[experiment.factors]
platform = ["netns"]
background = [0, 3]
background_load = ["cpu"]
background_side = ["responder"]
"""


def plan(text: str) -> Plan:
    return parse_plan(text, source=Path("plan.toml"))


@pytest.mark.parametrize(
    ("factor", "found", "label", "value"),
    [
        ("vcpus", 2, "2", 2),
        ("memory", "256 MiB", "256 MiB", 256 << 20),
        ("affinity", "off", "off", None),
        ("affinity", "0, 1", "CPU 0,1", (0, 1)),
        ("nic", "e1000", "e1000", "e1000"),
        ("guest_clock", "default", "default", None),
        ("disk", "64 MiB", "64 MiB", 64 << 20),
        ("disk", "none", "none", 0),
        ("background", 0, "0", 0),
        ("background_memory", "fit", "fit", "fit"),
        ("background_memory", "256 MiB", "256 MiB", 256 << 20),
    ],
)
def test_levels_mean_what_they_state(factor: str, found: object, label: str, value: object) -> None:
    assert read_level(factor, found) == (label, value)


@pytest.mark.parametrize(
    ("factor", "found", "wanted"),
    [
        ("vcpus", 0, "from 1 to 1024"),
        ("memory", 256, "256 MiB"),
        ("memory", "1 kB", "1 MiB to 16 TiB"),
        ("affinity", "first", '"off" or CPUs'),
        ("nic", "E1000; rm", "use a name"),
        ("disk", "8 MiB", '32 MiB to 16 TiB, or "none"'),
        ("disk", 8, 'or "none"'),
        ("background", 129, "from 0 to 128"),
    ],
)
def test_levels_that_cannot_be_used_are_refused_with_what_is_wanted(factor: str, found: object, wanted: str) -> None:
    with pytest.raises(ValueError, match=wanted):
        read_level(factor, found)


LOADS = [
    ("io", "io", Load("io")),
    ("none", "none", Load("idle")),
    ("idle", "idle", Load("idle")),
    ({"kind": "none", "label": "quiet"}, "quiet", Load("idle")),
    ({"kind": "cpu", "threads": 4}, "cpu 4", Load("cpu", 4)),
    ({"kind": "nbd", "threads": 3}, "nbd 3", Load("nbd", 3)),
]


def level_of(read: LevelReader, found: object) -> tuple[str, object]:
    level = read(Checks(Path("plan.toml"), load_contract()), found, "factor[0]")
    return level.label, level.value


@pytest.mark.parametrize("read", [load, background_load])
@pytest.mark.parametrize(("found", "label", "value"), LOADS)
def test_both_factors_have_one_vocabulary_of_loads(read: LevelReader, found: object, label: str, value: Load) -> None:
    assert level_of(read, found) == (label, value)
    assert jsonschema.Draft7Validator(read.schema).is_valid(found)


def test_traffic_needs_another_host() -> None:
    found = {"kind": "net", "rate": "2 Mbit/s"}
    assert level_of(background_load, found) == ("net 2 Mbit/s", Load("net", rate_bit_per_s=2_000_000))
    assert level_of(background_load, "net") == ("net", Load("net", rate_bit_per_s=10**9))
    with pytest.raises(BadInput, match=r"factor\[0\]\.rate: unknown key 'rate'"):
        level_of(load, found)
    with pytest.raises(BadInput, match=r"is 'net': use one of: idle, cpu, io, nbd$"):
        level_of(load, "net")


@pytest.mark.parametrize("read", [load, background_load])
@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ("disk", r"factor\[0\] is 'disk': use one of: idle, cpu, (counter, )?io, nbd"),
        (["cpu"], "is not a load. Example:"),
        ({"kind": ["cpu"]}, r"factor\[0\]\.kind is \['cpu'\]"),
        ({"threads": 3}, r"factor\[0\]\.kind is missing"),
        ({"kind": "io", "threads": 3}, r"factor\[0\]\.threads: 3 threads: an io load needs an even number"),
        ({"kind": "nbd", "threads": 65}, "64 at most"),
        ({"kind": "idle", "threads": 2}, "unknown key 'threads'"),
        ({"kind": "none", "threads": 2}, "unknown key 'threads'"),
        ({"kind": "cpu", "rate": "1 Mbit/s"}, "unknown key 'rate'"),
    ],
)
def test_a_load_that_cannot_be_made_is_refused_with_what_is_wanted(
    read: LevelReader, found: object, wanted: str
) -> None:
    with pytest.raises(BadInput, match=wanted):
        level_of(read, found)


def test_factors_become_resources_and_neighbours() -> None:
    values = {"platform": "qemu", "vcpus": 2, "memory": 1 << 28, "affinity": (0,), "nic": "e1000", "background": 4}
    assert resources_of(values) == Resources(vcpus=2, memory_byte=1 << 28, pinned=(0,), nic="e1000")
    assert background_of(values) == Background(instances=4)
    assert background_of(values).beside("qemu") == "qemu"
    assert background_of(values).beside("host") == "netns"
    assert resources_of({"platform": "qemu"}) == Resources()


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("background = [0, 3]\n", "", "means nothing without the factor 'background'"),
        ('instrument = "rtt"', 'instrument = "timer"', "unknown factor"),
        ('["netns"]', '["nets"]', "Did you mean 'netns'"),
        ("[[experiment]]", '[platforms.lab]\nkind = "shh"\n\n[[experiment]]', "Did you mean 'ssh'"),
        ("[[experiment]]", '[platforms.lab]\nkind = "ssh"\nhost = [1]\n\n[[experiment]]', "a string or an integer"),
    ],
)
def test_plans_that_mean_nothing_are_refused(old: str, new: str, wanted: str) -> None:
    with pytest.raises(BadInput, match=wanted):
        plan(PLAN.replace(old, new))


def test_a_platform_of_the_plans_own_is_a_level_like_any_other() -> None:
    text = PLAN.replace("[[experiment]]", '[platforms.lab]\nkind = "ssh"\nhost = "10.0.0.9"\n\n[[experiment]]')
    found = plan(text.replace('["netns"]', '["netns", "lab"]'))
    assert found.platforms == {"lab": {"kind": "ssh", "host": "10.0.0.9"}}
    assert [level.label for level in found.experiments[0].factor("platform").levels] == ["netns", "lab"]


def test_traffic_needs_another_host_to_go_to() -> None:
    text = PLAN.replace('instrument = "rtt"', 'instrument = "timer"').replace('background_side = ["responder"]\n', "")
    assert plan(text).experiments[0].factor("background").baseline == "0"
    with pytest.raises(BadInput, match="'net' sends to another host, and timer has none"):
        plan(text.replace('["cpu"]', '["cpu", "net"]'))


def test_neighbours_are_started_loaded_looked_at_and_ended(
    fake_hosts: type, run_campaign: Callable[[Store], CampaignResult], tmp_path: Path
) -> None:
    with Store.create(tmp_path / "store", plan(PLAN), 7) as store:
        result = run_campaign(store)
        directories = {run.factors["background"]: store.directory(run.run_id) for run in store.runs}
        reasons = [entry.reason for entry in store.journal.entries().values()]
    assert result.done == 2, reasons
    assert not (directories["0"] / "background.json").exists()
    told = json.loads((directories["3"] / "background.json").read_text())
    assert told["schema"] == "vtare.background/1"
    assert (told["instances"], told["load"], told["side"], told["platform"]) == (3, "cpu", "responder", "netns")
    assert len(told["reports"]) == 3
    assert not (directories["3"] / "background").exists()


def test_what_this_machine_has_no_room_for_is_not_started(
    fake_hosts: type,
    run_campaign: Callable[[Store], CampaignResult],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(what: str, need: Need) -> None:
        raise MachineCannot(f"{what} would take too much")

    monkeypatch.setattr(background_module, "require_capacity", full)
    with Store.create(tmp_path / "store", plan(PLAN), 7) as store:
        result = run_campaign(store)
        reasons = [entry.reason for entry in store.journal.entries().values() if entry.reason]
    assert (result.done, result.skipped) == (1, 1)
    assert reasons == ["3 background instances of netns would take too much"]


def test_room_is_refused_with_the_figure_that_is_short() -> None:
    free = Need(memory_byte=1 << 30, processes=1000, disk_byte=1 << 30, cpus=2.0)
    need = Need(memory_byte=6 << 20, processes=5, disk_byte=1 << 20) * 128
    require_capacity("fits", Need(memory_byte=700 << 20, processes=700, disk_byte=700 << 20), look=lambda: free)
    with pytest.raises(MachineCannot, match=r"would take 896 MiB of memory, .* but 1024 MiB are free here"):
        require_capacity("128 guests", need + Need(memory_byte=128 << 20), look=lambda: free)
    with pytest.raises(MachineCannot, match=r"would take 800 of room for processes, and 256 are kept"):
        require_capacity("guests", Need(processes=800), look=lambda: free)
    with pytest.raises(MachineCannot, match=r"60 guests would take 2\.4 CPUs of CPU time, and 0\.5 CPUs are kept"):
        require_capacity("60 guests", Need(cpus=0.04) * 60, look=lambda: Need(cpus=2.0))


class Sized:
    """A platform whose guests take their memory and 100 MiB, and do not boot with less than 128."""

    name = "sized"

    def need(self, resources: Resources) -> Need:
        return Need(memory_byte=(resources.memory_byte or 0) + 100 * MIB)

    def missing(self, resources: Resources) -> str | None:
        return None if (resources.memory_byte or 0) >= 128 * MIB else "too small"


@pytest.mark.parametrize(
    ("instances", "free_mib", "given_mib"),
    [
        (1, 8192, 1024),
        (8, 8192, 888),  # (8192 - 256) / 8 - 100 - 4 of the load
        (32, 8192, 144),
        # Not even the least that boots: nothing is changed, and capacity refuses it.
        (64, 8192, 1024),
    ],
)
def test_neighbours_that_fit_get_what_there_is_room_for(instances: int, free_mib: int, given_mib: int) -> None:
    found = fitted(
        Sized(),  # type: ignore[arg-type]
        instances,
        Resources(vcpus=2, memory_byte=1024 * MIB),
        Need(memory_byte=4 * MIB),
        look=lambda: Need(memory_byte=free_mib * MIB),
    )
    assert found == Resources(vcpus=2, memory_byte=given_mib * MIB)


def test_the_memory_of_neighbours_is_the_plans_where_it_states_one() -> None:
    own = Resources(vcpus=2, memory_byte=1024 * MIB)
    assert Background(3, memory=256 * MIB).given(own) == Resources(vcpus=2, memory_byte=256 * MIB)
    assert Background(3, memory="fit").given(own) == Background(3).given(own) == own


def test_this_machine_has_some_room() -> None:
    require_capacity("nearly nothing", Need())


def test_names_show_which_lab_process_made_a_thing_and_whether_it_still_runs() -> None:
    mine = own_prefix()
    assert owner_of(f"{mine}-s-0-docker") == mine
    assert owner_of("vtare-dev") is owner_of("web-1-a-b") is None
    assert "still runs" in str(still_runs(mine))
    assert still_runs("vtare-1-ffffffff") is None


def test_names_show_in_which_pid_namespace_their_process_is_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    program = "from vtare.platforms.owner import own_prefix; print(own_prefix(), flush=True); input()"
    mounts = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", sys.executable, "-c", program]
    if subprocess.run([*mounts[:5], "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this process may not make a PID namespace")
    with subprocess.Popen(mounts, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        theirs = other.stdout.readline().strip()
        # It is process 1 there, and here that number is another process's.
        assert theirs.startswith("vtare-1-")
        assert owner_of(f"{theirs}-s-0-docker") == theirs
        assert "still runs" in str(still_runs(theirs))
        other.stdin.close()
        other.wait(30)
    # Who sees all processes sees that it has ended; who does not cannot know.
    monkeypatch.setattr(owner_module, "_sees_all_processes", lambda: True)
    assert still_runs(theirs) is None
    monkeypatch.setattr(owner_module, "_sees_all_processes", lambda: False)
    assert "another PID namespace" in str(still_runs(theirs))


def test_names_without_a_pid_namespace_are_of_this_one() -> None:
    mine = own_prefix()
    older = mine.partition("p")[0]
    assert owner_of(f"{older}-f") == older
    assert "still runs" in str(still_runs(older))
