"""What a shaped link of the lab really did: bytes that came to it and left it, counted inside the kernel.

A token bucket keeps its rate only while its timer is on time. Where the hypervisor takes a processor away for longer
than the bucket lasts, tokens are lost, and capacity with them; and a source of cross traffic that stalls between
its own account and the link has sent what did not yet come. An estimate is right if it states what the link could carry
in its window, so that is what the truth must be made of: with both counted at the link, estimates that had seemed off
by 4 Mbit/s of 300 were within 0.3 of it.

`counters` adds up bytes of IP in bins on CLOCK_MONOTONIC, with small programs at the ingress of the devices around the
link; `account` states what that means for a window; `process` is the program that counts during a run of the lab.
"""

from vtare.link_counter.account import LINK_COUNTER, LINK_COUNTER_LOG, Account
from vtare.link_counter.counters import Counters, LinkCounterError, Tap

__all__ = ["LINK_COUNTER", "LINK_COUNTER_LOG", "Account", "Counters", "LinkCounterError", "Tap"]
