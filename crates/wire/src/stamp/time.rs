//! Time stamps and their error estimates.

/// Seconds from 1900 (NTP's epoch) to 1970.
const NTP_TO_UNIX_S: u64 = 2_208_988_800;

/// How the 64 bits of a time stamp are to be read; bit Z of the error estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TimeFormat {
    /// Seconds since 1900 and a binary fraction (Z = 0), which every reflector must understand.
    #[default]
    Ntp,
    /// Seconds since 1970 and nanoseconds, truncated PTP (Z = 1).
    Ptp,
}

/// A time stamp of 64 bits with the format it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Time {
    /// The bits as sent.
    pub bits: u64,
    /// What they mean.
    pub format: TimeFormat,
}

impl Time {
    /// `unix_ns` nanoseconds since 1970, in `format`. Seconds wrap as the formats do (NTP in 2036, PTP in 2106).
    #[must_use]
    pub const fn from_unix_ns(unix_ns: u64, format: TimeFormat) -> Self {
        let (seconds, nanos) = (unix_ns / 1_000_000_000, unix_ns % 1_000_000_000);
        let bits = match format {
            // Rounded up, so that reading it back gives the same nanosecond.
            TimeFormat::Ntp => (seconds + NTP_TO_UNIX_S) << 32 | (nanos << 32).div_ceil(1_000_000_000),
            TimeFormat::Ptp => seconds << 32 | nanos,
        };
        Self { bits, format }
    }

    /// Nanoseconds since 1970; NTP seconds are taken from the era 1968 to 2104. `None` for a PTP stamp with more than
    /// 999,999,999 ns.
    #[must_use]
    pub const fn unix_ns(self) -> Option<u64> {
        let (seconds, rest) = (self.bits >> 32, self.bits & 0xffff_ffff);
        match self.format {
            TimeFormat::Ntp => {
                // RFC 4330, 3: with the top bit clear the stamp lies in the era that begins in 2036.
                let era = if seconds & 0x8000_0000 == 0 { 1 << 32 } else { 0 };
                match (seconds + era).checked_sub(NTP_TO_UNIX_S) {
                    Some(unix) => Some(unix * 1_000_000_000 + ((rest * 1_000_000_000) >> 32)),
                    None => None,
                }
            }
            TimeFormat::Ptp if rest < 1_000_000_000 => Some(seconds * 1_000_000_000 + rest),
            TimeFormat::Ptp => None,
        }
    }
}

/// How well a stamp's clock is known: RFC 8762, 4.2.1, after RFC 4656, 4.1.2. The format bit is kept in [`Time`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ErrorEstimate {
    /// The clock is synchronized to UTC by an outside source.
    pub synchronized: bool,
    /// The error is `multiplier` x 2^`scale` x 2^-32 s; 6 bits.
    pub scale: u8,
    /// Never 0: a packet with 0 is to be discarded.
    pub multiplier: u8,
}

impl ErrorEstimate {
    /// The least estimate that is at least `error_ns`.
    #[must_use]
    pub fn of_ns(error_ns: u64, synchronized: bool) -> Self {
        let mut units = ((u128::from(error_ns) << 32).div_ceil(1_000_000_000)).max(1);
        let mut scale = 0;
        while units > 255 {
            units = units.div_ceil(2);
            scale += 1;
        }
        Self { synchronized, scale, multiplier: units as u8 }
    }

    /// The error in ns, rounded up; saturates.
    #[must_use]
    pub fn as_ns(self) -> u64 {
        let ns = ((u128::from(self.multiplier) << (self.scale & 0x3f)) * 1_000_000_000).div_ceil(1 << 32);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    pub(super) const fn to_bits(self, format: TimeFormat) -> u16 {
        let z = match format {
            TimeFormat::Ntp => 0,
            TimeFormat::Ptp => 1 << 14,
        };
        (self.synchronized as u16) << 15 | z | ((self.scale & 0x3f) as u16) << 8 | self.multiplier as u16
    }

    pub(super) const fn from_bits(bits: u16) -> (Self, TimeFormat) {
        let format = if bits & 1 << 14 == 0 { TimeFormat::Ntp } else { TimeFormat::Ptp };
        let estimate = Self { synchronized: bits >> 15 == 1, scale: (bits >> 8 & 0x3f) as u8, multiplier: bits as u8 };
        (estimate, format)
    }
}
