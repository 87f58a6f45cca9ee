//! What the connections of one client have had acknowledged: at the level `client` each of them reads
//! what any of them wrote.
//!
//! A client is a number, made of what [`farm::ClientScope`] says. Two clients of one number are taken for
//! one, and so are all that there is no room for: their reads need more than they must, never less. For
//! the same reason a client that has left is forgotten only by adding what it wrote to
//! [`WritesByClient::others`], with which every new client begins.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use farm::Position;
use farm::{Group, Snapshot};

/// Clients that are told apart; more are taken for one.
pub const CLIENTS_MAX: usize = 65_536;

/// Those who have left are looked for when there are so many, and then whenever there are twice as many
/// as were found to be there.
const SWEEP_AT: usize = 256;

/// What reads of a group must have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Required {
    /// [`ClientWrites::version`] when this was so.
    pub version: u64,
    pub position: Option<Position>,
    /// How often something was written of which `position` does not know; 0 once it does.
    pub doubts: u64,
    /// Something was written where no GTID tells of it.
    pub unlogged: bool,
}

/// What one client has written to one group.
#[derive(Clone, Debug)]
struct Written {
    group: Arc<str>,
    /// The timeline that `position` is of.
    timeline: u32,
    position: Option<Position>,
    doubts: u64,
    /// So many of them are in `position`.
    proven: u64,
    unlogged: bool,
}

impl Written {
    fn new(group: &Group) -> Written {
        Written {
            group: group.name.clone(),
            timeline: group.timeline(),
            position: None,
            doubts: 0,
            proven: 0,
            unlogged: false,
        }
    }

    /// The group may have lost a primary since: what survived of the position is in what the new one
    /// had when it took over, and the rest never comes.
    fn turn(&mut self, group: &Group) {
        if self.timeline < group.timeline() {
            self.timeline = group.timeline();
            if self.position.is_some() {
                self.position = group.forks.last().cloned();
            }
        }
    }

    /// Adds a position; false when there was nothing to add.
    fn join(&mut self, group: &Group, position: &Position) -> bool {
        match &mut self.position {
            Some(known) if known.covers(position) => return false,
            Some(known) => {
                let executed = position.may_have_gaps().then(|| group.executed()).flatten();
                known.join_among(position, executed.as_ref().map(|it| &it.position));
            }
            none => *none = Some(position.clone()),
        }
        true
    }

    fn is_unproved(&self) -> bool {
        self.doubts > self.proven
    }

    /// Adds what was acknowledged on this timeline.
    fn note(&mut self, group: &Group, timeline: u32, position: &Position) -> bool {
        match timeline == self.timeline {
            true => self.join(group, position),
            // The group has lost a primary in between: this may be lost, or not.
            false => self.doubt(),
        }
    }

    fn doubt(&mut self) -> bool {
        self.doubts += 1;
        true
    }

    fn note_unlogged(&mut self) -> bool {
        !std::mem::replace(&mut self.unlogged, true)
    }
}

/// What one client has had acknowledged, group by group.
#[derive(Debug)]
pub struct ClientWrites {
    number: u64,
    version: AtomicU64,
    /// What versions are taken from.
    changes: Arc<AtomicU64>,
    writes: Mutex<Writes>,
}

#[derive(Debug, Default)]
struct Writes {
    groups: Vec<Written>,
    /// The version of the last change that was made here, and not told by another router.
    own: u64,
}

/// Where a change comes from: routers tell each other what is their own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    Here,
    Elsewhere,
}

impl ClientWrites {
    fn new(number: u64, changes: &Arc<AtomicU64>, groups: Vec<Written>) -> ClientWrites {
        let version = match groups.is_empty() {
            true => 0,
            false => changes.fetch_add(1, Relaxed) + 1,
        };
        ClientWrites {
            number,
            version: AtomicU64::new(version),
            changes: Arc::clone(changes),
            writes: Mutex::new(Writes { groups, own: 0 }),
        }
    }

