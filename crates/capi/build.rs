//! How the shared library is linked. The version of its binary interface stands in the header only.

use std::fs;

const HEADER: &str = "include/vtare_clock.h";

fn main() {
    let header = fs::read_to_string(HEADER).expect("the header lies beside the crate");
    let abi: u32 = header
        .lines()
        .find_map(|line| line.strip_prefix("#define VTARE_CLOCK_ABI_VERSION "))
        .and_then(|version| version.trim().parse().ok())
        .expect("the header defines VTARE_CLOCK_ABI_VERSION as a plain number");
    println!("cargo:rerun-if-changed={HEADER}");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-env=VTARE_CLOCK_ABI_VERSION={abi}");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libvtare_clock.so.{abi}");
    // dlclose leaves it in place: threads may still hold state that it frees when they end.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // All symbols are bound at load: the first reading in a signal handler must not meet the dynamic linker's lock.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,now");
}
