//! The parameters of `vtare throughput`, and their checks.

use std::net::Ipv4Addr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vtare_methods::throughput::{BinarySettings, Distribution, Gate, Goal, MlrSettings};
use vtare_tester::{Analyser, Engine, Flow};

use crate::failure::Failure;
use crate::instrument;
use crate::parameters;
use crate::quantities::{nanoseconds, nanoseconds_or_none, share};

/// The frames of RFC 2544 for Ethernet.
const FRAMES_BYTE: [u32; 7] = [64, 128, 256, 512, 1_024, 1_280, 1_518];

/// The share of frames that is lost at most at the partial drop rate, as FD.io CSIT has it.
pub(super) const PARTIAL_DROP: f64 = 0.005;

/// How to search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum SearchMethod {
    /// Multiple Loss Ratio Search, RFC 9971.
    #[default]
    Mlrsearch,
    /// Binary search for the highest load without loss, RFC 2544.
    Binary,
}

/// Who sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub(crate) enum EngineChoice {
    /// The fastest in a short test.
    #[default]
    Auto,
    /// A program in the kernel.
    Xdp,
    /// An AF_XDP socket.
    AfXdp,
    /// A packet socket.
    Packet,
}

impl EngineChoice {
    /// The engines to choose from.
    pub(super) fn engines(self) -> &'static [Engine] {
        match self {
            Self::Auto => &Engine::ALL,
            Self::Xdp => &[Engine::Xdp],
            Self::AfXdp => &[Engine::AfXdp],
            Self::Packet => &[Engine::Packet],
        }
    }
}

/// Who counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub(crate) enum AnalyserChoice {
    /// The program where it is available, else the ring.
    #[default]
    Auto,
    /// A program at the receiving port.
    Xdp,
    /// A packet ring.
    Packet,
}

impl AnalyserChoice {
    /// The analyser that the tester is given.
    pub(super) const fn analyser(self) -> Option<Analyser> {
        match self {
            Self::Auto => None,
            Self::Xdp => Some(Analyser::Xdp),
            Self::Packet => Some(Analyser::Packet),
        }
    }
}

