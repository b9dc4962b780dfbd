"""Meshes: every pair of a fleet's hosts, in rounds in which no host is used twice (a round-robin tournament).

A plan with `mesh` has the factor `pair`, whose levels are made of the hosts: all of the fleet that `--on` names, or
those that the plan lists. What a store keeps is a plan that lists them, so that `resume` needs nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from vtare.errors import BadInput
from vtare.plan.level import Level
from vtare.plan.positions import Positions
from vtare.topology.named_hosts import HOST_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from vtare.plan.checks import Checks

#: The factor whose levels are the pairs of a mesh.
PAIR: Final = "pair"
_BETWEEN: Final = " to "
_LEAST_HOSTS: Final = 2


@dataclass(frozen=True, slots=True)
class Mesh:
    """The hosts of a mesh, empty while they are all those of a fleet that is not known yet.

    `at_a_time` is how many pairs measure at once at most; None: as many as there are hosts for.
    """

    hosts: tuple[str, ...] = ()
    at_a_time: int | None = None


def pair_label(sender: str, responder: str) -> str:
    """The level of a pair: `a to b` is measured from a to b."""
    return f"{sender}{_BETWEEN}{responder}"


def hosts_of_pair(label: str) -> tuple[str, str]:
    """Sender and responder of a pair. Names of hosts have no blanks.

    >>> hosts_of_pair("a to b")
    ('a', 'b')
    """
    sender, _, responder = label.partition(_BETWEEN)
    return sender, responder


def pair_levels(hosts: Sequence[str], *, one_way: bool) -> tuple[Level, ...]:
    """The pairs of these hosts, each once; with `one_way` there and back, as the two ways differ."""
    return tuple(
        Level(pair_label(a, b), (a, b))
        for i, a in enumerate(hosts)
        for k, b in enumerate(hosts)
        if i < k or (one_way and i != k)
    )


def rounds_of_all(number: int) -> list[list[tuple[int, int]]]:
    """All pairs of `number` players in rounds, in each of which nobody plays twice: the circle method.

    One player stays in place and the others move on by one place a round. With an odd number one pauses each round.

    >>> rounds_of_all(4)
    [[(0, 3), (1, 2)], [(0, 2), (3, 1)], [(0, 1), (2, 3)]]
    >>> [len(pairs) for pairs in rounds_of_all(5)]
    [2, 2, 2, 2, 2]
    """
    circle = list(range(number + number % 2))
    rounds = []
    for _ in circle[1:]:
        half = len(circle) // 2
        pairs = zip(circle[:half], reversed(circle[half:]), strict=True)
        rounds.append([(a, b) for a, b in pairs if max(a, b) < number])
        circle = [circle[0], circle[-1], *circle[1:-1]]
    return rounds


def lay_out(
    mesh: Mesh, cells: Iterable[tuple[Any, Mapping[str, str]]], order_of: Callable[[int], Iterable[int]]
) -> list[list[int]]:
    """The rounds of one block, each as positions of `cells` (what is measured, levels with a pair), in drawn order.

    All runs of a round measure the same but for the pair. Which pairs meet in a round is drawn anew: the hosts are
    put on the circle in an order of `order_of`, which returns the positions 0 to n - 1 in some order.
    """
    by_what: dict[tuple[Any, ...], dict[tuple[str, str], int]] = {}
    for position, (what, levels) in enumerate(cells):
        rest = (what, *((name, label) for name, label in levels.items() if name != PAIR))
        by_what.setdefault(rest, {})[hosts_of_pair(levels[PAIR])] = position
    rounds = []
    for pairs in by_what.values():
        hosts = [mesh.hosts[i] for i in order_of(len(mesh.hosts))]
        for circle in rounds_of_all(len(hosts)):
            ways = [(hosts[a], hosts[b]) for a, b in circle]
            # Of two ways one is in this round and the other in the next; of one way it is there in either form.
            there = [pairs[way] for way in ways if way in pairs]
            back = [pairs[way[::-1]] for way in ways if way[::-1] in pairs]
            both = any(way in pairs and way[::-1] in pairs for way in ways)
            rounds += [there, back] if both else [[*there, *back]]
    return [[rounds[k][i] for i in order_of(len(rounds[k]))] for k in order_of(len(rounds))]


def round_numbers(mesh: Mesh, runs: Iterable[tuple[int, Any, Mapping[str, str]]]) -> list[int]:
    """The round of each run of a design, of which block, what is measured and levels are given in its order.

    A round ends where something else is measured, a host would be used twice, or `at_a_time` pairs are in it. Runs
    without a pair stand alone.
    """
    numbers, number, before = list[int](), 0, None
    busy: set[str] = set()
    count = 0
    for block, what, levels in runs:
        pair = hosts_of_pair(levels[PAIR]) if PAIR in levels else ()
        now = (block, what, *((name, label) for name, label in levels.items() if name != PAIR))
        if not pair or now != before or busy & {*pair} or count == mesh.at_a_time:
            number, busy, count = number + 1, set(), 0
        numbers.append(number)
        before, count = now if pair else None, count + 1
        busy |= {*pair}
    return numbers


def read_mesh(checks: Checks, table: Mapping[str, Any]) -> Mesh | None:
    """The mesh of a plan's tables; None where it has none."""
    stated, at_a_time = table.get("mesh", False), table.get("pairs_at_a_time")
    if stated is False:
        if at_a_time is not None:
            raise checks.error("pairs_at_a_time", "means nothing without 'mesh'; leave it out", key=True)
        return None
    hosts: tuple[str, ...] = ()
    if stated is not True:
        hosts = checks.texts(
            stated, "mesh", 'true (all hosts of the fleet) or a list of their names, such as ["a", "b"]'
        )
        for number, name in enumerate(hosts):
            if not HOST_NAME.fullmatch(name):
                raise checks.bad_value(f"mesh[{number}]", name, "a name from the file of hosts")
            if name in hosts[:number]:
                raise checks.error(f"mesh[{number}]", f"host '{name}' is listed twice")
        if len(hosts) < _LEAST_HOSTS:
            raise checks.error("mesh", f"{len(hosts)} host makes no pair to measure: list {_LEAST_HOSTS} or more")
    for other in ("hosts", "whole_plots"):
        if other in table:
            raise checks.error(other, "does not go with 'mesh', which makes pairs of the fleet's hosts; leave one out")
    return Mesh(hosts, None if at_a_time is None else checks.integer(at_a_time, "pairs_at_a_time", low=1, high=100_000))


def listed(text: str, hosts: Sequence[str]) -> str:
    """The text of a plan with `mesh = true` in which these hosts are listed."""
    at = Positions(text).of("mesh")
    if at is None:
        raise AssertionError("the plan has a mesh")
    begin = sum(len(line) + 1 for line in text.split("\n")[: at.line - 1]) + at.column - 1
    names = ", ".join(f'"{name}"' for name in hosts)
    return f"{text[:begin]}[{names}]{text[begin + len('true') :]}"


def refuse_unknown(mesh: Mesh | None, source: object) -> None:
    """Refuse a mesh whose hosts are not known yet.

    Raises:
        BadInput: with the way out.
    """
    if mesh is not None and not mesh.hosts:
        raise BadInput(f"{source}: mesh: there is no fleet to measure: add --on HOSTS, or list its hosts in the plan")
