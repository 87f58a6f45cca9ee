//! Fuzzes what reads traces: any file may be given to it, and nothing panics.
#![no_main]

#[path = "../../crates/recorder/tests/reading/mod.rs"]
mod reading;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    reading::check(input);
});
