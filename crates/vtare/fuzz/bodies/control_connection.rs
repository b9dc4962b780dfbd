//! A stranger's bytes at a control connection: nothing is opened, no stream of somebody's session is let in but by its
//! own first bytes, and never is more answered than came.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Mutex;

use vtare_control::server::Connection;
use vtare_control::{FirstMessages, PresharedKey, Surroundings, TimeLimits};
use vtare_units::Timestamp;
use vtare_wire::hello::Hello;
use vtare_wire::session::{FlowPlan, Limits, Open, Purpose, Secrets, Table, WireForm};
use vtare_wire::{SessionId, SessionKey};

/// A session of somebody else at the same host, with two streams.
fn with_session(table: &mut Table, peer: IpAddr) -> [Vec<u8>; 2] {
    let open = Open {
        purpose: Purpose::Tcp,
        form: WireForm::Full,
        rate_packet_per_s: 0,
        burst_packet: 1,
        duration_ns: 1_000_000_000,
        packets: 0,
        size_byte: 60,
        flows: Some(FlowPlan { streams: 2, byte: 1_000, bin_ns: 10_000_000 }),
        ecn: false,
    };
    let secrets = Secrets { session: SessionId(1), key: SessionKey::new([1; 16]) };
    let grant = table.open(Timestamp::ZERO, peer, &open, secrets).expect("within the limits");
    [0, 1].map(|number| Hello { session: grant.session, number }.encode(&grant.key).to_vec())
}

/// One case.
pub(crate) fn run(data: &[u8]) {
    let key = PresharedKey::parse("fuzz", &"ab".repeat(32)).expect("64 digits");
    // The first byte sets whether there is a key, and whether somebody has a session; the second how the rest is cut.
    let [keyed, cut, rest @ ..] = data else { return };
    let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut table = Table::new(Limits::default());
    let hellos = (keyed & 2 == 2).then(|| with_session(&mut table, peer));
    let table = Mutex::new(table);
    let patience = TimeLimits::default();
    let around = Surroundings {
        keys: if keyed & 1 == 1 { std::slice::from_ref(&key) } else { &[] },
        first_messages: &FirstMessages::default(),
        table: &table,
        program: "fuzz",
        patience,
        socket_drops: &|| Some(0),
    };
    let now = Timestamp::from_nanos(1_000_000_000);
    let mut connection = Connection::new(peer, now, patience);
    let (mut came, mut went) = (0, 0);
    for chunk in rest.chunks(usize::from(*cut).max(1)) {
        came += chunk.len();
        let mut secrets = || Secrets { session: SessionId(1), key: SessionKey::new([1; 16]) };
        let result =
            connection.receive(now, chunk, &around, &mut secrets, &mut |_| panic!("a stranger got something done"));
        went += std::mem::take(connection.outbox()).len();
        assert!(went <= came, "{went} B for {came} B");
        if result.is_err() || connection.is_stream() {
            break;
        }
    }
    let own = hellos.iter().flatten().any(|hello| rest.starts_with(hello));
    assert!(own || !connection.is_stream(), "a stream that was not granted");
    assert_eq!(table.lock().expect("nothing panicked").len(), usize::from(hellos.is_some()));
}
