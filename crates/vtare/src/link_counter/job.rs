//! What the lab asks the link counter for. Pure but for reading the file.

use std::net::Ipv4Addr;
use std::path::Path;

use serde::Deserialize;

use crate::failure::{Failure, bad_value};
use crate::measure;
use crate::run_file::parse_document;

/// Lengths of a bin, ns. The ring holds 2^20 bins, 10 s at least; a count has 32 bits, enough for 3 Tbit/s.
const BIN_NS: std::ops::RangeInclusive<u64> = 10_000..=10_000_000;

/// The whole job.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Job {
    pub(super) taps: Taps,
    pub(super) bin_ns: u64,
}

/// What is counted: one of them at least, as a link may have its ends on two machines.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Taps {
    pub(super) came: Option<Tap>,
    pub(super) cross: Option<Tap>,
    pub(super) left: Option<Tap>,
}

/// What comes in at an interface: all of it, or only what goes to a port, or from one address to another.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tap {
    /// A network namespace, as `ip netns` names it; the counter's own where there is none.
    #[serde(default)]
    pub(super) namespace: Option<String>,
    pub(super) device: String,
    #[serde(default)]
    pub(super) port: Option<std::num::NonZeroU16>,
    /// The sender and the receiver of what is counted alone.
    #[serde(default)]
    pub(super) between: Option<[Ipv4Addr; 2]>,
}

/// Reads a job.
///
/// # Errors
/// [`Failure::Input`] with the file, the key, what was found there and what is wanted.
pub(super) fn read(path: &Path) -> Result<Job, Failure> {
    parse(&measure::read(path, "job of the link counter")?).map_err(|why| measure::wrong(path, &why))
}

fn parse(text: &str) -> Result<Job, String> {
    let job: Job = parse_document(text)?;
    if !BIN_NS.contains(&job.bin_ns) {
        return Err(bad_value("bin_ns", job.bin_ns, format_args!("{} to {}", BIN_NS.start(), BIN_NS.end())));
    }
    let taps = [("came", &job.taps.came), ("cross", &job.taps.cross), ("left", &job.taps.left)];
    if taps.iter().all(|(_, tap)| tap.is_none()) {
        return Err("taps is empty: use at least one of came, cross and left".to_owned());
    }
    for (name, tap) in taps {
        // It becomes the name of a file under /run/netns.
        let namespace = tap.as_ref().and_then(|tap| tap.namespace.as_deref());
        if namespace.is_some_and(|it| it.is_empty() || it.starts_with('.') || it.contains(['/', '\0'])) {
            return Err(format!("taps.{name}.namespace is {namespace:?}: use a name of `ip netns`"));
        }
    }
    Ok(job)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(key: &str, value: &str) -> String {
        let tap = r#"{"namespace": "vtare-r", "device": "in0"}"#;
        let usual = [("came", tap), ("cross", tap), ("left", tap), ("bin_ns", "50000")];
        let [came, cross, left, bin_ns] = usual.map(|(name, usual)| if name == key { value } else { usual });
        format!(r#"{{"taps": {{"came": {came}, "cross": {cross}, "left": {left}}}, "bin_ns": {bin_ns}}}"#)
    }

    #[test]
    fn a_job_is_read_and_a_port_may_be_missing_or_null() {
        let with_port = r#"{"namespace": "vtare-r", "device": "in0", "port": 5001}"#;
        let read = parse(&job("cross", with_port)).expect("a right job");
        let port = |tap: Option<Tap>| tap.expect("it is in the job").port.map(u16::from);
        assert_eq!((read.bin_ns, port(read.taps.came), port(read.taps.cross)), (50_000, None, Some(5001)));
        assert!(parse(&job("left", r#"{"namespace": "vtare-r", "device": "in0", "port": null}"#)).is_ok());
    }

    #[test]
    fn one_end_of_a_link_alone_is_counted_where_the_counter_itself_is() {
        let read =
            parse(r#"{"taps": {"left": {"device": "eth0", "between": ["10.0.0.1", "10.0.0.2"]}}, "bin_ns": 50000}"#)
                .expect("a right job");
        assert!(read.taps.came.is_none() && read.taps.cross.is_none());
        let left = read.taps.left.expect("it is in the job");
        assert_eq!(left.namespace, None);
        assert_eq!(left.between, Some([Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)]));
        let why = parse(r#"{"taps": {}, "bin_ns": 50000}"#).expect_err("nothing to count");
        assert!(why.contains("taps is empty: use at least one"), "{why}");
    }

    #[test]
    fn what_is_wrong_with_a_job_is_named() {
        let outside = r#"{"namespace": "../self/ns/net", "device": "in0"}"#;
        for (key, value, parts) in [
            ("bin_ns", "0", ["bin_ns", "is 0", "10000"]),
            ("bin_ns", "10000001", ["bin_ns", "is 10000001", "10000000"]),
            ("bin_ns", "\"x\"", ["bin_ns", "\"x\"", "u64"]),
            ("cross", outside, ["taps.cross.namespace", "../self/ns/net", "ip netns"]),
            ("left", "{}", ["taps.left", "missing", "device"]),
            ("came", r#"{"namespace": "a", "device": "b", "port": 0}"#, ["taps.came.port", "0", "nonzero"]),
            ("came", r#"{"namespace": "a", "device": "b", "side": 0}"#, ["taps.came.side", "unknown", "side"]),
        ] {
            let why = parse(&job(key, value)).expect_err(value);
            for part in parts {
                assert!(why.contains(part), "'{part}' is missing in: {why}");
            }
        }
    }
}
