//! `vtare rtt`: round-trip times and losses, open loop (docs/methods/rtt.md).
//!
//! One thread sends on an absolute schedule, receives between the sends, and logs what happens. This thread
//! aggregates: [`vtare_methods::rtt`] decides what became of every packet.

mod aggregate;
mod answer;
mod cell;
mod codec;
pub(crate) mod conditions;
mod frames;
mod in_kernel;
mod kernel_sender;
mod live;
mod log;
mod observer;
mod pacing;
mod parameters;
mod peer;
mod sending;
mod stamp;
mod vanishing;

use std::sync::mpsc;

use peer::{PeerLink, Ready};
use vtare_link::StallDetector;
use vtare_methods::rtt::{OneWay, Options, Place};
use vtare_probe::link::{LinkError, ProbeLink};
use vtare_probe::many::Many;
use vtare_probe::open_loop::Lead;
use vtare_probe::{closed_loop, open_loop};
use vtare_sys::sched;
use vtare_units::figures::Figures;
use vtare_units::{Random, Timestamp};

use self::stamp::StampFacts;
use crate::answer::{Answer, CommandLine};
use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::instrument::{self, Instrument, Note, Outcome, Session};
use crate::output;
use crate::peers;
use crate::progress::Progress;
use crate::samples::{Column, Row as _};
use crate::sentences::rtt as words;
use crate::table::{Table, percent, spread, time};
use aggregate::{Aggregate, PacketRow};
use cell::{RttCell, StallFigures};
use codec::Codec;
use log::{Log, Page};
use observer::Recorder;
use parameters::{Mode, Parameters};
use sending::{LEAD_IN_NS, SendingEnded};

pub(crate) use parameters::RttArguments;

/// The longest time between two checks of departures and of the stop flag.
const TURN_NS: u64 = 1_000_000;
/// A flooding sender that gets no reply sends the next packet after this, as `ping -f` does.
const FLOOD_PATIENCE_NS: u64 = 10_000_000;
/// Empty pages at the start.
const PAGES: usize = 4;

/// The instrument.
pub(crate) struct Rtt;

/// Carries out `vtare rtt`.
///
/// # Errors
/// See [`instrument::carry_out`]; [`Failure::Peer`] where no peer answers.
pub(crate) fn command(arguments: &RttArguments, context: &Context) -> Result<Exit, Failure> {
    instrument::command::<Rtt>(&arguments.parameters()?, &arguments.run.common, context)
}

