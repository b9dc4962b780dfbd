//! A STAMP reflector, RFC 8762 with the extensions of RFC 8972: with a key it answers its holders (authenticated mode),
//! without one whoever asks; so it is off unless asked for, and bounded. Each session has a count of its own
//! (stateful), as long as there is room.

mod sessions;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use vtare_sys::clocks;
use vtare_sys::net::control::ReceiveControl;
use vtare_sys::net::{Layer, PathMtu, ReceiveBatch, Socket, StampFlags, wait_readable};
use vtare_units::{Monotonic, Span, Timestamp, Wall};
use vtare_wire::session::Cause;
use vtare_wire::stamp::tlv::{self, Answers, Source};
use vtare_wire::stamp::{
    ErrorEstimate, Reflection, SenderPacket, StampKey, Time, is_of_a_sender, packet_byte, reflect_decoded,
};
use vtare_wire::{LARGEST_BYTE, WireError};

use self::sessions::{Name, Sessions};
use crate::error::ServeError;
use crate::probe_socket::{BATCH, is_fatal};
use crate::rates::Rates;
use crate::replies::Replies;
use crate::tally::{Drops, KINDS, STAMP_GARBAGE, STAMP_OVER_RATE, Tally};

/// How long a blocking wait lasts, so that the wish to stop is seen.
const LOOK_EVERY: Span = Span::from_millis(100);

/// Senders use a port of their own choice (RFC 8762, 4); below this are services, other reflectors among them.
const LEAST_SENDER_PORT: u16 = 1024;

/// The error of a reading of the clock. Where a daemon holds wall time at UTC, the error that it states is added.
const READING_ERROR_NS: u64 = 1_000;

/// How often the kernel is asked how far wall time is off.
const ASK_EVERY: Span = Span::from_secs(1);

/// The TTL that is reported where the kernel does not give that of a packet.
const UNKNOWN_TTL: u8 = 255;

/// The reflector's socket, opened before privileges are given up: its port is below 1024 by default.
#[derive(Debug)]
pub(super) struct StampSocket {
    socket: Socket,
    own_port: u16,
    options: StampOptions,
}

/// How STAMP packets are reflected.
#[derive(Clone, Debug)]
pub struct StampOptions {
    /// Packets that are answered in a second, all senders together; one address gets half of it.
    pub rate_packet_per_s: u64,
    /// The key of the authenticated mode; without one the mode is unauthenticated.
    pub key: Option<StampKey>,
}

impl StampSocket {
    pub(super) fn bind(listen: SocketAddr, options: StampOptions) -> Result<(Self, SocketAddr), ServeError> {
        let refused = |source| ServeError::Listen { listen, layer: "STAMP, UDP", source };
        let socket = Socket::open(Layer::Udp, listen)?;
        socket.bind(listen).map_err(|error| refused(error.into()))?;
        let address = socket.local_address().map_err(refused)?;
        // Without stamps the program's own time is sent, without TTL the value for "unknown".
        let _ = socket.stamp(StampFlags { receive_software: true, ..StampFlags::default() });
        let _ = socket.report_ttl();
        let _ = socket.report_class();
        let _ = socket.path_mtu(PathMtu::FragmentAtInterface);
        let _ = socket.report_local();
        Ok((Self { socket, own_port: address.port(), options }, address))
    }

