//! What this responder states of UTC to clients that ask for a heartbeat.

use std::net::IpAddr;

use vtare_clock::{Clock, ClockOptions, UtcStatus};
use vtare_control::PresharedKey;
use vtare_sys::kernel_file;
use vtare_units::{Monotonic, Timestamp};
use vtare_wire::WireError;
use vtare_wire::heartbeat::{self, HeartbeatKey, Statement};
use vtare_wire::session::Cause;

use crate::rates::Rates;

/// Heartbeats that are answered in a second, one address getting half of it: 10,000 clients that ask ten times. A
/// heartbeat takes about 2 us, most of it for the two codes.
const RATE_PER_S: u64 = 100_000;

/// Answers heartbeats.
#[derive(Debug)]
pub(super) struct Witness {
    keys: Vec<HeartbeatKey>,
    boot: Option<String>,
    clock: Clock,
    rates: Rates,
}

impl Witness {
    /// A witness for holders of these keys; without any, for this host.
    pub(super) fn new(keys: &[PresharedKey]) -> Self {
        let keys: Vec<_> = match keys {
            [] => vec![PresharedKey::for_heartbeats(None)],
            keys => keys.iter().map(|key| PresharedKey::for_heartbeats(Some(key))).collect(),
        };
        let clock = Clock::start(&ClockOptions::fast());
        // Opens what it needs.
        let _ = clock.now_utc_interval();
        let boot = kernel_file::boot_id();
        Self { keys, boot, clock, rates: Rates::new(RATE_PER_S) }
    }

    /// Turns a request into its reply, in its own bytes.
    pub(super) fn answer(&mut self, from: IpAddr, datagram: &mut [u8], now: Timestamp<Monotonic>) -> Result<(), Cause> {
        let (nonce, key) = heartbeat::read_request(&self.keys, datagram).map_err(|error| match error {
            WireError::Tag => Cause::WrongTag,
            other => Cause::Garbage(other),
        })?;
        if !self.rates.admit(from, now) {
            return Err(Cause::OverRate);
        }
        let key = &self.keys[key];
        // The stamp lies within the interval's reading or a little later, as the client's round trip allows.
        let utc = self.clock.now_utc_interval();
        let statement = Statement {
            status: match utc.status {
                UtcStatus::Synchronized => 0,
                UtcStatus::FreeRunning => 1,
                UtcStatus::Disrupted => 2,
                UtcStatus::Unknown => 3,
            },
            earliest_ns: utc.earliest.as_nanos(),
            latest_ns: utc.latest.as_nanos(),
            generation: utc.generation,
            stamp_ns: self.clock.now_ordered().as_nanos(),
            host: self.boot.as_ref().map_or(0, |boot| key.host(boot.as_bytes())),
        };
        datagram.copy_from_slice(&heartbeat::reply(key, &nonce, &statement));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FROM: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn a_request_becomes_its_reply_and_nothing_else_is_touched() {
        let mut witness = Witness::new(&[]);
        let key = PresharedKey::for_heartbeats(None);
        let now = Timestamp::from_nanos(1_000_000_000);
        let stamps = [1, 2].map(|number| {
            let mut datagram = heartbeat::request(&key, &[number; 16]);
            assert_eq!(witness.answer(FROM, &mut datagram, now), Ok(()));
            let (nonce, statement) = heartbeat::read_reply(&key, &datagram).expect("a reply");
            assert!(nonce == [number; 16] && statement.earliest_ns <= statement.latest_ns, "{statement:?}");
            assert_eq!(statement.host, witness.boot.as_ref().map_or(0, |boot| key.host(boot.as_bytes())));
            assert_eq!(witness.answer(FROM, &mut datagram, now).map_err(|cause| cause == Cause::WrongTag), Err(false));
            statement.stamp_ns
        });
        assert!(stamps[0] <= stamps[1] && stamps[0] > 0);
        let other = PresharedKey::generate().expect("there are random bytes");
        let before = heartbeat::request(&PresharedKey::for_heartbeats(Some(&other)), &[3; 16]);
        let mut datagram = before;
        assert_eq!(witness.answer(FROM, &mut datagram, now), Err(Cause::WrongTag));
        assert_eq!(datagram, before);
    }

    #[test]
    fn attack_a_holder_of_the_key_asks_without_end() {
        let mut witness = Witness::new(&[]);
        let asked = heartbeat::request(&PresharedKey::for_heartbeats(None), &[0; 16]);
        let now = Timestamp::from_nanos(1_000_000_000);
        let answered = (0..2_000).filter(|_| witness.answer(FROM, &mut asked.clone(), now).is_ok()).count();
        assert!((1..=501).contains(&answered), "{answered} at one moment");
    }
}
