//! The parameters of `vtare rtt`, and their checks.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vtare_link::rate::RatePolicy;
use vtare_probe::schedule::{Pattern, Schedule};
use vtare_sys::named_file;
use vtare_units::{Pace, PacketRate, Span};
use vtare_wire::stamp::tlv::Request;
use vtare_wire::stamp::{self, StampKey};
use vtare_wire::{LARGEST_BYTE, full, short};

use super::codec::Codec;
use super::stamp::Extension;
use crate::failure::Failure;
use crate::instrument;
use crate::parameters;
use crate::quantities::{nanoseconds, nanoseconds_or_none, positive, without_mark};
use crate::run_file;

/// Packets of one run at most.
const MOST_PACKETS: u64 = 3_600_000_000;

/// Arguments of `vtare rtt`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "The far end is `vtare serve`, unless --icmp or --stamp is given.\n\
    Replies are never waited for, except with --flood: docs/methods/rtt.md explains what follows from that.")]
pub(crate) struct RttArguments {
    #[command(flatten)]
    pub(super) run: parameters::Arguments<Parameters>,

    /// Read more peers from this file, one a line; what follows a # is a remark
    #[arg(long, value_name = "FILE")]
    peers: Option<PathBuf>,

    /// Show losses, percentiles and the distribution as they come, on a terminal
    #[arg(long, conflicts_with = "json")]
    pub(crate) live: bool,

    /// ICMP echo requests: any host answers, nothing need run there
    #[arg(long, conflicts_with = "stamp")]
    icmp: bool,

    /// STAMP (RFC 8762), to any reflector on UDP port 862; authenticated with --key-file
    #[arg(long)]
    stamp: bool,
}

/// What carries the probes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// UDP in vtare's own form, answered by `vtare serve`.
    #[default]
    Udp,
    /// ICMP echo requests, answered by any host.
    Icmp,
    /// STAMP (RFC 8762) over UDP, authenticated where there is a key file.
    Stamp,
}

/// What sends the probes and takes the replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Engine {
    /// By rate, and by what the kernel and the way to the peer offer.
    #[default]
    Auto,
    /// UDP or ICMP sockets.
    Socket,
    /// Frames of this program's own over an AF_XDP socket.
    #[value(name = "af_xdp")]
    AfXdp,
    /// Programs in the kernel.
    Xdp,
}

/// What holds packets until they are due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Pacing {
    /// The kernel's queue where this program would sleep and the queue keeps launch times, else this program.
    #[default]
    Auto,
    /// This program: spinning, or asleep with `blocking`.
    Program,
    /// The queue discipline of the interface, by launch times (SO_TXTIME).
    Txtime,
}

