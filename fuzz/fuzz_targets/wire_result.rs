//! Fuzzes result sets and prepared statements of `mysql-wire`: no input may panic, and
//! decoding, encoding and decoding again must give the same message.
#![no_main]

// Every target uses one of the checks.
#[allow(dead_code)]
#[path = "../../crates/mysql-wire/tests/identity/mod.rs"]
mod identity;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    identity::result::check(input);
});
