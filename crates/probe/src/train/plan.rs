use vtare_units::Span;
use vtare_wire::{LARGEST_BYTE, Shape};

use super::pacing::{Behind, Calls};

/// The most that a large send carries: packets, and bytes of payload.
pub(super) const MOST_IN_BURST: usize = 64;
pub(super) const LARGEST_BURST_BYTE: usize = 65_000;

/// Packets with this payload that leave in one call at most.
#[must_use]
pub fn most_group(payload_byte: u32) -> u32 {
    (LARGEST_BURST_BYTE / payload_byte.max(1) as usize).clamp(1, MOST_IN_BURST) as u32
}

/// How many packets leave in one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bursts {
    /// One, as long as single sends can keep the train's pace; else as few as can, where the link has large sends
    /// (UDP_SEGMENT).
    #[default]
    AsNeeded,
    /// This number, where the link can.
    Of(u16),
    /// All that are due at the same time, as far as one call carries them, where the link can.
    Together,
}

/// A train that cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TrainError {
    /// No packets.
    #[error("a train has 0 packets: use 1 or more")]
    Empty,
    /// A size that the session's form or grant does not allow.
    #[error(
        "packets have {found_byte} B: use {least_byte} to {most_byte} B, the header's size to what was asked for at \
         the opening"
    )]
    Size {
        /// The train's.
        found_byte: u16,
        /// The header of the session's form.
        least_byte: u16,
        /// What the session was granted.
        most_byte: u16,
    },
    /// More packets than the responder takes at once.
    #[error("a train of {found} packets, the session was opened for {most} at once: ask for more at the opening")]
    Long {
        /// The train's.
        found: usize,
        /// The session's burst.
        most: u64,
    },
    /// A packet that is due before the one ahead of it.
    #[error("packet {number} is due before the one ahead of it: use due times that do not fall")]
    Order {
        /// Which, from 0.
        number: usize,
    },
    /// The far end cannot send packets at given times, only shapes.
    #[error("a train back needs a shape: the far end is not given single times")]
    NoShape,
}

/// A train: when each packet is due after the first, and how large all are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrainPlan {
    due: Vec<Span>,
    shape: Option<Shape>,
    size_byte: u16,
    bursts: Bursts,
    behind: Behind,
}

impl TrainPlan {
    /// A train of `packets` with `size_byte` bytes of payload each.
    #[must_use]
    pub fn new(shape: Shape, packets: u32, size_byte: u16) -> Self {
        let (bursts, behind) = (Bursts::AsNeeded, Behind::Moved);
        Self { due: shape.offsets(packets).collect(), shape: Some(shape), size_byte, bursts, behind }
    }

    /// Evenly spaced packets.
    #[must_use]
    pub fn even(packets: u32, size_byte: u16, gap: Span) -> Self {
        Self::new(Shape::Even { gap_ns: gap.as_nanos_unsigned() }, packets, size_byte)
    }

    /// Packets as close together as the link sends them.
    #[must_use]
    pub fn back_to_back(packets: u32, size_byte: u16) -> Self {
        Self::even(packets, size_byte, Span::ZERO)
    }

    /// Packets that are due at given times after the start.
    ///
    /// # Errors
    /// [`TrainError::Order`].
    pub fn at(due: Vec<Span>, size_byte: u16) -> Result<Self, TrainError> {
        if let Some(at) = due.windows(2).position(|pair| pair[1] < pair[0]) {
            return Err(TrainError::Order { number: at + 1 });
        }
        Ok(Self { due, shape: None, size_byte, bursts: Bursts::AsNeeded, behind: Behind::Moved })
    }

    /// The same train with this many packets a call.
    #[must_use]
    pub const fn with_bursts(mut self, bursts: Bursts) -> Self {
        self.bursts = bursts;
        self
    }

    /// The same train with another rule for a sender that has fallen behind. A far end goes by the shape: see
    /// [`Shape::keeps_a_queue`].
    #[must_use]
    pub const fn with_behind(mut self, behind: Behind) -> Self {
        self.behind = behind;
        self
    }

    /// What becomes of the rest where the sender has fallen behind.
    #[must_use]
    pub const fn behind(&self) -> Behind {
        self.behind
    }

    /// When each packet is due after the first.
    #[must_use]
    pub fn due(&self) -> &[Span] {
        &self.due
    }

    /// Its shape, where it has one.
    #[must_use]
    pub const fn shape(&self) -> Option<Shape> {
        self.shape
    }

    /// Bytes of each packet's payload.
    #[must_use]
    pub const fn size_byte(&self) -> u16 {
        self.size_byte
    }

    /// Packets of one call at most.
    pub(super) fn most_in_call(&self, calls: Calls) -> usize {
        match calls {
            Calls::Of(burst) => burst,
            Calls::Together(most) => {
                let runs = self.due.chunk_by(|one, next| one == next).map(<[Span]>::len);
                runs.max().unwrap_or(1).min(most)
            }
        }
    }

    /// Which packets leave in one call, where a call for one packet takes `cost` and the link has large sends or not.
    pub(super) fn calls(&self, cost: Span, large_sends: bool) -> Calls {
        let fits = most_group(self.size_byte.into()) as usize;
        match self.bursts {
            _ if !large_sends => Calls::Of(1),
            Bursts::Of(wanted) => Calls::Of(usize::from(wanted).clamp(1, fits)),
            Bursts::Together => Calls::Together(fits),
            Bursts::AsNeeded => {
                let gaps = self.due.len().saturating_sub(1).max(1) as i64;
                let gap = self.due.last().map_or(Span::ZERO, |last| *last / gaps);
                // A third of the time is kept free, so that a small delay can be caught up.
                let needed = cost.as_nanos_unsigned() * 3 / 2;
                let packets = needed.div_ceil(gap.as_nanos_unsigned().max(1));
                Calls::Of(usize::try_from(packets).unwrap_or(fits).clamp(1, fits))
            }
        }
    }

    /// Checks the train against what a session was granted.
    pub(super) fn check(&self, least_byte: u16, granted_byte: u16, granted_packets: u64) -> Result<(), TrainError> {
        let most_byte = granted_byte.min(LARGEST_BYTE as u16);
        if self.due.is_empty() {
            Err(TrainError::Empty)
        } else if !(least_byte..=most_byte).contains(&self.size_byte) {
            Err(TrainError::Size { found_byte: self.size_byte, least_byte, most_byte })
        } else if self.due.len() as u64 > granted_packets {
            Err(TrainError::Long { found: self.due.len(), most: granted_packets })
        } else {
            Ok(())
        }
    }
}
