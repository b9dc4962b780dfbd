//! The path of the probes to the far end: its session, and what sender and path are able to carry.

use std::net::SocketAddr;

use vtare_clock::Clock;
use vtare_control::client::{self, ControlError, OpenedSession};
use vtare_link::socket::{PacketSize, SocketLink, SocketOptions};
use vtare_methods::avb::{Ability, Observation, Train, takes_any_stamps};
use vtare_probe::link::{LinkError, ProbeLink};
use vtare_probe::train::{self, AvbSession, Grouped, TrainError, most_group};
use vtare_units::{Monotonic, Span, Timestamp};
use vtare_wire::session::{Counters, Credit, Open, Purpose, WireForm};
use vtare_wire::{DEFAULT_PORT, ECN_CAPABLE, LARGEST_BYTE};

use super::parameters::Parameters;
use super::timing::TimedLink;
use crate::black_hole::{Vanishing, largest_arriving};
use crate::failure::Failure;
use crate::instrument::Note;
use crate::peers::{self, PATIENCE, PROGRAM, Sign, control_failure};
use crate::sentences::avb as words;

/// What every Ethernet carries of an IP packet.
const ETHERNET_BYTE: usize = 1_500;
/// The longest train.
const MOST_PACKETS: u64 = 10_000;
/// Packets of a session.
const SESSION_PACKETS: u64 = 200_000_000;
/// A session lasts this time beyond what is planned, and at most an hour.
const SPARE_NS: u64 = 60_000_000_000;
const MOST_SESSION_NS: u64 = 3_600_000_000_000;
/// Packets of a sounding, and of one that makes sure: a token bucket passes a few at any speed, and a sender that
/// others delayed appears slow.
const SOUNDING: u32 = 24;
const MAKING_SURE: u32 = 120;
/// Silence behind the soundings where they made a queue: it drains, and a token bucket fills again.
const SOUNDED: Span = Span::from_millis(30);
/// Arrivals at this share of the rate at which single packets were sent: the path may be faster than single sends. Of
/// the few of a sounding: a sender that does the path's work, too, slows down only after them.
const AS_FAST: f64 = 0.85;
const AS_FAST_FEW: f64 = 0.5;
/// What is credited to trains back is sent at this rate while nothing is known of the path, and at these at most and
/// least.
const FILL_BIT_PER_S: f64 = 20e6;
const FILL_BOUNDS_BIT_PER_S: (f64, f64) = (10e6, 400e6);
/// Bytes that are credited before an estimate begins, so that earning takes none of its time.
const EARNED_BYTE: u64 = 2_000_000;
/// Packets sent at once for credit.
const FILL_PACKETS: u32 = 500;

/// Why a train between this program and a responder failed.
pub(crate) type AvbError = train::AvbError<ControlError>;

/// Why a train gave no observation.
pub(crate) enum Broken {
    /// The far end or the link is gone.
    Lost(AvbError),
    /// This method cannot do what was asked for.
    Unable(String),
    /// What trains back cost could not be sent by [`ProbePath::earn_until`].
    Late,
}

impl From<AvbError> for Broken {
    fn from(error: AvbError) -> Self {
        match error {
            train::AvbError::Train(error @ TrainError::NoShape) => error.into(),
            error => Self::Lost(error),
        }
    }
}

impl From<TrainError> for Broken {
    fn from(error: TrainError) -> Self {
        match error {
            TrainError::NoShape => Self::Unable(
                "its trains have single times, and a far end takes shapes only: measure from there".to_owned(),
            ),
            error => Self::Lost(error.into()),
        }
    }
}

/// An open path.
pub(crate) struct ProbePath<'c> {
    session: AvbSession<TimedLink<'c>, OpenedSession>,
    pub(crate) address: SocketAddr,
    pub(crate) ability: Ability,
    reverse: bool,
    grouped: Grouped,
    /// Bytes sent to the far end to be allowed trains back, and those of soundings.
    pub(crate) extra_byte: u64,
    opened: Timestamp<Monotonic>,
    earn_until: Option<Timestamp<Monotonic>>,
}

