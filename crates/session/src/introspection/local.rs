//! What the router answers by itself: `HEDDLE …` and its version.

use std::sync::Arc;
use std::time::Duration;

use farm::{Access, error};
use mysql_wire::status::Status;
use routing::{Level, Plan};
use sqltext::{Facts, Verb};

use crate::authentication::login::SessionUser;
use crate::client::Client;
use crate::client::end::End;
use crate::connections::group_connections::GroupConnections;
use crate::consistency::promises::keeping;
use crate::execution::choice;
use crate::execution::exec::Shape;
use crate::execution::profile::Times;
use crate::execution::rules;
use crate::execution::statement_run::StatementRun;
use crate::introspection::operator::{Answer, Reply};
use crate::introspection::rights::{self, Right};
use crate::per_core::Core;
use crate::place::{Explained, estimate};
use crate::session::{self, Session};
use crate::transaction::state::Transaction;
use crate::variables::session_variables::SessionVariables;

impl Session {
    /// `HEDDLE …`.
    pub(crate) async fn local(&mut self) -> Result<(), End> {
        let text = &self.client.payload()[1..];
        let words = sqltext::heddle_words(text, &self.variables.mode);
        let words: Vec<String> = words.into_iter().map(|word| word.to_string()).collect();
        match words.first().map(|word| word.to_ascii_lowercase()).as_deref() {
            Some("status") => {
                show_status(
                    &self.core,
                    &mut self.client,
                    &self.variables,
                    &self.transaction,
                    &words[1..],
                )
                .await
            }
            Some("explain") => self.explain(&words).await,
            Some("snapshot") => self.show_snapshot().await,
            Some("profile") => {
                show_profile(
                    &self.core,
                    &mut self.client,
                    &self.variables,
                    &self.transaction,
                    &mut self.run,
                    &words[1..],
                )
                .await
            }
            Some("select") => {
                select_shard(
                    &self.core,
                    &mut self.client,
                    &mut self.run,
                    session::status_now(&self.variables, &self.transaction),
                    &words[1..],
                )
                .await
            }
            _ => {
                operate(
                    &self.core,
                    &mut self.client,
                    &self.user,
                    &mut self.variables,
                    &mut self.connections,
                    &self.transaction,
                    words,
                )
                .await
            }
        }
    }

    /// `HEDDLE EXPLAIN statement`: where the statement would go, and why.
    async fn explain(&mut self, _words: &[String]) -> Result<(), End> {
        let payload = self.client.payload()[1..].to_vec();
        let text = after_word(after_word(&payload));
        let mut shape = self.core.shape(text, &self.variables.mode);
        let digest = self.core.digests.of(shape.hash, text, &self.variables.mode);
        let ruled = rules::foresee(
            &self.core,
            &self.user,
            &self.variables,
            &mut self.run,
            text,
            &mut shape,
        );
        let here = self.connections.group(&self.core.snapshot()).cloned();
        match self.explain_place(text, &shape) {
            Some(Explained::Rows(mut answer)) => {
                self.run.ruled = None;
                Box::pin(estimate::estimate(&self.core, &self.user, &self.variables, &mut answer))
                    .await;
                return send_answer(&mut self.client, &self.variables, &self.transaction, answer)
                    .await;
            }
            Some(Explained::Group(group)) => self.connections.switch_to(&group, &self.core),
            None => {}
        }
        let route = self.foresee_route(&shape, text);
        if let Some(here) = here {
            self.connections.switch_to(&here, &self.core);
        }
        self.run.ruled = None;
        let (plan, target) = match route {
            Ok(route) => route,
            Err(refusal) => return self.client.error(&refusal.error, &[&refusal.detail]).await,
        };
        let level =
            keeping::need(&self.core, &self.connections, &self.promises, &shape, 0).level.name();
        let group = self.core.snapshot().server(plan.server).map(|s| s.group.to_string());
        let cells = [
            ("group", group),
            ("server", Some(format!("{}:{}", target.host, target.port))),
            ("class", Some(format!("{:?}", shape.class).to_lowercase())),
            ("level", Some(level.to_owned())),
            ("reason", Some(format!("{:?}", plan.reason))),
            ("waits", Some(plan.wait.to_string())),
            ("rule", ruled.as_ref().map(|(names, _)| names.clone())),
            ("rule_actions", ruled.map(|(_, actions)| actions)),
            ("digest", Some(digest.to_string())),
        ];
        let (columns, row): (Vec<String>, Vec<Option<String>>) =
            cells.into_iter().map(|(name, cell)| (name.to_owned(), cell)).unzip();
        send_answer(
            &mut self.client,
            &self.variables,
            &self.transaction,
            Answer {
                columns,
                rows: vec![row],
            },
        )
        .await
    }
}

