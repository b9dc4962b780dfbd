//! `vtare shaper JOB.json --log FILE`: changes the rate of a kernel shaper in steps and notes when, for the lab
//! (docs/methods/avb-lab.md). It sleeps until a step is due and takes no CPU time between.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;
use serde_json::json;
use vtare_sys::{clocks, named_file, process};
use vtare_units::{Monotonic, Span};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::measure;
use crate::run_file::parse_document;

/// Arguments of `vtare shaper`.
#[derive(Debug, clap::Args)]
pub(crate) struct ShaperArguments {
    /// The steps, as docs/internals/contract.md describes them
    #[arg(value_name = "JOB.json")]
    job: PathBuf,
    /// Write a line for each change to this file
    #[arg(long, value_name = "FILE.jsonl")]
    log: PathBuf,
}

/// What the lab asks for.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Job {
    /// They come round again.
    steps: Vec<Step>,
}

/// A rate, the words of `tc` that set it, and how long it holds.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    bit_per_s: u64,
    duration_ns: std::num::NonZeroU64,
    words: Vec<String>,
}

/// Changes the rate until SIGTERM or SIGINT; `ready` on stderr once the first step holds.
///
/// # Errors
/// For a job that cannot be read, a log that cannot be written, and a change that the kernel refuses.
pub(crate) fn command(arguments: &ShaperArguments, context: &Context) -> Result<Exit, Failure> {
    // The lab may be killed: what it started must not stay behind.
    if !process::end_with_parent()? {
        return Err(Failure::Machine("the program that started this shaper has ended: start it again".to_owned()));
    }
    let path = &arguments.job;
    let job = parse(&measure::read(path, "job of the shaper")?).map_err(|why| measure::wrong(path, &why))?;
    let unwritable = |error: std::io::Error| {
        Failure::Input(format!("cannot write {}: {error}: choose a writable place", arguments.log.display()))
    };
    let mut log = named_file::create(&arguments.log).map_err(unwritable)?;
    let mut due = clocks::now::<Monotonic>();
    for (number, step) in job.steps.iter().cycle().enumerate() {
        let from_ns = clocks::now::<Monotonic>().as_nanos();
        change(step)?;
        let to_ns = clocks::now::<Monotonic>().as_nanos();
        let line = json!({
            "schema": "vtare.capacity/1", "bit_per_s": step.bit_per_s,
            "from_monotonic_ns": from_ns, "to_monotonic_ns": to_ns,
        });
        log.write_all(format!("{line}\n").as_bytes()).map_err(unwritable)?;
        if number == 0 {
            message!("ready");
        }
        due = due + Span::from_unsigned_nanos(step.duration_ns.get());
        while !context.stop_requested() && clocks::now::<Monotonic>() < due {
            clocks::sleep_until(due)?;
        }
        if context.stop_requested() {
            break;
        }
    }
    Ok(Exit::Measured)
}

fn parse(text: &str) -> Result<Job, String> {
    let job: Job = parse_document(text)?;
    if job.steps.is_empty() {
        return Err("steps is empty: use at least one".to_owned());
    }
    Ok(job)
}

/// Runs `tc` with the words of a step.
fn change(step: &Step) -> Result<(), Failure> {
    let shown = || format!("`tc {}`", step.words.join(" "));
    // Whoever was not logged in to by a person may lack the tools of the administrator.
    let path = std::env::var("PATH").unwrap_or_default();
    let done = Command::new("tc").args(&step.words).env("PATH", format!("{path}:/usr/sbin:/sbin")).output();
    let done = done.map_err(|error| Failure::Machine(format!("{}: {error}: install iproute2", shown())))?;
    if done.status.success() {
        return Ok(());
    }
    let why = String::from_utf8_lossy(&done.stderr);
    Err(Failure::Machine(format!("{}: {}: put the shaper on the device first, as root", shown(), why.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_without_steps_or_with_something_else_is_refused_with_the_key() {
        let step = r#"{"bit_per_s": 1000, "duration_ns": 5, "words": ["qdisc"]}"#;
        assert_eq!(parse(&format!(r#"{{"steps": [{step}, {step}]}}"#)).expect("a right job").steps.len(), 2);
        for (text, part) in [
            (r#"{"steps": []}"#.to_owned(), "steps is empty: use at least one"),
            (r#"{"steps": 3}"#.to_owned(), "steps"),
            (format!(r#"{{"steps": [{}]}}"#, step.replace('5', "0")), "duration_ns"),
        ] {
            let why = parse(&text).expect_err(&text);
            assert!(why.contains(part), "'{part}' is missing in: {why}");
        }
    }

    #[test]
    fn a_change_that_tc_refuses_ends_it_with_the_words() {
        let step = Step {
            bit_per_s: 1000,
            duration_ns: 5.try_into().expect("it is not 0"),
            words: vec!["qdisc".to_owned(), "nonsense".to_owned()],
        };
        let why = change(&step).expect_err("tc knows no such word").to_string();
        assert!(why.contains("`tc qdisc nonsense`"), "{why}");
    }
}
