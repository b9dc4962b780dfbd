use std::collections::VecDeque;

use vtare_wire::short::whole_sequence;

/// Which packet a stamped departure belongs to.
#[derive(Clone, Debug)]
pub(super) enum TxKeys {
    /// The kernel takes a key of ours (Linux 6.13 and later): the lower half of the sequence number.
    Ours {
        /// The newest sequence number that was stamped.
        newest: u64,
    },
    /// The kernel counts the stamped departures, from 0; those not yet returned, in order.
    Counted {
        /// The kernel's next number.
        next: u32,
        /// `(number, sequence)`.
        open: VecDeque<(u32, u64)>,
    },
}

/// Departures whose stamp may be outstanding; older ones are given up.
const MOST_OPEN: usize = 1 << 14;

impl TxKeys {
    pub(super) const fn ours() -> Self {
        Self::Ours { newest: 0 }
    }

    pub(super) const fn counted() -> Self {
        Self::Counted { next: 0, open: VecDeque::new() }
    }

    /// The key to send with `sequence`; `None` where the kernel counts.
    pub(super) const fn key(&self, sequence: u64) -> Option<u32> {
        match self {
            Self::Ours { .. } => Some(sequence as u32),
            Self::Counted { .. } => None,
        }
    }

    /// The kernel took the packet.
    pub(super) fn sent(&mut self, sequence: u64) {
        match self {
            Self::Ours { newest } => *newest = sequence,
            Self::Counted { next, open } => {
                if open.len() >= MOST_OPEN {
                    open.pop_front();
                }
                open.push_back((*next, sequence));
                *next = next.wrapping_add(1);
            }
        }
    }

    /// Whose stamp came back; `None` for a key of nothing that is outstanding.
    pub(super) fn returned(&mut self, key: u32) -> Option<u64> {
        match self {
            Self::Ours { newest } => Some(whole_sequence(key, *newest)),
            Self::Counted { open, .. } => {
                let at = open.iter().position(|(number, _)| *number == key)?;
                // Stamps may come back out of order, seldom by more than a few.
                open.remove(at).map(|(_, sequence)| sequence)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_ours_find_the_sequence_across_two_to_the_32() {
        let mut keys = TxKeys::ours();
        keys.sent((1 << 32) + 3);
        assert_eq!(keys.returned(u32::MAX), Some((1 << 32) - 1));
        assert_eq!(keys.returned(3), Some((1 << 32) + 3));
    }

    #[test]
    fn counted_keys_belong_to_the_packets_in_the_order_of_sending() {
        let mut keys = TxKeys::counted();
        for sequence in [0, 64, 128] {
            assert_eq!(keys.key(sequence), None);
            keys.sent(sequence);
        }
        assert_eq!(keys.returned(1), Some(64));
        assert_eq!(keys.returned(0), Some(0));
        assert_eq!(keys.returned(1), None);
        assert_eq!(keys.returned(2), Some(128));
    }
}
