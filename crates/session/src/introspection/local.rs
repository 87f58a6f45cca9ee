//! What the router answers by itself: `HEDDLE …` and its version.

use std::sync::Arc;
use std::time::Duration;

use backend::Target;
use dist_query::place::Asking;
use dist_query::place::explain::words::{self, Form};
use dist_query::place::explain::{self, Explained, show};
use dist_txn::positions;
use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::request::Request;
use execute::client::sink::ReplySink;
use execute::connections::group_connections::GroupConnections;
use execute::consistency::promises::keeping;
use execute::execution::exec::Shape;
use execute::execution::profile::{PartProfile, Profile};
use execute::execution::statement_run::{PROFILES_MAX, PastProfiles, StatementRun};
use execute::execution::{choice, route, rules, servers_tried};
use execute::per_core::Core;
use execute::per_core::handle::{Asked, Handle};
use execute::per_core::operator::{Answer, Reply};
use execute::session::user::SessionUser;
use execute::session::{self, Session, send_answer};
use execute::transaction::state::Transaction;
use execute::variables::session_variables::SessionVariables;
use farm::local::host_of;
use farm::{Access, ClientError, ServerId, Snapshot, error};
use mysql_wire::status::Status;
use routing::{Plan, Refusal};
use sqltext::{Facts, MsHint, Verb};

use crate::introspection::rights::{self, Right};

/// `HEDDLE …`.
pub(crate) async fn local(session: &mut Session) -> Result<(), End> {
    let text = &session.client.request.payload()[1..];
    let words = sqltext::heddle_words(text, &session.variables.mode);
    let words: Vec<String> = words.into_iter().map(|word| word.to_string()).collect();
    match words.first().map(|word| word.to_ascii_lowercase()).as_deref() {
        Some("status") => {
            show_status(
                &session.core,
                &mut session.client,
                &session.variables,
                &session.transaction,
                &words[1..],
            )
            .await
        }
        Some("explain" | "analyze") => explain(session).await,
        Some("snapshot") => {
            positions::show_snapshot(
                &session.core,
                &mut session.client,
                &session.variables,
                &mut session.connections,
                &session.transaction,
            )
            .await
        }
        Some("profile") => {
            show_profile(
                (&session.core, &session.handle),
                &mut session.client,
                &session.variables,
                &session.transaction,
                &mut session.run,
                &words[1..],
            )
            .await
        }
        Some("select") => {
            select_shard(
                &session.core,
                &mut session.client,
                &mut session.run,
                session::status_now(&session.variables, &session.transaction),
                &words[1..],
            )
            .await
        }
        _ => {
            operate(
                &session.core,
                &mut session.client,
                &session.user,
                &mut session.variables,
                &mut session.connections,
                &session.transaction,
                words,
            )
            .await
        }
    }
}

/// `HEDDLE EXPLAIN statement`: where the statement would go, and why; `HEDDLE ANALYZE statement` runs it
/// besides.
async fn explain(session: &mut Session) -> Result<(), End> {
    let payload = session.client.request.payload()[1..].to_vec();
    let asking = words::asking(&payload, &session.variables.mode).unwrap_or_else(|| Asking {
        runs: false,
        form: Form::Unsaid,
        own: true,
        statement: after_word(after_word(&payload)).to_vec(),
    });
    let text = &*asking.statement;
    let mut shape = session.core.shape(text, &session.variables.mode);
    let digest = session.core.digests.of(shape.hash, text, &session.variables.mode);
    let ruled = rules::foresee(
        &session.core,
        &session.user,
        &session.variables,
        &mut session.run,
        text,
        &mut shape,
    );
    let here = session.connections.group(&session.core.snapshot()).cloned();
    match explain::explain_place(&session.context(), &session.handle, &session.run, text, &shape) {
        Some(Explained::Told(told)) => {
            session.run.ruled = None;
            return Box::pin(show::tell(session, told, &asking)).await;
        }
        Some(Explained::Group(group)) => session.connections.switch_to(&group, &session.core),
        None => {}
    }
    let routes = match shape.hint {
        Some(MsHint::All) => {
            shape.heed_hint();
            match servers_tried::bars_all_servers(&session.core, &shape) {
                None => {
                    servers_tried::all_servers(&session.core, &session.connections, &session.run)
                }
                Some(why) => Err(Refusal {
                    error: error::ALL_SERVERS_REFUSED,
                    detail: why.to_owned(),
                }),
            }
        }
        _ => route::foresee_route(session, &shape, text).map(|route| vec![route]),
    };
    if let Some(here) = here {
        session.connections.switch_to(&here, &session.core);
    }
    session.run.ruled = None;
    let routes = match routes {
        Ok(routes) => routes,
        Err(refusal) => return session.client.error(&refusal.error, &[&refusal.detail]).await,
    };
    let need = keeping::need(&session.core, &session.connections, &session.promises, &shape, 0);
    // Levels have no say in what all servers are asked.
    let level = (shape.hint != Some(MsHint::All)).then(|| need.level.name());
    let same = [
        ("class", Some(format!("{:?}", shape.class).to_lowercase())),
        ("level", level.map(str::to_owned)),
        ("rule", ruled.as_ref().map(|(names, _)| names.clone())),
        ("rule_actions", ruled.map(|(_, actions)| actions)),
        ("digest", Some(digest.to_string())),
    ];
    let answer = explained(&session.core.snapshot(), &routes, &same);
    Box::pin(show::tell_whole(session, answer, shape.class, &asking)).await
}

