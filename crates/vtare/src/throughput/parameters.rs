//! What `vtare throughput` is told: the command line, run.json, and their checks.

use std::net::Ipv4Addr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vtare_methods::throughput::{BinarySettings, Distribution, Gate, Goal, MlrSettings};
use vtare_packet::tester::{Analyser, Engine, Flow, LARGEST_BYTE, SMALLEST_BYTE};

use crate::arguments::{CommonArguments, nanoseconds, nanoseconds_or_none};
use crate::failure::Failure;
use crate::instrument;
use crate::quantities::share;

/// The frames of RFC 2544 for Ethernet.
const FRAMES_BYTE: [u32; 7] = [64, 128, 256, 512, 1_024, 1_280, 1_518];

/// Arguments of `vtare throughput`.
#[derive(Clone, Debug, clap::Args)]
#[command(
    after_help = "One process sends on one port and counts on another, so with one clock; between them lies what is tested. Each --flow is a guest that forwards.\n\
    Sizes are those of Ethernet frames with their check sequence (4 B). docs/throughput.md has the methods, and how to build the set-up."
)]
pub(crate) struct ThroughputArguments {
    /// The interface that sends
    #[arg(long, value_name = "IFACE")]
    tx: String,

    /// The interface that receives
    #[arg(long, value_name = "IFACE")]
    rx: String,

    /// A flow, as MAC, IP or MAC/IP of its destination; once for each guest. Without IP: 198.19.0.1 and on; without MAC: that of --next-hop
    #[arg(long, value_name = "MAC/IP", required = true)]
    flow: Vec<String>,

    /// The MAC of flows that have none
    #[arg(long, value_name = "MAC")]
    next_hop: Option<String>,

    /// The address that frames come from [default: 198.18.0.1]
    #[arg(long, value_name = "IP")]
    source: Option<Ipv4Addr>,

    /// Frames to test with, in bytes [default: 64,128,256,512,1024,1280,1518]
    #[arg(long, value_name = "BYTES", value_delimiter = ',')]
    frame: Vec<u32>,

    /// Guests loaded strongly, the first ones; several values are tested one after another [default: all]
    #[arg(long, value_name = "K", value_delimiter = ',')]
    loaded: Vec<u32>,

    /// Share of the load that all other guests have together [default: 1%]
    #[arg(long, value_name = "PERCENT", value_parser = share)]
    slight: Option<f64>,

    /// How to search: mlrsearch (RFC 9971) or binary (RFC 2544) [default: mlrsearch]
    #[arg(long, value_name = "METHOD")]
    method: Option<SearchMethod>,

    /// Searches; the answer is their median [default: 5]
    #[arg(long, value_name = "N")]
    searches: Option<u32>,

    /// Share of frames that may be lost [default: 0.5%]
    #[arg(long, value_name = "PERCENT", value_parser = share)]
    loss: Option<f64>,

    /// Share of the time that may be worse than that [default: 50%]
    #[arg(long, value_name = "PERCENT", value_parser = share)]
    exceed: Option<f64>,

    /// Do not search for the load at which nothing is lost, too
    #[arg(long)]
    no_zero_loss: bool,

    /// How exactly: the bounds are this share apart at the end [default: 3%]
    #[arg(long, value_name = "PERCENT", value_parser = share)]
    width: Option<f64>,

    /// Duration of a trial that counts in full [default: 300ms]
    #[arg(long, value_name = "TIME", value_parser = nanoseconds)]
    trial: Option<u64>,

    /// Duration of all trials at a bound together [default: 2700ms]
    #[arg(long, value_name = "TIME", value_parser = nanoseconds)]
    trial_sum: Option<u64>,

    /// Frames a second to begin with, and at most [default: what the sender can]
    #[arg(long, value_name = "RATE")]
    max_rate: Option<u64>,

    /// All searches of a cell end after this time, with the best bounds known by then; latency is measured after it [default: no limit]
    #[arg(long, value_name = "TIME", value_parser = nanoseconds)]
    max_time: Option<u64>,

    /// Measure latency at these shares of the throughput [default: 100%]
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', value_parser = share)]
    latency_load: Vec<f64>,

    /// Measure latency at these frames a second, too
    #[arg(long, value_name = "RATE", value_delimiter = ',')]
    latency_rate: Vec<u64>,

    /// Trials for each latency, each with a tagged frame; 0: no latency [default: 20]
    #[arg(long, value_name = "N")]
    latency_trials: Option<u32>,

    /// Duration of each of them [default: 300ms; RFC 2544 wants 120s]
    #[arg(long, value_name = "TIME", value_parser = nanoseconds)]
    latency_trial: Option<u64>,

