//! KILL by the ids that clients know, over all cores of this router and all routers of the farm.
//!
//! Who may end whom is decided as the servers decide it: everybody their own user's sessions, and
//! whoever has the right for it all others.

use execute::client::Client;
use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::sink::ReplySink;
use execute::connections::group_connections::GroupConnections;
use execute::execution::exec::{Job, Shape, text_shape};
use execute::per_core::Core;
use execute::per_core::handle::Handle;
use execute::per_core::message::{How, Message};
use execute::per_core::peers::ask::kill_elsewhere;
use execute::per_core::registry::Entry;
use execute::prepared::statements::PreparedStatements;
use execute::session::user::SessionUser;
use execute::session::{self, Session};
use execute::transaction::state::Transaction;
use execute::variables::session_variables::SessionVariables;
use execute::variables::user_variables;
use farm::{ClientError, Engine, Killed, Victim as Ended, error};
use mysql_wire::capability::Capabilities;
use mysql_wire::reply::OkPacket;
use mysql_wire::result::{Value, ValueKind};
use mysql_wire::scalar::Reader;
use mysql_wire::statement::Execute;
use mysql_wire::status::Status;
use sqltext::{Dialect, Facts, Victim};

use crate::introspection::rights::{self, Right};
use crate::query;
use crate::query::by_rules;

/// The expression reads a table or a sequence, which MariaDB does not allow there.
fn uses_tables(expression: &[u8], shape: &Shape) -> bool {
    let sequence = Facts::LAST_SEQUENCE_VALUE | Facts::WRITES_SEQUENCE;
    let word = |word: &[u8]| {
        let mut parts = expression.windows(word.len());
        parts.any(|part| part.eq_ignore_ascii_case(word))
    };
    shape.facts.intersects(sequence) || (word(b"select") && word(b"from"))
}

/// What a KILL is told that names its victim in a way that cannot be carried.
const UNCARRIED: &str = "a KILL with a parameter takes nothing beside it; among other statements \
                         it must come first and name a connection";

/// Answered like a KILL that was carried out.
const STAND_IN: &str = "DO 0;";

/// What became of a KILL.
enum Verdict {
    Sent,
    /// It is for the session itself.
    Own,
    Refused(ClientError),
    /// This one of those that are meant belongs to somebody else.
    Foreign(u32),
    /// A router that it concerns did not answer.
    Unsure(String),
}

/// COM_PROCESS_KILL.
pub(crate) async fn process_kill(session: &mut Session) -> Result<(), End> {
    let how = How::CONNECTION;
    match session.client.request.payload().get(1..5) {
        Some(&[a, b, c, d]) => {
            kill_session(session, u32::from_le_bytes([a, b, c, d]).into(), how).await
        }
        _ => {
            let details = ["COM_PROCESS_KILL"];
            session.client.error(&error::MALFORMED_PACKET, &details).await
        }
    }
}

/// KILL in all its forms, and SHUTDOWN. MariaDB's KILL QUERY ID names a statement by the primary's own number,
/// as that server lists it, and goes there.
pub(crate) async fn kill_statement(
    session: &mut Session,
    mut shape: Shape,
    job: Job,
) -> Result<(), End> {
    if shape.facts.contains(Facts::SHUTDOWN) {
        return rights::refuse_shutdown(
            &session.core,
            &session.user,
            &mut session.client,
            &session.variables,
            &mut session.connections,
        )
        .await;
    }
    let text = user_variables::text(&session.client.request, &session.prepared, job).to_vec();
    if shape.facts.contains(Facts::MULTIPLE) {
        return kill_ahead(session, &text, shape, job).await;
    }
    let Some(kill) = sqltext::kill(&text, &session.variables.mode) else {
        return refuse_kill(&mut session.client).await;
    };
    let (query, soft) = (kill.query, kill.soft);
    let how = How { query, soft };
    let expression = match kill.victim {
        Victim::Id(id) => return kill_session(session, id, how).await,
        Victim::User { user, host } => return kill_user(session, &user, &host, how).await,
        Victim::CurrentUser => {
            let user = session.user.name().clone();
            return kill_user(session, &user, b"%", how).await;
        }
        Victim::Expression(span) if !span.of(&text).is_empty() => span.of(&text),
        // The server knows the statement, or what is wrong with it.
        Victim::Expression(_) | Victim::Statement => {
            shape.facts -= Facts::KILL;
            return Box::pin(by_rules::run_command(session, shape, job)).await;
        }
    };
    let parameters = match job {
        Job::Execute(id) => session.prepared.statements.get(&id).map_or(0, |found| found.params),
        _ => 0,
    };
    let id = if parameters == 0 {
        match victim(session, &shape, job, expression).await? {
            Some(id) => id,
            None => return Ok(()),
        }
    } else {
        match only_parameter(&session.client, &session.prepared, job).filter(|_| expression == b"?")
        {
            Some(id) => id,
            None => return refuse_kill(&mut session.client).await,
        }
    };
    kill_session(session, id, how).await
}

