from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vtare.quantities import QuantityError, Unit, parse, unit_of, write


def unit(parameter: str) -> Unit:
    found = unit_of(parameter)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "parameter", "wanted"),
    [
        ("1 ms", "target_ns", "1000000"),
        ("500us", "target_ns", "500000"),
        ("0.1 us", "target_ns", "100"),
        ("500 \N{MICRO SIGN}s", "target_ns", "500000"),
        ("500\N{GREEK SMALL LETTER MU}s", "target_ns", "500000"),
        ("1.5e3 ns", "target_ns", "1500"),
        ("2 min", "seconds", "120"),
        ("500 ms", "seconds", "0.5"),
        ("10 kB", "frame_byte", "10000"),
        ("4 KiB", "frame_byte", "4096"),
        ("2.5 Gbit/s", "rate_bit_per_s", "2500000000"),
        ("1 Mpacket/s", "rate_packet_per_s", "1000000"),
        ("2.6 GHz", "frequency_hz", "2600000000"),
    ],
)
def test_quantity_is_converted_exactly_to_the_unit_of_the_parameter(text: str, parameter: str, wanted: str) -> None:
    assert parse(text, unit(parameter)) == Decimal(wanted)


def test_suffix_of_a_rate_is_not_taken_for_seconds() -> None:
    assert unit("rate_bit_per_s").symbol == "bit/s"
    assert unit("seconds").symbol == "s"
    assert unit_of("samples") is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5", 'has no unit; write for example "5 ns"'),
        ("5 kB", "has the unknown unit 'kB': use one of: ps, ns, us, ms, s, min, h"),
        ("five ms", "is not a number with a unit"),
        ("", "is not a number with a unit"),
        ("1 2 ms", "is not a number with a unit"),
    ],
)
def test_bad_quantity_names_what_was_found_and_what_is_wanted(text: str, message: str) -> None:
    with pytest.raises(QuantityError, match=r"^'") as error:
        parse(text, unit("target_ns"))
    assert message in str(error.value)


@given(st.integers(min_value=0, max_value=10**18), st.sampled_from(["target_ns", "frame_byte", "rate_bit_per_s"]))
def test_written_quantity_parses_back_to_itself(value: int, parameter: str) -> None:
    assert parse(write(value, unit(parameter)), unit(parameter)) == value


def test_quantity_is_written_in_the_largest_unit_that_fits() -> None:
    assert write(1_000_000, unit("target_ns")) == "1 ms"
    assert write(1_500, unit("target_ns")) == "1.5 us"
    assert write(0.25, unit("seconds")) == "250 ms"
    assert write(0, unit("target_ns")) == "0 ns"
