//! Greetings, logins and what goes between them.

use mysql_wire::handshake::{
    AuthMore, AuthSwitch, ChangeUser, Greeting, Login, TlsRequest, attributes, is_tls_request,
    put_attribute,
};

use super::{encoded, round, split};

/// Checks one input; see the module above for its form.
pub fn check(input: &[u8]) -> Option<Vec<u8>> {
    let (kind, caps, payload) = split(input)?;
    match kind {
        b'g' => round!(payload, Greeting::decode, |greeting: &Greeting<'_>, out| {
            greeting.encode(out)
        }),
        b'l' => login(payload),
        b't' => {
            let is_one = is_tls_request(payload);
            let out = round!(payload, TlsRequest::decode, |request: &TlsRequest, out| {
                request.encode(out)
            })?;
            assert!(is_tls_request(&out) && (is_one || payload.len() != out.len()));
            Some(out)
        }
        b's' => round!(
            payload,
            AuthSwitch::decode,
            |switch: &AuthSwitch<'_>, out| switch.encode(out)
        ),
        b'm' => round!(payload, AuthMore::decode, |more: &AuthMore<'_>, out| more
            .encode(out)),
        b'u' => round!(
            payload,
            |bytes| ChangeUser::decode(bytes, caps),
            |change: &ChangeUser<'_>, out| change.encode(out, caps)
        ),
        b'a' => block(payload),
        _ => None,
    }
}

/// A login's attributes are read as well.
fn login(payload: &[u8]) -> Option<Vec<u8>> {
    let out = round!(payload, Login::decode, |login: &Login<'_>, out| login
        .encode(out))?;
    let login = Login::decode(payload).ok()?;
    block(login.attributes.unwrap_or_default());
    Some(out)
}

fn block(payload: &[u8]) -> Option<Vec<u8>> {
    let first: Vec<_> = attributes(payload).collect::<Result<_, _>>().ok()?;
    let out = encoded(|out| {
        first
            .iter()
            .for_each(|(name, value)| put_attribute(out, name, value))
    });
    assert_eq!(attributes(&out).collect::<Result<Vec<_>, _>>(), Ok(first));
    Some(out)
}