    /// Differs whenever something was written since; 0 while nothing was. Every read asks for it.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Acquire)
    }

    /// A write of this position is about to be acknowledged.
    pub fn note(&self, group: &Group, position: &Position) {
        let timeline = group.timeline();
        self.change(From::Here, group, |it| it.note(group, timeline, position));
    }

    /// A write is about to be acknowledged whose position is not known.
    pub fn doubt(&self, group: &Group) {
        self.change(From::Here, group, Written::doubt);
    }

    /// A write is about to be acknowledged that no GTID will ever tell of.
    pub fn note_unlogged(&self, group: &Group) {
        self.change(From::Here, group, Written::note_unlogged);
    }

    /// The primary had this position after so many doubts.
    pub fn prove(&self, group: &Group, doubts: u64, position: &Position) {
        self.change(From::Here, group, |written| {
            written.proven = written.proven.max(doubts);
            written.join(group, position)
        });
    }

    /// What its reads of this group must have.
    pub fn required(&self, group: &Group) -> Required {
        let mut writes = self.lock();
        let version = self.version();
        let mut groups = writes.groups.iter_mut();
        let Some(written) = groups.find(|it| it.group == group.name) else {
            return Required {
                version,
                ..Required::default()
            };
        };
        written.turn(group);
        Required {
            version,
            position: written.position.clone(),
            doubts: match written.is_unproved() {
                true => written.doubts,
                false => 0,
            },
            unlogged: written.unlogged,
        }
    }

    /// Changes what is known of a group; `change` is false when nothing is new.
    fn change(&self, from: From, group: &Group, change: impl FnOnce(&mut Written) -> bool) {
        let mut writes = self.lock();
        let groups = &mut writes.groups;
        let at = groups.iter().position(|it| it.group == group.name);
        let at = at.unwrap_or_else(|| {
            groups.push(Written::new(group));
            groups.len() - 1
        });
        let written = &mut groups[at];
        written.turn(group);
        if change(written) {
            // Counted under the lock: who has read the count and takes the lock sees the change.
            let version = self.changes.fetch_add(1, Relaxed) + 1;
            self.version.store(version, Release);
            if from == From::Here {
                writes.own = version;
            }
        }
    }

    /// Takes over what another one has.
    fn take_over(&self, other: &ClientWrites, snapshot: &Snapshot) {
        for theirs in &mut other.lock().groups {
            let Some(group) = snapshot.group(&theirs.group) else {
                continue;
            };
            theirs.turn(group);
            self.change(From::Elsewhere, group, |written| {
                written.doubts += u64::from(theirs.is_unproved());
                written.unlogged |= theirs.unlogged;
                if let Some(position) = &theirs.position {
                    written.note(group, theirs.timeline, position);
                }
                true
            });
        }
    }

    /// Every server that may ever give an old row has all of it.
    fn is_everywhere(&self, snapshot: &Snapshot) -> bool {
        self.lock().groups.iter().all(|written| {
            let Some(group) = snapshot.group(&written.group) else {
                return true;
            };
            let primary = group.primary().map(|server| server.id);
            let mut others = group.servers.iter().filter(|it| Some(it.id) != primary);
            let sure = !written.is_unproved() && !written.unlogged;
            sure && written
                .position
                .as_ref()
                .is_none_or(|position| others.all(|server| server.fresh.covers(position)))
        })
    }

    /// The list is whole after each step, whatever its holder did.
    fn lock(&self) -> MutexGuard<'_, Writes> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A client's writes to one group, as routers tell each other of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub client: u64,
    pub group: Arc<str>,
    pub timeline: u32,
    pub position: Option<Position>,
    /// Reads must have what the primary has now.
    pub unproved: bool,
    pub unlogged: bool,
}

/// The writes of all clients of this router, and of those of other routers that it was told of.
#[derive(Debug)]
pub struct WritesByClient {
    changes: Arc<AtomicU64>,
    known: Mutex<KnownClients>,
    /// Of the clients that have left, and those that there is no room for.
    others: Arc<ClientWrites>,
}

#[derive(Debug)]
struct KnownClients {
    by_number: HashMap<u64, Arc<ClientWrites>>,
    sweep_at: usize,
    /// There was no room once: who is not known is one of the others from then on.
    full: bool,
}

/// The number of those who have none of their own. No scope makes it: it is that of no parts.
const OTHERS: u64 = 0;

impl Default for WritesByClient {
    fn default() -> WritesByClient {
        // Nobody who has asked asks with 0 again.
        let changes = Arc::new(AtomicU64::new(1));
        WritesByClient {
            others: Arc::new(ClientWrites::new(OTHERS, &changes, Vec::new())),
            changes,
            known: Mutex::new(KnownClients {
                by_number: HashMap::new(),
                sweep_at: SWEEP_AT,
                full: false,
            }),
        }
    }
}

impl WritesByClient {
    /// The writes of this client, which is here for as long as somebody holds them.
    pub fn of(&self, number: u64, snapshot: &Snapshot) -> Arc<ClientWrites> {
        self.of_bounded(number, snapshot, CLIENTS_MAX)
    }

