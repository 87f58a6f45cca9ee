//! What requests do to rows.

use kv::{Change, Expiry, Mode, Refusal};
use memcache_wire::{Meta, Request, StoreMode};

use crate::pending::MetaKind;

/// What a meta request does.
pub(crate) fn meta_change(request: &Request<'_>) -> Result<(Change, MetaKind), Refusal> {
    let meta = match request {
        Request::MetaDebug(_) => return Ok((Change::Get, MetaKind::Debug)),
        Request::MetaGet(meta)
        | Request::MetaStore { meta, .. }
        | Request::MetaDelete(meta)
        | Request::MetaCount { meta, .. } => meta,
        _ => return Err(Refusal::client("bad command line format")),
    };
    if meta.invalidate {
        return Err(Refusal::client(
            "flag I: rows have no mark for stale values",
        ));
    }
    let (change, kind) = changed(request, meta);
    let Some(cas) = meta.cas else {
        return Ok((change, kind));
    };
    if matches!(
        change,
        Change::Get | Change::GetAndTouch(_) | Change::Delete { .. }
    ) {
        return Err(Refusal::client("flag E: nothing is stored by this"));
    }
    let change = Box::new(change);
    Ok((Change::Stamped { cas, change }, kind))
}

fn changed(request: &Request<'_>, meta: &Meta<'_>) -> (Change, MetaKind) {
    let expiry = meta.expiry.map(Expiry::from_wire);
    match *request {
        Request::MetaStore {
            mode: how, value, ..
        } => store_change(meta, how, value),
        Request::MetaDelete(_) if meta.without_value => {
            let change = Change::Store {
                mode: Mode::Replace,
                value: Box::default(),
                flags: meta.client_flags.unwrap_or(0),
                expiry: expiry.unwrap_or(Expiry::Never),
                cas: meta.compare,
            };
            (change, MetaKind::Delete)
        }
        Request::MetaDelete(_) => (Change::Delete { cas: meta.compare }, MetaKind::Delete),
        Request::MetaCount { down, .. } => {
            // T goes before N, for one that is made, too.
            let initial = |made| (meta.initial, expiry.unwrap_or(Expiry::from_wire(made)));
            let change = Change::Count {
                by: meta.delta,
                down,
                initial: meta.vivify.map(initial),
                expiry,
                cas: meta.compare,
            };
            let with_value = meta.with_value;
            (change, MetaKind::Count { with_value, down })
        }
        _ => {
            let change = expiry.map_or(Change::Get, Change::GetAndTouch);
            (change, MetaKind::of_get(meta))
        }
    }
}

fn store_change(meta: &Meta<'_>, how: StoreMode, value: &[u8]) -> (Change, MetaKind) {
    let (mode, cas) = mode(how, meta.vivify.is_some());
    let adds_to = matches!(mode, Mode::Append { .. } | Mode::Prepend { .. });
    // The expiry of one that is made by appending is the one of N.
    let exptime = meta.vivify.filter(|_| adds_to).or(meta.expiry);
    let change = Change::Store {
        mode,
        value: value.into(),
        flags: meta.client_flags.unwrap_or(0),
        expiry: Expiry::from_wire(exptime.unwrap_or(0)),
        cas: cas.or(meta.compare.filter(|_| adds_to)),
    };
    let length = (!adds_to).then_some(value.len());
    (change, MetaKind::Store { length })
}

/// How a value is stored, and under which condition; `vivify` makes an item where there is none.
pub(crate) fn mode(mode: StoreMode, vivify: bool) -> (Mode, Option<u64>) {
    match mode {
        StoreMode::Set => (Mode::Set, None),
        StoreMode::Cas(cas) => (Mode::Set, Some(cas)),
        StoreMode::Add => (Mode::Add, None),
        StoreMode::Replace => (Mode::Replace, None),
        StoreMode::Append => (Mode::Append { vivify }, None),
        StoreMode::Prepend => (Mode::Prepend { vivify }, None),
    }
}

/// The token that a meta request brings.
pub(crate) fn token_of<'r>(request: &Request<'r>) -> Option<&'r [u8]> {
    match request {
        Request::MetaGet(meta)
        | Request::MetaStore { meta, .. }
        | Request::MetaDelete(meta)
        | Request::MetaCount { meta, .. } => meta.token.filter(|token| !token.is_empty()),
        _ => None,
    }
}
