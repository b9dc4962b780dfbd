//! One method, one length, one load.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use vtare_clock::Clock;
use vtare_clock::sleep::{Method, SleepOptions, Sleeper};
use vtare_sys::clocks;
use vtare_units::{Span, ThreadCpu};

use crate::condition::Condition;

/// A way to sleep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Contender {
    Vtare(Method),
    /// Adaptive at another price.
    Priced(Span),
    Fifo,
    /// The kernel alone, on a thread set up as the adaptive method sets up its own.
    Kernel,
    SpinSleep,
}

impl Contender {
    pub fn all(condition: Condition) -> Vec<Self> {
        let mut all: Vec<Self> = Method::ALL.map(Self::Vtare).to_vec();
        all.extend([Self::Fifo, Self::Kernel, Self::SpinSleep]);
        if condition == Condition::Idle {
            all.extend([100, 500, 10_000, 50_000, 1_000_000].map(|micros| Self::Priced(Span::from_micros(micros))));
        }
        all
    }

    pub fn name(self) -> String {
        match self {
            Self::Vtare(method) => method.to_string(),
            Self::Priced(lambda) => format!("adaptive, {lambda}"),
            Self::Fifo => "adaptive, FIFO".to_owned(),
            Self::Kernel => "kernel, slice 100 us".to_owned(),
            Self::SpinSleep => "spin_sleep (crate)".to_owned(),
        }
    }

    fn options(self) -> (Method, SleepOptions) {
        match self {
            Self::Vtare(method) => (method, SleepOptions::default()),
            Self::Priced(lambda) => (Method::Adaptive, SleepOptions { lambda, ..SleepOptions::default() }),
            Self::Fifo => (Method::Adaptive, SleepOptions { fifo: Some(50), ..SleepOptions::default() }),
            // At the least price of CPU time it never spins.
            Self::Kernel => (Method::Adaptive, SleepOptions { lambda: Span::from_nanos(1), ..SleepOptions::default() }),
            Self::SpinSleep => (Method::Usleep, SleepOptions::default()),
        }
    }
}

pub struct Cell {
    pub contender: Contender,
    pub condition: Condition,
    pub target: Span,
    misses: Vec<i64>,
    /// Sleeps that were to be made; those that lateness left no time for were not.
    asked: u64,
    cpu: Span,
    slept: Span,
    refused: bool,
}

impl Cell {
    /// Of all sleeps asked for, the share that ended more than `limit` late, or for which no time was left.
    pub fn late(&self, limit: Span) -> Option<f64> {
        let in_time = self.misses.iter().filter(|miss| **miss <= limit.as_nanos()).count() as u64;
        (self.asked > 0).then(|| (self.asked - in_time) as f64 / self.asked as f64)
    }

    pub fn quantile(&self, share: f64) -> Option<f64> {
        // A tail needs enough sleeps beyond it (shared rule: n of 299 for p99, 2995 for p99.9).
        let enough = if share > 0.99 {
            2_995
        } else if share > 0.9 {
            299
        } else {
            1
        };
        if self.misses.len() < enough {
            return None;
        }
        let position = share * (self.misses.len() - 1) as f64;
        let below = *self.misses.get(position.floor() as usize)? as f64;
        let above = *self.misses.get(position.ceil() as usize)? as f64;
        Some(below + (above - below) * position.fract())
    }

    /// CPU time for one second of sleeping as asked.
    pub fn cpu_share(&self) -> Option<f64> {
        (self.slept > Span::ZERO).then(|| self.cpu.as_secs_f64() / self.slept.as_secs_f64())
    }

    pub fn refused(&self) -> bool {
        self.refused
    }

