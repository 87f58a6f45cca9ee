//! Heddle's own session variables: `SET heddle_consistency = 'strong'`, `SELECT @@heddle_token`.
//!
//! They live here and never reach a server. A SET that names one names only such, and so does a
//! SELECT; their values are written out.

use farm::dist_txn::Atomic;
use farm::error;
use routing::Level;
use sqltext::{Class, Facts, Scope, Verb};

use crate::client::Client;
use crate::client::answer::Answers;
use crate::client::end::End;
use crate::client::request::Request;
use crate::client::sink::ReplySink;
use crate::consistency::consistency_hints::{milliseconds, seconds};
use crate::consistency::defaults::UNBOUNDED_MS;
use crate::consistency::promises::keeping;
use crate::consistency::promises::{Own, Promises};
use crate::consistency::tokens;
use crate::consistency::tokens::token;
use crate::execution::choice::Chosen;
use crate::execution::exec::Shape;
use crate::execution::profile::Detail;
use crate::execution::rules;
use crate::execution::statement_run::StatementRun;
use crate::per_core::Core;
use crate::session::user::SessionUser;
use crate::session::{self, Session};
use crate::variables::dist_txn_terms as of_session;
use crate::variables::session_variables::SessionVariables;

const PREFIX: &[u8] = b"heddle_";

/// An hour.
const FAILOVER_WAIT_MS_MAX: u64 = 3_600_000;

/// What a SET gives one variable.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Default,
    Text(String),
}

/// Why a SET is refused.
enum Refused {
    Mixed,
    Global(String),
    Unknown(String),
    Invalid(String, String, String),
    Token(String),
}

/// What a checked SET does.
enum Change {
    Level(Level),
    MaxLagMs(u64),
    Monotonic(bool),
    CacheTtl(u32),
    RowCache(bool),
    Profile(Detail),
    FailoverWait(u64),
    Atomic(Option<Atomic>),
    /// It follows the defaults again.
    Default(Own),
    Token(Option<String>),
    ShardTable(String),
    ShardKey(Option<String>),
    GlobalTable(String),
}

impl Change {
    /// It is about a shard, and about nothing that has defaults.
    fn is_choice(&self) -> bool {
        matches!(self, Change::ShardTable(_) | Change::ShardKey(_) | Change::GlobalTable(_))
    }

    /// The variable that chooses a shard by this change, if it does.
    fn chooses(&self) -> Option<&'static str> {
        match self {
            Change::ShardTable(name) if !name.is_empty() => Some("heddle_shard_table"),
            Change::ShardKey(Some(_)) => Some("heddle_shard_key"),
            Change::GlobalTable(name) if !name.is_empty() => Some("heddle_global_table"),
            _ => None,
        }
    }
}

fn switch(name: String, text: String) -> Result<bool, Refused> {
    match text.to_ascii_lowercase().as_str() {
        "on" | "1" | "true" => Ok(true),
        "off" | "0" | "false" => Ok(false),
        _ => Err(Refused::Invalid(name, text, "; it is ON or OFF".to_owned())),
    }
}

/// Answers such a statement. `None`: it is the server's after all.
pub async fn own_variables(session: &mut Session, shape: &Shape) -> Option<Result<(), End>> {
    if shape.class == Class::Set {
        let changes = match read_changes(&session.client.request, &session.variables, shape)? {
            Ok(changes) => changes,
            Err(refused) => return Some(refuse_change(&mut session.client, refused).await),
        };
        return Some(change_own(session, changes).await);
    }
    let text = session.client.request.payload()[1..].to_vec();
    let asked = questions(&text)?;
    Some(answer_own(session, &asked).await)
}

