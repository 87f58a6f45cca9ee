//! Whether a server may join a group, and how it does.

use std::net::{IpAddr, Ipv6Addr};

use engine::{Link, Missing, Observation, Version, requirements};
use farm::{GroupKind, Mode, Status};

use crate::context::records::no_group;
use crate::leadership::lead::Lead;
use crate::provision::Provision;
use catalog::command::CommandError;
use catalog::configuration::Author;
use catalog::event::Event;
use catalog::identity;
use catalog::record::{Records, ServerRecord};

/// What `group add` was told.
#[derive(Clone, Debug)]
pub(crate) struct Newcomer {
    pub(crate) group: String,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Empty when the address shall do.
    pub(crate) name: String,
    /// Limit for each step on a server.
    pub(crate) timeout_ms: u64,
    /// Record it, do not touch it.
    pub(crate) update_only: bool,
    /// Who wants it, for the history.
    pub(crate) author: Author,
}

/// What became of a newcomer.
pub(crate) enum Admitted {
    /// It is in the group; its UUID.
    Member(String),
    /// It is empty and cannot catch up by replication; why.
    NeedsCopy(String),
}

impl Newcomer {
    pub(crate) fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

impl Provision {
    /// Adds a server to a group: as its primary when it is the first, else as a replica of the
    /// primary. Adding it a second time changes nothing.
    pub(crate) async fn admit(
        &self,
        lead: &Lead,
        newcomer: &Newcomer,
    ) -> Result<Admitted, CommandError> {
        let context = &self.context;
        let (host, port, timeout_ms) = (&newcomer.host, newcomer.port, newcomer.timeout_ms);
        let records = context.state().records.clone();
        if let Some(uuid) = already_there(&records, newcomer)? {
            // An earlier addition may have ended between the record and this.
            self.links.apply_acks(lead, &newcomer.group).await?;
            return Ok(Admitted::Member(uuid));
        }
        let login = self.links.login_asked(host, port);
        let mut link = Link::open(&login, timeout_ms).await?;
        if records.kind(&newcomer.group) == GroupKind::Media {
            return self.admit_media(lead, &records, newcomer, &mut link).await;
        }
        let replicates = records.groups[&newcomer.group].value.kind == GroupKind::Replication;
        if replicates && !newcomer.update_only && link.version().objection().is_none() {
            self.own_account
                .account_suffices(&mut link, timeout_ms)
                .await?;
        }
        self.links.act(lead, &mut link).await?;
        self.accounts.takes_headers(host, port, timeout_ms).await?;
        let seen = engine::probe(&mut link, false, timeout_ms).await?;
        let version = link.version().clone();
        if !replicates {
            let uuid = self
                .admit_node(lead, &records, newcomer, &mut link, seen)
                .await?;
            return Ok(Admitted::Member(uuid));
        }
        objections(&records, newcomer, &version, &seen)?;
        self.server_id_is_free(&records, newcomer, &seen)?;
        let advice = if newcomer.update_only {
            Vec::new()
        } else {
            let advice = settings_of(&mut link, newcomer, &seen).await?;
            engine::keep_statements(&mut link, timeout_ms).await?;
            advice
        };
        let primary = records
            .primary(&newcomer.group)
            .map(|(_, server)| server.clone());
        let status = match primary {
            Some(_) => Status::Replica,
            None => Status::Primary,
        };
        let placed = self.place(lead, newcomer, &mut link, &seen, primary.as_ref());
        if let Some(why) = placed.await? {
            return Ok(Admitted::NeedsCopy(why));
        }
        let key = self.probes.pin_of(&link, version.engine);
        let record = record(newcomer, &version, &seen, status, key)?;
        let (id, transaction) = records.add_server(&record);
        let observation = engine::probe(&mut link, false, timeout_ms).await?;
        // Known before the snapshot shows the server, so that it serves from the first moment.
        self.probes.answered(id, observation);
        context
            .commit_as(lead, &newcomer.author, transaction)
            .await?;
        if !newcomer.update_only {
            self.links.apply_acks(lead, &newcomer.group).await?;
        }
        self.advise(&record, &advice);
        Ok(Admitted::Member(record.uuid))
    }

