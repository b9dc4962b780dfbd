use std::io;
use std::marker::PhantomData;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::bpf::Pages;

/// One of the four rings between this process and the kernel: one end writes entries, the other takes them, each end
/// owns its index.
///
/// Entries are 8 B (addresses) or 16 B (descriptors) and have no bytes that belong to no field.
#[derive(Debug)]
pub(super) struct Ring<T> {
    pages: Pages,
    producer: usize,
    consumer: usize,
    flags: usize,
    entries_at: usize,
    entries: u32,
    /// This end's index.
    own: u32,
    /// The other end's, as it was last read.
    other: u32,
    _entry: PhantomData<T>,
}

impl<T: Copy> Ring<T> {
    /// Maps a ring of `entries`, a power of two.
    pub(super) fn map(fd: &OwnedFd, offsets: &libc::xdp_ring_offset, place: usize, entries: u32) -> io::Result<Self> {
        assert!(entries.is_power_of_two());
        let entries_at = offsets.desc as usize;
        let pages = Pages::map(fd, entries_at + entries as usize * size_of::<T>(), place, true)?;
        let fields = [offsets.producer, offsets.consumer, offsets.flags].map(|offset| offset as usize);
        let [producer, consumer, flags] = fields;
        if fields.iter().any(|offset| !offset.is_multiple_of(4) || offset + 4 > entries_at)
            || !entries_at.is_multiple_of(align_of::<T>())
        {
            return Err(io::Error::other("the kernel's ring has an unknown layout"));
        }
        Ok(Self { pages, producer, consumer, flags, entries_at, entries, own: 0, other: 0, _entry: PhantomData })
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: `map` has checked that the word lies within the mapping.
        let at = unsafe { self.pages.address.add(offset) };
        // SAFETY: aligned, as `map` has checked; the mapping lives as long as `self`, and both ends use it atomically.
        unsafe { &*at.cast::<AtomicU32>() }
    }

    fn place(&self, index: u32) -> *mut T {
        let at = self.entries_at + (index & (self.entries - 1)) as usize * size_of::<T>();
        // SAFETY: the mask keeps it within the mapping.
        unsafe { self.pages.address.add(at).cast::<T>() }
    }

    /// Whether the kernel wants to be called before it goes on.
    pub(super) fn wants_call(&self) -> bool {
        self.word(self.flags).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    // For rings that this process writes.

    /// Entries that can be put.
    pub(super) fn room(&mut self) -> u32 {
        self.other = self.word(self.consumer).load(Ordering::Acquire);
        self.entries - self.own.wrapping_sub(self.other)
    }

    /// Puts an entry, which the kernel sees with [`Ring::publish`]. There must be room.
    pub(super) fn put(&mut self, entry: T) {
        debug_assert!(self.own.wrapping_sub(self.other) < self.entries);
        // SAFETY: a place within the mapping, aligned for `T`; the kernel does not read it before it is published.
        unsafe { self.place(self.own).write(entry) };
        self.own = self.own.wrapping_add(1);
    }

    /// Gives the kernel what was put.
    pub(super) fn publish(&self) {
        self.word(self.producer).store(self.own, Ordering::Release);
    }

    /// Entries that the kernel has not taken yet.
    pub(super) fn waiting(&mut self) -> u32 {
        self.entries - self.room()
    }

    // For rings that the kernel writes.

    /// Entries that can be taken.
    pub(super) fn ready(&mut self) -> u32 {
        self.other = self.word(self.producer).load(Ordering::Acquire);
        self.other.wrapping_sub(self.own).min(self.entries)
    }

    /// The next entry; its place is given back with [`Ring::release`]. There must be one.
    pub(super) fn take(&mut self) -> T {
        debug_assert!(self.other != self.own);
        // SAFETY: a place within the mapping, aligned for `T`, which the kernel has published and does not write before
        // it is released; every pattern of bits is a value of the two types of entries.
        let entry = unsafe { self.place(self.own).read() };
        self.own = self.own.wrapping_add(1);
        entry
    }

    /// Gives the places back.
    pub(super) fn release(&self) {
        self.word(self.consumer).store(self.own, Ordering::Release);
    }
}
