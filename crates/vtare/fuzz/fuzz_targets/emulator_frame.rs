#![no_main]
#[path = "../bodies/emulator_frame.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