/// Parameters of `throughput` in run.json.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[command(
    after_help = "One process sends on one port and counts on another, so with one clock; between them lies what is \
    tested. Each --flow is a guest that forwards.\n\
    Sizes are those of Ethernet frames with their check sequence (4 B). docs/methods/throughput.md has the methods, \
    and how to build the set-up."
)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Parameters {
    /// The interface that sends.
    #[arg(long = "tx", value_name = "IFACE")]
    pub(crate) tx_port: String,

    /// The interface that receives.
    #[arg(long = "rx", value_name = "IFACE")]
    pub(crate) rx_port: String,

    /// A flow, as MAC, IP or MAC/IP of its destination; once for each guest. Without IP: 198.19.0.1 and on; without
    /// MAC: that of the next hop.
    #[arg(long, value_name = "MAC/IP")]
    pub(crate) flow: Vec<String>,

    /// The MAC of flows that have none.
    #[arg(long, value_name = "MAC")]
    pub(crate) next_hop: Option<String>,

    /// The address that frames come from.
    #[arg(long, value_name = "IP")]
    #[schemars(with = "String")]
    pub(crate) source: Ipv4Addr,

    /// Sizes of frames with their check sequence, in bytes.
    #[arg(long = "frame", value_name = "BYTES", value_delimiter = ',')]
    #[schemars(inner(range(min = 64, max = 9_018)))]
    pub(crate) frame_byte: Vec<u32>,

    /// Guests loaded strongly, the first ones; several values are tested one after another; without it, all.
    #[arg(long, value_name = "K", value_delimiter = ',')]
    #[schemars(inner(range(min = 1, max = 10_000)))]
    pub(crate) loaded: Option<Vec<u32>>,

    /// Share of the load that all other guests have together.
    #[arg(long = "slight", value_name = "PERCENT", value_parser = share)]
    #[schemars(range(min = 0, max = 1))]
    pub(crate) slight_share: f64,

    /// How to search: mlrsearch (RFC 9971) or binary (RFC 2544).
    #[arg(long, value_name = "METHOD", hide_possible_values = true)]
    pub(crate) method: SearchMethod,

    /// Searches of each cell; the answer is their median.
    #[arg(long, value_name = "N")]
    #[schemars(range(min = 1, max = 1_000))]
    pub(crate) searches: u32,

    /// Share of frames that may be lost (mlrsearch).
    #[arg(long = "loss", value_name = "PERCENT", value_parser = share)]
    #[schemars(range(min = 0, max = 1))]
    pub(crate) loss_ratio: f64,

    /// Share of the time that may be worse than that (mlrsearch).
    #[arg(long = "exceed", value_name = "PERCENT", value_parser = share)]
    #[schemars(range(min = 0, max = 1))]
    pub(crate) exceed_ratio: f64,

    /// Whether the load without loss is searched, too (mlrsearch).
    #[arg(long = "no-zero-loss", action = clap::ArgAction::SetFalse,
        help = "Do not search for the load at which nothing is lost, too")]
    pub(crate) zero_loss: bool,

    /// Search the non-drop rate: the load at which nothing is lost.
    #[arg(long, conflicts_with_all = ["loss_ratio", "exceed_ratio", "zero_loss"])]
    #[serde(skip)]
    pub(crate) ndr: bool,

    /// Search the partial drop rate: the load at which up to 0.5 % of the frames are lost; with --ndr, both
    /// (mlrsearch).
    #[arg(long, conflicts_with_all = ["loss_ratio", "exceed_ratio", "zero_loss"])]
    #[serde(skip)]
    pub(crate) pdr: bool,

    /// How exactly: the distance of the bounds at the end, as share of the upper one.
    #[arg(long, value_name = "PERCENT", value_parser = share)]
    #[schemars(range(min = 0.0001, max = 0.5))]
    pub(crate) width: f64,

    /// Duration of a trial that counts in full.
    #[arg(long = "trial", value_name = "TIME", value_parser = nanoseconds)]
    #[schemars(range(min = 1_000_000, max = 600_000_000_000_u64))]
    pub(crate) trial_ns: u64,

    /// Duration of all trials at a bound together (mlrsearch), or of the validation (binary).
    #[arg(long = "trial-sum", value_name = "TIME", value_parser = nanoseconds)]
    #[schemars(range(min = 1_000_000, max = 3_600_000_000_000_u64))]
    pub(crate) trial_sum_ns: u64,

    /// Frames a second to begin with, and at most; without it, what the sender can.
    #[arg(long = "max-rate", value_name = "RATE")]
    #[schemars(range(min = 2, max = 1_000_000_000))]
    pub(crate) most_packet_per_s: Option<u64>,

    /// All searches of a cell end after this time, with the best bounds known by then, and latency is measured after
    /// it; without it, no limit.
    #[arg(long = "max-time", value_name = "TIME", value_parser = nanoseconds)]
    #[schemars(range(min = 1_000_000, max = 86_400_000_000_000_u64))]
    pub(crate) most_ns: Option<u64>,

    /// Measure latency at these shares of the throughput.
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', value_parser = share)]
    #[schemars(inner(range(min = 0, max = 1)))]
    pub(crate) latency_load: Vec<f64>,

    /// Measure latency at these frames a second, too.
    #[arg(long = "latency-rate", value_name = "RATE", value_delimiter = ',')]
    #[schemars(inner(range(min = 1, max = 1_000_000_000)))]
    pub(crate) latency_packet_per_s: Option<Vec<u64>>,

    /// Trials for each latency, each with a tagged frame; 0 for no latency.
    #[arg(long, value_name = "N")]
    #[schemars(range(min = 0, max = 10_000))]
    pub(crate) latency_trials: u32,

    /// Duration of each of them; RFC 2544 wants 120 s.
    #[arg(long = "latency-trial", value_name = "TIME", value_parser = nanoseconds)]
    #[schemars(range(min = 1_000_000, max = 600_000_000_000_u64))]
    pub(crate) latency_trial_ns: u64,

    /// Search the longest burst at the greatest rate that passes whole so often (RFC 2544 wants 50); 0 for none.
    #[arg(long, value_name = "N")]
    #[schemars(range(min = 0, max = 10_000))]
    pub(crate) bursts: u32,

    /// Offer the throughput found for this long, in 20 trials (of `--trial` each, if that is longer), and give the
    /// share that it loses.
    #[arg(long = "soak", value_name = "TIME", value_parser = nanoseconds)]
    #[schemars(range(min = 1_000_000, max = 86_400_000_000_000_u64))]
    pub(crate) soak_ns: Option<u64>,

    /// In the soak, look for the load that loses this share in the long run (PLRsearch), in place of offering the
    /// throughput found.
    #[arg(long = "soak-loss", value_name = "PERCENT", value_parser = share, requires = "soak_ns")]
    #[schemars(range(min = 0, max = 1))]
    pub(crate) soak_loss_ratio: Option<f64>,

    /// Overload the device so often by 110 % of the throughput found, and give the time from the step to half of that
    /// until the last frame is lost (RFC 2544, 26.5); 0 for none.
    #[arg(long, value_name = "N")]
    #[schemars(range(min = 0, max = 10_000))]
    pub(crate) recovery: u32,

    /// Duration of each overload; RFC 2544 wants 60 s or more.
    #[arg(long = "overload", value_name = "TIME", value_parser = nanoseconds)]
    #[schemars(range(min = 1_000_000, max = 3_600_000_000_000_u64))]
    pub(crate) overload_ns: u64,

    /// What sends: auto (the fastest in a short test), xdp, af_xdp, packet.
    #[arg(long, value_name = "ENGINE", hide_possible_values = true)]
    pub(crate) engine: EngineChoice,

    /// What counts: auto (xdp where that is available), xdp, packet (a packet ring, which needs no BPF).
    #[arg(long, value_name = "ANALYSER", hide_possible_values = true)]
    pub(crate) analyser: AnalyserChoice,

    /// A frame this late still leaves; later ones count as not sent.
    #[arg(long = "catch-up", value_name = "TIME", value_parser = nanoseconds_or_none)]
    pub(crate) catch_up_ns: u64,

    /// A trial is void where other programs use more of one CPU than this share; at 100 %, none is.
    #[arg(long = "others", value_name = "PERCENT", value_parser = share)]
    #[schemars(range(min = 0, max = 1))]
    pub(crate) most_others: f64,

    /// Processes that are what is tested, such as the emulators of guests: they do not count as other programs.
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    pub(crate) device_pid: Option<Vec<u32>>,

    /// Send from this CPU; without it, the scheduler chooses.
    #[arg(long, value_name = "CPU")]
    pub(crate) cpu: Option<usize>,

    /// Send before all ordinary threads, at this real-time priority (SCHED_FIFO, 1 to 99); without it, the ordinary
    /// class.
    #[arg(long, value_name = "PRIORITY")]
    #[schemars(range(min = 1, max = 99))]
    pub(crate) fifo: Option<u8>,
}

