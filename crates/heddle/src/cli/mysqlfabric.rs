//! The command line of MySQL Fabric: its words are taken, its tables printed. It asks the router's Fabric
//! door as every other client of Fabric does.
//!
//! `heddle fabric GROUP COMMAND …`, or the program under the name `mysqlfabric`.

use std::io::ErrorKind;
use std::time::Duration;

use door_fabric::{Command, Param, TABLE, Value, digest, xml};
use door_http::client::Place;

use crate::failure::Failure;
use crate::printing;
use crate::router::runtime;

/// A command may clone or catch up a server, which takes its time.
const PATIENCE: Duration = Duration::from_secs(600);

/// Where the path of the door is.
const PATH: &str = "/RPC2";

/// Where Fabric's own command line read its settings.
const CONFIG: &str = "/etc/mysql/fabric.cnf";

const HELP: &str = "\
heddle fabric [--config FILE] [--param protocol.xmlrpc.NAME=VALUE] GROUP COMMAND [ARGUMENT …] [--NAME=VALUE …]
heddle fabric list-commands
heddle fabric help GROUP [COMMAND]

Takes the words of mysqlfabric. The router's Fabric door is asked: the address in protocol.xmlrpc.address of
--config or --param, else $HEDDLE_FABRIC, else 127.0.0.1:32274. user and password stand in the same places,
else in $HEDDLE_FABRIC_USER and $HEDDLE_FABRIC_PASSWORD.
";

/// How the door is asked.
struct Asking {
    address: String,
    user: String,
    password: String,
}

/// Carries the words out.
///
/// # Errors
/// Exit 2 for words that are wrong in themselves, 1 for what the router refused.
pub fn run(words: &[String]) -> Result<(), Failure> {
    let mut asking = Asking::of_environment();
    let words = asking.take_options(words)?;
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] | ["help" | "--help" | "-h"] => printing::put(HELP),
        ["list-commands"] | ["help", "commands"] => printing::put(&listed()),
        ["help", "groups"] => printing::put(&groups()),
        ["help", group] | [group, "--help"] => printing::put(&of_group(group)?),
        ["help", group, name] | [group, name, "--help"] => {
            printing::put(&format!("{}\n", usage(find(group, name)?)));
        }
        ["manage", "start" | "setup" | "teardown", ..] => {
            return Err(Failure::new(
                "a router is started by `heddle up` or `heddle serve`, and keeps its state by itself",
            ));
        }
        ["user" | "role", ..] => {
            return Err(Failure::new(
                "there is one user: set fabric_user and fabric_password in the router's settings",
            ));
        }
        [group, name, rest @ ..] => {
            let command = find(group, name)?;
            let params = params(command, rest)?;
            printing::put(&shown(&asking.ask(command, &params)?)?);
        }
        [word] => {
            return Err(Failure::usage(format!(
                "{word:?} is no command of Fabric; `heddle fabric list-commands` lists them"
            )));
        }
    }
    Ok(())
}

fn find(group: &str, name: &str) -> Result<&'static Command, Failure> {
    let mut all = TABLE.iter();
    let found = all.find(|command| (command.group, command.name) == (group, name));
    found.ok_or_else(|| {
        Failure::usage(format!(
            "Command ({group} {name}) was not found; `heddle fabric list-commands` lists them"
        ))
    })
}

fn listed() -> String {
    let lines = TABLE.iter().filter(|command| command.group != "system");
    lines.map(|command| usage(command) + "\n").collect()
}

/// The first words, a line for each.
fn groups() -> String {
    let mut groups: Vec<&str> = TABLE.iter().map(|command| command.group).collect();
    groups.dedup();
    groups.retain(|group| *group != "system");
    groups.join("\n") + "\n"
}

/// The commands of one group.
fn of_group(group: &str) -> Result<String, Failure> {
    let lines = TABLE.iter().filter(|command| command.group == group);
    let lines: String = lines.map(|command| usage(command) + "\n").collect();
    match lines.is_empty() {
        false => Ok(lines),
        true => Err(Failure::usage(format!(
            "Group ({group}) was not found; `heddle fabric help groups` lists them"
        ))),
    }
}

fn usage(command: &Command) -> String {
    let mut usage = format!("{} {}", command.group, command.name);
    for param in command.all_params() {
        usage.push_str(&match param.default {
            None => format!(" {}", param.name),
            Some(_) => format!(" [--{}=VALUE]", param.name),
        });
    }
    usage
}

/// The parameters: those without a name in order, then the others as a struct.
fn params(command: &Command, words: &[&str]) -> Result<Vec<Value>, Failure> {
    let known: Vec<Param> = command.all_params().collect();
    let (mut params, mut named) = (Vec::new(), Vec::new());
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let Some(option) = word.strip_prefix("--") else {
            params.push(Value::from(*word));
            continue;
        };
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (option, None),
        };
        let Some(param) = known.iter().find(|param| param.name == name) else {
            return Err(Failure::usage(format!(
                "no such option: --{name}; {}",
                usage(command)
            )));
        };
        let is_switch = matches!(param.default, Some("true" | "false"));
        let value = match value {
            Some(value) => value,
            None if is_switch => "true",
            None => words.next().copied().unwrap_or_default(),
        };
        named.push((name.to_owned(), Value::from(value)));
    }
    if !named.is_empty() {
        params.push(Value::Struct(named));
    }
    Ok(params)
}

