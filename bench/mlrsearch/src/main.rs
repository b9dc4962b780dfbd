//! Carries out what `run` asks for, a JSON document a line: searches, whose trials it asks back, and classifications.

use std::io::{BufRead, Lines, StdinLock, Write, stdin, stdout};

use serde::{Deserialize, Serialize};
use vtare_methods::throughput::{
    Class, Found, Goal, Measured, MlrSettings, Mlrsearch, Range, Search, Seen, Step, classify, conditional_throughput,
};

/// What is asked for.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Task {
    /// Find the throughput of a device that answers trials.
    Search { range: Range, settings: MlrSettings },
    /// State what the trials at a load show: pairs of duration, ns, and share of frames lost.
    Classify { packet_per_s: u64, goal: Goal, trials: Vec<(u64, f64)> },
}

/// What a trial came to, in frames.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Counted {
    sent: u64,
    received: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Reply {
    Trial { packet_per_s: u64, duration_ns: u64 },
    Answer { goals: Vec<Found>, trials: u64, trial_s: f64 },
    Class { class: Class, throughput_packet_per_s: f64 },
}

type Failure = Box<dyn std::error::Error>;

fn reply(with: &Reply) -> Result<(), Failure> {
    let mut out = stdout().lock();
    writeln!(out, "{}", serde_json::to_string(with)?)?;
    Ok(out.flush()?)
}

fn search(range: Range, settings: MlrSettings, lines: &mut Lines<StdinLock<'_>>) -> Result<(), Failure> {
    let mut search = Mlrsearch::new(settings, range)?;
    loop {
        match search.step() {
            Step::Trial(trial) => {
                reply(&Reply::Trial { packet_per_s: trial.packet_per_s, duration_ns: trial.duration_ns })?;
                let line = lines.next().ok_or("the device is gone")??;
                let Counted { sent, received } = serde_json::from_str(&line)?;
                search.observe(&Seen { sent, received, void: None });
            }
            Step::Done(answer) => {
                let (goals, trials, trial_s) = (answer.goals, answer.trials, answer.trial_s);
                return reply(&Reply::Answer { goals, trials, trial_s });
            }
        }
    }
}

fn main() -> Result<(), Failure> {
    let mut lines = stdin().lock().lines();
    while let Some(line) = lines.next() {
        match serde_json::from_str(&line?)? {
            Task::Search { range, settings } => search(range, settings, &mut lines)?,
            Task::Classify { packet_per_s, goal, trials } => {
                let of = |&(duration_ns, loss_ratio): &(u64, f64)| Measured { duration_ns, loss_ratio };
                let trials: Vec<Measured> = trials.iter().map(of).collect();
                let class = classify(&trials, &goal);
                let throughput_packet_per_s = conditional_throughput(packet_per_s, &trials, &goal);
                reply(&Reply::Class { class, throughput_packet_per_s })?;
            }
        }
    }
    Ok(())
}
