//! What is in force on this router: its own settings and rules, and the farm's document over them.
//!
//! The document goes before the router's files where both speak: its settings replace theirs, its rules
//! are asked first, and a rule of the same name replaces theirs.

pub(crate) mod rules;
pub(crate) mod stamp;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use catalog::configuration::{Groups, Wrong};
use control::configuration::{Documents, Draft, ShownSetting};
use routing::rules::{Rulebook, Rules};
use session::Live;

use crate::data_plane;
use crate::router::tell_control;
use crate::settings::{self, Applies, Settings};

/// What this router has of its own, and what is in force.
#[derive(Debug)]
pub struct Configuration {
    own: Mutex<Own>,
    pub rules: Arc<Rulebook>,
    pub live: Arc<Live>,
}

#[derive(Debug)]
struct Own {
    settings: Settings,
    rules: Rules,
    /// With the document over them.
    in_force: Settings,
}

impl Configuration {
    /// The router's own settings and rules are in force, and no document yet.
    pub fn new(settings: Settings, rules: Rules) -> Configuration {
        let in_force = data_plane::in_force(&settings);
        let book = Rulebook::default();
        book.publish(rules.clone());
        Configuration {
            rules: Arc::new(book),
            live: Arc::new(Live::new(in_force)),
            own: Mutex::new(Own {
                in_force: settings.clone(),
                settings,
                rules,
            }),
        }
    }

    /// The router's own files say something else now. It is in force once the document is applied
    /// again. Gives the settings that changed and need a restart.
    pub fn set_own(&self, mut settings: Settings, rules: Rules) -> Vec<&'static str> {
        let mut own = self.own();
        settings.keep_flags_of(&own.settings);
        let value = |of: &Settings, name: &str| of.given.get(name).map(|it| it.value.clone());
        let table = settings::TABLE.iter();
        let changed = table.filter(|row| {
            row.applies == Applies::Restart
                && value(&settings, row.name) != value(&own.settings, row.name)
        });
        let changed = changed.map(|row| row.name).collect();
        own.settings = settings;
        own.rules = rules;
        changed
    }

    /// The router's own settings, without the document.
    pub fn own_settings(&self) -> Settings {
        self.own().settings.clone()
    }

    /// Time between two looks for what is wrong; 0 for never.
    pub fn doctor_interval_s(&self) -> u64 {
        self.own().in_force.doctor_interval_s
    }

    fn own(&self) -> MutexGuard<'_, Own> {
        // Every change leaves it whole.
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Documents for Configuration {
    fn read(&self, document: &str) -> Result<Draft, Vec<Wrong>> {
        let onto = self.own().settings.clone();
        settings::read_document(document, &onto, "the document").map(|reading| reading.draft)
    }

    fn show(&self, head: Option<(u64, &str)>, text: &str, groups: &Groups) -> String {
        settings::show(head, text, groups)
    }

    fn assign(&self, text: &str, name: &str, value: Option<&str>) -> Result<String, String> {
        settings::assign(text, name, value)
    }

    fn apply(
        &self,
        version: u64,
        text: &str,
        to: &mut control::Settings,
    ) -> Result<(), Vec<Wrong>> {
        let mut own = self.own();
        let from = format!("version {version}");
        let in_force = settings::read_document(text, &own.settings, &from)?.settings;
        let mut rules = in_force.rules.clone();
        let named = |name: &str| in_force.rules.list.iter().any(|rule| *rule.name == *name);
        let others = own.rules.list.iter().filter(|rule| !named(&rule.name));
        rules.list.extend(others.cloned());
        rules.users.extend(own.rules.users.iter().cloned());
        tell_control(&in_force, to);
        own.in_force = in_force;
        // Sessions look at the rules' users again when the settings' version changes.
        self.rules.publish(rules);
        self.live.publish(data_plane::in_force(&own.in_force));
        Ok(())
    }

    fn settings(&self) -> Vec<ShownSetting> {
        settings::shown(&self.own().in_force)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOCUMENT: &str = "[settings]\nmax_lag_ms = 5\n\n[[rule]]\nname = \"both\"\n\
                            user = \"a\"\ndelay_ms = 1\n";

    fn rules(text: &str) -> Rules {
        let reading = settings::read_document(text, &Settings::default(), "a file");
        reading.expect("it is right").settings.rules
    }

    fn configuration() -> Configuration {
        let mut own = Settings::default();
        own.assign("max_lag_ms=7").expect("a number");
        own.assign("hedge_ms=9").expect("a number");
        let rules = rules(
            "[[rule]]\nname = \"both\"\nuser = \"b\"\ndelay_ms = 2\n\
             [[rule]]\nname = \"own\"\nuser = \"c\"\ndelay_ms = 3\n",
        );
        Configuration::new(own, rules)
    }

    fn control() -> control::Settings {
        control::Settings::new(control::Credentials {
            user: String::new(),
            password: String::new(),
            replication_user: String::new(),
            replication_password: String::new(),
            tls: Default::default(),
        })
    }

    #[test]
    fn the_document_goes_before_the_files_and_gone_leaves_them() {
        let all = configuration();
        let mut to = control();
        let document = DOCUMENT.replace("[settings]", "[settings]\nprobe_failures = 4");
        all.apply(3, &document, &mut to).expect("it is right");
        let now = all.live.load().settings;
        assert_eq!((now.consistency.max_lag_ms, now.reads.hedge_ms), (5, 9));
        assert_eq!(to.observation.probe_failures, 4);
        let of = |name: &str| {
            let all = all.settings();
            let found = all.iter().find(|it| it.name == name).expect("a setting");
            (found.value.clone(), found.from.clone())
        };
        assert_eq!(of("max_lag_ms"), ("5".to_owned(), "version 3".to_owned()));
        assert_eq!(of("hedge_ms"), ("9".to_owned(), "--set".to_owned()));
        assert_eq!(of("statements_max").1, "default");
        let names = |all: &Configuration| -> Vec<String> {
            let rules = all.rules.load();
            let each = rules.list.iter();
            each.map(|rule| format!("{} {:?}", rule.name, rule.conditions.users))
                .collect()
        };
        assert_eq!(names(&all), ["both [\"a\"]", "own [\"c\"]"]);
        all.apply(4, "", &mut to).expect("empty is right");
        assert_eq!(all.live.load().settings.consistency.max_lag_ms, 7);
        assert_eq!(to.observation.probe_failures, 2);
        assert_eq!(names(&all), ["both [\"b\"]", "own [\"c\"]"]);
    }

    #[test]
    fn a_wrong_document_changes_nothing() {
        let all = configuration();
        let mut to = control();
        all.apply(3, DOCUMENT, &mut to).expect("it is right");
        let wrong = "[settings]\nmax_lag_ms = 1\nnothing = 1\n";
        assert!(all.apply(4, wrong, &mut to).is_err());
        assert_eq!(all.live.load().settings.consistency.max_lag_ms, 5);
    }

    #[test]
    fn files_that_changed_keep_the_flags_and_say_what_needs_a_restart() {
        let all = configuration();
        let mut file = Settings::default();
        file.preset("hedge_ms", "1", "heddle.toml:1");
        file.preset("threads", "3", "heddle.toml:2");
        let waiting = all.set_own(file, Rules::default());
        assert_eq!(waiting, ["threads"]);
        all.apply(0, "", &mut control()).expect("it is right");
        let now = all.live.load().settings;
        assert_eq!((now.consistency.max_lag_ms, now.reads.hedge_ms), (7, 9));
        assert!(all.rules.load().list.is_empty());
    }
}
