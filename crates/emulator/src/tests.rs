//! Directions on seeds and properties, and frames by hand.

use proptest::prelude::*;
use vtare_pathsim::{Detour, Duplication, HopSpec, LossModel, Path, PathSpec};
use vtare_sys::net::frames::{Cut, FRAME_HEADER_BYTE, FrameHeader};

use super::departures::Departures;
use super::frame;
use super::outgoing::Outgoing;
use super::segments::Segments;
use super::store::Store;
use super::*;

fn due(fate: Fate) -> Option<u64> {
    match fate {
        Fate::Due(due) => Some(due.at_ns),
        Fate::Lost | Fate::Overflow => None,
    }
}

fn lane(spec: LaneSpec) -> Lane {
    Lane::new(&spec, 1).expect("a right direction")
}

const MEGABIT: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

#[test]
fn a_busy_queue_keeps_its_rate_to_the_nanosecond() {
    // 83333 packets of 1500 B in a second, offered at twice the rate: 12 us each, whatever the arrivals' own times.
    let mut lane = lane(LaneSpec {
        rate: LaneSpec::steady(1_000 * MEGABIT),
        buffer: Buffer::Byte(1 << 40),
        delay_ns: 20_000_000,
        ..LaneSpec::default()
    });
    for number in 0..83_333_u64 {
        let wanted = (number + 1) * 12_000 + 20_000_000;
        assert_eq!(due(lane.pass(number * 6_000, 1_500, false)), Some(wanted));
    }
}

#[test]
fn a_queue_of_packets_holds_so_many_and_one_of_bytes_so_many() {
    for (buffer, fit) in
        [(Buffer::Packet(3), 3), (Buffer::Byte(3_750), 3), (Buffer::Byte(3_749), 2), (Buffer::Byte(1), 1)]
    {
        let mut lane = lane(LaneSpec { rate: LaneSpec::steady(MEGABIT), buffer, ..LaneSpec::default() });
        let taken = (0..10).filter(|_| due(lane.pass(0, 1_250, false)).is_some()).count();
        assert_eq!(taken, fit, "{buffer:?}");
        assert_eq!(lane.count().overflow_packet, 10 - fit as u64);
        // One packet takes 10 ms at 1 Mbit/s: then there is room for one more.
        assert!(due(lane.pass(10_000_000, 1_250, false)).is_some());
    }
}

#[test]
fn an_ethernet_rate_counts_what_the_wire_carries() {
    let spec = LaneSpec { rate: LaneSpec::steady(1_000 * MEGABIT), layer: Layer::Ethernet, ..LaneSpec::default() };
    let mut busy = lane(spec.clone());
    // 1500 B take 1538 B times; the smallest frame takes 84: 672 ns.
    assert_eq!(due(busy.pass(0, 1_500, false)), Some(12_304));
    assert_eq!(due(lane(spec).pass(0, 28, false)), Some(672));
}

#[test]
fn no_rate_is_no_queue() {
    let mut lane = lane(LaneSpec { delay_ns: 5, buffer: Buffer::Packet(1), ..LaneSpec::default() });
    assert!((0..100).all(|_| due(lane.pass(7, 9_000, false)) == Some(12)));
}

#[test]
fn steps_come_round_again_and_an_outage_only_holds_frames_up() {
    let phase = |megabit, seconds| Phase { rate_bit_per_s: megabit * MEGABIT, lasts_ns: seconds * SECOND };
    let mut lane = lane(LaneSpec {
        rate: vec![phase(2, 10), phase(0, 1), phase(10, 10)],
        buffer: Buffer::Byte(1 << 30),
        ..LaneSpec::default()
    });
    // 250 B take 1 ms at 2 Mbit/s and 0.2 ms at 10.
    assert_eq!(due(lane.pass(0, 250, false)), Some(1_000_000));
    assert_eq!(due(lane.pass(10 * SECOND + 5, 250, false)), Some(11 * SECOND + 200_000));
    assert_eq!(due(lane.pass(20 * SECOND, 250, false)), Some(20 * SECOND + 200_000));
    for turn in 1..2_000 {
        let start = turn * 21 * SECOND;
        assert_eq!(due(lane.pass(start, 250, false)), Some(start + 1_000_000), "turn {turn}");
        assert_eq!(due(lane.pass(start + 12 * SECOND, 250, false)), Some(start + 12 * SECOND + 200_000), "turn {turn}");
    }
}

