"""The `cloud` platform: apache-libcloud makes and deletes the machine, SSH does the rest.

A plan names it: `[platforms.NAME]` with `kind = "cloud"`, `driver` (as apache-libcloud calls the provider), `image` and
`size` (their ids), `region` where the provider has some, and what `vtare.platforms.ssh` needs to get in. Key and secret
come from the environment, VTARE_CLOUD_KEY and VTARE_CLOUD_SECRET: never from a plan, which is kept with the results.

A machine that costs money must not be forgotten: before one is made, a note of it is written (`vtare.platforms.notes`),
and stays until it is deleted. `vtare clean` finds the machines of gone lab processes by these notes.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from vtare.errors import BadInput, MachineCannot
from vtare.platforms.notes import Notes
from vtare.platforms.protocol import DEFAULT_RESOURCES, Leftover, PlatformFailed, Resources, Settings
from vtare.platforms.reached import MadePlatform, unnamed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vtare.platforms.ssh import SshInstance

_OWN: Final[tuple[str, ...]] = ("driver", "image", "size", "region")
_KEY: Final = "VTARE_CLOUD_KEY"
_SECRET: Final = "VTARE_CLOUD_SECRET"
_RUNNING_S: Final = 600
_NOTES: Final = Notes("cloud")
#: What is left of these takes nothing of this machine.
ELSEWHERE: Final = True


class CloudPlatform(MadePlatform):
    """Machines of a cloud, made for a run and deleted after it."""

    def __init__(self, binary: Path, owner: str, settings: Settings | None = None) -> None:
        """Use this binary; `owner` begins the names of machines; `settings` say which cloud.

        Raises:
            BadInput: a setting is unknown or of the wrong kind.
        """
        given = dict(settings or {})
        self._cloud: dict[str, str] = {key: str(given.pop(key)) for key in _OWN if key in given}
        super().__init__("cloud", binary, owner, given)

    def missing(self, resources: Resources = DEFAULT_RESOURCES) -> str | None:
        """Why no machine can be made from here, or None."""
        reason = resources.beyond(frozenset())
        if reason is not None:
            return f"a machine of a cloud {reason}; its size says what it has"
        reason = unnamed(self._cloud, ("driver", "image", "size")) or self._reached.missing()
        if reason is not None:
            return reason
        try:
            _driver(self._cloud)
        except MachineCannot as error:
            return str(error)
        return None

    def _make(self, indices: range, resources: Resources) -> Sequence[SshInstance]:
        driver = _driver(self._cloud)
        return [self._one(driver, number) for number in indices]

    def _delete(self, name: str) -> None:
        _delete(name)

    def _one(self, driver: Any, number: int) -> SshInstance:
        name = f"{self._owner}-cloud-{number}"
        try:
            image = _chosen("image", driver.list_images(), self._cloud["image"])
            size = _chosen("size", driver.list_sizes(), self._cloud["size"])
            _NOTES.write(name, self._cloud)
            self._made.append(name)
            node = driver.create_node(name=name, image=image, size=size)
            # Not every provider takes the name that it is given.
            _NOTES.write(name, {**self._cloud, "id": str(node.id)})
            ((_, addresses),) = driver.wait_until_running([node], timeout=_RUNNING_S)
        except (BadInput, MachineCannot):
            raise
        except Exception as error:
            # Every provider has errors of its own.
            raise PlatformFailed(f"{self._cloud['driver']}: {name} could not be made: {error}") from error
        return self._reached.reach(name, str(addresses[0]), {"made_by": "cloud", **self._cloud})


def leftovers() -> tuple[Leftover, ...]:
    """Machines of which gone lab processes have left a note."""
    return _NOTES.leftovers("cloud machine", _delete)


def _delete(name: str) -> None:
    """Delete the machine of a note, by its id or else by its name, and then the note; one that is gone is fine."""
    cloud = _NOTES.read(name)
    if cloud is None:
        return
    driver = _driver(cloud)
    try:
        for node in driver.list_nodes():
            if (node.name == name or str(node.id) == cloud.get("id")) and not driver.destroy_node(node):
                raise PlatformFailed(f"{cloud['driver']}: {name} could not be deleted; delete it by hand")
    except PlatformFailed:
        raise
    except Exception as error:
        raise PlatformFailed(f"{cloud['driver']}: {name} could not be deleted: {error}") from error
    _NOTES.drop(name)


def _chosen(what: str, offered: Sequence[Any], wanted: str) -> Any:
    for one in offered:
        if str(one.id) == wanted:
            return one
    some = ", ".join(str(one.id) for one in offered[:5])
    raise MachineCannot(f"found no {what} with the id '{wanted}'; the provider has {some or 'none'}")


def _driver(cloud: dict[str, str]) -> Any:
    try:
        from libcloud.compute.providers import get_driver
    except ImportError as error:
        raise MachineCannot(
            "the Python package 'apache-libcloud' is missing; install it with `pip install apache-libcloud`"
        ) from error
    words = [os.environ[name] for name in (_KEY, _SECRET) if os.environ.get(name)]
    if not words:
        raise MachineCannot(f"the key of the cloud is missing; set {_KEY} and, where there is one, {_SECRET}")
    region = {"region": cloud["region"]} if "region" in cloud else {}
    try:
        return get_driver(cloud["driver"])(*words, **region)
    except Exception as error:
        raise MachineCannot(f"the cloud '{cloud['driver']}' cannot be used: {error}") from error
