//! `group import_topology`: a replication setup that runs becomes a group as it is.
//!
//! Job: ask the servers that an administrator named, say what they are to each other and what is missing,
//! and, when told to, take them over in one change of the store.
//!
//! Invariants: Heddle's account logs in at named addresses only; without the word to apply, nothing is
//! changed on any server or in the store; the store has the whole group or nothing of it.

mod judge;

use std::collections::BTreeSet;
use std::sync::Arc;

use catalog::command::{CommandError, Table};
use catalog::configuration::Author;
use catalog::record::{GroupRecord, Records};
use engine::own_privileges::lacking;
use engine::{Link, Login, Version, needed, requirements, topology};
use farm::{GroupKind, Status};

use self::judge::{Finding, Head, Kind, Named};
use super::admission::{self, Newcomer, START_READ_ONLY};
use super::joining;
use crate::context::Context;
use crate::links::Links;
use crate::observe::Probes;
use crate::observe::accounts::AccountsReader;
use crate::observe::privileges::essential;
use crate::provision::Provision;

/// What an administrator asked for.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    /// The group to be.
    pub(crate) group: String,
    /// Where Heddle may log in; the first is the one that was asked about.
    pub(crate) addresses: Vec<(String, u16)>,
    /// The `server_id`s of replicas that stay outside.
    pub(crate) without: BTreeSet<u64>,
    pub(crate) apply: bool,
    /// The replicas' account need not log in from here: the servers' addresses count, and nobody can try those
    /// without a change of the servers.
    pub(crate) untried_replication: bool,
    pub(crate) timeout_ms: u64,
    pub(crate) author: Author,
}

/// Takes over replication setups.
pub(crate) struct Import {
    context: Arc<Context>,
    links: Arc<Links>,
    accounts: Arc<AccountsReader>,
    probes: Arc<Probes>,
    provision: Arc<Provision>,
}

/// What was found, with the connections by which it was.
struct Found {
    named: Vec<Named>,
    links: Vec<Link>,
    /// Which of them takes the writes.
    primary: Option<usize>,
    findings: Vec<Finding>,
}

impl Import {
    pub(crate) fn new(
        context: &Arc<Context>,
        links: &Arc<Links>,
        accounts: &Arc<AccountsReader>,
        probes: &Arc<Probes>,
        provision: &Arc<Provision>,
    ) -> Import {
        Import {
            context: Arc::clone(context),
            links: Arc::clone(links),
            accounts: Arc::clone(accounts),
            probes: Arc::clone(probes),
            provision: Arc::clone(provision),
        }
    }

    /// Says what a setup is, and takes it over where that was asked for and nothing speaks against it.
    ///
    /// # Errors
    /// The servers are members already, the asked one cannot be reached, or, where the setup is to be taken
    /// over, what has to be mended before.
    pub(crate) async fn import(&self, setup: &Setup) -> Result<Table, CommandError> {
        let records = self.context.state().records.clone();
        if let Some(findings) = members_already(&records, setup)? {
            return Ok(table(&findings));
        }
        check_group(&records, &setup.group)?;
        let mut found = self.look(setup).await?;
        found.findings.sort_by_key(|finding| finding.kind);
        let is_error = |finding: &&Finding| finding.kind == Kind::Error;
        if !setup.apply {
            return Ok(table(&found.findings));
        }
        let errors: Vec<&Finding> = found.findings.iter().filter(is_error).collect();
        let (Some(primary), true) = (found.primary, errors.is_empty()) else {
            let said = errors.iter().map(|it| match it.cure.as_str() {
                "" => format!("{}: {}", it.server, it.text),
                cure => format!("{}: {}; there: {cure}", it.server, it.text),
            });
            let said: Vec<String> = said.collect();
            return Err(CommandError::Refused(format!(
                "nothing was changed, as the setup cannot become group {}: {}",
                setup.group,
                said.join("; ")
            )));
        };
        self.take_over(&records, setup, &mut found, primary).await?;
        for finding in &mut found.findings {
            if finding.kind == Kind::Change {
                finding.kind = Kind::Done;
            }
        }
        Ok(table(&found.findings))
    }

