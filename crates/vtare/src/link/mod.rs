//! `vtare link`: a WAN between two interfaces, with the truth about it (docs/guide/link.md).

mod arguments;
mod watch;

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

pub(crate) use arguments::LinkArguments;
use serde::Serialize;
use vtare_clock::ClockInfo;
use vtare_emulator::{Bin, Emulator, EmulatorError, EmulatorOptions, Ended, LaneSpec};
use vtare_sys::facts::MachineFacts;
use vtare_sys::{process, sched};
use vtare_units::Span;
use vtare_units::figures::Figures;
use watch::{Lateness, Observer};

use crate::answer::Shape;
use crate::context::Context;
use crate::document::Program;
use crate::failure::{Exit, Failure};
use crate::instrument::{Note, check_cpu, fresh_seed};
use crate::output::{print, print_json, to_json};
use crate::quantities::show_bit_rate;
use crate::samples::{Column, Row as _, Samples, SamplesError, count};
use crate::sentences::link as words;
use crate::table::{percent, time};
use crate::terminal::fitted;

/// Names of the directions.
const LANES: [&str; 2] = ["ab", "ba"];
/// Frames on their way that are kept at most.
const MOST_BYTE: usize = 1 << 30;
/// The thread's turn must come soon: frames are due.
const NICE: i32 = -19;

/// The columns of the truth, as docs/internals/contract.md has them.
pub(crate) const COLUMNS: &[Column] = BinRow::COLUMNS;

/// What passed in 10 ms.
struct BinRow {
    lane: usize,
    started_ns: u64,
    bin: Bin,
}

columns!(row: BinRow {
    string "lane" = LANES[row.lane], "direction: ab or ba";
    int64 "bin_monotonic_ns" = count(row.started_ns + row.bin.start_ns), "start of these 10 ms on CLOCK_MONOTONIC";
    optional_int64 "capacity_bit_per_s" = row.bin.capacity_bit_per_s.map(count),
        "mean rate of the queue, at the layer of the footer; null without limit";
    optional_int64 "available_bit_per_s" = row.bin.available_bit_per_s().map(count),
        "capacity less cross traffic that entered the queue, 0 at least; null without limit";
    int64 "cross_byte" = count(row.bin.cross_byte), "bytes of cross traffic that entered the queue";
    int64 "probe_byte" = count(row.bin.probe_byte), "bytes of probes that entered the queue";
    int64 "queue_byte" = count(row.bin.queue_byte), "bytes in the queue at the end";
    int64 "queue_most_byte" = count(row.bin.queue_most_byte), "the most bytes that were in the queue";
    int64 "overflow_packet" = count(row.bin.overflow_packet), "packets that found the queue full";
    int64 "lost_packet" = count(row.bin.lost_packet), "packets taken by the loss model";
    int64 "unable_packet" = count(row.bin.unable_packet), "packets that the emulator could not carry";
    int64 "socket_drop_frame" = count(row.bin.socket_drop_frame),
        "frames lost before the emulator saw them, noticed in this time";
});

