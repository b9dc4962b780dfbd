//! One set-up of ports, flows and frame size: choosing the sender, offering loads, judging whether a trial counts.

use vtare_methods::throughput::{
    BackToBackSettings, Conditions, Distribution, Gate, PlrSettings, Range, RecoverySettings, Seen, SeenRecovery,
    SoakSettings, Trial, Void, jain,
};
use vtare_sys::proc::{Stat, user_hz};
use vtare_sys::sched::{self, Class};
use vtare_sys::{SysError, kernel_file};
use vtare_tester::{Analyser, Engine, Offer, RateStep, Tester, TesterError, TesterOptions, TrialResult};
use vtare_units::{Monotonic, Pace, Span, Timestamp};

use super::parameters::Parameters;
use crate::context::Context;
use crate::failure::Failure;
use crate::instrument::Note;
use crate::sentences::throughput as words;
use crate::table::time;

/// A self-test's duration, ns.
const SELF_TEST_NS: u64 = 40_000_000;
/// Of what a sender reaches where nothing paces it, this share is the greatest load that is tried.
const OF_THE_SELF_TEST: f64 = 0.9;
/// Frames still under way are awaited as long as any come within this, ns; twice as long after each trial that receives
/// the one before.
const LINGER_NS: u64 = 50_000_000;
const MOST_LINGER_NS: u64 = 2_000_000_000;
/// Two readings of the clock this far apart mean that the thread stalled, ns.
const GAP_NS: u64 = 1_000_000;
/// Ticks of the system's accounts that a trial must last for them to be meaningful.
const LEAST_TICKS: i64 = 20;
/// Frames that a trial has at least.
const LEAST_FRAMES: u64 = 20;
/// The bounds of the longest burst are this share of the upper one apart in the end.
const BURST_RESOLUTION: f64 = 0.01;
/// An overload is this share of the throughput, and what follows it this share of the overload (RFC 2544, 26.5).
const OVERLOAD: f64 = 1.1;
const AFTER_OVERLOAD: f64 = 0.5;
/// After the step the device is watched for as long as the overload, and for this time at most, ns.
const MOST_WATCHED_NS: u64 = 10_000_000_000;
/// The sending thread goes before all ordinary ones.
const NICE: i32 = -19;
/// Frames of a trial at most: each is distinguished by a bit.
const MOST_FRAMES: u64 = 1 << 26;

/// A sender, and how fast it was.
#[derive(Clone, Debug, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub(super) struct Chosen {
    /// Its name.
    pub(super) engine: &'static str,
    /// Frames a second in the self-test.
    pub(super) packet_per_s: f64,
    /// Why this one.
    pub(super) because: String,
}

/// A trial that was run.
#[derive(Clone, Debug)]
pub(super) struct TrialRun {
    /// What was asked.
    pub(super) trial: Trial,
    /// When it began.
    pub(super) began: Timestamp<Monotonic>,
    /// The result.
    pub(super) result: TrialResult,
    /// Why it is void, where it is.
    pub(super) void: Option<Void>,
    /// Jain's index of what each guest was sent.
    pub(super) jain: Option<f64>,
}

impl TrialRun {
    pub(super) fn seen(&self) -> Seen {
        Seen { sent: self.result.sent(), received: self.result.received(), void: self.void }
    }

    pub(super) fn seen_recovery(&self) -> SeenRecovery {
        let around = self.result.around.unwrap_or_default();
        SeenRecovery {
            seen: self.seen(),
            lost_before: around.before,
            lost_after: around.after,
            last_lost_ns: around.last_ns,
        }
    }
}

/// The set-up of one cell.
pub(super) struct Bench<'c> {
    tester: Tester,
    context: &'c Context,
    parameters: &'c Parameters,
    pub(super) chosen: Chosen,
    linger_ns: u64,
    /// The greatest load to try.
    pub(super) most_packet_per_s: u64,
    /// Frames of a trial at most.
    pub(super) most_frames: u64,
    /// Frames of an overload and what follows it, or of a trial of a soak, at most.
    most_long_frames: u64,
}

/// Frames of a trial.
fn frames_of(trial: Trial) -> u64 {
    ((u128::from(trial.packet_per_s) * u128::from(trial.duration_ns) / 1_000_000_000) as u64).max(1)
}

