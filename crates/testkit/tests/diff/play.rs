//! Plays a scenario against one address and writes down every reply.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;
use testkit::Client;
use testkit::client::Login;

use crate::scenario::{Act, Scenario, Step, holds};
use crate::transcript::{Form, Kind, Transcript, read};
use crate::values::Param;

/// What a client asks for, and how it sends texts.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    pub name: &'static str,
    pub with: Capabilities,
    pub without: Capabilities,
    pub collation: u8,
    /// Texts go as COM_STMT_PREPARE, COM_STMT_EXECUTE and COM_STMT_CLOSE.
    pub prepares: bool,
}

/// ER_CON_COUNT_ERROR, which the door says when no connection of a pool came free in time.
pub const POOL_WAIT: u16 = 1040;

/// How often a step is tried for which there was no connection. Nothing has run then.
const POOL_TRIES: usize = 2000;

/// One run of a scenario: per step its replies, or `None` when the step is not for this engine.
pub type Record = Vec<Option<Vec<Transcript>>>;

/// Plays all steps. `between` is called before each.
pub fn play(
    scenario: &Scenario,
    address: SocketAddr,
    label: &str,
    way: &Way,
    between: &mut dyn FnMut(&Step),
) -> Record {
    let mut player = Player {
        address,
        way,
        database: database(scenario),
        seats: BTreeMap::new(),
    };
    let mut record = Record::new();
    for step in &scenario.steps {
        if !holds(&step.on, label) {
            record.push(None);
            continue;
        }
        between(step);
        record.push(Some(player.step(step)));
    }
    for (_, seat) in player.seats {
        seat.client.quit();
    }
    record
}

/// The database that a scenario runs in.
pub fn database(scenario: &Scenario) -> String {
    format!("diff_{}", scenario.name)
}

/// One session: its connection and its prepared statements by name.
struct Seat {
    client: Client,
    statements: BTreeMap<String, u32>,
}

struct Player<'a> {
    address: SocketAddr,
    way: &'a Way,
    database: String,
    seats: BTreeMap<String, Seat>,
}

