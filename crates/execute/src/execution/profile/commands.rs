//! Commands that Heddle itself sends to servers for a statement that is traced: to begin a branch of a transaction over
//! several groups, to prepare it, to commit or to undo it.
//!
//! Must not know: transactions, and how a trace is written.

use std::time::Instant;

use farm::ServerId;
use statistics::{Failed, Stage};

use super::laps::Lap;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnCommand {
    /// Its first words.
    pub name: &'static str,
    pub server: ServerId,
    pub began: Instant,
    pub ended: Instant,
    pub failed: Option<Failed>,
}

/// Puts the commands behind the statement's parts, each within the part during which it ran.
pub(crate) fn place(commands: &[OwnCommand], laps: &mut Vec<Lap>) {
    let parts = laps.len();
    for command in commands {
        let around = |lap: &Lap| lap.began <= command.began && command.ended <= lap.ended;
        let within = laps[..parts].iter().rposition(|lap| lap.within.is_none() && around(lap));
        laps.push(Lap {
            stage: Stage::Command(command.name),
            began: command.began,
            ended: command.ended,
            server: Some(command.server),
            within,
            failed: command.failed,
            rows: None,
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn commands_stand_within_what_they_were_sent_for() {
        let origin = Instant::now();
        let at = |ms| origin + Duration::from_millis(ms);
        let lap = |stage, began, ended| Lap {
            stage,
            began: at(began),
            ended: at(ended),
            server: None,
            within: None,
            failed: None,
            rows: None,
        };
        let command = |name, began, ended| OwnCommand {
            name,
            server: ServerId(7),
            began: at(began),
            ended: at(ended),
            failed: None,
        };
        let mut laps = vec![lap(Stage::Connection, 0, 4), lap(Stage::Server, 4, 8)];
        let commands = [command("XA START", 1, 2), command("XA COMMIT", 8, 9)];
        place(&commands, &mut laps);
        let told: Vec<_> = laps[2..].iter().map(|lap| (lap.stage, lap.within)).collect();
        let expected = [
            (Stage::Command("XA START"), Some(0)),
            (Stage::Command("XA COMMIT"), None),
        ];
        assert_eq!(told, expected);
    }
}
