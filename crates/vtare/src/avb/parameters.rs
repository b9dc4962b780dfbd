//! The parameters of `vtare avb`, and their checks.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use vtare_clock::sleep::Method as SleepMethod;
use vtare_methods::avb::{METHODS, Settings, TCP, TCP_SOURCE, TCP_SUMMARY, TcpSettings};

use crate::failure::Failure;
use crate::instrument;
use crate::nearest::instead_of;
use crate::output;
use crate::parameters;
use crate::quantities::{bytes, nanoseconds, nanoseconds_or_none, positive};
use crate::sentences::avb as words;

/// Arguments of `vtare avb`.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "The far end is `vtare serve`. All rates are those of IP packets, headers included.\n\
    Methods: `--method help` lists them with their presets; docs/methods/avb.md explains each.")]
pub(crate) struct AvbArguments {
    #[command(flatten)]
    pub(super) run: parameters::Arguments<Parameters>,

    /// One line of JSON for each estimate as it comes, instead of the table
    #[arg(long, conflicts_with = "json")]
    json_stream: bool,
}

/// Whose clock the sender goes by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ClockChoice {
    /// vtare's clock.
    #[default]
    Vtare,
    /// The system's clock_gettime(CLOCK_MONOTONIC), a call for each reading.
    Os,
}

/// The unit of a rate that another program prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
pub(crate) enum RateUnit {
    /// Bits per second.
    #[serde(rename = "bit/s")]
    #[value(name = "bit/s")]
    Bit,
    /// 1000 of them.
    #[serde(rename = "kbit/s")]
    #[value(name = "kbit/s")]
    KiloBit,
    /// 10^6 of them.
    #[default]
    #[serde(rename = "Mbit/s")]
    #[value(name = "Mbit/s")]
    MegaBit,
    /// 10^9 of them.
    #[serde(rename = "Gbit/s")]
    #[value(name = "Gbit/s")]
    GigaBit,
    /// Bytes per second.
    #[serde(rename = "B/s")]
    #[value(name = "B/s")]
    Byte,
    /// 1000 of them.
    #[serde(rename = "kB/s")]
    #[value(name = "kB/s")]
    KiloByte,
    /// 10^6 of them.
    #[serde(rename = "MB/s")]
    #[value(name = "MB/s")]
    MegaByte,
}

impl RateUnit {
    /// One of it, in bit/s.
    pub(super) const fn bit_per_s(self) -> f64 {
        match self {
            Self::Bit => 1.0,
            Self::KiloBit => 1e3,
            Self::MegaBit => 1e6,
            Self::GigaBit => 1e9,
            Self::Byte => 8.0,
            Self::KiloByte => 8e3,
            Self::MegaByte => 8e6,
        }
    }
}

