//! The key that `vtare serve` makes where none is given, and the line that uses it on the other machine.

use std::net::{IpAddr, SocketAddr};

use vtare_control::{KeyError, PresharedKey};
use vtare_sys::net::interface;
use vtare_sys::secret::LockedBytes;
use vtare_wire::DEFAULT_PORT;
use zeroize::Zeroizing;

use crate::failure::Failure;
use crate::output::print;

/// A key that lasts as long as this process.
pub(super) struct NewKey {
    key: PresharedKey,
    digits: LockedBytes,
    /// An address of this machine that others may reach.
    own: Option<IpAddr>,
}

impl NewKey {
    /// Makes a key.
    ///
    /// # Errors
    /// Where the system has no random bytes or no memory.
    pub(super) fn make() -> Result<Self, KeyError> {
        let (key, digits) = PresharedKey::generate_with_digits()?;
        Ok(Self { key, digits, own: own_address() })
    }

    pub(super) fn key(&self) -> PresharedKey {
        self.key.clone()
    }

    /// Prints the line to paste, with the key in this variable of the environment.
    ///
    /// # Errors
    /// Where stdout cannot be written.
    pub(super) fn show(&self, variable: &str, listen: SocketAddr) -> Result<(), Failure> {
        let digits = std::str::from_utf8(&self.digits).unwrap_or_default();
        let host = host(listen, self.own);
        let words = crate::sentences::serve::new_key();
        print(&Zeroizing::new(format!("{words}\n{variable}={digits} vtare path {host}\n")))
    }
}

/// An address of this machine, IPv4 first; none where it has no network.
fn own_address() -> Option<IpAddr> {
    let addresses = interface::all().ok()?.into_iter().flat_map(|interface| interface.addresses);
    let usable = addresses.filter(|address| match address {
        IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local(),
        IpAddr::V6(ip) => !ip.is_loopback() && !ip.is_unicast_link_local(),
    });
    usable.min_by_key(IpAddr::is_ipv6)
}

/// The far end as the other machine names it.
fn host(listen: SocketAddr, own: Option<IpAddr>) -> String {
    let named = if listen.ip().is_unspecified() { own } else { Some(listen.ip().to_canonical()) };
    let named = named.map(|ip| match ip {
        IpAddr::V6(ip) if listen.port() != DEFAULT_PORT => format!("[{ip}]"),
        ip => ip.to_string(),
    });
    let name = named.unwrap_or_else(|| "HOST".to_owned());
    if listen.port() == DEFAULT_PORT { name } else { format!("{name}:{}", listen.port()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_far_end_is_named_as_the_other_machine_takes_it() {
        let own = Some("10.0.0.2".parse().expect("an address"));
        for (listen, own, named) in [
            ("0.0.0.0:8462", own, "10.0.0.2"),
            ("[::]:8462", own, "10.0.0.2"),
            ("[::]:9000", own, "10.0.0.2:9000"),
            ("[::]:9000", None, "HOST:9000"),
            ("[::]:8462", Some("fd00::2".parse().expect("an address")), "fd00::2"),
            ("[fd00::2]:9000", own, "[fd00::2]:9000"),
            ("192.0.2.7:8462", own, "192.0.2.7"),
        ] {
            assert_eq!(host(listen.parse().expect("an address"), own), named);
        }
    }
}