    /// Who sends: auto, xdp, af_xdp, packet [default: auto, the fastest in a short test]
    #[arg(long, value_name = "ENGINE")]
    engine: Option<EngineChoice>,

    /// Who counts: auto, xdp, packet (a packet ring, which needs no BPF) [default: auto, xdp where that can be had]
    #[arg(long, value_name = "ANALYSER")]
    analyser: Option<AnalyserChoice>,

    /// A frame this late still leaves; later ones count as not sent [default: 1ms]
    #[arg(long, value_name = "TIME", value_parser = nanoseconds_or_none)]
    catch_up: Option<u64>,

    /// A trial is void where other programs use more of one CPU than this; 100%: however much [default: 10%]
    #[arg(long, value_name = "PERCENT", value_parser = share)]
    others: Option<f64>,

    /// Processes that are what is tested, such as the emulators of guests: they are no others
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    device_pid: Vec<u32>,

    /// Send from this CPU
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,

    /// Send before all ordinary threads, at this real-time priority (SCHED_FIFO)
    #[arg(long, value_name = "1..99", value_parser = clap::value_parser!(u8).range(1..=99))]
    fifo: Option<u8>,

    #[command(flatten)]
    pub(super) common: CommonArguments,
}

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
    /// The program where it can be had, else the ring.
    #[default]
    Auto,
    /// A program at the receiving port.
    Xdp,
    /// A packet ring.
    Packet,
}

impl AnalyserChoice {
    /// As the tester is told.
    pub(super) const fn analyser(self) -> Option<Analyser> {
        match self {
            Self::Auto => None,
            Self::Xdp => Some(Analyser::Xdp),
            Self::Packet => Some(Analyser::Packet),
        }
    }
}

/// Parameters of `throughput` in run.json.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Parameters {
    /// The interface that sends.
    pub(crate) tx_port: String,
    /// The interface that receives.
    pub(crate) rx_port: String,
    /// Destination of each flow, MAC, IP or MAC/IP: a guest each.
    pub(crate) flow: Vec<String>,
    /// The MAC of flows that have none; null where each has one.
    pub(crate) next_hop: Option<String>,
    /// The address that frames come from.
    #[schemars(with = "String")]
    pub(crate) source: Ipv4Addr,
    /// Sizes of frames with their check sequence.
    #[schemars(inner(range(min = 64, max = 9_018)))]
    pub(crate) frame_byte: Vec<u32>,
    /// Guests loaded strongly, the first ones; null for all.
    #[schemars(inner(range(min = 1, max = 10_000)))]
    pub(crate) loaded: Option<Vec<u32>>,
    /// Share of the load that all others have together.
    #[schemars(range(min = 0, max = 1))]
    pub(crate) slight_share: f64,
    /// How to search.
    pub(crate) method: SearchMethod,
    /// Searches of each cell.
    #[schemars(range(min = 1, max = 1_000))]
    pub(crate) searches: u32,
    /// Share of frames that may be lost (mlrsearch).
    #[schemars(range(min = 0, max = 1))]
    pub(crate) loss_ratio: f64,
    /// Share of the time that may be worse (mlrsearch).
    #[schemars(range(min = 0, max = 1))]
    pub(crate) exceed_ratio: f64,
    /// Whether the load without loss is searched, too (mlrsearch).
    pub(crate) zero_loss: bool,
    /// Distance of the bounds at the end, as share of the upper one.
    #[schemars(range(min = 0.0001, max = 0.5))]
    pub(crate) width: f64,
    /// Duration of a trial that counts in full, ns.
    #[schemars(range(min = 1_000_000, max = 600_000_000_000_u64))]
    pub(crate) trial_ns: u64,
    /// Duration of all trials at a bound together, ns (mlrsearch); of the validation (binary).
    #[schemars(range(min = 1_000_000, max = 3_600_000_000_000_u64))]
    pub(crate) trial_sum_ns: u64,
    /// Frames a second at most; null for what the sender can.
    #[schemars(range(min = 2, max = 1_000_000_000))]
    pub(crate) most_packet_per_s: Option<u64>,
    /// All searches of a cell end after this time, ns, with the best bounds known by then; null for no limit.
    #[schemars(range(min = 1_000_000, max = 86_400_000_000_000_u64))]
    pub(crate) most_ns: Option<u64>,
    /// Latency is measured at these shares of the throughput.
    #[schemars(inner(range(min = 0, max = 1)))]
    pub(crate) latency_load: Vec<f64>,
    /// And at these loads; null for none.
    #[schemars(inner(range(min = 1, max = 1_000_000_000)))]
    pub(crate) latency_packet_per_s: Option<Vec<u64>>,
    /// Trials for each latency, each with a tagged frame; 0 for no latency.
    #[schemars(range(min = 0, max = 10_000))]
    pub(crate) latency_trials: u32,
    /// Duration of each of them, ns.
    #[schemars(range(min = 1_000_000, max = 600_000_000_000_u64))]
    pub(crate) latency_trial_ns: u64,
    /// Who sends.
    pub(crate) engine: EngineChoice,
    /// Who counts.
    pub(crate) analyser: AnalyserChoice,
    /// A frame this late still leaves, ns.
    pub(crate) catch_up_ns: u64,
    /// A trial is void where other programs use more of one CPU than this share; 1: however much.
    #[schemars(range(min = 0, max = 1))]
    pub(crate) most_others: f64,
    /// Processes that are what is tested, such as the emulators of guests: they are no others; null for none.
    pub(crate) device_pid: Option<Vec<u32>>,
    /// Send from this CPU; null to leave that to the scheduler.
    pub(crate) cpu: Option<usize>,
    /// Real-time priority of the sending thread; null for the ordinary class.
    #[schemars(range(min = 1, max = 99))]
    pub(crate) fifo: Option<u8>,
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
            width: goal.width,
            trial_ns: goal.final_ns,
            trial_sum_ns: goal.sum_ns,
            most_packet_per_s: None,
            most_ns: None,
            latency_load: vec![1.0],
            latency_packet_per_s: None,
            latency_trials: 20,
            latency_trial_ns: 300_000_000,
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

