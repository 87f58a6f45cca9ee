//! Reads any bytes as a trace, for the tests and the fuzz target `recorder_read`.

use recorder::{Filter, Timeline, read};

/// Nothing panics, and what is read is no more than what is there.
pub fn check(input: &[u8]) {
    let Ok(trace) = read(input) else {
        return;
    };
    let entries: usize = trace
        .rings
        .iter()
        .map(|ring| ring.entries.len() + ring.torn)
        .sum();
    assert!(
        entries <= input.len() / 32,
        "{entries} records in {} bytes",
        input.len()
    );
    let group = trace.notes.groups.values().next().cloned();
    let server = trace
        .notes
        .servers
        .values()
        .next()
        .map(|(address, _)| address.clone());
    let mut timeline = Timeline::default();
    timeline.add(trace.clone());
    timeline.add(trace);
    let all = timeline.lines(&Filter::default());
    assert!(all.len() <= 2 * entries);
    for line in &all {
        line.text("now");
    }
    let some = timeline.lines(&Filter {
        group,
        server,
        last: Some(3),
        ..Filter::default()
    });
    assert!(some.len() <= 3);
}
