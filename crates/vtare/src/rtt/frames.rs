//! The engine that makes frames of its own and shares memory with the kernel (AF_XDP; docs/internals/xdp.md).

use std::net::SocketAddr;

use vtare_clock::Clock;
use vtare_control::client::OpenedSession;
use vtare_link::Wait;
use vtare_link::af_xdp::{AfXdpLink, AfXdpOptions};
use vtare_link::rate::Carrier;
use vtare_link::socket::SocketOptions;
use vtare_link::xdp::XdpError;
use vtare_probe::link::Refusal;

use super::parameters::{Engine, Parameters};
use crate::failure::Failure;

/// Opens a link where this engine is asked for or best; else gives the reason, where it would have been.
///
/// # Errors
/// [`Failure::Machine`] where it was asked for and is not available.
pub(super) fn open<'c>(
    clock: &'c Clock,
    parameters: &Parameters,
    peer: SocketAddr,
    session: Option<&OpenedSession>,
) -> Result<(Option<AfXdpLink<'c>>, Option<Refusal>), Failure> {
    let asked = parameters.engine == Engine::AfXdp;
    let best = parameters.engine == Engine::Auto
        && parameters.beyond_frames().is_none()
        && parameters.policy().carrier == Carrier::Frames;
    let Some(session) = session.filter(|_| asked || best) else { return Ok((None, None)) };
    let because = if asked {
        "asked for with --engine af_xdp".to_owned()
    } else {
        format!("at {:.0} packets a second it holds gaps that UDP sockets do not, and adds less", parameters.rate())
    };
    let opened = options(parameters, peer, session).and_then(|options| AfXdpLink::open(clock, &options, because));
    match opened {
        Ok(link) => Ok((Some(link), None)),
        Err(error) if asked => Err(Failure::Machine(format!("engine af_xdp: {error}"))),
        Err(error) => Ok((None, Some(Refusal { wanted: "af_xdp".to_owned(), reason: error.to_string() }))),
    }
}

fn options(parameters: &Parameters, peer: SocketAddr, session: &OpenedSession) -> Result<AfXdpOptions, XdpError> {
    let (SocketAddr::V4(peer), SocketAddr::V4(local)) = (peer, session.local_address()) else {
        return Err(XdpError::Unfit(format!("{peer}: frames are made for IPv4 only")));
    };
    Ok(AfXdpOptions {
        peer,
        local: *local.ip(),
        largest_byte: parameters.size_byte,
        wait: if parameters.blocking { Wait::Block } else { Wait::Spin },
        gap_ns: SocketOptions::default().gap_ns,
    })
}
