//! The data connections of a session for TCP throughput, at the responder: who may join, how much may come, and what
//! came when.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use vtare_units::{Monotonic, Span, Timestamp};

use super::request::FlowPlan;
use crate::SessionId;

/// Bins of one answer: 20 digits each, so that it fits an answer of 4 KiB.
const BINS_AT_ONCE: usize = 128;

/// Why a data connection is refused or closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum FlowCause {
    /// It names no open session.
    #[error("a data connection of no open session")]
    UnknownSession,
    /// Its tag does not fit.
    #[error("a data connection whose tag does not fit")]
    WrongTag,
    /// It comes from another address than its session.
    #[error("a data connection from another address than its session's")]
    WrongAddress,
    /// Its session is not for TCP.
    #[error("a data connection of a session that has none")]
    Purpose,
    /// Its number is not among those granted.
    #[error("a data connection beyond those granted")]
    Beyond,
    /// That number has come before: a copy.
    #[error("a data connection that has come before")]
    Again,
    /// Bytes before the answer that lets it go on.
    #[error("a data connection that did not wait for the answer")]
    Hasty,
    /// More bytes than granted.
    #[error("more bytes than granted")]
    OverByte,
    /// Bytes after the time granted.
    #[error("bytes after the time granted")]
    OverTime,
    /// No bytes for too long.
    #[error("a data connection without bytes for too long")]
    Silent,
    /// Its session has ended.
    #[error("a data connection whose session has ended")]
    Ended,
    /// It broke.
    #[error("a data connection that broke")]
    Broken,
}

/// What came on the data connections of a session, so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlowReport {
    /// Which session.
    pub session: SessionId,
    /// Data connections that have joined.
    pub joined: u8,
    /// Of those, still open.
    pub open: u8,
    /// Payload bytes that came and were granted.
    pub byte: u64,
    /// Bytes that came beyond the number or the time granted; their connections were closed.
    pub refused_byte: u64,
    /// From the first byte to the last, ns; null where none came.
    pub elapsed_ns: Option<u64>,
    /// Place of the first bin of this answer.
    pub from: u32,
    /// Payload bytes by bins of the length asked for, from the first byte on.
    pub bins: Vec<u64>,
    /// Bins behind these.
    pub left: u32,
}

/// The account of one session.
#[derive(Debug)]
struct FlowCounts {
    plan: FlowPlan,
    duration: Span,
    /// By number: whether it has come.
    joined: Vec<bool>,
    open: u8,
    byte: u64,
    refused_byte: u64,
    bins: Vec<u64>,
    began: Option<Timestamp<Monotonic>>,
    last: Option<Timestamp<Monotonic>>,
    closed: bool,
}

impl FlowCounts {
    fn count(&mut self, now: Timestamp<Monotonic>, byte: u64) -> Result<(), FlowCause> {
        let began = *self.began.get_or_insert(now);
        let since = now - began;
        let late =
            if self.closed { Some(FlowCause::Ended) } else { (since > self.duration).then_some(FlowCause::OverTime) };
        let took = if late.is_some() { 0 } else { byte.min(self.plan.byte - self.byte) };
        self.refused_byte += byte - took;
        if took > 0 {
            // Within the duration, which was granted only with room for its bins.
            let at = (since.as_nanos_unsigned() / self.plan.bin_ns) as usize;
            if self.bins.len() <= at {
                self.bins.resize(at + 1, 0);
            }
            self.bins[at] += took;
            self.byte += took;
            self.last = self.last.max(Some(now));
        }
        match late {
            Some(cause) => Err(cause),
            None if took < byte => Err(FlowCause::OverByte),
            None => Ok(()),
        }
    }
}

/// The data connections of one session: known to the table, and to the thread that reads them.
#[derive(Clone, Debug)]
pub(super) struct Flows(Arc<Mutex<FlowCounts>>);

impl Flows {
    /// For a plan that [`FlowLimits::check`] has passed.
    pub(super) fn new(plan: FlowPlan, duration_ns: u64) -> Self {
        Self(Arc::new(Mutex::new(FlowCounts {
            plan,
            duration: Span::from_unsigned_nanos(duration_ns),
            joined: vec![false; plan.streams.into()],
            open: 0,
            byte: 0,
            refused_byte: 0,
            bins: Vec::new(),
            began: None,
            last: None,
            closed: false,
        })))
    }

