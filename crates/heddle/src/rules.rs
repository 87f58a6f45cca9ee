//! The files of rules: read at the start, and again when they change or SIGHUP asks for it. A file
//! with an error changes nothing: the rules in force stay.

use std::path::PathBuf;
use std::sync::Arc;

use control::Control;
use routing::rules::{Rulebook, Rules};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::settings::{self, Settings};
use crate::stamp::{LOOK, Stamp};

/// Where rules stand.
#[derive(Clone, Debug)]
pub struct Source {
    config: Option<PathBuf>,
    rules_file: Option<PathBuf>,
}

impl Source {
    /// The files that the settings name.
    pub fn of(settings: &Settings) -> Source {
        Source {
            config: settings.config_file.clone(),
            rules_file: settings.rules_file.0.clone(),
        }
    }

    /// Reads the files. All their errors are given, one per line, each as `FILE:LINE: what is wrong`.
    pub fn read(&self) -> Result<Rules, String> {
        let mut rules = Rules::default();
        if let Some(config) = &self.config {
            rules = settings::read(config)?.rules;
        }
        if let Some(file) = &self.rules_file {
            let more = settings::read_rules(file)?;
            rules.list.extend(more.list);
            rules.users.extend(more.users);
        }
        settings::names_are_unique(&rules)?;
        Ok(rules)
    }

    /// The files as they are now.
    pub fn stamp(&self) -> Stamp {
        Stamp::of(self.config.iter().chain(&self.rules_file))
    }

    /// Looks at the files for ever, and puts in force what they have become since `seen`. A router
    /// with a settings file also reads them when it gets SIGHUP.
    pub async fn follow(self, mut seen: Stamp, book: Arc<Rulebook>, control: Arc<Control>) {
        let mut hangup = match self.config {
            // Without the signal there are still the looks.
            Some(_) => signal(SignalKind::hangup()).ok(),
            None if self.rules_file.is_none() => return,
            None => None,
        };
        loop {
            let asked = tokio::select! {
                () = tokio::time::sleep(LOOK) => false,
                () = received(&mut hangup) => true,
            };
            let now = self.stamp();
            if now == seen && !asked {
                continue;
            }
            seen = now;
            match self.read() {
                Ok(rules) => {
                    let (rules_count, users) = (rules.list.len(), rules.users.len());
                    book.publish(rules);
                    let text = format!("{rules_count} rules and {users} users are in force");
                    control.note("rules_read", text);
                    let unknown = control.unknown_in_rules();
                    if !unknown.is_empty() {
                        let text = format!("rules name servers that the farm lacks: {unknown}");
                        control.note("rules_name_nobody", text);
                    }
                }
                Err(errors) => {
                    let errors = errors.replace('\n', "; ");
                    control.note(
                        "rules_refused",
                        format!("the rules stay as they were: {errors}"),
                    );
                }
            }
        }
    }
}

/// Waits for the signal; for ever where there is none.
pub async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}