#[test]
fn a_frame_half_sent_at_a_step_goes_on_at_the_new_rate() {
    let phase = |megabit| Phase { rate_bit_per_s: megabit * MEGABIT, lasts_ns: SECOND };
    let mut lane = lane(LaneSpec { rate: vec![phase(1), phase(2)], ..LaneSpec::default() });
    // 1250 B are 10 ms at 1 Mbit/s: half of them before the step, half in 2.5 ms behind it.
    assert_eq!(due(lane.pass(SECOND - 5_000_000, 1_250, false)), Some(SECOND + 2_500_000));
}

#[test]
fn bins_hold_the_truth_of_ten_milliseconds_each() {
    let phase = |megabit: u64, ms: u64| Phase { rate_bit_per_s: megabit * MEGABIT, lasts_ns: ms * 1_000_000 };
    let mut lane = lane(LaneSpec { rate: vec![phase(100, 15), phase(200, 15)], ..LaneSpec::default() });
    // 10 ms at 100 Mbit/s are 125000 B: a quarter of that is cross traffic.
    for number in 0..25 {
        assert!(due(lane.pass(number * 400_000, 1_250, false)).is_some());
    }
    assert!(due(lane.pass(9_900_000, 1_000, true)).is_some());
    let mut bins = Vec::new();
    lane.close_bins(29_999_999, |bin| bins.push(*bin));
    assert_eq!(bins.len(), 2);
    let [first, second] = bins[..] else { panic!("{bins:?}") };
    assert_eq!((first.start_ns, first.cross_byte, first.probe_byte), (0, 31_250, 1_000));
    assert_eq!((first.capacity_bit_per_s, first.available_bit_per_s()), (Some(100 * MEGABIT), Some(75 * MEGABIT)));
    // The probe takes 80 us from 9.9 ms on.
    assert_eq!((first.queue_byte, first.queue_most_byte), (0, 1_250));
    assert_eq!((second.start_ns, second.cross_byte, second.capacity_bit_per_s), (10_000_000, 0, Some(150 * MEGABIT)));
    lane.close_bins(u64::MAX / 1_000_000_000, |bin| bins.push(*bin));
    assert_eq!(lane.count().probe_byte, 1_000);
}

#[test]
fn a_full_queue_is_in_the_bins() {
    let rate = LaneSpec::steady(MEGABIT);
    let mut lane = lane(LaneSpec { rate, buffer: Buffer::Byte(10_000), ..LaneSpec::default() });
    assert_eq!((0..20).filter(|_| due(lane.pass(0, 1_000, false)).is_some()).count(), 10);
    let mut bins = Vec::new();
    lane.close_bins(20_000_000, |bin| bins.push((bin.queue_byte, bin.queue_most_byte, bin.overflow_packet)));
    // 1 Mbit/s sends 1250 B in 10 ms.
    assert_eq!(bins, [(8_750, 10_000, 10), (7_500, 8_750, 0)]);
}

/// Whether a count of `n` trials of probability `p` lies within 5 standard deviations.
fn is_likely(count: u64, n: u64, p: f64) -> bool {
    let n = n as f64;
    (count as f64 - n * p).abs() < 5.0 * (n * p * (1.0 - p)).sqrt()
}

#[test]
fn shares_are_as_asked_and_every_frame_is_accounted_for() {
    const N: u64 = 100_000;
    let spec = LaneSpec {
        delay_ns: 1_000,
        loss: LossModel::Random { probability: 0.01 },
        duplication: Duplication { probability: 0.002, after_ns: 0 },
        reorder: Detour { probability: 0.03, extra_ns: 5_000 },
        corruption: 0.005,
        ..LaneSpec::default()
    };
    for seed in 0..5 {
        let mut lane = Lane::new(&spec, seed).expect("a right direction");
        let (mut copies, mut damaged, mut later) = (0, 0, 0);
        for at in 0..N {
            if let Fate::Due(due) = lane.pass(at, 100, false) {
                copies += u64::from(due.copy_at_ns == Some(due.at_ns));
                damaged += u64::from(due.damage.is_some());
                later += u64::from(due.at_ns == at + 6_000);
            }
        }
        let count = lane.count();
        assert_eq!(count.arrived_packet, count.lost_packet + count.admitted_packet);
        assert_eq!((count.duplicated_packet, count.corrupted_packet, count.reordered_packet), (copies, damaged, later));
        let kept = count.admitted_packet;
        assert!(is_likely(count.lost_packet, N, 0.01), "{count:?}");
        assert!(
            is_likely(copies, kept, 0.002) && is_likely(damaged, kept, 0.005) && is_likely(later, kept, 0.03),
            "{count:?}"
        );
    }
}

