use std::io::{ErrorKind, Read};

use super::format::PcapError;

/// Bytes read from the input at a time.
const CHUNK: usize = 1 << 16;

/// Input as a stream of items of known length, each of which lies in memory as a whole while it is checked.
#[derive(Debug)]
pub(super) struct Source<R> {
    input: R,
    /// `buffer[begin..]` is what was read and not yet taken.
    buffer: Vec<u8>,
    begin: usize,
    /// Offset of `buffer[begin]` in the file.
    offset: u64,
    /// Where the last item began in the buffer.
    item: usize,
    ended: bool,
}

impl<R: Read> Source<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, buffer: Vec::new(), begin: 0, offset: 0, item: 0, ended: false }
    }

    /// How many bytes were taken so far: where the next item begins in the file.
    pub(super) const fn offset(&self) -> u64 {
        self.offset
    }

    /// Memory that it holds.
    #[cfg(test)]
    pub(super) const fn held_byte(&self) -> usize {
        self.buffer.capacity()
    }

    /// Offset behind all that was read.
    pub(super) fn end(&self) -> u64 {
        self.offset + (self.buffer.len() - self.begin) as u64
    }

    /// Looks at the next `length` bytes; `None` where the input ends before.
    pub(super) fn peek(&mut self, length: usize) -> Result<Option<&[u8]>, PcapError> {
        while self.buffer.len() - self.begin < length && !self.ended {
            self.fill(length)?;
        }
        Ok(self.buffer.get(self.begin..self.begin + length))
    }

    /// Takes the next `length` bytes as an item of its own.
    pub(super) fn take(&mut self, length: usize) -> Result<Option<&[u8]>, PcapError> {
        if self.peek(length)?.is_none() {
            return Ok(None);
        }
        self.item = self.begin;
        self.begin += length;
        self.offset += length as u64;
        Ok(Some(&self.buffer[self.item..self.begin]))
    }

    /// `length` bytes from `at` on in the last item.
    pub(super) fn part(&self, at: usize, length: usize) -> &[u8] {
        let from = self.item + at;
        self.buffer.get(from..from + length).unwrap_or_default()
    }

    fn fill(&mut self, length: usize) -> Result<(), PcapError> {
        // What was taken is not used any more once more is read.
        self.buffer.drain(..self.begin);
        self.begin = 0;
        let there = self.buffer.len();
        // Grows with what is really there: a broken length of 16 MiB alone takes no memory.
        let more = CHUNK.max((length - there.min(length)).min(there.max(CHUNK)));
        self.buffer.resize(there + more, 0);
        let got = loop {
            match self.input.read(&mut self.buffer[there..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.buffer.truncate(there + got.as_ref().map_or(0, |&got| got));
        match got {
            Ok(0) => self.ended = true,
            Ok(_) => {}
            Err(source) => return Err(PcapError::Read { offset: self.end(), source }),
        }
        Ok(())
    }
}

/// The byte order of whoever wrote the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

impl Order {
    pub(super) fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let found = bytes.get(at..at + 2).and_then(|slice| slice.try_into().ok()).unwrap_or_default();
        match self {
            Self::Little => u16::from_le_bytes(found),
            Self::Big => u16::from_be_bytes(found),
        }
    }

    pub(super) fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let found = bytes.get(at..at + 4).and_then(|slice| slice.try_into().ok()).unwrap_or_default();
        match self {
            Self::Little => u32::from_le_bytes(found),
            Self::Big => u32::from_be_bytes(found),
        }
    }

    pub(super) fn u64(self, bytes: &[u8], at: usize) -> u64 {
        let found = bytes.get(at..at + 8).and_then(|slice| slice.try_into().ok()).unwrap_or_default();
        match self {
            Self::Little => u64::from_le_bytes(found),
            Self::Big => u64::from_be_bytes(found),
        }
    }
}
