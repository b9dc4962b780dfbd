"""`watch`: a plan over months, and alerts where the machine has changed."""

from __future__ import annotations

import logging
import math
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from vtare.arguments import integer, percentage
from vtare.cli.options import BinaryOption
from vtare.errors import BadInput, CampaignStopped

_LOG = logging.getLogger(__name__)
_MOST_S = 365 * 86_400.0


def watch(
    plan: Annotated[
        str, typer.Argument(metavar="PLAN", help="A plan file, or the name of a shipped plan (default: watch).")
    ] = "watch",
    every: Annotated[
        str, typer.Option("--every", metavar="TIME", help="From the start of a round to that of the next.")
    ] = "10 min",
    store: Annotated[
        Path | None, typer.Option("--store", metavar="DIR", help="Where to keep it (default vtare-store/watch-NAME).")
    ] = None,
    keep: Annotated[
        str,
        typer.Option("--keep", metavar="TIME", help="How long samples are kept (in rounds); figures stay for ever."),
    ] = "168 h",
    rounds: Annotated[
        int | None,
        typer.Option("--rounds", parser=integer("--rounds", 1), metavar="N", help="End after N rounds."),
    ] = None,
    margin: Annotated[
        float,
        typer.Option(
            "--margin",
            parser=percentage("--margin", 0.0, 1000.0),
            metavar="PERCENT",
            help="Changes of less are kept, and alert nobody.",
        ),
    ] = 5.0,
    webhook: Annotated[
        str | None, typer.Option("--webhook", metavar="URL", help="Post each alert there, as one JSON document.")
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", metavar="[ADDR:]PORT", help="Serve OpenMetrics there (address: 127.0.0.1)."),
    ] = None,
    binary: BinaryOption = None,
) -> None:
    """Has this machine got worse? Repeat a plan, keep its figures over time, and report where they change.

    Alerts are lines on stderr; `vtare compare --over-time STORE` shows all changes. Exits with 1 after --rounds where
    there was an alert.
    """
    from vtare.campaign.binary import binary_and_contract
    from vtare.campaign.stop import StopRequest
    from vtare.campaign.store import DEFAULT_PARENT
    from vtare.plan.files import find_plan, load_plan
    from vtare.watch import loop
    from vtare.watch.alerts import Webhook
    from vtare.watch.history import History
    from vtare.watch.store import drop_old, held_store

    every_s = _seconds("--every", every, 1.0)
    kept = math.ceil(_seconds("--keep", keep, 0.0) / every_s)
    if webhook is not None and not webhook.startswith(("http://", "https://")):
        raise BadInput(f"--webhook: found '{webhook}', expected a URL that begins with http:// or https://")
    address = None if metrics is None else _address(metrics)
    program, contract = binary_and_contract(binary)
    checked = load_plan(find_plan(plan), contract=contract)
    target = (store or DEFAULT_PARENT / f"watch-{checked.name}").absolute()
    with held_store(target, checked), StopRequest() as stop:
        with History(target) as history:
            number, last_s = history.rounds, history.last_s
        observer = None
        if address is not None:
            from vtare.watch.metrics import Metrics, serve

            observer = Metrics()
            host, port = serve(observer, *address)
            _LOG.info(f"metrics on http://{host}:{port}/metrics")
        _LOG.info(f"{checked.name}: every {every} into {target}, round {number} is next")

        def measure() -> dict[str, Any]:
            # First: it may be what makes room.
            drop_old(target, kept)
            return loop.round_process(target, program, stop)

        # After a restart the rounds keep their distance; a clock that was set back is no reason to wait.
        passed_s = every_s if last_s is None else time.time() - last_s
        with nullcontext() if webhook is None else Webhook(webhook, target, stop.fd) as hook:
            tally = loop.watch(
                measure,
                loop.SystemClock(stop),
                every_s=every_s,
                first_s=max(0.0, every_s - passed_s) if passed_s >= 0 else 0.0,
                rounds=rounds,
                margin=margin / 100.0,
                observer=observer,
                send=None if hook is None else hook.post,
            )
    if not tally.measured:
        raise CampaignStopped(f"{target}: none of {tally.failed} rounds could be made")
    if tally.alerts:
        raise typer.Exit(1)


def _seconds(option: str, text: str, least: float) -> float:
    from vtare.quantities import QuantityError, Unit, parse, unit_of

    try:
        seconds = float(parse(text, unit_of("seconds") or Unit("s", {})))
    except QuantityError as error:
        raise BadInput(f"{option}: {error}") from error
    if not least <= seconds <= _MOST_S:
        raise BadInput(f"{option}: found {text}, expected {least:g} s to 8760 h")
    return seconds


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]") or "127.0.0.1", integer("--metrics", 0, 65_535)(port)
