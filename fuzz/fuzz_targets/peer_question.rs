//! Bodies of peers' questions, as bytes from the network.

#![no_main]

#[path = "../../crates/door-http/tests/doors/asking/mod.rs"]
mod asking;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    asking::check(input);
});