    fn of_bounded(&self, number: u64, snapshot: &Snapshot, most: usize) -> Arc<ClientWrites> {
        let mut known = self.lock();
        if let Some(writes) = known.by_number.get(&number) {
            return Arc::clone(writes);
        }
        if number == OTHERS || known.full {
            return Arc::clone(&self.others);
        }
        if known.by_number.len() >= known.sweep_at.min(most) {
            self.forget_left(&mut known, snapshot, |it| it.is_everywhere(snapshot));
            if known.by_number.len() >= most {
                self.forget_left(&mut known, snapshot, |_| true);
            }
            known.sweep_at = SWEEP_AT.max(known.by_number.len() * 2);
            if known.by_number.len() >= most {
                known.full = true;
                return Arc::clone(&self.others);
            }
        }
        let groups = self.others.lock().groups.clone();
        let writes = Arc::new(ClientWrites::new(number, &self.changes, groups));
        known.by_number.insert(number, Arc::clone(&writes));
        writes
    }

    /// Forgets clients that nobody holds and of which this is so.
    fn forget_left(
        &self,
        known: &mut KnownClients,
        snapshot: &Snapshot,
        also: impl Fn(&ClientWrites) -> bool,
    ) {
        known.by_number.retain(|_, writes| {
            let left = Arc::strong_count(writes) == 1 && also(writes);
            if left {
                self.others.take_over(writes, snapshot);
            }
            !left
        });
    }

    /// How many clients are told apart.
    pub fn len(&self) -> usize {
        self.lock().by_number.len()
    }

    /// True while no client is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What was acknowledged here behind this number of changes, and the number to ask with next time;
    /// with 0 all that is known.
    pub fn changed_since(&self, since: u64) -> (Vec<Told>, u64) {
        let mut told = Vec::new();
        let until = self.changes.load(Acquire);
        if until == since {
            return (told, until);
        }
        let known = self.lock();
        for client in known.by_number.values().chain([&self.others]) {
            let writes = client.lock();
            if since > 0 && writes.own <= since {
                continue;
            }
            told.extend(writes.groups.iter().map(|written| Told {
                client: client.number,
                group: written.group.clone(),
                timeline: written.timeline,
                position: written.position.clone(),
                unproved: written.is_unproved(),
                unlogged: written.unlogged,
            }));
        }
        (told, until)
    }

    /// Another router has told of a client's writes.
    pub fn heed(&self, told: &Told, snapshot: &Snapshot) {
        let Some(group) = snapshot.group(&told.group) else {
            return;
        };
        let writes = self.of(told.client, snapshot);
        writes.change(From::Elsewhere, group, |written| {
            let mut news = told.unproved && !written.is_unproved() && written.doubt();
            news |= told.unlogged && written.note_unlogged();
            let position = told.position.as_ref();
            news | position.is_some_and(|position| written.note(group, told.timeline, position))
        });
    }

