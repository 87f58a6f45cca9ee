//! Carrying calls out, whatever protocol they came by.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use catalog::{Call, CommandError, Table};
use control::{Commander, Node};
use farm::{Access, Published};
use serde_json::Value as Json;
use uuid::Builder;

use crate::answer::{Answer, Done, Failure, Set};
use crate::arguments::{Arguments, Misfit};
use crate::client::{Reader, Replies};
use crate::lookup::View;
use crate::procedures::Procedures;
use crate::shape::Head;
use crate::statistics::{Counts, Statistics};
use crate::table::{Command, Own, TABLE, Work, find};
use crate::value::Value;

/// What the door is told at its start.
#[derive(Clone)]
pub struct Options {
    /// Who must log in, with which password; without one, everybody may what `open` says.
    pub user: Option<(String, String)>,
    pub open: Access,
    /// For so long a client may go by an answer.
    pub ttl_s: u32,
    pub replies: Replies,
    /// What clients are told to connect to in place of the servers: a router's host and port.
    pub router: Option<(String, u16)>,
    /// Where the doors of this farm are.
    pub nodes: Vec<Node>,
}

/// Who asks.
#[derive(Clone, Debug)]
pub struct Caller {
    pub access: Access,
    pub reader: Reader,
    /// For the history.
    pub by: String,
}

/// The door, without a protocol.
pub struct Door {
    pub(crate) options: Options,
    published: Arc<Published>,
    commander: Commander,
    pub(crate) counts: Arc<dyn Counts>,
    statistics: Statistics,
    procedures: Procedures,
    started: Instant,
    started_s: f64,
}

impl Door {
    /// A door to the farm that is published here.
    pub fn new(
        options: Options,
        published: Arc<Published>,
        commander: Commander,
        counts: Arc<dyn Counts>,
    ) -> Door {
        Door {
            options,
            published,
            commander,
            counts,
            statistics: Statistics::default(),
            procedures: Procedures::default(),
            started: Instant::now(),
            started_s: now_s(),
        }
    }

    /// What every packet says of the farm.
    pub fn head(&self) -> Head {
        let farm = self.published.load();
        let is_uuid = uuid::Uuid::try_parse(&farm.farm_id).is_ok();
        Head {
            // A farm whose id is none has Fabric's.
            uuid: match is_uuid {
                true => farm.farm_id.to_string(),
                false => "5ca1ab1e-a007-feed-f00d-cab3fe13249e".to_owned(),
            },
            ttl_s: self.options.ttl_s,
        }
    }

    /// Milliseconds since the door's start.
    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Carries a command out. A procedure that has begun goes on when this future is dropped.
    ///
    /// # Errors
    /// The parameters do not fit, the caller may not, or it failed.
    pub async fn call(
        self: &Arc<Door>,
        command: &'static Command,
        params: &[Value],
        caller: &Caller,
    ) -> Result<Answer, Failure> {
        let method = command.method();
        let bound = Arguments::bind(command, params);
        let group = bound.as_ref().ok().and_then(|args| args.get("group_id"));
        let group = group.map(str::to_owned);
        let answer = match bound {
            _ if caller.access < command.access() => Err(denied(command)),
            Err(Misfit::Signature(text)) => Err(Failure::Signature(text)),
            Err(Misfit::Kind(text)) => Err(Failure::Failed(format!("ValueError: {text}"))),
            Ok(args) => self.work(command, &args, caller).await,
        };
        let known = group.filter(|name| self.published.load().group(name).is_some());
        self.statistics
            .called(&method, known.as_deref(), answer.is_ok());
        answer
    }

    async fn work(
        self: &Arc<Door>,
        command: &'static Command,
        args: &Arguments,
        caller: &Caller,
    ) -> Result<Answer, Failure> {
        match command.work {
            Work::LookUp(what) => {
                let snapshot = self.published.load();
                let router = self.options.router.as_ref();
                let view = View {
                    snapshot: &snapshot,
                    nodes: &self.options.nodes,
                    router: router.map(|(host, port)| (host.as_str(), *port)),
                    reader: caller.reader,
                };
                let set = view.answer(what, args).map_err(Failure::Failed)?;
                Ok(Answer::Sets(vec![set]))
            }
            Work::Rows(_, _, columns) => {
                let call = heddles(command, args, caller).map_err(Failure::Failed)?;
                let table = self.commander.execute(call).await;
                let table = table.map_err(|error| self.failed(command, args, error))?;
                let mut sets = vec![projected(&table, columns)];
                if command.name == "health" {
                    sets.push(Set::new(&["issue"]));
                }
                Ok(Answer::Sets(sets))
            }
            Work::Procedure(_, _, action) => self.procedure(command, args, caller, action).await,
            Work::Own(own) => self.own(own, args).await,
            Work::Nothing(columns) => Ok(Answer::Sets(vec![Set::new(columns)])),
            Work::Nobody(text) => Err(Failure::Failed(text.to_owned())),
        }
    }

