"""The fleet that `--on` names, and a campaign on it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from vtare.campaign.attempts import timeout_s
from vtare.campaign.binary import find_binary
from vtare.errors import BadInput, bad_value
from vtare.fleet.agents import Agents
from vtare.fleet.campaign import FleetCampaign
from vtare.fleet.cluster import DASK, Cluster
from vtare.fleet.dry import SIMULATED, simulated_number
from vtare.fleet.hosts import have_agents, load_hosts, simulated_hosts
from vtare.fleet.needs import check_plan, request_of
from vtare.fleet.processes import Processes
from vtare.fleet.real_machines import RealMachines
from vtare.fleet.slurm import SLURM, SlurmCluster

if TYPE_CHECKING:
    from vtare.campaign.stop import StopRequest
    from vtare.campaign.store import Store
    from vtare.fleet.hosts import FleetHost
    from vtare.fleet.real_machines import Workers
    from vtare.plan.model import Plan


def fleet_hosts(on: str) -> tuple[FleetHost, ...]:
    """The hosts that `on` names where they are known before anything is started: of a file, or simulated ones.

    Raises:
        BadInput: it is another kind of fleet, or there is no such file.
    """
    if on.startswith(SIMULATED):
        return simulated_hosts(simulated_number(on)[0])
    path = Path(on)
    if not path.is_file():
        raise BadInput(
            f"--on {bad_value(on, 'a file of hosts or simulated:HOSTS')}: the hosts of others are known only once they "
            "have started"
        )
    return load_hosts(path)


def open_fleet(on: str, plan: Plan, store: Path, binary: Path | None = None) -> Workers:
    """The workers of the fleet that `on` names, for this plan. `binary` is brought to hosts that have agents.

    Raises:
        BadInput: there is no such fleet, or the plan cannot run on it.
    """
    if on.startswith(SIMULATED):
        raise BadInput(f"--on is '{on}', but a dry run keeps no store: make one with `vtare run PLAN --on {on}`")
    if on.startswith(DASK):
        check_plan(plan, (), on, alone=True)
        return Cluster(on)
    if on.startswith(SLURM):
        check_plan(plan, (), on, alone=True)
        return SlurmCluster(on)
    path = Path(on)
    if not path.is_file():
        raise BadInput(f"--on {bad_value(on, 'a file of hosts, dask://HOST:PORT, slurm:NODES or simulated:HOSTS')}")
    hosts = load_hosts(path)
    processes = Processes(hosts, store.absolute())
    check_plan(plan, hosts, on)
    return Agents(on, hosts, find_binary(binary), processes) if have_agents(hosts) else processes


def fleet_campaign(store: Store, workers: Workers, binary: Path, stop: StopRequest, **others: Any) -> FleetCampaign:
    """A campaign on the hosts of these workers. `others` are the options of `FleetCampaign`."""
    plan, alone = store.plan, workers.on_the_host
    return FleetCampaign(
        store,
        [host.name for host in workers.hosts],
        lambda run: request_of(run, plan, workers.hosts, timeout_s(run, plan), alone=alone),
        RealMachines(workers, plan, store.seed, binary, stop),
        binary,
        stop,
        **others,
    )