async fn change_own(session: &mut Session, changes: Vec<Change>) -> Result<(), End> {
    if let Some(refused) = refused(session, &changes).await {
        return refuse_change(&mut session.client, refused).await;
    }
    // A loop that chooses a shard before each statement pays for nothing else.
    let defaults_stay = changes.iter().all(Change::is_choice);
    let mut chosen = session.run.chosen.take().map(|it| *it).unwrap_or_default();
    chosen.unread &= !changes.iter().any(|change| change.chooses().is_some());
    let promises = &mut session.promises;
    for change in changes {
        match change {
            Change::ShardTable(name) => {
                chosen.shard_table = name;
                chosen.global_table.clear();
            }
            Change::ShardKey(key) => {
                chosen.shard_key = key;
                chosen.global_table.clear();
            }
            Change::GlobalTable(name) => {
                chosen = Chosen::global(&name);
            }
            Change::Level(level) => {
                promises.level = level;
                promises.own |= Own::LEVEL;
            }
            Change::MaxLagMs(max_lag_ms) => {
                promises.max_lag_ms = max_lag_ms;
                promises.own |= Own::MAX_LAG;
            }
            Change::Monotonic(on) => {
                promises.monotonic = on;
                promises.own |= Own::MONOTONIC;
            }
            Change::FailoverWait(wait_ms) => {
                promises.failover_wait_ms = wait_ms;
                promises.own |= Own::FAILOVER_WAIT;
            }
            Change::Atomic(atomic) => promises.atomic = atomic,
            Change::Default(which) => promises.own -= which,
            Change::CacheTtl(ttl_s) => promises.cache_ttl_s = ttl_s,
            Change::RowCache(on) => promises.row_cache = on,
            Change::Profile(detail) => session.run.profile_by(detail),
            Change::Token(None) => session.connections.current.seen.forget(),
            Change::Token(Some(_)) => {}
        }
    }
    session.run.choose(chosen);
    if !defaults_stay {
        follow_defaults(&session.core, &session.user, &mut session.promises);
    }
    session.client.ok(session::status_now(&session.variables, &session.transaction)).await
}

/// What can still be refused, before anything is changed.
async fn refused(session: &mut Session, changes: &[Change]) -> Option<Refused> {
    for change in changes {
        // Clients take the error to mean that there is nothing to choose from.
        if let Some(choice) = change.chooses()
            && session.core.glance().sharding.is_none()
        {
            return Some(Refused::Unknown(choice.to_owned()));
        }
        if let Change::Token(Some(token)) = change
            && let Err(reason) = tokens::take_token(
                &session.core,
                &session.user,
                &session.variables,
                &mut session.connections,
                token,
            )
            .await
        {
            return Some(Refused::Token(reason));
        }
    }
    None
}

async fn answer_own(session: &mut Session, asked: &[Question]) -> Result<(), End> {
    let mut row = Vec::with_capacity(asked.len());
    for question in asked {
        let value = match question.name.as_str() {
            "heddle_consistency" => session.promises.level.name().to_owned(),
            "heddle_max_lag_ms" => session.promises.max_lag_ms.to_string(),
            "heddle_cache_ttl_s" => session.promises.cache_ttl_s.to_string(),
            "heddle_row_cache" => u8::from(session.promises.row_cache).to_string(),
            "heddle_profile" => session.run.detail.name().to_owned(),
            "heddle_failover_wait_ms" => session.promises.failover_wait_ms.to_string(),
            "heddle_monotonic" => u8::from(session.promises.monotonic).to_string(),
            "heddle_atomic" => {
                of_session::dist_txn_terms(&session.core, &session.user, &session.promises)
                    .atomic
                    .name()
                    .to_owned()
            }
            "heddle_shard_table" => session.run.own_choice(|it| it.shard_table.clone()),
            "heddle_shard_key" => {
                session.run.own_choice(|it| it.shard_key.clone().unwrap_or_default())
            }
            "heddle_global_table" => session.run.own_choice(|it| it.global_table.clone()),
            "heddle_token" => match Box::pin(token(
                &session.core,
                &session.user,
                &session.variables,
                &mut session.connections,
                &mut session.transaction,
            ))
            .await
            {
                Ok(token) => token,
                Err(error) => return session.client.error(&error, &[]).await,
            },
            name => return session.client.error(&error::SETTING_UNKNOWN, &[name]).await,
        };
        row.push(Some(value.into_bytes()));
    }
    let columns: Vec<&str> = asked.iter().map(|q| q.title.as_str()).collect();
    session
        .client
        .answer_rows(
            &columns,
            &[row],
            session::status_now(&session.variables, &session.transaction),
        )
        .await
}