impl<'c> ProbePath<'c> {
    /// Opens a session and sounds the path. `ecn`: packets leave ECN-capable, and what becomes of that is recorded.
    ///
    /// # Errors
    /// [`Failure::Input`] for a wrong name, key or size, or more than the far end allows; [`Failure::Peer`] where
    /// nobody answers or no probe arrives.
    pub(crate) fn open(
        clock: &'c Clock,
        parameters: &Parameters,
        ecn: bool,
        notes: &mut Vec<Note>,
    ) -> Result<Self, Failure> {
        let name = &parameters.peer;
        let key = peers::key(parameters.key_file.as_deref())?;
        let address = peers::reach(name, DEFAULT_PORT, Sign::Connection)?;
        let failed = |error: LinkError| peers::link_failure(name, &error);
        let because = "the socket engine: trains over UDP";
        // Departures are timed by the program: stamps of some would stand beside those of others.
        let options = SocketOptions { tx_stamp_every: 0, gso: parameters.gso, gro: true, ..SocketOptions::default() };
        let size = PacketSize::towards(address).map_err(failed)?;
        let header = size.header_byte;
        let carried = match size.most_payload_byte {
            Some(most) => most.min(LARGEST_BYTE),
            // A kernel such as gVisor's on its host's network does not state what the path carries.
            None if parameters.size_byte.is_none() => ETHERNET_BYTE - header,
            None => LARGEST_BYTE,
        };
        let wanted = parameters.size_byte.map_or(carried, |size| usize::from(size).saturating_sub(header));
        if wanted > carried {
            let (found, most) = (wanted + header, carried + header);
            return Err(Failure::Input(format!(
                "size_byte is {found}, but the path to {name} carries packets of {most} B: use {most} or leave it \
                 out"
            )));
        }
        let planned = match (parameters.seconds, parameters.wanted()) {
            (Some(seconds), _) => (seconds * 1e9) as u64,
            (None, Some(estimates)) => {
                estimates.saturating_mul(parameters.most_ns.unwrap_or(30_000_000_000) + parameters.pause_ns)
            }
            (None, None) => MOST_SESSION_NS,
        };
        let request = Open {
            purpose: Purpose::Avb,
            form: WireForm::Full,
            rate_packet_per_s: 1_000_000,
            burst_packet: MOST_PACKETS,
            duration_ns: planned.saturating_add(SPARE_NS).min(MOST_SESSION_NS),
            packets: SESSION_PACKETS,
            size_byte: wanted as u16,
            flows: None,
            ecn,
        };
        let far = client::open(address, key.as_ref(), &request, PROGRAM, PATIENCE)
            .map_err(|error| control_failure(&error))?;
        let class = far.grant().open.ecn.then_some(ECN_CAPABLE);
        if ecn && class.is_none() {
            notes.push(Note::new("ecn_unknown", words::ecn_unknown()));
        }
        let options = SocketOptions { local: Some(far.local_address()), class, ..options };
        let link = SocketLink::udp(clock, address, &options, because).map_err(failed)?;
        let link = TimedLink::new(link, clock, parameters.clock, parameters.sleep);
        let grant = far.grant().clone();
        let opened = link.now();
        let session = AvbSession::new(link, far, grant);
        let mut path = Self {
            ability: session.ability((wanted + header) as u32),
            session,
            address,
            reverse: parameters.reverse,
            grouped: Grouped::Never,
            extra_byte: 0,
            opened,
            earn_until: None,
        };
        path.sound(parameters, notes)?;
        Ok(path)
    }

