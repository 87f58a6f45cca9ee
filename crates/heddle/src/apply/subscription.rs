//! The subscription by which the farm knows an applier: how far its target is, and which binlogs it needs yet.
//!
//! Where the target has the stream decides alone what is applied. What is acknowledged follows that, some moments later.

use std::collections::BTreeSet;
use std::time::Duration;

use catalog::Call;
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::flags::Apply;
use super::source::ask_router;
use super::{Ended, later};
use crate::printing;

/// Between two acknowledgements.
const PAUSE: Duration = Duration::from_secs(2);

/// Acknowledges what the target has, until it is dropped.
pub(super) struct Subscription {
    reached: watch::Sender<String>,
    _acknowledging: JoinSet<()>,
}

impl Subscription {
    /// The subscription that the flags name; makes it where there is none. Gives the token that was acknowledged last, too.
    pub(super) async fn open(
        flags: &Apply,
        http: &str,
    ) -> Result<Option<(Subscription, String)>, Ended> {
        let Some(name) = &flags.subscription else {
            return Ok(None);
        };
        let shown = match shown(flags, http, name).await? {
            Some(shown) => shown,
            None => {
                let (status, answer) = ask_router(flags, http, &creation(flags, name)).await?;
                let made = shown(flags, http, name).await?;
                made.ok_or_else(|| refused(http, status, &answer))?
            }
        };
        if let Some(differs) = difference(flags, &shown) {
            return Err(Ended::Fatal(format!(
                "subscription {name} has other {differs} than the flags say: name another one, or drop it"
            )));
        }
        let (reached, told) = watch::channel(String::new());
        let mut acknowledging = JoinSet::new();
        let (flags, http) = (flags.clone(), http.to_owned());
        let token = shown["token"].as_str().unwrap_or_default().to_owned();
        let subscription = name.clone();
        acknowledging.spawn(acknowledge(flags, http, subscription, told));
        let subscription = Subscription {
            reached,
            _acknowledging: acknowledging,
        };
        Ok(Some((subscription, token)))
    }

    /// The target has everything up to here, for good.
    pub(super) fn reach(&self, token: &str) {
        self.reached.send_replace(token.to_owned());
    }
}

/// What a router shows of it; `None` where there is none.
async fn shown(flags: &Apply, http: &str, name: &str) -> Result<Option<Value>, Ended> {
    let call = Call::new("subscription", "list", &[]);
    let (status, rows) = ask_router(flags, http, &call).await?;
    let listed = rows
        .as_array()
        .ok_or_else(|| refused(http, status, &rows))?;
    if !listed.iter().any(|row| row["name"] == *name) {
        return Ok(None);
    }
    let call = Call::new("subscription", "show", &[name]);
    let (status, mut rows) = ask_router(flags, http, &call).await?;
    match rows.get_mut(0) {
        Some(row) => Ok(Some(row.take())),
        None => Err(refused(http, status, &rows)),
    }
}

/// The call that makes one with the filters of the flags.
fn creation(flags: &Apply, name: &str) -> Call {
    let mut call = Call::new("subscription", "create", &[name]);
    for (option, values) in [
        ("groups", &flags.group),
        ("databases", &flags.database),
        ("tables", &flags.table),
    ] {
        if !values.is_empty() {
            call.options.insert(option.to_owned(), values.join(","));
        }
    }
    if let Some(order) = &flags.order {
        call.options.insert("order".to_owned(), order.clone());
    }
    if flags.snapshot {
        call.options
            .insert("snapshot".to_owned(), "true".to_owned());
    }
    call
}

/// What the subscription has otherwise: the groups whose binlogs are kept, the order, of which tokens are, and what it says
/// that it is about.
fn difference(flags: &Apply, shown: &Value) -> Option<&'static str> {
    let listed = |name: &str| {
        let names = shown[name].as_str().unwrap_or_default().split(',');
        let names = names.filter(|it| !it.is_empty()).map(str::to_owned);
        names.collect::<BTreeSet<String>>()
    };
    let differs = |name: &str, given: &[String]| listed(name) != given.iter().cloned().collect();
    if shown["order"].as_str() != flags.order.as_deref() {
        return Some("order");
    }
    let lists = [
        ("groups", &flags.group),
        ("databases", &flags.database),
        ("tables", &flags.table),
    ];
    let mut lists = lists.into_iter();
    lists.find_map(|(name, given)| differs(name, given).then_some(name))
}

/// Acknowledges each token that is there when the last one is acknowledged. A failure is said once, and ends nothing.
async fn acknowledge(
    flags: Apply,
    http: String,
    name: String,
    mut reached: watch::Receiver<String>,
) {
    let mut said = String::new();
    while reached.changed().await.is_ok() {
        let token = reached.borrow_and_update().clone();
        let call = Call::new("subscription", "ack", &[&name, &token]);
        let error = match ask_router(&flags, &http, &call).await {
            Ok((200, _)) => String::new(),
            Ok((_, answer)) => text(&answer),
            Err(Ended::Fatal(text) | Ended::Later(text)) => text,
        };
        if error != said && !error.is_empty() {
            printing::complain(&format!("subscription {name} is not acknowledged: {error}"));
        }
        said = error;
        tokio::time::sleep(PAUSE).await;
    }
}

fn text(answer: &Value) -> String {
    let word = |name: &str| answer[name].as_str().unwrap_or_default();
    format!("{}; {}", word("error"), word("cure"))
}

fn refused(http: &str, status: u16, answer: &Value) -> Ended {
    let text = format!("the router at {http} answered {status}: {}", text(answer));
    match status {
        400 | 401 | 403 => Ended::Fatal(text),
        // Nobody leads, or groups have no primary yet.
        _ => later(text),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command, FromArgMatches};
    use serde_json::json;

    use super::*;

    fn flags(words: &[&str]) -> Apply {
        let words = [&["apply", "--to", "h:1"], words].concat();
        let matches = Apply::augment_args(Command::new("apply")).get_matches_from(words);
        Apply::from_arg_matches(&matches).expect("right flags")
    }

    #[test]
    fn a_subscription_is_about_what_the_flags_say() {
        let flags = flags(&["--group", "a", "--group", "b", "--table", "d.t"]);
        let call = creation(&flags, "n");
        assert_eq!(call.options["groups"], "a,b");
        assert_eq!(call.options["tables"], "d.t");
        let mut shown = json!({"groups": "b,a", "databases": "", "tables": "d.t", "order": null});
        assert_eq!(difference(&flags, &shown), None);
        shown["groups"] = "a".into();
        assert_eq!(difference(&flags, &shown), Some("groups"));
        shown["order"] = "global".into();
        assert_eq!(difference(&flags, &shown), Some("order"));
    }
}
