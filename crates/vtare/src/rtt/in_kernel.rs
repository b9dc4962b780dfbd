//! The engine whose sender and receiver are programs in the kernel (docs/xdp.md).

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use vtare_control::client::OpenedSession;
use vtare_link::xdp::XdpError;
use vtare_link::xdp::probe::{Plan, Target, XdpProbe};
use vtare_probe::link::{LocalDrops, Refusal};
use vtare_probe::schedule::Pattern;
use vtare_wire::Form;
use vtare_wire::session::WireForm;

use super::codec::Codec;
use super::log::Log;
use super::observer::Recorder;
use super::parameters::{Engine, Parameters};
use super::peer::PeerLink;
use super::{LEAD_IN_NS, Sent, conditions};
use crate::context::Context;
use crate::failure::Failure;

/// Above this rate programs are chosen by `auto`: sockets of one thread end not far above it.
pub(super) const CHOSEN_ABOVE_PACKET_PER_S: f64 = 200_000.0;
/// Up to this rate each frame leaves at once; above, the price of a departure is shared by several.
const SINGLE_UP_TO_PACKET_PER_S: f64 = 600_000.0;
/// Frames that leave together above that.
const BATCH: u32 = 2;

/// Makes the programs ready where they are asked for or best; else gives the reason, where they would have been.
///
/// # Errors
/// [`Failure::Machine`] where they were asked for and cannot be had.
pub(super) fn open(
    parameters: &Parameters,
    peer: SocketAddr,
    session: Option<&OpenedSession>,
) -> Result<(Option<XdpProbe>, Option<Refusal>), Failure> {
    let asked = parameters.engine == Engine::Xdp;
    let best = parameters.engine == Engine::Auto
        && parameters.beyond_programs().is_none()
        && parameters.rate() > CHOSEN_ABOVE_PACKET_PER_S;
    let Some(session) = session.filter(|_| asked || best) else { return Ok((None, None)) };
    let because = if asked {
        "asked for with --engine xdp".to_owned()
    } else {
        format!("{:.0} packets a second are more than sockets of any kind carry", parameters.rate())
    };
    match target(parameters, peer, session).and_then(|target| XdpProbe::open(&target, because)) {
        Ok(programs) => Ok((Some(programs), None)),
        Err(error) if asked => Err(Failure::Machine(format!("engine xdp: {error}"))),
        Err(error) => Ok((None, Some(Refusal { wanted: "xdp".to_owned(), said: error.to_string() }))),
    }
}

fn target(parameters: &Parameters, peer: SocketAddr, session: &OpenedSession) -> Result<Target, XdpError> {
    let (SocketAddr::V4(peer), SocketAddr::V4(local)) = (peer, session.local_address()) else {
        return Err(XdpError::Unfit(format!("{peer}: kernel programs send over IPv4 only")));
    };
    let grant = session.grant();
    Ok(Target {
        peer,
        local: *local.ip(),
        size_byte: parameters.size_byte,
        form: match grant.open.form {
            WireForm::Full => Form::Full,
            WireForm::Short => Form::Short,
        },
        session: grant.session,
        handle: grant.handle,
        key: grant.key.clone(),
        rate_packet_per_s: parameters.rate() as u64,
    })
}

/// Runs the programs, and takes down what they did.
pub(super) fn send<'c>(
    parameters: &Parameters,
    mut programs: XdpProbe,
    links: Vec<PeerLink<'c>>,
    codecs: &[Codec],
    log: Log,
    context: &Context,
) -> Result<Sent<'c>, Failure> {
    let stop = context.stop_flag();
    let Pattern::Constant { pace } = parameters.schedule(1, 0).pattern else {
        return Err(Failure::Input("engine: found xdp with poisson, want --engine socket for that".to_owned()));
    };
    let plan = Plan {
        pace,
        packets: parameters.planned(),
        lead_in_ns: LEAD_IN_NS,
        catch_up_ns: parameters.catch_up_ns(),
        linger_ns: parameters.timeout_ns(),
        batch: if parameters.rate() > SINGLE_UP_TO_PACKET_PER_S { BATCH } else { 1 },
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
    Ok(Sent {
        foreign: vec![ended.foreign],
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
