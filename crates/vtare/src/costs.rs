//! `vtare costs`: what single services of the kernel cost where it runs, for `vtare weigh` (docs/guide/weigh.md).
//!
//! Each kind of [`events`](crate::events) has a small program that does little else: it is timed, or counted.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::net::UdpSocket;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use vtare_sys::perf::Counts;
use vtare_sys::{clocks, process};
use vtare_units::{Monotonic, Span};

use crate::context::Context;
use crate::events::{
    COPY, CREATE, Events, FILE_FAULT, FSYNC, Happened, LISTING, LOOKUP, MAPPING, NAME, OPEN, PACKET, PAGE_FAULT,
    PROGRAM, READ, SLEEP, SYSTEM_CALL, WAKE_UP,
};
use crate::failure::{Exit, Failure};
use crate::output::print_on;

/// How long a batch is at least: a tick of the kernel more or less is some percent of it.
const BATCH: Span = Span::from_millis(3);
const BATCHES: usize = 5;
/// Turns of a batch that is counted: what begins and ends it is little beside them.
const COUNTED_TURNS: u64 = 64;
const PAGE_BYTE: usize = 4096;
/// Enough of them that to map them is little beside their faults.
const PAGES: usize = 1024;
/// Of a library: enough beside its mapping, and not more than many have.
const FILE_PAGES: usize = 256;
/// Pages of a file that the kernel maps together, around the one that was asked for.
const TOGETHER: usize = 16;
/// Pages of these that a program writes to: 2 to 11 where python3, git, tar, sqlite3 and gcc start.
const WRITTEN: usize = 4;
/// More are not needed in the time that this program takes.
const MOST_FILES: usize = 4096;
const SLEPT: Span = Span::from_millis(1);
/// What programs everywhere can start, and what does nothing.
const TRUE: &str = "/bin/true";

/// Arguments of `vtare costs`.
#[derive(Debug, clap::Args)]
pub(crate) struct CostsArguments {
    /// Count what each of the small programs does, and time nothing
    #[arg(long)]
    count: bool,
}

/// Does a number of turns.
type Work = Box<dyn FnMut(u64) -> io::Result<()>>;

/// Measures or counts, and prints one JSON document.
///
/// # Errors
/// Where events cannot be counted here, and where stdout cannot be written.
pub(crate) fn command(arguments: &CostsArguments, context: &Context) -> Result<Exit, Failure> {
    if !process::end_with_parent()? {
        return Ok(Exit::Interrupted);
    }
    let events = match arguments.count {
        true => Some(Events::open(Counts::WhenEnabled).map_err(Failure::Machine)?),
        false => None,
    };
    let (mut costs, mut counts, mut missing) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for (kind, work) in works() {
        if context.stop_requested() {
            return Ok(Exit::Interrupted);
        }
        if events.as_ref().is_some_and(|events| !events.tells_apart(kind)) {
            continue;
        }
        let done = work.and_then(|mut work| {
            // The first turn finds nothing in caches.
            work(1)?;
            match &events {
                Some(events) => counts.insert(kind, per_turn(&events.during(|| work(COUNTED_TURNS))?)).map(drop),
                None => costs.insert(kind, batches(&mut work)?).map(drop),
            };
            Ok(())
        });
        if let Err(error) = done {
            missing.insert(kind, error.to_string());
        }
    }
    let document = match arguments.count {
        true => json!({"counts": counts, "missing": missing}),
        false => json!({"costs": costs, "missing": missing}),
    };
    print_on(&format!("{document}\n")).map(|_| Exit::Measured)
}

fn per_turn(happened: &Happened) -> BTreeMap<&'static str, f64> {
    happened.iter().map(|(kind, count)| (*kind, *count as f64 / COUNTED_TURNS as f64)).collect()
}

