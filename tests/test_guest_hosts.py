"""A campaign between machines with kernels of their own: emulated guests that a plan names by role."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import polars as pl
import pytest
from guest_machines import Guest, three_guests
from machines import PLAN_HEAD, ROUTED

from vtare.platforms.binary import not_static
from vtare.summary import summarise
from vtare.topology.clock_relation import read_relations

pytestmark = [pytest.mark.e2e, pytest.mark.platform, pytest.mark.hypervisors]

#: Emulated processors are slow: few packets, low rates.
PLAN = """
[[experiment]]
name = "trips"
instrument = "rtt"
parameters = { rate_packet_per_s = "50 packet/s", seconds = "2 s" }
run_timeout = "300 s"

[experiment.factors]
capture = ["on"]
load = [{ kind = "cpu", threads = 1 }]
load_side = ["responder"]

[[experiment]]
name = "path"
instrument = "avb"
parameters = { estimates = 1, most_ns = "10 s", most_byte = "300 kB" }
run_timeout = "300 s"

[experiment.factors]
bottleneck = ["tbf", "htb"]
capacity = ["2 Mbit/s"]
cross = ["0.5 Mbit/s"]
delay = ["20 ms"]
"""


def tables(guests: dict[str, Guest]) -> str:
    lines = []
    for role, guest in guests.items():
        lines += [f"[platforms.g-{role}]", 'kind = "ssh"', f'address = "{ROUTED[role]}"']
        lines += [f"{key} = {json.dumps(value)}" for key, value in guest.settings().items()]
    return "\n".join([*lines, "[hosts]", *(f'{role} = "g-{role}"' for role in guests), ""])


def test_hosts_with_kernels_of_their_own_have_clocks_that_are_related(
    vtare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reason = not_static(vtare)
    if reason is not None:
        pytest.skip(reason)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with three_guests(tmp_path / "guests") as guests:
        (tmp_path / "plan.toml").write_text(PLAN_HEAD + PLAN + tables(guests))
        environment = {**os.environ, "PATH": f"{vtare.parent}:{os.environ['PATH']}"}
        words = [str(vtare), "run", "plan.toml", "--store", "store", "--seed", "7", "--json"]
        done = subprocess.run(
            words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=1200, check=False
        )
        shown = subprocess.run(
            [str(vtare), "status", "store", "--json"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr + shown.stdout
        assert json.loads(shown.stdout)["runs"] == [], shown.stdout
        # Nothing is left there: no directory, no program, no queue of the lab's.
        for guest in guests.values():
            assert guest.shell("ls /run/work; pgrep -x vtare; true") == ""
            assert not {"tbf", "htb", "netem"} & set(guest.shell("tc qdisc show").split())
    summary = summarise(tmp_path / "store")
    for row in summary.runs.iter_rows(named=True):
        relations = read_relations(tmp_path / "store" / "runs" / row["run_id"])
        assert relations is not None
        for role, relation in relations.items():
            with capsys.disabled():
                print(f"\n{row['experiment']}: {role} {relation.comparisons[0]}", end="")
            # Each clock began when its own kernel booted: it is known not to be the sender's.
            assert all(one.low_ns > 0 or one.high_ns < 0 for one in relation.comparisons)
            # 20 ms each way while the run was made are no part of it.
            assert relation.bound_ns < 15e6
    (trips,) = summary.runs.filter(pl.col("experiment") == "trips").rows(named=True)
    assert trips["paired"] > 0
    assert trips["paired"] + trips["not_captured"] == trips["n"]
    # Both ways are positive, but for how far the clocks are known; together they need no common clock.
    assert min(trips["wire_out_ns"], trips["wire_back_ns"]) > -trips["clock_bound_ns"]
    assert trips["wire_out_ns"] + trips["wire_back_ns"] == pytest.approx(trips["wire_ns"], rel=0.5)
    estimates = summary.estimates
    assert estimates["no_truth"].null_count() == estimates.height > 0
    assert estimates["truth_bit_per_s"].is_between(1e6, 2e6).all()
    machines = {file.footer["machine"]["kernel"] for file in summary.sample_set.files}
    assert machines != {os.uname().release}
