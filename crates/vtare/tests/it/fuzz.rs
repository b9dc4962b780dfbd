//! The fuzz targets on the ordinary toolchain (fuzz/harness.rs).

#[path = "../../fuzz/harness.rs"]
mod harness;

#[path = "../../fuzz/bodies/agent.rs"]
pub(crate) mod agent;
#[path = "../../fuzz/bodies/capture_file.rs"]
mod capture_file;
#[path = "../../fuzz/bodies/capture_frame.rs"]
mod capture_frame;
#[path = "../../fuzz/bodies/control_connection.rs"]
mod control_connection;
#[path = "../../fuzz/bodies/control_messages.rs"]
mod control_messages;
#[path = "../../fuzz/bodies/control_talk.rs"]
mod control_talk;
#[path = "../../fuzz/bodies/emulator_frame.rs"]
mod emulator_frame;
#[path = "../../fuzz/bodies/judge.rs"]
mod judge;
#[path = "../../fuzz/bodies/netlink.rs"]
mod netlink;
#[path = "../../fuzz/bodies/run_file.rs"]
mod run_file;
#[path = "../../fuzz/bodies/tester_frame.rs"]
mod tester_frame;
#[path = "../../fuzz/bodies/wire.rs"]
mod wire;

use harness::fuzz;

#[test]
fn attack_any_bytes_go_through_each_decoder_of_the_wire() {
    fuzz("wire", wire::run);
}

#[test]
fn attack_any_stream_of_datagrams_keeps_to_the_rules_of_the_session_table() {
    fuzz("judge", judge::run);
}

#[test]
fn attack_a_strangers_bytes_open_nothing() {
    fuzz("control_connection", control_connection::run);
}

#[test]
fn attack_any_bytes_go_through_each_decoder_of_the_control_connection() {
    fuzz("control_messages", control_messages::run);
}

#[test]
fn attack_a_client_with_the_key_may_send_anything() {
    fuzz("control_talk", control_talk::run);
}

#[test]
fn any_bytes_as_a_captured_frame_are_counted_right() {
    fuzz("capture_frame", capture_frame::run);
}

#[test]
fn any_bytes_as_a_capture_file_give_no_more_than_they_hold() {
    fuzz("capture_file", capture_file::run);
}

#[test]
fn any_bytes_as_a_frame_of_the_emulated_link_are_cut_and_damaged_within_their_bounds() {
    fuzz("emulator_frame", emulator_frame::run);
}

#[test]
fn any_bytes_as_a_packet_of_the_tester_or_an_echo_reply_are_read_within_their_bounds() {
    fuzz("tester_frame", tester_frame::run);
}

#[test]
fn any_bytes_as_an_answer_of_netlink_give_no_more_than_they_hold() {
    fuzz("netlink", netlink::run);
}

#[test]
fn attack_any_bytes_on_the_control_channel_of_a_guest_are_survived_and_lead_to_no_file_out_of_reach() {
    fuzz("agent", agent::run);
}

#[test]
fn attack_any_text_as_a_run_file_is_read_or_refused() {
    fuzz("run_file", run_file::run);
}