impl Instrument for Rtt {
    const NAME: &'static str = "rtt";
    const COLUMNS: &'static [Column] = PacketRow::COLUMNS;
    const IDENTITY: &'static [&'static str] = &["peer", "address", "session"];
    type Parameters = Parameters;
    type Cell = RttCell;

    fn resolve(parameters: Parameters, _context: &Context) -> Result<Parameters, Failure> {
        parameters.resolved()
    }

    fn measure(parameters: &Parameters, session: &mut Session<'_>) -> Result<Outcome<RttCell>, Failure> {
        let clock = session.clock();
        let mut random = Random::new(session.seed);
        // Without its own option, STAMP is unauthenticated: other makes have no VTARE_KEY.
        let keyless = parameters.mode == Mode::Stamp && parameters.key_file.is_none();
        let key = if keyless { None } else { peers::key(parameters.key_file.as_deref())? };
        let mut notes = Vec::new();
        let mut lost_peers = Vec::new();
        let mut ready = Vec::new();
        for name in &parameters.peer {
            match peer::open(clock, name, parameters, key.as_ref(), &mut random) {
                Ok(peer) => ready.push(peer),
                // The others can still be measured; the exit code shows it.
                Err(Failure::Peer(why)) if parameters.peer.len() > 1 => lost_peers.push(why),
                Err(other) => return Err(other),
            }
        }
        if ready.is_empty() {
            return Err(Failure::Peer(lost_peers.join("; ")));
        }
        let _held = conditions::hold_latency(parameters.dma_latency_ns, &mut notes);
        let run = probe(parameters, ready, session)?;
        notes.extend(run.notes);
        lost_peers.extend(run.lost);
        for cell in run.cells.iter().filter(|cell| cell.sent > 0 && cell.received == 0) {
            if run.stopped && cell.sent < 3 {
                continue;
            }
            lost_peers.push(cell.silence().trim_end_matches('.').to_owned());
        }
        notes.extend(remarks(&run.cells, parameters));
        if !lost_peers.is_empty() {
            session.peer_lost = Some(lost_peers.join("; "));
        }
        Ok(Outcome { cells: run.cells, notes, interrupted: run.stopped })
    }

    fn answer(outcome: &Outcome<RttCell>, parameters: &Parameters, line: &CommandLine) -> Answer {
        answer::of(outcome, parameters, line)
    }

    fn table(cells: &[RttCell]) -> Table {
        let heading = [
            "peer",
            "sent",
            "lost",
            "median RTT",
            "half IQR",
            "min",
            "p99",
            "p99.9",
            "max",
            "scheduled p99",
            "packets/s",
        ];
        let mut table = Table::new(&heading, 1);
        for cell in cells {
            let rtt = &cell.rtt_ns;
            table.row(vec![
                cell.peer.clone(),
                cell.sent.to_string(),
                format!("{} ({})", cell.lost_on_the_way(), percent(lost_share(cell))),
                time(rtt.median),
                spread(rtt.half_iqr),
                time(rtt.min),
                time(rtt.p99),
                time(rtt.p999),
                time(rtt.max),
                time(cell.rtt_scheduled_ns.p99),
                cell.achieved_packet_per_s.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}")),
            ]);
        }
        table
    }

    fn details(cells: &[RttCell]) -> String {
        let mut text = String::new();
        let single = cells.len() == 1;
        for cell in cells {
            let name = if single { String::new() } else { format!("{}: ", cell.peer) };
            let parts = [
                format!("kernel to kernel median {}", time(cell.rtt_kernel_ns.median)),
                format!("turnaround {}", time(cell.turnaround_ns.median)),
                format!(
                    "delay variation there {}, back {}",
                    time(cell.forward_variation_ns.median),
                    time(cell.reverse_variation_ns.median)
                ),
                format!("pacing error {} (p99 {})", time(cell.pacing_error_ns.median), time(cell.pacing_error_ns.p99)),
            ];
            text.push_str(&format!("\n{name}{}\n", parts.join(", ")));
            if let Some(one_way) = &cell.one_way {
                text.push_str(&one_way_line(one_way));
            }
            if let Some(stamp) = &cell.stamp {
                text.push_str(&stamp.line());
            }
            let LossLine(line) = LossLine::of(cell);
            text.push_str(&line);
        }
        if let Some(cell) = cells.first() {
            let canary = output::to_json(&cell.canary);
            let figure = |key: &str| canary[key].as_f64();
            text.push_str(&format!(
                "sending thread: {} of a CPU; gaps of 10 us and more took {} of the time watched, the longest {}\n",
                percent(cell.cpu_fraction),
                percent(figure("lost_fraction")),
                time(figure("longest_ns")),
            ));
            if let Some(link) = &cell.link {
                text.push_str(&format!("engine {}: {}\n", link.engine, link.chosen_because));
            }
            if let Some(pacing) = &cell.pacing {
                text.push_str(&pacing.line());
            }
        }
        text
    }
}

/// One line on one-way delays.
fn one_way_line(bounds: &OneWay) -> String {
    let between = |low: &Figures, high: &Figures| format!("{} to {}", time(low.median), time(high.median));
    let mut text = format!(
        "one-way delay, medians: there {}, back {} (bounded by {})\n",
        between(&bounds.there_low_ns, &bounds.there_high_ns),
        between(&bounds.back_low_ns, &bounds.back_high_ns),
        if bounds.from_utc { "both clocks' errors against UTC and the round trips" } else { "the round trips alone" }
    );
    if bounds.contradicted > 0 {
        text.push_str(&format!(
            "{} round trips contradict what the two clocks state of UTC: one of them is wrong\n",
            bounds.contradicted
        ));
    }
    if bounds.clock_steps > 0 {
        text.push_str(&format!(
            "round trips contradict their neighbours at {} places: a clock was set, or drifts by more than 200 ppm\n",
            bounds.clock_steps
        ));
    }
    text
}