/// True for a SET or SELECT that names a variable of Heddle's own.
pub fn names_own(request: &Request, shape: &Shape) -> bool {
    let asks = matches!(shape.verb, Verb::Select) && shape.facts.contains(Facts::SYSTEM_VARIABLE);
    (asks || shape.class == Class::Set) && mentions_own(&request.payload()[1..])
}

impl StatementRun {
    fn own_choice(&self, of: impl Fn(&Chosen) -> String) -> String {
        self.chosen.as_deref().map(of).unwrap_or_default()
    }
}

/// Other defaults are in force than those that the session began with: it has them, except where
/// it has chosen for itself.
#[cold]
pub fn follow_defaults(core: &Core, user: &SessionUser, promises: &mut Promises) {
    let version = core.heed_settings();
    let defaults = keeping::default_promises(core, user);
    let name = user.name();
    let marks = rules::marks_of(core, name, user.peer.ip());
    let promises = &mut *promises;
    promises.version = version;
    promises.tags_on = marks;
    if !promises.own.contains(Own::LEVEL) {
        promises.level = defaults.level;
    }
    if !promises.own.contains(Own::MAX_LAG) {
        promises.max_lag_ms = defaults.max_lag_ms;
    }
    if !promises.own.contains(Own::MONOTONIC) {
        promises.monotonic = defaults.monotonic;
    }
    if !promises.own.contains(Own::FAILOVER_WAIT) {
        promises.failover_wait_ms = core.settings().failover_wait_ms;
    }
}

/// The changes that the current SET makes, all of them or none.
fn read_changes(
    request: &Request,
    variables: &SessionVariables,
    shape: &Shape,
) -> Option<Result<Vec<Change>, Refused>> {
    let text = &request.payload()[1..];
    let own = |name: &str| name.as_bytes().starts_with(PREFIX);
    let items: Vec<_> = sqltext::assignments(text, &variables.mode).collect();
    let ours = items.iter().filter(|item| item.scope != Scope::User && own(&item.name));
    let count = ours.count();
    if count == 0 {
        return None;
    }
    if count < items.len() || shape.facts.contains(Facts::MULTIPLE) {
        return Some(Err(Refused::Mixed));
    }
    let change = |item: &sqltext::Assignment<'_>| {
        let name = item.name.to_string();
        match item.scope {
            Scope::Default | Scope::Session => {}
            Scope::Statement => return Err(Refused::Mixed),
            _ => return Err(Refused::Global(name)),
        }
        let word = item.value.of(text).trim_ascii();
        let refused = |why: &str| {
            let word = String::from_utf8_lossy(word).into_owned();
            Err(Refused::Invalid(name.clone(), word, why.to_owned()))
        };
        // NULL is no key; in quotes it is a key like any other.
        let no_key = name == "heddle_shard_key" && word.eq_ignore_ascii_case(b"null");
        if no_key || word.eq_ignore_ascii_case(b"default") {
            return change_of(name, Value::Default);
        }
        let Some(value) = sqltext::written(text, item.value, &variables.mode) else {
            return refused("; it is one string, word or decimal number that is written out");
        };
        if !value.is_ascii() && !variables.is_utf8() {
            return refused("; beyond ASCII it has to be in UTF-8 (SET NAMES utf8mb4)");
        }
        let Ok(value) = String::from_utf8(value.into_owned()) else {
            return refused("; it is not UTF-8");
        };
        change_of(name, Value::Text(value))
    };
    Some(items.iter().map(change).collect())
}