/// Parameters of `avb` in run.json.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema, clap::Args)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Parameters {
    /// The far end, as 10.0.0.2, host.example:8462 or `[fd00::2]:8462`.
    #[arg(value_name = "PEER", required_unless_present = "method")]
    pub(crate) peer: String,

    /// How to estimate, as NAME or NAME:PRESET; on the command line, `help` lists them.
    #[arg(long, value_name = "METHOD")]
    pub(crate) method: String,

    /// Change a setting of the method, as KEY=VALUE; may be given more than once.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Option<Vec<String>>,

    /// With the method `program` or `program:NAME`, the program to run for each estimate and its words, to the end of
    /// the line or a word `;`; {peer} in them stands for the far end's address.
    #[arg(long, value_name = "WORD", num_args = 1.., allow_hyphen_values = true, value_terminator = ";")]
    pub(crate) command: Option<Vec<String>>,

    /// With `program`, the regular expression that finds the value in what it prints: the first group of its last
    /// match, or all of that.
    #[arg(long, value_name = "REGEX", allow_hyphen_values = true)]
    pub(crate) pattern: Option<String>,

    /// With `program`, the unit of that value: bit/s, kbit/s, Mbit/s, Gbit/s, B/s, kB/s or MB/s.
    #[arg(long, value_name = "UNIT", hide_possible_values = true)]
    pub(crate) unit: RateUnit,

    /// Measure the path from the far end to here.
    #[arg(long)]
    pub(crate) reverse: bool,

    /// Go on, with an estimate a second, until the seconds have passed or a signal comes.
    #[arg(long, conflicts_with = "estimates")]
    pub(crate) follow: bool,

    /// Estimates; without it, one, or as many as the time allows where seconds are given.
    #[arg(long = "count", value_name = "N")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub(crate) estimates: Option<u64>,

    /// Seconds to spend on the answer: estimates until then, and their median with its interval; without it, one
    /// estimate, or as many as are asked for.
    #[arg(long, value_name = "S", value_parser = positive)]
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub(crate) seconds: Option<f64>,

    /// Silence between two estimates.
    #[arg(long = "pause", value_name = "TIME", value_parser = nanoseconds_or_none)]
    #[schemars(range(min = 0, max = 3_600_000_000_000_u64))]
    pub(crate) pause_ns: u64,

    /// Probe bytes of an estimate at most, with or without unit: 500000, 500kB, 1MB; without it, what the method
    /// needs.
    #[arg(long = "max-bytes", value_name = "BYTES", value_parser = bytes)]
    #[schemars(range(min = 1))]
    pub(crate) most_byte: Option<u64>,

    /// Time of an estimate at most; without it, what the method needs.
    #[arg(long = "max-time", value_name = "TIME", value_parser = nanoseconds)]
    #[schemars(range(min = 1))]
    pub(crate) most_ns: Option<u64>,

    /// Bytes of the largest probe, as IP packet; without it, what the path carries, found out with DF set.
    #[arg(long = "size", value_name = "BYTES")]
    #[schemars(range(min = 128, max = 9_000))]
    pub(crate) size_byte: Option<u16>,

    /// Whether packets may leave as one large one (UDP_SEGMENT).
    #[arg(long = "no-gso", action = clap::ArgAction::SetFalse,
        help = "Never let packets leave as one large one; the highest rate is then that of single sends")]
    pub(crate) gso: bool,

    /// The clock of the sender: vtare, or os for the system's clock_gettime.
    #[arg(long, value_name = "CLOCK", hide_possible_values = true)]
    pub(crate) clock: ClockChoice,

    /// How the sender waits between packets: spin, adaptive, two_phase, two_phase_capped, clock_nanosleep, usleep,
    /// cheap, never_early.
    #[arg(long, value_name = "METHOD", value_parser = crate::sleep::method)]
    #[schemars(schema_with = "sleep_schema")]
    pub(crate) sleep: SleepMethod,

    /// File with the key that the far end has, too; without it, the environment's VTARE_KEY, or none.
    #[arg(long, value_name = "FILE")]
    #[schemars(with = "Option<String>")]
    pub(crate) key_file: Option<PathBuf>,

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

    /// How each estimate is shown on stdout as it comes: a matter of the command line, not of the run.
    #[arg(skip)]
    #[serde(skip)]
    pub(super) stream: Stream,
}

impl parameters::Parameters for Parameters {}

/// How estimates are shown as they come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stream {
    /// Not at all: the table comes at the end.
    #[default]
    Off,
    /// A line of JSON each, and no table.
    Json,
    /// A line for people each, before the table.
    Lines,
}

fn sleep_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let names: Vec<String> = SleepMethod::ALL.iter().map(SleepMethod::to_string).collect();
    schemars::json_schema!({"type": "string", "enum": names})
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            peer: String::new(),
            method: "abacus".to_owned(),
            set: None,
            command: None,
            pattern: None,
            unit: RateUnit::default(),
            reverse: false,
            follow: false,
            estimates: None,
            seconds: None,
            pause_ns: 100_000_000,
            most_byte: None,
            most_ns: None,
            size_byte: None,
            gso: true,
            clock: ClockChoice::default(),
            sleep: SleepMethod::Spin,
            key_file: None,
            cpu: None,
            fifo: None,
            dma_latency_ns: None,
            stream: Stream::Off,
        }
    }
}

