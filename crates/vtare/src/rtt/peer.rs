//! Opening the way to each peer: name, session, link, codec.

use std::net::SocketAddr;

use vtare_clock::Clock;
use vtare_control::PresharedKey;
use vtare_control::client::{self, OpenedSession};
use vtare_link::StallDetector;
use vtare_link::Wait;
use vtare_link::af_xdp::AfXdpLink;
use vtare_link::rate::Carrier;
use vtare_link::socket::{SocketLink, SocketOptions};
use vtare_link::xdp::probe::XdpProbe;
use vtare_methods::rtt::ResponderCounters;
use vtare_probe::link::{Burst, Departure, Facts, Incoming, LinkError, LocalDrops, Outgoing, ProbeLink, Refusal};
use vtare_units::{Monotonic, Random, Timestamp, Wall};
use vtare_wire::session::{Counters, Open, Purpose, WireForm};
use vtare_wire::{DEFAULT_PORT, SessionId, SessionKey};

use super::codec::Codec;
use super::pacing::{self, PacingFacts};
use super::parameters::{Mode, Parameters};
use super::{frames, in_kernel, stamp, vanishing};
use crate::failure::Failure;
use crate::instrument::Note;
use crate::peers::{self, PATIENCE, PROGRAM, Sign, control_failure};
use crate::sentences::rtt as words;

/// The port of STAMP reflectors (RFC 8762).
const STAMP_PORT: u16 = 862;

/// What carries the probes of one peer, where programs in the kernel do not.
#[derive(Debug)]
pub(super) enum PeerLink<'c> {
    /// A socket: UDP or ICMP echo.
    Socket(SocketLink<'c>),
    /// Frames in shared memory.
    AfXdp(AfXdpLink<'c>),
}

macro_rules! each {
    ($self:ident, $link:ident => $do:expr) => {
        match $self {
            PeerLink::Socket($link) => $do,
            PeerLink::AfXdp($link) => $do,
        }
    };
}

impl PeerLink<'_> {
    /// Time that something took from the link's thread.
    pub(super) fn stalls(&self) -> &StallDetector {
        each!(self, link => link.stalls())
    }
}

impl ProbeLink for PeerLink<'_> {
    fn facts(&self) -> &Facts {
        each!(self, link => link.facts())
    }

    fn now(&self) -> Timestamp<Monotonic> {
        each!(self, link => link.now())
    }

    fn send(&mut self, datagrams: &[Outgoing<'_>]) -> Result<Burst, LinkError> {
        each!(self, link => link.send(datagrams))
    }

    fn receive(&mut self, until: Timestamp<Monotonic>, sink: &mut dyn FnMut(Incoming<'_>)) -> Result<(), LinkError> {
        each!(self, link => link.receive(until, sink))
    }

    fn departures(&mut self, sink: &mut dyn FnMut(Departure)) -> Result<(), LinkError> {
        each!(self, link => link.departures(sink))
    }

    fn local_drops(&mut self) -> Result<LocalDrops, LinkError> {
        each!(self, link => link.local_drops())
    }
}

/// A peer that is ready to be probed.
pub(super) struct Ready<'c> {
    /// As it was given.
    pub(super) name: String,
    /// Its address.
    pub(super) address: SocketAddr,
    /// The control connection, where there is one.
    pub(super) session: Option<OpenedSession>,
    /// How its probes look.
    pub(super) codec: Codec,
    /// What carries them.
    pub(super) link: PeerLink<'c>,
    /// What carries them instead, where programs in the kernel do.
    pub(super) in_kernel: Option<XdpProbe>,
    /// Why what would have been better carries none.
    pub(super) refused: Vec<Refusal>,
    /// What holds its packets until they are due.
    pub(super) pacing: PacingFacts,
}

impl Ready<'_> {
    /// What captures on the way read as the session of this peer's packets.
    pub(super) fn carried_session(&self) -> i64 {
        match &self.link {
            PeerLink::Socket(link) => link.echo_identifier().map_or_else(|| self.codec.carried(), i64::from),
            PeerLink::AfXdp(_) => self.codec.carried(),
        }
    }
}

