use std::collections::BinaryHeap;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::*;

/// Those of `vtare serve`.
const LIMITS: PlaceLimits =
    PlaceLimits { handshakes: 1_024, connections: 320, connections_per_peer: 32, connections_of_crowded_network: None };

fn table() -> ConnectionTable {
    ConnectionTable::new(PlaceLimits { handshakes: 4, connections: 3, connections_per_peer: 2, ..LIMITS })
}

fn ip(last: u8) -> IpAddr {
    [192, 0, last, 1].into()
}

/// Where few places are allowed one goes at a time.
fn enter(table: &mut ConnectionTable, ip: IpAddr) -> (usize, Option<usize>) {
    let (place, displaced) = table.enter(ip);
    displaced.iter().for_each(|place| table.leave(*place));
    assert!(displaced.len() <= 1);
    (place, displaced.first().copied())
}

fn show(table: &mut ConnectionTable, place: usize) {
    table.show(place).iter().for_each(|place| table.leave(*place));
}

#[test]
fn the_oldest_of_the_most_crowded_peer_makes_room() {
    let mut table = table();
    let (quiet, _) = enter(&mut table, ip(1));
    let (first, _) = enter(&mut table, ip(2));
    let (second, _) = enter(&mut table, ip(2));
    assert_eq!(enter(&mut table, ip(2)).1, None);
    assert_eq!(enter(&mut table, ip(3)).1, Some(first));
    assert_eq!(enter(&mut table, ip(2)).1, Some(second));
    assert!(table.places[quiet].is_some(), "the peer with one connection keeps it");
}

#[test]
fn ten_thousand_newcomers_take_no_more_places_than_allowed() {
    let mut table = table();
    for _ in 0..10_000 {
        enter(&mut table, ip(9));
    }
    assert_eq!(table.places.len(), 5);
    assert_eq!(table.strangers.0.len(), 4);
}

#[test]
fn known_connections_are_bounded_by_peer_and_in_all_and_never_closed_for_others() {
    let mut table = table();
    let mut promoted = |ip| {
        let (place, _) = enter(&mut table, ip);
        table.promote(place).is_some()
    };
    assert_eq!([promoted(ip(1)), promoted(ip(1)), promoted(ip(1))], [true, true, false]);
    assert_eq!([promoted(ip(2)), promoted(ip(3))], [true, false]);
    for _ in 0..100 {
        enter(&mut table, ip(1));
    }
    assert_eq!(table.known.0.len(), 3);
}

#[test]
fn a_crowded_network_gives_its_oldest_up_for_others_where_nobody_needs_a_key() {
    let limits =
        PlaceLimits { handshakes: 4, connections: 4, connections_per_peer: 2, connections_of_crowded_network: Some(2) };
    let mut table = ConnectionTable::new(limits);
    let parse = |text: &str| text.parse::<IpAddr>().expect("it is an address");
    let mut promote = |address: &str| {
        let (place, _) = enter(&mut table, parse(address));
        let leavers = table.promote(place)?;
        leavers.iter().for_each(|place| table.leave(*place));
        Some((place, leavers))
    };
    let crowd = ["2001:db8::1", "2001:db8::2", "2001:db8:0:1::1", "2001:db8:0:2::1"];
    let crowd = crowd.map(|address| promote(address).expect("there is room").0);
    // Four of one /48: two of them go for others, and no more.
    assert_eq!(promote("192.0.2.1").map(|(_, leavers)| leavers), Some(vec![crowd[0]]));
    assert_eq!(promote("192.0.3.1").map(|(_, leavers)| leavers), Some(vec![crowd[1]]));
    assert_eq!(promote("192.0.4.1"), None);
}

#[test]
fn who_has_shown_a_first_message_is_not_closed_for_who_has_not() {
    let mut table = table();
    let shown = [1, 2].map(|last| enter(&mut table, ip(last)).0);
    shown.iter().for_each(|place| show(&mut table, *place));
    for last in 0..=255 {
        enter(&mut table, ip(last));
    }
    assert!(shown.iter().all(|place| table.places[*place].is_some()));
    // Half of the places are for them: a third displaces the first.
    let (third, _) = enter(&mut table, ip(3));
    assert_eq!(table.show(third), [shown[0]]);
}

#[test]
fn who_was_hung_up_on_goes_first() {
    let mut table = table();
    let places = [1, 2, 3, 4].map(|last| enter(&mut table, ip(last)).0);
    table.condemn(places[2]);
    assert_eq!(enter(&mut table, ip(5)).1, Some(places[2]));
    assert_eq!(enter(&mut table, ip(6)).1, Some(places[0]));
}

#[test]
fn addresses_of_one_ipv6_network_are_one_peer_and_mapped_ones_are_ipv4() {
    let parse = |text: &str| text.parse::<IpAddr>().expect("it is an address");
    assert_eq!(peer_group(parse("2001:db8::1")), peer_group(parse("2001:db8::ffff:2")));
    assert_ne!(peer_group(parse("2001:db8::1")), peer_group(parse("2001:db8:0:1::1")));
    assert_eq!(peer_group(parse("::ffff:192.0.1.1")), ip(1));
}

