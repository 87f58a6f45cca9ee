//! Making a group writable again after its servers were restarted.
//!
//! Every server starts read-only. When none of a group takes writes and all answer, one is made the
//! primary: the recorded one, unless a replica holds more. A replica can hold more because a primary
//! that crashes undoes, at its start, commits that it had not finished but that a replica had received,
//! and even acknowledged. For that reason every replica must be heard before the choice; one that is
//! gone for good is set FAULTY by the operator. This is for groups that are not active; those that are
//! have a failover machine.

use engine::{Link, Observation, Thread};
use farm::{Engine, Mode, Position, Status};
use meta::Transaction;

use crate::context::records::no_group;
use crate::leadership::lead::Lead;
use crate::provision::Rejoin;
use catalog::command::CommandError;
use catalog::event::Event;
use catalog::record::{Records, ServerRecord};

/// One server of the group while it is restored.
struct Candidate {
    id: u32,
    record: ServerRecord,
    link: Link,
    seen: Observation,
}

impl Rejoin {
    /// Makes a group writable again after its servers were restarted (servers start read-only). The
    /// recorded primary takes the writes, unless another server holds more: then that one does. Gives
    /// the primary's UUID. Idempotent.
    pub async fn restore_primary(&self, group: &str) -> Result<String, CommandError> {
        let _one_at_a_time = self.context.changing.lock().await;
        let lead = &self.context.leadership.must_lead()?;
        let records = self.context.state().records.clone();
        if let Some(uuid) = machine_restores(&records, group) {
            return Ok(uuid);
        }
        let (mut candidates, absent) = self.candidates(lead, &records, group).await?;
        let writers: Vec<usize> = (0..candidates.len())
            .filter(|&at| !candidates[at].seen.read_only)
            .collect();
        match (writers.as_slice(), absent) {
            (&[only], _) if candidates[only].record.status == Status::Primary => {
                return self.keep_leading(&mut candidates[only]).await;
            }
            ([], None) => self.drain_what_is_ahead(&mut candidates).await?,
            ([], Some(absent)) => return Err(absent),
            (several, _) => return Err(wrong_writers(group, &candidates, several)),
        }
        let leader = choose(&candidates).ok_or_else(|| diverged(group, &candidates))?;
        let leader = candidates.remove(leader);
        self.lead_again(lead, &records, leader, candidates).await
    }

    /// Connects to every server that counts. What speaks against a choice without the last one that
    /// did not answer comes beside those that did.
    async fn candidates(
        &self,
        lead: &Lead,
        records: &Records,
        group: &str,
    ) -> Result<(Vec<Candidate>, Option<CommandError>), CommandError> {
        if !records.groups.contains_key(group) {
            return Err(CommandError::Refused(no_group(group)));
        }
        if records.primary(group).is_none() {
            return Err(CommandError::Refused(format!(
                "group {group} has no primary; add a server with `group add {group} HOST:PORT`"
            )));
        }
        let mut candidates = Vec::new();
        let mut absent = None;
        for (id, record) in records.members(group) {
            if record.status == Status::Faulty {
                continue;
            }
            match self.candidate(lead, id, record).await {
                Ok(candidate) => candidates.push(candidate),
                Err(error) => absent = Some(missed(record, &error)),
            }
        }
        Ok((candidates, absent))
    }

    async fn candidate(
        &self,
        lead: &Lead,
        id: u32,
        record: &ServerRecord,
    ) -> Result<Candidate, CommandError> {
        let mut link = self.links.reach(lead, record).await?;
        let seen = engine::probe(&mut link, false, self.context.settings().step_timeout_ms).await?;
        Ok(Candidate {
            id,
            record: record.clone(),
            link,
            seen,
        })
    }

    /// The recorded primary takes writes already; only what was set until it restarted may be out of
    /// date.
    async fn keep_leading(&self, primary: &mut Candidate) -> Result<String, CommandError> {
        let wanted = self.links.wanted_ack_wait_ms(&primary.record.group);
        let timeout_ms = self.context.settings().step_timeout_ms;
        engine::keep_statements(&mut primary.link, timeout_ms).await?;
        let set = engine::set_acks(&mut primary.link, wanted, timeout_ms).await?;
        self.links.tell_acks(&primary.record, set, wanted);
        self.probes.answered(primary.id, primary.seen.clone());
        Ok(primary.record.uuid.clone())
    }

