//! `vtare path`: what a path is worth: what is free, latency when it is used, the depth of the buffer
//! (docs/methods/path.md).
//!
//! [`vtare_methods::path`] decides what to send and what follows; the session and its trains are those of `vtare avb`.

mod answer;
mod cell;
mod parameters;
mod saturate;

use vtare_control::client::ControlError;
use vtare_methods::avb::{Observation, Setup, Spacing, Train};
use vtare_methods::path::{Both, PathBudget, PathFigures, PathProbe, PathStep, both, forth_after_ns};
use vtare_probe::train;
use vtare_sys::sched;
use vtare_units::{Monotonic, Span, Timestamp};
use vtare_wire::session::ClientError;

use crate::answer::{Answer, CommandLine};
use crate::avb;
use crate::avb::probe_path::{AvbError, Broken, ProbePath, fits};
use crate::avb::shown::{megabits, sized};
use crate::failure::Failure;
use crate::instrument::{self, Instrument, Note, Outcome, Session};
use crate::rtt::conditions;
use crate::samples::{Column, Row as _};
use crate::sentences::path as words;
use crate::table::{Table, time};
use cell::{LoadedRow, PathCell};
use parameters::PathParameters;
use saturate::{Idle, saturate};

/// The instrument.
pub(crate) struct Path;

/// Share of the bytes for one direction: trains down may need as many up, which pay for them, and the path is sounded.
const DIRECTION_SHARE: f64 = 0.44;
/// Time for one direction as a share of all: the rest is for the soundings and for what pays for trains down. A train
/// may be under way at its end.
const DIRECTION_TIME: f64 = 0.44;
/// Share of all time by which the trains up have arrived: a burst that began in time may take long to drain.
const UP_TIME: f64 = 0.6;
/// A burst that is cut to what drains in time keeps this share of its packets at least: a shorter one shows nothing.
const LEAST_CUT: f64 = 0.5;
/// Time that is kept for a train that is under way, and for the end of the session, ns.
const CLOSING_NS: u64 = 700_000_000;

/// A direction that has been measured but for its last train.
struct Direction {
    name: &'static str,
    probe: Box<PathProbe>,
    last: Option<Train>,
    /// Bytes beside those of its trains.
    extra_byte: u64,
}

impl Direction {
    fn is_down(&self) -> bool {
        self.name == "down"
    }

    /// Bytes that it has sent and will send.
    fn byte(&self) -> u64 {
        self.probe.probe_byte() + self.extra_byte + self.last.as_ref().map_or(0, Train::bytes)
    }
}

/// How a direction ended.
enum End {
    Ended(Box<PathProbe>, Option<Train>),
    Stopped,
    Broken(Broken),
}