/// KILLs at the beginning of a text of several statements. They are carried out here; then the
/// text runs with a statement in the place of each that has the same answer.
async fn kill_ahead(
    session: &mut Session,
    text: &[u8],
    mut shape: Shape,
    job: Job,
) -> Result<(), End> {
    let flags = session.user.identity.pass.profile().flags;
    if !flags.contains(Capabilities::MULTI_STATEMENTS) {
        // To the server the text is one statement, which is wrong, and nothing is killed.
        shape.facts -= Facts::KILL;
        return Box::pin(by_rules::run_command(session, shape, job)).await;
    }
    let (mut kills, mut at) = (Vec::new(), 0);
    while let Some(kill) = sqltext::kill(&text[at..], &session.variables.mode) {
        let (query, soft) = (kill.query, kill.soft);
        let id = match kill.victim {
            Victim::Id(id) => id,
            Victim::Expression(span) if at == 0 && !span.of(text).is_empty() => {
                match victim(session, &shape, job, span.of(text)).await? {
                    Some(id) => id,
                    None => return Ok(()),
                }
            }
            _ => return refuse_kill(&mut session.client).await,
        };
        kills.push((id, How { query, soft }));
        at = text.len().min(at + kill.end + 1);
    }
    let rest = &text[at..];
    let later = session.core.shape(rest, &session.variables.mode).facts;
    if kills.is_empty() || later.contains(Facts::KILL) {
        return refuse_kill(&mut session.client).await;
    }
    for (done, (id, how)) in kills.iter().copied().enumerate() {
        let verdict = try_kill(
            &session.core,
            &session.handle,
            &session.user,
            &session.variables,
            &mut session.connections,
            id,
            how,
        )
        .await;
        if matches!(verdict, Verdict::Sent) {
            continue;
        }
        for _ in 0..done {
            let status = session::status_now(&session.variables, &session.transaction)
                | Status::MORE_RESULTS;
            session.client.ok(status).await?;
        }
        return answer_kill(
            &mut session.client,
            &session.variables,
            &session.transaction,
            verdict,
            id,
            how,
        )
        .await;
    }
    let text = [STAND_IN.repeat(kills.len()).as_bytes(), rest].concat();
    session.client.request.replace_text(&text);
    let shape = text_shape::query_shape(&session.core, &session.client.request, &session.variables);
    Box::pin(query::run_query(session, shape)).await
}

/// The id that an expression gives. `None`: the client has been told why there is none.
async fn victim(
    session: &mut Session,
    shape: &Shape,
    job: Job,
    expression: &[u8],
) -> Result<Option<u64>, End> {
    if session.variables.mode.dialect == Dialect::MariaDb && uses_tables(expression, shape) {
        let told = session.client.error(&error::KILL_TAKES_NO_TABLES, &[]).await;
        return told.map(|()| None);
    }
    let query = [b"SELECT CAST((", expression, b") AS SIGNED)"].concat();
    let value = rights::evaluate(session, shape, job, &query).await?;
    Ok(value.map(|value| number(&value)))
}

async fn kill_session(session: &mut Session, id: u64, how: How) -> Result<(), End> {
    let verdict = try_kill(
        &session.core,
        &session.handle,
        &session.user,
        &session.variables,
        &mut session.connections,
        id,
        how,
    )
    .await;
    answer_kill(&mut session.client, &session.variables, &session.transaction, verdict, id, how)
        .await
}

