//! Commands on the farm's configuration: see it, its history and what differs, write it, go back.

use super::ConfigCommands;

use meta::Transaction;
use serde_json::Value;

use crate::configuration::current::Current;
use crate::configuration::document::Draft;
use catalog::command::{Arguments, CommandError, Table};
use catalog::configuration::groups::{self, Plan};
use catalog::configuration::{self, Author, Version, count, listed, unified};
use catalog::event::when;

/// Versions that `config history` shows unless it is asked for more.
const SHOWN: usize = 50;

/// What a new version is made of.
struct Wish {
    text: String,
    plan: Plan,
    /// The version that it was made from.
    from: u64,
    author: Author,
}

impl ConfigCommands {
    /// The document: of now, or as a version has it.
    pub(crate) async fn config_show(&self, args: &Arguments) -> Result<Table, CommandError> {
        let (version, groups) = match self.asked_version(args, "version").await? {
            Some(version) => {
                let groups = version.groups.clone();
                (version, groups)
            }
            None => {
                let state = self.context.state();
                let current = &state.configuration;
                if let Some(why) = unreadable(&state.configuration) {
                    return Err(why);
                }
                let version = Version::clone(&current.version);
                (version, groups::of(&state.records))
            }
        };
        let heading = version.heading();
        let documents = &self.context.settings().documents;
        let head = Some((version.version, heading.as_str()));
        Ok(one_text(
            "document",
            documents.show(head, &version.text, &groups),
        ))
    }

    /// What the later one has that the earlier one has not, and the other way round.
    pub(crate) async fn config_diff(&self, args: &Arguments) -> Result<Table, CommandError> {
        let current = self.context.state().records.version();
        let a = self.number(args, "a")?;
        let b = self.number(args, "b")?.unwrap_or(current);
        let a = a.unwrap_or(b.saturating_sub(1));
        let (old, new) = (self.version(a).await?, self.version(b).await?);
        let documents = &self.context.settings().documents;
        let [before, after] = [&old, &new].map(|it| documents.show(None, &it.text, &it.groups));
        let difference = unified(&before, &after);
        if difference.is_empty() {
            return Ok(Table::new(&["difference"]));
        }
        let (was, is) = (old.heading(), new.heading());
        let text = format!("--- version {a} {was}\n+++ version {b} {is}\n{difference}");
        Ok(one_text("difference", text))
    }

    /// Who changed what, the latest first.
    pub(crate) async fn config_history(&self, args: &Arguments) -> Result<Table, CommandError> {
        let limit = args.parse::<usize>("limit", "a number")?.unwrap_or(SHOWN);
        let current = self.context.state().records.version();
        let refused = self.context.configuration().refused;
        let mut table = Table::new(&["version", "when", "by", "comment", "state"]);
        let versions = configuration::history(self.context.store()).await?;
        for version in versions.iter().rev().take(limit) {
            let state = match (version.version == current, &refused) {
                (false, _) => "",
                (true, None) => "in force",
                (true, Some(_)) => "not followed by this router",
            };
            table.rows.push(vec![
                version.version.into(),
                when(version.at_ms).into(),
                version.by.as_str().into(),
                version.comment.as_str().into(),
                state.into(),
            ]);
        }
        Ok(table)
    }

    /// Every setting as it is in force on this router, and who says so.
    pub(crate) fn config_settings(&self) -> Table {
        let mut table = Table::new(&["name", "value", "from", "default", "scope"]);
        for shown in self.context.settings().documents.settings() {
            let scope = match shown.of_farm {
                true => "farm, at once",
                false => "router, at restart",
            };
            table.rows.push(vec![
                shown.name.into(),
                shown.value.into(),
                shown.from.into(),
                shown.default.into(),
                scope.into(),
            ]);
        }
        table
    }

    /// Writes a new version from a whole document, or with one setting changed.
    pub(crate) async fn config_set(&self, args: &Arguments) -> Result<Table, CommandError> {
        let wish = self.wished(args)?;
        if args.switch("check")? {
            let now = self.context.configuration().version;
            let mut table = changes();
            self.tell_changes(&mut table, None, &now, &wish);
            return Ok(table);
        }
        self.write_document(wish, Vec::new()).await
    }

    /// Makes a new version that says what an older one said.
    pub(crate) async fn config_rollback(&self, args: &Arguments) -> Result<Table, CommandError> {
        let number = self.number(args, "version")?.unwrap_or_default();
        let version = self.version(number).await?;
        let documents = &self.context.settings().documents;
        documents.read(&version.text).map_err(|wrong| {
            CommandError::Refused(format!(
                "version {number} cannot be followed by this Heddle any more: {}; take what is \
                 left of it by `config show {number}` and `config set`",
                listed(wrong).replace('\n', "; ")
            ))
        })?;
        let records = self.context.state().records.clone();
        let mut plan = groups::plan(&records, &version.groups);
        let mut left: Vec<String> = plan.left.drain(..).map(|(_, what)| what).collect();
        if number > 0 {
            left.extend(groups::unnamed(&records, &version.groups, number));
        }
        let mut author = args.author();
        author.comment = match args.get("comment") {
            Some(comment) => format!("back to version {number}: {comment}"),
            None => format!("back to version {number}"),
        };
        let from = records.version();
        let wish = Wish {
            text: version.text,
            plan,
            from,
            author,
        };
        self.write_document(wish, left).await
    }

