//! Commands that change groups.

use std::sync::Arc;

use farm::{GroupKind, Status};
use serde_json::Value;

use crate::context::Context;
use crate::context::records::no_group;
pub(super) use crate::context::records::no_server;
use crate::failover::record_key;
use crate::leadership::lead::Lead;
use crate::links::Links;
use crate::provision::Provision;
use crate::provision::admission::{Admitted, Newcomer, parse_address};
use crate::provision::import::{Import, Setup, free_name};
use crate::provision::jobs::Aim;
use catalog::command::{Arguments, CommandError, Table};
use catalog::identity;
use catalog::record::{GroupRecord, Kept, Records};

/// Longest name of a group; it is part of keys, metrics and error texts.
const GROUP_NAME_BYTES_MAX: usize = 64;

/// So many servers one import asks, one after the other.
const IMPORTED_MAX: usize = 64;

/// The commands that change groups.
pub(crate) struct GroupCommands {
    context: Arc<Context>,
    links: Arc<Links>,
    provision: Arc<Provision>,
    import: Import,
}

impl GroupCommands {
    pub(crate) fn new(
        context: &Arc<Context>,
        links: &Arc<Links>,
        provision: &Arc<Provision>,
        import: Import,
    ) -> GroupCommands {
        GroupCommands {
            import,
            context: Arc::clone(context),
            links: Arc::clone(links),
            provision: Arc::clone(provision),
        }
    }
}

impl GroupCommands {
    /// Creating a group that is there with the same description changes nothing.
    pub(crate) async fn group_create(
        &self,
        lead: &Lead,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let name = args.text("group_id");
        check_group_name(args, name)?;
        let description = args.get("description").unwrap_or_default().to_owned();
        let records = self.context.state().records.clone();
        let kind = args.get("kind").unwrap_or("replication");
        let kind = GroupKind::parse(kind)
            .ok_or_else(|| args.bad("kind", kind, "replication, galera or media"))?;
        if let Some(kept) = records.groups.get(name) {
            if args.get("kind").is_some() && kept.value.kind != kind {
                return Err(CommandError::Refused(format!(
                    "group {name} exists as a group of the kind {}; choose another name, or destroy \
                     it first",
                    kept.value.kind.name()
                )));
            }
            if args.get("description").is_some() && kept.value.description != description {
                return Err(CommandError::Refused(format!(
                    "group {name} exists with another description; `group description {name} TEXT` \
                     changes it"
                )));
            }
            return done(Value::Bool(true));
        }
        let group = GroupRecord {
            kind,
            description,
            ..GroupRecord::default()
        };
        let creation = records.create_group(name, &group);
        self.context
            .commit_as(lead, &args.author(), creation)
            .await?;
        done(Value::Bool(true))
    }

    pub(crate) async fn group_destroy(
        &self,
        lead: &Lead,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let name = args.text("group_id");
        let records = self.context.state().records.clone();
        find_group(&records, name)?;
        let servers = records.members(name).count();
        if servers > 0 {
            return Err(CommandError::Refused(format!(
                "group {name} has {servers} servers; take them out first: \
                 `group remove {name} SERVER_ID`, the primary last"
            )));
        }
        let mut moves = records
            .moves
            .iter()
            .filter(|(_, kept)| !kept.value.phase().is_over());
        if let Some((job, _)) = moves.find(|(_, kept)| kept.value.to == name) {
            return Err(CommandError::Refused(format!(
                "job {job} moves a part of a shard map to group {name}; `job abort {job}` first"
            )));
        }
        if let Some(user) = records.declared.user_of(name) {
            return Err(CommandError::Refused(format!(
                "group {name} is used by {user}; take it out there first (`sharding list_shards`, \
                 `sharding list_definitions`, `sharding assign_database`)"
            )));
        }
        // One that gets the same name later has no past.
        let removal = records.remove_group(name).delete(&record_key(name));
        self.context
            .commit_as(lead, &args.author(), removal)
            .await?;
        done(Value::Bool(true))
    }

    pub(crate) async fn group_description(
        &self,
        lead: &Lead,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let name = args.text("group_id");
        let records = self.context.state().records.clone();
        let mut group = find_group(&records, name)?.value.clone();
        args.get("description")
            .unwrap_or_default()
            .clone_into(&mut group.description);
        let change = records.change_group(name, &group);
        self.context.commit_as(lead, &args.author(), change).await?;
        done(Value::Bool(true))
    }

    pub(crate) async fn group_set_active(
        &self,
        lead: &Lead,
        args: &Arguments,
        active: bool,
    ) -> Result<Table, CommandError> {
        let name = args.text("group_id");
        let records = self.context.state().records.clone();
        let mut group = find_group(&records, name)?.value.clone();
        if group.active != active {
            group.active = active;
            let change = records.change_group(name, &group);
            self.context.commit_as(lead, &args.author(), change).await?;
        }
        done(Value::Bool(true))
    }

