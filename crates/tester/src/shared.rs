//! What generator and analyser share, whether they are programs in the kernel (`crates/bpf/throughput.c`) or
//! parts of this process.

use std::sync::atomic::{AtomicU64, Ordering};

use vtare_bpf::layout::throughput::{BUCKETS, OCTAVE_BITS, setup as word, tally};
use vtare_sys::bpf::{BpfError, MapView, Maps, Object, Program};
use vtare_sys::clocks;
use vtare_units::Monotonic;

use crate::error::TesterError;
use crate::frame;
use crate::options::{Engine, Offer, RateStep, TesterOptions};
use crate::port::Port;
use crate::trial_result::{FlowSeen, LostAround, TrialResult};

/// Frames of a trial that are distinguished, a bit each.
pub(crate) const MOST_FRAMES: u64 = 1 << 26;
/// A call of the program waits for a frame's time no longer than this: meanwhile the CPU's other soft interrupts wait.
pub(crate) const SLICE_NS: u64 = 50_000;
/// From the call to the first frame: a thread begins, and the kernel lays frames ready where a program sends.
const LEAD_IN_NS: u64 = 10_000_000;
const LEAD_IN_OF_PROGRAM_NS: u64 = 40_000_000;

/// Words that several threads, or the kernel too, read and write.
#[derive(Debug)]
enum Words {
    /// Of a map.
    Map(MapView),
    /// Of this process alone; an entry begins after each such number of words.
    Own(Box<[AtomicU64]>, usize),
}

impl Words {
    fn own(entries: usize, stride: usize) -> Self {
        Self::Own((0..entries * stride).map(|_| AtomicU64::new(0)).collect(), stride)
    }

    fn words(&self) -> &[AtomicU64] {
        match self {
            Self::Map(view) => view.words(),
            Self::Own(words, _) => words,
        }
    }

    fn entry(&self, index: usize) -> &[AtomicU64] {
        match self {
            Self::Map(view) => view.entry(index),
            Self::Own(words, stride) => &words[index * stride..(index + 1) * stride],
        }
    }
}

/// What programs of the kernel need.
#[derive(Debug)]
struct Programs {
    object: Object,
    maps: Maps,
}

/// Set-up and counters of a trial.
#[derive(Debug)]
pub(crate) struct Shared {
    programs: Option<Programs>,
    setup: Words,
    sent: Words,
    tallies: Words,
    latencies: Words,
    seen: Words,
    /// Headers of each flow, for senders that are no program.
    pub(crate) headers: Vec<[u8; frame::HEADERS_BYTE]>,
}

/// A frame that came, as far as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReceivedFrame {
    /// Its tag.
    pub(crate) tag: frame::Tag,
    /// Source and destination address, and length of the IP packet, as the header has them.
    pub(crate) ends: frame::Ends,
    /// When.
    pub(crate) at_ns: u64,
}

impl Shared {
    /// Makes the counters in memory of this process: no program can use them.
    pub(crate) fn own(options: &TesterOptions, tx: &Port) -> Result<Self, TesterError> {
        check_frames(options)?;
        let flows = options.flows.len().max(1);
        let shared = Self {
            programs: None,
            setup: Words::own(1, word::WORDS),
            sent: Words::own(flows, 1),
            tallies: Words::own(flows, tally::WORDS),
            latencies: Words::own(flows * BUCKETS, 1),
            seen: Words::own(options.most_frames.div_ceil(64).max(1) as usize, 1),
            headers: headers(options, tx),
        };
        Ok(shared)
    }

    /// Makes them as maps, which programs and this process share.
    pub(crate) fn maps(options: &TesterOptions, tx: &Port) -> Result<Self, TesterError> {
        check_frames(options)?;
        let flow_count = options.flows.len().max(1) as u32;
        let mut object = Object::parse("throughput.bpf.o", vtare_bpf::THROUGHPUT)?;
        for (map, entries) in [
            ("flows", flow_count),
            ("sent", flow_count),
            ("tallies", flow_count),
            ("latencies", flow_count * BUCKETS as u32),
            ("slots", options.slots.len().max(1) as u32),
            ("seen", options.most_frames.div_ceil(64).max(1) as u32),
        ] {
            object.shape_mut(map).most_entries = entries;
        }
        let maps = object.create_maps()?;
        let view = |name: &str| maps.get(name).view();
        let setup = view("setup_map")?;
        let set = |at: usize, value: u64| setup.words()[at].store(value, Ordering::Relaxed);
        set(word::SLICE_NS, SLICE_NS);
        set(word::INTERFACE, tx.index.into());
        set(word::FLOWS, options.flows.len() as u64);
        set(word::SLOTS, options.slots.len() as u64);
        let slots = view("slots")?;
        for (entry, flow) in slots.words().iter().zip(&options.slots) {
            entry.store((*flow).into(), Ordering::Relaxed);
        }
        let headers = headers(options, tx);
        let flows = view("flows")?;
        for (number, headers) in headers.iter().enumerate() {
            for (word, bytes) in flows.entry(number).iter().zip(headers.chunks(8)) {
                let mut whole = [0; 8];
                whole[..bytes.len()].copy_from_slice(bytes);
                word.store(u64::from_ne_bytes(whole), Ordering::Relaxed);
            }
        }
        let words = |name: &str| view(name).map(Words::Map);
        let (sent, tallies, latencies, seen) = (words("sent")?, words("tallies")?, words("latencies")?, words("seen")?);
        let (setup, programs) = (Words::Map(setup), Some(Programs { object, maps }));
        Ok(Self { programs, setup, sent, tallies, latencies, seen, headers })
    }