#[test]
fn bursts_have_their_share_and_their_length() {
    let loss = LossModel::Bursty { enter: 0.25 * 0.02 / 0.98, leave: 0.25, lost_inside: 1.0 };
    let mut lane = lane(LaneSpec { loss, ..LaneSpec::default() });
    let lost: Vec<bool> = (0..1_000_000).map(|at| lane.pass(at, 100, false) == Fate::Lost).collect();
    let all = lost.iter().filter(|lost| **lost).count();
    let runs = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
    assert!((all as f64 / 1e6 / 0.02 - 1.0).abs() < 0.05, "{all}");
    assert!((all as f64 / runs as f64 / 4.0 - 1.0).abs() < 0.05, "{all} in {runs}");
}

#[test]
fn jitter_has_its_shape_and_overtakes_only_where_it_may() {
    const SIZE: u64 = 1_000_000;
    let delays = |shape, overtakes, gap| {
        let jitter = Jitter { size_ns: SIZE, shape, overtakes };
        let mut lane = lane(LaneSpec { delay_ns: 10_000_000, jitter, ..LaneSpec::default() });
        (0..50_000_u64)
            .map(|n| due(lane.pass(n * gap, 100, false)).expect("no loss") as i64 - (n * gap) as i64)
            .collect::<Vec<_>>()
    };
    let mean = |delays: &[i64]| delays.iter().sum::<i64>() as f64 / delays.len() as f64 - 1e7;
    for (shape, excess, deviation) in [
        (JitterShape::Uniform, 0.0, SIZE as f64 / 3.0_f64.sqrt()),
        (JitterShape::Normal, 0.0, SIZE as f64),
        (JitterShape::Exponential, SIZE as f64, SIZE as f64),
        (JitterShape::Pareto, SIZE as f64, SIZE as f64 / 1.25_f64.sqrt() * 1.3),
    ] {
        // Frames farther apart than any jitter keep their order by themselves.
        let found = mean(&delays(shape, true, 1));
        assert!((found - excess).abs() < 5.0 * deviation / 50_000_f64.sqrt(), "{shape:?}: {found}");
    }
    let uniform = delays(JitterShape::Uniform, true, 1);
    assert!(uniform.iter().all(|delay| (9_000_000..=11_000_000).contains(delay)));
    let is_ordered = |delays: &[i64]| delays.windows(2).all(|pair| pair[0] <= pair[1] + 1);
    assert!(!is_ordered(&uniform) && is_ordered(&delays(JitterShape::Uniform, false, 1)));
}

#[test]
fn what_cannot_be_is_refused_with_what_is_wanted() {
    let refused = |spec: LaneSpec| Lane::new(&spec, 1).expect_err("cannot be").to_string();
    let phase = |rate_bit_per_s, lasts_ns| Phase { rate_bit_per_s, lasts_ns };
    assert!(refused(LaneSpec { rate: vec![phase(1, 1), phase(1, 0)], ..LaneSpec::default() }).contains("step 1"));
    assert!(refused(LaneSpec { rate: vec![phase(0, 1)], ..LaneSpec::default() }).contains("above 0"));
    assert!(refused(LaneSpec { corruption: 1.5, ..LaneSpec::default() }).contains("1.5"));
    assert!(refused(LaneSpec { buffer: Buffer::Packet(0), ..LaneSpec::default() }).contains("buffer"));
    assert!(refused(LaneSpec { delay_ns: u64::MAX, ..LaneSpec::default() }).contains("an hour"));
}