    /// Lets replicas that received more than the recorded primary has apply it, so that it counts.
    /// Where nothing is ahead, nothing is stopped.
    async fn drain_what_is_ahead(&self, candidates: &mut [Candidate]) -> Result<(), CommandError> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let primary = candidates
            .iter()
            .find(|candidate| candidate.record.status == Status::Primary)
            .and_then(Candidate::executed);
        for candidate in candidates.iter_mut() {
            // An operator's STOP SLAVE stands.
            let applies = candidate
                .seen
                .replica
                .as_ref()
                .is_some_and(|replica| replica.sql != Thread::Stopped);
            let covered = match (&primary, candidate.received()) {
                (Some(primary), Some(received)) => primary.covers(&received),
                _ => false,
            };
            if applies && !covered {
                engine::drain(&mut candidate.link, timeout_ms).await?;
                candidate.seen = engine::probe(&mut candidate.link, false, timeout_ms).await?;
            }
        }
        Ok(())
    }

    /// Makes the leader the primary and lets the others follow it. The order: what the leader
    /// received is applied (before), it follows nobody, the record says so, the others follow it, and
    /// only then it takes writes.
    async fn lead_again(
        &self,
        lead: &Lead,
        records: &Records,
        mut leader: Candidate,
        others: Vec<Candidate>,
    ) -> Result<String, CommandError> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        engine::detach(&mut leader.link, timeout_ms).await?;
        let mended = self.mend_branches(&leader.record, [&mut leader.link]);
        if let Err(why) = mended.await? {
            return Err(CommandError::Refused(why));
        }
        if leader.record.status != Status::Primary {
            self.context
                .commit(lead, change_of_primary(records, &leader, &others))
                .await?;
        }
        let wanted = self.links.wanted_ack_wait_ms(&leader.record.group);
        let primary = self.links.replica_login(&leader.record);
        for mut other in others {
            let follows = |replica: &engine::Replica| {
                replica.primary_host == primary.host && replica.primary_port == primary.port
            };
            // One that follows already is left alone, also when an operator stopped it.
            if other.seen.replica.as_ref().is_some_and(follows) {
                continue;
            }
            if let Err(error) = engine::make_replica(&mut other.link, &primary, timeout_ms).await {
                let record = &other.record;
                let event = Event::now("replica_lost", &record.group, error.to_string());
                self.context
                    .happened(event.of(&record.uuid, record.address()));
            }
        }
        let set = engine::make_primary(&mut leader.link, wanted, timeout_ms).await?;
        self.links.tell_acks(&leader.record, set, wanted);
        let seen = engine::probe(&mut leader.link, true, timeout_ms).await?;
        self.probes.answered(leader.id, seen);
        let detail = format!(
            "{} takes the writes of its group again",
            leader.record.address()
        );
        let event = Event::now("primary_restored", &leader.record.group, detail);
        self.context
            .happened(event.of(&leader.record.uuid, leader.record.address()));
        Ok(leader.record.uuid)
    }
}

impl Candidate {
    fn engine(&self) -> Engine {
        self.link.version().engine
    }

    /// What it has applied; `None` when that cannot be read.
    fn executed(&self) -> Option<Position> {
        Position::parse(self.engine(), &self.seen.gtid)
    }

    /// What its relay log holds.
    fn received(&self) -> Option<Position> {
        let received = self
            .seen
            .replica
            .as_ref()
            .map_or("", |replica| &replica.received);
        Position::parse(self.engine(), received)
    }
}

/// The recorded primary of an active group, which is its failover machine's matter.
fn machine_restores(records: &Records, group: &str) -> Option<String> {
    let active = records
        .groups
        .get(group)
        .is_some_and(|kept| kept.value.active);
    let primary = records.primary(group).filter(|_| active);
    primary.map(|(_, record)| record.uuid.clone())
}

/// The candidate that holds everything that any of them holds: the recorded primary if it does, else
/// a replica before a spare. `None` when no one does.
fn choose(candidates: &[Candidate]) -> Option<usize> {
    let holds: Vec<(Status, Option<Position>)> = candidates
        .iter()
        .map(|candidate| (candidate.record.status, candidate.executed()))
        .collect();
    choose_by_position(&holds)
}

