use proptest::prelude::*;

use super::super::frame::{self, LinkType};
use super::super::sample::{V4, ethernet, full_request, udp};
use super::*;

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Style {
    big: bool,
    nanos: bool,
}

impl Style {
    const ALL: [Self; 4] = [
        Self { big: false, nanos: false },
        Self { big: false, nanos: true },
        Self { big: true, nanos: false },
        Self { big: true, nanos: true },
    ];

    fn half(self, value: u16) -> [u8; 2] {
        if self.big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn word(self, value: u32) -> [u8; 4] {
        if self.big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn long(self, value: u64) -> [u8; 8] {
        if self.big { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    /// The head of a classic file.
    fn head(self, link: u32) -> Vec<u8> {
        let mut file = self.word(if self.nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 }).to_vec();
        file.extend(self.half(2));
        file.extend(self.half(4));
        file.extend([0; 8]);
        file.extend(self.word(262_144));
        file.extend(self.word(link));
        file
    }

    /// A packet of a classic file.
    fn record(self, seconds: u32, part: u32, original: u32, bytes: &[u8]) -> Vec<u8> {
        let words = [seconds, part, bytes.len() as u32, original];
        let mut record: Vec<u8> = words.iter().flat_map(|&word| self.word(word)).collect();
        record.extend(bytes);
        record
    }

    /// A block of a pcapng file.
    fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let length = self.word((body.len().next_multiple_of(4) + 12) as u32);
        let mut block = [self.word(kind), length].concat();
        block.extend(body);
        block.resize(block.len().next_multiple_of(4), 0);
        block.extend(length);
        block
    }

    fn option(self, code: u16, value: &[u8]) -> Vec<u8> {
        let mut option = [self.half(code), self.half(value.len() as u16)].concat();
        option.extend(value);
        option.resize(option.len().next_multiple_of(4), 0);
        option
    }

    fn section(self) -> Vec<u8> {
        let body = [&self.word(0x1a2b_3c4d)[..], &self.half(1), &self.half(0), &[0xff; 8]].concat();
        self.block(0x0a0d_0d0a, &body)
    }

    fn interface(self, link: u16, snap: u32, options: &[u8]) -> Vec<u8> {
        self.block(1, &[&self.half(link)[..], &[0, 0], &self.word(snap), options].concat())
    }

    fn enhanced(self, interface: u32, units: u64, original: u32, bytes: &[u8], options: &[u8]) -> Vec<u8> {
        let words = [interface, (units >> 32) as u32, units as u32, bytes.len() as u32, original];
        let mut body: Vec<u8> = words.iter().flat_map(|&word| self.word(word)).collect();
        body.extend(bytes);
        body.resize(body.len().next_multiple_of(4), 0);
        body.extend(options);
        self.block(6, &body)
    }
}

/// What a frame was, with its bytes as a value of their own.
type Seen = (Option<i64>, u16, u32, Option<Direction>, u32, Vec<u8>);

fn read_all(file: &[u8]) -> (Vec<Seen>, Result<Option<CutShort>, PcapError>) {
    let mut seen = Vec::new();
    let mut reader = match Reader::open(file) {
        Ok(reader) => reader,
        Err(error) => return (seen, Err(error)),
    };
    loop {
        match reader.next_frame() {
            Ok(Some(frame)) => seen.push((
                frame.captured_ns,
                frame.link,
                frame.interface,
                frame.direction,
                frame.original_byte,
                frame.bytes.to_vec(),
            )),
            Ok(None) => return (seen, Ok(reader.cut_short())),
            Err(error) => return (seen, Err(error)),
        }
    }
}

#[test]
fn classic_files_are_read_in_both_byte_orders_and_both_resolutions() {
    for style in Style::ALL {
        let mut file = style.head(0x1000_0001);
        file.extend(style.record(1_700_000_000, 123_456, 3, b"abc"));
        file.extend(style.record(u32::MAX, 999_999, 9_000, b"only the head"));
        let unit = if style.nanos { 1 } else { 1_000 };
        let (seen, end) = read_all(&file);
        assert_eq!(end.expect("whole"), None);
        assert_eq!(
            seen,
            [
                (Some(1_700_000_000_000_000_000 + 123_456 * unit), 1, 0, None, 3, b"abc".to_vec()),
                (Some(4_294_967_295_000_000_000 + 999_999 * unit), 1, 0, None, 9_000, b"only the head".to_vec()),
            ],
            "{style:?}"
        );
    }
}

#[test]
fn a_file_cut_anywhere_gives_all_whole_packets_and_states_where_it_ends() {
    for style in Style::ALL {
        let mut classic = style.head(1);
        let mut ng = [style.section(), style.interface(1, 0, &[])].concat();
        let (classic_head, ng_head) = (classic.len(), ng.len());
        let mut ends = [vec![classic_head], vec![ng_head]];
        for at in 0..3 {
            classic.extend(style.record(1, at, 5, b"12345"));
            ends[0].push(classic.len());
            ng.extend(style.enhanced(0, at.into(), 5, b"12345", &[]));
            ends[1].push(ng.len());
        }
        for (file, ends) in [(classic, &ends[0]), (ng, &ends[1])] {
            for length in ends[0]..=file.len() {
                let (seen, end) = read_all(&file[..length]);
                let whole = ends.iter().filter(|&&end| end <= length).count() - 1;
                assert_eq!(seen.len(), whole);
                let wanted = (length > ends[whole])
                    .then(|| CutShort { offset: ends[whole] as u64, there_byte: (length - ends[whole]) as u64 });
                assert_eq!(end.expect("cut is no error"), wanted);
            }
            assert!(matches!(read_all(&file[..ends[0] - 1]).1, Err(PcapError::Magic { .. })) || ends[0] != 24);
        }
    }
}

#[test]
fn interfaces_have_their_own_link_resolution_and_offset() {
    for style in [Style::ALL[0], Style::ALL[2]] {
        let resolution = |byte: u8| style.option(9, &[byte]);
        let offset = |seconds: i64| style.option(14, &style.long(seconds.cast_unsigned()));
        let mut file = style.section();
        file.extend(style.interface(1, 0, &[]));
        file.extend(style.interface(101, 0, &[resolution(9), style.option(0, &[])].concat()));
        file.extend(style.interface(113, 0, &[resolution(0x80 | 10), offset(-5)].concat()));
        file.extend(style.interface(113, 0, &[resolution(12), offset(7)].concat()));
        file.extend(style.enhanced(0, 1_000_001, 3, b"abc", &style.option(2, &style.word(1))));
        file.extend(style.enhanced(1, 1_700_000_000_123_456_789, 3, b"abc", &style.option(2, &style.word(0xfe))));
        file.extend(style.enhanced(2, 10 * 1_024 + 512, 3, b"abc", &[]));
        file.extend(style.enhanced(3, 1_999, 3, b"abcd", &style.option(1, b"a remark")));
        let (seen, end) = read_all(&file);
        assert_eq!(end.expect("whole"), None);
        let facts: Vec<_> = seen.iter().map(|seen| (seen.0, seen.1, seen.2, seen.3)).collect();
        let expected = [
            (Some(1_000_001_000), 1, 0, Some(Direction::Rx)),
            (Some(1_700_000_000_123_456_789), 101, 1, Some(Direction::Tx)),
            (Some(5_500_000_000), 113, 2, None),
            (Some(7_000_000_001), 113, 3, None),
        ];
        assert_eq!(facts, expected, "{style:?}");
    }
}

#[test]
fn simple_blocks_unknown_blocks_statistics_and_a_second_section_are_read() {
    let (first, second) = (Style::ALL[0], Style::ALL[2]);
    let counts = |style: Style, received, dropped, by_system| {
        let mut body = [style.word(0), style.word(0), style.word(0)].concat();
        for (code, value) in [(4, received), (5, dropped), (7, by_system)] {
            body.extend(style.option(code, &style.long(value)));
        }
        style.block(5, &body)
    };
    let mut file = [first.section(), first.block(0x0bad, b"what is this"), first.interface(1, 4, &[])].concat();
    file.extend(first.block(3, &[&first.word(9)[..], b"cut at 4"].concat()));
    file.extend(counts(first, 10, 1, 2));
    file.extend(counts(first, 20, 3, 4));
    file.extend([second.section(), second.interface(101, 0, &[])].concat());
    file.extend(second.block(3, &[&second.word(4)[..], b"four"].concat()));
    file.extend(counts(second, 100, 0, 1));
    let mut reader = Reader::open(&file[..]).expect("a head");
    assert_eq!(reader.format(), "pcapng");
    let frame = reader.next_frame().expect("whole").expect("one");
    assert_eq!((frame.captured_ns, frame.original_byte, frame.bytes), (None, 9, &b"cut "[..]));
    let frame = reader.next_frame().expect("whole").expect("another");
    assert_eq!((frame.link, frame.bytes), (101, &b"four"[..]));
    assert_eq!(reader.next_frame().expect("whole"), None);
    let found = WriterCounts { received: Some(120), dropped_by_interface: Some(3), dropped_by_system: Some(5) };
    assert_eq!(reader.counts(), found);
}

#[test]
fn a_damaged_file_is_refused_with_place_value_and_what_may_stand_there() {
    let style = Style::ALL[0];
    let refused = |file: Vec<u8>, parts: &[&str]| {
        let error = read_all(&file).1.expect_err("damaged").to_string();
        parts.iter().for_each(|part| assert!(error.contains(part), "{part} is missing in: {error}"));
    };
    refused(Vec::new(), &["fewer than 4 bytes", "is not a pcap or pcapng file"]);
    refused(b"PAR1 and so on".to_vec(), &["50 41 52 31"]);
    refused(vec![0x1f, 0x8b, 8, 0], &["gzip", "zcat"]);
    refused(style.head(1)[..20].to_vec(), &["ends within it"]);
    let mut old = style.head(1);
    old[4] = 1;
    refused(old, &["byte 4", "version", "is 1 but must be 2"]);
    let broken =
        [style.head(1), style.word(0).to_vec(), style.word(0).to_vec(), style.word(1 << 30).to_vec(), vec![0; 4]];
    refused(broken.concat(), &["byte 32", "the length of a packet is 1073741824 but must be at most 16777216"]);

    let head = [style.section(), style.interface(1, 0, &[])].concat();
    let at = head.len();
    refused(
        [head.clone(), style.enhanced(7, 0, 3, b"abc", &[])].concat(),
        &["the interface of a packet is 7", "one of the 1"],
    );
    let mut ends = [head.clone(), style.block(9, b"body")].concat();
    let last = ends.len() - 4;
    ends[last] = 99;
    refused(ends, &[&format!("byte {last}"), "the length behind a block is 99 but must be 16, as in front"]);
    let odd = [head.clone(), style.word(9).to_vec(), style.word(13).to_vec(), vec![0; 20]].concat();
    refused(odd, &[&format!("byte {}", at + 4), "is 13 but must be a multiple of 4 from 12"]);
    let mut long = [head, style.enhanced(0, 0, 3, b"abc", &[])].concat();
    long[at + 20] = 200;
    refused(long, &[&format!("byte {}", at + 20), "the length of a packet is 200 but must be at most the 4"]);
    let mut order = style.section();
    order[8] = 0;
    refused(order, &["byte 8", "the byte order's magic number"]);
}

#[test]
fn a_long_file_is_read_in_little_memory() {
    let style = Style::ALL[0];
    let mut file = style.head(101);
    for at in 0..40_000 {
        file.extend(style.record(1, at, 92, &udp(V4, (1, 8_462), &full_request(at.into(), 64))));
    }
    let mut reader = Reader::open(&file[..]).expect("a head");
    let mut expected = 0..40_000;
    while let Some(found) = reader.next_frame().expect("whole") {
        let packet = frame::read(LinkType::RawIp, found.bytes).expect("a packet");
        assert_eq!(packet.payload[12..20], expected.next().map(u64::to_be_bytes).expect("not too many"));
    }
    assert_eq!(expected.next(), None);
    assert!(file.len() > 4_000_000 && reader.source.held_byte() < 300_000, "{}", reader.source.held_byte());
}

#[test]
fn tcpdump_writes_what_is_read() {
    // tcpdump reads our classic file and writes it anew, in its own hand.
    let place = std::env::temp_dir().join(format!("vtare-pcap-{}", std::process::id()));
    std::fs::create_dir_all(&place).expect("the temporary directory is writable");
    let (own, other) = (place.join("own.pcap"), place.join("other.pcap"));
    let style = Style::ALL[3];
    let mut file = style.head(1);
    for at in 0..50_u32 {
        file.extend(style.record(
            1_700_000_000,
            at,
            106,
            &ethernet(&udp(V4, (1, 8_462), &full_request(at.into(), 64)), &[]),
        ));
    }
    std::fs::write(&own, &file).expect("written");
    let words = ["--time-stamp-precision=nano", "-r", &own.to_string_lossy(), "-w", &other.to_string_lossy()];
    let done = std::process::Command::new("tcpdump").args(words).output();
    let rewritten = std::fs::read(&other);
    let _gone = std::fs::remove_dir_all(&place);
    match done {
        Err(error) => return eprintln!("skipped: no tcpdump here: {error}"),
        Ok(done) => assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr)),
    }
    let (seen, end) = read_all(&rewritten.expect("tcpdump wrote it"));
    assert_eq!(end.expect("whole"), None);
    assert_eq!(seen, read_all(&file).0);
}

proptest! {
    #[test]
    fn any_bytes_behind_a_head_end_with_a_reason_or_the_file(
        bytes in proptest::collection::vec(any::<u8>(), 0..400), style in 0_usize..4, ng: bool,
    ) {
        let style = Style::ALL[style];
        let head = if ng { [style.section(), style.interface(1, 0, &[])].concat() } else { style.head(1) };
        let file = [head, bytes].concat();
        let (seen, _end) = read_all(&file);
        prop_assert!(seen.iter().map(|seen| seen.5.len()).sum::<usize>() <= file.len());
    }

    #[test]
    fn options_of_any_bytes_are_read_without_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..100),
        kind in 1_u32..7,
    ) {
        let style = Style::ALL[0];
        let file = [style.section(), style.interface(1, 0, &bytes), style.block(kind, &bytes)].concat();
        let _whatever = read_all(&file);
    }
}