/// Parameters of `rtt` in run.json.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Parameters {
    /// The far ends, as 10.0.0.2, host.example:8462 or `[fd00::2]:8462`; several share the time evenly.
    #[arg(value_name = "PEER", required_unless_present = "peers")]
    #[schemars(length(min = 1, max = 1_000))]
    pub(crate) peer: Vec<String>,

    /// What carries the probes.
    #[arg(skip)]
    pub(crate) mode: Mode,

    /// Packets a second to each peer, up to 1000000.
    #[arg(long = "rate", value_name = "N", conflicts_with = "gap_ns")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) rate_packet_per_s: u64,

    /// Time from one packet to the next, instead of the rate.
    #[arg(long = "gap", value_name = "TIME", value_parser = nanoseconds)]
    #[schemars(range(min = 1_000, max = 1_000_000_000_000_u64))]
    pub(crate) gap_ns: Option<u64>,

    /// Send the next packet when the reply to the last one has come, as ping -f does; rate and gap are not used then.
    #[arg(long, conflicts_with_all = ["rate_packet_per_s", "gap_ns", "poisson"])]
    pub(crate) flood: bool,

    /// Exponential gaps instead of even ones.
    #[arg(long)]
    pub(crate) poisson: bool,

    /// Bytes of payload behind the UDP or ICMP header.
    #[arg(long = "size", value_name = "BYTES")]
    #[schemars(range(min = 18, max = 9_000))]
    pub(crate) size_byte: u16,

    /// Packets to each peer; without it, as many as the time allows.
    #[arg(long = "count", value_name = "N")]
    #[schemars(range(min = 1, max = 3_600_000_000_u64))]
    pub(crate) packets: Option<u64>,

    /// Seconds; null, or --count alone, for no limit.
    #[arg(long, value_name = "S", value_parser = positive)]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub(crate) seconds: Option<f64>,

    /// A reply later than this is lost; without it, 2 s, or 0.5 s above 50000 packets a second.
    #[arg(long = "timeout", value_name = "TIME", value_parser = nanoseconds)]
    #[schemars(range(min = 1_000, max = 60_000_000_000_u64))]
    pub(crate) timeout_ns: Option<u64>,

    /// File with the key that the far end has, too; without it, the environment's VTARE_KEY (not with --stamp), or
    /// none.
    #[arg(long, value_name = "FILE")]
    #[schemars(with = "Option<String>")]
    pub(crate) key_file: Option<PathBuf>,

    /// Extensions of RFC 8972 that a STAMP reflector is asked for: location, timestamps, class, direct, follow_up;
    /// without it, none.
    #[arg(long, value_name = "LIST", value_enum, value_delimiter = ',', hide_possible_values = true)]
    pub(crate) stamp_tlv: Option<Vec<Extension>>,

    /// Send packets with this class of service (DSCP, 0 to 63); without it, what the system gives.
    #[arg(long, value_name = "N")]
    #[schemars(range(max = 63))]
    pub(crate) dscp: Option<u8>,

    /// Run on this CPU only; without it, the scheduler chooses.
    #[arg(long, value_name = "CPU")]
    pub(crate) cpu: Option<usize>,

    /// Run before all ordinary threads, at this real-time priority (SCHED_FIFO, 1 to 99); without it, the ordinary
    /// class.
    #[arg(long, value_name = "PRIORITY")]
    #[schemars(range(min = 1, max = 99))]
    pub(crate) fifo: Option<u8>,

    /// Keep all CPUs out of sleep states that take longer than this to leave (0 forbids all); without it,
    /// /dev/cpu_dma_latency is left alone.
    #[arg(long = "dma-latency", value_name = "TIME", value_parser = nanoseconds_or_none)]
    pub(crate) dma_latency_ns: Option<u64>,

    /// Let the kernel poll the network card for this time when the socket is read (SO_BUSY_POLL); without it, what the
    /// system has.
    #[arg(long = "busy-poll", value_name = "TIME", value_parser = nanoseconds)]
    pub(crate) busy_poll_ns: Option<u64>,

    /// Sleep until a packet is due or arrives, as ordinary programs do, instead of spinning.
    #[arg(long)]
    pub(crate) blocking: bool,

    /// Ask the network card for its own stamps.
    #[arg(long)]
    pub(crate) hardware_stamps: bool,

    /// Stamp the departure of every Nth packet in the kernel, 0 of none; without it, 1, or 64 above 20000 packets a
    /// second.
    #[arg(long, value_name = "N")]
    pub(crate) tx_stamp_every: Option<u32>,

    /// What sends: UDP sockets, AF_XDP sockets, or programs in the kernel (both need root, IPv4, one peer;
    /// docs/internals/xdp.md); auto takes AF_XDP above 100000 packets a second and programs above 200000.
    #[arg(long, value_name = "auto|socket|af_xdp|xdp", value_enum, hide_possible_values = true)]
    pub(crate) engine: Engine,

    /// Whether packets may leave and arrive as one large one from 100000 packets a second on (UDP_SEGMENT, UDP_GRO).
    #[arg(long = "no-gso", action = clap::ArgAction::SetFalse,
        help = "Never let packets leave or arrive as one large one, which they may from 100000 a second on")]
    pub(crate) gso: bool,

    /// What holds packets until they are due: this program (spinning, or asleep with --blocking), or the kernel's
    /// queue, to which they are given early (SO_TXTIME; needs fq or etf on the way out); auto takes the queue with
    /// --blocking, where it keeps the times.
    #[arg(long, value_name = "auto|program|txtime", value_enum, hide_possible_values = true)]
    pub(crate) pacing: Pacing,
}

