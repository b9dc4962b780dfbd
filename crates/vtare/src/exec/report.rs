//! `--report`: the counts that the library kept, as a table or a document.

// Shared with the library's crate, which this binary must not link: it would have its own C functions replaced.
#[path = "../../../preload/src/record.rs"]
#[allow(dead_code, reason = "the library uses all of it")]
mod record;

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde::Serialize;
use vtare_sys::process::unnamed_file;
use vtare_units::figures::Figures;

use crate::answer::{Answer, IN_P99, Shape, WIDTH};
use crate::sentences::exec as words;
use crate::table::{Table, time};
use crate::terminal::wrap;
use record::{BUCKETS, BYTES, Field, Function, MAGIC, Whole};

/// The file that the processes of a run count in. It has no name and is gone with the last of them.
pub(super) struct Counts(File);

impl Counts {
    /// A file with all counts at 0, in memory where there is a file system for that.
    ///
    /// # Errors
    /// Where no directory takes a file.
    pub(super) fn create() -> io::Result<Self> {
        let file = unnamed_file(Path::new("/dev/shm")).or_else(|_| unnamed_file(&std::env::temp_dir()))?;
        file.set_len(BYTES as u64)?;
        file.write_all_at(&MAGIC.to_le_bytes(), record::whole(Whole::Magic) as u64 * 8)?;
        Ok(Self(file))
    }

    /// How other processes open it, as long as this one lives.
    pub(super) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// What was counted.
    ///
    /// # Errors
    /// Where the file cannot be read.
    pub(super) fn read(&self) -> io::Result<Report> {
        let mut bytes = vec![0; BYTES];
        self.0.read_exact_at(&mut bytes, 0)?;
        let words: Vec<u64> =
            bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default())).collect();
        Ok(Report::of(&words))
    }
}

/// What a run's processes did with time.
#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(super) struct Report {
    schema: &'static str,
    #[serde(skip)]
    answer: Answer,
    /// Processes that loaded the library; each `exec` counts.
    processes: u64,
    /// Of these, by who answered their clock functions.
    clock: Answered,
    /// Sleeps left to the kernel because more threads slept than there are places to learn in.
    sleeps_without_place: u64,
    /// Each function that is answered, called or not.
    functions: Vec<Counted>,
}

#[derive(Debug, Serialize, schemars::JsonSchema)]
struct Answered {
    /// By the kernel.
    kernel: u64,
    /// By the counter, in order with the memory accesses around it.
    ordered: u64,
    /// By the counter, without that order.
    unordered: u64,
}

#[derive(Debug, Serialize, schemars::JsonSchema)]
struct Counted {
    /// The function of the C library.
    name: &'static str,
    /// Calls.
    calls: u64,
    /// Calls whose duration was taken.
    timed: u64,
    /// Time in all calls: all sleeps are timed; of clock functions one call in 64, so theirs is an estimate.
    time_ns: Option<f64>,
    #[serde(flatten)]
    sleeps: Option<Sleeps>,
}

#[derive(Debug, Serialize, schemars::JsonSchema)]
struct Sleeps {
    /// By how much they woke late, ns.
    lateness_ns: Lateness,
    /// Time spent spinning, ns.
    spin_ns: u64,
    /// Sleeps that a signal ended.
    interrupted: u64,
    /// Sleeps left to the kernel.
    by_kernel: u64,
    /// Sleeps in which the CPU was taken away, or spinning was held back because of that.
    disturbed: u64,
}

#[derive(Debug, Serialize, schemars::JsonSchema)]
struct Lateness {
    /// Sleeps that ended by themselves.
    n: u64,
    median: Option<f64>,
    p99: Option<f64>,
    max: Option<u64>,
}

