//! `vtare load net`: cross traffic with a measured rate, and the sink that counts it (docs/guide/load.md).

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::thread;

use clap::ValueEnum;
use serde_json::json;
use vtare_load::net::{Arrivals, NetBin, NetReport, SenderOptions, SinkOptions};
use vtare_load::{LoadError, Report};
use vtare_units::Span;

use crate::context::Context;
use crate::failure::Failure;
use crate::instrument::{check_cpu, fresh_seed};
use crate::output::to_json;
use crate::quantities::{bit_rate, nanoseconds, positive, show_bit_rate};
use crate::samples::{Column, Row as _, Samples, SamplesError, count};
use crate::sentences::load as words;

/// The columns of a net load's bins, as docs/internals/contract.md has them.
pub(crate) const COLUMNS: &[Column] = NetBin::COLUMNS;

columns!(bin: NetBin {
    int64 "bin_monotonic_ns" = count(bin.monotonic_ns), "start of the bin on CLOCK_MONOTONIC, a multiple of its length";
    int64 "ip_byte" = count(bin.ip_byte), "bytes of IP packets sent, or stamped by the sink's kernel, in it";
    int64 "packets" = count(bin.packets), "packets";
});

/// How packets follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ArrivalKind {
    /// Evenly spaced
    Constant,
    /// Exponential gaps
    Poisson,
    /// Bursts at the peak rate and silence, both for Pareto times
    Onoff,
}

/// Arguments of `vtare load net`.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Only for net; --to also for nbd")]
pub(crate) struct NetArguments {
    /// Send to this sink; nbd: write to and read from this server
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::peers::address, conflicts_with = "sink")]
    to: Option<SocketAddr>,

    /// Count what comes to this address: the sink
    #[arg(long, value_name = "ADDR:PORT", value_parser = crate::peers::address)]
    sink: Option<SocketAddr>,

    /// Mean rate, bit/s of IP packets: 300k, 150M, 2G
    #[arg(long, value_name = "RATE", value_parser = bit_rate)]
    rate: Option<u64>,

    /// UDP payload of each packet, bytes
    #[arg(long, value_name = "B", default_value = "1472", value_parser = clap::value_parser!(u16).range(1..=65_507))]
    size: u16,

    /// How packets follow each other
    #[arg(long, value_enum, default_value = "constant")]
    arrivals: ArrivalKind,

    /// Rate inside a burst of onoff [default: twice --rate]
    #[arg(long, value_name = "RATE", value_parser = bit_rate)]
    peak: Option<u64>,

    /// Mean length of a burst of onoff
    #[arg(long, value_name = "TIME", value_parser = nanoseconds, default_value = "10ms")]
    burst: u64,

    /// Shape of the Pareto times of onoff, above 1; below 2 there are bursts of all lengths
    #[arg(long, value_name = "N", value_parser = positive, default_value = "1.5")]
    shape: f64,

    /// How late a packet may leave without need; 1us spins before each, 50us leaves nearly all to the kernel and
    /// spares the CPU
    #[arg(long, value_name = "TIME", value_parser = nanoseconds, default_value = "1us")]
    tolerance: u64,

    /// Packets later than this are left out and counted, instead of being sent in a burst
    #[arg(long, value_name = "TIME", value_parser = nanoseconds, default_value = "1ms")]
    catch_up: u64,

    /// Never send packets that are due together as one large send, which queues on this host see as one
    #[arg(long)]
    no_gso: bool,

    /// Seed of the gaps, from 0 to 2^53-1 [default: drawn anew and reported]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..1 << 53))]
    seed: Option<u64>,

    /// CPU of the thread that sends or counts
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,

    /// Write bytes and packets of every --bin to this file, which is replaced: Parquet, or CSV where its name ends in
    /// .csv
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Length of a bin of --out
    #[arg(long, value_name = "TIME", value_parser = nanoseconds, default_value = "1ms")]
    bin: u64,
}

impl NetArguments {
    /// Refuses options that the other kinds do not have.
    ///
    /// # Errors
    /// Where one was given.
    pub(crate) fn refuse_for(&self, kind: &str) -> Result<(), Failure> {
        let given = [
            ("--to", self.to.is_some()),
            ("--sink", self.sink.is_some()),
            ("--rate", self.rate.is_some()),
            ("--peak", self.peak.is_some()),
            ("--seed", self.seed.is_some()),
            ("--cpu", self.cpu.is_some()),
            ("--out", self.out.is_some()),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((name, _)) => {
                Err(Failure::Input(format!("load {kind} has no {name}, which belongs to load net: leave it out")))
            }
            None => Ok(()),
        }
    }

    /// The server of the nbd load.
    ///
    /// # Errors
    /// Where an option was given that it does not have.
    pub(crate) fn server(&self) -> Result<Option<SocketAddr>, Failure> {
        Self { to: None, ..self.clone() }.refuse_for("nbd")?;
        Ok(self.to)
    }

