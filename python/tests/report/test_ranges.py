"""Notes that differ in their figures alone are written once, with ranges; what names something is left alone."""

from __future__ import annotations

from vtare.report.ranges import said_once
from vtare.summary.model import Note


def said(*texts: str, runs: int = 1, id_: str = "queues") -> list[tuple[str, int, int]]:
    return [(note.text, note.runs, merged) for note, merged in said_once([Note(id_, text, runs) for text in texts])]


def test_measured_figures_become_ranges_and_places_stay_apart() -> None:
    text = "{} guests: 1 frame in 100 took longer than {}, and a trial 200 ms"
    assert said(
        text.format("64 B to 2 of 2", "158 ms"),
        text.format("1518 B to 1 of 4", "3.75 ms"),
        text.format("64 B to 2 of 2", "1.42 s"),
        text.format("64 B to 2 of 2", "90 us"),
    ) == [
        (text.format("64 B to 2 of 2", "90 us to 1.42 s"), 3, 3),
        (text.format("1518 B to 1 of 4", "3.75 ms"), 1, 1),
    ]


def test_many_that_differ_in_counts_are_stated_once_too() -> None:
    few = [f"{size} B to 1 of {guests} guests: full" for size, guests in ((64, 2), (512, 4), (1518, 8))]
    assert [text for text, _, _ in said(*few)] == few
    assert said(*few, *few, "64 B to 1 of 1 guests: full", runs=2) == [
        ("64 to 1518 B to 1 of 1 to 8 guests: full", 14, 7)
    ]


def test_what_was_distinguished_before_is_merged_from_all_of_its_figures() -> None:
    many = [f"{size} B: {ms} ms" for size in (64, 128, 256, 512) for ms in (size, 2 * size)]
    assert said(*many, "1024 B: 7 ms") == [("64 to 1024 B: 7 to 1024 ms", 9, 9)]


def test_names_versions_and_other_notes_are_left_alone() -> None:
    texts = [f"Kite{n} was built by GCC 12.{n}.0 as lane-{n}" for n in range(6)]
    assert [text for text, _, _ in said(*texts)] == texts
    notes = [Note("a", "up to 1.0 ms", 1), Note("b", "up to 2.0 ms", 1)]
    assert [note for note, _ in said_once(notes)] == notes
    assert said_once([]) == ()


def test_rates_and_shares_are_compared_by_their_size() -> None:
    assert said("at least 900 Mbit/s, 6 % off", "at least 1.2 Gbit/s, 6 % off") == [
        ("at least 900 Mbit/s to 1.2 Gbit/s, 6 % off", 2, 2)
    ]
    assert said("at least 0.2486 Gbit/s.", "at least 6.7314 Gbit/s.") == [("at least 0.2486 to 6.7314 Gbit/s.", 2, 2)]
