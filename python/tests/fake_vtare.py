"""A stand-in for the vtare binary: honours docs/internals/contract.md with made-up but plausible numbers.

Behaviour is steered by `behaviour.json` beside it: `fail`, `cannot`, `hang`, `stubborn` (with `hang`: ignores
SIGTERM), `crash`, `stopped`, `garbage`, `full`, `silent` and `foreign` hold a text, and a run whose run.json
contains that text misbehaves so. `load_cannot`, `load_dies` and `load_mute` name the kind of load that misbehaves;
`kernel` is the kernel's name. `serve` and `capture` hold what the responder, or the capture at the side that the text
names after a colon, does wrong: `dies` (after it was ready), `mute` (never ready), `cannot`, `fails` (at its end),
`garbage` (a capture's file).

`sink`, `cross` and `link` do the same for the helpers of a path; `unlogged` lets the source of cross traffic log
nothing but its first millisecond, `missed` lets the link miss frames.

`unbuildable` is the language whose counter program cannot be built here.

Available bandwidth is always found so: 150 Mbit/s with an interval of 140 to 160, 165 with 160 to 170, no answer
(`lossy`), and at least 140; each in a window of 20 ms of its own, the last ones of the run.

Round trips are always the same: of 400 packets the last is lost at the responder; 20 us turnaround, 5 us more at the
responder's host side, 12 us of wire, 13 us at the sender: 50 us in all.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import zlib
from pathlib import Path

# Not at run time: this program is started for each run, thousands of times.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import random
    from typing import Any

HERE = Path(__file__).resolve().parent
#: Filled in by conftest.py. Importing a Parquet writer costs 0.2 s a run, so files are kept here with a blank footer.
CACHE = HERE
SCHEMA = HERE / "run.schema.json"
FOOTER_LENGTH = 6000
BLANK = "#" * FOOTER_LENGTH


def behaviour() -> dict[str, str]:
    path = HERE / "behaviour.json"
    return json.loads(path.read_text()) if path.exists() else {}


def load(kind: str, arguments: list[str]) -> int:
    steer = behaviour()
    if steer.get("load_cannot") == kind:
        print("no cores left for a load", file=sys.stderr)
        return 3
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    (HERE / f"load-{os.getpid()}.pid").write_text("")
    print("ready", file=sys.stderr, flush=True)
    if steer.get("load_dies") == kind:
        return 0
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    if steer.get("load_mute") == kind:
        print("bye")
        return 0
    threads = int(arguments[arguments.index("--threads") + 1]) if "--threads" in arguments else 100
    print(json.dumps({
        "schema": "vtare.load/1", "kind": kind, "elapsed_s": 0.5, "threads": 0 if kind == "idle" else threads,
        "operations": 1000, "operations_per_s": 2000.0, "cpu_fraction": 0.0 if kind == "idle" else 1.9, "io": None,
    }))  # fmt: skip
    (HERE / f"load-{os.getpid()}.pid").unlink()
    return 0


PACKETS = 400
#: What each point of a round trip sees, in ns since its packet was sent.
STAMPS = {"capture-sender": (6_000, 43_000), "capture-responder": (12_000, 37_000)}


def helper(kind: str, where: str) -> str:
    """What this helper does wrong, or nothing."""
    what, _, side = behaviour().get(kind, "").partition(":")
    return what if side in where else ""


def help_out(kind: str, where: str, ready: str, stream: Any) -> int | None:
    """Be ready and wait for the end, as a helper does. An exit code where it went wrong."""
    wrong = helper(kind, where)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    if wrong == "cannot":
        print(f"{kind}: this kernel has no hook", file=sys.stderr)
        return 3
    if wrong == "mute":
        # Nothing is awaited that a signal does not end at once.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM, signal.SIGINT})
        time.sleep(600)
    print(ready, file=stream, flush=True)
    if wrong == "dies":
        print(f"{kind}: out of memory", file=sys.stderr)
        return 9
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
    return 1 if wrong == "fails" else None


def option(arguments: list[str], name: str, default: str = "") -> str:
    return arguments[arguments.index(name) + 1] if name in arguments else default


def bins(length_ns: int, begin_ns: int, end_ns: int) -> list[int]:
    return list(range(begin_ns // length_ns * length_ns, end_ns + length_ns, length_ns))


def load_net(arguments: list[str]) -> int:
    name = "sink" if "--sink" in arguments else "cross"
    # Imported before it is ready: on a busy machine that takes longer than the lab waits for its end.
    import polars as pl

    (HERE / f"{name}.arguments").write_text(" ".join(arguments))
    begin = time.monotonic_ns()
    code = help_out(name, "", "ready", sys.stderr)
    if code is not None:
        return code
    length = 200_000 if option(arguments, "--bin") == "200us" else 1_000_000
    at = bins(length, begin, begin + 10**6 if name == "cross" and "unlogged" in behaviour() else time.monotonic_ns())
    # The sink has no rate of its own: it counts what the tests' plans send.
    byte = int(option(arguments, "--rate", "150000000")) * length // 8_000_000_000
    frame = pl.DataFrame({"bin_monotonic_ns": at, "ip_byte": [byte] * len(at), "packets": [1] * len(at)})
    out = Path(option(arguments, "--out"))
    frame.write_parquet(out, metadata={"vtare": json.dumps({"bin_ns": length})})
    if helper(name, "") == "garbage":
        out.write_bytes(b"PAR1")
    print(json.dumps({"schema": "vtare.load/1", "net": {"role": name, "sink": {"socket_drops": 0}}}))
    return 0


def link(arguments: list[str]) -> int:
    import polars as pl

    (HERE / "link.arguments").write_text(" ".join(arguments))
    begin = time.monotonic_ns()
    code = help_out("link", "", "ready", sys.stderr)
    if code is not None:
        return code
    at = bins(10**7, begin, time.monotonic_ns())
    missed = 1 if "missed" in behaviour() else 0
    frame = pl.DataFrame({
        "lane": ["ab"] * len(at), "bin_monotonic_ns": at, "capacity_bit_per_s": [300_000_000] * len(at),
        "socket_drop_frame": [missed] * len(at),
    })  # fmt: skip
    frame.write_parquet(Path(option(arguments, "--log")))
    print(json.dumps({"schema": "vtare.link/1", "directions": [{"late_share": 0.02}, {"late_share": 0.0}]}))
    return 0


def estimates(run: dict[str, Any]) -> dict[str, list[Any]]:
    time.sleep(0.1)
    last = time.monotonic_ns()
    ends = [last - 20_000_000 * (3 - i) for i in range(4)]
    begins = [end - 20_000_000 for end in ends]
    rates: list[int | None] = [150, 165, None, 140]
    lows: list[int | None] = [140, 160, None, None]
    highs: list[int | None] = [160, 170, None, None]

    def mega(values: list[int | None]) -> list[int | None]:
        return [None if value is None else value * 10**6 for value in values]

    return {
        "peer": [run["parameters"]["peer"]] * 4, "method": [run["parameters"].get("method", "vtare")] * 4,
        "direction": ["forward"] * 4, "estimate": list(range(4)), "began_ns": begins,
        # The last two name no window: theirs is all their time.
        "window_from_ns": [*begins[:2], None, None], "window_to_ns": [*ends[:2], None, None],
        "elapsed_ns": [20_000_000] * 4, "avb_bit_per_s": mega(rates), "low_bit_per_s": mega(lows),
        "high_bit_per_s": mega(highs), "capacity_bit_per_s": [None] * 4, "token_bucket_byte": [None] * 4,
        "queued_ns": [None] * 4, "occupied_bit_per_s": [30_000_000] * 4, "probe_byte": [70_000] * 4,
        "extra_byte": [5_000] * 4, "packets": [50] * 4, "trains": [1] * 4, "at_least": [False, False, False, True],
        "stopped": ["converged", "converged", "lossy", "sender_limited"],
    }  # fmt: skip


def serve(arguments: list[str]) -> int:
    key = Path(arguments[arguments.index("--key-file") + 1])
    if key.stat().st_mode & 0o077 or len(key.read_text().strip()) != 64:
        print("others than its owner can read the key", file=sys.stderr)
        return 2
    (HERE / "serve.arguments").write_text(" ".join(arguments))
    return help_out("serve", "", json.dumps({"schema": "vtare.serve/1"}), sys.stdout) or 0


def capture(arguments: list[str]) -> int:
    out = Path(arguments[arguments.index("--out") + 1])
    (HERE / f"{out.stem}.arguments").write_text(" ".join(arguments))
    code = help_out("capture", out.stem, "ready", sys.stderr)
    if code is not None:
        return code
    if helper("capture", out.stem) == "garbage":
        out.write_bytes(b"PAR1")
        return 0
    kept = CACHE / out.name
    if not kept.exists():
        partial = kept.with_suffix(f".{os.getpid()}")
        write_capture(partial, *STAMPS[out.stem])
        partial.rename(kept)
    out.write_bytes(kept.read_bytes())
    return 0


def write_capture(out: Path, there: int, back: int) -> None:
    """What a capture sees of all packets, `there` ns after the request and `back` ns after the reply."""
    seen = [(i, "request", 10**9 + i * 10**6 + there) for i in range(PACKETS)]
    # The reply to the last one never left the responder.
    seen += [(i, "reply", 10**9 + i * 10**6 + back) for i in range(PACKETS - 1)]
    far, near = "127.0.0.1:8462", "127.0.0.1:40000"
    columns = {
        "captured_ns": [at for _, _, at in seen], "direction": [None] * len(seen), "kind": [k for _, k, _ in seen],
        "session": [-7] * len(seen), "form": ["full"] * len(seen), "sequence": [i for i, _, _ in seen],
        "size_byte": [92] * len(seen), "source": [near if k == "request" else far for _, k, _ in seen],
        "destination": [far if k == "request" else near for _, k, _ in seen],
    }  # fmt: skip
    footer = {"schema": "vtare.samples/1", "run": {"instrument": "capture"}, "result": {"cells": [{"lost": 0}]}}
    import polars as pl

    frame = pl.DataFrame(columns, schema_overrides={"direction": pl.String})
    frame.write_parquet(out, metadata={"vtare": json.dumps(footer)})


def round_trips(peer: str) -> dict[str, list[Any]]:
    came = [i < PACKETS - 1 for i in range(PACKETS)]
    due = [i * 10**6 for i in range(PACKETS)]

    def known(value: int) -> list[int | None]:
        return [value if back else None for back in came]

    return {
        "peer": [peer] * PACKETS, "session": [-7] * PACKETS, "sequence": list(range(PACKETS)),
        "fate": ["received" if back else "lost" for back in came], "scheduled_ns": due, "sent_ns": due,
        "kernel_tx_ns": [None] * PACKETS, "kernel_rx_ns": [None] * PACKETS,
        "arrived_ns": [at + 50_000 if back else None for at, back in zip(due, came, strict=True)],
        "rtt_ns": known(50_000), "rtt_scheduled_ns": known(50_000), "peer_received_ns": [None] * PACKETS,
        "peer_replied_ns": [None] * PACKETS, "turnaround_ns": known(20_000), "reordered": [False] * PACKETS,
        "duplicates": [0] * PACKETS, "sent_asked": [False] * PACKETS,
    }  # fmt: skip


def loaded(peer: str) -> dict[str, list[Any]]:
    """Latency under load: up a buffer of 24 ms that is full at 110 %, down one that was not filled."""
    added = [50_000, 900_000, 24_000_000, 10_000, None, 5_000_000]
    return {
        "peer": [peer] * 6, "direction": ["up"] * 3 + ["down"] * 3, "load_percent": [50, 90, 110] * 2,
        "rate_bit_per_s": [25_000_000, 45_000_000, 55_000_000] * 2, "added_ns": added, "added_p95_ns": added,
        "added_low_ns": added, "added_high_ns": added, "at_least": [False] * 5 + [True],
    }  # fmt: skip


def rows(instrument: str, parameters: dict[str, Any], rng: random.Random) -> dict[str, list[Any]]:
    if instrument == "timer":
        table: dict[str, list[Any]] = {"source": [], "index": [], "cost_ps": [], "count": []}
        for source in parameters.get("source") or ["vtare", "clock_monotonic"]:
            base = 10_000 if source == "vtare" else 24_000
            n = min(parameters.get("samples", 10_000), 100_000)
            for index, cost, count in (
                (None, base, n * 9 // 10),
                (None, base + 10_000, n // 10),
                (n // 2, 5_000_000, 1),
            ):
                for column, value in zip(table, (source, index, cost, count), strict=True):
                    table[column].append(value)
        return table
    if instrument == "sleep":
        keys = ("method", "target_ns", "index", "miss_ns", "spin_ns", "disturbed")
        shift = rng.gauss(0, 2_000)
        table = {key: [] for key in keys}
        for method in parameters.get("method") or ["usleep", "spin"]:
            centre = {"usleep": 70_000, "spin": 30}.get(method, 20_000)
            for target in parameters.get("target_ns") or [1_000_000]:
                for i in range(min(parameters.get("samples", 300), 400)):
                    miss = int(abs(centre + (shift if centre > 100 else 0) + rng.gauss(0, centre / 10)))
                    for key, value in zip(keys, (method, target, i, miss, 0, i == 3), strict=True):
                        table[key].append(value)
        return table
    if instrument == "counter":
        keys = ("language", "batch", "call", "argument", "order", "wall_ns", "cpu_ns", "gap_ns", "involuntary_switches")
        table = {key: [] for key in keys}
        for batch in range(4):
            for call in range(5):
                for exponent in range(3):
                    wall = int(1e7 * 2**exponent * (1 + rng.gauss(0, 0.01)))
                    for key, value in zip(keys, ("native", batch, call, 2**exponent, 0, wall, wall, 0, 0), strict=True):
                        table[key].append(value)
        return table
    if instrument == "rtt":
        return round_trips(parameters["peer"][0])
    if instrument == "path":
        return loaded(parameters["peer"])
    gaps = [int(rng.expovariate(1 / 30_000)) + 10_000 for _ in range(50)]
    return {"cpu": [0] * 50, "at_ns": list(range(50)), "gap_ns": gaps}


def cache_key(run: dict[str, Any]) -> dict[str, Any]:
    """The parameters that the rows depend on: a key and a program lie elsewhere in each run."""
    return {name: value for name, value in run["parameters"].items() if name not in ("key_file", "program")}


def samples_file(run: dict[str, Any]) -> bytes:
    """The samples of one of four seeds, with a blank where the footer's JSON goes."""
    seed = run["seed"] % 4
    name = zlib.crc32(json.dumps([run["instrument"], cache_key(run), seed]).encode())
    path = CACHE / f"{run['instrument']}-{name}.parquet"
    if not path.exists():
        import random

        import polars as pl

        types = {"index": pl.Int64} if run["instrument"] == "timer" else {}
        if run["instrument"] == "rtt":
            types = dict.fromkeys(("kernel_tx_ns", "kernel_rx_ns", "peer_received_ns", "peer_replied_ns"), pl.Int64)
        frame = pl.DataFrame(rows(run["instrument"], run["parameters"], random.Random(seed)), schema_overrides=types)
        partial = path.with_suffix(f".{os.getpid()}")
        frame.write_parquet(partial, compression="lz4", metadata={"vtare": BLANK})
        partial.rename(path)
    return path.read_bytes()