    fn advise(&self, record: &ServerRecord, advice: &[String]) {
        if !advice.is_empty() {
            let detail = format!("{} should be told: {}", record.address(), advice.join("; "));
            let event = Event::now("settings_advised", &record.group, detail);
            self.context
                .happened(event.of(&record.uuid, record.address()));
        }
    }

    /// Lets a server follow the primary, or opens it where there is none yet. Gives the reason when it has to be
    /// filled first.
    async fn place(
        &self,
        lead: &Lead,
        newcomer: &Newcomer,
        link: &mut Link,
        seen: &Observation,
        primary: Option<&ServerRecord>,
    ) -> Result<Option<String>, CommandError> {
        let timeout_ms = newcomer.timeout_ms;
        match primary {
            _ if newcomer.update_only => Ok(None),
            Some(primary) => self.join(lead, link, primary, timeout_ms).await,
            None => open_first(link, seen, timeout_ms).await.map(|()| None),
        }
    }

    /// Refuses a server whose `server_id` another one of the group has: replicas would ignore its
    /// events, or throw each other out.
    pub(crate) fn server_id_is_free(
        &self,
        records: &Records,
        newcomer: &Newcomer,
        seen: &Observation,
    ) -> Result<(), CommandError> {
        let state = self.context.state();
        for (id, member) in records.members(&newcomer.group) {
            let other = state
                .seen
                .get(&id)
                .and_then(|seen| seen.observation.as_ref());
            if other.is_some_and(|other| other.server_id == seen.server_id) {
                return Err(CommandError::Refused(format!(
                    "server {} has server_id {}, as {} of group {} has (is it the same server?); \
                     give it a server_id of its own in its configuration and restart it",
                    newcomer.address(),
                    seen.server_id,
                    member.address(),
                    newcomer.group
                )));
            }
        }
        Ok(())
    }
}

/// Makes the first server of a group take writes. A server that follows another one is part of
/// something else.
async fn open_first(
    link: &mut Link,
    seen: &Observation,
    timeout_ms: u64,
) -> Result<(), CommandError> {
    if let Some(replica) = &seen.replica {
        return Err(CommandError::Refused(format!(
            "server {} follows {}:{}, so it cannot be a group's primary; add that server first, or \
             run STOP SLAVE; RESET SLAVE ALL on this one",
            link.address(),
            replica.primary_host,
            replica.primary_port
        )));
    }
    // No replica yet, so nothing could acknowledge.
    engine::make_primary(link, None, timeout_ms).await?;
    Ok(())
}

/// The UUID of a server that is in the group already; an error when it is in another one.
fn already_there(records: &Records, newcomer: &Newcomer) -> Result<Option<String>, CommandError> {
    let Newcomer { group, name, .. } = newcomer;
    if !records.groups.contains_key(group) {
        return Err(CommandError::Refused(no_group(group)));
    }
    let address = newcomer.address();
    if let Some((_, found)) = records.find(&address) {
        let found = &found.value;
        if found.group != *group {
            return Err(CommandError::Refused(format!(
                "server {address} is in group {} already; `group remove {} {address}` first",
                found.group, found.group
            )));
        }
        return Ok(Some(found.uuid.clone()));
    }
    if !name.is_empty() && records.find(name).is_some() {
        return Err(CommandError::Refused(format!(
            "another server is called {name} already; choose another name"
        )));
    }
    Ok(None)
}

/// What speaks against a server by its version or identity.
fn objections(
    records: &Records,
    newcomer: &Newcomer,
    version: &Version,
    seen: &Observation,
) -> Result<(), CommandError> {
    let address = newcomer.address();
    let refuse = |why: String| Err(CommandError::Refused(why));
    if let Some(objection) = version.objection() {
        return refuse(format!("server {address} cannot join: {objection}"));
    }
    if let Some((_, other)) = records.members(&newcomer.group).next()
        && other.engine != version.engine
    {
        return refuse(format!(
            "server {address} runs {} but group {} runs {}, and as their GTIDs differ neither \
             can follow the other; put it into a group of its own",
            version.engine.name(),
            newcomer.group,
            other.engine.name()
        ));
    }
    if let Some((_, primary)) = records.primary(&newcomer.group)
        && let Some(theirs) = Version::parse(&primary.version)
        && theirs.release() > version.release()
    {
        return refuse(format!(
            "server {address} runs {version}, older than the primary's {theirs}, whose statements it \
             may not understand; upgrade it"
        ));
    }
    if seen.server_id == 0 {
        return refuse(format!(
            "server {address} has server_id 0; give it a server_id of its own in its configuration \
             and restart it"
        ));
    }
    if let Some(uuid) = &seen.uuid
        && let Some((_, twin)) = records.find(uuid)
    {
        let twin = &twin.value;
        return refuse(format!(
            "server {address} has the UUID of {} in group {}; if it is a copy of that server, \
             remove auto.cnf from its data directory and restart it",
            twin.address(),
            twin.group
        ));
    }
    let other_primary = records.members(&newcomer.group).next().is_some()
        && records.primary(&newcomer.group).is_none();
    if other_primary {
        return refuse(format!(
            "group {} has no primary that server {address} could follow; see `group health {}`",
            newcomer.group, newcomer.group
        ));
    }
    Ok(())
}

/// Refuses a server without the settings that a farm cannot do without. Gives the cures of what is
/// only weaker than it could be.
async fn settings_of(
    link: &mut Link,
    newcomer: &Newcomer,
    seen: &Observation,
) -> Result<Vec<String>, CommandError> {
    let (essential, advised) = settings_missing(link, newcomer.timeout_ms).await?;
    let cures = |missing: &[Missing]| -> Vec<String> {
        let cure = |it: &Missing| format!("{} ({})", it.cure(), it.requirement.reason);
        missing.iter().map(cure).collect()
    };
    if !essential.is_empty() {
        let address = newcomer.address();
        return Err(CommandError::Refused(format!(
            "server {address} cannot join: {}",
            cures(&essential).join("; ")
        )));
    }
    let mut advice = cures(&advised);
    advice.extend(requirements::unordered_tables(link, newcomer.timeout_ms).await?);
    if !seen.read_only {
        // Nobody can ask for it later: a promotion changes it.
        advice.push(START_READ_ONLY.to_owned());
    }
    Ok(advice)
}

/// What to say of a server that takes writes when it starts.
pub(crate) const START_READ_ONLY: &str = "set read_only = ON in its configuration (a server that starts must \
                                          not take writes before it is told to)";

/// The settings that a server lacks: those that a farm cannot do without, and those that make it weaker.
pub(crate) async fn settings_missing(
    link: &mut Link,
    timeout_ms: u64,
) -> Result<(Vec<Missing>, Vec<Missing>), engine::Error> {
    let missing = requirements::missing(link, timeout_ms).await?;
    // Advice on what a server has no variable for (init_rpl_role on some versions) is a guess.
    Ok(missing
        .into_iter()
        .filter(|missing| missing.requirement.essential || missing.found.is_some())
        .partition(|missing| missing.requirement.essential))
}

pub(crate) fn record(
    newcomer: &Newcomer,
    version: &Version,
    seen: &Observation,
    status: Status,
    key: Option<farm::ServerKey>,
) -> Result<ServerRecord, CommandError> {
    let uuid = match &seen.uuid {
        Some(uuid) => uuid.clone(),
        None => identity::uuid().map_err(|error| CommandError::Internal(error.to_string()))?,
    };
    let name = if newcomer.name.is_empty() {
        newcomer.address()
    } else {
        newcomer.name.clone()
    };
    Ok(ServerRecord {
        uuid,
        name,
        group: newcomer.group.clone(),
        host: newcomer.host.clone(),
        port: newcomer.port,
        status,
        mode: if status == Status::Primary {
            Mode::ReadWrite
        } else {
            Mode::ReadOnly
        },
        weight: 1.0,
        engine: version.engine,
        version: version.text.clone(),
        never_primary: false,
        being_filled: false,
        certificate: key.map(|key| catalog::server_key::text(&key)),
    })
}

/// Reads `HOST:PORT` or `[IPV6]:PORT`; the port may be left out (3306).
pub(crate) fn parse_address(text: &str) -> Result<(String, u16), CommandError> {
    let bad = |why: &str| {
        CommandError::Usage(format!(
            "{text:?} is no server address: {why}; write HOST:PORT, for example 10.0.0.5:3306"
        ))
    };
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, port) = rest
            .split_once(']')
            .ok_or_else(|| bad("the ] is missing"))?;
        host.parse::<Ipv6Addr>()
            .map_err(|_| bad("no IPv6 address stands in the brackets"))?;
        (host, port.strip_prefix(':').unwrap_or(port))
    } else if text.parse::<IpAddr>().is_ok() {
        (text, "")
    } else {
        text.rsplit_once(':').unwrap_or((text, ""))
    };
    let legal = |c: char| c.is_ascii_alphanumeric() || "-._:%".contains(c);
    if host.is_empty() || host.len() > 255 || !host.chars().all(legal) {
        return Err(bad("the host name is empty or has odd characters"));
    }
    let port = if port.is_empty() {
        Ok(3306)
    } else {
        port.parse::<u16>()
    };
    match port {
        Ok(port) if port > 0 => Ok((host.to_ascii_lowercase(), port)),
        _ => Err(bad("the port is no number from 1 to 65535")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::samples::observation;
    use catalog::record::samples::{records, server};

    fn seen(gtid: &str) -> Observation {
        Observation {
            gtid: gtid.to_owned(),
            ..observation()
        }
    }

    fn newcomer(group: &str, port: u16, name: &str) -> Newcomer {
        Newcomer {
            group: group.to_owned(),
            host: "127.0.0.1".to_owned(),
            port,
            name: name.to_owned(),
            timeout_ms: 1000,
            update_only: false,
            author: Author::default(),
        }
    }

    #[test]
    fn addresses() {
        let read = |text: &str| parse_address(text).map_err(|error| error.to_string());
        assert_eq!(
            read("DB1.example:3307"),
            Ok(("db1.example".to_owned(), 3307))
        );
        assert_eq!(read("10.0.0.1"), Ok(("10.0.0.1".to_owned(), 3306)));
        assert_eq!(read("[::1]:3307"), Ok(("::1".to_owned(), 3307)));
        assert_eq!(read("::1"), Ok(("::1".to_owned(), 3306)));
        for bad in [
            "", ":3306", "a b:1", "h:0", "h:70000", "h:x", "[::1", "[db]:1", "h';--:1",
        ] {
            let error = read(bad).expect_err(bad);
            assert!(error.contains("HOST:PORT"), "{error}");
        }
    }

    #[test]
    fn the_same_server_twice() {
        let records = records("g", &[server("g", 3307, Status::Primary)]);
        let twice = already_there(&records, &newcomer("g", 3307, ""));
        assert_eq!(twice, Ok(Some(server("g", 3307, Status::Primary).uuid)));
        let mut elsewhere = records.clone();
        elsewhere
            .groups
            .insert("h".to_owned(), records.groups["g"].clone());
        let error = already_there(&elsewhere, &newcomer("h", 3307, "")).expect_err("in g");
        assert!(
            error
                .to_string()
                .contains("`group remove g 127.0.0.1:3307` first"),
            "{error}"
        );
        let error = already_there(&records, &newcomer("g", 3308, "s3307")).expect_err("name");
        assert!(error.to_string().contains("choose another name"), "{error}");
        let error = already_there(&records, &newcomer("x", 1, "")).expect_err("no group");
        assert!(error.to_string().contains("there is no group x"), "{error}");
    }

    #[test]
    fn versions_and_ids_that_do_not_fit() {
        let records = records("g", &[server("g", 3307, Status::Primary)]);
        let check = |version: &str, seen: &Observation| {
            let version = Version::parse(version).expect("a version");
            objections(&records, &newcomer("g", 3308, ""), &version, seen)
                .map_err(|error| error.to_string())
        };
        assert_eq!(check("10.11.6-MariaDB", &seen("")), Ok(()));
        assert!(
            check("10.1.1-MariaDB", &seen(""))
                .expect_err("old")
                .contains("upgrade it")
        );
        assert!(
            check("8.0.36", &seen(""))
                .expect_err("MySQL")
                .contains("group of its own")
        );
        let zero = Observation {
            server_id: 0,
            ..seen("")
        };
        assert!(
            check("10.11.6-MariaDB", &zero)
                .expect_err("0")
                .contains("server_id 0")
        );
        let twin = Observation {
            uuid: Some(server("g", 3307, Status::Primary).uuid),
            ..seen("")
        };
        assert!(
            check("10.11.6-MariaDB", &twin)
                .expect_err("twin")
                .contains("auto.cnf")
        );
    }
}