/// Nanoseconds per turn, of each batch.
fn batches(work: &mut Work) -> io::Result<Vec<f64>> {
    let mut timed = |turns: u64| -> io::Result<Span> {
        let begin = clocks::now::<Monotonic>();
        work(turns)?;
        Ok(clocks::now::<Monotonic>() - begin)
    };
    let mut turns = 1;
    while timed(turns)? < BATCH {
        turns *= 2;
    }
    (0..BATCHES).map(|_| Ok(timed(turns)?.as_nanos() as f64 / turns as f64)).collect()
}

/// The small program of each kind; an error where this place does not let it run.
fn works() -> [(&'static str, io::Result<Work>); 16] {
    let (mapped, there): (Vec<_>, Vec<_>) = untouched_files().into_iter().partition(|path| is_library(path));
    let (opened, looked_up) = there.split_at(there.len() / 2);
    [
        (SYSTEM_CALL, Ok(Box::new(|turns| repeat(turns, call)))),
        (PAGE_FAULT, Ok(Box::new(|turns| repeat(turns, || process::touch_pages(None, PAGES, [], written(PAGES)))))),
        (FILE_FAULT, of_each(&mapped, |path| touch(path, false))),
        (COPY, of_each(&mapped, |path| touch(path, true))),
        (MAPPING, Ok(Box::new(|turns| repeat(turns, || process::touch_pages(None, PAGES, [], [0]))))),
        (OPEN, of_each(opened, |path| File::open(path).map(drop))),
        (LOOKUP, of_each(looked_up, |path| path.symlink_metadata().map(drop))),
        (CREATE, creating()),
        (NAME, naming()),
        (LISTING, listing()),
        (READ, reading()),
        (FSYNC, syncing()),
        (PACKET, sending()),
        (SLEEP, Ok(Box::new(|turns| repeat(turns, sleep)))),
        (WAKE_UP, Ok(Box::new(wake_each_other))),
        (PROGRAM, Ok(Box::new(|turns| repeat(turns, start_program)))),
    ]
}

fn repeat(turns: u64, mut once: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    (0..turns).try_for_each(|_| once())
}

/// Whether it can be mapped in pages enough.
fn is_library(path: &Path) -> bool {
    let named = path.file_name().is_some_and(|name| name.to_string_lossy().contains(".so"));
    named && path.metadata().is_ok_and(|file| file.len() >= (FILE_PAGES * PAGE_BYTE) as u64)
}

/// Files that this program has not opened, looked up or mapped: of one that it has, a sandbox knows what it has to ask
/// for at first, and most programs open a file once.
fn untouched_files() -> Vec<PathBuf> {
    let (mut files, mut directories) = (Vec::new(), VecDeque::from(["/usr/lib", "/usr/share"].map(PathBuf::from)));
    while let Some(directory) = directories.pop_front().filter(|_| files.len() < MOST_FILES) {
        for entry in directory.read_dir().into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => directories.push_back(entry.path()),
                Ok(kind) if kind.is_file() => files.push(entry.path()),
                _ => {}
            }
        }
    }
    files
}

fn of_each(files: &[PathBuf], work: fn(&Path) -> io::Result<()>) -> io::Result<Work> {
    if files.is_empty() {
        return Err(io::Error::other("there are no such files in /usr/lib and /usr/share"));
    }
    let (files, mut at) = (files.to_vec(), 0);
    Ok(Box::new(move |turns| {
        repeat(turns, || {
            at = (at + 1) % files.len();
            work(&files[at])
        })
    }))
}

/// A name in the temporary directory that nobody else has.
fn own_name() -> PathBuf {
    std::env::temp_dir().join(format!("vtare-costs-{}", std::process::id()))
}

fn written(pages: usize) -> impl Iterator<Item = usize> {
    (0..pages).filter(|page| page % TOGETHER < WRITTEN)
}

fn touch(library: &Path, write: bool) -> io::Result<()> {
    let all = if write { FILE_PAGES } else { 0 };
    process::touch_pages(Some(&File::open(library)?), FILE_PAGES, (0..FILE_PAGES).step_by(TOGETHER), written(all))
}

fn creating() -> io::Result<Work> {
    let path = own_name();
    Ok(Box::new(move |turns| {
        repeat(turns, || {
            File::create(&path)?;
            std::fs::remove_file(&path)
        })
    }))
}

