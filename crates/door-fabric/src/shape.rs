//! An answer in the form that its client reads.

use crate::answer::{Answer, Done, Set};
use crate::client::Form;
use crate::table::{Command, LookUp, Work};
use crate::value::Value;

/// The version of a packet's format.
const PACKET: i64 = 1;

/// What every packet says of the farm.
#[derive(Clone, Debug)]
pub struct Head {
    /// A UUID: connectors refuse anything else.
    pub uuid: String,
    /// For so long a client may go by an answer.
    pub ttl_s: u32,
}

impl Head {
    /// What a call answers; an error is its text.
    pub fn shape(&self, form: Form, command: &Command, answer: Result<&Answer, &str>) -> Value {
        if let Ok(Answer::Plain(value)) = answer {
            return value.clone();
        }
        match form {
            Form::Packet => self.packet(answer),
            Form::Flat | Form::Named => self.flat(form, command, answer),
        }
    }

    fn packet(&self, answer: Result<&Answer, &str>) -> Value {
        let error = answer.err().unwrap_or_default();
        let sets = answer.map(sets).unwrap_or_default();
        Value::Array(vec![
            PACKET.into(),
            self.uuid.as_str().into(),
            self.ttl_s.into(),
            error.into(),
            Value::Array(sets.iter().map(coded).collect()),
        ])
    }

    fn flat(&self, form: Form, command: &Command, answer: Result<&Answer, &str>) -> Value {
        let set = match answer {
            Err(error) => return Value::Array(vec![false.into(), error.into(), true.into()]),
            Ok(Answer::Begun(uuid)) => return uuid.as_str().into(),
            Ok(Answer::Done(done)) => return steps(done),
            Ok(Answer::Plain(value)) => return value.clone(),
            Ok(Answer::Sets(sets)) => sets.first(),
        };
        let set = set.cloned().unwrap_or_default();
        if command.group == "dump" {
            let rows = Value::Array(set.rows.into_iter().map(Value::Array).collect());
            let none = || Value::Int(0);
            return Value::Array(vec![none(), none(), self.ttl_s.into(), rows]);
        }
        let rows = match (command.work, form) {
            (Work::LookUp(LookUp::GroupServers), Form::Named) => members(&set),
            (Work::LookUp(LookUp::GroupServers | LookUp::ShardServers), _) => servers(set, form),
            (Work::LookUp(LookUp::Groups), Form::Flat) => {
                let names = set
                    .rows
                    .into_iter()
                    .filter_map(|row| row.into_iter().next());
                names.map(|name| Value::Array(vec![name])).collect()
            }
            (Work::LookUp(LookUp::Groups), _) => members(&set),
            _ => set.rows.into_iter().map(Value::Array).collect(),
        };
        Value::Array(vec![true.into(), "".into(), Value::Array(rows)])
    }
}

/// The sets of an answer.
pub fn sets(answer: &Answer) -> Vec<Set> {
    match answer {
        Answer::Sets(sets) => sets.clone(),
        Answer::Done(done) => vec![done.outcome(), done.steps()],
        Answer::Begun(uuid) => vec![Set {
            names: vec!["uuid"],
            rows: vec![vec![uuid.as_str().into()]],
        }],
        Answer::Plain(value) => vec![Set {
            names: vec!["result"],
            rows: match value {
                Value::Array(values) => values.iter().map(|it| vec![it.clone()]).collect(),
                single => vec![vec![single.clone()]],
            },
        }],
    }
}

/// A set of a packet.
fn coded(set: &Set) -> Value {
    let names = set.names.iter().map(|name| Value::from(*name)).collect();
    let info = Value::Struct(vec![("names".to_owned(), Value::Array(names))]);
    let rows = set.rows.iter().cloned().map(Value::Array).collect();
    Value::Struct(vec![
        ("info".to_owned(), info),
        ("rows".to_owned(), Value::Array(rows)),
    ])
}