    async fn write_document(&self, wish: Wish, left: Vec<String>) -> Result<Table, CommandError> {
        let lead = &self.context.leadership.must_lead()?;
        let before = self.context.configuration().version;
        let waited_ms = self.context.settings().failover.last_replica_wait_ms;
        let transaction: Transaction = wish.plan.transaction.clone();
        let text = Some((wish.text.as_str(), wish.from));
        let written = self
            .context
            .commit_version(lead, &wish.author, transaction, text)
            .await?;
        let mut table = changes();
        self.tell_changes(&mut table, written, &before, &wish);
        for what in left {
            table.rows.push(row(written, "left alone", what));
        }
        let unknown = self.unknown_in_rules();
        if !unknown.is_empty() {
            let what = format!("rules name servers that the farm lacks: {unknown}");
            table.rows.push(row(written, "warning", what));
        }
        let mut restated = wish.plan.restated;
        if self.context.settings().failover.last_replica_wait_ms != waited_ms {
            restated.extend(self.context.state().records.groups.keys().cloned());
        }
        for group in restated {
            if let Err(error) = self.links.apply_acks(lead, &group).await {
                let what = format!("group {group}: acknowledgements stay as they were: {error}");
                table.rows.push(row(written, "warning", what));
            }
        }
        Ok(table)
    }

    fn tell_changes(&self, table: &mut Table, written: Option<u64>, now: &Version, wish: &Wish) {
        match count(&now.text, &wish.text) {
            0 => {}
            lines => {
                let what = format!("settings, rules and users: {lines} lines differ");
                table.rows.push(row(written, "changed", what));
            }
        }
        for what in &wish.plan.changed {
            table.rows.push(row(written, "changed", what.clone()));
        }
        if table.rows.is_empty() {
            let what = "the farm is as the document says already".to_owned();
            table.rows.push(row(written, "unchanged", what));
        }
    }

    /// What `config set` was given, checked whole.
    fn wished(&self, args: &Arguments) -> Result<Wish, CommandError> {
        let (records, current) = {
            let state = self.context.state();
            (state.records.clone(), state.configuration.clone())
        };
        if let Some(why) = unreadable(&current) {
            return Err(why);
        }
        let documents = &self.context.settings().documents;
        let usage = |what: &str| CommandError::Usage(what.to_owned());
        let (document, comment) = match (
            args.get("document"),
            args.get("setting"),
            args.get("unset"),
        ) {
            (Some(document), None, None) => (document.to_owned(), String::new()),
            (None, Some(assignment), None) => {
                let (name, value) = assignment
                    .split_once('=')
                    .ok_or_else(|| args.bad("setting", assignment, "NAME=VALUE"))?;
                let text = documents.assign(&current.version.text, name.trim(), Some(value.trim()));
                (text.map_err(CommandError::Usage)?, assignment.to_owned())
            }
            (None, None, Some(name)) => {
                let text = documents.assign(&current.version.text, name.trim(), None);
                (text.map_err(CommandError::Usage)?, format!("{name} unset"))
            }
            _ => {
                return Err(usage(
                    "give one of a document (on the command line --file=PATH), --setting=NAME=VALUE \
                     and --unset=NAME; `config show` gives the document that there is",
                ));
            }
        };
        let read = documents.read(&document);
        let (draft, mut wrong) = match read {
            Ok(draft) => (draft, Vec::new()),
            Err(wrong) => (Draft::default(), wrong),
        };
        let plan = groups::plan(&records, &draft.groups);
        wrong.extend(plan.left.iter().cloned());
        if !wrong.is_empty() {
            return Err(CommandError::Usage(format!(
                "the document is wrong, and nothing was changed:\n{}",
                listed(wrong)
            )));
        }
        let from = self.number(args, "from")?.or(draft.version);
        let mut author = args.author();
        author.comment = args.get("comment").map_or(comment, str::to_owned);
        Ok(Wish {
            text: draft.text,
            plan,
            from: from.unwrap_or(records.version()),
            author,
        })
    }

    fn number(&self, args: &Arguments, name: &str) -> Result<Option<u64>, CommandError> {
        args.parse::<u64>(name, "the number of a version")
    }

    async fn asked_version(
        &self,
        args: &Arguments,
        name: &str,
    ) -> Result<Option<Version>, CommandError> {
        match self.number(args, name)? {
            Some(number) => self.version(number).await.map(Some),
            None => Ok(None),
        }
    }

    /// A version, or an error that says which there are.
    async fn version(&self, number: u64) -> Result<Version, CommandError> {
        if let Some(version) = configuration::load(self.context.store(), number).await? {
            return Ok(version);
        }
        let current = self.context.state().records.version();
        let why = match number > current {
            true => format!("the latest is {current}"),
            false => "it was so long ago that it is not kept any more".to_owned(),
        };
        Err(CommandError::Refused(format!(
            "there is no version {number}: {why}; `config history` lists them"
        )))
    }
}

/// Why there is nothing to start from, if that is so.
fn unreadable(current: &Current) -> Option<CommandError> {
    let why = current
        .refused
        .as_ref()
        .filter(|_| current.is_unreadable())?;
    Some(CommandError::Refused(why.clone()))
}

fn changes() -> Table {
    Table::new(&["version", "kind", "what"])
}

fn row(version: Option<u64>, kind: &str, what: String) -> Vec<Value> {
    vec![version.into(), kind.into(), what.into()]
}

fn one_text(column: &'static str, text: String) -> Table {
    let mut table = Table::new(&[column]);
    table.rows.push(vec![text.into()]);
    table
}
