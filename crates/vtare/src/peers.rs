//! Far ends that run `vtare serve`: their names, their key, and what their refusals mean to a user.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpStream, ToSocketAddrs, UdpSocket};
use std::path::Path;
use std::time::Duration;

use vtare_control::PresharedKey;
use vtare_control::client::ControlError;
use vtare_probe::link::LinkError;
use vtare_sys::net::interface::{self, Interface};
use vtare_units::Span;
use vtare_wire::session::ClientError;

use crate::failure::Failure;

/// How long the far end may take for one answer on the control connection.
pub(crate) const PATIENCE: Span = Span::from_secs(5);

/// How long a host may take to refuse a datagram.
const REFUSAL_PATIENCE: Duration = Duration::from_millis(200);

/// This program as it names itself to far ends.
pub(crate) const PROGRAM: &str = concat!("vtare ", env!("CARGO_PKG_VERSION"));

/// The addresses of `name`, in the order to try them, with `port` where it names none.
///
/// # Errors
/// [`Failure::Input`] where it has no address.
fn resolve(name: &str, port: u16) -> Result<Vec<SocketAddr>, Failure> {
    let wrong = |why: String| {
        Failure::Input(format!(
            "peer '{name}': {why}; use an address or a name, as 10.0.0.2, host.example:{port}, [fd00::2]:{port} or \
             fe80::2%eth0"
        ))
    };
    let (host, own_port) = split_port(name);
    let port = match own_port.map(str::parse) {
        Some(Ok(port)) => port,
        Some(Err(_)) => return Err(wrong("its port is above 65535".to_owned())),
        None => port,
    };
    if let Some(address) = numeric(host, port).map_err(wrong)? {
        return Ok(vec![address]);
    }
    let found: Vec<SocketAddr> = (host, port).to_socket_addrs().map_err(|error| wrong(error.to_string()))?.collect();
    if found.is_empty() { Err(wrong("it has no address".to_owned())) } else { Ok(found) }
}

/// Where to listen or send: `10.0.0.2:8462`, `[fd00::2]:8462`, `[fe80::2%eth0]:8462`.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    let wrong = |why: &str| format!("'{text}': {why}; write it as 10.0.0.2:8462 or [fe80::2%eth0]:8462");
    let (host, port) = split_port(text);
    let port = port.and_then(|port| port.parse().ok()).ok_or_else(|| wrong("no port up to 65535"))?;
    numeric(host, port).map_err(|why| wrong(&why))?.ok_or_else(|| wrong("no address in digits"))
}

/// Splits a port off. Without brackets an IPv6 address has none, since its last colon may be of the address.
fn split_port(text: &str) -> (&str, Option<&str>) {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, rest)) => (host, rest.strip_prefix(':')),
        None if text.matches(':').count() == 1 => text.split_once(':').map_or((text, None), |(h, p)| (h, Some(p))),
        None => (text, None),
    };
    (host, port.filter(|port| !port.is_empty()))
}

/// The address that `host` states itself, with the interface after a `%`; `None` for a name.
fn numeric(host: &str, port: u16) -> Result<Option<SocketAddr>, String> {
    let (ip, zone) = host.split_once('%').map_or((host, None), |(ip, zone)| (ip, Some(zone)));
    match (ip.parse(), zone) {
        (Ok(IpAddr::V6(ip)), Some(zone)) => {
            let scope = interface::number(zone).ok_or_else(|| format!("no interface '{zone}' on this machine"))?;
            Ok(Some(SocketAddrV6::new(ip, port, 0, scope).into()))
        }
        (Ok(IpAddr::V6(ip)), None) if ip.is_unicast_link_local() => {
            Err(format!("a link-local address needs its interface, as {ip}%eth0"))
        }
        (Ok(ip), None) => Ok(Some(SocketAddr::new(ip, port))),
        (Ok(IpAddr::V4(_)), Some(_)) => Err("an IPv4 address has no interface".to_owned()),
        (Err(_), _) => Ok(None),
    }
}

/// The interface of this name in this network namespace.
///
/// # Errors
/// [`Failure::Input`] with those that are there.
pub(crate) fn interface_named(name: &str) -> Result<Interface, Failure> {
    let all = interface::all()?;
    let names = all.iter().map(|interface| interface.name.as_str()).collect::<Vec<_>>().join(", ");
    let missing = format!("no interface '{name}' in this network namespace; there are {names}");
    all.into_iter().find(|interface| interface.name == name).ok_or(Failure::Input(missing))
}