    pub(crate) async fn group_add(
        &self,
        lead: &Lead,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let (host, port) = parse_address(args.text("address"))?;
        let newcomer = Newcomer {
            group: args.text("group_id").to_owned(),
            host,
            port,
            name: args.get("name").unwrap_or_default().to_owned(),
            timeout_ms: args.timeout_ms(self.context.settings().step_timeout_ms)?,
            update_only: args.switch("update_only")?,
            author: args.author(),
        };
        if newcomer
            .name
            .chars()
            .any(|c| c.is_control() || c.is_whitespace() || c == ':')
        {
            return Err(args.bad("name", &newcomer.name, "without blanks and colons"));
        }
        let waits = args.get("synchronous").is_none() || args.switch("synchronous")?;
        let method = args.method()?;
        let admitted = {
            let _one_at_a_time = self.context.changing.lock().await;
            self.provision.admit(lead, &newcomer).await?
        };
        let why = match admitted {
            Admitted::Member(uuid) => return done(Value::String(uuid)),
            Admitted::NeedsCopy(why) => why,
        };
        let (group, address) = (newcomer.group.clone(), newcomer.address());
        tracing::info!(
            group,
            server = address,
            "it is filled before it joins: {why}"
        );
        let job = self
            .provision
            .start_job(Aim::Join(newcomer), &group, address, None, method)?;
        if !waits {
            return Ok(Table::begun(job.uuid.clone()));
        }
        let uuid = job.outcome().await?;
        Ok(Table::procedure(job.uuid.clone(), uuid.into()))
    }

    /// Logs in at the addresses that the caller named, and nowhere else.
    pub(crate) async fn group_import_topology(
        &self,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let mut addresses = vec![parse_address(args.text("address"))?];
        for other in list(args, "servers") {
            let address = parse_address(other)?;
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        if addresses.len() > IMPORTED_MAX {
            let what = format!("at most {IMPORTED_MAX} addresses");
            return Err(args.bad("servers", &addresses.len().to_string(), &what));
        }
        let number = |text: &str| {
            let number = text.parse::<u64>();
            number.map_err(|_| args.bad("without", text, "a comma list of server_ids"))
        };
        let without = list(args, "without")
            .map(number)
            .collect::<Result<_, _>>()?;
        let group = match args.get("group_id") {
            Some(name) => name.to_owned(),
            None => free_name(&self.context.state().records),
        };
        check_group_name(args, &group)?;
        let setup = Setup {
            group,
            addresses,
            without,
            apply: args.switch("apply")?,
            untried_replication: args.switch("untried_replication")?,
            timeout_ms: args.timeout_ms(self.context.settings().step_timeout_ms)?,
            author: args.author(),
        };
        self.import.import(&setup).await
    }

    /// The primary can only leave as the last server: a group without one takes no writes.
    pub(crate) async fn group_remove(
        &self,
        lead: &Lead,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let name = args.text("group_id");
        let records = self.context.state().records.clone();
        find_group(&records, name)?;
        let found = records.find(args.text("server_id"));
        let Some((id, kept)) = found.filter(|(_, kept)| kept.value.group == name) else {
            return Err(no_server(args.text("server_id"), Some(name)));
        };
        let server = kept.value.clone();
        let kind = records.kind(name);
        let replicated = kind == GroupKind::Replication;
        if replicated && server.status == Status::Primary && records.members(name).count() > 1 {
            return Err(CommandError::Refused(format!(
                "{} is the primary of group {name}; it can only leave as the last server",
                server.address()
            )));
        }
        self.context
            .commit_as(lead, &args.author(), records.remove_server(id))
            .await?;
        // First the primary learns that it has a replica less, or its commits would wait for it.
        self.links.apply_acks(lead, name).await?;
        if server.status != Status::Primary
            && kind != GroupKind::Media
            && let Ok(mut link) = self.links.reach(lead, &server).await
        {
            engine::detach(&mut link, self.context.settings().step_timeout_ms).await?;
        }
        done(Value::Bool(true))
    }
}

/// The words of a comma list.
fn list<'a>(args: &'a Arguments, name: &str) -> impl Iterator<Item = &'a str> {
    let words = args.get(name).unwrap_or_default().split(',');
    words.map(str::trim).filter(|word| !word.is_empty())
}

/// The answer of a procedure that ended well.
pub(crate) fn done(result: Value) -> Result<Table, CommandError> {
    let uuid = identity::uuid().map_err(|error| CommandError::Internal(error.to_string()))?;
    Ok(Table::procedure(uuid, result))
}

/// The group, or an error that says where to look.
pub(super) fn find_group<'a>(
    records: &'a Records,
    name: &str,
) -> Result<&'a Kept<GroupRecord>, CommandError> {
    records
        .groups
        .get(name)
        .ok_or_else(|| CommandError::Refused(no_group(name)))
}

fn check_group_name(args: &Arguments, name: &str) -> Result<(), CommandError> {
    let legal = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    let fits = name.len() <= GROUP_NAME_BYTES_MAX
        && name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && name.chars().all(legal);
    if fits {
        return Ok(());
    }
    let what = "at most 64 letters, digits, or _ - . with a letter or digit first";
    Err(args.bad("group_id", name, what))
}