/// A row for each server that the statement would go to, where `same` has the cells that do not depend on it.
fn explained(
    snapshot: &Snapshot,
    routes: &[(Plan, Target)],
    same: &[(&str, Option<String>); 5],
) -> Answer {
    let [class, level, rule, rule_actions, digest] = same.clone();
    let cells = |(plan, target): &(Plan, Target)| {
        let group = snapshot.server(plan.server).map(|server| server.group.to_string());
        [
            ("group", group),
            ("server", Some(format!("{}:{}", target.host, target.port))),
            class.clone(),
            level.clone(),
            ("reason", Some(format!("{:?}", plan.reason))),
            ("waits", Some(plan.wait.to_string())),
            rule.clone(),
            rule_actions.clone(),
            digest.clone(),
        ]
    };
    let rows: Vec<_> = routes.iter().map(cells).collect();
    let columns = rows.first().into_iter().flatten();
    Answer {
        columns: columns.map(|(name, _)| (*name).to_owned()).collect(),
        rows: rows.into_iter().map(|row| row.map(|(_, cell)| cell).to_vec()).collect(),
    }
}

async fn operate(
    core: &Core,
    client: &mut impl ReplySink,
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
        return client.error(&refusal(needed), &[]).await;
    }
    match submitted(core, user, access, words).await {
        Ok(answer) => send_answer(client, variables, transaction, answer).await,
        Err((error, text)) => client.error(&error, &[&text]).await,
    }
}

/// Has a command carried out for the session's account, which has this right; or why it was not, as an error and
/// its detail.
pub(crate) async fn submitted(
    core: &Core,
    user: &SessionUser,
    access: Access,
    words: Vec<String>,
) -> Result<Answer, (ClientError, String)> {
    let (tell, told) = futures_channel::oneshot::channel();
    let reply: Reply = Box::new(move |outcome| drop(tell.send(outcome)));
    let name = String::from_utf8_lossy(user.name()).into_owned();
    let by = format!("{name}@{}", host_of(user.peer.ip()));
    core.shared.operator.submit(words, &by, access, reply);
    match told.await {
        Ok(answer) => answer.map_err(|text| (error::COMMAND_REFUSED, text)),
        Err(_) => Err((error::SHUTTING_DOWN, String::new())),
    }
}

/// `HEDDLE SELECT SHARD 'table' 'key'` and `HEDDLE SELECT GLOBAL 'table'`: a SET of the variables that choose
/// a shard, whose answer has the numbers of the statement before.
async fn select_shard(
    core: &Core,
    client: &mut impl ReplySink,
    run: &mut StatementRun,
    status: Status,
    words: &[String],
) -> Result<(), End> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let Some(chosen) = choice::choice_of(&words) else {
        let text = "usage: HEDDLE SELECT SHARD 'table' 'key' | HEDDLE SELECT GLOBAL 'table'";
        return client.error(&error::COMMAND_REFUSED, &[text]).await;
    };
    if core.glance().sharding.is_none() {
        return client.error(&error::SETTING_UNKNOWN, &[chosen.variable()]).await;
    }
    run.choose(chosen);
    client.answer_ok(&run.profile.ok(status)).await
}

