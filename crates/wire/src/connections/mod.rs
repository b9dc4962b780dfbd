//! Who may be connected: bounded numbers, and who goes where there are too many. No sockets and no clock, so that
//! floods can be simulated.
//!
//! TCP has proved the peer's address before a connection comes here, so a cookie would prove nothing more; what has to
//! be decided is whose connection goes when all places are taken. Three rules decide it:
//!
//! 1. A connection that has shown a fresh first handshake message is never closed for one that has not: only clients
//!    with the key can make such a message, and each counts once (`vtare_control::FirstMessages`). They may take half
//!    of the places. `vtare rpm-serve` has no key, and so no such connections.
//! 2. Of the others those go first that were hung up on already.
//! 3. Then the oldest of the network that has most: of the largest IPv6 /48 (IPv4 /24) the largest /56 (address), of
//!    that the largest /64, as long as that has more than a thirty-second of the places; else the oldest of all. So an
//!    attacker with one prefix displaces itself, whatever the number of its addresses. One with very many networks
//!    displaces all that are silent for longer than it takes to fill the places: 1,024 at 1,900 a second are 530 ms. A
//!    client needs less than a millisecond at any distance: its first message follows the last packet of TCP's
//!    handshake at once.
//!
//! Connections that are past their handshake have places of their own, so that silent ones never take those. `vtare
//! serve` closes none of them for another: they have the key. `vtare rpm-serve` serves anybody, so where these places
//! are taken, too, the oldest connection of a crowded network goes
//! ([`PlaceLimits::connections_of_crowded_network`]).

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};

use crate::peer_group;

/// Bits of the networks that connections in their handshake are compared by, the widest first.
const IPV6_PREFIXES: [u32; 3] = [48, 56, 64];
const IPV4_PREFIXES: [u32; 3] = [96 + 24, 128, 128];

/// How many may be connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlaceLimits {
    /// Connections in their handshake, all peers together. Where there are more, some go.
    pub handshakes: usize,
    /// Connections that are past it, all peers together.
    pub connections: usize,
    /// Connections that are past it, of one peer.
    pub connections_per_peer: usize,
    /// Connections past their handshake that one IPv6 /48 or IPv4 /24 keeps where all their places are taken and others
    /// come. `None`: none goes for another.
    pub connections_of_crowded_network: Option<usize>,
}

impl PlaceLimits {
    /// Connections that are open at most; one more is open while room is made for it.
    #[must_use]
    pub const fn most(&self) -> usize {
        self.handshakes + self.connections + 1
    }
}

/// What a place is taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Has shown nothing yet.
    Stranger,
    /// Was hung up on, and is read from only so that the answer arrives.
    Leaving,
    /// Has shown a fresh first message, which only the key makes.
    Shown,
    /// Is past its handshake.
    Known,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    ip: IpAddr,
    /// Rises with each arrival: the smallest is the oldest.
    arrival: u64,
    standing: Standing,
}

/// The connections by place. A place is an index that is used again.
#[derive(Debug)]
pub struct ConnectionTable {
    limits: PlaceLimits,
    places: Vec<Option<Member>>,
    free: Vec<usize>,
    arrivals: u64,
    strangers: Row,
    shown: Row,
    /// Places of those that were hung up on, the oldest first.
    leaving: VecDeque<usize>,
    known: Row,
}

impl ConnectionTable {
    /// A table without connections.
    #[must_use]
    pub const fn new(limits: PlaceLimits) -> Self {
        Self {
            limits,
            places: Vec::new(),
            free: Vec::new(),
            arrivals: 0,
            strangers: Row(Vec::new()),
            shown: Row(Vec::new()),
            leaving: VecDeque::new(),
            known: Row(Vec::new()),
        }
    }

    /// Adds a new connection and gives its place, and the places of those that must go for it and the next ones.
    pub fn enter(&mut self, ip: IpAddr) -> (usize, Vec<usize>) {
        let ip = ip.to_canonical();
        let handshakes = self.strangers.0.len() + self.shown.0.len() + self.leaving.len();
        let leavers = if handshakes < self.limits.handshakes { Vec::new() } else { self.who_goes() };
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        let member = Member { ip, arrival: self.arrivals, standing: Standing::Stranger };
        self.arrivals += 1;
        self.places[place] = Some(member);
        self.strangers.insert(&member, place);
        (place, leavers)
    }

    /// The places of those that must go where no more can be connected.
    #[must_use]
    pub fn who_goes(&self) -> Vec<usize> {
        if let Some(first) = self.leaving.front() {
            return vec![*first];
        }
        let row = if self.strangers.0.is_empty() { &self.shown } else { &self.strangers };
        row.victims(self.limits.handshakes)
    }

    /// The one at `place` has shown a fresh first message; gives the places of those that must go for it and the next
    /// ones.
    pub fn show(&mut self, place: usize) -> Vec<usize> {
        let most = (self.limits.handshakes / 2).max(1);
        let leavers = if self.shown.0.len() < most { Vec::new() } else { self.shown.victims(most) };
        self.stand(place, Standing::Shown);
        leavers
    }