/// Runs the emulator until a signal or the end of its time; a signal is its ordinary end.
///
/// # Errors
/// For wrong arguments, interfaces that cannot be opened, and a log that cannot be written.
pub(crate) fn command(arguments: &LinkArguments, context: &Context) -> Result<Exit, Failure> {
    // The lab may be killed: its links must not stay behind.
    if !process::end_with_parent()? {
        return Err(Failure::Machine("the program that started this link has ended: start it again".to_owned()));
    }
    check_cpu(arguments.cpu)?;
    let lanes = arguments.lanes()?;
    let seed = arguments.seed.unwrap_or_else(fresh_seed);
    let limit = arguments.seconds.map(seconds).transpose()?;
    let interfaces = [arguments.a.clone(), arguments.b.clone()];
    interfaces.iter().try_for_each(|name| check_free(name))?;
    let options = EmulatorOptions {
        interfaces,
        lanes: lanes.clone(),
        seed,
        probe_port: arguments.probe_port,
        most_byte: MOST_BYTE,
    };
    let clock = context.clock();
    let samples = match &arguments.log {
        Some(path) => Samples::create(path, COLUMNS)?,
        None => Samples::discard(),
    };
    let emulator = Emulator::open(clock, &options).map_err(failure)?;
    let started_ns = emulator.started().as_nanos();
    let mut machine = MachineFacts::read();
    let (sender, bins) = channel();
    let observer = Observer::new(arguments.late, sender);
    let stop = context.stop_flag();
    let (carried, written) = thread::scope(|scope| {
        let stop: &AtomicBool = &stop;
        let carrier = scope.spawn(move || carry(emulator, observer, arguments.cpu, stop, limit));
        let written = write(bins, started_ns, samples);
        (carrier.join(), written)
    });
    let Ok(Carried { ended, lateness, mut notes }) = carried else {
        return Err(Failure::Machine("the thread that carries frames panicked: please report this".to_owned()));
    };
    machine.note_steal_after();
    notes.extend(limits(&ended, &lateness, arguments.late));
    let directions = [0, 1].map(|lane| Direction::of(lane, &options, &ended, &lateness, arguments.late));
    let shared = Shared {
        schema: SCHEMA,
        program: Program::OWN,
        interfaces: &options.interfaces,
        seed,
        probe_port: arguments.probe_port,
        lanes: Lanes { ab: &lanes[0], ba: &lanes[1] },
        started_monotonic_ns: started_ns,
        started_unix_ns: ended.started_unix_ns,
        elapsed_s: ended.elapsed.as_secs_f64(),
        stamp_error_ns: ended.stamp_error_ns,
        directions: &directions,
        machine: &machine,
        clock: &clock.info(),
        notes: &notes,
    };
    let lost = written.and_then(|samples| samples.finish(&to_json(&shared))).err();
    let output = if lost.is_some() { None } else { arguments.log.as_deref() };
    if let Some(error) = &lost {
        message!("vtare: {error}");
    }
    show(arguments, &options, shared, output)?;
    match (&ended.failure, lost) {
        (Some(why), _) => Err(Failure::Machine(format!("{why}: the link ended; what it did until then is above"))),
        (None, Some(_)) => Ok(Exit::SamplesLost),
        (None, None) => Ok(Exit::Measured),
    }
}

struct Carried {
    ended: Ended,
    /// Without the observer: its end of the channel would keep the writer waiting.
    lateness: [Lateness; 2],
    notes: Vec<Note>,
}

fn carry(
    emulator: Emulator<'_>,
    mut observer: Observer,
    cpu: Option<usize>,
    stop: &AtomicBool,
    limit: Option<Span>,
) -> Carried {
    let mut notes = Vec::new();
    let mut ask = |id: &str, answer: Result<(), vtare_sys::SysError>| {
        if let Err(error) = answer {
            notes.push(Note::new(id, words::setting_refused(error)));
        }
    };
    ask("cpu_refused", cpu.map_or(Ok(()), |cpu| sched::pin_to(&[cpu])));
    ask("nice_refused", sched::set_nice(NICE));
    // An early turn after each wake-up (EEVDF); older kernels ignore it.
    ask("slice_refused", sched::set_slice(Span::from_micros(100)));
    ask("slack_refused", sched::set_timer_slack(Span::from_nanos(1)));
    message!("ready");
    let ended = emulator.run(stop, limit, &mut observer);
    Carried { ended, lateness: observer.lanes, notes }
}

/// Writes bins until the emulator has ended.
fn write(bins: Receiver<(usize, Bin)>, started_ns: u64, mut samples: Samples) -> Result<Samples, SamplesError> {
    for (lane, bin) in bins {
        samples.row(&BinRow { lane, started_ns, bin })?;
    }
    Ok(samples)
}

fn seconds(seconds: f64) -> Result<Span, Failure> {
    let too_long = || Failure::value("--seconds", seconds, "9e9 (285 years) or less");
    Span::try_from_secs_f64(seconds).ok_or_else(too_long)
}

