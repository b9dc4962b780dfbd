"""The failure of a guest."""

from __future__ import annotations

from vtare.errors import PlatformFailed


class GuestFailed(PlatformFailed):
    """A guest does not do what it is asked, or is gone. It costs its run, not the campaign."""


class GuestRefused(GuestFailed):
    """A guest's agent answers a question with a refusal. The guest itself goes on."""
