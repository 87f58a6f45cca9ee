//! Lines of a stream, byte by byte turned into something else: nothing panics.

mod hearing;

const LINES: &str = include_str!("../corpus/changes_lines/stream");

#[test]
fn lines_are_heard() {
    assert_eq!(hearing::check(LINES.as_bytes()), 2);
}

#[test]
fn lines_with_other_bytes_do_no_harm() {
    for at in 0..LINES.len() {
        for byte in [0, b'"', b'{', b'\n', 0xFF] {
            let mut bytes = LINES.as_bytes().to_vec();
            bytes[at] = byte;
            hearing::check(&bytes);
        }
        hearing::check(&LINES.as_bytes()[..at]);
    }
}