impl parameters::Parameters for Parameters {
    fn imply(&mut self, given: &dyn Fn(&str) -> bool) {
        // Who asks for a number of packets wants that number, not what fits into the usual time.
        if given("packets") && !given("seconds") {
            self.seconds = None;
        }
        // Packets of the usual size have no room for a code or extensions.
        if given("stamp") && !given("size_byte") {
            self.size_byte = self.size_byte.max(self.stamp_byte() as u16);
        }
    }
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            peer: Vec::new(),
            mode: Mode::Udp,
            rate_packet_per_s: 1_000,
            gap_ns: None,
            flood: false,
            poisson: false,
            size_byte: 64,
            packets: None,
            seconds: Some(10.0),
            timeout_ns: None,
            key_file: None,
            stamp_tlv: None,
            dscp: None,
            cpu: None,
            fifo: None,
            dma_latency_ns: None,
            busy_poll_ns: None,
            blocking: false,
            hardware_stamps: false,
            tx_stamp_every: None,
            engine: Engine::Auto,
            gso: true,
            pacing: Pacing::Auto,
        }
    }
}

impl RttArguments {
    /// The parameters of this command line.
    ///
    /// # Errors
    /// Where the file of peers cannot be read.
    pub(super) fn parameters(&self) -> Result<Parameters, Failure> {
        let mut parameters = self.run.parameters.clone();
        if let Some(path) = &self.peers {
            let text = named_file::text(path, run_file::LARGEST_BYTE).map_err(|error| {
                Failure::Input(format!("cannot read {}: {error}: give a file with one peer a line", path.display()))
            })?;
            parameters.peer.extend(peers_of(without_mark(&text)));
        }
        parameters.mode = match (self.icmp, self.stamp) {
            (true, _) => Mode::Icmp,
            (_, true) => Mode::Stamp,
            _ => Mode::Udp,
        };
        Ok(parameters)
    }
}

