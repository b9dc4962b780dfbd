use crate::{BitRate, Bytes, PacketRate, Span};

/// A rate as a fraction, so that 3 packets a second or 7.2 us a packet are both exact: `packets` in every `span_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(deny_unknown_fields))]
pub struct Pace {
    /// Packets in each span.
    pub packets: u64,
    /// The span, in ns.
    pub span_ns: u64,
}

impl Pace {
    /// `rate` packets a second.
    #[must_use]
    pub const fn of_rate(rate: PacketRate) -> Self {
        Self { packets: rate.as_packet_per_s(), span_ns: 1_000_000_000 }
    }

    /// One packet every `gap`.
    #[must_use]
    pub const fn of_gap(gap: Span) -> Self {
        Self { packets: 1, span_ns: gap.as_nanos_unsigned() }
    }

    /// The pace at which packets of `packet` bytes make `rate`; the layer of both is the caller's.
    ///
    /// ```
    /// use vtare_units::{BitRate, Bytes, Pace};
    /// let pace = Pace::of_bit_rate(BitRate::from_bit_per_s(1_000_000_000), Bytes::new(1500));
    /// assert_eq!(pace.offset_ns(2), Some(24_000));
    /// ```
    #[must_use]
    pub const fn of_bit_rate(rate: BitRate, packet: Bytes) -> Self {
        Self { packets: rate.as_bit_per_s(), span_ns: packet.bits().saturating_mul(1_000_000_000) }
    }

    /// When packet `number`, counted from 0, is due after the start, in ns rounded down; `None` off the scale or at no
    /// rate.
    #[must_use]
    pub const fn offset_ns(self, number: u64) -> Option<u64> {
        if self.packets == 0 {
            return None;
        }
        let offset = number as u128 * self.span_ns as u128 / self.packets as u128;
        if offset > i64::MAX as u128 { None } else { Some(offset as u64) }
    }

    /// Packets a second.
    #[must_use]
    pub fn packet_per_s(self) -> f64 {
        self.packets as f64 * 1e9 / self.span_ns as f64
    }
}
