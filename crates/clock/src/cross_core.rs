//! Do the counters of all CPUs show the same time? A test with hard bounds.
//!
//! Two threads on two CPUs pass a token back and forth. CPU A reads its counter, then B, then A again: one [`Bracket`]
//! of the lead of B's counter. The intersection of many leaves a range as wide as the fastest exchange.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use vtare_sys::{clocks, counter, sched};
use vtare_units::{Monotonic, Span};

use crate::offset::{Bracket, range};
use crate::trust::CrossCore;

/// Whether a range certifies that the two counters differ.
#[must_use]
pub fn is_apart((low, high): (i64, i64)) -> bool {
    low > 0 || high < 0 || low > high
}

const ROUNDS: usize = 2_000;

/// Tests each of `cpus` against the first one, for at most `limit` per pair. `None` with fewer than two CPUs, or where
/// none of the pairs could be run (the threads could not be pinned).
#[must_use]
pub fn measure(cpus: &[usize], ns_per_tick: f64, limit: Span) -> Option<CrossCore> {
    let (first, others) = cpus.split_first()?;
    let ranges: Vec<(i64, i64)> = others.iter().filter_map(|other| range(&exchange(*first, *other, limit)?)).collect();
    let low = ranges.iter().map(|r| r.0).min()?;
    let high = ranges.iter().map(|r| r.1).max()?;
    Some(CrossCore {
        cpus: ranges.len() + 1,
        low_ns: low as f64 * ns_per_tick,
        high_ns: high as f64 * ns_per_tick,
        apart: ranges.iter().copied().any(is_apart),
    })
}

/// Exchanges the token between two CPUs until enough rounds are done or the time is up.
fn exchange(asking: usize, answering: usize, limit: Span) -> Option<Vec<Bracket>> {
    // 0: nobody's turn yet; odd: the answering side's turn; even: back.
    let turn = AtomicU64::new(0);
    let seen = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let answerer = scope.spawn(|| {
            if sched::pin_to(&[answering]).is_err() {
                stop.store(true, Ordering::Release);
                return;
            }
            let mut next = 1;
            while !stop.load(Ordering::Acquire) {
                if turn.load(Ordering::Acquire) == next {
                    seen.store(counter::read_ordered().count(), Ordering::Relaxed);
                    turn.store(next + 1, Ordering::Release);
                    next += 2;
                }
                std::hint::spin_loop();
            }
        });
        let asker = scope.spawn(|| {
            let mut out = Vec::with_capacity(ROUNDS);
            let deadline = clocks::now::<Monotonic>() + limit;
            let pinned = sched::pin_to(&[asking]).is_ok();
            'rounds: for round in 0..ROUNDS as u64 {
                if !pinned {
                    break;
                }
                let before = counter::read_ordered().count();
                turn.store(round * 2 + 1, Ordering::Release);
                let mut spins = 0_u32;
                while turn.load(Ordering::Acquire) != round * 2 + 2 {
                    spins += 1;
                    if spins.is_multiple_of(256)
                        && (clocks::now::<Monotonic>() > deadline || stop.load(Ordering::Acquire))
                    {
                        break 'rounds;
                    }
                    std::hint::spin_loop();
                }
                let after = counter::read_ordered().count();
                out.push(Bracket { before, other: seen.load(Ordering::Relaxed), after });
                if round % 64 == 0 && clocks::now::<Monotonic>() > deadline {
                    break;
                }
            }
            stop.store(true, Ordering::Release);
            out
        });
        let out = asker.join().ok()?;
        answerer.join().ok()?;
        (!out.is_empty()).then_some(out)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_exchange_gives_no_range() {
        assert_eq!(range(&[]), None);
        assert_eq!(measure(&[], 1.0, Span::ZERO), None);
        assert_eq!(measure(&[0], 1.0, Span::ZERO), None);
    }

    #[test]
    fn counters_are_apart_where_no_lead_of_0_is_possible() {
        assert!(is_apart((1, 5)) && is_apart((-5, -1)) && is_apart((2, 1)));
        assert!(!is_apart((0, 5)) && !is_apart((-5, 0)) && !is_apart((-1, 1)));
    }
}