    async fn own(&self, own: Own, args: &Arguments) -> Result<Answer, Failure> {
        let sets = match own {
            Own::Ping => Vec::new(),
            Own::Node => vec![self.node()],
            Own::Group => vec![self.statistics.groups(args.get("group_id"))],
            Own::Procedure => vec![self.statistics.procedures(args.get("procedure_name"))],
            Own::Methods => {
                let methods = TABLE.iter().map(|command| command.method().into());
                return Ok(Answer::Plain(Value::Array(methods.collect())));
            }
            Own::Wait => {
                let mut outcomes = Set::new(&["uuid", "finished", "success", "result"]);
                for uuid in args.text("proc_uuids").split(',').map(str::trim) {
                    let unknown = || format!("ProcedureError: Procedure ({uuid}) was not found.");
                    let ended = self
                        .procedures
                        .ended(uuid)
                        .await
                        .unwrap_or_else(|| Err(unknown()));
                    outcomes
                        .rows
                        .extend(ended.map_err(Failure::Failed)?.outcome().rows);
                }
                vec![outcomes]
            }
        };
        Ok(Answer::Sets(sets))
    }

    /// This router: its id, for how long it runs, and since when.
    fn node(&self) -> Set {
        let mut set = Set::new(&["node_id", "node_uptime", "node_startup"]);
        let uptime = self.started.elapsed().as_secs();
        let startup =
            time::OffsetDateTime::UNIX_EPOCH + time::Duration::seconds_f64(self.started_s);
        let (days, rest) = (uptime / 86_400, uptime % 86_400);
        let days = match days {
            0 => String::new(),
            1 => "1 day, ".to_owned(),
            days => format!("{days} days, "),
        };
        let clock = format!(
            "{days}{}:{:02}:{:02}",
            rest / 3600,
            rest / 60 % 60,
            rest % 60
        );
        let (date, hour) = (startup.date(), startup.time().hour());
        let minute = startup.time().minute();
        let second = startup.time().second();
        let startup = format!("{date} {hour:02}:{minute:02}:{second:02}");
        set.rows
            .push(vec![self.head().uuid.into(), clock.into(), startup.into()]);
        set
    }

    async fn procedure(
        self: &Arc<Door>,
        command: &'static Command,
        args: &Arguments,
        caller: &Caller,
        action: &'static str,
    ) -> Result<Answer, Failure> {
        let mut call = heddles(command, args, caller).map_err(Failure::Failed)?;
        if self.options.router.is_some() && command.method() == "threat.report_failure" {
            // What failed this client was the router that it was told in place of all servers: the server is
            // looked at, and is not condemned.
            call.command = "report_error".to_owned();
        }
        let door = Arc::clone(self);
        let (at, given) = (now_s(), args.clone());
        // What Fabric refuses and Heddle takes for done.
        if command.method() == "group.create"
            && let Some(group) = self.published.load().group(args.text("group_id"))
        {
            let text = format!("GroupError: Group ({}) already exists.", group.name);
            return Err(Failure::Failed(text));
        }
        let run = async move {
            let table = door.commander.execute(call).await;
            let table = table.map_err(|error| door.failed(command, &given, error))?;
            Ok::<_, Failure>(done(&table, action, at))
        };
        if args.switch("synchronous") {
            return run.await.map(Answer::Done);
        }
        let uuid = new_uuid().map_err(Failure::Failed)?;
        let tell = self.procedures.begin(&uuid);
        let own = uuid.clone();
        tokio::spawn(async move {
            let outcome = run.await.map(|done| Done { uuid: own, ..done });
            // Nobody may be left to ask.
            let _ = tell.send(Some(outcome.map_err(|failure| failure.to_string())));
        });
        Ok(Answer::Begun(uuid))
    }

