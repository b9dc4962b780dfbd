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
    reasons: dict[str, list[str]] = {}
    commands: dict[str, list[str]] = {}
    for place in places:
        if place.lacks is not None and not place.by_plan:
            for reason in place.lacks.split(ALSO):
                reasons.setdefault(reason, []).append(place.name)
            if place.command is not None:
                commands.setdefault(place.command, []).append(place.name)
    if reasons or lacking:
        console.print("\nWhat is missing")
    for reason, names in reasons.items():
        console.print(f"  {', '.join(names)}: {reason}")
    for feature in lacking:
        console.print(f"  {feature.name}, for {feature.used_by}: {feature.lacks}")
        if feature.command is not None:
            console.print(f"    {feature.command}")
    parts = {(name, why) for place in places if place.lacks is None for name, why in place.instruments.items() if why}
    for name, why in sorted(parts):
        console.print(f"  {name}: {why}")
    if commands:
        console.print("\nAll that a platform lacks, as far as commands get it")
    for command, names in commands.items():
        console.print(f"  {', '.join(names)}:\n    {command}")


def _cell(place: Place, why: str | None) -> str:
    if why is None:
        return "yes"
    return "plan" if place.by_plan and why == place.lacks else "-"