    /// Which size arrives, what a send costs, and whether single sends are enough.
    fn sound(&mut self, parameters: &Parameters, notes: &mut Vec<Note>) -> Result<(), Failure> {
        let lost = |error: AvbError| Failure::Peer(format!("{}: {error}", parameters.peer));
        let asked = self.ability.most_packet_byte;
        let mut seen = self.sounding(SOUNDING, asked).map_err(lost)?;
        if seen.received() == 0 {
            let least = self.ability.least_packet_byte.max(128);
            if self.sounding(SOUNDING, least).map_err(lost)?.received() == 0 {
                return Err(Failure::Peer(format!(
                    "{}: the control connection stands, but no probe arrives: UDP port {} is filtered on the way",
                    parameters.peer,
                    self.address.port()
                )));
            }
            let arrives = |size| self.sounding(SOUNDING, size).map(|seen| seen.received() > 0);
            let low = largest_arriving(least, asked, arrives).map_err(lost)?;
            if parameters.size_byte.is_some() {
                let vanishing = Vanishing { asked_byte: asked, small_byte: least, arriving_byte: low };
                return Err(Failure::Input(format!("size_byte: {}", vanishing.sentence(&parameters.peer))));
            }
            self.ability.most_packet_byte = low;
            notes.push(Note::new("path_mtu", words::vanishing(low, asked)));
            seen = self.sounding(SOUNDING, low).map_err(lost)?;
        }
        let capabilities = self.session.link().facts().capabilities;
        self.ability.least_gap_ns = self.session.send_cost().as_nanos_unsigned() as f64;
        let mut as_fast = kept_up(AS_FAST_FEW, &seen);
        if as_fast {
            let seen = self.sounding(MAKING_SURE, self.ability.most_packet_byte).map_err(lost)?;
            as_fast = kept_up(AS_FAST, &seen);
            // Where sender and router share a processor, the kernel works on the packets between two calls as well.
            let sustained = sustained_gap_ns(&seen);
            self.ability.least_gap_ns = self.ability.least_gap_ns.max(sustained.unwrap_or(0.0));
        }
        // Large packets blur the times of single ones and are one packet to queues on the path: only where they are
        // needed.
        if capabilities.gso && as_fast {
            let any_stamps = takes_any_stamps(&parameters.method);
            self.grouped = if any_stamps { Grouped::BackToBack } else { Grouped::Groups };
            self.ability.most_group = most_group(self.ability.most_packet_byte - self.ability.ip_header_byte);
            notes.push(Note::new("grouped", words::grouped()));
        } else if as_fast && !capabilities.gso {
            notes.push(Note::new("single_sends", words::single_sends()));
        }
        if !as_fast {
            // A token bucket that the soundings emptied shows only once it is full again.
            let until = self.now() + SOUNDED;
            self.session.pause(until).map_err(lost)?;
        }
        Ok(())
    }

    fn sounding(&mut self, packets: u32, size_byte: u32) -> Result<Observation, AvbError> {
        let train = Train::back_to_back(packets, size_byte);
        self.extra_byte += train.bytes();
        self.session.send(&train, Grouped::Never)
    }

    /// From now on trains go to the far end, or come from there.
    pub(crate) fn set_reverse(&mut self, reverse: bool) {
        self.reverse = reverse;
    }

    /// From now on nothing is sent for credit after this.
    pub(crate) fn earn_until(&mut self, end: Timestamp<Monotonic>) {
        self.earn_until = Some(end);
    }

    /// Own time minus the far end's as it is taken for trains back, ns; none before the first of them.
    pub(crate) const fn far_behind_ns(&self) -> Option<i64> {
        self.session.far_behind_ns()
    }

    /// Whether all packets of the last train back left the far end: those missing were lost on the way.
    pub(crate) const fn all_left(&self) -> bool {
        self.session.all_left()
    }

    /// Bytes of trains back that are paid for already; 0 where the far end does not answer.
    pub(crate) fn credit_byte(&mut self) -> u64 {
        self.session.credit().map_or(0, |credit| credit.byte)
    }

    /// Now, on the clock of the sends.
    pub(crate) fn now(&self) -> Timestamp<Monotonic> {
        self.session.link().now()
    }

    /// When the session was there, before the soundings.
    pub(crate) const fn opened(&self) -> Timestamp<Monotonic> {
        self.opened
    }

