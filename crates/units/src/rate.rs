use core::ops::{Add, Sub};

use crate::Span;

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Bytes(u64);

impl Bytes {
    /// `count` bytes.
    #[must_use]
    pub const fn new(count: u64) -> Self {
        Self(count)
    }

    /// The number of bytes.
    #[must_use]
    pub const fn count(self) -> u64 {
        self.0
    }

    /// The number of bits; saturates.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0.saturating_mul(8)
    }
}

impl Add for Bytes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Bytes {
    type Output = Self;
    /// Saturates at 0.
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

/// A rate of data in whole bit/s. The layer that is counted belongs to the name of the variable (`ip_rate`,
/// `wire_rate`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct BitRate(u64);

impl BitRate {
    /// A rate of `bit_per_s` bit/s.
    #[must_use]
    pub const fn from_bit_per_s(bit_per_s: u64) -> Self {
        Self(bit_per_s)
    }

    /// The rate in bit/s.
    #[must_use]
    pub const fn as_bit_per_s(self) -> u64 {
        self.0
    }

    /// The rate that carries `bytes` in `span`, rounded down; `None` where `span` is not above zero.
    ///
    /// 1500 B in 12 us is 1 Gbit/s:
    ///
    /// ```
    /// use vtare_units::{BitRate, Bytes, Span};
    /// let rate = BitRate::of(Bytes::new(1500), Span::from_micros(12));
    /// assert_eq!(rate, Some(BitRate::from_bit_per_s(1_000_000_000)));
    /// ```
    #[must_use]
    pub const fn of(bytes: Bytes, span: Span) -> Option<Self> {
        match per_second(bytes.0 as u128 * 8, span) {
            Some(rate) => Some(Self(rate)),
            None => None,
        }
    }

    /// The time that `bytes` need at this rate, rounded up; `None` at rate 0 or beyond 292 years.
    #[must_use]
    pub const fn time_for(self, bytes: Bytes) -> Option<Span> {
        time_for(bytes.0 as u128 * 8, self.0)
    }
}

/// A rate of packets in whole packet/s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct PacketRate(u64);

impl PacketRate {
    /// A rate of `packet_per_s` packet/s.
    #[must_use]
    pub const fn from_packet_per_s(packet_per_s: u64) -> Self {
        Self(packet_per_s)
    }

    /// The rate in packet/s.
    #[must_use]
    pub const fn as_packet_per_s(self) -> u64 {
        self.0
    }

    /// The rate of `packets` in `span`, rounded down; `None` where `span` is not above zero.
    #[must_use]
    pub const fn of(packets: u64, span: Span) -> Option<Self> {
        match per_second(packets as u128, span) {
            Some(rate) => Some(Self(rate)),
            None => None,
        }
    }

    /// The gap from one packet to the next, rounded up; `None` at rate 0.
    ///
    /// ```
    /// use vtare_units::{PacketRate, Span};
    /// assert_eq!(PacketRate::from_packet_per_s(1_000).gap(), Some(Span::from_millis(1)));
    /// ```
    #[must_use]
    pub const fn gap(self) -> Option<Span> {
        time_for(1, self.0)
    }
}

/// `units` in `span` as a rate per second, saturating.
const fn per_second(units: u128, span: Span) -> Option<u64> {
    if span.as_nanos() <= 0 {
        return None;
    }
    let rate = units.saturating_mul(1_000_000_000) / span.as_nanos() as u128;
    Some(if rate > u64::MAX as u128 { u64::MAX } else { rate as u64 })
}

/// The time for `units` at `per_s` a second, rounded up.
const fn time_for(units: u128, per_s: u64) -> Option<Span> {
    if per_s == 0 {
        return None;
    }
    let nanos = units.saturating_mul(1_000_000_000).div_ceil(per_s as u128);
    if nanos > i64::MAX as u128 { None } else { Some(Span::from_nanos(nanos as i64)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_time_gives_no_rate_and_no_rate_takes_no_time() {
        assert_eq!(BitRate::of(Bytes::new(1), Span::ZERO), None);
        assert_eq!(BitRate::of(Bytes::new(1), Span::from_nanos(-5)), None);
        assert_eq!(BitRate::from_bit_per_s(0).time_for(Bytes::new(1)), None);
        assert_eq!(PacketRate::from_packet_per_s(0).gap(), None);
    }

    #[test]
    fn a_rate_off_the_scale_saturates() {
        assert_eq!(BitRate::of(Bytes::new(u64::MAX), Span::from_nanos(1)), Some(BitRate(u64::MAX)));
        assert_eq!(Bytes::new(u64::MAX).bits(), u64::MAX);
        assert_eq!(Bytes::new(3) - Bytes::new(5), Bytes::new(0));
    }

    proptest! {
        #[test]
        fn sending_at_the_rate_found_takes_at_least_the_time_measured(
            bytes in 1_u64..1 << 40,
            nanos in 1_i64..1 << 40,
        ) {
            let span = Span::from_nanos(nanos);
            let rate = BitRate::of(Bytes::new(bytes), span).expect("span is above zero");
            if let Some(back) = rate.time_for(Bytes::new(bytes)) {
                // The rate was rounded down, the time rounded up.
                prop_assert!(back >= span);
            }
        }

        #[test]
        fn packets_and_their_gap_agree(rate in 1_u64..2_000_000_000) {
            let gap = PacketRate(rate).gap().expect("rate is above zero");
            let back = PacketRate::of(1, gap).expect("gap is above zero").as_packet_per_s();
            prop_assert!(back <= rate);
        }
    }
}
