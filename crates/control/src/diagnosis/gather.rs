//! The facts: of all servers at once, each over a link of its own, and of all routers.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use doctor::facts::{ConsumerFacts, SinkFacts, StoreFacts};
use doctor::{FarmFacts, Finding, GroupFacts, RouterFacts, ServerFacts, findings};
use engine::needed::Feature;
use engine::{Link, Login, examination};
use farm::shard::UNEVEN;
use farm::sharding::{Mapped, Placement};
use farm::{Group, GroupKind, Server, Snapshot};
use futures_util::future::join_all;

use super::{Doctor, Wanted};
use crate::peers::questions::{FACTS, GROUP, cells};
use crate::subscriptions::NEAR_PERCENT;
use catalog::command::Call;
use catalog::event::epoch_ms;
use catalog::sink::{SINK, SINK_PROGRESS, SinkProgress, SinkRecord};
use catalog::subscription::all;

/// Groups, and servers of each, that are looked at at a time.
const GROUPS_AT_A_TIME: usize = 8;
const SERVERS_AT_A_TIME: usize = 8;

/// See [`doctor::RouterFacts::clock_ahead_ms`].
const CLOCK_TAKES_MAX_MS: u64 = 1000;

/// A key of the state store that is read to see whether it answers.
const SOME_KEY: &str = "/farm";

/// The store has so long.
const STORE_WAIT: Duration = Duration::from_secs(5);

impl Doctor {
    /// What is wrong with what is wanted.
    pub(super) async fn findings(&self, wanted: &Wanted) -> Vec<Finding> {
        let mut all = findings(&self.facts(wanted).await);
        if let Some((host, port)) = &wanted.newcomer {
            // Its group was looked at to compare it with.
            let address = format!("{host}:{port}");
            all.retain(|it| it.of == address);
        } else {
            all.retain(|it| wanted.has(&it.of, &it.group));
        }
        all
    }

    async fn facts(&self, wanted: &Wanted) -> FarmFacts {
        let snapshot = self.context.snapshot();
        let mut farm = FarmFacts {
            settings: self.settings(),
            ..FarmFacts::default()
        };
        for (database, table, placement) in snapshot.sharding.iter().flat_map(|it| it.declared()) {
            let map = match placement {
                Placement::Sharded(table) => table.map.to_string(),
                Placement::Global { .. } => String::new(),
            };
            farm.sharded.insert(format!("{database}.{table}"), map);
        }
        let asks_for = |group: &Group| {
            let mut servers = group.servers.iter().map(|it| it.address());
            match wanted.newcomer {
                Some(_) => wanted.names.iter().any(|it| **it == *group.name),
                None => wanted.has("", &group.name) || servers.any(|it| wanted.has(&it, "")),
            }
        };
        let groups: Vec<&Arc<Group>> = snapshot.groups.iter().filter(|it| asks_for(it)).collect();
        for some in groups.chunks(GROUPS_AT_A_TIME) {
            let read = join_all(some.iter().map(|group| self.group(group)));
            farm.groups.extend(read.await);
        }
        if let Some((host, port)) = &wanted.newcomer {
            let login = self.links.login_asked(host, *port);
            let (facts, _) = self.server(&login).await;
            match farm.groups.first_mut() {
                Some(group) => group.servers.push(facts),
                None => farm.groups.push(GroupFacts {
                    servers: vec![facts],
                    ..GroupFacts::default()
                }),
            }
        }
        farm.sinks = self.sinks().await;
        farm.late_consumers = self.late_consumers();
        let others = wanted.newcomer.is_none();
        farm.routers = self.routers(others).await;
        farm
    }

