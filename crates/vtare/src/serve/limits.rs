//! What clients of `vtare serve` may ask for: the names of `--limit`, their defaults and their ranges.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

use vtare_serve::ConnectionLimits;
use vtare_wire::session::{FlowLimits, Limits};

use crate::failure::bad_value;
use crate::nearest::nearest_three;
use crate::quantities::{bit_rate, bytes, nanoseconds};

/// All limits of one responder.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServeLimits {
    /// Those of sessions.
    pub(crate) sessions: Limits,
    /// Those of data connections over TCP.
    pub(crate) tcp: FlowLimits,
    /// Control connections that have not proved the key yet.
    pub(crate) handshakes: u16,
    /// STAMP packets that are reflected in a second.
    pub(crate) stamp_packet_per_s: u64,
    /// The rate of all connections of RPM, each direction, bit/s.
    pub(crate) rpm_bit_per_s: u64,
}

impl Default for ServeLimits {
    fn default() -> Self {
        Self {
            sessions: Limits::default(),
            tcp: FlowLimits::default(),
            handshakes: ConnectionLimits::default().handshakes.try_into().unwrap_or(u16::MAX),
            stamp_packet_per_s: 10_000,
            rpm_bit_per_s: 1_000_000_000,
        }
    }
}

/// How a value is written.
#[derive(Clone, Copy)]
enum Kind {
    Count,
    Time,
    BitRate,
    Bytes,
}

struct Entry {
    name: &'static str,
    about: &'static str,
    kind: Kind,
    range: RangeInclusive<u64>,
    get: fn(&ServeLimits) -> u64,
    /// The value is within the range.
    set: fn(&mut ServeLimits, u64),
}

macro_rules! entries {
    ($($name:literal $kind:ident $range:expr, $($field:ident).+, $about:literal;)+) => {
        [$(Entry {
            name: $name, about: $about, kind: Kind::$kind, range: $range,
            get: |limits| limits.$($field).+.into(),
            set: |limits, value| limits.$($field).+ = value.try_into().unwrap_or_default(),
        }),+]
    };
}

static ENTRIES: [Entry; 15] = entries! {
    "rate" Count 1..=u64::MAX, sessions.rate_packet_per_s, "highest rate of a session, packets/s";
    "burst" Count 1..=u64::MAX, sessions.burst_packet, "most packets of a session back to back";
    "seconds" Time 1..=u64::MAX, sessions.duration_ns, "longest session";
    "packets" Count 1..=u64::MAX, sessions.packets, "most packets of a session";
    "size" Count 18..=9000, sessions.size_byte, "largest datagram, bytes of UDP payload";
    "sessions" Count 1..=4096, sessions.sessions, "most sessions at the same time";
    "sessions-per-peer" Count 1..=4096, sessions.sessions_per_peer, "most sessions of one address at the same time";
    "idle-seconds" Time 1..=u64::MAX, sessions.idle_ns, "silence after which a session is closed";
    "arrivals" Count 0..=16_777_216, sessions.arrivals_in_all, "most arrivals of one-way probes kept in all, 24 B each";
    "reverse-seconds" Time 1..=u64::MAX, sessions.reverse_ns, "longest train sent to a client that asks for it";
    "tcp-streams" Count 1..=255, tcp.streams, "most data connections of a session (avb --method tcp)";
    "tcp-bytes" Bytes 1..=u64::MAX, tcp.byte, "most bytes of a session over TCP";
    "handshakes" Count 1..=4096, handshakes, "most connections that have not proved the key yet";
    "stamp-rate" Count 1..=1_000_000, stamp_packet_per_s, "most STAMP packets reflected in a second";
    "rpm-rate" BitRate 1..=u64::MAX, rpm_bit_per_s, "highest rate of RPM in all, each direction, bit/s";
};

impl Kind {
    fn read(self, text: &str) -> Result<u64, String> {
        match self {
            Self::Count => text.parse().map_err(|_| crate::quantities::not(text, "a whole number")),
            Self::Time => nanoseconds(text),
            Self::BitRate => bit_rate(text),
            Self::Bytes => bytes(text),
        }
    }

    fn show(self, value: u64) -> String {
        match self {
            Self::Time => format!("{}s", value as f64 / 1e9),
            _ => value.to_string(),
        }
    }
}

/// One limit with its value.
#[derive(Clone, Debug)]
pub(crate) enum Limit {
    /// `help`: list them.
    Help,
    /// The place in the table, and the value.
    Set(usize, u64),
}

