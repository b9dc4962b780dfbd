"""Responsiveness end to end: deep and shallow buffers between namespaces, and curl as a client of another make."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from json_schemas import validate

pytestmark = pytest.mark.e2e

HERE, THERE, PORT = "10.116.0.1", "10.116.0.2", 4043
RATE = 30_000_000
#: What a full buffer of this size adds, ns.
DEEP, SHALLOW = 600_000, 45_000
#: What buffers of the ends add to probes on connections with load, and the packets that are lost there, ns.
OWN_NS = 60e6


@contextmanager
def started(*words: str | Path) -> Iterator[str]:
    """A program that runs until the end of the block; the first line that it prints."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline()
        finally:
            process.terminate()


def must(*words: str) -> None:
    """Run a command; where it is refused, skip with the reason."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{' '.join(words)}: {done.stderr.strip()}")


@pytest.fixture
def ends() -> Iterator[tuple[str, str, str]]:
    """Two ends and a namespace between them, joined by veth pairs: va-ma, mb-vb."""
    if os.geteuid() or not shutil.which("ip") or not shutil.which("tc"):
        pytest.skip("namespaces with a shaper need root, ip and tc")
    names = [f"vtare-rpm-{os.getpid()}-{end}" for end in "abm"]
    try:
        for name in names:
            must("ip", "netns", "add", name)
            must("ip", "-n", name, "link", "set", "dev", "lo", "up")
        for end, device, peer, address in ((names[0], "va", "ma", HERE), (names[1], "vb", "mb", THERE)):
            must("ip", "link", "add", device, "netns", end, "type", "veth", "peer", "name", peer, "netns", names[2])
            must("ip", "-n", end, "addr", "add", f"{address}/24", "dev", device)
            # Every packet is one: a shaper counts a segment of many as one frame.
            must("ip", "-n", end, "link", "set", "dev", device, "gso_max_segs", "1", "up")
            must("ip", "-n", names[2], "link", "set", "dev", peer, "up")
        yield names[0], names[1], names[2]
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


@contextmanager
def bottleneck(middle: str, buffer_byte: int) -> Iterator[None]:
    """A queue of this length in each direction."""
    must("ip", "-n", middle, "link", "add", "name", "vtbr", "type", "bridge", "mcast_snooping", "0")
    must("ip", "-n", middle, "link", "set", "dev", "vtbr", "up")
    for device in ("ma", "mb"):
        must("ip", "-n", middle, "link", "set", "dev", device, "master", "vtbr")
        shape = f"rate {RATE}bit burst 15000 limit {buffer_byte}"
        must("tc", "-n", middle, "qdisc", "add", "dev", device, "root", "tbf", *shape.split())
    yield
    for device in ("ma", "mb"):
        must("tc", "-n", middle, "qdisc", "del", "dev", device, "root")
    must("ip", "-n", middle, "link", "del", "dev", "vtbr")


def cells(*words: str | Path) -> dict[str, dict[str, Any]]:
    """What `vtare rpm` finds, by direction."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    validate(document)
    return {cell["direction"]: cell for cell in document["cells"]}


def test_a_deep_buffer_has_a_low_rpm_and_a_shallow_one_a_high_rpm(ends: tuple[str, str, str], vtare: Path) -> None:
    here, there, middle = ends
    found = {}
    for buffer_byte in (DEEP, SHALLOW):
        with ExitStack() as stack:
            stack.enter_context(bottleneck(middle, buffer_byte))
            serve = ("ip", "netns", "exec", there, vtare, "serve", "--rpm", f"{THERE}:{PORT}", "--json")
            assert f'"rpm":"{THERE}:{PORT}"' in stack.enter_context(started(*serve))
            ask = ("ip", "netns", "exec", here, vtare, "rpm", f"{THERE}:{PORT}", "--max-time", "30s", "--json")
            found[buffer_byte] = cells(*ask)
    for direction in ("down", "up"):
        deep, shallow = found[DEEP][direction], found[SHALLOW][direction]
        print(direction, *(f"{it['rpm']:.0f} RPM at {it['goodput_bit_per_s'] / 1e6:.1f} Mbit/s,"
                                 f" {it['confidence']}" for it in (deep, shallow)))  # fmt: skip
        assert shallow["rpm"] > 3 * deep["rpm"]
        # The queue is about full all the time. On connections with load there are 12 kB at most in buffers of the ends
        # as well (30 ms of a ninth of the rate), and what waits behind a lost packet takes a round trip longer.
        for buffer_byte, cell in ((DEEP, deep), (SHALLOW, shallow)):
            full_ns = buffer_byte * 8e9 / RATE
            assert 0.4 * full_ns < cell["tcp_foreign_ns"] < 1.6 * full_ns, cell
            assert 0.4 * full_ns < cell["http_foreign_ns"] < 1.6 * full_ns, cell
            assert 0.4 * full_ns < cell["http_loaded_ns"] < 1.8 * full_ns + OWN_NS, cell
            assert cell["congestion"] == {"up": "cubic", "down": None}[direction], cell
            assert 0.6 * RATE < cell["goodput_bit_per_s"] < RATE
            assert cell["failed_probes"] < 0.05 * (cell["foreign_probes"] + cell["self_probes"])


@pytest.fixture
def far(vtare: Path) -> Iterator[str]:
    """The address of a far end on this host."""
    here = "127.0.0.1:0"
    with started(vtare, "serve", "--listen", here, "--rpm", here, "--limit", "rpm-rate=100M", "--json") as line:
        yield json.loads(line)["rpm"]