    /// Sinks that do not deliver, or have dead letters.
    async fn sinks(&self) -> Vec<SinkFacts> {
        let store = self.context.store();
        let records = all::<SinkRecord>(store, SINK).await.unwrap_or_default();
        let progress = all::<SinkProgress>(store, SINK_PROGRESS).await;
        let progress: BTreeMap<String, SinkProgress> =
            progress.unwrap_or_default().into_iter().collect();
        let facts = records.into_iter().filter_map(|(name, record)| {
            let progress = progress.get(&name)?;
            let error = if record.paused { "" } else { &*progress.error };
            (!error.is_empty() || progress.letters > 0).then(|| SinkFacts {
                name,
                stuck: progress.stuck == Some(record.resumed),
                error: error.to_owned(),
                letters: progress.letters,
            })
        });
        facts.collect()
    }

    /// Consumers that are near a gap, or in one, as this router measured it.
    fn late_consumers(&self) -> Vec<ConsumerFacts> {
        let lags = self.subscriptions.get().map(|it| it.lags());
        let lags = lags.unwrap_or_default();
        let late = lags.all().filter_map(|(name, lag)| {
            let expiry_percent = lag.expiry_percent.unwrap_or(0);
            let is_late = lag.gap.is_some() || expiry_percent >= NEAR_PERCENT;
            is_late.then(|| ConsumerFacts {
                name,
                expiry_percent,
                gap: lag.gap_text().unwrap_or_default(),
            })
        });
        late.collect()
    }

    /// The settings in force, by name.
    fn settings(&self) -> BTreeMap<String, String> {
        let shown = self.context.settings().documents.settings();
        let each = shown.into_iter().map(|it| (it.name.to_owned(), it.value));
        each.collect()
    }

    async fn group(&self, group: &Arc<Group>) -> GroupFacts {
        let mut read: Vec<(ServerFacts, Option<Link>)> = Vec::new();
        for some in group.servers.chunks(SERVERS_AT_A_TIME) {
            let each = some.iter().map(|server| self.member(server, group.kind));
            read.extend(join_all(each).await);
        }
        let primary = group.primary().map(|it| it.address());
        let (mut servers, mut links): (Vec<_>, Vec<_>) = read.into_iter().unzip();
        let first = servers
            .iter()
            .position(|it| Some(&it.address) == primary.as_ref());
        if let Some(first) = first
            && let Some(mut primary) = links[first].take()
            && group.kind == GroupKind::Replication
        {
            for (server, link) in servers.iter_mut().zip(&mut links) {
                let Some(link) = link else { continue };
                let timeout_ms = self.context.settings().step_timeout_ms;
                match engine::divergence(link, &mut primary, timeout_ms).await {
                    Ok(found) => server.errant = found.errant,
                    // The primary's link is of no use after an error of its own.
                    Err(error) => {
                        tracing::debug!(server = server.address, "positions not compared: {error}");
                        break;
                    }
                }
            }
        }
        GroupFacts {
            name: group.name.to_string(),
            galera: group.kind != GroupKind::Replication,
            media: group.kind == GroupKind::Media,
            active: group.active,
            servers,
            overfull: overfull(&self.context.snapshot_now(), &group.name),
        }
    }

    /// A member, with what the farm knows of it beside what it says of itself.
    async fn member(&self, server: &Server, kind: GroupKind) -> (ServerFacts, Option<Link>) {
        let (mut facts, link) = self.server(&self.links.login(server)).await;
        facts.status = Some(server.status);
        facts.lag_ms = server.lag_us().map(|us| us / 1000);
        let record = self.context.record_of(server.id.0);
        facts.never_primary = record.is_some_and(|it| it.never_primary);
        if kind != GroupKind::Replication {
            // Nothing is done on them that needs more than an account that sees.
            facts.lacks.clear();
        }
        (facts, link)
    }