impl AvbArguments {
    /// Whether the list of methods is asked for.
    pub(super) fn wants_list(&self) -> bool {
        self.run.parameters.method == "help"
    }

    /// The parameters of this command line.
    pub(super) fn parameters(&self) -> Parameters {
        let parameters = self.run.parameters.clone();
        let stream = match (self.json_stream, parameters.follow && !self.run.common.json) {
            (true, _) => Stream::Json,
            (false, true) => Stream::Lines,
            (false, false) => Stream::Off,
        };
        Parameters { stream, ..parameters }
    }
}

impl Parameters {
    /// Checks what can be checked without the peer.
    ///
    /// # Errors
    /// [`Failure::Input`] with the value and what to use instead.
    pub(super) fn resolved(self) -> Result<Self, Failure> {
        if self.peer.is_empty() {
            return Err(Failure::value("peer", "missing", "a host that runs `vtare serve`"));
        }
        parameters::check_bounds(&self)?;
        instrument::check_cpu(self.cpu)?;
        instrument::check_seconds("seconds", self.seconds)?;
        if self.is_program() {
            return Ok(self);
        }
        if let Some(name) = self.given_of_program() {
            return Err(Failure::Input(format!(
                "{name} belongs to method program, not to {}: use --method program, or leave {name} out",
                self.method
            )));
        }
        if self.is_tcp() {
            self.tcp_settings()?;
        } else {
            self.settings()?;
        }
        Ok(self)
    }

    /// Estimates to make; `None`: as many as the time allows.
    pub(super) fn wanted(&self) -> Option<u64> {
        match (self.estimates, self.seconds) {
            (Some(estimates), _) => Some(estimates),
            (None, Some(_)) => None,
            (None, None) if self.follow => None,
            (None, None) => Some(1),
        }
    }

    /// The method's settings: those of its name, with what `set` changes.
    ///
    /// # Errors
    /// [`Failure::Input`] for a method or a setting that does not exist or cannot be.
    pub(super) fn settings(&self) -> Result<Settings, Failure> {
        let named = Settings::named(&self.method).map_err(|error| {
            if error.what != "method" {
                return Failure::Input(error.to_string());
            }
            let names: Vec<&str> = METHODS.iter().map(|entry| entry.name).chain([TCP, PROGRAM]).collect();
            Failure::Input(format!("method is {}{}", error.found, instead_of(&error.found, &names)))
        })?;
        self.changed(&named)
    }

    /// Whether the method is another program's.
    pub(super) fn is_program(&self) -> bool {
        self.method == PROGRAM || self.method.strip_prefix(PROGRAM).is_some_and(|name| name.starts_with(':'))
    }

