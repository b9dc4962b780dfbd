"""Round trips, rates and pacing on one veth pair: the parts of bench/rtt/run."""
