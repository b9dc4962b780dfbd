//! The counter's step: the estimate beside a histogram of the differences that it comes from.

use std::collections::BTreeMap;

use vtare_clock::lattice::{spaced_readings, step_of};
use vtare_clock::source::System;

use crate::target;

/// Batches of readings that the histogram holds.
const BATCHES: usize = 200;

pub fn run(ns_per_tick: f64) {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    let mut estimates = Vec::with_capacity(BATCHES);
    for _ in 0..BATCHES {
        let readings = spaced_readings(&System);
        estimates.push(step_of(&readings));
        for pair in readings.windows(2) {
            *counts.entry(pair[1].since(pair[0]).unsigned_abs()).or_default() += 1;
        }
    }
    estimates.sort_by(f64::total_cmp);
    let step = estimates[BATCHES / 2];
    let all: u64 = counts.values().sum();
    println!("\nstep of the counter: differences of {all} readings with varying pauses, the most common");
    let mut common: Vec<(u64, u64)> = counts.iter().map(|(ticks, count)| (*ticks, *count)).collect();
    common.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    common.truncate(16);
    common.sort_unstable();
    for (ticks, count) in &common {
        let share = *count as f64 / all as f64;
        println!("  {ticks:>6} ticks {:>7.2} % {}", share * 100.0, "#".repeat((share * 60.0).round() as usize));
    }
    println!(
        "  estimate {step:.3} ticks = {:.3} ns (of {BATCHES} batches from {:.3} to {:.3} ticks)",
        step * ns_per_tick,
        estimates[0],
        estimates[BATCHES - 1]
    );
    if step < 4.0 {
        println!("  no lattice of 4 ticks or more: nothing to compare with the histogram");
        return;
    }
    // One step shows as a cluster of differences around it.
    let near = |ticks: u64| (ticks as f64 / step - 1.0).abs() < 0.25;
    let cluster: Vec<(f64, f64)> =
        counts.iter().filter(|(ticks, _)| near(**ticks)).map(|(ticks, count)| (*ticks as f64, *count as f64)).collect();
    let inside: f64 = cluster.iter().map(|(_, count)| count).sum();
    let mean = cluster.iter().map(|(ticks, count)| ticks * count).sum::<f64>() / inside;
    println!("  mean of the {inside:.0} differences of one step: {mean:.3} ticks");
    target("estimate and histogram agree within 2 %", inside > 0.0 && (step / mean - 1.0).abs() <= 0.02);
    let spread = (estimates[BATCHES - 1] - estimates[0]) / step;
    target("all batches agree within 2 %", spread <= 0.02);
}