    /// Nobody can say what another router has acknowledged: the next read of each client, of those to
    /// come too, has what the primary has then.
    pub fn doubt_all(&self, snapshot: &Snapshot) {
        let known = self.lock();
        for client in known.by_number.values().chain([&self.others]) {
            for group in &snapshot.groups {
                client.change(From::Elsewhere, group, Written::doubt);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, KnownClients> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use farm::{Engine, Status, samples};

    fn at(text: &str) -> Position {
        Position::parse(Engine::MySql, text).expect("a position")
    }

    const A: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
    const B: &str = "4e11fa47-71ca-11e1-9e33-c80aa9429562";

    fn farm(forks: &[&str]) -> Snapshot {
        let server = |id, status| {
            let mut server = samples::server(id, "g", status);
            server.engine = Engine::MySql;
            server
        };
        let servers = vec![server(1, Status::Primary), server(2, Status::Faulty)];
        let mut group = samples::group("g", servers);
        group.forks = forks.iter().map(|text| at(text)).collect();
        samples::snapshot("farm-1", Instant::now(), vec![group])
    }

    #[test]
    fn what_one_connection_wrote_is_required_of_all() {
        let (farm, all) = (farm(&[]), WritesByClient::default());
        let group = &farm.groups[0];
        let (one, other) = (all.of(7, &farm), all.of(8, &farm));
        assert_eq!((one.version(), one.required(group).position), (0, None));
        one.note(group, &at(&format!("{A}:5")));
        one.note(group, &at(&format!("{A}:6")));
        let again = all.of(7, &farm).required(group);
        assert_eq!(again.version, one.version());
        assert_eq!(again.position, Some(at(&format!("{A}:5-6"))));
        assert_eq!(other.required(group).position, None);
        let before = one.version();
        one.note(group, &at(&format!("{A}:5")));
        assert_eq!(one.version(), before, "nothing new");
    }

    #[test]
    fn doubts_last_until_the_primary_was_asked_after_them() {
        let (farm, all) = (farm(&[]), WritesByClient::default());
        let (group, writes) = (&farm.groups[0], all.of(7, &farm));
        writes.doubt(group);
        let asked = writes.required(group).doubts;
        writes.doubt(group);
        writes.prove(group, asked, &at(&format!("{A}:1-9")));
        let left = writes.required(group);
        assert!(left.doubts > asked && left.position.is_some());
        writes.prove(group, left.doubts, &at(&format!("{A}:1-9")));
        assert_eq!(writes.required(group).doubts, 0);
        writes.note_unlogged(group);
        assert!(writes.required(group).unlogged);
    }

    #[test]
    fn what_was_lost_with_a_primary_is_not_waited_for() {
        let (before, all) = (farm(&[]), WritesByClient::default());
        let writes = all.of(7, &before);
        writes.note(&before.groups[0], &at(&format!("{A}:90-95")));
        let fork = format!("{A}:1-92");
        let after = farm(&[&fork]);
        let group = &after.groups[0];
        assert_eq!(writes.required(group).position, Some(at(&fork)));
        writes.note(group, &at(&format!("{B}:1")));
        assert_eq!(
            writes.required(group).position,
            Some(at(&format!("{fork},{B}:1")))
        );
        // A core that has not seen the change yet tells of a commit from before it.
        writes.note(&before.groups[0], &at(&format!("{A}:96")));
        let left = writes.required(group);
        assert!(left.doubts > 0 && !left.position.expect("one").covers(&at(&format!("{A}:96"))));
    }

    #[test]
    fn who_left_is_forgotten_and_what_he_wrote_is_not() {
        let (farm, all) = (farm(&[]), WritesByClient::default());
        let group = &farm.groups[0];
        let stays = all.of_bounded(1, &farm, 4);
        for client in 2..=4 {
            let writes = all.of_bounded(client, &farm, 4);
            writes.note(group, &at(&format!("{A}:{client}")));
        }
        let new = all.of_bounded(5, &farm, 4);
        assert_eq!(all.len(), 2);
        assert_eq!(new.required(group).position, Some(at(&format!("{A}:2-4"))));
        assert_eq!(stays.required(group).position, None);
        // Nobody leaves, so there is room for no more: the rest is one client.
        let held: Vec<_> = (6..20).map(|n| all.of_bounded(n, &farm, 4)).collect();
        held[10].note(group, &at(&format!("{A}:9")));
        assert_eq!(all.len(), 4);
        assert!(
            held[13]
                .required(group)
                .position
                .expect("one")
                .covers(&at(&format!("{A}:9")))
        );
    }

    #[test]
    fn routers_tell_each_other_what_is_their_own() {
        let farm = farm(&[]);
        let group = &farm.groups[0];
        let (here, there) = (WritesByClient::default(), WritesByClient::default());
        let writes = here.of(7, &farm);
        writes.note(group, &at(&format!("{A}:1")));
        let (told, until) = here.changed_since(0);
        for one in &told {
            there.heed(one, &farm);
        }
        let theirs = there.of(7, &farm);
        assert_eq!(theirs.required(group).position, Some(at(&format!("{A}:1"))));
        assert_eq!(here.changed_since(until), (Vec::new(), until));
        writes.doubt(group);
        let (told, later) = here.changed_since(until);
        assert!(later > until && told.len() == 1 && told[0].unproved);
        for _ in 0..2 {
            there.heed(&told[0], &farm);
        }
        assert_eq!(theirs.required(group).doubts, 1);
        // What it was told it does not tell, but to a router that knows nothing yet.
        let (all, now) = there.changed_since(0);
        assert_eq!(all.len(), 1);
        assert_eq!(there.changed_since(now - 1), (Vec::new(), now));
        // A router that is silent may have acknowledged anything to anybody.
        there.doubt_all(&farm);
        assert_eq!(there.of(99, &farm).required(group).doubts, 1);
        assert_eq!(theirs.required(group).doubts, 2);
    }
}