impl Report {
    fn of(words: &[u64]) -> Self {
        let whole = |word| words[record::whole(word)];
        let functions: Vec<Counted> = Function::ALL.into_iter().map(|function| counted(words, function)).collect();
        let slept = || Function::ALL.into_iter().filter(|function| function.sleeps());
        let all: Vec<u64> =
            (0..BUCKETS).map(|at| slept().map(|function| words[record::bucket(function, 0) + at]).sum()).collect();
        let worst = slept().map(|function| words[record::field(function, Field::WorstNs)]).max().unwrap_or(0);
        let answer = answer(&functions, &lateness(&all, worst), worst, whole(Whole::NoPlace));
        Self {
            schema: "vtare.exec/1",
            answer,
            processes: whole(Whole::Processes),
            clock: Answered {
                kernel: whole(Whole::KernelClock),
                ordered: whole(Whole::OrderedClock),
                unordered: whole(Whole::UnorderedClock),
            },
            sleeps_without_place: whole(Whole::NoPlace),
            functions,
        }
    }

    /// Whether any process counted.
    pub(super) fn is_empty(&self) -> bool {
        self.processes == 0
    }

    fn called(&self, sleeps: bool) -> impl Iterator<Item = &Counted> {
        self.functions.iter().filter(move |f| f.calls > 0 && f.sleeps.is_some() == sleeps)
    }

    /// Its answer.
    pub(super) fn answer(&self) -> &Answer {
        &self.answer
    }

    /// The report for people.
    pub(super) fn text(&self) -> String {
        let by = [
            (self.clock.kernel, "the kernel"),
            (self.clock.ordered, "the counter, ordered"),
            (self.clock.unordered, "the counter, unordered"),
        ];
        let answers: Vec<String> =
            by.iter().filter(|(count, _)| *count > 0).map(|(count, by)| words::answered(count, by)).collect();
        let mut clocks = Table::new(&["clock function", "calls", "a call", "in all"], 1);
        for function in self.called(false) {
            let each = function.time_ns.map(|all| all / function.calls as f64);
            clocks.row(vec![function.name.to_owned(), function.calls.to_string(), time(each), time(function.time_ns)]);
        }
        // The document has the others: this fits 80 columns.
        let heading = ["sleep function", "calls", "late: median", "p99", "worst", "spun", "disturbed"];
        let mut sleeps = Table::new(&heading, 1);
        for (function, slept) in self.called(true).filter_map(|f| Some((f, f.sleeps.as_ref()?))) {
            sleeps.row(vec![
                function.name.to_owned(),
                function.calls.to_string(),
                time(slept.lateness_ns.median),
                time(slept.lateness_ns.p99),
                time(slept.lateness_ns.max.map(|worst| worst as f64)),
                time(Some(slept.spin_ns as f64)),
                slept.disturbed.to_string(),
            ]);
        }
        let mut text = self.answer.first_line(Shape { colour: false, width: WIDTH });
        let processes = words::processes(plural(self.processes, "process", "processes"), answers.join(", "));
        let lines = self.answer.limits().iter().chain([&processes]);
        text.extend(lines.map(|line| wrap(line, "", "  ", WIDTH)));
        for (sleeps, table) in [(false, clocks), (true, sleeps)] {
            if self.called(sleeps).next().is_some() {
                text.push_str(&table.render());
            }
        }
        text
    }
}

/// How late the sleeps ended, of all sleep functions together; without sleeps what the clock cost.
fn answer(functions: &[Counted], late: &Figures, worst_ns: u64, without_place: u64) -> Answer {
    let slept = || functions.iter().filter_map(|function| function.sleeps.as_ref());
    let calls = |sleeps: bool| -> u64 {
        functions.iter().filter(|function| function.sleeps.is_some() == sleeps).map(|function| function.calls).sum()
    };
    let ended = plural(late.n, "sleep", "sleeps");
    let mut answer = match (late.median, late.p99, calls(true), calls(false)) {
        (Some(median), Some(p99), ..) => Answer::new(words::late(ended, time(Some(median)), time(Some(p99)))),
        (Some(median), None, ..) if late.n == 1 => Answer::new(words::one_late(time(Some(median)))),
        (Some(median), None, ..) => {
            Answer::new(words::few_late(ended, time(Some(median)), time(Some(worst_ns as f64))))
        }
        (None, _, 0, 0) => Answer::none(words::none()),
        (None, _, 0, clocks) => {
            let all = functions.iter().filter_map(|function| function.time_ns).sum();
            Answer::new(words::clocks(clocks, time(Some(all))))
        }
        (None, _, sleeps, _) => Answer::none(words::none_ended(sleeps)),
    };
    let disturbed: u64 = slept().map(|function| function.disturbed).sum();
    if disturbed as f64 > IN_P99 * late.n as f64 {
        answer.limit(words::disturbed(disturbed, calls(true)));
        answer.change(crate::sentences::answer::find_user_of_the_cpu(), "vtare check");
    }
    if without_place > 0 {
        answer.limit(words::without_place(without_place));
    }
    answer
}

