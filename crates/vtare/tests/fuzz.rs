//! The fuzz targets of the binary on the ordinary toolchain (crates/packet/fuzz/harness.rs).

#[path = "../../packet/fuzz/harness.rs"]
mod harness;

#[path = "../../packet/fuzz/bodies/agent.rs"]
mod agent;
#[path = "../../packet/fuzz/bodies/run_file.rs"]
mod run_file;

use harness::fuzz;

#[test]
fn attack_any_bytes_on_the_control_channel_of_a_guest_are_survived_and_lead_to_no_file_out_of_reach() {
    fuzz("agent", agent::run);
}

#[test]
fn attack_any_text_as_a_run_file_is_read_or_refused() {
    fuzz("run_file", run_file::run);
}
