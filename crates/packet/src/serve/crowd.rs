//! Who may be connected: bounded numbers, and who goes where there are too many. No sockets, so that it can be tested.

use std::net::IpAddr;

use super::{CrowdLimits, peer_group};

/// What a place is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// In its handshake.
    Stranger,
    /// Has shown the key.
    Known,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    group: IpAddr,
    /// Rises with each arrival: the smallest is the oldest.
    arrival: u64,
    standing: Standing,
}

/// The connections by place. A place is an index that is used again.
#[derive(Debug)]
pub(super) struct Crowd {
    limits: CrowdLimits,
    places: Vec<Option<Member>>,
    arrivals: u64,
}

impl Crowd {
    pub(super) const fn new(limits: CrowdLimits) -> Self {
        Self { limits, places: Vec::new(), arrivals: 0 }
    }

    /// Takes a newcomer in and gives its place, and the place of the one that must go for it: where handshakes are at their bound, the
    /// oldest of the group that has most of them. So one host cannot shut out others, and a client that gets through its
    /// handshake in one round trip gets through among connections that only wait.
    pub(super) fn enter(&mut self, ip: IpAddr) -> (usize, Option<usize>) {
        let leaver = (self.count(Standing::Stranger) >= self.limits.handshakes).then(|| self.most_crowded()).flatten();
        let place = self.places.iter().position(Option::is_none).unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        let member = Member { group: peer_group(ip), arrival: self.arrivals, standing: Standing::Stranger };
        self.arrivals += 1;
        self.places[place] = Some(member);
        (place, leaver)
    }

    /// The one at `place` has shown the key: whether there is room for it.
    pub(super) fn promote(&mut self, place: usize) -> bool {
        let Some(group) = self.places.get(place).copied().flatten().map(|member| member.group) else { return false };
        let known = |member: &&Member| member.standing == Standing::Known;
        let of_peer = self.places.iter().flatten().filter(known).filter(|member| member.group == group).count();
        let room = self.count(Standing::Known) < self.limits.connections && of_peer < self.limits.connections_per_peer;
        if let Some(Some(member)) = self.places.get_mut(place).filter(|_| room) {
            member.standing = Standing::Known;
        }
        room
    }

    pub(super) fn leave(&mut self, place: usize) {
        if let Some(member) = self.places.get_mut(place) {
            *member = None;
        }
    }

    fn count(&self, standing: Standing) -> usize {
        self.places.iter().flatten().filter(|member| member.standing == standing).count()
    }

    fn most_crowded(&self) -> Option<usize> {
        let strangers = || {
            let members = self.places.iter().enumerate();
            let members = members.filter_map(|(place, member)| member.map(|member| (place, member)));
            members.filter(|(_, member)| member.standing == Standing::Stranger)
        };
        let mut groups = std::collections::HashMap::<IpAddr, usize>::new();
        for (_, member) in strangers() {
            *groups.entry(member.group).or_default() += 1;
        }
        // The oldest decides between groups of the same size, so that the answer does not hang on the order of a hash map.
        let rank = |member: &Member| (std::cmp::Reverse(groups.get(&member.group).copied()), member.arrival);
        strangers().min_by_key(|(_, member)| rank(member)).map(|(place, _)| place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crowd() -> Crowd {
        Crowd::new(CrowdLimits { handshakes: 4, connections: 3, connections_per_peer: 2, ..CrowdLimits::default() })
    }

    fn ip(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    fn enter(crowd: &mut Crowd, ip: IpAddr) -> (usize, Option<usize>) {
        let (place, leaver) = crowd.enter(ip);
        if let Some(leaver) = leaver {
            crowd.leave(leaver);
        }
        (place, leaver)
    }

    #[test]
    fn the_oldest_of_the_most_crowded_peer_makes_room() {
        let mut crowd = crowd();
        let (quiet, _) = enter(&mut crowd, ip(1));
        let (first, _) = enter(&mut crowd, ip(2));
        let (second, _) = enter(&mut crowd, ip(2));
        assert_eq!(enter(&mut crowd, ip(2)).1, None);
        assert_eq!(enter(&mut crowd, ip(3)).1, Some(first));
        assert_eq!(enter(&mut crowd, ip(2)).1, Some(second));
        assert!(crowd.places[quiet].is_some(), "the peer with one connection keeps it");
    }

    #[test]
    fn ten_thousand_newcomers_take_no_more_places_than_allowed() {
        let mut crowd = crowd();
        for _ in 0..10_000 {
            enter(&mut crowd, ip(9));
        }
        assert_eq!(crowd.places.len(), 5);
        assert_eq!(crowd.count(Standing::Stranger), 4);
    }

    #[test]
    fn known_connections_are_bounded_by_peer_and_in_all_and_never_sent_away() {
        let mut crowd = crowd();
        let mut promoted = |ip| {
            let (place, _) = enter(&mut crowd, ip);
            crowd.promote(place)
        };
        assert_eq!([promoted(ip(1)), promoted(ip(1)), promoted(ip(1))], [true, true, false]);
        assert_eq!([promoted(ip(2)), promoted(ip(3))], [true, false]);
        for _ in 0..100 {
            enter(&mut crowd, ip(1));
        }
        assert_eq!(crowd.count(Standing::Known), 3);
    }

    #[test]
    fn addresses_of_one_ipv6_network_are_one_peer_and_mapped_ones_are_ipv4() {
        let parse = |text: &str| text.parse::<IpAddr>().expect("it is an address");
        assert_eq!(peer_group(parse("2001:db8::1")), peer_group(parse("2001:db8::ffff:2")));
        assert_ne!(peer_group(parse("2001:db8::1")), peer_group(parse("2001:db8:0:1::1")));
        assert_eq!(peer_group(parse("::ffff:192.0.2.1")), ip(1));
    }
}
