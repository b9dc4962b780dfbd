//! The engine whose sender and receiver are programs in the kernel (docs/internals/xdp.md).

use std::net::SocketAddr;

use vtare_control::client::OpenedSession;
use vtare_link::rate::Carrier;
use vtare_link::xdp::XdpError;
use vtare_link::xdp::probe::{Target, XdpProbe};
use vtare_probe::link::Refusal;
use vtare_wire::Form;
use vtare_wire::session::WireForm;

use super::parameters::{Engine, Parameters};
use crate::failure::Failure;

/// Makes the programs ready where they are asked for or best; else gives the reason, where they would have been.
///
/// # Errors
/// [`Failure::Machine`] where they were asked for and are not available.
pub(super) fn open(
    parameters: &Parameters,
    peer: SocketAddr,
    session: Option<&OpenedSession>,
) -> Result<(Option<XdpProbe>, Option<Refusal>), Failure> {
    let asked = parameters.engine == Engine::Xdp;
    let best = parameters.engine == Engine::Auto
        && parameters.beyond_programs().is_none()
        && parameters.policy().carrier == Carrier::Programs;
    let Some(session) = session.filter(|_| asked || best) else { return Ok((None, None)) };
    let because = if asked {
        "asked for with --engine xdp".to_owned()
    } else {
        format!("{:.0} packets a second are more than sockets of any kind carry", parameters.rate())
    };
    match target(parameters, peer, session).and_then(|target| XdpProbe::open(&target, because)) {
        Ok(programs) => Ok((Some(programs), None)),
        Err(error) if asked => Err(Failure::Machine(format!("engine xdp: {error}"))),
        Err(error) => Ok((None, Some(Refusal { wanted: "xdp".to_owned(), reason: error.to_string() }))),
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
