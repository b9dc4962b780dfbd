//! `vtare serve` under attack: what a running session loses, and how much memory and how many descriptors the responder
//! takes.

mod attack;
mod daemon;
mod session;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use bench_figures::figure;
use vtare_sys::clocks;
use vtare_units::{Monotonic, Span};

use crate::daemon::Daemon;

/// Memory that the responder may grow by.
const MOST_GROWTH_KB: u64 = 64 << 10;

fn main() -> ExitCode {
    let outcome = Options::from_arguments(std::env::args().skip(1)).and_then(|options| run(&options));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("bench-serve: {message}");
            ExitCode::from(2)
        }
    }
}

struct Options {
    seconds: i64,
    datagrams: u64,
    connections: usize,
    vtare: String,
}

impl Options {
    fn from_arguments(arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self { seconds: 20, datagrams: 1_000_000, connections: 10_000, vtare: "vtare".to_owned() };
        let mut arguments = arguments;
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or_else(|| format!("{name}: no value"))?;
            let number = |least: i64| {
                let wanted = || format!("{name} is {value}: use a whole number from {least}");
                value.parse::<i64>().ok().filter(|number| *number >= least).ok_or_else(wanted)
            };
            match name.as_str() {
                "--seconds" => options.seconds = number(4)?,
                "--datagrams" => options.datagrams = number(0)?.unsigned_abs(),
                "--connections" => options.connections = number(0)?.unsigned_abs() as usize,
                "--vtare" => options.vtare.clone_from(&value),
                _ => return Err(format!("{name}: expected --seconds, --datagrams, --connections or --vtare")),
            }
        }
        Ok(options)
    }
}

fn run(options: &Options) -> Result<(), String> {
    let daemon = Daemon::start(&options.vtare)?;
    let before = daemon.memory()?;
    println!("vtare serve at {}, confined to {} descriptors", daemon.address, daemon.descriptor_limit);

    let stop = AtomicBool::new(false);
    let (session, attack, most_descriptors) = std::thread::scope(|scope| {
        let probing = scope.spawn(|| session::run(&daemon, Span::from_secs(options.seconds)));
        // The session has a second of peace before and after, so that losses under attack stand beside none.
        let attacking = scope.spawn(|| {
            pause(Span::from_secs(1))?;
            attack::run(&daemon, options.datagrams, options.connections)
        });
        let watching = scope.spawn(|| daemon.watch_descriptors(&stop));
        let attack = attacking.join();
        let session = probing.join();
        stop.store(true, Ordering::Relaxed);
        (session, attack, watching.join())
    });
    let broken = |_| "a thread panicked".to_owned();
    let (session, attack, most_descriptors) =
        (session.map_err(broken)??, attack.map_err(broken)??, most_descriptors.map_err(broken)?);
    let after = daemon.memory()?;
    let descriptor_limit = daemon.descriptor_limit;
    let log = daemon.end()?;

    println!("attack: {attack}");
    println!("session: {session}");
    let growth = after.peak_kb.saturating_sub(before.now_kb);
    println!(
        "responder: VmRSS {} kB before, {} kB after, peak {} kB (grew by {growth} kB at most); {most_descriptors} \
         descriptors at most; {} log lines",
        before.now_kb,
        after.now_kb,
        after.peak_kb,
        log.lines().count()
    );
    println!("responder's last line: {}", log.lines().last().unwrap_or("none"));

    figure("memory grew by", growth as f64, "kB");
    figure("descriptors", most_descriptors as f64, "");
    // What the kernel dropped at a full buffer never reached the program; nothing else may be missing.
    let dropped = daemon::dropped_by_kernel(&log);
    verdict("the session lost nothing in the responder", session.unexplained(dropped) == 0);
    verdict("the session lost nothing at all", session.lost() == 0);
    verdict("memory grew by less than 64 MB", growth < MOST_GROWTH_KB);
    verdict("descriptors stayed within the bound", most_descriptors <= descriptor_limit);
    Ok(())
}

/// Lets time pass.
fn pause(span: Span) -> Result<(), String> {
    let until = clocks::now::<Monotonic>() + span;
    clocks::sleep_until(until).map(drop).map_err(|error| error.to_string())
}

fn verdict(claim: &str, met: bool) {
    bench_figures::goal(claim, met);
    println!("{} {claim}", if met { "met   " } else { "MISSED" });
}