impl parameters::Parameters for Parameters {
    fn imply(&mut self, given: &dyn Fn(&str) -> bool) {
        // All trials together take at least the time of one.
        if given("trial_ns") && !given("trial_sum_ns") {
            self.trial_sum_ns = self.trial_sum_ns.max(self.trial_ns);
        }
        match (self.ndr, self.pdr) {
            (false, false) => {}
            (true, false) => (self.loss_ratio, self.exceed_ratio) = (0.0, 0.0),
            (_, true) => (self.loss_ratio, self.zero_loss) = (PARTIAL_DROP, self.ndr),
        }
    }
}

impl Default for Parameters {
    fn default() -> Self {
        let goal = Goal::default();
        Self {
            tx_port: String::new(),
            rx_port: String::new(),
            flow: Vec::new(),
            next_hop: None,
            source: Ipv4Addr::new(198, 18, 0, 1),
            frame_byte: FRAMES_BYTE.to_vec(),
            loaded: None,
            slight_share: 0.01,
            method: SearchMethod::default(),
            searches: 5,
            loss_ratio: goal.loss_ratio,
            exceed_ratio: goal.exceed_ratio,
            zero_loss: true,
            ndr: false,
            pdr: false,
            width: goal.width,
            trial_ns: goal.final_ns,
            trial_sum_ns: goal.sum_ns,
            most_packet_per_s: None,
            most_ns: None,
            latency_load: vec![1.0],
            latency_packet_per_s: None,
            latency_trials: 20,
            latency_trial_ns: 300_000_000,
            bursts: 0,
            soak_ns: None,
            soak_loss_ratio: None,
            recovery: 0,
            overload_ns: 60_000_000_000,
            engine: EngineChoice::default(),
            analyser: AnalyserChoice::default(),
            catch_up_ns: 1_000_000,
            most_others: Gate::default().most_others,
            device_pid: None,
            cpu: None,
            fifo: None,
        }
    }
}

