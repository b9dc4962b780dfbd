use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::error::BpfError;
use super::map::{Map, Pages, page_byte};
use super::map_shape::MapKind;

/// Not yet written to its end.
const BUSY: u32 = 1 << 31;
/// Given up by its writer.
const DISCARDED: u32 = 1 << 30;
const HEADER_BYTE: usize = 8;

/// The reading end of a ring buffer map: records in the order in which programs reserved them.
///
/// Its descriptor ([`AsFd`]) becomes readable when a record comes, where the program did not ask for silence.
//= Linux Documentation/bpf/ringbuf.rst; kernel/bpf/ringbuf.c
#[derive(Debug)]
pub struct RingBuffer {
    map: Map,
    consumer: Pages,
    producer: Pages,
    /// Bytes of the data, a power of two; it is mapped twice in a row, so that no record is ever in two parts.
    size: usize,
    page: usize,
}

impl RingBuffer {
    /// Takes a map of the kind [`MapKind::RingBuffer`].
    ///
    /// # Errors
    /// For other maps, and where the kernel refuses.
    pub fn new(map: Map) -> Result<Self, BpfError> {
        let shape = map.shape();
        if shape.kind != MapKind::RingBuffer {
            let found = format!("the map {} is no ring buffer", map.name());
            return Err(BpfError::Object { file: map.name().to_owned(), found });
        }
        let (size, page) = (shape.most_entries as usize, page_byte());
        let refused =
            |source| BpfError::of(source, format!("map the ring buffer {}", map.name()), "CAP_BPF", "Linux 5.8");
        let consumer = Pages::map(map.owned(), page, 0, true).map_err(refused)?;
        let producer = Pages::map(map.owned(), page + 2 * size, page, false).map_err(refused)?;
        Ok(Self { map, consumer, producer, size, page })
    }

    /// Gives every record that is there to `sink`, and the room back to the programs; how many there were.
    pub fn drain(&mut self, sink: &mut dyn FnMut(&[u8])) -> usize {
        // Only this end writes it.
        let mut at = self.consumed().load(Ordering::Relaxed);
        let mut records = 0;
        loop {
            let end = self.produced().load(Ordering::Acquire);
            if at >= end {
                return records;
            }
            while at < end {
                let offset = at as usize & (self.size - 1);
                let length = self.length_at(offset).load(Ordering::Acquire);
                if length & BUSY != 0 {
                    return records;
                }
                let byte = (length & !DISCARDED) as usize;
                if length & DISCARDED == 0 {
                    sink(self.record(offset + HEADER_BYTE, byte));
                    records += 1;
                }
                at += (byte + HEADER_BYTE).next_multiple_of(8) as u64;
                // After the record has been read: from here on it may be written over.
                self.consumed().store(at, Ordering::Release);
            }
        }
    }

    fn consumed(&self) -> &AtomicU64 {
        // SAFETY: the first word of the page that holds the reader's place; mapped as long as `self`, used atomically
        // by both sides.
        unsafe { &*self.consumer.address.cast::<AtomicU64>() }
    }

    fn produced(&self) -> &AtomicU64 {
        // SAFETY: the first word of the page that holds the writers' place; it is only loaded from.
        unsafe { &*self.producer.address.cast::<AtomicU64>() }
    }

    fn length_at(&self, offset: usize) -> &AtomicU32 {
        assert!(offset < self.size && offset.is_multiple_of(8));
        // SAFETY: the data follows the first page; the offset was checked against its size.
        let at = unsafe { self.producer.address.add(self.page + offset) };
        // SAFETY: aligned, mapped as long as `self`, and only loaded from; a place that the kernel keeps outside of
        // records.
        unsafe { &*at.cast::<AtomicU32>() }
    }

    fn record(&self, offset: usize, byte: usize) -> &[u8] {
        assert!(offset + byte <= 2 * self.size);
        // SAFETY: the data is mapped twice in a row; the offset was checked.
        let at = unsafe { self.producer.address.add(self.page + offset) };
        // SAFETY: within the mapping; the kernel writes no more to a finished record until the reader's place has
        // passed it, which `drain` does only after the borrow has ended.
        unsafe { std::slice::from_raw_parts(at, byte) }
    }
}

impl AsFd for RingBuffer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}
