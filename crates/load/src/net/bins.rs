use std::collections::VecDeque;

use vtare_units::{Monotonic, Span, Timestamp};

/// Packets of a short time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetBin {
    /// Its start on CLOCK_MONOTONIC, ns: a multiple of its length, so that bins of several programs lie side by side.
    pub monotonic_ns: u64,
    /// Bytes of IP packets.
    pub ip_byte: u64,
    /// Packets.
    pub packets: u64,
}

/// Bins that are still open.
#[derive(Debug)]
pub(super) struct Bins {
    length_ns: u64,
    first_ns: u64,
    open: VecDeque<NetBin>,
}

impl Bins {
    pub(super) fn new(length: Span, start: Timestamp<Monotonic>) -> Self {
        let length_ns = length.as_nanos_unsigned().max(1);
        Self { length_ns, first_ns: start.as_nanos() / length_ns * length_ns, open: VecDeque::new() }
    }

    /// Counts packets at a time. One from before all open bins goes into the first of them.
    pub(super) fn add(&mut self, at: Timestamp<Monotonic>, packets: u64, ip_byte: u64) {
        let index = at.as_nanos().saturating_sub(self.first_ns) / self.length_ns;
        self.open_until(self.first_ns + (index + 1) * self.length_ns);
        if let Some(bin) = self.open.get_mut(index as usize) {
            bin.packets += packets;
            bin.ip_byte += ip_byte;
        }
    }

    fn open_until(&mut self, end_ns: u64) {
        while self.first_ns + self.open.len() as u64 * self.length_ns < end_ns {
            let monotonic_ns = self.first_ns + self.open.len() as u64 * self.length_ns;
            self.open.push_back(NetBin { monotonic_ns, ..NetBin::default() });
        }
    }

    /// Gives every bin that ends by `until`, empty ones too: nothing more can come for them.
    pub(super) fn close(&mut self, until: Timestamp<Monotonic>, each: &mut dyn FnMut(NetBin)) {
        while self.first_ns + self.length_ns <= until.as_nanos() {
            self.open_until(self.first_ns + self.length_ns);
            if let Some(bin) = self.open.pop_front() {
                each(bin);
            }
            self.first_ns += self.length_ns;
        }
    }

    /// Gives all that is left, up to and with the bin of `end`.
    pub(super) fn close_all(mut self, end: Timestamp<Monotonic>, each: &mut dyn FnMut(NetBin)) {
        self.open_until(end.as_nanos());
        self.open.into_iter().for_each(each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_lie_on_multiples_and_none_is_left_out() {
        let at = Timestamp::from_nanos;
        let mut bins = Bins::new(Span::from_nanos(100), at(1_234));
        let mut closed = Vec::new();
        bins.add(at(1_299), 2, 20);
        bins.add(at(1_550), 1, 10);
        bins.add(at(1_100), 1, 5);
        bins.close(at(1_399), &mut |bin| closed.push((bin.monotonic_ns, bin.packets, bin.ip_byte)));
        assert_eq!(closed, [(1_200, 3, 25)]);
        bins.close_all(at(1_601), &mut |bin| closed.push((bin.monotonic_ns, bin.packets, bin.ip_byte)));
        assert_eq!(closed, [(1_200, 3, 25), (1_300, 0, 0), (1_400, 0, 0), (1_500, 1, 10), (1_600, 0, 0)]);
    }
}
