//! Packets as named fields, for comparing them with exceptions and for saying what differs.

use mysql_wire::Malformed;
use mysql_wire::capability::Capabilities;
use mysql_wire::scalar::Reader;

use crate::transcript::Kind;

/// Names and values in the packet's order. What cannot be decoded is in the field `rest`.
pub type Fields = Vec<(&'static str, String)>;

const SESSION_STATE_CHANGED: u16 = 1 << 14;

/// These are OUT parameters.
const ANNOUNCING: u16 = 0x1000;

/// Decodes a packet. Every byte of it is in some field.
pub fn fields(kind: Kind, packet: &[u8], capabilities: Capabilities) -> Fields {
    let mut reader = Reader::new(packet);
    let mut found = Fields::new();
    // What was decoded before the packet ended too early is kept.
    let _ = match kind {
        Kind::Ok => ok(&mut reader, &mut found, capabilities),
        Kind::RowsEnd if capabilities.contains(Capabilities::DEPRECATE_EOF) => {
            ok(&mut reader, &mut found, capabilities)
        }
        Kind::RowsEnd => end(&mut reader, &mut found),
        Kind::ColumnsEnd => announced(&mut reader, &mut found),
        Kind::Err => error(&mut reader, &mut found),
        Kind::Column => column(&mut reader, &mut found),
        Kind::Prepared => prepared(&mut reader, &mut found),
        Kind::Row => {
            found.push(("row", shown(reader.rest())));
            Ok(())
        }
        Kind::Count | Kind::LocalFile | Kind::Other => Ok(()),
    };
    if !reader.is_empty() {
        found.push(("rest", shown(reader.rest())));
    }
    found
}

fn ok(
    reader: &mut Reader<'_>,
    found: &mut Fields,
    capabilities: Capabilities,
) -> Result<(), Malformed> {
    found.push(("header", reader.u8()?.to_string()));
    found.push(("affected_rows", reader.lenenc_int()?.to_string()));
    found.push(("insert_id", reader.lenenc_int()?.to_string()));
    let mut status = reader.u16()?;
    let warnings = reader.u16()?.to_string();
    let tracks = capabilities.contains(Capabilities::SESSION_TRACK) && !reader.is_empty();
    let info = match tracks {
        true => shown(reader.lenenc_bytes()?),
        false => String::new(),
    };
    let mut changed = String::new();
    if tracks && status & SESSION_STATE_CHANGED != 0 {
        let bytes = reader.lenenc_bytes()?;
        changed = changes(bytes);
        if bytes.is_empty() {
            // MariaDB says at times that something changed, and then what: nothing.
            status &= !SESSION_STATE_CHANGED;
        }
    }
    found.push(("status", flags(status)));
    found.push(("warnings", warnings));
    found.push(("info", info));
    found.push(("changes", changed));
    Ok(())
}

/// The session changes in an order of their own: the servers walk a hash table.
fn changes(bytes: &[u8]) -> String {
    let mut reader = Reader::new(bytes);
    let mut found = Vec::new();
    while let (Ok(kind), Ok(data)) = (reader.u8(), reader.lenenc_bytes()) {
        if kind != 0 {
            found.push(format!("{kind}:{}", shown(data)));
            continue;
        }
        let mut pairs = Reader::new(data);
        while let (Ok(name), Ok(value)) = (pairs.lenenc_bytes(), pairs.lenenc_bytes()) {
            found.push(format!("{}={}", shown(name), shown(value)));
        }
    }
    found.sort();
    found.push(shown(reader.rest()));
    found.join(" ")
}

fn end(reader: &mut Reader<'_>, found: &mut Fields) -> Result<(), Malformed> {
    found.push(("header", reader.u8()?.to_string()));
    found.push(("warnings", reader.u16()?.to_string()));
    // There is no room for changes, but MariaDB leaves the flag for them set.
    found.push(("status", flags(reader.u16()? & !SESSION_STATE_CHANGED)));
    Ok(())
}

/// The end of column definitions: some of its flags tell clients what kind of rows follow.
fn announced(reader: &mut Reader<'_>, found: &mut Fields) -> Result<(), Malformed> {
    let mut status = reader.clone();
    status.bytes(3)?;
    found.push(("rows_to_come", flags(status.u16()? & ANNOUNCING)));
    end(reader, found)
}

fn error(reader: &mut Reader<'_>, found: &mut Fields) -> Result<(), Malformed> {
    found.push(("header", reader.u8()?.to_string()));
    found.push(("number", reader.u16()?.to_string()));
    found.push(("sqlstate", shown(reader.bytes(6)?)));
    found.push(("message", shown(&without_id(reader.rest()))));
    Ok(())
}

/// A message without the id of a statement in it, which is the session's own.
fn without_id(message: &[u8]) -> Vec<u8> {
    let names_one = ["prepared statement handler (", "The statement ("].map(str::as_bytes);
    for words in names_one {
        let at = message.windows(words.len()).position(|part| part == words);
        if let Some(at) = at {
            let (before, id) = message.split_at(at + words.len());
            let digits = id.iter().take_while(|byte| byte.is_ascii_digit()).count();
            return [before, b"N", &id[digits..]].concat();
        }
    }
    message.to_vec()
}

fn column(reader: &mut Reader<'_>, found: &mut Fields) -> Result<(), Malformed> {
    for name in [
        "catalog",
        "schema",
        "table",
        "org_table",
        "name",
        "org_name",
    ] {
        found.push((name, shown(reader.lenenc_bytes()?)));
    }
    found.push(("fixed", reader.lenenc_int()?.to_string()));
    found.push(("collation", reader.u16()?.to_string()));
    found.push(("length", reader.u32()?.to_string()));
    found.push(("type", reader.u8()?.to_string()));
    found.push(("flags", format!("{:#x}", reader.u16()?)));
    found.push(("decimals", reader.u8()?.to_string()));
    Ok(())
}

fn prepared(reader: &mut Reader<'_>, found: &mut Fields) -> Result<(), Malformed> {
    found.push(("header", reader.u8()?.to_string()));
    found.push(("statement_id", reader.u32()?.to_string()));
    found.push(("columns", reader.u16()?.to_string()));
    found.push(("params", reader.u16()?.to_string()));
    found.push(("filler", reader.u8()?.to_string()));
    found.push(("warnings", reader.u16()?.to_string()));
    Ok(())
}

fn flags(status: u16) -> String {
    let status = mysql_wire::status::Status::from_bits_retain(status);
    format!("{:#x} {status:?}", status.bits())
}

/// Text where it is text; the beginning of what is long, with a checksum of the whole.
fn shown(bytes: &[u8]) -> String {
    const SHOWN_BYTES: usize = 200;
    let text = bytes[..bytes.len().min(SHOWN_BYTES)].escape_ascii();
    if bytes.len() <= SHOWN_BYTES {
        return text.to_string();
    }
    let sum = bytes.iter().fold(0u64, |sum, byte| {
        sum.wrapping_mul(0x100_0000_01B3)
            .wrapping_add(u64::from(*byte))
    });
    format!("{text}… ({} bytes, sum {sum:x})", bytes.len())
}