/// What the ports refuse is the caller's mistake; what the kernel refuses is the machine's.
pub(super) fn failure(error: TesterError) -> Failure {
    match error {
        TesterError::Program(_) | TesterError::System(_) => Failure::Machine(error.to_string()),
        other => Failure::Input(other.to_string()),
    }
}

/// Sees that the ports carry every size before the first is measured.
///
/// # Errors
/// [`Failure::Input`] for ports that are not there, and frames that they or the engines do not carry.
pub(super) fn check(parameters: &Parameters) -> Result<(), Failure> {
    for &frame_byte in &parameters.frame_byte {
        let able = |engine: &&Engine| frame_byte <= engine.most_frame_byte();
        let engines = parameters.engine.engines();
        // One that cannot is refused with its limit.
        let Some(&engine) = engines.iter().find(able).or(engines.first()) else { continue };
        vtare_tester::check(&parameters.tx_port, &parameters.rx_port, frame_byte, engine).map_err(failure)?;
    }
    Ok(())
}

fn prepare(cpu: Option<usize>, fifo: Option<u8>) -> Result<(), SysError> {
    if let Some(cpu) = cpu {
        sched::pin_to(&[cpu])?;
    }
    // Without it others take their turns: their share is seen, and voids the trial.
    let _ = sched::set_nice(NICE);
    if let Some(priority) = fifo {
        sched::set_class(Class::Fifo(priority.into()))?;
    }
    Ok(())
}

