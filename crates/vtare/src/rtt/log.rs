//! What the sending thread writes down, and how it reaches the thread that keeps the books.
//!
//! The sending thread only appends to memory that is there already. Bookkeeping (a window of packets, histograms,
//! Parquet) is for the other thread, and at high rates for the time after the run: on a machine of two CPUs it would
//! take the responder's.

use std::sync::mpsc::{Receiver, Sender};

use vtare_methods::rtt::{Answer, FarEnd, Sent, Unsent};
use vtare_units::{Monotonic, Timestamp};

/// Entries of each kind in a page.
pub(super) const PAGE: usize = 1 << 14;

/// A slot that was logged.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotEntry {
    pub(super) lane: u32,
    pub(super) slot: Result<Sent, (u64, Timestamp<Monotonic>, Unsent)>,
}

/// A reply.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplyEntry {
    pub(super) lane: u32,
    pub(super) answer: Answer,
}

/// A stamped departure.
#[derive(Clone, Copy, Debug)]
pub(super) struct DepartureEntry {
    pub(super) lane: u32,
    pub(super) sequence: u64,
    pub(super) at: Timestamp<Monotonic>,
}

/// Entries in the order of each kind. A page's slots were logged before its departures and replies.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) slots: Vec<SlotEntry>,
    pub(super) departures: Vec<DepartureEntry>,
    pub(super) replies: Vec<ReplyEntry>,
    /// When it was closed.
    pub(super) until: Timestamp<Monotonic>,
}

impl Page {
    /// An empty page whose memory has been touched: the first touch costs a fault, which would be measured.
    pub(super) fn fresh() -> Self {
        let nothing = Timestamp::ZERO;
        let slot = SlotEntry { lane: 1, slot: Ok(Sent { sequence: 1, scheduled: nothing, sent: nothing }) };
        let answer = Answer { sequence: 1, arrived: nothing, kernel_rx: None, far_end: FarEnd::default() };
        let mut page = Self {
            slots: vec![slot; PAGE],
            departures: vec![DepartureEntry { lane: 1, sequence: 1, at: nothing }; PAGE],
            replies: vec![ReplyEntry { lane: 1, answer }; PAGE],
            until: nothing,
        };
        page.clear();
        page
    }

    /// Empties it and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.departures.clear();
        self.replies.clear();
    }

    fn is_full(&self) -> bool {
        // One batch of any kind must still fit.
        let room = PAGE - 256;
        self.slots.len() >= room || self.departures.len() >= room || self.replies.len() >= room
    }

    fn is_empty(&self) -> bool {
        self.slots.is_empty() && self.departures.is_empty() && self.replies.is_empty()
    }
}

/// The sending thread's end.
#[derive(Debug)]
pub(super) struct Log {
    page: Page,
    full: Sender<Page>,
    empty: Receiver<Page>,
}

impl Log {
    /// A log that hands full pages to one channel and takes empty ones from another.
    pub(super) fn new(full: Sender<Page>, empty: Receiver<Page>) -> Self {
        Self { page: Page::fresh(), full, empty }
    }

    /// The page at hand.
    pub(super) fn page(&mut self) -> &mut Page {
        &mut self.page
    }

    /// Hands the page over where it is full.
    pub(super) fn turn_if_full(&mut self, now: Timestamp<Monotonic>) {
        if self.page.is_full() {
            self.turn(now);
        }
    }

    /// Hands the page over, whatever is on it.
    pub(super) fn turn(&mut self, now: Timestamp<Monotonic>) {
        if self.page.is_empty() {
            return;
        }
        let next = self.empty.try_recv().unwrap_or_else(|_| Page::fresh());
        let mut page = std::mem::replace(&mut self.page, next);
        page.until = now;
        // Nobody listens any more: the run has failed elsewhere, and the error is reported there.
        let _ = self.full.send(page);
    }
}
