//! What holds for every text. A test runs it on the scenarios' statements and on past findings, the
//! fuzz target on whatever it thinks of. An input is a byte for the mode and the text.

use sqltext::{
    Class, Dialect, Facts, Mode, Multibyte, Origin, SOURCE_TAG_BYTES_MAX, Scan, Span, assignments,
    heddle_rest, heddle_words, identify, kill, normalise, processlist, statements, transaction,
    unquote, use_database,
};

const LAYOUTS: [Multibyte; 8] = [
    Multibyte::None,
    Multibyte::Gbk,
    Multibyte::Sjis,
    Multibyte::Big5,
    Multibyte::Gb18030,
    Multibyte::SingleByte,
    Multibyte::Unknown,
    Multibyte::None,
];

/// The bytes around so many literals are changed one by one.
const LITERALS_CHANGED_MAX: usize = 4;

pub fn mode_of(byte: u8) -> Mode {
    let mut mode = match byte & 1 {
        0 => Mode::new(Dialect::MariaDb, 101_106),
        _ => Mode::new(Dialect::MySql, 80_036),
    };
    mode.ansi_quotes = byte & 2 != 0;
    mode.no_backslash_escapes = byte & 4 != 0;
    mode.multibyte = LAYOUTS[usize::from(byte >> 3 & 7)];
    mode
}

/// The byte for `mode`.
pub fn byte_of(mode: &Mode) -> u8 {
    let byte = (0..64).find(|byte| {
        let found = mode_of(*byte);
        found.dialect == mode.dialect
            && found.ansi_quotes == mode.ansi_quotes
            && found.no_backslash_escapes == mode.no_backslash_escapes
            && found.multibyte == mode.multibyte
    });
    byte.expect("every mode has a byte")
}

pub fn check(input: &[u8]) {
    let Some((&byte, text)) = input.split_first() else {
        return;
    };
    let mode = mode_of(byte);
    let mut scan = Scan::new();
    scan.read(text, &mode);
    literals(&scan, text);
    if scan.class == Class::Read {
        assert!(!scan.facts.intersects(Facts::FORBID_READ));
    }
    assert_eq!(scan.statements > 1, scan.facts.contains(Facts::MULTIPLE));
    assert_eq!(scan.statements == 0, scan.class == Class::Empty);
    closer_looks(&scan, text, &mode);
    origin(text);
    normal_form(&scan, text, &mode);
    other_values(&scan, text, &mode);
    read_before(&scan, text, &mode);
}

/// A scan that has read the text, or one that is much like it, says of a text what a new one says.
fn read_before(scan: &Scan, text: &[u8], mode: &Mode) {
    let mut used = Scan::new();
    // With the second time it is kept.
    (0..3).for_each(|_| used.read(text, mode));
    same_answers(&used, scan, text);
    let mut values = text.to_vec();
    for span in scan.literals.iter().rev() {
        let other: &[u8] = match span.of(text) {
            [b'\'', ..] => b"'other /*!5 * /'",
            _ => b"12345678901",
        };
        values.splice(
            span.start as usize..span.end as usize,
            other.iter().copied(),
        );
    }
    let mut texts = vec![values];
    let literals = scan.literals.iter().take(LITERALS_CHANGED_MAX);
    let ends = literals.flat_map(|span| [span.start as usize, span.end as usize]);
    for at in ends.flat_map(|at| [at.wrapping_sub(1), at]) {
        for byte in [b'\'', b'5', b'a', b'/'] {
            let mut one = text.to_vec();
            if let Some(place) = one.get_mut(at) {
                *place = byte;
                texts.push(one);
            }
        }
    }
    for text in texts {
        used.read(&text, mode);
        let mut fresh = Scan::new();
        fresh.read(&text, mode);
        same_answers(&used, &fresh, &text);
    }
}

fn same_answers(one: &Scan, other: &Scan, text: &[u8]) {
    let said = |scan: &Scan| {
        (
            scan.verb,
            scan.class,
            scan.facts,
            scan.shape,
            scan.folds,
            scan.placeholders,
        )
    };
    assert_eq!(said(one), said(other), "{}", String::from_utf8_lossy(text));
    assert_eq!(
        (one.statements, &one.literals),
        (other.statements, &other.literals)
    );
}

