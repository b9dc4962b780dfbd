use std::sync::atomic::Ordering;

use super::*;

const BYTES: &[u8] = include_bytes!("../../../bpf/selftest.bpf.o");

fn object() -> Object {
    Object::parse("selftest", BYTES).expect("it is in the tree")
}

/// Makes the maps; `None`, with a message, where this process may not.
fn maps() -> Option<Maps> {
    match object().create_maps() {
        Ok(maps) => Some(maps),
        Err(error @ (BpfError::NotPermitted { .. } | BpfError::NotSupported { .. })) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn fold() -> u64 {
    (0..5).fold(1_u64, |sum, index| sum.wrapping_mul(31) ^ (index << 7))
}

#[test]
fn a_program_with_a_callback_a_subprogram_and_three_maps_runs() {
    let Some(mut maps) = maps() else { return };
    let program = object().load("selftest", &maps).expect("the verifier takes it");
    let mut ring = RingBuffer::new(maps.take("records")).expect("it is one");
    let view = maps.get("words").view().expect("it can be mapped");
    let (answer, after) = program.run_once(&[42; 64]).expect("it runs");
    assert_eq!((answer, after.len(), after[0], after[1]), (2, 64, 7, 42), "XDP_PASS, and the first byte rewritten");
    let entry: Vec<u64> = view.entry(1).iter().map(|word| word.load(Ordering::Relaxed)).collect();
    assert_eq!(entry, [fold(), 42]);
    assert!(view.entry(0).iter().all(|word| word.load(Ordering::Relaxed) == 0));
    let mut records = Vec::new();
    assert_eq!(ring.drain(&mut |record| records.push(record.to_vec())), 1);
    assert_eq!(records[0][..8], fold().to_ne_bytes());
    assert_eq!(records[0][8..], 42_u64.to_ne_bytes());
}

#[test]
fn what_is_written_through_a_view_is_what_the_kernel_reads() {
    let Some(maps) = maps() else { return };
    let words = maps.get("words");
    words.view().expect("it can be mapped").entry(2)[1].store(5, Ordering::Relaxed);
    let mut value = [0; 16];
    assert!(words.lookup(&2_u32.to_ne_bytes(), &mut value).expect("it reads"));
    assert_eq!(value[8..], 5_u64.to_ne_bytes());
    assert!(!words.lookup(&3_u32.to_ne_bytes(), &mut value).expect("it reads"), "there are three");
}

#[test]
fn a_hash_map_takes_gives_and_forgets_and_states_when_it_is_full() {
    let Some(maps) = maps() else { return };
    let table = maps.get("table");
    let program = object().load("selftest", &maps).expect("the verifier takes it");
    table.update(&42_u64.to_ne_bytes(), &7_u32.to_ne_bytes()).expect("there is room");
    assert_eq!(program.run_once(&[42; 64]).expect("it runs").0, 3, "XDP_TX for a name it knows");
    let mut value = [0; 4];
    assert!(table.lookup(&42_u64.to_ne_bytes(), &mut value).expect("it reads"));
    assert_eq!(u32::from_ne_bytes(value), 8);
    table.update(&43_u64.to_ne_bytes(), &value).expect("there is room");
    let full = table.update(&44_u64.to_ne_bytes(), &value).expect_err("it holds two");
    assert_eq!(full.errno(), Some(libc::E2BIG));
    assert!(table.delete(&42_u64.to_ne_bytes()).expect("it deletes"));
    assert!(!table.delete(&42_u64.to_ne_bytes()).expect("it deletes"));
}

#[test]
fn a_ring_gives_every_record_in_order_over_its_edge_and_drops_none_that_fits() {
    let Some(mut maps) = maps() else { return };
    let program = object().load("selftest", &maps).expect("the verifier takes it");
    let mut ring = RingBuffer::new(maps.take("records")).expect("it is one");
    let mut got = Vec::new();
    for round in 0..50_u8 {
        // Records of 16 and of 9 B, 24 B each with their headers: the edge falls between and within them.
        for number in 0..9 {
            program.run_once(&[if number == 4 { 9 } else { round }; 14]).expect("it runs");
        }
        ring.drain(&mut |record| got.push((record.len(), record[8])));
        let expected: Vec<(usize, u8)> =
            (0..9).map(|n| if n == 4 || round == 9 { (9, 9) } else { (16, round) }).collect();
        assert_eq!(std::mem::take(&mut got), expected);
    }
    // 4096 B hold 170 of them; the others find no room, and those that did are whole.
    for _ in 0..300 {
        program.run_once(&[1; 14]).expect("it runs");
    }
    assert_eq!(ring.drain(&mut |record| assert_eq!(record.len(), 16)), 170);
    assert_eq!(ring.drain(&mut |_| panic!("it is empty")), 0);
}

#[test]
fn the_verifiers_words_are_in_the_error() {
    let Some(_) = maps() else { return };
    // r0 is read before it is set: exit alone.
    let refused = Program::load("bad", (ProgramKind::Xdp, 0), "MIT", &[0x95], &[0]).expect_err("no kernel takes it");
    assert!(matches!(&refused, BpfError::Verifier { log, .. } if log.contains("R0")), "{refused}");
}

#[test]
fn a_program_that_is_not_there_is_named_with_those_that_are() {
    let error = object().instructions("none").expect_err("there is none").to_string();
    assert!(error.contains("no program none") && error.contains("selftest, selftest_tc"), "{error}");
}

#[test]
fn a_file_cut_or_broken_anywhere_is_refused_or_read_and_never_panics() {
    for end in 0..BYTES.len() {
        let _ = Object::parse("cut", &BYTES[..end]).map(|object| object.instructions("selftest").map(drop));
    }
    for at in 0..BYTES.len() {
        let mut bytes = BYTES.to_vec();
        bytes[at] ^= 0xff;
        let _ = Object::parse("broken", &bytes).map(|object| object.instructions("selftest").map(drop));
    }
    assert!(Object::parse("none", b"").is_err());
}

#[test]
fn links_go_with_their_owner() {
    let Some(maps) = maps() else { return };
    let worked = std::thread::spawn(move || {
        // A network namespace of this thread's own: its loopback interface has number 1.
        // SAFETY: takes a number only.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            return eprintln!("skipped: no network namespace of its own: {}", std::io::Error::last_os_error());
        }
        let xdp = object().load("selftest", &maps).expect("the verifier takes it");
        let tc = object().load("selftest_tc", &maps).expect("the verifier takes it");
        for _ in 0..2 {
            let first = XdpLink::attach(&xdp, 1).expect("nothing is attached");
            assert_eq!(first.mode() == XdpMode::Generic, first.native_refused().is_some());
            assert!(XdpLink::attach(&xdp, 1).is_err(), "one at a time");
        }
        match TcLink::attach(&tc, 1, TcSide::Egress) {
            Err(error @ BpfError::NotSupported { .. }) => eprintln!("skipped: {error}"),
            link => drop(link.expect("it attaches")),
        }
        assert_eq!(XdpLink::attach(&xdp, 999).expect_err("no such interface").errno(), Some(libc::ENODEV));
    });
    worked.join().expect("the assertions hold");
}
