//! Far ends that run `vtare serve`: their names, their key, and what their refusals mean to a user.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::Path;

use vtare_control::PresharedKey;
use vtare_control::client::ControlError;
use vtare_probe::link::LinkError;
use vtare_units::Span;
use vtare_wire::session::ClientError;

use crate::failure::Failure;

/// How long the far end may take for one answer on the control connection.
pub(crate) const PATIENCE: Span = Span::from_secs(5);

/// This program as it names itself to far ends.
pub(crate) const PROGRAM: &str = concat!("vtare ", env!("CARGO_PKG_VERSION"));

/// The address of `name`, with `port` where it names none.
///
/// # Errors
/// [`Failure::Input`] where it has no address.
pub(crate) fn resolve(name: &str, port: u16) -> Result<SocketAddr, Failure> {
    // An address without port first: an IPv6 one has colons, too.
    if let Ok(ip) = name.trim_matches(['[', ']']).parse() {
        return Ok(SocketAddr::new(ip, port));
    }
    let has_port = name.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let full = if has_port { name.to_owned() } else { format!("{name}:{port}") };
    let wanted = |why: String| {
        Failure::Input(format!(
            "peer: found '{name}', {why}; expected an address or a name, as 10.0.0.2, host.example:{port} or \
             [fd00::2]:{port}"
        ))
    };
    if !has_port
        && name.rsplit_once(':').is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()))
    {
        return Err(wanted("whose port is above 65535".to_owned()));
    }
    let mut found = full.to_socket_addrs().map_err(|error| wanted(error.to_string()))?;
    found.next().ok_or_else(|| wanted("which has no address".to_owned()))
}

/// The key of this run: the file's, else the environment's, else none.
///
/// # Errors
/// [`Failure::Input`] where the key cannot be read.
pub(crate) fn key(key_file: Option<&Path>) -> Result<Option<PresharedKey>, Failure> {
    let wrong = |error: vtare_control::KeyError| Failure::Input(error.to_string());
    if let Some(path) = key_file {
        return PresharedKey::read(path).map(Some).map_err(wrong);
    }
    match std::env::var("VTARE_KEY") {
        Ok(text) => PresharedKey::parse("VTARE_KEY", &text).map(Some).map_err(wrong),
        Err(_) => Ok(None),
    }
}

/// What an error on the control connection is to the user: a wrong input, or a peer that does not answer.
pub(crate) fn control_failure(error: &ControlError) -> Failure {
    match error {
        ControlError::Session(ClientError::Refused(_))
        | ControlError::NeedsKey { .. }
        | ControlError::HasNoKey { .. }
        | ControlError::WrongKey { .. }
        | ControlError::Version { .. } => Failure::Input(error.to_string()),
        _ => Failure::Peer(error.to_string()),
    }
}

/// What an error of a link to the peer called `name` is to the user: without a route to it, the same as
/// [`control_failure`] gives.
pub(crate) fn link_failure(name: &str, error: &LinkError) -> Failure {
    match error {
        LinkError::Unreachable { .. } => Failure::Peer(error.to_string()),
        _ => Failure::Machine(format!("{name}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_without_port_gets_the_usual_one() {
        let of = |name, port| resolve(name, port).map(|address| address.to_string());
        assert_eq!(of("10.0.0.2", 8462).expect("an address"), "10.0.0.2:8462");
        assert_eq!(of("10.0.0.2:9", 8462).expect("an address"), "10.0.0.2:9");
        assert_eq!(of("fd00::2", 862).expect("an address"), "[fd00::2]:862");
        let error = of("127.0.0.1:99999", 8462).expect_err("no such port");
        assert!(error.to_string().contains("found '127.0.0.1:99999', whose port is above 65535; expected"), "{error}");
        assert_eq!(of("[fd00::2]:9", 862).expect("an address"), "[fd00::2]:9");
    }

    #[test]
    fn a_name_that_is_none_is_refused_with_the_form_wanted() {
        let error = resolve("no such name", 8462).expect_err("has blanks").to_string();
        assert!(error.contains("'no such name'") && error.contains("host.example"), "{error}");
    }
}