/// A tag is short and can stand between any quotes.
fn origin(text: &[u8]) {
    let mut origin = Origin::default();
    origin.read(text);
    assert!(origin.tag.len() <= SOURCE_TAG_BYTES_MAX && origin.trace.len() <= 55);
    let odd = |c: char| c.is_control() || matches!(c, '\'' | '"' | '`' | '\\');
    assert!(!origin.tag.contains(odd) && !origin.trace.contains(odd));
}

fn inside(span: Span, text: &[u8]) -> bool {
    span.start <= span.end && span.end as usize <= text.len()
}

/// Literals come in order, do not overlap, and begin and end as literals do.
fn literals(scan: &Scan, text: &[u8]) {
    let mut end = 0;
    for span in &scan.literals {
        assert!(span.start >= end && span.start < span.end && inside(*span, text));
        end = span.end;
        let bytes = span.of(text);
        let quote = bytes.iter().find(|byte| matches!(byte, b'\'' | b'"'));
        match bytes[0] {
            b'\'' | b'"' | b'n' | b'N' | b'x' | b'X' | b'b' | b'B' => {
                let closed = bytes.len() > 1 && bytes.last() == quote;
                assert!(closed || scan.facts.contains(Facts::AMBIGUOUS));
            }
            b'0'..=b'9' | b'.' | b'+' | b'-' => assert_eq!(quote, None),
            other => panic!("a literal that begins with {other}"),
        }
    }
    for pair in &scan.hint.heddle {
        assert!(inside(pair.key, text) && inside(pair.value, text));
        assert!(pair.key.start < pair.key.end);
    }
}

fn closer_looks(scan: &Scan, text: &[u8], mode: &Mode) {
    let spans = statements(text, mode);
    assert_eq!(spans.len(), scan.statements as usize);
    for pair in spans.windows(2) {
        assert!(pair[0].end < pair[1].start);
    }
    for span in spans {
        assert!(inside(span, text) && span.start < span.end);
    }
    for assignment in assignments(text, mode) {
        assert!(inside(assignment.value, text) && !assignment.value.of(text).is_empty());
    }
    for span in &scan.literals {
        assert!(unquote(span.of(text), mode).len() <= span.of(text).len());
    }
    let _ = (
        kill(text, mode),
        processlist(text, mode),
        identify(text, mode, 5),
        use_database(text, mode),
        transaction(text, mode),
    );
    let words = heddle_words(text, mode);
    assert!(words.is_empty() || scan.class == Class::Local || scan.statements > 1);
    heddle_rest(text, mode, 2);
}

/// The normal form has the text's shape and is its own normal form.
fn normal_form(scan: &Scan, text: &[u8], mode: &Mode) {
    let mut normal = String::new();
    normalise(text, mode, &mut normal);
    // Other charsets do not survive the way through a string of UTF-8.
    if str::from_utf8(text).is_err() || mode.multibyte != Multibyte::None {
        return;
    }
    let mut again = Scan::new();
    again.read(normal.as_bytes(), mode);
    assert_eq!(again.shape, scan.shape, "{normal}");
    let mut twice = String::new();
    normalise(normal.as_bytes(), mode, &mut twice);
    assert_eq!(normal, twice);
}

/// Other values in the literals' places make no other shape, class or facts.
fn other_values(scan: &Scan, text: &[u8], mode: &Mode) {
    let mut changed = Vec::new();
    let mut from = 0;
    for span in &scan.literals {
        let (start, end) = (span.start as usize, span.end as usize);
        let before = start.checked_sub(1).map_or(0, |at| text[at]);
        let after = text.get(end).copied().unwrap_or(0);
        // Quotes that would touch a quote, or a letter that makes a prefix, mean something else.
        let safe = !matches!(before, b'\'' | b'n' | b'N' | b'x' | b'X' | b'b' | b'B')
            && !matches!(after, b'\'' | b'.')
            && before < 0x80
            && (from < start || from == 0);
        if safe {
            changed.extend_from_slice(&text[from..start]);
            changed.extend_from_slice(b"'other'");
            from = end;
        }
    }
    changed.extend_from_slice(&text[from..]);
    if scan.facts.contains(Facts::AMBIGUOUS) {
        // What never ended would end now.
        return;
    }
    let mut other = Scan::new();
    other.read(&changed, mode);
    assert_eq!(
        other.shape,
        scan.shape,
        "{}",
        String::from_utf8_lossy(&changed)
    );
    assert_eq!((other.class, other.facts), (scan.class, scan.facts));
    assert_eq!(other.literals.len(), scan.literals.len());
}