    /// Fabric's texts where it had them; Heddle's else, which hold their cure.
    fn failed(&self, command: &Command, args: &Arguments, error: CommandError) -> Failure {
        let snapshot = self.published.load();
        if let CommandError::Denied(text) = error {
            return Failure::Denied(text);
        }
        let missing_group = args.get("group_id");
        let missing_group = missing_group.filter(|name| snapshot.group(name).is_none());
        // These make the group.
        let makes = matches!(command.name, "create" | "import_topology");
        if let Some(name) = missing_group.filter(|_| !makes) {
            return Failure::Failed(format!("GroupError: Group ({name}) does not exist."));
        }
        let is = |server: &farm::Server, id: &str| {
            *server.uuid == *id || *server.name == *id || server.address() == id
        };
        let mut servers = snapshot.groups.iter().flat_map(|group| &group.servers);
        if let Some(id) = args.get("server_id")
            && !servers.any(|server| is(server, id))
        {
            return Failure::Failed(format!("ServerError: Server ({id}) does not exist."));
        }
        let kind = match command.group {
            "group" => "GroupError",
            "server" | "threat" => "ServerError",
            "sharding" => "ShardingError",
            _ => "Error",
        };
        Failure::Failed(format!("{kind}: {error}"))
    }
}

fn denied(command: &Command) -> Failure {
    let needed = command.access();
    Failure::Denied(format!(
        "{} needs the {} right; log in as fabric_user, or have fabric_open say so in the router's settings",
        command.method(),
        needed.name()
    ))
}

/// Heddle's command for a call; why there is none.
fn heddles(command: &Command, args: &Arguments, caller: &Caller) -> Result<Call, String> {
    let method = command.method();
    let spec = command
        .spec()
        .ok_or_else(|| format!("Error: {method} is not carried out here"))?;
    let mut call = Call::new(spec.group, spec.command, &[]);
    for param in command.all_params() {
        let Some(value) = args.get(param.name) else {
            continue;
        };
        let known = spec.args.iter().any(|arg| arg.name == param.heddles);
        if known {
            call.options
                .insert(param.heddles.to_owned(), value.to_owned());
        } else if param.name != "synchronous" && param.name != "timeout" && args.switch(param.name)
        {
            return Err(format!(
                "Error: {method} has no {} in Heddle; leave it out or give its default",
                param.name
            ));
        }
    }
    Ok(call.by(&caller.by).with(caller.access))
}

/// What a procedure's table says.
pub(crate) fn done(table: &Table, action: &'static str, began_s: f64) -> Done {
    let cell = |name: &str| {
        let at = table.columns.iter().position(|column| *column == name)?;
        table.rows.first()?.get(at)
    };
    let uuid = cell("uuid").and_then(Json::as_str).unwrap_or_default();
    Done {
        uuid: uuid.to_owned(),
        finished: cell("finished").and_then(Json::as_bool).unwrap_or(true),
        result: match cell("result") {
            None | Some(Json::Null) => Value::Bool(true),
            Some(result) => value(result),
        },
        action,
        began_s,
        ended_s: now_s(),
    }
}

/// Some columns of a table.
pub(crate) fn projected(table: &Table, columns: &[&'static str]) -> Set {
    let at = |name: &&str| table.columns.iter().position(|column| column == name);
    let places: Vec<Option<usize>> = columns.iter().map(at).collect();
    let row = |row: &Vec<Json>| {
        let cell =
            |place: &Option<usize>| place.and_then(|at| row.get(at)).map_or(Value::Nil, value);
        places.iter().map(cell).collect()
    };
    Set {
        names: columns.to_vec(),
        rows: table.rows.iter().map(row).collect(),
    }
}

/// A cell of Heddle's; what it does not have is empty, as in Fabric.
fn value(json: &Json) -> Value {
    match json {
        Json::Null => "".into(),
        Json::Bool(truth) => (*truth).into(),
        Json::Number(number) => match number.as_i64() {
            Some(number) => number.into(),
            None => Value::Double(number.as_f64().unwrap_or_default()),
        },
        Json::String(text) => text.as_str().into(),
        other => other.to_string().into(),
    }
}

/// Seconds since 1970.
fn now_s() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

/// A random UUID (version 4).
fn new_uuid() -> Result<String, String> {
    let bytes = random().map_err(|error| format!("Error: cannot read /dev/urandom: {error}"))?;
    Ok(Builder::from_random_bytes(bytes).into_uuid().to_string())
}

/// Sixteen random bytes.
pub(crate) fn random() -> std::io::Result<[u8; 16]> {
    use std::io::Read;

    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The command of this name.
///
/// # Errors
/// There is none.
pub(crate) fn command(method: &str) -> Result<&'static Command, Failure> {
    find(method).ok_or_else(|| Failure::Unknown(method.to_owned()))
}