/// KILL USER: the sessions of a user, from addresses that fit the host. All of them or none.
async fn kill_user(session: &mut Session, user: &[u8], host: &[u8], how: How) -> Result<(), End> {
    let victim = Ended::User {
        user: String::from_utf8_lossy(user).into_owned(),
        host: String::from_utf8_lossy(host).into_owned(),
    };
    let victims = session.core.shared.registry.victims(&victim);
    if let Some(id) = forbidden_victim(
        &session.core,
        &session.user,
        &session.variables,
        &mut session.connections,
        &victims,
    )
    .await
    {
        let verdict = Verdict::Foreign(id);
        return answer_kill(
            &mut session.client,
            &session.variables,
            &session.transaction,
            verdict,
            id.into(),
            how,
        )
        .await;
    }
    // The same user's sessions may be ended everywhere or nowhere, so nobody is ended in vain.
    let (verdict, elsewhere) = try_kill_elsewhere(
        &session.core,
        &session.user,
        &session.variables,
        &mut session.connections,
        victim,
        how,
    )
    .await;
    if matches!(verdict, Verdict::Foreign(_)) {
        return answer_kill(
            &mut session.client,
            &session.variables,
            &session.transaction,
            verdict,
            0,
            how,
        )
        .await;
    }
    let own_id = session.handle.id;
    for entry in victims.iter().filter(|entry| entry.id != own_id) {
        send_kill(&session.core, entry, how);
    }
    if victims.iter().any(|entry| entry.id == own_id) {
        return kill_self(&mut session.client, &session.variables, how).await;
    }
    if matches!(verdict, Verdict::Unsure(_)) {
        return answer_kill(
            &mut session.client,
            &session.variables,
            &session.transaction,
            verdict,
            0,
            how,
        )
        .await;
    }
    let mut ok = OkPacket::new(session::status_now(&session.variables, &session.transaction));
    ok.affected_rows = victims.len() as u64 + u64::from(elsewhere);
    session.client.answer_ok(&ok).await
}

async fn try_kill(
    core: &Core,
    handle: &Handle,
    user: &SessionUser,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
    id: u64,
    how: How,
) -> Verdict {
    let Ok(id) = u32::try_from(id) else {
        return Verdict::Refused(error::UNKNOWN_THREAD);
    };
    let Some(entry) = core.shared.registry.find(id) else {
        return try_kill_elsewhere(core, user, variables, connections, Ended::Session(id), how)
            .await
            .0;
    };
    if !is_own(user, &entry)
        && !rights::has_right(core, user, variables, connections, Right::Kill).await
    {
        return Verdict::Refused(error::NOT_YOUR_THREAD);
    }
    if is_spared(core, user, variables, connections, &entry).await {
        return Verdict::Refused(error::NOT_YOUR_THREAD);
    }
    if entry.id == handle.id {
        return Verdict::Own;
    }
    send_kill(core, &entry, how);
    Verdict::Sent
}

/// One of those that are meant may not be ended by this session's account: its id, since nobody is
/// ended then.
async fn forbidden_victim(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
    victims: &[Entry],
) -> Option<u32> {
    let foreign = victims.iter().find(|entry| !is_own(user, entry));
    if let Some(id) = foreign.map(|entry| entry.id)
        && !rights::has_right(core, user, variables, connections, Right::Kill).await
    {
        return Some(id);
    }
    for entry in victims {
        if is_spared(core, user, variables, connections, entry).await {
            return Some(entry.id);
        }
    }
    None
}

/// The session's account has MySQL's SYSTEM_USER, and who wants to end it has not.
async fn is_spared(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
    entry: &Entry,
) -> bool {
    let accounts = core.glance().accounts.clone();
    let (core, user) = (core, user);
    accounts.is_system(&entry.user, entry.peer.ip())
        && spares_system(core, user, variables, connections).await
}

/// The session is of the same user.
fn is_own(user: &SessionUser, entry: &Entry) -> bool {
    entry.user.as_bytes() == &**user.name()
}