    /// Loads one of the programs.
    ///
    /// # Panics
    /// Where the counters are no maps.
    pub(crate) fn load(&self, program: &str) -> Result<Program, BpfError> {
        let Programs { object, maps } = self.programs.as_ref().expect("made as maps");
        object.load(program, maps)
    }

    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        &self.setup.words()[at]
    }

    pub(crate) fn get(&self, at: usize) -> u64 {
        self.word(at).load(Ordering::Acquire)
    }

    /// Counts a frame that a sender which is no program has sent.
    pub(crate) fn count_sent(&self, flow: u16) {
        // One sender only: no other adds at the same time.
        let count = &self.sent.entry(usize::from(flow))[0];
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Marks a frame whose time passed before it could leave: it is not lost.
    pub(crate) fn never_left(&self, number: u64) {
        self.seen.words()[number as usize / 64].fetch_or(1 << (number % 64), Ordering::Relaxed);
    }

    /// Counts a frame that came, as the program `count` does; the one thread that reads the ring calls this.
    pub(crate) fn count(&self, came: &ReceivedFrame) {
        let frame::Tag { run, flow, sequence, sent_ns } = came.tag;
        let add = |word: &AtomicU64, by: u64| word.store(word.load(Ordering::Relaxed) + by, Ordering::Release);
        let Some(headers) = self.headers.get(usize::from(flow)) else { return };
        if u64::from(run) != self.get(word::RUN) {
            return add(self.word(word::STALE), 1);
        }
        if came.ends != frame::ends(headers) || u64::from(sequence) >= self.get(word::PACKETS) {
            return add(self.word(word::WRONG), 1);
        }
        let (bits, bit) = (&self.seen.words()[sequence as usize / 64], 1 << (sequence % 64));
        let tally = self.tallies.entry(usize::from(flow));
        if bits.fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            return add(&tally[tally::DUPLICATES], 1);
        }
        add(&tally[tally::RECEIVED], 1);
        let next = u64::from(sequence) + 1;
        if next < tally[tally::ABOVE].load(Ordering::Relaxed) {
            add(&tally[tally::REORDERED], 1);
        } else {
            tally[tally::ABOVE].store(next, Ordering::Relaxed);
        }
        if let Some(latency) = came.at_ns.checked_sub(sent_ns) {
            if u64::from(sequence) == self.get(word::TAGGED) {
                self.word(word::TAGGED_NS).store(latency, Ordering::Relaxed);
            }
            add(&tally[tally::SUM_NS], latency);
            tally[tally::MOST_NS].fetch_max(latency, Ordering::Relaxed);
            tally[tally::LEAST_NS].fetch_min(latency, Ordering::Relaxed);
            add(&self.latencies.words()[usize::from(flow) * BUCKETS + bucket_of(latency)], 1);
        } else {
            add(self.word(word::EARLY), 1);
        }
        // Last: who sees it counted finds the rest there.
        add(self.word(word::RECEIVED), 1);
    }

    /// Clears what the trial before left, and states the new one.
    pub(crate) fn begin(&self, offer: &Offer, run: u32, engine: Engine) {
        let set = |at: usize, value: u64| self.word(at).store(value, Ordering::Release);
        // First: frames that still come belong to no trial from now on.
        set(word::RUN, run.into());
        set(word::PACKETS, 0);
        (word::NEXT..word::WORDS).for_each(|at| set(at, 0));
        set(word::TAGGED_NS, u64::MAX);
        let clear = |view: &Words| view.words().iter().for_each(|word| word.store(0, Ordering::Relaxed));
        clear(&self.sent);
        clear(&self.latencies);
        clear(&self.tallies);
        for number in 0..self.headers.len() {
            self.tallies.entry(number)[tally::LEAST_NS].store(u64::MAX, Ordering::Relaxed);
        }
        let bits = offer.frames.div_ceil(64) as usize;
        self.seen.words()[..bits].iter().for_each(|word| word.store(0, Ordering::Relaxed));
        set(word::PACE_NS, offer.pace.span_ns);
        set(word::PACE_PACKETS, offer.pace.packets);
        set(word::CATCH_UP_NS, offer.catch_up_ns);
        set(word::GAP_NS, offer.gap_ns);
        set(word::TAGGED, offer.tagged.unwrap_or(u64::MAX));
        set(word::STOP, 0);
        let lead_in_ns = if engine == Engine::Xdp { LEAD_IN_OF_PROGRAM_NS } else { LEAD_IN_NS };
        let starts_ns = clocks::now::<Monotonic>().as_nanos() + lead_in_ns;
        set(word::START_NS, starts_ns);
        let step = offer.step.unwrap_or(RateStep { after_frames: u64::MAX, packets: 1 });
        set(word::STEP, step.after_frames);
        set(word::STEP_NS, starts_ns + offer.step.map_or(0, |step| offer.due_ns(step.after_frames)));
        set(word::STEP_PACKETS, step.packets);
        // Last: with it the program begins.
        set(word::PACKETS, offer.frames);
    }

    /// The outcome of the trial.
    pub(crate) fn result(&self, offer: &Offer, refused: u64, missed: u64, stopped: bool) -> TrialResult {
        let started = self.get(word::START_NS);
        let tagged = self.get(word::TAGGED_NS);
        TrialResult {
            flows: (0..self.headers.len()).map(|number| self.flow(number)).collect(),
            around: offer.step.map(|step| self.lost_around(offer, step.after_frames)),
            skipped: self.get(word::SKIPPED),
            refused,
            missed,
            stale: self.get(word::STALE),
            wrong: self.get(word::WRONG),
            early: self.get(word::EARLY),
            tagged_ns: (tagged != u64::MAX).then_some(tagged),
            elapsed_ns: self.get(word::LOOKED_NS).saturating_sub(started),
            stalled_ns: self.get(word::LOST_NS),
            longest_gap_ns: self.get(word::LONGEST_NS),
            stopped,
        }
    }

    fn lost_around(&self, offer: &Offer, step: u64) -> LostAround {
        let lost =
            |number: &u64| self.seen.words()[*number as usize / 64].load(Ordering::Relaxed) >> (number % 64) & 1 == 0;
        let mut around = LostAround { before: (0..step).filter(lost).count() as u64, ..LostAround::default() };
        for number in (step..offer.frames).filter(lost) {
            around.after += 1;
            around.last_ns = Some(offer.due_ns(number) - offer.due_ns(step));
        }
        around
    }

    fn flow(&self, number: usize) -> FlowSeen {
        let entry = self.tallies.entry(number);
        let at = |index: usize| entry[index].load(Ordering::Relaxed);
        let latencies = &self.latencies.words()[number * BUCKETS..][..BUCKETS];
        let latency: Vec<(u64, u64)> = latencies
            .iter()
            .enumerate()
            .map(|(index, count)| (least_of(index), count.load(Ordering::Relaxed)))
            .filter(|(_, count)| *count > 0)
            .collect();
        let timed: u64 = latency.iter().map(|(_, count)| count).sum();
        let known = |value: u64| (timed > 0).then_some(value);
        FlowSeen {
            sent: self.sent.entry(number)[0].load(Ordering::Relaxed),
            received: at(tally::RECEIVED),
            duplicates: at(tally::DUPLICATES),
            reordered: at(tally::REORDERED),
            least_ns: known(at(tally::LEAST_NS)),
            most_ns: known(at(tally::MOST_NS)),
            mean_ns: (timed > 0).then(|| at(tally::SUM_NS) as f64 / timed as f64),
            latency,
        }
    }
}

fn check_frames(options: &TesterOptions) -> Result<(), TesterError> {
    if options.most_frames > MOST_FRAMES {
        return Err(TesterError::Frames { found: options.most_frames, most: MOST_FRAMES });
    }
    Ok(())
}

fn headers(options: &TesterOptions, tx: &Port) -> Vec<[u8; frame::HEADERS_BYTE]> {
    let of = |flow| frame::headers(tx.address, options.source, flow, options.frame_byte);
    options.flows.iter().map(of).collect()
}

/// The bucket of a latency, as `bucket_of` in throughput.c.
pub(crate) const fn bucket_of(ns: u64) -> usize {
    let octave = (63_u32.saturating_sub(ns.leading_zeros()) as usize).saturating_sub(OCTAVE_BITS);
    (octave << OCTAVE_BITS) + (ns >> octave) as usize
}

/// The least latency of a bucket, ns.
pub(crate) fn least_of(bucket: usize) -> u64 {
    let octave = (bucket >> OCTAVE_BITS).saturating_sub(1);
    ((bucket - (octave << OCTAVE_BITS)) as u64) << octave
}
