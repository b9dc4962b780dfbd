#![no_main]
#[path = "../bodies/tester_frame.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
