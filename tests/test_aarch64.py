"""The static program for aarch64: under qemu-user, and in a whole emulated machine with Debian's kernel."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from vtare.places import cache
from vtare.platforms.guest import cpio

pytestmark = [pytest.mark.e2e, pytest.mark.platform]

#: Emulated without any help of this machine's processor.
TIME_LIMIT_S = 600
INIT = """#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
$b mount -t tmpfs tmp /tmp
$b ifconfig lo up
for line in "check --seconds 5" "timer --all-cpus --seconds 1" "selftest --quick"; do
    /vtare $line --json --quiet
    echo "exit code"
done
$b poweroff -f
"""


@pytest.fixture(scope="module")
def program(root: Path) -> Path:
    found = sorted(root.glob("dist/vtare-[0-9]*-aarch64-linux"))
    if not found:
        pytest.skip("no program for aarch64 in dist/: make dist")
    return found[-1]


def packages() -> Path:
    """Kernel and busybox of Debian for aarch64, fetched with lists of their own and unpacked; kept."""
    place = cache() / "kernels/aarch64"
    if (place / "root").is_dir():
        return place / "root"
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        pytest.skip("a kernel for aarch64 is fetched with apt-get and dpkg-deb: one of them is missing")
    shutil.rmtree(place, ignore_errors=True)
    for name in ("state/lists/partial", "cache/archives/partial"):
        (place / name).mkdir(parents=True)
    (place / "status").touch()
    settings = [f"Dir::State={place}/state", f"Dir::Cache={place}/cache", f"Dir::State::status={place}/status"]
    settings += ["APT::Architecture=arm64", "APT::Architectures=arm64", "APT::Sandbox::User=root"]
    options = [word for setting in settings for word in ("-o", setting)]

    def apt(tool: str, *words: str) -> str:
        done = subprocess.run([tool, *options, *words], cwd=place, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no kernel for aarch64: {tool} {' '.join(words)}: {done.stderr[-300:]}")
        return done.stdout

    apt("apt-get", "-qq", "update")
    listed = apt("apt-cache", "depends", "--important", "linux-image-cloud-arm64").split()
    kernel = next(word for word in listed if word.startswith("linux-image-6"))
    apt("apt-get", "-qq", "download", "busybox-static", kernel)
    for package in place.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, place / "unpacked"], check=True)
    (place / "unpacked").rename(place / "root")
    return place / "root"


def test_the_program_checks_a_machine_under_qemu_user(program: Path) -> None:
    emulator = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if platform.machine() != "aarch64" and emulator is None:
        pytest.skip("the program 'qemu-aarch64-static' is missing (Debian: qemu-user-static)")
    start = [] if emulator is None else [emulator]
    words = [*start, str(program), "check", "--seconds", "5", "--json"]
    document = json.loads(subprocess.run(words, capture_output=True, text=True, check=True, timeout=120).stdout)
    assert (document["schema"], document["machine"]["architecture"]) == ("vtare.check/1", "aarch64")
    assert document["durations"]


def test_the_program_checks_a_whole_emulated_machine_and_finds_what_is_injected_there(
    program: Path, tmp_path: Path
) -> None:
    if shutil.which("qemu-system-aarch64") is None:
        pytest.skip("the program 'qemu-system-aarch64' is missing (Debian: qemu-system-arm)")
    debian = packages()
    image, console = tmp_path / "image", tmp_path / "console"
    image.write_bytes(
        cpio.archive(
            [
                *(cpio.directory(name) for name in ("bin", "dev", "proc", "sys", "tmp")),
                cpio.device("dev/console", 5, 1),
                cpio.file("bin/busybox", (debian / "bin/busybox").read_bytes(), executable=True),
                cpio.file("vtare", program.read_bytes(), executable=True),
                cpio.file("init", INIT.encode(), executable=True),
            ]
        )
    )
    (kernel,) = (debian / "boot").glob("vmlinuz-*")
    machine = ["-machine", "virt", "-accel", "tcg,thread=multi", "-cpu", "cortex-a72", "-smp", "2", "-m", "512"]
    machine += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", f"file:{console}"]
    machine += ["-kernel", str(kernel), "-initrd", str(image), "-append", "console=ttyAMA0 quiet panic=-1"]
    subprocess.run(["qemu-system-aarch64", *machine], check=True, timeout=TIME_LIMIT_S)
    text = console.read_text(errors="replace")
    pieces = text.split("exit code")[:-1]
    documents = [json.loads(piece[piece.index("{") : piece.rindex("}") + 1]) for piece in pieces]
    found = {document["schema"]: document for document in documents}
    assert set(found) == {"vtare.check/1", "vtare.torture/1", "vtare.selftest/1"}, text[-2000:]
    check = found["vtare.check/1"]
    assert check["machine"]["architecture"] == "aarch64"
    # The processor's own counter, which Linux keeps time by.
    assert check["clock"]["source"] == "cntvct", check["clock"]["reasons"]
    steps = found["vtare.torture/1"]["steps"]
    assert [steps[kind]["backward"] for kind in ("ordered", "unordered", "across_threads")] == [0, 0, 0]
    verdicts = {fault["name"]: fault["verdict"] for fault in found["vtare.selftest/1"]["faults"]}
    simulated = {name: verdict for name, verdict in verdicts.items() if name.startswith(("simulated", "counter-rate"))}
    assert set(simulated.values()) == {"found"}, verdicts
