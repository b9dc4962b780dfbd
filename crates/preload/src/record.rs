//! The counts of `--report`: where each stands in a file that all processes of a run share, and what they mean. Pure.
//!
//! The file is an array of 64-bit words. The library adds to them with atomic additions, so they are right whatever way a process
//! ends; `vtare exec` reads them when the program has ended. This file is part of both (see `settings`).

/// First word of the file: names the layout.
pub(crate) const MAGIC: u64 = 0x3176_6365_7865_7476;

/// The functions that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    /// `clock_gettime`
    ClockGettime,
    /// `gettimeofday`
    Gettimeofday,
    /// `timespec_get`
    TimespecGet,
    /// `clock_nanosleep`
    ClockNanosleep,
    /// `nanosleep`
    Nanosleep,
    /// `usleep`
    Usleep,
    /// `sleep`
    Sleep,
    /// `thrd_sleep`
    ThrdSleep,
}

impl Function {
    /// All of them, in the order of the file.
    pub(crate) const ALL: [Self; 8] = [
        Self::ClockGettime,
        Self::Gettimeofday,
        Self::TimespecGet,
        Self::ClockNanosleep,
        Self::Nanosleep,
        Self::Usleep,
        Self::Sleep,
        Self::ThrdSleep,
    ];

    /// The name in C.
    #[cfg_attr(not(test), allow(dead_code, reason = "for the program that shows the counts"))]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ClockGettime => "clock_gettime",
            Self::Gettimeofday => "gettimeofday",
            Self::TimespecGet => "timespec_get",
            Self::ClockNanosleep => "clock_nanosleep",
            Self::Nanosleep => "nanosleep",
            Self::Usleep => "usleep",
            Self::Sleep => "sleep",
            Self::ThrdSleep => "thrd_sleep",
        }
    }

    /// Whether it sleeps.
    #[cfg_attr(not(test), allow(dead_code, reason = "for the program that shows the counts"))]
    pub(crate) const fn sleeps(self) -> bool {
        self as usize >= Self::ClockNanosleep as usize
    }
}

/// Words about the run as a whole, at the start of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whole {
    /// [`MAGIC`].
    Magic,
    /// Processes that loaded the library (each `exec` counts).
    Processes,
    /// Of these, those whose clock functions were answered by the kernel.
    KernelClock,
    /// Those whose clock functions were answered from the counter, ordered.
    OrderedClock,
    /// Those whose clock functions were answered from the counter, unordered.
    UnorderedClock,
    /// Sleeps left to the kernel because more threads slept than there are places to learn in.
    NoPlace,
}

/// Words of one function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    /// Calls.
    Calls,
    /// Calls whose duration was taken: all sleeps, one in [`TIMED_EVERY`] of the others.
    Timed,
    /// The time spent in those, ns.
    TimedNs,
    /// Sleeps that a signal ended.
    Interrupted,
    /// Sleeps given to the kernel unchanged.
    Passed,
    /// Time spent spinning, ns.
    SpinNs,
    /// Sleeps in which the CPU was taken away, or spinning was held back because of that.
    Disturbed,
    /// The greatest lateness, ns.
    WorstNs,
}

const WHOLE_WORDS: usize = 8;
const FIELD_WORDS: usize = 8;
/// Buckets of one histogram of lateness.
pub(crate) const BUCKETS: usize = 16 + 16 * 37;
const FUNCTION_WORDS: usize = FIELD_WORDS + BUCKETS;
/// Words of the file.
pub(crate) const WORDS: usize = WHOLE_WORDS + FUNCTION_WORDS * Function::ALL.len();
/// Bytes of the file.
pub(crate) const BYTES: usize = WORDS * 8;
/// One call of a clock function in so many is timed: timing each would double its cost.
pub(crate) const TIMED_EVERY: u64 = 64;

/// The place of a word about the whole.
pub(crate) const fn whole(word: Whole) -> usize {
    word as usize
}

/// The place of a function's word.
pub(crate) const fn field(function: Function, field: Field) -> usize {
    WHOLE_WORDS + function as usize * FUNCTION_WORDS + field as usize
}

/// The place of a function's bucket for a lateness.
pub(crate) const fn bucket(function: Function, lateness_ns: u64) -> usize {
    WHOLE_WORDS + function as usize * FUNCTION_WORDS + FIELD_WORDS + bucket_of(lateness_ns)
}