impl ThroughputArguments {
    /// The parameters of this command line.
    pub(super) fn parameters(&self) -> Parameters {
        let default = Parameters::default();
        let given = |list: &Vec<u32>, otherwise: Vec<u32>| if list.is_empty() { otherwise } else { list.clone() };
        Parameters {
            tx_port: self.tx.clone(),
            rx_port: self.rx.clone(),
            flow: self.flow.clone(),
            next_hop: self.next_hop.clone(),
            source: self.source.unwrap_or(default.source),
            frame_byte: given(&self.frame, default.frame_byte),
            loaded: (!self.loaded.is_empty()).then(|| self.loaded.clone()),
            slight_share: self.slight.unwrap_or(default.slight_share),
            method: self.method.unwrap_or_default(),
            searches: self.searches.unwrap_or(default.searches),
            loss_ratio: self.loss.unwrap_or(default.loss_ratio),
            exceed_ratio: self.exceed.unwrap_or(default.exceed_ratio),
            zero_loss: !self.no_zero_loss,
            width: self.width.unwrap_or(default.width),
            trial_ns: self.trial.unwrap_or(default.trial_ns),
            trial_sum_ns: self.trial_sum.unwrap_or_else(|| default.trial_sum_ns.max(self.trial.unwrap_or(0))),
            most_packet_per_s: self.max_rate,
            most_ns: self.max_time,
            latency_load: if self.latency_load.is_empty() { default.latency_load } else { self.latency_load.clone() },
            latency_packet_per_s: (!self.latency_rate.is_empty()).then(|| self.latency_rate.clone()),
            latency_trials: self.latency_trials.unwrap_or(default.latency_trials),
            latency_trial_ns: self.latency_trial.unwrap_or(default.latency_trial_ns),
            engine: self.engine.unwrap_or_default(),
            analyser: self.analyser.unwrap_or_default(),
            catch_up_ns: self.catch_up.unwrap_or(default.catch_up_ns),
            most_others: self.others.unwrap_or(default.most_others),
            device_pid: (!self.device_pid.is_empty()).then(|| self.device_pid.clone()),
            cpu: self.cpu,
            fifo: self.fifo,
        }
    }
}