/// Opens the way to `name`.
///
/// # Errors
/// [`Failure::Input`] for a name that does not resolve, a wrong key, or more than the far end allows; [`Failure::Peer`]
/// where nobody answers.
pub(super) fn open<'c>(
    clock: &'c Clock,
    name: &str,
    parameters: &Parameters,
    key: Option<&PresharedKey>,
    random: &mut Random,
) -> Result<Ready<'c>, Failure> {
    let (port, sign) = where_to(parameters.mode);
    let address = peers::reach(name, port, sign)?;
    let session = (parameters.mode == Mode::Udp).then(|| open_session(address, key, parameters)).transpose()?;
    let codec = codec(session.as_ref(), parameters, key, random, clock);
    let because = match parameters.mode {
        Mode::Udp => "the socket engine: vtare's probes over UDP",
        Mode::Icmp => "asked for with --icmp",
        Mode::Stamp => "the socket engine: STAMP over UDP",
    };
    let mut options = SocketOptions {
        local: session.as_ref().map(|session| session.local_address()),
        wait: if parameters.blocking { Wait::Block } else { Wait::Spin },
        hardware: parameters.hardware_stamps,
        largest_byte: parameters.size_byte.into(),
        class: parameters.dscp.map(|dscp| dscp << 2),
        busy_poll_us: parameters.busy_poll_ns.map(|ns| u32::try_from(ns.div_ceil(1_000)).unwrap_or(u32::MAX)),
        ..SocketOptions::for_rate(parameters.policy())
    };
    options.gso &= parameters.gso;
    options.gro &= parameters.gso;
    if let Some(every) = parameters.tx_stamp_every {
        options.tx_stamp_every = every;
    }
    let failed = |error: LinkError| peers::link_failure(name, &error);
    let (in_kernel, no_programs) = in_kernel::open(parameters, address, session.as_ref())?;
    let (own_frames, no_frames) = frames::open(clock, parameters, address, session.as_ref())?;
    let carrier = match (&in_kernel, &own_frames) {
        (Some(_), _) => Carrier::Programs,
        (_, Some(_)) => Carrier::Frames,
        _ => Carrier::Socket,
    };
    let (pacing, keeper) = pacing::choose(clock, parameters, carrier, address, options.local)?;
    options.launch = keeper;
    let link = match (parameters.mode, own_frames) {
        (_, Some(link)) => PeerLink::AfXdp(link),
        (Mode::Icmp, _) => PeerLink::Socket(SocketLink::icmp(clock, address, &options, because).map_err(failed)?),
        (Mode::Udp | Mode::Stamp, _) => {
            PeerLink::Socket(SocketLink::udp(clock, address, &options, because).map_err(failed)?)
        }
    };
    let refused = no_programs.into_iter().chain(no_frames).collect();
    if let Some(most) = link.facts().most_payload_byte
        && usize::from(parameters.size_byte) > most
    {
        let found = parameters.size_byte;
        return Err(Failure::Input(format!(
            "size_byte is {found}, but the path to {name} carries {most} B without fragments: use that or less"
        )));
    }
    Ok(Ready { name: name.to_owned(), address, session, codec, link, in_kernel, refused, pacing })
}

/// The port of a far end that names none, and what shows at which of several addresses it is.
const fn where_to(mode: Mode) -> (u16, Sign) {
    match mode {
        Mode::Udp => (DEFAULT_PORT, Sign::Connection),
        Mode::Stamp => (STAMP_PORT, Sign::Datagram),
        Mode::Icmp => (DEFAULT_PORT, Sign::Route),
    }
}