fn choose_by_position(holds: &[(Status, Option<Position>)]) -> Option<usize> {
    let covers_all = |position: &Position| {
        holds
            .iter()
            .all(|(_, other)| other.as_ref().is_some_and(|other| position.covers(other)))
    };
    // Fabric's numbers grow with the standing: spare, replica, primary. The first of equals wins.
    holds
        .iter()
        .enumerate()
        .filter(|(_, (_, position))| position.as_ref().is_some_and(covers_all))
        .max_by_key(|&(index, (status, _))| (*status as u8, std::cmp::Reverse(index)))
        .map(|(index, _)| index)
}

fn change_of_primary(records: &Records, leader: &Candidate, others: &[Candidate]) -> Transaction {
    let promoted = ServerRecord {
        status: Status::Primary,
        mode: Mode::ReadWrite,
        ..leader.record.clone()
    };
    let mut transaction = records.change_server(Transaction::new(), leader.id, &promoted);
    for other in others
        .iter()
        .filter(|other| other.record.status == Status::Primary)
    {
        let demoted = ServerRecord {
            status: Status::Replica,
            mode: Mode::ReadOnly,
            ..other.record.clone()
        };
        transaction = records.change_server(transaction, other.id, &demoted);
    }
    transaction
}

/// Why nothing is chosen while this server does not answer.
fn missed(record: &ServerRecord, error: &CommandError) -> CommandError {
    let (group, address) = (&record.group, record.address());
    let role = record.status.fabric_name();
    let way_out = if record.status == Status::Primary {
        String::new()
    } else {
        format!("; if it is gone for good, `server set_status {address} FAULTY`")
    };
    CommandError::Refused(format!(
        "group {group} takes no writes until its {role} {address} answers, because it may hold commits \
         that the others lack: {error}{way_out}"
    ))
}

fn wrong_writers(group: &str, candidates: &[Candidate], writers: &[usize]) -> CommandError {
    let addresses: Vec<String> = writers
        .iter()
        .map(|&at| candidates[at].record.address())
        .collect();
    CommandError::Refused(format!(
        "group {group}: {} take writes, though only its primary may; run SET GLOBAL read_only=1 on \
         the others and look at what was written there",
        addresses.join(" and ")
    ))
}

fn diverged(group: &str, candidates: &[Candidate]) -> CommandError {
    let positions: Vec<String> = candidates
        .iter()
        .map(|candidate| {
            format!(
                "{} at {:?}",
                candidate.record.address(),
                candidate.seen.gtid
            )
        })
        .collect();
    CommandError::Refused(format!(
        "group {group}: no server holds everything that the others hold ({}); set the one to give up \
         FAULTY with `server set_status`, then clone it anew",
        positions.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose_of(holds: &[(Status, &str)]) -> Option<usize> {
        let read = |text| Position::parse(Engine::MariaDb, text);
        let holds: Vec<_> = holds
            .iter()
            .map(|&(status, gtid)| (status, read(gtid)))
            .collect();
        choose_by_position(&holds)
    }

    #[test]
    fn the_recorded_primary_leads_unless_another_holds_more() {
        use Status::{Primary, Replica, Spare};
        let equal = [(Replica, "0-1-9"), (Primary, "0-1-9"), (Replica, "0-1-8")];
        assert_eq!(choose_of(&equal), Some(1));
        let ahead = [(Primary, "0-1-9"), (Replica, "0-1-10"), (Replica, "0-1-9")];
        assert_eq!(choose_of(&ahead), Some(1));
        let spare = [(Primary, "0-1-9"), (Spare, "0-1-10"), (Replica, "0-1-10")];
        assert_eq!(choose_of(&spare), Some(2), "a replica before a spare");
        let twins = [(Primary, "0-1-9"), (Replica, "0-1-10"), (Replica, "0-1-10")];
        assert_eq!(choose_of(&twins), Some(1), "the first of equals");
    }

    #[test]
    fn nobody_leads_when_histories_diverged_or_cannot_be_read() {
        use Status::{Primary, Replica};
        assert_eq!(choose_of(&[(Primary, "0-1-9"), (Replica, "1-2-1")]), None);
        assert_eq!(choose_of(&[(Primary, "0-1-9"), (Replica, "odd")]), None);
        assert_eq!(choose_of(&[]), None);
    }
}