impl Asking {
    fn of_environment() -> Asking {
        let of = |name: &str| std::env::var(name).unwrap_or_default();
        let mut asking = Asking {
            address: of("HEDDLE_FABRIC"),
            user: of("HEDDLE_FABRIC_USER"),
            password: of("HEDDLE_FABRIC_PASSWORD"),
        };
        if asking.address.is_empty() {
            asking.address = "127.0.0.1:32274".to_owned();
        }
        // Who moves from Fabric has its file.
        if let Ok(text) = std::fs::read_to_string(CONFIG) {
            asking.take_file(&text);
        }
        asking
    }

    /// Takes what stands in front of the command; gives the rest.
    fn take_options(&mut self, words: &[String]) -> Result<Vec<String>, Failure> {
        let mut rest = words.iter();
        while let Some(word) = rest.clone().next() {
            let option = word.strip_prefix("--");
            let (name, value) = match option.and_then(|option| option.split_once('=')) {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (option.unwrap_or_default(), None),
            };
            if !matches!(name, "config" | "param") {
                break;
            }
            rest.next();
            let value = value.or_else(|| rest.next().cloned()).unwrap_or_default();
            match name {
                "config" => {
                    let text = std::fs::read_to_string(&value)
                        .map_err(|error| Failure::new(format!("cannot read {value}: {error}")))?;
                    self.take_file(&text);
                }
                _ => {
                    let (name, value) = value.split_once('=').unwrap_or((&value, ""));
                    self.set(name, value);
                }
            }
        }
        Ok(rest.cloned().collect())
    }

    /// Fabric's configuration: `name = value` under `[section]`.
    fn take_file(&mut self, text: &str) {
        let mut section = String::new();
        for line in text.lines().map(str::trim) {
            if let Some(name) = line.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
                section = name.to_owned();
            } else if let Some((name, value)) = line.split_once('=') {
                self.set(&format!("{section}.{}", name.trim()), value.trim());
            }
        }
    }

    fn set(&mut self, name: &str, value: &str) {
        let place = match name {
            "protocol.xmlrpc.address" => &mut self.address,
            "protocol.xmlrpc.user" => &mut self.user,
            "protocol.xmlrpc.password" => &mut self.password,
            _ => return,
        };
        *place = value.to_owned();
    }

    /// The value that the router answers.
    fn ask(&self, command: &Command, params: &[Value]) -> Result<Value, Failure> {
        let body = xml::call(&command.method(), params).into_bytes();
        let place = Place::of(&self.address);
        let asked = async {
            let post = |headers: Vec<(&'static str, String)>| {
                let (place, body) = (place.clone(), body.clone());
                async move { place.post_as("text/xml", PATH, &headers, body, None).await }
            };
            let (head, answer) = post(Vec::new()).await?;
            let challenge = head.headers.get("www-authenticate");
            let challenge = challenge.and_then(|it| it.to_str().ok());
            let proof = challenge
                .filter(|_| !self.user.is_empty())
                .and_then(|it| digest::answer(it, &self.user, &self.password, PATH, "heddle"));
            match proof {
                Some(proof) => post(vec![("authorization", proof)]).await,
                None => Ok((head, answer)),
            }
        };
        let asked = async {
            let answer = tokio::time::timeout(PATIENCE, asked).await;
            answer.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
        };
        let (head, answer) = runtime()?.block_on(asked).map_err(|error| {
            Failure::new(format!(
                "no Fabric door at {}: {error}; start a router (heddle up), or name another \
                 (HEDDLE_FABRIC, --param protocol.xmlrpc.address=HOST:PORT)",
                self.address
            ))
        })?;
        match head.status.as_u16() {
            200 => {}
            400 | 401 => {
                return Err(Failure::new(
                    "Permission denied: wrong user or password; set HEDDLE_FABRIC_USER and \
                     HEDDLE_FABRIC_PASSWORD, or user and password of [protocol.xmlrpc] in --config FILE",
                ));
            }
            status => {
                let said = xml::read_answer(&answer).ok().and_then(Result::err);
                let said = said.unwrap_or_else(|| String::from_utf8_lossy(&answer).into_owned());
                return Err(Failure::new(format!(
                    "{} answered {status}: {said}",
                    self.address
                )));
            }
        }
        let answer = xml::read_answer(&answer).map_err(|error| Failure::new(error.to_string()))?;
        answer.map_err(Failure::usage)
    }
}

