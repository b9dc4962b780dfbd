//! The parameters of `vtare capture`, and their checks.

use std::path::PathBuf;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vtare_capture::probe::{STAMP_PORT, Wanted};
use vtare_wire::DEFAULT_PORT;

use crate::failure::Failure;
use crate::instrument::{check_cpu, check_list, check_seconds};
use crate::parameters;
use crate::quantities::positive;

/// What captures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Hook {
    /// tc where the kernel has it, else packet
    #[default]
    Auto,
    /// Programs at the entry and exit of the interface (Linux 6.6; CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON)
    Tc,
    /// An AF_PACKET ring, as tcpdump uses (CAP_NET_RAW)
    Packet,
}

/// Parameters of `capture` in run.json.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema, clap::Args)]
#[command(group = clap::ArgGroup::new("from").required(true))]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Parameters {
    /// The interface of this host, or of this network namespace, whose probes are captured.
    #[arg(value_name = "IFACE", group = "from")]
    pub(crate) interface: Option<String>,

    /// Read a pcap or pcapng file instead, as tcpdump -w writes.
    #[arg(long, value_name = "FILE", group = "from", conflicts_with_all = ["hook", "seconds", "cpu", "ring_byte"])]
    #[schemars(with = "Option<String>")]
    pub(crate) read: Option<PathBuf>,

    /// What captures.
    #[arg(long, value_enum)]
    pub(crate) hook: Hook,

    /// UDP ports of the far ends (vtare serve); may be given more than once.
    #[arg(long, value_name = "PORT")]
    #[schemars(length(min = 1, max = 16), inner(range(min = 1)))]
    pub(crate) port: Vec<u16>,

    /// Capture ICMP and ICMPv6 echo, too.
    #[arg(long)]
    pub(crate) icmp: bool,

    /// Capture STAMP on UDP port 862, too.
    #[arg(long)]
    pub(crate) stamp: bool,

    /// End after this number of seconds; without it, on SIGTERM or SIGINT, which is then the ordinary end.
    #[arg(long, value_name = "S", value_parser = positive)]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub(crate) seconds: Option<f64>,

    /// End after this number of probes; without it, no such end.
    #[arg(long = "count", value_name = "N")]
    #[schemars(range(min = 1, max = 3_600_000_000_u64))]
    pub(crate) packets: Option<u64>,

    /// Memory between kernel and program: a power of two from 8192 to 1 GiB; a probe takes about 100 B (tc) or 200 B
    /// (packet).
    #[arg(long = "ring-byte", value_name = "BYTES")]
    #[schemars(range(min = 8_192, max = 1_073_741_824))]
    pub(crate) ring_byte: u32,

    /// Run on this CPU only; without it, the scheduler chooses.
    #[arg(long, value_name = "CPU")]
    pub(crate) cpu: Option<usize>,
}

impl parameters::Parameters for Parameters {}

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

/// Neither an interface nor a file.
pub(super) fn nothing_named() -> Failure {
    Failure::Input("interface and read are missing: use one of the two".to_owned())
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
                return Err(Failure::Input(format!("read is {file} and interface is {interface}: use one of the two")));
            }
            _ => {}
        }
        if self.read.is_some() {
            let found =
                [("hook", self.hook != Hook::Auto), ("seconds", self.seconds.is_some()), ("cpu", self.cpu.is_some())];
            if let Some((key, _)) = found.iter().find(|(_, given)| *given) {
                return Err(Failure::Input(format!("{key} belongs to interface, not to read: leave it out")));
            }
        }
        parameters::check_bounds(&self)?;
        check_list("port", &self.port)?;
        check_seconds("seconds", self.seconds)?;
        if !self.ring_byte.is_power_of_two() {
            let (found, next) = (self.ring_byte, self.ring_byte.next_power_of_two());
            return Err(Failure::value("ring_byte", found, format_args!("a power of two, such as {next}")));
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
        refused(Parameters::default(), "use one of the two");
        refused(Parameters { read: Some("x.pcap".into()), ..good() }, "read is x.pcap and interface is lo");
        let file = Parameters { read: Some("x.pcap".into()), seconds: Some(1.0), ..Parameters::default() };
        refused(file, "seconds belongs to interface, not to read");
        refused(Parameters { port: Vec::new(), ..good() }, "port is an empty list: use ");
        refused(Parameters { port: vec![0], ..good() }, "is 0: use a whole number from 1 to 65535");
        refused(Parameters { port: (1..=17).collect(), ..good() }, "use 16 or fewer");
        refused(Parameters { ring_byte: 10_000, ..good() }, "a power of two, such as 16384");
        refused(Parameters { ring_byte: 4_096, ..good() }, "from 8192");
        refused(Parameters { packets: Some(0), ..good() }, "packets (--count) is 0: use ");
    }
}
