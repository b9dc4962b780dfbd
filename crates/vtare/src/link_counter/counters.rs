//! Counting in the kernel: a program at the ingress of each device (`crates/bpf/link_counter.c`), and rings of bins
//! that it adds to. Nothing is copied and nothing wakes up.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;

use vtare_bpf::layout::link_counter::settings as word;
use vtare_sys::bpf::{BpfError, MapView, Object, TcLink, TcSide};
use vtare_sys::clocks;
use vtare_sys::net::{frames, namespace};
use vtare_units::{Monotonic, Span};

use super::bin::Bin;
use super::job::{Job, Tap};

/// A program that began in a bin has ended so long after it, even where its processor was taken away.
const LAG_NS: u64 = 200_000_000;

/// One program and its bins; the program is detached when this is dropped, or when the process ends.
struct Counter {
    _link: TcLink,
    bins: MapView,
}

/// The three places that are counted.
pub(super) struct Counters {
    came: Option<Counter>,
    cross: Option<Counter>,
    left: Option<Counter>,
    ring: Ring,
}

/// Which bins are read next. Pure.
#[derive(Clone, Copy, Debug)]
struct Ring {
    from_ns: u64,
    bin_ns: u64,
    most: u64,
    /// The first bin that was not read, counted from the start.
    next: u64,
}

impl Counters {
    /// Starts to count.
    ///
    /// # Errors
    /// Where a device is missing, the right is, or the kernel is older than Linux 6.6: the reason.
    pub(super) fn open(job: &Job) -> Result<Self, String> {
        let from_ns = clocks::now::<Monotonic>().as_nanos();
        let object = Object::parse("link_counter.bpf.o", vtare_bpf::LINK_COUNTER).map_err(|error| error.to_string())?;
        let open =
            |tap: &Option<Tap>| tap.as_ref().map(|tap| Counter::open(&object, tap, from_ns, job.bin_ns)).transpose();
        let (came, cross, left) = (open(&job.taps.came)?, open(&job.taps.cross)?, open(&job.taps.left)?);
        let some = [&came, &cross, &left].into_iter().flatten().next();
        let most = some.map_or(1, |counter| counter.bins.words().len()) as u64;
        Ok(Self { came, cross, left, ring: Ring { from_ns, bin_ns: job.bin_ns, most, next: 0 } })
    }

    /// When the first bin began, CLOCK_MONOTONIC.
    pub(super) const fn started_ns(&self) -> u64 {
        self.ring.from_ns
    }

    /// The last bin can be read so long after it began.
    pub(super) fn lag(&self) -> Span {
        Span::from_unsigned_nanos(LAG_NS + self.ring.bin_ns)
    }

    /// Adds the bins that are over and were not read before.
    ///
    /// # Errors
    /// Where the ring came round before it was read: then counts of different times are in one bin.
    pub(super) fn read(&mut self, now_ns: u64, into: &mut Vec<Bin>) -> Result<(), String> {
        for index in self.ring.readable(now_ns)? {
            let take = |counter: &Option<Counter>| {
                let byte = counter.as_ref()?.bins.entry(index)[0].swap(0, Ordering::Relaxed);
                Some(u32::try_from(byte).unwrap_or(u32::MAX))
            };
            into.push(Bin { came: take(&self.came), cross: take(&self.cross), left: take(&self.left) });
        }
        Ok(())
    }
}

impl Counter {
    fn open(object: &Object, tap: &Tap, from_ns: u64, bin_ns: u64) -> Result<Self, String> {
        let load = || -> Result<_, BpfError> {
            let maps = object.create_maps()?;
            let settings = maps.get("settings").view()?;
            let port = tap.port.map_or(0, |port| u16::from(port).to_be());
            let between = tap.between.map_or([0; 8], |[from, to]| {
                let mut octets = [0; 8];
                octets[..4].copy_from_slice(&from.octets());
                octets[4..].copy_from_slice(&to.octets());
                octets
            });
            let between = u64::from_ne_bytes(between);
            let set = |at: usize, value: u64| settings.entry(0)[at].store(value, Ordering::Relaxed);
            set(word::FROM_NS, from_ns);
            set(word::BIN_NS, bin_ns);
            set(word::PORT, port.into());
            set(word::BETWEEN, between);
            Ok((object.load("count_ingress", &maps)?, maps.get("bins").view()?))
        };
        let (program, bins) = load().map_err(|error| error.to_string())?;
        // A thread of its own: the namespace that it enters is that of the thread alone.
        let attached = thread::scope(|scope| scope.spawn(|| attach(&program, tap)).join());
        let link =
            attached.unwrap_or_else(|_| Err("the thread that attaches panicked: please report this".to_owned()))?;
        Ok(Self { _link: link, bins })
    }
}

fn attach(program: &vtare_sys::bpf::Program, tap: &Tap) -> Result<TcLink, String> {
    let place = match &tap.namespace {
        Some(name) => {
            namespace::enter(&Path::new("/run/netns").join(name)).map_err(|error| error.to_string())?;
            format!("in the namespace {name}")
        }
        None => "here".to_owned(),
    };
    let index = frames::interface_index(&tap.device).ok_or_else(|| format!("no interface {} {place}", tap.device))?;
    TcLink::attach(program, index, TcSide::Ingress).map_err(|error| error.to_string())
}

impl Ring {
    /// The places of the bins that are over and were not read before.
    fn readable(&mut self, now_ns: u64) -> Result<impl Iterator<Item = usize> + use<>, String> {
        let Self { from_ns, bin_ns, most, next } = *self;
        let now = now_ns.saturating_sub(from_ns);
        if now / bin_ns >= next + most {
            let held_s = (most * bin_ns) as f64 / 1e9;
            return Err(format!("the link counter did not run for {held_s:.0} s or more: bins were counted twice"));
        }
        self.next = next.max(now.saturating_sub(LAG_NS) / bin_ns);
        Ok((next..self.next).map(move |bin| (bin % most) as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 16_000_000_000_000;

    fn ring() -> Ring {
        Ring { from_ns: START, bin_ns: 50_000, most: 1 << 20, next: 0 }
    }

    #[test]
    fn each_bin_is_read_once_and_only_when_no_program_adds_to_it_any_more() {
        let mut ring = ring();
        assert_eq!(ring.readable(START + LAG_NS).expect("in time").count(), 0);
        let first: Vec<usize> = ring.readable(START + LAG_NS + 150_000).expect("in time").collect();
        assert_eq!(first, [0, 1, 2]);
        assert_eq!(ring.readable(START).expect("in time").count(), 0);
        let second: Vec<usize> = ring.readable(START + LAG_NS + 249_999).expect("in time").collect();
        assert_eq!(second, [3]);
    }

    #[test]
    fn the_ring_comes_round() {
        let mut ring = Ring { next: (1 << 20) - 1, ..ring() };
        let now = START + LAG_NS + ((1 << 20) + 1) * 50_000;
        assert_eq!(ring.readable(now).expect("in time").collect::<Vec<_>>(), [(1 << 20) - 1, 0]);
    }

    #[test]
    fn a_ring_that_came_round_unread_is_refused() {
        let late = START + (1 << 20) * 50_000;
        assert!(ring().readable(late - 1).is_ok());
        let why = ring().readable(late).err().expect("one bin has counts of two times");
        assert!(why.contains("52 s"), "{why}");
    }
}
