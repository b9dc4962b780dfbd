use vtare_units::{Monotonic, Peer, Span, Timestamp};

use super::record::Record;
use super::series::Series;

/// Variation of one-way delay between neighbours: the clocks' offset cancels, and their drift does for all that matters
/// in one gap.
//= RFC 3393, 2.4 (ipdv), with consecutive packets of the stream as the selection
#[derive(Clone, Debug)]
pub(super) struct Variation {
    pub(super) forward: Series,
    pub(super) reverse: Series,
    last: Option<Neighbour>,
}

#[derive(Clone, Copy, Debug)]
struct Neighbour {
    sequence: u64,
    /// Program's and kernel's stamps: two packets are compared by stamps of the same kind only.
    sent: Timestamp<Monotonic>,
    kernel_tx: Option<Timestamp<Monotonic>>,
    arrived: Timestamp<Monotonic>,
    kernel_rx: Option<Timestamp<Monotonic>>,
    there: Timestamp<Peer>,
    back: Timestamp<Peer>,
}

impl Variation {
    pub(super) fn new(exact_samples: usize) -> Self {
        Self { forward: Series::new(exact_samples), reverse: Series::new(exact_samples), last: None }
    }

    /// Takes the records of received packets in the order of their numbers.
    pub(super) fn add(&mut self, record: &Record) {
        let now = Neighbour::of(record);
        if let (Some(last), Some(now)) = (self.last, now)
            && last.sequence + 1 == now.sequence
        {
            let left = gap(last.kernel_tx, now.kernel_tx).unwrap_or(now.sent - last.sent);
            let came = gap(last.kernel_rx, now.kernel_rx).unwrap_or(now.arrived - last.arrived);
            self.forward.add(((now.there - last.there) - left).abs().as_nanos());
            self.reverse.add((came - (now.back - last.back)).abs().as_nanos());
        }
        self.last = now;
    }
}

impl Neighbour {
    fn of(record: &Record) -> Option<Self> {
        Some(Self {
            sequence: record.sequence,
            sent: record.sent?,
            kernel_tx: record.kernel_tx,
            arrived: record.arrived?,
            kernel_rx: record.kernel_rx,
            there: record.far_end.received?,
            back: record.far_end.replied?,
        })
    }
}

fn gap(last: Option<Timestamp<Monotonic>>, now: Option<Timestamp<Monotonic>>) -> Option<Span> {
    Some(now? - last?)
}