    /// The link.
    pub(super) fn link(&self) -> &TimedLink<'c> {
        self.session.link()
    }

    /// Passes time.
    pub(crate) fn pause(&mut self, span: Span) -> Result<(), Broken> {
        let until = self.now() + span;
        Ok(self.session.pause(until)?)
    }

    /// Sends a train, or has one sent, and reports what became of it. `near` is what is known of the path so far,
    /// bit/s.
    pub(crate) fn send(&mut self, train: &Train, near: Option<f64>) -> Result<Observation, Broken> {
        if !self.reverse {
            return Ok(self.session.send(train, self.grouped)?);
        }
        self.earn_for(train, near)?;
        Ok(self.session.send_back(train, self.grouped)?)
    }

    /// Sends `forth` while the far end sends `back`, `after` its first packet came. `near` is what is known of the way
    /// there, bit/s.
    pub(crate) fn send_both(
        &mut self,
        trains: (&Train, &Train),
        after: Span,
        near: Option<f64>,
    ) -> Result<(Observation, Observation), Broken> {
        self.earn_for(trains.1, near)?;
        Ok(self.session.send_both(trains, after, self.grouped)?)
    }

    /// Earns what a train back takes, where the far end can send it.
    fn earn_for(&mut self, wanted: &Train, near: Option<f64>) -> Result<(), Broken> {
        if !wanted.spacing.has_shape() {
            return Err(TrainError::NoShape.into());
        }
        self.earn(Credit { packets: wanted.packets.into(), byte: wanted.bytes() }, near)
    }

    /// Gets ready for an estimate of at most `most_byte`: earns what its trains back will take. `near` is what is known
    /// of the path.
    pub(super) fn prepare(&mut self, most_byte: Option<u64>, near: Option<f64>) -> Result<(), Broken> {
        if !self.reverse {
            return Ok(());
        }
        let byte = most_byte.unwrap_or(EARNED_BYTE).min(EARNED_BYTE);
        let packets = byte / u64::from(self.ability.most_packet_byte);
        self.earn(Credit { packets, byte }, near)
    }

    /// Sends as much as trains back will take: the far end never sends more than it got.
    fn earn(&mut self, wanted: Credit, near: Option<f64>) -> Result<(), Broken> {
        let size = self.ability.most_packet_byte;
        let rate = near.map_or(FILL_BIT_PER_S, |near| near / 2.0);
        let rate = rate.clamp(FILL_BOUNDS_BIT_PER_S.0, FILL_BOUNDS_BIT_PER_S.1);
        let mut silent = 0;
        loop {
            let credit = self.session.credit()?;
            if credit.packets >= wanted.packets && credit.byte >= wanted.byte {
                return Ok(());
            }
            let missing = (wanted.byte.saturating_sub(credit.byte)).div_ceil(size.into());
            let missing = missing.max(wanted.packets.saturating_sub(credit.packets)).min(FILL_PACKETS.into()) as u32;
            let missing = missing.min(self.earn_until.map_or(u32::MAX, |end| fits(end - self.now(), size, rate)));
            if missing == 0 {
                return Err(Broken::Late);
            }
            let fill = Train::constant(missing, size, rate);
            self.extra_byte += fill.bytes();
            let seen = self.session.send(&fill, Grouped::Never)?;
            silent = if seen.received() == 0 { silent + 1 } else { 0 };
            if silent > 3 {
                return Err(Broken::Unable(
                    "nothing that is sent to it arrives, so it may send nothing back".to_owned(),
                ));
            }
        }
    }

    /// Ends the session and gives what the far end counted.
    ///
    /// # Errors
    /// Where the far end is gone.
    pub(crate) fn close(self) -> Result<Counters, AvbError> {
        let (_, far) = self.session.into_parts();
        far.close().map_err(AvbError::Far)
    }
}

/// Whether packets that were sent one by one, as fast as that goes, came as fast: there was no queue that they made.
/// The kernel may delay the sender by forwarding what it sent, and then it is as slow as the path.
fn kept_up(share: f64, seen: &Observation) -> bool {
    seen.sent_bit_per_s().zip(seen.received_bit_per_s()).is_some_and(|(sent, came)| came > share * sent)
}

/// How fast single packets follow each other for longer, ns: the median of parts of a sounding, since others may delay
/// one of them.
fn sustained_gap_ns(seen: &Observation) -> Option<f64> {
    let sent: Vec<u64> = seen.packets.iter().filter_map(|packet| Some(packet.sent?.as_nanos())).collect();
    let parts = sent.chunks_exact(SOUNDING as usize);
    let mut gaps: Vec<u64> = parts.map(|part| part[part.len() - 1].saturating_sub(part[0])).collect();
    gaps.sort_unstable();
    gaps.get(gaps.len() / 2).map(|span| *span as f64 / f64::from(SOUNDING - 1))
}

/// Packets of this size that pass in a time.
pub(crate) fn fits(time: Span, size_byte: u32, rate_bit_per_s: f64) -> u32 {
    (time.as_secs_f64() * rate_bit_per_s / 8.0 / f64::from(size_byte)) as u32
}
