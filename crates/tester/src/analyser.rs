//! Who counts what comes: a program at the receiving port, or this process by a packet ring.

use vtare_sys::bpf::{XdpLink, XdpMode};
use vtare_sys::clocks;
use vtare_units::{Monotonic, Span};

use crate::error::TesterError;
use crate::options::{Analyser, TesterOptions};
use crate::port::Port;
use crate::ring::RingAnalyser;
use crate::shared::Shared;

/// The analyser, at work while this lives.
#[derive(Debug)]
pub(crate) enum Counting {
    /// Nobody counts: for a test of the sender alone.
    Nobody,
    /// The program.
    Program(XdpLink),
    /// The ring.
    Ring(Box<RingAnalyser>),
}

impl Counting {
    /// Attaches the program; `shared` must be maps.
    pub(crate) fn program(shared: &Shared, rx: &Port) -> Result<Self, TesterError> {
        Ok(Self::Program(XdpLink::attach(&shared.load("count")?, rx.index)?))
    }

    /// Opens the ring.
    pub(crate) fn ring(options: &TesterOptions, rx: &Port) -> Result<Self, TesterError> {
        RingAnalyser::open(options, rx).map(|ring| Self::Ring(Box::new(ring)))
    }

    pub(crate) const fn kind(&self) -> Option<Analyser> {
        match self {
            Self::Nobody => None,
            Self::Program(_) => Some(Analyser::Xdp),
            Self::Ring(_) => Some(Analyser::Packet),
        }
    }

    /// Where frames are counted, as text.
    pub(crate) const fn place(&self) -> &'static str {
        match self {
            Self::Nobody => "not counted",
            Self::Program(link) => match link.mode() {
                XdpMode::Native => "counted in the driver",
                XdpMode::Generic => "counted in the network stack",
            },
            Self::Ring(_) => "counted by a packet ring",
        }
    }

    /// Lets `span` pass, and counts what came meanwhile where that is this process's work.
    pub(crate) fn look(&mut self, shared: &Shared, span: Span) -> Result<(), TesterError> {
        // A signal ends the sleep early, which does no harm.
        let _ = clocks::sleep_until(clocks::now::<Monotonic>() + span);
        match self {
            Self::Nobody | Self::Program(_) => Ok(()),
            Self::Ring(ring) => ring.drain(shared),
        }
    }

    /// Whether frames have come that cannot be counted yet.
    pub(crate) fn holds_some(&mut self) -> Result<bool, TesterError> {
        match self {
            Self::Nobody | Self::Program(_) => Ok(false),
            Self::Ring(ring) => ring.holds_some(),
        }
    }

    /// Frames since this was last asked that came and could not be counted, for want of room.
    pub(crate) fn missed(&mut self) -> Result<u64, TesterError> {
        match self {
            Self::Nobody | Self::Program(_) => Ok(0),
            Self::Ring(ring) => ring.missed(),
        }
    }
}