impl Parameters {
    /// Checks what can be checked without the ports.
    ///
    /// # Errors
    /// [`Failure::Input`] with the value found and what is wanted.
    pub(super) fn resolved(mut self) -> Result<Self, Failure> {
        parameters::check_bounds(&self)?;
        for (key, port) in [("tx_port", &self.tx_port), ("rx_port", &self.rx_port)] {
            if port.is_empty() {
                return Err(Failure::value(key, "missing", "the name of an interface"));
            }
        }
        if self.flow.is_empty() {
            return Err(Failure::value("flow", "missing", "the MAC or IP of each guest"));
        }
        self.flows()?;
        instrument::check_cpu(self.cpu)?;
        if self.pdr && self.method == SearchMethod::Binary {
            let message = "pdr does not go with method binary, which allows no loss: use --method mlrsearch, or --ndr";
            return Err(Failure::Input(message.to_owned()));
        }
        instrument::check_list("frame_byte", &self.frame_byte)?;
        let loaded = self.loaded.get_or_insert_with(|| vec![self.flow.len() as u32]).clone();
        instrument::check_list("loaded", &loaded)?;
        for &k in &loaded {
            self.distribution(k)?.slots().map_err(|error| Failure::Input(error.to_string()))?;
        }
        if let Some(most) = self.most_ns {
            let least = self.trial_ns.saturating_mul(self.searches.into());
            if most < least {
                return Err(Failure::Input(format!(
                    "most_ns is {most} ({} s): use {least} ({} s) or more: {} searches share it, and a single \
                     trial of each lasts {} s; make trials shorter (--trial), searches fewer (--searches), or give \
                     more time (--max-time)",
                    most as f64 / 1e9,
                    least as f64 / 1e9,
                    self.searches,
                    self.trial_ns as f64 / 1e9
                )));
            }
        }
        if self.latency_load.contains(&0.0) {
            return Err(Failure::value("latency_load", 0, "shares above 0"));
        }
        if let Some(ratio) = self.soak_loss_ratio.filter(|ratio| *ratio <= 0.0 || *ratio >= 1.0) {
            return Err(Failure::value("soak_loss_ratio", ratio, "a share above 0 and below 1"));
        }
        // What the searches themselves check.
        let range = vtare_methods::throughput::Range { least: 1, most: 1_000 };
        let checked = vtare_methods::throughput::Mlrsearch::new(self.mlrsearch(), range).map(drop);
        let checked =
            checked.and_then(|()| vtare_methods::throughput::BinarySearch::new(self.binary(), range).map(drop));
        checked.map_err(|error| Failure::Input(error.to_string()))?;
        Ok(self)
    }

    /// How the load is spread with `loaded` guests loaded strongly.
    ///
    /// # Errors
    /// [`Failure::Input`] where that cannot be.
    pub(super) fn distribution(&self, loaded: u32) -> Result<Distribution, Failure> {
        Distribution::new(self.flow.len() as u32, loaded, self.slight_share)
            .map_err(|error| Failure::Input(error.to_string()))
    }

