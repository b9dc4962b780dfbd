"""A campaign asks a topology, or an instance, for what it does, never for which it is."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import vtare
from vtare.platforms.network import NetworkError
from vtare.topology.links import RoutedHosts, TwoHosts
from vtare.topology.named_hosts import NamedHosts
from vtare.topology.path import PathSpec, Phase
from vtare.topology.protocol import Hosts, Topology

SOURCE = Path(vtare.__file__).parent


def classes_of(room: str) -> set[str]:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in (SOURCE / room).rglob("*.py")]
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}


def test_a_campaign_asks_no_topology_and_no_instance_for_its_kind() -> None:
    kinds = classes_of("topology") | classes_of("platforms")
    assert {"TwoHosts", "NamedHosts", "ForwardingTopology", "SshInstance"} <= kinds
    asked = []
    for path in sorted((SOURCE / "campaign").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
                named = {part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)}
                asked += [f"{path.name}:{node.lineno}: {name}" for name in sorted(named & kinds)]
    assert asked == []


class Broken(Topology):
    """A topology that fails half-way."""

    removed = 0

    def _make(self) -> None:
        raise NetworkError("half of it is there")

    def remove(self) -> None:
        self.removed += 1

    def facts(self) -> dict[str, object]:
        return {}


def test_what_a_failed_attempt_has_made_is_removed() -> None:
    room = Broken()
    with pytest.raises(NetworkError, match="half of it"), room:
        pytest.fail("it cannot be entered")
    assert room.removed == 1


def test_a_plain_link_takes_no_shape_and_counts_nothing(tmp_path: Path) -> None:
    plain = TwoHosts("vtare-1-1")
    assert plain.counted(tmp_path) == []
    with pytest.raises(NetworkError, match="takes no shape"):
        plain.shape(PathSpec("tbf", (Phase(10**8, 10**9),)))


def test_devices_around_the_bottleneck_and_the_machine_are_asked_of_any_hosts() -> None:
    routed: Hosts = RoutedHosts("vtare-1-1")
    assert (routed.inward, routed.outward, routed.HERE, routed.lost) == ("in0", "out0", True, False)
    assert not NamedHosts({}, lambda name: pytest.fail(name)).HERE