impl<'c> Bench<'c> {
    /// Chooses a sender, opens the ports and sees that each flow comes through.
    ///
    /// # Errors
    /// [`Failure::Input`] for ports that do not see each other, frames that do not fit; [`Failure::Machine`] where no
    /// sender works here.
    pub(super) fn open(
        parameters: &'c Parameters,
        frame_byte: u32,
        distribution: &Distribution,
        context: &'c Context,
        notes: &mut Vec<Note>,
    ) -> Result<Self, Failure> {
        let slots = distribution.slots().map_err(|error| Failure::Input(error.to_string()))?;
        let (engine, chosen) = choose(parameters, frame_byte, notes)?;
        let able = (chosen.packet_per_s * OF_THE_SELF_TEST) as u64;
        let most_packet_per_s = parameters.most_packet_per_s.map_or(able, |most| most.min(able.max(2))).max(2);
        let longest = parameters.longest_ns();
        let of = |rate: u64| (u128::from(rate) * u128::from(longest) / 1_000_000_000) as u64 + 1;
        let fixed = parameters.latency_packet_per_s.iter().flatten().copied().max().unwrap_or(0);
        let frames = of(most_packet_per_s.max(fixed)).max(slots.guests().len() as u64);
        if frames > MOST_FRAMES {
            return Err(Failure::Input(format!(
                "a trial of {} s at up to {} frames/s has {frames} frames, more than {MOST_FRAMES}: make trials \
                 shorter, or give a greatest load (--max-rate)",
                longest as f64 / 1e9,
                most_packet_per_s.max(fixed)
            )));
        }
        let overload_ns = if parameters.recovery > 0 { parameters.overload_ns + MOST_WATCHED_NS } else { 0 };
        let duration_ns = overload_ns.max(parameters.soak_trials_ns()[1]);
        let long = Trial { packet_per_s: most_packet_per_s, duration_ns };
        let most_long_frames = frames_of(long).clamp(frames, MOST_FRAMES);
        let options = TesterOptions {
            tx: parameters.tx_port.clone(),
            rx: parameters.rx_port.clone(),
            source: parameters.source,
            flows: parameters.flows()?,
            slots: slots.guests().to_vec(),
            frame_byte,
            most_frames: most_long_frames,
            engine,
            analyser: parameters.analyser.analyser(),
        };
        let mut tester = Tester::open(options).map_err(failure)?;
        if let Some(why) = tester.fallback() {
            let note = Note::new("analyser_fallback", words::analyser_fallback(why));
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        let stop = || context.stop_requested();
        let shares = distribution.shares();
        let loaded: Vec<usize> = (0..shares.len()).filter(|flow| shares[*flow] > 0.0).collect();
        tester.check_reachability(&loaded, &stop).map_err(failure)?;
        let (linger_ns, most_frames) = (LINGER_NS, frames);
        Ok(Self { tester, context, parameters, chosen, linger_ns, most_packet_per_s, most_frames, most_long_frames })
    }

    /// The loads between which is searched: below the least no trial has frames enough to distinguish a loss from none.
    pub(super) fn range(&self) -> Range {
        let least = (LEAST_FRAMES * 1_000_000_000 / self.parameters.trial_ns).max(1);
        Range { least: least.min(self.most_packet_per_s - 1), most: self.most_packet_per_s }
    }

    /// The longest burst is searched from what shows a loss up to a trial's frames at the greatest load.
    pub(super) fn bursts(&self) -> BackToBackSettings {
        BackToBackSettings {
            packet_per_s: self.most_packet_per_s,
            least_frames: LEAST_FRAMES.min(self.most_frames),
            most_frames: self.most_frames,
            resolution: BURST_RESOLUTION,
        }
    }

    /// The first and the longest trial of a soak, ns, with no more frames than can be distinguished.
    fn soak_trials_ns(&self) -> [u64; 2] {
        let fits_ns = (u128::from(self.most_long_frames) * 1_000_000_000 / u128::from(self.most_packet_per_s)) as u64;
        self.parameters.soak_trials_ns().map(|ns| ns.min(fits_ns))
    }

    /// The throughput for long.
    pub(super) fn soak(&self, throughput_packet_per_s: f64, sum_ns: u64) -> SoakSettings {
        let [trial_ns, _] = self.soak_trials_ns();
        SoakSettings { packet_per_s: (throughput_packet_per_s as u64).max(1), trial_ns, sum_ns }
    }

    /// The search for the load that loses the share, from the throughput on.
    pub(super) fn critical_load(&self, throughput_packet_per_s: f64, loss_ratio: f64, sum_ns: u64) -> PlrSettings {
        let [trial_ns, most_trial_ns] = self.soak_trials_ns();
        let first_packet_per_s = (throughput_packet_per_s as u64).max(1);
        PlrSettings { loss_ratio, range: self.range(), first_packet_per_s, trial_ns, most_trial_ns, sum_ns }
    }

    /// The overload of a device of this throughput: 110 % of it or the greatest load, whichever is less; shorter where
    /// it has more frames than can be distinguished.
    pub(super) fn recovery(&self, throughput_packet_per_s: f64) -> RecoverySettings {
        let overload = ((throughput_packet_per_s * OVERLOAD).ceil() as u64).clamp(2, self.most_packet_per_s);
        let after = ((overload as f64 * AFTER_OVERLOAD) as u64).max(1);
        let watched_ns = self.parameters.overload_ns.min(MOST_WATCHED_NS);
        let left =
            self.most_long_frames.saturating_sub(frames_of(Trial { packet_per_s: after, duration_ns: watched_ns }));
        let most_ns = (u128::from(left) * 1_000_000_000 / u128::from(overload)) as u64;
        RecoverySettings {
            overload: Trial { packet_per_s: overload, duration_ns: self.parameters.overload_ns.min(most_ns) },
            after: Trial { packet_per_s: after, duration_ns: watched_ns },
            trials: self.parameters.recovery.into(),
        }
    }

    /// Ports, and where frames are counted, in words.
    pub(super) fn place(&self) -> &str {
        self.tester.place()
    }

    /// Who counts.
    pub(super) fn analyser(&self) -> &'static str {
        self.tester.analyser().map_or("none", Analyser::name)
    }

    /// Offers a load.
    ///
    /// # Errors
    /// [`Failure::Machine`] where a port is gone.
    pub(super) fn offer(&mut self, trial: Trial) -> Result<TrialRun, Failure> {
        self.offer_then(trial, None)
    }

