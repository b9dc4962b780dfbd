//! Sends by programs in the kernel, and takes down what they did.

use std::sync::atomic::Ordering;

use vtare_link::xdp::probe::{Plan, XdpProbe};
use vtare_probe::link::LocalDrops;
use vtare_probe::schedule::Pattern;

use super::codec::Codec;
use super::conditions;
use super::log::Log;
use super::observer::Recorder;
use super::parameters::Parameters;
use super::peer::PeerLink;
use super::sending::{LEAD_IN_NS, SendingEnded};
use crate::context::Context;
use crate::failure::Failure;

/// Runs the programs, and takes down what they did.
pub(super) fn send<'c>(
    parameters: &Parameters,
    mut programs: XdpProbe,
    links: Vec<PeerLink<'c>>,
    codecs: &[Codec],
    log: Log,
    context: &Context,
) -> Result<SendingEnded<'c>, Failure> {
    let stop = context.stop_flag();
    let Pattern::Constant { pace } = parameters.schedule(1, 0).pattern else {
        return Err(Failure::Input("engine xdp cannot send with poisson: use --engine socket".to_owned()));
    };
    let plan = Plan {
        pace,
        packets: parameters.planned(),
        lead_in_ns: LEAD_IN_NS,
        catch_up_ns: parameters.catch_up_ns(),
        linger_ns: parameters.timeout_ns(),
        batch: parameters.policy().together,
    };
    let mut recorder = Recorder::new(codecs, std::rc::Rc::default(), log, &stop, Some(plan.packets));
    let (mut notes, mut stopped) = (Vec::new(), false);
    let requested = std::cell::Cell::new(false);
    let prepare = || {
        notes = conditions::take(parameters.cpu, parameters.fifo, !parameters.blocking)?;
        Ok::<(), Failure>(())
    };
    let wants_stop = || {
        requested.set(requested.get() || stop.load(Ordering::Relaxed));
        requested.get()
    };
    let ended = programs
        .run(&plan, prepare, &wants_stop, &mut |event| recorder.observe(&event))
        .map_err(|error| Failure::Machine(error.to_string()))??;
    stopped |= requested.get();
    recorder.finish(ended.ended);
    let elapsed = ended.ended - ended.started;
    let drops = LocalDrops { receive_buffer: Some(ended.overrun), foreign: ended.foreign, ..LocalDrops::default() };
    Ok(SendingEnded {
        foreign: vec![ended.foreign],
        last_replies: Vec::new(),
        handed_ahead_ns: None,
        stopped,
        notes,
        failed: ended.failed.map(|error| error.to_string()),
        elapsed_ns: elapsed.as_nanos_unsigned(),
        cpu_fraction: (elapsed.as_nanos() > 0).then(|| ended.cpu.as_nanos() as f64 / elapsed.as_nanos() as f64),
        involuntary_switches: ended.involuntary_switches,
        in_kernel: Some((programs.facts().clone(), drops)),
        links,
    })
}
