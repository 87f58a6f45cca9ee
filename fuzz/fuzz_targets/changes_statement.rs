//! Fuzzes what reads statements, and what they were run with, of binlogs: any bytes may come; nothing panics, and what is told is
//! JSON.
#![no_main]

#[path = "../../crates/changes/tests/stating/mod.rs"]
mod stating;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    stating::check(input);
});
