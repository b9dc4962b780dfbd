"""Sealed copies of tools: they run, hold what the tool holds, and a kernel that is busy is asked again."""

from __future__ import annotations

import errno
import fcntl
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from vtare.platforms import sealed as module
from vtare.platforms.sealed import SEALS, sealed


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    sealed.cache_clear()
    yield
    sealed.cache_clear()


def refusing(times: int, code: int, asked: list[int]) -> Callable[..., int]:
    """A kernel that refuses seals `times` times."""
    real = fcntl.fcntl

    def answer(descriptor: int, command: int, *rest: int) -> int:
        if command == fcntl.F_ADD_SEALS:
            asked.append(descriptor)
            if len(asked) <= times:
                raise OSError(code, "refused for this test")
        return int(real(descriptor, command, *rest))

    return answer


def test_the_copy_runs_and_nobody_can_write_to_it() -> None:
    path = sealed("echo")
    assert path != "echo"
    assert sealed("echo") == path
    done = subprocess.run([path, "as", "given"], capture_output=True, check=True)
    assert done.stdout == b"as given\n"
    original = shutil.which("echo")
    assert original is not None
    assert Path(path).read_bytes() == Path(original).read_bytes()
    with Path(path).open("rb") as file:
        assert fcntl.fcntl(file, fcntl.F_GET_SEALS) == SEALS
    with pytest.raises(OSError, match=r"Operation not permitted|Text file busy"):
        Path(path).write_bytes(b"another")


def test_a_kernel_that_is_busy_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(module.fcntl, "fcntl", refusing(3, errno.EBUSY, asked))
    assert subprocess.run([sealed("true")]).returncode == 0
    assert len(asked) == 4


@pytest.mark.parametrize(("code", "tries"), [(errno.EBUSY, 20), (errno.EINVAL, 1)])
def test_without_sealed_memory_the_tool_is_started_as_it_is(
    code: int, tries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(module.fcntl, "fcntl", refusing(100, code, asked))
    assert sealed("true") == "true"
    assert len(asked) == tries


def test_a_tool_that_is_missing_keeps_its_name() -> None:
    assert sealed("no-such-tool-of-vtare") == "no-such-tool-of-vtare"
