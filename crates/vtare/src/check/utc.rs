//! `--witness`: this machine's CLOCK_REALTIME beside what witnesses confirm of UTC.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;
use vtare_clock::Clock;
use vtare_sys::clocks;
use vtare_units::{Span, Timestamp, Wall};
use vtare_witness::{Confirmation, Witnesses};

use crate::sentences::{check as words, clock};
use crate::table::time;

/// UTC on this machine beside what witnesses confirm.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct UtcCheck {
    /// The answer in one sentence, with what to do.
    text: String,
    /// Whether CLOCK_REALTIME lies in the confirmed interval; null where nothing is confirmed.
    right: Option<bool>,
    /// CLOCK_REALTIME minus UTC is no less, ns; null where nothing is confirmed.
    ahead_least_ns: Option<i64>,
    /// And no more, ns; null where nothing is confirmed.
    ahead_most_ns: Option<i64>,
    /// Hosts whose statements count; null where nothing is confirmed.
    hosts: Option<usize>,
    /// How many of these may be wrong; null where nothing is confirmed.
    liars: Option<usize>,
    /// Witnesses that do not count, since another one on their host does or they are on this machine; null where
    /// nothing is confirmed.
    same_host: Option<usize>,
    /// Time of the round trip to them, ns; null where nothing is confirmed.
    round_trip_ns: Option<i64>,
}

impl UtcCheck {
    /// Asks the witnesses once.
    pub(super) fn ask(witnesses: &Witnesses, clock: &Clock) -> Self {
        let before = clocks::now::<Wall>();
        match witnesses.confirm(clock) {
            Ok(confirmation) => {
                Self::of(&confirmation, before, clocks::now::<Wall>(), remedy(&|path: &str| Path::new(path).exists()))
            }
            Err(vtare_witness::WitnessError::Unconfirmed(reason)) => Self::unconfirmed(&reason),
            Err(error) => Self::unconfirmed(&error),
        }
    }

    /// The sentence.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// What CLOCK_REALTIME may be off by, either way; None where nothing is confirmed.
    pub(super) fn error_ns(&self) -> Option<u64> {
        Some(self.ahead_least_ns?.unsigned_abs().max(self.ahead_most_ns?.unsigned_abs()))
    }

    #[cfg(test)]
    pub(super) fn of_bounds(ahead_least_ns: i64, ahead_most_ns: i64) -> Self {
        let bounds = (Some(ahead_least_ns), Some(ahead_most_ns));
        Self { ahead_least_ns: bounds.0, ahead_most_ns: bounds.1, ..Self::unconfirmed(&"") }
    }

    pub(super) fn unconfirmed(reason: &impl std::fmt::Display) -> Self {
        Self {
            text: clock::unconfirmed(reason),
            right: None,
            ahead_least_ns: None,
            ahead_most_ns: None,
            hosts: None,
            liars: None,
            same_host: None,
            round_trip_ns: None,
        }
    }

    /// From readings of CLOCK_REALTIME before the call and after its return: UTC at the call was no later than the
    /// confirmed `latest`, and at the return no earlier than `earliest`.
    fn of(found: &Confirmation, before: Timestamp<Wall>, after: Timestamp<Wall>, remedy: String) -> Self {
        let confirmed = &found.confirmed;
        let (least, most) = (before - confirmed.latest, after - confirmed.earliest);
        let show = |span: Span| time(Some(span.as_nanos() as f64));
        let right = !(least > Span::ZERO || most.is_negative());
        let text = if !right && most.is_negative() {
            words::utc_behind(show(most.abs()), remedy)
        } else if !right {
            words::utc_ahead(show(least), remedy)
        } else if confirmed.hosts == 1 {
            words::utc_right_by_one(show(most.max(least.abs())))
        } else {
            words::utc_right(show(most.max(least.abs())), confirmed.hosts, confirmed.liars)
        };
        Self {
            text,
            right: Some(right),
            ahead_least_ns: Some(least.as_nanos()),
            ahead_most_ns: Some(most.as_nanos()),
            hosts: Some(confirmed.hosts),
            liars: Some(confirmed.liars),
            same_host: Some(confirmed.same_host),
            round_trip_ns: Some(found.round_trip.as_nanos()),
        }
    }
}

/// How the clock is set here.
fn remedy(exists: &dyn Fn(&str) -> bool) -> String {
    if exists("/run/chrony") {
        words::step_clock("chronyc makestep")
    } else if exists("/run/systemd/timesync") {
        words::step_clock("systemctl restart systemd-timesyncd")
    } else {
        words::start_daemon()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vtare_clock::Confirmed;

    const SECOND: u64 = 1_000_000_000;

    /// UTC was from 99.999 s to 100.001 s, and the clock showed `ahead_ns` more.
    fn checked(hosts: usize, ahead_ns: i64) -> UtcCheck {
        let confirmed = Confirmed {
            earliest: Timestamp::from_nanos(100 * SECOND - 1_000_000),
            latest: Timestamp::from_nanos(100 * SECOND + 1_000_000),
            hosts,
            liars: usize::from(hosts > 1),
            same_host: 0,
            stoppable: 0,
        };
        let confirmation = Confirmation { confirmed, round_trip: Span::from_micros(300), generation: 1 };
        let before = Timestamp::from_nanos(100 * SECOND) + Span::from_nanos(ahead_ns);
        UtcCheck::of(&confirmation, before, before + Span::from_micros(300), words::step_clock("chronyc makestep"))
    }

    #[test]
    fn a_clock_in_the_interval_is_right_and_one_outside_is_wrong_by_at_least_the_distance() {
        let right = checked(3, 0);
        assert_eq!(right.text, "UTC is right here to 1.30 ms: 3 hosts confirm it, of which 1 may be wrong.");
        assert_eq!(
            (right.right, right.ahead_least_ns, right.ahead_most_ns),
            (Some(true), Some(-1_000_000), Some(1_300_000))
        );
        assert_eq!(checked(1, 0).text, "UTC is right here to 1.30 ms, if the one host that confirms it is right.");
        let ahead = checked(3, 3_600 * SECOND.cast_signed());
        assert_eq!(ahead.text, "UTC is wrong here: the clock is at least 3600 s ahead. Set it: chronyc makestep");
        assert_eq!(ahead.right, Some(false));
        let behind = checked(3, -4_300_000);
        assert_eq!(behind.text, "UTC is wrong here: the clock is at least 3.00 ms behind. Set it: chronyc makestep");
        assert_eq!((behind.right, behind.ahead_most_ns), (Some(false), Some(-3_000_000)));
    }

    #[test]
    fn what_is_not_confirmed_is_neither_right_nor_wrong() {
        let silent = UtcCheck::unconfirmed(&"nobody answered");
        assert_eq!((silent.right, silent.ahead_least_ns, silent.hosts), (None, None, None));
        assert_eq!(silent.text, "UTC is not confirmed: nobody answered.");
    }

    #[test]
    fn the_remedy_is_that_of_the_daemon_that_runs_here() {
        assert!(remedy(&|path| path == "/run/chrony").contains("chronyc"));
        assert!(remedy(&|path| path == "/run/systemd/timesync").contains("timesyncd"));
        assert!(remedy(&|_| false).contains("NTP daemon"));
    }
}
