//! Lines for standard error and standard output that never end or block the daemon: a thread of its own writes them.
//!
//! Strangers make a responder log. Its standard error may be a full disk, a pipe whose reader has gone, or one whose
//! reader stalls; the descriptor may be shared with other processes, so it cannot be made non-blocking.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

use crate::failure::Failure;

/// Bytes of lines that wait for the writing thread: about 2,000 lines. Those beyond are dropped and counted.
const QUEUE_BYTE: usize = 256 << 10;

/// How long the end of the daemon waits for lines to be written.
const DRAIN: Duration = Duration::from_millis(500);

/// Lines on their way to one stream.
#[derive(Clone, Debug)]
pub(super) struct Lines(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Vec<u8>>,
    queue_byte: usize,
    /// A line has been taken and not been written yet.
    writing: bool,
    /// Lines that were not written.
    dropped: u64,
    /// Of those, not reported in the stream itself yet.
    unreported: u64,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    /// Starts the thread that writes to `stream`. It lasts as long as the process.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub(super) fn to(stream: impl Write + Send + 'static) -> Result<Self, Failure> {
        let shared = Arc::new(Shared::default());
        let lines = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("log".to_owned()).spawn(move || write_lines(&lines, stream));
        thread.map_err(|error| Failure::Machine(format!("starting a thread: {error}")))?;
        Ok(Self(shared))
    }

    /// Hands a whole line over; never waits.
    pub(super) fn push(&self, line: Vec<u8>) {
        let mut state = self.0.lock();
        if state.queue_byte + line.len() > QUEUE_BYTE {
            state.drop_lines(1);
            return;
        }
        state.queue_byte += line.len();
        state.queue.push_back(line);
        self.0.changed.notify_all();
    }

    /// Lines dropped so far.
    pub(super) fn dropped(&self) -> u64 {
        self.0.lock().dropped
    }

    /// Waits for a bounded time until all lines have been written, and gives the number of those that were not.
    pub(super) fn drain(&self) -> u64 {
        let waiting = |state: &mut State| state.writing || !state.queue.is_empty();
        let waited = self.0.changed.wait_timeout_while(self.0.lock(), DRAIN, waiting);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.dropped + state.queue.len() as u64 + u64::from(state.writing)
    }
}

impl State {
    const fn drop_lines(&mut self, count: u64) {
        self.dropped += count;
        self.unreported += count;
    }
}

fn write_lines(shared: &Shared, mut stream: impl Write) {
    // The stream ends within a line: a full disk took a part of it.
    let mut torn = false;
    let mut state = shared.lock();
    loop {
        let Some(line) = state.queue.pop_front() else {
            state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            continue;
        };
        state.queue_byte -= line.len();
        state.writing = true;
        let unreported = state.unreported;
        drop(state);
        let mut text = if torn { b"\n".to_vec() } else { Vec::new() };
        if unreported > 0 {
            text.extend_from_slice(&report_of(unreported));
        }
        text.extend_from_slice(&line);
        let written = write_whole(&mut stream, &text);
        state = shared.lock();
        state.writing = false;
        match written {
            Ok(()) => {
                torn = false;
                state.unreported -= unreported;
            }
            Err(some) => {
                torn |= some;
                state.drop_lines(1);
            }
        }
        shared.changed.notify_all();
    }
}

/// The line about lines that were dropped, as the others are made.
fn report_of(dropped: u64) -> Vec<u8> {
    let mut time = String::new();
    let _ = SystemTime.format_time(&mut Writer::new(&mut time));
    format!("{time}  WARN log lines were dropped: they could not be written count={dropped}\n").into_bytes()
}

/// Writes all, or answers whether a part was written.
fn write_whole(stream: &mut impl Write, text: &[u8]) -> Result<(), bool> {
    let mut rest = text;
    while !rest.is_empty() {
        match stream.write(rest) {
            Ok(0) => return Err(rest.len() < text.len()),
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(rest.len() < text.len()),
        }
    }
    // A stream without a buffer has nothing to flush.
    stream.flush().map_err(|_| true)
}

/// One line as the log's formatter writes it; handed over when dropped.
pub(super) struct Line<'l> {
    lines: &'l Lines,
    text: Vec<u8>,
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        if !self.text.is_empty() {
            self.lines.push(std::mem::take(&mut self.text));
        }
    }
}

impl<'l> MakeWriter<'l> for Lines {
    type Writer = Line<'l>;

    fn make_writer(&'l self) -> Line<'l> {
        Line { lines: self, text: Vec::new() }
    }
}

/// Has panics go the way of all lines: the standard library would wait for a stream that stalls, and never end the
/// process.
pub(super) fn report_panics(lines: &Lines) {
    let lines = lines.clone();
    std::panic::set_hook(Box::new(move |panic| {
        lines.push(format!("vtare: {panic}\n").into_bytes());
        lines.drain();
    }));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Receiver, Sender, channel};

    /// A stream that does with each write as it is ordered to: takes the number of bytes ordered, or fails.
    struct Ordered {
        orders: Receiver<Option<usize>>,
        taken: Sender<Vec<u8>>,
    }

    impl Write for Ordered {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let most = self.orders.recv().ok().flatten().ok_or(io::ErrorKind::StorageFull)?;
            let taken = most.min(bytes.len());
            let _ = self.taken.send(bytes[..taken].to_vec());
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    const ALL: Option<usize> = Some(usize::MAX);

    fn ordered() -> (Lines, Sender<Option<usize>>, Receiver<Vec<u8>>) {
        let (order, orders) = channel();
        let (taken, text) = channel();
        (Lines::to(Ordered { orders, taken }).expect("threads start"), order, text)
    }

    #[test]
    fn a_stream_that_stalls_costs_bounded_memory_and_the_rest_is_counted() {
        let (lines, _order, _text) = ordered();
        for _ in 0..10_000 {
            lines.push(vec![b'x'; 1_024]);
        }
        // One line may have been taken from the queue before it was full.
        let kept = 10_000 - lines.dropped();
        assert!((256..=257).contains(&kept), "{kept}");
        assert_eq!(lines.drain(), 10_000, "nothing was written");
    }

    #[test]
    fn what_failed_is_counted_and_reported_before_the_first_line_that_is_written_again() {
        let (lines, order, text) = ordered();
        // The second line is torn: three of its bytes are written.
        for (line, orders) in [("one\n", vec![ALL]), ("two lines\n", vec![Some(3), None]), ("three\n", vec![None])] {
            lines.push(line.as_bytes().to_vec());
            orders.into_iter().for_each(|it| order.send(it).expect("the thread lives"));
        }
        assert_eq!(lines.drain(), 2);
        order.send(ALL).expect("the thread lives");
        lines.push(b"four\n".to_vec());
        assert_eq!(lines.drain(), 2);
        order.send(ALL).expect("the thread lives");
        lines.push(b"five\n".to_vec());
        assert_eq!(lines.drain(), 2);
        let all = String::from_utf8(text.try_iter().flatten().collect()).expect("it is text");
        let found: Vec<&str> = all.lines().collect();
        assert_eq!((found[0], found[1], &found[3..]), ("one", "two", &["four", "five"][..]), "{all}");
        assert!(found[2].ends_with("count=2"), "{all}");
    }
}
