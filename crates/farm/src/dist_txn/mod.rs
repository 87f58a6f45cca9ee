//! Transactions over several groups: their global ids, the names of their branches on the servers, and
//! what decides them.
//!
//! A branch is an XA transaction whose `formatID` is [`FORMAT`], whose `gtrid` is the [`GlobalId`] and
//! whose `bqual` says where the branch is. All numbers are big-endian, so that ids of one coordinator group sort
//! by the time at which their transactions crossed to a second group:
//!
//! | gtrid, 45 bytes | | bqual, 16 bytes | |
//! | --- | --- | --- | --- |
//! | 3 | `HD` and the version, 1 | 4 | number of the branch's group |
//! | 8 | the farm | 4 | the branch's server |
//! | 4 | number of the deciding group | 8 | the owner's connection there |
//! | 6 | milliseconds since 1970 | | |
//! | 2 + 6 | the router's slot, and its start in milliseconds since 1970 | | |
//! | 4 | a number of the router's own; its highest bit: the client's transaction manager decides | | |
//! | 4 + 8 | the coordinator group's server, and its connection there | | |
//!
//! Whatever reads otherwise was made by somebody else and is left alone.

pub mod outcome;
pub mod xid;

use std::fmt;

use crate::server::ServerId;

/// The `formatID` of all branches: `HDL1`.
pub const FORMAT: u32 = 0x4844_4C31;

/// Length of a [`GlobalId`] in bytes.
pub const ID_BYTES: usize = 45;

/// Length of a branch's qualifier in bytes.
pub const QUALIFIER_BYTES: usize = 16;

/// How every id of this version begins.
pub const MAGIC: [u8; 3] = *b"HD\x01";

/// Most that six bytes hold; later times (year 10889) and starts are cut to it.
const TIME_MAX: u64 = (1 << 48) - 1;

/// What became of a transaction, as the row at its coordinator group says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    Commit,
    /// It never was committed and never will be.
    Abort,
}

impl Verdict {
    /// As the row and the commands write it.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Commit => "commit",
            Verdict::Abort => "abort",
        }
    }

    /// Reads [`Verdict::name`].
    pub fn parse(text: &str) -> Option<Verdict> {
        [Verdict::Commit, Verdict::Abort]
            .into_iter()
            .find(|verdict| verdict.name() == text)
    }
}

/// What a transaction that touches a second group is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Atomic {
    /// All or nothing.
    #[default]
    Xa,
    /// The second group is refused.
    Single,
    /// The groups commit one after the other.
    BestEffort,
}

impl Atomic {
    /// All of them.
    pub const ALL: [Atomic; 3] = [Atomic::Xa, Atomic::Single, Atomic::BestEffort];

    /// Reads [`Atomic::name`], in any case.
    pub fn parse(text: &str) -> Option<Atomic> {
        let mut all = Atomic::ALL.into_iter();
        all.find(|way| way.name().eq_ignore_ascii_case(text))
    }

    /// As settings write it.
    pub fn name(self) -> &'static str {
        match self {
            Atomic::Xa => "xa",
            Atomic::Single => "single",
            Atomic::BestEffort => "best-effort",
        }
    }
}

/// What became of an attempt to end an XA transaction of a client's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Owned {
    /// It has ended so, now or before.
    Ended,
    /// No group has such a transaction prepared for others to end.
    Unknown,
    /// These groups have each one of this name.
    Several(Vec<String>),
    /// Nobody can say now, for this reason: it is to be ended again.
    Pending(String),
}

/// One life of one router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RouterLife {
    /// The router's place among those of the farm.
    pub slot: u16,
    /// Milliseconds since 1970.
    pub started_ms: u64,
}

/// A connection of a router's to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    pub server: ServerId,
    /// The server's own id of the connection.
    pub connection: u64,
}

/// Names a transaction over several groups, for all time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GlobalId {
    /// [`farm_number`] of the farm.
    pub farm: u64,
    /// The number of the group whose commit decides.
    pub coordinator: u32,
    /// When it crossed to a second group, by its router's clock; milliseconds since 1970.
    pub at_ms: u64,
    pub router: RouterLife,
    /// Tells ids of one router and millisecond apart; see [`GlobalId::is_of_client`].
    pub sequence: u32,
    /// The connection whose COMMIT decides.
    pub at: Place,
}

impl GlobalId {
    /// Set in the number of a transaction that is decided by its client.
    const OF_CLIENT: u32 = 1 << 31;

    /// The same transaction, decided by its client's transaction manager: at its coordinator group it is an XA
    /// transaction of the client's own.
    pub fn of_client(self) -> GlobalId {
        GlobalId {
            sequence: self.sequence | GlobalId::OF_CLIENT,
            ..self
        }
    }