    /// The first parameter given that is for other programs alone.
    fn given_of_program(&self) -> Option<&'static str> {
        let given = [("command", self.command.is_some()), ("pattern", self.pattern.is_some())];
        given.into_iter().find_map(|(name, given)| given.then_some(name))
    }

    /// Whether the method is `tcp`, which sends no trains.
    pub(super) fn is_tcp(&self) -> bool {
        self.method == TCP
    }

    /// The settings of `tcp`, with what `set` changes.
    ///
    /// # Errors
    /// As [`Parameters::settings`], and for what this method cannot do.
    pub(super) fn tcp_settings(&self) -> Result<TcpSettings, Failure> {
        let settings: TcpSettings = self.changed(&TcpSettings::default())?;
        settings.check().map_err(|error| Failure::Input(format!("set: {error}")))?;
        let wrong = |text: &str| Err(Failure::Input(format!("method tcp: {text}")));
        if self.reverse {
            return wrong("reverse: the far end sends no more than it got: run vtare there, and vtare serve here");
        }
        if self.size_byte.is_some() {
            return wrong("size_byte: the kernel chooses the size of its segments: leave it out");
        }
        if self.most_ns.is_some_and(|most| most as f64 / 1e9 <= settings.omit_s) {
            return wrong("most_ns (--max-time) is not above omit_s, which is left out: raise it, or --set omit_s=0");
        }
        Ok(settings)
    }

    /// What was asked for that changes nothing for `tcp`, in words; `None`: nothing of the kind.
    pub(super) fn of_no_effect_on_tcp(&self) -> Option<String> {
        let default = Self::default();
        let asked = [
            ("clock", self.clock != default.clock),
            ("sleep", self.sleep != default.sleep),
            ("gso (--no-gso)", self.gso != default.gso),
        ];
        let named: Vec<&str> = asked.into_iter().filter(|(_, asked)| *asked).map(|(name, _)| name).collect();
        (!named.is_empty()).then(|| words::no_effect_on_tcp(named.join(", ")))
    }

    /// Settings with what `set` changes.
    fn changed<T: Serialize + DeserializeOwned>(&self, named: &T) -> Result<T, Failure> {
        let mut fields = output::to_json(named);
        if self.follow && fields.get("follow_ns").is_some() {
            fields["follow_ns"] = FOLLOW_NS.into();
        }
        for change in self.set.iter().flatten() {
            let Some((key, value)) = change.split_once('=') else {
                return Err(Failure::value("set", format_args!("'{change}'"), "KEY=VALUE"));
            };
            let keys = fields.as_object().into_iter().flat_map(|fields| fields.keys());
            let known: Vec<&str> = keys.map(String::as_str).filter(|key| *key != "method").collect();
            if !known.contains(&key) {
                let instead = if known.is_empty() { ": it has none".to_owned() } else { instead_of(key, &known) };
                return Err(Failure::Input(format!("set: '{key}' is no setting of {}{instead}", self.method)));
            }
            fields[key] = serde_json::from_str(value).unwrap_or_else(|_| value.into());
        }
        serde_json::from_value(fields)
            .map_err(|error| Failure::Input(format!("set: {error}: `vtare avb --method help` shows the settings")))
    }
}

/// The method that runs another program.
const PROGRAM: &str = "program";

/// Time from one estimate to the next where changes are followed, ns.
pub(super) const FOLLOW_NS: u64 = 1_000_000_000;

