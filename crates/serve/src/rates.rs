//! How many packets of whom are answered.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;

use vtare_units::{Monotonic, Timestamp};
use vtare_wire::peer_group;
use vtare_wire::session::Bucket;

/// Places for the rates of sources: each takes that of its place, which it may share with others.
const SOURCES: usize = 1_024;

/// The rates at which packets are answered: of all sources together, and half of it for each IPv4 address and IPv6 /64.
#[derive(Debug)]
pub(super) struct Rates {
    all: Bucket,
    sources: Vec<Bucket>,
    hasher: RandomState,
}

impl Rates {
    pub(super) fn new(rate_packet_per_s: u64) -> Self {
        let bucket = |rate: u64| Bucket::new(rate, rate / 100 + 1);
        let of_one = bucket(rate_packet_per_s.div_ceil(2));
        Self { all: bucket(rate_packet_per_s), sources: vec![of_one; SOURCES], hasher: RandomState::new() }
    }

    pub(super) fn admit(&mut self, from: IpAddr, now: Timestamp<Monotonic>) -> bool {
        let place = self.hasher.hash_one(peer_group(from)) as usize % SOURCES;
        self.sources[place].admit(now) && self.all.admit(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_source_gets_half_of_the_rate_and_leaves_the_rest_to_others() {
        let mut rates = Rates::new(1_000);
        let from = |last: u8| IpAddr::from([192, 0, 2, last]);
        let second = |start: u64, who: &mut dyn FnMut(u64) -> IpAddr, rates: &mut Rates| {
            let at = |step: u64| Timestamp::from_nanos(start * 1_000_000_000 + step * 100_000);
            (0..10_000).filter(|step| rates.admit(who(*step), at(*step))).count()
        };
        let alone = second(10, &mut |_| from(1), &mut rates);
        assert!((500..=506).contains(&alone), "{alone}");
        // Ten sources, whichever places they have: at least two of them, unless all ten share one.
        let many = second(20, &mut |step| from(step as u8 % 10), &mut rates);
        assert!((990..=1_011).contains(&many), "{many}");
    }
}