/// Reads `NAME=VALUE`, or `help`.
///
/// # Errors
/// For an unknown name, with the nearest ones, and for a value that is none or outside the range.
pub(crate) fn limit(text: &str) -> Result<Limit, String> {
    if text == "help" {
        return Ok(Limit::Help);
    }
    let (name, value) = text.split_once('=').ok_or_else(|| {
        format!("'{text}' has no value: write NAME=VALUE, such as rate=5000; `--limit help` lists them")
    })?;
    let place = ENTRIES.iter().position(|entry| entry.name == name);
    let place = place.ok_or_else(|| {
        let near = nearest_three(name, ENTRIES.iter().map(|entry| entry.name));
        format!("no limit has the name '{name}'; did you mean {near}? `--limit help` lists them")
    })?;
    let entry = &ENTRIES[place];
    let value = entry.kind.read(value).map_err(|text| format!("{name}: {text}"))?;
    let (least, most) = (entry.range.start(), entry.range.end());
    match entry.range.contains(&value) {
        true => Ok(Limit::Set(place, value)),
        false if *most == u64::MAX => Err(bad_value(name, value, format_args!("{least} or more"))),
        false => Err(bad_value(name, value, format_args!("{least} to {most}"))),
    }
}

/// Where a limit of what is not served is given: the name and the option that serves it.
pub(crate) fn of_what_is_not_served(given: &[Limit], stamp: bool, rpm: bool) -> Option<(&'static str, &'static str)> {
    let names = given.iter().filter_map(|limit| match limit {
        Limit::Help => None,
        Limit::Set(place, _) => Some(ENTRIES[*place].name),
    });
    let mut needs = names.filter_map(|name| match name {
        "stamp-rate" if !stamp => Some((name, "--stamp")),
        "rpm-rate" if !rpm => Some((name, "--rpm")),
        _ => None,
    });
    needs.next()
}

/// The limits with those that were given; the last one of a name holds.
pub(crate) fn limits(given: &[Limit]) -> ServeLimits {
    given.iter().fold(ServeLimits::default(), |mut limits, limit| {
        if let Limit::Set(place, value) = limit {
            (ENTRIES[*place].set)(&mut limits, *value);
        }
        limits
    })
}

/// What `--limit help` shows: a limit a line with its value.
pub(crate) fn table(limits: &ServeLimits) -> String {
    ENTRIES.iter().fold(String::new(), |mut text, entry| {
        let assigned = format!("{}={}", entry.name, entry.kind.show((entry.get)(limits)));
        _ = writeln!(text, "{assigned:23}  {}", entry.about);
        text
    })
}

/// `--max-rate 5` of earlier versions as `--limit rate=5`; `None` where it is none of them.
pub(crate) fn replaced(option: &str) -> Option<String> {
    let name = option.strip_prefix("--")?.replacen("max-", "", 1);
    ENTRIES.iter().any(|entry| entry.name == name).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_is_read_shown_and_kept_within_its_range() {
        for (place, entry) in ENTRIES.iter().enumerate() {
            let shown = entry.kind.show((entry.get)(&ServeLimits::default()));
            let read = limit(&format!("{}={shown}", entry.name)).expect("a default is allowed");
            assert_eq!(limits(&[read]), ServeLimits::default(), "{}", entry.name);
            let least = *entry.range.start();
            let set = limits(&[Limit::Set(place, least)]);
            assert_eq!((entry.get)(&set), least, "{}", entry.name);
            assert_eq!(
                (entry.get)(&limits(&[Limit::Set(place, (*entry.range.end()).min(255))])),
                (*entry.range.end()).min(255)
            );
            assert!(table(&set).lines().all(|line| line.len() <= 80), "{}", table(&set));
        }
        for wrong in ["", "rate", "rat=5", "rate=", "rate=0", "size=17", "size=9001", "seconds=0", "sessions=4097"] {
            assert!(limit(wrong).is_err(), "{wrong}");
        }
        assert!(limit("rat=5").is_err_and(|text| text.contains("rate")));
    }

    #[test]
    fn options_of_earlier_versions_are_limits_now() {
        let now = |option: &str| replaced(option);
        assert_eq!(now("--max-rate").as_deref(), Some("rate"));
        assert_eq!(now("--rpm-max-rate").as_deref(), Some("rpm-rate"));
        assert_eq!(now("--idle-seconds").as_deref(), Some("idle-seconds"));
        assert_eq!((now("--listen"), now("max-rate")), (None, None));
    }
}