/// The share of the packets sent that was lost on the way; `None` where none was sent.
fn lost_share(cell: &RttCell) -> Option<f64> {
    (cell.sent > 0).then(|| cell.lost_on_the_way() as f64 / cell.sent as f64)
}

/// One line on what was lost where; empty where nothing went wrong.
struct LossLine(String);

impl LossLine {
    fn of(cell: &RttCell) -> Self {
        let classes = output::to_json(&cell.lost_by);
        let mut parts: Vec<String> = Vec::new();
        for (key, words) in [
            ("local_tx", "dropped here before the wire"),
            ("forward", "on the way there"),
            ("responder_rx", "dropped by the far end, overloaded"),
            ("reverse", "on the way back"),
            ("local_rx", "dropped here on arrival"),
            ("late", "late"),
            ("unattributed", "nobody knows where"),
        ] {
            if let Some(count @ 1..) = classes[key].as_u64() {
                parts.push(format!("{count} {words}"));
            }
        }
        let mut text = if parts.is_empty() { String::new() } else { format!("lost: {}\n", parts.join(", ")) };
        let unsent = cell.unsent.too_late + cell.unsent.no_room;
        let others = [
            (cell.refused(), "refused by the far end"),
            (unsent, "never sent"),
            (cell.sent_late, "sent late"),
            (cell.duplicate, "duplicate"),
            (cell.reordered, "reordered"),
            (cell.foreign, "foreign"),
        ];
        let found: Vec<String> =
            others.iter().filter(|(count, _)| *count > 0).map(|(count, word)| format!("{count} {word}")).collect();
        if !found.is_empty() {
            text.push_str(&format!("also: {}\n", found.join(", ")));
        }
        Self(text)
    }
}

/// The result of a run.
struct Ran {
    cells: Vec<RttCell>,
    notes: Vec<Note>,
    lost: Option<String>,
    stopped: bool,
}