/// All methods, their presets and settings, for people.
pub(super) fn list() -> String {
    let mut text = String::new();
    for entry in METHODS {
        text.push_str(&format!("{:<10} {}\n{:<10} source: {}\n", entry.name, entry.summary, "", entry.source));
        for preset in entry.presets {
            text.push_str(&format!("{:<10} {}:{} ({})\n", "", entry.name, preset.name, preset.source));
        }
        let settings = output::to_json(&(entry.default)());
        let fields = settings.as_object().into_iter().flatten().filter(|(key, _)| *key != "method");
        let shown: Vec<String> = fields.map(|(key, value)| format!("{key}={value}")).collect();
        if !shown.is_empty() {
            text.push_str(&format!("{:<10} settings: {}\n", "", shown.join(" ")));
        }
    }
    text.push_str(&format!("{TCP:<10} {TCP_SUMMARY}\n{:<10} source: {TCP_SOURCE}\n", ""));
    let settings = output::to_json(&TcpSettings::default());
    let shown: Vec<String> =
        settings.as_object().into_iter().flatten().map(|(key, value)| format!("{key}={value}")).collect();
    text.push_str(&format!("{:<10} settings: {}\n", "", shown.join(" ")));
    text.push_str(&format!(
        "{PROGRAM:<10} another program's estimates, read from what it prints: --command, --pattern, --unit\n\
         {:<10} source: the program\n",
        ""
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(change: impl FnOnce(&mut Parameters)) -> Result<Parameters, Failure> {
        let mut parameters = Parameters { peer: "10.0.0.2".to_owned(), ..Parameters::default() };
        change(&mut parameters);
        parameters.resolved()
    }

    #[test]
    fn the_list_has_every_setting_of_every_method_with_its_default() {
        let text = list();
        let of = |name: &str| {
            let start = format!("{name:<10} ");
            let rest = text.split_inclusive('\n').skip_while(|line| !line.starts_with(&start));
            rest.enumerate().take_while(|(at, line)| *at == 0 || line.starts_with(' ')).map(|(_, line)| line).collect()
        };
        let methods = METHODS.iter().map(|entry| (entry.name, output::to_json(&(entry.default)())));
        for (name, settings) in methods.chain([(TCP, output::to_json(&TcpSettings::default()))]) {
            let block: String = of(name);
            let fields = settings.as_object().into_iter().flatten().filter(|(key, _)| *key != "method");
            let missing: Vec<_> = fields.filter(|(key, value)| !block.contains(&format!(" {key}={value}"))).collect();
            assert!(missing.is_empty() && !block.is_empty(), "{name}: {missing:?} in {block}");
        }
    }

    #[test]
    fn a_wrong_setting_is_refused_with_those_that_exist() {
        let error = with(|it| it.set = Some(vec!["widht=1".to_owned()])).expect_err("misspelt").to_string();
        assert!(error.contains("'widht'") && error.contains("interval_share"), "{error}");
        let error = with(|it| it.set = Some(vec!["interval_share=wide".to_owned()])).expect_err("a word").to_string();
        assert!(error.contains("wide"), "{error}");
        assert!(with(|it| it.set = Some(vec!["interval_share=0.1".to_owned()])).is_ok());
    }

    #[test]
    fn an_unknown_method_is_refused_with_those_that_exist() {
        let error = with(|it| it.method = "yazz".to_owned()).expect_err("unknown").to_string();
        assert!(error.contains("yazz") && error.contains("abacus"), "{error}");
    }

    #[test]
    fn the_own_method_is_found_under_its_former_name_and_its_preset() {
        for name in ["vtare", "vtare:thorough", "abacus", "abacus:thorough"] {
            assert!(with(|it| it.method = name.to_owned()).is_ok(), "{name}");
        }
    }

    #[test]
    fn tcp_has_settings_of_its_own_and_states_what_it_cannot_do() {
        let tcp = |change: fn(&mut Parameters)| {
            with(|it| {
                it.method = "tcp".to_owned();
                change(it);
            })
            .map_err(|error| error.to_string())
        };
        let set = |text: &str| Some(vec![text.to_owned()]);
        let good = with(|it| (it.method, it.set) = ("tcp".to_owned(), set("congestion=bbr"))).expect("good");
        assert_eq!(good.tcp_settings().expect("good").congestion, "bbr");
        for (found, wanted) in [
            (tcp(|it| it.set = Some(vec!["widht=1".to_owned()])), "use one of congestion, omit_s, seconds, streams"),
            (tcp(|it| it.set = Some(vec!["omit_s=11".to_owned()])), "less than the 10 seconds"),
            (tcp(|it| it.set = Some(vec!["streams=0".to_owned()])), "1 or more"),
            (tcp(|it| it.reverse = true), "run vtare there"),
            (tcp(|it| it.size_byte = Some(1_000)), "the kernel chooses"),
            (tcp(|it| it.most_ns = Some(1_000_000_000)), "omit_s=0"),
        ] {
            let error = found.expect_err(wanted);
            assert!(error.contains(wanted), "{error}");
        }
        let kept = with(|it| (it.method, it.clock, it.gso) = ("tcp".to_owned(), ClockChoice::Os, false)).expect("good");
        assert!(kept.of_no_effect_on_tcp().is_some_and(|text| text.contains("clock, gso")));
        assert_eq!(good.of_no_effect_on_tcp(), None);
        assert!(list().contains("tcp        what the kernel's TCP") && list().contains("omit_s=1.0"), "{}", list());
    }

    #[test]
    fn one_estimate_unless_more_is_asked_for() {
        assert_eq!(with(|_| ()).expect("good").wanted(), Some(1));
        assert_eq!(with(|it| it.seconds = Some(3.0)).expect("good").wanted(), None);
        assert_eq!(with(|it| it.follow = true).expect("good").wanted(), None);
    }

    #[test]
    fn following_reaches_the_methods_that_can() {
        let parameters = with(|it| it.follow = true).expect("good");
        let fields = output::to_json(&parameters.settings().expect("good"));
        assert_eq!(fields["follow_ns"], FOLLOW_NS);
    }
}
