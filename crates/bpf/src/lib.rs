//! Programs for the kernel: C beside this file's directory, compiled to objects that are built into the binary. May
//! touch: nothing.
//!
//! `crates/bpf/build` compiles `*.c`; the test of this crate compares the objects in the tree with a fresh build.
#![forbid(unsafe_code)]

/// Where the fields of the programs' structs lie in the values of their maps, and the constants of their enums: read
/// from the C by this crate's `build.rs`. A field is named by its first 64-bit word, or by its byte (`_AT`).
pub mod layout {
    include!(concat!(env!("OUT_DIR"), "/layout.rs"));
}

/// Gives the replies of a session to an AF_XDP socket (`af_xdp.c`).
pub const AF_XDP: &[u8] = include_bytes!("../af_xdp.bpf.o");
/// Copies the probes at the entry and exit of an interface (`capture.c`).
pub const CAPTURE: &[u8] = include_bytes!("../capture.bpf.o");
/// Adds up the bytes of IP that come in at an interface, bin by bin (`link_counter.c`).
pub const LINK_COUNTER: &[u8] = include_bytes!("../link_counter.bpf.o");
/// Sends probes on a schedule and takes their replies (`probe.c`).
pub const PROBE: &[u8] = include_bytes!("../probe.bpf.o");
/// Answers the probes of open sessions (`reflect.c`).
pub const REFLECT: &[u8] = include_bytes!("../reflect.bpf.o");
/// Sends and counts frames for tests of what forwards them (`throughput.c`).
pub const THROUGHPUT: &[u8] = include_bytes!("../throughput.bpf.o");
