//! Gaps that the farm made itself: of a group whose servers were all filled anew without binary logs, nobody has what
//! happened before. A consumer that lacks it is told of the gap and goes no further; anything else that is called a gap is wrong.

use serde_json::Value;

use farm::Position;

use crate::client::{Client, Reply};
use crate::farm::Member;

use super::Proof;
use super::consumer::Consumer;

/// What `clone_done` says where the logs went along with the files.
const WITH_LOGS: &str = "with its binary logs";

/// Looks whether what a consumer was told to be missing is there. Asked while the farm is whole. True when it is missing.
pub(super) fn is_honest(proof: &Proof, consumer: &Consumer) -> bool {
    let Some(event) = consumer.state().gap.take() else {
        return true;
    };
    let wrong = wrong_in(proof, &event);
    if let Some(why) = &wrong {
        let text = format!("{}: {why}: {event}", consumer.name);
        proof.course.complain(text);
    }
    wrong.is_none()
}

/// What is wrong with a gap.
fn wrong_in(proof: &Proof, event: &Value) -> Option<String> {
    let group = event["group"].as_str().unwrap_or_default();
    let Some(from) = event["missing"]["from"].as_str() else {
        return Some("a gap that does not say what is missing".to_owned());
    };
    let events = match proof.at.json(&["group", "events", group]) {
        Ok(events) => events,
        Err(why) => return Some(why),
    };
    let members = proof.farm.members().into_iter();
    let mut members = members.filter(|member| member.group == group);
    members.find_map(|member| {
        let name = &member.name;
        match begin(&member).map(|begin| is_behind(from, &begin)) {
            Err(why) => Some(format!("{name} cannot be asked: {why}")),
            Ok(false) => Some(format!("{name} has what is called missing")),
            Ok(true) if !lost_logs(&events, &member) => {
                Some(format!("{name} was not filled without logs"))
            }
            Ok(true) => None,
        }
    })
}

/// The server was filled, and its logs were gone then.
fn lost_logs(events: &[Value], member: &Member) -> bool {
    let copied = format!("127.0.0.1:{} holds a copy of", member.port);
    events.iter().any(|event| {
        let told = event.to_string();
        event["event"] == "clone_done" && told.contains(&copied) && !told.contains(WITH_LOGS)
    })
}

/// What comes before the oldest transaction in the server's log.
fn begin(member: &Member) -> Result<String, String> {
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], member.port));
    let client = Client::connect(address, "root", "");
    let mut client = client.map_err(|failure| failure.to_string())?;
    let mut cell = |sql: &str| match client.query(sql).as_deref() {
        Ok([Reply::Rows(rows)]) => {
            let text = rows.text();
            let cell = text.first().and_then(|row| row.first()?.clone());
            Ok(cell.unwrap_or_default().replace('\n', ""))
        }
        other => Err(format!("{other:?}")),
    };
    match member.version.contains("MariaDB") {
        true => {
            let first = cell("SHOW BINARY LOGS")?;
            cell(&format!("SELECT BINLOG_GTID_POS('{first}', 4)"))
        }
        false => cell("SELECT @@GLOBAL.gtid_purged"),
    }
}

/// Whether a reader that has these transactions lacks some that come before a log's begin.
fn is_behind(told: &str, begin: &str) -> bool {
    let engine = match begin.contains(':') || told.contains(':') {
        true => farm::Engine::MySql,
        false => farm::Engine::MariaDb,
    };
    let read = |text| Position::parse(engine, text);
    match (read(told), read(begin)) {
        (Some(told), Some(begin)) => !told.covers(&begin),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_log_has_is_not_missing() {
        assert!(is_behind("0-1-5", "0-1-9"));
        assert!(!is_behind("0-1-9", "0-1-9"));
        assert!(!is_behind("0-1-5", ""), "a log from the beginning");
        let (told, begin) = (
            "6f0e0cd4-0000-0000-0000-000000000001:1-5",
            "6f0e0cd4-0000-0000-0000-000000000001:1-9",
        );
        assert!(is_behind(told, begin));
        assert!(!is_behind(begin, told));
    }
}