fn open_session(
    address: SocketAddr,
    key: Option<&PresharedKey>,
    parameters: &Parameters,
) -> Result<OpenedSession, Failure> {
    let duration = parameters.duration_ns();
    let per_packet = 1e9 / parameters.rate();
    let lasts = duration.unwrap_or((parameters.planned() as f64 * per_packet * 1.1) as u64);
    // What a stalled sender makes up for, and as much again for a path that holds packets up and lets them go together.
    let burst = (2.0 * parameters.catch_up_ns() as f64 / per_packet).ceil() as u64 + 1;
    let request = Open {
        purpose: Purpose::Rtt,
        form: if parameters.full_form() { WireForm::Full } else { WireForm::Short },
        // Flood goes as fast as the path; else a tenth more: the schedule is exact, the two hosts' clocks are not.
        rate_packet_per_s: if parameters.flood { 1_000_000 } else { (parameters.rate() * 1.1).ceil().min(1e6) as u64 },
        burst_packet: if parameters.flood { 64 } else { burst.clamp(64, 10_000) },
        // What is answered in time shall not find its session over, nor what is sent where nothing was answered.
        duration_ns: lasts + parameters.timeout_ns().max(2_000_000_000) + vanishing::LONGEST_NS,
        packets: if parameters.flood {
            parameters.packets.unwrap_or(lasts / 1_000)
        } else {
            parameters.planned().saturating_add(vanishing::PROBES)
        },
        size_byte: parameters.size_byte,
        flows: None,
        ecn: false,
    };
    client::open(address, key, &request, PROGRAM, PATIENCE).map_err(|error| control_failure(&error))
}

fn codec(
    session: Option<&OpenedSession>,
    parameters: &Parameters,
    key: Option<&PresharedKey>,
    random: &mut Random,
    clock: &Clock,
) -> Codec {
    if let Some(grant) = session.map(OpenedSession::grant) {
        let (session, handle, key) = (grant.session, grant.handle, grant.key.clone());
        return match grant.open.form {
            WireForm::Full => Codec::Full { session, key, echoed: false },
            WireForm::Short => Codec::Short { session, handle, key, echoed: false },
        };
    }
    if parameters.mode == Mode::Stamp {
        let (wall_ahead_ns, error_ns, synchronized) = match stamp::utc_here(clock) {
            Some(here) => (here.ahead_ns.cast_unsigned(), here.error_ns, true),
            // One pair of readings: the stamps of a STAMP packet are for the other end, vtare measures with its own.
            None => {
                let before = clock.now_ordered();
                let wall = vtare_sys::clocks::now::<Wall>();
                let width = (clock.now_ordered() - before).as_nanos_unsigned();
                (wall.as_nanos().wrapping_sub(before.as_nanos() + width / 2), width.max(1), false)
            }
        };
        return Codec::Stamp {
            session: random.bits() as u16 | 1,
            wall_ahead_ns,
            error_ns,
            synchronized,
            key: key.map(PresharedKey::for_stamp),
            requests: parameters.requests(),
        };
    }
    // Nobody else reads these; the key only distinguishes own replies from other packets.
    let (session, low, high) = (SessionId(random.bits()), random.bits(), random.bits());
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&low.to_ne_bytes());
    bytes[8..].copy_from_slice(&high.to_ne_bytes());
    let key = SessionKey::new(bytes);
    if parameters.full_form() {
        Codec::Full { session, key, echoed: true }
    } else {
        Codec::Short { session, handle: session.0 as u16, key, echoed: true }
    }
}

/// Ends a session and gives what the responder counted; a note where that is lost.
pub(super) fn close(name: &str, session: Option<OpenedSession>) -> (Option<ResponderCounters>, Option<Note>) {
    let Some(session) = session else { return (None, None) };
    match session.close() {
        Ok(counters) => (Some(counted(&counters)), None),
        Err(error) => (None, Some(Note::new("counters_lost", words::counters_lost(name, error)))),
    }
}

/// What the responder counted.
pub(super) fn counted(counters: &Counters) -> ResponderCounters {
    ResponderCounters {
        accepted: counters.accepted,
        refused: counters.over_rate + counters.over_limit + counters.oversized + counters.too_old,
        unsent: counters.unsent,
        receive_buffer: counters.socket_drops,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_without_port_gets_that_of_its_mode() {
        assert_eq!((where_to(Mode::Udp).0, where_to(Mode::Stamp).0), (8462, 862));
    }
}
