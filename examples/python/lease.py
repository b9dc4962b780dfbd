"""A lease and commit-wait by confirmed readings: VTARE_WITNESSES=h1,h2,h3 VTARE_KEY=... python lease.py."""

from vtare import clock


def commit() -> int:
    """A time that has passed when this returns, and had not come when it was called."""
    at_ns = clock.now_utc_confirmed().latest_ns
    while (passed_ns := clock.now_utc_confirmed().earliest_ns) <= at_ns:
        clock.sleep_ns(at_ns - passed_ns + 1)
    return at_ns


def acted_within(lease_ends_ns: int) -> bool:
    """Whether an act that is done by now was done within the lease: looking before it proves nothing."""
    return clock.now_utc_confirmed().latest_ns < lease_ends_ns


if __name__ == "__main__":
    now = clock.now_utc_confirmed()
    print(f"{now.hosts} hosts, of which {now.liars} may be wrong")
    print(f"committed at {commit()}")
    print("the lease held" if acted_within(now.latest_ns + 2_000_000_000) else "the lease had ended: take the act back")
