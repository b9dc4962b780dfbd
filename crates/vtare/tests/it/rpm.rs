//! `vtare rpm` and `vtare rpm-serve` as command lines. What they measure is tested where their program is:
//! crates/responsiveness/tests and tests/test_rpm.py.

use std::process::Command;

use crate::common::{Outcome, Place, VTARE, golden, vtare_line};

#[test]
fn the_help_is_as_agreed() {
    golden("tests/golden/help_rpm.txt", &vtare_line("rpm --help").stdout);
    golden("tests/golden/help_rpm_serve.txt", &vtare_line("rpm-serve --help").stdout);
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    vtare_line("rpm").refused(2, &["the peer is missing. Name a host"]);
    vtare_line("rpm a --max-time 1s").refused(2, &["most_ns (--max-time)", "6000000000"]);
    vtare_line("rpm a --fail-if rpn>1").refused(2, &["rpn", "rpm"]);
    vtare_line("rpm-serve --listen x").refused(2, &["--listen: 'x': no port"]);
    vtare_line("rpm-serve --max-connections 0").refused(2, &["--max-connections: 0 is not in 1..=8192"]);
}

#[test]
fn without_its_program_it_names_what_is_missing_and_what_installs_it() {
    let place = Place::new();
    let alone = place.file("vtare");
    std::fs::copy(VTARE, &alone).expect("the place is writable");
    for line in [&["rpm", "127.0.0.1:1"][..], &["rpm-serve"]] {
        let output = Command::new(&alone).args(line).env("PATH", "").output().expect("it starts");
        Outcome::of(output).refused(3, &["vtare-rpm", "'make install'"]);
    }
}
