//! Fuzzes the walk over a streaming reply: no input may panic, and how a reply is cut into pieces
//! must not change what comes out.
#![no_main]

#[path = "../../crates/mysql-wire/tests/relaying/mod.rs"]
mod relaying;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    relaying::check(input);
});
