//! Fuzzes the headers of the PROXY protocol: any bytes may come, in any pieces; a header is the same however
//! its bytes arrive, and one that is written again is read as the same.
#![no_main]

#[path = "../../crates/proxy-wire/tests/checking/mod.rs"]
mod checking;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    checking::check(input);
});
