//! What `heddle doctor` wants to know of a server, read in one go.
//!
//! Invariants: [`examine`] reads only. What an account may not see, or a release does not have, is left out of the facts; only a
//! server that answers no more is an error.
//!
//! Must not know: what is right and what is wrong ([`doctor`] says that), groups, other servers.

mod contents;
mod replication;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use doctor::ServerFacts;
use doctor::facts::{AccountFacts, LackFacts};
use enginesql::words;
use farm::{Account, AuthPlugin, Engine};
use mysql_async::Row;

use crate::error::Error;
use crate::link::{Link, text_at};
use crate::needed::Feature;
use crate::own_privileges::lacking;

const OPERATION: &str = "examine it";

/// Counters that a check reads.
const COUNTERS: &str = "SHOW GLOBAL STATUS WHERE Variable_name LIKE 'Rpl\\_semi\\_sync\\_%' \
     OR Variable_name = 'Ssl_server_not_after'";

/// Where the value of `read_only` comes from.
const ORIGIN_MARIADB: &str = "SELECT VARIABLE_NAME, GLOBAL_VALUE_ORIGIN FROM \
     information_schema.SYSTEM_VARIABLES WHERE VARIABLE_NAME = 'READ_ONLY'";
const ORIGIN_MYSQL: &str = "SELECT VARIABLE_NAME, VARIABLE_SOURCE FROM \
     performance_schema.variables_info WHERE VARIABLE_NAME = 'read_only'";

/// Reads all of it. `used` are the features that the farm uses.
///
/// # Errors
/// The server does not answer within `timeout_ms` for each question.
pub async fn examine(
    link: &mut Link,
    used: &[Feature],
    timeout_ms: u64,
) -> Result<ServerFacts, Error> {
    let version = link.version().clone();
    let mut facts = ServerFacts {
        address: link.address().to_owned(),
        version: version.text.clone(),
        lacks: lacks(link, used, timeout_ms).await?,
        variables: pairs(link, "SHOW GLOBAL VARIABLES", timeout_ms).await?,
        counters: pairs(link, COUNTERS, timeout_ms).await?,
        clock_ahead_ms: clock_ahead_ms(link, timeout_ms).await?,
        sources: replication::sources(link, timeout_ms).await?,
        binlog: replication::binlog(link, timeout_ms).await?,
        schema: contents::schema(link.login(), timeout_ms).await?,
        ..ServerFacts::default()
    };
    let origin = match version.engine {
        Engine::MariaDb => ORIGIN_MARIADB,
        Engine::MySql => ORIGIN_MYSQL,
    };
    facts.origins = pairs(link, origin, timeout_ms).await?;
    let executed = format!("SELECT {}", words::EXECUTED.of(&version));
    let rows = seen(link, &executed, timeout_ms).await?;
    let gtid = rows.first().and_then(|row| text_at(row, 0));
    facts.gtid = gtid.unwrap_or_default().replace('\n', "");
    let zones = "SELECT COUNT(*) FROM mysql.time_zone_name";
    let rows = seen(link, zones, timeout_ms).await?;
    facts.time_zones = rows.first().and_then(|row| text_at(row, 0)?.parse().ok());
    facts.accounts = match crate::accounts::accounts(link, timeout_ms).await {
        Ok(accounts) => Some(accounts.iter().map(account).collect()),
        Err(error) if error.number().is_some() => None,
        Err(error) => return Err(error),
    };
    Ok(facts)
}

/// Runs the statement of a check that mends what it found.
///
/// # Errors
/// The server refuses it, or does not answer.
pub async fn mend(link: &mut Link, statement: &str, timeout_ms: u64) -> Result<(), Error> {
    link.run("mend what doctor found", statement, timeout_ms)
        .await
}

/// The rows of a question; none where the server refuses it.
async fn seen(link: &mut Link, sql: &str, timeout_ms: u64) -> Result<Vec<Row>, Error> {
    match link.rows(OPERATION, sql, timeout_ms).await {
        Err(error) if error.number().is_some() => Ok(Vec::new()),
        rows => rows,
    }
}

/// Rows of a name and a value. Names are in lower case.
async fn pairs(
    link: &mut Link,
    sql: &str,
    timeout_ms: u64,
) -> Result<BTreeMap<String, String>, Error> {
    let rows = seen(link, sql, timeout_ms).await?;
    let pair = |row: &Row| {
        let name = text_at(row, 0)?.to_ascii_lowercase();
        Some((name, text_at(row, 1).unwrap_or_default()))
    };
    Ok(rows.iter().filter_map(pair).collect())
}

