use std::path::{Path, PathBuf};

use vtare_emulator::{Buffer, Jitter, JitterShape, LaneSpec, Layer, Phase};
use vtare_pathsim::{Detour, Duplication, LossModel};
use vtare_sys::named_file;

use crate::failure::Failure;
use crate::quantities::{
    bit_rate, bit_rate_or_none, bytes_with_unit, nanoseconds, nanoseconds_or_none, not, positive, share, without_mark,
};
use crate::run_file;

/// Arguments of `vtare link`.
#[derive(Debug, clap::Args)]
pub(crate) struct LinkArguments {
    /// Interface A
    pub(super) a: String,

    /// Interface B
    pub(super) b: String,

    /// Rate of the queue: 300k, 150M, 1G bit/s [default: none, frames are not queued]
    #[arg(long, value_name = "RATE", value_parser = bit_rate, conflicts_with = "rate_steps")]
    rate: Option<u64>,

    /// Rates and how long each lasts, over and over: 2G:10s,7G:10s,10G:10s, or a file with one to a line
    #[arg(long, value_name = "STEPS|FILE", value_parser = steps)]
    rate_steps: Option<Steps>,

    /// What the rate counts: bytes from the IP header on, or what the packet takes on an Ethernet wire (38 B more)
    #[arg(long, value_name = "ip|ethernet", value_parser = layer, default_value = "ip")]
    layer: Layer,

    /// What the queue holds: 1MB, 64KiB, or 200p for packets [default: 1000p]
    #[arg(long, value_name = "SIZE", value_parser = buffer)]
    buffer: Option<Buffer>,

    /// Mark ECN-capable packets (CE) that take longer than this to leave the queue: 5ms
    #[arg(long, value_name = "TIME", value_parser = nanoseconds_or_none)]
    mark: Option<u64>,

    /// Delay behind the queue: 20ms
    #[arg(long, value_name = "TIME", value_parser = nanoseconds_or_none)]
    delay: Option<u64>,

    /// Variation of the delay: 1ms, or 1ms:SHAPE with uniform (+-), normal (standard deviation), exponential or pareto
    /// (mean)
    #[arg(long, value_name = "TIME[:SHAPE]", value_parser = jitter)]
    jitter: Option<(u64, JitterShape)>,

    /// Let frames with a shorter delay overtake others, instead of waiting for them
    #[arg(long)]
    jitter_overtakes: bool,

    /// Share of frames that are lost before the queue: 1%
    #[arg(long, value_name = "SHARE", value_parser = share)]
    loss: Option<f64>,

    /// Mean length of loss bursts, packets (two states, after Gilbert); the share stays that of --loss
    #[arg(long, value_name = "N", value_parser = positive)]
    loss_burst: Option<f64>,

    /// Share of frames that come twice: 0.1%
    #[arg(long, value_name = "SHARE", value_parser = share)]
    duplicate: Option<f64>,

    /// Share of frames that take longer, and how much: 1%:5ms
    #[arg(long, value_name = "SHARE:TIME", value_parser = reorder)]
    reorder: Option<(f64, u64)>,

    /// Share of frames of which one bit is turned over: 0.01%
    #[arg(long, value_name = "SHARE", value_parser = share)]
    corrupt: Option<f64>,

    /// UDP datagrams from or to this port are probes, all else is cross traffic
    #[arg(long, value_name = "PORT", default_value_t = vtare_wire::DEFAULT_PORT)]
    pub(super) probe_port: u16,

    /// End after this many seconds [default: on SIGTERM or SIGINT]
    #[arg(long, value_name = "S", value_parser = positive)]
    pub(super) seconds: Option<f64>,

    /// Seed of all that is random, from 0 to 2^53-1 [default: drawn anew and reported]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(0..1 << 53))]
    pub(super) seed: Option<u64>,

    /// CPU of the thread that carries the frames
    #[arg(long, value_name = "N")]
    pub(super) cpu: Option<usize>,

    /// Frames that leave later than this after they were due count as late
    #[arg(long, value_name = "TIME", value_parser = nanoseconds, default_value = "50us")]
    pub(super) late: u64,

    /// Write the truth of every 10 ms to this file, which is replaced: Parquet, or CSV where its name ends in .csv
    #[arg(long, value_name = "FILE")]
    pub(super) log: Option<PathBuf>,

