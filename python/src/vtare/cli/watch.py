"""`watch`: a plan over months, and alerts where the machine has changed."""

from __future__ import annotations

import logging
import math
import shlex
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from vtare.cli.options import DIRECTORY, Percentage, Time, Whole, Word, hidden_binary_option, stdout
from vtare.cli.tree import command
from vtare.errors import BadInput, CampaignStopped, bad_value

_LOG = logging.getLogger(__name__)
_MOST_S = 365 * 86_400.0


@command("watch")
@click.argument(
    "plan",
    type=Word("plan"),
    default="watch",
    metavar="PLAN",
    help="A plan file, or the name of a shipped plan (default: watch).",
)
@click.option(
    "--every",
    type=Time(1.0, _MOST_S),
    default="10 min",
    metavar="TIME",
    help="From the start of a round to that of the next.",
)
@click.option("--store", type=DIRECTORY, metavar="DIR", help="Where to keep it (default vtare-store/watch-NAME).")
@click.option(
    "--keep",
    type=Time(most=_MOST_S),
    default="168 h",
    metavar="TIME",
    help="How long samples are kept (in rounds); figures stay for ever.",
)
@click.option("--rounds", type=Whole(1), metavar="N", help="End after N rounds.")
@click.option(
    "--margin",
    type=Percentage(0.0, 1000.0),
    default=5.0,
    metavar="PERCENT",
    help="Changes of less are kept, and alert nobody.",
)
@click.option("--webhook", metavar="URL", help="Post each alert there, as one JSON document.")
@click.option("--metrics", metavar="[ADDR:]PORT", help="Serve OpenMetrics there (address: 127.0.0.1).")
@hidden_binary_option
def watch(
    plan: str,
    every: float,
    store: Path | None,
    keep: float,
    rounds: int | None,
    margin: float,
    webhook: str | None,
    metrics: str | None,
    binary: Path | None,
) -> None:
    """Carry out `watch`.

    Keeps the figures of a plan over time and reports where they change. Alerts are lines on stderr; `vtare compare
    --over-time STORE` shows all changes. Exits with 1 after --rounds where there was an alert.
    """
    from vtare.campaign.binary import binary_and_contract
    from vtare.campaign.stop import StopRequest
    from vtare.campaign.store import DEFAULT_PARENT
    from vtare.plan.files import find_plan, load_plan
    from vtare.sentences import watch as wording
    from vtare.sentences.words import duration
    from vtare.watch import loop
    from vtare.watch.alerts import Webhook
    from vtare.watch.history import History
    from vtare.watch.store import drop_old, held_store

    kept = math.ceil(keep / every)
    if webhook is not None and not webhook.startswith(("http://", "https://")):
        raise BadInput(f"--webhook {bad_value(webhook, 'a URL that begins with http:// or https://')}")
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
            from vtare.watch.utc_page import page_path

            observer = Metrics(page_path())
            host, port = serve(observer, *address)
            _LOG.info(f"metrics on http://{host}:{port}/metrics")
        _LOG.info(f"{checked.name}: every {duration(every)} into {target}, round {number} is next")

        def measure() -> dict[str, Any]:
            # First: it may be what makes room.
            drop_old(target, kept)
            return loop.round_process(target, program, stop)

        # After a restart the rounds keep their distance; a clock that was set back is no reason to wait.
        passed_s = every if last_s is None else time.time() - last_s
        with nullcontext() if webhook is None else Webhook(webhook, target, stop.fd) as hook:
            tally = loop.watch(
                measure,
                loop.SystemClock(stop),
                every_s=every,
                first_s=max(0.0, every - passed_s) if passed_s >= 0 else 0.0,
                rounds=rounds,
                margin=margin / 100.0,
                observer=observer,
                send=None if hook is None else hook.post,
            )
    stdout().print(wording.rounds(tally.measured, tally.failed, tally.alerts))
    stdout().print(wording.all_changes(shlex.quote(str(target))), soft_wrap=True)
    if not tally.measured:
        raise CampaignStopped(f"{target}: none of {tally.failed} rounds could be made")
    if tally.alerts:
        raise click.exceptions.Exit(1)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise BadInput(f"--metrics: '{port}' is not a port from 0 to 65535")
    return host.strip("[]") or "127.0.0.1", int(port)