    /// Asks all named servers. Changes nothing.
    async fn look(&self, setup: &Setup) -> Result<Found, CommandError> {
        let mut found = Found {
            named: Vec::new(),
            links: Vec::new(),
            primary: None,
            findings: Vec::new(),
        };
        for (at, (host, port)) in setup.addresses.iter().enumerate() {
            let examined = self.examine(host, *port, setup).await;
            match examined {
                Ok((link, named)) => {
                    found.links.push(link);
                    found.named.push(named);
                }
                // Nothing can be said of a setup whose first server does not answer.
                Err(error) if at == 0 => return Err(error),
                Err(error) => found.findings.push(Finding::new(
                    Kind::Error,
                    &format!("{host}:{port}"),
                    error.to_string(),
                )),
            }
        }
        let primary = match judge::head(&found.named) {
            Head::None(why) => {
                found.findings.push(why);
                return Ok(found);
            }
            Head::Primary(primary) => primary,
        };
        found.primary = Some(primary);
        let farm = self.context.state().records.farm_id.clone();
        let judged = judge::judge(&found.named, primary, &setup.without, &farm);
        found.findings.extend(judged);
        for at in 0..found.named.len() {
            self.equipment(&mut found, at, setup).await?;
        }
        // What cannot follow needs no word on what would be done there.
        if !found.findings.iter().any(|it| it.kind == Kind::Error) {
            self.plan(&mut found, primary, setup).await?;
        }
        Ok(found)
    }

    /// Logs in at an address that was named, and asks what stands there.
    async fn examine(
        &self,
        host: &str,
        port: u16,
        setup: &Setup,
    ) -> Result<(Link, Named), CommandError> {
        let login = self.links.login_asked(host, port);
        let mut link = Link::open(&login, setup.timeout_ms).await?;
        let place = topology::place(&mut link, setup.timeout_ms).await?;
        let named = Named {
            host: host.to_owned(),
            port,
            place,
        };
        Ok((link, named))
    }

    /// What a server lacks: privileges, settings, an account for replication, PROXY headers.
    async fn equipment(
        &self,
        found: &mut Found,
        at: usize,
        setup: &Setup,
    ) -> Result<(), CommandError> {
        let (named, link) = (&found.named[at], &mut found.links[at]);
        let (address, timeout_ms) = (named.address(), setup.timeout_ms);
        let all = &mut found.findings;
        let lacks = lacking(link, &essential(), timeout_ms).await?;
        if !lacks.is_empty() {
            all.push(Finding::new(Kind::Error, &address, lacks.text()).by(lacks.cure()));
        }
        let (needed, advised) = admission::settings_missing(link, timeout_ms).await?;
        let settings = needed.iter().map(|it| (Kind::Error, it));
        for (kind, missing) in settings.chain(advised.iter().map(|it| (Kind::Warning, it))) {
            let variable = missing.requirement.variable;
            let is = missing.found.as_deref().unwrap_or("not there");
            let text = format!("{variable} is {is}: {}", missing.requirement.reason);
            all.push(Finding::new(kind, &address, text).by(missing.cure()));
        }
        if let Some(advice) = requirements::unordered_tables(link, timeout_ms).await? {
            all.push(Finding::new(Kind::Warning, &address, advice));
        }
        if found.primary == Some(at) {
            let text = "when it starts it has to stay read-only until Heddle opens it";
            all.push(Finding::new(Kind::Warning, &address, text).by(START_READ_ONLY));
        }
        if named.place.observation.acks.is_none() {
            let text = "it has no semi-sync: the router holds each commit's OK until a replica has it, and \
                        commits that do not come through the router are lost with the server";
            let statement = install_semi_sync(&named.place.version);
            all.push(Finding::new(Kind::Warning, &address, text).by(statement));
        }
        let newcomer = newcomer(setup, named);
        let taken = self
            .accounts
            .takes_headers(&newcomer.host, newcomer.port, newcomer.timeout_ms);
        if let Err(error) = taken.await {
            all.push(Finding::new(Kind::Error, &address, error.to_string()));
        }
        let replicates = self.replication_account(named, timeout_ms).await;
        all.extend(replicates.map(|text| {
            let user = &self.replica_login(named).user;
            let account = format!("'{user}'@'%'");
            let make = format!(
                "CREATE USER {account} IDENTIFIED BY '…'; {}",
                needed::replication_grant(&account)
            );
            let kind = match setup.untried_replication {
                true => Kind::Warning,
                false => Kind::Error,
            };
            Finding::new(kind, &address, text).by(make)
        }));
        Ok(())
    }