fn change_of(name: String, value: Value) -> Result<Change, Refused> {
    match (name.as_str(), value) {
        ("heddle_consistency", Value::Default) => Ok(Change::Default(Own::LEVEL)),
        ("heddle_consistency", Value::Text(text)) => match Level::named(text.as_bytes()) {
            Some(level) => Ok(Change::Level(level)),
            None => {
                let values = format!("; it is one of {}", Level::NAMES);
                Err(Refused::Invalid(name, text, values.to_owned()))
            }
        },
        ("heddle_max_lag_ms", Value::Default) => Ok(Change::Default(Own::MAX_LAG)),
        ("heddle_max_lag_ms", Value::Text(text)) => match milliseconds(text.as_bytes()) {
            Some(max_lag_ms) => Ok(Change::MaxLagMs(max_lag_ms)),
            None => {
                let values = format!("; it is a number from 0 to {UNBOUNDED_MS} (no bound)");
                Err(Refused::Invalid(name, text, values))
            }
        },
        ("heddle_cache_ttl_s", Value::Default) => Ok(Change::CacheTtl(0)),
        ("heddle_cache_ttl_s", Value::Text(text)) => match seconds(text.as_bytes()) {
            Some(ttl_s) => Ok(Change::CacheTtl(ttl_s)),
            None => {
                let values = "; it is a number from 0 (no cache) to 86400".to_owned();
                Err(Refused::Invalid(name, text, values))
            }
        },
        ("heddle_row_cache", Value::Default) => Ok(Change::RowCache(false)),
        ("heddle_row_cache", Value::Text(text)) => switch(name, text).map(Change::RowCache),
        ("heddle_profile", Value::Default) => Ok(Change::Profile(Detail::Off)),
        ("heddle_profile", Value::Text(text)) => match Detail::named(&text) {
            Some(detail) => Ok(Change::Profile(detail)),
            None => {
                let values = format!("; it is one of {}", Detail::NAMES);
                Err(Refused::Invalid(name, text, values))
            }
        },
        ("heddle_failover_wait_ms", Value::Default) => Ok(Change::Default(Own::FAILOVER_WAIT)),
        ("heddle_failover_wait_ms", Value::Text(text)) => {
            match milliseconds(text.as_bytes()).filter(|&ms| ms <= FAILOVER_WAIT_MS_MAX) {
                Some(wait_ms) => Ok(Change::FailoverWait(wait_ms)),
                None => {
                    let values =
                        format!("; it is a number from 0 (no wait) to {FAILOVER_WAIT_MS_MAX}");
                    Err(Refused::Invalid(name, text, values))
                }
            }
        }
        ("heddle_monotonic", Value::Default) => Ok(Change::Default(Own::MONOTONIC)),
        ("heddle_monotonic", Value::Text(text)) => switch(name, text).map(Change::Monotonic),
        ("heddle_atomic", Value::Default) => Ok(Change::Atomic(None)),
        ("heddle_atomic", Value::Text(text)) => match Atomic::parse(&text) {
            Some(atomic) => Ok(Change::Atomic(Some(atomic))),
            None => {
                let values = "; it is one of xa, single, best-effort".to_owned();
                Err(Refused::Invalid(name, text, values))
            }
        },
        ("heddle_shard_table", Value::Default) => Ok(Change::ShardTable(String::new())),
        ("heddle_shard_table", Value::Text(text)) => Ok(Change::ShardTable(text)),
        ("heddle_shard_key", Value::Default) => Ok(Change::ShardKey(None)),
        ("heddle_shard_key", Value::Text(text)) => {
            Ok(Change::ShardKey((!text.is_empty()).then_some(text)))
        }
        ("heddle_global_table", Value::Default) => Ok(Change::GlobalTable(String::new())),
        ("heddle_global_table", Value::Text(text)) => Ok(Change::GlobalTable(text)),
        ("heddle_token", Value::Default) => Ok(Change::Token(None)),
        ("heddle_token", Value::Text(text)) => Ok(Change::Token(Some(text))),
        _ => Err(Refused::Unknown(name)),
    }
}

