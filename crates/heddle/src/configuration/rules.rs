//! The router's own files, of settings and of rules: read at the start, and again when they change or
//! SIGHUP asks for it. A file with an error changes nothing: what is in force stays.

use std::path::PathBuf;
use std::sync::Arc;

use control::Control;
use routing::rules::Rules;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::configuration::Configuration;
use crate::configuration::stamp::{LOOK, Stamp};
use crate::host::signals::received;
use crate::settings::{self, Settings};

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

    /// SIGHUP, from here on, for a router with a settings file.
    pub fn hangup(&self) -> Option<Signal> {
        // Without the signal there are still the looks.
        self.config.as_ref()?;
        signal(SignalKind::hangup()).ok()
    }

    /// Looks at the files for ever, and also when `hangup` comes, and puts in force what they have become
    /// since `seen`.
    pub async fn follow(
        self,
        mut seen: Stamp,
        mut hangup: Option<Signal>,
        configuration: Arc<Configuration>,
        control: Arc<Control>,
    ) {
        if self.config.is_none() && self.rules_file.is_none() {
            return;
        }
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
            match self.read_all(&configuration) {
                Ok((settings, rules)) => self.take_over(settings, rules, &configuration, &control),
                Err(errors) => refused(&control, &errors),
            }
        }
    }

    /// The settings too, which are as they were where there is no file of them.
    fn read_all(&self, configuration: &Configuration) -> Result<(Settings, Rules), String> {
        let settings = match &self.config {
            Some(config) => settings::read(config)?,
            None => configuration.own_settings(),
        };
        Ok((settings, self.read()?))
    }

    fn take_over(
        &self,
        settings: Settings,
        rules: Rules,
        configuration: &Configuration,
        control: &Control,
    ) {
        let (count, users) = (rules.list.len(), rules.users.len());
        let waiting = configuration.set_own(settings, rules);
        if let Err(errors) = control.reconfigure() {
            return refused(control, &errors);
        }
        let text = format!("{count} rules and {users} users of this router's files are in force");
        control.note("rules_read", text);
        if !waiting.is_empty() {
            let text = format!("{} apply at the next start", waiting.join(", "));
            control.note("settings_wait", text);
        }
        let unknown = control.unknown_in_rules();
        if !unknown.is_empty() {
            let text = format!("rules name servers that the farm lacks: {unknown}");
            control.note("rules_name_nobody", text);
        }
    }
}

fn refused(control: &Control, errors: &str) {
    let errors = errors.replace('\n', "; ");
    let text = format!("settings and rules stay as they were: {errors}");
    control.note("rules_refused", text);
}
