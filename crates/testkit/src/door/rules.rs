//! Rules for tests of them, and what their statements answer.

use std::sync::Arc;

use regex::Regex;
use routing::rules::{Actions, Conditions, Rule, Rulebook, Rules, ServerName, Servers};

use crate::client::{Client, Reply};
use crate::door::Door;
use crate::door::stage::Stage;

/// A rule without a name, which [`publish`] gives it.
pub fn rule(conditions: Conditions, actions: Actions) -> Rule {
    Rule {
        name: "".into(),
        place: String::new(),
        conditions,
        actions,
        goes_on: false,
        matched: Arc::default(),
    }
}

/// About tables of this pattern.
pub fn on(table: &str) -> Conditions {
    Conditions {
        tables: vec![table.to_owned()],
        ..Conditions::default()
    }
}

/// About texts whose normal form fits.
///
/// # Panics
/// When it is no expression.
pub fn matching(regex: &str) -> Conditions {
    Conditions {
        regex: Some(Regex::new(regex).expect("an expression")),
        ..Conditions::default()
    }
}

/// About texts behind this comment.
pub fn commented(comment: &str) -> Conditions {
    Conditions {
        comments: vec![comment.to_owned()],
        ..Conditions::default()
    }
}

/// Reads go to these servers.
pub fn to(names: &[&str]) -> Actions {
    let names = names.iter().map(|name| ServerName::new(name));
    Actions {
        servers: Some(Arc::new(Servers(names.collect()))),
        ..Actions::default()
    }
}

/// The statement is refused.
pub fn refusing(text: &str) -> Actions {
    Actions {
        refuse: Some(text.into()),
        ..Actions::default()
    }
}

/// Puts these rules in force, called `rule 1`, `rule 2`, ….
pub fn publish(book: &Rulebook, list: Vec<Rule>) {
    let named = list.into_iter().enumerate().map(|(at, rule)| Rule {
        name: format!("rule {}", at + 1).into(),
        ..rule
    });
    book.publish(Rules {
        list: named.collect(),
        users: Vec::new(),
    });
}

/// A door in front of both servers, and its rules.
pub fn ruled(stage: &Stage, list: Vec<Rule>) -> (Door, Arc<Rulebook>) {
    let book = Arc::new(Rulebook::default());
    publish(&book, list);
    let rules = book.clone();
    (stage.door_with(|tuning| tuning.rules = rules), book)
}

/// The only value that the replies begin with.
///
/// # Panics
/// When they begin with no row, or its first value is NULL.
#[track_caller]
pub fn first(replies: &[Reply]) -> String {
    let Some(Reply::Rows(rows)) = replies.first() else {
        panic!("no rows: {replies:?}");
    };
    rows.text()[0][0].clone().expect("a value")
}

/// Prepares and executes a text; the only value of its row.
///
/// # Panics
/// When either is refused.
#[track_caller]
pub fn value(client: &mut Client, sql: &str) -> String {
    let statement = client.prepare(sql).expect("prepared");
    first(&client.execute(&statement, &[]).expect("executed"))
}
