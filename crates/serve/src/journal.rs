//! What happened, at most one line a second for each kind: whoever can make a responder write lines could otherwise
//! fill its disk.

use vtare_units::{Monotonic, Span, Timestamp};
use vtare_wire::session::LogGate;

/// The least time between two lines of one kind.
pub const INTERVAL: Span = Span::from_secs(1);

/// How much a line matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// The ordinary course: sessions that open and close.
    Course,
    /// Something was refused.
    Refusal,
}

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// What kind of thing happened: one word.
    pub kind: &'static str,
    /// How much it matters.
    pub weight: Weight,
    /// How often it happened since the last line of this kind.
    pub count: u64,
    /// One of these times, as text.
    pub example: String,
}

#[derive(Debug)]
struct Kind {
    name: &'static str,
    weight: Weight,
    gate: LogGate,
    count: u64,
    example: Option<String>,
}

/// Gathers what happens and writes a line for each kind at most once in [`INTERVAL`]. Nothing is forgotten: what is
/// held back is counted in the next line.
#[derive(Debug)]
pub(crate) struct Journal<W> {
    // A handful of kinds, all of them known to the program: a list is enough, and it cannot grow by what strangers do.
    kinds: Vec<Kind>,
    write: W,
}

impl<W: FnMut(&Line)> Journal<W> {
    /// A journal that gives its lines to `write`.
    pub(crate) const fn new(write: W) -> Self {
        Self { kinds: Vec::new(), write }
    }

    /// Something happened `count` times. `example` is made only where it will be shown.
    pub(crate) fn note(
        &mut self,
        now: Timestamp<Monotonic>,
        name: &'static str,
        weight: Weight,
        count: u64,
        example: impl FnOnce() -> String,
    ) {
        let at = self.kinds.iter().position(|kind| kind.name == name).unwrap_or_else(|| {
            self.kinds.push(Kind { name, weight, gate: LogGate::new(INTERVAL), count: 0, example: None });
            self.kinds.len() - 1
        });
        let kind = &mut self.kinds[at];
        kind.count += count;
        kind.example.get_or_insert_with(example);
        self.flush(now);
    }

    /// Writes the lines that are due. Called at least once a second, so that held-back lines are written.
    pub(crate) fn flush(&mut self, now: Timestamp<Monotonic>) {
        for kind in &mut self.kinds {
            if kind.count > 0 && kind.gate.admit(now).is_some() {
                let example = kind.example.take().unwrap_or_default();
                let count = std::mem::take(&mut kind.count);
                (self.write)(&Line { kind: kind.name, weight: kind.weight, count, example });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Timestamp<Monotonic> {
        Timestamp::from_nanos(10_000_000_000 + ms * 1_000_000)
    }

    #[test]
    fn a_flood_of_one_kind_is_one_line_a_second_and_counts_all() {
        let mut lines = Vec::new();
        let mut journal = Journal::new(|line: &Line| lines.push(line.clone()));
        for ms in 0..2_500 {
            journal.note(at(ms), "garbage", Weight::Refusal, 100, || format!("from number {ms}"));
        }
        journal.flush(at(3_000));
        let counts: Vec<u64> = lines.iter().map(|line| line.count).collect();
        assert_eq!(counts, [100, 100_000, 100_000, 49_900]);
        assert_eq!(lines[1].example, "from number 1");
    }

    #[test]
    fn kinds_do_not_hold_each_other_back() {
        let mut lines = Vec::new();
        let mut journal = Journal::new(|line: &Line| lines.push(line.kind));
        for name in ["garbage", "wrong_key", "garbage", "wrong_key"] {
            journal.note(at(0), name, Weight::Refusal, 1, String::new);
        }
        assert_eq!(lines, ["garbage", "wrong_key"]);
    }

    #[test]
    fn nothing_is_written_where_nothing_happened() {
        let mut lines = 0;
        let mut journal = Journal::new(|_: &Line| lines += 1);
        journal.note(at(0), "garbage", Weight::Refusal, 1, String::new);
        for second in 1..10 {
            journal.flush(at(second * 1_000));
        }
        assert_eq!(lines, 1);
    }
}