    /// The flows.
    ///
    /// # Errors
    /// [`Failure::Input`] for one that cannot be read.
    pub(super) fn flows(&self) -> Result<Vec<Flow>, Failure> {
        let next_hop = self.next_hop.as_deref().map(|text| {
            hardware_address(text)
                .ok_or_else(|| Failure::value("next_hop", format_args!("'{text}'"), "a MAC, such as 02:00:00:00:00:01"))
        });
        let next_hop = next_hop.transpose()?;
        let flow = |(number, text): (usize, &String)| {
            let wrong = || {
                Failure::value(
                    "flow",
                    format_args!("'{text}'"),
                    "MAC, IP or MAC/IP, such as 02:00:00:00:00:01/198.19.0.1",
                )
            };
            let (mac, ip) = match text.split_once('/') {
                Some((mac, ip)) => (Some(mac), Some(ip)),
                None if text.contains(':') => (Some(text.as_str()), None),
                None => (None, Some(text.as_str())),
            };
            // The address first: what is none at all has no use for a MAC.
            let address = match ip {
                Some(ip) => ip.parse().map_err(|_| wrong())?,
                None => Ipv4Addr::from(FIRST.wrapping_add(number as u32)),
            };
            let to = match mac {
                Some(mac) => hardware_address(mac).ok_or_else(wrong)?,
                None => next_hop.ok_or_else(|| {
                    Failure::Input(format!("flow: '{text}' has no MAC: use next_hop (--next-hop MAC) or MAC/IP"))
                })?,
            };
            Ok(Flow { to, address })
        };
        self.flow.iter().enumerate().map(flow).collect()
    }

    /// MLRsearch as it is asked for.
    pub(super) fn mlrsearch(&self) -> MlrSettings {
        let goal = Goal {
            loss_ratio: self.loss_ratio,
            exceed_ratio: self.exceed_ratio,
            final_ns: self.trial_ns,
            sum_ns: self.trial_sum_ns,
            width: self.width,
        };
        let mut goals = vec![goal];
        if self.zero_loss && self.loss_ratio > 0.0 {
            goals.push(Goal::zero_loss(self.trial_ns, self.width));
        }
        let default = MlrSettings::default();
        MlrSettings { goals, initial_ns: default.initial_ns.min(self.trial_ns), ..default }
    }

    /// The binary search as it is asked for.
    pub(super) fn binary(&self) -> BinarySettings {
        BinarySettings {
            trial_ns: self.trial_ns,
            validation_ns: self.trial_sum_ns,
            resolution: self.width,
            ..BinarySettings::default()
        }
    }

    /// The first and the longest trial of a soak, ns: so long that queues, which are empty before each, do not hide a
    /// load above what is forwarded.
    pub(super) fn soak_trials_ns(&self) -> [u64; 2] {
        let Some(sum_ns) = self.soak_ns else { return [0; 2] };
        let parts = if self.soak_loss_ratio.is_some() { [100, 10] } else { [20, 20] };
        parts.map(|parts| (sum_ns / parts).max(self.trial_ns).min(sum_ns))
    }

    /// The longest trial, ns.
    pub(super) fn longest_ns(&self) -> u64 {
        let validation = if self.method == SearchMethod::Binary { self.trial_sum_ns } else { 0 };
        self.trial_ns.max(self.latency_trial_ns).max(validation)
    }
}

/// 198.19.0.1, of the addresses that RFC 2544 keeps for such tests.
const FIRST: u32 = 0xc613_0001;