proptest! {
    #[test]
    fn the_queue_is_the_simulated_hop(
        frames in prop::collection::vec((0_u64..50_000, 40_u32..9_000), 1..300),
        rate in 1_u64..2_000,
        buffer in 1_000_u64..200_000,
        seed in any::<u64>(),
    ) {
        let rate = rate * MEGABIT;
        let (steady, bytes) = (LaneSpec::steady(rate), Buffer::Byte(buffer));
        let spec = LaneSpec { rate: steady, buffer: bytes, delay_ns: 777, ..LaneSpec::default() };
        let mut lane = Lane::new(&spec, seed).expect("right");
        let hops = vec![HopSpec::new(rate, buffer, 777)];
        let mut path = Path::new(&PathSpec { hops, ..PathSpec::default() }, seed).expect("right");
        let mut at = 0;
        for (gap, size) in frames {
            at += gap;
            let simulated = path.send(vtare_units::Timestamp::from_nanos(at), size);
            let simulated = simulated.arrived.map(|there| there.as_nanos());
            prop_assert_eq!(due(lane.pass(at, size, false)), simulated);
        }
    }

    #[test]
    fn the_same_seed_does_the_same(
        frames in prop::collection::vec((0_u64..100_000, 40_u32..1_500), 1..200),
        seed in any::<u64>(),
    ) {
        let spec = LaneSpec {
            rate: LaneSpec::steady(100 * MEGABIT),
            jitter: Jitter { size_ns: 1_000_000, shape: JitterShape::Normal, overtakes: true },
            loss: LossModel::Random { probability: 0.1 },
            corruption: 0.1,
            ..LaneSpec::default()
        };
        let run = || {
            let mut lane = Lane::new(&spec, seed).expect("right");
            let mut at = 0;
            frames.iter().map(|(gap, size)| { at += gap; lane.pass(at, *size, false) }).collect::<Vec<_>>()
        };
        prop_assert_eq!(run(), run());
    }

    #[test]
    fn bytes_of_all_bins_are_those_admitted(
        frames in prop::collection::vec((0_u64..3_000_000, 40_u32..1_500, any::<bool>()), 1..300),
    ) {
        let rate = LaneSpec::steady(10 * MEGABIT);
        let spec = LaneSpec { rate, buffer: Buffer::Packet(5), ..LaneSpec::default() };
        let mut lane = Lane::new(&spec, 1).expect("right");
        let (mut at, mut sum, mut probes, mut dropped) = (0, 0, 0, 0);
        let mut add = |bin: &Bin| {
            sum += bin.cross_byte + bin.probe_byte;
            probes += bin.probe_byte;
            dropped += bin.overflow_packet;
        };
        for (gap, size, is_probe) in frames {
            at += gap;
            lane.pass(at, size, is_probe);
            lane.close_bins(at.saturating_sub(1_000_000), &mut add);
        }
        lane.close_bins(at + BIN_NS, &mut add);
        let count = lane.count();
        prop_assert_eq!((sum, probes, dropped), (count.admitted_byte, count.probe_byte, count.overflow_packet));
    }

    #[test]
    fn any_bytes_are_looked_into_damaged_and_cut_without_harm(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200),
        random in any::<u64>(),
        places in (any::<u16>(), any::<u16>()),
        segment in any::<u16>(),
        cut in prop::sample::select(vec![Cut::Tcp4, Cut::Tcp6, Cut::Udp, Cut::Other(9)]),
    ) {
        let found = frame::inside(&bytes);
        prop_assert!(found.packet_byte as usize <= bytes.len());
        let checksum = Some((places.0 % 64, places.1 % 32));
        let header = FrameHeader { checksum, cut, header_byte: 0, segment_byte: segment % 64, congestion: true };
        let datagram = Segments::of_datagram(&bytes, FrameHeader { cut: Cut::None, ..header });
        for segments in Segments::of(&bytes, header).ok().into_iter().chain(datagram) {
            let packets: Vec<_> = (0..segments.count()).map(|number| packet(&segments, &bytes, number)).collect();
            let payload: usize = (0..segments.count()).map(|number| segments.payload(number).len()).sum();
            prop_assert!(packets.len() == 1 || payload < bytes.len());
        }
        frame::complete_checksum(&mut bytes, places);
        let before = bytes.clone();
        frame::damage(&mut bytes, random);
        frame::mark(&mut bytes);
        let turned: u32 = before.iter().zip(&bytes).map(|(a, b)| (a ^ b).count_ones()).sum();
        let packet_end = found.packet_at + found.packet_byte as usize;
        let inside = found.transport_at.is_none_or(|at| at < packet_end || at >= before.len());
        prop_assert_eq!(turned, u32::from(found.packet_byte > 0 && inside));
    }
}

