//! Faults of a path: `vtare link` between two network namespaces, and `rtt`, `avb` and `path` across it.

use std::process::Command;

use super::bench::Bench;
use super::finding::{Range, Trial};
use super::program::{Background, measured, number};
use crate::failure::Failure;

const HERE: Option<&str> = Some("near");
const THERE: Option<&str> = Some("far");
/// A directory that only this process and what it starts see.
const DIRECTORY: &str = "/run";
const DELAY_NS: f64 = 10e6;
const LOSS: f64 = 0.05;
const RATE_BIT_PER_S: f64 = 20e6;
const CROSS_BIT_PER_S: f64 = 8e6;
const BUFFER_BYTE: f64 = 60e3;

/// Two hosts (namespaces) that only `vtare link` joins, and a responder at the far one.
pub(super) struct Network {
    _responder: Background,
}

impl Network {
    /// Makes them, inside network and mount namespaces that end with this process.
    ///
    /// # Errors
    /// With the reason, where this user, machine or kernel cannot.
    pub(super) fn make() -> Result<Self, String> {
        run("mount -t tmpfs tmpfs /run")?;
        for (host, address, inside, outside) in
            [("near", "10.118.0.1/24", "eth0", "near0"), ("far", "10.118.0.2/24", "eth0", "far0")]
        {
            run(&format!("ip netns add {host}"))?;
            run(&format!("ip link add {outside} type veth peer name {inside} netns {host}"))?;
            run(&format!("ip -n {host} addr add {address} dev {inside}"))?;
            run(&format!("ip -n {host} link set lo up"))?;
            run(&format!("ip -n {host} link set {inside} up"))?;
            run(&format!("ip link set {outside} up"))?;
        }
        let own = crate::own_program::path().map_err(|failure| failure.to_string())?;
        run(&format!("{} serve --new-key {DIRECTORY}/key", own.display()))?;
        let line = format!("serve --listen 10.118.0.2:8462 --key-file {DIRECTORY}/key");
        Background::start(&line, THERE).map(|responder| Self { _responder: responder }).map_err(|it| it.to_string())
    }
}

fn run(line: &str) -> Result<(), String> {
    let mut words = line.split_whitespace();
    let program = words.next().unwrap_or_default();
    let output = Command::new(program).args(words).output().map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{line}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// The link with these options, or without any where the injection is left out.
fn link(bench: &Bench<'_>, faults: &str) -> Result<Background, Failure> {
    let faults = if bench.broken { "" } else { faults };
    Background::start(&format!("link near0 far0 --seed {} {faults}", bench.seed % (1 << 53)), None)
}

fn across(line: &str) -> Result<serde_json::Value, Failure> {
    measured(&format!("{line} 10.118.0.2 --key-file {DIRECTORY}/key"), HERE, 0)
}

/// Medians of the round trips of some runs.
fn round_trips(bench: &Bench<'_>) -> Result<Vec<f64>, Failure> {
    let count = if bench.quick { 100 } else { 300 };
    let one = |_| number(&across(&format!("rtt --rate 500 --count {count}"))?, "/cells/0/rtt_ns/median");
    (0..bench.repeats).map(one).collect()
}

/// `vtare rtt`: both directions are delayed.
pub(super) fn delay(bench: &Bench<'_>) -> Result<Option<Trial>, Failure> {
    let plain = link(bench, "")?;
    let without = round_trips(bench)?.into_iter().fold(0.0, f64::max);
    drop(plain);
    let delayed = link(bench, &format!("--delay {}ns", DELAY_NS / 2.0))?;
    let found = round_trips(bench)?;
    let report = delayed.end()?;
    let late = number(&report, "/directions/0/lateness_ns/p99")? + number(&report, "/directions/1/lateness_ns/p99")?;
    Ok(Trial::repeated(Range(DELAY_NS, DELAY_NS + without + late), without, &found))
}

/// `vtare rtt`: requests are lost.
pub(super) fn loss(bench: &Bench<'_>) -> Result<Option<Trial>, Failure> {
    let _lossy = link(bench, &format!("--ab-loss {}%", LOSS * 100.0))?;
    let count = if bench.quick { 1_000 } else { 4_000 };
    let document = across(&format!("rtt --rate 1000 --count {count} --timeout 500ms"))?;
    let cell = |name| number(&document, &format!("/cells/0/{name}"));
    Ok(Some(Trial::share(Range(LOSS, LOSS), 0.0, cell("lost")?, cell("sent")?)))
}

/// `vtare avb`: cross traffic leaves a part of a link's rate.
pub(super) fn bandwidth(bench: &Bench<'_>) -> Result<Option<Trial>, Failure> {
    let _narrow = Background::start(&format!("link near0 far0 --rate {RATE_BIT_PER_S}"), None)?;
    let _sink = Background::start("load net --sink 10.118.0.2:5001", THERE)?;
    let rate = if bench.broken { 1e5 } else { CROSS_BIT_PER_S };
    let cross = Background::start(&format!("load net --to 10.118.0.2:5001 --rate {rate}"), HERE)?;
    let document = across("avb --count 6")?;
    let sent = number(&cross.end()?, "/net/rate_bit_per_s")?;
    let sent = if bench.broken { CROSS_BIT_PER_S } else { sent };
    let interval = [0, 1].map(|end| number(&document, &format!("/cells/0/interval_bit_per_s/{end}")));
    let [low, high] = interval;
    Ok(Some(Trial {
        // Packets that could not leave in time were left out: asked and sent differ.
        injected: Range::between(RATE_BIT_PER_S - CROSS_BIT_PER_S, RATE_BIT_PER_S - sent),
        without: RATE_BIT_PER_S,
        found: number(&document, "/cells/0/avb_bit_per_s")?,
        interval: Range(low?, high?),
        not_injected: None,
    }))
}

/// `vtare path`: a short buffer in front of the link.
pub(super) fn buffer(bench: &Bench<'_>) -> Result<Option<Trial>, Failure> {
    let usual = "--buffer 240KB";
    let size = if bench.broken { usual.to_owned() } else { format!("--buffer {BUFFER_BYTE}B") };
    let _short = Background::start(&format!("link near0 far0 --rate {RATE_BIT_PER_S} {size}"), None)?;
    let document = across("path")?;
    let depth = |name: &str| number(&document, &format!("/cells/0/{name}"));
    Ok(Some(Trial {
        injected: Range(BUFFER_BYTE, BUFFER_BYTE),
        without: 240e3,
        found: depth("depth_byte")?,
        interval: Range(depth("depth_interval_byte/0")?, depth("depth_interval_byte/1")?),
        not_injected: None,
    }))
}