    /// The one at `place` has been hung up on.
    pub fn condemn(&mut self, place: usize) {
        let of = self.places.get(place).copied().flatten();
        if of.is_some_and(|member| member.standing != Standing::Known) {
            self.stand(place, Standing::Leaving);
        }
    }

    /// The one at `place` is past its handshake; gives the places of those that must go for it, and `None` where there
    /// is no room for it.
    pub fn promote(&mut self, place: usize) -> Option<Vec<usize>> {
        let member = self.places.get(place).copied().flatten()?;
        let leavers = if self.known.0.len() < self.limits.connections {
            Vec::new()
        } else {
            vec![self.known.oldest_of_crowded(self.limits.connections_of_crowded_network?)?]
        };
        if self.known.count_of_peer(member.ip) >= self.limits.connections_per_peer {
            return None;
        }
        self.stand(place, Standing::Known);
        Some(leavers)
    }

    /// The one at `place` has gone.
    pub fn leave(&mut self, place: usize) {
        let Some(member) = self.places.get_mut(place).and_then(Option::take) else { return };
        self.forget(&member, place);
        self.free.push(place);
    }

    fn stand(&mut self, place: usize, standing: Standing) {
        let Some(mut member) = self.places.get(place).copied().flatten() else { return };
        self.forget(&member, place);
        member.standing = standing;
        self.places[place] = Some(member);
        match standing {
            Standing::Stranger => self.strangers.insert(&member, place),
            Standing::Shown => self.shown.insert(&member, place),
            Standing::Leaving => self.leaving.push_back(place),
            Standing::Known => self.known.insert(&member, place),
        }
    }

    /// Takes it out of the list of its standing.
    fn forget(&mut self, member: &Member, place: usize) {
        match member.standing {
            Standing::Stranger => self.strangers.remove(member),
            Standing::Shown => self.shown.remove(member),
            Standing::Leaving => self.leaving.retain(|leaving| *leaving != place),
            Standing::Known => self.known.remove(member),
        }
    }
}

/// Connections by address, so that those of a network stand side by side.
#[derive(Debug)]
struct Row(Vec<Entry>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    address: u128,
    arrival: u64,
    place: usize,
}

impl Entry {
    fn of(member: &Member, place: usize) -> Self {
        let address = match member.ip {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
            IpAddr::V6(ip) => ip.to_bits(),
        };
        Self { address, arrival: member.arrival, place }
    }

    /// The address's network of the prefix at `level`.
    fn network(&self, level: usize) -> u128 {
        let is_ipv4 = self.address >> 32 == 0xffff;
        let bits = if is_ipv4 { IPV4_PREFIXES[level] } else { IPV6_PREFIXES[level] };
        self.address >> (128 - bits) << (128 - bits)
    }
}

impl Row {
    fn insert(&mut self, member: &Member, place: usize) {
        let entry = Entry::of(member, place);
        let at = self.0.partition_point(|other| *other < entry);
        self.0.insert(at, entry);
    }

    fn remove(&mut self, member: &Member) {
        let wanted = Entry::of(member, 0);
        let at = self.0.partition_point(|other| *other < wanted);
        if self.0.get(at).is_some_and(|found| found.arrival == member.arrival) {
            self.0.remove(at);
        }
    }

    /// The oldest of the largest network, by prefixes from the widest on; of all, where none has more than its share of
    /// `places`. Several at once, so that a flood costs one search for many of its connections.
    fn victims(&self, places: usize) -> Vec<usize> {
        let crowd = self.crowded((places / 32).max(1)).unwrap_or(&self.0);
        let mut oldest: Vec<(u64, usize)> = crowd.iter().map(|entry| (entry.arrival, entry.place)).collect();
        oldest.sort_unstable();
        oldest.into_iter().take((places / 64).max(1)).map(|(_, place)| place).collect()
    }

    /// The place of the oldest one of the largest network that has more than `most`.
    fn oldest_of_crowded(&self, most: usize) -> Option<usize> {
        self.crowded(most)?.iter().min_by_key(|entry| entry.arrival).map(|entry| entry.place)
    }

    /// The largest network that has more than `share`, by the narrowest prefix of which that is so.
    fn crowded(&self, share: usize) -> Option<&[Entry]> {
        let mut crowd = None;
        for level in 0..IPV6_PREFIXES.len() {
            let largest = largest_network(crowd.unwrap_or(&self.0), level);
            if largest.len() <= share {
                break;
            }
            crowd = Some(largest);
        }
        crowd
    }

    /// How many are of the same peer.
    fn count_of_peer(&self, ip: IpAddr) -> usize {
        let group = peer_group(ip);
        self.0.iter().filter(|entry| peer_group(Ipv6Addr::from_bits(entry.address).into()) == group).count()
    }
}

/// The longest piece of `run` whose addresses are of one network; of several as long the first.
fn largest_network(run: &[Entry], level: usize) -> &[Entry] {
    let (mut largest, mut start) = (&run[..0], 0);
    for at in 0..run.len() {
        if run[at].network(level) != run[start].network(level) {
            start = at;
        }
        if at + 1 - start > largest.len() {
            largest = &run[start..=at];
        }
    }
    largest
}

#[cfg(test)]
mod tests;
