//! The counter's step: the estimate beside a histogram of the differences that it comes from.

use std::collections::BTreeMap;

use bench_figures::figure;
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
        figure("step of the counter", step * ns_per_tick, "ns"),
        estimates[0],
        estimates[BATCHES - 1]
    );
    if step < 4.0 {
        println!("  no lattice of 4 ticks or more: nothing to compare with the histogram");
        return;
    }
    match gap_between_clusters(&counts, all) {
        Some(gap) => {
            println!("  median gap between neighbouring clusters of differences: {gap:.3} ticks");
            target("estimate and histogram agree within 2 %", (step / gap - 1.0).abs() <= 0.02);
        }
        None => {
            println!("  not judged  estimate and histogram agree within 2 %: fewer than two clusters of differences")
        }
    }
    let spread = (estimates[BATCHES - 1] - estimates[0]) / step;
    target("all batches agree within 2 %", spread <= 0.02);
}

/// The median gap, in ticks, between the means of neighbouring clusters that hold at least 0.1 % of all differences;
/// `None` where there are fewer than two. A whole number of steps is rounded to ticks, so a cluster is 1 or 2 wide. One
/// step need not occur itself: two readings can be farther apart than that.
fn gap_between_clusters(counts: &BTreeMap<u64, u64>, all: u64) -> Option<f64> {
    let mut clusters: Vec<(u64, f64, f64)> = Vec::new();
    for (&ticks, &count) in counts {
        let (at, weight) = (ticks as f64, count as f64);
        match clusters.last_mut() {
            Some((last, sum, total)) if ticks - *last <= 2 => {
                *last = ticks;
                *sum += at * weight;
                *total += weight;
            }
            _ => clusters.push((ticks, at * weight, weight)),
        }
    }
    clusters.retain(|(_, _, total)| *total >= all as f64 / 1000.0);
    let mut gaps: Vec<f64> = clusters.windows(2).map(|two| two[1].1 / two[1].2 - two[0].1 / two[0].2).collect();
    gaps.sort_by(f64::total_cmp);
    gaps.get(gaps.len() / 2).copied()
}