/// The columns of a profile.
const PROFILE: [&str; 23] = [
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
    "part",
    "rows_changed",
    "digest",
    "tag",
    "trace",
];

/// The columns of what a server counted.
const COUNTERS: [&str; 3] = ["server", "counter", "added"];

/// `HEDDLE PROFILE [FOR n]`: the last statement, or the one n - 1 before it: a row, and one more for each part of
/// one that ran on several groups; none where there is no such statement. `HEDDLE PROFILE REPEAT`: the
/// last statement's OK once more, for client libraries that keep its numbers from the last reply:
/// who asked Heddle something in between has them back. `HEDDLE PROFILE SERVER [FOR n]`: what the statement's server
/// counted for it, where `heddle_profile` was `server`.
async fn show_profile(
    (core, handle): (&Core, &Handle),
    client: &mut impl ReplySink,
    variables: &SessionVariables,
    transaction: &Transaction,
    run: &mut StatementRun,
    words: &[String],
) -> Result<(), End> {
    let counted = words.first().is_some_and(|word| word.eq_ignore_ascii_case("server"));
    let words = &words[usize::from(counted)..];
    let back = match words {
        [] => 1,
        [word] if !counted && word.eq_ignore_ascii_case("repeat") => {
            let status = session::status_now(variables, transaction);
            return client.answer_ok(&run.profile.ok(status)).await;
        }
        [word, number] if word.eq_ignore_ascii_case("for") => {
            let number = number.parse().ok();
            number.filter(|number| (1..=PROFILES_MAX).contains(number)).unwrap_or(0)
        }
        _ => 0,
    };
    if back == 0 {
        let text = "usage: HEDDLE PROFILE [REPEAT | [SERVER] [FOR 1 to 100]]";
        return client.error(&error::COMMAND_REFUSED, &[text]).await;
    }
    let mut answer = Answer {
        columns: match counted {
            true => COUNTERS.map(str::to_owned).to_vec(),
            false => PROFILE.map(str::to_owned).to_vec(),
        },
        rows: Vec::new(),
    };
    {
        let asked = handle.asked.borrow();
        let begun = run.profile.begun;
        let before = run.profiles.get_or_insert_with(|| {
            // What comes behind it went to no server.
            let behind = run.profile.plan.is_some() && !begun;
            let last = behind.then(|| (run.profile.clone(), asked.clone()));
            Box::new(PastProfiles(last.into_iter().collect()))
        });
        let last = begun.then_some((&run.profile, &*asked));
        let before = before.0.iter().rev().map(|(profile, asked)| (profile, asked));
        if let Some((profile, asked)) = last.into_iter().chain(before).nth(back - 1) {
            let open = variables.status.contains(Status::IN_TRANS);
            answer.rows = match counted {
                true => counters_of(core, profile),
                false => profiled(core, profile, asked, open),
            };
        }
    }
    run.profile.time_steps();
    send_answer(client, variables, transaction, answer).await
}

/// What the server of a statement counted for it.
fn counters_of(core: &Core, profile: &Profile) -> Vec<Vec<Option<String>>> {
    let (Some((plan, _)), Some(counters)) = (profile.plan, &profile.counters) else {
        return Vec::new();
    };
    let [server, ..] = placed(core, plan.server, profile.connection, plan.read_only);
    let row = |(name, added): &(String, u64)| {
        vec![server.clone(), Some(name.clone()), Some(added.to_string())]
    };
    counters.iter().map(row).collect()
}