    /// Offers a load, and another right after it. The trial of the outcome has the rate of the first and the time of
    /// both.
    ///
    /// # Errors
    /// [`Failure::Machine`] where a port is gone.
    pub(super) fn offer_then(&mut self, first: Trial, then: Option<Trial>) -> Result<TrialRun, Failure> {
        let rate = first.packet_per_s;
        let step = then.map(|then| RateStep { after_frames: frames_of(first), packets: then.packet_per_s });
        let frames = frames_of(first) + then.map_or(0, frames_of);
        let lasting_ns = |trial: Trial| frames_of(trial) as f64 * 1e9 / trial.packet_per_s as f64;
        let duration_ns = lasting_ns(first) + then.map_or(0.0, lasting_ns);
        let trial = Trial { duration_ns: first.duration_ns + then.map_or(0, |then| then.duration_ns), ..first };
        let offer = Offer {
            pace: Pace { packets: rate, span_ns: 1_000_000_000 },
            step,
            frames,
            catch_up_ns: self.parameters.catch_up_ns,
            linger_ns: self.linger_ns,
            gap_ns: GAP_NS,
            batch: batch(rate),
            // RFC 2544, 26.2: in the middle of the stream.
            tagged: Some(frames / 2),
            most_ns: None,
        };
        let (context, cpu, fifo) = (self.context, self.parameters.cpu, self.parameters.fifo);
        let device = self.parameters.device_pid.as_deref().unwrap_or_default();
        let before = Accounts::read(device);
        let began = vtare_sys::clocks::now::<Monotonic>();
        let result =
            self.tester.trial(&offer, || prepare(cpu, fifo), &|| context.stop_requested()).map_err(failure)??;
        let others_share = before.zip(Accounts::read(device)).and_then(|(before, after)| after.others_since(&before));
        if result.stale > 0 {
            self.linger_ns = (2 * self.linger_ns).min(MOST_LINGER_NS);
        }
        let lasted_ns = (result.elapsed_ns as f64).max(duration_ns);
        let conditions = Conditions {
            intended_packet_per_s: frames as f64 * 1e9 / duration_ns,
            achieved_packet_per_s: result.sent() as f64 * 1e9 / lasted_ns,
            stalled_share: Some(result.stalled_ns as f64 / lasted_ns),
            others_share,
            uncounted: result.wrong > 0,
            overrun_packet_per_s: (result.missed > 0).then(|| result.received() as f64 * 1e9 / lasted_ns),
        };
        let most_others = Some(self.parameters.most_others).filter(|most| *most < 1.0).unwrap_or(f64::INFINITY);
        let gate = Gate { most_others, ..Gate::default() };
        // The last frame leaves one gap before the end of the duration: a short stream is not late for that.
        let tolerance = Gate { most_short: gate.most_short + 1.0 / frames as f64, ..gate };
        let sent: Vec<f64> = result.flows.iter().map(|flow| flow.sent as f64).collect();
        Ok(TrialRun { trial, began, void: tolerance.judge(&conditions), jain: jain(&sent), result })
    }
}

/// Frames that leave together: single ones as long as their price allows.
const fn batch(packet_per_s: u64) -> u32 {
    match packet_per_s {
        0..=700_000 => 1,
        700_001..=1_500_000 => 4,
        1_500_001..=2_500_000 => 8,
        _ => 16,
    }
}

