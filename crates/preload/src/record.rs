//! The counts of `--report`: where each stands in a file that all processes of a run share, and what they mean. Pure.
//!
//! The file is an array of 64-bit words. The library adds to them with atomic additions, so they are right whatever way
//! a process ends; `vtare exec` reads them when the program has ended. This file is part of both (see `settings`).

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
/// Bits that select the bucket within its octave.
const BUCKET_BITS: u32 = 4;
/// Buckets of one histogram of lateness.
pub(crate) const BUCKETS: usize = 16 + 16 * 37;
const FUNCTION_WORDS: usize = FIELD_WORDS + BUCKETS;
/// Words of the file.
pub(crate) const WORDS: usize = WHOLE_WORDS + FUNCTION_WORDS * Function::ALL.len();
/// Bytes of the file.
pub(crate) const BYTES: usize = WORDS * 8;
/// One call of a clock function in this many is timed: timing each would double its cost.
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
pub(crate) fn bucket(function: Function, lateness_ns: u64) -> usize {
    WHOLE_WORDS + function as usize * FUNCTION_WORDS + FIELD_WORDS + bucket_of(lateness_ns)
}

/// Sixteen buckets to an octave, exact below 32 ns: 6 % wide at most. The last one is open.
///
/// Not a [`vtare_units::figures::LogHistogram`]: the counts stand in a file that all threads of all processes add to
/// without a lock, so its size is fixed when it is created. The buckets are of the same rule.
fn bucket_of(nanos: u64) -> usize {
    vtare_units::figures::bucket_of::<BUCKET_BITS>(nanos).min(BUCKETS - 1)
}

/// The middle of a bucket, ns; the least value of the last one, which is open.
#[cfg_attr(not(test), allow(dead_code, reason = "for the program that shows the counts"))]
pub(crate) fn bucket_middle(at: usize) -> i64 {
    let low = vtare_units::figures::least_of::<BUCKET_BITS>;
    let last = if at + 1 < BUCKETS { low(at + 1) - 1 } else { low(at) };
    low(at).midpoint(last).cast_signed()
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

    proptest! {
        #[test]
        fn a_value_lies_within_a_sixteenth_of_the_middle_of_its_bucket(nanos in 0_u64..1 << 39) {
            let middle = bucket_middle(bucket_of(nanos)) as f64;
            prop_assert!((middle - nanos as f64).abs() <= nanos as f64 / 16.0, "{middle}");
        }
    }
}