impl Instrument for Path {
    const NAME: &'static str = "path";
    const COLUMNS: &'static [Column] = LoadedRow::COLUMNS;
    const IDENTITY: &'static [&'static str] = &["peer", "address", "direction"];
    type Parameters = PathParameters;
    type Cell = PathCell;

    fn resolve(parameters: PathParameters, _context: &crate::context::Context) -> Result<PathParameters, Failure> {
        if parameters.peer.is_empty() {
            return Err(Failure::Input("the peer is missing. Name a host that runs `vtare serve`".to_owned()));
        }
        crate::parameters::check_bounds(&parameters)?;
        instrument::check_cpu(parameters.cpu)?;
        Ok(parameters)
    }

    fn measure(parameters: &PathParameters, session: &mut Session<'_>) -> Result<Outcome<PathCell>, Failure> {
        let mut notes = conditions::take(parameters.cpu, None, false)?;
        // Without the right to it trains that other threads delay are seen in the send times.
        let _ = sched::set_nice(avb::NICE);
        let settings = avb::settings_for(&parameters.peer, parameters.key_file.clone());
        let mut path = ProbePath::open(session.clock(), &settings, true, &mut notes)?;
        let deadline = path.opened() + Span::from_nanos((parameters.most_ns - CLOSING_NS).cast_signed());
        let address = path.address.to_string();
        let progress = session.context.progress(&format!("path {}", parameters.peer), 2);
        let mut measured: Vec<Direction> = Vec::new();
        let mut interrupted = false;
        for (number, name) in (0..).zip(["up", "down"]) {
            path.set_reverse(name == "down");
            let spent: u64 = measured.iter().map(Direction::byte).sum();
            let (all_byte, all_ns) = parameters.limits();
            let most = most_byte(all_byte, spent + path.extra_byte, number, path.credit_byte());
            let share_ns = (DIRECTION_TIME * parameters.most_ns as f64) as u64;
            let last_ns: f64 = measured.iter().filter_map(|it| it.last.as_ref()).map(lasts_ns).sum();
            let left_ns = (deadline - path.now()).as_nanos().max(0).cast_unsigned().saturating_sub(last_ns as u64);
            // Bytes back beyond the usual ones are those that trains up have paid for.
            let carried_byte = (name == "down").then(|| path.credit_byte());
            let carried_ns = (DIRECTION_SHARE * all_ns as f64) as u64;
            let budget = PathBudget { most_byte: most, carried_ns, carried_byte, most_ns: share_ns.min(left_ns) };
            let up_until = path.opened() + Span::from_nanos((UP_TIME * parameters.most_ns as f64) as i64);
            let until = if name == "down" { path.now() + Span::from_unsigned_nanos(left_ns) } else { up_until };
            path.earn_until(until);
            match one(&mut path, session, name == "down", budget, until) {
                End::Ended(probe, last) => {
                    measured.push(Direction { name, probe, last, extra_byte: std::mem::take(&mut path.extra_byte) });
                }
                End::Stopped => {
                    interrupted = true;
                    break;
                }
                // A responder of before trains back were there, or one that may not send: the other way is known.
                End::Broken(broken) => match unable(broken, answer::way(name)) {
                    Ok(text) => notes.push(Note::new("direction_unknown", text)),
                    Err(error) => {
                        session.peer_lost = Some(format!("{}: {error}", parameters.peer));
                        break;
                    }
                },
            }
            progress.set(number + 1);
        }
        drop(progress);
        let (mut at_once, began) = (None, path.now());
        path.earn_until(deadline);
        if !interrupted && session.peer_lost.is_none() {
            match send_last(&mut path, &mut measured).map_err(|broken| unable(broken, &words::both())) {
                Ok(found) => at_once = found,
                Err(Ok(text)) => notes.push(Note::new("both_unknown", text)),
                Err(Err(error)) => session.peer_lost = Some(format!("{}: {error}", parameters.peer)),
            }
        }
        let last_s = (path.now() - began).as_secs_f64();
        let found: Vec<PathFigures> = measured.iter_mut().map(|it| it.probe.stop()).collect();
        let idle_ns = idle_rtt_ns(&found, path.far_behind_ns());
        let cell = |(it, figures): (&Direction, &PathFigures)| {
            let cell = PathCell::of(it.name, &parameters.peer, &address, figures);
            PathCell { extra_byte: it.extra_byte, ..cell }.with_idle(idle_ns)
        };
        let mut cells: Vec<PathCell> = measured.iter().zip(&found).map(cell).collect();
        let extra_byte = path.extra_byte;
        if let (Some(ns), Some(up), Some(figures)) = (parameters.saturate_ns, cells.first_mut(), found.first())
            && up.direction == "up"
            && !interrupted
            && session.peer_lost.is_none()
        {
            let idle = Idle { least_delay_ns: figures.least_delay_ns, rtt_ns: idle_ns };
            let lasts = Span::from_unsigned_nanos(ns);
            up.saturated = saturate(&mut path, parameters, (&idle, lasts), (session.context, &mut notes))?;
        }
        if session.peer_lost.is_none() && path.close().is_err() {
            notes.push(Note::new("counters_lost", words::counters_lost()));
        }
        if let [up, down] = &cells[..] {
            let mut both = PathCell::both(up, down, at_once);
            both.extra_byte += extra_byte;
            both.elapsed_s += last_s;
            cells.push(both);
        }
        for cell in &cells {
            for loaded in &cell.loaded {
                session.samples.row(&LoadedRow { cell, loaded })?;
            }
        }
        Ok(Outcome { cells, notes, interrupted })
    }

    fn answer(outcome: &Outcome<PathCell>, parameters: &PathParameters, line: &CommandLine) -> Answer {
        answer::of(outcome, parameters, line)
    }

    fn table(cells: &[PathCell]) -> Table {
        let heading =
            ["", "grade", "queue", "free", "at 50 %", "at 90 %", "at 110 %", "buffer", "bytes", "probes", "time"];
        let mut table = Table::new(&heading, 3);
        for cell in cells {
            let least = |at_least: bool| if at_least { ">= " } else { "" };
            let over_least = cell::at(&cell.loaded, 1.1).is_some_and(|loaded| loaded.at_least);
            let depth = |shown: String| format!("{}{shown}", least(cell.depth_at_least));
            table.row(vec![
                cell.direction.to_owned(),
                cell.grade.unwrap_or("-").to_owned(),
                cell.queue.map_or("-", answer::queue_words).to_owned(),
                format!("{}{}", least(cell.avb_at_least), megabits(cell.avb_bit_per_s)),
                time(cell.rtt_at_50_ns),
                time(cell.rtt_at_90_ns),
                format!("{}{}", least(over_least), time(cell.rtt_at_110_ns)),
                depth(time(cell.depth_ns)),
                depth(sized(cell.depth_byte)),
                sized(Some((cell.probe_byte + cell.extra_byte) as f64)),
                time(Some(cell.elapsed_s * 1e9)),
            ]);
        }
        for tcp in cells.iter().flat_map(|cell| &cell.saturated) {
            let mut row = vec!["-".to_owned(); heading.len()];
            row[0] = format!("TCP {}", tcp.congestion);
            row[6] = time(tcp.rtt_ns);
            row[8] = sized(Some(tcp.byte as f64));
            row[10] = time(Some(tcp.seconds * 1e9));
            table.row(row);
        }
        table
    }

    fn details(cells: &[PathCell]) -> String {
        answer::details(cells)
    }
}

