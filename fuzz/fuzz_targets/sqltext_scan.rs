//! Fuzzes the scan of SQL texts: no text may panic in any mode, spans lie in the text, the normal
//! form is its own, and the digest does not know the values of literals.
#![no_main]

// The tests use all of it.
#[allow(dead_code)]
#[path = "../../crates/sqltext/tests/checking/mod.rs"]
mod checking;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    checking::check(input);
});
