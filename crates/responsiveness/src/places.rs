//! The places of connections: who goes where too many come is decided as in `vtare serve`
//! ([`vtare_wire::connections`]).

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;
use vtare_methods::rpm::RpmLimits;
use vtare_wire::connections::{ConnectionTable, PlaceLimits};

/// What may be connected: as many that have made no request as have.
pub(crate) const fn place_limits(limits: &RpmLimits) -> PlaceLimits {
    PlaceLimits {
        handshakes: limits.connections,
        connections: limits.connections,
        connections_per_peer: limits.connections_per_peer,
        connections_of_crowded_network: Some(limits.connections_per_peer),
    }
}

/// All places.
#[derive(Debug)]
pub(crate) struct Places {
    open: Mutex<Open>,
    turned_away: AtomicU64,
}

#[derive(Debug)]
struct Open {
    table: ConnectionTable,
    /// By place: whose it is. It goes once its [`Holder`] is dropped.
    holders: Vec<Option<Holder>>,
    arrivals: u64,
}

#[derive(Debug)]
struct Holder {
    arrival: u64,
    _stays: oneshot::Sender<()>,
}

/// The place of one connection, given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    all: Arc<Places>,
    number: usize,
    arrival: u64,
}

/// Ends once the connection must go.
pub(crate) type MustGo = oneshot::Receiver<()>;

impl Places {
    pub(crate) fn new(limits: &RpmLimits) -> Arc<Self> {
        let table = ConnectionTable::new(place_limits(limits));
        let open = Open { table, holders: Vec::new(), arrivals: 0 };
        Arc::new(Self { open: Mutex::new(open), turned_away: AtomicU64::new(0) })
    }

    /// Gives a new connection a place, which others lose where there are too many.
    pub(crate) fn enter(self: &Arc<Self>, ip: IpAddr) -> (Place, MustGo) {
        let (stays, must_go) = oneshot::channel();
        let number = self.with_leavers(|open| {
            let (number, leavers) = open.table.enter(ip);
            open.arrivals += 1;
            if open.holders.len() <= number {
                open.holders.resize_with(number + 1, || None);
            }
            open.holders[number] = Some(Holder { arrival: open.arrivals, _stays: stays });
            ((number, open.arrivals), leavers)
        });
        (Place { all: Arc::clone(self), number: number.0, arrival: number.1 }, must_go)
    }

    /// Has some go: the system has no descriptor for another one.
    pub(crate) fn make_room(&self) {
        self.with_leavers(|open| ((), open.table.who_goes()));
    }

    /// Connections that were closed for others, or that found no place.
    pub(crate) fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::Relaxed)
    }

    /// Does something to the places, and takes theirs from those that must go for it.
    fn with_leavers<T>(&self, act: impl FnOnce(&mut Open) -> (T, Vec<usize>)) -> T {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let (result, leavers) = act(&mut open);
        self.turned_away.fetch_add(leavers.len() as u64, Ordering::Relaxed);
        for place in leavers {
            open.leave(place);
        }
        result
    }
}

impl Open {
    fn leave(&mut self, place: usize) {
        self.table.leave(place);
        if let Some(holder) = self.holders.get_mut(place) {
            *holder = None;
        }
    }
}

impl Place {
    /// The connection has made a request; answers whether there is a place for it among those that have.
    pub(crate) fn has_asked(&self) -> bool {
        let stays = self.all.with_leavers(|open| {
            // Who has lost this place already stays no longer.
            let own = open.is_held_by(self);
            let leavers = if own { open.table.promote(self.number) } else { None };
            (leavers.is_some(), leavers.unwrap_or_default())
        });
        self.all.turned_away.fetch_add(u64::from(!stays), Ordering::Relaxed);
        stays
    }
}

impl Open {
    fn is_held_by(&self, place: &Place) -> bool {
        let holder = self.holders.get(place.number).and_then(Option::as_ref);
        holder.is_some_and(|holder| holder.arrival == place.arrival)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.all.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.is_held_by(self) {
            open.leave(self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    #[test]
    fn a_connection_that_must_go_is_told_so_and_does_not_take_the_place_of_its_successor_with_it() {
        let limits = RpmLimits { connections: 2, connections_per_peer: 1, ..RpmLimits::default() };
        let all = Places::new(&limits);
        let enter = |peer: &str| all.enter(peer.parse().expect("it is an address"));
        let (first, mut first_goes) = enter("fd00::1");
        let (_second, mut second_goes) = enter("fd00::2");
        assert!(first_goes.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Empty));
        let (third, _third_goes) = enter("192.0.2.1");
        assert!(first_goes.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Closed));
        assert!(!first.has_asked(), "it has lost its place");
        let (fourth, _fourth_goes) = enter("192.0.2.2");
        assert!(second_goes.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Closed));
        drop(first);
        assert!(third.has_asked() && fourth.has_asked(), "both still have theirs");
        assert_eq!(all.turned_away(), 3);
    }

    /// 94 clients come between 2,000 connections of attackers, each of another /64 of one /48, that stay.
    fn clients_turned_away(attackers_ask: bool) -> usize {
        let all = Places::new(&RpmLimits::default());
        let (mut held, mut turned_away) = (Vec::new(), 0);
        for number in 0..2_000_u16 {
            let attacker = Ipv6Addr::new(0x2001, 0xdb8, 0, number, 0, 0, 0, 1);
            let (place, must_go) = all.enter(attacker.into());
            if attackers_ask {
                place.has_asked();
            }
            held.push((place, must_go));
            if number % 21 == 0 && number > 20 {
                let (place, mut must_go) = all.enter(Ipv4Addr::new(10, 0, 0, (number / 21) as u8).into());
                let closed = oneshot::error::TryRecvError::Closed;
                turned_away += usize::from(!place.has_asked() || must_go.try_recv() == Err(closed));
            }
        }
        turned_away
    }

    #[test]
    fn attack_simulated_connections_from_one_ipv6_prefix_turn_no_client_away() {
        for attackers_ask in [false, true] {
            assert_eq!(clients_turned_away(attackers_ask), 0, "with requests: {attackers_ask}");
        }
        println!("ATTACK simulated_rpm_ipv6: survived, clients turned away 0 of 188");
    }

    #[test]
    fn one_client_cannot_take_all_places_and_gives_back_what_it_had() {
        let limits = RpmLimits { connections: 3, connections_per_peer: 2, ..RpmLimits::default() };
        let all = Places::new(&limits);
        let ask = |peer: &str| {
            let (place, _) = all.enter(peer.parse().expect("it is an address"));
            place.has_asked().then_some(place)
        };
        let (first, second) = (ask("fd00::1"), ask("fd00::2"));
        assert!(first.is_some() && second.is_some());
        assert!(ask("fd00::3").is_none(), "a /64 is one client");
        let third = ask("::ffff:10.0.0.1");
        assert!(third.is_some() && ask("10.0.0.2").is_none(), "three in all");
        drop((first, third));
        let again = ask("10.0.0.1");
        assert!(again.is_some());
        drop((second, again));
        assert!(all.open.lock().expect("nobody panicked").holders.iter().all(Option::is_none));
    }
}