def test_serve_serves_rpm_only_where_that_is_asked_for(vtare: Path) -> None:
    with started(vtare, "serve", "--listen", "127.0.0.1:0", "--json") as line:
        assert json.loads(line)["rpm"] is None


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGKILL])
def test_the_far_end_of_rpm_ends_with_serve(vtare: Path, ending: signal.Signals) -> None:
    words: list[str | Path] = [vtare, "serve", "--listen", "127.0.0.1:0", "--rpm", "127.0.0.1:0", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        host, port = json.loads(process.stdout.readline())["rpm"].rsplit(":", 1)
        socket.create_connection((host, int(port))).close()
        process.send_signal(ending)
        process.wait(20)
    end = time.monotonic() + 20
    while time.monotonic() < end:
        try:
            socket.create_connection((host, int(port))).close()
        except ConnectionRefusedError:
            return
        time.sleep(0.05)
    pytest.fail("it still listens")


def test_an_address_of_rpm_that_cannot_be_bound_is_refused(vtare: Path) -> None:
    words: list[str | Path] = [vtare, "serve", "--listen", "127.0.0.1:0", "--rpm", "192.0.2.1:4043"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 3
    assert "192.0.2.1:4043" in done.stderr


def test_where_nothing_serves_rpm_the_remedy_is_named(vtare: Path) -> None:
    for far, code, words in (("127.0.0.1:1", 4, "start `vtare serve --rpm`"), ("no.invalid", 2, "use an address")):
        done = subprocess.run([vtare, "rpm", far], capture_output=True, text=True, timeout=30, check=False)
        assert (done.returncode, words in done.stderr) == (code, True), done.stderr


def test_the_old_name_still_serves_and_names_the_new_one(vtare: Path) -> None:
    words: list[str | Path] = [vtare, "rpm-serve", "--listen", "127.0.0.1:0", "--max-rate", "100M"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert "listening on" in process.stdout.readline()
        assert process.stderr.readline() == "`vtare rpm-serve` is now `vtare serve --rpm ADDR:PORT`\n"
        process.terminate()


def test_the_command_measures_its_own_far_end_judges_limits_and_keeps_probes(
    vtare: Path, far: str, tmp_path: Path
) -> None:
    samples = tmp_path / "rpm.parquet"
    words: list[str | Path] = [
        vtare,
        "rpm",
        far,
        "--max-time",
        "8s",
        "--out",
        samples,
        "--json",
        "--fail-if",
        "rpm < 1e9",
    ]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1, done.stderr
    document = json.loads(done.stdout)
    probes = sum(cell["foreign_probes"] + cell["self_probes"] for cell in document["cells"])
    polars = pytest.importorskip("polars")
    frame = polars.read_parquet(samples)
    assert probes > 0
    # Those of an interval that was not closed any more are in the samples alone.
    assert frame.height >= probes
    assert set(frame["direction"].unique()) == {"down", "up"}
    assert frame.filter(polars.col("foreign"))["tls_ns"].null_count() == 0
    table = subprocess.run([vtare, "rpm", far, "--max-time", "6s"], capture_output=True, text=True, check=False)
    assert table.returncode == 0, table.stderr
    assert "round trips a minute" in table.stdout


def curl(*words: str | Path, version: str = "2") -> str:
    """What curl prints: the version of HTTP, the status and the bytes at least."""
    form = "%{http_version} %{response_code} %{size_download}"
    whole = ["curl", "--silent", "--insecure", f"--http{version}", "--max-time", "30", "--write-out", form, *words]
    return subprocess.run(whole, capture_output=True, text=True, check=False).stdout


@pytest.mark.skipif(
    "HTTP2" not in subprocess.run(["sh", "-c", "curl --version"], capture_output=True, text=True, check=False).stdout,
    reason="no curl with HTTP/2 here",
)
def test_curl_gets_all_of_the_far_end(far: str, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(bytes(3_000_000))
    match = re.fullmatch(r"(\{.*\})2 200 (\d+)", curl(f"https://{far}/.well-known/nq"))
    assert match
    assert int(match[2]) == len(match[1])
    document = json.loads(match[1])
    assert document["version"] == 1
    urls = document["urls"]
    got = ("--output", tmp_path / "got")
    assert curl(*got, urls["small_download_url"]) == "2 200 1"
    assert curl(*got, "--data-binary", f"@{tmp_path / 'body'}", urls["upload_url"]) == "2 200 0"
    assert curl(*got, f"https://{far}/else") == "2 404 0"
    # It takes what it wants of the large one.
    part = curl(*got, "--max-filesize", "9000000000", "--max-time", "1", urls["large_download_url"])
    assert re.fullmatch(r"2 200 [1-9]\d{6,}", part), part
    # Clients of some makes probe the idle path in HTTP/1.1; a load they make in HTTP/2.
    assert curl(f"https://{far}/.well-known/nq", version="1.1") == f"{match[1]}1.1 200 {match[2]}"
    assert curl(*got, urls["small_download_url"], version="1.1") == "1.1 200 1"
    assert curl(*got, urls["large_download_url"], version="1.1") == "1.1 505 0"


def test_a_client_without_a_protocol_in_common_is_told_so(far: str) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h3"])
    host, port = far.rsplit(":", 1)
    with (
        socket.create_connection((host, int(port))) as plain,
        pytest.raises(ssl.SSLError, match="no application protocol"),
    ):
        context.wrap_socket(plain)
