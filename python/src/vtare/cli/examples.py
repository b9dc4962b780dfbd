"""Two examples of each command of the lab, shown below its help as the binary shows those of its own commands."""

from __future__ import annotations

from typing import Final

#: Command -> two examples: what follows `vtare`, and what it does.
EXAMPLES: Final = {
    "run": (
        ("run quickstart", "a shipped plan into vtare-store/quickstart, with its report"),
        ("run my-plan.toml --store /data/first --seed 7", "your own, in an order that can be repeated"),
        ("run my-plan.toml --on simulated:64", "a dry run on 64 hosts that do not exist"),
    ),
    "resume": (
        ("resume vtare-store/quickstart", "go on after Ctrl-C, a crash or a reboot"),
        ("resume vtare-store/quickstart --verbose", "the same, with a line for each run"),
    ),
    "retry": (
        ("retry vtare-store/quickstart --failed", "the failed runs again, and no others"),
        ("retry vtare-store/quickstart --failed --skipped", "those that were skipped, too"),
    ),
    "verify": (
        ("verify vtare-store/quickstart", "exit code 1 where a file is not what was measured"),
        ("verify vtare-store/quickstart --repair", "set damaged runs aside; vtare resume makes them again"),
    ),
    "status": (
        ("status vtare-store/quickstart", "what is finished, and what failed and why"),
        ("status vtare-store/quickstart --json", "the same as one JSON document"),
    ),
    "report": (
        ("report vtare-store/quickstart", "write report.html there"),
        ("report vtare-store/quickstart --format latex --out tables.tex", "its tables for a paper"),
        ("report vtare-store/quickstart --format png --format csv --only sleep", "some figures, with their data"),
        ("report vtare-store/quickstart --live", "in a browser, while the campaign runs"),
    ),
    "compare": (
        ("compare old-1 new-1 --before old-2 --after new-2", "two campaigns on each side: a verdict for each cell"),
        ("compare --over-time vtare-store/watch-watch --fail-on-regression", "exit code 1 where a figure got worse"),
    ),
    "plan": (
        ("plan quickstart --seed 7", "its cells, its order and how long it takes"),
        ("plan check quickstart", "what its runs lack on this machine"),
        ("plan power quickstart --spread 4 --shift 5", "how many runs show a difference of 5 %"),
    ),
    "overhead": (
        ("overhead rtt.parquet --sender-capture tap.parquet", "round trips split at the sender's host"),
        ("overhead rtt.parquet --sender-capture a.parquet --responder-capture b.parquet", "at both hosts"),
    ),
    "clean": (
        ("clean", "what no living lab needs any more"),
        ("clean --verbose", "with each tool that is called"),
    ),
    "fleet": (
        ("fleet hosts.toml", "who answers, what differs between hosts, who has them"),
        ("fleet check hosts.toml", "`vtare check` on every host, the best one first"),
    ),
    "ab": (
        ("ab -- 'gzip -1 < file' -- 'gzip -6 < file'", "two commands, in pairs, until the answer is known"),
        ("ab --fail-if 'slower by 5 %' -- ./before -- ./after", "exit code 1 where B is slower"),
    ),
    "weigh": (
        ("weigh -- python3 app.py", "on every platform that works here"),
        ("weigh --on host,gvisor --fail-if 'gvisor wall slower by 20 %' -- ./job", "exit code 1 if gVisor is slower"),
    ),
    "watch": (
        ("watch --every 10min", "the shipped plan, until it is ended"),
        ("watch quickstart-quick --every 24h --metrics 9462 --rounds 7", "another plan for a week, for Prometheus"),
    ),
    "papers": (
        ("papers lampe2013 --claims", "which claims of a paper its own tables bear out"),
        ("papers kirova2019 --store vtare-store/kirova-timers", "a campaign's results among the published ones"),
    ),
    "doctor": (
        ("doctor", "every instrument on every platform, and how to get what is missing"),
        ("doctor rtt docker", "exit code 3 where that cannot be measured here"),
    ),
}