/// What shows that a far end is at one of several addresses of a name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sign {
    /// It takes a TCP connection.
    Connection,
    /// Its host does not refuse a UDP datagram.
    Datagram,
    /// There is a route to it.
    Route,
}

impl Sign {
    /// Looks for it at an address.
    fn look(self, address: SocketAddr) -> std::io::Result<()> {
        if matches!(self, Self::Connection) {
            return TcpStream::connect_timeout(&address, Duration::from_nanos(PATIENCE.as_nanos().unsigned_abs()))
                .map(drop);
        }
        let any = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind(SocketAddr::new(any, 0))?;
        socket.connect(address)?;
        if matches!(self, Self::Datagram) {
            socket.set_read_timeout(Some(REFUSAL_PATIENCE))?;
            // An empty datagram is no probe of any kind: silence is a good sign.
            socket.send(&[])?;
            let refused = socket.recv(&mut [0]).err();
            if let Some(error) =
                refused.filter(|error| !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut))
            {
                return Err(error);
            }
        }
        Ok(())
    }
}

/// The address of `name`; of several the first with a sign of a far end.
///
/// # Errors
/// [`Failure::Input`] where the name has no address; [`Failure::Peer`] where none of several has the sign.
pub(crate) fn reach(name: &str, port: u16, sign: Sign) -> Result<SocketAddr, Failure> {
    let addresses = resolve(name, port)?;
    if let [only] = addresses[..] {
        return Ok(only);
    }
    let mut silent = Vec::new();
    for address in addresses {
        match sign.look(address) {
            Ok(()) => return Ok(address),
            Err(error) => silent.push(format!("{address}: {error}")),
        }
    }
    Err(Failure::Peer(format!("cannot reach {name} at any of its addresses: {}", silent.join("; "))))
}

/// The key of this run: the file's, else the environment's, else none.
///
/// # Errors
/// [`Failure::Input`] where the key cannot be read.
pub(crate) fn key(key_file: Option<&Path>) -> Result<Option<PresharedKey>, Failure> {
    PresharedKey::of_file_or_variable(key_file).map_err(|error| Failure::Input(error.to_string()))
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

    fn of(name: &str, port: u16) -> Result<String, String> {
        let found = resolve(name, port).map_err(|error| error.to_string())?;
        Ok(found.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_peer_without_port_gets_the_usual_one() {
        for (name, wanted) in [
            ("10.0.0.2", "10.0.0.2:862"),
            ("10.0.0.2:9", "10.0.0.2:9"),
            ("fd00::2", "[fd00::2]:862"),
            ("[fd00::2]", "[fd00::2]:862"),
            ("[fd00::2]:9", "[fd00::2]:9"),
            ("fe80::2%lo", "[fe80::2%1]:862"),
            ("fe80::2%1", "[fe80::2%1]:862"),
            ("[fe80::2%lo]:9", "[fe80::2%1]:9"),
        ] {
            assert_eq!(of(name, 862).as_deref(), Ok(wanted), "{name}");
        }
    }

    #[test]
    fn a_name_that_is_none_is_refused_with_the_value_the_cause_and_the_forms() {
        for (name, cause) in [
            ("127.0.0.1:99999", "its port is above 65535"),
            ("no such name", ""),
            ("fe80::2", "needs its interface, as fe80::2%eth0"),
            ("[fe80::2]:9", "needs its interface"),
            ("fe80::2%nothere0", "no interface 'nothere0'"),
            ("10.0.0.2%lo", "an IPv4 address has no interface"),
        ] {
            let error = of(name, 8462).expect_err(name);
            assert!(error.contains(&format!("'{name}'")) && error.contains(cause), "{error}");
            assert!(error.contains("host.example:8462"), "{error}");
        }
    }

    #[test]
    fn an_address_to_listen_at_may_name_an_interface() {
        for text in ["127.0.0.1:9", "[::1]:9", "[fe80::2%1]:9"] {
            assert_eq!(address(text).map(|found| found.to_string()).as_deref(), Ok(text));
        }
        for text in ["127.0.0.1", "::1", "localhost:9", "[fe80::2]:9", "[fe80::2%nothere0]:9", "1.2.3.4:70000", ""] {
            assert!(address(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_signs_of_a_far_end_are_told_from_a_refusal() {
        let tcp = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let (tcp, udp) =
            (tcp.local_addr().expect("bound"), [udp.local_addr().expect("bound"), tcp.local_addr().expect("bound")]);
        assert!(Sign::Connection.look(tcp).is_ok() && Sign::Datagram.look(udp[0]).is_ok());
        assert!(Sign::Datagram.look(udp[1]).is_err() && Sign::Route.look(udp[1]).is_ok());
    }
}