/// A packet as mysqlfabric prints it.
fn shown(packet: &Value) -> Result<String, Failure> {
    let Value::Array(parts) = packet else {
        return Ok(format!("{}\n", cell(packet)));
    };
    let [_, uuid, ttl, error, Value::Array(sets)] = parts.as_slice() else {
        return Ok(parts.iter().map(|part| cell(part) + "\n").collect());
    };
    let error = cell(error);
    if !error.is_empty() {
        return Err(Failure::new(error));
    }
    let mut text = format!(
        "Fabric UUID:  {}\nTime-To-Live: {}\n\n",
        cell(uuid),
        cell(ttl)
    );
    for set in sets {
        text.push_str(&table(set));
        text.push('\n');
    }
    if sets.is_empty() {
        text.push_str("Command executed.\n");
    }
    Ok(text)
}

/// One set: its names, a line under each, its rows; all to the right.
fn table(set: &Value) -> String {
    let Value::Struct(members) = set else {
        return String::new();
    };
    let member = |members: &[(String, Value)], name: &str| {
        let mut all = members.iter();
        all.find(|(known, _)| known == name)
            .map(|(_, value)| value.clone())
    };
    let names = match member(members, "info") {
        Some(Value::Struct(info)) => cells(member(&info, "names")),
        _ => Vec::new(),
    };
    let rows = match member(members, "rows") {
        Some(Value::Array(rows)) => rows.into_iter().map(|row| cells(Some(row))).collect(),
        _ => Vec::<Vec<String>>::new(),
    };
    let width = |at: usize| {
        let column = rows
            .iter()
            .filter_map(|row| row.get(at))
            .chain(names.get(at));
        column.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..names.len()).map(width).collect();
    let rule: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
    let mut text = String::new();
    for row in [&names, &rule].into_iter().chain(&rows) {
        let padded = row.iter().zip(&widths);
        let padded: Vec<_> = padded
            .map(|(cell, width)| format!("{cell:>width$}"))
            .collect();
        text.push_str(&padded.join(" "));
        text.push('\n');
    }
    text
}

fn cells(row: Option<Value>) -> Vec<String> {
    match row {
        Some(Value::Array(values)) => values.iter().map(cell).collect(),
        _ => Vec::new(),
    }
}

/// True and false are numbers in Fabric's tables.
fn cell(value: &Value) -> String {
    match value {
        Value::Bool(truth) => u8::from(*truth).to_string(),
        Value::Double(number) => format!("{number:?}"),
        other => other.word().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_parameters() {
        let command = find("group", "promote").expect("a command");
        let given = params(command, &["g1", "--slave_id=x", "--update_only"]).expect("right");
        let named = ["slave_id", "update_only"].map(str::to_owned);
        let named = named.into_iter().zip(["x".into(), "true".into()]).collect();
        assert_eq!(given, ["g1".into(), Value::Struct(named)]);
        assert!(params(command, &["g1", "--nothing"]).is_err());
        assert!(find("group", "nothing").is_err());
        assert_eq!(
            usage(command),
            "group promote group_id [--slave_id=VALUE] [--update_only=VALUE] [--synchronous=VALUE]"
        );
    }

    #[test]
    fn help_names_groups_and_their_commands() {
        assert!(groups().starts_with("dump\nevent\ngroup\n"));
        let threats = of_group("threat").expect("a group");
        assert_eq!(threats.lines().count(), 2);
        assert!(threats.starts_with("threat report_error server_id"));
        assert!(of_group("nothing").is_err());
    }

    #[test]
    fn settings_come_from_fabrics_own_file() {
        let mut asking = Asking {
            address: String::new(),
            user: String::new(),
            password: String::new(),
        };
        let file =
            "[DEFAULT]\nprefix =\n[protocol.xmlrpc]\naddress = h:1\nuser = admin\npassword = x=y\n";
        asking.take_file(file);
        let words =
            ["--param", "protocol.xmlrpc.address=h:2", "group", "health"].map(str::to_owned);
        let rest = asking.take_options(&words).expect("right");
        assert_eq!(rest, ["group", "health"]);
        assert_eq!(
            (asking.address.as_str(), asking.password.as_str()),
            ("h:2", "x=y")
        );
    }

    #[test]
    fn packets_are_printed_as_tables() {
        let set = |names: &[&str], rows: Vec<Vec<Value>>| {
            let names = Value::Array(names.iter().map(|&name| name.into()).collect());
            let info = Value::Struct(vec![("names".to_owned(), names)]);
            let rows = Value::Array(rows.into_iter().map(Value::Array).collect());
            Value::Struct(vec![("info".to_owned(), info), ("rows".to_owned(), rows)])
        };
        let rows = vec![vec!["u".into(), true.into()]];
        let sets = Value::Array(vec![set(&["uuid", "finished"], rows)]);
        let packet = |error: &str| {
            Value::Array(vec![
                1i64.into(),
                "5ca1".into(),
                1i64.into(),
                error.into(),
                sets.clone(),
            ])
        };
        let expected = "Fabric UUID:  5ca1\nTime-To-Live: 1\n\nuuid finished\n---- --------\n   u        1\n\n";
        assert_eq!(shown(&packet("")), Ok(expected.to_owned()));
        let failed = shown(&packet("GroupError: no")).expect_err("an error");
        assert_eq!((failed.text.as_str(), failed.code), ("GroupError: no", 1));
    }
}