/// A port of a bridge would carry its frames twice.
fn check_free(name: &str) -> Result<(), Failure> {
    let master = Path::new("/sys/class/net").join(name).join("master");
    match std::fs::read_link(master) {
        Ok(master) => {
            let master = master.file_name().unwrap_or_default().to_string_lossy().into_owned();
            Err(Failure::Input(format!(
                "{name} is a port of {master}, which carries its frames too: use an interface of its own (ip link \
                 set {name} nomaster)"
            )))
        }
        Err(_) => Ok(()),
    }
}

fn failure(error: EmulatorError) -> Failure {
    match error {
        EmulatorError::System(_) => Failure::Machine(error.to_string()),
        _ => Failure::Input(error.to_string()),
    }
}

pub(crate) const SCHEMA: &str = "vtare.link/1";

/// What `--json` prints.
#[derive(Serialize, schemars::JsonSchema)]
pub(crate) struct Document<'d> {
    #[serde(flatten)]
    shared: Shared<'d>,
    /// The file of the log; null where none was kept.
    output: Option<&'d Path>,
}

/// What the document and the footer of the log have.
#[derive(Serialize, schemars::JsonSchema)]
struct Shared<'d> {
    schema: &'static str,
    program: Program,
    /// The two ends.
    interfaces: &'d [String; 2],
    /// Seed of every random order.
    seed: u64,
    /// Frames of this UDP port count as probes.
    probe_port: u16,
    /// What was asked for.
    lanes: Lanes<'d>,
    /// CLOCK_MONOTONIC of the start.
    started_monotonic_ns: u64,
    /// Wall time of the start, ns since 1970.
    started_unix_ns: u64,
    /// How long it carried packets, s.
    elapsed_s: f64,
    /// How far stamps of arrivals may be off.
    stamp_error_ns: u64,
    /// What became of the packets of each direction.
    directions: &'d [Direction<'d>; 2],
    machine: &'d MachineFacts,
    clock: &'d ClockInfo,
    /// What the emulator could not do.
    notes: &'d [Note],
}

/// What was emulated: from the first interface to the second, and back.
#[derive(Serialize, schemars::JsonSchema)]
struct Lanes<'d> {
    ab: &'d LaneSpec,
    ba: &'d LaneSpec,
}

#[derive(Serialize, schemars::JsonSchema)]
struct LatenessFigures {
    n: u64,
    median: Option<f64>,
    p99: Option<f64>,
    p999: Option<f64>,
    max: Option<i64>,
}

/// What one direction did, for programs.
#[derive(Serialize, schemars::JsonSchema)]
struct Direction<'d> {
    /// The interface at which packets came.
    from: &'d str,
    /// The interface by which they left.
    to: &'d str,
    #[serde(flatten)]
    count: vtare_emulator::LaneCount,
    /// Lost by the model, of all that arrived and could be carried; null where none did.
    lost_share: Option<f64>,
    /// What left, or could not.
    outlet: vtare_emulator::Outlet,
    /// What came in.
    inlet: vtare_emulator::Inlet,
    /// By how much packets left late, ns.
    lateness_ns: LatenessFigures,
    /// Later than this counts as late, ns.
    late_limit_ns: u64,
    /// Packets that left later.
    late_packet: u64,
    /// The same of all that left.
    late_share: Option<f64>,
    /// The highest rate over 100 ms, of IP.
    highest_bit_per_s: Option<u64>,
    /// The highest of those at which at most 1 % of the frames were late.
    highest_kept_bit_per_s: Option<u64>,
}

impl<'d> Direction<'d> {
    fn of(
        lane: usize,
        options: &'d EmulatorOptions,
        ended: &Ended,
        lateness: &[Lateness; 2],
        late_limit_ns: u64,
    ) -> Self {
        let (count, outlet, lateness) = (ended.lanes[lane], ended.outlets[lane], &lateness[lane]);
        let [from, to] = [lane, 1 - lane].map(|side| options.interfaces[side].as_str());
        Self {
            from,
            to,
            count,
            lost_share: share(count.lost_packet, count.arrived_packet - count.unable_packet),
            outlet,
            inlet: ended.inlets[lane],
            lateness_ns: in_figures(lateness),
            late_limit_ns,
            late_packet: lateness.late,
            late_share: share(lateness.late, outlet.sent_packet),
            highest_bit_per_s: lateness.highest_bit_per_s,
            highest_kept_bit_per_s: lateness.highest_kept_bit_per_s,
        }
    }
}

fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn in_figures(lateness: &Lateness) -> LatenessFigures {
    let Figures { n, median, p99, p999, .. } = lateness.histogram.figures();
    LatenessFigures { n, median, p99, p999, max: lateness.most_ns }
}

/// What the emulator itself could not do, in words: never hidden.
fn limits(ended: &Ended, lateness: &[Lateness; 2], limit_ns: u64) -> Vec<Note> {
    let mut notes = Vec::new();
    for (lane, name) in LANES.iter().enumerate() {
        let mut note = |id: &str, count: u64, text: fn(&str, u64) -> String| {
            if count > 0 {
                notes.push(Note::new(id, text(name, count)));
            }
        };
        let (count, outlet, inlet) = (ended.lanes[lane], ended.outlets[lane], ended.inlets[lane]);
        note("socket_drops", inlet.socket_drops, |lane, frames| words::socket_drops(lane, frames));
        note("unable", count.unable_packet, |lane, packets| words::unable(lane, packets));
        note("refused", outlet.refused_packet, |lane, packets| words::refused(lane, packets));
        note("too_long", outlet.too_long_packet, |lane, packets| words::too_long(lane, packets));
        note("unstamped", inlet.unstamped, |lane, frames| words::unstamped(lane, frames));
        let lateness = &lateness[lane];
        if lateness.late * 100 > outlet.sent_packet {
            let shown = percent(share(lateness.late, outlet.sent_packet));
            notes.push(Note::new("late", words::late(name, shown, time(Some(limit_ns as f64)))));
        }
    }
    notes
}

fn show(
    arguments: &LinkArguments,
    options: &EmulatorOptions,
    shared: Shared<'_>,
    output: Option<&Path>,
) -> Result<(), Failure> {
    if arguments.json {
        return print_json(&to_json(&Document { shared, output }));
    }
    let mut text = String::new();
    for (lane, direction) in shared.directions.iter().enumerate() {
        text.push_str(&in_words(direction, options, lane));
    }
    for note in shared.notes {
        text.push_str(&words::note(&note.text));
        text.push('\n');
    }
    print(&fitted(&text, Some(Shape::here().width)))
}

fn in_words(direction: &Direction<'_>, options: &EmulatorOptions, lane: usize) -> String {
    let Direction { from, to, count, outlet, lateness_ns, .. } = direction;
    let rate = |rate: Option<u64>| rate.map_or_else(|| "-".to_owned(), |rate| show_bit_rate(rate as f64));
    if count.arrived_packet == 0 && outlet.sent_packet == 0 {
        return words::nothing_came(from, to, described(&options.lanes[lane])) + "\n";
    }
    let packets = words::packets(
        from,
        to,
        described(&options.lanes[lane]),
        count.arrived_packet,
        count.lost_packet,
        percent(direction.lost_share),
        count.overflow_packet,
        outlet.sent_packet,
        outlet.left_packet,
    );
    let lateness = words::lateness(
        time(lateness_ns.median),
        time(lateness_ns.p99),
        time(lateness_ns.max.map(|most| most as f64)),
        percent(direction.late_share),
        time(Some(direction.late_limit_ns as f64)),
        rate(direction.highest_bit_per_s),
        rate(direction.highest_kept_bit_per_s),
    );
    format!("{packets}\n  {lateness}\n")
}

fn described(lane: &LaneSpec) -> String {
    let rate = match lane.rate.as_slice() {
        [] => "no limit".to_owned(),
        [one] => show_bit_rate(one.rate_bit_per_s as f64),
        steps => format!("{} steps", steps.len()),
    };
    format!("{rate}, delay {}", time(Some(lane.delay_ns as f64)))
}
