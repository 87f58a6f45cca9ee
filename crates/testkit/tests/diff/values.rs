//! Values as scenario files write them: parameters of prepared statements, and escapes for bytes
//! that a text file cannot hold.

/// A parameter of a prepared statement, ready for COM_STMT_EXECUTE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// The type byte and, in the high byte, whether it is unsigned.
    pub kind: u16,
    /// The value as it is encoded; `None` for NULL and for what long data has brought.
    pub bytes: Option<Vec<u8>>,
    /// The value came by COM_STMT_SEND_LONG_DATA: not NULL, and absent from the packet.
    pub long: bool,
}

/// Reads `tiny 5, string 'x', null`. Escapes hold within quotes.
pub fn params(text: &str) -> Result<Vec<Param>, String> {
    let mut found = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let end = end_of_item(rest);
        found.push(param(rest[..end].trim())?);
        rest = rest[end..].trim_start_matches(',').trim();
    }
    Ok(found)
}

/// Where the first item ends: at a comma outside of quotes.
fn end_of_item(text: &str) -> usize {
    let mut quoted = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'\'' => quoted = !quoted,
            b',' if !quoted => return at,
            _ => {}
        }
    }
    text.len()
}

/// Type names, type bytes.
const KINDS: [(&str, u8); 21] = [
    ("decimal", 0),
    ("tiny", 1),
    ("short", 2),
    ("int", 3),
    ("float", 4),
    ("double", 5),
    ("null", 6),
    ("timestamp", 7),
    ("big", 8),
    ("medium", 9),
    ("date", 10),
    ("time", 11),
    ("datetime", 12),
    ("year", 13),
    ("varchar", 15),
    ("bit", 16),
    ("newdecimal", 246),
    ("blob", 252),
    ("varstring", 253),
    ("string", 254),
    ("geometry", 255),
];

fn param(text: &str) -> Result<Param, String> {
    let (name, value) = text.split_once(' ').unwrap_or((text, "null"));
    let (name, unsigned) = match name.strip_prefix('u') {
        Some(rest) => (rest, 0x8000),
        None => (name, 0),
    };
    let kind = KINDS.iter().find(|(known, _)| *known == name);
    let (_, kind) = *kind.ok_or_else(|| format!("no such type: {name}"))?;
    let bytes = match value.trim() {
        "null" | "long" => None,
        value => Some(encoded(kind, value)?),
    };
    Ok(Param {
        kind: u16::from(kind) | unsigned,
        bytes,
        long: value.trim() == "long",
    })
}

fn encoded(kind: u8, value: &str) -> Result<Vec<u8>, String> {
    let bad = |error: &dyn std::fmt::Display| format!("{value}: {error}");
    let integer = || value.parse::<i128>().map_err(|error| bad(&error));
    Ok(match kind {
        1 => integer()?.to_le_bytes()[..1].to_vec(),
        2 | 13 => integer()?.to_le_bytes()[..2].to_vec(),
        3 | 9 => integer()?.to_le_bytes()[..4].to_vec(),
        8 => integer()?.to_le_bytes()[..8].to_vec(),
        4 => {
            let number: f32 = value.parse().map_err(|error| bad(&error))?;
            number.to_le_bytes().to_vec()
        }
        5 => {
            let number: f64 = value.parse().map_err(|error| bad(&error))?;
            number.to_le_bytes().to_vec()
        }
        7 | 10 | 11 | 12 => temporal(kind, value)?,
        _ => {
            let inner = value
                .strip_prefix('\'')
                .and_then(|rest| rest.strip_suffix('\''))
                .ok_or_else(|| format!("{value}: strings stand in quotes"))?;
            let mut out = Vec::new();
            mysql_wire::scalar::put_lenenc_bytes(&mut out, &unescape(inner.as_bytes())?);
            out
        }
    })
}

/// `2024-02-29 12:34:56.5`, `2024-02-29`, `-3 12:34:56.000001` (days, then time), or `0`.
fn temporal(kind: u8, value: &str) -> Result<Vec<u8>, String> {
    let (value, negative) = match value.strip_prefix('-') {
        Some(rest) if kind == 11 => (rest, 1),
        _ => (value, 0),
    };
    let (whole, fraction) = value.split_once('.').unwrap_or((value, ""));
    let parts: Result<Vec<u32>, _> = whole.split(['-', ' ', ':']).map(str::parse).collect();
    let parts = parts.map_err(|error| format!("{value}: {error}"))?;
    let micros: u32 = match fraction {
        "" => 0,
        digits => format!("{digits:0<6}")
            .parse()
            .map_err(|error| format!("{value}: {error}"))?,
    };
    let small = |part: &u32| part.to_le_bytes()[0];
    let mut out = match (kind, &parts[..]) {
        (_, [0]) => Vec::new(),
        (11, [days, clock @ ..]) if clock.len() == 3 => {
            let mut out = vec![negative];
            out.extend_from_slice(&days.to_le_bytes());
            out.extend(clock.iter().map(small));
            out
        }
        (7 | 10 | 12, [year, rest @ ..]) if matches!(rest.len(), 2 | 5) => {
            let mut out = year.to_le_bytes()[..2].to_vec();
            out.extend(rest.iter().map(small));
            out
        }
        _ => return Err(format!("{value}: no such date or time")),
    };
    if micros > 0 {
        out.extend_from_slice(&micros.to_le_bytes());
    }
    out.insert(0, out.len().to_le_bytes()[0]);
    Ok(out)
}

/// Replaces `\xNN` by that byte and `{{TEXT*N}}` by N times the text.
pub fn unescape(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with(b"\\x") {
            let digits = rest.get(2..4).and_then(|hex| std::str::from_utf8(hex).ok());
            let byte = digits.and_then(|hex| u8::from_str_radix(hex, 16).ok());
            out.push(byte.ok_or("\\x needs two digits")?);
            at += 4;
        } else if rest.starts_with(b"{{") {
            let end = rest.windows(2).position(|pair| pair == b"}}");
            let inner = &rest[2..end.ok_or("{{ without }}")?];
            let star = inner.iter().rposition(|byte| *byte == b'*');
            let (what, times) = inner.split_at(star.ok_or("{{TEXT*N}}")?);
            let times = std::str::from_utf8(&times[1..]).ok();
            let times: usize = times.and_then(|t| t.parse().ok()).ok_or("{{TEXT*N}}")?;
            out.extend(what.repeat(times));
            at += inner.len() + 4;
        } else {
            out.push(rest[0]);
            at += 1;
        }
    }
    Ok(out)
}
