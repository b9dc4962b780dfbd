"""vtare: weigh a machine's time. Plans, campaigns, statistics and reports around the `vtare` instruments."""

from __future__ import annotations

from typing import Final

__version__: Final = "0.1.0"