/// Tries the senders that may be used, and takes the fastest.
fn choose(parameters: &Parameters, frame_byte: u32, notes: &mut Vec<Note>) -> Result<(Engine, Chosen), Failure> {
    let engines = parameters.engine.engines();
    let mut tried: Vec<(Engine, f64)> = Vec::new();
    let mut refused: Vec<(&str, String)> = Vec::new();
    for &engine in engines {
        if frame_byte > engine.most_frame_byte() && engines.len() > 1 {
            refused.push((engine.name(), words::frame_too_large(frame_byte)));
            continue;
        }
        let (cpu, fifo) = (parameters.cpu, parameters.fifo);
        let result =
            vtare_tester::self_test(&parameters.tx_port, parameters.source, frame_byte, engine, SELF_TEST_NS, || {
                prepare(cpu, fifo)
            });
        match result {
            Ok(rate) => tried.push((engine, rate)),
            Err(error @ (TesterError::Program(_) | TesterError::System(_))) if engines.len() > 1 => {
                refused.push((engine.name(), error.to_string()));
            }
            Err(error) => return Err(failure(error)),
        }
    }
    for (engine, why) in &refused {
        let note = Note::new("engine_refused", words::sender_refused(engine, why));
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    let Some(&(engine, packet_per_s)) = tried.iter().max_by(|one, other| one.1.total_cmp(&other.1)) else {
        let refused: Vec<String> = refused.iter().map(|(engine, why)| format!("{engine}: {why}")).collect();
        return Err(Failure::Machine(format!("no sender works here: {}", refused.join("; "))));
    };
    let rates: Vec<String> =
        tried.iter().map(|(engine, rate)| format!("{} {:.0}", engine.name(), rate / 1e3)).collect();
    let because = if engines.len() == 1 { "asked for" } else { "the fastest here" };
    let because =
        format!("{because}; self-test of {}, kpacket/s: {}", time(Some(SELF_TEST_NS as f64)), rates.join(", "));
    Ok((engine, Chosen { engine: engine.name(), packet_per_s, because }))
}

/// What the machine's CPUs did in user mode, and of that this process and what is tested.
#[derive(Clone, Copy, Debug)]
struct Accounts {
    at: Timestamp<Monotonic>,
    all: Span,
    own: Span,
    tick: Span,
}

impl Accounts {
    /// `device` are the processes that are tested; one that is gone did nothing.
    fn read(device: &[u32]) -> Option<Self> {
        let hz = user_hz()?;
        let stat = Stat::parse(&kernel_file::text("/proc/stat")?, hz)?;
        let own = user_ticks(&kernel_file::text("/proc/self/stat")?)?;
        let text = |pid: &u32| kernel_file::text(format!("/proc/{pid}/stat"));
        let ticks = own + device.iter().filter_map(|pid| user_ticks(&text(pid)?)).sum::<i64>();
        let tick = Span::from_nanos(1_000_000_000 / i64::from(hz));
        Some(Self { at: vtare_sys::clocks::now::<Monotonic>(), all: stat.total.user, own: tick * ticks, tick })
    }

    /// CPU time of other programs since `before`, as share of one CPU; `None` where the time is too short for a figure.
    fn others_since(&self, before: &Self) -> Option<f64> {
        let lasted = (self.at - before.at).as_nanos();
        if lasted < self.tick.as_nanos() * LEAST_TICKS {
            return None;
        }
        let others = (self.all - before.all).as_nanos() - (self.own - before.own).as_nanos();
        // Both accounts move in whole ticks.
        Some((others - 2 * self.tick.as_nanos()).max(0) as f64 / lasted as f64)
    }
}

/// Ticks that a process, with all its threads, spent in user mode.
fn user_ticks(stat: &str) -> Option<i64> {
    // The name of the program may hold spaces and brackets; fields count from behind it.
    stat.rsplit_once(')')?.1.split_whitespace().nth(11)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_in_user_mode_is_read_behind_any_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 55 66 7 8 20 0 9 0 1";
        assert_eq!((user_ticks(stat), user_ticks("7 (a) S 1"), user_ticks("")), (Some(55), None, None));
    }

    #[test]
    fn others_are_what_is_left_of_all_and_a_short_time_shows_nothing() {
        let of = |ms: i64, all: i64, own: i64| Accounts {
            at: Timestamp::from_nanos(1_000_000_000 + ms.cast_unsigned() * 1_000_000),
            all: Span::from_millis(all),
            own: Span::from_millis(own),
            tick: Span::from_millis(10),
        };
        let before = of(0, 0, 0);
        assert_eq!(of(100, 90, 0).others_since(&before), None);
        assert_eq!(of(1_000, 520, 100).others_since(&before), Some(0.4));
        assert_eq!(of(1_000, 100, 100).others_since(&before), Some(0.0));
    }

    #[test]
    fn frames_leave_alone_up_to_700_000_a_second() {
        assert_eq!([1, 700_000, 1_000_000, 2_000_000, 9_000_000].map(batch), [1, 1, 4, 8, 16]);
    }

    #[test]
    fn this_processes_own_accounts_are_readable() {
        let Some(now) = Accounts::read(&[u32::MAX]) else { return eprintln!("skipped: no /proc here") };
        assert!(now.all >= now.own);
        // As if it were the device as well: counted twice, and time only grows.
        let twice = Accounts::read(&[std::process::id()]).expect("it was readable");
        assert!(twice.own >= now.own * 2);
    }
}
