"""One end of STAMP, in Scapy's own layer: `reflect` on a free port, whose number it prints, or `send PORT PACKETS`.

Runs as a process of its own: Scapy is under the GPL and no part of vtare.
"""

from __future__ import annotations

import importlib
import json
import socket
import sys
import time
from typing import Any

LOOPBACK = "127.0.0.1"
#: Seconds from 1900 to 1970.
NTP_TO_UNIX_S = 2_208_988_800
#: RFC 8972: direct measurement, and a type that nobody knows.
DIRECT, UNKNOWN = 5, 200
UNRECOGNIZED = 0x80


def now() -> float:
    """NTP time."""
    return time.time() + NTP_TO_UNIX_S


def reflect(stamp: Any) -> None:
    """Answer every packet."""
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    end.bind((LOOPBACK, 0))
    print(f"port {end.getsockname()[1]}", flush=True)
    while True:
        datagram, sender = end.recvfrom(9_000)
        received = now()
        asked = stamp.STAMPSessionSenderTestUnauthenticated(datagram)
        answer = stamp.STAMPSessionReflectorTestUnauthenticated(
            seq=asked.seq,
            ssid=asked.ssid,
            ts_rx=received,
            seq_sender=asked.seq,
            ts_sender=asked.ts,
            err_estimate=stamp.ErrorEstimate(S=0, Z=0, scale=0, multiplier=1),
            err_estimate_sender=asked.err_estimate,
            ttl_sender=64,
            ts=now(),
        )
        # What this layer does not know goes back as it came.
        end.sendto(bytes(answer)[:44] + datagram[44:], sender)


def send(stamp: Any, port: int, packets: int) -> None:
    """Send packets and check the answers by Scapy's own fields."""
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    end.settimeout(5)
    end.connect((LOOPBACK, port))
    answered = extensions = 0
    for number in range(packets):
        direct = stamp.STAMPTestTLV(
            flags=UNRECOGNIZED, type=DIRECT, len=12, value=(number + 1).to_bytes(4, "big") + bytes(8)
        )
        unknown = stamp.STAMPTestTLV(flags=UNRECOGNIZED, type=UNKNOWN, len=3, value=b"abc")
        asked = stamp.STAMPSessionSenderTestUnauthenticated(
            seq=2 * number, ts=now(), ssid=77, err_estimate=stamp.ErrorEstimate(), tlv_objects=[direct, unknown]
        )
        began = now()
        end.send(bytes(asked))
        answer = stamp.STAMPSessionReflectorTestUnauthenticated(end.recv(9_000))
        # Scapy keeps 2^-32 s as a float of seconds since 1900: half a microsecond.
        in_order = began - 1e-3 <= answer.ts_rx <= answer.ts + 1e-6 <= now() + 1e-3
        mine = (answer.seq, answer.seq_sender, answer.ssid, answer.ttl_sender) == (number, 2 * number, 77, 64)
        answered += in_order and mine
        found = {tlv.type: tlv for tlv in answer.tlv_objects}
        counts = [int.from_bytes(found[DIRECT].value[at : at + 4], "big") for at in (0, 4, 8)]
        extensions += int(found[DIRECT].flags) == 0 and counts == [number + 1] * 3
        extensions += int(found[UNKNOWN].flags) == UNRECOGNIZED and found[UNKNOWN].value == b"abc"
    print(json.dumps({"answered": answered, "asked": 2, "extensions": 2 if extensions == 2 * packets else 0}))


def main() -> None:
    """One end."""
    stamp = importlib.import_module("scapy.contrib.stamp")
    if sys.argv[1] == "reflect":
        reflect(stamp)
    else:
        send(stamp, int(sys.argv[2]), int(sys.argv[3]))


if __name__ == "__main__":
    main()