async fn operate(
    core: &Core,
    client: &mut Client,
    user: &SessionUser,
    variables: &mut SessionVariables,
    connections: &mut GroupConnections,
    transaction: &Transaction,
    mut words: Vec<String>,
) -> Result<(), End> {
    // A command's two words are keywords here, and those have no case in SQL.
    for word in words.iter_mut().take(2) {
        word.make_ascii_lowercase();
    }
    let operator = Arc::clone(&core.shared.operator);
    let needed = operator.needs(&words);
    let access = access(core, user, variables, connections, needed).await;
    if access < needed {
        let refusal = match needed {
            Access::Admin => &error::ADMIN_REQUIRED,
            Access::Monitor | Access::Public => &error::MONITOR_REQUIRED,
        };
        return client.error(refusal, &[]).await;
    }
    let (tell, told) = futures_channel::oneshot::channel();
    let reply: Reply = Box::new(move |outcome| drop(tell.send(outcome)));
    let name = String::from_utf8_lossy(user.name()).into_owned();
    let by = format!("{name}@{}", user.peer.ip().to_canonical());
    operator.submit(words, &by, access, reply);
    match told.await {
        Ok(Ok(answer)) => send_answer(client, variables, transaction, answer).await,
        Ok(Err(text)) => client.error(&error::COMMAND_REFUSED, &[&text]).await,
        Err(_) => client.error(&error::SHUTTING_DOWN, &[]).await,
    }
}

/// `HEDDLE SELECT SHARD 'table' 'key'` and `HEDDLE SELECT GLOBAL 'table'`: a SET of the variables that choose
/// a shard, whose answer has the numbers of the statement before.
async fn select_shard(
    core: &Core,
    client: &mut Client,
    run: &mut StatementRun,
    status: Status,
    words: &[String],
) -> Result<(), End> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some(chosen) = choice::choice_of(&words) else {
        let text = "usage: HEDDLE SELECT SHARD 'table' 'key' | HEDDLE SELECT GLOBAL 'table'";
        return client.error(&error::COMMAND_REFUSED, &[text]).await;
    };
    if core.shared.published.load().sharding.is_none() {
        return client.error(&error::SETTING_UNKNOWN, &[chosen.variable()]).await;
    }
    run.choose(chosen);
    run.profile.repeat(client, status).await
}

/// What the account may ask for, as far as it matters for a command that needs so much.
async fn access(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
    needed: Access,
) -> Access {
    if user.identity.admin {
        return Access::Admin;
    }
    if needed != Access::Monitor {
        return Access::Public;
    }
    let name = String::from_utf8_lossy(user.name()).into_owned();
    let named = core.shared.operator.monitors(&name);
    match named || rights::has_right(core, user, variables, connections, Right::See).await {
        true => Access::Monitor,
        false => Access::Public,
    }
}

/// Sends an answer of rows.
pub(crate) async fn send_answer(
    client: &mut Client,
    variables: &SessionVariables,
    transaction: &Transaction,
    answer: Answer,
) -> Result<(), End> {
    let columns: Vec<&str> = answer.columns.iter().map(String::as_str).collect();
    let rows: Vec<Vec<Option<Vec<u8>>>> = answer
        .rows
        .into_iter()
        .map(|row| row.into_iter().map(|cell| cell.map(String::into_bytes)).collect())
        .collect();
    client.rows(&columns, &rows, session::status_now(variables, transaction)).await
}

/// `HEDDLE STATUS [LIKE pattern]`: the counters of all cores, added up.
async fn show_status(
    core: &Core,
    client: &mut Client,
    variables: &SessionVariables,
    transaction: &Transaction,
    words: &[String],
) -> Result<(), End> {
    let pattern = match words {
        [] => "%",
        [like, pattern] if like.eq_ignore_ascii_case("like") => pattern.as_str(),
        _ => {
            let text = "usage: HEDDLE STATUS [LIKE 'pattern']";
            return client.error(&error::COMMAND_REFUSED, &[text]).await;
        }
    };
    let mut answer = Answer {
        columns: vec!["Variable_name".to_owned(), "Value".to_owned()],
        rows: Vec::new(),
    };
    for (name, _, value) in core.shared.counters_sum() {
        if farm::account::like(pattern.as_bytes(), name.as_bytes()) {
            answer.rows.push(vec![Some(name.to_owned()), Some(value.to_string())]);
        }
    }
    send_answer(client, variables, transaction, answer).await
}

