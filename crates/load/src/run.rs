//! Starting a load, waiting for its end, and adding up what it did.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use std::net::SocketAddr;

use vtare_sys::block::{self, DeviceTraffic, FileSystem};
use vtare_sys::{clocks, process, sched};
use vtare_units::{Monotonic, Span, Timestamp};

use crate::nbd::client::MOST_STREAMS;
use crate::report::MovedAll;
use crate::workers::Crew;
use crate::{IoReport, LoadError, NbdReport, Report, cpu, io, nbd};

/// How often the stop flag is looked at. A signal may be delivered to any thread, so it need not end this thread's
/// sleep.
pub(crate) const LOOK: Span = Span::from_millis(10);
/// How long threads may take to see that they are to stop; those that sit in a slow device write end with the process.
const GRACE: Span = Span::from_millis(40);

/// The kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Waits: the control of a plan, started and stopped as the other loads are.
    Idle,
    /// Threads that take square roots, 100 by default.
    Cpu,
    /// Threads that count as the counter instrument does, 1 by default.
    Counter,
    /// Threads in pairs of file server and client, 4 by default.
    Io,
    /// Clients of a file service on another machine or outside the guest, 2 by default.
    Nbd {
        /// The server.
        server: SocketAddr,
    },
}

impl Kind {
    /// The kind's name in reports and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Cpu => "cpu",
            Self::Counter => "counter",
            Self::Io => "io",
            Self::Nbd { .. } => "nbd",
        }
    }

    /// The threads of this kind where none are asked for.
    #[must_use]
    pub const fn default_threads(self) -> usize {
        match self {
            Self::Idle => 0,
            // Kirova 2019, section 2.1.3.
            Self::Cpu => 100,
            Self::Counter => 1,
            Self::Io => 4,
            Self::Nbd { .. } => 2,
        }
    }

    fn check(self, threads: usize) -> Result<(), LoadError> {
        let refuse = |wanted| Err(LoadError::Threads { kind: self.name(), found: threads, wanted });
        match self {
            Self::Idle if threads != 0 => refuse("none"),
            Self::Cpu | Self::Counter if !(1..=10_000).contains(&threads) => refuse("1 to 10000"),
            Self::Io if !(2..=1_000).contains(&threads) || threads % 2 == 1 => {
                refuse("an even number from 2 to 1000, a client and a server for each stream")
            }
            Self::Nbd { .. } if !(1..=MOST_STREAMS).contains(&threads) => refuse("1 to 64, a stream each"),
            _ => Ok(()),
        }
    }
}

/// A load to make.
#[derive(Clone, Debug)]
pub struct Options {
    /// What to do.
    pub kind: Kind,
    /// With how many threads; `None` for [`Kind::default_threads`].
    pub threads: Option<usize>,
    /// For how long, from the moment all threads work; `None` until stopped.
    pub limit: Option<Span>,
    /// Where the io load puts its unnamed files, [`crate::FILE_BYTE`] for each pair of threads.
    pub directory: PathBuf,
}

/// Makes the load until `stop` is set or its time is over; calls `ready` once every thread works.
///
/// Ends within 100 ms of either. A thread that is inside a slow write to a device then is left behind and ends with the
/// process; the report does not wait for it.
///
/// # Errors
/// Where the threads, files or sockets cannot be opened, or one of them fails on the way.
pub fn run(options: &Options, stop: &AtomicBool, ready: impl FnOnce()) -> Result<Report, LoadError> {
    let threads = options.threads.unwrap_or(options.kind.default_threads());
    options.kind.check(threads)?;
    // Wakes this thread soon although the load's threads fill the CPUs. Older kernels refuse; then the wake is only
    // later.
    let _ = sched::set_slice(Span::from_micros(100));

    let mut crew = Crew::new();
    let (mut place, mut export) = (None, None);
    match options.kind {
        Kind::Idle => {}
        Kind::Cpu => cpu::start(&mut crew, threads, 2.0, cpu::take_square_roots)?,
        Kind::Counter => cpu::start(&mut crew, threads, 1, cpu::take_steps)?,
        Kind::Nbd { server } => match nbd::client::start(&mut crew, threads, server) {
            Ok(found) => export = Some((server, found)),
            Err(error) => {
                crew.stop();
                return Err(error);
            }
        },
        Kind::Io => {
            place = Some(IoPlace::of(&options.directory));
            if let Err(error) = io::start(&mut crew, threads, &options.directory) {
                crew.stop();
                return Err(error);
            }
        }
    }
    let ended = |crew: &Crew| stop.load(Ordering::Relaxed) || crew.shared.stopping();
    while crew.shared.working() < threads && !ended(&crew) {
        wait(Span::from_millis(1), None);
    }
    let start = Reading::take(&crew, place.as_ref());
    if !ended(&crew) {
        ready();
    }
    let deadline = options.limit.map(|limit| start.at + limit);
    while !ended(&crew) && deadline.is_none_or(|deadline| clocks::now::<Monotonic>() < deadline) {
        wait(LOOK, deadline);
    }
    let end = Reading::take(&crew, place.as_ref());
    crew.stop();
    let give_up = clocks::now::<Monotonic>() + GRACE;
    while crew.shared.ended() < crew.counters.len() && clocks::now::<Monotonic>() < give_up {
        wait(Span::from_millis(1), Some(give_up));
    }
    if let Some(failure) = crew.shared.take_failure() {
        return Err(failure);
    }
    let report = report(options.kind, threads, sched::allowed_cpus().ok().map(|cpus| cpus.len()), &start, &end);
    let nbd = export.map(|(server, export)| export.report(server, end.moved.since(start.moved)));
    Ok(Report { io: place.map(|place| place.report(&start, &end)), nbd, ..report })
}