impl Parameters {
    /// Checks what can be checked without the ports.
    ///
    /// # Errors
    /// [`Failure::Input`] with the value found and what is wanted.
    pub(super) fn resolved(mut self) -> Result<Self, Failure> {
        for (key, port) in [("tx_port", &self.tx_port), ("rx_port", &self.rx_port)] {
            if port.is_empty() {
                return Err(Failure::Input(format!("{key}: found none, want the name of an interface")));
            }
        }
        if self.flow.is_empty() {
            return Err(Failure::Input("flow: found none, want the MAC or IP of each guest".to_owned()));
        }
        self.flows()?;
        instrument::check_cpu(self.cpu)?;
        instrument::check_list("frame_byte", &self.frame_byte)?;
        for &size in &self.frame_byte {
            if !(SMALLEST_BYTE..=LARGEST_BYTE).contains(&size) {
                return Err(Failure::Input(format!(
                    "frame_byte: found {size}, want from {SMALLEST_BYTE}, which headers and tag need, to {LARGEST_BYTE}"
                )));
            }
        }
        let loaded = self.loaded.get_or_insert_with(|| vec![self.flow.len() as u32]).clone();
        instrument::check_list("loaded", &loaded)?;
        for &k in &loaded {
            self.distribution(k)?.slots().map_err(|error| Failure::Input(error.to_string()))?;
        }
        instrument::check_range("searches", self.searches.into(), 1, 1_000)?;
        instrument::check_range("trial_ns", self.trial_ns, 1_000_000, 600_000_000_000)?;
        instrument::check_range("latency_trial_ns", self.latency_trial_ns, 1_000_000, 600_000_000_000)?;
        if let Some(most) = self.most_packet_per_s {
            instrument::check_range("most_packet_per_s", most, 2, 1_000_000_000)?;
        }
        if let Some(most) = self.most_ns {
            instrument::check_range("most_ns", most, 1_000_000, 86_400_000_000_000)?;
            let least = self.trial_ns.saturating_mul(self.searches.into());
            if most < least {
                return Err(Failure::Input(format!(
                    "most_ns: found {most} ({} s), want {least} ({} s) or more: {} searches share it, and a single trial of each lasts {} s; make \
                     trials shorter (--trial), searches fewer (--searches), or give more time (--max-time)",
                    most as f64 / 1e9,
                    least as f64 / 1e9,
                    self.searches,
                    self.trial_ns as f64 / 1e9
                )));
            }
        }
        for &load in self.latency_packet_per_s.iter().flatten() {
            instrument::check_range("latency_packet_per_s", load, 1, 1_000_000_000)?;
        }
        if let Some(load) = self.latency_load.iter().find(|load| !(**load > 0.0 && **load <= 1.0)) {
            return Err(Failure::Input(format!("latency_load: found {load}, want shares above 0 up to 1")));
        }
        if !(0.0..=1.0).contains(&self.most_others) {
            return Err(Failure::Input(format!("most_others: found {}, want a share from 0 to 1", self.most_others)));
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
                .ok_or_else(|| Failure::Input(format!("next_hop: found '{text}', want a MAC, as 02:00:00:00:00:01")))
        });
        let next_hop = next_hop.transpose()?;
        let flow = |(number, text): (usize, &String)| {
            let wrong = || {
                Failure::Input(format!("flow: found '{text}', want MAC, IP or MAC/IP, as 02:00:00:00:00:01/198.19.0.1"))
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
                    Failure::Input(format!("flow: '{text}' has no MAC, want next_hop (--next-hop MAC) or MAC/IP"))
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
            (with(|it| it.loaded = Some(vec![13])), "found 13, want from 1 to 12"),
            (with(|it| it.loaded = Some(vec![0])), "found 0, want from 1"),
            (with(|it| (it.loaded, it.slight_share) = (Some(vec![9]), 0.25)), "less than 0.2500"),
            (with(|it| (it.loaded, it.slight_share) = (Some(vec![9]), 1.5)), "slight share: found 1.5"),
            (with(|it| it.frame_byte = vec![63]), "from 64, which headers and tag need"),
            (with(|it| it.frame_byte = vec![9_019]), "to 9018"),
            (with(|it| it.frame_byte = vec![64, 64]), "found 64 twice"),
            (with(|it| it.flow = list("guest1")), "found 'guest1', want MAC, IP or MAC/IP"),
            (with(|it| it.flow = list("10.0.0.1")), "--next-hop"),
            (with(|it| it.flow.clear()), "flow: found none"),
            (with(|it| it.next_hop = Some("x".to_owned())), "next_hop: found 'x'"),
            (with(|it| it.tx_port.clear()), "tx_port: found none"),
            (with(|it| it.loss_ratio = 1.0), "loss ratio: found 1"),
            (with(|it| it.width = 0.0), "width: found 0"),
            (with(|it| it.trial_sum_ns = 5), "sum of trials"),
            (with(|it| it.latency_load = vec![1.1]), "latency_load: found 1.1"),
            (with(|it| it.most_ns = Some(1_000_000_000)), "want 1500000000 (1.5 s) or more: 5 searches share it"),
        ] {
            let error = found.expect_err(wanted);
            assert!(error.to_string().contains(wanted), "{error}");
            assert_eq!(error.code(), 2);
        }
    }

    #[test]
    fn all_guests_are_loaded_unless_something_else_is_said() {
        let parameters = with(|_| ()).expect("good");
        assert_eq!(parameters.loaded, Some(vec![12]));
        assert_eq!(parameters.mlrsearch().goals.len(), 2);
        assert_eq!(with(|it| it.zero_loss = false).expect("good").mlrsearch().goals.len(), 1);
    }
}
