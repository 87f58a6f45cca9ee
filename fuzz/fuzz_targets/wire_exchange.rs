//! Fuzzes whole exchanges: valid replies in any order, with files and progress in between, under
//! anything both sides can agree on, must reach the client as it has to read them.
#![no_main]

#[path = "../../crates/mysql-wire/tests/exchanging/mod.rs"]
mod exchanging;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    exchanging::check(input);
});
