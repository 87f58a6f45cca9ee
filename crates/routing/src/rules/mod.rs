//! Rules: what an operator wants done with statements that answer a description.
//!
//! An ordered list. The first rule whose conditions all hold decides; one that says `continue` lets
//! those behind it add what it has left open. A decision is a pure function of the statement, its
//! session and the list; carrying it out is the session's work.

mod action;
mod condition;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use farm::dist_txn::Atomic;

pub use action::{Actions, Fallback, Hook, Rewrite, ServerName, Servers, TooLong};
pub use condition::{Conditions, Network, Question, Side};

use crate::Level;

/// One rule.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Unique in the list.
    pub name: Arc<str>,
    /// `FILE:LINE`.
    pub place: String,
    pub conditions: Conditions,
    pub actions: Actions,
    /// Rules behind this one may add to it.
    pub goes_on: bool,
    /// How often it has matched since the router started, under this name.
    pub matched: Arc<AtomicU64>,
}

/// What a user's sessions begin with; `None` leaves the farm's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserDefaults {
    pub user: String,
    /// A host pattern as in an account; `None` for every host.
    pub host: Option<String>,
    pub level: Option<Level>,
    pub max_lag_ms: Option<u64>,
    pub monotonic: Option<bool>,
    pub marks: Option<bool>,
    pub atomic: Option<Atomic>,
    /// Where they run what names no table: the group of this name, in place of the home group.
    pub group: Option<String>,
}

/// All rules in force. Immutable: changed ones are published whole.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    pub list: Vec<Rule>,
    pub users: Vec<UserDefaults>,
}

/// What is to be done with one statement.
#[derive(Clone, Debug, Default)]
pub struct Decision {
    /// The places in the list of the rules that matched, in order; never empty.
    pub rules: Vec<usize>,
    pub actions: Actions,
}

impl Rules {
    /// What the rules want done with the statement; `None` when none of them is about it.
    pub fn decide(&self, question: &Question<'_>) -> Option<Decision> {
        let mut decision: Option<Decision> = None;
        for (at, rule) in self.list.iter().enumerate() {
            if !rule.conditions.hold(question) {
                continue;
            }
            let so_far = decision.get_or_insert_default();
            so_far.rules.push(at);
            so_far.actions.complete(&rule.actions);
            if !rule.goes_on {
                break;
            }
        }
        decision
    }

    /// Counts the rules of a decision that is carried out.
    pub fn count(&self, decision: &Decision) {
        for rule in decision.rules.iter().filter_map(|at| self.list.get(*at)) {
            rule.matched.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The names of the rules of a decision, for people.
    pub fn names(&self, decision: &Decision) -> String {
        let rules = decision.rules.iter().filter_map(|at| self.list.get(*at));
        let names: Vec<&str> = rules.map(|rule| &*rule.name).collect();
        names.join(", ")
    }

    /// What sessions of this user begin with: the first table that is about them.
    pub fn defaults(&self, user: &[u8], client: IpAddr) -> Option<&UserDefaults> {
        self.users.iter().find(|defaults| {
            let here = |host: &String| farm::account::host_matches(host, client.to_canonical());
            defaults.user.as_bytes() == user && defaults.host.as_ref().is_none_or(here)
        })
    }
}

/// The cell that holds the rules in force.
#[derive(Debug, Default)]
pub struct Rulebook {
    /// There is a rule: all that a statement costs where there is none is to look here.
    any: AtomicBool,
    current: ArcSwap<Rules>,
}

impl Rulebook {
    /// True while there are no rules for statements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        !self.any.load(Ordering::Relaxed)
    }

    /// The rules now.
    pub fn load(&self) -> Arc<Rules> {
        self.current.load_full()
    }

    /// Puts other rules in force, for statements that begin from now on. Rules that keep their name
    /// keep their count.
    pub fn publish(&self, mut rules: Rules) {
        let old = self.load();
        for rule in &mut rules.list {
            let same = old.list.iter().find(|other| other.name == rule.name);
            if let Some(same) = same {
                rule.matched = same.matched.clone();
            }
        }
        let any = !rules.list.is_empty();
        self.current.store(Arc::new(rules));
        self.any.store(any, Ordering::Release);
    }
}