    /// Print one JSON document on stdout at the end
    #[arg(long)]
    pub(super) json: bool,

    #[command(flatten)]
    ab: FromAToB,

    #[command(flatten)]
    ba: FromBToA,
}

/// What one direction has of its own.
#[derive(Clone, Debug, Default)]
struct Own {
    rate: Option<u64>,
    rate_steps: Option<Steps>,
    buffer: Option<Buffer>,
    mark: Option<u64>,
    delay: Option<u64>,
    jitter: Option<(u64, JitterShape)>,
    loss: Option<f64>,
    loss_burst: Option<f64>,
    duplicate: Option<f64>,
    reorder: Option<(f64, u64)>,
    corrupt: Option<f64>,
}

/// The options of one direction; clap's names must be literals, hence a macro for the two.
macro_rules! direction {
    ($name:ident, $prefix:literal, $heading:literal) => {
        #[derive(Clone, Debug, Default, clap::Args)]
        #[command(next_help_heading = $heading)]
        struct $name {
            /// As --rate
            #[arg(
                id = concat!($prefix, "rate"), long = concat!($prefix, "rate"), value_name = "RATE",
                value_parser = bit_rate, conflicts_with = concat!($prefix, "rate-steps")
            )]
            rate: Option<u64>,
            /// As --rate-steps
            #[arg(
                id = concat!($prefix, "rate-steps"), long = concat!($prefix, "rate-steps"), value_name = "STEPS|FILE",
                value_parser = steps
            )]
            rate_steps: Option<Steps>,
            /// As --buffer
            #[arg(
                id = concat!($prefix, "buffer"), long = concat!($prefix, "buffer"), value_name = "SIZE",
                value_parser = buffer
            )]
            buffer: Option<Buffer>,
            /// As --mark
            #[arg(
                id = concat!($prefix, "mark"), long = concat!($prefix, "mark"), value_name = "TIME",
                value_parser = nanoseconds_or_none
            )]
            mark: Option<u64>,
            /// As --delay
            #[arg(
                id = concat!($prefix, "delay"), long = concat!($prefix, "delay"), value_name = "TIME",
                value_parser = nanoseconds_or_none
            )]
            delay: Option<u64>,
            /// As --jitter
            #[arg(
                id = concat!($prefix, "jitter"), long = concat!($prefix, "jitter"), value_name = "TIME[:SHAPE]",
                value_parser = jitter
            )]
            jitter: Option<(u64, JitterShape)>,
            /// As --loss
            #[arg(
                id = concat!($prefix, "loss"), long = concat!($prefix, "loss"), value_name = "SHARE",
                value_parser = share
            )]
            loss: Option<f64>,
            /// As --loss-burst
            #[arg(
                id = concat!($prefix, "loss-burst"), long = concat!($prefix, "loss-burst"), value_name = "N",
                value_parser = positive
            )]
            loss_burst: Option<f64>,
            /// As --duplicate
            #[arg(
                id = concat!($prefix, "duplicate"), long = concat!($prefix, "duplicate"), value_name = "SHARE",
                value_parser = share
            )]
            duplicate: Option<f64>,
            /// As --reorder
            #[arg(
                id = concat!($prefix, "reorder"), long = concat!($prefix, "reorder"), value_name = "SHARE:TIME",
                value_parser = reorder
            )]
            reorder: Option<(f64, u64)>,
            /// As --corrupt
            #[arg(
                id = concat!($prefix, "corrupt"), long = concat!($prefix, "corrupt"), value_name = "SHARE",
                value_parser = share
            )]
            corrupt: Option<f64>,
        }

        impl $name {
            fn own(&self) -> Own {
                let own = self.clone();
                Own {
                    rate: own.rate,
                    rate_steps: own.rate_steps,
                    buffer: own.buffer,
                    mark: own.mark,
                    delay: own.delay,
                    jitter: own.jitter,
                    loss: own.loss,
                    loss_burst: own.loss_burst,
                    duplicate: own.duplicate,
                    reorder: own.reorder,
                    corrupt: own.corrupt,
                }
            }
        }
    };
}

direction!(FromAToB, "ab-", "From A to B only, in place of the option for both");
direction!(FromBToA, "ba-", "From B to A only, in place of the option for both");

