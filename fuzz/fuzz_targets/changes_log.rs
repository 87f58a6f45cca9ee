//! Fuzzes what reads binlogs: any bytes may come; nothing panics, and what is told is JSON.
#![no_main]

#[path = "../../crates/changes/tests/checking/mod.rs"]
mod checking;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    checking::check(input);
});
