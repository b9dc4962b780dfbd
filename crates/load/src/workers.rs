//! The threads of a load and the counters they leave.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::LoadError;
use crate::report::{Moved, MovedAll};

/// What all threads of a load see.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    stop: AtomicBool,
    working: AtomicUsize,
    ended: AtomicUsize,
    failure: Mutex<Option<LoadError>>,
}

impl Shared {
    pub(crate) fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Called by each thread once it has done its first piece of work.
    pub(crate) fn note_working(&self) {
        self.working.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn working(&self) -> usize {
        self.working.load(Ordering::Relaxed)
    }

    pub(crate) fn ended(&self) -> usize {
        self.ended.load(Ordering::Acquire)
    }

    /// Keeps the first failure and stops the load: half a load would pass for a whole one. Once the load stops, errors
    /// come from sockets that were shut down under a thread and mean nothing.
    fn fail(&self, error: LoadError) {
        if !self.stopping() {
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            self.stop();
        }
    }

    pub(crate) fn take_failure(&self) -> Option<LoadError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// One thread's counters, alone on its cache lines: the threads must not slow each other down.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct Counters {
    pub(crate) operations: AtomicU64,
    pub(crate) buffered: MovedCounters,
    pub(crate) direct: MovedCounters,
    pub(crate) fsyncs: AtomicU64,
    pub(crate) socket_byte: AtomicU64,
}

/// What one kind of access to files moved.
#[derive(Debug, Default)]
pub(crate) struct MovedCounters {
    pub(crate) written_byte: AtomicU64,
    pub(crate) read_byte: AtomicU64,
    pub(crate) operations: AtomicU64,
}

impl MovedCounters {
    fn read(&self) -> Moved {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Moved {
            written_byte: read(&self.written_byte),
            read_byte: read(&self.read_byte),
            operations: read(&self.operations),
        }
    }
}

impl Counters {
    pub(crate) fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }

    fn moved(&self) -> MovedAll {
        MovedAll {
            buffered: self.buffered.read(),
            direct: self.direct.read(),
            fsyncs: self.fsyncs.load(Ordering::Relaxed),
            socket_byte: self.socket_byte.load(Ordering::Relaxed),
        }
    }
}

/// The threads, their counters and the way to wake those that wait.
pub(crate) struct Crew {
    pub(crate) shared: Arc<Shared>,
    pub(crate) counters: Vec<Arc<Counters>>,
    /// Sockets that threads may be waiting on.
    pub(crate) sockets: Vec<std::net::TcpStream>,
}

impl Crew {
    pub(crate) fn new() -> Self {
        Self { shared: Arc::default(), counters: Vec::new(), sockets: Vec::new() }
    }

    /// Starts one thread of `threads` on `work`, which returns once it sees [`Shared::stopping`].
    pub(crate) fn start(
        &mut self,
        threads: usize,
        work: impl FnOnce(&Shared, &Counters) -> Result<(), LoadError> + Send + 'static,
    ) -> Result<(), LoadError> {
        let index = self.counters.len();
        let counters = Arc::new(Counters::default());
        let (shared, own) = (Arc::clone(&self.shared), Arc::clone(&counters));
        // The work needs no deep stack, and a thousand threads of 8 MiB each would ask for 8 GiB of addresses.
        let started = thread::Builder::new().name(format!("load-{index}")).stack_size(128 * 1024).spawn(move || {
            if let Err(error) = work(&shared, &own) {
                shared.fail(error);
            }
            shared.ended.fetch_add(1, Ordering::Release);
        });
        match started {
            Ok(_) => {
                self.counters.push(counters);
                Ok(())
            }
            Err(source) => {
                self.stop();
                Err(LoadError::Spawn { index, threads, source })
            }
        }
    }

    pub(crate) fn stop(&self) {
        self.shared.stop();
        for socket in &self.sockets {
            // A socket that is closed already has nobody waiting on it.
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
    }

    pub(crate) fn operations(&self) -> u64 {
        self.counters.iter().map(|counters| counters.operations.load(Ordering::Relaxed)).sum()
    }

    pub(crate) fn moved(&self) -> MovedAll {
        self.counters.iter().map(|counters| counters.moved()).fold(MovedAll::default(), MovedAll::plus)
    }
}