impl LinkArguments {
    /// What is done from A to B, and from B to A.
    ///
    /// # Errors
    /// For bursts without loss, or shorter than the loss allows.
    pub(super) fn lanes(&self) -> Result<[LaneSpec; 2], Failure> {
        Ok([self.lane(&self.ab.own())?, self.lane(&self.ba.own())?])
    }

    fn lane(&self, own: &Own) -> Result<LaneSpec, Failure> {
        // A rate of its own takes the place of steps for both, and the other way about.
        let rate = match (own.rate, &own.rate_steps) {
            (None, None) => phases(self.rate, self.rate_steps.as_ref()),
            (rate, steps) => phases(rate, steps.as_ref()),
        };
        let (size_ns, shape) = own.jitter.or(self.jitter).unwrap_or_default();
        let (reordered, extra_ns) = own.reorder.or(self.reorder).unwrap_or_default();
        let loss = own.loss.or(self.loss).unwrap_or_default();
        Ok(LaneSpec {
            rate,
            layer: self.layer,
            buffer: own.buffer.or(self.buffer).unwrap_or_default(),
            mark_ns: own.mark.or(self.mark),
            delay_ns: own.delay.or(self.delay).unwrap_or_default(),
            jitter: Jitter { size_ns, shape, overtakes: self.jitter_overtakes },
            loss: loss_model(loss, own.loss_burst.or(self.loss_burst))?,
            duplication: Duplication { probability: own.duplicate.or(self.duplicate).unwrap_or_default(), after_ns: 0 },
            reorder: Detour { probability: reordered, extra_ns },
            corruption: own.corrupt.or(self.corrupt).unwrap_or_default(),
        })
    }
}

fn phases(rate: Option<u64>, steps: Option<&Steps>) -> Vec<Phase> {
    match (rate, steps) {
        (_, Some(steps)) => steps.0.clone(),
        (Some(rate), None) => LaneSpec::steady(rate),
        (None, None) => Vec::new(),
    }
}

/// A chain whose share of lost packets is `loss`, with losses in runs of `burst` on average.
fn loss_model(loss: f64, burst: Option<f64>) -> Result<LossModel, Failure> {
    let Some(burst) = burst.filter(|_| loss > 0.0) else {
        return Ok(if loss > 0.0 { LossModel::Random { probability: loss } } else { LossModel::None });
    };
    // In the long run enter / (enter + leave) of the packets are lost, in runs of 1 / leave.
    let leave = 1.0 / burst;
    // Beyond 1, and for a loss of 100 % infinite, where the bursts are too short for their share.
    let enter = leave * loss / (1.0 - loss);
    if burst < 1.0 || enter > 1.0 {
        let least = (loss / (1.0 - loss)).max(1.0);
        let instead = format_args!("{least} or more at {} % loss", loss * 100.0);
        return Err(Failure::value("--loss-burst", burst, instead));
    }
    Ok(LossModel::Bursty { enter, leave, lost_inside: 1.0 })
}

/// A list of rates.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Steps(Vec<Phase>);

fn steps(text: &str) -> Result<Steps, String> {
    if text.contains(':') {
        return steps_of(text.split(','));
    }
    let content = named_file::text(Path::new(text), run_file::LARGEST_BYTE).map_err(|error| {
        format!(
            "'{text}' is neither steps, such as 2G:10s,7G:10s, nor a file with one to a line: cannot read that file: \
             {error}"
        )
    })?;
    steps_of(without_mark(&content).lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')))
}

fn steps_of<'t>(parts: impl Iterator<Item = &'t str>) -> Result<Steps, String> {
    let phases = parts.map(|part| {
        let wanted = || not(part, "RATE:TIME, such as 2G:10s");
        let (rate, time) = part.trim().split_once(':').ok_or_else(wanted)?;
        Ok(Phase { rate_bit_per_s: bit_rate_or_none(rate)?, lasts_ns: nanoseconds(time)? })
    });
    let phases: Vec<Phase> = phases.collect::<Result<_, String>>()?;
    if phases.is_empty() {
        Err("there is no step: use at least one, such as 2G:10s".to_owned())
    } else {
        Ok(Steps(phases))
    }
}

