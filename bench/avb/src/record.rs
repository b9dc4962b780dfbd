//! Paths as data: how each was drawn, the packets that methods sent over it, and the true value of every 10 ms.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path as Directory;
use std::sync::Mutex;

use serde_json::json;
use vtare_methods::avb::{Estimate, Method, Observation, Step};
use vtare_pathsim::Path;
use vtare_probe::sim::TrainSpec;
use vtare_units::{Monotonic, Timestamp};

use crate::avb_sim::available;

/// The true value is the mean of this, ns.
const BIN_NS: u64 = 10_000_000;

/// A method and the packets that it sent.
pub(crate) struct Recorder {
    inner: Box<dyn Method>,
    keeps: bool,
    seen: Vec<Observation>,
}

impl Recorder {
    /// Around a method; `keeps` what came of its trains, else nothing.
    pub(crate) fn new(inner: Box<dyn Method>, keeps: bool) -> Self {
        Self { inner, keeps, seen: Vec::new() }
    }
}

impl Method for Recorder {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn step(&mut self, now: Timestamp<Monotonic>) -> Step {
        self.inner.step(now)
    }

    fn observe(&mut self, observation: &Observation) {
        if self.keeps {
            self.seen.push(observation.clone());
        }
        self.inner.observe(observation);
    }

    fn interim(&self) -> Option<Estimate> {
        self.inner.interim()
    }
}

/// Three files that rows are added to, by any thread.
pub(crate) struct Files {
    paths: Mutex<File>,
    packets: Mutex<File>,
    truth: Mutex<File>,
}

impl Files {
    /// New files in a directory that exists.
    pub(crate) fn create(directory: &Directory) -> io::Result<Self> {
        let create = |name: &str, head: &str| {
            let mut file = File::create(directory.join(name))?;
            file.write_all(head.as_bytes())?;
            Ok::<_, io::Error>(Mutex::new(file))
        };
        Ok(Self {
            paths: create("paths.jsonl", "")?,
            packets: create("packets.csv", "path,method,train,packet,size_byte,sent_ns,received_ns\n")?,
            truth: create("truth.csv", "path,at_ns,available_bit_per_s\n")?,
        })
    }

    /// A path, and its true values from the end of its warming up on.
    pub(crate) fn path(&self, spec: &TrainSpec, label: &str, warm_ns: u64, to_ns: u64) -> io::Result<()> {
        let row = json!({"path": spec.seed, "links": spec.path.hops.len(), "begin_ns": warm_ns, "label": label,
                         "description": serde_json::to_string(&spec.path)?});
        add(&self.paths, &format!("{row}\n"))?;
        let values = truth(spec, warm_ns, to_ns).into_iter();
        let rows = values.map(|(at_ns, available)| format!("{},{at_ns},{available:.0}\n", spec.seed));
        add(&self.truth, &rows.collect::<String>())
    }

    /// What a method sent.
    pub(crate) fn packets(&self, path: u64, method: &str, recorder: &Recorder) -> io::Result<()> {
        let mut rows = String::new();
        for (train, seen) in recorder.seen.iter().enumerate() {
            for (number, packet) in seen.packets.iter().enumerate() {
                let ns = |at: Option<u64>| at.map(|ns| ns.to_string()).unwrap_or_default();
                let sent = ns(packet.kernel_sent.or(packet.sent).map(Timestamp::as_nanos));
                let received = ns(packet.received.map(Timestamp::as_nanos));
                writeln!(rows, "{path},{method},{train},{number},{},{sent},{received}", packet.size_byte)
                    .expect("writing to a string does not fail");
            }
        }
        add(&self.packets, &rows)
    }
}

/// Rows of one path stay together.
fn add(file: &Mutex<File>, rows: &str) -> io::Result<()> {
    file.lock().expect("no thread panics while it holds this").write_all(rows.as_bytes())
}

/// The start of each time of 10 ms, and capacity less cross traffic that came in it at the hop where it is least: the
/// path without probes, since cross traffic does not give way to them.
fn truth(spec: &TrainSpec, from_ns: u64, to_ns: u64) -> Vec<(u64, f64)> {
    let mut path = Path::new(&spec.path, spec.seed).expect("a good path");
    let mut offered = |at_ns: u64| {
        path.run_until(Timestamp::from_nanos(at_ns));
        path.counts().map(|count| count.cross_offered_byte).collect::<Vec<_>>()
    };
    let mut before = offered(from_ns);
    let times = (0..(to_ns - from_ns).div_ceil(BIN_NS)).map(|bin| from_ns + bin * BIN_NS);
    times
        .map(|begin| {
            let after = offered(begin + BIN_NS);
            let middle = begin + BIN_NS / 2;
            let hops = spec.path.hops.iter().zip(before.iter().zip(&after));
            let free = hops
                .map(|(hop, (before, after))| available(hop, middle, (after - before) as f64 * 8e9 / BIN_NS as f64));
            let least = free.fold(f64::INFINITY, f64::min).max(0.0);
            before = after;
            (begin, least)
        })
        .collect()
}