/// Rows as structs.
fn members(set: &Set) -> Vec<Value> {
    let names = || set.names.iter().map(|name| (*name).to_owned());
    let row = |row: &Vec<Value>| Value::Struct(names().zip(row.iter().cloned()).collect());
    set.rows.iter().map(row).collect()
}

/// UUID, address, whether it is the primary, and for 1.4.0 its status. A client that reads these sees
/// nothing else of a server, so it is shown only those that serve.
fn servers(set: Set, form: Form) -> Vec<Value> {
    let row = |row: Vec<Value>| {
        let [uuid, address, status, mode, _] = <[Value; 5]>::try_from(row).ok()?;
        let word = status.word()?;
        let is_offline = mode.word().is_some_and(|mode| mode == "OFFLINE");
        if is_offline || !matches!(word.as_str(), "PRIMARY" | "SECONDARY") {
            return None;
        }
        let mut cells = vec![uuid, address, Value::Bool(word == "PRIMARY")];
        if form == Form::Flat {
            cells.push(status);
        }
        Some(Value::Array(cells))
    };
    set.rows.into_iter().filter_map(row).collect()
}

/// A procedure of 1.4: its id, its steps, its result.
fn steps(done: &Done) -> Value {
    let steps = members(&done.steps());
    Value::Array(vec![
        done.uuid.as_str().into(),
        Value::Array(steps),
        done.result.clone(),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::every_command::is_as_written_down;
    use crate::table::find;
    use crate::xml::response;

    fn head() -> Head {
        Head {
            uuid: "5ca1ab1e-a007-feed-f00d-cab3fe13249e".to_owned(),
            ttl_s: 1,
        }
    }

    fn servers() -> Answer {
        let row = |uuid: &str, port: &str, status: &str, mode: &str| {
            let address = format!("127.0.0.1:{port}");
            vec![
                uuid.into(),
                address.into(),
                status.into(),
                mode.into(),
                1.0.into(),
            ]
        };
        let mut set = Set::new(&["server_uuid", "address", "status", "mode", "weight"]);
        set.rows.push(row("f159", "3309", "PRIMARY", "READ_WRITE"));
        set.rows.push(row("28ac", "3308", "SECONDARY", "READ_ONLY"));
        set.rows.push(row("dead", "3307", "FAULTY", "READ_ONLY"));
        set.rows.push(row("rest", "3306", "SECONDARY", "OFFLINE"));
        Answer::Sets(vec![set])
    }

    fn xml(form: Form, method: &str, answer: Result<&Answer, &str>) -> String {
        let command = find(method).expect(method);
        let text = response(&head().shape(form, command, answer));
        text.replace('\n', "")
    }

    /// The three forms of each kind of answer, as they go over the wire.
    #[test]
    fn answers_are_those_of_the_golden_file() {
        let done = Answer::Done(Done {
            uuid: "5ca1".to_owned(),
            finished: true,
            result: 1i64.into(),
            action: "_define_shard_mapping",
            began_s: 1.5,
            ended_s: 2.5,
        });
        let mut maps = Set::new(&["mapping_id", "type_name", "global_group_id"]);
        maps.rows
            .push(vec![1i64.into(), "RANGE".into(), "global".into()]);
        let maps = Answer::Sets(vec![maps]);
        let begun = Answer::Begun("5ca1".to_owned());
        let servers = servers();
        let all: [(&str, Result<&Answer, &str>); 6] = [
            ("group.lookup_servers", Ok(&servers)),
            ("sharding.lookup_servers", Ok(&servers)),
            ("dump.shard_maps", Ok(&maps)),
            ("sharding.create_definition", Ok(&done)),
            ("group.promote", Ok(&begun)),
            (
                "group.lookup_servers",
                Err("GroupError: Group (x) does not exist."),
            ),
        ];
        let mut text = String::new();
        for (method, answer) in all {
            for form in [Form::Packet, Form::Named, Form::Flat] {
                let answer = xml(form, method, answer);
                text.push_str(&format!("# {method} {form:?}\n{answer}\n"));
            }
        }
        is_as_written_down("forms.txt", &text);
    }
}