    /// Why the account by which replicas will log in here after a failover cannot; `None` when it can.
    async fn replication_account(&self, named: &Named, timeout_ms: u64) -> Option<String> {
        let login = self.replica_login(named);
        let why = match Link::open(&login, timeout_ms).await {
            Err(error) => error.to_string(),
            Ok(mut link) => match topology::may_replicate(&mut link, timeout_ms).await {
                Ok(true) => return None,
                Ok(false) => "it lacks REPLICATION SLAVE".to_owned(),
                Err(error) => error.to_string(),
            },
        };
        Some(format!(
            "the account {} (replication_user), by which the others follow this server after a failover, \
             cannot do so from this router's address: {why}; where it may do so from the addresses of the servers \
             alone, say untried_replication=true",
            login.user
        ))
    }

    /// How a replica logs in here, at an address that was named.
    fn replica_login(&self, named: &Named) -> Login {
        let asked = self.links.login_asked(&named.host, named.port);
        self.links.as_replica(asked)
    }

    /// What taking over will change on the servers.
    async fn plan(
        &self,
        found: &mut Found,
        primary: usize,
        setup: &Setup,
    ) -> Result<(), CommandError> {
        let timeout_ms = setup.timeout_ms;
        let leader = found.named[primary].clone();
        let login = self.links.login_asked(&leader.host, leader.port);
        let mut lead = Link::open(&login, timeout_ms).await?;
        let shown = self.replica_login(&leader);
        let cannot_follow = self.replication_account(&leader, timeout_ms).await;
        for (named, link) in found.named.iter().zip(&mut found.links) {
            let address = named.address();
            let all = &mut found.findings;
            if address == leader.address() {
                continue;
            }
            let fits = joining::fits(link, &mut lead, &login, &setup.group, timeout_ms).await;
            match fits {
                Ok(None) => {}
                Ok(Some(why)) => all.push(Finding::new(Kind::Error, &address, why)),
                Err(error) => all.push(Finding::new(Kind::Error, &address, error.to_string())),
            }
            if !named.place.observation.read_only {
                let statement = topology::refuse_writes_statement(named.place.version.engine);
                let text = "it takes writes, which a replica must not";
                all.push(Finding::new(Kind::Change, &address, text).by(statement));
            }
            let follows = named.place.follows.first();
            let follows = follows.filter(|it| engine::replication::follows(&it.replica, &shown));
            if follows.is_none() {
                // It would be left without a primary.
                if let Some(why) = cannot_follow.clone() {
                    all.push(Finding::new(Kind::Error, &leader.address(), why));
                }
                let statement = topology::follow_statement(&named.place.version, &shown);
                let text = "it follows its primary under another address, or not by GTID";
                all.push(Finding::new(Kind::Change, &address, text).by(statement));
            } else if named.place.acknowledges == Some(false) {
                let text = "it does not acknowledge what it receives; its receiver begins anew, so that it \
                            does";
                all.push(Finding::new(Kind::Change, &address, text));
            }
        }
        let replicas = found.named.len() - 1;
        let text = format!(
            "group {} is made of it and {replicas} replicas; its commits wait for a replica's \
             acknowledgement; `group activate {}` then has Heddle act when it fails",
            setup.group, setup.group
        );
        let row = Finding::new(Kind::Change, &leader.address(), text);
        found.findings.push(row);
        Ok(())
    }