def measure(path: Path) -> int:
    text = path.read_text()
    run = json.loads(text)
    steer = behaviour()
    hit = {what for what, needle in steer.items() if needle in text}
    (HERE / "measuring.pid").write_text(str(os.getpid()))
    if "fail" in hit:
        print("cannot open the counter device", file=sys.stderr)
        return 4
    if "cannot" in hit:
        print("no invariant counter on this CPU", file=sys.stderr)
        return 3
    if "full" in hit:
        print("samples.parquet: No space left on device (os error 28)", file=sys.stderr)
        return 2
    if "stopped" in hit:
        return 130
    if "silent" in hit:
        return 0
    if "garbage" in hit:
        Path(run["output"]).write_bytes(b"PAR1 this is not parquet PAR1")
        return 0
    if "crash" in hit:
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGSEGV)
    if "hang" in hit:
        if "stubborn" in hit:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        (HERE / "hanging").write_text("")
        time.sleep(600)
    p = run["parameters"]
    cells: list[dict[str, Any]] = []
    if run["instrument"] == "sleep":
        cells = [
            {"method": m, "target_ns": t, "miss_ns": {}, "spin_ns_mean": 5.0, "cpu_fraction": 0.02, "disturbed": 1}
            for m in p.get("method") or ["usleep", "spin"] for t in p.get("target_ns") or [1_000_000]
        ]  # fmt: skip
    if run["instrument"] == "timer":
        cost = {"vtare": 9.7, "clock_monotonic": 23.5}
        jitter = zlib.crc32(str(run["seed"]).encode()) / 2**32 / 10
        cells = [
            {"source": s, "cost_ns": {}, "read_cost_ns": {"median": cost.get(s, 50.0) + jitter}}
            for s in p.get("source") or ["vtare", "clock_monotonic"]
        ]
    if run["instrument"] == "rtt":
        cells = [{"peer": peer, "address": peer, "achieved_packet_per_s": 1000.0} for peer in p["peer"]]
        if "key_file" in p and not Path(p["key_file"]).is_file():
            print("the key is gone", file=sys.stderr)
            return 2
    if run["instrument"] == "counter" and p.get("language", "rust") != "rust" and not os.access(p["program"], os.X_OK):
        print("the program is gone", file=sys.stderr)
        return 2
    if run["instrument"] == "path":
        known = {
            "peer": p["peer"],
            "idle_rtt_ns": 4_400_000.0,
            "avb_bit_per_s": 50e6,
            "depth_ns": 24e6,
            "depth_byte": 150e3,
            "drain_bit_per_s": 50e6,
            "probe_byte": 2_000_000,
            "extra_byte": 10_000,
        }
        cells = [known | {"direction": "up", "depth_at_least": False},
                 known | {"direction": "down", "depth_at_least": True}, {"direction": "both"}]  # fmt: skip
    if run["instrument"] == "noise":
        cells = [{"cpu": 0, "gap_ns": {}, "gaps": 50, "lost_fraction": 0.02, "gaps_per_s": 25.0, "causes": {}}]
    footer = {
        "schema": "vtare.samples/1",
        "program": {"name": "vtare", "version": "0.1.0"},
        "run": {**run, "run_id": "0" * 16} if "foreign" in hit else run,
        "interrupted": False,
        "started_unix_ns": 1_790_000_000_000_000_000,
        "elapsed_ns": 500_000_000,
        "machine": {
            "hostname": "fake", "kernel": steer.get("kernel", "6.18.0"), "architecture": "x86_64",
            "cpu_model": "Fake CPU",
            "cpus_online": 2, "clock_source": "tsc", "boot_id": "b", "steal_ns_before": 10, "steal_ns_after": 30,
            "load_average_1min": 0.5,
        },
        "clock": {"source": "tsc", "trusted": True, "reasons": [], "frequency_hz": 2.6e9, "residual_ppm": 0.002,
                  "residual_ns": 14.0, "read_cost_ns": 9.7, "quantum_ns": 10.0},
        "result": {"cells": cells},
        "notes": [{"id": "slack_kept", "text": "the timer slack was left at 50 us"}],
    }  # fmt: skip
    if run["instrument"] == "avb":
        import polars as pl

        missing = ("window_from_ns", "window_to_ns", "capacity_bit_per_s", "token_bucket_byte", "queued_ns")
        frame = pl.DataFrame(estimates(run), schema_overrides=dict.fromkeys(missing, pl.Int64))
        frame.write_parquet(run["output"], metadata={"vtare": json.dumps(footer)})
        return 0
    temporary = Path(run["output"] + ".partial")
    # Padded to the length of the blank, so that no length field in the file changes; JSON ignores the blanks.
    padded = json.dumps(footer).ljust(FOOTER_LENGTH)
    temporary.write_bytes(samples_file(run).replace(BLANK.encode(), padded.encode()))
    temporary.rename(run["output"])
    return 0


def build(arguments: list[str]) -> int:
    language = option(arguments, "--language")
    if behaviour().get("unbuildable") == language:
        print(f"vtare: language {language}: found no compiler; install one with `apt-get install it`", file=sys.stderr)
        return 3
    with (HERE / "built").open("a") as file:
        file.write(f"{language}{'+runtime' if '--with-runtime' in arguments else ''}\n")
    program = Path(option(arguments, "--build"))
    program.write_text(f"#!/bin/true\n# {language}\n")
    program.chmod(0o755)
    return 0


def main() -> int:
    command, *rest = sys.argv[1:]
    if command == "counter":
        return build(rest)
    if command == "exec":
        words = rest[rest.index("--") + 1 :]
        os.execvp(words[0], words)
    if command == "load":
        return load_net(rest[1:]) if rest[0] == "net" else load(rest[0], rest[1:])
    if command == "link":
        return link(rest)
    if command == "measure":
        return measure(Path(rest[0]))
    if command == "serve":
        return serve(rest)
    if command == "capture":
        return capture(rest)
    if command == "schema":
        print(SCHEMA.read_text())
        return 0
    return 2


if __name__ == "__main__":
    sys.exit(main())