async fn refuse_change(client: &mut Client, refused: Refused) -> Result<(), End> {
    let client = &mut *client;
    match refused {
        Refused::Mixed => client.error(&error::SETTINGS_MIXED, &[]).await,
        Refused::Global(name) => client.error(&error::SETTING_SESSION_ONLY, &[&name]).await,
        Refused::Unknown(name) => client.error(&error::SETTING_UNKNOWN, &[&name]).await,
        Refused::Invalid(name, value, values) => {
            let value: String = value.chars().take(64).collect();
            let details = [name.as_str(), &value, &values];
            client.error(&error::SETTING_INVALID, &details).await
        }
        Refused::Token(reason) => client.error(&error::TOKEN_REFUSED, &[&reason]).await,
    }
}

/// The text may name a variable of Heddle's own.
fn mentions_own(text: &[u8]) -> bool {
    text.windows(PREFIX.len()).any(|part| part.eq_ignore_ascii_case(PREFIX))
}

/// One column of a SELECT of Heddle's own variables.
#[derive(Debug, PartialEq, Eq)]
struct Question {
    /// In lower case.
    name: String,
    /// The alias, or the expression as it was written.
    title: String,
}

/// The columns of `SELECT @@heddle_a [AS x], @@session.heddle_b [LIMIT 1]`; `None` for anything else.
fn questions(text: &[u8]) -> Option<Vec<Question>> {
    let text = std::str::from_utf8(text).ok()?.trim();
    let text = text.strip_suffix(';').unwrap_or(text).trim_end();
    let (select, list) = text.split_at_checked(6)?;
    if !select.eq_ignore_ascii_case("select") || !list.starts_with([' ', '\t', '\r', '\n']) {
        return None;
    }
    let lower = list.to_ascii_lowercase();
    let list = match lower.rfind("limit") {
        Some(at) if lower[at + 5..].trim() == "1" => &list[..at],
        _ => list,
    };
    list.split(',').map(question).collect()
}

fn question(item: &str) -> Option<Question> {
    let mut words = item.split_ascii_whitespace();
    let expression = words.next()?;
    let lower = expression.to_ascii_lowercase();
    let name = lower.strip_prefix("@@")?;
    let scoped = ["session.", "local."].iter().find_map(|s| name.strip_prefix(s));
    let name = scoped.unwrap_or(name);
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if !name.starts_with("heddle_") || !name.chars().all(plain) {
        return None;
    }
    let alias = match (words.next(), words.next()) {
        (None, _) => None,
        (Some(word), alias @ Some(_)) if word.eq_ignore_ascii_case("as") => alias,
        (alias, None) => alias,
        _ => return None,
    };
    if words.next().is_some() {
        return None;
    }
    let title = alias.unwrap_or(expression).trim_matches(['`', '\'', '"']);
    Some(Question {
        name: name.to_owned(),
        title: title.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Vec<(String, String)>> {
        let asked = questions(text.as_bytes())?;
        Some(asked.into_iter().map(|q| (q.name, q.title)).collect())
    }

    #[test]
    fn questions_are_read_with_their_titles() {
        let one = |name: &str, title: &str| (name.to_owned(), title.to_owned());
        assert_eq!(
            read("SELECT @@heddle_token"),
            Some(vec![one("heddle_token", "@@heddle_token")])
        );
        assert_eq!(
            read(
                "select @@Session.heddle_consistency AS `level`, @@heddle_max_lag_ms lag LIMIT 1;"
            ),
            Some(vec![
                one("heddle_consistency", "level"),
                one("heddle_max_lag_ms", "lag")
            ])
        );
        for text in [
            "SELECT @@heddle_token, 1",
            "SELECT @@heddle_token FROM t",
            "SELECT @@heddle_token + 1",
            "SELECT @@sql_mode",
            "SELECTED @@heddle_token",
            "SELECT",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn names_are_found_in_any_case() {
        assert!(mentions_own(b"SET SESSION Heddle_Consistency = 1"));
        assert!(!mentions_own(b"SET sql_mode = ''") && !mentions_own(b""));
    }
}
