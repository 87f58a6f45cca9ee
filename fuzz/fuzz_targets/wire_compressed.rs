//! Fuzzes compressed frames of `mysql-wire`: no input may panic, and
//! headers made anew must be the same bytes.
#![no_main]

// Every target uses one of the checks.
#[allow(dead_code)]
#[path = "../../crates/mysql-wire/tests/identity/mod.rs"]
mod identity;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    identity::compressed::check(input);
});