fn probe(parameters: &Parameters, ready: Vec<Ready<'_>>, session: &mut Session<'_>) -> Result<Ran, Failure> {
    let (context, seed) = (session.context, session.seed);
    let names: Vec<String> = ready.iter().map(|peer| peer.name.clone()).collect();
    let codecs: Vec<Codec> = ready.iter().map(|peer| peer.codec.clone()).collect();
    let carried: Vec<(String, i64)> = ready.iter().map(|peer| (peer.name.clone(), peer.carried_session())).collect();
    let mut cells = Vec::new();
    let (mut links, mut sessions) = (Vec::new(), Vec::new());
    let (mut programs, mut refused) = (None, Vec::new());
    let lead = Lead::shared(ready.iter().map(|peer| peer.pacing.lead()));
    for Ready { name, address, session, codec, link, in_kernel, refused: refusals, mut pacing } in ready {
        if lead.is_none() {
            pacing.without_launch_times(parameters.blocking);
        }
        // Programs serve one peer.
        (programs, refused) = (in_kernel, refusals);
        let session_name = codec.session();
        let (address, pacing) = (address.to_string(), Some(pacing));
        cells.push(RttCell { peer: name, address, session: session_name, pacing, ..RttCell::default() });
        links.push(link);
        sessions.push(session);
    }
    let peers = names.len();
    let options = Options { timeout_ns: parameters.timeout_ns(), launched: lead.is_some(), ..Options::default() };
    let rate = (!parameters.flood).then(|| parameters.rate() * peers as f64);
    let label = format!("rtt {}", if peers == 1 { names[0].clone() } else { format!("to {peers} peers") });
    let planned = parameters.planned() * peers as u64;
    let progress = match context.is_live() {
        true => Progress::hidden(),
        false => context.progress(&label, if parameters.flood { 0 } else { planned }),
    };
    let mut screen = context.is_live().then(live::Screen::default);
    let clock = (parameters.mode == Mode::Stamp).then(|| session.clock());
    let mut aggregate = Aggregate::new(&carried, options, rate, &mut session.samples);
    aggregate.against_utc(clock);
    let (full, full_pages) = mpsc::channel();
    let (empty, empty_pages) = mpsc::channel();
    for _ in 0..PAGES {
        // The receiver is at hand.
        let _ = empty.send(Page::fresh());
    }
    let sent = std::thread::scope(|scope| {
        let log = Log::new(full, empty_pages);
        let sending = scope.spawn(|| match programs {
            Some(programs) => kernel_sender::send(parameters, programs, links, &codecs, log, context),
            None => send(parameters, (links, lead), &codecs, log, context, seed),
        });
        aggregate
            .keep(&full_pages, &empty, |aggregate| {
                aggregate.against_utc(clock);
                let (slots, replies) = aggregate.seen();
                progress.set(slots);
                let look = aggregate.look();
                if let Some(screen) = &mut screen {
                    screen.draw(&live::frame(&label, slots, &look));
                }
                let rtt = look.interval;
                let figures = rtt.median.map_or_else(String::new, |median| {
                    format!(", median {}, p99 {}", time(Some(median)), time(rtt.p99))
                });
                progress.label(&format!("{label}: {slots} sent, {replies} replies{figures}"));
            })
            .map_err(|error| Failure::Machine(format!("{error}: please report this")))?;
        sending.join().map_err(|_| Failure::Machine("the sending thread ended without a result".to_owned()))?
    })?;
    drop(progress);
    let mut notes = sent.notes;
    let mut counted = Vec::new();
    let may_vanish = aggregate.seen().1 == 0 && sent.in_kernel.is_none() && !parameters.flood && !sent.stopped;
    for (((cell, mut link), session), codec) in cells.iter_mut().zip(sent.links).zip(sessions).zip(&codecs) {
        // Before packets of other sizes are counted, too.
        let mut session = session;
        let counted_before = if may_vanish { session.as_mut().and_then(|session| session.count().ok()) } else { None };
        if may_vanish {
            let size = (parameters.size_byte.into(), parameters.least_byte_of(codec) as u32);
            cell.vanishing = vanishing::sound(&mut link, codec, size, parameters.planned());
        }
        let (counters, lost) = peer::close(&cell.peer, session);
        let counters = counted_before.as_ref().map(peer::counted).or(counters);
        notes.extend(lost);
        let drops = link.local_drops().unwrap_or_default();
        counted.push((counters, drops));
        cell.local_drops = drops;
        cell.canary = StallFigures::of(link.stalls(), sent.elapsed_ns, sent.involuntary_switches);
        cell.cpu_fraction = sent.cpu_fraction;
        cell.link = Some(link.facts().clone());
        if let Some((facts, drops)) = &sent.in_kernel {
            cell.link = Some(facts.clone());
            cell.local_drops = *drops;
            cell.canary = StallFigures::of(&StallDetector::new(0), sent.elapsed_ns, sent.involuntary_switches);
            if let Some((_, local)) = counted.last_mut() {
                *local = *drops;
            }
        }
        if let Some(link) = &mut cell.link {
            link.refusals.append(&mut refused);
        }
    }
    for (cell, foreign) in cells.iter_mut().zip(&sent.foreign) {
        (cell.foreign, cell.local_drops.foreign) = (*foreign, *foreign);
    }
    let wanted = parameters.stamp_tlv.as_deref().unwrap_or_default();
    for ((cell, codec), [before, last]) in cells.iter_mut().zip(&codecs).zip(&sent.last_replies) {
        cell.stamp = codec.stamp_key().and_then(|key| StampFacts::of(key, wanted, [before, last]));
    }
    for pacing in cells.iter_mut().filter_map(|cell| cell.pacing.as_mut()) {
        pacing.handed(sent.handed_ahead_ns);
    }
    let origin = aggregate.started();
    cells.iter_mut().for_each(|cell| cell.origin_monotonic_ns = origin.map(Timestamp::as_nanos));
    let closed = aggregate.close(&counted)?;
    cells.iter_mut().zip(closed).for_each(|(cell, closed)| cell.take(closed));
    Ok(Ran { cells, notes, lost: sent.failed, stopped: sent.stopped })
}