/// Where the io load has its files.
struct IoPlace {
    file_system: Option<FileSystem>,
    takes_direct: bool,
}

impl IoPlace {
    fn of(directory: &Path) -> Self {
        // Whether it can be written is shown by the load itself.
        let takes_direct = process::unnamed_file(directory).and_then(|file| process::set_direct(&file, true)).is_ok();
        Self { file_system: block::file_system_of(directory), takes_direct }
    }

    fn traffic(&self) -> Option<DeviceTraffic> {
        block::traffic_of(self.file_system.as_ref()?.device.as_ref()?)
    }

    fn report(self, start: &Reading, end: &Reading) -> IoReport {
        let device = end.device.zip(start.device).map(|(end, start)| end.since(start));
        IoReport::of(end.moved.since(start.moved), self.takes_direct, self.file_system, device)
    }
}

/// Waits for `span`, no further than to `deadline`.
pub(crate) fn wait(span: Span, deadline: Option<Timestamp<Monotonic>>) {
    let until = clocks::now::<Monotonic>() + span;
    // A refused sleep would turn this loop into a spin of its caller, never into a hang.
    let _ = clocks::sleep_until(deadline.map_or(until, |deadline| deadline.min(until)));
}

/// The counters at one moment.
pub(crate) struct Reading {
    at: Timestamp<Monotonic>,
    cpu_time: Span,
    operations: u64,
    moved: MovedAll,
    device: Option<DeviceTraffic>,
}

impl Reading {
    /// Of a load without a crew.
    pub(crate) fn bare(at: Timestamp<Monotonic>, cpu_time: Span) -> Self {
        Self { at, cpu_time, operations: 0, moved: MovedAll::default(), device: None }
    }

    /// When it was.
    pub(crate) fn at(&self) -> Timestamp<Monotonic> {
        self.at
    }

    fn take(crew: &Crew, place: Option<&IoPlace>) -> Self {
        Self {
            at: clocks::now(),
            cpu_time: process::cpu_time(),
            operations: crew.operations(),
            moved: crew.moved(),
            device: place.and_then(IoPlace::traffic),
        }
    }
}

fn report(kind: Kind, threads: usize, cpus: Option<usize>, start: &Reading, end: &Reading) -> Report {
    let elapsed = (end.at - start.at).as_secs_f64();
    let operations = end.operations.saturating_sub(start.operations);
    let per_second = |amount: f64| (elapsed > 0.0).then(|| amount / elapsed);
    Report {
        schema: "vtare.load/1",
        kind: kind.name(),
        elapsed_s: elapsed,
        threads,
        operations,
        operations_per_s: per_second(operations as f64),
        cpu_fraction: cpus
            .filter(|cpus| *cpus > 0)
            .and_then(|cpus| per_second((end.cpu_time - start.cpu_time).as_secs_f64() / cpus as f64)),
        io: None,
        nbd: None,
        net: None,
    }
}

/// The report of the file service's server.
pub(crate) fn nbd_report(start: &Reading, end: &Reading, nbd: NbdReport) -> Report {
    let cpus = sched::allowed_cpus().ok().map(|cpus| cpus.len());
    Report { kind: "nbd", nbd: Some(nbd), ..report(Kind::Idle, 0, cpus, start, end) }
}

