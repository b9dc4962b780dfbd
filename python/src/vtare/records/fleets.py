"""Documents of fleets of hosts."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

from vtare.records.answer import Answered


class SurveyedHost(TypedDict):
    """One host."""

    host: str
    roles: list[str]
    reached_at: str
    reason: Annotated[str | None, "why it cannot be used"]
    holder: Annotated[str | None, "who has it"]
    measures: Annotated[list[str], "instruments"]
    facts: Annotated[dict[str, Any] | None, "null where it did not answer"]
    figures: Annotated[dict[str, float] | None, "of vtare check: shares of the time, and ns; null where not checked"]
    status: Annotated[str | None, "GOOD, USABLE or NOT NOW; null where not checked"]


class Fleet(TypedDict):
    """`vtare fleet HOSTS` and `vtare fleet check HOSTS`: then the best comes first."""

    schema: Literal["vtare.fleet/1"]
    answer: Answered
    hosts: list[SurveyedHost]
    differing: Annotated[dict[str, dict[str, list[str]]], "facts that differ: each value with its hosts"]


class SimulatedHostDocument(TypedDict):
    """What became of one host."""

    host: str
    runs: int
    busy_share: Annotated[float | None, "null where no time was logged"]
    free_share: float | None
    lost: int


class UsedHost(SimulatedHostDocument):
    """What became of one host, and which run has it now."""

    holder: str | None


class FleetUse(TypedDict):
    """`vtare fleet STORE`."""

    schema: Literal["vtare.fleet_use/1"]
    answer: Answered
    store: str
    overlaps: Annotated[list[str], "where two runs were on one host: nowhere, if all is well"]
    hosts: list[UsedHost]


class DryRunDocument(TypedDict):
    """`vtare run PLAN --on simulated:HOSTS`. Times are simulated."""

    schema: Literal["vtare.dry_run/1"]
    answer: Answered
    plan: str
    seed: int
    runs: int
    done: int
    failed: int
    skipped: int
    left: Annotated[int, "runs neither done nor given up: 0 if all is well"]
    makespan_s: float
    faults: Annotated[dict[str, int], "how often each kind was met"]
    sessions: Annotated[int, "processes of the lab that it took"]
    overlaps: Annotated[list[str], "where two runs were on one host"]
    counted_twice: Annotated[list[str], "run ids"]
    unsound: Annotated[list[str], "what a check of the store found"]
    hosts: list[SimulatedHostDocument]