/// `SELECT @@version_comment [LIMIT 1]`, which clients ask when they connect.
pub(crate) fn asks_version_comment(client: &Client, shape: &Shape) -> bool {
    if shape.verb != Verb::Select || !shape.facts.contains(Facts::SYSTEM_VARIABLE) {
        return false;
    }
    let text = String::from_utf8_lossy(&client.payload()[1..]).to_ascii_lowercase();
    let text = text.trim().trim_end_matches(';');
    text.strip_suffix("limit 1").unwrap_or(text).trim() == "select @@version_comment"
}

/// Says Heddle and the server's version.
pub(crate) async fn version_comment(
    core: &Core,
    client: &mut Client,
    variables: &SessionVariables,
    transaction: &Transaction,
) -> Result<(), End> {
    let snapshot = core.snapshot();
    let primary = snapshot.home().and_then(|group| group.primary());
    let server = primary.map_or("no server", |server| &server.version);
    let comment = format!("Heddle {} in front of {server}", env!("CARGO_PKG_VERSION"));
    let rows = vec![vec![Some(comment.into_bytes())]];
    client.rows(&["@@version_comment"], &rows, session::status_now(variables, transaction)).await
}

/// The text behind its first word.
fn after_word(text: &[u8]) -> &[u8] {
    let text = text.trim_ascii_start();
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    &text[end..]
}

/// `HEDDLE PROFILE`: one row, or none before the first statement. `HEDDLE PROFILE REPEAT`: the
/// last statement's OK once more, for client libraries that keep its numbers from the last reply:
/// who asked Heddle something in between has them back.
async fn show_profile(
    core: &Core,
    client: &mut Client,
    variables: &SessionVariables,
    transaction: &Transaction,
    run: &mut StatementRun,
    words: &[String],
) -> Result<(), End> {
    match words {
        [] => {}
        [word] if word.eq_ignore_ascii_case("repeat") => {
            let status = session::status_now(variables, transaction);
            return run.profile.repeat(client, status).await;
        }
        _ => {
            let text = "usage: HEDDLE PROFILE [REPEAT]";
            return client.error(&error::COMMAND_REFUSED, &[text]).await;
        }
    }
    let timed = run.profile.times.is_some();
    let row = run.profile.plan.map(|(plan, level)| profiled(core, variables, run, plan, level));
    if !timed {
        run.profile.times = Some(Box::new(Times::now()));
    }
    let columns = [
        "server",
        "name",
        "group",
        "role",
        "connection_id",
        "level",
        "reason",
        "shards",
        "rows",
        "bytes",
        "waits",
        "retries",
        "in_transaction",
        "connect_us",
        "wait_us",
        "serve_us",
        "hold_us",
        "total_us",
    ];
    send_answer(
        client,
        variables,
        transaction,
        Answer {
            columns: columns.map(str::to_owned).to_vec(),
            rows: row.into_iter().collect(),
        },
    )
    .await
}

fn profiled(
    core: &Core,
    variables: &SessionVariables,
    run: &StatementRun,
    plan: Plan,
    level: Level,
) -> Vec<Option<String>> {
    let profile = &run.profile;
    let snapshot = core.snapshot();
    let server = snapshot.server(plan.server);
    let number = |value: u64| Some(value.to_string());
    let connection = Some(profile.connection).filter(|&id| id != 0);
    let mut row = vec![
        server.map(|s| format!("{}:{}", s.host, s.port)),
        server.map(|s| s.name.to_string()),
        server.map(|s| s.group.to_string()),
        Some(if plan.read_only { "replica" } else { "primary" }.to_owned()),
        connection.map(|id| id.to_string()),
        Some(level.name().to_owned()),
        Some(format!("{:?}", plan.reason)),
        number(1),
        number(profile.rows),
        number(profile.bytes),
        number(profile.waits.into()),
        number(profile.attempts.saturating_sub(1).into()),
        number(u64::from(variables.status.contains(Status::IN_TRANS))),
    ];
    let micros = |time: &Duration| Some(time.as_micros().to_string());
    match &profile.times {
        Some(times) => {
            row.extend(times.steps.iter().map(micros));
            row.push(micros(&times.steps.iter().sum()));
        }
        None => row.extend([const { None }; 5]),
    }
    row
}