    /// Answers until `ended`.
    pub(super) fn reflect(&self, tally: &Tally, ended: &dyn Fn() -> bool) -> Result<(), ServeError> {
        let mut receive = ReceiveBatch::new(BATCH, LARGEST_BYTE);
        let mut replies = Replies::new(BATCH, false);
        let mut rates = Rates::new(self.options.rate_packet_per_s);
        let mut sessions = Sessions::new();
        let mut clock = WallClock { error_ns: None, next_at: Timestamp::ZERO };
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
            clock.ask(now);
            let mut dropped = false;
            for index in 0..got {
                let Some(datagram) = receive.get(index) else { continue };
                let Some(from) = datagram.from else { continue };
                let asked = Asked { from, cut: datagram.cut, control: &datagram.control, now };
                match self.answer(datagram.bytes, &asked, &clock, &mut rates, &mut sessions) {
                    Ok((class, reply)) => replies.push(from, datagram.control.local, class, reply),
                    Err(cause) => {
                        let kind = if cause == Cause::OverRate { STAMP_OVER_RATE } else { STAMP_GARBAGE };
                        drops[kind].count += 1;
                        drops[kind].example = Some((from, cause));
                        dropped = true;
                    }
                }
            }
            replies.send(&self.socket, false, |_| ());
            sessions.departed(clocks::now::<Wall>());
            if dropped {
                tally.add(&mut drops);
            }
        }
        Ok(())
    }

    /// The reflection of one packet, in its own bytes: exactly as long; and the class that it is sent with.
    fn answer<'d>(
        &self,
        datagram: &'d mut [u8],
        asked: &Asked<'_>,
        clock: &WallClock,
        rates: &mut Rates,
        sessions: &mut Sessions,
    ) -> Result<(Option<u8>, &'d mut [u8]), Cause> {
        let (from, control, key) = (asked.from, asked.control, self.options.key.as_ref());
        if asked.cut {
            return Err(Cause::Garbage(WireError::TooLong { found_byte: LARGEST_BYTE + 1 }));
        }
        let sender = SenderPacket::decode(key, datagram).map_err(Cause::Garbage)?;
        if from.port() < LEAST_SENDER_PORT || from.port() == self.own_port {
            return Err(Cause::Reply);
        }
        // Two reflectors would answer each other for ever. What one has answered has its time of arrival and the
        // sender's packet where a sender's packet has zeros.
        if !is_of_a_sender(key, datagram) {
            return Err(Cause::Reply);
        }
        if !rates.admit(from.ip(), asked.now) {
            return Err(Cause::OverRate);
        }
        let format = sender.sent.format;
        let wall = || clocks::now::<Wall>().as_nanos();
        let received = Time::from_unix_ns(control.software_ns.unwrap_or_else(wall), format);
        let sender_ttl = control.ttl.unwrap_or(UNKNOWN_TTL);
        let name = Name { from, session: sender.session };
        let counted = sessions.count(name, sender.sequence, asked.now, format);
        // RFC 8762, 4.3: without state the sender's number is copied.
        let sequence = counted.as_ref().map_or(sender.sequence, |session| session.sequence());
        let tail = packet_byte(key);
        let dscp = tlv::answer(
            key,
            &mut datagram[tail..],
            sender.sequence,
            sequence,
            &Answers {
                local: (control.local.map(|address| address.to_canonical()), self.own_port),
                peer: (from.ip().to_canonical(), from.port()),
                class: control.class,
                // Strangers choose no class.
                any_class: key.is_some(),
                source: clock.source(),
                counters: counted.as_ref().map(|session| session.counters()),
                before: counted.as_ref().and_then(|session| session.before()),
            },
        );
        let replied = Time::from_unix_ns(wall(), format);
        let reflection = Reflection { sequence, replied, error: clock.error(), received, sender_ttl };
        Ok((dscp.map(|dscp| dscp << 2), reflect_decoded(key, datagram, &sender, &reflection)))
    }
}

/// How far wall time is off, as the kernel states it.
#[derive(Debug)]
struct WallClock {
    /// The greatest error against UTC, ns; `None` where nobody holds it there.
    error_ns: Option<u64>,
    next_at: Timestamp<Monotonic>,
}

impl WallClock {
    fn ask(&mut self, now: Timestamp<Monotonic>) {
        if now >= self.next_at {
            self.next_at = now + ASK_EVERY;
            let state = clocks::ntp_state().filter(|state| state.synchronized);
            self.error_ns = state.map(|state| state.max_error.as_nanos_unsigned());
        }
    }

    fn error(&self) -> ErrorEstimate {
        let stated_ns = self.error_ns.unwrap_or(0);
        ErrorEstimate::of_ns(stated_ns.saturating_add(READING_ERROR_NS), self.error_ns.is_some())
    }

    const fn source(&self) -> Source {
        if self.error_ns.is_some() { Source::Ntp } else { Source::FreeRunning }
    }
}

/// What is known of a packet beside its bytes.
struct Asked<'c> {
    from: SocketAddr,
    cut: bool,
    control: &'c ReceiveControl,
    now: Timestamp<Monotonic>,
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
