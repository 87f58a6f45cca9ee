//! OK, ERR and EOF packets and session changes.

use mysql_wire::capability::Capabilities;
use mysql_wire::reply::{
    EofPacket, ErrPacket, OkPacket, ends_rows, is_eof, is_err, is_ok, local_file, session_changes,
};

use super::{encoded, round, split};

/// Checks one input; see the module above for its form.
pub fn check(input: &[u8]) -> Option<Vec<u8>> {
    let (kind, caps, payload) = split(input)?;
    let _ = (
        is_ok(payload),
        is_err(payload),
        local_file(payload),
        ends_rows(payload, caps),
    );
    match kind {
        b'o' => ok(payload, caps),
        b'e' => err(payload, caps),
        b'f' => {
            let out = round!(payload, EofPacket::decode, |eof: &EofPacket, out| eof
                .encode(out))?;
            assert!(is_eof(payload) && is_eof(&out));
            Some(out)
        }
        b'r' => round!(
            payload,
            |bytes: &[u8]| EofPacket::decode_end_of_rows(bytes, caps),
            |eof: &EofPacket, out| eof.encode_end_of_rows(out, caps)
        ),
        b'c' => changes(payload),
        _ => None,
    }
}

fn ok(payload: &[u8], caps: Capabilities) -> Option<Vec<u8>> {
    let out = round!(
        payload,
        |bytes| OkPacket::decode(bytes, caps),
        |ok: &OkPacket<'_>, out| ok.encode(out, caps)
    )?;
    let ok = OkPacket::decode(payload, caps).ok()?;
    changes(ok.session_state);
    Some(out)
}

/// An error without an SQLSTATE gets one, and then only reads back in the form that has one.
fn err(payload: &[u8], caps: Capabilities) -> Option<Vec<u8>> {
    let first = ErrPacket::decode(payload, caps).ok()?;
    let full = caps | Capabilities::PROTOCOL_41;
    let out = encoded(|out| first.encode(out, full));
    assert_eq!(ErrPacket::decode(&out, full).as_ref(), Ok(&first));
    Some(encoded(|out| first.encode(out, caps)))
}

fn changes(block: &[u8]) -> Option<Vec<u8>> {
    let first: Vec<_> = session_changes(block).collect::<Result<_, _>>().ok()?;
    let out = encoded(|out| first.iter().for_each(|change| change.encode(out)));
    assert_eq!(
        session_changes(&out).collect::<Result<Vec<_>, _>>(),
        Ok(first)
    );
    Some(out)
}
