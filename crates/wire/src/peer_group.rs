use std::net::IpAddr;

/// Whose resources a connection uses up: an IPv4 address, or the /64 that one IPv6 host can choose addresses from.
#[must_use]
pub fn peer_group(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(ip) => {
            let [a, b, c, d, ..] = ip.segments();
            IpAddr::V6([a, b, c, d, 0, 0, 0, 0].into())
        }
        canonical => canonical,
    }
}