/// A question that took longer says nothing of clocks.
const CLOCK_TAKES_MAX: Duration = Duration::from_millis(500);

/// The server's clock against this machine's at the middle of the question.
async fn clock_ahead_ms(link: &mut Link, timeout_ms: u64) -> Result<Option<i64>, Error> {
    let (asked, began) = (SystemTime::now(), Instant::now());
    // Not NOW(), which a statement has from its beginning and SET timestamp could have fixed.
    let sql = "SELECT UNIX_TIMESTAMP(SYSDATE(3))";
    let rows = seen(link, sql, timeout_ms).await?;
    if began.elapsed() > CLOCK_TAKES_MAX {
        return Ok(None);
    }
    let middle = asked.duration_since(UNIX_EPOCH).unwrap_or_default() + began.elapsed() / 2;
    let theirs = rows.first().and_then(|row| text_at(row, 0));
    let theirs: Option<f64> = theirs.and_then(|text| text.parse().ok());
    Ok(theirs.map(|seconds| (seconds * 1000.0 - middle.as_secs_f64() * 1000.0) as i64))
}

/// What the link's account lacks, by features.
async fn lacks(
    link: &mut Link,
    used: &[Feature],
    timeout_ms: u64,
) -> Result<Vec<LackFacts>, Error> {
    let all = lacking(link, &Feature::ALL, timeout_ms).await?;
    let each = Feature::ALL.into_iter().filter_map(|feature| {
        let of_feature = all.of(feature);
        (!of_feature.is_empty()).then(|| LackFacts {
            feature: feature.text().to_owned(),
            text: of_feature.text(),
            cure: of_feature.cure(),
            essential: feature.is_essential(),
            used: used.contains(&feature),
        })
    });
    Ok(each.collect())
}

fn account(account: &Account) -> AccountFacts {
    let mut hasher = DefaultHasher::new();
    for way in &account.ways {
        plugin(way).hash(&mut hasher);
        // Hashes with a salt differ for equal passwords.
        match way {
            AuthPlugin::Native(hash) => hash.hash(&mut hasher),
            AuthPlugin::Ed25519(key) => key.hash(&mut hasher),
            _ => {}
        }
    }
    let first = account.ways.first();
    AccountFacts {
        user: account.user.to_string(),
        host: account.host.to_string(),
        plugin: first.map(plugin).unwrap_or_default().to_owned(),
        proof: hasher.finish(),
        locked: account.locked,
        expired: account.expired,
        needs_credential: first.is_some_and(needs_credential),
    }
}

fn plugin(way: &AuthPlugin) -> &str {
    match way {
        AuthPlugin::Native(_) => "mysql_native_password",
        AuthPlugin::CachingSha2(_) => "caching_sha2_password",
        AuthPlugin::Sha256(_) => "sha256_password",
        AuthPlugin::Ed25519(_) => "ed25519",
        AuthPlugin::Parsec { .. } => "parsec",
        AuthPlugin::Clear { plugin, .. } => plugin,
        AuthPlugin::Factors(names)
        | AuthPlugin::Socket { plugin: names, .. }
        | AuthPlugin::Unsupported(names) => names,
    }
}

/// Its clients reveal nothing by which Heddle could log in to servers for them (docs/ACCOUNTS.md).
fn needs_credential(way: &AuthPlugin) -> bool {
    matches!(
        way,
        AuthPlugin::Ed25519(_)
            | AuthPlugin::Parsec { .. }
            | AuthPlugin::Factors(_)
            | AuthPlugin::Socket { .. }
            | AuthPlugin::Unsupported(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_with_a_salt_are_not_compared() {
        let proof = |way| {
            let of = Account {
                ways: vec![way],
                ..somebody()
            };
            super::account(&of).proof
        };
        let sha = |salt: u8| AuthPlugin::CachingSha2(vec![salt].into());
        assert_eq!(proof(sha(1)), proof(sha(2)));
        assert_ne!(proof(sha(1)), proof(AuthPlugin::Native(None)));
        let native = |hash: u8| AuthPlugin::Native(Some([hash; 20]));
        assert_ne!(proof(native(1)), proof(native(2)));
    }

    fn somebody() -> Account {
        Account {
            user: "u".into(),
            host: "%".into(),
            ways: Vec::new(),
            locked: false,
            expired: false,
            tls: farm::TlsDemand::None,
            connections_max: 0,
            locking: None,
            admin: false,
            privileges: 0,
            rights: 0,
        }
    }
}
