"""What the hosts of a fleet report of themselves: facts and what differs, what each can measure, who has it, ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from vtare.fleet.processes import Processes, holder_of
from vtare.fleet.worker import check, probe
from vtare.instruments import RECORDS
from vtare.records.answer import Answered, answered
from vtare.sentences import fleet as wording
from vtare.topology.named_hosts import RESPONDER, ROUTER, SENDER, TESTER

if TYPE_CHECKING:
    from pathlib import Path

    from vtare.fleet.hosts import FleetHost
    from vtare.records.fleets import Fleet

#: Facts of a machine that are compared between hosts, which should agree before figures are.
FACTS: Final = (
    "kernel",
    "architecture",
    "cpu_model",
    "cpus_online",
    "hypervisor",
    "clock_source",
    "governor",
    "hz",
    "smt",
)
#: The figures of `vtare check` by which hosts are ranked and shown; the first decides.
FIGURES: Final = ("error_1ms", "noise", "sleep_50us")


@dataclass(frozen=True, slots=True)
class HostReport:
    """One host: why it cannot be used (None where it can), who has it, its facts, what it can measure.

    `figures` are those of `vtare check`, by finding, and `status` is its first word, GOOD, USABLE or NOT NOW; empty and
    None where that was not asked for.
    """

    host: FleetHost
    reason: str | None
    holder: str | None
    facts: Mapping[str, Any]
    measures: tuple[str, ...]
    figures: Mapping[str, float]
    status: str | None = None


def words_of(status: str) -> str:
    """A status as people read it: `NOT NOW`."""
    return status.replace("_", " ").upper()


@dataclass(frozen=True, slots=True)
class Survey:
    """The hosts of a fleet; where they were checked, the best comes first."""

    hosts: tuple[HostReport, ...]
    checked: bool = False

    @property
    def differing(self) -> dict[str, dict[str, list[str]]]:
        """The facts that differ: each value with the names of its hosts."""
        differing_facts = {}
        for fact in FACTS:
            values: dict[str, list[str]] = {}
            for one in self.hosts:
                if one.reason is None:
                    values.setdefault(str(one.facts.get(fact)), []).append(one.host.name)
            if len(values) > 1:
                differing_facts[fact] = values
        return differing_facts

    def answer(self) -> Answered:
        """Which host is best, or how many can be used."""
        limits = [wording.reason(one.host.name, one.reason) for one in self.hosts if one.reason is not None]
        limits += [wording.differs(fact, values) for fact, values in self.differing.items()]
        ranked = [(one.host.name, words_of(one.status)) for one in self.hosts if one.status is not None]
        usable = sum(one.reason is None for one in self.hosts)
        if not usable:
            return answered([wording.NO_HOST], "unknown", limits=limits)
        if not ranked:
            status = "ready" if usable == len(self.hosts) else "incomplete"
            return answered([wording.answering(usable, len(self.hosts))], status, limits=limits)
        text = (
            wording.only_host(*ranked[0])
            if len(ranked) == 1
            else wording.best_and_worst(*ranked[0], *ranked[-1], len(ranked))
        )
        return answered([text], next(one.status for one in self.hosts if one.status is not None), limits=limits)

    def document(self) -> Fleet:
        """The document `vtare.fleet/1`."""
        return {
            "schema": "vtare.fleet/1",
            "answer": self.answer(),
            "hosts": [
                {
                    "host": one.host.name,
                    "roles": list(one.host.roles),
                    "reached_at": one.host.reached_at,
                    "reason": one.reason,
                    "holder": one.holder,
                    "measures": list(one.measures),
                    "facts": {fact: one.facts.get(fact) for fact in FACTS} if one.reason is None else None,
                    "figures": dict(one.figures) if one.figures else None,
                    "status": one.status,
                }
                for one in self.hosts
            ],
            "differing": self.differing,
        }


def survey(hosts: Sequence[FleetHost], binary: Path, check_s: float | None = None) -> Survey:
    """Ask every host for its facts, all at once; with `check_s` let each run `vtare check` for so long.

    Hosts on this machine are checked one after another: they would disturb each other. One that a campaign has is
    not asked.
    """
    workers = Processes(hosts, binary)
    try:
        held = {host.name: holder_of(host) for host in hosts}
        asked = [host for host in hosts if held[host.name] is None]
        with ThreadPoolExecutor(max(1, len(asked))) as pool:
            futures = {host.name: workers.submit(host.name, probe, host, str(binary)) for host in asked}
            probes = dict(zip(futures, pool.map(_result, futures.values()), strict=True))
            if check_s is not None:
                answering = [host for host in asked if "reason" not in probes[host.name]]
                remote = [host for host in answering if "host" in host.settings]
                checks = {h.name: workers.submit(h.name, check, h, str(binary), check_s) for h in remote}
                documents = dict(zip(checks, pool.map(_result, checks.values()), strict=True))
                for host in (h for h in answering if h not in remote):
                    documents[host.name] = _result(workers.submit(host.name, check, host, str(binary), check_s))
            else:
                documents = {}
    finally:
        workers.close(quickly=False)
    reports = [_report(host, held[host.name], probes.get(host.name), documents.get(host.name), hosts) for host in hosts]
    if check_s is not None:
        reports.sort(key=lambda one: one.figures.get(FIGURES[0], float("inf")))
    return Survey(tuple(reports), check_s is not None)


def _result(future: Any) -> dict[str, Any]:
    try:
        return dict(future.result())
    except (OSError, RuntimeError) as error:
        return {"reason": f"its worker was lost ({error})"}


def _report(
    host: FleetHost,
    holder: str | None,
    found: Mapping[str, Any] | None,
    checked: Mapping[str, Any] | None,
    hosts: Sequence[FleetHost],
) -> HostReport:
    reason = holder if found is None else found.get("reason")
    figures = {}
    if checked is not None:
        reason = reason or checked.get("reason")
        findings = {finding.get("id"): finding.get("figure") for finding in checked.get("findings", ())}
        figures = {name: float(findings[name]) for name in FIGURES if isinstance(findings.get(name), int | float)}
    facts = {} if found is None else found.get("machine", {})
    status = None if checked is None else checked.get("status")
    return HostReport(
        host, reason, holder, facts, _measures(host, hosts), figures, None if status is None else str(status)
    )


def _measures(host: FleetHost, hosts: Sequence[FleetHost]) -> tuple[str, ...]:
    """The instruments whose runs this host can start, with what the others can be."""
    others = {role for other in hosts if other is not host for role in other.roles}
    need = {"one": ({SENDER}, set()), "two": ({SENDER}, {RESPONDER}), "routed": ({SENDER}, {RESPONDER, ROUTER}),
            "ports": ({TESTER}, set())}  # fmt: skip
    instruments = []
    for record in RECORDS:
        own, beside = need.get(str(record.hosts), ({SENDER}, set()))
        if own <= {*host.roles} and beside <= others:
            instruments.append(record.name)
    return tuple(instruments)