fn plural(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// The figures of sleeps that are counted by how late they ended, none beyond the worst, which is known exactly.
fn lateness(counts: &[u64], worst_ns: u64) -> Figures {
    let worst = i64::try_from(worst_ns).unwrap_or(i64::MAX);
    let middles: Vec<(i64, u64)> =
        counts.iter().enumerate().map(|(at, count)| (record::bucket_middle(at).min(worst), *count)).collect();
    Figures::of_counts(&middles)
}

fn counted(words: &[u64], function: Function) -> Counted {
    let field = |field| words[record::field(function, field)];
    let (calls, timed) = (field(Field::Calls), field(Field::Timed));
    let time_ns = (timed > 0).then(|| field(Field::TimedNs) as f64 / timed as f64 * calls as f64);
    let sleeps = function.sleeps().then(|| {
        let first = record::bucket(function, 0);
        let figures = lateness(&words[first..first + BUCKETS], field(Field::WorstNs));
        let n = figures.n;
        Sleeps {
            lateness_ns: Lateness {
                n,
                median: figures.median,
                p99: figures.p99,
                max: (n > 0).then(|| field(Field::WorstNs)),
            },
            spin_ns: field(Field::SpinNs),
            interrupted: field(Field::Interrupted),
            by_kernel: field(Field::Passed),
            disturbed: field(Field::Disturbed),
        }
    });
    Counted { name: function.name(), calls, timed, time_ns, sleeps }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> Vec<u64> {
        let mut words = vec![0; record::WORDS];
        words[record::whole(Whole::Processes)] = 1;
        words[record::whole(Whole::UnorderedClock)] = 1;
        words
    }

    #[test]
    fn the_time_in_clock_functions_is_estimated_from_the_calls_that_were_timed() {
        let mut words = words();
        words[record::field(Function::ClockGettime, Field::Calls)] = 128;
        words[record::field(Function::ClockGettime, Field::Timed)] = 2;
        words[record::field(Function::ClockGettime, Field::TimedNs)] = 50;
        let text = Report::of(&words).text();
        assert!(text.contains("1 process with the library; clock of 1 answered by the counter, unordered."), "{text}");
        let row = text.lines().find(|line| line.starts_with("clock_gettime")).expect("a row");
        let cells: Vec<_> = row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        assert_eq!(cells, ["clock_gettime", "128", "25.0 ns", "3.20 us"]);
        assert!(text.starts_with("128 clock calls took 3.20 us; no sleep function was called.\n"), "{text}");
    }

    #[test]
    fn the_lateness_of_sleeps_has_only_the_quantiles_that_their_number_carries() {
        let mut words = words();
        let function = Function::Usleep;
        words[record::field(function, Field::Calls)] = 4;
        words[record::field(function, Field::WorstNs)] = 40;
        words[record::bucket(function, 12)] = 3;
        words[record::bucket(function, 40)] = 1;
        let report = Report::of(&words);
        assert!(report.text().starts_with("4 sleeps ended 12.0 ns late (median), 40.0 ns (worst).\n"), "{report:?}");
        let document = serde_json::to_value(report).expect("it serialises");
        let usleep = &document["functions"][5];
        assert_eq!(usleep["name"], "usleep");
        assert_eq!(usleep["lateness_ns"], serde_json::json!({"n": 4, "median": 12.0, "p99": null, "max": 40}));
        assert_eq!(document["functions"][0].get("lateness_ns"), None);
    }

    #[test]
    fn a_new_file_counts_nothing_and_is_found_by_its_path() {
        let counts = Counts::create().expect("a file");
        assert!(counts.read().expect("it can be read").is_empty());
        assert_eq!(std::fs::metadata(counts.path()).expect("it is open").len(), BYTES as u64);
    }
}
