use crate::segments::Segments;

/// Frames on their way, in memory that is used again. Each is kept until the last of its packets has left.
#[derive(Debug)]
pub(super) struct Store {
    slots: Vec<Slot>,
    free: Vec<u32>,
    held_byte: usize,
    most_byte: usize,
}

#[derive(Debug, Default)]
struct Slot {
    bytes: Vec<u8>,
    segments: Option<Segments>,
    users: u32,
}

impl Store {
    /// A store that is over its limit above `most_byte` bytes of frames.
    pub(super) const fn new(most_byte: usize) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), held_byte: 0, most_byte }
    }

    /// A place with what `write` puts into it, and one user.
    pub(super) fn take(&mut self, segments: Option<Segments>, write: impl FnOnce(&mut Vec<u8>)) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        let slot = &mut self.slots[index as usize];
        (slot.segments, slot.users) = (segments, 1);
        write(&mut slot.bytes);
        self.held_byte += slot.bytes.len();
        index
    }

    /// One more user of a place.
    pub(super) fn share(&mut self, slot: u32) {
        self.slots[slot as usize].users += 1;
    }

    /// One user less; the last one frees the place.
    pub(super) fn release(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.users -= 1;
        if slot.users == 0 {
            self.held_byte -= slot.bytes.len();
            slot.bytes.clear();
            self.free.push(index);
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.held_byte > self.most_byte
    }

    pub(super) fn get(&self, slot: u32) -> &[u8] {
        &self.slots[slot as usize].bytes
    }

    pub(super) fn segments(&self, slot: u32) -> Option<&Segments> {
        self.slots[slot as usize].segments.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_when_their_last_user_is_gone_and_their_bytes_are_counted() {
        let mut store = Store::new(5);
        let first = store.take(None, |into| into.extend_from_slice(b"abcd"));
        assert!(!store.is_over());
        store.share(first);
        let second = store.take(None, |into| into.extend_from_slice(b"xy"));
        assert!(store.is_over() && store.get(second) == b"xy" && store.get(first) == b"abcd");
        store.release(first);
        assert!(store.is_over() && store.get(first) == b"abcd");
        store.release(first);
        assert!(!store.is_over());
        assert_eq!(store.take(None, |into| into.push(b'z')), first);
        assert_eq!(store.get(first), b"z");
    }
}