/// Exact below 16 ns, then sixteen buckets to an octave: 6 % wide at most. The last one is open.
const fn bucket_of(nanos: u64) -> usize {
    if nanos < 16 {
        return nanos as usize;
    }
    let exponent = 63 - nanos.leading_zeros();
    let at = (exponent as usize - 3) * 16 + ((nanos >> (exponent - 4)) & 15) as usize;
    if at < BUCKETS { at } else { BUCKETS - 1 }
}

/// The least value of a bucket, ns.
#[cfg_attr(not(test), allow(dead_code, reason = "for the program that shows the counts"))]
pub(crate) const fn bucket_low(at: usize) -> u64 {
    if at < 16 { at as u64 } else { (16 + (at as u64 & 15)) << (at / 16 - 1) }
}

/// The quantile of a histogram, ns: the middle of the bucket that holds it, so within 3 % of it. `None` where nothing was counted, or too
/// little: the q-quantile wants 1 / (1 - q) values at least.
#[cfg_attr(not(test), allow(dead_code, reason = "for the program that shows the counts"))]
pub(crate) fn quantile(counts: &[u64], share: f64) -> Option<f64> {
    let total: u64 = counts.iter().sum();
    if total == 0 || (total as f64) * (1.0 - share) < 1.0 - 1e-9 && total > 1 || total == 1 && share > 0.5 {
        return None;
    }
    let rank = ((total as f64 * share).ceil() as u64).max(1);
    let mut seen = 0;
    for (at, count) in counts.iter().enumerate() {
        seen += count;
        if seen >= rank {
            let low = bucket_low(at);
            let last = if at + 1 < counts.len() { bucket_low(at + 1) - 1 } else { low };
            return Some((low + last) as f64 / 2.0);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn no_two_words_share_a_place() {
        let mut places = vec![whole(Whole::NoPlace)];
        for function in Function::ALL {
            places.extend([field(function, Field::Calls), field(function, Field::WorstNs)]);
            places.extend([bucket(function, 0), bucket(function, u64::MAX)]);
        }
        assert!(places.is_sorted_by(|a, b| a < b), "{places:?}");
        assert_eq!(places.last(), Some(&(WORDS - 1)));
    }

    #[test]
    fn the_functions_that_sleep_come_last() {
        let sleeping: Vec<_> = Function::ALL.iter().filter(|f| f.sleeps()).map(|f| f.name()).collect();
        assert_eq!(sleeping, ["clock_nanosleep", "nanosleep", "usleep", "sleep", "thrd_sleep"]);
    }

    #[test]
    fn a_quantile_that_too_few_values_carry_is_missing() {
        let mut counts = [0_u64; BUCKETS];
        assert_eq!(quantile(&counts, 0.5), None);
        counts[7] = 1;
        assert_eq!(quantile(&counts, 0.5), Some(7.0));
        assert_eq!(quantile(&counts, 0.99), None);
        counts[7] = 99;
        counts[bucket_of(1 << 20)] = 1;
        assert_eq!(quantile(&counts, 0.5), Some(7.0));
        assert_eq!(quantile(&counts, 0.99), Some(7.0));
    }

    proptest! {
        #[test]
        fn a_value_lies_in_its_bucket(nanos in 0_u64..1 << 40) {
            let at = bucket_of(nanos);
            prop_assert!(bucket_low(at) <= nanos);
            prop_assert!(at + 1 == BUCKETS || nanos < bucket_low(at + 1));
        }

        #[test]
        fn a_quantile_is_within_a_sixteenth_of_the_true_one(mut values in prop::collection::vec(1_u64..1 << 39, 200..400), share in 0.01_f64..0.99) {
            let mut counts = [0_u64; BUCKETS];
            for value in &values {
                counts[bucket_of(*value)] += 1;
            }
            values.sort_unstable();
            let rank = (values.len() as f64 * share).ceil() as usize;
            let truth = values[rank.max(1) - 1] as f64;
            let found = quantile(&counts, share).expect("enough values");
            prop_assert!((found - truth).abs() <= truth / 16.0 + 0.5, "{} {}", found, truth);
        }
    }
}