fn naming() -> io::Result<Work> {
    let path = own_name();
    Ok(Box::new(move |turns| {
        repeat(turns, || {
            std::fs::create_dir(&path)?;
            std::fs::remove_dir(&path)
        })
    }))
}

fn listing() -> io::Result<Work> {
    let directory = own_file()?.parent().map_or_else(|| PathBuf::from("/"), PathBuf::from);
    Ok(Box::new(move |turns| repeat(turns, || directory.read_dir().map(|entries| entries.for_each(drop)))))
}

/// A file that is there wherever this program runs.
fn own_file() -> io::Result<PathBuf> {
    std::env::current_exe()
}

fn reading() -> io::Result<Work> {
    let file = File::open(own_file()?)?;
    let mut page = [0; PAGE_BYTE];
    Ok(Box::new(move |turns| repeat(turns, || file.read_exact_at(&mut page, 0))))
}

fn syncing() -> io::Result<Work> {
    let file = process::unnamed_file(&std::env::temp_dir())?;
    Ok(Box::new(move |turns| {
        repeat(turns, || {
            file.write_all_at(&[1; PAGE_BYTE], 0)?;
            file.sync_data()
        })
    }))
}

fn sending() -> io::Result<Work> {
    let (from, to) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    from.connect(to.local_addr()?)?;
    let mut received = [0; 64];
    Ok(Box::new(move |turns| {
        repeat(turns, || {
            from.send(&[1; 64])?;
            to.recv(&mut received).map(drop)
        })
    }))
}

/// Two threads that wait for each other in turn.
fn wake_each_other(turns: u64) -> io::Result<()> {
    let at = AtomicU64::new(0);
    let main = std::thread::current();
    let wait_for = |turn: u64| {
        while at.load(Ordering::Acquire) < turn {
            std::thread::park();
        }
    };
    std::thread::scope(|scope| {
        let other = std::thread::Builder::new().spawn_scoped(scope, || {
            for turn in 0..turns {
                wait_for(2 * turn + 1);
                at.store(2 * turn + 2, Ordering::Release);
                main.unpark();
            }
        })?;
        for turn in 0..turns {
            at.store(2 * turn + 1, Ordering::Release);
            other.thread().unpark();
            wait_for(2 * turn + 2);
        }
        Ok(())
    })
}

fn call() -> io::Result<()> {
    std::hint::black_box(rustix::process::getppid());
    Ok(())
}

fn sleep() -> io::Result<()> {
    clocks::sleep_until(clocks::now::<Monotonic>() + SLEPT)?;
    Ok(())
}

fn start_program() -> io::Result<()> {
    let status = Command::new(TRUE).stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{TRUE} ended with {status}"))) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_small_program_can_be_timed_and_the_sleep_is_as_long_as_asked() {
        for (kind, work) in works() {
            // Such as where there is no network.
            let Ok(mut work) = work else { continue };
            let timed = batches(&mut work).expect("it began");
            assert!(timed.len() == BATCHES && timed.iter().all(|ns| *ns > 0.0), "{kind}: {timed:?}");
            assert!(kind != SLEEP || timed.iter().all(|ns| *ns >= SLEPT.as_nanos() as f64), "{timed:?}");
        }
    }

    #[test]
    fn where_events_can_be_counted_each_small_program_does_its_own_kind_once_a_turn() {
        let events = match Events::open(Counts::WhenEnabled) {
            Ok(events) => events,
            Err(reason) => return eprintln!("skipped: {reason}"),
        };
        for (kind, work) in works() {
            let Ok(mut work) = work else { continue };
            if !events.tells_apart(kind) {
                continue;
            }
            let happened = per_turn(&events.during(|| work(COUNTED_TURNS)).expect("it began"));
            let least = match kind {
                PAGE_FAULT => 200.0,
                COPY => 50.0,
                _ => 0.9,
            };
            assert!(happened[kind] >= least && happened[kind] < 300.0, "{kind}: {happened:?}");
        }
    }
}