/// The first name whose condition holds.
fn first(conditions: &[(bool, &'static str)]) -> Option<&'static str> {
    conditions.iter().find_map(|(holds, name)| holds.then_some(*name))
}

/// The peers in a file's text.
fn peers_of(text: &str) -> impl Iterator<Item = String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).map(str::to_owned)
}

impl Parameters {
    /// Checks everything that needs no network, and fills in what depends on the rate.
    ///
    /// # Errors
    /// With the value and what to use instead.
    pub(super) fn resolved(mut self) -> Result<Self, Failure> {
        if self.peer.is_empty() {
            return Err(Failure::value("peer", "missing", "at least one HOST or HOST:PORT"));
        }
        parameters::check_bounds(&self)?;
        instrument::check_list("peer", &self.peer)?;
        if self.mode != Mode::Stamp && self.stamp_tlv.is_some() {
            return Err(Failure::Input("stamp_tlv belongs to mode stamp: add --stamp, or leave it out".to_owned()));
        }
        instrument::check_range("size_byte", self.size_byte.into(), self.least_byte() as u64, LARGEST_BYTE as u64)?;
        instrument::check_seconds("seconds", self.seconds)?;
        if self.seconds.is_none() && self.packets.is_none() {
            return Err(Failure::Input("seconds and packets are missing: use one of the two".to_owned()));
        }
        let dense = self.flood || RatePolicy::of(self.rate() * self.peer.len() as f64).dense;
        self.timeout_ns.get_or_insert(if dense { 500_000_000 } else { 2_000_000_000 });
        instrument::check_cpu(self.cpu)?;
        if self.peer.len() > 1 && (self.blocking || self.flood) {
            let key = if self.blocking { "blocking" } else { "flood" };
            let found = self.peer.len();
            return Err(Failure::Input(format!(
                "{key} cannot serve {found} peers: use one peer, as one thread serves all and cannot wait for one"
            )));
        }
        let (engine, beyond) = match self.engine {
            Engine::Xdp => ("xdp", self.beyond_programs()),
            Engine::AfXdp => ("af_xdp", self.beyond_frames()),
            Engine::Auto | Engine::Socket => ("", None),
        };
        if let Some(found) = beyond {
            return Err(Failure::Input(format!("engine {engine} cannot send with {found}: use --engine socket")));
        }
        if self.pacing == Pacing::Txtime && self.flood {
            return Err(Failure::Input(
                "pacing txtime does not go with flood, which has no times at which packets are due: use a rate or a gap"
                    .to_owned(),
            ));
        }
        Ok(self)
    }

    /// What is asked for that programs in the kernel do not do.
    pub(super) fn beyond_programs(&self) -> Option<&'static str> {
        let own = [(self.flood, "flood"), (self.poisson, "poisson"), (self.blocking, "blocking")];
        self.beyond_frames().or_else(|| first(&own))
    }

    /// What is asked for that neither they nor frames of this program's own do.
    pub(super) fn beyond_frames(&self) -> Option<&'static str> {
        first(&[
            (self.mode == Mode::Icmp, "icmp"),
            (self.mode == Mode::Stamp, "stamp"),
            (self.hardware_stamps, "hardware_stamps"),
            (self.dscp.is_some(), "dscp"),
            (self.pacing == Pacing::Txtime, "pacing txtime"),
            (self.busy_poll_ns.is_some() && self.engine == Engine::AfXdp, "busy_poll"),
            (self.peer.len() > 1, "several peers"),
        ])
    }

    /// The smallest datagram of this mode.
    pub(super) fn least_byte(&self) -> usize {
        match self.mode {
            Mode::Udp | Mode::Icmp => short::HEADER_BYTE,
            Mode::Stamp => self.stamp_byte(),
        }
    }

    /// The smallest datagram of a session whose form has been agreed on.
    pub(super) fn least_byte_of(&self, codec: &Codec) -> usize {
        match codec {
            Codec::Full { .. } => full::HEADER_BYTE,
            Codec::Short { .. } | Codec::Stamp { .. } => self.least_byte(),
        }
    }

    /// The smallest STAMP packet with what is asked for.
    fn stamp_byte(&self) -> usize {
        // Sizes depend on whether there is a key, not on which.
        let key = self.key_file.is_some().then(|| StampKey::new([0; 32]));
        stamp::packet_byte(key.as_ref()) + Request::bytes(&self.requests(), key.as_ref())
    }

    /// What a STAMP reflector is asked beside its times.
    pub(super) fn requests(&self) -> Vec<Request> {
        let dscp = self.dscp.unwrap_or(0);
        self.stamp_tlv.iter().flatten().map(|extension| extension.request(dscp)).collect()
    }

    /// Whether probes have room for the full form.
    pub(super) const fn full_form(&self) -> bool {
        self.size_byte as usize >= full::HEADER_BYTE
    }

    /// Packets a second to each peer, as asked.
    pub(super) fn rate(&self) -> f64 {
        self.gap_ns.map_or(self.rate_packet_per_s as f64, |gap| 1e9 / gap as f64)
    }

    /// What suits that rate.
    pub(super) fn policy(&self) -> RatePolicy {
        if self.flood { RatePolicy::of_flood() } else { RatePolicy::of(self.rate()) }
    }

    pub(super) fn timeout_ns(&self) -> u64 {
        self.timeout_ns.unwrap_or(2_000_000_000)
    }

    pub(super) fn duration_ns(&self) -> Option<u64> {
        self.seconds.and_then(Span::try_from_secs_f64).map(Span::as_nanos_unsigned)
    }

    /// Packets to each peer if all goes as planned.
    pub(super) fn planned(&self) -> u64 {
        let fitting = self.seconds.map_or(MOST_PACKETS as f64, |seconds| (seconds * self.rate()).ceil());
        (fitting.min(MOST_PACKETS as f64) as u64).min(self.packets.unwrap_or(u64::MAX)).max(1)
    }

    /// Slots to each peer, where their number is known before: a run ends as soon as all are answered.
    pub(super) fn known_slots(&self) -> Option<u64> {
        match (self.flood || self.poisson, self.seconds) {
            (false, _) => Some(self.planned()),
            (true, None) => self.packets,
            (true, Some(_)) => None,
        }
    }

    /// How long a stalled sender makes up for, ns: as long as it takes to gather 5,000 packets, 100 ms at most.
    pub(super) fn catch_up_ns(&self) -> u64 {
        ((5_000.0 / self.rate() * 1e9) as u64).min(100_000_000)
    }

    /// The schedule of `peers` peers that share a thread.
    pub(super) fn schedule(&self, peers: u64, seed: u64) -> Schedule {
        let one = self.gap_ns.map_or_else(
            || Pace::of_rate(PacketRate::from_packet_per_s(self.rate_packet_per_s)),
            |gap| Pace::of_gap(Span::from_unsigned_nanos(gap)),
        );
        let pace = Pace { packets: one.packets * peers, ..one };
        let pattern = if self.poisson { Pattern::Poisson { pace } } else { Pattern::Constant { pace } };
        Schedule {
            pattern,
            size_byte: self.size_byte,
            packets: self.packets.map(|each| each * peers),
            duration_ns: self.duration_ns(),
            seed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Parameters {
        Parameters { peer: vec!["127.0.0.1".to_owned()], ..Parameters::default() }
    }

    #[test]
    fn a_file_of_peers_has_one_a_line_and_remarks() {
        let peers: Vec<String> = peers_of("# all\n10.0.0.1\n\n 10.0.0.2:9000 # the second\n").collect();
        assert_eq!(peers, ["10.0.0.1", "10.0.0.2:9000"]);
    }

    #[test]
    fn many_packets_a_second_are_awaited_for_a_shorter_time() {
        let timeout = |rate| Parameters { rate_packet_per_s: rate, ..good() }.resolved().map(|found| found.timeout_ns);
        assert_eq!(timeout(1_000).expect("fine"), Some(2_000_000_000));
        assert_eq!(timeout(1_000_000).expect("fine"), Some(500_000_000));
    }

    #[test]
    fn wrong_values_are_refused_with_what_is_wanted() {
        let refused = |parameters: Parameters, part: &str| {
            let error = parameters.resolved().expect_err(part).to_string();
            assert!(error.contains(part), "{error}");
        };
        refused(Parameters::default(), "peer is missing");
        refused(Parameters { size_byte: 17, ..good() }, "from 18 to 9000");
        refused(Parameters { size_byte: 43, mode: Mode::Stamp, ..good() }, "from 44 to 9000");
        refused(Parameters { seconds: None, ..good() }, "use one of the two");
        refused(Parameters { rate_packet_per_s: 0, ..good() }, "from 1 to 1000000");
        let two = vec!["a".to_owned(), "b".to_owned()];
        refused(Parameters { peer: two, flood: true, ..good() }, "use one peer");
        let launched = Parameters { pacing: Pacing::Txtime, ..good() };
        refused(Parameters { flood: true, ..launched.clone() }, "pacing txtime does not go with flood");
        refused(
            Parameters { engine: Engine::Xdp, ..launched },
            "engine xdp cannot send with pacing txtime: use --engine socket",
        );
    }

    #[test]
    fn peers_share_a_schedule_of_as_many_times_the_pace() {
        let parameters = Parameters { packets: Some(5), ..good() };
        let due: Vec<i64> =
            parameters.schedule(2, 0).slots().expect("a pace").map(|slot| slot.due.as_nanos()).take(3).collect();
        assert_eq!(due, [0, 500_000, 1_000_000]);
        assert_eq!(parameters.schedule(2, 0).packets, Some(10));
    }

    #[test]
    fn a_stalled_sender_makes_up_for_a_hundred_milliseconds_or_five_thousand_packets() {
        assert_eq!(good().catch_up_ns(), 100_000_000);
        assert_eq!(Parameters { rate_packet_per_s: 1_000_000, ..good() }.catch_up_ns(), 5_000_000);
    }
}
