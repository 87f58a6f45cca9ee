//! Fuzzes the requests of memcached's protocols: any bytes may come, in any pieces; a request is the
//! same however its bytes arrive, and its keys and values keep to the limits.
#![no_main]

#[path = "../../crates/memcache-wire/tests/checking/mod.rs"]
mod checking;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    checking::check(input);
});
