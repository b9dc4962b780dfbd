//! The fuzz targets on the ordinary toolchain: every kept case, and seeded mutations of them. `make test-fuzz` runs
//! more of them where
//! cargo-fuzz is not installed. `VTARE_FUZZ_CASES` is the number of mutations for each target, `VTARE_FUZZ_SEED` their
//! seed.

use std::path::Path;

use vtare_units::Random;

/// Mutations of each target where nothing else is asked for: a second together. `make test-fuzz` makes many more.
const USUAL_CASES: u64 = 500;

/// Longer cases are cut: they cost time and find nothing that shorter ones do not.
const LONGEST_BYTE: usize = 4_096;

/// Bytes at which decisions change: signs, ends of ranges, first bytes of datagrams, JSON.
const TELLING: &[u8] =
    &[0, 1, 2, 0x10, 0x11, 0x12, 0x13, 0x14, 0x19, 0x1a, 0x1b, 0x7f, 0x80, 0xff, b'{', b'"', b'\n', b'0', b'9'];

fn number(name: &str, usual: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is '{text}': use a number")),
        Err(_) => usual,
    }
}

fn cases(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let mut paths: Vec<_> = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("the folder can be read").path())
        .collect();
    // A folder has no order of its own, and a seed shall always make the same cases.
    paths.sort();
    assert!(!paths.is_empty(), "{} holds no case", folder.display());
    paths.iter().map(|path| std::fs::read(path).expect("a kept case can be read")).collect()
}

fn below(random: &mut Random, end: usize) -> usize {
    if end == 0 { 0 } else { (random.bits() % end as u64) as usize }
}

/// One to eight changes to a case, of the kinds that fuzzers use.
fn mutated(cases: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut bytes = cases[below(random, cases.len())].clone();
    for _ in 0..=below(random, 8) {
        let at = below(random, bytes.len());
        match random.bits() % 8 {
            _ if bytes.is_empty() => bytes.push(random.bits() as u8),
            0 => bytes[at] ^= 1 << (random.bits() % 8),
            1 => bytes[at] = random.bits() as u8,
            2 => bytes[at] = TELLING[below(random, TELLING.len())],
            3 => bytes.insert(at, TELLING[below(random, TELLING.len())]),
            4 => drop(bytes.drain(at..(at + 1 + below(random, 8)).min(bytes.len()))),
            5 => {
                let piece = bytes[at..(at + 1 + below(random, 64)).min(bytes.len())].to_vec();
                let to = below(random, bytes.len());
                bytes.splice(to..to, piece);
            }
            6 => {
                let other = &cases[below(random, cases.len())];
                let from = below(random, other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            _ => {
                let value = u64::MAX >> (random.bits() % 64);
                let width = [1, 2, 4, 8][below(random, 4)];
                let end = (at + width).min(bytes.len());
                bytes[at..end].copy_from_slice(&value.to_be_bytes()[8 - (end - at)..]);
            }
        }
    }
    bytes.truncate(LONGEST_BYTE);
    bytes
}

/// Runs every kept case of a target, then mutations of them.
pub(crate) fn fuzz(target: &str, run: fn(&[u8])) {
    let cases = cases(target);
    cases.iter().for_each(|case| run(case));
    let mut random = Random::new(number("VTARE_FUZZ_SEED", 1));
    for number in 0..number("VTARE_FUZZ_CASES", USUAL_CASES) {
        let case = mutated(&cases, &mut random);
        let ended = std::panic::catch_unwind(|| run(&case));
        assert!(ended.is_ok(), "{target}, mutation {number}: {case:02x?}");
    }
}
