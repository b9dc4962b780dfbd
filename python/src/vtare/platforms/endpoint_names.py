"""How machines, accounts and devices may be written that files name: never as an option, or as words for a shell.

They become arguments of programs here and there, and an SSH configuration may put them into a command line
(`ProxyCommand`).
"""

from __future__ import annotations

import re
from typing import Final

#: A name of DNS, an IPv4 address, or an IPv6 address with its zone, in brackets or not.
MACHINE: Final = r"^(?:[A-Za-z0-9_:][A-Za-z0-9_.:%-]*|\[[A-Za-z0-9_.:%-]+\])$"
ACCOUNT: Final = r"^[A-Za-z0-9_.][A-Za-z0-9_.@+-]*$"
DEVICE: Final = r"^[A-Za-z0-9_.][A-Za-z0-9_.:@-]*$"
_KINDS: Final = {
    MACHINE: "a name or an address of a machine, such as vm-1.example.org or fe80::1%eth0",
    ACCOUNT: "the name of an account, such as root",
    DEVICE: "the name of a network device, such as eth0",
}
#: Key of a file of hosts or a plan -> what its value names.
_KEYS: Final = {
    **dict.fromkeys(("host", "address", "host_key_alias", "server"), MACHINE),
    "user": ACCOUNT,
    **dict.fromkeys(("interface", "inward", "outward"), DEVICE),
}


def refusal(key: str, value: object) -> str | None:
    """Why a value is none for this key; None where it may be used, or the key names nothing of this kind.

    >>> refusal("host", "vm-1.example.org"), refusal("interface", "eth0.100"), refusal("port", "22")
    (None, None, None)
    >>> refusal("user", "-F/tmp/x")
    "'-F/tmp/x' is not the name of an account, such as root"
    """
    pattern = _KEYS.get(key)
    if pattern is None or (isinstance(value, str) and re.fullmatch(pattern, value)):
        return None
    return f"{value!r} is not {_KINDS[pattern]}"
