"""Which figures of a run are followed over time, and which facts of the machine beside them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from vtare.instruments import instrument, metric
from vtare.quantity_text import quantity_of
from vtare.series.model import SeriesKey
from vtare.summary.rows import known_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vtare.stats import Known

#: Facts whose change may explain one of figures: words, and where the footer has them.
_FACTS: Final = (
    ("hostname", ("machine", "hostname")),
    ("kernel", ("machine", "kernel")),
    ("microcode", ("machine", "microcode")),
    ("CPU", ("machine", "cpu_model")),
    ("CPUs online", ("machine", "cpus_online")),
    ("hypervisor", ("machine", "hypervisor")),
    ("virtual machine", ("machine", "virtual_machine")),
    ("clock source", ("machine", "clock_source")),
    ("governor", ("machine", "governor")),
    ("isolated CPUs", ("machine", "isolated_cpus")),
    ("timer slack (ns)", ("machine", "timer_slack_ns")),
    ("boot", ("machine", "boot_id")),
    ("clock trusted", ("clock", "trusted")),
    ("program version", ("program", "version")),
)


def facts_of(footer: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of a run's machine; None where the footer does not have one."""
    return {name: (footer.get(part) or {}).get(key) for name, (part, key) in _FACTS}


def figures_of(
    experiment: str, instrument_name: str, labels: Mapping[str, str], figures: Mapping[str, Any]
) -> dict[SeriesKey, Known]:
    """The median and the tail of a run, what cells are compared by, and what was lost; without what is missing."""
    record = instrument(instrument_name)
    own = [metric(name) for name in (record.quantity, record.compared, "lost_fraction") if name is not None]
    wanted = [(figure, own[0]) for figure in ("median", "p99")] + [(one.name, one) for one in own[1:]]
    return {
        SeriesKey(experiment, tuple(labels.items()), name, about.name, about.better): known
        for name, about in wanted
        if (known := known_of(figures, name)) is not None and math.isfinite(known.number)
    }


def bound_text(key: SeriesKey, known: Known) -> str:
    """A bound in words: `forward, loaded 12: median of throughput_packet_per_s: at least 2.00 kpacket/s`."""
    return f"{key.text}: {known.prefix}{quantity_of(key.quantity).text(known.number)}"
