"""Campaigns: a design becomes finished runs in a store, through kills, full disks and failing cells."""
