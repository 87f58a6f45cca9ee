//! The command table: which router carries a command out follows from what the command does.

use catalog::command::{DoneBy, TABLE};

/// Commands that change something and that any router carries out, with the reason.
const EXCEPTIONS: [(&str, &str); 5] = [
    ("job abort", "a copy runs on the router that began it"),
    ("transaction resolve", "the servers say what becomes of it"),
    (
        "digest reset",
        "each router forgets what it has counted itself",
    ),
    ("session kill", "any router finds the session's router"),
    (
        "meta export",
        "it writes nothing, and needs the admin right for what it shows",
    ),
];

#[test]
fn the_leader_carries_out_what_changes_the_farm() {
    for spec in TABLE {
        let name = format!("{} {}", spec.group, spec.command);
        let is_exception = EXCEPTIONS.iter().any(|(exception, _)| *exception == name);
        assert_eq!(
            spec.done_by == DoneBy::Leader,
            spec.changes && !is_exception,
            "{name}: Leader is for what changes the farm; else name it above, with its reason"
        );
    }
}

#[test]
fn exceptions_are_commands() {
    for (exception, _) in EXCEPTIONS {
        let named = |(group, command)| {
            let mut specs = TABLE.iter();
            specs.any(|spec| (spec.group, spec.command) == (group, command))
        };
        assert!(exception.split_once(' ').is_some_and(named), "{exception}");
    }
}

#[test]
fn what_every_router_answers_can_be_asked_of_one() {
    for spec in TABLE {
        let takes = |name: &str| spec.args.iter().any(|arg| arg.name == name);
        let of_every = spec.done_by == DoneBy::Every;
        let narrows = (takes("router"), takes("local"));
        assert_eq!(
            narrows,
            (of_every, of_every),
            "{} {}: ROUTER and LOCAL are for Every",
            spec.group,
            spec.command
        );
    }
}
