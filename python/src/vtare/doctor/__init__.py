"""What can be measured on this machine: instruments on platforms, what is missing, and the command that gets it.

`machine` looks at what instruments need of the kernel and of rights, `places` at platforms, `plans` at what one plan
needs, `ways` finds commands.
"""

from __future__ import annotations

from vtare.doctor.machine import Feature, features
from vtare.doctor.places import Place, places
from vtare.doctor.plans import Lack, lacking
from vtare.doctor.ways import Ways

__all__ = ["Feature", "Lack", "Place", "Ways", "features", "lacking", "places"]