    /// Brings the servers into a group's shape, and makes the group.
    async fn take_over(
        &self,
        records: &Records,
        setup: &Setup,
        found: &mut Found,
        primary: usize,
    ) -> Result<(), CommandError> {
        let timeout_ms = setup.timeout_ms;
        let lead = &self.context.leadership.must_lead()?;
        let mut all = Vec::new();
        for (at, (named, link)) in found.named.iter().zip(&found.links).enumerate() {
            let status = match at == primary {
                true => Status::Primary,
                false => Status::Replica,
            };
            let (version, seen) = (&named.place.version, &named.place.observation);
            let key = self.probes.pin_of(link, version.engine);
            let newcomer = newcomer(setup, named);
            all.push(admission::record(&newcomer, version, seen, status, key)?);
        }
        for (at, link) in found.links.iter_mut().enumerate() {
            self.links.act(lead, link).await?;
            if at == primary {
                engine::keep_statements(link, timeout_ms).await?;
                continue;
            }
            if let Some(why) = self
                .provision
                .join(lead, link, &all[primary], timeout_ms)
                .await?
            {
                return Err(CommandError::Refused(format!(
                    "server {} cannot follow {}: {why}",
                    all[at].address(),
                    all[primary].address()
                )));
            }
        }
        let change = match records.groups.get(&setup.group) {
            Some(kept) => records.change_group(&setup.group, &kept.value),
            None => records.create_group(&setup.group, &GroupRecord::default()),
        };
        let (first, change) = records.add_servers(change, &all);
        for (id, link) in (first..).zip(&mut found.links) {
            let observation = engine::probe(link, false, timeout_ms).await?;
            // Known before the snapshot shows the server, so that it serves from the first moment.
            self.probes.answered(id, observation);
        }
        self.context.commit_as(lead, &setup.author, change).await?;
        self.links.apply_acks(lead, &setup.group).await
    }
}

/// How `group add` would name this server.
fn newcomer(setup: &Setup, named: &Named) -> Newcomer {
    Newcomer {
        group: setup.group.clone(),
        host: named.host.clone(),
        port: named.port,
        name: String::new(),
        timeout_ms: setup.timeout_ms,
        update_only: false,
        author: setup.author.clone(),
    }
}

/// What says that all named servers are members of one group already, which is as good as an import.
fn members_already(records: &Records, setup: &Setup) -> Result<Option<Vec<Finding>>, CommandError> {
    let mut members = Vec::new();
    let mut strangers = Vec::new();
    for (host, port) in &setup.addresses {
        let address = format!("{host}:{port}");
        match records.find(&address) {
            Some((_, kept)) => members.push((address, kept.value.group.clone())),
            None => strangers.push(address),
        }
    }
    let Some((first, group)) = members.first().cloned() else {
        return Ok(None);
    };
    if !strangers.is_empty() || members.iter().any(|(_, other)| *other != group) {
        return Err(CommandError::Refused(format!(
            "server {first} is in group {group} already; `group add {group} HOST:PORT` adds one more to it"
        )));
    }
    let row = |(address, group): &(String, String)| {
        let text =
            format!("it is in group {group} already; `group lookup_servers {group}` shows it");
        Finding::new(Kind::Found, address, text)
    };
    Ok(Some(members.iter().map(row).collect()))
}

/// The group must be none yet, or an empty one whose servers replicate.
fn check_group(records: &Records, group: &str) -> Result<(), CommandError> {
    if records.members(group).next().is_some() {
        return Err(CommandError::Refused(format!(
            "group {group} has servers already; name another group, or add them by `group add {group} \
             HOST:PORT`"
        )));
    }
    if records.kind(group) != GroupKind::Replication {
        return Err(CommandError::Refused(format!(
            "group {group} is one of the kind galera; name another group"
        )));
    }
    Ok(())
}

/// The first name of the form `gN` that no group has.
pub(crate) fn free_name(records: &Records) -> String {
    let mut names = (1u32..).map(|number| format!("g{number}"));
    let free = names.find(|name| !records.groups.contains_key(name));
    free.unwrap_or_default()
}

fn table(findings: &[Finding]) -> Table {
    Table {
        rows: findings.iter().map(Finding::cells).collect(),
        ..Table::new(&["server", "kind", "finding", "cure"])
    }
}

/// The statements that install semi-sync.
fn install_semi_sync(version: &Version) -> &'static str {
    if version.number >= 80_026 {
        "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'; \
         INSTALL PLUGIN rpl_semi_sync_replica SONAME 'semisync_replica.so'"
    } else {
        "INSTALL PLUGIN rpl_semi_sync_master SONAME 'semisync_master.so'; \
         INSTALL PLUGIN rpl_semi_sync_slave SONAME 'semisync_slave.so'"
    }
}
