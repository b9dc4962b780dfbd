"""Campaigns: a design becomes finished runs in a store, through kills, full disks and failing cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vtare.lazy import attributes

if TYPE_CHECKING:
    from vtare.campaign.binary import binary_and_contract, find_binary
    from vtare.campaign.executor import Campaign
    from vtare.campaign.files import Files
    from vtare.campaign.journal import Entry, Journal, Stopped, not_needed
    from vtare.campaign.progress import Forecast, NoProgress, Progress
    from vtare.campaign.results import CampaignResult
    from vtare.campaign.stop import StopRequest
    from vtare.campaign.store import Store, Tidied, default_store, forget_keys, read_store
    from vtare.campaign.verify import Verification

__all__ = [
    "Campaign",
    "CampaignResult",
    "Entry",
    "Files",
    "Forecast",
    "Journal",
    "NoProgress",
    "Progress",
    "StopRequest",
    "Stopped",
    "Store",
    "Tidied",
    "Verification",
    "binary_and_contract",
    "default_store",
    "find_binary",
    "forget_keys",
    "not_needed",
    "read_store",
]

__getattr__ = attributes(
    __name__,
    {
        "binary": ("binary_and_contract", "find_binary"),
        "executor": ("Campaign",),
        "results": ("CampaignResult",),
        "files": ("Files",),
        "journal": ("Entry", "Journal", "Stopped", "not_needed"),
        "progress": ("Forecast", "Progress", "NoProgress"),
        "stop": ("StopRequest",),
        "store": ("Store", "Tidied", "default_store", "forget_keys", "read_store"),
        "verify": ("Verification",),
    },
)
