//! The operator's own programs: `fence_command` cuts a server off, `event_command` hears what happens.
//!
//! Both are run by `/bin/sh -c` with what they need to know in their environment, and ended when they
//! take too long. Neither ever holds the router up.

use std::process::Stdio;
use std::time::Duration;

use catalog::Event;
use catalog::event::Listener;
use control::fence::Fencing;
use control::{Fence, FenceTarget, Fenced};
use tokio::process::Command;
use tokio::sync::mpsc;

/// Events that wait for a program that is slow; more are dropped.
const EVENTS_MAX: usize = 256;

/// A program that hears of an event may run for so long.
const EVENT_LIMIT: Duration = Duration::from_secs(30);

/// Runs a program for as long as `limit`; what went wrong comes as a text.
async fn run(command: &str, environment: &[(&str, String)], limit: Duration) -> Result<(), String> {
    let mut program = Command::new("/bin/sh");
    program.arg("-c").arg(command).kill_on_drop(true);
    program.stdin(Stdio::null()).stdout(Stdio::null());
    for (name, value) in environment {
        program.env(name, value);
    }
    match tokio::time::timeout(limit, program.status()).await {
        Err(_) => Err(format!("it ran for more than {} ms", limit.as_millis())),
        Ok(Err(error)) => Err(format!("it cannot be run: {error}")),
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(format!("it ended with {status}")),
    }
}

/// `fence_command`: exit status 0 says that the server surely takes no write any more.
#[derive(Clone, Debug)]
pub struct FenceCommand {
    pub command: String,
    pub limit: Duration,
}

impl Fence for FenceCommand {
    fn fence(&self, target: FenceTarget) -> Fencing {
        let FenceCommand { command, limit } = self.clone();
        Box::pin(async move {
            if command.is_empty() {
                return Fenced::NoMeans;
            }
            let environment = [
                ("HEDDLE_SERVER", target.name.clone()),
                ("HEDDLE_UUID", target.uuid.clone()),
                ("HEDDLE_ADDRESS", target.address()),
                ("HEDDLE_GROUP", target.group.clone()),
            ];
            match run(&command, &environment, limit).await {
                Ok(()) => Fenced::Surely,
                Err(why) => Fenced::Failed(format!("fence_command: {why}")),
            }
        })
    }
}

/// Takes events from the control plane; never waits.
#[derive(Debug)]
pub struct EventQueue(mpsc::Sender<Event>);

impl Listener for EventQueue {
    fn happened(&self, event: &Event) {
        // Whoever falls 256 events behind has missed the moment anyway; `group events` has them all.
        let _ = self.0.try_send(event.clone());
    }
}

/// A queue and its other end.
pub fn queue() -> (EventQueue, mpsc::Receiver<Event>) {
    let (sender, receiver) = mpsc::channel(EVENTS_MAX);
    (EventQueue(sender), receiver)
}

/// Runs `event_command` for each event, one after the other; ends when the control plane has.
pub async fn tell(command: String, mut events: mpsc::Receiver<Event>) {
    while let Some(event) = events.recv().await {
        if command.is_empty() {
            continue;
        }
        let environment = [
            ("HEDDLE_EVENT", event.kind.to_owned()),
            ("HEDDLE_WHEN", event.when()),
            ("HEDDLE_GROUP", event.group.clone()),
            ("HEDDLE_SERVER", event.server.clone()),
            ("HEDDLE_ADDRESS", event.address.clone()),
            ("HEDDLE_DETAIL", event.detail.clone()),
        ];
        if let Err(why) = run(&command, &environment, EVENT_LIMIT).await {
            tracing::warn!(event = event.kind, "event_command: {why}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> FenceTarget {
        FenceTarget {
            uuid: "u".to_owned(),
            name: "n".to_owned(),
            host: "h".to_owned(),
            port: 3306,
            group: "g".to_owned(),
        }
    }

    #[tokio::test]
    async fn only_exit_status_0_is_sure() {
        let fence = |command: &str| FenceCommand {
            command: command.to_owned(),
            limit: Duration::from_millis(200),
        };
        let all =
            "test \"$HEDDLE_SERVER $HEDDLE_UUID $HEDDLE_ADDRESS $HEDDLE_GROUP\" = 'n u h:3306 g'";
        assert_eq!(fence(all).fence(target()).await, Fenced::Surely);
        assert_eq!(fence("").fence(target()).await, Fenced::NoMeans);
        let failed = fence("exit 3").fence(target()).await;
        assert!(matches!(failed, Fenced::Failed(why) if why.contains('3')));
        let slow = fence("exec sleep 60").fence(target()).await;
        assert!(matches!(slow, Fenced::Failed(why) if why.contains("200 ms")));
    }
}
