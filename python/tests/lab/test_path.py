"""The path of an experiment on available bandwidth: quantities in, commands out, nothing started."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtare.platforms.network import Step
from vtare.quantities import QuantityError
from vtare.topology.links import RoutedHosts
from vtare.topology.path import (
    PathSpec,
    Phase,
    link_arguments,
    netem_steps,
    rate_step,
    read_rate,
    read_steps,
    shape_steps,
    steps_label,
)

OWNER = "vtare-123-a0"
HOUR_NS = 3_600_000_000_000
rates = st.integers(min_value=1000, max_value=10**11)


def steady(bit_per_s: int, bottleneck: str = "tbf", **more: object) -> PathSpec:
    return PathSpec(bottleneck, (Phase(bit_per_s, HOUR_NS),), **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bit_per_s", "byte"), [(10**8, 3200), (3 * 10**8, 3200), (10**9, 9000), (10**10, 90_000)]
)  # fmt: skip
def test_the_bucket_is_the_one_with_which_the_rate_was_measured_to_hold(bit_per_s: int, byte: int) -> None:
    assert steady(bit_per_s).bucket_byte == byte


def test_a_bucket_holds_two_of_the_largest_packets() -> None:
    assert steady(10**8, mtu_byte=9000).bucket_byte > 2 * 9014


def test_the_token_bucket_counts_ip_bytes() -> None:
    (step,) = shape_steps(steady(3 * 10**8), "out0")
    assert str(step) == (
        "tc qdisc add dev out0 root handle 1: stab overhead -14 tbf rate 300000000bit burst 3200 limit 1500000"
    )


def test_htb_shapes_one_class_and_has_a_queue_in_bytes() -> None:
    root, one, queue = shape_steps(steady(9 * 10**8, "htb"), "out0")
    assert "stab overhead -14 htb default 1" in str(root)
    assert "rate 900000000bit ceil 900000000bit burst 8100 cburst 8100" in str(one)
    assert "bfifo limit 1500000" in str(queue)


def test_where_packets_come_in_groups_the_shaper_counts_frames_at_their_rate() -> None:
    (step,) = shape_steps(steady(10**9), "out0")
    assert "stab" not in str(step)
    assert f"tbf rate {10**9 * 1514 // 1500}bit burst 9000" in str(step)
    root, one, _ = shape_steps(steady(10**10, "htb", mtu_byte=9000), "out0")
    assert "stab" not in str(root)
    assert f"rate {10**10 * 9014 // 9000}bit" in str(one)


def test_a_change_of_rate_changes_its_bucket_too() -> None:
    path = PathSpec("tbf", (Phase(10**9, 10**9), Phase(10**10, 10**9)))
    assert "tc qdisc change" in str(rate_step(path, "out0", 10**9))
    assert "burst 9000" in str(rate_step(path, "out0", 10**9))
    assert "burst 90000" in str(rate_step(path, "out0", 10**10))


def test_the_emulator_is_shown_all_and_the_kernel_nothing() -> None:
    path = PathSpec("link", (Phase(2 * 10**9, 10**10), Phase(7 * 10**9, 10**10)), delay_ns=500_000, loss_fraction=0.01)
    assert shape_steps(path, "out0") == netem_steps(path, "up0", forward=True) == []
    words = " ".join(link_arguments(path, "in0", "out0", "/log"))
    assert words.startswith("link in0 out0 --ab-rate-steps 2000000000:10000000000ns,7000000000:10000000000ns")
    assert "--delay 500000ns" in words
    # The way back carries reports alone: its loss would be the tool's, not the path's.
    assert "--ab-loss 1%" in words
    assert words.endswith("--log /log --json")


def test_netem_delays_both_ways_and_loses_forward() -> None:
    path = steady(10**9, delay_ns=500_000, loss_fraction=0.01)
    found = [str(step) for way in (True, False) for step in netem_steps(path, "up0", forward=way)]
    assert found == [
        "tc qdisc add dev up0 root netem limit 10000 delay 500us loss 1%",
        "tc qdisc add dev up0 root netem limit 10000 delay 500us",
    ]
    lossy = steady(10**9, loss_fraction=0.5)
    (only,) = netem_steps(lossy, "up0", forward=True)
    assert "loss 50%" in str(only)
    assert netem_steps(lossy, "up0", forward=False) == []


@given(st.lists(st.tuples(rates, st.integers(1, 10**6)), min_size=2, max_size=5))
def test_steps_are_read_back_as_they_are_written(parts: list[tuple[int, int]]) -> None:
    phases = tuple(Phase(rate, ms * 1_000_000) for rate, ms in parts)
    if all(a.bit_per_s == b.bit_per_s for a, b in pairwise(phases)):
        with pytest.raises(QuantityError, match="does not change"):
            read_steps(steps_label(phases))
    else:
        assert read_steps(steps_label(phases)) == phases


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2 Gbit/s", "is no RATE:TIME"),
        ("2 Gbit/s:10 s", "does not change"),
        ("2 Gbit/s:10 s, 7 Gbit:10 s", "'Gbit': use one of"),
        ("2 Gbit/s:10 s, 7 Gbit/s:0 s", "too short"),
        ("2 Gbit/s:10 s, 1 bit/s:1 s", "not a rate in whole bit/s: use 1000 or more"),
    ],
)
def test_steps_that_cannot_be_are_refused(text: str, message: str) -> None:
    with pytest.raises(QuantityError, match=message):
        read_steps(text)


def test_no_cross_traffic_is_a_rate() -> None:
    assert read_rate("0 Mbit/s", least=0) == 0
    with pytest.raises(QuantityError, match="1000 or more"):
        read_rate("0 Mbit/s", least=1000)


@given(rates, st.sampled_from(("tbf", "htb", "link")), st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_path_survives_its_document(rate: int, kind: str, cross: int, delay: int) -> None:
    path = steady(rate, kind, cross_bit_per_s=cross, delay_ns=delay, loss_fraction=0.25)
    assert PathSpec.of_document(path.document()) == path


def namespaces_of(step: Step) -> set[str]:
    words = step.words
    named = {words[i + 1] for i, word in enumerate(words[:-1]) if word in ("netns", "-n")}
    return {word for word in named - {"add", "exec"} if word.startswith("vtare")} | (
        {words[3]} if words[:2] == ("ip", "netns") else set()
    )


@pytest.mark.parametrize("bridged", [True, False])
def test_every_namespace_of_a_routed_path_is_made_first_and_is_the_labs_own(bridged: bool) -> None:
    hosts = RoutedHosts(OWNER, mtu_byte=9000, bridged=bridged)
    made: set[str] = set()
    for step in hosts.steps():
        named = namespaces_of(step)
        assert named
        assert all(name.startswith(f"{OWNER}-") for name in named)
        if step.words[:3] == ("ip", "netns", "add"):
            made |= named
        else:
            assert named <= made
    ends = {hosts.server(end, Path("/vtare")).name for end in ("source", "sink")}
    assert {hosts.router, *ends} <= made


def test_only_a_kernel_shaper_needs_the_routers_bridge() -> None:
    def bridges(bridged: bool) -> list[str]:
        return [str(s) for s in RoutedHosts(OWNER, bridged=bridged).steps() if "bridge" in s.words and "-t" in str(s)]

    assert len(bridges(True)) == 1 + len(bridges(False))


def test_every_device_of_a_path_of_large_packets_carries_them() -> None:
    usual = RoutedHosts(OWNER).steps()
    assert not [step for step in usual if "mtu" in step.words]
    large = RoutedHosts(OWNER, mtu_byte=9000).steps()
    made = [step for step in large if step.words[:3] == ("ip", "link", "add")]
    changed = {(s.words[2], s.words[5]) for s in large if "mtu" in s.words and s.words[-1] == "9000"}
    ends = {(w[i + 1], w[i - 1]) for s in made for w in [s.words] for i, word in enumerate(w) if word == "netns"}
    assert ends <= changed
