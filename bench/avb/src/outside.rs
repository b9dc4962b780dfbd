//! A method that is a program of its own: it asks for trains in lines of JSON on its output, and reads on its input
//! what came of them. docs/methods/avb-lab.md describes the lines, `bench/avb/example` is such a program.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::Deserialize;
use serde_json::json;
use vtare_methods::avb::{Estimate, Method, Observation, Setup, Spent, Step, Stopped, Train};
use vtare_units::{Monotonic, Timestamp};

/// In front of its words, where other methods have their name.
pub(crate) const PREFIX: &str = "program:";

/// It may send as many trains.
const MOST_TRAINS: u32 = 10_000;

/// A line of the program.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Line {
    Send(Train),
    WaitNs(u64),
    Answer { avb_bit_per_s: Option<f64>, interval_bit_per_s: Option<[f64; 2]>, window_s: Option<[f64; 2]> },
}

/// The program under way.
pub(crate) struct Outside {
    program: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    setup: Setup,
    spent: Spent,
}

impl Outside {
    /// Starts it and tells it what the sender can do.
    pub(crate) fn start(words: &str, setup: Setup) -> Result<Self, String> {
        let mut words = words.split_whitespace();
        let name = words.next().ok_or_else(|| format!("{PREFIX} names no program: add its words"))?;
        let mut start = Command::new(name);
        let start = start.args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = start.spawn().map_err(|error| format!("{name} cannot be started: {error}"))?;
        let (Some(input), Some(output)) = (program.stdin.take(), program.stdout.take()) else {
            return Err(format!("{name} has no input or output"));
        };
        let output = BufReader::new(output).lines();
        let mut made = Self { program, input, output, setup, spent: Spent::default() };
        let ability = &made.setup.ability;
        let most_s = made.setup.budget.most_ns.map(|ns| ns as f64 / 1e9);
        made.tell(&json!({
            "schema": "vtare.avb-bench/1",
            "seed": made.setup.seed,
            "most_s": most_s,
            "least_packet_byte": ability.least_packet_byte,
            "most_packet_byte": ability.most_packet_byte,
            "least_gap_ns": ability.least_gap_ns,
            "most_packets": ability.most_packets,
        }));
        Ok(made)
    }

    /// A program that is gone does not read: that shows when its next line is read.
    fn tell(&mut self, what: &serde_json::Value) {
        let _ = writeln!(self.input, "{what}").and_then(|()| self.input.flush());
    }

    fn gave_up(&self, why: String) -> Step {
        let notes = vec![why];
        Step::Done(Box::new(Estimate { notes, ..Estimate::none(&self.spent, Stopped::GaveUp) }))
    }

    /// What its next line asks for.
    fn asked(&mut self) -> Result<Step, String> {
        let text = match self.output.next() {
            Some(line) => line.map_err(|error| format!("its output cannot be read: {error}"))?,
            None => return Err("it ended without an answer".to_owned()),
        };
        let line: Line = serde_json::from_str(&text).map_err(|error| format!("it printed {text:?}: {error}"))?;
        Ok(match line {
            Line::Send(train) => {
                let ability = &self.setup.ability;
                let sizes = ability.least_packet_byte..=ability.most_packet_byte;
                if train.packets == 0 || train.packets > ability.most_packets || !sizes.contains(&train.size_byte) {
                    return Err(format!(
                        "it asked for {} packets of {} B: use 1 to {} packets of {} to {} B",
                        train.packets,
                        train.size_byte,
                        ability.most_packets,
                        sizes.start(),
                        sizes.end()
                    ));
                }
                Step::Send(train)
            }
            Line::WaitNs(ns) => Step::Wait(ns),
            Line::Answer { avb_bit_per_s, interval_bit_per_s, window_s } => Step::Done(Box::new(Estimate {
                avb_bit_per_s,
                interval_bit_per_s,
                window_s,
                ..Estimate::none(&self.spent, Stopped::Converged)
            })),
        })
    }
}

impl Method for Outside {
    fn name(&self) -> &'static str {
        "program"
    }

    fn step(&mut self, now: Timestamp<Monotonic>) -> Step {
        self.spent.at(now);
        let late = self.setup.budget.most_ns.is_some_and(|most| self.spent.elapsed_s() > most as f64 / 1e9);
        if late || self.spent.trains >= MOST_TRAINS {
            return self.gave_up(format!("it did not answer in time, or within {MOST_TRAINS} trains"));
        }
        self.asked().unwrap_or_else(|why| self.gave_up(why))
    }

    fn observe(&mut self, observation: &Observation) {
        self.spent.sent(observation);
        let packets = || observation.packets.iter();
        let sent = packets().map(|packet| packet.kernel_sent.or(packet.sent).map(Timestamp::as_nanos));
        let received = packets().map(|packet| packet.received.map(Timestamp::as_nanos));
        let (sent, received): (Vec<_>, Vec<_>) = (sent.collect(), received.collect());
        self.tell(&json!({"sent_ns": sent, "received_ns": received}));
    }

    fn interim(&self) -> Option<Estimate> {
        None
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}
