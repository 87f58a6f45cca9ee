//! What the hints of a text ask of a read: its level, its bound, an answer from the cache.

use crate::client::Client;
use crate::client::answer::Answers;
use crate::client::end::End;
use crate::consistency::defaults;
use crate::consistency::defaults::UNBOUNDED_MS;
use crate::per_core::Core;
use crate::variables::session_variables::SessionVariables;
use farm::error;
use routing::Level;
use sqltext::{HINT_KEYS, HINTS_MAX, Hints, MsHint};

/// What the hints of a text ask of a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    pub level: Option<Level>,
    /// The reply may come from the cache; 0 is not asked.
    pub cache_ttl_s: u32,
    /// The shard that it is for.
    pub shard: bool,
}

/// What the hints of a text ask of a read; an error is a hint that cannot be followed.
pub(crate) fn hinted(hints: &Hints, text: &[u8]) -> Result<Asked, String> {
    let eventual = Level::Eventual { max_lag_us: None };
    let mut level = match hints.ms {
        Some(MsHint::Eventual) => Some(eventual),
        Some(MsHint::Session) => Some(Level::Session),
        Some(MsHint::Client) => Some(Level::Client),
        Some(MsHint::Strong) => Some(Level::Strong),
        _ => None,
    };
    if hints.heddle.is_empty() && hints.malformed.is_none() {
        return Ok(Asked {
            level,
            ..Asked::default()
        });
    }
    if let Some(word) = hints.malformed {
        let word = String::from_utf8_lossy(word.of(text)).into_owned();
        return Err(format!("the hint '{word}' is no key=value, or one of more than {HINTS_MAX}"));
    }
    let known = |key: &[u8]| HINT_KEYS.iter().any(|it| key.eq_ignore_ascii_case(it.as_bytes()));
    if let Some(key) = hints.heddle.iter().map(|it| it.key.of(text)).find(|key| !known(key)) {
        let (key, keys) = (String::from_utf8_lossy(key), HINT_KEYS.join(", "));
        return Err(format!("there is no hint {key}; hints are {keys}"));
    }
    if let Some(name) = hints.get(text, "consistency") {
        level = Some(Level::named(name).ok_or_else(|| {
            let (name, names) = (String::from_utf8_lossy(name), Level::NAMES);
            format!("the hint consistency={name} is none of {names}")
        })?);
    }
    let wrong = |name: &str, value: &[u8], what: &str| {
        let value = String::from_utf8_lossy(value);
        format!("the hint {name}={value} is no number of {what}")
    };
    let lag = hints.get(text, "max_lag_ms");
    let ttl = hints.get(text, "cache_ttl_s");
    if let Some(name) = lag.map(|_| "max_lag_ms").or(ttl.map(|_| "cache_ttl_s"))
        && !matches!(level.get_or_insert(eventual), Level::Eventual { .. })
    {
        let level = level.map_or("", Level::name);
        return Err(format!("the hint {name} has no meaning at level {level}"));
    }
    if let Some(lag) = lag {
        let given = milliseconds(lag).ok_or_else(|| wrong("max_lag_ms", lag, "milliseconds"))?;
        level = Some(Level::Eventual {
            max_lag_us: defaults::bound_us(given),
        });
    }
    let cache_ttl_s = match ttl {
        Some(ttl) => seconds(ttl).ok_or_else(|| wrong("cache_ttl_s", ttl, "seconds"))?,
        None => 0,
    };
    let names = ["shard_key", "shard_table", "global_table"];
    Ok(Asked {
        level,
        cache_ttl_s,
        shard: names.iter().any(|name| hints.get(text, name).is_some()),
    })
}

/// A number of seconds, up to a day.
pub(crate) fn seconds(text: &[u8]) -> Option<u32> {
    let number: u32 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (number <= 86_400).then_some(number)
}

/// A number of milliseconds up to [`UNBOUNDED_MS`].
pub(crate) fn milliseconds(text: &[u8]) -> Option<u64> {
    let number: u64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (number <= UNBOUNDED_MS).then_some(number)
}

/// Answers a statement whose hints cannot be followed.
pub async fn refuse_hint(
    core: &Core,
    client: &mut Client,
    variables: &SessionVariables,
) -> Result<(), End> {
    let reason = {
        let mut scan = core.statements.scan.borrow_mut();
        let text = &client.request.payload()[1..];
        scan.read(text, &variables.mode);
        hinted(&scan.hint, text).err().unwrap_or_default()
    };
    client.error(&error::HINT_INVALID, &[&reason]).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqltext::{Dialect, Mode, Scan};

    fn level(text: &str) -> Result<Option<Level>, String> {
        let mut scan = Scan::new();
        scan.read(text.as_bytes(), &Mode::new(Dialect::MariaDb, 101_100));
        hinted(&scan.hint, text.as_bytes()).map(|asked| asked.level)
    }

    #[test]
    fn hints_ask_for_levels() {
        let eventual = |max_lag_us| Ok(Some(Level::Eventual { max_lag_us }));
        assert_eq!(level("SELECT 1"), Ok(None));
        assert_eq!(level("/*ms=master*/ SELECT 1"), Ok(None));
        assert_eq!(level("/*ms=strong*/ SELECT 1"), Ok(Some(Level::Strong)));
        assert_eq!(level("/*ms=eventual*/ SELECT 1"), eventual(None));
        assert_eq!(level("/*heddle consistency=Session*/ SELECT 1"), Ok(Some(Level::Session)));
        assert_eq!(level("/*ms=client*/ SELECT 1"), Ok(Some(Level::Client)));
        assert_eq!(level("/*heddle consistency=client*/ SELECT 1"), Ok(Some(Level::Client)));
        assert_eq!(level("/*heddle max_lag_ms=50*/ SELECT 1"), eventual(Some(50_000)));
        assert_eq!(
            level("/*heddle consistency='eventual' max_lag_ms=0*/ SELECT 1"),
            eventual(Some(0))
        );
    }

    #[test]
    fn hints_that_cannot_be_followed_say_why() {
        for (hint, why) in [
            (
                "consistency=best",
                "the hint consistency=best is none of eventual, session, client or strong",
            ),
            ("max_lag_ms=-1", "the hint max_lag_ms=-1 is no number of milliseconds"),
            ("max_lag_ms=5s", "the hint max_lag_ms=5s is no number of milliseconds"),
            (
                "consistency=strong max_lag_ms=5",
                "the hint max_lag_ms has no meaning at level strong",
            ),
            ("strong", "the hint 'strong' is no key=value, or one of more than 32"),
            ("shard_key='5", "the hint 'shard_key='5' is no key=value, or one of more than 32"),
            (
                "consistancy=strong",
                "there is no hint consistancy; hints are consistency, max_lag_ms, cache_ttl_s, \
                 shard_table, shard_key, global_table, shard_map, global_map",
            ),
        ] {
            let text = format!("/*heddle {hint}*/ SELECT 1");
            assert_eq!(level(&text), Err(why.to_owned()));
        }
    }
}