    /// See [`GlobalId::of_client`].
    pub fn is_of_client(&self) -> bool {
        self.sequence & GlobalId::OF_CLIENT != 0
    }

    /// The same transaction, decided by Heddle.
    pub fn of_heddle(self) -> GlobalId {
        GlobalId {
            sequence: self.sequence & !GlobalId::OF_CLIENT,
            ..self
        }
    }

    /// The bytes that stand in `gtrid` and in the coordinator group's row.
    pub fn encode(&self) -> [u8; ID_BYTES] {
        let mut out = [0; ID_BYTES];
        let mut rest = &mut out[..];
        put(&mut rest, &MAGIC);
        put(&mut rest, &self.farm.to_be_bytes());
        put(&mut rest, &self.coordinator.to_be_bytes());
        put(&mut rest, &time(self.at_ms));
        put(&mut rest, &self.router.slot.to_be_bytes());
        put(&mut rest, &time(self.router.started_ms));
        put(&mut rest, &self.sequence.to_be_bytes());
        put_place(&mut rest, self.at);
        out
    }

    /// Reads [`GlobalId::encode`]; `None` for anything else.
    pub fn decode(bytes: &[u8]) -> Option<GlobalId> {
        let mut bytes = Bytes(bytes);
        if bytes.take::<3>()? != MAGIC {
            return None;
        }
        let id = GlobalId {
            farm: u64::from_be_bytes(bytes.take()?),
            coordinator: u32::from_be_bytes(bytes.take()?),
            at_ms: bytes.time()?,
            router: RouterLife {
                slot: u16::from_be_bytes(bytes.take()?),
                started_ms: bytes.time()?,
            },
            sequence: u32::from_be_bytes(bytes.take()?),
            at: bytes.place()?,
        };
        bytes.0.is_empty().then_some(id)
    }

    /// Reads the hexadecimal form that commands show.
    pub fn parse(text: &str) -> Option<GlobalId> {
        let text = text.as_bytes();
        if text.len() != 2 * ID_BYTES {
            return None;
        }
        let digit = |byte: u8| char::from(byte).to_digit(16);
        let mut bytes = [0; ID_BYTES];
        for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            let value = digit(pair[0])? << 4 | digit(pair[1])?;
            *byte = u8::try_from(value).ok()?;
        }
        GlobalId::decode(&bytes)
    }
}

/// Hexadecimal digits, as [`GlobalId::parse`] and SQL's `X'…'` read them.
impl fmt::Display for GlobalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.encode()))
    }
}

/// The part of a transaction that one group has, beside the coordinator group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Branch {
    pub id: GlobalId,
    /// The number of the branch's group.
    pub group: u32,
    /// The connection that began it.
    pub owner: Place,
}

impl Branch {
    /// The bytes that stand in `bqual`.
    pub fn qualifier(&self) -> [u8; QUALIFIER_BYTES] {
        let mut out = [0; QUALIFIER_BYTES];
        let mut rest = &mut out[..];
        put(&mut rest, &self.group.to_be_bytes());
        put_place(&mut rest, self.owner);
        out
    }

    /// Reads what a server lists; `None` for what is not a branch of Heddle's.
    pub fn read(format: u64, gtrid: &[u8], bqual: &[u8]) -> Option<Branch> {
        if format != u64::from(FORMAT) {
            return None;
        }
        let id = GlobalId::decode(gtrid)?;
        let mut bytes = Bytes(bqual);
        let branch = Branch {
            id,
            group: u32::from_be_bytes(bytes.take()?),
            owner: bytes.place()?,
        };
        bytes.0.is_empty().then_some(branch)
    }
}

/// As statements of XA name it: `X'gtrid',X'bqual',formatID`.
impl fmt::Display for Branch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let qualifier = hex::encode(self.qualifier());
        write!(f, "X'{}',X'{qualifier}',{FORMAT}", self.id)
    }
}

/// The number that stands for a farm in its ids (FNV-1a of the farm's id): a farm that shares servers
/// with another one knows its own.
pub fn farm_number(farm_id: &str) -> u64 {
    farm_id
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
}

fn time(ms: u64) -> [u8; 6] {
    let [_, _, time @ ..] = ms.min(TIME_MAX).to_be_bytes();
    time
}

/// Writes to the front of what is left to write.
fn put(rest: &mut &mut [u8], bytes: &[u8]) {
    let (now, later) = std::mem::take(rest).split_at_mut(bytes.len());
    now.copy_from_slice(bytes);
    *rest = later;
}

