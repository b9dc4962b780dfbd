//! Do the counters of all CPUs show the same time? A test with hard bounds.
//!
//! Two threads on two CPUs pass a token back and forth. If CPU A reads `sent`, then B reads `seen`, then A reads `back`, the offset
//! of B's counter lies between `seen - back` and `seen - sent`, whatever the delays were. Intersecting many rounds leaves a range
//! as wide as the fastest exchange.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use vtare_sys::{clocks, counter, sched};
use vtare_units::{Monotonic, Span};

use crate::trust::CrossCore;

/// One exchange, in ticks: `sent` and `back` of the asking CPU, `seen` of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The asking CPU's counter before it passed the token.
    pub sent: u64,
    /// The other CPU's counter while it held the token.
    pub seen: u64,
    /// The asking CPU's counter after it got the token back.
    pub back: u64,
}

/// The range of the other counter's offset that all exchanges allow, in ticks: (low, high). Low above high means that the
/// offset changed during the test.
#[must_use]
pub fn offset_range(exchanges: &[Exchange]) -> Option<(i64, i64)> {
    exchanges
        .iter()
        .map(|e| (e.seen.wrapping_sub(e.back).cast_signed(), e.seen.wrapping_sub(e.sent).cast_signed()))
        .reduce(|(low, high), (l, h)| (low.max(l), high.min(h)))
}

/// Whether a range certifies that the two counters differ.
#[must_use]
pub fn is_apart((low, high): (i64, i64)) -> bool {
    low > 0 || high < 0 || low > high
}

const ROUNDS: usize = 2_000;

/// Tests each of `cpus` against the first one, for at most `limit` per pair. `None` with fewer than two CPUs, or where none
/// of the pairs could be run (the threads could not be pinned).
#[must_use]
pub fn measure(cpus: &[usize], ns_per_tick: f64, limit: Span) -> Option<CrossCore> {
    let (first, others) = cpus.split_first()?;
    let ranges: Vec<(i64, i64)> =
        others.iter().filter_map(|other| offset_range(&exchange(*first, *other, limit)?)).collect();
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
fn exchange(asking: usize, answering: usize, limit: Span) -> Option<Vec<Exchange>> {
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
                let sent = counter::read_ordered().count();
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
                let back = counter::read_ordered().count();
                out.push(Exchange { sent, seen: seen.load(Ordering::Relaxed), back });
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
    use proptest::prelude::*;

    #[test]
    fn no_exchange_gives_no_range() {
        assert_eq!(offset_range(&[]), None);
        assert_eq!(measure(&[], 1.0, Span::ZERO), None);
        assert_eq!(measure(&[0], 1.0, Span::ZERO), None);
    }

    proptest! {
        #[test]
        fn the_true_offset_is_always_inside_and_the_fastest_round_sets_the_width(
            offset in -1_000_000_i64..1_000_000,
            delays in prop::collection::vec((1_u64..5_000, 1_u64..5_000), 1..50),
        ) {
            let mut at = 1_u64 << 40;
            let exchanges: Vec<Exchange> = delays.iter().map(|(there, back)| {
                let sent = at;
                let seen = (at + there).wrapping_add_signed(offset);
                at += there + back;
                Exchange { sent, seen, back: at }
            }).collect();
            let (low, high) = offset_range(&exchanges).expect("there are exchanges");
            prop_assert!(low <= offset && offset <= high);
            let fastest = delays.iter().map(|(t, b)| t + b).min().expect("not empty");
            prop_assert!((high - low) as u64 <= fastest);
            prop_assert_eq!(is_apart((low, high)), low > 0 || high < 0);
        }
    }
}
