//! Calls of Fabric's clients: whatever the bytes are, reading them ends, and what was read can be written and
//! read again.
#![no_main]

use door_fabric::xml::{call, read};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(first) = read(bytes) else { return };
    let written = call(&first.method, &first.params);
    // What is written is longer: a value without a type gets one.
    if let Ok(second) = read(written.as_bytes()) {
        assert_eq!(second.params.len(), first.params.len());
    }
});