/// Reads a MAC.
pub(super) fn hardware_address(text: &str) -> Option<[u8; 6]> {
    let parts: Vec<u8> = text
        .split(':')
        .map(|part| u8::from_str_radix(part, 16).ok().filter(|_| part.len() <= 2))
        .collect::<Option<_>>()?;
    parts.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(change: impl FnOnce(&mut Parameters)) -> Result<Parameters, Failure> {
        let mut parameters = Parameters {
            tx_port: "a".to_owned(),
            rx_port: "b".to_owned(),
            flow: (1..=12).map(|guest| format!("02:00:00:00:00:{guest:02x}")).collect(),
            ..Parameters::default()
        };
        change(&mut parameters);
        parameters.resolved()
    }

    #[test]
    fn flows_are_read_by_mac_by_ip_and_by_both() {
        let flows = with(|it| {
            it.flow = ["02:00:00:00:00:0a", "198.19.9.9", "2:0:0:0:0:b/10.0.0.7"].map(str::to_owned).to_vec();
            it.next_hop = Some("02:00:00:00:00:0c".to_owned());
        });
        let flows = flows.expect("good").flows().expect("good");
        let last = flows.iter().map(|flow| flow.to[5]).collect::<Vec<_>>();
        assert_eq!(last, [10, 12, 11]);
        let addresses = flows.iter().map(|flow| flow.address.to_string()).collect::<Vec<_>>();
        assert_eq!(addresses, ["198.19.0.1", "198.19.9.9", "10.0.0.7"]);
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        let list = |text: &str| vec![text.to_owned()];
        for (found, wanted) in [
            (with(|it| it.loaded = Some(vec![13])), "loaded is 13: use 1 to 12"),
            (with(|it| it.loaded = Some(vec![0])), "loaded is 0: use a whole number from 1"),
            (with(|it| (it.loaded, it.slight_share) = (Some(vec![9]), 0.25)), "less than 0.2500"),
            (
                with(|it| (it.loaded, it.slight_share) = (Some(vec![9]), 1.5)),
                "slight_share (--slight) is 1.5: use a number from 0 to 1",
            ),
            (with(|it| it.frame_byte = vec![63]), "frame_byte (--frame) is 63: use a whole number from 64 to 9018"),
            (with(|it| it.frame_byte = vec![9_019]), "is 9019: use"),
            (with(|it| it.frame_byte = vec![64, 64]), "has 64 twice"),
            (with(|it| it.flow = list("guest1")), "is 'guest1': use MAC, IP or MAC/IP"),
            (with(|it| it.flow = list("10.0.0.1")), "--next-hop"),
            (with(|it| it.flow.clear()), "flow is missing: use "),
            (with(|it| it.next_hop = Some("x".to_owned())), "next_hop is 'x'"),
            (with(|it| it.tx_port.clear()), "tx_port is missing: use "),
            (with(|it| it.loss_ratio = 1.0), "loss ratio is 1: use "),
            (with(|it| it.width = 0.0), "width is 0: use "),
            (with(|it| it.trial_sum_ns = 5), "trial_sum_ns (--trial-sum) is 5: use "),
            (with(|it| it.latency_load = vec![1.1]), "latency_load is 1.1: use a number from 0 to 1"),
            (with(|it| it.latency_load = vec![0.0]), "latency_load is 0: use shares above 0"),
            (with(|it| it.most_ns = Some(1_000_000_000)), "use 1500000000 (1.5 s) or more: 5 searches share it"),
        ] {
            let error = found.expect_err(wanted);
            assert!(error.to_string().contains(wanted), "{error}");
            assert_eq!(error.code(), 2);
        }
    }

    #[test]
    fn drop_rates_are_searched_by_the_names_that_users_know() {
        use crate::parameters::Parameters as _;
        let goals = |ndr, pdr| {
            let mut it = Parameters { ndr, pdr, ..Parameters::default() };
            it.imply(&|_| false);
            it.mlrsearch().goals.iter().map(|goal| (goal.loss_ratio, goal.exceed_ratio)).collect::<Vec<_>>()
        };
        assert_eq!(goals(true, false), [(0.0, 0.0)]);
        assert_eq!(goals(false, true), [(0.005, 0.5)]);
        assert_eq!(goals(true, true), [(0.005, 0.5), (0.0, 0.0)]);
        let refused = with(|it| (it.pdr, it.method) = (true, SearchMethod::Binary)).expect_err("it allows no loss");
        assert!(refused.to_string().contains("pdr does not go with method binary"), "{refused}");
    }

    #[test]
    fn all_guests_are_loaded_unless_a_number_is_given() {
        let parameters = with(|_| ()).expect("good");
        assert_eq!(parameters.loaded, Some(vec![12]));
        assert_eq!(parameters.mlrsearch().goals.len(), 2);
        assert_eq!(with(|it| it.zero_loss = false).expect("good").mlrsearch().goals.len(), 1);
    }
}
