//! What is news: findings that were not there at the last look, and findings that are gone.

use std::collections::BTreeMap;

use crate::finding::{Finding, Severity};

/// News since the last look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Found(Finding),
    Cured(Finding),
}

/// What was found last, so that each finding is told once.
#[derive(Clone, Debug, Default)]
pub struct Trail {
    last: BTreeMap<(&'static str, String), Finding>,
}

impl Trail {
    /// Takes over what was found now; gives what has changed. Evidence that reads otherwise is no news, nor is a
    /// finding that is only worth knowing. What `unseen` says of a server or router that could not be read stays as it
    /// was.
    pub fn follow(&mut self, now: &[Finding], unseen: impl Fn(&Finding) -> bool) -> Vec<Change> {
        let worth = now.iter().filter(|it| it.severity > Severity::Info);
        let mut found: BTreeMap<_, Finding> = worth.map(|it| (key(it), it.clone())).collect();
        let news = found
            .iter()
            .filter(|(key, _)| !self.last.contains_key(*key));
        let mut changes: Vec<Change> = news.map(|(_, it)| Change::Found(it.clone())).collect();
        for (key, before) in std::mem::take(&mut self.last) {
            if found.contains_key(&key) {
                continue;
            }
            if unseen(&before) {
                found.insert(key, before);
            } else {
                changes.push(Change::Cured(before));
            }
        }
        self.last = found;
        changes
    }
}

fn key(finding: &Finding) -> (&'static str, String) {
    (finding.check, finding.of.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::{Fix, Scope};

    fn finding(check: &'static str, of: &str, severity: Severity) -> Finding {
        Finding {
            check,
            severity,
            scope: Scope::Server,
            of: of.to_owned(),
            group: "g".to_owned(),
            evidence: String::new(),
            breaks: String::new(),
            cure: String::new(),
            fix: Fix::Safe,
            statement: String::new(),
        }
    }

    #[test]
    fn each_finding_is_told_once_and_its_end_once() {
        let mut trail = Trail::default();
        let a = finding("a", "one", Severity::Warning);
        let b = finding("b", "two", Severity::Error);
        let minor = finding("c", "one", Severity::Info);
        let all = [a.clone(), b.clone(), minor];
        let told = trail.follow(&all, |_| false);
        assert_eq!(told, [Change::Found(a.clone()), Change::Found(b.clone())]);
        let other = Finding {
            evidence: "other words".to_owned(),
            ..a.clone()
        };
        assert_eq!(trail.follow(&[other, b.clone()], |_| false), []);
        let unseen = |it: &Finding| it.of == "two";
        assert_eq!(trail.follow(std::slice::from_ref(&a), unseen), []);
        let told = trail.follow(&[a], |_| false);
        assert_eq!(told, [Change::Cured(b)]);
    }
}
