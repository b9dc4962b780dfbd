//! What a capture can be asked for.

use std::path::PathBuf;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vtare_packet::capture::probe::{MOST_PORTS, STAMP_PORT, Wanted};
use vtare_packet::serve::DEFAULT_PORT;

use crate::arguments::{CommonArguments, positive};
use crate::failure::Failure;
use crate::instrument::{check_cpu, check_list, check_range, check_seconds};

/// Probes that one capture may be asked for.
const MOST_PACKETS: u64 = 3_600_000_000;

/// What captures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Hook {
    /// tc where the kernel has it, else packet
    #[default]
    Auto,
    /// Programs at the entry and exit of the interface (Linux 6.6; CAP_BPF, CAP_NET_ADMIN)
    Tc,
    /// An AF_PACKET ring, as tcpdump uses (CAP_NET_RAW)
    Packet,
}

/// Arguments of `vtare capture`.
#[derive(Clone, Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("from").required(true))]
pub(crate) struct CaptureArguments {
    /// The interface of this host, or of this network namespace, whose probes are captured
    #[arg(value_name = "IFACE", group = "from")]
    interface: Option<String>,

    /// Read a pcap or pcapng file instead, as tcpdump -w writes
    #[arg(long, value_name = "FILE", group = "from", conflicts_with_all = ["hook", "seconds", "cpu", "ring_byte"])]
    read: Option<PathBuf>,

    /// What captures
    #[arg(long, value_enum, default_value = "auto")]
    hook: Hook,

    /// UDP port of the far end (vtare serve); may be given more than once [default: 8462]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Vec<u16>,

    /// ICMP and ICMPv6 echo, too
    #[arg(long)]
    icmp: bool,

    /// STAMP on UDP port 862, too
    #[arg(long)]
    stamp: bool,

    /// End after so many seconds [default: on SIGTERM or SIGINT]
    #[arg(long, value_name = "S", value_parser = positive)]
    seconds: Option<f64>,

    /// End after so many probes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_PACKETS))]
    count: Option<u64>,

    /// Memory between kernel and program: a power of two from 8192 to 1 GiB; a probe takes about 100 B (tc) or 200 B (packet)
    #[arg(long, value_name = "BYTES", default_value_t = Parameters::default().ring_byte)]
    ring_byte: u32,

    /// Run on this CPU only
    #[arg(long, value_name = "CPU")]
    cpu: Option<usize>,

    #[command(flatten)]
    pub(super) common: CommonArguments,
}

/// Parameters of `capture` in run.json.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Parameters {
    /// The interface; null where a file is read.
    pub(crate) interface: Option<String>,
    /// The capture file that is read; null where an interface is captured.
    #[schemars(with = "Option<String>")]
    pub(crate) read: Option<PathBuf>,
    /// What captures.
    pub(crate) hook: Hook,
    /// UDP ports of the far ends.
    #[schemars(length(min = 1, max = 16), inner(range(min = 1)))]
    pub(crate) port: Vec<u16>,
    /// Whether ICMP and ICMPv6 echo are captured, too.
    pub(crate) icmp: bool,
    /// Whether STAMP on UDP port 862 is captured, too.
    pub(crate) stamp: bool,
    /// Seconds; null for until a signal comes, which is then the ordinary end.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub(crate) seconds: Option<f64>,
    /// Probes after which it ends; null for no such end.
    #[schemars(range(min = 1, max = 3_600_000_000_u64))]
    pub(crate) packets: Option<u64>,
    /// Memory between kernel and program: a power of two.
    #[schemars(range(min = 8_192, max = 1_073_741_824))]
    pub(crate) ring_byte: u32,
    /// Run on this CPU only; null to leave that to the scheduler.
    pub(crate) cpu: Option<usize>,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            interface: None,
            read: None,
            hook: Hook::Auto,
            port: vec![DEFAULT_PORT],
            icmp: false,
            stamp: false,
            seconds: None,
            packets: None,
            ring_byte: 1 << 24,
            cpu: None,
        }
    }
}