#[test]
fn the_largest_network_is_looked_for_from_the_widest_prefix_on() {
    let mut table = ConnectionTable::new(PlaceLimits { handshakes: 6, ..LIMITS });
    let parse = |text: &str| text.parse::<IpAddr>().expect("it is an address");
    // No /64 has two, but one /48 has three, of which one /56 has two.
    let addresses =
        ["2001:db8::1", "198.51.100.1", "2001:db9:0:100::1", "2001:db9:0:201::1", "2001:db9:0:202::1", "2001:dba::1"];
    let places = addresses.map(|address| enter(&mut table, parse(address)).0);
    assert_eq!(enter(&mut table, parse("203.0.113.1")).1, Some(places[3]));
}

/// What happens in the simulated flood, and when, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Happens {
    Silent(u64),
    Client(u64),
    FirstMessage(u64, usize),
    SecondMessage(u64, usize),
}

const MS: u64 = 1_000_000;

/// 10 s of 1,900 silent connections a second, number n from the address `source(n)`, which a patient attacker holds
/// until they are closed. A client comes every 50 ms; its first message is `first_ms` behind the connection, its second
/// another 250 ms later. Gives the number of clients that were refused.
fn refused(source: fn(u64) -> IpAddr, client: fn(u64) -> IpAddr, first_ms: u64) -> u64 {
    let mut table = ConnectionTable::new(LIMITS);
    let mut queue = BinaryHeap::new();
    let push = |queue: &mut BinaryHeap<_>, at: u64, what| queue.push(std::cmp::Reverse((at, what)));
    (0..19_000).for_each(|number| push(&mut queue, number * 1_000 * MS / 1_900, Happens::Silent(number)));
    (0..200).for_each(|number| push(&mut queue, number * 50 * MS, Happens::Client(number)));
    // By place: the client that has it.
    let (mut clients, mut refused) = (std::collections::HashMap::new(), 0);
    while let Some(std::cmp::Reverse((at, what))) = queue.pop() {
        let displaced = match what {
            Happens::Silent(number) => table.enter(source(number)).1,
            Happens::Client(number) => {
                let (place, displaced) = table.enter(client(number));
                clients.insert(place, number);
                push(&mut queue, at + first_ms * MS, Happens::FirstMessage(number, place));
                displaced
            }
            Happens::FirstMessage(number, place) if clients.get(&place) == Some(&number) => {
                push(&mut queue, at + 250 * MS, Happens::SecondMessage(number, place));
                table.show(place)
            }
            Happens::SecondMessage(number, place) if clients.get(&place) == Some(&number) => {
                assert_eq!(table.promote(place), Some(Vec::new()), "there is room for all that have the key");
                clients.remove(&place);
                table.leave(place);
                Vec::new()
            }
            Happens::FirstMessage(..) | Happens::SecondMessage(..) => Vec::new(),
        };
        for place in displaced {
            refused += u64::from(clients.remove(&place).is_some());
            table.leave(place);
        }
    }
    refused
}

/// The /64 with this number within a /48.
fn of_one_prefix(number: u64) -> IpAddr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, (number % 1_000) as u16, 0, 0, 0, 1).into()
}

/// One address of the IPv4 /24 with this number.
fn of_many_networks(number: u64) -> IpAddr {
    Ipv4Addr::from(0x0a00_0001 + ((number % 1_000) as u32) * 256).into()
}

/// Clients of one address, as a laboratory behind address translation has them, and clients of the IPv6 prefix that the
/// flood comes from.
fn of_one_address(_: u64) -> IpAddr {
    Ipv4Addr::new(203, 0, 113, 9).into()
}

fn of_the_attackers_prefix(_: u64) -> IpAddr {
    Ipv6Addr::new(0x2001, 0xdb8, 0, 0xff00, 0, 0, 0, 1).into()
}

#[test]
fn attack_simulated_flood_from_one_ipv6_prefix_refuses_no_client_however_late_its_first_message() {
    for first_ms in [0, 1, 250, 1_000] {
        let refused = refused(of_one_prefix, of_one_address, first_ms);
        assert_eq!(refused, 0, "first message after {first_ms} ms");
    }
    println!("ATTACK simulated_flood_ipv6: survived, clients refused 0 of 800");
}

#[test]
fn attack_simulated_flood_from_a_thousand_networks_refuses_no_client_within_half_a_second() {
    for first_ms in [0, 1, 250, 450] {
        let refused = refused(of_many_networks, of_one_address, first_ms);
        assert_eq!(refused, 0, "first message after {first_ms} ms");
    }
    // Whose prefix is that of the flood is one of its thousand networks.
    assert_eq!(refused(of_one_prefix, of_the_attackers_prefix, 250), 0);
    // What the rules do not give: a place for who is silent for longer than all places take to fill, 530 ms.
    assert!(refused(of_many_networks, of_one_address, 600) > 150);
    println!("ATTACK simulated_flood_ipv4: survived, clients refused 0 of 800");
}
