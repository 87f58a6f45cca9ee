//! Every command of the table, in the forms of the three releases: what its parts make of one small farm, as it
//! goes over the wire. Answers of Heddle's own commands are made up here, and the door reads them as it reads real ones.

use std::sync::Arc;
use std::time::Instant;

use catalog::Table;
use farm::{Engine, Group, Server, Sharding, Snapshot, Status, samples};
use serde_json::json;

use crate::answer::{Answer, Done, Set};
use crate::arguments::Arguments;
use crate::client::{Form, Reader};
use crate::door::{done, projected};
use crate::lookup::View;
use crate::shape::Head;
use crate::statistics::Statistics;
use crate::table::{Command, Own, Param, TABLE, Work};
use crate::value::Value;
use crate::xml::response;

const UUID: &str = "5ca1ab1e-a007-feed-f00d-cab3fe13249e";

fn server(id: u32, group: &str, status: Status) -> Server {
    let mut server = samples::server(id, group, status);
    (server.engine, server.version) = (Engine::MySql, "8.0.45".into());
    server
}

fn group(name: &str, servers: Vec<Server>) -> Group {
    let mut group = samples::group(name, servers);
    group.description = format!("the group {name}");
    group
}

/// Two groups, of which g2 has a shard from 1 on, with the table d.t.
fn snapshot() -> Snapshot {
    let mut sharding = Sharding::new(1, vec![samples::range_map(1, &[("g2", 1)])]);
    sharding.declare("d", "t", samples::sharded("d", "t", "id", 1));
    let replicated = vec![
        server(2, "g2", Status::Primary),
        server(3, "g2", Status::Replica),
    ];
    let groups = vec![
        group("g1", vec![server(1, "g1", Status::Primary)]),
        group("g2", replicated),
    ];
    let mut snapshot = samples::snapshot(UUID, Instant::now(), groups);
    snapshot.sharding = Some(Arc::new(sharding));
    snapshot
}

/// What a client gives for an argument that it must give, and for some that it may.
fn sample(command: &Command, param: &Param) -> Option<Value> {
    Some(match (command.name, param.name) {
        ("lookup_servers", "key") => 7i64.into(),
        ("lookup_servers", "group_id") => "g2".into(),
        ("fabric_nodes", "protocol") => "protocol.xmlrpc".into(),
        (_, "table_name") => "d.t".into(),
        _ if param.default.is_some() => return None,
        (_, name) => name.into(),
    })
}

fn arguments(command: &Command) -> Arguments {
    let given = command.params.iter();
    let given = given
        .map_while(|param| sample(command, param))
        .collect::<Vec<_>>();
    Arguments::bind(command, &given).expect("the samples fit")
}

/// What Heddle's own command answers: cells that say which column they are, and one more column.
fn heddles(columns: &[&'static str]) -> Table {
    let mut table = Table::new(columns);
    table.columns.push("of_heddle_alone".into());
    let cells = table
        .columns
        .iter()
        .map(|name| json!(format!("the {name}")));
    table.rows = vec![cells.collect()];
    table
}

/// A procedure's end, at a moment that does not change.
fn ended(action: &'static str, result: serde_json::Value) -> Done {
    let mut table = Table::new(&["uuid", "finished", "success", "result"]);
    table.rows = vec![vec![json!("5ca1"), json!(true), json!(true), result]];
    Done {
        ended_s: 2.5,
        ..done(&table, action, 1.5)
    }
}

fn own(own: Own) -> Answer {
    let statistics = Statistics::default();
    statistics.called("group.promote", Some("g1"), true);
    statistics.called("group.promote", Some("g1"), false);
    let mut node = Set::new(&["node_id", "node_uptime", "node_startup"]);
    let cells = [UUID, "1 day, 2:03:04", "2026-01-01 00:00:00"];
    node.rows.push(cells.map(Value::from).to_vec());
    Answer::Sets(match own {
        Own::Ping => Vec::new(),
        Own::Node => vec![node],
        Own::Group => vec![statistics.groups(None)],
        Own::Procedure => vec![statistics.procedures(None)],
        Own::Wait => vec![ended("_create_group", json!(true)).outcome()],
        Own::Methods => {
            let methods = TABLE.iter().map(|command| command.method().into());
            return Answer::Plain(Value::Array(methods.collect()));
        }
    })
}

fn answer(command: &'static Command) -> Result<Answer, String> {
    let snapshot = snapshot();
    let nodes = [("protocol.xmlrpc", 32274), ("protocol.mysql", 32275)];
    let nodes = nodes.map(|(protocol, port)| control::Node {
        protocol: protocol.to_owned(),
        host: "10.0.0.9".to_owned(),
        port,
    });
    let view = View {
        snapshot: &snapshot,
        nodes: &nodes,
        router: None,
        reader: Reader::Other,
    };
    let args = arguments(command);
    Ok(match command.work {
        Work::LookUp(what) => Answer::Sets(vec![view.answer(what, &args)?]),
        Work::Rows(_, _, columns) => {
            let mut sets = vec![projected(&heddles(columns), columns)];
            if command.name == "health" {
                sets.push(Set::new(&["issue"]));
            }
            Answer::Sets(sets)
        }
        Work::Procedure(_, _, action) => {
            let result = match command.name {
                "create_definition" => json!(1),
                _ => json!(null),
            };
            Answer::Done(ended(action, result))
        }
        Work::Own(what) => own(what),
        Work::Nothing(columns) => Answer::Sets(vec![Set::new(columns)]),
        Work::Nobody(text) => return Err(text.to_owned()),
    })
}

fn signature(command: &Command) -> String {
    let param = |param: Param| match param.default {
        None => param.name.to_owned(),
        Some(default) => format!("{}={default}", param.name),
    };
    let params: Vec<String> = command.all_params().map(param).collect();
    format!("{}({})", command.method(), params.join(", "))
}

#[test]
fn every_command_has_its_three_forms() {
    let head = Head {
        uuid: UUID.to_owned(),
        ttl_s: 1,
    };
    let mut text = String::new();
    for command in TABLE {
        text.push_str(&format!("# {}\n", signature(command)));
        let answer = answer(command);
        for form in [Form::Packet, Form::Named, Form::Flat] {
            let answer = answer.as_ref().map_err(String::as_str);
            let xml = response(&head.shape(form, command, answer)).replace('\n', "");
            text.push_str(&format!("{form:?} {xml}\n"));
        }
    }
    is_as_written_down("commands.txt", &text);
}

/// Fails where the file in `testdata` has another text. `HEDDLE_WRITE_GOLDEN=1` writes it anew; read what has changed.
#[track_caller]
pub fn is_as_written_down(file: &str, text: &str) {
    let path = format!("{}/testdata/{file}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("HEDDLE_WRITE_GOLDEN").is_some() {
        std::fs::write(&path, text).expect("the file is written");
    }
    let golden = std::fs::read_to_string(&path).expect("the golden file is there");
    for (found, expected) in text.lines().zip(golden.lines()) {
        assert_eq!(found, expected);
    }
    assert_eq!(text, golden);
}
