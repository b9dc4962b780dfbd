//! What the tests of the binary share. The binary is the thing under test: it is started as a person or the lab starts
//! it.

pub(crate) mod schema;
pub(crate) mod skips;
pub(crate) mod wire;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;
use skips::{Disturbance, Judged, first_good};
use vtare_units::{Monotonic, Span, Timestamp};

/// The binary.
pub(crate) const VTARE: &str = env!("CARGO_BIN_EXE_vtare");

/// What came of one start of the binary.
pub(crate) struct Outcome {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Outcome {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code().expect("the process was not killed"),
            stdout: String::from_utf8(output.stdout).expect("output is UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("errors are UTF-8"),
        }
    }

    /// The one JSON document on stdout, which is as its schema states.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let document = serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error} in:\n{}\n{}", self.stdout, self.stderr));
        schema::hold(&document);
        document
    }

    /// Checks the exit code, and that stderr has each of `parts`.
    #[track_caller]
    pub(crate) fn refused(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, code, "{}{}", self.stdout, self.stderr);
        for part in parts {
            assert!(self.stderr.contains(part), "'{part}' is missing in: {}", self.stderr);
        }
    }
}

impl Outcome {
    /// Whether the far end did not answer in time on the control connection. Here it is there: the machine stalled.
    pub(crate) fn unheard(&self) -> bool {
        let mentions = |words: &str| self.stderr.contains(words);
        self.code == 4 && (mentions("no answer from") || mentions("closed the connection") || mentions("broke while"))
    }

    /// How late something was without being lost for good: slots that passed, replies later than is waited for, a far
    /// end that did not answer.
    pub(crate) fn timely(&self, disturbance: &Disturbance) -> Judged {
        if self.unheard() {
            return judged(disturbance.explains(NO_ANSWER_NS), format!("no answer: {}", self.stderr.trim()));
        }
        if self.stdout.is_empty() {
            return Judged::Good;
        }
        let document = self.json();
        if document["notes"].to_string().contains("counters_lost") {
            return judged(disturbance.explains(NO_ANSWER_NS), "the responder's counters did not come".to_owned());
        }
        let cells = document["cells"].as_array().into_iter().flatten();
        cells
            .map(|cell| timely(cell, &document["parameters"], disturbance))
            .find(|found| *found != Judged::Good)
            .unwrap_or(Judged::Good)
    }
}

/// A far end that did not answer in time took seconds: the client waits 10 s.
const NO_ANSWER_NS: u64 = 2_000_000_000;

fn judged(is_explained: bool, why: String) -> Judged {
    if is_explained { Judged::Explained(why) } else { Judged::Unexplained(why) }
}

fn count_at(cell: &Value, path: &str) -> u64 {
    cell.pointer(path).and_then(Value::as_u64).unwrap_or(0)
}

/// Whether the sending thread itself could not run for that long.
fn stood_still(cell: &Value, late_ns: u64) -> bool {
    count_at(cell, "/canary/longest_ns") >= late_ns / 20 || count_at(cell, "/canary/involuntary_switches") > 0
}

/// Whether slots passed and replies came too late, and what explains that.
fn timely(cell: &Value, parameters: &Value, disturbance: &Disturbance) -> Judged {
    let (too_late, late) = (count_at(cell, "/unsent/too_late"), count_at(cell, "/lost_by/late"));
    if too_late == 0 && late == 0 {
        return Judged::Good;
    }
    // A slot is given up when it is so late (docs/methods/rtt.md).
    let rate = cell["intended_packet_per_s"].as_f64().unwrap_or(1_000.0);
    let catch_up_ns = ((5_000.0 / rate * 1e9) as u64).min(100_000_000);
    let timeout_ns = parameters["timeout_ns"].as_u64().unwrap_or(2_000_000_000);
    let slots = too_late == 0 || disturbance.explains(catch_up_ns) || stood_still(cell, catch_up_ns);
    let replies = late == 0 || disturbance.explains(timeout_ns);
    judged(slots && replies, format!("{too_late} slots passed, {late} replies came too late"))
}