    fn work(&self, limit: Option<Span>) -> Result<Work, Failure> {
        check_cpu(self.cpu)?;
        let least = 10_000;
        if self.bin < least {
            return Err(Failure::value("--bin", format_args!("{} ns", self.bin), format_args!("{least} ns or more")));
        }
        match (self.to, self.sink) {
            (Some(to), None) => {
                let rate = self
                    .rate
                    .ok_or_else(|| Failure::Input("load net --to needs a rate: use --rate 150M".to_owned()))?;
                let arrivals = match self.arrivals {
                    ArrivalKind::Constant => Arrivals::Constant,
                    ArrivalKind::Poisson => Arrivals::Poisson,
                    ArrivalKind::Onoff => Arrivals::Onoff {
                        peak_bit_per_s: self.peak.unwrap_or(rate.saturating_mul(2)),
                        burst_ns: self.burst,
                        shape: self.shape,
                    },
                };
                Ok(Work::Send(SenderOptions {
                    to,
                    rate_bit_per_s: rate,
                    size_byte: self.size,
                    arrivals,
                    seed: self.seed.unwrap_or_else(fresh_seed),
                    limit,
                    tolerance: Span::from_unsigned_nanos(self.tolerance),
                    catch_up: Span::from_unsigned_nanos(self.catch_up),
                    segments: !self.no_gso,
                    cpu: self.cpu,
                    bin: Span::from_unsigned_nanos(self.bin),
                }))
            }
            (None, Some(at)) => {
                Ok(Work::Count(SinkOptions { at, limit, cpu: self.cpu, bin: Span::from_unsigned_nanos(self.bin) }))
            }
            _ => Err(Failure::Input(
                "load net needs an address: use --to ADDR:PORT to send, or --sink ADDR:PORT to count".to_owned(),
            )),
        }
    }
}

enum Work {
    Send(SenderOptions),
    Count(SinkOptions),
}

/// Sends or counts in a thread of its own, while this one writes the bins: encoding would disturb the pace.
///
/// # Errors
/// For arguments that make no traffic, sockets that cannot be opened, and an output that cannot be written before the
/// load starts. What went wrong with the output later is given beside the report.
pub(crate) fn carry_out(
    arguments: &NetArguments,
    limit: Option<Span>,
    context: &Context,
) -> Result<(Report, Option<SamplesError>), Failure> {
    let work = arguments.work(limit)?;
    let clock = context.clock();
    let samples = match &arguments.out {
        Some(path) => Samples::create(path, COLUMNS)?,
        None => Samples::discard(),
    };
    let kept = samples.kept();
    let stop = context.stop_flag();
    let (sender, bins) = channel::<NetBin>();
    let (report, written) = thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let stop: &AtomicBool = &stop;
            let bins = sender;
            let ready = || message!("ready");
            let mut each = |bin| {
                if kept {
                    // The writer has ended: its error is reported at the end.
                    let _ = bins.send(bin);
                }
            };
            match &work {
                Work::Send(options) => vtare_load::net::send(clock, options, stop, ready, &mut each),
                Work::Count(options) => vtare_load::net::count(clock, options, stop, ready, &mut each),
            }
        });
        let written = write(bins, samples);
        (worker.join(), written)
    });
    let panicked = |_| Failure::Machine("the net load's thread panicked: please report this".to_owned());
    let report = report.map_err(panicked)?.map_err(failure)?;
    let footer = json!({
        "schema": "vtare.samples/1", "program": {"name": "vtare", "version": env!("CARGO_PKG_VERSION")},
        "load": to_json(&report), "bin_ns": arguments.bin, "clock": to_json(&clock.info()),
    });
    let lost = written.and_then(|samples| samples.finish(&footer)).err();
    Ok((report, lost))
}

fn write(bins: impl IntoIterator<Item = NetBin>, mut samples: Samples) -> Result<Samples, SamplesError> {
    for bin in bins {
        samples.row(&bin)?;
    }
    Ok(samples)
}

fn failure(error: LoadError) -> Failure {
    match error {
        LoadError::Traffic(_) | LoadError::Size { .. } => Failure::Input(error.to_string()),
        _ => Failure::Machine(error.to_string()),
    }
}

/// What people see of it.
pub(crate) fn in_words(net: &NetReport) -> String {
    let rate = net.rate_bit_per_s.map_or_else(words::no_rate, show_bit_rate);
    let mut parts = vec![match &net.sender {
        Some(sender) => words::sent(net.packets, net.address, rate, show_bit_rate(sender.asked_bit_per_s as f64)),
        None => words::arrived(net.packets, net.address, rate),
    }];
    let some = |count: u64| Some(count).filter(|count| *count > 0);
    if let Some(sender) = &net.sender {
        parts.extend(some(sender.skipped).map(words::skipped));
        parts.extend(some(sender.refused).map(words::refused));
        parts.extend(some(sender.unreachable).map(words::unreachable));
    }
    if let Some(sink) = &net.sink {
        parts.extend(some(sink.socket_drops.unwrap_or(0)).map(words::dropped));
        parts.extend(some(sink.unstamped).map(words::unstamped));
        parts.extend(sink.socket_drops.is_none().then(words::drops_unknown));
    }
    parts.join("; ") + "\n"
}