    async fn server(&self, login: &Login) -> (ServerFacts, Option<Link>) {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let used: Vec<Feature> = self.own_account.features_used();
        let read = async {
            let mut link = Link::open(login, timeout_ms).await?;
            let facts = examination::examine(&mut link, &used, timeout_ms).await?;
            Ok::<_, engine::Error>((facts, link))
        };
        let near = is_near(&login.host);
        match read.await {
            Ok((mut facts, link)) => {
                facts.near = near;
                if let (true, Some(dir)) = (near, facts.variables.get("datadir").cloned()) {
                    facts.disk = self.about(move |it| it.disk(&dir)).await.flatten();
                }
                (facts, Some(link))
            }
            Err(error) => {
                let facts = ServerFacts {
                    address: format!("{}:{}", login.host, login.port),
                    unreachable: error.to_string(),
                    near,
                    ..ServerFacts::default()
                };
                (facts, None)
            }
        }
    }

    /// Asks about this router's machine, whose file systems may be slow.
    async fn about<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&dyn super::Premises) -> T + Send + 'static,
    ) -> Option<T> {
        let premises = Arc::clone(self.premises.get()?);
        let asked = tokio::task::spawn_blocking(move || ask(&*premises));
        asked.await.ok()
    }

    /// This router first, then the others, unless they are of no interest.
    async fn routers(&self, others: bool) -> Vec<RouterFacts> {
        let Some(own) = self.own_facts().await else {
            return Vec::new();
        };
        let mut all = vec![own];
        if !others {
            return all;
        }
        let before = epoch_ms();
        let answers = self.peers.ask_all(&Call::new(GROUP, FACTS, &[])).await;
        let took = epoch_ms().saturating_sub(before);
        let ahead = |clock_ms: u64| clock_ms as i64 - (before + took / 2) as i64;
        for (peer, answer) in answers {
            let facts = answer.and_then(|table| cells::<RouterFacts>(&table));
            let facts = facts.map(|mut facts| facts.pop().unwrap_or_default());
            all.push(match facts {
                Ok(facts) => RouterFacts {
                    // Answers that took longer say nothing of clocks.
                    clock_ahead_ms: (took <= CLOCK_TAKES_MAX_MS).then(|| ahead(facts.clock_ms)),
                    ..facts
                },
                Err(error) => RouterFacts {
                    name: peer.name.clone(),
                    version: peer.version.clone(),
                    unreachable: error.to_string(),
                    ..RouterFacts::default()
                },
            });
        }
        all
    }

    /// What this router says of itself; nothing where nobody knows it.
    pub(crate) async fn own_facts(&self) -> Option<RouterFacts> {
        let facts = self.about(|it| it.router()).await?;
        let asked = Instant::now();
        let answer = tokio::time::timeout(STORE_WAIT, self.context.store().get(SOME_KEY)).await;
        let error = match answer {
            Ok(Ok(_)) => String::new(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", STORE_WAIT.as_secs()),
        };
        Some(RouterFacts {
            name: self.peers.names().into_iter().next().unwrap_or_default(),
            version: self.context.settings().version.clone(),
            settings: self.settings(),
            clock_ms: epoch_ms(),
            store: StoreFacts {
                error,
                answered_ms: Some(asked.elapsed().as_millis() as u64),
                ..facts.store
            },
            ..facts
        })
    }
}

/// Whether a host is this machine, as far as its address says so.
fn is_near(host: &str) -> bool {
    let address = host.parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|it| it.to_canonical().is_loopback())
}

/// The maps that give this group the largest part of their keys, far more than an even one.
fn overfull(snapshot: &Snapshot, group: &str) -> BTreeMap<String, (u32, u32)> {
    let maps = snapshot.sharding.iter().flat_map(|it| it.maps());
    let of = |mapped: &Arc<Mapped>| {
        let shares = mapped.map.shares(UNEVEN)?;
        let (largest, share) = shares
            .iter()
            .max_by(|one, other| one.1.total_cmp(&other.1))?;
        let percent = |share: f64| (share * 100.0).round() as u32;
        let even = percent(1.0 / shares.len() as f64);
        let own = (**largest == *group).then(|| (percent(*share), even))?;
        Some((mapped.map.id.to_string(), own))
    };
    maps.filter_map(of).collect()
}