/// The value of the only parameter of the current EXECUTE, as a number.
fn only_parameter(client: &Client, prepared: &PreparedStatements, job: Job) -> Option<u64> {
    let Job::Execute(id) = job else { return None };
    let statement = prepared.statements.get(&id).filter(|s| !s.long_data)?;
    let body = client.request.payload().get(1..)?;
    let execute =
        Execute::decode(body, statement.params, text_shape::has_attributes(client)).ok()?;
    let &[column, flags, ..] = &statement.types[..] else {
        return None;
    };
    if execute.params != 1 {
        return None;
    }
    if execute.null_bitmap.first().is_some_and(|bits| bits & 1 == 1) {
        return Some(0);
    }
    let kind = ValueKind {
        column: column.try_into().ok()?,
        unsigned: flags & 0x80 != 0,
    };
    Some(match Value::read(&mut Reader::new(execute.values), kind).ok()? {
        Value::Int(id) => u64::try_from(id).unwrap_or(0),
        Value::UInt(id) => id,
        Value::Bytes(text) => number(text),
        _ => 0,
    })
}

async fn refuse_kill(client: &mut Client) -> Result<(), End> {
    let client = &mut *client;
    client.error(&error::COMMAND_REFUSED, &[UNCARRIED]).await
}

/// KILL for sessions of other routers, and how many of them were ended.
async fn try_kill_elsewhere(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
    victim: Ended,
    how: How,
) -> (Verdict, u32) {
    let single = matches!(victim, Ended::Session(_));
    let none = match single {
        true => Verdict::Refused(error::UNKNOWN_THREAD),
        false => Verdict::Sent,
    };
    if core.shared.peers.is_alone() {
        return (none, 0);
    }
    let own = user.name().clone();
    let only = match rights::has_right(core, user, variables, connections, Right::Kill).await {
        true => None,
        false => Some(String::from_utf8_lossy(&own).into_owned()),
    };
    let kill = farm::Kill {
        victim,
        query: how.query,
        soft: how.soft,
        only,
        spares_system: spares_system(core, user, variables, connections).await,
    };
    match kill_elsewhere(core, kill).await {
        Ok(Killed::Sessions(0)) => (none, 0),
        Ok(Killed::Sessions(ended)) => (Verdict::Sent, ended),
        Ok(Killed::Foreign(id)) => (Verdict::Foreign(id), 0),
        Err(why) => (Verdict::Unsure(why), 0),
    }
}

async fn spares_system(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
) -> bool {
    core.home_engine() == Engine::MySql
        && !rights::has_right(core, user, variables, connections, Right::System).await
}

async fn answer_kill(
    client: &mut impl ReplySink,
    variables: &SessionVariables,
    transaction: &Transaction,
    verdict: Verdict,
    id: u64,
    how: How,
) -> Result<(), End> {
    match verdict {
        Verdict::Sent => client.ok(session::status_now(variables, transaction)).await,
        Verdict::Own => kill_self(client, variables, how).await,
        Verdict::Refused(error) => client.error(&error, &[&id.to_string()]).await,
        Verdict::Foreign(id) => {
            let details = [&*id.to_string()];
            client.error(&error::NOT_YOUR_THREAD, &details).await
        }
        Verdict::Unsure(why) => client.error(&error::ROUTER_SILENT, &[&why]).await,
    }
}

fn send_kill(core: &Core, entry: &Entry, how: How) {
    let id = entry.id;
    core.dealer.send(entry.core, Message::Kill { id, how });
}

/// A session that ends itself, or the KILL that it runs.
async fn kill_self(
    client: &mut impl ReplySink,
    variables: &SessionVariables,
    how: How,
) -> Result<(), End> {
    let error = match (how.query, variables.mode.dialect) {
        (false, Dialect::MariaDb) => error::CONNECTION_KILLED,
        _ => error::QUERY_KILLED,
    };
    client.error(&error, &[]).await?;
    match how.query {
        true => Ok(()),
        false => Err(End::Killed),
    }
}

/// An id in digits; what is none is nobody's.
fn number(text: &[u8]) -> u64 {
    let text = str::from_utf8(text).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}