/// The report of a net load.
pub(crate) fn net_report(start: &Reading, end: &Reading, net: crate::net::NetReport) -> Report {
    let end = Reading { operations: net.packets, ..*end };
    let cpus = sched::allowed_cpus().ok().map(|cpus| cpus.len());
    Report { kind: "net", net: Some(net), ..report(Kind::Idle, 1, cpus, start, &end) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Moved;

    fn options(kind: Kind, threads: usize) -> Options {
        Options { kind, threads: Some(threads), limit: Some(Span::from_millis(50)), directory: std::env::temp_dir() }
    }

    fn reading(at_ms: u64, cpu_ms: i64, operations: u64) -> Reading {
        Reading {
            at: Timestamp::from_nanos(at_ms * 1_000_000),
            cpu_time: Span::from_millis(cpu_ms),
            operations,
            moved: MovedAll {
                buffered: Moved { written_byte: operations * 10, ..Moved::default() },
                direct: Moved { written_byte: operations, ..Moved::default() },
                ..MovedAll::default()
            },
            device: Some(DeviceTraffic { written_byte: operations * 100, read_byte: 7 }),
        }
    }

    #[test]
    fn the_report_holds_what_was_done_between_its_two_readings() {
        let made = report(Kind::Cpu, 3, Some(2), &reading(1_000, 500, 100), &reading(3_000, 3_500, 1_100));
        assert_eq!((made.elapsed_s, made.operations, made.operations_per_s), (2.0, 1_000, Some(500.0)));
        assert_eq!(made.cpu_fraction, Some(0.75), "3 s of CPU time in 2 s on 2 CPUs");
        assert_eq!(made.io, None);
    }

    #[test]
    fn buffered_and_direct_access_and_the_device_are_counted_apart() {
        let (start, end) = (reading(0, 0, 1), reading(1_000, 0, 4));
        let place = |takes_direct| IoPlace { file_system: None, takes_direct };
        let made = place(true).report(&start, &end);
        assert_eq!((made.written_byte, made.buffered.written_byte), (33, 30));
        assert_eq!(made.direct.map(|moved| moved.written_byte), Some(3));
        assert_eq!(made.device, Some(DeviceTraffic { written_byte: 300, read_byte: 0 }));
        assert_eq!(place(false).report(&start, &end).direct, None, "refused is not zero");
    }

    #[test]
    fn a_load_stopped_at_once_states_no_rate() {
        let made = report(Kind::Cpu, 3, None, &reading(5, 5, 5), &reading(5, 5, 5));
        assert_eq!((made.operations_per_s, made.cpu_fraction), (None, None));
    }

    #[test]
    fn threads_that_make_no_such_load_are_refused_with_the_way_out() {
        let nbd = Kind::Nbd { server: ([127, 0, 0, 1], 1).into() };
        for (kind, threads) in
            [(Kind::Cpu, 0), (Kind::Io, 3), (Kind::Io, 0), (Kind::Idle, 1), (Kind::Cpu, 10_001), (nbd, 65)]
        {
            let error = run(&options(kind, threads), &AtomicBool::new(false), || {}).expect_err("no such load");
            let text = error.to_string();
            assert!(text.starts_with(&format!("--threads {threads} makes no ")) && text.contains(": use "), "{text}");
        }
    }

    #[test]
    fn each_kind_works_states_so_and_counts() {
        for (kind, threads) in [(Kind::Cpu, 3), (Kind::Io, 2), (Kind::Idle, 0)] {
            let mut was_ready = false;
            // Long enough for a device that takes 100 ms to sync.
            let limit = Some(Span::from_millis(if kind == Kind::Io { 500 } else { 50 }));
            let options = Options { limit, ..options(kind, threads) };
            let made = run(&options, &AtomicBool::new(false), || was_ready = true).expect("the load is made");
            assert!(was_ready);
            assert_eq!(made.threads, threads);
            assert_eq!(made.operations > 0, kind != Kind::Idle, "{made:?}");
            assert_eq!(made.io.is_some(), kind == Kind::Io);
            if let Some(io) = made.io {
                assert!(io.socket_byte > 0 && io.file_system.is_some(), "{io:?}");
                let direct = io.direct.unwrap_or_default();
                assert_eq!(io.written_byte, io.buffered.written_byte + direct.written_byte);
            }
        }
    }

    #[test]
    fn a_load_that_is_stopped_before_it_starts_ends_without_saying_ready() {
        let mut was_ready = false;
        let unlimited = Options { limit: None, ..options(Kind::Cpu, 2) };
        let made = run(&unlimited, &AtomicBool::new(true), || was_ready = true).expect("an early stop is no error");
        assert!(!was_ready);
        assert_eq!(made.kind, "cpu");
    }

    #[test]
    fn a_missing_directory_is_named_with_the_space_wanted() {
        let missing = Options { directory: PathBuf::from("/nonexistent/vtare"), ..options(Kind::Io, 4) };
        let text = run(&missing, &AtomicBool::new(false), || {}).expect_err("no such directory").to_string();
        assert!(text.contains("/nonexistent/vtare") && text.contains("32 MiB") && text.contains("--dir"), "{text}");
    }

    #[test]
    fn the_document_has_exactly_the_keys_of_the_contract() {
        let made = run(&options(Kind::Io, 2), &AtomicBool::new(false), || {}).expect("the load is made");
        let document = serde_json::to_value(made).expect("a report is plain data");
        let keys =
            |value: &serde_json::Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
        let mut found = keys(&document);
        found.sort();
        let mut wanted = [
            "schema",
            "kind",
            "elapsed_s",
            "threads",
            "operations",
            "operations_per_s",
            "cpu_fraction",
            "io",
            "nbd",
            "net",
        ]
        .map(str::to_owned);
        wanted.sort();
        assert_eq!(found, wanted);
        let contract = include_str!("../../../docs/internals/contract.md");
        for key in found.iter().chain(&keys(&document["io"])) {
            assert!(contract.contains(key.as_str()), "{key} is not in docs/internals/contract.md");
        }
    }
}