/// A statement and its parts.
fn profiled(core: &Core, profile: &Profile, asked: &Asked, open: bool) -> Vec<Vec<Option<String>>> {
    let Some((plan, level)) = profile.plan else {
        return Vec::new();
    };
    let number = |value: u64| Some(value.to_string());
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let at = match &profile.parts[..] {
        [] => placed(core, plan.server, profile.connection, plan.read_only),
        [part] => placed_part(core, part),
        _ => [const { None }; 5],
    };
    let mut row = at.to_vec();
    row.extend([
        Some(level.name().to_owned()),
        Some(format!("{:?}", plan.reason)),
        number(profile.shards() as u64),
        number(profile.rows),
        number(profile.bytes(0)),
        number(profile.waits.into()),
        number(profile.retries().into()),
        number(open.into()),
    ]);
    let micros = |time: &Duration| Some(time.as_micros().to_string());
    match profile.steps() {
        Some(steps) => {
            row.extend(steps.iter().map(micros));
            row.push(micros(&steps.iter().sum()));
        }
        None => row.extend([const { None }; 5]),
    }
    row.extend([
        None,
        number(profile.affected_rows),
        asked.digest.map(|digest| digest.to_string()),
        some(&asked.origin.tag),
        some(&asked.origin.trace),
    ]);
    let mut rows = vec![row];
    let parts = profile.parts.iter().filter(|_| profile.parts.len() > 1);
    for (at, part) in parts.enumerate() {
        let mut row = placed_part(core, part).to_vec();
        row.resize(PROFILE.len(), None);
        let mut set = |name: &str, value: u64| {
            if let Some(at) = PROFILE.iter().position(|column| *column == name) {
                row[at] = number(value);
            }
        };
        set("part", at as u64 + 1);
        set("rows", part.rows);
        set("rows_changed", part.affected_rows);
        rows.push(row);
    }
    rows
}

fn placed_part(core: &Core, part: &PartProfile) -> [Option<String>; 5] {
    let mut at = placed(core, part.server, part.connection, part.read_only);
    at[2] = Some(part.group.to_string());
    at
}

/// Server, name, group, role, and the id of the connection.
fn placed(core: &Core, id: ServerId, connection: u32, read_only: bool) -> [Option<String>; 5] {
    let snapshot = core.glance();
    let server = snapshot.server(id);
    [
        server.map(|s| format!("{}:{}", s.host, s.port)),
        server.map(|s| s.name.to_string()),
        server.map(|s| s.group.to_string()),
        Some(if read_only { "replica" } else { "primary" }.to_owned()),
        Some(connection).filter(|&id| id != 0).map(|id| id.to_string()),
    ]
}

/// The error of who lacks a right.
pub(crate) fn refusal(needed: Access) -> ClientError {
    match needed {
        Access::Admin => error::ADMIN_REQUIRED,
        Access::Monitor | Access::Public => error::MONITOR_REQUIRED,
    }
}

/// What the account may ask for, as far as it matters for a command that needs so much.
pub(crate) async fn access(
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

/// `HEDDLE STATUS [LIKE pattern]`: the counters of all cores, added up.
async fn show_status(
    core: &Core,
    client: &mut impl ReplySink,
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
pub(crate) fn asks_version_comment(request: &Request, shape: &Shape) -> bool {
    if !matches!(shape.verb, Verb::Select) || !shape.facts.contains(Facts::SYSTEM_VARIABLE) {
        return false;
    }
    let text = String::from_utf8_lossy(&request.payload()[1..]).to_ascii_lowercase();
    let text = text.trim().trim_end_matches(';');
    text.strip_suffix("limit 1").unwrap_or(text).trim() == "select @@version_comment"
}

/// Says Heddle and the server's version.
pub(crate) async fn version_comment(
    core: &Core,
    client: &mut impl ReplySink,
    variables: &SessionVariables,
    transaction: &Transaction,
) -> Result<(), End> {
    let snapshot = core.snapshot();
    let primary = snapshot.home().and_then(|group| group.primary());
    let server = primary.map_or("no server", |server| &server.version);
    let comment = format!("Heddle {} in front of {server}", env!("CARGO_PKG_VERSION"));
    let rows = vec![vec![Some(comment.into_bytes())]];
    client
        .answer_rows(&["@@version_comment"], &rows, session::status_now(variables, transaction))
        .await
}

/// The text behind its first word.
fn after_word(text: &[u8]) -> &[u8] {
    let text = text.trim_ascii_start();
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    &text[end..]
}
