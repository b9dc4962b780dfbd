use vtare_traffic::{Spacing, Train};
use vtare_units::Span;
use vtare_wire::LARGEST_BYTE;

use super::pacing::{Behind, Calls};

/// Packets that a large send carries at most.
pub const MOST_IN_BURST: usize = 64;
/// Bytes of payload of the same.
const LARGEST_BURST_BYTE: usize = 65_000;

/// Packets with this payload that leave in one call at most.
#[must_use]
pub fn most_group(payload_byte: u32) -> u32 {
    (LARGEST_BURST_BYTE / payload_byte.max(1) as usize).clamp(1, MOST_IN_BURST) as u32
}

/// What may leave as one large packet, where the link has large sends (UDP_SEGMENT).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grouped {
    /// Nothing.
    #[default]
    Never,
    /// What the method itself wants together: its pairs and back-to-back trains live by the stamp of each packet.
    Groups,
    /// Packets sent back to back as well.
    BackToBack,
}

impl Grouped {
    fn together(self, spacing: &Spacing) -> bool {
        match self {
            Self::Never => false,
            Self::Groups => spacing.is_grouped(),
            Self::BackToBack => spacing.is_grouped() || *spacing == Spacing::BACK_TO_BACK,
        }
    }
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

/// A train as a link sends it.
#[derive(Debug)]
pub(super) struct TrainPlan {
    /// When each packet is due after the first.
    pub(super) due: Vec<Span>,
    /// Bytes of each packet's payload.
    pub(super) size_byte: u16,
    /// Packets that are due at the same time leave in one call.
    together: bool,
    pub(super) behind: Behind,
}

impl TrainPlan {
    /// The train behind headers of this length.
    ///
    /// # Errors
    /// [`TrainError::Order`].
    pub(super) fn of(train: &Train, ip_header_byte: usize, grouped: Grouped) -> Result<Self, TrainError> {
        let due: Vec<Span> = train.spacing.due(train.packets).collect();
        if let Some(at) = due.windows(2).position(|pair| pair[1] < pair[0]) {
            return Err(TrainError::Order { number: at + 1 });
        }
        // A train that fills a queue and holds it filled must not let it run empty; all others are their gaps.
        Ok(Self {
            due,
            size_byte: train.size_byte.saturating_sub(ip_header_byte as u32) as u16,
            together: grouped.together(&train.spacing),
            behind: if train.spacing.keeps_a_queue() { Behind::CaughtUp } else { Behind::Moved },
        })
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

    /// Which packets leave in one call, where the link has large sends or not.
    pub(super) fn calls(&self, large_sends: bool) -> Calls {
        if self.together && large_sends {
            Calls::Together(most_group(self.size_byte.into()) as usize)
        } else {
            Calls::Of(1)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_never_share_a_stamp_and_back_to_back_packets_only_where_the_method_can_do_without() {
        let pairs = Spacing::Pairs { inside_ns: 0.0, between_ns: 1e6 };
        for (spacing, together) in [
            (pairs, [false, false, false]),
            (Spacing::BACK_TO_BACK, [false, false, true]),
            (Spacing::groups(4, 1e3), [false, true, true]),
        ] {
            let modes = [Grouped::Never, Grouped::Groups, Grouped::BackToBack];
            assert_eq!(modes.map(|it| it.together(&spacing)), together, "{spacing:?}");
        }
    }

    #[test]
    fn what_is_due_together_leaves_in_one_call_as_far_as_one_carries_it() {
        let calls = |size_byte| {
            let plan = TrainPlan::of(&Train::back_to_back(100, size_byte), 28, Grouped::BackToBack).expect("in order");
            [true, false].map(|large_sends| plan.most_in_call(plan.calls(large_sends)))
        };
        assert_eq!(calls(1_500), [44, 1]);
        assert_eq!(calls(92), [64, 1]);
    }

    #[test]
    fn a_packet_that_is_due_before_the_one_ahead_of_it_is_refused() {
        let chirp =
            |gap_ns| Train { spacing: Spacing::Gaps { gaps_ns: vec![gap_ns] }, ..Train::back_to_back(7, 1_500) };
        assert!(TrainPlan::of(&chirp(1.0), 28, Grouped::Never).is_ok_and(|plan| plan.size_byte == 1_472));
        let back = TrainPlan::of(&chirp(-1.0), 28, Grouped::Never).map(|_| ());
        assert_eq!(back, Err(TrainError::Order { number: 1 }));
    }
}
