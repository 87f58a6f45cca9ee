//! Fuzzes what an applier hears of a change stream: any bytes may come, and nothing panics.
#![no_main]

#[path = "../../crates/changes/tests/hearing/mod.rs"]
mod hearing;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    hearing::check(input);
});
