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

from vtare.errors import BadInput, MachineCannot, PlatformFailed
from vtare.platforms.lacks import library, together
from vtare.platforms.notes import PlatformNotes
from vtare.platforms.owner import Leftover
from vtare.platforms.protocol import Resources
from vtare.platforms.reached import MadePlatform, unnamed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vtare.platforms.ssh import SshInstance

_KEY: Final = "VTARE_CLOUD_KEY"
_SECRET: Final = "VTARE_CLOUD_SECRET"
_NO_KEY: Final = f"the key of the cloud is missing; set {_KEY} and, where there is one, {_SECRET}"
_RUNNING_S: Final = 600
_NOTES: Final = PlatformNotes("cloud")


class CloudPlatform(MadePlatform):
    """Machines of a cloud, made for a run and deleted after it."""

    name: Final = "cloud"
    WORDS = "a machine of a cloud, whose size states what it has,"
    ELSEWHERE = True
    REACHED = True
    OWN = ("driver", "image", "size", "region")

    @property
    def _cloud(self) -> dict[str, str]:
        """Which cloud, and what machine of it."""
        return {key: str(value) for key, value in self._settings.items()}

    def _missing(self, resources: Resources) -> str | None:
        reason = together(
            unnamed(self._cloud, ("driver", "image", "size")) or (None if _words() else _NO_KEY),
            _missing_library(),
            self._reached.missing(),
        )
        if reason is not None:
            return reason
        try:
            _driver(self._cloud)
        except MachineCannot as error:
            return str(error)
        return None

    def _make_machines(self, indices: range, resources: Resources) -> Sequence[SshInstance]:
        driver = _driver(self._cloud)
        return [self._one(driver, number) for number in indices]

    def _one(self, driver: Any, number: int) -> SshInstance:
        name = f"{self._owner}-cloud-{number}"
        try:
            image = _chosen("image", driver.list_images(), self._cloud["image"])
            size = _chosen("size", driver.list_sizes(), self._cloud["size"])
            _NOTES.write(name, self._cloud)
            self._removals.callback(_delete, name)
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
    raise MachineCannot(f"there is no {what} with the id '{wanted}'; the provider has {some or 'none'}")


def _missing_library() -> str | None:
    return library("libcloud", "apache-libcloud")


def _words() -> list[str]:
    """The cloud's key and secret, without those that are not set."""
    return [os.environ[name] for name in (_KEY, _SECRET) if os.environ.get(name)]


def _driver(cloud: dict[str, str]) -> Any:
    words = _words()
    reason = together(_missing_library(), None if words else _NO_KEY)
    if reason is not None:
        raise MachineCannot(reason)
    from libcloud.compute.providers import get_driver

    region = {"region": cloud["region"]} if "region" in cloud else {}
    try:
        return get_driver(cloud["driver"])(*words, **region)
    except Exception as error:
        raise MachineCannot(f"the cloud '{cloud['driver']}' cannot be used: {error}") from error
