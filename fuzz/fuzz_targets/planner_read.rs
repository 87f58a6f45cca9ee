//! Fuzzes everything that reads statements, from the first scan to the texts for the groups, on half of the
//! stack that a router's threads have: no text may panic, or end the process.
#![no_main]

#[path = "../../crates/planner/tests/plans/reading/mod.rs"]
mod reading;

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let text = text.to_owned();
    let thread = std::thread::Builder::new().stack_size(planner::STACK_BYTES / 2);
    let read = thread.spawn(move || reading::read(&text)).expect("a thread");
    read.join().expect("it did not panic");
});