fn layer(text: &str) -> Result<Layer, String> {
    match text {
        "ip" => Ok(Layer::Ip),
        "ethernet" => Ok(Layer::Ethernet),
        _ => Err(not(text, "ip or ethernet")),
    }
}

fn buffer(text: &str) -> Result<Buffer, String> {
    let packets = text.strip_suffix('p').or_else(|| text.strip_suffix("packets"));
    let packets = packets.and_then(|number| number.trim().parse().ok()).filter(|packets| *packets > 0);
    packets
        .map(Buffer::Packet)
        .or_else(|| bytes_with_unit(text).map(Buffer::Byte))
        .ok_or_else(|| not(text, "bytes, such as 1MB or 64KiB, or packets, such as 200p"))
}

fn jitter(text: &str) -> Result<(u64, JitterShape), String> {
    let (time, shape) = text.split_once(':').unwrap_or((text, "uniform"));
    let shape = match shape {
        "uniform" => JitterShape::Uniform,
        "normal" => JitterShape::Normal,
        "exponential" => JitterShape::Exponential,
        "pareto" => JitterShape::Pareto,
        _ => return Err(not(shape, "uniform, normal, exponential or pareto")),
    };
    Ok((nanoseconds_or_none(time)?, shape))
}

fn reorder(text: &str) -> Result<(f64, u64), String> {
    let (part, time) = text.split_once(':').ok_or_else(|| not(text, "SHARE:TIME, such as 1%:5ms"))?;
    Ok((share(part)?, nanoseconds(time)?))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        link: LinkArguments,
    }

    fn lanes(line: &str) -> [LaneSpec; 2] {
        let words = ["link", "va", "vb"].into_iter().chain(line.split_whitespace());
        Line::try_parse_from(words).expect("a right line").link.lanes().expect("a right link")
    }

    #[test]
    fn options_hold_for_both_directions_and_those_of_one_take_their_place() {
        let [ab, ba] =
            lanes("--rate 1G --delay 20ms --loss 1% --ab-delay 5ms --ba-rate-steps 2G:10s,0:1s --ba-loss 0%");
        assert_eq!((ab.delay_ns, ba.delay_ns), (5_000_000, 20_000_000));
        assert_eq!(ab.rate, LaneSpec::steady(1_000_000_000));
        let second = Phase { rate_bit_per_s: 0, lasts_ns: 1_000_000_000 };
        assert_eq!(ba.rate, [Phase { rate_bit_per_s: 2_000_000_000, lasts_ns: 10_000_000_000 }, second]);
        assert_eq!((ab.loss, ba.loss), (LossModel::Random { probability: 0.01 }, LossModel::None));
    }

    #[test]
    fn nothing_asked_for_is_a_wire() {
        assert_eq!(lanes(""), [LaneSpec::default(), LaneSpec::default()]);
    }

    #[test]
    fn bursts_keep_the_share_of_loss() {
        let [ab, _] = lanes("--loss 2% --loss-burst 4");
        let LossModel::Bursty { enter, leave, lost_inside } = ab.loss else { panic!("{:?}", ab.loss) };
        assert!((enter / (enter + leave) * lost_inside - 0.02).abs() < 1e-12 && (leave - 0.25).abs() < 1e-12);
        let short = loss_model(0.5, Some(0.5)).expect_err("shorter than one packet");
        assert!(short.to_string().contains("use 1 or more"), "{short}");
        assert!(loss_model(0.9, Some(2.0)).is_err(), "runs of 2 cannot make 90 %");
        assert!(loss_model(1.0, Some(2.0)).is_err());
    }

    #[test]
    fn wrong_values_state_what_is_wanted() {
        assert!(buffer("1000").is_err() && buffer("0p").is_err());
        assert_eq!((buffer("200p"), buffer("1MB")), (Ok(Buffer::Packet(200)), Ok(Buffer::Byte(1_000_000))));
        assert!(jitter("1ms:odd").expect_err("no shape").contains("pareto"));
        assert!(reorder("1%").expect_err("no time").contains("1%:5ms"));
        assert!(steps("/nonexistent/steps").expect_err("no file").contains("cannot read"));
        assert!(steps("2G").is_err() && steps("2G:").is_err() && steps(":1s").is_err());
    }
}