fn put_place(rest: &mut &mut [u8], place: Place) {
    put(rest, &place.server.0.to_be_bytes());
    put(rest, &place.connection.to_be_bytes());
}

/// What is left to read.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (now, later) = self.0.split_first_chunk::<N>()?;
        self.0 = later;
        Some(*now)
    }

    fn time(&mut self) -> Option<u64> {
        let [a, b, c, d, e, f] = self.take()?;
        Some(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    }

    fn place(&mut self) -> Option<Place> {
        Some(Place {
            server: ServerId(u32::from_be_bytes(self.take()?)),
            connection: u64::from_be_bytes(self.take()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> GlobalId {
        GlobalId {
            farm: farm_number("b0a7a9a8-6c2e-4d47-9d5e-0d9f6f9f1c11"),
            coordinator: 3,
            at_ms: 1_790_000_000_123,
            router: RouterLife {
                slot: 2,
                started_ms: 1_789_999_999_000,
            },
            sequence: 77,
            at: Place {
                server: ServerId(5),
                connection: 4711,
            },
        }
    }

    fn branch() -> Branch {
        Branch {
            id: id(),
            group: 9,
            owner: Place {
                server: ServerId(6),
                connection: u64::MAX,
            },
        }
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(GlobalId::decode(&id().encode()), Some(id()));
        assert_eq!(GlobalId::parse(&id().to_string()), Some(id()));
        let (gtrid, bqual) = (id().encode(), branch().qualifier());
        let read = Branch::read(u64::from(FORMAT), &gtrid, &bqual);
        assert_eq!(read, Some(branch()));
        assert!(gtrid.len() <= 64 && bqual.len() <= 64, "what XA allows");
        let far = GlobalId {
            at_ms: u64::MAX,
            ..id()
        };
        let read = GlobalId::decode(&far.encode()).expect("an id");
        assert_eq!(read.at_ms, TIME_MAX);
    }

    #[test]
    fn ids_of_a_coordinator_sort_by_time() {
        let later = GlobalId {
            at_ms: id().at_ms + 1,
            router: RouterLife {
                slot: 0,
                started_ms: 0,
            },
            sequence: 0,
            ..id()
        };
        assert!(id().encode() < later.encode());
        assert!(id() < later);
    }

    #[test]
    fn others_ids_are_not_read() {
        let (gtrid, bqual) = (id().encode(), branch().qualifier());
        let read = |format: u32, gtrid: &[u8], bqual: &[u8]| {
            Branch::read(u64::from(format), gtrid, bqual).is_some()
        };
        assert!(!read(1, &gtrid, &bqual));
        assert!(!read(FORMAT, b"order-17", &bqual));
        let mut newer = gtrid;
        newer[2] = 2;
        assert!(!read(FORMAT, &newer, &bqual));
        for cut in 0..gtrid.len() {
            assert!(!read(FORMAT, &gtrid[..cut], &bqual));
        }
        for cut in 0..bqual.len() {
            assert!(!read(FORMAT, &gtrid, &bqual[..cut]));
        }
        let longer = |bytes: &[u8]| [bytes, &[0]].concat();
        assert!(!read(FORMAT, &longer(&gtrid), &bqual));
        assert!(!read(FORMAT, &gtrid, &longer(&bqual)));
        for text in ["", "4844", "zz", &"é".repeat(ID_BYTES), &"0".repeat(90)] {
            assert_eq!(GlobalId::parse(text), None, "{text}");
        }
    }

    /// Any bytes that are read are written again as they were.
    #[test]
    fn every_read_id_is_its_own_writing() {
        let mut seed = 1u64;
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            seed.to_be_bytes()[0]
        };
        for _ in 0..20_000 {
            let mut bytes: Vec<u8> = (0..ID_BYTES).map(|_| next()).collect();
            bytes[..3].copy_from_slice(&MAGIC);
            let id = GlobalId::decode(&bytes).expect("an id");
            assert_eq!(id.encode()[..], bytes);
            let bqual: Vec<u8> = (0..QUALIFIER_BYTES).map(|_| next()).collect();
            let branch = Branch::read(u64::from(FORMAT), &bytes, &bqual).expect("a branch");
            assert_eq!(branch.qualifier()[..], bqual);
        }
    }

    #[test]
    fn statements_name_a_branch() {
        let text = branch().to_string();
        assert!(text.starts_with("X'484401"), "{text}");
        assert!(text.ends_with("',1212435505"), "{text}");
        assert_eq!(text.len(), 2 * (ID_BYTES + QUALIFIER_BYTES) + 18);
    }
}
