//! A STAMP reflector, RFC 8762, unauthenticated and stateless: it answers whoever asks, so it is off unless asked for,
//! and bounded.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};

use vtare_sys::clocks;
use vtare_sys::net::{Layer, PathMtu, ReceiveBatch, Socket, StampFlags, wait_readable};
use vtare_units::{Monotonic, Span, Timestamp, Wall};
use vtare_wire::session::{Bucket, Cause};
use vtare_wire::stamp::{ErrorEstimate, Reflection, SenderPacket, Time, is_of_a_sender, reflect};
use vtare_wire::{LARGEST_BYTE, WireError};

use crate::error::ServeError;
use crate::peer_group::peer_group;
use crate::probe_socket::{BATCH, is_fatal};
use crate::replies::Replies;
use crate::tally::{Drops, KINDS, STAMP_GARBAGE, STAMP_OVER_RATE, Tally};

/// How long a blocking wait lasts, so that the wish to stop is seen.
const LOOK_EVERY: Span = Span::from_millis(100);

/// Senders use a port of their own choice (RFC 8762, 4); below this are services, other reflectors among them.
const LEAST_SENDER_PORT: u16 = 1024;

/// The error that replies state for a reading of the clock. That wall time itself may be off is marked by
/// `synchronized: false`: this program knows nothing of where wall time comes from.
const READING_ERROR_NS: u64 = 1_000;

/// The TTL that is reported where the kernel does not give that of a packet.
const UNKNOWN_TTL: u8 = 255;

/// The reflector's socket, opened before privileges are given up: its port is below 1024 by default.
#[derive(Debug)]
pub(super) struct StampSocket {
    socket: Socket,
    own_port: u16,
    rate_packet_per_s: u64,
}

impl StampSocket {
    pub(super) fn bind(listen: SocketAddr, rate_packet_per_s: u64) -> Result<(Self, SocketAddr), ServeError> {
        let refused = |source| ServeError::Listen { listen, layer: "STAMP, UDP", source };
        let socket = Socket::open(Layer::Udp, listen)?;
        socket.bind(listen).map_err(|error| refused(error.into()))?;
        let address = socket.local_address().map_err(refused)?;
        // Without stamps the program's own time is sent, without TTL the value for "unknown".
        let _ = socket.stamp(StampFlags { receive_software: true, ..StampFlags::default() });
        let _ = socket.report_ttl();
        let _ = socket.path_mtu(PathMtu::FragmentAtInterface);
        if address.ip().is_unspecified() {
            let _ = socket.report_local();
        }
        Ok((Self { socket, own_port: address.port(), rate_packet_per_s }, address))
    }

    /// Answers until `ended`.
    pub(super) fn reflect(&self, tally: &Tally, ended: &dyn Fn() -> bool) -> Result<(), ServeError> {
        let mut receive = ReceiveBatch::new(BATCH, LARGEST_BYTE);
        let mut replies = Replies::new(BATCH, false);
        let mut rates = Rates::new(self.rate_packet_per_s);
        let mut drops = [Drops::default(); KINDS.len()];
        while !ended() {
            let got = match receive.receive(&self.socket, BATCH) {
                Ok(got) => got,
                Err(error) if !is_fatal(error.kind()) => continue,
                Err(source) => return Err(ServeError::Io { doing: "receiving STAMP packets", source }),
            };
            let now = clocks::now::<Monotonic>();
            if got == 0 {
                wait_readable(&self.socket, now, now + LOOK_EVERY)?;
                continue;
            }
            replies.clear();
            let mut dropped = false;
            for index in 0..got {
                let Some(datagram) = receive.get(index) else { continue };
                let Some(from) = datagram.from else { continue };
                let arrival =
                    Asked { from, cut: datagram.cut, ttl: datagram.control.ttl, wall_ns: datagram.control.software_ns };
                match self.answer(datagram.bytes, &arrival, now, &mut rates) {
                    Ok(reply) => replies.push(from, datagram.control.local, reply),
                    Err(cause) => {
                        let kind = if cause == Cause::OverRate { STAMP_OVER_RATE } else { STAMP_GARBAGE };
                        drops[kind].count += 1;
                        drops[kind].example = Some((from, cause));
                        dropped = true;
                    }
                }
            }
            replies.send(&self.socket, false, |_| ());
            if dropped {
                tally.add(&mut drops);
            }
        }
        Ok(())
    }

    /// The reflection of one packet, in its own bytes: exactly as long.
    fn answer<'d>(
        &self,
        datagram: &'d mut [u8],
        asked: &Asked,
        now: Timestamp<Monotonic>,
        rates: &mut Rates,
    ) -> Result<&'d mut [u8], Cause> {
        if asked.cut {
            return Err(Cause::Garbage(WireError::TooLong { found_byte: LARGEST_BYTE + 1 }));
        }
        let sender = SenderPacket::decode(datagram).map_err(Cause::Garbage)?;
        if asked.from.port() < LEAST_SENDER_PORT || asked.from.port() == self.own_port {
            return Err(Cause::Reply);
        }
        // Two reflectors would answer each other for ever. What one has answered has its time of arrival and the
        // sender's packet where a sender's packet has zeros.
        if !is_of_a_sender(datagram) {
            return Err(Cause::Reply);
        }
        if !rates.admit(asked.from.ip(), now) {
            return Err(Cause::OverRate);
        }
        let format = sender.sent.format;
        let wall = || clocks::now::<Wall>().as_nanos();
        let received = Time::from_unix_ns(asked.wall_ns.unwrap_or_else(wall), format);
        let error = ErrorEstimate::of_ns(READING_ERROR_NS, false);
        let sender_ttl = asked.ttl.unwrap_or(UNKNOWN_TTL);
        // Stateless: RFC 8762, 4.3 has the sender's number copied then.
        let replied = Time::from_unix_ns(wall(), format);
        let reflection = Reflection { sequence: sender.sequence, replied, error, received, sender_ttl };
        reflect(datagram, &reflection).map_err(Cause::Garbage)
    }
}

/// Places for the rates of sources: each takes that of its place, which it may share with others.
const SOURCES: usize = 1_024;

/// The rates at which packets are answered: of all sources together, and half of it for each IPv4 address and IPv6 /64.
#[derive(Debug)]
struct Rates {
    all: Bucket,
    sources: Vec<Bucket>,
    hasher: RandomState,
}

impl Rates {
    fn new(rate_packet_per_s: u64) -> Self {
        let bucket = |rate: u64| Bucket::new(rate, rate / 100 + 1);
        let of_one = bucket(rate_packet_per_s.div_ceil(2));
        Self { all: bucket(rate_packet_per_s), sources: vec![of_one; SOURCES], hasher: RandomState::new() }
    }

    fn admit(&mut self, from: IpAddr, now: Timestamp<Monotonic>) -> bool {
        let place = self.hasher.hash_one(peer_group(from)) as usize % SOURCES;
        self.sources[place].admit(now) && self.all.admit(now)
    }
}

/// What is known of a packet beside its bytes.
struct Asked {
    from: SocketAddr,
    cut: bool,
    ttl: Option<u8>,
    wall_ns: Option<u64>,
}

/// Runs the reflector, where there is one; its failure ends the responder.
pub(super) fn run(
    stamp: Option<&StampSocket>,
    tally: &Tally,
    over: &AtomicBool,
    ended: &dyn Fn() -> bool,
) -> Result<(), ServeError> {
    let result = stamp.map_or(Ok(()), |stamp| stamp.reflect(tally, ended));
    if result.is_err() {
        over.store(true, Ordering::Relaxed);
    }
    result
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
