"""Campaigns over many hosts: who has which host for which run, decided in one place and kept in the store's journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vtare.lazy import attributes

if TYPE_CHECKING:
    from vtare.fleet.campaign import FleetCampaign
    from vtare.fleet.dry import DryRun, dry_run
    from vtare.fleet.host_use import HostUse, overlaps, use_of
    from vtare.fleet.hosts import FleetHost, load_hosts, simulated_hosts
    from vtare.fleet.scheduler import Request, Scheduler

__all__ = [
    "DryRun",
    "FleetCampaign",
    "FleetHost",
    "HostUse",
    "Request",
    "Scheduler",
    "dry_run",
    "load_hosts",
    "overlaps",
    "simulated_hosts",
    "use_of",
]

__getattr__ = attributes(
    __name__,
    {
        "campaign": ("FleetCampaign",),
        "dry": ("DryRun", "dry_run"),
        "hosts": ("FleetHost", "load_hosts", "simulated_hosts"),
        "scheduler": ("Request", "Scheduler"),
        "host_use": ("HostUse", "overlaps", "use_of"),
    },
)
