"""What `vtare fleet` and dry runs state of hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from vtare.sentences.words import plural

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

KEPT: Final = "no two runs were on one host at a time; no run was lost or counted twice"
TWO_RUNS: Final = "two runs on one host"
KEPT_TWICE: Final = "kept twice"


def best_and_worst(best: str, status: str, worst: str, worst_status: str, hosts: int) -> str:
    return f"Of {hosts} hosts, {best} is the best ({status}) and {worst} the worst ({worst_status})."


def only_host(host: str, status: str) -> str:
    return f"{host} is {status}."


def answering(hosts: int, of: int) -> str:
    return f"{hosts} of {plural(of, 'host')} can be used."


NO_HOST: Final = "No host can be used."
TOGETHER: Final = "Two runs were on one host at a time."
APART: Final = "No two runs were on one host at a time."


def reason(host: str, why: str) -> str:
    return f"{host}: {why}"


def dry_run(plan: str, hosts: int, done: int, runs: int, others: Mapping[str, int], time: str) -> str:
    extra = "".join(f", {count} {word}" for word, count in others.items() if count)
    return f"{plan} on {hosts} simulated hosts: {done} of {runs} runs done{extra} in {time}, simulated"


def busy(shares: Sequence[str]) -> str:
    return f"hosts busy: {', '.join(shares)} (least, median, most)"


def faults(met: Sequence[str], processes: int) -> str:
    return f"faults: {', '.join(met) or 'none'}; {plural(processes, 'lab process', 'lab processes')}"


def made_again(runs: int) -> str:
    return f"`vtare resume` would make {plural(runs, 'run')} again, whose hosts were lost or did not answer"


def differs(fact: str, values: Mapping[str, Sequence[str]]) -> str:
    listed = [f"{value} on {', '.join(names)}" for value, names in values.items()]
    return f"{fact} differs: {'; '.join(listed)}"


def no_fleet(store: str) -> str:
    return f"{store}: this campaign was on one machine, and no host of a fleet was used"