impl CaptureArguments {
    /// The parameters of this command line.
    pub(super) fn parameters(&self) -> Parameters {
        let default = Parameters::default();
        Parameters {
            interface: self.interface.clone(),
            read: self.read.clone(),
            hook: self.hook,
            port: if self.port.is_empty() { default.port } else { self.port.clone() },
            icmp: self.icmp,
            stamp: self.stamp,
            seconds: self.seconds,
            packets: self.count,
            ring_byte: self.ring_byte,
            cpu: self.cpu,
        }
    }
}

/// Neither an interface nor a file.
pub(super) fn nothing_named() -> Failure {
    Failure::Input("interface: found null and read null, want one of the two".to_owned())
}

impl Parameters {
    /// Checks everything that needs no machine.
    ///
    /// # Errors
    /// With the value found and what is wanted.
    pub(super) fn resolved(self) -> Result<Self, Failure> {
        match (&self.interface, &self.read) {
            (None, None) => return Err(nothing_named()),
            (Some(interface), Some(file)) => {
                let file = file.display();
                return Err(Failure::Input(format!(
                    "read: found {file} beside interface {interface}, want one of the two"
                )));
            }
            _ => {}
        }
        if self.read.is_some() {
            let found =
                [("hook", self.hook != Hook::Auto), ("seconds", self.seconds.is_some()), ("cpu", self.cpu.is_some())];
            if let Some((key, _)) = found.iter().find(|(_, given)| *given) {
                return Err(Failure::Input(format!("{key}: found beside read, want it with interface only")));
            }
        }
        check_list("port", &self.port)?;
        check_range("port", self.port.iter().copied().min().unwrap_or_default().into(), 1, 65_535)?;
        if self.port.len() > MOST_PORTS {
            return Err(Failure::Input(format!("port: found {} ports, want at most {MOST_PORTS}", self.port.len())));
        }
        check_seconds("seconds", self.seconds)?;
        if let Some(packets) = self.packets {
            check_range("packets", packets, 1, MOST_PACKETS)?;
        }
        check_range("ring_byte", self.ring_byte.into(), 1 << 13, 1 << 30)?;
        if !self.ring_byte.is_power_of_two() {
            let (found, next) = (self.ring_byte, self.ring_byte.next_power_of_two());
            return Err(Failure::Input(format!("ring_byte: found {found}, want a power of two, as {next}")));
        }
        check_cpu(self.cpu)?;
        Ok(self)
    }

    /// What is looked for.
    pub(super) fn wanted(&self) -> Wanted {
        Wanted { ports: self.port.clone(), icmp: self.icmp, stamp: self.stamp.then_some(STAMP_PORT) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Parameters {
        Parameters { interface: Some("lo".to_owned()), ..Parameters::default() }
    }

    #[test]
    fn wrong_values_are_refused_with_what_is_wanted() {
        assert_eq!(good().resolved().expect("fine"), good());
        let refused = |parameters: Parameters, part: &str| {
            let error = parameters.resolved().expect_err(part);
            assert!(error.to_string().contains(part) && error.code() == 2, "{error}");
        };
        refused(Parameters::default(), "want one of the two");
        refused(Parameters { read: Some("x.pcap".into()), ..good() }, "found x.pcap beside interface lo");
        let file = Parameters { read: Some("x.pcap".into()), seconds: Some(1.0), ..Parameters::default() };
        refused(file, "seconds: found beside read");
        refused(Parameters { port: Vec::new(), ..good() }, "port: found an empty list");
        refused(Parameters { port: vec![0], ..good() }, "from 1 to 65535");
        refused(Parameters { port: (1..=17).collect(), ..good() }, "at most 16");
        refused(Parameters { ring_byte: 10_000, ..good() }, "a power of two, as 16384");
        refused(Parameters { ring_byte: 4_096, ..good() }, "from 8192");
        refused(Parameters { packets: Some(0), ..good() }, "packets: found 0");
    }
}