    fn counts(&self) -> MutexGuard<'_, FlowCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn join(&self, number: u8) -> Result<Joined, FlowCause> {
        let mut counts = self.counts();
        let place = counts.joined.get_mut(usize::from(number)).ok_or(FlowCause::Beyond)?;
        if std::mem::replace(place, true) {
            return Err(FlowCause::Again);
        }
        counts.open += 1;
        drop(counts);
        Ok(Joined { flows: self.clone(), number })
    }

    pub(super) fn close(&self) {
        self.counts().closed = true;
    }

    /// When the first byte came, and the last.
    pub(super) fn seen(&self) -> Option<(Timestamp<Monotonic>, Timestamp<Monotonic>)> {
        let counts = self.counts();
        counts.began.zip(counts.last)
    }

    pub(super) fn report(&self, session: SessionId, from: u32) -> FlowReport {
        let counts = self.counts();
        let bins = counts.bins.get(from as usize..).unwrap_or_default();
        let some = &bins[..bins.len().min(BINS_AT_ONCE)];
        FlowReport {
            session,
            joined: counts.joined.iter().map(|joined| u8::from(*joined)).sum(),
            open: counts.open,
            byte: counts.byte,
            refused_byte: counts.refused_byte,
            elapsed_ns: counts.began.zip(counts.last).map(|(began, last)| (last - began).as_nanos_unsigned()),
            from,
            bins: some.to_vec(),
            // At most as many as limits allow, and those are counted in 32 bits.
            left: (bins.len() - some.len()) as u32,
        }
    }
}

/// A data connection that has proved itself. Leaves its session when dropped.
pub struct Joined {
    flows: Flows,
    number: u8,
}

impl fmt::Debug for Joined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joined").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Joined {
    /// Its number among the session's.
    #[must_use]
    pub const fn number(&self) -> u8 {
        self.number
    }

    /// Takes note of bytes that have come.
    ///
    /// # Errors
    /// Why the connection is to be closed; bytes that were granted are counted all the same.
    pub fn count(&self, now: Timestamp<Monotonic>, byte: u64) -> Result<(), FlowCause> {
        self.flows.counts().count(now, byte)
    }

    /// Whether its session has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.flows.counts().closed
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        self.flows.counts().open -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: FlowPlan = FlowPlan { streams: 2, byte: 1_000, bin_ns: 10_000_000 };
    const SESSION: SessionId = SessionId(7);

    fn at(ms: u64) -> Timestamp<Monotonic> {
        Timestamp::from_nanos(5_000_000_000 + ms * 1_000_000)
    }

    fn flows() -> Flows {
        Flows::new(PLAN, 100_000_000)
    }

    #[test]
    fn bytes_fall_into_the_bin_of_their_time_since_the_first() {
        let flows = flows();
        let (one, two) = (flows.join(0).expect("granted"), flows.join(1).expect("granted"));
        for (ms, byte) in [(0, 100), (9, 1), (10, 20), (35, 3)] {
            one.count(at(ms), byte).expect("within all");
        }
        two.count(at(12), 300).expect("within all");
        let report = flows.report(SESSION, 0);
        assert_eq!(report.bins, [101, 320, 0, 3]);
        assert_eq!((report.byte, report.elapsed_ns, report.open), (424, Some(35_000_000), 2));
        drop(one);
        let rest = flows.report(SESSION, 2);
        assert_eq!((rest.bins, rest.open, rest.joined), (vec![0, 3], 1, 2));
        assert_eq!(flows.report(SESSION, 9).bins, [0_u64; 0]);
    }

    #[test]
    fn a_stream_comes_once_and_only_those_granted_come() {
        let flows = flows();
        let first = flows.join(0).expect("granted");
        assert_eq!(flows.join(0).err(), Some(FlowCause::Again));
        assert_eq!(flows.join(2).err(), Some(FlowCause::Beyond));
        // Also when it has left: its hello could be a copy.
        drop(first);
        assert_eq!(flows.join(0).err(), Some(FlowCause::Again));
        assert_eq!(flows.report(SESSION, 0).open, 0);
    }

    #[test]
    fn what_is_beyond_bytes_time_or_the_session_is_refused_and_counted() {
        let flows = flows();
        let stream = flows.join(1).expect("granted");
        stream.count(at(0), 999).expect("within all");
        assert_eq!(stream.count(at(1), 5), Err(FlowCause::OverByte));
        let report = flows.report(SESSION, 0);
        assert_eq!((report.byte, report.refused_byte, report.bins), (1_000, 4, vec![1_000]));
        assert_eq!(stream.count(at(101), 5), Err(FlowCause::OverTime));
        flows.close();
        assert!(stream.is_over());
        assert_eq!(stream.count(at(2), 5), Err(FlowCause::Ended));
        assert_eq!(flows.report(SESSION, 0).refused_byte, 14);
    }

    #[test]
    fn bins_come_in_parts_and_the_time_missing_is_not_zero() {
        let flows = Flows::new(FlowPlan { byte: u64::MAX, ..PLAN }, 10_000_000_000);
        assert_eq!(flows.report(SESSION, 0).elapsed_ns, None);
        let stream = flows.join(0).expect("granted");
        for bin in 0..300 {
            stream.count(at(bin * 10), bin + 1).expect("within all");
        }
        let mut all = Vec::new();
        loop {
            let part = flows.report(SESSION, all.len() as u32);
            assert!(part.bins.len() <= BINS_AT_ONCE);
            all.extend(part.bins);
            if part.left == 0 {
                break;
            }
        }
        assert!(all.into_iter().eq(1..=300));
    }
}