/// Why the far end, which is there, does not do it; the error where it is gone.
fn unable(broken: Broken, way: &str) -> Result<String, AvbError> {
    match broken {
        Broken::Unable(why) => Ok(words::cannot(way, why)),
        Broken::Late => Ok(words::too_late(way)),
        Broken::Lost(error @ train::AvbError::Far(ControlError::Session(ClientError::Refused(_)))) => {
            Ok(words::refused(way, error))
        }
        Broken::Lost(error) => Err(error),
    }
}

/// How long a train takes with the silence before it, ns.
fn lasts_ns(train: &Train) -> f64 {
    train.idle_before_ns as f64 + train.duration_ns()
}

/// Sends the last trains, at once where both directions have one, and gives the round trips meanwhile.
fn send_last(path: &mut ProbePath<'_>, measured: &mut [Direction]) -> Result<Option<Both>, Broken> {
    if let [up, down] = measured
        && let (Some(forth), Some(back)) = (&up.last, &down.last)
    {
        let after = Span::from_nanos(forth_after_ns(&down.probe) as i64);
        let (left, came) = path.send_both((forth, back), after, up.probe.free())?;
        up.probe.observe(&left);
        down.probe.observe(&if path.all_left() { with_lost(came) } else { came });
        return Ok(both(&up.probe, &down.probe));
    }
    for direction in measured {
        let Some(train) = &direction.last else { continue };
        let reverse = direction.is_down();
        path.set_reverse(reverse);
        let seen = path.send(train, direction.probe.free())?;
        direction.probe.observe(&if reverse && path.all_left() { with_lost(seen) } else { seen });
    }
    Ok(None)
}

/// Bytes that a direction may spend: its share of all, and of the rest only what trains down need no bytes up for, or
/// half of it.
fn most_byte(all: u64, spent: u64, number: u64, credit: u64) -> u64 {
    let share = (DIRECTION_SHARE * all as f64) as u64;
    let rest = all.saturating_sub(spent);
    if number == 0 {
        return share.min(rest);
    }
    share.min(rest.min(credit).max(u64::midpoint(rest, credit.min(rest))))
}

/// Measures one direction but for its last train.
fn one(
    path: &mut ProbePath<'_>,
    session: &Session<'_>,
    reverse: bool,
    budget: PathBudget,
    until: Timestamp<Monotonic>,
) -> End {
    let setup = Setup { ability: path.ability, seed: session.seed, ..Setup::default() };
    let mut probe = Box::new(PathProbe::new(setup, budget));
    loop {
        if session.context.stop_requested() {
            return End::Stopped;
        }
        if path.now() >= until {
            return End::Ended(probe, None);
        }
        let done = match probe.step(path.now()) {
            PathStep::Send(train) => {
                let Some(train) = in_time(train, until - path.now(), probe.free()) else {
                    return End::Ended(probe, None);
                };
                path.send(&train, probe.free()).map(|seen| {
                    let lost = reverse && path.all_left();
                    probe.observe(&if lost { with_lost(seen) } else { seen });
                })
            }
            PathStep::Wait(ns) => path.pause(Span::from_unsigned_nanos(ns)),
            PathStep::Last(train) => return End::Ended(probe, Some(train)),
            PathStep::Done(_) => return End::Ended(probe, None),
        };
        match done {
            Ok(()) => {}
            Err(Broken::Late) => return End::Ended(probe, None),
            Err(broken) => return End::Broken(broken),
        }
    }
}

/// The train if it arrives within `left` where the path carries `near`, bit/s; a burst may be cut for that.
fn in_time(train: Train, left: Span, near: Option<f64>) -> Option<Train> {
    let Some(near) = near else { return Some(train) };
    let left = left - Span::from_unsigned_nanos(train.idle_before_ns);
    let packets = fits(left, train.size_byte, near);
    if packets >= train.packets {
        return Some(train);
    }
    let cut = train.spacing == Spacing::BACK_TO_BACK && f64::from(packets) >= LEAST_CUT * f64::from(train.packets);
    cut.then_some(Train { packets, ..train })
}