/// The sending thread.
fn send<'c>(
    parameters: &Parameters,
    (links, lead): (Vec<PeerLink<'c>>, Option<Lead>),
    codecs: &[Codec],
    log: Log,
    context: &Context,
    seed: u64,
) -> Result<SendingEnded<'c>, Failure> {
    let notes = conditions::take(parameters.cpu, parameters.fifo, !parameters.blocking)?;
    let stop = context.stop_flag();
    let peers = links.len() as u64;
    let mut link = Many::new(links).ok_or_else(|| Failure::Machine("no link to send over".to_owned()))?;
    let planned = parameters.known_slots().map(|slots| slots * peers);
    let mut recorder = Recorder::new(codecs, link.lane(), log, &stop, planned);
    let before = (link.now(), sched::thread_usage());
    let linger_ns = parameters.timeout_ns();
    let ended = if parameters.flood {
        let options = closed_loop::Options {
            packets: parameters.packets,
            duration_ns: parameters.duration_ns().unwrap_or(i64::MAX as u64),
            size_byte: parameters.size_byte,
            patience_ns: FLOOD_PATIENCE_NS,
            turn_ns: TURN_NS,
            linger_ns: FLOOD_PATIENCE_NS.max(linger_ns),
        };
        closed_loop::run(&mut link, &options, &mut recorder)
    } else {
        let schedule = parameters.schedule(peers, seed);
        let slots = schedule.slots().map_err(|error| Failure::Input(error.to_string()))?;
        let options = open_loop::Options {
            lead_in_ns: LEAD_IN_NS,
            catch_up_ns: parameters.catch_up_ns(),
            turn_ns: TURN_NS,
            linger_ns,
            launch: lead,
            ..open_loop::Options::default()
        };
        open_loop::run(&mut link, slots, &options, &mut recorder)
    };
    let after = (link.now(), sched::thread_usage());
    recorder.finish(after.0);
    let used = (after.1.user + after.1.system) - (before.1.user + before.1.system);
    let elapsed = after.0 - before.0;
    Ok(SendingEnded {
        foreign: std::mem::take(&mut recorder.foreign),
        last_replies: std::mem::take(&mut recorder.last_replies),
        handed_ahead_ns: recorder.handed_ahead_ns,
        stopped: recorder.stopped,
        notes,
        failed: ended.err().map(|error: LinkError| error.to_string()),
        elapsed_ns: elapsed.as_nanos_unsigned(),
        cpu_fraction: (elapsed.as_nanos() > 0).then(|| used.as_nanos() as f64 / elapsed.as_nanos() as f64),
        involuntary_switches: after.1.involuntary_switches.saturating_sub(before.1.involuntary_switches),
        links: link.into_links(),
        in_kernel: None,
    })
}

/// What a reader of the figures should know.
fn remarks(cells: &[RttCell], parameters: &Parameters) -> Vec<Note> {
    let mut notes = Vec::new();
    if parameters.flood {
        notes.push(Note::new("closed_loop", words::closed_loop()));
    }
    for cell in cells {
        if let (Some(wanted), Some(got)) = (cell.intended_packet_per_s, cell.achieved_packet_per_s)
            && !parameters.flood
            && got < wanted * 0.99
            && !cell.only_stalled()
        {
            let text = words::rate_not_reached(&cell.peer, wanted, got);
            notes.push(Note::new("rate_not_reached", text));
        }
        if let Some(vanishing) = cell.vanishing {
            notes.push(Note::new("path_mtu", vanishing.sentence(&cell.peer)));
        }
        for (place, id) in [(Place::Here, "stalled"), (Place::Beyond, "nothing_came_back")] {
            notes.extend(cell.outage_text(place).map(|text| Note::new(id, text)));
        }
        if cell.all_lost_on_the_way_back() {
            notes.push(Note::new("lost_on_the_way_back", words::lost_on_the_way_back(&cell.peer)));
        }
        for refusal in cell.link.iter().flat_map(|link| &link.refusals) {
            let text = words::link_refused(&refusal.wanted, refusal.reason.trim_end_matches('.'));
            let note = Note::new(&format!("refused_{}", refusal.wanted), text);
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    notes
}
