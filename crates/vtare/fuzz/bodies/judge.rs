//! A stream of datagrams at a responder's session table. Each is a length, a choice and bytes; some are valid ones,
//! bent.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use vtare_traffic::Spacing;
use vtare_units::Timestamp;
use vtare_wire::full::ReplyFlags;
use vtare_wire::session::{Arrival, Arrivals, Limits, Open, Purpose, ReversePlan, Secrets, Table, Verdict, WireForm};
use vtare_wire::{SessionId, SessionKey, full, short};

/// One case.
pub(crate) fn run(bytes: &[u8]) {
    let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let mut table = Table::new(Limits::default());
    let open = |form| Open {
        purpose: if form == WireForm::Full { Purpose::Avb } else { Purpose::Rtt },
        form,
        rate_packet_per_s: 1_000,
        burst_packet: 50,
        duration_ns: 1_000_000_000,
        packets: 1_000,
        size_byte: 100,
        flows: None,
        ecn: false,
    };
    let [full_grant, short_grant] = [WireForm::Full, WireForm::Short].map(|form| {
        let number = form as u64 + 1;
        let secrets = Secrets { session: SessionId(number), key: SessionKey::new([number as u8; 16]) };
        table.open(Timestamp::ZERO, peer, &open(form), secrets).expect("within the limits")
    });
    let context = short::Context { session: short_grant.session, handle: short_grant.handle, key: &short_grant.key };
    let (mut recorded, mut credit) = (0_u64, (0_u64, 0_u64));
    let mut answered = HashSet::new();
    let mut now_ns = 0;
    let mut rest = bytes;
    while let [choice, length, number, bend, tail @ ..] = rest {
        let length = usize::from(*length);
        let (content, after) = tail.split_at(length.min(tail.len()));
        rest = after;
        now_ns += u64::from(*bend) * 1_000_000;
        let mut datagram = content.to_vec();
        let sequence = u64::from(*number).wrapping_mul(0x1_0001);
        let one_way = choice & 4 != 0;
        match choice & 3 {
            1 => {
                let probe =
                    full::Probe { session: full_grant.session, sequence, sent: Timestamp::ZERO, wants_reply: !one_way };
                let _ = probe.encode(&full_grant.key, &mut datagram);
            }
            2 => {
                let _ = short::Probe::new(sequence, Timestamp::ZERO, !one_way).encode(&context, &mut datagram);
            }
            3 if !datagram.is_empty() => datagram[0] = 0x10 | bend & 0xf,
            _ => {}
        }
        if choice & 8 != 0 && !datagram.is_empty() {
            let at = usize::from(*bend) % datagram.len();
            datagram[at] ^= number;
        }
        let size = datagram.len();
        let from = SocketAddr::new(peer, 1 + u16::from(choice & 16 != 0));
        let now = Timestamp::from_nanos(now_ns);
        let arrival =
            Arrival { now, received: Timestamp::from_nanos(now_ns), flags: ReplyFlags::default(), class: None };
        let before = datagram.clone();
        let full_form = before.first().is_some_and(|first| first & 8 == 0);
        match table.judge(from, &mut datagram, &arrival, || Timestamp::from_nanos(now_ns)) {
            Verdict::Reply(reply) => {
                assert_eq!(reply.len(), size, "a reply is as long as its request");
                assert!(answered.insert(before), "the same datagram was answered twice");
            }
            Verdict::Record { .. } if full_form => {
                recorded += 1;
                // The credit as it must be, counted apart: what came and was not answered, headers and all.
                credit.0 += 1;
                credit.1 += size as u64 + 28;
            }
            Verdict::Record { .. } | Verdict::Drop(_) => {}
        }
        if choice & 64 != 0 {
            let (first_gap_ns, inside_ns, between_ns) = (f64::from(*bend), f64::from(*bend), f64::from(*number));
            let spacing = match number & 3 {
                0 => Spacing::Constant { gap_ns: (u64::from(*bend) << (number >> 2 & 31)) as f64 },
                1 => Spacing::Pairs { inside_ns, between_ns },
                _ => Spacing::Chirp { first_gap_ns: first_gap_ns * 1e6, spread_per_mille: u32::from(*number) * 10 },
            };
            let (packets, size_byte) = (u32::from(bend & 63), 50 + u16::from(number & 63));
            let plan = ReversePlan { packets, size_byte, spacing, burst_packet: 1 };
            if let Ok(order) = table.reverse(now, full_grant.session, plan.clone()) {
                let byte = u64::from(packets) * (u64::from(size_byte) + 28);
                assert!(credit.0 >= packets.into() && credit.1 >= byte, "more was granted than came");
                credit = (credit.0 - u64::from(packets), credit.1 - byte);
                assert_eq!(order.to, SocketAddr::new(peer, order.to.port()));
                assert!(table.reverse(now, full_grant.session, plan).is_err(), "one train at a time");
                table.reversed(&order, u64::from(packets / 2));
            }
        }
        if choice & 128 != 0
            && let Some(arrivals) = table.arrivals(now, full_grant.session, u64::from(*number))
        {
            assert!(arrivals.from + arrivals.records.len() as u64 + arrivals.left + arrivals.overflow <= recorded);
            assert_eq!(Arrivals::decode(&arrivals.encode()), Ok(arrivals));
        }
        if choice & 32 != 0 {
            table.expire(now);
        }
    }
    for grant in [full_grant, short_grant] {
        if let Some(counters) = table.close(grant.session) {
            assert!(counters.replied + counters.reversed + counters.reverse_unsent <= counters.accepted);
            assert!(counters.replied_byte <= counters.accepted_byte);
        }
    }
}