/// An IPv4 or IPv6 frame around `transport`, as a sender's stack gives it: without lengths and checksums that hold.
fn around(is_ipv6: bool, protocol: u8, transport: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    if is_ipv6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend((transport.len() as u16).to_be_bytes());
        frame.extend([protocol, 64]);
        frame.extend([0xfd; 16]);
        frame.extend([0xfe; 16]);
    } else {
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((20 + transport.len() as u16).to_be_bytes());
        frame.extend([0xff, 0xff, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    }
    frame.extend_from_slice(transport);
    frame
}

/// The sum over what a receiver checks, computed the slow way: words, carries and all.
fn receiver_sum(words: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in words.chunks(2) {
        sum += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Whether a receiver accepts the checksums of an IP packet.
fn is_accepted(packet: &[u8]) -> bool {
    let (addresses, header, protocol) = match packet[0] >> 4 {
        6 => (&packet[8..40], 40, packet[6]),
        _ => (&packet[12..20], 20, packet[9]),
    };
    let transport = &packet[header..];
    let mut checked = addresses.to_vec();
    checked.extend([0, protocol]);
    checked.extend((transport.len() as u16).to_be_bytes());
    checked.extend_from_slice(transport);
    receiver_sum(&checked) == 0xffff && (packet[0] >> 4 == 6 || receiver_sum(&packet[..20]) == 0xffff)
}

/// Packet `number` of a frame, with the checksum completed as the kernel or a card would.
fn packet(segments: &Segments, frame: &[u8], number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    segments.write_head(frame, number, segments.run(number), &mut bytes);
    bytes.extend_from_slice(&frame[segments.payload(number)]);
    let (head, packet) = bytes.split_first_chunk_mut::<FRAME_HEADER_BYTE>().expect("it has a header");
    let header = FrameHeader::read(head);
    assert_eq!(header.cut, Cut::None);
    frame::complete_checksum(packet, header.checksum.expect("still to be made"));
    packet.to_vec()
}

/// All packets of a frame.
fn cut(frame: &[u8], header: FrameHeader) -> Vec<Vec<u8>> {
    let segments = match header.cut {
        Cut::None => Segments::of_datagram(frame, header).expect("a datagram"),
        _ => Segments::of(frame, header).expect("can be cut"),
    };
    (0..segments.count()).map(|number| packet(&segments, frame, number)).collect()
}

/// The frames in which all that was put into `store` leaves, in the order of `packets`: slot and number of each.
fn leave(store: &Store, packets: &[(u32, u32)]) -> Vec<Vec<u8>> {
    let mut departures = Departures::default();
    packets.iter().for_each(|packet| departures.push(0, false, *packet, 0));
    let due: Vec<_> = std::iter::from_fn(|| departures.pop_due(0)).collect();
    let mut outgoing = Outgoing::default();
    outgoing.gather(&due, store);
    assert_eq!(outgoing.counts().sum::<usize>(), packets.len());
    let (pieces, ends) = outgoing.pieces(&due, store);
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(&ends).map(|(start, end)| pieces[start..*end].iter().flat_map(|it| it.to_vec()).collect()).collect()
}

/// The packets of frames that left, as a receiver gets them.
fn received(frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let cut = |bytes: &Vec<u8>| {
        let (head, frame) = bytes.split_first_chunk::<FRAME_HEADER_BYTE>().expect("it has a header");
        cut(frame, FrameHeader::read(head))
    };
    frames.iter().flat_map(cut).collect()
}

#[test]
fn large_udp_is_cut_into_the_datagrams_that_were_sent() {
    let payload: Vec<u8> = (0..3_500_u32).map(|n| n as u8).collect();
    for is_ipv6 in [false, true] {
        let mut transport = vec![0x10, 0, 0x21, 0x0e, 0, 0, 0, 0];
        transport.extend_from_slice(&payload);
        let frame = around(is_ipv6, 17, &transport);
        let start = if is_ipv6 { 54 } else { 34 };
        let header = FrameHeader {
            checksum: Some((start, 6)),
            cut: Cut::Udp,
            header_byte: 0,
            segment_byte: 1_000,
            congestion: false,
        };
        let pieces = cut(&frame, header);
        assert_eq!(pieces.len(), 4);
        let segments = Segments::of(&frame, header).expect("can be cut");
        let stated: Vec<_> = (0..4).map(|number| segments.packet_byte(number) as usize).collect();
        assert_eq!(stated, pieces.iter().map(|piece| piece.len() - 14).collect::<Vec<_>>());
        let mut rebuilt = Vec::new();
        for (number, piece) in pieces.iter().enumerate() {
            let found = frame::inside(piece);
            assert_eq!(found.packet_byte as usize, piece.len() - 14);
            assert_eq!(found.udp_ports, Some((0x1000, 0x210e)));
            assert!(is_accepted(&piece[14..]), "piece {number}, IPv6 {is_ipv6}");
            if !is_ipv6 {
                // The identity counts up and over.
                assert_eq!(u16::from_be_bytes([piece[18], piece[19]]), 0xffff_u16.wrapping_add(number as u16));
            }
            rebuilt.extend_from_slice(&piece[usize::from(start) + 8..]);
        }
        assert_eq!(rebuilt, payload);
    }
}

#[test]
fn large_tcp_is_cut_with_sequence_and_flags_in_their_places() {
    let payload: Vec<u8> = (0..2_500_u32).map(|n| (n * 7) as u8).collect();
    // Sequence 0xfffffff0 wraps; header of 32 B; CWR, ACK, PSH and FIN.
    let mut transport =
        vec![0, 80, 0, 81, 0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 1, 0x80, 0x80 | 0x10 | 0x08 | 0x01, 1, 0, 0, 0, 0, 0];
    transport.extend([1; 12]);
    transport.extend_from_slice(&payload);
    for (is_ipv6, kind) in [(false, Cut::Tcp4), (true, Cut::Tcp6)] {
        let start = if is_ipv6 { 54 } else { 34 };
        let header = FrameHeader {
            checksum: Some((start, 16)),
            cut: kind,
            header_byte: 0,
            segment_byte: 1_000,
            congestion: true,
        };
        let pieces = cut(&around(is_ipv6, 6, &transport), header);
        let at = usize::from(start);
        let flags: Vec<u8> = pieces.iter().map(|piece| piece[at + 13]).collect();
        assert_eq!(flags, [0x90, 0x10, 0x19]);
        for (number, piece) in pieces.iter().enumerate() {
            let sequence = u32::from_be_bytes(piece[at + 4..at + 8].try_into().expect("four bytes"));
            assert_eq!(sequence, 0xffff_fff0_u32.wrapping_add(number as u32 * 1_000));
            assert!(is_accepted(&piece[14..]), "piece {number}, IPv6 {is_ipv6}");
        }
        let rebuilt: Vec<u8> = pieces.iter().flat_map(|piece| piece[at + 32..].to_vec()).collect();
        assert_eq!(rebuilt, payload);
    }
}

#[test]
fn packets_that_wait_for_long_are_marked_where_they_are_ecn_capable() {
    let spec = LaneSpec { rate: LaneSpec::steady(8_000_000), mark_ns: Some(2_500_000), ..LaneSpec::default() };
    let mut lane = Lane::new(&spec, 1).expect("a right direction");
    // 1000 B take 1 ms.
    let marked = |fate| matches!(fate, Fate::Due(due) if due.marked);
    assert_eq!([(); 4].map(|()| marked(lane.pass(0, 1_000, false))), [false, false, true, true]);
    for (is_ipv6, capable, field) in [(false, 2, 3), (true, 0x20, 0x30)] {
        let mut frame = datagram(is_ipv6, 1, &[5; 100]);
        let plain = frame.clone();
        assert!(!frame::mark(&mut frame) && frame == plain, "it is not ECN-capable");
        frame[15] |= capable;
        assert!(frame::mark(&mut frame));
        assert_eq!(frame[15] & field, field);
        assert!(is_ipv6 || vtare_wire::internet_checksum(&frame[14..34]) == 0, "its header's checksum holds");
        assert_eq!(frame[34..], plain[34..]);
    }
}

#[test]
fn damage_is_found_by_the_receiver() {
    let mut transport = vec![0x10, 0, 0x20, 0, 0, 108, 0, 0];
    transport.extend([0xa5; 100]);
    let mut whole = around(false, 17, &transport);
    // What the stack leaves for the card: the pseudo header's sum.
    let mut sum = u32::from(receiver_sum(&whole[26..34])) + 17 + 108;
    sum = (sum & 0xffff) + (sum >> 16);
    whole[40..42].copy_from_slice(&(sum as u16).to_be_bytes());
    let header_sum = !receiver_sum(&whole[14..34]);
    whole[24..26].copy_from_slice(&header_sum.to_be_bytes());
    frame::complete_checksum(&mut whole, (34, 6));
    assert!(is_accepted(&whole[14..]));
    for random in 0..108 * 8 {
        let mut damaged = whole.clone();
        frame::damage(&mut damaged, random);
        assert!(damaged[..34] == whole[..34] && !is_accepted(&damaged[14..]), "bit {random}");
    }
}

#[test]
fn padding_and_other_protocols_have_their_sizes() {
    let mut padded = around(false, 17, &[0, 1, 0, 2, 0, 8, 0, 0]);
    padded.resize(60, 0);
    let found = frame::inside(&padded);
    assert_eq!((found.packet_byte, found.udp_ports), (28, Some((1, 2))));
    let mut tagged = padded.clone();
    let mut header = FrameHeader { checksum: Some((34, 6)), ..FrameHeader::PLAIN };
    frame::put_tag_back(&mut tagged, &mut header, (0x8100, 5));
    assert_eq!((tagged.len(), header.checksum), (64, Some((38, 6))));
    let found = frame::inside(&tagged);
    assert_eq!((found.packet_at, found.packet_byte, found.udp_ports), (18, 28, Some((1, 2))));
    let arp = [vec![0xff; 12], vec![8, 6], vec![0; 28]].concat();
    assert_eq!((frame::inside(&arp).packet_byte, frame::inside(&arp).transport_at), (28, None));
    let mut fragment = padded.clone();
    fragment[21] = 1;
    assert_eq!(frame::inside(&fragment).udp_ports, None, "only the first fragment has ports");
    assert_eq!(FRAME_HEADER_BYTE, FrameHeader::write_single(None).len());
}

/// A datagram as a sender's stack gives it, of the flow from `port`.
fn datagram(is_ipv6: bool, port: u8, payload: &[u8]) -> Vec<u8> {
    let mut transport = vec![0x10, port, 0x21, 0x0e];
    transport.extend((payload.len() as u16 + 8).to_be_bytes());
    transport.extend([0, 0]);
    transport.extend_from_slice(payload);
    around(is_ipv6, 17, &transport)
}

fn put(store: &mut Store, frame: &[u8], header: FrameHeader) -> u32 {
    let segments = match header.cut {
        Cut::None => Segments::of_datagram(frame, header),
        _ => Segments::of(frame, header).ok(),
    };
    store.take(segments, |into| {
        into.extend(FrameHeader::write_single(header.checksum));
        into.extend_from_slice(frame);
    })
}

fn partial(is_ipv6: bool, offset: u16) -> FrameHeader {
    FrameHeader { checksum: Some((if is_ipv6 { 54 } else { 34 }, offset)), ..FrameHeader::PLAIN }
}

#[test]
fn datagrams_of_one_flow_that_are_due_together_leave_as_one_frame_and_arrive_as_they_were_sent() {
    for is_ipv6 in [false, true] {
        let mut store = Store::new(usize::MAX);
        let header = partial(is_ipv6, 6);
        let large = datagram(is_ipv6, 1, &[7; 2_500]);
        let single = |store: &mut Store, port, byte| {
            let frame = datagram(is_ipv6, port, &vec![port; byte]);
            (put(store, &frame, header), 0)
        };
        let large = put(&mut store, &large, FrameHeader { cut: Cut::Udp, segment_byte: 1_000, ..header });
        let packets = [
            single(&mut store, 1, 1_000),
            (large, 0),
            (large, 1),
            // The last of the large send is shorter: a frame ends with it.
            (large, 2),
            single(&mut store, 1, 1_000),
            // Another flow, twice.
            single(&mut store, 2, 1_000),
            single(&mut store, 2, 600),
            // Larger than the one before it.
            single(&mut store, 2, 700),
            // The middle one of the large send was lost.
            (large, 0),
            (large, 2),
        ];
        let frames = leave(&store, &packets);
        let sizes: Vec<usize> = frames.iter().map(|frame| cut_count(frame)).collect();
        assert_eq!(sizes, [4, 1, 2, 1, 2]);
        let found = received(&frames);
        let payload = |packet: &Vec<u8>| packet[usize::from(header.checksum.expect("it has one").0) + 8..].to_vec();
        let wanted = [(1, 1_000), (7, 1_000), (7, 1_000), (7, 500), (1, 1_000), (2, 1_000), (2, 600), (2, 700)];
        let wanted = wanted.into_iter().chain([(7, 1_000), (7, 500)]).map(|(fill, byte)| vec![fill; byte]);
        assert_eq!(found.iter().map(payload).collect::<Vec<_>>(), wanted.collect::<Vec<_>>());
        assert!(found.iter().all(|packet| is_accepted(&packet[14..])), "IPv6 {is_ipv6}");
    }
}

/// How many packets a frame that left carries.
fn cut_count(bytes: &[u8]) -> usize {
    let (head, frame) = bytes.split_first_chunk::<FRAME_HEADER_BYTE>().expect("it has a header");
    let header = FrameHeader::read(head);
    if header.cut == Cut::None { 1 } else { Segments::of(frame, header).expect("can be cut").count() }
}

#[test]
fn datagrams_that_no_receiver_could_tell_apart_stay_frames_of_their_own() {
    let header = partial(false, 6);
    let frame = datagram(false, 1, &[5; 100]);
    let changed = |at: usize, value: u8| {
        let mut changed = frame.clone();
        changed[at] = value;
        changed
    };
    let whole = FrameHeader { checksum: None, ..header };
    for (other, header, why) in [
        (frame.clone(), whole, "a checksum of its own, which may be wrong"),
        (changed(0, 9), header, "another station"),
        (changed(15, 2), header, "other priority (DSCP, ECN)"),
        (changed(20, 0x20), header, "a fragment"),
        (changed(22, 63), header, "another time to live"),
        (changed(39, 77), header, "a length that does not hold"),
        (datagram(false, 1, &[]), header, "no payload"),
        ([&frame[..], &[0; 4]].concat(), header, "padding"),
    ] {
        let mut store = Store::new(usize::MAX);
        let packets = [put(&mut store, &frame, partial(false, 6)), put(&mut store, &other, header)];
        let frames = leave(&store, &packets.map(|slot| (slot, 0)));
        assert_eq!(frames.len(), 2, "{why}");
        assert_eq!(frames[1][FRAME_HEADER_BYTE..], other, "{why}");
    }
    let mut store = Store::new(usize::MAX);
    let packets: Vec<_> = (0..130).map(|_| (put(&mut store, &frame, header), 0)).collect();
    assert_eq!(leave(&store, &packets).iter().map(|it| cut_count(it)).collect::<Vec<_>>(), [64, 64, 2]);
}

#[test]
fn a_large_tcp_send_leaves_in_the_runs_that_loss_and_overtaking_left() {
    let payload: Vec<u8> = (0..6_500_u32).map(|n| (n * 7) as u8).collect();
    let mut transport = vec![0, 80, 0, 81, 0, 0, 0, 0, 0, 0, 0, 1, 0x50, 0x80 | 0x10 | 0x08, 1, 0, 0, 0, 0, 0];
    transport.extend_from_slice(&payload);
    for is_ipv6 in [false, true] {
        let kind = if is_ipv6 { Cut::Tcp6 } else { Cut::Tcp4 };
        let header = FrameHeader { cut: kind, segment_byte: 1_000, congestion: true, ..partial(is_ipv6, 16) };
        let frame = around(is_ipv6, 6, &transport);
        let mut store = Store::new(usize::MAX);
        let slot = put(&mut store, &frame, header);
        // The second was lost, the third comes late, behind the fifth.
        let order = [0, 3, 4, 2, 5, 6];
        let frames = leave(&store, &order.map(|number| (slot, number)));
        assert_eq!(frames.iter().map(|it| cut_count(it)).collect::<Vec<_>>(), [1, 2, 1, 2]);
        let all = cut(&frame, header);
        let found: Vec<Vec<u8>> = frames
            .iter()
            .flat_map(|bytes| {
                let (head, frame) = bytes.split_first_chunk::<FRAME_HEADER_BYTE>().expect("it has a header");
                match FrameHeader::read(head) {
                    FrameHeader { cut: Cut::None, checksum: Some(places), .. } => {
                        let mut packet = frame.to_vec();
                        frame::complete_checksum(&mut packet, places);
                        vec![packet]
                    }
                    header => cut(frame, header),
                }
            })
            .collect();
        assert_eq!(found, order.map(|number| all[number as usize].clone()));
    }
}