impl Player<'_> {
    fn step(&mut self, step: &Step) -> Vec<Transcript> {
        let broken = |why: String| Transcript {
            packets: Vec::new(),
            broken: Some(why),
        };
        if let Act::Quit = step.act {
            if let Some(seat) = self.seats.remove(&step.session) {
                seat.client.quit();
            }
            return Vec::new();
        }
        let mut seat = match self.seats.remove(&step.session) {
            Some(seat) => seat,
            None => match self.log_in() {
                Ok(seat) => seat,
                Err(why) => return vec![broken(why)],
            },
        };
        let replies = self.act(&mut seat, step);
        let ended = replies.iter().any(|reply| reply.broken.is_some());
        if !ended {
            self.seats.insert(step.session.clone(), seat);
        }
        replies
    }

    fn log_in(&self) -> Result<Seat, String> {
        let login = Login {
            database: Some(&self.database),
            capabilities: (Login::default().capabilities | self.way.with) - self.way.without,
            collation: self.way.collation.into(),
            ..Login::default()
        };
        let client = Client::login(self.address, &login).map_err(|error| error.to_string())?;
        let statements = BTreeMap::new();
        Ok(Seat { client, statements })
    }

    fn act(&self, seat: &mut Seat, step: &Step) -> Vec<Transcript> {
        let mut exchange = |command, body: &[u8], form| {
            exchange(&mut seat.client, command, body, form, &step.local_file)
        };
        let id_of = |name: &str| seat.statements.get(name).copied().unwrap_or(u32::MAX / 2);
        match &step.act {
            Act::Query(text) if self.way.prepares && !step.text_only => {
                let prepared = exchange(Command::StmtPrepare, text, Form::Prepare);
                let Some(id) = prepared.statement_id() else {
                    return vec![prepared];
                };
                let body = execute_body(id, &[], false, true);
                let executed = exchange(Command::StmtExecute, &body, Form::Results);
                forget(&mut seat.client, id);
                vec![prepared, executed]
            }
            Act::Query(text) => vec![exchange(Command::Query, text, Form::Results)],
            Act::Prepare(name, text) => {
                let prepared = exchange(Command::StmtPrepare, text, Form::Prepare);
                match prepared.statement_id() {
                    Some(id) => seat.statements.insert(name.clone(), id),
                    None => seat.statements.remove(name),
                };
                vec![prepared]
            }
            Act::Execute {
                name,
                params,
                cursor,
                typed,
            } => {
                let body = execute_body(id_of(name), params, *cursor, *typed);
                let form = if *cursor { Form::Cursor } else { Form::Results };
                vec![exchange(Command::StmtExecute, &body, form)]
            }
            Act::Fetch(name, rows) => {
                let body = [id_of(name).to_le_bytes(), rows.to_le_bytes()].concat();
                vec![exchange(Command::StmtFetch, &body, Form::Rows)]
            }
            Act::LongData(name, param, data) => {
                let sent = seat.client.send_long_data(id_of(name), *param, data);
                sent.expect("sent");
                Vec::new()
            }
            Act::ResetStatement(name) => {
                let body = id_of(name).to_le_bytes();
                vec![exchange(Command::StmtReset, &body, Form::Single)]
            }
            Act::CloseStatement(name) => {
                forget(&mut seat.client, id_of(name));
                Vec::new()
            }
            Act::Single(command, body) => vec![exchange(*command, body, Form::Single)],
            Act::FieldList(body) => vec![exchange(Command::FieldList, body, Form::Columns)],
            Act::ChangeUser(database) => vec![self.change_user(seat, database.as_deref())],
            Act::Quit => Vec::new(),
        }
    }

    /// The questions of the authentication differ between connections; only the outcome is noted.
    fn change_user(&self, seat: &mut Seat, database: Option<&str>) -> Transcript {
        let login = Login {
            database,
            collation: self.way.collation.into(),
            ..Login::default()
        };
        seat.statements.clear();
        let changed = seat.client.change_user(&login);
        let said = match changed {
            Ok(done) => format!("{:?} {}", done.status, done.session_state.escape_ascii()),
            Err(failure) => failure.to_string(),
        };
        Transcript {
            packets: vec![(Kind::Other, said.into_bytes())],
            broken: None,
        }
    }
}

/// Sends a command and reads its reply, again while the door has no connection for it.
fn exchange(
    client: &mut Client,
    command: Command,
    body: &[u8],
    form: Form,
    local_file: &[u8],
) -> Transcript {
    let mut reply = Transcript::default();
    for _ in 0..POOL_TRIES {
        if let Err(error) = client.send_command(command, body) {
            reply.broken = Some(error.to_string());
            return reply;
        }
        reply = read(client, form, local_file);
        let [low, high] = POOL_WAIT.to_le_bytes();
        let waited = matches!(&reply.packets[..], [(Kind::Err, packet)] if packet.starts_with(&[0xFF, low, high]));
        if !waited {
            break;
        }
    }
    reply
}

/// COM_STMT_CLOSE, which has no answer.
fn forget(client: &mut Client, id: u32) {
    let sent = client.send_command(Command::StmtClose, &id.to_le_bytes());
    sent.expect("sent");
}

fn execute_body(id: u32, params: &[Param], cursor: bool, typed: bool) -> Vec<u8> {
    let mut body = id.to_le_bytes().to_vec();
    body.push(u8::from(cursor));
    body.extend_from_slice(&[1, 0, 0, 0]);
    if params.is_empty() {
        return body;
    }
    let mut nulls = vec![0u8; params.len().div_ceil(8)];
    for (at, param) in params.iter().enumerate() {
        let null = param.bytes.is_none() && !param.long;
        nulls[at / 8] |= u8::from(null) << (at % 8);
    }
    body.extend(nulls);
    body.push(u8::from(typed));
    if typed {
        for param in params {
            body.extend_from_slice(&param.kind.to_le_bytes());
        }
    }
    for param in params {
        body.extend_from_slice(param.bytes.as_deref().unwrap_or_default());
    }
    body
}
