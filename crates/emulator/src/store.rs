/// Frames on their way, in memory that is used again.
#[derive(Debug)]
pub(super) struct Store {
    slots: Vec<Vec<u8>>,
    free: Vec<u32>,
    held_byte: usize,
    most_byte: usize,
}

impl Store {
    /// A store that is over its limit above `most_byte` bytes of frames.
    pub(super) const fn new(most_byte: usize) -> Self {
        Self { slots: Vec::new(), free: Vec::new(), held_byte: 0, most_byte }
    }

    /// A place with what `write` puts into it.
    pub(super) fn take(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Vec::with_capacity(2_048));
            (self.slots.len() - 1) as u32
        });
        let bytes = &mut self.slots[slot as usize];
        write(bytes);
        self.held_byte += bytes.len();
        slot
    }

    /// A place with the same bytes.
    pub(super) fn copy(&mut self, slot: u32) -> u32 {
        let bytes = std::mem::take(&mut self.slots[slot as usize]);
        let copy = self.take(|into| into.extend_from_slice(&bytes));
        self.slots[slot as usize] = bytes;
        copy
    }

    pub(super) fn free(&mut self, slot: u32) {
        let bytes = &mut self.slots[slot as usize];
        self.held_byte -= bytes.len();
        bytes.clear();
        self.free.push(slot);
    }

    pub(super) fn is_over(&self) -> bool {
        self.held_byte > self.most_byte
    }

    pub(super) fn get(&self, slot: u32) -> &[u8] {
        &self.slots[slot as usize]
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> &mut [u8] {
        &mut self.slots[slot as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_and_their_bytes_are_counted() {
        let mut store = Store::new(5);
        let first = store.take(|into| into.extend_from_slice(b"abcd"));
        assert!(!store.is_over());
        let copy = store.copy(first);
        assert!(store.is_over() && store.get(copy) == b"abcd" && store.get(first) == b"abcd");
        store.get_mut(copy)[0] = b'x';
        assert_eq!(store.get(first), b"abcd");
        store.free(first);
        assert!(!store.is_over());
        assert_eq!((store.take(|into| into.push(b'y')), store.get(first)), (first, &b"y"[..]));
    }
}
