"""`weigh`: a command on every platform here, beside the host."""

from __future__ import annotations

import json
import os
import secrets
import shlex
from typing import TYPE_CHECKING, Final

import click

from vtare.cli.forms import read_form, write_form
from vtare.cli.options import (
    DIRECTORY,
    FILE,
    Percentage,
    Size,
    Time,
    Whole,
    hidden_binary_option,
    json_option,
    print_json,
    seed_option,
    stderr,
    stdout,
)
from vtare.cli.tree import command
from vtare.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_MOST_PORT: Final = 65_535


@command("weigh")
@click.argument("words", nargs=-1, metavar="-- COMMAND...", help="The command, with -- before it.")
@click.option(
    "--on",
    metavar="NAME,NAME",
    show_default="all that work here",
    help="Platforms to weigh: host, docker, podman, nspawn, bubblewrap, gvisor, and qemu, which boots a guest for each "
    "run; host,host compares the host with itself.",
)
@click.option(
    "--image",
    metavar="REF|FILE",
    help="Use the files of this image everywhere: a reference, an archive of docker save, or an OCI layout.",
)
@click.option("--rootfs", type=DIRECTORY, metavar="DIR", help="Use the files of this directory everywhere.")
@click.option("--max-time", type=Time(above=True), default="60 s", metavar="TIME", help="Stop after this time.")
@click.option("--rounds", type=Whole(1), metavar="N", help="Stop after this many runs on each platform.")
@click.option(
    "--margin",
    type=Percentage(0.0, 100.0),
    show_default="5",
    metavar="PERCENT",
    help="Ignore differences smaller than this.",
)
@click.option("--cpus", type=Whole(1), metavar="N", help="Use only this many CPUs, the same on every platform.")
@click.option(
    "--memory", type=Size(), metavar="SIZE", help="Allow this much memory, the same on every platform: 512MB, 1GiB."
)
@click.option("--burst", type=Whole(2, 1000), metavar="N", help="Also start N instances at once, until all have begun.")
@click.option(
    "--server",
    type=Whole(1, _MOST_PORT),
    metavar="PORT",
    help="The command is a server on this port ({port} in it): measure its replies to GET / (p50, p99, highest rate).",
)
@click.option(
    "--request",
    metavar="TEXT",
    help="Send this to the server instead, with \\r, \\n, \\xHH: 'PING\\r\\n'. A reply has as many bytes as the first.",
)
@click.option("--client", metavar="COMMAND", help="Time this client of the server instead.")
@click.option(
    "--density",
    type=Time(above=True),
    metavar="TIME",
    help="Also count how many instances of the server fit until p99 exceeds this; the command has {port}.",
)
@click.option(
    "--fail-if",
    multiple=True,
    metavar="LIMIT",
    help="Exit with 1 where this is shown: 'gvisor wall slower by 20 %'; also cpu, memory, peak, start, exec, burst; "
    "of a server p50, p99, rate.",
)
@click.option(
    "--timeout", type=Time(above=True), default="10 min", metavar="TIME", help="The longest run of the command."
)
@click.option(
    "--card",
    multiple=True,
    type=FILE,
    metavar="FILE",
    help="Predict the time on platforms of this card that are not weighed here; vtare check --write FILE writes one.",
)
@click.option(
    "--write",
    multiple=True,
    metavar="FORM=FILE",
    help="Keep it there as html (a page with the reasons as bars) or json; without a command as card; repeatable.",
)
@seed_option
@json_option
@hidden_binary_option
def weigh(
    words: tuple[str, ...],
    on: str | None,
    image: str | None,
    rootfs: Path | None,
    max_time: float,
    rounds: int | None,
    margin: float | None,
    cpus: int | None,
    memory: int | None,
    burst: int | None,
    server: int | None,
    request: str | None,
    client: str | None,
    density: float | None,
    fail_if: tuple[str, ...],
    timeout: float,
    card: tuple[Path, ...],
    write: tuple[str, ...],
    seed: int | None,
    as_json: bool,
    binary: Path | None,
) -> None:
    """Carry out `weigh`.

    Runs the command on each platform in turn, in random order, until the answer is known. On the host it runs as it is,
    with --image or --rootfs by chroot; elsewhere what it writes goes to a private layer.
    """
    import numpy as np

    from vtare.ab.commands import read_commands
    from vtare.ab.compare import Asked
    from vtare.ab.trials import Trials
    from vtare.campaign.binary import find_binary
    from vtare.platforms.protocol import Resources
    from vtare.sentences import weigh as wording
    from vtare.terminal.ab import shown_progress
    from vtare.terminal.weigh import show_weighed
    from vtare.weigh.card import read_card
    from vtare.weigh.density import MOST_INSTANCES
    from vtare.weigh.image import given_root
    from vtare.weigh.launchers import LAUNCHERS
    from vtare.weigh.server import PORT, ServedCommand
    from vtare.weigh.starts import BURST
    from vtare.weigh.verdict import WeighedOutcome, document, read_platform_limit
    from vtare.weigh.weighing import names_of, read_platforms
    from vtare.weigh.weighing import weigh as carry_out

    platforms = read_platforms(on)
    files = [read_form(text, ("html", "json", "card"), printed=not as_json) for text in write or ()]
    if any(form == "card" for form, _ in files):
        if words or len(files) > 1:
            raise BadInput(wording.CARD_ALONE)
        _write_card(files[0][1], platforms, max_time, timeout, seed, binary)
        return
    if not words:
        raise BadInput(wording.NO_COMMAND)
    (listed,) = read_commands([shlex.join(words) if len(words) > 1 else words[0]], least=1)
    cards = [read_card(file) for file in card or ()]
    if cards and server is not None:
        raise BadInput(wording.CARD_OR_SERVER)
    if server is None and any(option is not None for option in (client, request, density)):
        raise BadInput(wording.NEEDS_SERVER)
    if server is not None and any(LAUNCHERS[name].IS_MACHINE for name in platforms):
        raise BadInput(wording.SERVER_IN_GUEST)
    if client is not None and request is not None:
        raise BadInput(wording.CLIENT_OR_REQUEST)
    if server is not None and burst is not None:
        raise BadInput(wording.SERVER_ALONE)
    if density is not None and client is not None:
        raise BadInput(wording.DENSITY_OR_CLIENT)
    if density is not None and memory is not None:
        raise BadInput(wording.DENSITY_IN_LIMIT)
    if density is not None and server is not None:
        has_port = any(PORT in word for word in words)
        if not has_port or server + MOST_INSTANCES > _MOST_PORT + 1:
            raise BadInput(wording.density_needs_port(MOST_INSTANCES))
    client_command = None if client is None else read_commands([client], least=1)[0]
    served = None if server is None else ServedCommand(server, request, client_command, density)
    limits = [read_platform_limit(text, names_of(platforms), served) for text in fail_if or ()]
    if burst is None and any(limit.figure == BURST for limit in limits):
        raise BadInput(wording.NO_BURST)
    if burst is not None and memory is not None:
        raise BadInput(wording.BURST_IN_LIMIT)
    watched = [(limit.platform, limit.limit) for limit in limits if limit.is_watched]
    allowed = sorted(os.sched_getaffinity(0))
    if cpus is not None and cpus > len(allowed):
        raise BadInput(f"--cpus {cpus}: this machine allows {len(allowed)}. Use fewer")
    asked = Asked(
        margin=(5.0 if margin is None else margin) / 100.0, most_s=max_time, most_pairs=rounds, design="interleaved",
        # The question is the limits alone, unless a margin is asked for, too.
        asks_margin=margin is not None or not limits or len(watched) < len(limits),
    )  # fmt: skip
    resources = Resources(pinned=None if cpus is None else tuple(allowed[:cpus]), memory_byte=memory)
    drawn = secrets.randbits(32) if seed is None else seed
    program = find_binary(binary)
    with Trials(program, most_s=timeout) as trials:
        machine = trials.machine
    with shown_progress(stderr()) as show, given_root(rootfs, image, show) as root:
        weighed = carry_out(
            listed, platforms, asked,
            binary=program, resources=resources, timeout_s=timeout,
            rng=np.random.default_rng(drawn), show=show, limits=watched, root=root, burst=burst,
            server=served, cards=cards,
        )  # fmt: skip
    outcome = WeighedOutcome(weighed, listed, drawn, limits, machine, burst)
    if as_json:
        print_json(document(outcome))
    else:
        show_weighed(stdout(), weighed)
    for form, file in files:
        if form == "html":
            from vtare.weigh.page import weighed_page

            write_form(file, weighed_page(outcome))
        else:
            write_form(file, json.dumps(document(outcome), indent=2, allow_nan=False) + "\n")
    states = {limit.text: limit.state(weighed) for limit in limits}
    if weighed.compared is not None and weighed.compared.stopped == "interrupted":
        raise click.exceptions.Exit(130)
    for word in ("open", "crossed"):
        if named := [text for text, state in states.items() if state == word]:
            stderr().print(f"--fail-if {word}: {', '.join(named)}")
    if "crossed" in states.values():
        raise click.exceptions.Exit(1)


def _write_card(
    file: str, platforms: Sequence[str], most_s: float, timeout: float, seed: int | None, binary: Path | None
) -> None:
    """Measure what the kernel's services cost on each platform, and keep it for `--card`."""
    import numpy as np

    from vtare.ab.trials import Trials
    from vtare.campaign.binary import find_binary
    from vtare.sentences import weigh as wording
    from vtare.terminal.ab import shown_progress
    from vtare.weigh.card import document
    from vtare.weigh.weighing import price

    program = find_binary(binary)
    with Trials(program, most_s=timeout) as trials:
        machine = trials.machine
    rng = np.random.default_rng(seed)
    with shown_progress(stderr()) as show:
        prices, absent = price(platforms, binary=program, timeout_s=timeout, most_s=most_s, rng=rng, show=show)
    write_form(file, json.dumps(document(prices, absent, machine), indent=2, allow_nan=False) + "\n")
    if file != "-":
        stdout().print(wording.card_written(list(prices.costs), file))
