//! How requests name a container, and what the policies of MySQL's plugin let them do with it.

use farm::{Container, Policy};
use kv::{Kv, Refusal};

use crate::rights::Need;

/// Longest name of a container that is looked for in front of a key.
const NAME_BYTES_MAX: usize = 50;

/// The name of a container and the key behind it. `usual` stands between them unless the container was
/// declared with another delimiter; that one counts then, and no other.
pub(crate) fn divide<'k>(
    kv: &Kv,
    usual: &[u8],
    name_and_key: &'k [u8],
) -> Option<(&'k [u8], &'k [u8])> {
    let delimiter = |name: &[u8]| {
        let store = kv.container(Some(std::str::from_utf8(name).ok()?))?;
        Some(
            store
                .declared()
                .delimiter
                .clone()
                .map_or(usual.to_vec(), String::into_bytes),
        )
    };
    let at = name_and_key
        .windows(usual.len())
        .position(|part| part == usual);
    let disconnected = at.map(|at| (&name_and_key[..at], &name_and_key[at + usual.len()..]));
    if let Some((name, _)) = disconnected
        && delimiter(name).is_some_and(|own| own == usual)
    {
        return disconnected;
    }
    for at in 1..name_and_key.len().min(NAME_BYTES_MAX + 1) {
        let (name, rest) = name_and_key.split_at(at);
        if let Some(key) = delimiter(name).and_then(|own| rest.strip_prefix(&own[..])) {
            return Some((name, key));
        }
    }
    // The whole may be a name; if the part in front is none, the client hears which one is missing.
    disconnected.filter(|(name, _)| delimiter(name).is_none() && delimiter(name_and_key).is_none())
}

/// Whether the container's policies let such a request through.
pub(crate) fn heed_policy(container: &Container, need: Need) -> Result<(), Refusal> {
    let policies = &container.policies;
    let (policy, kind) = match need {
        Need::Read => (policies.get, "get"),
        Need::Write => (policies.set, "set"),
        Need::Delete => (policies.delete, "delete"),
    };
    let why = match policy {
        Policy::Table => return Ok(()),
        Policy::Disabled => "disables this",
        Policy::Memory => "is cache_only, and Heddle keeps nothing but the rows of tables",
    };
    Err(Refusal::client(format!(
        "the {kind}_policy in innodb_memcache.cache_policies {why}"
    )))
}
