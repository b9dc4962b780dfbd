"""What goes with what: combinations of factors and parameters that the lab cannot make, refused with the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from vtare.errors import instead_of
from vtare.instruments import instrument as record_of
from vtare.plan.cells import cells_of
from vtare.plan.checks import Checks
from vtare.plan.factors import (
    DEFAULT_GUESTS,
    GUEST_FACTORS,
    PATH_FACTORS,
    PLATFORM_FACTORS,
    PORT_PARAMETERS,
    TIMERS_FACTOR,
    TWO_HOST_FACTORS,
    has_far_end,
)
from vtare.plan.model import PROGRAM_PREFIX, Factor
from vtare.platforms import kinds_with
from vtare.topology.instance_factors import AFFINITY, BACKGROUND_FACTORS, FILE_SERVICE, RESOURCE_FACTORS, Load
from vtare.topology.named_hosts import RESPONDER, ROUTER, SENDER, TESTER
from vtare.topology.path import IPERF3, TIMERS

if TYPE_CHECKING:
    from vtare.plan.model import Experiment


#: Factors that describe what is made for a run on the machine of the lab.
MADE: Final = (*PLATFORM_FACTORS, *(name for name in RESOURCE_FACTORS if name != AFFINITY))


def check_two_hosts(
    checks: Checks, instrument: str, parameters: dict[str, Any], factors: tuple[str, ...], path: str, *, meshed: bool
) -> None:
    """Refuse what the two hosts of the lab cannot be, or what only they can be."""
    hosts = record_of(instrument).hosts
    if not has_far_end(hosts):
        return
    if TIMERS_FACTOR in factors:
        for name in TIMERS["os"]:
            if name in parameters or name in factors:
                raise checks.error(f"{path}.factors.{TIMERS_FACTOR}", f"sets '{name}', too; keep it in one of the two")
    if "peer" in parameters or "peer" in factors:
        for name in factors:
            if name in (*TWO_HOST_FACTORS, *PATH_FACTORS):
                raise checks.error(
                    f"{path}.factors.{name}",
                    "needs the far end that the lab sets up; leave 'peer' out, or this factor",
                )
        return
    if "key_file" in parameters or "key_file" in factors:
        raise checks.error(f"{path}.parameters.key_file", "the lab makes a key for each run; leave it out")
    if hosts == "routed":
        if meshed:
            return
        check_path(checks, parameters, factors, path)
        return
    if parameters.get("mode") == "stamp" or "mode" in factors:
        raise checks.error(
            f"{path}.parameters.mode",
            "the lab's own far end speaks udp or icmp, not STAMP, and one of them in a plan: set one of them, or name "
            "a 'peer'",
        )


def check_hosts(checks: Checks, experiment: Experiment, path: str) -> None:
    """Refuse what machines that the plan names cannot be, and roles that an experiment lacks."""
    hosts = experiment.hosts
    if TESTER in hosts and experiment.through_guests:
        raise checks.error(
            "hosts.tester", f"{path} names no ports of it: name its tx_port, rx_port and flow, or leave the tester "
            "out (guests that the lab sets up stand between ports of this machine)",
        )  # fmt: skip
    if not hosts or not experiment.two_hosts:
        return
    for role in (SENDER, RESPONDER, *((ROUTER,) if experiment.routed else ())):
        if role not in hosts:
            needed = f"the machine of this role, as {path} ({experiment.instrument}) needs it"
            raise checks.bad_value(
                f"hosts.{role}", None, f"{needed}; or name no host, and all are namespaces of this machine"
            )
    given = {factor.name: [level.label for level in factor.levels] for factor in experiment.factors}
    for name in MADE:
        if name in given:
            raise checks.error(
                f"{path}.factors.{name}",
                "states what is made for a run, but [hosts] names machines that are there; leave one out",
            )


def check_cells(checks: Checks, experiment: Experiment, path: str) -> None:
    """Refuse factors that are nested in a circle, and levels that stand in no cell."""
    names = set(experiment.nested)
    # A factor that is nested in others is known once they are.
    while free := {name for name in names if not names & experiment.nested[name].keys()}:
        names -= free
    if names:
        raise checks.error(f"{path}.nested", f"{' and '.join(sorted(names))} are each nested in the other: remove one")
    if not experiment.nested and not experiment.excluded:
        return
    met: dict[str, set[str]] = {factor.name: set() for factor in experiment.factors}
    for cell in cells_of(experiment):
        for name, label in cell.items():
            met[name].add(label)
    for factor in experiment.factors:
        for number, level in enumerate(factor.levels):
            if level.label not in met[factor.name]:
                raise checks.error(
                    f"{path}.factors.{factor.name}[{number}]",
                    f"'{level.label}' is in no cell that is left by 'nested', 'exclude' and 'cells'; leave it out, or "
                    "allow a cell with it",
                )


def check_path(checks: Checks, parameters: dict[str, Any], factors: tuple[str, ...], path: str) -> None:
    """Refuse a path whose truth would not be known."""
    given = [name for name in ("capacity", "capacity_steps") if name in factors]
    if len(given) != 1:
        raise checks.error(
            f"{path}.factors.capacity",
            f"the path that the lab sets up has {' and '.join(given) or 'none'}: use either 'capacity' "
            "(\"300 Mbit/s\") or 'capacity_steps' (\"2 Gbit/s:10 s, 7 Gbit/s:10 s\"), or name a 'peer'",
        )
    if "reverse" in factors or parameters.get("reverse"):
        raise checks.error(
            f"{path}.parameters.reverse",
            "the lab's bottleneck is on the way forward; leave it out or name a 'peer'",
        )


def check_programs(
    checks: Checks, parameters: dict[str, Any], factors: tuple[Factor, ...], programs: tuple[str, ...], path: str
) -> None:
    """Refuse a method that is a program which the plan does not describe."""
    given = [(f"{path}.parameters.method", str(parameters.get("method", "")))]
    for factor in factors:
        if factor.name == "method":
            given += [(f"{path}.factors.method[{number}]", level.label) for number, level in enumerate(factor.levels)]
    for where, method in given:
        name = method.removeprefix(PROGRAM_PREFIX)
        if name != method and name not in programs:
            raise checks.error(where, f"the plan has no table [programs.{name}]{instead_of(name, programs)}")


def check_file_service(checks: Checks, instrument: str, factors: tuple[Factor, ...], path: str, *, own: bool) -> None:
    """Refuse a load on a file service where the lab has no server beside the instance; `own`: it makes the hosts."""
    for factor, number, level in ((f, number, level) for f in factors for number, level in enumerate(f.levels)):
        if not own and isinstance(level.value, Load) and level.value.kind == FILE_SERVICE:
            raise checks.error(
                f"{path}.factors.{factor.name}[{number}]",
                f"'nbd' needs a server beside an instance that the lab starts, and {instrument} has none here: "
                "use another load, such as 'io', and no 'peer'",
            )


def check_cross(checks: Checks, factors: tuple[Factor, ...], path: str) -> None:
    """Refuse cross traffic that would not be counted."""
    labels = {factor.name: [level.label for level in factor.levels] for factor in factors}
    if IPERF3 in labels.get("cross_arrivals", ()) and "link" in labels.get("bottleneck", ()):
        raise checks.error(
            f"{path}.factors.cross_arrivals",
            "traffic of 'iperf3' over the bottleneck 'link' is not counted: use the bottleneck tbf or htb",
        )


def check_guests(checks: Checks, parameters: dict[str, Any], factors: tuple[Factor, ...], path: str) -> None:
    """Refuse what guests of the lab cannot be, or what only they can be."""
    names = {factor.name for factor in factors}
    if named := PORT_PARAMETERS & {*parameters, *names}:
        if absent := PORT_PARAMETERS - {*parameters, *names}:
            raise checks.error(
                f"{path}.parameters.{min(absent)}",
                f"the experiment has only {', '.join(sorted(named))}: name all of tx_port, rx_port and flow, or none: "
                "the lab then sets up ports and guests",
            )
        for name in GUEST_FACTORS:
            if name in names:
                raise checks.error(
                    f"{path}.factors.{name}", "needs the guests that the lab sets up; leave the ports out, or this"
                )
        return
    if "background" in names:
        raise checks.error(
            f"{path}.factors.background", "guests that forward have no others beside them yet; leave it out"
        )
    levels = {factor.name: [level.value for level in factor.levels] for factor in factors}
    if "host" in levels.get("platform", ()):
        raise checks.error(
            f"{path}.factors.platform",
            "'host' cannot forward between its own ports: use one of: "
            f"{', '.join(kinds_with(lambda kind: kind.FORWARDS))}",
        )
    fewest = min(levels.get("guests", (DEFAULT_GUESTS,)))
    loaded = [k for level in (*levels.get("loaded", ()), parameters.get("loaded")) for k in level or ()]
    if loaded and max(loaded) > fewest:
        place = "factors" if "loaded" in levels else "parameters"
        raise checks.bad_value(f"{path}.{place}.loaded", max(loaded), f"{fewest} or less, the number of guests")


def check_background(checks: Checks, instrument: str, far_end: bool, table: dict[str, Any], path: str) -> None:
    """Refuse background factors that mean nothing by themselves, and traffic without a network."""
    if "background" not in table:
        for name in BACKGROUND_FACTORS:
            if name in table:
                raise checks.error(f"{path}.factors.{name}", "means nothing without the factor 'background'")
    kinds = [load.get("kind") if isinstance(load, dict) else load for load in table.get("background_load", [])]
    if not far_end and "net" in kinds:
        raise checks.error(
            f"{path}.factors.background_load",
            f"'net' sends to another host, and {instrument} has none: leave it out",
        )


def check_meshed(checks: Checks, experiment: Experiment, path: str) -> None:
    """Refuse an experiment without a pair of hosts, with a path of its own, or with factors that make something."""
    if not experiment.two_hosts:
        raise checks.error(
            f"{path}.instrument",
            f"'{experiment.instrument}' has no far end of the lab, but a mesh measures between two hosts; put "
            "this experiment into a plan of its own",
        )
    for factor in experiment.factors:
        if factor.name in PATH_FACTORS:
            raise checks.error(f"{path}.factors.{factor.name}", "makes a path, but a mesh has the one that is there")
        if factor.name in MADE:
            raise checks.error(
                f"{path}.factors.{factor.name}", "states what is made for a run, but a mesh has hosts; leave it out"
            )
