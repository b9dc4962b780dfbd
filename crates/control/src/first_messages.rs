use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};

use crate::channel::HANDSHAKE_BYTE;

/// Messages that are remembered: those of an hour at four connections a second. 16 B each, and as much again for the
/// set.
const MOST: usize = 16_384;

/// The first handshake messages that came before. Whoever records one can send a copy, which the key fits, too; it
/// could not go on from there, but would take one of the places that are for clients with the key.
///
/// Only valid messages are remembered: who has not the key cannot make others be forgotten.
#[derive(Debug, Default)]
pub struct FirstMessages(RefCell<Memory>);

#[derive(Debug, Default)]
struct Memory {
    set: HashSet<u64>,
    /// In the order in which they came.
    order: VecDeque<u64>,
}

impl FirstMessages {
    /// Whether this valid message has not come before, among the last 16,384.
    #[must_use]
    pub fn is_first(&self, message: &[u8]) -> bool {
        // It begins with the client's ephemeral key, which is random; a message that shares 8 B with another one is a
        // copy of it.
        let Some(start) = message.get(..HANDSHAKE_BYTE).and_then(|message| message.first_chunk()) else { return false };
        let start = u64::from_be_bytes(*start);
        let Memory { set, order } = &mut *self.0.borrow_mut();
        if !set.insert(start) {
            return false;
        }
        order.push_back(start);
        if order.len() > MOST
            && let Some(oldest) = order.pop_front()
        {
            set.remove(&oldest);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: u64) -> [u8; HANDSHAKE_BYTE] {
        let mut message = [0; HANDSHAKE_BYTE];
        message[..8].copy_from_slice(&number.to_be_bytes());
        message
    }

    #[test]
    fn a_message_is_new_once_and_the_memory_is_bounded() {
        let seen = FirstMessages::default();
        assert!((0..MOST as u64).all(|number| seen.is_first(&message(number))));
        assert!((0..MOST as u64).all(|number| !seen.is_first(&message(number))));
        assert!(seen.is_first(&message(u64::MAX)));
        let memory = seen.0.borrow();
        assert_eq!((memory.set.len(), memory.order.len()), (MOST, MOST));
    }
}