    pub fn print(&self) {
        let time =
            |value: Option<f64>| value.map_or_else(|| "n/a".to_owned(), |ns| Span::from_nanos(ns as i64).to_string());
        let half_iqr = self.quantile(0.75).zip(self.quantile(0.25)).map(|(high, low)| (high - low) / 2.0);
        let share =
            |value: Option<f64>| value.map_or_else(|| "n/a".to_owned(), |share| format!("{:.2} %", share * 100.0));
        let cpu = share(self.cpu_share());
        for (key, value, unit) in [
            ("median", self.quantile(0.5), "ns"),
            ("half IQR", half_iqr, "ns"),
            ("p99", self.quantile(0.99), "ns"),
            ("later than 100 us", self.late(Span::from_micros(100)), ""),
            ("CPU", self.cpu_share(), ""),
        ] {
            let name = format!("{:?}, {}/{}/{key}", self.condition, self.target, self.contender.name());
            bench_figures::figure(name, value.unwrap_or(f64::NAN), unit);
        }
        println!(
            "  {:22} {:>8} {:>11} {:>11} {:>11} {:>11} {:>11} {:>8} {:>8} {:>11}{}",
            self.contender.name(),
            self.target.to_string(),
            format!("{}/{}", self.misses.len(), self.asked),
            time(self.quantile(0.5)),
            time(half_iqr),
            time(self.quantile(0.99)),
            time(self.quantile(0.999)),
            share(self.late(Span::from_micros(1))),
            share(self.late(Span::from_micros(100))),
            cpu,
            if self.refused { "  (FIFO not allowed here)" } else { "" }
        );
    }
}

struct Turn {
    sleeps: u64,
    limit: Span,
}

struct Reading {
    misses: Vec<i64>,
    cpu: Span,
    slept: Span,
    refused: bool,
}

/// Each contender sleeps on a thread of its own; they take turns in rounds of random order.
pub fn measure(
    clock: &Arc<Clock>,
    contenders: &[Contender],
    condition: Condition,
    target: Span,
    seconds: Span,
) -> Vec<Cell> {
    const ROUNDS: i64 = 8;
    let mut workers: Vec<(Sender<Turn>, Receiver<Reading>)> = Vec::new();
    for contender in contenders {
        let (send_turn, turns) = channel();
        let (send_reading, readings) = channel();
        let (clock, contender) = (Arc::clone(clock), *contender);
        thread::spawn(move || work(&clock, contender, target, &turns, &send_reading));
        workers.push((send_turn, readings));
    }
    let mut cells: Vec<Cell> = contenders
        .iter()
        .map(|contender| Cell {
            contender: *contender,
            condition,
            target,
            misses: Vec::new(),
            asked: 0,
            cpu: Span::ZERO,
            slept: Span::ZERO,
            refused: false,
        })
        .collect();
    let mut random = SmallRng::seed_from_u64(1);
    let mut order: Vec<usize> = (0..contenders.len()).collect();
    let limit = seconds / ROUNDS;
    let sleeps = (limit.as_nanos() / target.as_nanos()).clamp(1, 4_000).cast_unsigned();
    for _ in 0..ROUNDS {
        order.shuffle(&mut random);
        for at in &order {
            let (turns, readings) = &workers[*at];
            let reading = turns.send(Turn { sleeps, limit }).ok().and_then(|()| readings.recv().ok());
            let Some(reading) = reading else { continue };
            let cell = &mut cells[*at];
            cell.asked += sleeps;
            cell.misses.extend(reading.misses);
            cell.cpu += reading.cpu;
            cell.slept += reading.slept;
            cell.refused |= reading.refused;
        }
    }
    for cell in &mut cells {
        cell.misses.sort_unstable();
    }
    cells
}

fn work(clock: &Clock, contender: Contender, target: Span, turns: &Receiver<Turn>, readings: &Sender<Reading>) {
    let (method, options) = contender.options();
    let mut sleeper = Sleeper::new(clock, method, options);
    let peer = spin_sleep::SpinSleeper::default();
    let duration = Duration::from_nanos(target.as_nanos_unsigned());
    while let Ok(turn) = turns.recv() {
        let mut misses = Vec::with_capacity(turn.sleeps as usize);
        let begun = clock.now();
        let cpu = clocks::now::<ThreadCpu>();
        for _ in 0..turn.sleeps {
            let from = clock.now();
            if from - begun > turn.limit {
                break;
            }
            let deadline = from + target;
            if contender == Contender::SpinSleep {
                peer.sleep(duration);
            } else if let Err(error) = sleeper.sleep_until(deadline) {
                println!("  {}: {error}", contender.name());
                return;
            }
            // The same reading after the call for all of them.
            misses.push((clock.now_ordered() - deadline).as_nanos());
        }
        let cpu = clocks::now::<ThreadCpu>() - cpu;
        let slept = target * misses.len() as i64;
        let reading = Reading { misses, cpu, slept, refused: sleeper.refused().fifo };
        if readings.send(reading).is_err() {
            return;
        }
    }
}
