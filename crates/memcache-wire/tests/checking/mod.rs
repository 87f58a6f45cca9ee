//! What holds for every stream of bytes. A test runs it on good and bad requests, the fuzz target on
//! whatever it thinks of.

use memcache_wire::{Key, Limits, Login, Meta, Parsed, Request, login, parse};

const LIMITS: Limits = Limits {
    line_bytes_max: 300,
    keys_line_bytes_max: 600,
    value_bytes_max: 100,
};

/// Reads the stream to its end, request by request; each must be the same when its bytes come one by
/// one.
pub fn check(input: &[u8]) {
    let mut rest = input;
    loop {
        let parsed = parse(rest, 0, &LIMITS);
        let used = match parsed {
            Parsed::Incomplete { searched, needed } => {
                assert!(needed > rest.len() && searched <= rest.len());
                return check_login(input);
            }
            Parsed::Hangup { .. } => return check_login(input),
            Parsed::Bad {
                used,
                swallow,
                reply,
                ..
            } => {
                assert!(!reply.contains(['\r', '\n']));
                let value = usize::try_from(swallow).unwrap_or(usize::MAX);
                byte_by_byte(rest, used, &parsed);
                used.saturating_add(value).min(rest.len())
            }
            Parsed::Request { request, used } => {
                check_request(&request);
                byte_by_byte(rest, used, &parsed);
                used
            }
        };
        assert!(used > 0 && used <= rest.len());
        rest = &rest[used..];
    }
}

/// A prefix says nothing, and what it says about the next look is true.
fn byte_by_byte(input: &[u8], used: usize, whole: &Parsed<'_>) {
    let (mut searched, mut needed) = (0, 0);
    for length in 0..used {
        match parse(&input[..length], searched, &LIMITS) {
            Parsed::Incomplete {
                searched: now,
                needed: more,
            } => {
                assert!(length < more && needed <= more && more <= used.max(needed));
                (searched, needed) = (now, more);
            }
            other => panic!("{length} bytes of {used} are not enough for {other:?}"),
        }
    }
    assert!(needed <= used);
    assert_eq!(parse(&input[..used], searched, &LIMITS), *whole);
}

fn check_key(key: &Key<'_>) {
    let mut scratch = [0; memcache_wire::KEY_BYTES_MAX];
    let bytes = key.bytes(&mut scratch);
    assert!((1..=memcache_wire::KEY_BYTES_MAX).contains(&bytes.len()));
    assert!(key.is_base64() || Key::plain(key.word()) == Some(*key));
}

fn check_meta(meta: &Meta<'_>) {
    check_key(&meta.key);
    assert!(meta.flags.count() <= 18);
    // Whatever was asked, the reply is lines of one item.
    let mut out = Vec::new();
    let facts = memcache_wire::meta::Facts {
        size: Some(1),
        client_flags: Some(2),
        cas: Some(3),
        ttl_s: Some(-1),
        ..Default::default()
    };
    memcache_wire::meta::value(&mut out, b"x", &meta.into(), &facts);
    assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 2);
}

fn check_request(request: &Request<'_>) {
    match request {
        Request::Get(get) => {
            assert!(get.keys().count() > 0);
            get.keys().for_each(|key| check_key(&key));
        }
        Request::Store(store) => {
            check_key(&store.key);
            assert!(store.value.len() <= LIMITS.value_bytes_max);
        }
        Request::Count(count) => check_key(&count.key),
        Request::Delete { key, .. } | Request::Touch { key, .. } | Request::MetaDebug(key) => {
            check_key(key);
        }
        Request::MetaStore { meta, value, .. } => {
            check_meta(meta);
            assert!(value.len() <= LIMITS.value_bytes_max);
        }
        Request::MetaGet(meta) | Request::MetaDelete(meta) | Request::MetaCount { meta, .. } => {
            check_meta(meta);
        }
        Request::FlushAll { .. }
        | Request::Stats(_)
        | Request::Version
        | Request::Verbosity { .. }
        | Request::Quit
        | Request::MetaNoop => {}
    }
}

fn check_login(input: &[u8]) {
    match login(input) {
        Login::Incomplete { needed } => assert!(needed > input.len()),
        Login::Token { used, .. } | Login::Bad { used, .. } => {
            assert!(used > 0 && used <= input.len());
        }
        Login::Hangup => {}
    }
}