/// The train back with those that were lost: their send times are in them, and are taken from their neighbours'.
fn with_lost(mut seen: Observation) -> Observation {
    let known: Vec<(usize, u64)> =
        (0..).zip(&seen.packets).filter_map(|(number, packet)| Some((number, packet.sent?.as_nanos()))).collect();
    let (Some(&first), Some(&last)) = (known.first(), known.last()) else { return seen };
    let gap_ns = last.1.saturating_sub(first.1) as f64 / (last.0 - first.0).max(1) as f64;
    for (number, packet) in seen.packets.iter_mut().enumerate().filter(|(_, packet)| packet.sent.is_none()) {
        let next = known.partition_point(|(at, _)| *at < number);
        let sent_ns = match (next.checked_sub(1).map(|before| known[before]), known.get(next)) {
            (Some(before), Some(after)) => {
                let share = (number - before.0) as f64 / (after.0 - before.0) as f64;
                before.1 as f64 + share * (after.1.saturating_sub(before.1)) as f64
            }
            (Some(before), None) => before.1 as f64 + gap_ns * (number - before.0) as f64,
            (None, _) => first.1 as f64 - gap_ns * (first.0 - number) as f64,
        };
        packet.sent = Some(Timestamp::from_nanos(sent_ns.max(0.0) as u64));
    }
    seen
}

/// The round trip of the idle path: the fastest packets of both directions. What their clocks differ by is in both,
/// with opposite signs.
fn idle_rtt_ns(found: &[PathFigures], far_behind_ns: Option<i64>) -> Option<f64> {
    let [up, down] = found else { return None };
    Some((up.least_delay_ns? + down.least_delay_ns? + far_behind_ns?) as f64)
}

#[cfg(test)]
mod tests {
    use vtare_methods::avb::{Packet, Train};

    use super::*;

    #[test]
    fn those_lost_on_the_way_back_get_the_send_times_between_those_of_their_neighbours() {
        let packet = |sent: Option<u64>| Packet {
            scheduled: Timestamp::ZERO,
            sent: sent.map(Timestamp::from_nanos),
            kernel_sent: None,
            received: sent.map(Timestamp::from_nanos),
            place: None,
            size_byte: 1_500,
            call: 0,
            group: None,
            descheduled: false,
            ecn: None,
        };
        let seen = Observation {
            train: Train::back_to_back(7, 1_500),
            packets: [None, Some(1_000), None, None, Some(1_300), Some(1_400), None].map(packet).to_vec(),
            finished: Timestamp::ZERO,
            receiver_drops: Some(0),
        };
        let sent: Vec<u64> = with_lost(seen).packets.iter().filter_map(|it| Some(it.sent?.as_nanos())).collect();
        assert_eq!(sent, [900, 1_000, 1_100, 1_200, 1_300, 1_400, 1_500]);
    }

    #[test]
    fn a_burst_is_cut_to_what_drains_in_time_and_another_train_left_out() {
        // 1,500 B take 2.4 ms at 5 Mbit/s: 400 of them 0.96 s.
        let (burst, near) = (Train::back_to_back(400, 1_500), Some(5e6));
        let sent = |train: &Train, ms, near| in_time(train.clone(), Span::from_millis(ms), near).map(|it| it.packets);
        assert_eq!(sent(&burst, 960, near), Some(400));
        assert_eq!(sent(&burst, 600, near), Some(250));
        assert_eq!(sent(&burst, 400, near), None, "less than half");
        assert_eq!(sent(&burst, 1, None), Some(400), "nothing is known of the path");
        assert_eq!(sent(&burst.clone().after_idle(500_000_000), 1_100, near), Some(250), "it waits first");
        assert_eq!(sent(&burst, -5, near), None);
        let even = Train::constant(400, 1_500, 5e6);
        assert_eq!((sent(&even, 960, near), sent(&even, 900, near)), (Some(400), None));
    }

    #[test]
    fn down_gets_what_is_left_after_what_pays_for_it() {
        assert_eq!(most_byte(5_000_000, 60_000, 0, 0), 2_200_000);
        // All that was sent up has arrived: it pays.
        assert_eq!(most_byte(5_000_000, 2_260_000, 1, 2_260_000), 2_200_000);
        // Half was lost: 1.0 MB are paid for, and of what is left each byte down needs one up.
        assert_eq!(most_byte(5_000_000, 2_260_000, 1, 1_000_000), 1_870_000);
        assert_eq!(most_byte(5_000_000, 6_000_000, 1, 1_000_000), 0);
    }
}
