"""What can be measured here and what is missing, on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from vtare.platforms.lacks import ALSO
from vtare.terminal.tables import print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from vtare.doctor import Feature, Place


def show_doctor(console: Console, features: Sequence[Feature], places: Sequence[Place]) -> None:
    """Print the answer, the table of instruments by platform, and what is missing with the way to it."""
    able = sum(1 for place in places if place.lacks is None)
    lacking = [feature for feature in features if feature.lacks is not None]
    console.print(
        f"Instances of {able} of {len(places)} platforms can be made here; of {len(features)} things that options and "
        f"instruments need, {len(lacking)} are missing."
    )
    table = Table(title="\nWhat can be measured here", title_justify="left")
    table.add_column("platform")
    for name in places[0].instruments:
        table.add_column(name)
    for place in places:
        table.add_row(
            place.name + ("*" if place.unverified else ""), *(_cell(place, why) for why in place.instruments.values())
        )
    print_table(console, table)
    if any(place.unverified for place in places):
        console.print("* never compared with the real thing (docs/platforms.md)")
    console.print("plan: on machines that a plan names. -: the reason is below.")
    console.print("This is what campaigns can do here; `vtare rtt` and `vtare avb` to another machine need none of it.")
    alike: dict[tuple[str, str | None], list[str]] = {}
    for place in places:
        if place.lacks is not None and not place.by_plan:
            alike.setdefault((place.lacks, place.command), []).append(place.name)
    missing = [(", ".join(names), *reason) for reason, names in alike.items()]
    missing += [(f"{f.name}, for {f.used_by}", f.lacks, f.command) for f in lacking if f.lacks is not None]
    if missing:
        console.print("\nWhat is missing")
    for what, lacks, command in missing:
        for one in lacks.split(ALSO):
            console.print(f"  {what}: {one}")
        if command is not None:
            console.print(f"    {command}")
    parts = {(name, why) for place in places if place.lacks is None for name, why in place.instruments.items() if why}
    for name, why in sorted(parts):
        console.print(f"  {name}: {why}")


def _cell(place: Place, why: str | None) -> str:
    if why is None:
        return "yes"
    return "plan" if place.by_plan and why == place.lacks else "-"
