//! Reaching servers on behalf of commands, and keeping a group's wait for acknowledgements right.

use engine::replication::{ACK_WAIT_FOREVER_MS, AcksSet, log_end};
use engine::{Known, Link, Login, term};
use farm::{Engine, GroupKind};

use crate::context::acks;
use crate::context::seen::Seen;
use crate::leadership::lead::Lead;
use crate::links::Links;
use catalog::command::CommandError;
use catalog::event::Event;
use catalog::record::ServerRecord;

/// Where a member of the farm is, and what it is known by. Only what the farm's records say
/// becomes one, so that nobody else is logged in at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) key: Option<farm::ServerKey>,
    pub(crate) engine: Engine,
}

impl From<&ServerRecord> for Place {
    fn from(record: &ServerRecord) -> Place {
        Place {
            host: record.host.clone(),
            port: record.port,
            key: record.key(),
            engine: record.engine,
        }
    }
}

impl From<&farm::Server> for Place {
    fn from(server: &farm::Server) -> Place {
        Place {
            host: server.host.to_string(),
            port: server.port,
            key: server.key,
            engine: server.engine,
        }
    }
}

impl Links {
    /// How Heddle logs in to a member of the farm.
    pub(crate) fn login(&self, place: impl Into<Place>) -> Login {
        let place = place.into();
        let known = place.key.map_or(Known::Nothing, Known::Key);
        Login {
            engine: Some(place.engine),
            ..self.login_at(place.host, place.port, known)
        }
    }

    /// The same for the address that an administrator named to have its server made a member, or filled.
    /// Nothing else logs in where no member is.
    pub(crate) fn login_asked(&self, host: &str, port: u16) -> Login {
        let snapshot = self.context.snapshot_now();
        let member = snapshot
            .groups
            .iter()
            .flat_map(|group| &group.servers)
            .find(|server| *server.host == *host && server.port == port);
        match member {
            Some(server) => self.login(&**server),
            None => self.login_at(host.to_owned(), port, Known::FirstUse),
        }
    }

    fn login_at(&self, host: String, port: u16, known: Known) -> Login {
        let settings = self.context.settings();
        let credentials = &settings.credentials;
        Login {
            host,
            port,
            user: credentials.user.clone(),
            password: credentials.password.clone(),
            tls: credentials.tls.clone(),
            known,
            engine: None,
        }
    }

    /// The link that was kept, or a new one, for a probe.
    pub(crate) async fn link(
        &self,
        kept: Option<Link>,
        place: impl Into<Place>,
    ) -> Result<Link, engine::Error> {
        match kept {
            Some(link) => Ok(link),
            None => {
                Link::open(
                    &self.login(place),
                    self.context.settings().observation.probe_timeout_ms,
                )
                .await
            }
        }
    }

    /// How a replica logs in to its primary.
    pub(crate) fn replica_login(&self, primary: &ServerRecord) -> Login {
        self.as_replica(self.login_at(primary.host.clone(), primary.port, Known::Nothing))
    }

    /// The same login by the replicas' account.
    pub(crate) fn as_replica(&self, login: Login) -> Login {
        let settings = self.context.settings();
        let credentials = &settings.credentials;
        Login {
            user: credentials.replication_user.clone(),
            password: credentials.replication_password.clone(),
            ..login
        }
    }

    /// A connection for one command, which is the leader's.
    pub(crate) async fn reach(
        &self,
        lead: &Lead,
        server: &ServerRecord,
    ) -> Result<Link, CommandError> {
        let login = self.login(server);
        let mut link = Link::open(&login, self.context.settings().step_timeout_ms).await?;
        self.act(lead, &mut link).await?;
        Ok(link)
    }

    /// Lets the server check before each statement of this link that no other router has begun to
    /// lead. One that is alone asks for nothing.
    pub(crate) async fn act(&self, lead: &Lead, link: &mut Link) -> Result<(), engine::Error> {
        if !self.context.leadership.stands(lead) {
            return Err(engine::Error::Deposed {
                server: link.address().to_owned(),
                number: 0,
            });
        }
        match lead.number() {
            None => Ok(()),
            Some(number) => term::act(link, number, self.context.settings().step_timeout_ms).await,
        }
    }

    /// Makes the primary of a group wait for as many replicas as the group now has. A primary that
    /// is known to be away gets it when it is restored.
    pub(crate) async fn apply_acks(&self, lead: &Lead, group: &str) -> Result<(), CommandError> {
        let (primary, wanted) = {
            let state = self.context.state();
            if state.records.kind(group) == GroupKind::Galera {
                return Ok(());
            }
            let Some((id, primary)) = state.records.primary(group) else {
                return Ok(());
            };
            if state.seen.get(&id).is_some_and(Seen::is_dead) {
                return Ok(());
            }
            let wanted = acks::wait_ms(
                &state.records,
                group,
                self.context.settings().failover.last_replica_wait_ms,
            );
            (primary.clone(), wanted)
        };
        let timeout_ms = self.context.settings().step_timeout_ms;
        let mut link = self.reach(lead, &primary).await?;
        let set = engine::set_acks(&mut link, wanted, timeout_ms).await?;
        self.tell_acks(&primary, set, wanted);
        Ok(())
    }

    /// Lets a server that follows its primary receive what clients were told without it, while the primary's
    /// commits wait for it. Done before it counts as a replica: a change of primary takes what all replicas hold
    /// for all that was acknowledged.
    ///
    /// Where another one counts already, nothing was acknowledged without that one. Who has much to receive counts
    /// before it has all of it, after one step's time.
    pub(crate) async fn await_acknowledged(
        &self,
        lead: &Lead,
        link: &mut Link,
        primary: &ServerRecord,
    ) -> Result<(), CommandError> {
        let (group, settings) = (&primary.group, self.context.settings());
        let timeout_ms = settings.step_timeout_ms;
        let wait_ms = settings.failover.last_replica_wait_ms;
        if self.wanted_ack_wait_ms(group).is_some() || wait_ms != ACK_WAIT_FOREVER_MS {
            return Ok(());
        }
        let mut leader = self.reach(lead, primary).await?;
        let received = async {
            if engine::set_acks(&mut leader, Some(wait_ms), timeout_ms).await? != AcksSet::On {
                return Ok(());
            }
            let end = log_end::log_end(&mut leader, timeout_ms).await?;
            log_end::receive(link, &end, timeout_ms).await
        };
        if let Err(error) = received.await {
            // The server does not count as a replica, so no commit may wait for it.
            self.apply_acks(lead, group).await?;
            return Err(error.into());
        }
        Ok(())
    }

    /// Tells when commits should wait for a replica but the server cannot make them.
    pub(crate) fn tell_acks(&self, primary: &ServerRecord, set: AcksSet, wanted: Option<u64>) {
        if wanted.is_some() && set == AcksSet::Unavailable {
            let detail = format!(
                "{} has no semi-sync: the router holds each commit's OK until a replica has it; commits \
                 that do not come through the router are lost with the server, unless the plugins \
                 semisync_master and semisync_slave are installed on every server of group {}",
                primary.address(),
                primary.group
            );
            let event = Event::now("acks_unavailable", &primary.group, detail);
            self.context
                .happened(event.of(&primary.uuid, primary.address()));
        }
    }

    /// How long commits of a group's primary should wait for a replica.
    pub(crate) fn wanted_ack_wait_ms(&self, group: &str) -> Option<u64> {
        acks::wait_ms(
            &self.context.state().records,
            group,
            self.context.settings().failover.last_replica_wait_ms,
        )
    }
}