/// Whether every packet was sent and answered; where not, whether what is counted on this machine explains each class
/// of losses. Losses on a path that loses nothing are a fault of ours, unless the kernel's own queue was full.
pub(crate) fn whole(cell: &Value, parameters: &Value, disturbance: &Disturbance) -> Judged {
    if cell["received"] == cell["scheduled"] {
        return Judged::Good;
    }
    let path: u64 = ["forward", "reverse", "unattributed"]
        .iter()
        .map(|class| count_at(&cell["lost_by"], &format!("/{class}")))
        .sum();
    let refused = count_at(cell, "/lost_by/responder");
    // Dropped where a buffer was full, and counted there: `responder_rx`, `local_rx`, `local_tx`, `no_room`.
    let on_time = !matches!(timely(cell, parameters, disturbance), Judged::Unexplained(_));
    let is_explained =
        (path == 0 || disturbance.queue_drops > 0) && (refused == 0 || disturbance.explains(100_000_000)) && on_time;
    judged(is_explained, format!("lost by {}, unsent {}", cell["lost_by"], cell["unsent"]))
}

/// Runs made anew where the machine, and not the program, spoiled one.
const RUNS: u32 = 6;

/// A run of `vtare ... --json` in which the machine did not stall; `None`, reported and counted, where it did in each
/// of six. What becomes of late packets is tested on the simulated path.
#[track_caller]
pub(crate) fn undisturbed(run: impl FnMut() -> Outcome) -> Option<Outcome> {
    first_good(RUNS, run, Outcome::timely)
}

/// A run that the far end let in, whatever came of it.
pub(crate) fn accepted(mut run: impl FnMut() -> Outcome) -> Outcome {
    let found = (0..RUNS).map(|_| run()).find(|outcome| !outcome.unheard());
    found.expect("the far end answers within the patience in one of six runs")
}

/// The time.
pub(crate) fn now() -> Timestamp<Monotonic> {
    vtare_sys::clocks::now()
}

/// Whole seconds since then.
pub(crate) fn seconds_since(began: Timestamp<Monotonic>) -> u64 {
    (now() - began).as_nanos_unsigned() / 1_000_000_000
}

/// Waits for a number of milliseconds, where what happens meanwhile is what is tested.
pub(crate) fn pause(milliseconds: i64) {
    vtare_sys::clocks::sleep_until(now() + Span::from_millis(milliseconds)).expect("the kernel lets it sleep");
}

/// Asks until it is so; a minute is far above what anything here takes.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = now();
    while !is_so() {
        assert!(seconds_since(began) < 60, "in a minute not so: {what}");
        std::thread::park_timeout(std::time::Duration::from_millis(10));
    }
}

/// Whether this process takes SIGINT itself.
pub(crate) fn takes_interrupts(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).map(str::trim);
    caught.and_then(|mask| u64::from_str_radix(mask, 16).ok()).is_some_and(|mask| mask & 2 != 0)
}

/// Starts the binary and waits for it.
pub(crate) fn vtare<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Outcome {
    Outcome::of(Command::new(VTARE).args(arguments).env("COLUMNS", "100").output().expect("the binary starts"))
}

/// As [`vtare`], with the arguments in one string.
pub(crate) fn vtare_line(line: &str) -> Outcome {
    vtare(line.split_whitespace())
}

/// A directory of its own for one test, removed when dropped.
pub(crate) struct Place(PathBuf);

impl Place {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("vtare-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the temporary directory is writable");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes `text` to a file here.
    pub(crate) fn with(&self, name: &str, text: &str) -> PathBuf {
        let path = self.file(name);
        std::fs::write(&path, text).expect("the place is writable");
        path
    }

    /// The names of the files here, in order.
    pub(crate) fn files(&self) -> Vec<String> {
        let names = std::fs::read_dir(&self.0).expect("the place exists");
        let mut names: Vec<String> =
            names.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

/// Compares `found` with the file at `path` in the repository; `VTARE_BLESS=1` writes the file instead.
#[track_caller]
pub(crate) fn golden(path: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("VTARE_BLESS").is_some() {
        std::fs::write(&path, found).expect("the repository is writable");
        return;
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    let name = path.display();
    assert!(found == wanted, "{name} differs; VTARE_BLESS=1 cargo test -p vtare writes it anew. Found:\n{found}");
}

/// The names of the columns of a Parquet file, and those that `vtare schema --columns` states at this place.
pub(crate) fn found_and_stated_columns(path: &Path, part: &str, name: &str) -> (Vec<String>, Vec<String>) {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let reader = SerializedFileReader::new(std::fs::File::open(path).expect("written")).expect("it is Parquet");
    let found = reader.metadata().file_metadata().schema_descr().columns().iter().map(|one| one.name().to_owned());
    let stated = vtare_line("schema --columns").json();
    let stated = stated[part][name].as_array().expect("the columns are stated").iter();
    (found.collect(), stated.map(|column| column["name"].as_str().expect("a name").to_owned()).collect())
}
